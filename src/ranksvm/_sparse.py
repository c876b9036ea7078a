"""Recognize sparse matrices, and check that their arrays are consistent.

SciPy validates little of its input, and its compiled code and ours trust the indices: a matrix
whose arrays do not match its shape can crash the process at the first conversion or product.  Every
sparse X is therefore checked once, when it enters the library and before anything else uses it.
The check is one pass over the indices, which is less work than one product.

Unsorted and duplicate entries are legal, and so is unused space after the last entry.  The result
has no such space, since ``X.data`` would contain whatever is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core


def is_sparse(X: Any) -> bool:
    """Return whether X is a SciPy sparse matrix or array."""
    return hasattr(X, "tocsr")


def canonical_csr(X: Any) -> Any:
    """Return a sparse X as CSR with sorted columns and without duplicate entries."""
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_structure(X: Any, n_threads: int = 1) -> Any:
    """Raise unless the arrays of a sparse matrix are consistent with its shape.

    Parameters
    ----------
    X : SciPy sparse matrix or array of any format, or anything else
        Anything that is not sparse and two-dimensional is returned unchecked.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    X itself; as CSR if the format is LIL, DOK or DIA; without unused space, and with int32 or int64
    indices in place of other integer types.

    Raises
    ------
    ValueError
        The message says what is inconsistent.
    """
    if not is_sparse(X) or len(getattr(X, "shape", ())) != 2:
        return X
    form = X.format
    trouble: str | None = None
    if form in ("csr", "csc", "bsr"):
        trouble = _compressed_trouble(X, n_threads)
    elif form == "coo":
        trouble = _coordinate_trouble(X)
    elif form == "lil":
        trouble = _list_trouble(X)
    elif form == "dia":
        trouble = _diagonal_trouble(X)
    elif form == "dok":
        trouble = _key_trouble(X)
    if trouble is None and form not in ("lil", "dok"):
        trouble = _value_trouble(X.data)
    if trouble is not None:
        raise ValueError(
            f"X is a broken sparse matrix ({form} of shape {X.shape}): {trouble}. Rebuild it "
            "from the original data. Do not convert or copy it: SciPy may crash."
        )
    if form in ("lil", "dok", "dia"):
        return X.tocsr()
    return _usual_arrays(X) if form in ("csr", "csc", "bsr") else X


def _compressed_trouble(X: Any, n_threads: int) -> str | None:
    """Return what is wrong with data, indices and indptr, or None."""
    data, indices, indptr = X.data, X.indices, X.indptr
    n_rows, n_cols = X.shape if X.format != "csc" else X.shape[::-1]
    if X.format == "bsr":
        if data.ndim != 3 or 0 in data.shape[1:]:
            return f"data must hold blocks; its shape is {data.shape}"
        height, width = data.shape[1:]
        if n_rows % height or n_cols % width:
            return f"its shape is not a multiple of the block shape {(height, width)}"
        n_rows, n_cols = n_rows // height, n_cols // width
    elif data.ndim != 1:
        return f"data must have one dimension, not {data.ndim}"
    for name, array in (("indices", indices), ("indptr", indptr)):
        if not _is_index(array):
            return f"{name} must be a one-dimensional array of integers"
    if len(indptr) != n_rows + 1:
        return f"indptr has {len(indptr)} values, not {n_rows + 1}"
    if indptr[0] != 0:
        return f"indptr starts with {indptr[0]}, not 0"
    if bool((indptr[1:] < indptr[:-1]).any()):
        return f"indptr decreases at position {1 + int(np.argmax(indptr[1:] < indptr[:-1]))}"
    n_entries = int(indptr[-1])
    if n_entries > min(len(data), len(indices)):
        return (
            f"indptr ends with {n_entries}, but there are {len(indices)} indices and {len(data)} "
            "values"
        )
    return _outside("indices", indices[:n_entries], n_cols, n_threads)


def _coordinate_trouble(X: Any) -> str | None:
    """Return what is wrong with the row and column indices of COO entries, or None."""
    if len(X.coords) != 2 or X.data.ndim != 1:
        return "it needs rows, columns and values, each of one dimension"
    for name, index, size in (("row", X.row, X.shape[0]), ("col", X.col, X.shape[1])):
        if not _is_index(index):
            return f"{name} must be a one-dimensional array of integers"
        if index.shape != X.data.shape:
            return f"{name} has {len(index)} values for {X.data.size} entries"
        trouble = _outside(name, index, size)
        if trouble is not None:
            return trouble
    return None


def _list_trouble(X: Any) -> str | None:
    """Return what is wrong with the lists of columns and values of each row (LIL), or None."""
    if X.rows.shape != (X.shape[0],) or X.data.shape != (X.shape[0],):
        return f"there are {X.rows.size} lists of columns and {X.data.size} of values"
    for row, (columns, values) in enumerate(zip(X.rows, X.data, strict=True)):
        if not hasattr(columns, "__len__") or not hasattr(values, "__len__"):
            return f"row {row} is not a list"
        if len(columns) != len(values):
            return f"row {row} has {len(columns)} columns and {len(values)} values"
        if not all(isinstance(column, int | np.integer) for column in columns):
            return f"row {row} has columns that are not integers"
        if len(columns) and not (min(columns) >= 0 and max(columns) < X.shape[1]):
            found = f"{min(columns)} to {max(columns)}"
            return f"row {row} has column indices from {found} (X has {X.shape[1]} columns)"
    return None


def _diagonal_trouble(X: Any) -> str | None:
    """Return what is wrong with the diagonals, or None."""
    offsets = X.offsets
    if X.data.ndim != 2 or offsets.ndim != 1 or offsets.dtype.kind not in "iu":
        return "data must be two-dimensional, and offsets a one-dimensional array of integers"
    if len(offsets) != len(X.data):
        return f"there are {len(offsets)} offsets for {len(X.data)} diagonals"
    if len(np.unique(offsets)) < len(offsets):
        return "offsets contains a diagonal more than once"
    if len(offsets) and not -(2**31) <= int(offsets.min()) <= int(offsets.max()) < 2**31:
        return f"offsets must fit into 32 bits; found {int(offsets.min())} to {int(offsets.max())}"
    return None


def _key_trouble(X: Any) -> str | None:
    """Return what is wrong with the keys of a dictionary of entries (DOK), or None."""
    for key in X.keys():  # noqa: SIM118  # iterating over X itself is not allowed
        is_pair = isinstance(key, tuple) and len(key) == 2
        if not is_pair or not all(isinstance(place, int | np.integer) for place in key):
            return f"{key!r} is not a pair of integers"
        if not all(0 <= place < size for place, size in zip(key, X.shape, strict=True)):
            return f"the entry {key} is outside"
    return None


def _value_trouble(data: Any) -> str | None:
    """Return what is wrong with the stored values, or None."""
    if isinstance(data, np.ma.MaskedArray):
        return "data is a masked array, whose masked values would be used"
    if data.dtype.kind not in "biufc":
        return f"data must be numbers, not of type {data.dtype}"
    return None


def _is_index(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"


def _outside(name: str, index: NDArray[Any], size: int, n_threads: int = 1) -> str | None:
    """Return a message if indices are outside 0..size - 1, else None."""
    if not len(index):
        return None
    usual = index
    if index.dtype not in (np.int32, np.int64) or not index.flags.c_contiguous:
        usual = np.ascontiguousarray(index, dtype=np.int64)  # of uint64, huge ones become negative
    if _core.all_indices(usual, size, n_threads):
        return None
    low, high = int(index.min()), int(index.max())
    return f"{name} must lie in 0 to {size - 1}; found {low} to {high}"


def _usual_arrays(X: Any) -> Any:
    """Return X without unused space, and with indices that both SciPy's code and ours can read."""
    used = slice(int(X.indptr[-1]))
    types = {X.indices.dtype, X.indptr.dtype}
    is_readable = len(types) == 1 and types <= {np.dtype(np.int32), np.dtype(np.int64)}
    if is_readable and len(X.data) == len(X.indices) == used.stop:
        return X
    narrow = all(np.can_cast(one, np.int32) for one in types)
    index: Any = np.int32 if narrow else np.int64
    parts = (X.data[used], X.indices[used].astype(index), X.indptr.astype(index))
    return type(X)(parts, shape=X.shape)
