"""Discounted cumulative gain.

    DCG@k     = sum over ranks r <= k of gain(y_(r)) * discount(r)
    NDCG@k    = DCG@k over the DCG@k of the ideal ranking, which is by y itself
    mean NDCG = mean over k = 1, ..., n of NDCG@k, for a query of n items

where y_(r) is the utility of the item at rank r (Jarvelin & Kekalainen 2002).  DCG is linear in
the gains, so its mean over all orders of tied items is that of their mean gain.  Items that were
not retrieved gain nothing, and count in n and in the ideal ranking.

2^y overflows for y of some hundreds.  Both sums of a query are divided by a common power of two,
which their ratio does not see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._vectors import Array
from ranksvm.metrics.definition import Definition
from ranksvm.metrics.ranked import Ranked, Truth
from ranksvm.metrics.rules import Conventions, Discount, Empty, Gain, Rules, Short, Ties, rules_of

__all__ = ["MEAN_NDCG", "NDCG", "exp2_gain", "mean_ndcg", "ndcg", "need_gains"]

# 2^y is finite up to y = 1023; the room below is for the sum over the items of a query.
_LARGEST_EXPONENT = 900.0
# 2^-y is zero from here on: nothing is left of the 1 in (2^x - 1) / 2^y.
_FAR = 1_100.0


class MeanNdcgOptions(TypedDict, total=False):
    """Keywords of :func:`mean_ndcg`."""

    gain: Gain | None
    discount: Discount | None
    ties: Ties | None
    empty: Empty | None
    conventions: Conventions


class NdcgOptions(MeanNdcgOptions, total=False):
    """Keywords of :func:`ndcg`."""

    k: int | None
    short: Short | None


@overload
def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[NdcgOptions],
) -> float: ...


@overload
def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[NdcgOptions],
) -> Array: ...


def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = 10,
    gain: Gain | None = None,
    discount: Discount | None = None,
    ties: Ties | None = None,
    empty: Empty | None = None,
    short: Short | None = None,
    conventions: Conventions = "standard",
    per_query: bool = False,
) -> float | Array:
    """Normalised discounted cumulative gain at rank k, averaged over queries.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Utilities >= 0; larger is better.  Of any size: 2^y does not overflow.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher, and -inf means that the item was not retrieved.
    qid : array-like of shape (n_items,) or None, default=None
        Query of each item, in any row order; None means one global ranking.
    k : int or None, default=10
        Number of ranks that count; None for all.
    gain : {"exp2", "linear"}, default="exp2"
        2^y - 1, or y.
    discount : {"log2", "letor"}, default="log2"
        1 / log2(1 + rank); or 1 at ranks 1 and 2 and 1 / log2(rank) after.
    ties : {"row_order", "average"}, default="row_order"
        Items with equal scores keep the order of their rows; or the mean over all their orders.
    empty : {"skip", "zero", "one"}, default="skip"
        What a query without any positive utility scores: nothing (it is left out of the mean),
        0 or 1.
    short : {"as_is", "zero"}, default="as_is"
        What a query with fewer than k items, retrieved or not, scores: the NDCG of those it has,
        or 0.
    conventions : {"standard", "letor"}, default="standard"
        "letor" changes three of the defaults: discount="letor", empty="zero", short="zero".
        A parameter that is given wins over the conventions.
    per_query : bool, default=False
        Return one value per query.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.  By query in order of first appearance, NaN for those left out.

    Raises
    ------
    ValueError
        If every query is left out, or an argument is not as described.

    Examples
    --------
    >>> from ranksvm.metrics import ndcg
    >>> round(ndcg([2, 0, 1], [0.9, 0.8, 0.1]), 4)
    0.9639
    """
    rules = rules_of(
        conventions, k=k, gain=gain, discount=discount, ties=ties, empty=empty, short=short
    )
    return NDCG.judge(y, scores, qid, rules, per_query)


@overload
def mean_ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[MeanNdcgOptions],
) -> float: ...


@overload
def mean_ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[MeanNdcgOptions],
) -> Array: ...


def mean_ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    gain: Gain | None = None,
    discount: Discount | None = None,
    ties: Ties | None = None,
    empty: Empty | None = None,
    conventions: Conventions = "standard",
    per_query: bool = False,
) -> float | Array:
    """Mean of NDCG@k over all ranks k of a query, averaged over queries.

    Parameters
    ----------
    y, scores, qid, gain, discount, ties, empty, per_query
        As in :func:`ndcg`.
    conventions : {"standard", "letor"}, default="standard"
        "letor" gives the MeanNDCG of LETOR 4.0: discount="letor", empty="zero".  A parameter that
        is given wins.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.

    Examples
    --------
    >>> from ranksvm.metrics import mean_ndcg
    >>> round(mean_ndcg([2, 0, 1], [0.9, 0.8, 0.1]), 4)
    0.9301
    """
    rules = rules_of(conventions, gain=gain, discount=discount, ties=ties, empty=empty)
    return MEAN_NDCG.judge(y, scores, qid, rules, per_query)


def _ndcg_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    need_gains(truth, "ndcg")
    top = truth.first(rules.k)
    largest = np.repeat(truth.largest, top.taken)
    gain, discounts = _GAINS[rules.gain], _discounts(rules.discount, top.ranks)
    if rules.ties == "average":
        everywhere = np.repeat(truth.largest, truth.groups.sizes)
        found = ranked.tie_mean(gain(ranked.utility, everywhere))[top.positions]
    else:
        found = gain(truth.utility[ranked.order[top.positions]], largest)
    ideal = top.sums(gain(truth.ideal[top.positions], largest) * discounts)
    found = ranked.found(found, top.positions)
    values = _divide(top.sums(found * discounts), ideal)
    if rules.short == "zero" and rules.k is not None:
        values[(truth.groups.sizes < rules.k) & ~np.isnan(values)] = 0.0
    return values


def _mean_ndcg_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    need_gains(truth, "mean_ndcg")
    top = truth.all
    gain, discounts = _GAINS[rules.gain], _discounts(rules.discount, top.ranks)
    largest = np.repeat(truth.largest, top.taken)
    found = gain(ranked.utility, largest)
    if rules.ties == "average":
        found = ranked.tie_mean(found)
    ideal = truth.running_sums(gain(truth.ideal, largest) * discounts)
    gained = truth.running_sums(ranked.found(found) * discounts)
    values = _divide(gained, ideal)  # NDCG@rank, by position
    return top.sums(values) / top.taken


def need_gains(truth: Truth, name: str) -> None:
    """Refuse negative utilities: they have no gain."""
    negative = truth.utility < 0.0
    if negative.any():
        row = int(np.argmax(negative))
        raise ValueError(
            f"{name} needs utilities >= 0; got {truth.utility[row]} in row {row}. Shift the "
            "utilities, or use pairwise_accuracy, which takes any real numbers."
        )


def exp2_gain(y: Array, shift: Array | float) -> Array:
    """(2^y - 1) / 2^shift, exact where 2^y - 1 would cancel."""
    scale = np.exp2(-shift)
    small = np.expm1(np.log(2.0) * np.minimum(y, 1.0)) * scale
    return np.where(y < 1.0, small, np.exp2(y - shift) - scale)


def _scaled_exp2_gain(y: Array, largest: Array) -> Array:
    """2^y - 1, divided by a power of two where the largest utility of the query is huge."""
    # Where the difference to the largest is a small number, so is the exponent.
    below = largest - y
    shift = np.maximum(0.0, largest - _LARGEST_EXPONENT)
    with np.errstate(over="ignore"):
        gain = exp2_gain(y, shift)
    return np.where(shift < _FAR, gain, np.exp2(_LARGEST_EXPONENT - below))


def _linear_gain(y: Array, largest: Array) -> Array:
    """Divide the utility by the largest one of the query."""
    return y / np.where(largest > 0.0, largest, 1.0)


# Each gain, up to a positive factor per query, from y and the largest y of the item's query.
_GAINS: Mapping[str, Callable[[Array, Array], Array]] = {
    "exp2": _scaled_exp2_gain,
    "linear": _linear_gain,
}


def _discounts(name: str, ranks: NDArray[np.int64]) -> Array:
    table = np.arange(1.0, float(ranks.max()) + 1.0)
    if name == "log2":
        table = 1.0 / np.log2(1.0 + table)
    else:
        table[:2] = 1.0
        table[2:] = 1.0 / np.log2(table[2:])
    return table[ranks - 1]


def _divide(found: Array, ideal: Array) -> Array:
    """NaN where the ideal is 0: no item has a positive gain."""
    return np.divide(found, ideal, out=np.full_like(ideal, np.nan), where=ideal > 0.0)


_NEEDS = "an item with a positive utility"
NDCG = Definition("ndcg", _ndcg_values, _NEEDS, cutoff="optional")
MEAN_NDCG = Definition("mean_ndcg", _mean_ndcg_values, _NEEDS)
