"""Kernel RankSVM with a choice of C and gamma; see :mod:`ranksvm.model_selection.search`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.estimators.kernel import KernelRankSVM
from ranksvm.learners.kernel import N_GAMMAS, KernelSettings
from ranksvm.model_selection.grids import N_CS_OF_GRID
from ranksvm.model_selection.search_cv import SearchCV


class KernelRankSVMCV(SearchCV):
    """Kernel ranking SVM with C and gamma chosen by cross-validation or on a validation set.

    Of the candidates with the best mean score, the one with the smallest C is chosen, and of those
    the one with the smallest gamma.

    Parameters
    ----------
    Cs : int or sequence of float, default=7
        Values of C to try, or their number: log-spaced from 12.5 to 51,200, and divided by the
        total weight of the pairs for ``reduction="sum"``.
    gammas : int or sequence of float, default=5
        Values of gamma to try, or their number: powers of 4 around a quarter of "scale".  An
        integer is ignored by kernels without gamma ("linear", "precomputed", callables).
    kernel, degree, coef0, approximation, n_components, landmarks, loss, reduction, pair_weight, \
gain, discount, truncation, n_reweight, scaling, missing, min_frequency, query_features, \
keep_features, solver, counting, tol, max_iter, memory_budget, dtype
        As in :class:`ranksvm.KernelRankSVM`.  Every fit is certified to ``tol``.
    pair_weights : sequence of str or None, default=None
        Values of ``pair_weight`` to try, for example ``("uniform", "gain", "lambda")``; None for
        the one of ``pair_weight``.
    cv : int, splitter or iterable of (train, test), default=5
        Number of folds; no query is split (without queries, items are distributed by their labels).
        Or a splitter such as :class:`QueryKFold`, which gets the query ids as ``groups``, or pairs
        of row numbers.
    metric : str or None, default="auto"
        Metric to maximize, as in :class:`ranksvm.LinearRankSVMCV`: "auto" is "ndcg@10" for graded
        labels in queries, "pair_accuracy" for pairs without labels, and "pairwise_accuracy"
        otherwise.
    conventions : {"standard", "letor"}, default="standard"
        Definition of the metric to use.
    refit : bool, default=True
        Whether to fit the model with the chosen values on all data.  Needed to predict.
    checkpoint : path-like or None, default=None
        File that keeps finished parts of the search, so that an interrupted fit continues from
        there.  A file of another search, or one that another process is using, is refused.  The
        file is kept when the fit is done.
    random_state : int, RandomState or None, default=None
        Seed for landmarks and random features, the same in all fits.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores.  One fit runs at a time, with all threads.
    verbose : int, default=0
        1 shows a progress bar on a terminal if rich is installed, and otherwise logs every fit
        (logger "ranksvm").

    Attributes
    ----------
    C_, gamma_ : float
        The chosen values; ``gamma_`` exists only if the kernel has a gamma.
    pair_weight_ : str
        The chosen weights of pairs.
    best_index_, best_score_ : int, float
        Index of the chosen candidate in ``cv_results_``, and its mean score.
    metric_ : str
        The metric that was maximized.
    Cs_ : ndarray of shape (n_C,)
    gammas_ : ndarray of shape (n_gamma,)
        The grid; ``gammas_`` is [1.0] if the kernel has no gamma.
    cv_results_ : dict of str to ndarray of shape (n_gamma * n_C,)
        ``param_gamma`` and ``param_C``, where C varies fastest, and ``param_pair_weight`` if there
        are ``pair_weights``, which vary slowest; the rest as in
        :class:`ranksvm.LinearRankSVMCV`.
    n_splits_ : int
    best_estimator_ : KernelRankSVM
        Model fitted on all items with the random state of the search.  This attribute and those
        below exist only with ``refit``.
    objective_, gap_ : float
        Those of ``best_estimator_``: ``objective_`` minus the optimum is at most ``gap_``.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Examples
    --------
    >>> import numpy as np
    >>> from ranksvm.model_selection import KernelRankSVMCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2.0, 2.0, (120, 1))
    >>> y = np.cos(3.0 * X[:, 0]) + rng.normal(0.0, 0.5, 120)  # no linear function has this order
    >>> model = KernelRankSVMCV([1.0, 1e3, 1e6], [0.01, 1.0, 100.0], cv=3).fit(X, y)
    >>> model.gamma_
    1.0
    >>> model.cv_results_["mean_test_score"].shape
    (9,)
    """

    gamma_: float
    gammas_: Array
    best_estimator_: KernelRankSVM
    _ranker = KernelRankSVM
    _settings_class = KernelSettings

    def __init__(
        self,
        Cs: Any = N_CS_OF_GRID,
        gammas: Any = N_GAMMAS,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str | None = None,
        n_components: int = 500,
        landmarks: str = "uniform",
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
        memory_budget: int | str = "4GB",
        dtype: str = "float64",
        cv: Any = 5,
        metric: str | None = "auto",
        conventions: str = "standard",
        refit: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.n_components = n_components
        self.landmarks = landmarks
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
        self.memory_budget = memory_budget
        self.dtype = dtype
        self.cv = cv
        self.metric = metric
        self.conventions = conventions
        self.refit = refit
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def _is_pairwise(self) -> bool:
        return self.kernel == "precomputed"

    def _refit_extra(self) -> str:
        return "" if self.kernel == "rbf" else ", kernel=model.kernel"

    def _converted(self, data: RankingData) -> RankingData:
        return replace(data, X=data.X.tocsr()) if is_sparse(data.X) else data
