"""Shards of this process, loaded when they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ranksvm._vectors import Rows
from ranksvm.data.shards import RowBlock, RowFacts, Shard, Shards, ShardTask, nbytes, one_each

# Shards that are loaded ahead of the one in use.
AHEAD = 4


class _Allowance:
    """Bytes of X that may still be kept in memory, by all shards with the same rows together."""

    def __init__(self, left: float) -> None:
        self.left = left


class LocalShards(Shards):
    """Shards of this process, loaded when they are needed.

    A thread loads the next shards while a task runs.  The first shards stay in memory as far as
    ``memory`` allows; shards made from these (``replaced``, ``with_copies``) share them.

    Parameters
    ----------
    shards : sequence of Shard
    n_features : int
    dtype : dtype
    is_sparse : bool
    memory : float
        Bytes of X to keep in memory.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        n_features: int,
        dtype: Any,
        *,
        is_sparse: bool = False,
        memory: float = 0.0,
    ) -> None:
        self._shards = list(shards)
        self.sizes = tuple(shard.n_items for shard in shards)
        self.shape = sum(self.sizes), n_features
        self.dtype = np.dtype(dtype)
        self.is_sparse = is_sparse
        self.facts = RowFacts()
        self._allowance = _Allowance(memory)

    def map(self, tasks: ShardTask | Sequence[ShardTask]) -> Iterator[Any]:
        pairs = zip(self._shards, one_each(tasks, len(self._shards)), strict=True)
        todo = [(shard, task, _must_load(shard, task)) for shard, task in pairs]
        waiting = deque(shard for shard, _, must_load in todo if must_load)
        total, done = len(waiting), 0
        loads: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(1, thread_name_prefix="ranksvm-read-ahead") as reader:
            try:
                for shard, task, must_load in todo:
                    if not must_load:
                        yield task(shard)
                        continue
                    while waiting and len(loads) < AHEAD:
                        loads.append(reader.submit(waiting.popleft().rows.load))
                    X = loads.popleft().result()
                    if waiting:
                        loads.append(reader.submit(waiting.popleft().rows.load))
                    shard.rows.hold(X)
                    try:
                        result = task(shard)
                    finally:
                        if not self._stays(X):
                            shard.rows.hold(None)
                        del X
                    done += 1
                    if self.progress is not None:
                        self.progress(done, total)
                    yield result
            finally:
                waiting.clear()
                for load in loads:  # the reader ends after the one that it has begun
                    load.cancel()
                loads.clear()

    def _stays(self, X: Any) -> bool:
        """Return whether these rows can stay in memory, and count them."""
        size = nbytes(X)
        if size > self._allowance.left:
            return False
        self._allowance.left -= size
        return True

    def replaced(self, tasks: ShardTask | Sequence[ShardTask]) -> LocalShards:
        return self._like(list(self.map(tasks)))

    def with_features(
        self,
        tasks: ShardTask | Sequence[ShardTask],
        n_features: int,
        dtype: Any,
        *,
        is_sparse: bool = False,
    ) -> LocalShards:
        shards = list(self.map(tasks))
        other = LocalShards(shards, n_features, dtype, is_sparse=is_sparse)
        other._allowance = self._allowance
        other.inherit(self, same_columns=False)
        return other

    def with_copies(self, rows: Rows) -> LocalShards:
        by_shard, place = self.places(rows)
        X = self.items(rows)

        def of_rows(name: str) -> Any:
            values = [getattr(shard, name) for shard in self._shards]
            if values[0] is None:
                return None
            taken = [one[there] for one, there in zip(values, by_shard, strict=True)]
            return np.concatenate(taken)[place]

        copies = RowBlock(lambda: X)
        copies.hold(X)
        extra = Shard(
            copies,
            rows.size,
            **{name: of_rows(name) for name in ("y", "query", "item_weight")},
            n_threads=self._shards[0].n_threads,
        )
        return self._like([*self._shards, extra])

    def _like(self, shards: list[Shard]) -> LocalShards:
        other = LocalShards(
            shards,
            self.shape[1],
            self.dtype,
            is_sparse=self.is_sparse,
        )
        other._allowance = self._allowance
        other.inherit(self)
        return other


def _must_load(shard: Shard, task: ShardTask) -> bool:
    return not shard.rows.is_loaded and task.needs_items(shard)
