"""Operations on long vectors that avoid the threads of the BLAS.

NumPy's BLAS uses all cores for long dot products, whatever ``n_jobs`` says.  Its rounding depends
on the number of cores, and its waiting threads occupy the cores that ours need.  These products are
limited by memory bandwidth anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._rounding import SLACK

Array = NDArray[np.float64]
Rows = NDArray[np.int64]  # row numbers, and other integers

# Longer products are sums of products of this length, so that rounding errors stop growing with n.
BLOCK = 512


# einsum without its search for array-like arguments, which takes longer than a short product.
_einsum: Any = getattr(np.einsum, "__wrapped__", np.einsum)


def dot(u: Array, v: Array) -> float:
    """Return the inner product of two vectors; bitwise identical for any number of threads."""
    whole = u.size // BLOCK * BLOCK
    if whole <= BLOCK:
        return float(_einsum("i,i->", u, v))
    blocks = _einsum("ij,ij->i", u[:whole].reshape(-1, BLOCK), v[:whole].reshape(-1, BLOCK))
    return float(np.add.reduce(blocks)) + float(_einsum("i,i->", u[whole:], v[whole:]))


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


def length(u: Array) -> float:
    """Return a tight upper bound on the Euclidean norm, even if squares over- or underflow."""
    found = SLACK * math.sqrt(dot(u, u))
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
