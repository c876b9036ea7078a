"""Order against order: metrics that compare items by "better" and "worse" alone.

Of the comparable pairs of a query (y_i > y_j) let ``right`` have s_i > s_j, ``wrong`` s_i < s_j
and ``tied`` s_i = s_j.  All are exact integers.  Items that were not retrieved are below all others
and tied with each other.

    pairwise accuracy   (right + tied / 2) / (right + wrong + tied)
    AUC                 the same, with "relevant" (y > relevant_above) in the place of y
    Kendall's tau-b     (right - wrong) / sqrt(pairs with different y * pairs with different s)

The *true rank* of an item is 1 + the number of items of its query with a larger y.  Kuo, Lee & Lin
(2014, supplement) print a mean reciprocal rank that, read with this "1 +" (without it the best
items divide by zero), is the mean over all ranks of the reciprocal true rank of the item found
there.  Over *all* ranks every item is met once, so that mean does not depend on the scores; over
the first k it does.  ``reciprocal_true_rank`` has both.  Items that were not retrieved add 0.
"""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.metrics.checks import check_weight
from ranksvm.metrics.definition import Definition, fill_empty
from ranksvm.metrics.ranked import PairCounts, Ranked
from ranksvm.metrics.rules import Empty, Rules, Ties, check_choice, rules_of
from ranksvm.pairs.accuracy import right_and_total
from ranksvm.pairs.order import PairOrder

__all__ = [
    "AUC",
    "KENDALL_TAU",
    "PAIRWISE_ACCURACY",
    "RECIPROCAL_TRUE_RANK",
    "auc",
    "kendall_tau",
    "pairwise_accuracy",
    "reciprocal_true_rank",
]


class KendallTauOptions(TypedDict, total=False):
    """Keywords of :func:`kendall_tau`."""

    empty: Empty


class AucOptions(KendallTauOptions, total=False):
    """Keywords of :func:`auc`."""

    relevant_above: float


class PairwiseAccuracyOptions(KendallTauOptions, total=False):
    """Keywords of :func:`pairwise_accuracy`."""

    sample_weight: ArrayLike | None
    average: Literal["query", "pairs"]


class ReciprocalTrueRankOptions(TypedDict, total=False):
    """Keywords of :func:`reciprocal_true_rank`."""

    k: int | None
    ties: Ties


@overload
def pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[PairwiseAccuracyOptions],
) -> float: ...


@overload
def pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[PairwiseAccuracyOptions],
) -> Array: ...


def pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    average: Literal["query", "pairs"] = "query",
    empty: Empty = "skip",
    per_query: bool = False,
) -> float | Array:
    """Share of the comparable pairs that the scores put in the right order.

    Two items are comparable when they belong to the same query and their utilities differ.
    A pair with equal scores counts one half.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Utilities; larger is better.  Integers of any size are told apart.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher.  -inf means that the item was not retrieved: such items are
        below all others, and tied.
    qid : array-like of shape (n_items,) or None, default=None
        Query of each item, in any row order; None means one global ranking.
    sample_weight : array-like of shape (n_items,) or None, default=None
        Weights >= 0; a pair weighs the product of the weights of its two items.
    average : {"query", "pairs"}, default="query"
        "query" averages the accuracies of the queries, each counting the same; "pairs" takes all
        pairs of all queries together, and ``empty`` plays no part.
    empty : {"skip", "zero", "one"}, default="skip"
        What a query without a comparable pair scores.
    per_query : bool, default=False
        Return one value per query, whatever ``average`` says.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1; a random ranking scores 0.5.  By query in order of first appearance, NaN
        for those left out.

    Raises
    ------
    ValueError
        If there is no comparable pair at all, or an argument is not as described.

    Examples
    --------
    >>> from ranksvm.metrics import pairwise_accuracy
    >>> pairwise_accuracy([2, 1, 0], [0.5, 0.7, 0.1])  # one of three pairs is wrong
    0.6666666666666666
    """
    check_choice("average", average, ("query", "pairs"))
    rules = rules_of(empty=empty)
    ranked = Ranked.of(y, scores, qid)
    if sample_weight is None:
        right, total = _right_and_total(ranked.pair_counts(ranked.truth.level))
    else:
        weight = check_weight(sample_weight, ranked.scores.shape[0])
        groups = ranked.truth.groups
        backend = NativeBackend(
            PairOrder(ranked.truth.level, groups, weight), n_threads=ranked.truth.n_threads
        )
        right, total = right_and_total(backend, groups, ranked.scores)
    shares = _share(right, total)
    if per_query:
        return fill_empty(shares, rules.empty)
    if average == "query":
        return PAIRWISE_ACCURACY.mean(fill_empty(shares, rules.empty), _NO_PAIR)
    PAIRWISE_ACCURACY.mean(shares, _NO_PAIR)  # refuses a set without any pair
    return float(right.sum() / total.sum())


@overload
def kendall_tau(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[KendallTauOptions],
) -> float: ...


@overload
def kendall_tau(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[KendallTauOptions],
) -> Array: ...


def kendall_tau(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    empty: Empty = "skip",
    per_query: bool = False,
) -> float | Array:
    """Kendall's rank correlation tau-b of utilities and scores, averaged over queries.

    Parameters
    ----------
    y, scores, qid, per_query
        As in :func:`pairwise_accuracy`.
    empty : {"skip", "zero", "one"}, default="skip"
        What a query scores in which no two utilities differ.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between -1 and 1.  0 where utilities differ but all scores are equal: such scores say
        nothing about the order, and leaving the query out would reward them.

    Examples
    --------
    >>> from ranksvm.metrics import kendall_tau
    >>> kendall_tau([2, 1, 0], [0.5, 0.7, 0.1])
    0.3333333333333333
    """
    return KENDALL_TAU.judge(y, scores, qid, rules_of(empty=empty), per_query)


@overload
def auc(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[AucOptions],
) -> float: ...


@overload
def auc(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[AucOptions],
) -> Array: ...


def auc(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    relevant_above: float = 0.0,
    empty: Empty = "skip",
    per_query: bool = False,
) -> float | Array:
    """Area under the ROC curve of relevant against other items, averaged over queries.

    Parameters
    ----------
    y, scores, qid, per_query
        As in :func:`pairwise_accuracy`.
    relevant_above : float, default=0.0
        An item is relevant when y > relevant_above.
    empty : {"skip", "zero", "one"}, default="skip"
        What a query scores whose items are all relevant, or all not.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1; a random ranking scores 0.5.

    Examples
    --------
    >>> from ranksvm.metrics import auc
    >>> auc([2, 0, 1, 0], [0.9, 0.8, 0.3, 0.1])
    0.75
    """
    rules = rules_of(relevant_above=relevant_above, empty=empty)
    return AUC.judge(y, scores, qid, rules, per_query)


@overload
def reciprocal_true_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[ReciprocalTrueRankOptions],
) -> float: ...


@overload
def reciprocal_true_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[ReciprocalTrueRankOptions],
) -> Array: ...


def reciprocal_true_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = 1,
    ties: Ties = "row_order",
    per_query: bool = False,
) -> float | Array:
    """Mean reciprocal of the true ranks of the first k items, averaged over queries.

    Parameters
    ----------
    y, scores, qid, per_query
        As in :func:`pairwise_accuracy`.
    k : int or None, default=1
        Number of ranks that count, in a shorter query all that there are.  None for all: the
        formula of Kuo, Lee & Lin as printed, the same for every ranking of all items.
    ties : {"row_order", "average"}, default="row_order"
        Items with equal scores keep the order of their rows; or the mean over all their orders.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1; with k = 1 it is 1 when a best item comes first.

    Examples
    --------
    >>> from ranksvm.metrics import reciprocal_true_rank
    >>> reciprocal_true_rank([3, 5, 4], [0.9, 0.8, 0.1])  # the first item is the third best
    0.3333333333333333
    """
    return RECIPROCAL_TRUE_RANK.judge(y, scores, qid, rules_of(k=k, ties=ties), per_query)


def _right_and_total(counts: PairCounts) -> tuple[Array, Array]:
    return counts.right + 0.5 * counts.tied, counts.comparable.astype(np.float64)


def _share(right: Array, total: Array) -> Array:
    share: Array = np.full(total.shape, np.nan)
    return np.divide(right, total, out=share, where=total > 0.0)


def _accuracy_values(ranked: Ranked, rules: Rules) -> Array:
    return _share(*_right_and_total(ranked.pair_counts(ranked.truth.level)))


def _auc_values(ranked: Ranked, rules: Rules) -> Array:
    relevant = (ranked.truth.utility > rules.relevant_above).astype(np.float64)
    return _share(*_right_and_total(ranked.pair_counts(relevant)))


def _kendall_tau_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    counts = ranked.pair_counts(truth.level)
    sizes, tie_sizes = truth.groups.sizes, np.diff(ranked.ties)
    tied_pairs = truth.query_counts(tie_sizes * (tie_sizes - 1) // 2, ranked.ties)
    scored = sizes * (sizes - 1) // 2 - tied_pairs
    scale = np.sqrt(counts.comparable.astype(np.float64) * scored.astype(np.float64))
    excess = (counts.right - counts.wrong).astype(np.float64)
    tau = np.divide(excess, scale, out=np.zeros_like(scale), where=scale > 0.0)
    return np.where(counts.comparable > 0, np.clip(tau, -1.0, 1.0), np.nan)


def _true_rank_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    reciprocal: Array = 1.0 / truth.true_rank[ranked.order]
    if rules.ties == "average":
        reciprocal = ranked.tie_mean(reciprocal)
    top = truth.first(rules.k)
    return top.sums(ranked.found(reciprocal[top.positions], top.positions)) / top.taken


_COMPARABLE = "a comparable pair (two items with different utilities, of positive weight)"
_NO_PAIR = "Check that qid puts the items that are to be compared into the same query."
PAIRWISE_ACCURACY = Definition("pairwise_accuracy", _accuracy_values, _COMPARABLE, preset=Rules())
KENDALL_TAU = Definition(
    "kendall_tau",
    _kendall_tau_values,
    "two items with different utilities",
    preset=Rules(),
    lowest=-1.0,
)
AUC = Definition("auc", _auc_values, "both relevant and other items", preset=Rules())
RECIPROCAL_TRUE_RANK = Definition(
    "reciprocal_true_rank", _true_rank_values, "an item", cutoff="optional", preset=Rules()
)
