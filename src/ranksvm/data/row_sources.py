"""Rows in files or arrays that shards are cut from, and the blocks that are read from them."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Rows


class BlockPool:
    """Memory of blocks that is used again once nobody refers to a block any more.

    Fresh memory costs a page fault for every page, about a tenth of the time of a pass.

    Attributes
    ----------
    least : int
        Bytes that a block is given at least: those of the largest block, so that all fit.
    """

    def __init__(self) -> None:
        self.least = 0
        self._free: list[NDArray[np.uint8]] = []

    def empty(self, shape: tuple[int, int], dtype: Any, order: Literal["C", "F"] = "C") -> Any:
        """Return an array like ``np.empty``."""
        size = shape[0] * shape[1] * np.dtype(dtype).itemsize
        if not size:
            return np.empty(shape, dtype=dtype)
        memory = self._free.pop() if self._free else None
        if memory is None or memory.size < size:
            memory = np.empty(max(size, self.least), dtype=np.uint8)
        # All views of the block refer to this array, and it ends with the last of them.
        whole = np.frombuffer(memoryview(memory), dtype=dtype)  # type: ignore[arg-type]
        weakref.finalize(whole, self._free.append, memory).atexit = False
        return whole[: shape[0] * shape[1]].reshape(shape, order=order)

    def __reduce__(self) -> Any:
        return BlockPool, ()


class RowSource(ABC):
    """Rows in files or arrays that shards are cut from; they need not fit into memory.

    Sources can be sent to other processes that see the same files.

    Attributes
    ----------
    n_items, n_features : int
    dtype : dtype
        Type of X: float32 or float64.
    is_sparse : bool
        Whether blocks are CSR matrices.
    pool : BlockPool
        Memory for dense blocks.
    """

    n_items: int
    n_features: int
    dtype: np.dtype[Any]
    is_sparse = False

    def __init__(self) -> None:
        self.pool = BlockPool()

    @abstractmethod
    def read(self, begin: int, end: int) -> Any:
        """Return a block of rows; blocks in ascending order are read fastest."""

    @abstractmethod
    def where(self, row: int, column: int | None = None) -> str:
        """Return where a row or a value comes from, for messages."""

    def identity(self) -> str | None:
        """Return what tells these rows apart from others; None if only their values do."""
        return None

    def reading_bytes(self, block_bytes: int) -> int:
        """Return the memory that reading takes in addition to the blocks themselves."""
        return block_bytes // 2

    def row_bytes(self) -> Rows | None:
        """Return the bytes of all rows before each row; None if all rows take the same."""
        return None


class ReadBlock:
    """The function that loads a shard from a source.

    The first time, it makes sure that all values are finite.
    """

    def __init__(self, source: RowSource, begin: int, end: int) -> None:
        self._source, self._begin, self._end = source, begin, end
        self._is_checked = False

    def __call__(self) -> Any:
        X = self._source.read(self._begin, self._end)
        if not self._is_checked:
            wrong = first_not_finite(X)
            if wrong is not None:
                row, column, value = wrong
                raise ValueError(
                    f"{self._source.where(self._begin + row, column)}: found {value}, expected a "
                    "finite number. Fill in missing values, or drop these rows."
                )
            self._is_checked = True
        return X


def first_not_finite(X: Any) -> tuple[int, int, float] | None:
    """Return row, column and value of the first value that is NaN or infinite, or None."""
    values = X if isinstance(X, np.ndarray) else X.data
    # Two quick reductions that need no memory; NaN comes through both.
    if np.isfinite(np.max(values, initial=0.0)) and np.isfinite(np.min(values, initial=0.0)):
        return None
    if isinstance(X, np.ndarray):
        row = int(np.argmin(np.isfinite(X).all(axis=1)))
        column = int(np.argmin(np.isfinite(X[row])))
        return row, column, float(X[row, column])
    at = int(np.argmin(np.isfinite(values)))
    row = int(np.searchsorted(X.indptr, at, side="right")) - 1
    return row, int(X.indices[at]), float(values[at])
