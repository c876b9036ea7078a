"""How many threads to use."""

from __future__ import annotations

from numbers import Integral

from ranksvm import _core

__all__ = ["resolve_n_jobs"]

MOST_THREADS = 1024


def resolve_n_jobs(n_jobs: int | None) -> int:
    """``None`` and -1 mean all cores (as OMP_NUM_THREADS and the process's affinity allow).

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
