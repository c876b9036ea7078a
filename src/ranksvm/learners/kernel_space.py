"""The space of the coefficients of a kernel model: exact, or that of explicit features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._memory import format_size
from ranksvm._messages import Param, ParameterError
from ranksvm._rows import take_rows
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.scaled_rows import some_rows
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners.sharded_features import ShardedFeatures, variance_of
from ranksvm.learners.training_pairs import TrainingPairs, weighted_pairs
from ranksvm.maps.expansion import Expansion, GivenExpansion
from ranksvm.maps.feature_map import MOST_DIRECTIONS, FeatureMap, NystroemMap
from ranksvm.maps.features import make_fourier, make_nystroem
from ranksvm.maps.gram import GivenGram, TiledGram, least_memory
from ranksvm.maps.gram_checks import check_kernel
from ranksvm.maps.kernel import KernelMap, preconditioner_rank
from ranksvm.maps.kernels import Kernel, gamma_scale, resolve_gamma
from ranksvm.maps.matrix import MatrixMap, ScoreMap

if TYPE_CHECKING:
    from ranksvm.learners.kernel import KernelSettings


class Space(NamedTuple):
    """The space of the coefficients.

    ``kernel`` is None if it is precomputed.  ``expansion`` has the points of the model, without
    coefficients.  ``to_points`` converts the coefficients of a fit to those of the points; None if
    they are the same, because the model is exact.  ``held`` is how many bytes of the memory budget
    kernel values and features take.
    """

    score_map: ScoreMap
    expansion: Expansion | GivenExpansion
    kernel: Kernel | None
    to_points: Callable[[Array], Array] | None
    held: int = 0


class _Approximation(NamedTuple):
    """Explicit features.

    ``raw(X, n_threads=)`` returns those of items, ``make_map`` turns the map of the raw features
    into that of the coefficients.  The others are those of :class:`Space`.
    """

    raw: Callable[..., NDArray[Any]]
    make_map: Callable[..., FeatureMap]
    expansion: Expansion
    to_points: Callable[[Array], Array]


def make_space(
    data: RankingData,
    compared: RankingData,
    items: NDArray[np.int64],
    settings: KernelSettings,
    n_threads: int,
) -> tuple[Space, TrainingPairs]:
    """Return the space of a data set, and the pairs of its items.

    ``compared`` has the items that occur in pairs, without features; ``items`` are their rows.
    """
    X = data.X
    if settings.kernel == "precomputed":
        space = _given_space(X, items, settings, n_threads)
        return space, weighted_pairs(compared, settings, n_threads=n_threads)
    kernel = Kernel(
        settings.kernel,
        gamma=gamma_of(settings.gamma, X, data.item_weight),
        coef0=float(settings.coef0),
        degree=int(settings.degree),
    )
    is_nystroem = settings.approximation == "nystroem"
    if is_nystroem and items.size < settings.n_components <= X.shape[0]:
        # Only items in pairs become landmarks.
        settings = replace(settings, n_components=items.size)
    in_shards = isinstance(X, ShardedMatrix)
    if items.size < X.shape[0]:
        X = X.take(items) if in_shards else some_rows(X, items, n_threads)
    if settings.approximation is None:
        space = _exact_space(X, kernel, settings, n_threads)
        return space, weighted_pairs(compared, settings, n_threads=n_threads)
    if not in_shards:
        check_feature_room(X.shape[0], settings)
    found = APPROXIMATIONS[settings.approximation](X, kernel, settings, n_threads)
    if in_shards:
        features = ShardedFeatures(found.raw, found.expansion.points.shape[0], settings.dtype)
        score_map, pairs = features.problem(
            data, items, compared.groups, settings, found.make_map, n_threads=n_threads
        )
    else:
        values = found.raw(X, n_threads=n_threads)
        score_map = found.make_map(
            MatrixMap(values, n_threads=n_threads),
            partial(take_rows, values, n_threads=n_threads),
            n_threads=n_threads,
        )
        pairs = weighted_pairs(compared, settings, n_threads=n_threads)
    held = 0 if in_shards else values.nbytes
    return Space(score_map, found.expansion, kernel, found.to_points, held), pairs


def _given_space(
    K: Any, items: NDArray[np.int64], settings: KernelSettings, n_threads: int
) -> Space:
    gram = GivenGram(K, items, n_threads=n_threads)
    rank = preconditioner_rank(gram.n_items, K.dtype.itemsize, settings.memory)
    score_map = KernelMap(gram, rank=rank, n_threads=n_threads)
    return Space(score_map, GivenExpansion(items, np.empty(0), K.shape[0]), None, None)


def _exact_space(X: Any, kernel: Kernel, settings: KernelSettings, n_threads: int) -> Space:
    if isinstance(X, ShardedMatrix):
        raise ParameterError(
            "an exact kernel model needs all items in memory, and the data is in shards: {remedy}",
            remedy="use {approximation}",
            approximation=Param("approximation", *APPROXIMATIONS),
        )
    itemsize = np.dtype(settings.dtype).itemsize
    memory = settings.memory
    rank = 0
    if check_kernel(kernel, X, n_threads=n_threads):
        # For one thread, because the preconditioner must not depend on their number.
        free = memory - least_memory(X, kernel)
        rank = preconditioner_rank(X.shape[0], itemsize, free)
        memory -= rank * X.shape[0] * itemsize
    gram = TiledGram(X, kernel, dtype=settings.dtype, memory=memory, n_threads=n_threads)
    score_map = KernelMap(gram, rank=rank, n_threads=n_threads)
    held = gram.held + rank * X.shape[0] * itemsize + least_memory(X, kernel)
    return Space(score_map, Expansion(kernel, X, np.empty(0)), kernel, None, held)


def _nystroem(X: Any, kernel: Kernel, settings: KernelSettings, n_threads: int) -> _Approximation:
    basis = make_nystroem(
        X,
        kernel,
        settings.n_components,
        settings.landmarks,
        seed=settings.random_state,
        dtype=settings.dtype,
        n_directions=MOST_DIRECTIONS,
        n_threads=n_threads,
    )
    return _Approximation(
        partial(basis.raw, dtype=settings.dtype),
        partial(NystroemMap, basis=basis),
        Expansion(kernel, basis.landmarks, np.empty(0)),
        basis.coef_of,
    )


def _fourier(X: Any, kernel: Kernel, settings: KernelSettings, n_threads: int) -> _Approximation:
    basis = make_fourier(kernel, X.shape[1], settings.n_components, seed=settings.random_state)
    return _Approximation(
        partial(basis.features, dtype=settings.dtype),
        FeatureMap,
        Expansion(basis.kernel, basis.frequencies, np.empty(0), basis.shifts),
        np.copy,
    )


APPROXIMATIONS: dict[str, Callable[[Any, Kernel, KernelSettings, int], _Approximation]] = {
    "nystroem": _nystroem,
    "fourier": _fourier,
}


def approximations() -> list[str]:
    """Return the names of the approximations."""
    return list(APPROXIMATIONS)


def gamma_of(gamma: Any, X: Any, item_weight: Array | None) -> float:
    """Return gamma as a number; see ``resolve_gamma``."""
    if gamma == "scale" and isinstance(X, ShardedMatrix):
        return gamma_scale(X.shape[1], variance_of(X, item_weight))
    return resolve_gamma(gamma, X, item_weight)


def check_feature_room(n_items: int, settings: KernelSettings) -> None:
    """Raise if the array of features exceeds the memory budget."""
    n_components, landmarks = settings.n_components, 0
    if settings.approximation == "nystroem":
        n_components = min(n_components, n_items)
        landmarks = 4 * 8 * n_components**2  # the kernel matrix of the landmarks, and its factors
    needed = n_items * n_components * np.dtype(settings.dtype).itemsize + landmarks
    if needed > settings.memory:
        raise ParameterError(
            "{n_components} features of {n_items:,} items{more} take {needed} in {dtype}, more "
            "than {budget}: {remedy}",
            more=" and the landmark matrices" if landmarks else "",
            remedy="use fewer {components}, {float32}, or a larger {larger}",
            budget=Param("memory_budget", settings.memory_budget),
            n_components=n_components,
            n_items=n_items,
            needed=format_size(needed),
            dtype=settings.dtype,
            components=Param("n_components"),
            float32=Param("dtype", "float32"),
            larger=Param("memory_budget"),
        )
