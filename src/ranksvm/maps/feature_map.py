"""Scores from explicit kernel features: A v, or A (M v) if the features are a product.

For Nystrom features, A holds the kernel values at m landmarks and M whitens them (m x r):

    scores(v) = A (M v)        pullback(g) = M' (A' g)

Computing A M would cost m products with A and as much memory again, while fitting takes only a few
dozen products.

Preconditioner.  Most of the information of a kernel is in a few hundred directions of the feature
space.  For Nystrom features these are the first columns of M, which are sorted by importance; for
other features they are the principal directions of a sample of items.  The scatter
(:mod:`ranksvm.objective`) is that of a few thousand items in this subspace V, which has orthonormal
columns, and its inverse P acts as r + V (P - I) V' r.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._rounding import SLACK
from ranksvm._vectors import Array, length
from ranksvm.maps.features import whitening
from ranksvm.maps.kernels import LINEAR, kernel_matrix, row_blocks
from ranksvm.maps.matrix import MatrixMap
from ranksvm.maps.sample import SampledScatter, WeightedItems

# Maximum number of directions, of items that they are computed from, and of items in the scatter.
MOST_DIRECTIONS = 256
MOST_LANDMARKS = 512
MOST_ITEMS = 8_192
BLOCK_ROWS = 1_024
# With fewer features, the scatter of the features themselves is used.
FEWEST_FEATURES = 64
LEAST_EIGENVALUE = 1e-6


class FeatureMap(MatrixMap):
    """``scores(v) = A v`` with the Euclidean inner product.

    Parameters
    ----------
    values : ndarray of shape (n_items, m), float32 or float64
        The matrix A.
    n_threads : int
        Number of threads.
    """

    def __init__(self, values: NDArray[Any], *, n_threads: int = 1) -> None:
        super().__init__(values, n_threads=n_threads)
        self._values = values

    @cached_property
    def _directions(self) -> Array:
        """The matrix that turns rows of A into coordinates in the subspace."""
        return _principal(self._values, self._threads)

    @cached_property
    def _sampled_scatter(self) -> SampledScatter:
        across = self._directions.T

        def coordinates(rows: NDArray[np.int64]) -> Array:
            found = np.empty((len(rows), len(across)))
            for part in row_blocks(len(rows), BLOCK_ROWS):  # limits the size of the copies
                found[part] = kernel_matrix(
                    LINEAR, self._values[rows[part]], across, n_threads=self._threads
                )
            return found

        return SampledScatter(coordinates, MOST_ITEMS)

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        """Return the scatter of a sample of the items in the subspace."""
        if self.shape[1] < FEWEST_FEATURES:
            return super().scatter(parts)
        return self._sampled_scatter.at(parts, self._threads)

    def lift(self, inverse: Callable[[Array], Array]) -> Callable[[Array], Array]:
        if self.shape[1] < FEWEST_FEATURES:
            return inverse
        basis = self._directions

        def lifted(r: Array) -> Array:
            inside = basis.T @ r
            out: Array = r + basis @ (inverse(inside) - inside)
            return out

        return lifted


class NystroemMap(FeatureMap):
    """``scores(v) = A (M v)`` with the Euclidean inner product.

    Parameters
    ----------
    values : ndarray of shape (n_items, m), float32 or float64
        The matrix A.
    whitening : ndarray of shape (m, r)
        The matrix M, the most important columns first.
    n_threads : int
        Number of threads.
    """

    def __init__(self, values: NDArray[Any], whitening: Array, *, n_threads: int = 1) -> None:
        super().__init__(values, n_threads=n_threads)
        self.shape = values.shape[0], whitening.shape[1]
        self._matrix = whitening
        self._whitening = MatrixMap(whitening, n_threads=n_threads)
        self._column_norms = np.sqrt(np.einsum("ij,ij->j", whitening, whitening))

    @cached_property
    def _directions(self) -> Array:
        return self._matrix[:, :MOST_DIRECTIONS]

    def scores(self, w: Array) -> Array:
        return super().scores(self._whitening.scores(w))

    def pullback(self, g: Array) -> Array:
        return self._whitening.pullback(super().pullback(g))

    def reach(self, w: Array) -> float:
        return SLACK * self._longest_row * float(np.einsum("j,j->", self._column_norms, np.abs(w)))

    @property
    def score_rounding(self) -> float:
        return super().score_rounding + self._whitening.score_rounding

    def pullback_error(self, size: float, error: float) -> float:
        return super().pullback_error(size, error) + self._whitening.pullback_error(size, 0.0)

    def widened(self, norm: float, v: Array, pullback_error: float) -> float:
        return norm + self._longest_row * length(self._column_norms) * pullback_error

    def sharpen(self) -> bool:
        return False

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        return self._sampled_scatter.at(parts, self._threads)

    def lift(self, inverse: Callable[[Array], Array]) -> Callable[[Array], Array]:
        n_directions = self._directions.shape[1]  # the subspace is spanned by the first features

        def lifted(r: Array) -> Array:
            out = r.copy()
            out[:n_directions] = inverse(r[:n_directions])
            return out

        return lifted


def _principal(values: NDArray[Any], n_threads: int) -> Array:
    """Return the principal directions of a sample of items, orthonormal, shape (dim, k)."""
    n_items = values.shape[0]
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(n_items)[:MOST_LANDMARKS])
    some = values[rows]
    products = kernel_matrix(LINEAR, some, some, n_threads=n_threads)
    white = whitening(products, threshold=LEAST_EIGENVALUE)[:, :MOST_DIRECTIONS]
    directions: Array = kernel_matrix(LINEAR, some.T, white.T, n_threads=n_threads)
    return directions
