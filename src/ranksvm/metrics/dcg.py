"""Discounted cumulative gain.

    DCG@k     = sum over ranks r <= k of gain(y_(r)) * discount(r)
    NDCG@k    = DCG@k divided by the DCG@k of the ideal ranking, by y itself
    mean NDCG = mean over k = 1, ..., n of NDCG@k, for a query of n items

where y_(r) is the label of the item at rank r (Jarvelin & Kekalainen 2002).  DCG is linear in
the gains, so its mean over all orders of tied items is the DCG of their mean gain.  Items that were
not retrieved have no gain, but count in n and in the ideal ranking.

2^y overflows for y > 1023.  Both sums of a query are divided by the same power of two, which
cancels in their ratio.

:mod:`ranksvm.pairs.gains` has the gains and discounts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._messages import ParameterError, Row
from ranksvm._vectors import Array
from ranksvm.metrics.definition import Definition, MeanOrArray, divide
from ranksvm.metrics.ranked import Ranked, Truth
from ranksvm.metrics.rules import Conventions, Empty, Rules, Short, Ties, rules_of
from ranksvm.pairs.gains import Discount, Gain, discounts, exp2_gain

# 2^y is finite up to y = 1023; this leaves room for the sum over the items of a query.
_LARGEST_EXPONENT = 900.0
# From here on 2^-y is zero, and (2^x - 1) / 2^y is 2^(x - y).
_FAR = 1_100.0


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
) -> MeanOrArray:
    """Mean over queries of the normalized discounted cumulative gain at rank k.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels >= 0, of any size; larger is better.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher, -inf marks items that were not retrieved.
    qid : array-like of shape (n_items,) or None, default=None
        Query id of each item, in any row order; None ranks all items together.
    k : int or None, default=10
        Number of top ranks to look at; None for all.
    gain : {"exp2", "linear"} or None, default=None
        Gain of an item: 2^y - 1 (also None), or y, which suits real-valued and large labels and is
        called "ndcg_linear" where a metric is named.
    discount : {"log2", "letor"} or None, default=None
        Discount of a rank: 1 / log2(1 + rank), or 1 at ranks 1 and 2 and 1 / log2(rank) below.
        None means that of ``conventions``, as for ``empty`` and ``short``.
    ties : {"row_order", "average"} or None, default=None
        Rank items with equal scores in row order (also None), or take the mean over all their
        orders.
    empty : {"skip", "zero", "one"} or None, default=None
        Value of a query without a positive label; "skip" leaves it out of the mean.
    short : {"as_is", "zero"} or None, default=None
        Value of a query with fewer than k items, retrieved or not: the NDCG of all its items, or 0.
    conventions : {"standard", "letor"}, default="standard"
        "standard" sets discount="log2", empty="skip" and short="as_is"; "letor" sets
        discount="letor", empty="zero" and short="zero".  Explicit parameters take precedence.
    per_query : bool, default=False
        Return an array of values by query instead of their mean.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.  Values by query are in order of first appearance; NaN for queries that
        are left out of the mean.

    Raises
    ------
    ValueError
        If every query is left out, or an argument is invalid.

    Examples
    --------
    >>> from ranksvm.metrics import ndcg
    >>> round(ndcg([2, 0, 1], [0.9, 0.8, 0.1]), 4)
    0.9639
    """
    rules = rules_of(
        conventions, k=k, gain=gain, discount=discount, ties=ties, empty=empty, short=short
    )
    return NDCG.score(y, scores, qid, rules, per_query)


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
) -> MeanOrArray:
    """Mean over queries of the mean of NDCG@k over all ranks k.

    Parameters
    ----------
    y, scores, qid, gain, discount, ties, empty, per_query
        As in :func:`ndcg`.
    conventions : {"standard", "letor"}, default="standard"
        "letor" gives the MeanNDCG of LETOR 4.0: it sets discount="letor" and empty="zero".
        Explicit parameters take precedence.

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
    return MEAN_NDCG.score(y, scores, qid, rules, per_query)


def _ndcg_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    need_gains(truth, _name("ndcg", rules))
    gains, k = _gains(truth, rules.gain), rules.k
    # What does not depend on the scores.
    by_rank, ideal = truth.remembered(
        ("ndcg", k, rules.gain, rules.discount), lambda: _ideal(truth, gains, k, rules.discount)
    )
    if rules.ties == "average":
        top = truth.first(k)
        found = ranked.tie_mean(gains[ranked.order])[top.positions]
        gained = top.sums(ranked.found(found, top.positions) * by_rank[top.ranks - 1])
    else:
        gained = ranked.top_sums(gains, k, by_rank)
    values = divide(gained, ideal)
    if rules.short == "zero" and k is not None:
        values[(truth.groups.sizes < k) & ~np.isnan(values)] = 0.0
    return values


def _ideal(truth: Truth, gains: Array, k: int | None, discount: str) -> tuple[Array, Array]:
    """Return the discount of every rank, and the DCG of the labels."""
    by_rank = discounts(discount, truth.first(k).most)
    return by_rank, Ranked(truth, truth.level).top_sums(gains, k, by_rank)


def _gains(truth: Truth, name: str) -> Array:
    """Return the gain of every item, by row."""

    def compute() -> Array:
        gain = _GAINS[name]
        if name == "exp2" and truth.grades is not None:  # the same in all queries
            return truth.by_label(lambda y: gain(y, np.zeros_like(y)))
        return gain(truth.labels, truth.largest[truth.groups.index])

    return truth.remembered(("gains", name), compute)


def _mean_ndcg_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    need_gains(truth, _name("mean_ndcg", rules))
    top, gains = truth.all, _gains(truth, rules.gain)
    weights = discounts(rules.discount, top.most)[top.ranks - 1]
    found = gains[ranked.order]
    if rules.ties == "average":
        found = ranked.tie_mean(found)
    ideal = truth.running_sums(gains[truth.order] * weights)
    gained = truth.running_sums(ranked.found(found) * weights)
    values = divide(gained, ideal)  # NDCG@rank, by position
    return top.sums(values) / top.taken


def _linear_ndcg_values(ranked: Ranked, rules: Rules) -> Array:
    return _ndcg_values(ranked, replace(rules, gain="linear"))


def _linear_mean_ndcg_values(ranked: Ranked, rules: Rules) -> Array:
    return _mean_ndcg_values(ranked, replace(rules, gain="linear"))


def _name(base: str, rules: Rules) -> str:
    return f"{base}_linear" if rules.gain == "linear" else base


def need_gains(truth: Truth, name: str) -> None:
    """Raise if a label is negative."""
    if truth.labels[truth.smallest_row] < 0.0:
        row = int(np.argmax(truth.labels < 0.0))
        raise ParameterError(
            "{name} needs labels >= 0; got {value} in {row}. Shift the labels, or use "
            "pairwise_accuracy, which takes any real numbers.",
            name=name,
            value=truth.labels[row],
            row=Row(row),
        )


def _scaled_exp2_gain(y: Array, largest: Array) -> Array:
    """Compute 2^y - 1, divided by a power of two if the largest label of the query is huge."""
    below = largest - y
    shift = np.maximum(0.0, largest - _LARGEST_EXPONENT)
    with np.errstate(over="ignore"):
        gain = exp2_gain(y, shift)
    return np.where(shift < _FAR, gain, np.exp2(_LARGEST_EXPONENT - below))


def _linear_gain(y: Array, largest: Array) -> Array:
    """Divide the label by the largest one of the query, so that sums cannot overflow."""
    return y / np.where(largest > 0.0, largest, 1.0)


# Gains from y and the largest y of the item's query, up to a positive factor per query.
_GAINS: Mapping[str, Callable[[Array, Array], Array]] = {
    "exp2": _scaled_exp2_gain,
    "linear": _linear_gain,
}


_NEEDS = "an item with a positive label"
NDCG = Definition("ndcg", _ndcg_values, _NEEDS, cutoff="optional")
MEAN_NDCG = Definition("mean_ndcg", _mean_ndcg_values, _NEEDS)
# With the gain as part of the name, which is all that commands and searches know of a metric.
NDCG_LINEAR = Definition("ndcg_linear", _linear_ndcg_values, _NEEDS, cutoff="optional")
MEAN_NDCG_LINEAR = Definition("mean_ndcg_linear", _linear_mean_ndcg_values, _NEEDS)
