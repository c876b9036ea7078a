"""Scores of all items in one place: pairs may connect any rows.

The shards make the products with X.  Their scores are put together in one vector, 8 bytes a row;
pairs, losses and solvers work as on data in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._cached import cached_property
from ranksvm._vectors import Array, Rows, add, total
from ranksvm.data.queries import QueryGroups
from ranksvm.data.shards import ShardedMatrix
from ranksvm.maps.matrix import MOST_COLUMNS
from ranksvm.maps.sample import WeightedItems
from ranksvm.sharded.map import ShardedMap
from ranksvm.sharded.sample import choose_rows, sampling_of
from ranksvm.sharded.tasks import (
    Pullback,
    Scores,
    SumMomentsByGroup,
    find_bounds,
    row_hashes,
)

# Sums over groups that are kept in memory, of all features.
MOST_SUMS = 16_000_000


class GatheredMap(ShardedMap):
    """``scores(w) = X w`` and ``pullback(g) = X' g`` for a matrix in shards.

    Parameters
    ----------
    matrix : ShardedMatrix
        Items.
    n_threads : int
        Number of threads for the work that is not done by the shards.
    """

    def __init__(self, matrix: ShardedMatrix, *, n_threads: int = 1) -> None:
        super().__init__(matrix.shards, matrix.shape[0], n_threads)
        self._matrix = matrix
        # For each part: the rows in the sample, their features and their groups.
        self._samples: dict[int, tuple[Rows, Array, QueryGroups]] = {}
        self._diagonals: dict[int, Array] = {}

    def scores(self, w: Array) -> Array:
        self.n_products += 1
        every, begin = np.empty(self._shards.shape[0]), 0
        for part in self._shards.map(Scores(w)):
            every[begin : begin + part.size] = part
            begin += part.size
        rows = self._matrix.rows
        return every if rows is None else every[rows]

    def pullback(self, g: Array) -> Array:
        find_bounds(self._shards)  # raises if a value is not finite
        self.n_products += 1
        if self._matrix.rows is not None:
            every = np.zeros(self._shards.shape[0])
            every[self._matrix.rows] = g
            g = every
        return total(self._shards.map([Pullback(part) for part in self._shards.split(g)]))

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        """As ``MatrixMap.scatter``; with very many groups, a diagonal is around a common mean."""
        n_items, dim = self.shape
        if not self._shards.is_sparse and dim <= MOST_COLUMNS:
            return add(self._scatter_matrix(k, *part) for k, part in enumerate(parts))
        if 2 * n_items < dim:
            return None
        return add(self._scaled_diagonal(k, *part) for k, part in enumerate(parts))

    def _scatter_matrix(self, part: int, weight: Array, groups: QueryGroups) -> Array:
        if part not in self._samples:
            rows = self._sampled_rows(groups)
            within = QueryGroups.from_qid(groups.index[rows], rows.size)
            self._samples[part] = rows, self._matrix[rows], within
        rows, features, within = self._samples[part]
        held = weight[rows]
        flat = _core.scatter(features, held, within.rows, within.offsets, self._threads)
        share = float(held.sum())
        scale = float(weight.sum()) / share if share > 0.0 else 0.0
        return scale * flat.reshape(self.shape[1], -1)

    def _sampled_rows(self, groups: QueryGroups) -> Rows:
        how = sampling_of(*self.shape, groups)
        rows = choose_rows(self._hashes() if how.by_hash else None, groups, how)
        while how.otherwise is not None and not how.is_good(rows.size, groups.n_items):
            how = how.otherwise
            rows = choose_rows(None, groups, how)
        return rows

    def _hashes(self) -> NDArray[np.uint64]:
        found = row_hashes(self._shards)
        return found if self._matrix.rows is None else found[self._matrix.rows]

    def _scaled_diagonal(self, part: int, weight: Array, groups: QueryGroups) -> Array:
        total_weight = float(weight.sum())
        if not total_weight > 0.0:
            return np.zeros(self.shape[1])
        if part not in self._diagonals:
            self._diagonals[part] = self._scatter_diagonal(weight, groups) / total_weight
        return self._diagonals[part] * total_weight

    def _scatter_diagonal(self, weight: Array, groups: QueryGroups) -> Array:
        self.n_products += 2
        n_groups = groups.n_queries
        index = groups.index
        if n_groups * self.shape[1] > MOST_SUMS:
            n_groups, index = 1, np.zeros_like(index)
        mass = np.bincount(index, weight, n_groups)
        every, group = weight, index
        if self._matrix.rows is not None:
            n_rows = self._shards.shape[0]
            every, group = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
            every[self._matrix.rows], group[self._matrix.rows] = weight, index
        parts = zip(self._shards.split(every), self._shards.split(group), strict=True)
        tasks = [SumMomentsByGroup(*part, self._middle) for part in parts]
        sums, diagonal = np.zeros((n_groups, self.shape[1])), np.zeros(self.shape[1])
        for found, some, squares in self._shards.map(tasks):
            sums[found] += some
            diagonal += squares
        inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0.0)
        diagonal -= np.einsum("gj,gj,g->j", sums, sums, inverse)
        return np.maximum(0.0, diagonal)

    @cached_property
    def _middle(self) -> Array:
        """A point near the items, so that squares of differences are accurate; zero if sparse."""
        if self._shards.is_sparse:
            return np.zeros(self.shape[1])
        some = np.arange(0, self.shape[0], max(1, self.shape[0] // 256))
        middle: Array = self._matrix[some].mean(axis=0, dtype=np.float64)
        return middle
