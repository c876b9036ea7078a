"""Groups of items that pairs connect, and groups dealt to folds.

The units are queries, or single items if there are none.  Pairs of positive weight connect units,
directly or through others, and connected units belong to one group.
"""

from __future__ import annotations

import heapq

import numpy as np

from ranksvm._vectors import Rows
from ranksvm.data.preferences import Preferences, first_connected, positive_pairs
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData


def connected_groups(data: RankingData) -> QueryGroups:
    """Return the groups of items that folds must not divide."""
    assert data.preferences is not None
    groups = data.groups
    unit = np.arange(data.n_items) if data.qid is None else groups.index
    n_units = data.n_items if data.qid is None else groups.n_queries
    pairs = positive_pairs(data.preferences, data.query_weight)
    better, worse = unit[pairs.better], unit[pairs.worse]
    first = first_connected(Preferences(better, worse), n_units)
    return QueryGroups.from_qid(first[unit], data.n_items)


def dealt(sizes: Rows, n_splits: int) -> Rows:
    """Deal groups, the largest first, to the fold with the least; -1 for groups of size zero."""
    fold = np.full(sizes.size, -1, dtype=np.int64)
    some = np.flatnonzero(sizes)
    if some.size and (sizes[some] == sizes[some[0]]).all():  # the same, without a loop
        fold[some] = np.arange(some.size) % n_splits
        return fold
    filled = [(0, k) for k in range(n_splits)]
    for group in np.argsort(-sizes, kind="stable").tolist():
        if sizes[group]:
            size, k = filled[0]
            fold[group] = k
            heapq.heapreplace(filled, (size + int(sizes[group]), k))
    return fold
