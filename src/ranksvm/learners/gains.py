"""Weights of pairs from gains: those that count more in NDCG have more weight.

With gains G (``gain``) and discounts D of ranks (``discount``), the ideal DCG of a query is the sum
of G D over its items, ranked by their labels.  ``pair_weight`` says by what the weight of a pair of
a better item i and a worse item j is multiplied, beside the weights of its items and its query:

    "uniform"   nothing
    "gain"      (G_i - G_j) / ideal DCG of the query, over all its items

Items of weight zero count as if they were not there.  Gains and ideal DCG are computed in float64;
the weights are what follows from these numbers, and the certificate is about these weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array, Rows
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.settings import Settings
from ranksvm.pairs.gains import discounts, gain_utility, label_gains
from ranksvm.pairs.order import PairOrder


def pair_order(data: RankingData, settings: Settings) -> PairOrder:
    """Return the order of labeled items, with the weights of their pairs."""
    assert data.y is not None
    if settings.pair_weight == "uniform":
        return PairOrder(data.y, data.groups, data.item_weight)
    check_gains(data, settings)
    utility = gain_utility(data.y, data.groups, settings.gain)
    return PairOrder(utility, data.groups, data.item_weight, by_gain=True)


def check_gains(data: RankingData, settings: Settings) -> None:
    """Raise if there are no labels that can have gains."""
    if settings.pair_weight == "uniform":
        return
    what = None
    if data.y is None:
        what = "there are none: pairs that are listed have weights of their own"
    elif data.labels is not None:
        what = "float64 does not represent all of these"
    if what is not None:
        raise ParameterError(
            "{pair_weight} needs labels, and {what}. {remedy}",
            remedy="Use {uniform}.",
            what=what,
            pair_weight=Param("pair_weight", settings.pair_weight),
            uniform=Param("pair_weight", "uniform"),
        )


def over_ideal(
    data: RankingData, settings: Settings, by_relevance: Rows | None = None
) -> RankingData:
    """Return the data set with query weights divided by the ideal DCG, if pairs have gains.

    Parameters
    ----------
    data : RankingData
    settings : Settings
    by_relevance : ndarray of int64 or None
        Rows query by query, each from its worst to its best item, if they are known.
    """
    check_gains(data, settings)
    # The mean over the pairs of a query does not depend on a factor of all of them.
    if settings.pair_weight == "uniform" or settings.reduction == "query_mean":
        return data
    assert data.y is not None
    gain = label_gains(data.y, settings.gain)
    if by_relevance is None:
        by_relevance = NativeBackend(PairOrder(gain, data.groups)).factor_rows
    ideal = ideal_dcg(gain, data.groups, by_relevance, settings.discount, data.item_weight)
    weight = np.ones(len(ideal)) if data.query_weight is None else data.query_weight
    # A query without gains has no pairs.
    scaled = np.divide(weight, ideal, out=weight.copy(), where=ideal > 0.0)
    return replace(data, query_weight=scaled).with_groups(data.groups)


def ideal_dcg(
    gain: Array,
    groups: QueryGroups,
    by_relevance: Rows,
    discount: str,
    item_weight: Array | None = None,
) -> Array:
    """Return the ideal DCG of each query, over its items of positive weight.

    Parameters
    ----------
    gain : ndarray of shape (n_items,)
        Gains >= 0.
    groups : QueryGroups
    by_relevance : ndarray of int64, shape (n_items,)
        Rows query by query, each from its worst to its best item.
    discount : {"log2", "letor"}
    item_weight : ndarray of shape (n_items,) or None

    Returns
    -------
    ndarray of shape (n_queries,)
    """
    if not gain.size:
        return np.zeros(0)
    sizes, starts = groups.sizes, groups.offsets[:-1]
    there = np.ones(len(gain), dtype=np.bool_)
    if item_weight is not None:
        there = item_weight[by_relevance] > 0.0
    counted = np.cumsum(there)
    rank = np.repeat(counted[groups.offsets[1:] - 1], sizes) - counted + 1  # 1 for the best item
    table = np.append(discounts(discount, int(sizes.max())), 0.0)  # the rank of no item
    gained = np.where(there, gain[by_relevance] * table[rank - 1], 0.0)
    with np.errstate(over="ignore"):  # such weights are refused later
        ideal: Array = np.add.reduceat(gained, starts)
    return ideal
