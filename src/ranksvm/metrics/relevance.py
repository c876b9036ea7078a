"""Metrics of binary relevance: average precision, precision and recall at k.

An item is relevant if y > relevant_above.  For a query with R relevant items, h(r) of them among
the first r ranks,

    P@k  = h(k) / k
    R@k  = h(k) / R                                                         (recall)
    AP   = 1/R * sum over the ranks r of relevant items of h(r) / r         (its mean is MAP)
    AP@k = the same over ranks r <= k; still divided by R

Items that were not retrieved have no rank; they only count in R.

Mean over the orders of tied items (McSherry & Najork 2008): take t tied items, v of them relevant,
ranked below b relevant items.  The j-th of them, at rank r, is relevant with probability v / t, and
if it is, (j - 1) (v - 1) / (t - 1) of the relevant ones precede it on average.  So rank r adds

    v / t * (b + 1 + (j - 1) (v - 1) / (t - 1)) / r       to R * AP.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ranksvm import _core
from ranksvm._values import as_float
from ranksvm._vectors import Array
from ranksvm.metrics.checks import check_vector
from ranksvm.metrics.definition import Definition, MeanOrArray, divide
from ranksvm.metrics.ranked import Ranked, Truth
from ranksvm.metrics.rules import Conventions, Empty, Rules, Ties, rules_of


def average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = None,
    relevant_above: float | None = None,
    ties: Ties | None = None,
    empty: Empty | None = None,
    conventions: Conventions = "standard",
    per_query: bool = False,
) -> MeanOrArray:
    """Mean average precision (MAP) over queries.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels; larger is better.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher, -inf marks items that were not retrieved.
    qid : array-like of shape (n_items,) or None, default=None
        Query id of each item, in any row order; None ranks all items together.
    k : int or None, default=None
        Number of top ranks to look at; None for all.
    relevant_above : float or None, default=None
        An item is relevant if y > relevant_above; None means 0.
    ties : {"row_order", "average"} or None, default=None
        Rank items with equal scores in row order (also None), or take the mean over all their
        orders.
    empty : {"skip", "zero", "one"} or None, default=None
        Value of a query without a relevant item; "skip" leaves it out of the mean.  None means
        that of ``conventions``.
    conventions : {"standard", "letor"}, default="standard"
        "standard" sets empty="skip", "letor" empty="zero".  Explicit parameters take precedence.
    per_query : bool, default=False
        Return an array of values by query instead of their mean.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.  Values by query are in order of first appearance; NaN for queries that
        are left out of the mean.

    Examples
    --------
    >>> from ranksvm.metrics import average_precision
    >>> average_precision([2, 0, 1, 0], [0.9, 0.8, 0.3, 0.1])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    rules = rules_of(conventions, k=k, relevant_above=relevant_above, ties=ties, empty=empty)
    return AVERAGE_PRECISION.score(y, scores, qid, rules, per_query)


def median_level_average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    levels: ArrayLike | None = None,
    k: int | None = None,
    ties: Ties | None = None,
    empty: Empty = "zero",
    per_query: bool = False,
) -> MeanOrArray:
    """MAP with the items of at least the median level taken as relevant.

    The MAP of Kuo, Lee & Lin (2014), for labels with many levels.

    Parameters
    ----------
    y, scores, qid, k, ties, per_query
        As in :func:`average_precision`.
    levels : array-like of shape (n,) or None, default=None
        Labels whose distinct values are the levels, in case ``y`` lacks some of them; None for
        ``y`` itself.  The median of an even number of levels is the mean of the middle two.
    empty : {"zero", "skip", "one"}, default="zero"
        Value of a query without a relevant item.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.

    Examples
    --------
    >>> from ranksvm.metrics import median_level_average_precision
    >>> # The levels are 1, 3, 4 and 5, their median is 3.5: the items labelled 5 and 4 count.
    >>> median_level_average_precision([5, 3, 4, 1], [3, 4, 1, 2])
    0.5
    """
    rules = rules_of(k=k, ties=ties, empty=empty)
    if levels is None:
        return MEDIAN_LEVEL_AVERAGE_PRECISION.score(y, scores, qid, rules, per_query)
    known = as_float("levels", check_vector("levels", levels))
    if known.shape[0] == 0:
        raise ValueError("levels must hold at least one label; got none. Use None to take y.")
    rules = replace(rules, relevant_above=_below_median(known))
    return AVERAGE_PRECISION.score(y, scores, qid, rules, per_query)


def precision_at(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int = 10,
    relevant_above: float | None = None,
    ties: Ties | None = None,
    empty: Empty | None = None,
    conventions: Conventions = "standard",
    per_query: bool = False,
) -> MeanOrArray:
    """Mean over queries of the share of relevant items among the first k.

    Parameters
    ----------
    y, scores, qid, relevant_above, ties, empty, conventions, per_query
        As in :func:`average_precision`.
    k : int, default=10
        Number of top ranks to look at; the divisor, even if a query has fewer items.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.

    Examples
    --------
    >>> from ranksvm.metrics import precision_at
    >>> precision_at([2, 0, 1, 0], [0.9, 0.8, 0.3, 0.1], k=2)
    0.5
    """
    if k is None:
        raise ValueError("precision_at needs a number k of top ranks to look at; got None.")
    rules = rules_of(conventions, k=k, relevant_above=relevant_above, ties=ties, empty=empty)
    return PRECISION.score(y, scores, qid, rules, per_query)


def recall_at(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = 10,
    relevant_above: float | None = None,
    ties: Ties | None = None,
    empty: Empty | None = None,
    conventions: Conventions = "standard",
    per_query: bool = False,
) -> MeanOrArray:
    """Mean over queries of the share of the relevant items that are among the first k.

    Parameters
    ----------
    y, scores, qid, relevant_above, ties, empty, conventions, per_query
        As in :func:`average_precision`.
    k : int or None, default=10
        Number of top ranks to look at.  None for all: the share of the relevant items that were
        retrieved, which is 1 if no score is -inf.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.

    Examples
    --------
    >>> from ranksvm.metrics import recall_at
    >>> recall_at([2, 0, 1, 0], [0.9, 0.8, 0.3, 0.1], k=2)  # one of the two relevant items
    0.5
    """
    rules = rules_of(conventions, k=k, relevant_above=relevant_above, ties=ties, empty=empty)
    return RECALL.score(y, scores, qid, rules, per_query)


def _average_precision_values(ranked: Ranked, rules: Rules) -> Array:
    if rules.ties == "average":
        return _expected_precision_values(ranked, rules)
    truth = ranked.truth
    sums, relevant = _core.precision_sums(
        truth.labels,
        rules.relevant_above,
        ranked.order,
        truth.groups.offsets,
        ranked.limits(rules.k),
        truth.n_threads,
    )
    return divide(sums, relevant.astype(np.float64))


def _expected_precision_values(ranked: Ranked, rules: Rules) -> Array:
    """Return the mean over all orders of tied items."""
    truth = ranked.truth
    relevant = (ranked.labels > rules.relevant_above).astype(np.float64)
    running = truth.running_sums(relevant)
    ranks = truth.all.ranks
    shares = ranked.found(_expected_hits(ranked, relevant, running) / ranks)
    if rules.k is not None:
        shares[ranks > rules.k] = 0.0
    total = running[truth.groups.offsets[1:] - 1]
    return divide(truth.all.sums(shares), total)


def _expected_hits(ranked: Ranked, relevant: Array, running: Array) -> Array:
    """By position: probability of a relevant item, times the expected number of them so far."""
    starts = ranked.ties[:-1]
    sizes = np.diff(ranked.ties)
    hits = np.add.reduceat(relevant, starts)
    before = (running - relevant)[starts]
    place = np.arange(relevant.shape[0]) - np.repeat(starts, sizes)  # j - 1
    slope = (hits - 1.0) / np.maximum(sizes - 1, 1)
    expected: Array = np.repeat(before + 1.0, sizes) + place * np.repeat(slope, sizes)
    return np.repeat(hits / sizes, sizes) * expected


def _median_level_values(ranked: Ranked, rules: Rules) -> Array:
    above = _below_median(ranked.truth.labels)
    return _average_precision_values(ranked, replace(rules, relevant_above=above))


def _below_median(labels: Array) -> float:
    """Return the largest number below the median of the distinct values."""
    # np.median would overflow for the largest numbers.
    return float(np.nextafter(np.quantile(np.unique(labels), 0.5), -np.inf))


def _precision_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    share = _hits(ranked, rules) / (truth.all.taken if rules.k is None else rules.k)
    return np.where(truth.largest > rules.relevant_above, share, np.nan)


def _recall_values(ranked: Ranked, rules: Rules) -> Array:
    truth, above = ranked.truth, rules.relevant_above
    total = truth.remembered(
        ("number of relevant items", above),
        lambda: truth.all.sums(_relevant(truth, above)[truth.groups.rows]),
    )
    return divide(_hits(ranked, rules), total)


def _hits(ranked: Ranked, rules: Rules) -> Array:
    """Return the number of relevant items among the first k ranks of each query."""
    truth = ranked.truth
    relevant = _relevant(truth, rules.relevant_above)
    if rules.ties == "average":
        top = truth.first(rules.k)
        found = ranked.tie_mean(relevant[ranked.order])[top.positions]
        return top.sums(ranked.found(found, top.positions))
    return ranked.top_sums(relevant, rules.k)


def _relevant(truth: Truth, above: float) -> Array:
    """Return 1 for relevant items and 0 for the others, by row."""
    return truth.remembered(("relevant", above), lambda: (truth.labels > above).astype(np.float64))


_NEEDS = "a relevant item"
AVERAGE_PRECISION = Definition(
    "average_precision", _average_precision_values, _NEEDS, cutoff="optional"
)
MEDIAN_LEVEL_AVERAGE_PRECISION = Definition(
    "median_level_average_precision",
    _median_level_values,
    "an item of at least the median level",
    cutoff="optional",
    preset=Rules(empty="zero"),
)
PRECISION = Definition("precision_at", _precision_values, _NEEDS, cutoff="required")
RECALL = Definition("recall_at", _recall_values, _NEEDS, cutoff="optional")
