"""Metrics of the cascade model: reciprocal rank and expected reciprocal rank.

A reader goes down the ranking and stops at an item with probability R.  The expected reciprocal of
the rank where the reader stops is

    sum over ranks r of  1/r * R_(r) * product over i < r of (1 - R_(i)).

With R = 1 for relevant items (y > relevant_above) and R = 0 for the others this is the reciprocal
rank of the first relevant item; its mean is MRR.  With R = (2^y - 1) / 2^max_grade it is the
expected reciprocal rank (Chapelle, Metzler, Zhang & Grinspan 2009).  The native core computes the
mean over all orders of tied items.  Items that were not retrieved are never reached.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm import _core
from ranksvm._messages import Param, ParameterError, Row
from ranksvm._vectors import Array
from ranksvm.metrics.dcg import need_gains
from ranksvm.metrics.definition import Definition, MeanOrArray
from ranksvm.metrics.ranked import Ranked
from ranksvm.metrics.rules import Conventions, Empty, Rules, Ties, rules_of
from ranksvm.pairs.gains import exp2_gain


def reciprocal_rank(
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
    """Mean reciprocal rank (MRR) of the first relevant item of each query.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels; larger is better.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher, -inf marks items that were not retrieved.
    qid : array-like of shape (n_items,) or None, default=None
        Query id of each item, in any row order; None ranks all items together.
    k : int or None, default=None
        Number of top ranks to look at: 0 if none of them is relevant.  None for all.
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
    >>> from ranksvm.metrics import reciprocal_rank
    >>> reciprocal_rank([0, 1, 2], [0.9, 0.8, 0.1])
    0.5
    """
    rules = rules_of(conventions, k=k, relevant_above=relevant_above, ties=ties, empty=empty)
    return RECIPROCAL_RANK.score(y, scores, qid, rules, per_query)


def expected_reciprocal_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = None,
    max_grade: float | None = None,
    ties: Ties | None = None,
    empty: Empty | None = None,
    conventions: Conventions = "standard",
    per_query: bool = False,
) -> MeanOrArray:
    """Mean over queries of the expected reciprocal rank (ERR).

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels >= 0, of any size.
    scores, qid, per_query
        As in :func:`reciprocal_rank`.
    k : int or None, default=None
        Number of top ranks to look at; None for all.
    max_grade : float or None, default=None
        Highest possible grade: the reader stops at an item of grade y with probability
        (2^y - 1) / 2^max_grade.  None takes the largest label in ``y``; set it to compare values
        between data sets that may lack the highest grade.
    ties : {"row_order", "average"} or None, default=None
        Rank items with equal scores in row order (also None), or take the mean over all their
        orders, at a cost of O(t min(t, k)) for t items with equal scores.
    empty : {"skip", "zero", "one"} or None, default=None
        Value of a query without a positive label.  None means that of ``conventions``.
    conventions : {"standard", "letor"}, default="standard"
        "standard" sets empty="skip", "letor" empty="zero".  Explicit parameters take precedence.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.

    Examples
    --------
    >>> from ranksvm.metrics import expected_reciprocal_rank
    >>> expected_reciprocal_rank([1, 0], [0.9, 0.1])  # stops at the first item or not at all
    0.5
    """
    rules = rules_of(conventions, k=k, max_grade=max_grade, ties=ties, empty=empty)
    return EXPECTED_RECIPROCAL_RANK.score(y, scores, qid, rules, per_query)


def _reciprocal_rank_values(ranked: Ranked, rules: Rules) -> Array:
    truth, above = ranked.truth, rules.relevant_above
    if rules.ties == "average":
        relevant = (ranked.labels > above).astype(np.float64)
        return _expected_reciprocal(ranked, rules, relevant, truth.largest > above)
    groups = truth.groups
    rank = _core.first_relevant(
        truth.labels,
        above,
        ranked.scores,
        groups.rows,
        groups.offsets,
        ranked.limits(rules.k),
        truth.n_threads,
    )
    values = np.divide(1.0, rank, out=np.zeros(rank.shape), where=rank > 0)
    return np.where(rank < 0, np.nan, values)


def _expected_reciprocal_rank_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    need_gains(truth, "expected_reciprocal_rank")
    largest = float(truth.largest.max())
    highest = largest if rules.max_grade is None else rules.max_grade
    if largest > highest:
        row = int(np.argmax(truth.labels))
        raise ParameterError(
            "{max_grade} must be at least the largest label; got {value}, but y is {largest} in "
            "{row}.",
            max_grade=Param("max_grade"),
            value=highest,
            largest=largest,
            row=Row(row),
        )
    stop = truth.by_label(lambda y: exp2_gain(y, highest))[ranked.order]
    return _expected_reciprocal(ranked, rules, stop, truth.largest > 0.0)


def _expected_reciprocal(
    ranked: Ranked, rules: Rules, stop: Array, defined: NDArray[np.bool_]
) -> Array:
    """Return values by query from the stopping probabilities by position."""
    truth = ranked.truth
    n_items = stop.shape[0]
    ties = ranked.ties if rules.ties == "average" else np.arange(n_items + 1)
    limit = n_items if rules.k is None else min(rules.k, n_items)
    there = _core.cascade(ranked.found(stop), truth.groups.offsets, ties, limit, truth.n_threads)
    return np.where(defined, truth.all.sums(there / truth.all.ranks), np.nan)


RECIPROCAL_RANK = Definition(
    "reciprocal_rank", _reciprocal_rank_values, "a relevant item", cutoff="optional"
)
EXPECTED_RECIPROCAL_RANK = Definition(
    "expected_reciprocal_rank",
    _expected_reciprocal_rank_values,
    "an item with a positive label",
    cutoff="optional",
)
