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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._rounding import SLACK, roundings
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
    """``scores(v) = A (M v)`` with the Euclidean inner product.

    Parameters
    ----------
    values : ndarray of shape (n_items, m), float32 or float64
        The matrix A.
    fold : ndarray of shape (m, r) or None
        The matrix M, the most important columns first; None if A itself holds the features.
    n_threads : int
        Number of threads.
    """

    def __init__(
        self, values: NDArray[Any], fold: Array | None = None, *, n_threads: int = 1
    ) -> None:
        super().__init__(values, n_threads=n_threads)
        self._values = values
        self._fold = None if fold is None else MatrixMap(fold, n_threads=n_threads)
        self._directions = None if fold is None else fold[:, :MOST_DIRECTIONS]
        self._fold_norms = None if fold is None else np.sqrt(np.einsum("ij,ij->j", fold, fold))
        self._subspace: _Subspace | None = None
        if fold is not None:
            self.shape = values.shape[0], fold.shape[1]

    def scores(self, w: Array) -> Array:
        return super().scores(w if self._fold is None else self._fold.scores(w))

    def pullback(self, g: Array) -> Array:
        back = super().pullback(g)
        return back if self._fold is None else self._fold.pullback(back)

    def reach(self, w: Array) -> float:
        if self._fold_norms is None:
            return super().reach(w)
        return SLACK * self._longest_row * float(np.einsum("j,j->", self._fold_norms, np.abs(w)))

    @property
    def score_rounding(self) -> float:
        own = super().score_rounding
        return own if self._fold is None else own + self._fold.score_rounding

    def pullback_error(self, size: float, error: float) -> float:
        own = super().pullback_error(size, error)
        if self._fold is None:
            return own
        return own + roundings(self._fold._depth(transposed=True)) * size

    def widened(self, norm: float, v: Array, pullback_error: float) -> float:
        if self._fold_norms is None:
            return super().widened(norm, v, pullback_error)
        return norm + self._longest_row * length(self._fold_norms) * pullback_error

    def sharpen(self) -> bool:
        return super().sharpen() if self._fold is None else False

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        """Return the scatter of a sample of the items in the subspace."""
        if self.shape[1] < FEWEST_FEATURES and self._fold is None:
            return super().scatter(parts)
        if self._subspace is None:
            self._subspace = _Subspace(self._values, self._directions, self._threads)
        return self._subspace.scatter.at(parts, self._threads)

    def lift(self, inverse: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return inverse if self._subspace is None else self._subspace.lift(inverse)


class _Subspace:
    """A subspace of the feature space, and the scatter of a sample of items in it."""

    def __init__(self, values: NDArray[Any], directions: Array | None, n_threads: int) -> None:
        # With a fold, the subspace is spanned by the first features; its basis are unit vectors.
        self._basis: Array | None = None
        if directions is None:
            directions = self._basis = _principal(values, n_threads)
        across = directions.T

        def coordinates(rows: NDArray[np.int64]) -> Array:
            found = np.empty((len(rows), len(across)))
            for part in row_blocks(len(rows), BLOCK_ROWS):  # limits the size of the copies
                found[part] = kernel_matrix(LINEAR, values[rows[part]], across, n_threads=n_threads)
            return found

        self._n_directions = len(across)
        self.scatter = SampledScatter(coordinates, MOST_ITEMS)

    def lift(self, inverse: Callable[[Array], Array]) -> Callable[[Array], Array]:
        n_directions, basis = self._n_directions, self._basis

        def lifted(r: Array) -> Array:
            if basis is None:
                out = r.copy()
                out[:n_directions] = inverse(r[:n_directions])
                return out
            inside = basis.T @ r
            out = r + basis @ (inverse(inside) - inside)
            return out

        return lifted


def _principal(values: NDArray[Any], n_threads: int) -> Array:
    """Return the principal directions of a sample of items, orthonormal, shape (dim, k)."""
    n_items = values.shape[0]
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(n_items)[:MOST_LANDMARKS])
    some = values[rows]
    products = kernel_matrix(LINEAR, some, some, n_threads=n_threads)
    fold = whitening(products, threshold=LEAST_EIGENVALUE)[:, :MOST_DIRECTIONS]
    directions: Array = kernel_matrix(LINEAR, some.T, fold.T, n_threads=n_threads)
    return directions
