"""Build large random CSR matrices from rows that are drawn in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["SparseRows", "count_repeats", "row_chunks", "stack_rows"]

# Matrix cells drawn at a time; limits the temporary memory to about 100 MB.
_CHUNK_CELLS = 4_000_000


class SparseRows(NamedTuple):
    """Rows of a CSR matrix: the number of non-zeros per row, and all columns and values."""

    row_nnz: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[Any]


def row_chunks(n_rows: int, cells_per_row: float) -> Iterator[int]:
    """Yield the numbers of rows of chunks with a bounded number of cells."""
    step = max(1, int(_CHUNK_CELLS / max(1.0, cells_per_row)))
    for first in range(0, n_rows, step):
        yield min(step, n_rows - first)


def count_repeats(
    lengths: NDArray[np.int64], columns: NDArray[np.int32], n_columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Merge the columns that each row drew more than once.

    Returns
    -------
    row_nnz : ndarray
        Number of distinct columns per row.
    columns : ndarray
        The distinct columns of all rows, sorted within each row.
    counts : ndarray
        How often each was drawn.
    """
    n_rows = lengths.shape[0]
    cells = np.repeat(np.arange(n_rows, dtype=np.int64) * n_columns, lengths)
    cells += columns
    cells.sort()
    new = np.ones(cells.shape[0], dtype=bool)
    np.not_equal(cells[1:], cells[:-1], out=new[1:])
    first = np.flatnonzero(new)
    counts = np.diff(first, append=cells.shape[0])
    rows, distinct = np.divmod(cells[first], n_columns)
    return np.bincount(rows, minlength=n_rows), distinct.astype(np.int32), counts


def stack_rows(parts: Iterable[SparseRows], n_columns: int) -> sparse.csr_array:
    """Stack rows into one CSR array in canonical form."""
    row_nnz, columns, values = (list(column) for column in zip(*parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(row_nnz))])
    index_dtype = np.int32 if indptr[-1] < 2**31 else np.int64
    indices = np.concatenate(columns).astype(index_dtype, copy=False)
    columns.clear()
    data = np.concatenate(values)
    values.clear()
    X = sparse.csr_array(
        (data, indices, indptr.astype(index_dtype)), shape=(indptr.shape[0] - 1, n_columns)
    )
    X.has_canonical_format = True  # by construction; saves SciPy the check
    return X
