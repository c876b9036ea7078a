"""Weights of pairs: from items and queries, and what a reduction makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ranksvm._checks import SMALLEST_PAIR_WEIGHT, as_weights, check_weights
from ranksvm._messages import Param, ParameterError
from ranksvm._rounding import roundings
from ranksvm._vectors import Array, dot
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.pairs.order import PairBackend, PairOrder

__all__ = [
    "check_query_weight",
    "effective_query_weight",
    "no_pairs",
    "reduce_weights",
    "total_pair_weight",
]


def reduce_weights(
    backends: Sequence[PairBackend], reduction: str, query_weight: Array | None, n_items: int
) -> tuple[float, float]:
    """Give the backends their query weights.

    Returns the factor that goes with C, and how far that and the weights may be off, relatively.

    Parameters
    ----------
    backends : sequence of PairBackend
        Of the utilities, of listed pairs, or of both in this order; a list is one query of weight
        1.
    reduction : str
    query_weight : ndarray of shape (n_queries,) or None
        Of the queries of the first backend.
    n_items : int
    """
    masses = [backend.pair_weights for backend in backends]
    mass = np.concatenate(masses)
    weight = None
    if query_weight is not None:
        weight = np.concatenate([query_weight, np.ones(len(mass) - len(query_weight))])
    with np.errstate(over="ignore", invalid="ignore"):
        total = dot(np.ones(len(mass)) if weight is None else weight, mass)
    if not np.isfinite(total):
        raise OverflowError(
            "the pair weights are too large for float64: a pair weighs query_weight times the "
            "sample_weight of both items, or what a list of pairs says. Scale the weights down."
        )
    if not total > SMALLEST_PAIR_WEIGHT:
        raise _no_pairs(sum(sum(backend.pairs) for backend in backends), n_items, len(mass))
    scaled = effective_query_weight(mass, reduction, weight)
    if scaled is not None:
        ends = np.cumsum([len(part) for part in masses])[:-1]
        for backend, part in zip(backends, np.split(scaled, ends), strict=True):
            backend.set_query_weight(part)
    if reduction == "sum":
        return 1.0, 0.0
    factor = 1.0 / total if reduction == "mean" else 1.0
    pairs = [count for backend in backends for count in backend.pairs]
    plain = scaled is None and total < 2.0**53 and np.array_equal(mass, pairs)
    return factor, roundings(4 if plain else 2 * n_items + len(mass) + 16)


def effective_query_weight(mass: Array, reduction: str, query_weight: Array | None) -> Array | None:
    """Weights of the queries as they enter the sum over pairs; None for ones.

    Parameters
    ----------
    mass : ndarray of shape (n_queries,)
        Weight of the pairs of each query.
    reduction : str
    query_weight : ndarray of shape (n_queries,) or None
    """
    if reduction != "query_mean":
        return query_weight
    weight = np.ones(len(mass)) if query_weight is None else query_weight
    there = mass > 0.0
    scaled = np.zeros(len(mass))
    scaled[there] = weight[there] / mass[there] / weight[there].sum()
    return scaled


def no_pairs(data: RankingData) -> ValueError:
    """Return the error for a set without a pair of positive weight."""
    if data.y is None:
        return ValueError(
            "no pair to learn from: there are neither labels nor preferences of positive weight. "
            "Give one of them, or both."
        )
    backend = NativeBackend(PairOrder(data.y, data.groups, data.item_weight))
    return _no_pairs(sum(backend.pairs), data.n_items, data.groups.n_queries)


def _no_pairs(n_pairs: int, n_items: int, n_queries: int) -> ValueError:
    why = (
        "every query has only one distinct utility in {y}"
        if n_pairs == 0
        else "all {n_pairs} comparable pairs have weight zero, or so little that float64 "
        "rounds it to zero (a pair weighs the product of the sample_weight of both items and the "
        "query_weight; scale the weights up)"
    )
    return ParameterError(
        f"no comparable pair to learn from ({{n_samples}}, queries={{n_queries}}): {why}. "
        "A pair needs two items of one query with different utilities and positive weights; "
        "check {qid} and {y}.",
        y=Param("y", option="the labels"),
        qid=Param("qid", option="the query ids"),
        n_pairs=n_pairs,
        n_samples=Param("n_samples", n_items, option=f"items={n_items}"),
        n_queries=n_queries,
    )


def total_pair_weight(data: RankingData) -> float:
    """Weight N of all comparable pairs: C over their sum is C over their mean divided by N."""
    if data.y is None:
        raise no_pairs(data)
    mass = NativeBackend(PairOrder(data.y, data.groups, data.item_weight)).pair_weights
    return float(mass.sum()) if data.query_weight is None else dot(data.query_weight, mass)


def check_query_weight(weight: Any, groups: QueryGroups) -> Array | None:
    """One weight per query, from a sequence in order of first appearance or a mapping by id."""
    if weight is None:
        return None
    n_queries = len(groups.ids)
    if hasattr(weight, "to_dict"):  # a pandas Series goes by its index
        weight = weight.to_dict()
    if isinstance(weight, Mapping):
        missing = [q for q in groups.ids.tolist() if q not in weight]
        if missing:
            raise ValueError(
                f"query_weight has no entry for {len(missing)} of {n_queries} queries, "
                f"among them {missing[0]!r}"
            )
        weight = [weight[q] for q in groups.ids.tolist()]
    weights = as_weights("query_weight", weight)
    if len(weights) != n_queries:
        raise ValueError(
            f"query_weight has {len(weights)} values for {n_queries} queries; give one weight per "
            "query, in the order in which the queries first appear in qid, or a dict by query id"
        )
    check_weights("query_weight", weights, "query")
    return weights
