"""The kernel matrix K of a set of items, for products K x.

K is symmetric, so only the strips

    K[a : b, a :]       of a few hundred rows a..b each

are used, together slightly more than half of K.  A strip contributes to K x directly and
transposed.  As many strips as fit into memory are stored, in float64 or float32; the others are
recomputed for every product, tile by tile.  Both use the same values in the same order, so a
product is bitwise identical for any amount of memory and any number of threads.  The tiles of many
strips are computed side by side, so that many threads wait for each other only a few times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._memory import format_size
from ranksvm._messages import Param, ParameterError
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.data.scaled_rows import ScaledRows, some_rows
from ranksvm.maps.gram_checks import ROUNDING, is_definite
from ranksvm.maps.kernels import (
    Kernel,
    called,
    centre_of,
    kernel_diagonal,
    kernel_matrix,
    kernel_rows,
)
from ranksvm.maps.matrix import MatrixMap

STRIP_ROWS = _core.kernel_strip_rows
# Number of values in a tile of the native code, of which each thread has one.
TILE_VALUES = STRIP_ROWS * STRIP_ROWS
# Kernels for which a common shift of all items does not change the differences of scores.
MOVABLE = ("rbf", "linear")


class Gram(Protocol):
    """A symmetric positive semi-definite matrix.

    ``noise`` is how far below zero its eigenvalues may be through rounding, ``scale`` its largest
    absolute value, and ``precision`` the relative precision of its values.
    """

    @property
    def n_items(self) -> int: ...
    @property
    def noise(self) -> float: ...
    @property
    def scale(self) -> float: ...
    @property
    def precision(self) -> float: ...

    def product(self, x: Array) -> Array:
        """Return K x."""
        ...

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        """Return K[rows][:, columns], in the precision of K."""
        ...

    def columns(self, items: NDArray[np.int64]) -> NDArray[Any]:
        """Return K[:, items]: the values that ``product`` uses, except for the last bits."""
        ...

    def diagonal(self) -> Array:
        """Return k(x, x) for every item."""
        ...

    @property
    def definite(self) -> bool:
        """Whether it is known to be positive semi-definite, so that |K_ij|^2 <= K_ii K_jj."""
        ...


class TiledGram:
    """The matrix K of a kernel, stored as far as ``memory`` allows.

    Parameters
    ----------
    X : ndarray, CSR or ScaledRows of shape (n_items, n_features)
        Items, which are read where they are.
    kernel : Kernel
        The kernel.
    dtype : float64 or float32
        Type to which values are rounded.
    memory : int
        Bytes for stored strips and temporary tiles.
    n_threads : int
        Number of threads.
    """

    def __init__(
        self, X: Any, kernel: Kernel, *, dtype: Any, memory: int, n_threads: int = 1
    ) -> None:
        least = least_memory(X, kernel)
        if memory < least:
            raise ParameterError(
                "{budget} leaves {memory} for the kernel matrix, but {least} are needed even if "
                "none of it is stored (one tile of values, or {rows} rows from a callable "
                "kernel). {remedy}",
                remedy="Use a larger {budget}, fewer items, or an approximation",
                budget=Param("memory_budget"),
                memory=format_size(memory),
                least=format_size(least),
                rows=STRIP_ROWS,
            )
        # Every thread has its own tile: no more threads than there is memory for.
        beside = least_memory(X, kernel, 2) - least
        n_threads = min(n_threads, 1 + (memory - least) // max(1, beside))
        self._centre: Array | None = None
        if kernel.function in MOVABLE and not is_sparse(X):
            self._centre = centre_of(X)
        elif kernel.called is not None and isinstance(X, ScaledRows):
            X = X[:]
        self._X = X
        self._kernel = kernel
        self._dtype = np.dtype(dtype)
        self._threads = n_threads
        self.n_items: int = X.shape[0]
        self._diagonal = kernel_diagonal(kernel, X, self._centre)
        self.precision = float(np.finfo(self._dtype).eps)
        self.held = self._size = 0
        kept = []  # for each strip, whether it is stored
        free = memory - least
        for first, last in self._bounds():
            size = (last - first) * (self.n_items - first) * self._dtype.itemsize
            self._size += size
            kept.append(size <= free)
            if kept[-1]:
                free -= size
                self.held += size
        self._native: Any = None
        self._values: list[NDArray[Any] | None] = []  # of a callable kernel
        if kernel.called is None:
            self._rows = self._native_rows(X)
            make = _core.KernelStrips32 if self._dtype == np.float32 else _core.KernelStrips64
            self._native = make(kernel.native, self._rows, STRIP_ROWS, kept, n_threads)
        else:
            for keep, bounds in zip(kept, self._bounds(), strict=True):
                self._values.append(self._called_strip(*bounds) if keep else None)
        self.definite = is_definite(kernel)
        self.scale = self._largest()
        self.noise = self.precision * self.n_items * self.scale

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Yield the first row and the end of each strip."""
        for first in range(0, self.n_items, STRIP_ROWS):
            yield first, min(first + STRIP_ROWS, self.n_items)

    def _largest(self) -> float:
        """Return the largest absolute value, which is on the diagonal if K is known definite."""
        largest = float(np.max(np.abs(self._diagonal), initial=0.0))
        if self.definite:
            return largest
        for first, last in self._bounds():
            values = self.block(np.arange(first, last), np.arange(first, self.n_items))
            largest = max(largest, float(values.max()), -float(values.min()))
        return largest

    @property
    def share_held(self) -> float:
        """Fraction of the values that is stored."""
        return self.held / self._size if self._size else 1.0

    def product(self, x: Array) -> Array:
        x = np.ascontiguousarray(x, dtype=np.float64)
        if self._native is not None:
            product: Array = self._native.product(x, self._threads)
            return product
        y = np.zeros(self.n_items)
        for values, (first, last) in zip(self._values, self._bounds(), strict=True):
            strip = self._called_strip(first, last) if values is None else values
            _core.symmetric_strip(strip, first, x, y, self._threads)
        return y

    def _native_rows(self, X: Any) -> _core.KernelRows:
        return kernel_rows(X, self._centre, n_threads=self._threads)

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        if self._native is None:
            return kernel_matrix(
                self._kernel, self._X[rows], self._X[columns], dtype=self._dtype,
                n_threads=self._threads,
            )  # fmt: skip
        values = np.empty((len(rows), len(columns)), dtype=self._dtype)
        left = self._rows
        if len(rows) < self.n_items:
            left = self._native_rows(some_rows(self._X, rows, self._threads))
        right = self._native_rows(some_rows(self._X, columns, self._threads))
        _core.kernel_block(
            self._kernel.native, left, 0, len(rows), right, 0, len(columns), values, self._threads
        )
        return values

    def columns(self, items: NDArray[np.int64]) -> NDArray[Any]:
        if self._native is not None:
            return self.block(np.arange(self.n_items), items)
        values = np.empty((self.n_items, len(items)), dtype=self._dtype)
        for first, last in self._bounds():  # with the same calls as the strips
            strip = _called_values(self._kernel, self._X, first, last)
            for place, item in enumerate(items.tolist()):
                if item >= first:
                    values[first:last, place] = strip[:, item - first]
                if first <= item < last:
                    values[last:, place] = strip[item - first, last - first :]
        return values

    def diagonal(self) -> Array:
        return self._diagonal

    def _called_strip(self, first: int, last: int) -> NDArray[Any]:
        """Return a strip of a callable kernel."""
        values = _called_values(self._kernel, self._X, first, last)
        return np.ascontiguousarray(values, dtype=self._dtype)


def _called_values(kernel: Kernel, X: Any, first: int, last: int) -> NDArray[Any]:
    """Return a strip of a callable kernel, made symmetric where rounding may have broken it."""
    values = np.array(called(kernel, X[first:last], X[first:]))
    square = values[:, : last - first]
    below = np.tril_indices(last - first, -1)
    square[below] = square.T[below]
    return values


def least_memory(X: Any, kernel: Kernel, n_threads: int = 1) -> int:
    """Return the bytes that products with K need even if none of it is stored."""
    n_items, n_columns = X.shape
    if kernel.called is not None:
        return 2 * 8 * STRIP_ROWS * int(n_items)
    tiles = 8 * TILE_VALUES * n_threads
    return tiles + 4 * int(n_columns) * n_threads if is_sparse(X) else tiles


class GivenGram:
    """A precomputed K, or the part of it that belongs to some of the items.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The matrix, which is not copied.
    items : ndarray of int64, shape (n_items,)
        The rows and columns to use.
    n_threads : int
        Number of threads.
    """

    def __init__(self, K: NDArray[Any], items: NDArray[np.int64], *, n_threads: int = 1) -> None:
        self._K = K
        self._items = items
        self.definite = False  # only up to rounding
        self._map = MatrixMap(K, n_threads=n_threads)
        self.n_items = len(items)
        self.scale = max(0.0, float(K.max()), -float(K.min())) if K.size else 0.0
        self.precision = float(np.finfo(K.dtype).eps)
        self.noise = ROUNDING[K.dtype.name] * self.n_items * self.scale

    def product(self, x: Array) -> Array:
        full = np.zeros(self._K.shape[0])
        full[self._items] = x
        return self._map.scores(full)[self._items]

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        block: NDArray[Any] = self._K[np.ix_(self._items[rows], self._items[columns])]
        return block

    def columns(self, items: NDArray[np.int64]) -> NDArray[Any]:
        return self.block(np.arange(self.n_items), items)

    def diagonal(self) -> Array:
        return self._K.diagonal()[self._items].astype(np.float64)
