"""Kernel problems: exact, or on Nystrom or random Fourier features.

An item whose query has one utility, or whose weight is zero, takes part in no pair unless one is
listed: its coefficient would be zero, and no kernel value of it is needed.  Such items are left out
before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice, check_positive, check_seed, finite_number, shown
from ranksvm._memory import parse_memory, told
from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array
from ranksvm.data.preferences import Preferences
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.expansion import Expansion, GivenExpansion
from ranksvm.maps.feature_map import FeatureMap
from ranksvm.maps.features import make_fourier, make_nystroem
from ranksvm.maps.gram import GivenGram, TiledGram, least_memory
from ranksvm.maps.gram_checks import check_kernel
from ranksvm.maps.kernel import KernelMap, preconditioner_rank
from ranksvm.maps.kernels import DTYPES, KERNELS, Kernel, check_gamma, resolve_gamma
from ranksvm.maps.landmarks import LANDMARKS
from ranksvm.maps.matrix import ScoreMap
from ranksvm.training.participants import Pairing, participants
from ranksvm.training.problem import Fit, RankProblem, check_room
from ranksvm.training.settings import Settings

__all__ = [
    "APPROXIMATIONS",
    "FOURIER_KERNELS",
    "KernelProblem",
    "KernelSettings",
    "check_feature_room",
]

APPROXIMATIONS = ("nystroem", "fourier")
FOURIER_KERNELS = ("rbf", "laplacian")
MOST_DEGREE = 100


@dataclass(frozen=True)
class KernelSettings(Settings):
    """The parameters of ``KernelRankSVM`` that shape the model, and how much memory it may take."""

    kernel: str | Callable[[Any, Any], Any] = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    approximation: str | None = None
    n_components: int = 500
    landmarks: str = "uniform"
    memory_budget: int | str = "4GB"
    dtype: str = "float64"
    random_state: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, (*KERNELS, "precomputed"))
        check_gamma(self.gamma)
        if isinstance(self.degree, Integral) and self.degree > MOST_DEGREE:
            raise ValueError(f"degree must be at most {MOST_DEGREE}; got {shown(self.degree)}")
        check_positive("degree", self.degree, integer=True)
        check_seed("random_state", self.random_state)
        check_positive("n_components", self.n_components, integer=True)
        if finite_number(self.coef0) is None:
            raise ValueError(f"coef0 must be a finite number; got {shown(self.coef0)}")
        if self.approximation is not None:
            check_choice("approximation", self.approximation, APPROXIMATIONS)
        check_choice("landmarks", self.landmarks, LANDMARKS)
        check_choice("dtype", self.dtype, DTYPES)
        parse_memory("memory_budget", self.memory_budget)
        if self.approximation is not None and self.kernel == "precomputed":
            raise ValueError(
                "a precomputed kernel has no items to approximate it with: use approximation=None"
            )
        if self.approximation == "fourier" and self.kernel not in FOURIER_KERNELS:
            raise ValueError(
                f"random Fourier features exist for {' and '.join(FOURIER_KERNELS)}; got kernel="
                f"{self.kernel!r}. Use approximation='nystroem'."
            )

    @property
    def is_pairwise(self) -> bool:
        return self.kernel == "precomputed"

    @property
    def memory(self) -> int:
        """Bytes."""
        return parse_memory("memory_budget", self.memory_budget)


class KernelProblem(RankProblem):
    """Coefficients for items, or for features that stand for a kernel.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_items, n_features), float32 or float64, finite
        The kernel matrix, of shape (n_items, n_items), when the kernel is "precomputed".
    utility, groups, preferences, item_weight, query_weight, n_threads
        As for :class:`ranksvm.training.RankProblem`.
    settings : KernelSettings

    Attributes
    ----------
    items : ndarray of int64
        The items that take part in a pair.
    """

    def __init__(
        self,
        X: Any,
        utility: Array | None,
        groups: QueryGroups,
        settings: KernelSettings,
        *,
        preferences: Preferences | None = None,
        item_weight: Array | None = None,
        query_weight: Array | None = None,
        n_threads: int = 1,
    ) -> None:
        if not settings.is_pairwise:
            check_room(X.shape[1])
        pairing = Pairing(utility, groups, preferences, item_weight, query_weight)
        self.items = participants(pairing)
        self._space = _make_space(X, self.items, settings, item_weight, n_threads)
        kept = pairing.among(self.items)
        super().__init__(
            self._space.score_map,
            kept.utility,
            kept.groups,
            settings,
            preferences=kept.preferences,
            item_weight=kept.item_weight,
            query_weight=kept.query_weight,
            n_threads=n_threads,
        )

    @property
    def kernel(self) -> Kernel | None:
        """The kernel with all its numbers; None if somebody else computed it."""
        return self._space.kernel

    @property
    def is_exact(self) -> bool:
        """Whether every item has a coefficient of its own."""
        return self._space.to_points is None

    def solve(self, C: float | None = None, **options: Any) -> Fit:
        """Minimise F; as for :class:`ranksvm.training.RankProblem`."""
        with one_blas_thread():
            return super().solve(C, **options)

    def expansion(self, fit: Fit) -> Expansion | GivenExpansion:
        """Return the model of a fit, without points whose coefficient is zero if it is exact."""
        expansion = replace(self._space.expansion, coef=self._point_coef(fit))
        return expansion.without_zeros() if self.is_exact else expansion

    def support(self, fit: Fit) -> NDArray[np.int64]:
        """Items of the given set that have a coefficient other than zero, if it is exact."""
        return self.items[np.flatnonzero(fit.coef)]

    def score(self, X: Any, fits: Sequence[Fit]) -> list[Array]:
        """Scores of items under some fits of this problem."""
        coefs = [self._point_coef(fit) for fit in fits]
        return self._space.expansion.scores_for(X, coefs, n_threads=self.n_threads)

    def _point_coef(self, fit: Fit) -> Array:
        to_points = self._space.to_points
        return fit.coef if to_points is None else to_points(fit.coef)


class _Space(NamedTuple):
    """Where the coefficients live.

    ``expansion`` has the points of the model and no coefficients yet; ``to_points`` turns the
    coefficients of a fit into those of the points, None if they are the same.
    """

    score_map: ScoreMap
    expansion: Expansion | GivenExpansion
    kernel: Kernel | None
    to_points: Callable[[Array], Array] | None


def _make_space(
    X: Any,
    items: NDArray[np.int64],
    settings: KernelSettings,
    item_weight: Array | None,
    n_threads: int,
) -> _Space:
    if settings.kernel == "precomputed":
        return _given_space(X, items, settings, n_threads)
    kernel = Kernel(
        settings.kernel,
        gamma=resolve_gamma(settings.gamma, X, item_weight),
        coef0=float(settings.coef0),
        degree=int(settings.degree),
    )
    if items.size < settings.n_components <= X.shape[0]:  # others would be no landmarks
        settings = replace(settings, n_components=items.size)
    if items.size < X.shape[0]:
        X = X[items]
    return SPACES[settings.approximation](X, kernel, settings, n_threads)


def _given_space(
    K: Any, items: NDArray[np.int64], settings: KernelSettings, n_threads: int
) -> _Space:
    gram = GivenGram(K, items, n_threads=n_threads)
    rank = preconditioner_rank(gram.n_items, K.dtype.itemsize, settings.memory)
    score_map = KernelMap(gram, rank=rank, n_threads=n_threads)
    return _Space(score_map, GivenExpansion(items, np.empty(0), K.shape[0]), None, None)


def _exact_space(X: Any, kernel: Kernel, settings: KernelSettings, n_threads: int) -> _Space:
    itemsize = np.dtype(settings.dtype).itemsize
    memory = settings.memory
    rank = 0
    if check_kernel(kernel, X, n_threads=n_threads):
        free = memory - least_memory(X, kernel, n_threads)
        rank = preconditioner_rank(X.shape[0], itemsize, free)
        memory -= rank * X.shape[0] * itemsize
    gram = TiledGram(X, kernel, dtype=settings.dtype, memory=memory, n_threads=n_threads)
    score_map = KernelMap(gram, rank=rank, n_threads=n_threads)
    return _Space(score_map, Expansion(kernel, X, np.empty(0)), kernel, None)


def _nystroem_space(X: Any, kernel: Kernel, settings: KernelSettings, n_threads: int) -> _Space:
    check_feature_room(X.shape[0], settings)
    basis = make_nystroem(
        X,
        kernel,
        settings.n_components,
        settings.landmarks,
        seed=settings.random_state,
        dtype=settings.dtype,
        n_threads=n_threads,
    )
    values = basis.raw(X, dtype=settings.dtype, n_threads=n_threads)
    score_map = FeatureMap(values, basis.fold, n_threads=n_threads)
    return _Space(score_map, Expansion(kernel, basis.landmarks, np.empty(0)), kernel, basis.coef_of)


def _fourier_space(X: Any, kernel: Kernel, settings: KernelSettings, n_threads: int) -> _Space:
    check_feature_room(X.shape[0], settings)
    basis = make_fourier(kernel, X.shape[1], settings.n_components, seed=settings.random_state)
    values = basis.raw(X, dtype=settings.dtype, n_threads=n_threads)
    expansion = Expansion(basis.kernel, basis.frequencies, np.empty(0), basis.shifts)
    return _Space(FeatureMap(values, n_threads=n_threads), expansion, kernel, np.copy)


SPACES: dict[str | None, Callable[[Any, Kernel, KernelSettings, int], _Space]] = {
    None: _exact_space,
    "nystroem": _nystroem_space,
    "fourier": _fourier_space,
}


def check_feature_room(n_items: int, settings: KernelSettings) -> None:
    """Raise when the one array of features does not fit the budget."""
    n_components, landmarks = settings.n_components, 0
    if settings.approximation == "nystroem":
        n_components = min(n_components, n_items)
        landmarks = 4 * 8 * n_components**2  # the landmarks' own matrix, and what is made of it
    needed = n_items * n_components * np.dtype(settings.dtype).itemsize + landmarks
    if needed > settings.memory:
        raise ValueError(
            f"{n_components} features of {n_items:,} items take {told(needed)} in "
            f"{settings.dtype}, more than memory_budget={settings.memory_budget!r}: take fewer "
            "n_components, dtype='float32', or a larger memory_budget"
        )
