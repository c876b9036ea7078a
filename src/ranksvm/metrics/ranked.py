"""Items sorted by rank: what all metrics are computed from.

A *position* numbers the items query by query, the best one of each query first.  ``Truth`` holds
what follows from the labels alone and is shared by all rankings of the same items; ``Ranked`` is
one ranking of them.  Each order is computed once, when it is first needed.

Items that were not retrieved come last in their query.  They have a position but no rank, so they
contribute zero to a metric (``Ranked.found``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm import _core
from ranksvm._cached import cached_property
from ranksvm._threads import resolve_n_jobs
from ranksvm._values import as_float, as_levels, is_exact
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.metrics.checks import check_scores, check_vector

Index = NDArray[np.int64]
Result = TypeVar("Result")

# Labels 0, 1, ... below this are grades: what depends on a label is computed once for each of them.
_MOST_GRADES = 512


class Top(NamedTuple):
    """The top ranks of every query.

    Attributes
    ----------
    positions : slice or ndarray of int64
        Their positions.
    ranks : ndarray of int64
        1, 2, ... in every query.
    offsets : ndarray of int64, shape (n_queries + 1,)
        Where each query begins in ``ranks``; ends with their number.
    taken : ndarray of int64, shape (n_queries,)
        Number of ranks of each query.
    """

    positions: slice | Index
    ranks: Index
    offsets: Index
    taken: Index

    @property
    def most(self) -> int:
        """Largest number of ranks of a query."""
        return int(self.taken.max())

    def sums(self, values: Array) -> Array:
        """Sum by query."""
        return np.asarray(np.add.reduceat(values, self.offsets[:-1]), dtype=np.float64)


class PairCounts(NamedTuple):
    """Pairs of each query.

    Those with different levels are comparable: ordered correctly, wrongly, or with equal scores.
    ``equal`` counts all pairs with equal scores.
    """

    comparable: Index
    wrong: Index
    tied: Index
    equal: Index

    @property
    def right(self) -> Index:
        return self.comparable - self.wrong - self.tied


class Truth:
    """Labels and queries, as they are given to a metric function.

    If the items are grouped already, ``groups`` takes the place of ``qid``.

    Attributes
    ----------
    y : ndarray of shape (n_items,)
        Labels in their own type.
    groups : QueryGroups
    n_threads : int
    """

    def __init__(
        self,
        y: ArrayLike,
        qid: ArrayLike | None,
        *,
        groups: QueryGroups | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.y: NDArray[Any] = check_vector("y", y)
        if self.y.shape[0] == 0:
            raise ValueError("y and scores must hold at least one item; got none.")
        self.groups = QueryGroups.from_qid(qid, len(self.y)) if groups is None else groups
        self.n_threads = resolve_n_jobs(n_jobs)
        self._remembered: dict[Hashable, Any] = {}

    def remembered(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return what ``compute()`` returned first: the same for all rankings of the items."""
        if key not in self._remembered:
            self._remembered[key] = compute()
        result: Result = self._remembered[key]
        return result

    def ranked(self, scores: ArrayLike, name: str = "scores") -> Ranked:
        """Rank the items by scores."""
        levels, unretrieved = check_scores(name, scores)
        if levels.shape != self.y.shape:
            raise ValueError(
                f"y and {name} must have one value per item each; got {self.y.shape[0]} and "
                f"{levels.shape[0]} values."
            )
        return Ranked(self, levels, unretrieved)

    @cached_property
    def labels(self) -> Array:
        """Labels as float64, by row."""
        return as_float("y", self.y)

    @cached_property
    def level(self) -> Array:
        """Numbers in the exact order of the labels, by row."""
        return self.labels if is_exact(self.y) else as_levels(self.y)

    @cached_property
    def order(self) -> Index:
        """Rows by position in the ideal ranking."""
        return self.rank(self.level)

    @cached_property
    def ideal(self) -> Array:
        """Labels by position in the ideal ranking."""
        return self.labels[self.order]

    @cached_property
    def largest(self) -> Array:
        """Largest label of each query."""
        groups = self.groups
        labels = self.labels if groups.contiguous else self.labels[groups.rows]
        return np.asarray(np.maximum.reduceat(labels, groups.offsets[:-1]), dtype=np.float64)

    @cached_property
    def smallest_row(self) -> int:
        """Row of the smallest label, the first one."""
        return int(np.argmin(self.labels))

    @cached_property
    def grades(self) -> Index | None:
        """Labels as integers, by row, if they are 0, 1, ... and not too many; None otherwise."""
        if not 0.0 <= self.labels[self.smallest_row] <= float(self.largest.max()) < _MOST_GRADES:
            return None
        grades = self.labels.astype(np.int64)
        return grades if np.array_equal(grades, self.labels) else None

    def by_label(self, function: Callable[[Array], Array]) -> Array:
        """Return ``function(labels)``, by row, for a function of every single label."""
        if self.grades is None:
            return function(self.labels)
        return np.asarray(function(np.arange(self.largest.max() + 1.0))[self.grades])

    @cached_property
    def true_rank(self) -> Index:
        """By row: 1 + the number of items of the same query with a larger label."""
        starts = self.ties_of(self.level[self.order])
        first = np.repeat(self.all.ranks[starts[:-1]], np.diff(starts))
        ranks = np.empty_like(first)
        ranks[self.order] = first
        return ranks

    @cached_property
    def all(self) -> Top:
        """All ranks."""
        offsets, sizes = self.groups.offsets, self.groups.sizes
        ranks = np.arange(1, self.groups.n_items + 1) - np.repeat(offsets[:-1], sizes)
        return Top(slice(None), ranks, offsets, sizes)

    def first(self, k: int | None) -> Top:
        """Return the top k ranks of every query; all of them if k is None."""
        if k is None:
            return self.all
        return self.remembered(("first", k), lambda: self._first(k))

    def _first(self, k: int) -> Top:
        taken = np.minimum(self.groups.sizes, min(k, self.groups.n_items))
        offsets = np.concatenate(([0], np.cumsum(taken)))
        ranks = np.arange(1, offsets[-1] + 1) - np.repeat(offsets[:-1], taken)
        positions = ranks - 1 + np.repeat(self.groups.offsets[:-1], taken)
        return Top(positions, ranks, offsets, taken)

    def rank(self, values: Array) -> Index:
        """Return rows by position: largest value of each query first; ties in row order."""
        return _core.rank_items(values, self.groups.rows, self.groups.offsets, self.n_threads)

    def rank_first(self, values: Array, top: Top) -> Index:
        """Return the rows at the top ranks: ``rank(values)[top.positions]``, without the rest."""
        rows, offsets = self.groups.rows, self.groups.offsets
        return _core.rank_first(values, rows, offsets, top.offsets, self.n_threads)

    def ties_of(self, by_position: Array) -> Index:
        """Find where runs of equal values begin inside queries; ends with the number of items.

        Parameters
        ----------
        by_position : ndarray of shape (n_items,)

        Returns
        -------
        ndarray of int64, shape (n_ties + 1,)
        """
        begins = np.empty(by_position.shape[0] + 1, dtype=bool)
        begins[1:-1] = by_position[1:] != by_position[:-1]
        begins[self.groups.offsets] = True
        return np.flatnonzero(begins)

    def running_sums(self, by_position: Array) -> Array:
        """Return cumulative sums within each query."""
        return _core.running_sums(by_position, self.groups.offsets, self.n_threads)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Items ranked by scores.

    Attributes
    ----------
    truth : Truth
    scores : ndarray of shape (n_items,)
        By row: finite numbers in the exact order of the scores given.
    unretrieved : ndarray of bool, shape (n_items,), or None
        By row: whether the score is -inf.  None if none is.
    """

    truth: Truth
    scores: Array
    unretrieved: NDArray[np.bool_] | None = None

    @cached_property
    def order(self) -> Index:
        """Rows by position."""
        return self.truth.rank(self.scores)

    @cached_property
    def labels(self) -> Array:
        """Labels by position."""
        return self.truth.labels[self.order]

    @cached_property
    def ties(self) -> Index:
        """Where runs of equal scores begin; see ``Truth.ties_of``."""
        return self.truth.ties_of(self.scores[self.order])

    def found(self, by_position: Array, positions: slice | Index = slice(None)) -> Array:
        """Set the values of items that were not retrieved to zero.

        Parameters
        ----------
        by_position : ndarray of shape (n_positions,)
            Values at ``positions``.
        positions : slice or ndarray of int64
            All positions, or those of a :class:`Top`.
        """
        if self.unretrieved is None:
            return by_position
        return np.where(self.unretrieved[self.order[positions]], 0.0, by_position)

    def tie_mean(self, by_position: Array) -> Array:
        """Replace every value by the mean over the items of the query with the same score."""
        sizes = np.diff(self.ties)
        sums = np.add.reduceat(by_position, self.ties[:-1])
        return np.repeat(sums / sizes, sizes)

    def limits(self, k: int | None) -> Index:
        """Return how many of the top k ranks of each query have an item that was retrieved."""
        top = self.truth.first(k)
        return top.taken if self.retrieved is None else np.minimum(top.taken, self.retrieved)

    @cached_property
    def retrieved(self) -> Index | None:
        """Number of retrieved items of each query; None if all are."""
        if self.unretrieved is None:
            return None
        groups = self.truth.groups
        found = ~self.unretrieved[groups.rows]
        return np.add.reduceat(found, groups.offsets[:-1], dtype=np.int64)

    def top_sums(self, values: Array, k: int | None, weights: Array | None = None) -> Array:
        """Return the sum over the top k ranks of each query of a value times its rank's weight.

        Parameters
        ----------
        values : ndarray of shape (n_items,)
            By row; those of items that were not retrieved do not count.
        k : int or None
        weights : ndarray or None
            One weight for every rank, the first one first; None for 1.
        """
        truth, top = self.truth, self.truth.first(k)
        if k is None or "order" in self.__dict__:
            rows = self.order[top.positions]
        else:
            rows = truth.rank_first(self.scores, top)
        if weights is None:
            weights = np.ones(top.most)
        limits = self.limits(k)
        return _core.weighted_sums(values, rows, top.offsets, limits, weights, truth.n_threads)

    def pair_counts(self, level: Array) -> PairCounts:
        """Count pairs of items.

        Parameters
        ----------
        level : ndarray of shape (n_items,)
            Level of each item, by row; larger is better.
        """
        truth = self.truth
        return PairCounts(
            *_core.count_ranked_pairs(
                level, self.scores, self.order, truth.groups.offsets, truth.n_threads
            )
        )
