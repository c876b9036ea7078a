"""Approximate scatters of items, which suffice because a scatter is only used for scaling.

A sample of a few thousand items gives a good estimate, and a scatter can be reused while its
weights change little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._rounding import TINY
from ranksvm._vectors import Array, add
from ranksvm.data.queries import QueryGroups

# A weight for each item, and the groups within which the scatter is computed.
WeightedItems = tuple[Array, QueryGroups]
# The sum of the scatters of several parts; None if there is none.  See ``ScoreMap.scatter``.
Scatter = Callable[[Sequence[WeightedItems]], Array | None]

# The scatter of a dense matrix is computed from at least about this many items, or from this many
# for each column if that is more.
SCATTER_ITEMS = 8_192
ITEMS_PER_COLUMN = 64
# A sample may have this many times as many items as expected, because groups differ in size.
MOST_TIMES = 4
# A steady scatter is reused until this fraction of the weight has moved to other items.
MOVED = 0.1
# About how many items of a part are compared for that.
COMPARED = 16_384


def scatter_step(n_items: int, n_columns: int) -> int:
    """Return the number of items of which one is in the sample of a scatter."""
    return max(1, n_items // max(SCATTER_ITEMS, ITEMS_PER_COLUMN * n_columns))


def by_whole_groups(groups: QueryGroups, step: int) -> bool:
    """Return whether to sample every step-th group completely, rather than every step-th item.

    Single items of small groups say nothing about the scatter within the groups.  But there must be
    many groups, and none may hold a large part of the items.
    """
    many = groups.n_queries >= 64 * step
    return many and 4 * int(groups.sizes.max()) <= groups.n_items


def sample_rows(groups: QueryGroups, most: int) -> NDArray[np.int64]:
    """Return a sample of at least about ``most`` items, and at most ``MOST_TIMES`` as many as that.

    It has whole groups if there are many groups.
    """
    step = max(1, groups.n_items // most)
    if by_whole_groups(groups, step):
        rows = np.flatnonzero(groups.index % step == 0)
        if step == 1 or rows.size <= MOST_TIMES * (groups.n_items // step):
            return rows
    return np.arange(0, groups.n_items, step)


class SampledScatter:
    """Weighted scatter of sampled items within their groups, scaled up to all items.

    The scatters of several parts are added up; each part is sampled at the first call.

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
        # For each part: the rows in the sample, their features and their groups.
        self._samples: list[tuple[NDArray[np.int64], Array, QueryGroups]] = []

    def at(self, parts: Sequence[WeightedItems], n_threads: int) -> Array:
        """Return the scatter for the weights of all items, shape (k, k)."""
        for _, groups in parts[len(self._samples) :]:
            rows = sample_rows(groups, self._most)
            features = np.ascontiguousarray(self._features(rows))
            within = QueryGroups.from_qid(groups.index[rows], len(rows))
            self._samples.append((rows, features, within))
        scatters = []
        for (rows, features, groups), (weight, _) in zip(self._samples, parts, strict=True):
            flat = _core.scatter(features, weight[rows], groups.rows, groups.offsets, n_threads)
            k = features.shape[1]
            scatters.append(flat.reshape(k, k) / (len(rows) / len(weight)))
        return add(scatters)


class SteadyScatter:
    """A scatter that is recomputed only if its weights have changed noticeably.

    It serves a series of similar problems, such as a path over C.  The scatter is only used for
    scaling, and the violated pairs change slowly along a path, while on dense data a scatter costs
    several products with X.
    """

    def __init__(self, scatter: Scatter) -> None:
        self._scatter = scatter
        self._shares: list[Array] | None = None  # of the weight of each part
        self._matrix: Array | None = None

    def __call__(self, parts: Sequence[WeightedItems]) -> Array | None:
        """Return the scatter; see ``ScoreMap.scatter``."""
        total = sum(float(weight.sum()) for weight, _ in parts)
        if not total > 0.0:
            return self._scatter(parts)
        # Every so many items are enough to see a change.
        shares = [weight[:: max(1, weight.size // COMPARED)] for weight, _ in parts]
        shares = [share / max(float(share.sum()), TINY) for share in shares]
        if self._shares is None or _moved(self._shares, shares) > MOVED:
            matrix = self._scatter(parts)
            self._matrix = None if matrix is None else matrix / total
            self._shares = shares
        return None if self._matrix is None else self._matrix * total


def _moved(before: Sequence[Array], now: Sequence[Array]) -> float:
    """Return the largest fraction of the weight of a part that has moved to other items."""
    pairs = zip(before, now, strict=True)
    return max(0.5 * float(np.abs(new - old).sum()) for old, new in pairs)
