"""Explicit preferences: pairs of a better and a worse item, with a weight for each pair.

Pairs may connect any two items, within a query or across queries, may be repeated, and may
contradict each other.  As the edges of a graph, they divide the items into connected *components*.
Scores of different components are never compared, like those of different queries.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm import _core
from ranksvm._checks import check_weights
from ranksvm._values import refuse_masked
from ranksvm.data.queries import QueryGroups

MOST_ROWS = 2**53  # no array has more


class Preferences(NamedTuple):
    """Pairs of rows of X: ``better[p]`` should be ranked above ``worse[p]``.

    Attributes
    ----------
    better, worse : ndarray of int64, shape (n_pairs,)
        Row numbers, from 0.
    weight : ndarray of float64, shape (n_pairs,), or None
        Weights of the pairs; None means weight 1 for every pair.
    """

    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    weight: NDArray[np.float64] | None = None


def check_preferences(
    better: ArrayLike, worse: ArrayLike, weight: ArrayLike | None, n_items: int | None
) -> Preferences:
    """Check pairs of row numbers and their weights.

    Parameters
    ----------
    better, worse : array-like of shape (n_pairs,)
        Row numbers from 0 to ``n_items - 1``, as integers or integer-valued floats.
    weight : array-like of shape (n_pairs,) or None
        Finite nonnegative weights; None means weight 1 for every pair.
    n_items : int or None
        Number of rows of X; None if it is not known.

    Returns
    -------
    Preferences

    Raises
    ------
    ValueError
        If a row number or a weight is invalid, a pair has the same item twice, there are no pairs,
        or all weights are zero.  The message names the first invalid pair.
    """
    rows = {name: _as_rows(name, v, n_items) for name, v in [("better", better), ("worse", worse)]}
    n_pairs = len(rows["better"])
    if len(rows["worse"]) != n_pairs:
        raise ValueError(
            f"better and worse must have one row number per pair each; got {n_pairs} and "
            f"{len(rows['worse'])}. Pair p is better[p] over worse[p]."
        )
    if not n_pairs:
        raise ValueError("better and worse are empty. Give at least one pair of row numbers.")
    with_itself = rows["better"] == rows["worse"]
    if with_itself.any():
        pair = int(np.argmax(with_itself))
        raise ValueError(
            f"{int(with_itself.sum())} of {n_pairs} pairs prefer an item to itself, first pair "
            f"{pair}: row {rows['better'][pair]} is both better and worse. Drop these pairs."
        )
    weights = None if weight is None else check_weights("weight", weight, n_pairs, "pair")
    return Preferences(rows["better"], rows["worse"], weights)


def count_contradictions(preferences: Preferences) -> int:
    """Count the pairs of items that are preferred both ways, with positive weights.

    Parameters
    ----------
    preferences : Preferences

    Returns
    -------
    int
        Number of sets {i, j}, however often each of the two preferences is repeated.
    """
    n_items = max(int(rows.max(initial=-1)) for rows in preferences[:2]) + 1
    return _pair_list(preferences, n_items).contradictions(1)


def connected_items(preferences: Preferences, n_items: int) -> QueryGroups:
    """Group items that are connected by pairs of positive weight, directly or through others.

    Parameters
    ----------
    preferences : Preferences
    n_items : int
        Number of rows of X.

    Returns
    -------
    QueryGroups
        The connected components.  All items without a pair form one group, although they are not
        compared with each other.
    """
    return components(_pair_list(preferences, n_items), n_items)


def components(pairs: _core.PairList, n_items: int) -> QueryGroups:
    """Return the connected components of a native list of pairs; see :func:`connected_items`."""
    first = pairs.connected(1)
    alone = np.bincount(first, minlength=n_items)[first] == 1  # a component has at least two items
    first[alone] = -1
    return QueryGroups.from_qid(first, n_items)


def paired_items(preferences: Preferences, n_items: int) -> NDArray[np.bool_]:
    """Return for each item whether it is in a pair of positive weight."""
    better, worse, _ = positive_pairs(preferences)
    paired = np.zeros(n_items, dtype=np.bool_)
    paired[better] = paired[worse] = True
    return paired


def positive_pairs(preferences: Preferences) -> Preferences:
    """Return the pairs without those of weight zero."""
    better, worse, weight = preferences
    if weight is None or bool(np.all(weight > 0.0)):
        return preferences
    kept = weight > 0.0
    return Preferences(better[kept], worse[kept], weight[kept])


def preferences_among(
    preferences: Preferences | None, rows: NDArray[np.int64], n_items: int
) -> Preferences | None:
    """Return the pairs of positive weight among ``rows``, renumbered by position in ``rows``."""
    if preferences is None:
        return None
    place = np.full(n_items, -1, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    better, worse, weight = positive_pairs(preferences)
    better, worse = place[better], place[worse]
    kept = (better >= 0) & (worse >= 0)
    if kept.all():
        return Preferences(better, worse, weight)
    return Preferences(better[kept], worse[kept], None if weight is None else weight[kept])


def _pair_list(preferences: Preferences, n_items: int) -> _core.PairList:
    """Return a native list of the pairs of positive weight."""
    rows = positive_pairs(preferences)[:2]
    better, worse = (np.ascontiguousarray(side, dtype=np.int64) for side in rows)
    return _core.PairList(better, worse, None, n_items, 1)


def _as_rows(name: str, values: ArrayLike, n_items: int | None) -> NDArray[np.int64]:
    """Check row numbers; return them as int64."""
    how = "Give the row numbers of X, from 0, one for each pair."
    refuse_masked(name, values)
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be one-dimensional; got a ragged sequence. {how}") from None
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one row number per pair; got shape {array.shape}. "
            f"{how}"
        )
    if not array.size:
        return np.empty(0, dtype=np.int64)
    if array.dtype == object and all(isinstance(value, Integral) for value in array):
        array = np.array([int(value) for value in array])
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold row numbers; got values of type {array.dtype}. {how}")
    if array.dtype.kind == "f":
        wrong = ~(np.isfinite(array) & (array == np.rint(array)))
        if wrong.any():
            pair = int(np.argmax(wrong))
            raise ValueError(
                f"{name} must hold whole numbers; got {array[pair]} in pair {pair} "
                f"({int(wrong.sum())} of {len(array)} pairs). {how}"
            )
    outside = (array < 0) | (array >= (MOST_ROWS if n_items is None else n_items))
    if outside.any():
        pair = int(np.argmax(outside))
        if n_items is None:
            raise ValueError(
                f"{name} must hold row numbers from 0 to 2^53 - 1; got {array[pair]} in pair {pair}"
            )
        raise ValueError(
            f"{name} has row numbers that X does not have: got {array[pair]} in pair {pair}, but X "
            f"has rows 0 to {n_items - 1} ({int(outside.sum())} of {len(array)} pairs). Rows count "
            "from 0; negative numbers do not count from the end."
        )
    return np.ascontiguousarray(array, dtype=np.int64)
