"""Shards in the memory of the workers of a Dask cluster.

Every task is a pure function of futures and of arguments that travel with the task.  Whatever a
worker had when it was lost, the scheduler computes again from the partitions that the user passed.
Nothing is scattered, because scattered data could not be computed again; and there are no sockets,
locks or queues beside those of Dask.
"""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ranksvm._messages import UserError
from ranksvm._text import counted, listed
from ranksvm._vectors import Array, Rows
from ranksvm.data.shards import KEPT, Shard, Shards, ShardTask, nbytes, stacked

# Seconds between two looks at the cluster while results are awaited, and how long there may be no
# worker at all.
POLL = 1.0
NO_WORKER_LIMIT = 30.0
# The same for workers that take no tasks because their memory is full; they may recover.
PAUSED_LIMIT = 120.0
# Results that are fetched at a time, in the order of the shards.
BATCH = 64
# An argument up to this size travels with each task; a larger one that all tasks share moves once
# to each worker.
SMALL = 8_192
# Larger arguments are sent in pieces: Dask warns about tasks above 10 MB.
PIECE = 4_000_000
# Kernel features stay in memory up to this share of the memory of all workers.
FEATURES_SHARE = 0.3
# Exceptions that can be made again with a longer message.
PLAIN_ERRORS = (ValueError, TypeError, OSError, MemoryError, OverflowError, RuntimeError)


class WorkersLostError(RuntimeError):
    """The cluster has lost what a fit needs: all its workers, or data that cannot be recomputed."""


class Part(NamedTuple):
    """The futures of one shard.

    Attributes
    ----------
    state : Future of Shard
        Everything but the rows.
    block : Future of Block
        The rows.
    features : bytes, futures of bytes or None
        The task that makes other columns of the rows, if these are not kept.
    """

    state: Any
    block: Any
    features: Any = None


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


class Engine:
    """A Dask client, and the futures that a fit holds.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self._held: weakref.WeakSet[Any] = weakref.WeakSet()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the future of a function of arguments, some of which may be futures."""
        try:
            future = self.client.submit(function, *arguments, pure=False)
        except Exception as error:
            if self.client.status == "running":
                raise
            raise _gone("the data", self.client.status) from error
        self._held.add(future)
        return future

    def compute(self, delayed: list[Any]) -> list[Any]:
        """Return the futures of delayed objects, which share the work that they have in common."""
        futures: list[Any] = self.client.compute(delayed) if delayed else []
        self._held.update(futures)
        return futures

    def packed(self, value: Any, *, shared: bool = False) -> Any:
        """Return a value as an argument for tasks, which :func:`unpacked` restores.

        ``shared`` if several tasks get it.
        """
        import cloudpickle

        content: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        if len(content) <= (SMALL if shared else PIECE):
            return content
        begins = range(0, len(content), PIECE)
        return [self.submit(same, content[begin : begin + PIECE]) for begin in begins]

    def results(self, futures: Sequence[Any], names: Sequence[str]) -> Iterator[Any]:
        """Yield the results of futures, in order.

        Parameters
        ----------
        futures : sequence of Future
            They are cancelled if not all results are consumed.
        names : sequence of str
            What each future is about, for messages.

        Raises
        ------
        WorkersLostError
            If there is no worker, or the data of a partition is gone.
        Exception
            What a task raised, with the name of its partition.
        """
        done = 0
        with ThreadPoolExecutor(1, thread_name_prefix="ranksvm-dask") as waiter:
            try:
                while done < len(futures):
                    end = min(done + BATCH, len(futures))
                    found = self._gathered(waiter, futures[done:end], names[done:end])
                    done = end
                    yield from found
            finally:
                if done < len(futures):
                    self.cancel(futures[done:])

    def cancel(self, futures: Sequence[Any]) -> None:
        """Cancel tasks; a cluster that cannot be reached has none."""
        with suppress(OSError, RuntimeError, TimeoutError, CancelledError):
            self.client.cancel(list(futures))

    def _gathered(
        self, waiter: ThreadPoolExecutor, futures: Sequence[Any], names: Sequence[str]
    ) -> list[Any]:
        waiting: ThreadFuture[list[Any]] = waiter.submit(self.client.gather, list(futures))
        last_seen = last_running = time.monotonic()
        while True:
            wait([waiting], timeout=POLL)
            if waiting.done():
                error = waiting.exception()
                if error is None:
                    return waiting.result()
                raise self._failure(error, futures, names) from error
            n_workers, n_running = self._n_workers()
            now = time.monotonic()
            last_seen = now if n_workers else last_seen
            last_running = now if n_running else last_running
            lost = [n for f, n in zip(futures, names, strict=True) if f.status != "finished"]
            if now - last_seen > NO_WORKER_LIMIT:
                raise WorkersLostError(
                    f"all workers of the Dask cluster {self._address()} have been lost: for "
                    f"{NO_WORKER_LIMIT:g} s there has been none, and {listed(lost)} cannot be "
                    "worked on. Start workers (client.wait_for_workers(n) waits for them), and fit "
                    "again."
                )
            if n_workers and now - last_running > PAUSED_LIMIT:
                raise WorkersLostError(
                    f"all workers of the Dask cluster {self._address()} have been "
                    f"paused for {PAUSED_LIMIT:g} s because their memory is full, and "
                    f"{listed(lost)} cannot be worked on. Use more workers, or workers with more "
                    "memory."
                )

    def _n_workers(self) -> tuple[int, int]:
        """Return the number of workers, and how many of them take tasks."""
        try:
            n_workers = len(self.client.nthreads())
            n_paused = sum(one.get("status") == "paused" for one in self._workers())
        except OSError:  # not connected
            return 0, 0
        return n_workers, n_workers - n_paused

    def _workers(self) -> list[dict[str, Any]]:
        return list(self.client.scheduler_info(n_workers=-1)["workers"].values())

    def _address(self) -> str:
        scheduler = getattr(self.client, "scheduler", None)
        return str(getattr(scheduler, "address", "(not connected)"))

    def _failure(
        self, error: BaseException, futures: Sequence[Any], names: Sequence[str]
    ) -> BaseException:
        """Return the error to raise when some future has failed: that of the first in order.

        A future may also be lost for the moment, because its worker died, and computed again.
        """
        found = [(future.status, future, name) for future, name in zip(futures, names, strict=True)]
        for status, future, name in found:
            if status == "error":
                with suppress(TimeoutError):
                    error = future.exception(timeout=NO_WORKER_LIMIT) or error
                return located(error, name)
        for status, _, name in found:
            if status == "cancelled":
                return _gone(name, self.client.status)
        return _gone(names[0], self.client.status) if isinstance(error, CancelledError) else error

    def memory(self) -> float:
        """Return the memory of all workers, in bytes; infinite if there is no limit."""
        return float(sum(one.get("memory_limit") or np.inf for one in self._workers()))

    def close(self) -> None:
        """Release all futures, whoever still refers to them; shards cannot be used any more."""
        for future in list(self._held):
            future.release()


def _gone(name: str, status: str) -> WorkersLostError:
    if status != "running":
        return WorkersLostError(
            f"the connection to the Dask scheduler was lost while {name} was worked on. Connect "
            "again, and fit again."
        )
    return WorkersLostError(
        f"the data of {name} is gone and cannot be computed again: it was scattered, or its "
        "futures were cancelled. Pass a Dask collection or delayed objects, which can be computed "
        "again when a worker is lost."
    )


def located(error: BaseException, name: str) -> Exception:
    """Return an error of a worker with the name of the partition after its message.

    Errors of users, and the usual built-in ones, keep their type.
    """
    where = f" (in {name})"
    if isinstance(error, UserError):
        escaped = where.replace("{", "{{").replace("}", "}}")
        return type(error)(error.message.text + escaped, **error.message.parts)
    if type(error).__name__ == "KilledWorker":
        tries = getattr(error, "allowed_failures", 0) + 1
        return WorkersLostError(
            f"{counted(tries, 'worker')} died one after the other while {name} was worked on: it "
            "probably needs more memory than a worker has. Use smaller partitions "
            "(X.repartition, X.rechunk) or workers with more memory; their logs say more. "
            f"Dask's message: {error}"
        )
    text = f"{str(error) or 'no message'}{where}"
    if type(error) in PLAIN_ERRORS:
        return type(error)(text)  # type: ignore[return-value]
    if isinstance(error, ValueError):
        return ValueError(f"{type(error).__name__}: {text}")
    return RuntimeError(f"{type(error).__name__}: {text}")


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
    ) -> None:
        self._engine = engine
        self._parts = list(parts)
        self._names = list(names)
        self._feature_names = feature_names
        self.sizes = tuple(sizes)
        self.shape = sum(self.sizes), n_features
        self.dtype = np.dtype(dtype)
        self.is_sparse = is_sparse
        self.known = {}

    def map(self, tasks: ShardTask | Sequence[ShardTask]) -> Iterator[Any]:
        futures = self._submitted(run_task, tasks)
        for done, result in enumerate(self._engine.results(futures, self._names), start=1):
            if "progress" in self.known:
                self.known["progress"](done, len(futures))
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
        self, task: ShardTask, n_features: int, dtype: Any, *, is_sparse: bool = False
    ) -> DaskShards:
        size = self.shape[0] * n_features * np.dtype(dtype).itemsize
        if is_sparse or size <= FEATURES_SHARE * self._engine.memory():
            blocks = self._submitted(make_features, task)
            pairs = zip(self._parts, blocks, strict=True)
            parts = [part._replace(block=block, features=None) for part, block in pairs]
        else:
            features = self._engine.packed(task, shared=True)
            parts = [part._replace(features=features) for part in self._parts]
        other = DaskShards(
            self._engine, parts, self._names, self.sizes, n_features, dtype, is_sparse=is_sparse
        )
        other.known = {key: self.known[key] for key in KEPT if key in self.known}
        other.keeps = self.keeps
        return other

    def with_copies(self, rows: Rows) -> DaskShards:
        starts = self.starts
        shard_of = np.searchsorted(starts, rows, side="right") - 1
        pieces = []
        for k in np.unique(shard_of).tolist():
            task = self._engine.packed(CopyRows(rows[shard_of == k] - starts[k]))
            pieces.append(self._engine.submit(run_task, task, *self._parts[k]))
        place = np.empty(rows.size, dtype=np.int64)
        place[np.argsort(shard_of, kind="stable")] = np.arange(rows.size)
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

    def not_finite(self, shard: int, row: int, column: int, value: float) -> ValueError:
        name = "" if self._feature_names is None else f" ({self._feature_names[column]!r})"
        return ValueError(
            f"X has a value that is not finite: {value} in row {row} of {self._names[shard]}, "
            f"column {column}{name}. Fill in missing values, or drop these rows."
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
        )
        other.known = self.known  # the rows are the same, except for copies
        other.keeps = self.keeps
        return other


# What the workers run.


def same(value: Any) -> Any:
    """Return the value."""
    return value


def unpacked(content: Any) -> Any:
    """Return what ``Engine.packed`` was given."""
    return pickle.loads(content if isinstance(content, bytes) else b"".join(content))


def no_rows() -> Any:
    """Stand in for the function that loads the rows of a shard; they are in a block."""
    raise RuntimeError("the rows of this shard are in another future")


def run_task(task: Any, state: Shard, block: Block, features: Any) -> Any:
    """Run a task on a shard."""
    todo = unpacked(task)
    shard = _with_rows(state, block, features)
    if not shard.is_loaded and todo.needs_items(shard):
        shard.lend(shard.load())  # once, however often the task uses them
    return todo(shard)


def run_replacement(task: Any, state: Shard, block: Block, features: Any) -> Shard:
    """Run a task that returns a shard; the rows stay in their block."""
    made: Shard = run_task(task, state, block, features)
    bare = _with_source(made, Shard(no_rows, made.n_items))
    bare.memo = {}
    return bare


def make_features(task: Any, state: Shard, block: Block, features: Any) -> Block:
    """Return other columns of the rows."""
    return Block(unpacked(task)(_with_rows(state, block, features)).X)


def _with_rows(state: Shard, block: Block, features: Any) -> Shard:
    """Return the shard with its rows, and with the memo of the state.

    The state itself does not change, except for its memo: another task may use it at the same time.
    """
    base = Shard(no_rows, state.n_items, n_threads=state.n_threads)
    base.lend(block.X)
    return _with_source(state, base if features is None else unpacked(features)(base))


def _with_source(shard: Shard, source: Shard) -> Shard:
    """Return the shard with the rows of another one.

    The private attributes of a shard are about its rows, and no others are.
    """
    made = type(shard).__new__(type(shard))
    rows = {name: value for name, value in source.__dict__.items() if name.startswith("_")}
    made.__dict__.update(shard.__dict__, **rows)
    return made


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
    return Shard(no_rows, X.shape[0], y=y, query=query, item_weight=weight, n_threads=threads)


def block_of_copies(joined: tuple[Any, ...]) -> Block:
    """Return the rows of a shard of copies."""
    return Block(joined[0])
