"""The scatter of a sample of items: a few thousand suffice, since it is only used for scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups

__all__ = ["SampledParts", "SampledScatter", "WeightedItems", "add", "by_whole_groups"]

# A weight for each item, and the groups within which the scatter is computed.
WeightedItems = tuple[Array, QueryGroups]


def add(matrices: Iterable[Array]) -> Array:
    """Return the sum of the scatters of several parts."""
    return reduce(np.add, matrices)


def by_whole_groups(groups: QueryGroups, step: int) -> bool:
    """Return whether to sample every step-th group completely, rather than every step-th item.

    Single items of small groups say nothing about the scatter within the groups.  But there must be
    many groups, and none may hold a large part of the items.
    """
    many = groups.n_queries >= 64 * step
    return many and 4 * int(groups.sizes.max()) <= groups.n_items


def sample_rows(groups: QueryGroups, most: int) -> NDArray[np.int64]:
    """Return a sample of at least about ``most`` items; whole groups if there are many groups."""
    step = max(1, groups.n_items // most)
    if by_whole_groups(groups, step):
        return np.flatnonzero(groups.index % step == 0)
    return np.arange(0, groups.n_items, step)


class SampledScatter:
    """Weighted scatter of sampled items within their groups, scaled up to all items.

    Parameters
    ----------
    features : ndarray of float64, shape (n_rows, k)
        Features of the sampled items.
    rows : ndarray of int64, shape (n_rows,)
        Row numbers of the sampled items.
    groups : QueryGroups
        Groups of all items.
    """

    def __init__(self, features: Array, rows: NDArray[np.int64], groups: QueryGroups) -> None:
        self._features = np.ascontiguousarray(features)
        self._rows = rows
        self._share = len(rows) / groups.n_items
        self._groups = QueryGroups.from_qid(groups.index[rows], len(rows))

    def at(self, weight: Array, n_threads: int) -> Array:
        """Return the scatter for the weights of all items, shape (k, k)."""
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
    """The sum of the sampled scatters of several parts; each part is sampled at the first call.

    Parameters
    ----------
    features : callable
        ``features(rows)`` returns the features of items, float64 of shape (n_rows, k).
    most : int
        Approximate number of items in the sample of each part.
    """

    def __init__(self, features: Callable[[NDArray[np.int64]], Array], most: int) -> None:
        self._features = features
        self._most = most
        self._samples: list[SampledScatter] = []

    def at(self, parts: Sequence[WeightedItems], n_threads: int) -> Array:
        """Return the scatter of all parts, shape (k, k)."""
        for _, groups in parts[len(self._samples) :]:
            rows = sample_rows(groups, self._most)
            self._samples.append(SampledScatter(self._features(rows), rows, groups))
        samples = zip(self._samples, parts, strict=True)
        return add(sample.at(weight, n_threads) for sample, (weight, _) in samples)
