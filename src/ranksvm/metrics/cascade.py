"""A reader who looks at the items by rank and stops at one: reciprocal ranks.

The reader stops at an item with probability R and reads on otherwise.  The expected reciprocal of
the rank where the reader stops is

    sum over ranks r of  1/r * R_(r) * product over i < r of (1 - R_(i)).

With R = 1 for relevant items (y > relevant_above) and 0 for others this is the reciprocal rank of
the first relevant item; its mean is MRR.  With R = (2^y - 1) / 2^max_grade it is the expected
reciprocal rank (Chapelle, Metzler, Zhang & Grinspan 2009).  The mean over all orders of tied items
comes from the native core.  The reader never comes to items that were not retrieved.
"""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm import _core
from ranksvm._vectors import Array
from ranksvm.metrics.dcg import exp2_gain, need_gains
from ranksvm.metrics.definition import Definition
from ranksvm.metrics.ranked import Ranked
from ranksvm.metrics.rules import Conventions, Empty, Rules, Ties, rules_of

__all__ = [
    "EXPECTED_RECIPROCAL_RANK",
    "RECIPROCAL_RANK",
    "expected_reciprocal_rank",
    "reciprocal_rank",
]


class _CascadeOptions(TypedDict, total=False):
    k: int | None
    ties: Ties | None
    empty: Empty | None
    conventions: Conventions


class ReciprocalRankOptions(_CascadeOptions, total=False):
    """Keywords of :func:`reciprocal_rank`."""

    relevant_above: float | None


class ExpectedReciprocalRankOptions(_CascadeOptions, total=False):
    """Keywords of :func:`expected_reciprocal_rank`."""

    max_grade: float | None


@overload
def reciprocal_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[ReciprocalRankOptions],
) -> float: ...


@overload
def reciprocal_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[ReciprocalRankOptions],
) -> Array: ...


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
) -> float | Array:
    """Reciprocal of the rank of the first relevant item, averaged over queries: MRR.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Utilities; larger is better.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher, and -inf means that the item was not retrieved.
    qid : array-like of shape (n_items,) or None, default=None
        Query of each item, in any row order; None means one global ranking.
    k : int or None, default=None
        0 when there is no relevant item among the first k; None for all.
    relevant_above : float, default=0.0
        An item is relevant when y > relevant_above.
    ties : {"row_order", "average"}, default="row_order"
        Items with equal scores keep the order of their rows; or the mean over all their orders.
    empty : {"skip", "zero", "one"}, default="skip"
        What a query without a relevant item scores.
    conventions : {"standard", "letor"}, default="standard"
        "letor" means empty="zero".  A parameter that is given wins.
    per_query : bool, default=False
        Return one value per query.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1.  By query in order of first appearance, NaN for those left out.

    Examples
    --------
    >>> from ranksvm.metrics import reciprocal_rank
    >>> reciprocal_rank([0, 1, 2], [0.9, 0.8, 0.1])
    0.5
    """
    rules = rules_of(conventions, k=k, relevant_above=relevant_above, ties=ties, empty=empty)
    return RECIPROCAL_RANK.judge(y, scores, qid, rules, per_query)


@overload
def expected_reciprocal_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[ExpectedReciprocalRankOptions],
) -> float: ...


@overload
def expected_reciprocal_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[ExpectedReciprocalRankOptions],
) -> Array: ...


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
) -> float | Array:
    """ERR: the expected reciprocal rank of a reader who stops sooner at better items.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Utilities >= 0, of any size.
    scores, qid, per_query
        As in :func:`reciprocal_rank`.
    k : int or None, default=None
        Number of ranks that count; None for all.
    max_grade : float or None, default=None
        The highest grade there can be: an item of grade y stops the reader with probability
        (2^y - 1) / 2^max_grade.  None takes the largest utility of all queries; give it to compare
        figures of sets in which the highest grade may be missing.
    ties : {"row_order", "average"}, default="row_order"
        Items with equal scores keep the order of their rows; or the mean over all their orders,
        which takes O(t min(t, k)) for t items with equal scores.
    empty : {"skip", "zero", "one"}, default="skip"
        What a query without any positive utility scores.
    conventions : {"standard", "letor"}, default="standard"
        "letor" means empty="zero".  A parameter that is given wins.

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
    return EXPECTED_RECIPROCAL_RANK.judge(y, scores, qid, rules, per_query)


def _reciprocal_rank_values(ranked: Ranked, rules: Rules) -> Array:
    relevant = (ranked.utility > rules.relevant_above).astype(np.float64)
    return _expected_reciprocal(ranked, rules, relevant, ranked.truth.all.sums(relevant) > 0.0)


def _expected_reciprocal_rank_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    need_gains(truth, "expected_reciprocal_rank")
    largest = float(truth.utility.max())
    highest = largest if rules.max_grade is None else rules.max_grade
    if largest > highest:
        row = int(np.argmax(truth.utility))
        raise ValueError(
            f"max_grade must be at least the largest utility; got {highest}, but y is {largest} "
            f"in row {row}."
        )
    stop = exp2_gain(ranked.utility, highest)
    return _expected_reciprocal(ranked, rules, stop, truth.largest > 0.0)


def _expected_reciprocal(
    ranked: Ranked, rules: Rules, stop: Array, defined: NDArray[np.bool_]
) -> Array:
    """By query, from the probabilities to stop by position; NaN where not defined."""
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
    "an item with a positive utility",
    cutoff="optional",
)
