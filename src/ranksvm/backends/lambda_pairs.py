"""The pairs of a ranking with the weights of LambdaRank, as a list.

With gains G, discounts D and the ranks r of the items of a query by their scores, a pair of items
with different gains has the weight

    item weights * |G_i - G_j| * |D(r_i) - D(r_j)| / ideal DCG at the truncation

if at least one of both is among the first ``truncation`` ranks, as in LightGBM.  The discount of a
rank beyond these is what it is, not 0.  Items with equal scores are ranked in row order.  Items of
weight zero count as if they were not there.
"""

from __future__ import annotations

import numpy as np

from ranksvm import _core
from ranksvm._memory import check_memory
from ranksvm._messages import Message, Param
from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.preferences import Preferences
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.gains import Gains, discounts, ideal_dcg, label_gains, query_factors
from ranksvm.pairs.order import PairOrder

# Of a pair: rows, weight and query, their copies by item, and the violated pairs of an evaluation;
# `make bench ARGS="--only pair_weights"` prints what fits take.
PAIR_BYTES = 160


def lambda_pairs(
    y: Array,
    groups: QueryGroups,
    item_weight: Array | None,
    scores: Array,
    gains: Gains,
    truncation: int,
    *,
    n_threads: int = 1,
) -> Preferences:
    """Return the pairs of labeled items at a ranking, with their weights and queries.

    Parameters
    ----------
    y : ndarray of shape (n_items,)
        Labels that :func:`ranksvm.pairs.gains.check_labels` lets pass.
    groups : QueryGroups
    item_weight : ndarray of shape (n_items,) or None
    scores : ndarray of shape (n_items,)
        Finite scores; larger is ranked higher.
    gains : Gains
    truncation : int
    n_threads : int

    Raises
    ------
    TooLittleMemoryError
        If the pairs do not fit into memory.
    """
    items = None
    if item_weight is not None and not item_weight.all():
        items = np.flatnonzero(item_weight > 0.0)
        y, item_weight, scores = y[items], item_weight[items], scores[items]
        groups = QueryGroups.from_qid(groups.index[items], items.size)
    gain = np.ascontiguousarray(label_gains(y, gains.gain), dtype=np.float64)
    by_relevance = NativeBackend(PairOrder(gain, groups), n_threads=n_threads).factor_rows
    ideal = ideal_dcg(gain, groups, by_relevance, gains.discount, most=truncation)
    factor = query_factors(ideal)
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    order = _core.rank_items(scores, groups.rows, groups.offsets, n_threads)
    table = discounts(gains.discount, int(groups.sizes.max()))
    ranked = order, groups.offsets, int(truncation), table, factor
    counts = _core.count_lambda_pairs(gain, *ranked, n_threads)
    n_pairs = int(counts.sum())
    check_memory(
        PAIR_BYTES * n_pairs,
        f"{n_pairs:,} pairs",
        Message("Lower {truncation}.", truncation=Param("truncation")),
    )
    starts = np.concatenate([[0], np.cumsum(counts)])
    weight = None if item_weight is None else np.ascontiguousarray(item_weight)
    better, worse, weights = _core.list_lambda_pairs(gain, weight, *ranked, starts, n_threads)
    query = np.repeat(np.arange(groups.n_queries) if items is None else groups.ids, counts)
    if items is not None:
        better, worse = items[better], items[worse]
    return Preferences(better, worse, weights, query)
