"""Threads: how many to use, and functions that run in several at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

from ranksvm._checks import is_integer
from ranksvm._cores import available_cores
from ranksvm._messages import Param, ParameterError, Value

MOST_THREADS = 1024
# Seconds between checks for an interrupt: a signal does not always wake a waiting thread.  It may
# arrive just before the wait, or another library's handler may resume it.
_LOOK_UP = 0.1

Result = TypeVar("Result")


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Return the number of threads for an ``n_jobs`` parameter.

    None and -1 mean all cores that the process may use (see :mod:`ranksvm._cores`).  Other negative
    numbers leave cores free: -2 means all but one.
    """
    if n_jobs is None:
        return available_cores()
    if not is_integer(n_jobs) or n_jobs == 0:
        raise ParameterError(
            "{name} must be None or an integer other than 0; got {value}",
            name=Param("n_jobs"),
            value=Value(n_jobs),
        )
    n_jobs = int(n_jobs)
    if n_jobs < 0:
        return max(1, available_cores() + 1 + n_jobs)
    return min(n_jobs, MOST_THREADS)


def run_in_parallel(
    calls: Sequence[Callable[[], Result]],
    n_workers: int,
    stop: threading.Event,
    meanwhile: Callable[[], Any] = lambda: None,
) -> list[Result]:
    """Call functions in threads; native code releases Python's global lock.

    If one of them fails or the user interrupts, ``stop`` is set, those that have not started are
    cancelled, and the error is raised when the others have ended.  The calling thread calls
    ``meanwhile`` several times a second.
    """
    # Imported here because reading a model and predicting need no pool.
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    with ThreadPoolExecutor(n_workers, thread_name_prefix="ranksvm-worker") as pool:
        try:
            futures = [pool.submit(call) for call in calls]
            running = set(futures)
            while running:
                done, running = wait(running, _LOOK_UP, return_when=FIRST_EXCEPTION)
                meanwhile()
                for future in done:
                    future.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]


class _BlasLimit:
    """The limit of one BLAS thread: the first block sets it, the last one lifts it."""

    lock = threading.Lock()
    n_blocks = 0
    limiter: Any = None


def _after_fork() -> None:
    """Forget the blocks of the parent's threads; the next block lifts the limit at its end."""
    _BlasLimit.n_blocks = 0
    _BlasLimit.lock.release()


if hasattr(os, "register_at_fork"):  # a child process must not inherit a lock that is held
    os.register_at_fork(
        before=_BlasLimit.lock.acquire,
        after_in_parent=_BlasLimit.lock.release,
        after_in_child=_after_fork,
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS of NumPy and SciPy to one thread inside the block, for the whole process.

    Use it for work that alternates between our threads and small factorizations: BLAS threads keep
    spinning for some time after each call, on the cores that our threads need.
    """
    with _BlasLimit.lock:
        if _BlasLimit.limiter is None:
            _BlasLimit.limiter = _controller().limit(limits=1, user_api="blas").__enter__()
        _BlasLimit.n_blocks += 1
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.n_blocks = max(0, _BlasLimit.n_blocks - 1)  # a fork may have set it to 0
            if _BlasLimit.n_blocks == 0 and _BlasLimit.limiter is not None:
                _BlasLimit.limiter.__exit__(None, None, None)
                _BlasLimit.limiter = None


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  # so that its BLAS is loaded and can be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
