"""Items laid out by rank: what all metrics are computed on.

A *position* counts items query by query, the best one of each query first.  ``Truth`` is what the
utilities alone say, and is shared by all rankings of the same items; ``Ranked`` is one ranking of
them.  Everything is sorted when it is first asked for, and once.

Items that were not retrieved stand after all others of their query.  They have a position there
but no rank: what a metric finds at ranks is zero for them (``Ranked.found``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm import _core
from ranksvm._threads import resolve_n_jobs
from ranksvm._values import as_float, as_levels
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.metrics.checks import check_scores, check_vectors, split_scores

__all__ = ["PairCounts", "Ranked", "Top", "Truth"]

Index = NDArray[np.int64]


class Top(NamedTuple):
    """The first ranks of every query.

    Attributes
    ----------
    positions : slice or ndarray of int64
        Where they stand.
    ranks : ndarray of int64
        1, 2, ... in every query.
    starts : ndarray of int64, shape (n_queries,)
        Where each query begins in ``ranks``.
    taken : ndarray of int64, shape (n_queries,)
        Ranks of each query.
    """

    positions: slice | Index
    ranks: Index
    starts: Index
    taken: Index

    def sums(self, values: Array) -> Array:
        """By query."""
        return np.asarray(np.add.reduceat(values, self.starts), dtype=np.float64)


class PairCounts(NamedTuple):
    """Comparable pairs of each query: in the right order, in the wrong one, with equal scores."""

    right: Index
    wrong: Index
    tied: Index

    @property
    def comparable(self) -> Index:
        return self.right + self.wrong + self.tied


@dataclass(frozen=True, eq=False)
class Truth:
    """Utilities and queries.

    Attributes
    ----------
    y : ndarray of shape (n_items,)
        As given; checked.
    groups : QueryGroups
    n_threads : int
    """

    y: NDArray[Any]
    groups: QueryGroups
    n_threads: int = 1

    @cached_property
    def utility(self) -> Array:
        """Utilities as numbers, by row."""
        return as_float("y", self.y)

    @cached_property
    def level(self) -> Array:
        """Numbers in the exact order of the utilities, by row."""
        return as_levels(self.y)

    @cached_property
    def order(self) -> Index:
        """Rows by position in the ideal ranking."""
        return self.rank(self.level)

    @cached_property
    def ideal(self) -> Array:
        """Utilities by position in the ideal ranking."""
        return self.utility[self.order]

    @property
    def largest(self) -> Array:
        """Largest utility of each query."""
        return self.ideal[self.groups.offsets[:-1]]

    @cached_property
    def true_rank(self) -> Index:
        """By row: 1 + the items of the same query with a larger utility."""
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
        """Return the first k ranks, or all."""
        if k is None:
            return self.all
        taken = np.minimum(self.groups.sizes, min(k, self.groups.n_items))
        starts = np.cumsum(taken) - taken
        ranks = np.arange(1, int(taken.sum()) + 1) - np.repeat(starts, taken)
        positions = ranks - 1 + np.repeat(self.groups.offsets[:-1], taken)
        return Top(positions, ranks, starts, taken)

    def rank(self, values: Array) -> Index:
        """Rows by position, the largest value of each query first; equal ones in row order."""
        groups = self.groups
        return _core.rank_items(values, groups.rows, groups.offsets, self.n_threads)

    def ties_of(self, by_position: Array) -> Index:
        """Where runs of equal neighbours begin inside the queries; the number of items at the end.

        Parameters
        ----------
        by_position : ndarray of shape (n_items,)

        Returns
        -------
        ndarray of int64, shape (n_ties + 1,)
        """
        new = np.empty(by_position.shape[0] + 1, dtype=bool)
        new[1:-1] = by_position[1:] != by_position[:-1]
        new[self.groups.offsets] = True
        return np.flatnonzero(new)

    def running_sums(self, by_position: Array) -> Array:
        """Cumulative sums inside the queries."""
        return _core.running_sums(by_position, self.groups.offsets, self.n_threads)

    def query_counts(self, by_tie: Index, starts: Index) -> Index:
        """Add up counts of the runs that begin at ``starts``, by query."""
        first = np.searchsorted(starts, self.groups.offsets[:-1])
        return np.asarray(np.add.reduceat(by_tie, first), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Items ranked by scores.

    Attributes
    ----------
    truth : Truth
    scores : ndarray of shape (n_items,)
        Finite and in the exact order of those given; by row.
    unretrieved : ndarray of bool, shape (n_items,), or None
        Items whose score is -inf; by row.  None if there are none.
    """

    truth: Truth
    scores: Array
    unretrieved: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None) -> Ranked:
        """Check everything; see the functions of the package for what is accepted."""
        truth, scored = check_vectors(y, scores)
        groups = QueryGroups.from_qid(qid, truth.shape[0])
        return cls(Truth(truth, groups, resolve_n_jobs(None)), *split_scores(scored))

    def other(self, scores: ArrayLike, name: str) -> Ranked:
        """Rank the same items by other scores."""
        scored = check_scores(name, scores)
        if scored.shape != self.scores.shape:
            raise ValueError(
                f"{name} must have one value per item; got {scored.shape[0]} values for "
                f"{self.scores.shape[0]} items."
            )
        return Ranked(self.truth, *split_scores(scored))

    @cached_property
    def order(self) -> Index:
        """Rows by position."""
        return self.truth.rank(self.scores)

    @cached_property
    def utility(self) -> Array:
        """Utilities by position."""
        return self.truth.utility[self.order]

    @cached_property
    def ties(self) -> Index:
        """Where runs of equal scores begin; see ``Truth.ties_of``."""
        return self.truth.ties_of(self.scores[self.order])

    def found(self, by_position: Array, positions: slice | Index = slice(None)) -> Array:
        """Set to zero what belongs to items that were not retrieved.

        Parameters
        ----------
        by_position : ndarray of shape (n_positions,)
            Values at ``positions``.
        positions : slice or ndarray of int64
            All, or those of a :class:`Top`.
        """
        if self.unretrieved is None:
            return by_position
        return np.where(self.unretrieved[self.order[positions]], 0.0, by_position)

    def tie_mean(self, by_position: Array) -> Array:
        """Replace every value by the mean over the items with the same score."""
        sizes = np.diff(self.ties)
        sums = np.add.reduceat(by_position, self.ties[:-1])
        return np.repeat(sums / sizes, sizes)

    def pair_counts(self, level: Array) -> PairCounts:
        """Count the pairs with different levels.

        Parameters
        ----------
        level : ndarray of shape (n_items,)
            By row; larger is better.
        """
        truth = self.truth
        up = level[self.order]
        down = -up
        wrong, right = (self._inversions(x, truth.groups.offsets) for x in (up, down))
        starts = self.ties
        if starts.shape[0] == up.shape[0] + 1:  # no two scores are equal
            return PairCounts(right, wrong, np.zeros_like(right))
        tied_wrong, tied_right = (
            truth.query_counts(self._inversions(x, starts), starts) for x in (up, down)
        )
        return PairCounts(right - tied_right, wrong - tied_wrong, tied_right + tied_wrong)

    def _inversions(self, by_position: Array, offsets: Index) -> Index:
        return _core.count_inversions(by_position, offsets, self.truth.n_threads)
