"""Tasks on a Dask cluster: futures, their results, and what to say when they fail.

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
from typing import Any

import numpy as np

from ranksvm._messages import UserError
from ranksvm._text import counted, listed

# Seconds between two looks at the cluster while results are awaited, and how long there may be no
# worker at all.
POLL = 1.0
NO_WORKER_LIMIT = 30.0
# The same for workers that take no tasks because their memory is full; they may recover.
PAUSED_LIMIT = 120.0
# How long a failure waits for the tasks on earlier partitions, so that the first one is named.
SETTLE_LIMIT = 5.0
SETTLE_POLL = 0.02
# Results that are fetched at a time, in the order of the shards.
BATCH = 64
# An argument up to this size travels with each task; a larger one that all tasks share moves once
# to each worker.
SMALL = 8_192
# Larger arguments are sent in pieces: Dask warns about tasks above 10 MB.
PIECE = 4_000_000
# Exceptions that can be made again with a longer message.
PLAIN_ERRORS = (ValueError, TypeError, OSError, MemoryError, OverflowError, RuntimeError)


class WorkersLostError(RuntimeError):
    """The cluster has lost what a fit needs: all its workers, or data that cannot be recomputed."""


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
        wrong = [k for k, future in enumerate(futures) if future.status == "error"]
        earlier = futures[: wrong[0]] if wrong else []
        end = time.monotonic() + SETTLE_LIMIT
        while any(one.status == "pending" for one in earlier) and time.monotonic() < end:
            time.sleep(SETTLE_POLL)
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
        f"the data of {name} is gone and cannot be computed again: it was scattered, its futures "
        "were cancelled, or they belong to another client. Pass a Dask collection or delayed "
        "objects, which can be computed again when a worker is lost; and fit with the client that "
        "has persisted the data."
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
    for kind in (ValueError, OSError):
        if isinstance(error, kind):
            return kind(f"{type(error).__name__}: {text}")
    return RuntimeError(f"{type(error).__name__}: {text}")


# What the workers run.


def same(value: Any) -> Any:
    """Return the value."""
    return value


def unpacked(content: Any) -> Any:
    """Return what ``Engine.packed`` was given."""
    return pickle.loads(content if isinstance(content, bytes) else b"".join(content))
