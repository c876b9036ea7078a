"""The items that occur in at least one pair; all others do not affect the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranksvm.backends.native import NativeBackend
from ranksvm.data.preferences import paired_items
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.weights import no_pairs
from ranksvm.pairs.order import PairBackend, PairOrder

__all__ = ["comparable_items", "count_pairs", "participants"]


def participants(data: RankingData) -> NDArray[np.int64]:
    """Return the items that occur in a pair of positive weight, ascending; raise if none does."""
    takes_part = np.zeros(data.n_items, dtype=np.bool_)
    takes_part[comparable_items(data)] = True
    if data.preferences is not None:
        takes_part |= paired_items(data.preferences, data.n_items)
    if not takes_part.any():
        raise no_pairs(data)
    return np.flatnonzero(takes_part)


def count_pairs(data: RankingData, backends: Sequence[PairBackend]) -> int:
    """Count the pairs of positive weight; ``backends`` are those of the labels and preferences."""
    weights = [one for one in (data.item_weight, data.query_weight) if one is not None]
    if data.y is None or all((weight > 0.0).all() for weight in weights):
        return sum(int(sum(backend.pairs)) for backend in backends)
    items = comparable_items(data)
    listed = sum(int(sum(backend.pairs)) for backend in backends[1:])
    if not items.size:
        return listed
    kept = QueryGroups.from_qid(data.groups.index[items], items.size)
    return listed + int(sum(NativeBackend(PairOrder(data.y[items], kept)).pairs))


def comparable_items(data: RankingData) -> NDArray[np.int64]:
    """Return the items in a query with different labels, counting items of positive weight only."""
    labels, groups = data.y, data.groups
    if labels is None:
        return np.empty(0, dtype=np.int64)
    has_weight = np.ones(len(labels), dtype=np.bool_)
    if data.item_weight is not None:
        has_weight &= data.item_weight > 0.0
    if data.query_weight is not None:
        has_weight &= data.query_weight[groups.index] > 0.0
    lowest = np.full(groups.n_queries, np.inf)
    highest = np.full(groups.n_queries, -np.inf)
    np.minimum.at(lowest, groups.index[has_weight], labels[has_weight])
    np.maximum.at(highest, groups.index[has_weight], labels[has_weight])
    return np.flatnonzero(has_weight & (lowest < highest)[groups.index])
