"""Weights of pairs, from the weights of items and queries and the reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ranksvm._checks import SMALLEST_PAIR_WEIGHT, check_weights
from ranksvm._rounding import roundings
from ranksvm._text import counted
from ranksvm._vectors import Array, dot
from ranksvm.backends.labels import label_backend
from ranksvm.backends.native import NativeBackend
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.data.preferences import positive_pairs
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.gains import check_gains
from ranksvm.learners.settings import Settings
from ranksvm.pairs.order import PairOrder


class WeightedQueries(Protocol):
    """The part of a PairBackend that is about weights of queries."""

    @property
    def pairs(self) -> Sequence[int]: ...
    @property
    def pair_weights(self) -> Array: ...
    def set_query_weight(self, weight: Array) -> None: ...


def reduce_weights(
    backends: Sequence[WeightedQueries], reduction: str, data: RankingData
) -> tuple[float, float]:
    """Set the query weights of the backends of a data set.

    Parameters
    ----------
    backends : sequence of PairBackend
        Backends of the labels, of the preferences, or of both in this order.  If the preferences
        know their queries, these are the queries of the data, followed by one of weight 1 for the
        pairs across queries; otherwise they are one more query of weight 1.
    reduction : str
        Key of ``REDUCTIONS``.
    data : RankingData
        The data set.

    Returns
    -------
    factor : float
        C is multiplied by this.
    rounding : float
        Bound on the relative rounding error of the factor and the weights.
    """
    masses = [backend.pair_weights for backend in backends]
    ends = np.cumsum([len(part) for part in masses])
    # The queries of a backend, as places among all queries.
    places = [slice(end - len(part), end) for end, part in zip(ends, masses, strict=True)]
    longest = 0  # sum of weights, one after the other
    if data.preferences is not None and data.preferences.query is not None:
        places = [slice(len(part)) for part in masses]
        longest = max(backends[-1].pairs, default=0) + 1
    mass = np.zeros(max(place.stop for place in places))
    for place, part in zip(places, masses, strict=True):
        mass[place] += part
    weight = data.query_weight
    if weight is not None:
        weight = np.append(weight, 1.0)  # of pairs across queries, or that know no query
        weight = weight[: len(mass)]
    with np.errstate(over="ignore", invalid="ignore"):
        total = dot(np.ones(len(mass)) if weight is None else weight, mass)
    if not np.isfinite(total):
        raise OverflowError(
            "the pair weights are too large for float64: the weight of a pair is its query_weight "
            "times the sample_weight of both items, times the difference of their gains if pairs "
            "are weighted by gain, or the weight given in a list of pairs. Scale the weights down."
        )
    if not total > SMALLEST_PAIR_WEIGHT:
        raise no_pairs(data)
    scaled = _effective_query_weight(mass, reduction, weight)
    if scaled is not None:
        for backend, place in zip(backends, places, strict=True):
            backend.set_query_weight(scaled[place])
    if reduction == "sum":  # a backend may multiply query weights by factors of its own
        return 1.0, 0.0 if scaled is None else roundings(2)
    factor = 1.0 / total if reduction == "mean" else 1.0
    plain = scaled is None and total < 2.0**53
    if plain:
        plain = all(np.array_equal(backend.pair_weights, backend.pairs) for backend in backends)
    return factor, roundings(4 if plain else 3 * data.n_items + longest + len(mass) + 16)


def _effective_query_weight(
    mass: Array, reduction: str, query_weight: Array | None
) -> Array | None:
    """Return the factors of the queries in the sum over pairs; None if all are 1.

    Parameters
    ----------
    mass : ndarray of shape (n_queries,)
        Total weight of the pairs of each query.
    reduction : str
        Key of ``REDUCTIONS``.
    query_weight : ndarray of shape (n_queries,) or None
        Weights of the queries.
    """
    if reduction != "query_mean":
        return query_weight
    weight = np.ones(len(mass)) if query_weight is None else query_weight
    has_pairs = mass > 0.0
    scaled = np.zeros(len(mass))
    scaled[has_pairs] = weight[has_pairs] / mass[has_pairs] / weight[has_pairs].sum()
    return scaled


def no_pairs(data: RankingData) -> ValueError:
    """Return the error for a data set without a pair of positive weight."""
    n_pairs = 0
    if data.preferences is not None:
        n_pairs += len(positive_pairs(data.preferences))
    if data.y is not None:
        order = PairOrder(data.y, data.groups, roles=data.roles)
        n_pairs += sum(NativeBackend(order).pairs)
    tiny = "weight zero, or a weight so small that float64 rounds it to zero"
    if data.y is None and not n_pairs:
        return ValueError(
            "no pair to learn from: there are neither labels nor preferences of positive weight. "
            "Pass at least one of them."
        )
    if data.y is None:
        return ValueError(
            f"no pair to learn from: times its query_weight, every pair has {tiny}. Scale the "
            "weights up, or check which queries have pairs."
        )
    why = (
        "every query has only one distinct label"
        if n_pairs == 0
        else f"all {n_pairs} comparable pairs have {tiny} (the weight of a pair is the "
        "sample_weight of both items times the query_weight; scale the weights up)"
    )
    # scikit-learn's checks look for "1 sample".
    samples, queries = counted(data.n_items, "sample"), counted(data.groups.n_queries, "query")
    if data.origin.target == "survival":
        why = "no event comes before another item of its query" if n_pairs == 0 else why
        return ValueError(
            f"no comparable pair to learn from ({samples}, {queries}): {why}. A pair needs an "
            "event and an item of the same query with a later time, both of positive weight; check "
            "the query ids, times and events."
        )
    return ValueError(
        f"no comparable pair to learn from ({samples}, {queries}): {why}. A pair needs two items "
        "of one query with different labels and positive weights; check the query ids and labels."
    )


def total_pair_weight(data: RankingData, settings: Settings | None = None) -> float:
    """Return the total weight N of all comparable pairs; without settings, they have no gains.

    C with ``reduction="sum"`` equals C with ``reduction="mean"`` divided by N.
    """
    if data.y is None and data.preferences is None:
        raise no_pairs(data)
    gains = None
    if settings is not None:
        check_gains(data, settings)
        gains = settings.gains
    total, own = 0.0, data.query_weight
    if data.y is not None:
        backend = label_backend(data.y, data.groups, data.item_weight, gains, roles=data.roles)
        mass = backend.pair_weights
        total = float(mass.sum()) if own is None else dot(own, mass)
    if data.preferences is not None:
        mass = PairListBackend(data.preferences, data.n_items).pair_weights
        if own is None or data.preferences.query is None:
            own = np.ones(0)
        total += dot(np.append(own, np.ones(len(mass)))[: len(mass)], mass)
    return total


def check_query_weight(weight: Any, groups: QueryGroups) -> Array | None:
    """Return one weight per query, from a sequence in order of first appearance or a mapping."""
    if weight is None:
        return None
    n_queries = len(groups.ids)
    if hasattr(weight, "to_dict"):  # a pandas Series goes by its index
        weight = weight.to_dict()
    if isinstance(weight, Mapping):
        missing = [q for q in groups.ids.tolist() if q not in weight]
        if missing:
            raise ValueError(
                f"query_weight has no entry for {len(missing)} of {n_queries} queries, for example "
                f"{missing[0]!r}"
            )
        weight = [weight[q] for q in groups.ids.tolist()]
    how = ", in the order in which the queries first appear in qid, or a dict by query id"
    return check_weights("query_weight", weight, n_queries, "query", how)
