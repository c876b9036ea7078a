"""Scores X w and pullbacks X' g for a matrix of features, in whatever layout it comes.

Every layout is read as it is: dense in C or Fortran order, CSR or CSC, float32 or float64.  A
matrix stored by columns is the transpose of one stored by rows, so one pair of native products
serves all.
Sums are kept in float64.  The order of every sum depends on the shape of the matrix alone, so the
result has the same bits for every number of threads.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ranksvm import _core
from ranksvm._types import Array
from ranksvm.data.queries import QueryGroups

__all__ = ["MatrixMap", "ScoreMap"]

# A preconditioner from the scatter matrix: up to this many columns, from about this many items.
MOST_SCATTER_COLUMNS = 256
SCATTER_ITEMS = 16_384


class ScoreMap(Protocol):
    """A linear operator on a Hilbert space."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dim(self) -> int: ...
    @property
    def n_products(self) -> int: ...

    def scores(self, w: Array) -> Array: ...
    def pullback(self, g: Array) -> Array: ...
    def inner(self, u: Array, v: Array, v_scores: Array) -> float: ...

    @property
    def has_scatter(self) -> bool: ...
    def scatter(self, weight: Array, groups: QueryGroups) -> Array: ...


class MatrixMap:
    """``scores(w) = X w`` and ``pullback(g) = X' g`` with the plain inner product.

    Parameters
    ----------
    X : ndarray or SciPy CSR/CSC of shape (n_items, n_features), float32 or float64
        Used as it is when its layout allows; other layouts are converted once.
    n_threads : int
    """

    def __init__(self, X: Any, *, n_threads: int = 1) -> None:
        self._shape: tuple[int, int] = X.shape
        self._threads = n_threads
        self._n_products = 0
        if sp.issparse(X):
            by_rows = X.format == "csr"
            if not by_rows and X.format != "csc":
                X = X.tocsr()
                by_rows = True
            wide = max(X.indices.dtype.itemsize, X.indptr.dtype.itemsize) > 4
            index = np.int64 if wide else np.int32
            self._parts: tuple[Any, ...] = (
                np.ascontiguousarray(_as_float(X.data)),
                np.ascontiguousarray(X.indices, dtype=index),
                np.ascontiguousarray(X.indptr, dtype=index),
            )
            self._check_structure(self._parts, X.shape if by_rows else X.shape[::-1])
        else:
            X = _as_float(np.asarray(X))
            by_rows = X.flags.c_contiguous or not X.flags.f_contiguous
            self._parts = (np.ascontiguousarray(X) if by_rows else X.T,)
        self._by_rows = by_rows

    @property
    def shape(self) -> tuple[int, int]:
        """(n_items, n_features)."""
        return self._shape

    @property
    def dim(self) -> int:
        """Number of features."""
        return self._shape[1]

    @property
    def n_products(self) -> int:
        """Products made so far, in either direction."""
        return self._n_products

    def scores(self, w: Array) -> Array:
        return self._product(self._parts, w, transposed=not self._by_rows)

    def pullback(self, g: Array) -> Array:
        return self._product(self._parts, g, transposed=self._by_rows)

    def inner(self, u: Array, v: Array, v_scores: Array) -> float:
        del v_scores
        return float(u @ v)

    @property
    def has_scatter(self) -> bool:
        """Whether :meth:`scatter` is worth its price: dense, and not too many columns."""
        return len(self._parts) == 1 and 0 < self.dim <= MOST_SCATTER_COLUMNS

    def scatter(self, weight: Array, groups: QueryGroups) -> Array:
        """Weighted scatter matrix of the items inside their queries, (dim, dim).

        The sum over queries and their items of weight * (x - mean)(x - mean)', where mean is the
        weighted mean of the query; on a sample when there are many items.  It needs not be exact,
        since it only scales, and with a sample it is cheap against a product with X, so it is not
        counted as one.
        """
        n_items, dim = self.shape
        step = max(1, n_items // max(SCATTER_ITEMS, 64 * dim))
        n_queries = len(groups.offsets) - 1
        by_group = n_queries >= 64 * step
        X = self._parts[0] if self._by_rows else self._parts[0].T
        flat = _core.scatter(
            X,
            weight,
            groups.rows,
            groups.offsets,
            step if by_group else 1,
            1 if by_group else step,
            self._threads,
        )
        return flat.reshape(dim, dim)

    def _product(self, parts: tuple[Any, ...], x: Array, *, transposed: bool) -> Array:
        self._n_products += 1
        x = np.ascontiguousarray(x, dtype=np.float64)
        product: Array
        if len(parts) == 1:
            product = _core.dense_product(parts[0], x, transposed, self._threads)
        else:
            data, indices, indptr = parts
            cols = self.shape[1] if self._by_rows else self.shape[0]
            product = _core.sparse_product(
                data, indices, indptr, cols, x, transposed, self._threads
            )
        return product

    @staticmethod
    def _check_structure(parts: tuple[Any, ...], shape: tuple[int, int]) -> None:
        """Stop a broken matrix before it reaches the native code, which trusts the indices."""
        data, indices, indptr = parts
        rows, cols = shape
        fine = (
            len(indptr) == rows + 1
            and indptr[0] == 0
            and indptr[-1] <= len(data)
            and len(indices) == len(data)
            and bool(np.all(indptr[1:] >= indptr[:-1]))
            and (len(indices) == 0 or (int(indices.min()) >= 0 and int(indices.max()) < cols))
        )
        if not fine:
            raise ValueError(
                "the sparse matrix is broken: its indptr or indices do not fit its shape "
                f"{shape}; rebuild it, for example with X = X.tocoo().tocsr()"
            )


def _as_float(values: Any) -> Any:
    """float32 and float64 stay; anything else becomes float64."""
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
