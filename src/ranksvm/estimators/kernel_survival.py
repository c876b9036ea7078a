"""Ranking SVM with a kernel for survival times, exact or approximate.

The objective is that of :class:`ranksvm.KernelRankSVM`, over the pairs of which it is known who
survived longer (:mod:`ranksvm.data.survival`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from ranksvm.estimators.inputs import fitting
from ranksvm.estimators.kernel_ranker import KernelRanker
from ranksvm.estimators.survival_ranker import SurvivalRanker, survival_data
from ranksvm.learners.kernel import KernelSettings
from ranksvm.solvers.base import Callback


class KernelSurvivalRankSVM(SurvivalRanker, KernelRanker):
    """Ranking SVM with a kernel for survival times, with an optimality certificate.

    Larger scores mean longer survival.

    Parameters
    ----------
    C : float, default=1000.0
        Weight of the loss relative to the regularizer; a larger C fits the training data more
        closely.  Its scale depends on ``reduction``.
    kernel : {"rbf", "laplacian", "poly", "sigmoid", "linear", "precomputed"} or callable, \
default="rbf"
    gamma : float, "scale" or "auto", default="scale"
    degree : int, default=3
    coef0 : float, default=1.0
        The kernel; as for :class:`ranksvm.KernelRankSVM`.
    approximation : {None, "nystroem", "fourier"}, default=None
    n_components : int, default=500
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        Approximate kernel features; as for :class:`ranksvm.KernelRankSVM`.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    reduction : {"sum", "mean", "query_mean"}, default="mean"
        Loss of a pair, and how the losses of all pairs are combined; as for
        :class:`ranksvm.SurvivalRankSVM`.
    scaling : {"auto", "standard", "minmax", "robust", "quantile"} or None, default="auto"
    missing : {"error", "impute"}, default="error"
    min_frequency : int, float or None, default=None
    query_features : list or tuple of str, default=()
    keep_features : bool, default=True
        Features and their scale; as for :class:`ranksvm.KernelRankSVM`.
    solver : {"auto", "newton", "smoothed_newton", "bundle"}, default="auto"
    counting : {"auto", "tree", "direct", "joachims", "pairs"}, default="auto"
    tol : float, default=1e-4
    max_iter : int, default=1000
        How the objective is minimized; as for :class:`ranksvm.SurvivalRankSVM`.
    memory_budget : int or str, default="4GB"
    dtype : {"float64", "float32"}, default="float64"
        Memory for kernel values, and their precision; as for :class:`ranksvm.KernelRankSVM`.
    random_state : int, RandomState or None, default=None
        Seed for landmarks and random features.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.  The result does
        not depend on it.
    verbose : int, default=0
        1 logs every iteration (logger "ranksvm") and prints it.

    Attributes
    ----------
    support_, dual_coef_, support_vectors_, components_, coef_, random_offset_, gamma_
        The model; as for :class:`ranksvm.KernelRankSVM`.
    objective_, gap_, n_pairs_, scaling_, n_iter_, n_products_, status_, history_, \
n_features_in_, feature_names_in_
        As for :class:`ranksvm.SurvivalRankSVM`.

    Notes
    -----
    scikit-survival's ``FastKernelSurvivalSVM(alpha, rank_ratio=1)`` has the same optimum as
    ``KernelSurvivalRankSVM(C=alpha / 2, reduction="sum", scaling=None)`` with the same kernel, if
    no two times are equal.  Its ``predict`` returns risks: the negative of our scores.

    Examples
    --------
    >>> import numpy as np
    >>> from ranksvm import KernelSurvivalRankSVM
    >>> X = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> time = 2.0 - X[:, 0] ** 2            # no linear function has this order
    >>> event = time < 1.9
    >>> model = KernelSurvivalRankSVM(C=100.0, gamma=1.0).fit(X, time, event=event)
    >>> model.score(X, time, event=event)
    1.0
    """

    def __init__(
        self,
        C: float = 1000.0,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str | None = None,
        n_components: int = 500,
        landmarks: str = "uniform",
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
        memory_budget: int | str = "4GB",
        dtype: str = "float64",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.n_components = n_components
        self.landmarks = landmarks
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
        self.memory_budget = memory_budget
        self.dtype = dtype
        self.random_state = random_state
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
            As for :meth:`ranksvm.SurvivalRankSVM.fit`; the kernel matrix, of shape
            (n_items, n_items), if the kernel is "precomputed".
        y, event, qid, time, group, sample_weight, query_weight, callback
            As for :meth:`ranksvm.SurvivalRankSVM.fit`.

        Returns
        -------
        self
        """
        with fitting(self):
            settings = self._settings(KernelSettings)
            data = survival_data(
                self, X, y, event, time, qid=qid, group=group, sample_weight=sample_weight,
                query_weight=query_weight,
            )  # fmt: skip
            fit = self._fit_data(data, settings, callback)
        self._warn_if_early(fit)
        return self
