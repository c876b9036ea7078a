"""Training problems of kernel models: exact, or with Nystrom or random Fourier features.

An item that occurs in no pair would get the coefficient zero, and none of its kernel values is
needed.  Such items are removed first: those whose query has a single label and those of weight
zero, unless they occur in a given preference.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from ranksvm._checks import check_choice, check_integer, check_seed, finite_number
from ranksvm._memory import parse_memory
from ranksvm._messages import MessageWarning, Param, ParameterError, Value
from ranksvm._sparse import is_sparse
from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array
from ranksvm.data.column_facts import find_columns
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners.fit import Fit, about_fit
from ranksvm.learners.gains import check_gains
from ranksvm.learners.kernel_model import KernelModel
from ranksvm.learners.kernel_space import (
    APPROXIMATIONS,
    approximations,
    check_feature_room,
    gamma_of,
    make_space,
)
from ranksvm.learners.participants import comparable_items, participants
from ranksvm.learners.problem import RankProblem, check_room
from ranksvm.learners.scaled import about_scaling, scaled, scaled_data
from ranksvm.learners.settings import (
    AUTO,
    C_RANGE,
    Grid,
    Settings,
    check_grid_size,
    number_or_text,
    parameter,
    with_default,
)
from ranksvm.learners.sharded_features import expansion_scores
from ranksvm.learners.watching import Scorer
from ranksvm.maps.features import FOURIER_KERNELS
from ranksvm.maps.kernels import (
    DTYPES,
    KERNELS,
    check_gamma,
    kernels_with,
)
from ranksvm.maps.landmarks import LANDMARKS
from ranksvm.sharded.memory import kernel_bytes

MAX_DEGREE = 100
N_GAMMAS = 5  # in the default grid
FACTOR = 4.0  # from one gamma to the next
MIDDLE = 0.25  # of the grid, relative to "scale"
MOST_APART = 1e3  # standard deviations of features, without a warning


def default_gammas(X: Any, n: int = N_GAMMAS, item_weight: Array | None = None) -> Array:
    """Return a log-spaced grid around a quarter of ``gamma="scale"``.

    "scale" makes the squared distances in the exponent about 2.  Wider kernels are more often
    better, as docs/scaling.md shows.

    Parameters
    ----------
    X : ndarray, CSR or ShardedMatrix of shape (n_items, n_features)
    n : int, default=5
        At least 1.
    item_weight : ndarray of shape (n_items,) or None
        Weights for the variance.

    Returns
    -------
    ndarray of shape (n,), ascending by factors of 4
    """
    check_grid_size("gamma", n)
    powers = np.arange(n, dtype=np.float64) - 0.5 * (n - 1)
    if is_sparse(X):
        X = X.tocsr()
    middle = MIDDLE * gamma_of("scale", X, item_weight)
    return np.asarray(middle * FACTOR**powers, dtype=np.float64)


@dataclass(frozen=True)
class KernelSettings(Settings):
    """The parameters of ``KernelRankSVM`` that determine the model, and the memory budget."""

    # Kernel values are at most 1 for the usual kernels, products of scaled features are about the
    # number of features: C has to be larger.
    C: float = with_default("C", 1000.0)
    C_RANGE = (50.0 / 4.0, C_RANGE[1])
    kernel: str | Callable[[Any, Any], Any] = parameter("rbf", "Kernel.", choices=lambda: KERNELS)
    gamma: float | str = parameter(
        "scale",
        "Kernel coefficient: a number, scale or auto.",
        only=("kernel", lambda: kernels_with("gamma")),
        parse=number_or_text,
        grid=Grid(
            lambda data, n: default_gammas(data.X, n, data.item_weight),
            N_GAMMAS,
            f"{N_GAMMAS} values around scale / {1.0 / MIDDLE:g}, each {FACTOR:g} times the last",
            resolve=lambda gamma, data: gamma_of(gamma, data.X, data.item_weight),
        ),
    )
    degree: int = parameter(
        3,
        "Degree of the polynomial kernel.",
        only=("kernel", lambda: kernels_with("degree")),
        rare=True,
    )
    coef0: float = parameter(
        1.0,
        "Constant term of the poly and sigmoid kernels.",
        only=("kernel", lambda: kernels_with("coef0")),
        rare=True,
    )
    approximation: str | None = parameter(
        None,
        "Approximate the kernel.",
        choices=lambda: approximations(),
    )
    n_components: int = parameter(
        500,
        "Number of landmarks or random features.",
        flag="components",
        only=("approximation", lambda: approximations()),
    )
    landmarks: str = parameter(
        "uniform",
        "Choice of landmarks.",
        choices=lambda: LANDMARKS,
        only=("approximation", lambda: ("nystroem",)),
        rare=True,
    )
    memory_budget: int | str = "4GB"
    dtype: str = parameter(
        "float64", "Precision of kernel values.", choices=lambda: DTYPES, rare=True
    )
    random_state: int | None = parameter(
        None,
        "Random seed.",
        flag="seed",
        only=("approximation", lambda: approximations()),
        rare=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, (*KERNELS, "precomputed"), also=" or a callable")
        check_gamma(self.gamma)
        if isinstance(self.degree, Integral) and self.degree > MAX_DEGREE:
            raise ParameterError(
                "{degree} must be at most {most}; got {value}",
                degree=Param("degree"),
                most=MAX_DEGREE,
                value=Value(self.degree),
            )
        check_integer("degree", self.degree)
        check_seed("random_state", self.random_state)
        check_integer("n_components", self.n_components)
        if finite_number(self.coef0) is None:
            raise ParameterError(
                "{coef0} must be a finite number; got {value}",
                coef0=Param("coef0"),
                value=Value(self.coef0),
            )
        check_choice("approximation", self.approximation, (None, *APPROXIMATIONS))
        check_choice("landmarks", self.landmarks, LANDMARKS)
        check_choice("dtype", self.dtype, DTYPES)
        parse_memory("memory_budget", self.memory_budget)
        if self.kernel == "precomputed":
            for name, why, none in (
                ("scaling", "has no features to scale", None),
                ("query_features", "has no features to compare within queries", ()),
                ("approximation", "cannot be approximated", None),
            ):
                if getattr(self, name) not in (none, AUTO):
                    raise ParameterError(
                        "a precomputed kernel {why}: {remedy}",
                        why=why,
                        remedy="use {none}",
                        none=Param(name, none),
                    )
        if self.approximation == "fourier" and self.kernel not in FOURIER_KERNELS:
            raise ParameterError(
                "random Fourier features exist for {kernels}; got {kernel}. {remedy}",
                remedy="Use {nystroem}.",
                kernels=" and ".join(FOURIER_KERNELS),
                kernel=Param("kernel", self.kernel),
                nystroem=Param("approximation", "nystroem"),
            )

    def scaling_for(self, X: Any, *, encoded: bool = False) -> str | None:
        # A function of the user's knows what its features mean.
        if self.scaling == AUTO and (callable(self.kernel) or self.is_pairwise):
            return None
        return super().scaling_for(X, encoded=encoded)

    @property
    def works_in_shards(self) -> bool:
        return self.approximation is not None

    @property
    def is_pairwise(self) -> bool:
        return self.kernel == "precomputed"

    @property
    def is_linear_svm(self) -> bool:
        return self.kernel == "linear"

    def check_budget(self, data: RankingData) -> None:
        if self.approximation is not None and not isinstance(data.X, ShardedMatrix):
            check_feature_room(comparable_items(data).size, self)

    def row_bytes(self, n_features: int, *, is_sparse: bool) -> int:
        features = 0 if self.approximation is None else int(self.n_components)
        found = features * np.dtype(self.dtype).itemsize
        if self.scaling is None or (is_sparse and self.scaling != "quantile"):
            return found
        return found + 8 * n_features

    def working_bytes(
        self, n_items: int, n_features: int, itemsize: int, *, is_sparse: bool
    ) -> int:
        """Return the bytes of what is made once: landmarks and samples."""
        if self.approximation is None:
            return 0
        found = kernel_bytes(
            n_items,
            n_features,
            itemsize if self.scaling is None else 8,
            int(self.n_components),
            approximation=self.approximation,
            landmarks=self.landmarks,
        )
        return max(found, self.scaling_bytes(n_items, n_features, itemsize))

    @property
    def memory(self) -> int:
        """The memory budget in bytes."""
        return parse_memory("memory_budget", self.memory_budget)


class KernelProblem(RankProblem):
    """The training problem of a kernel model.

    The unknowns are the coefficients of the items or, with an approximation, of the features.

    Parameters
    ----------
    data : RankingData
        X dense or sparse, float32 or float64, finite; the kernel matrix, of shape
        (n_items, n_items), when the kernel is "precomputed": symmetric and positive semi-definite
        (see :func:`ranksvm.maps.gram_checks.check_gram`).
    settings : KernelSettings
        Parameters.
    n_threads : int
        Number of threads.

    Attributes
    ----------
    items : ndarray of int64
        The items that occur in a pair.
    """

    def __init__(self, data: RankingData, settings: KernelSettings, *, n_threads: int = 1) -> None:
        if is_sparse(data.X):
            data = replace(data, X=data.X.tocsr())
        if not settings.is_pairwise:
            check_room(data.n_features)
        check_gains(data, settings)
        self._scaling_name = settings.scaling_for(data.X, encoded=data.is_encoded)
        data, self._scaling = scaled_data(data, self._scaling_name, n_threads=n_threads)
        if self._scaling is None and isinstance(data.X, np.ndarray):
            _look_at_scales(data, settings, n_threads)
        self._given = data
        self.items = participants(data)
        # The score map has the features; pairs need only labels, weights and preferences.
        bare = replace(data, X=np.empty((data.n_items, 0)), feature_names=None)
        compared = bare.take(self.items)
        self._space, pairs = make_space(data, compared, self.items, settings, n_threads)
        super().__init__(
            self._space.score_map, pairs, settings, labeled=compared, n_threads=n_threads
        )

    def solve(self, C: float | None = None, **options: Any) -> Fit:
        """Minimize F; as for :class:`ranksvm.learners.problem.RankProblem`."""
        with one_blas_thread():
            return super().solve(C, **options)

    def model(self, fit: Fit) -> KernelModel:
        """Return the model of a fit; an exact model has only items with nonzero coefficients."""
        kernel = self._space.kernel
        expansion = replace(self._space.expansion, coef=self._point_coef(fit))
        support = None
        if self._space.to_points is None:
            expansion = expansion.without_zeros()
            support = self.items[np.flatnonzero(fit.coef)]
        about = about_fit(fit, self._given, self.settings)
        about["facts"]["gamma"] = None if kernel is None else kernel.gamma
        constant = np.zeros(0) if self._scaling is None else self._scaling.constant
        about["facts"] |= about_scaling(self._scaling_name, constant)
        return KernelModel(expansion=expansion, support=support, scaling=self._scaling, **about)

    def score(self, X: Any, fits: Sequence[Fit]) -> list[Array]:
        """Return the scores of items for each of several fits of this problem."""
        coefs = [self._point_coef(fit) for fit in fits]
        if self._scaling is not None:
            X = scaled(X, self._scaling, self.n_threads)
        if isinstance(X, ShardedMatrix):
            return expansion_scores(self._space.expansion, X, coefs)
        return self._space.expansion.scores_for(X, coefs, n_threads=self.n_threads)

    def scorer(self, X: Any) -> Scorer:
        """Return the function from coefficients, those of the fit, to the scores of items.

        The kernel values with the points are computed once if the memory budget has room for them
        beside those of the training set.
        """
        if self._scaling is not None:
            X = scaled(X, self._scaling, self.n_threads)
        assert isinstance(self.settings, KernelSettings)
        room = self.settings.memory - self._space.held
        scores = self._space.expansion.scorer(X, room, n_threads=self.n_threads)
        to_points = self._space.to_points
        return scores if to_points is None else lambda coef: scores(to_points(coef))

    def _point_coef(self, fit: Fit) -> Array:
        to_points = self._space.to_points
        return fit.coef if to_points is None else to_points(fit.coef)


def _look_at_scales(data: RankingData, settings: KernelSettings, n_threads: int) -> None:
    """Warn if the features differ so much in scale that the largest alone decide the kernel."""
    if callable(settings.kernel) or settings.kernel in ("linear", "precomputed"):
        return
    columns = find_columns(data.X, data.item_weight, n_threads)
    spreads = columns.deviation[~columns.is_constant]
    if spreads.size < 2 or spreads.max() <= MOST_APART * spreads.min():
        return
    warnings.warn(
        MessageWarning(
            "the standard deviations of the features differ by a factor of {factor:.0e}, and the "
            "largest features alone decide the kernel. Use {scaling}, or scale them beforehand.",
            factor=spreads.max() / spreads.min(),
            scaling=Param("scaling", "standard"),
        ),
        stacklevel=2,
    )
