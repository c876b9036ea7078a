"""The scatter of some of the items: it only scales, so a sample of thousands will do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups

__all__ = ["SampledParts", "SampledScatter", "WeightedItems", "add", "by_whole_groups"]

# A weight for each item, and the groups inside which they scatter.
WeightedItems = tuple[Array, QueryGroups]


def add(matrices: Iterable[Array]) -> Array:
    """Sum of the scatters of some parts."""
    return reduce(np.add, matrices)


def by_whole_groups(groups: QueryGroups, step: int) -> bool:
    """Whether to sample every step-th group, with all its items, or every step-th item.

    Items of small groups say nothing about their scatter one by one; but there must be many groups,
    and none that holds most of the items.
    """
    many = groups.n_queries >= 64 * step
    return many and 4 * int(groups.sizes.max()) <= groups.n_items


def sample_rows(groups: QueryGroups, most: int) -> NDArray[np.int64]:
    """About ``most`` of the items, at least; those of whole groups if there are many groups."""
    step = max(1, groups.n_items // most)
    if by_whole_groups(groups, step):
        return np.flatnonzero(groups.index % step == 0)
    return np.arange(0, groups.n_items, step)


class SampledScatter:
    """Weighted scatter of sampled items inside their groups, scaled to all items.

    Parameters
    ----------
    features : ndarray of float64, shape (n_rows, k)
        Of the sampled items.
    rows : ndarray of int64, shape (n_rows,)
        Which items they are.
    groups : QueryGroups
        Of all items.
    """

    def __init__(self, features: Array, rows: NDArray[np.int64], groups: QueryGroups) -> None:
        self._features = np.ascontiguousarray(features)
        self._rows = rows
        self._share = len(rows) / groups.n_items
        self._groups = QueryGroups.from_qid(groups.index[rows], len(rows))

    def at(self, weight: Array, n_threads: int) -> Array:
        """Scatter for weights of all items, shape (k, k)."""
        flat: Array = _core.scatter(
            self._features,
            weight[self._rows],
            self._groups.rows,
            self._groups.offsets,
            1,
            True,
            n_threads,
        )
        k = self._features.shape[1]
        scatter: Array = flat.reshape(k, k) / self._share
        return scatter


class SampledParts:
    """The sum of sampled scatters, one for each part; a part is sampled at its first call.

    Parameters
    ----------
    features : callable
        ``features(rows)`` are those of some items, float64 of shape (n_rows, k).
    most : int
        About so many items of each part.
    """

    def __init__(self, features: Callable[[NDArray[np.int64]], Array], most: int) -> None:
        self._features = features
        self._most = most
        self._samples: list[SampledScatter] = []

    def at(self, parts: Sequence[WeightedItems], n_threads: int) -> Array:
        """Scatter of all parts, shape (k, k)."""
        for _, groups in parts[len(self._samples) :]:
            rows = sample_rows(groups, self._most)
            self._samples.append(SampledScatter(self._features(rows), rows, groups))
        samples = zip(self._samples, parts, strict=True)
        return add(sample.at(weight, n_threads) for sample, (weight, _) in samples)
