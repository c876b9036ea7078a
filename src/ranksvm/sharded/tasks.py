"""Tasks on one shard that its score map consists of: products, bounds, samples.

Each is a pure function of the shard and its arguments; see :mod:`ranksvm.data.shards`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._sparse import canonical_csr, is_sparse
from ranksvm._vectors import Array, Rows, dot
from ranksvm.data.column_facts import Columns, find_columns
from ranksvm.data.row_sources import first_not_finite
from ranksvm.data.scaling import Scaling
from ranksvm.data.shards import RowBlock, Shard, ShardedMatrix, Shards
from ranksvm.maps.expansion import Expansion
from ranksvm.maps.matrix import MatrixMap


class Bounds(NamedTuple):
    """What a score map has to know about the rows of a shard; see ``EuclideanMap``.

    ``wrong`` is the first value that is not finite, as (row, column, value), or None.
    """

    longest_row: float
    score_depth: int
    pullback_depth: int
    wrong: tuple[int, int, float] | None


class ItemTask:
    """A task that needs the rows."""

    def needs_items(self, shard: Shard) -> bool:
        return True


def map_of(shard: Shard) -> MatrixMap:
    """Return the score map of the rows of a shard."""
    return MatrixMap(shard.X, n_threads=shard.n_threads)


@dataclass(frozen=True)
class FindBounds(ItemTask):
    """Return the :class:`Bounds` of the rows."""

    def __call__(self, shard: Shard) -> Bounds:
        return bounds_of(map_of(shard), shard.X)


def bounds_of(score_map: MatrixMap, X: Any) -> Bounds:
    """Return the bounds of the rows X, which the map is of."""
    longest = score_map.longest_row
    wrong = None
    if not np.isfinite(longest):
        wrong = first_not_finite(X)
    return Bounds(longest, score_map.score_depth, score_map.pullback_depth, wrong)


@dataclass(frozen=True)
class FindLargest(ItemTask):
    """Return the largest absolute value of each feature."""

    def __call__(self, shard: Shard) -> Array:
        score_map = map_of(shard)
        score_map.sharpen()
        assert score_map.tallest is not None
        return score_map.tallest


@dataclass(frozen=True)
class Scores(ItemTask):
    """Return X w."""

    w: Array

    def __call__(self, shard: Shard) -> Array:
        return map_of(shard).scores(self.w)


@dataclass(frozen=True)
class SeveralScores(ItemTask):
    """Return X w for several w, one row each."""

    weights: Sequence[Array]

    def __call__(self, shard: Shard) -> Array:
        score_map = map_of(shard)
        return np.array([score_map.scores(w) for w in self.weights])


@dataclass(frozen=True)
class Pullback(ItemTask):
    """Return X' g."""

    g: Array

    def __call__(self, shard: Shard) -> Array:
        return map_of(shard).pullback(self.g)


@dataclass(frozen=True)
class HashRows(ItemTask):
    """Return the hash of each row that decides whether it belongs to the sample of a scatter."""

    def __call__(self, shard: Shard) -> NDArray[np.uint64]:
        return _core.hash_rows(shard.X, shard.n_threads)


def row_hashes(shards: Shards) -> NDArray[np.uint64]:
    """Return the hash of each row of all shards; one pass over them, the first time."""
    found: NDArray[np.uint64] = shards.facts.once(
        "hashes", lambda: np.concatenate(list(shards.map(HashRows())))
    )
    return found


@dataclass(frozen=True)
class FindColumns(ItemTask):
    """Return facts about the columns, over rows with these weights; None for equal ones."""

    weight: Array | None = None

    def __call__(self, shard: Shard) -> Columns:
        return find_columns(shard.X, self.weight, shard.n_threads)


@dataclass(frozen=True)
class SumMomentsByGroup(ItemTask):
    """Return weighted sums over the rows of x - middle by group, and of its square.

    The sums are those of the groups that occur, in ascending order, dense or CSR.
    """

    weight: Array
    group: Rows
    middle: Array

    def __call__(self, shard: Shard) -> tuple[Rows, Any, Array]:
        from scipy.sparse import csr_array

        X = shard.X
        groups, code = np.unique(self.group, return_inverse=True)
        n_items = shard.n_items
        by_group = csr_array(
            (self.weight, (code, np.arange(n_items))), shape=(groups.size, n_items)
        )
        if is_sparse(X):
            X = canonical_csr(X).astype(np.float64)
            squares = X.copy()
            squares.data *= X.data
            return groups, by_group @ X, squares.T @ self.weight
        sums, squares = np.zeros((groups.size, X.shape[1])), np.zeros(X.shape[1])
        for begin in range(0, n_items, 1024):
            part = slice(begin, begin + 1024)
            off = X[part] - self.middle
            sums += by_group[:, part] @ off
            squares += np.einsum("i,ij,ij->j", self.weight[part], off, off)
        return groups, sums, squares


@dataclass(frozen=True)
class SumMoments(ItemTask):
    """Return weighted sums of 1, of (x - middle) and of its square over all values of the rows."""

    middle: float
    weight: Array | None

    def __call__(self, shard: Shard) -> Array:
        X = shard.X
        weight = np.ones(shard.n_items) if self.weight is None else self.weight
        total = float(weight.sum()) * X.shape[1]
        if not is_sparse(X):
            by_row = np.empty((2, shard.n_items))
            for begin in range(0, shard.n_items, 1024):
                part = slice(begin, begin + 1024)
                off = X[part] - np.float64(self.middle)
                by_row[:, part] = off.sum(axis=1), np.einsum("ij,ij->i", off, off)
            return np.array([total, dot(weight, by_row[0]), dot(weight, by_row[1])])
        X = canonical_csr(X)
        off = X.data.astype(np.float64) - self.middle
        share = np.repeat(weight, np.diff(X.indptr))
        zeros = total - float(share.sum())  # their weight
        first = dot(share, off) - zeros * self.middle
        return np.array([total, first, dot(share, off * off) + zeros * self.middle**2])


@dataclass(frozen=True)
class KernelScores(ItemTask):
    """Return the scores of an expansion with several coefficient vectors, one row each."""

    expansion: Expansion
    coefs: Sequence[Array]

    def __call__(self, shard: Shard) -> Array:
        return np.array(
            self.expansion.scores_for(shard.X, self.coefs, n_threads=shard.n_threads)
        ).reshape(len(self.coefs), -1)


@dataclass(frozen=True)
class ModelScores(ItemTask):
    """Return the scores of the rows under a model that sees no features of the query."""

    model: Any

    def __call__(self, shard: Shard) -> Array:
        scores: Array = self.model.scores(shard.X, n_threads=shard.n_threads)
        return scores


@dataclass(frozen=True)
class MoveColumns:
    """Put columns of a matrix at other places; the rest is zero."""

    here: Rows
    there: Rows
    n_features: int

    def __call__(self, X: Any, n_threads: int = 1) -> Any:
        if is_sparse(X):
            from scipy.sparse import csr_array

            shape = X.shape[1], self.n_features
            moved = (
                X @ csr_array((np.ones(len(self.here)), (self.here, self.there)), shape)
            ).tocsr()
            moved.sort_indices()
            return moved
        moved = np.zeros((X.shape[0], self.n_features), dtype=X.dtype)
        moved[:, self.there] = X[:, self.here]
        return moved


class Features:
    """Load the features of a shard: ``raw`` of its rows."""

    def __init__(self, shard: Shard, raw: Callable[..., Any]) -> None:
        self._shard = shard
        self._raw = raw

    def __call__(self) -> Any:
        return self._raw(self._shard.X, n_threads=self._shard.n_threads)


@dataclass(frozen=True)
class MakeFeatures:
    """Return a shard with the features of the rows instead of the rows."""

    raw: Callable[..., Any]

    def needs_items(self, shard: Shard) -> bool:
        return False

    def __call__(self, shard: Shard) -> Shard:
        return replace(shard, rows=RowBlock(Features(shard, self.raw)), memo={})


def with_scaling(X: ShardedMatrix, scaling: Scaling) -> ShardedMatrix:
    """Return X with scaled features, which the shards compute from their rows."""
    stays = X.shards.is_sparse and scaling.keeps_zeros
    task = MakeFeatures(scaling.apply)
    shards = X.shards.with_features(task, X.shape[1], np.float64, is_sparse=stays)
    return ShardedMatrix(shards, X.rows)


def find_bounds(shards: Shards) -> Bounds:
    """Return the bounds of all rows, from one pass; raise if a value is not finite."""
    bounds: Bounds = shards.facts.once(
        "bounds", lambda: joint_bounds(list(shards.map(FindBounds())), shards)
    )
    return bounds


def joint_bounds(found: Sequence[Bounds], shards: Shards) -> Bounds:
    """Return the bounds of all shards together; raise if a value is not finite."""
    for k, one in enumerate(found):
        if one.wrong is not None:
            raise shards.not_finite(k, *one.wrong)
    return Bounds(
        max(one.longest_row for one in found),
        max(one.score_depth for one in found),
        max(one.pullback_depth for one in found),
        None,
    )


def find_largest(shards: Shards) -> Array:
    """Return the largest absolute value of each feature, from one pass."""
    largest: Array = shards.facts.once(
        "largest", lambda: np.max(list(shards.map(FindLargest())), axis=0)
    )
    return largest


def with_columns(X: ShardedMatrix, here: Rows, there: Rows, n_features: int) -> ShardedMatrix:
    """Return X with other columns: the column ``here[k]`` becomes ``there[k]``, others are zero."""
    task = MakeFeatures(MoveColumns(here, there, n_features))
    shards = X.shards.with_features(task, n_features, X.dtype, is_sparse=X.shards.is_sparse)
    return ShardedMatrix(shards, X.rows)
