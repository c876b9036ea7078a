"""Linear ranking SVM for survival times.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - w.x_longer + w.x_shorter)

Two items are comparable if it is known which one survived longer (:mod:`ranksvm.data.survival`).
``loss``, ``reduction`` and C have the same meaning as for :class:`ranksvm.LinearRankSVM`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from ranksvm.estimators.inputs import fitting
from ranksvm.estimators.linear_ranker import LinearRanker
from ranksvm.estimators.survival_ranker import SurvivalRanker, survival_data
from ranksvm.learners.linear import LinearSettings
from ranksvm.solvers.base import Callback


class SurvivalRankSVM(SurvivalRanker, LinearRanker):
    """Linear ranking SVM for survival times, with an optimality certificate.

    Larger scores mean longer survival.

    Parameters
    ----------
    C : float, default=5.0
        Weight of the loss relative to the regularizer; a larger C fits the training data more
        closely.  Its scale depends on ``reduction``.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a pair.
    reduction : {"sum", "mean", "query_mean"}, default="mean"
        How the losses of all pairs are combined: their sum, their mean, or the mean over strata of
        the mean over the pairs of each stratum.
    scaling : {"auto", "standard", "minmax", "robust", "quantile"} or None, default="auto"
        How the features are put on one scale; as for :class:`ranksvm.LinearRankSVM`.
    missing : {"error", "impute"}, default="error"
    min_frequency : int, float or None, default=None
        Missing values and rare categories; as for :class:`ranksvm.LinearRankSVM`.
    query_features : list or tuple of str, default=()
        More features: how every feature compares with that of the other items of the stratum; as
        for :class:`ranksvm.LinearRankSVM`.
    keep_features : bool, default=True
        Whether the features themselves are used beside their ``query_features``.
    solver : {"auto", "newton", "smoothed_newton", "bundle"}, default="auto"
        Optimization algorithm; as for :class:`ranksvm.LinearRankSVM`.
    counting : {"auto", "tree", "direct", "joachims", "pairs"}, default="auto"
        Algorithm that finds the violated pairs; all give the same model.
    tol : float, default=1e-4
        Stop when the certified gap is at most ``tol`` times the objective.
    max_iter : int, default=1000
        Maximum number of iterations.
    warm_start : bool, default=False
        Whether to start from ``coef_`` of the previous fit.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.  The result does
        not depend on it.
    verbose : int, default=0
        1 logs every iteration (logger "ranksvm") and prints it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features; a positive one means longer survival.
    objective_, gap_ : float
        Upper bound of the objective at ``coef_``, and the certified optimality gap: the objective
        and the optimum both lie between ``objective_ - gap_`` and ``objective_``.
    n_pairs_ : int
        Number of comparable pairs of positive weight.
    scaling_, n_iter_, n_products_, status_, history_, n_features_in_, feature_names_in_
        As for :class:`ranksvm.LinearRankSVM`.

    Notes
    -----
    scikit-survival's ``FastSurvivalSVM(alpha, rank_ratio=1)`` has the same optimum as
    ``SurvivalRankSVM(C=alpha / 2, reduction="sum", scaling=None)`` if no two times are equal (it
    breaks ties at random).  Its ``coef_`` has the same sign, but ``predict`` returns risks there:
    the negative of our scores.

    Examples
    --------
    >>> from ranksvm import SurvivalRankSVM
    >>> X = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0], [1.0, 2.0]]
    >>> months, died = [30, 4, 24, 2, 9], [False, True, False, True, True]
    >>> model = SurvivalRankSVM().fit(X, months, event=died)
    >>> model.n_pairs_  # the two censored items are not comparable
    9
    >>> model.score(X, months, event=died)
    1.0
    """

    def __init__(
        self,
        C: float = 5.0,
        *,
        loss: str = "squared_hinge",
        reduction: str = "mean",
        scaling: str | None = "auto",
        missing: str = "error",
        min_frequency: float | None = None,
        query_features: Sequence[str] = (),
        keep_features: bool = True,
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.loss = loss
        self.reduction = reduction
        self.scaling = scaling
        self.missing = missing
        self.min_frequency = min_frequency
        self.query_features = query_features
        self.keep_features = keep_features
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        event: ArrayLike | str | None = None,
        qid: ArrayLike | str | None = None,
        *,
        time: ArrayLike | str | None = None,
        group: ArrayLike | str | None = None,
        sample_weight: ArrayLike | str | None = None,
        query_weight: Any = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the model to survival times.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            Features; dense, CSR or CSC, float32 or float64.  If X is a data frame (pandas, polars,
            Arrow), the next six arguments may be names of its columns, which are then not used as
            features.
        y : array-like of shape (n_items,) or str
            Times: when the event happened, or until when it had not happened.  Only their order
            matters.  Times and events may also come together: as a structured array or a frame
            with two columns, one of which is boolean (scikit-survival has such arrays).
        event : array-like of shape (n_items,), str or None, default=None
            Whether the event happened (True, 1), or the time is censored (False, 0).  None: all
            happened, unless y says it.
        qid : array-like of shape (n_items,), str or None, default=None
            Stratum of each item, for example its hospital: only items of the same one are compared.
            None: all items are compared.
        time : array-like of shape (n_items,), str or None, default=None
            Alias of ``y``.
        group : array-like of shape (n_items,), str or None, default=None
            Alias of ``qid``.
        sample_weight : array-like of shape (n_items,), str or None, default=None
            Weight of each item.  The weight of a pair is the product of the weights of its items
            and the weight of its stratum.
        query_weight : array-like of shape (n_queries,), mapping or None, default=None
            Weight of each stratum, in order of first appearance, or as a mapping from its id.
        callback : callable or None, default=None
            Called as ``callback(row, coef)`` after every iteration; as for
            :meth:`ranksvm.LinearRankSVM.fit`.

        Returns
        -------
        self
        """
        with fitting(self):
            settings = self._settings(LinearSettings)
            data = survival_data(
                self, X, y, event, time, qid=qid, group=group, sample_weight=sample_weight,
                query_weight=query_weight,
            )  # fmt: skip
            fit = self._fit_data(data, settings, callback, start=self._start())
        self._warn_if_early(fit)
        return self
