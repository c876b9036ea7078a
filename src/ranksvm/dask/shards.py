"""Shards in the memory of the workers of a Dask cluster.

A shard is two futures: its rows, and everything else, which tasks replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm._memory import available_memory
from ranksvm._vectors import Array, Rows
from ranksvm.dask.engine import Engine, unpacked
from ranksvm.data.queries import QueryGroups
from ranksvm.data.shard_memory import choose_kept
from ranksvm.data.shards import RowBlock, RowFacts, Shard, Shards, ShardTask, nbytes, stacked

# Kernel features stay in memory up to this share of the memory of all workers.
FEATURES_SHARE = 0.3
# Rows, and what shards keep from one task to the next, take up to this share.  Dask begins to write
# to disk at 0.6, and tasks need memory, too.
KEPT_SHARE = 0.5
# Rows of queries that several partitions share come to the client for features of the query, up to
# this share of its memory.
TAKEN_SHARE = 0.25


def kept_in_memory(engine: Engine, groups: QueryGroups, n_bytes: int) -> frozenset[str]:
    """Return what shards may keep from one task to the next.

    Parameters
    ----------
    engine : Engine
    groups : QueryGroups
        Queries of all rows.
    n_bytes : int
        Memory that the rows take.
    """
    return choose_kept(KEPT_SHARE * engine.memory() - n_bytes, groups)[0]


class Part(NamedTuple):
    """The futures of one shard.

    Attributes
    ----------
    state : Future of Shard
        Everything but the rows.
    block : Future of Block
        The rows.
    features : tuple of bytes or futures of bytes
        The tasks that make other columns of the rows, one after the other, if these are not kept.
    """

    state: Any
    block: Any
    features: tuple[Any, ...] = ()


@dataclass
class Block:
    """Rows of a partition, and the other columns as they were read.

    Attributes
    ----------
    X : ndarray or CSR matrix
    y : ndarray or None
        Labels.
    codes, ids : ndarray or None
        Queries: numbers by row, and the id of each number.
    item_weight : ndarray or None
    """

    X: Any
    y: Any = None
    codes: Any = None
    ids: Any = None
    item_weight: Array | None = None

    def __sizeof__(self) -> int:
        # Dask decides by this what to move and when to write to disk.
        others = (self.y, self.codes, self.item_weight)
        return nbytes(self.X) + sum(one.nbytes for one in others if one is not None)


class DaskShards(Shards):
    """Shards that the workers of a Dask cluster have in memory.

    Parameters
    ----------
    engine : Engine
    parts : sequence of Part
    names : sequence of str
        Names of the parts in messages.
    sizes : sequence of int
        Number of rows of each.
    n_features : int
    dtype : dtype
    is_sparse : bool
    feature_names : sequence of str or None
        For messages.
    n_bytes : int
        Memory that the rows take.
    """

    def __init__(
        self,
        engine: Engine,
        parts: Sequence[Part],
        names: Sequence[str],
        sizes: Sequence[int],
        n_features: int,
        dtype: Any,
        *,
        is_sparse: bool = False,
        feature_names: Sequence[str] | None = None,
        n_bytes: int = 0,
    ) -> None:
        self.n_bytes = n_bytes
        self._engine = engine
        self._parts = list(parts)
        self._names = list(names)
        self._feature_names = feature_names
        self.sizes = tuple(sizes)
        self.shape = sum(self.sizes), n_features
        self.dtype = np.dtype(dtype)
        self.is_sparse = is_sparse
        self.facts = RowFacts()

    def map(self, tasks: ShardTask | Sequence[ShardTask]) -> Iterator[Any]:
        futures = self._submitted(run_task, tasks)
        for done, result in enumerate(self._engine.results(futures, self._names), start=1):
            if self.progress is not None:
                self.progress(done, len(futures))
            yield result

    def _submitted(
        self, function: Callable[..., Any], tasks: ShardTask | Sequence[ShardTask]
    ) -> list[Any]:
        """Return the futures of ``function(task, state, block, features)`` for all shards."""
        packed = self._packed(tasks)
        pairs = zip(packed, self._parts, strict=True)
        return [self._engine.submit(function, task, *part) for task, part in pairs]

    def _packed(self, tasks: ShardTask | Sequence[ShardTask]) -> list[Any]:
        if isinstance(tasks, Sequence):
            return [self._engine.packed(task) for task in tasks]
        return [self._engine.packed(tasks, shared=True)] * len(self._parts)

    def replaced(self, tasks: ShardTask | Sequence[ShardTask]) -> DaskShards:
        states = self._submitted(run_replacement, tasks)
        pairs = zip(self._parts, states, strict=True)
        return self._like([part._replace(state=state) for part, state in pairs])

    def with_features(
        self,
        tasks: ShardTask | Sequence[ShardTask],
        n_features: int,
        dtype: Any,
        *,
        is_sparse: bool = False,
    ) -> DaskShards:
        size = self.shape[0] * n_features * np.dtype(dtype).itemsize
        if is_sparse:
            size = self.n_bytes  # the features of sparse rows are about as many
        keeps, n_bytes = self.keeps, self.n_bytes
        if is_sparse or size <= FEATURES_SHARE * self._engine.memory():
            assert self.facts.groups is not None
            n_bytes += size  # the rows that the features were made of stay as well
            keeps &= kept_in_memory(self._engine, self.facts.groups, n_bytes)
            blocks = self._submitted(make_features, tasks)
            pairs = zip(self._parts, blocks, strict=True)
            parts = [part._replace(block=block, features=()) for part, block in pairs]
        else:
            added = zip(self._parts, self._packed(tasks), strict=True)
            parts = [part._replace(features=(*part.features, task)) for part, task in added]
        other = DaskShards(
            self._engine, parts, self._names, self.sizes, n_features, dtype, is_sparse=is_sparse,
            n_bytes=n_bytes,
        )  # fmt: skip
        other.inherit(self, same_columns=False)
        other.keeps = keeps
        return other

    def with_copies(self, rows: Rows) -> DaskShards:
        by_shard, place = self.places(rows)
        pieces = [
            self._engine.submit(run_task, self._engine.packed(CopyRows(there)), *part)
            for there, part in zip(by_shard, self._parts, strict=True)
            if there.size
        ]
        joined = self._engine.submit(join_copies, pieces, self._engine.packed(place))
        extra = Part(
            self._engine.submit(state_of_copies, joined),
            self._engine.submit(block_of_copies, joined),
        )
        other = self._like([*self._parts, extra])
        other.sizes = (*self.sizes, rows.size)
        other.shape = self.shape[0] + rows.size, self.shape[1]
        other._names = [*self._names, "the copies of queries that several partitions share"]
        return other

    def most_taken(self) -> float:
        return TAKEN_SHARE * (available_memory() or np.inf)

    def name_of(self, shard: int) -> str:
        return self._names[shard]

    def not_finite(self, shard: int, row: int, column: int, value: float) -> ValueError:
        name = "" if self._feature_names is None else f" ({self._feature_names[column]!r})"
        return ValueError(
            f"X has a value that is not finite: {value} in row {row}, column {column}{name} of "
            f"{self._names[shard]}. Fill in missing values, or drop these rows."
        )

    def _like(self, parts: Sequence[Part]) -> DaskShards:
        other = DaskShards(
            self._engine,
            parts,
            self._names,
            self.sizes,
            self.shape[1],
            self.dtype,
            is_sparse=self.is_sparse,
            feature_names=self._feature_names,
            n_bytes=self.n_bytes,
        )
        other.inherit(self)
        return other


# What the workers run.


def rows_elsewhere() -> RowBlock:
    """Return what stands in for the rows of a shard that are in a block of their own."""
    return RowBlock(_no_rows)


def _no_rows() -> Any:
    raise RuntimeError("the rows of this shard are in another future")


def run_task(task: Any, state: Shard, block: Block, features: Sequence[Any]) -> Any:
    """Run a task on a shard."""
    todo = unpacked(task)
    shard = _with_rows(state, block, features)
    if not shard.rows.is_loaded and todo.needs_items(shard):
        shard.rows.hold(shard.rows.load())  # once, however often the task uses them
    return todo(shard)


def run_replacement(task: Any, state: Shard, block: Block, features: Sequence[Any]) -> Shard:
    """Run a task that returns a shard; the rows stay in their block."""
    made: Shard = run_task(task, state, block, features)
    return replace(made, rows=rows_elsewhere(), memo={})


def make_features(task: Any, state: Shard, block: Block, features: Sequence[Any]) -> Block:
    """Return other columns of the rows."""
    return Block(unpacked(task)(_with_rows(state, block, features)).X)


def _with_rows(state: Shard, block: Block, features: Sequence[Any]) -> Shard:
    """Return the shard with its rows, and with the memo of the state.

    The state itself does not change, except for its memo: another task may use it at the same time.
    """
    rows = rows_elsewhere()
    rows.hold(block.X)
    for task in features:
        base = Shard(rows, state.n_items, query=state.query, n_threads=state.n_threads)
        rows = unpacked(task)(base).rows
    return replace(state, rows=rows)


@dataclass(frozen=True)
class CopyRows:
    """Task: return copies of some rows with their other columns."""

    rows: Rows

    def needs_items(self, shard: Shard) -> bool:
        return True

    def __call__(self, shard: Shard) -> tuple[Any, ...]:
        columns = (shard.y, shard.query, shard.item_weight)
        taken = [None if one is None else one[self.rows] for one in columns]
        return (shard.X[self.rows], *taken, shard.n_threads)


def join_copies(pieces: Sequence[tuple[Any, ...]], place: Any) -> tuple[Any, ...]:
    """Return copies of rows from several shards, in their order."""
    order = unpacked(place)
    X, *columns, threads = zip(*pieces, strict=True)
    joined = [None if one[0] is None else np.concatenate(one)[order] for one in columns]
    return (stacked(X)[order], *joined, threads[0])


def state_of_copies(joined: tuple[Any, ...]) -> Shard:
    """Return everything but the rows of a shard of copies."""
    X, y, query, weight, threads = joined
    return Shard(
        rows_elsewhere(), X.shape[0], y=y, query=query, item_weight=weight, n_threads=threads
    )


def block_of_copies(joined: tuple[Any, ...]) -> Block:
    """Return the rows of a shard of copies."""
    return Block(joined[0])
