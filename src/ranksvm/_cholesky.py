"""Cholesky factors of small matrices, with the same bits whatever threads the BLAS has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ranksvm import _core
from ranksvm._vectors import Array


def inverse_times(matrix: Array) -> Callable[[Array], Array] | None:
    """Return the product with the inverse of a symmetric matrix, which may be overwritten.

    Returns None if the matrix is not positive definite.
    """
    factor = np.ascontiguousarray(matrix)
    if not _core.cholesky(factor):
        return None

    def times(vector: Array) -> Array:
        found: Array = _core.solve_cholesky(factor, vector)
        return found

    return times
