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
from ranksvm._values import as_float, as_levels
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.metrics.checks import check_scores, check_vector

Index = NDArray[np.int64]
Result = TypeVar("Result")


class Top(NamedTuple):
    """The top ranks of every query.

    Attributes
    ----------
    positions : slice or ndarray of int64
        Their positions.
    ranks : ndarray of int64
        1, 2, ... in every query.
    starts : ndarray of int64, shape (n_queries,)
        Where each query begins in ``ranks``.
    taken : ndarray of int64, shape (n_queries,)
        Number of ranks of each query.
    """

    positions: slice | Index
    ranks: Index
    starts: Index
    taken: Index

    def sums(self, values: Array) -> Array:
        """Sum by query."""
        return np.asarray(np.add.reduceat(values, self.starts), dtype=np.float64)


class PairCounts(NamedTuple):
    """Comparable pairs of each query: ordered correctly, wrongly, or with equal scores."""

    right: Index
    wrong: Index
    tied: Index

    @property
    def comparable(self) -> Index:
        return self.right + self.wrong + self.tied


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
        return as_levels(self.y)

    @cached_property
    def order(self) -> Index:
        """Rows by position in the ideal ranking."""
        return self.rank(self.level)

    @cached_property
    def ideal(self) -> Array:
        """Labels by position in the ideal ranking."""
        return self.labels[self.order]

    @property
    def largest(self) -> Array:
        """Largest label of each query."""
        return self.ideal[self.groups.offsets[:-1]]

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
        return Top(slice(None), ranks, offsets[:-1], sizes)

    def first(self, k: int | None) -> Top:
        """Return the top k ranks of every query; all of them if k is None."""
        if k is None:
            return self.all
        return self.remembered(("first", k), lambda: self._first(k))

    def _first(self, k: int) -> Top:
        taken = np.minimum(self.groups.sizes, min(k, self.groups.n_items))
        starts = np.cumsum(taken) - taken
        ranks = np.arange(1, int(taken.sum()) + 1) - np.repeat(starts, taken)
        positions = ranks - 1 + np.repeat(self.groups.offsets[:-1], taken)
        return Top(positions, ranks, starts, taken)

    def rank(self, values: Array, rows: Index | None = None) -> Index:
        """Return rows by position: largest value of each query first.

        Parameters
        ----------
        values : ndarray of shape (n_items,)
            By row.
        rows : ndarray of int64, shape (n_items,), or None
            Rows by position in the order that ties keep; None for row order.
        """
        rows = self.groups.rows if rows is None else rows
        return _core.rank_items(values, rows, self.groups.offsets, self.n_threads)

    def ties_of(self, by_position: Array) -> Index:
        """Find where runs of equal values begin inside queries; ends with the number of items.

        Parameters
        ----------
        by_position : ndarray of shape (n_items,)

        Returns
        -------
        ndarray of int64, shape (n_ties + 1,)
        """
        return self.runs(by_position[1:] != by_position[:-1])

    def runs(self, new: NDArray[np.bool_]) -> Index:
        """Find where runs begin, as :meth:`ties_of`, from whether they end between neighbors."""
        begins = np.empty(new.shape[0] + 2, dtype=bool)
        begins[1:-1] = new
        begins[self.groups.offsets] = True
        return np.flatnonzero(begins)

    def running_sums(self, by_position: Array) -> Array:
        """Return cumulative sums within each query."""
        return _core.running_sums(by_position, self.groups.offsets, self.n_threads)

    def pairs_within(self, starts: Index) -> Index:
        """Count the pairs of items of the same run, by query; runs begin at ``starts``."""
        sizes = np.diff(starts)
        first = np.searchsorted(starts, self.groups.offsets[:-1])
        return np.asarray(np.add.reduceat(sizes * (sizes - 1) // 2, first), dtype=np.int64)


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

    def pair_counts(self, level: Array) -> PairCounts:
        """Count the pairs of items with different levels.

        Parameters
        ----------
        level : ndarray of shape (n_items,)
            Level of each item, by row; larger is better.  Never falls when the label rises.
        """
        truth = self.truth
        all_pairs = truth.pairs_within(truth.groups.offsets)
        comparable = all_pairs - truth.pairs_within(truth.ties_of(level[truth.order]))
        order, tied = self.order, np.zeros_like(comparable)
        if len(self.ties) <= len(order):  # with equal scores: those items by label, best first
            order = truth.rank(self.scores, truth.order)
            same = (np.diff(level[order]) == 0.0) & (np.diff(self.scores[order]) == 0.0)
            tied = truth.pairs_within(self.ties) - truth.pairs_within(truth.runs(~same))
        offsets = truth.groups.offsets
        wrong = _core.count_inversions(level[order], offsets, truth.n_threads)
        return PairCounts(comparable - wrong - tied, wrong, tied)
