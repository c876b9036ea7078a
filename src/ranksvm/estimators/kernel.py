"""Kernel RankSVM, exact and approximate.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - s_better + s_worse)

with scores s_i = <w, phi(x_i)> and k(x, z) = <phi(x), phi(z)>.  The minimiser is a sum over the
items, w = sum_i beta_i phi(x_i): one unknown an item, however many pairs there are.  ``loss``,
``reduction`` and C mean what they mean for :class:`ranksvm.LinearRankSVM`.

Approximations put explicit features in place of phi:

    nystroem    the projection of phi(x) on the span of phi(landmarks)
    fourier     sqrt(2 / m) cos(<omega, x> + b), random; their inner products are k(x, z) in the
                mean, with an error that falls as 1 / sqrt(m)

They cost m coefficients instead of one an item, and time and memory that grow with n m instead of
n^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.estimators.base import PairData, TrainingData, seed_of
from ranksvm.estimators.preferences import PreferenceRanker
from ranksvm.maps.expansion import Expansion, GivenExpansion
from ranksvm.maps.gram_checks import check_gram
from ranksvm.model_io import ModelRecord
from ranksvm.training import Fit
from ranksvm.training.explain import Explanation, check_rows, explain_kernel
from ranksvm.training.kernel import KernelProblem, KernelSettings
from ranksvm.training.kernel_record import (
    kernel_arrays,
    kernel_facts,
    kernel_params,
    read_expansion,
)

__all__ = ["KernelRankSVM"]


class KernelRankSVM(PreferenceRanker):
    """Ranking SVM with a kernel, exact or approximate, with an optimality certificate.

    Parameters
    ----------
    C : float, default=50.0
        Weight of the loss against the regulariser; its scale depends on ``reduction``.
    kernel : {"rbf", "laplacian", "poly", "sigmoid", "linear", "precomputed"} or callable, \
default="rbf"
        "rbf" is exp(-gamma |x - z|^2), "laplacian" exp(-gamma |x - z|_1), "poly"
        (gamma <x, z> + coef0)^degree, "sigmoid" tanh(gamma <x, z> + coef0), which is no kernel for
        most parameters.  "precomputed": X is the kernel matrix, of shape (n_items, n_items) in
        ``fit`` and (n, n_items) in ``predict``.  A callable gets two arrays of items and returns
        the values of all pairs.
    gamma : float, "scale" or "auto", default="scale"
        "scale" is 1 / (n_features * X.var()), where sample weights count, "auto" 1 / n_features.
    degree : int, default=3
    coef0 : float, default=1.0
    approximation : {None, "nystroem", "fourier"}, default=None
        None is exact.  "fourier" is for rbf and laplacian.
    n_components : int, default=500
        Landmarks, or random features.  If there are fewer items than landmarks, all of them are
        landmarks, with a warning; items that are in no pair are never landmarks.
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        Items at random, centroids of k-means, or items drawn by their leverage.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    reduction : {"sum", "mean", "query_mean"}, default="mean"
        What the sum over pairs is divided by.
    solver : {"auto", "newton", "smoothed_newton", "bundle"}, default="auto"
    counting : {"auto", "tree", "direct", "joachims", "pairs"}, default="auto"
        How the violated pairs are found; all give the same model.
    tol : float, default=1e-4
        Stop when the certified gap is at most ``tol`` times the objective.
    max_iter : int, default=1000
        Iterations of the solver at most.
    memory_budget : int or str, default="4GB"
        Bytes for kernel values.  As much of the kernel matrix is kept as fits, the rest is computed
        for every product, to the same model.  Features of an approximation must fit.
    dtype : {"float64", "float32"}, default="float64"
        Of the kernel values or features that are kept.  Everything is computed in float64.
    random_state : int, RandomState or None, default=None
        For landmarks and random features.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.  The model does not depend on it.
    verbose : int, default=0
        1 logs every iteration (logger "ranksvm") and shows it on the screen.

    Attributes
    ----------
    support_ : ndarray of int64, shape (n_support,)
        Rows of X with a coefficient other than zero; only if exact.
    dual_coef_ : ndarray of shape (n_support,)
        Their coefficients; only if exact.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        These rows; only if exact and not precomputed.
    components_ : ndarray or CSR of shape (n_components, n_features)
        Landmarks, or frequencies; only if approximate.
    coef_ : ndarray of shape (n_components,)
        Scores are ``k(X, components_) @ coef_``, or
        ``sqrt(2 / n_components) * cos(X @ components_.T + random_offset_) @ coef_``; only if
        approximate.
    random_offset_ : ndarray of shape (n_components,)
        Only for "fourier".
    gamma_ : float
        As used; not with a precomputed kernel.
    objective_ : float
        Value of the stated objective (that of the approximation, if there is one).
    gap_ : float
        Certified: the value at the coefficients and the optimum both lie between
        ``objective_ - gap_`` and ``objective_``.
    n_iter_, n_products_, n_pairs_ : int
        Iterations; products with the kernel matrix, or with the features and their transpose;
        comparable pairs of positive weight.
    status_ : str
        "converged", "max_iter", "stalled" or "stopped" (by the callback).
    history_ : list of TraceRow
        Of every iteration; empty in a model that was loaded.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Examples
    --------
    >>> import numpy as np
    >>> from ranksvm import KernelRankSVM
    >>> X = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> y = -(X[:, 0] ** 2)                  # no linear function has this order
    >>> model = KernelRankSVM(C=100.0, gamma=1.0).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    support_: NDArray[np.int64]
    dual_coef_: Array
    support_vectors_: Any
    components_: Any
    coef_: Array
    random_offset_: Array
    gamma_: float
    _expansion: Expansion | GivenExpansion

    def __init__(
        self,
        C: float = 50.0,
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
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.memory_budget = memory_budget
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def predict(self, X: Any) -> Array:
        """Score items; larger is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            For a precomputed kernel its values with all training items.

        Returns
        -------
        ndarray of shape (n_items,)
        """
        check_is_fitted(self)
        X = self._check_features(X, reset=False)
        return self._expansion.scores(as_rows(X), n_threads=resolve_n_jobs(self.n_jobs))

    def _settings(self) -> KernelSettings:
        params = {field.name: getattr(self, field.name) for field in fields(KernelSettings)}
        return KernelSettings(**{**params, "random_state": seed_of(self.random_state)})

    def _problem(self, data: TrainingData | PairData, settings: KernelSettings) -> KernelProblem:
        X = as_rows(data.X)
        threads = resolve_n_jobs(self.n_jobs)
        if settings.kernel == "precomputed":
            X = check_gram(X, n_threads=threads)
        return KernelProblem(
            X,
            data.utility,
            data.groups,
            settings,
            preferences=data.preferences,
            item_weight=data.item_weight,
            query_weight=data.query_weight,
            n_threads=threads,
        )

    def _keep_model(self, problem: KernelProblem, fit: Fit) -> None:
        support = problem.support(fit) if problem.is_exact else None
        self._keep_expansion(problem.expansion(fit), support)
        self.__dict__.pop("gamma_", None)
        if problem.kernel is not None:
            self.gamma_ = problem.kernel.gamma

    def _keep_expansion(
        self, expansion: Expansion | GivenExpansion, support: NDArray[np.int64] | None
    ) -> None:
        for name in (
            "support_", "dual_coef_", "support_vectors_", "components_", "coef_", "random_offset_",
        ):  # fmt: skip
            self.__dict__.pop(name, None)
        self._expansion = expansion
        if support is not None:
            self.support_ = support
            self.dual_coef_ = expansion.coef
            if isinstance(expansion, Expansion):
                self.support_vectors_ = expansion.points
            return
        assert isinstance(expansion, Expansion)
        self.components_ = expansion.points
        self.coef_ = expansion.coef
        if expansion.shift is not None:
            self.random_offset_ = expansion.shift

    def _record(self) -> ModelRecord:
        kind, arrays = kernel_arrays(self._expansion, getattr(self, "support_", None))
        return ModelRecord(
            kind=kind,
            params=kernel_params(self.get_params(deep=False)),
            arrays=arrays,
            feature_names=self._feature_names(),
            facts={
                **self._facts,
                **self._frame_facts(),
                **kernel_facts(self._expansion),
                "gamma": getattr(self, "gamma_", None),
            },
        )

    @classmethod
    def _from_record(cls, record: ModelRecord) -> KernelRankSVM:
        model = cls(**cls._known_params(record))
        expansion, support = read_expansion(record.kind, record.arrays, record.facts)
        model._keep_expansion(expansion, support)
        if record.facts.get("gamma") is not None:
            model.gamma_ = float(record.facts["gamma"])
        return model._restore(record, expansion.n_features)

    def explain(self, X: Any, i: int, j: int) -> Explanation:
        """Tell which support items, landmarks or random features put item i above item j, or below.

        The difference of the scores is the sum over them of their coefficient times
        ``k(X[i], z) - k(X[j], z)``; these are the contributions, exact and largest first.  A kernel
        mixes the features of an item: contributions of single features are not defined.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            As in ``predict``.
        i, j : int
            Two rows of X, from 0.

        Returns
        -------
        Explanation
            With ``contributions``, ``names``, ``top(n)`` and more; printed, it is a picture with a
            bar for each.  Support items are named by their row of the training set: "training item
            17".
        """
        check_is_fitted(self)
        X = as_rows(self._check_features(X, reset=False))
        i, j = check_rows(i, j, X.shape[0])
        return explain_kernel(self._expansion, getattr(self, "support_", None), X, i, j)


def as_rows(X: Any) -> Any:
    """Sparse matrices by rows, which kernels read; anything else as it is."""
    return X.tocsr() if hasattr(X, "tocsr") else X
