"""Weights of pairs: from items and queries, and what a reduction makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ranksvm._checks import as_weights, check_weights
from ranksvm._vectors import Array, dot
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairOrder

__all__ = ["check_query_weight", "no_pairs", "reduce_weights", "total_pair_weight"]


def reduce_weights(
    backend: NativeBackend, reduction: str, query_weight: Array | None, n_items: int
) -> float:
    """Give the backend its query weights; return the factor that goes with C."""
    mass = backend.pair_weights
    weight = np.ones(len(mass)) if query_weight is None else query_weight
    with np.errstate(over="ignore", invalid="ignore"):
        total = dot(weight, mass)
    if not np.isfinite(total):
        raise OverflowError(
            "the pair weights are too large for float64: a pair weighs query_weight times the "
            "sample_weight of both items. Scale the weights down."
        )
    if not total > 0.0:
        raise _no_pairs(sum(backend.pairs), n_items, len(mass))
    if reduction == "query_mean":
        there = mass > 0.0
        scaled = np.zeros(len(mass))
        scaled[there] = weight[there] / mass[there] / weight[there].sum()
        backend.set_query_weight(scaled)
        return 1.0
    if query_weight is not None:
        backend.set_query_weight(weight)
    return 1.0 / total if reduction == "mean" else 1.0


def no_pairs(utility: Array, groups: QueryGroups, item_weight: Array | None = None) -> ValueError:
    """Return the error for a set without a pair of positive weight."""
    backend = NativeBackend(PairOrder(utility, groups, item_weight))
    return _no_pairs(sum(backend.pairs), len(utility), groups.n_queries)


def _no_pairs(n_pairs: int, n_items: int, n_queries: int) -> ValueError:
    why = (
        "every query has only one distinct utility in y"
        if n_pairs == 0
        else f"all {n_pairs} comparable pairs have weight zero"
    )
    return ValueError(
        f"no comparable pair to learn from (n_samples={n_items}, queries={n_queries}): {why}. "
        "A pair needs two items of one query with different utilities and positive weights; "
        "check qid and y."
    )


def total_pair_weight(
    utility: Array,
    groups: QueryGroups,
    *,
    item_weight: Array | None = None,
    query_weight: Array | None = None,
) -> float:
    """Weight N of all comparable pairs: C over their sum is C over their mean divided by N."""
    mass = NativeBackend(PairOrder(utility, groups, item_weight)).pair_weights
    return float(mass.sum()) if query_weight is None else dot(query_weight, mass)


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
