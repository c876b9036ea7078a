"""Operations on long vectors, threaded, with the same bits for any number of threads.

NumPy computes on one thread.  Its BLAS uses all cores for long dot products, whatever ``n_jobs``
says; its rounding depends on the number of cores, and its waiting threads occupy the cores that
ours need.  So all operations are left to the native core.  For short vectors, too: ``u + t * v`` is
one call instead of two, and nothing warns about overflow, for which the objective looks itself.

The number of threads is that of the innermost :func:`vector_threads` block, or else 1.  It is not a
parameter of every operation, because points and solvers do not know it, and no result depends on
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._rounding import SLACK

Array = NDArray[np.float64]
Rows = NDArray[np.int64]  # row numbers, and other integers

# Longer products are sums of products of this length, so that rounding errors stop growing with n.
BLOCK = 512
# Vectors of this length are worth several threads.
LONG = 1 << 14

_THREADS: ContextVar[int] = ContextVar("threads of vector operations", default=1)


@contextmanager
def vector_threads(n_threads: int) -> Iterator[None]:
    """Use several threads for long vectors inside the block.

    The memory of results that are freed is kept for others until the block ends, because fresh
    memory costs as much as the arithmetic.
    """
    token = _THREADS.set(n_threads)
    _core.keep_memory()
    try:
        yield
    finally:
        _core.release_memory()
        _THREADS.reset(token)


def dot(u: Array, v: Array) -> float:
    """Return the inner product of two vectors."""
    return _core.dot(u, v, _THREADS.get())


def add_scaled(u: Any, t: float, v: Any) -> Any:
    """Return ``u + t * v`` for vectors, or for anything else that has these operations."""
    return _core.add_scaled(u, t, v, _THREADS.get()) if isinstance(u, np.ndarray) else u + t * v


def scaled(t: float, v: Any) -> Any:
    """Return ``t * v`` for a vector, or for anything else that has this operation."""
    return _core.scaled(t, v, _THREADS.get()) if isinstance(v, np.ndarray) else t * v


def combined(factors: Sequence[float], vectors: Sequence[Any]) -> Any:
    """Return the sum of ``factors[k] * vectors[k]``, added from the left; at least one.

    As :func:`add_scaled`, for vectors or anything else.
    """
    if all(isinstance(one, np.ndarray) for one in vectors):
        return _core.combined(factors, vectors, _THREADS.get())
    total = factors[0] * vectors[0]
    for factor, vector in zip(factors[1:], vectors[1:], strict=True):
        total = total + factor * vector
    return total


def power_sums(net: Array, centred: Array, margin: float, product: Array) -> tuple[float, float]:
    """Return ``dot(net, centred)`` and ``dot(centred, product)``; change ``product``.

    It becomes ``2 * (product + margin * net)``.  One pass instead of four.
    """
    return _core.power_sums(net, centred, margin, product, _THREADS.get())


def add_scaled_to(u: Array, t: float, v: Array) -> None:
    """Add ``t * v`` to u."""
    _core.add_scaled_to(u, t, v, _THREADS.get())


def scale(t: float, v: Array) -> None:
    """Multiply v by t."""
    _core.scale(t, v, _THREADS.get())


def all_finite(v: Array) -> bool:
    """Return whether no element of a vector is NaN or infinite."""
    return _core.all_finite(np.ascontiguousarray(v), _THREADS.get())


def any_nonzero(v: Array) -> bool:
    """Return whether a vector is not zero; fast if one of the first elements is not."""
    return _core.any_nonzero(v)


def add(arrays: Iterable[Array]) -> Array:
    """Return the sum of at least one array; a single one is returned as it is."""
    return reduce(np.add, arrays)


class RunningTotal:
    """The sum of arrays that come one after the other.

    They are added in pairs, pairs of pairs and so on: rounding errors grow only with the logarithm
    of their number (:func:`total_depth`), and no more than that many arrays are kept.
    """

    def __init__(self) -> None:
        self._sums: list[tuple[int, Array]] = []  # of 2^k arrays each, and k; the largest first

    def add(self, array: Array) -> None:
        """Add an array; it must not change afterwards."""
        level = 0
        while self._sums and self._sums[-1][0] == level:
            array = self._sums.pop()[1] + array
            level += 1
        self._sums.append((level, array))

    def value(self) -> Array:
        """Return the sum, as a new array; at least one has been added."""
        found = self._sums[-1][1].copy()
        for _, one in self._sums[-2::-1]:
            found += one
        return found


def total(arrays: Iterable[Array]) -> Array:
    """Return the sum of at least one array, always as a new array; see :class:`RunningTotal`."""
    found = RunningTotal()
    for one in arrays:
        found.add(one)
    return found.value()


def total_depth(n: int) -> int:
    """Return how often a term of :func:`total` of n arrays is rounded at most."""
    return n.bit_length()


def length(u: Array, square: float | None = None) -> float:
    """Return a tight upper bound on the Euclidean norm, even if squares over- or underflow.

    ``square`` is ``dot(u, u)``, if it is known.
    """
    found = SLACK * math.sqrt(dot(u, u) if square is None else square)
    if 1e-140 < found < 1e140:
        return found
    largest = float(np.max(np.abs(u), initial=0.0))
    if largest == 0.0:
        return 0.0
    scaled = u / largest
    return SLACK * largest * math.sqrt(dot(scaled, scaled))


def dot_depth(n: int) -> int:
    """Return how often a term of :func:`dot` is rounded at most; blocks are added pairwise."""
    return n + 2 if n < 2 * BLOCK else BLOCK + 64
