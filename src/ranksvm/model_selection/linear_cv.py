"""Linear RankSVM with a choice of C; see :mod:`ranksvm.model_selection.search`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

from ranksvm._vectors import Array
from ranksvm.estimators.linear import LinearRankSVM
from ranksvm.learners.linear import LinearSettings
from ranksvm.model_selection.grids import N_CS
from ranksvm.model_selection.search_cv import SearchCV


class LinearRankSVMCV(SearchCV):
    """Linear ranking SVM with C chosen by cross-validation or on a validation set.

    Of the values of C with the best mean score, the smallest one is chosen.

    Parameters
    ----------
    Cs : int or sequence of float, default=21
        Values of C to try, or their number: log-spaced from 0.049 to 51,200, and divided by the
        total weight of the pairs for ``reduction="sum"``.
    loss, reduction, pair_weight, gain, discount, truncation, n_reweight, scaling, missing, \
min_frequency, query_features, keep_features, solver, counting, tol, max_iter
        As in :class:`ranksvm.LinearRankSVM`.  Every fit is certified to ``tol``.
    pair_weights : sequence of str or None, default=None
        Values of ``pair_weight`` to try, for example ``("uniform", "gain", "lambda")``; None for
        the one of ``pair_weight``.  Of equally good ones the first is chosen.
    cv : int, splitter or iterable of (train, test), default=5
        Number of folds; no query is split (without queries, items are distributed by their labels).
        Or a splitter such as :class:`QueryKFold`, which gets the query ids as ``groups``, or pairs
        of row numbers.
    metric : str or None, default="auto"
        Metric to maximize: any name that :func:`ranksvm.metrics.evaluate` knows, for example
        "map" or "ndcg_linear@10".  "auto" or None is "ndcg@10" if there are query ids and the
        labels are grades (integers from 0 to 31), also those of a validation set, and
        "pairwise_accuracy" otherwise; with LETOR's conventions also if no query has ten items,
        where NDCG@10 would be 0.  For pairs without labels it is "pair_accuracy", as ``fit_pairs``
        explains.  The attribute ``metric_`` has the choice.
    conventions : {"standard", "letor"}, default="standard"
        Definition of the metric to use.
    refit : bool, default=True
        Whether to fit the model with the chosen C on all data.  Needed to predict.
    checkpoint : path-like or None, default=None
        File that keeps finished parts of the search, as for :class:`ranksvm.KernelRankSVMCV`.  With
        it, folds run one after the other.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores.  Folds run in parallel.  The result does not
        depend on it.
    verbose : int, default=0
        1 shows a progress bar on a terminal if rich is installed, and otherwise logs every fit
        (logger "ranksvm").

    Attributes
    ----------
    C_ : float
        The chosen C.
    pair_weight_ : str
        The chosen weights of pairs.
    best_index_, best_score_ : int, float
        Index of the chosen candidate in ``cv_results_``, and its mean score.
    metric_ : str
        The metric that was maximized.
    Cs_ : ndarray of shape (n_C,)
        The grid.
    cv_results_ : dict of str to ndarray of shape (n_C,)
        ``param_C``, and ``param_pair_weight`` if there are ``pair_weights``: C then varies fastest;
        ``split{k}_test_score``; ``mean_test_score``, ``std_test_score`` and
        ``rank_test_score`` over the splits on which the metric is defined (on the others it is
        NaN); ``mean_fit_time`` and ``std_fit_time`` in seconds; ``split{k}_objective``,
        ``split{k}_gap``, ``split{k}_n_iter`` and ``split{k}_n_products`` of every fit.  ``params``
        is a list of dict.
    n_splits_ : int
    best_estimator_ : LinearRankSVM
        Model fitted on all items.  This attribute and those below exist only with ``refit``.
    coef_ : ndarray of shape (n_features,)
    objective_, gap_ : float
        Those of ``best_estimator_``: ``objective_`` minus the optimum is at most ``gap_``.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Examples
    --------
    >>> from ranksvm.datasets import make_ranking
    >>> from ranksvm.model_selection import LinearRankSVMCV
    >>> X, y, qid, _ = make_ranking(n_queries=30, random_state=0)
    >>> model = LinearRankSVMCV([5.0, 50.0, 500.0, 5000.0, 50000.0], cv=3).fit(X, y, qid=qid)
    >>> model.C_
    50.0
    >>> model.cv_results_["mean_test_score"].shape
    (5,)
    """

    best_estimator_: LinearRankSVM
    coef_: Array
    _ranker = LinearRankSVM
    _settings_class = LinearSettings
    _of_model: ClassVar[tuple[str, ...]] = ("coef_", *SearchCV._of_model)

    def __init__(
        self,
        Cs: Any = N_CS,
        *,
        loss: str = "squared_hinge",
        reduction: str = "mean",
        pair_weight: str = "uniform",
        pair_weights: Any = None,
        gain: str = "exp2",
        discount: str = "log2",
        truncation: int = 30,
        n_reweight: int = 1,
        scaling: str | None = "auto",
        missing: str = "error",
        min_frequency: float | None = None,
        query_features: Sequence[str] = (),
        keep_features: bool = True,
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        cv: Any = 5,
        metric: str | None = "auto",
        conventions: str = "standard",
        refit: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.loss = loss
        self.reduction = reduction
        self.pair_weight = pair_weight
        self.pair_weights = pair_weights
        self.gain = gain
        self.discount = discount
        self.truncation = truncation
        self.n_reweight = n_reweight
        self.scaling = scaling
        self.missing = missing
        self.min_frequency = min_frequency
        self.query_features = query_features
        self.keep_features = keep_features
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.metric = metric
        self.conventions = conventions
        self.refit = refit
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def feature_importances_(self) -> Array:
        """Those of the best model; see :class:`ranksvm.LinearRankSVM`."""
        found: Array = self._refitted().feature_importances_
        return found
