"""Copies of some rows of a matrix or elements of a vector, made by several threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core

_LONG = 1 << 16
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def take_rows(X: Any, rows: NDArray[np.int64], n_threads: int = 1) -> Any:
    """Return ``X[rows]`` for an ndarray or a CSR matrix.

    Short vectors are left to NumPy.

    Parameters
    ----------
    X : ndarray of at least one dimension, or CSR
    rows : ndarray of int64
        Row numbers, in any order.
    n_threads : int
        Number of threads.
    """
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    if isinstance(X, np.ndarray):
        if X.ndim == 1 and rows.size >= _LONG and n_threads > 1:
            return take_rows(X[:, None], rows, n_threads).ravel()
        if X.ndim != 2 or X.dtype not in _FLOATS or not _has_contiguous_rows(X):
            return np.take(X, rows, axis=0)
        out = np.empty((rows.size, X.shape[1]), dtype=X.dtype)
        _core.take_rows(X, rows, out, n_threads)
        return out
    arrays = (X.indptr, X.indices, X.data)
    usual = X.data.dtype in _FLOATS and X.indptr.dtype == X.indices.dtype
    if not usual or not all(one.flags.c_contiguous for one in arrays):
        return X[rows]
    size = min(X.data.size, X.indices.size)
    starts = np.empty(rows.size + 1, dtype=X.indptr.dtype)
    _core.take_starts(X.indptr, size, rows, starts)
    indices = np.empty(starts[-1], dtype=X.indices.dtype)
    data = np.empty(starts[-1], dtype=X.data.dtype)
    _core.take_elements(
        X.indptr, X.indices[:size], X.data[:size], rows, starts, indices, data, n_threads
    )
    taken = type(X)((data, indices, starts), shape=(rows.size, X.shape[1]))
    if X.has_sorted_indices:
        taken.has_sorted_indices = True
    if X.has_canonical_format:
        taken.has_canonical_format = True
    return taken


def _has_contiguous_rows(X: NDArray[Any]) -> bool:
    return X.shape[1] <= 1 or X.strides[1] == X.itemsize
