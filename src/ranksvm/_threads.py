"""The number of threads to use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from numbers import Integral
from typing import Any

from threadpoolctl import ThreadpoolController

from ranksvm import _core

MOST_THREADS = 1024


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Return the number of threads for an ``n_jobs`` parameter.

    None and -1 mean all cores that OMP_NUM_THREADS and the CPU affinity of the process allow.
    Other negative numbers leave cores free: -2 means all but one.
    """
    if n_jobs is None:
        return _core.available_threads()
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or an integer other than 0; got {n_jobs!r}")
    n_jobs = int(n_jobs)
    if n_jobs < 0:
        return max(1, _core.available_threads() + 1 + n_jobs)
    return min(n_jobs, MOST_THREADS)


class _BlasLimit:
    """The limit of one BLAS thread: the first block sets it, the last one lifts it."""

    lock = threading.Lock()
    n_blocks = 0
    limiter: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS of NumPy and SciPy to one thread inside the block, for the whole process.

    Use it for work that alternates between our threads and small factorizations: BLAS threads keep
    spinning for some time after each call, on the cores that our threads need.
    """
    with _BlasLimit.lock:
        if _BlasLimit.n_blocks == 0:
            _BlasLimit.limiter = _controller().limit(limits=1, user_api="blas").__enter__()
        _BlasLimit.n_blocks += 1
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.n_blocks -= 1
            if _BlasLimit.n_blocks == 0:
                _BlasLimit.limiter.__exit__(None, None, None)


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  # so that its BLAS is loaded and can be found

    return ThreadpoolController()
