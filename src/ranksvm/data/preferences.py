"""Explicit preferences: pairs of a better and a worse item, with a weight for each pair.

A *tie* is a pair of two items that should score alike.  It counts as both orders with half of its
weight each.  With d the difference of the two scores, its loss is therefore

    squared hinge   1/2 (1 - d)_+^2 + 1/2 (1 + d)_+^2 = 1 + d^2   for |d| <= 1
    hinge           1/2 (1 - d)_+ + 1/2 (1 + d)_+     = 1         for |d| <= 1

and convex beyond: the squared loss plus a constant, or the distance of |d| from 1 plus a constant.

Pairs may connect any two items, within a query or across queries, may be repeated, and may
contradict each other.  As the edges of a graph, they divide the items into connected *components*.
Scores of different components are never compared, like those of different queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm import _core
from ranksvm._checks import check_weights
from ranksvm._values import refuse_masked
from ranksvm.data.queries import QueryGroups

MOST_ROWS = 2**53  # no array has more


@dataclass(frozen=True, eq=False)
class Preferences:
    """Pairs of rows of X: ``better[p]`` should be ranked above ``worse[p]``.

    Iterating gives ``better, worse, weight``, and is refused if there are ties: use ``preferred``
    and ``ties``.

    Attributes
    ----------
    better, worse : ndarray of int64, shape (n_pairs,)
        Row numbers, from 0.
    weight : ndarray of float64, shape (n_pairs,), or None
        Weights of the pairs; None means weight 1 for every pair.
    query : ndarray of int64, shape (n_pairs,), or None
        Query of each pair: the number that the items have in ``RankingData.groups``, or, for a pair
        across queries, the number of queries.  So all pairs across queries form one more query.
        None: all pairs form one query, apart from those of the data.
    tie : ndarray of bool, shape (n_pairs,), or None
        Which pairs are ties: both items should score alike.  None: no pair is.
    """

    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    weight: NDArray[np.float64] | None = None
    query: NDArray[np.int64] | None = None
    tie: NDArray[np.bool_] | None = None

    def __iter__(self) -> Iterator[Any]:
        if self.n_ties:
            raise ValueError(
                f"{self.n_ties} of {len(self)} pairs are ties, which are passed apart: "
                "fit_pairs(X, *pairs.preferred, ties=pairs.ties)"
            )
        return iter((self.better, self.worse, self.weight))

    def __len__(self) -> int:
        return len(self.better)

    @property
    def n_queries(self) -> int:
        """Number of queries; those without pairs after the last one with pairs are not counted."""
        return 1 if self.query is None else int(self.query.max(initial=-1)) + 1

    @property
    def arrays(self) -> tuple[NDArray[Any] | None, ...]:
        """All arrays that determine the pairs."""
        return (self.better, self.worse, self.weight, self.query) + (
            () if self.tie is None else (self.tie,)
        )

    @property
    def n_ties(self) -> int:
        """Number of ties."""
        return 0 if self.tie is None else int(np.count_nonzero(self.tie))

    @property
    def preferred(self) -> Preferences:
        """The pairs that are not ties."""
        if self.tie is None:
            return self
        return replace(self.take(~self.tie), tie=None)

    @property
    def ties(self) -> tuple[NDArray[Any] | None, ...] | None:
        """The ties as two arrays of row numbers and their weights; None if there are none."""
        if self.tie is None or not self.n_ties:
            return None
        only = self.take(self.tie)
        return only.better, only.worse, only.weight

    def take(self, pairs: NDArray[Any]) -> Preferences:
        """Return some of the pairs: those with these numbers, or where this mask is true."""
        weight, query, tie = (
            None if v is None else v[pairs] for v in (self.weight, self.query, self.tie)
        )
        return Preferences(self.better[pairs], self.worse[pairs], weight, query, tie)

    def with_ties(self, ties: Preferences) -> Preferences:
        """Return these pairs, followed by others as ties."""
        tie = np.zeros(len(self) + len(ties), dtype=np.bool_)
        tie[len(self) :] = True
        weight = None
        if self.weight is not None or ties.weight is not None:
            weight = np.concatenate(
                [np.ones(len(v)) if v.weight is None else v.weight for v in (self, ties)]
            )
        better = np.concatenate([self.better, ties.better])
        worse = np.concatenate([self.worse, ties.worse])
        return Preferences(better, worse, weight, tie=tie)


def check_preferences(
    better: ArrayLike,
    worse: ArrayLike,
    weight: ArrayLike | None,
    n_items: int | None,
    names: tuple[str, str, str] = ("better", "worse", "weight"),
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
    names : tuple of three str
        What messages call ``better``, ``worse`` and ``weight``.

    Returns
    -------
    Preferences

    Raises
    ------
    ValueError
        If a row number or a weight is invalid, a pair has the same item twice, there are no pairs,
        or all weights are zero.  The message names the first invalid pair.
    """
    one, other = (
        as_rows(name, rows, n_items) for name, rows in zip(names, (better, worse), strict=False)
    )
    n_pairs = len(one)
    both = f"{names[0]} and {names[1]}"
    if len(other) != n_pairs:
        raise ValueError(
            f"{both} must have one row number per pair each; got {n_pairs} and "
            f"{len(other)}. Pair p is {names[0]}[p] over {names[1]}[p]."
        )
    if not n_pairs:
        raise ValueError(f"{both} are empty. Give at least one pair of row numbers.")
    with_itself = one == other
    if with_itself.any():
        pair = int(np.argmax(with_itself))
        raise ValueError(
            f"{int(with_itself.sum())} of {n_pairs} pairs prefer an item to itself, first pair "
            f"{pair}: row {one[pair]} is both better and worse. Drop these pairs."
        )
    weights = None if weight is None else check_weights(names[2], weight, n_pairs, "pair")
    return Preferences(one, other, weights)


def count_contradictions(preferences: Preferences) -> int:
    """Count the pairs of items that are preferred both ways, with positive weights; no ties.

    Parameters
    ----------
    preferences : Preferences

    Returns
    -------
    int
        Number of sets {i, j}, however often each of the two preferences is repeated.
    """
    preferences = preferences.preferred
    sides = (preferences.better, preferences.worse)
    n_items = max(int(rows.max(initial=-1)) for rows in sides) + 1
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


def pairs_by_query(preferences: Preferences, groups: QueryGroups) -> Preferences:
    """Return the pairs with the number of their query; see :class:`Preferences`."""
    query = groups.index[preferences.better]
    across = groups.index[preferences.worse] != query
    return replace(preferences, query=np.where(across, groups.n_queries, query))


def first_connected(preferences: Preferences, n_items: int) -> NDArray[np.int64]:
    """Return for each item the first of those that pairs of positive weight connect it with.

    Pairs may have the same item twice.
    """
    return _pair_list(preferences, n_items).connected(1)


def paired_items(preferences: Preferences, n_items: int) -> NDArray[np.bool_]:
    """Return for each item whether it is in a pair of positive weight."""
    kept = positive_pairs(preferences)
    paired = np.zeros(n_items, dtype=np.bool_)
    paired[kept.better] = paired[kept.worse] = True
    return paired


def positive_pairs(
    preferences: Preferences, query_weight: NDArray[np.float64] | None = None
) -> Preferences:
    """Return the pairs without those of weight zero.

    ``query_weight`` has the weights of the queries in the data, if pairs know their queries.
    """
    weights = [] if preferences.weight is None else [preferences.weight]
    if preferences.query is not None and query_weight is not None:
        weights.append(np.append(query_weight, 1.0)[preferences.query])
    for weight in weights:
        if not (weight > 0.0).all():
            return preferences.take(np.all([one > 0.0 for one in weights], axis=0))
    return preferences


def preferences_among(
    preferences: Preferences | None,
    rows: NDArray[np.int64],
    n_items: int,
    queries: NDArray[np.int64],
    n_queries: int,
) -> Preferences | None:
    """Return the pairs of positive weight among some items.

    Parameters
    ----------
    preferences : Preferences or None
        Pairs of all items.
    rows : ndarray of int64
        The items to keep; they are renumbered by position.
    n_items : int
        Number of all items.
    queries : ndarray of int64
        Queries of the kept items; they are renumbered by position, too.
    n_queries : int
        Number of all queries.
    """
    if preferences is None:
        return None
    place = np.full(n_items, -1, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    kept = positive_pairs(preferences)
    better, worse = place[kept.better], place[kept.worse]
    query = kept.query
    if query is not None:
        number = np.full(n_queries + 1, -1, dtype=np.int64)
        number[queries] = np.arange(queries.size)
        number[n_queries] = queries.size  # pairs across queries
        query = number[query]
    among = (better >= 0) & (worse >= 0)
    renumbered = replace(kept, better=better, worse=worse, query=query)
    return renumbered if among.all() else renumbered.take(among)


def _pair_list(preferences: Preferences, n_items: int) -> _core.PairList:
    """Return a native list of the pairs of positive weight."""
    kept = positive_pairs(preferences)
    better, worse = (np.ascontiguousarray(v, dtype=np.int64) for v in (kept.better, kept.worse))
    return _core.PairList(better, worse, None, n_items, 1)


def as_rows(name: str, values: ArrayLike, n_items: int | None) -> NDArray[np.int64]:
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
