"""The items that take part in a pair; all others change nothing, and can be left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.preferences import Preferences, paired_items, positive_pairs
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairBackend, PairOrder
from ranksvm.training.weights import no_pairs

__all__ = ["Pairing", "comparable_items", "count_pairs", "participants"]


class Pairing(NamedTuple):
    """What is compared, and how much it weighs; as for :class:`ranksvm.training.RankProblem`."""

    utility: Array | None
    groups: QueryGroups
    preferences: Preferences | None
    item_weight: Array | None
    query_weight: Array | None

    def among(self, items: NDArray[np.int64]) -> Pairing:
        """Return the same for some items, ascending, that hold all pairs; numbered anew."""
        if items.size == self.groups.n_items:
            return self
        groups = QueryGroups.from_qid(self.groups.index[items], items.size)
        return Pairing(
            None if self.utility is None else self.utility[items],
            groups,
            None if self.preferences is None else _renumbered(self.preferences, items),
            None if self.item_weight is None else self.item_weight[items],
            None if self.query_weight is None else self.query_weight[groups.ids],
        )


def participants(pairing: Pairing) -> NDArray[np.int64]:
    """Items in at least one pair of positive weight, ascending; an error if there is none."""
    utility, groups, preferences, item_weight, query_weight = pairing
    takes_part = np.zeros(groups.n_items, dtype=np.bool_)
    if utility is not None:
        takes_part[comparable_items(utility, groups, item_weight, query_weight)] = True
    if preferences is not None:
        takes_part |= paired_items(preferences, groups.n_items)
    if not takes_part.any():
        raise no_pairs(utility, groups, item_weight)
    return np.flatnonzero(takes_part)


def count_pairs(pairing: Pairing, backends: Sequence[PairBackend]) -> int:
    """Count the pairs of positive weight; ``backends`` are those of the utilities and of a list."""
    utility, groups, _, item_weight, query_weight = pairing
    weights = [weight for weight in (item_weight, query_weight) if weight is not None]
    if utility is None or all((weight > 0.0).all() for weight in weights):
        return sum(int(sum(backend.pairs)) for backend in backends)
    items = comparable_items(utility, groups, item_weight, query_weight)
    kept = QueryGroups.from_qid(groups.index[items], items.size)
    listed = sum(int(sum(backend.pairs)) for backend in backends[1:])
    if not items.size:
        return listed
    return listed + int(sum(NativeBackend(PairOrder(utility[items], kept)).pairs))


def comparable_items(
    utility: Array, groups: QueryGroups, item_weight: Array | None, query_weight: Array | None
) -> NDArray[np.int64]:
    """Items that differ from another one of their query, both of positive weight, ascending."""
    fine = np.ones(len(utility), dtype=np.bool_)
    if item_weight is not None:
        fine &= item_weight > 0.0
    if query_weight is not None:
        fine &= query_weight[groups.index] > 0.0
    lowest = np.full(groups.n_queries, np.inf)
    highest = np.full(groups.n_queries, -np.inf)
    np.minimum.at(lowest, groups.index[fine], utility[fine])
    np.maximum.at(highest, groups.index[fine], utility[fine])
    return np.flatnonzero(fine & (lowest < highest)[groups.index])


def _renumbered(preferences: Preferences, items: NDArray[np.int64]) -> Preferences:
    """Preferences between ``items``, which are ascending, by their places among them."""
    better, worse, weight = positive_pairs(preferences)
    return Preferences(np.searchsorted(items, better), np.searchsorted(items, worse), weight)
