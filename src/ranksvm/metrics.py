"""How good a ranking is.

For query q with items i, utilities y and scores s:

    pairwise accuracy   share of the comparable pairs (y_i > y_j) with s_i > s_j; a tie in s is
                        half a hit
    NDCG@k              DCG@k over the DCG@k of the ideal ranking, where
                        DCG@k = sum over ranks r <= k of gain(y_(r)) / log2(1 + r)

and y_(r) is the utility of the item at rank r, best score first; the ideal ranks by y itself.
Items with equal scores keep the order of their rows.  Both are averaged over queries; each
function says which queries it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.accuracy import pairwise_accuracy as _pairwise_accuracy
from ranksvm.pairs.order import PairOrder

__all__ = ["ndcg", "pairwise_accuracy"]

# 2^y is finite up to y = 1023; the room below is for the sum over the items of a query.
_LARGEST_EXPONENT = 900.0


def pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    average: Literal["query", "pairs"] = "query",
) -> float:
    """Share of the comparable pairs that the scores put in the right order.

    Two items are comparable when they belong to the same query and their utilities differ.
    A pair with equal scores counts one half.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Utilities; larger is better.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher.
    qid : array-like of shape (n_items,) or None, default=None
        Query of each item, in any row order; None means one global ranking.
    sample_weight : array-like of shape (n_items,) or None, default=None
        Weights >= 0; a pair weighs the product of the weights of its two items.
    average : {"query", "pairs"}, default="query"
        "query" averages the accuracies of the queries, each counting the same; "pairs" takes all
        pairs of all queries together.

    Returns
    -------
    float
        Between 0 and 1; a random ranking scores 0.5.  Queries without a comparable pair are left
        out.

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
    _check_option("average", average, ("query", "pairs"))
    y, scores = _check_vectors(y, scores)
    groups = QueryGroups.from_qid(qid, y.shape[0])
    weight = None if sample_weight is None else _check_weight(sample_weight, y.shape[0])
    order = PairOrder(y, groups, weight)
    return _pairwise_accuracy(NativeBackend(order), groups, scores, average)


def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = 10,
    gain: Literal["exp2", "linear"] = "exp2",
    empty: Literal["skip", "zero", "one"] = "skip",
) -> float:
    """Normalised discounted cumulative gain at rank k, averaged over queries.

    The discount is 1 / log2(1 + rank).  Items with equal scores are ranked in the order of their
    rows.  A query with fewer than k items is judged on those it has.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Utilities >= 0; larger is better.  Of any size: the gains of each query are scaled by a
        common factor, which the ratio of the two sums does not see, so 2^y cannot overflow.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher.
    qid : array-like of shape (n_items,) or None, default=None
        Query of each item, in any row order; None means one global ranking.
    k : int or None, default=10
        Number of ranks that count; None for all.
    gain : {"exp2", "linear"}, default="exp2"
        2^y - 1, or y.
    empty : {"skip", "zero", "one"}, default="skip"
        What a query without any positive utility scores: nothing (it is left out of the mean),
        0 (as LETOR's scripts have it), or 1.

    Returns
    -------
    float
        Between 0 and 1.

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
    if k is not None and (isinstance(k, bool) or not isinstance(k, Integral) or k < 1):
        raise ValueError(f"k must be an integer >= 1, or None for all ranks; got {k!r}.")
    _check_option("gain", gain, _GAINS)
    _check_option("empty", empty, _EMPTY)
    y, scores = _check_vectors(y, scores)
    if (y < 0.0).any():
        row = int(np.argmax(y < 0.0))
        raise ValueError(
            f"ndcg needs utilities >= 0; got {y[row]} in row {row}. Shift the utilities, or use "
            "pairwise_accuracy, which takes any real numbers."
        )
    groups = QueryGroups.from_qid(qid, y.shape[0])
    query = groups.index
    top = np.maximum.reduceat(y[groups.rows], groups.offsets[:-1])

    gains = _GAINS[gain](y, top[query])
    ranks = np.arange(y.shape[0]) - np.repeat(groups.offsets[:-1], groups.sizes) + 1
    discounts = 1.0 / np.log2(1.0 + ranks)
    if k is not None:
        discounts[ranks > k] = 0.0
    grouped_query = query[groups.rows]

    def dcg(by: Array) -> Array:
        order = np.lexsort((-by, query))  # stable: equal values stay in row order
        return np.asarray(
            np.bincount(grouped_query, weights=gains[order] * discounts), dtype=np.float64
        )

    ideal = dcg(y)
    relevant = ideal > 0.0
    values = np.full(groups.n_queries, _EMPTY[empty])
    np.divide(dcg(scores), ideal, out=values, where=relevant)
    if empty == "skip":
        values = values[relevant]
    if values.size == 0:
        raise ValueError(
            f"ndcg is not defined here: none of the {groups.n_queries} queries has an item with "
            "a positive utility. Pass empty='zero' or empty='one' to score such queries."
        )
    return float(values.mean())


def _exp2_gain(y: Array, top: Array) -> Array:
    """2^y - 1, divided by a power of two where the largest utility of the query is huge."""
    shift = np.maximum(0.0, top - _LARGEST_EXPONENT)
    small = np.expm1(np.log(2.0) * np.minimum(y, 1.0))  # exact where 2^y - 1 would cancel
    large = np.exp2(y - shift) - np.exp2(-shift)
    return np.where(y < 1.0, small * np.exp2(-shift), large)


def _linear_gain(y: Array, top: Array) -> Array:
    """Divide the utility by the largest one of the query."""
    return y / np.where(top > 0.0, top, 1.0)


# Each gain, up to a positive factor per query, from y and the largest y of the item's query.
_GAINS: Mapping[str, Callable[[Array, Array], Array]] = {
    "exp2": _exp2_gain,
    "linear": _linear_gain,
}
_EMPTY = {"skip": np.nan, "zero": 0.0, "one": 1.0}


def _check_option(name: str, value: object, valid: Iterable[str]) -> None:
    valid = list(valid)
    if value not in valid:
        raise ValueError(f"{name} must be one of {valid}; got {value!r}.")


def _check_vectors(y: ArrayLike, scores: ArrayLike) -> tuple[Array, Array]:
    y, scores = _check_vector("y", y), _check_vector("scores", scores)
    if y.shape != scores.shape:
        raise ValueError(
            f"y and scores must have one value per item each; got {y.shape[0]} and "
            f"{scores.shape[0]} values."
        )
    if y.shape[0] == 0:
        raise ValueError("y and scores must hold at least one item; got none.")
    return y, scores


def _check_weight(weight: ArrayLike, n_items: int) -> Array:
    weight = _check_vector("sample_weight", weight)
    if weight.shape[0] != n_items:
        raise ValueError(
            f"sample_weight must have one weight per item; got {weight.shape[0]} weights for "
            f"{n_items} items."
        )
    if (weight < 0.0).any():
        row = int(np.argmax(weight < 0.0))
        raise ValueError(f"sample_weight must be >= 0; got {weight[row]} in row {row}.")
    return weight


def _check_vector(name: str, values: ArrayLike) -> Array:
    """One-dimensional finite float64."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {array.shape}.")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must hold real numbers; got dtype {array.dtype}.")
    try:
        vector = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers; {error}.") from None
    if not np.isfinite(vector).all():
        row = int(np.argmin(np.isfinite(vector)))
        raise ValueError(f"{name} must be finite; got {vector[row]} in row {row}.")
    return vector
