"""Metrics of pairs of items: pairwise accuracy, AUC, Kendall's tau; and the true rank.

Of the comparable pairs of a query (y_i > y_j), let ``right`` be the number with s_i > s_j,
``wrong`` with s_i < s_j and ``tied`` with s_i = s_j, all exact integers.  Items that were not
retrieved are ranked below all others and tied with each other.

    pairwise accuracy   (right + tied / 2) / (right + wrong + tied)
    AUC                 the same, with relevance (y > relevant_above) in place of y
    Kendall's tau-b     (right - wrong) / sqrt(pairs with different y * pairs with different s)

The *true rank* of an item is 1 + the number of items of its query with a larger y.  The mean
reciprocal rank in Kuo, Lee & Lin (2014, supplement) is the mean over all ranks of the reciprocal
true rank of the item at that rank; the printed formula lacks the "1 +" and divides by zero for the
best items.  Over *all* ranks every item occurs once, so this mean does not depend on the scores;
over the first k ranks it does.  ``reciprocal_true_rank`` computes both.  Items that were not
retrieved add 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._checks import check_choice, check_weights
from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.metrics.definition import Definition, MeanOrArray, divide, fill_empty
from ranksvm.metrics.ranked import Ranked, Truth
from ranksvm.metrics.rules import Empty, Rules, Ties, rules_of
from ranksvm.pairs.accuracy import right_and_total
from ranksvm.pairs.order import PairOrder


def pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    average: Literal["query", "pairs"] = "query",
    empty: Empty = "skip",
    per_query: bool = False,
) -> MeanOrArray:
    """Mean over queries of the share of comparable pairs that the scores order correctly.

    Two items are comparable if they belong to the same query and their labels differ.  A pair
    with equal scores counts as one half.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels; larger is better.  Integers of any size keep their exact order.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher.  -inf marks items that were not retrieved; they are ranked
        below all others and tied with each other.
    qid : array-like of shape (n_items,) or None, default=None
        Query id of each item, in any row order; None ranks all items together.
    sample_weight : array-like of shape (n_items,) or None, default=None
        Item weights >= 0; the weight of a pair is the product of the weights of its items.
    average : {"query", "pairs"}, default="query"
        "query" gives all queries the same weight; "pairs" pools the pairs of all queries and
        ignores ``empty``.
    empty : {"skip", "zero", "one"}, default="skip"
        Value of a query without a comparable pair; "skip" leaves it out of the mean.
    per_query : bool, default=False
        Return an array of values by query, whatever ``average`` is.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1; a random ranking scores 0.5.  Values by query are in order of first
        appearance; NaN for queries that are left out of the mean.

    Raises
    ------
    ValueError
        If there is no comparable pair, or an argument is invalid.

    Examples
    --------
    >>> from ranksvm.metrics import pairwise_accuracy
    >>> pairwise_accuracy([2, 1, 0], [0.5, 0.7, 0.1])  # one of three pairs is wrong
    0.6666666666666666
    """
    check_choice("average", average, ("query", "pairs"))
    rules = rules_of(empty=empty)
    ranked = Truth(y, qid).ranked(scores)
    weight = None
    if sample_weight is not None:
        weight = check_weights(
            "sample_weight", sample_weight, len(ranked.scores), "item", may_be_zero=True
        )
    right, total = _right_and_total(ranked, ranked.truth.level, weight)
    shares = divide(right, total)
    if per_query:
        return fill_empty(shares, rules.empty)
    if average == "query":
        return PAIRWISE_ACCURACY.mean(fill_empty(shares, rules.empty), _NO_PAIR)
    PAIRWISE_ACCURACY.mean(shares, _NO_PAIR)  # raises if there is no pair at all
    return float(right.sum() / total.sum())


def kendall_tau(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    empty: Empty = "skip",
    per_query: bool = False,
) -> MeanOrArray:
    """Mean over queries of Kendall's tau-b between labels and scores.

    Parameters
    ----------
    y, scores, qid, per_query
        As in :func:`pairwise_accuracy`.
    empty : {"skip", "zero", "one"}, default="skip"
        Value of a query in which all labels are equal.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between -1 and 1; 0 for a query with different labels but equal scores, which must not
        be rewarded by leaving the query out.

    Examples
    --------
    >>> from ranksvm.metrics import kendall_tau
    >>> kendall_tau([2, 1, 0], [0.5, 0.7, 0.1])
    0.3333333333333333
    """
    return KENDALL_TAU.score(y, scores, qid, rules_of(empty=empty), per_query)


def auc(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    relevant_above: float = 0.0,
    empty: Empty = "skip",
    per_query: bool = False,
) -> MeanOrArray:
    """Mean over queries of the area under the ROC curve (AUC) of the relevant items.

    Parameters
    ----------
    y, scores, qid, per_query
        As in :func:`pairwise_accuracy`.
    relevant_above : float, default=0.0
        An item is relevant if y > relevant_above.
    empty : {"skip", "zero", "one"}, default="skip"
        Value of a query in which all items are relevant, or none is.

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
    return AUC.score(y, scores, qid, rules, per_query)


def reciprocal_true_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = 1,
    ties: Ties = "row_order",
    per_query: bool = False,
) -> MeanOrArray:
    """Mean over queries of the mean reciprocal true rank of the first k items.

    The true rank of an item is 1 + the number of items of its query with a larger label.

    Parameters
    ----------
    y, scores, qid, per_query
        As in :func:`pairwise_accuracy`.
    k : int or None, default=1
        Number of top ranks to look at, or all of them in a query with fewer items.  None for all:
        the metric of Kuo, Lee & Lin (2014), which is the same for every ranking of all items.
    ties : {"row_order", "average"}, default="row_order"
        Rank items with equal scores in row order, or take the mean over all their orders.

    Returns
    -------
    float, or ndarray of shape (n_queries,)
        Between 0 and 1; with k = 1 it is 1 if a best item is ranked first.

    Examples
    --------
    >>> from ranksvm.metrics import reciprocal_true_rank
    >>> reciprocal_true_rank([3, 5, 4], [0.9, 0.8, 0.1])  # the first item is the third best
    0.3333333333333333
    """
    return RECIPROCAL_TRUE_RANK.score(y, scores, qid, rules_of(k=k, ties=ties), per_query)


def mean_accuracy(ranked: Ranked, weight: Array | None = None) -> float:
    """Return the mean accuracy over the queries with a comparable pair; raise if there is none."""
    shares = divide(*_right_and_total(ranked, ranked.truth.level, weight))
    return PAIRWISE_ACCURACY.mean(shares, _NO_PAIR)


def _right_and_total(
    ranked: Ranked, level: Array, weight: Array | None = None
) -> tuple[Array, Array]:
    """Return the weight of the correct pairs of each query, ties counted half, and of all pairs."""
    if weight is not None:
        truth = ranked.truth
        backend = NativeBackend(PairOrder(level, truth.groups, weight), n_threads=truth.n_threads)
        return right_and_total(backend, ranked.scores)
    counts = ranked.pair_counts(level)
    return counts.right + 0.5 * counts.tied, counts.comparable.astype(np.float64)


def _accuracy_values(ranked: Ranked, rules: Rules) -> Array:
    return divide(*_right_and_total(ranked, ranked.truth.level))


def _auc_values(ranked: Ranked, rules: Rules) -> Array:
    relevant = (ranked.truth.labels > rules.relevant_above).astype(np.float64)
    return divide(*_right_and_total(ranked, relevant))


def _kendall_tau_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    counts = ranked.pair_counts(truth.level)
    sizes = truth.groups.sizes
    scored = sizes * (sizes - 1) // 2 - counts.equal
    scale = np.sqrt(counts.comparable.astype(np.float64) * scored.astype(np.float64))
    excess = (counts.right - counts.wrong).astype(np.float64)
    tau = np.divide(excess, scale, out=np.zeros_like(scale), where=scale > 0.0)
    return np.where(counts.comparable > 0, np.clip(tau, -1.0, 1.0), np.nan)


def _true_rank_values(ranked: Ranked, rules: Rules) -> Array:
    truth = ranked.truth
    reciprocal = truth.remembered("reciprocal true rank", lambda: 1.0 / truth.true_rank)
    top = truth.first(rules.k)
    if rules.ties == "average":
        found = ranked.tie_mean(reciprocal[ranked.order])[top.positions]
        sums = top.sums(ranked.found(found, top.positions))
    else:
        sums = ranked.top_sums(reciprocal, rules.k)
    return sums / top.taken


_COMPARABLE = "a comparable pair (two items with different labels and positive weights)"
_NO_PAIR = "Check that items to be compared have the same query id."
PAIRWISE_ACCURACY = Definition("pairwise_accuracy", _accuracy_values, _COMPARABLE, preset=Rules())
KENDALL_TAU = Definition(
    "kendall_tau",
    _kendall_tau_values,
    "two items with different labels",
    preset=Rules(),
    lowest=-1.0,
)
AUC = Definition("auc", _auc_values, "both relevant and other items", preset=Rules())
RECIPROCAL_TRUE_RANK = Definition(
    "reciprocal_true_rank", _true_rank_values, "an item", cutoff="optional", preset=Rules()
)
