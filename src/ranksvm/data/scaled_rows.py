"""Items whose features are scaled where they are used, a few rows at a time.

Kernels need scaled features, but not all of them at once: the native code scales rows on their way
into a tile of the kernel matrix (:func:`ranksvm.maps.kernels.kernel_rows`), and everything else
takes some rows.  X stays as it is, and there is no scaled copy of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ranksvm._rows import take_rows
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Rows
from ranksvm.data.scaling import Affine, Scaling


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Dense items with scaled features.

    Indexing returns the scaled features of some rows, as an array in float64.

    Attributes
    ----------
    X : ndarray of shape (n_items, n_features), float32 or float64
        The features as they are.
    scaling : Affine
    """

    X: Any
    scaling: Affine

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return np.dtype(np.float64)

    def __getitem__(self, rows: Any) -> Any:
        some = self.X[rows]
        if some.base is None and some.dtype == np.float64:  # a copy
            return self.scaling.apply(some, out=some)
        return self.scaling.apply(some)


class ScaledCSR(ScaledRows):
    """Sparse items with scaled features: X is CSR, and the scaling has no offsets."""

    def __getitem__(self, rows: Any) -> Any:
        return self.scaling.apply(self.X[rows])

    def tocsr(self) -> Any:
        """Return the scaled features as CSR, which shares its indices with X."""
        data = self.X.data * self.scaling.factor[self.X.indices]
        scaled = type(self.X)((data, self.X.indices, self.X.indptr), shape=self.shape)
        scaled.has_canonical_format = self.X.has_canonical_format
        return scaled


def scaled_rows(X: Any, scaling: Scaling, n_threads: int = 1) -> Any:
    """Return scaled features of items in memory, without a copy if the scaling allows it."""
    if not isinstance(scaling, Affine) or X.dtype not in (np.float64, np.float32):
        return scaling.apply(X, n_threads)
    if not is_sparse(X):
        return ScaledRows(X, scaling)
    return ScaledCSR(X.tocsr(), scaling) if scaling.keeps_zeros else scaling.apply(X, n_threads)


def some_rows(X: Any, rows: Rows, n_threads: int = 1) -> Any:
    """Return some of the items X, of the same kind."""
    plain, scaling = without_scaling(X)
    taken = take_rows(plain, rows, n_threads)
    return taken if scaling is None else type(X)(taken, scaling)


def without_scaling(X: Any) -> tuple[Any, Affine | None]:
    """Return the features of items as they are, and the scaling that they are to be used with."""
    return (X.X, X.scaling) if isinstance(X, ScaledRows) else (X, None)
