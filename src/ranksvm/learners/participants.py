"""The items that occur in at least one pair; all others do not affect the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranksvm.backends.native import NativeBackend
from ranksvm.data.preferences import paired_items, positive_pairs
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.weights import no_pairs
from ranksvm.pairs.order import PairBackend, PairOrder


def participants(data: RankingData) -> NDArray[np.int64]:
    """Return the items that occur in a pair of positive weight, ascending; raise if none does."""
    takes_part = np.zeros(data.n_items, dtype=np.bool_)
    takes_part[comparable_items(data)] = True
    if data.preferences is not None:
        counting = positive_pairs(data.preferences, data.query_weight)
        takes_part |= paired_items(counting, data.n_items)
    if not takes_part.any():
        raise no_pairs(data)
    return np.flatnonzero(takes_part)


def count_pairs(data: RankingData, backends: Sequence[PairBackend]) -> int:
    """Count the pairs of positive weight; ``backends`` are those of the labels and preferences."""
    counts = [sum(backend.pairs) for backend in backends]
    is_weighted = data.item_weight is not None or data.query_weight is not None
    if data.roles is not None and data.query_weight is not None:  # others have been left out
        counts[0] = int(np.dot(backends[0].pairs, data.query_weight > 0.0))
    elif data.roles is None and data.y is not None and is_weighted and not has_weight(data).all():
        items = comparable_items(data)
        counts[0] = 0
        if items.size:
            kept = QueryGroups.from_qid(data.groups.index[items], items.size)
            counts[0] = sum(NativeBackend(PairOrder(data.y[items], kept)).pairs)
    if data.preferences is not None:
        counts[-1] = len(positive_pairs(data.preferences, data.query_weight))
    return int(sum(counts))


def comparable_items(data: RankingData) -> NDArray[np.int64]:
    """Return the items that labels compare with others, counting positive weights only."""
    labels, query = data.y, data.groups.index
    if labels is None:
        return np.empty(0, dtype=np.int64)
    better = worse = has_weight(data)
    if data.roles is not None:
        better, worse = (
            better if weight is None else better & (weight > 0.0) for weight in data.roles
        )
    lowest = np.full(data.groups.n_queries, np.inf)  # of those that can be the worse one
    highest = np.full(data.groups.n_queries, -np.inf)
    np.minimum.at(lowest, query[worse], labels[worse])
    np.maximum.at(highest, query[better], labels[better])
    is_better, is_worse = better & (labels > lowest[query]), worse & (labels < highest[query])
    return np.flatnonzero(is_better | is_worse)


def has_weight(data: RankingData) -> NDArray[np.bool_]:
    """Return for each item whether it and its query have a positive weight."""
    found = np.ones(data.n_items, dtype=np.bool_)
    if data.item_weight is not None:
        found &= data.item_weight > 0.0
    if data.query_weight is not None:
        found &= data.query_weight[data.groups.index] > 0.0
    return found
