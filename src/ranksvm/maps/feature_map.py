"""Scores from explicit kernel features: A v, or A (M v) if the features are a product.

For Nystrom features, A holds the kernel values at m landmarks and M whitens them (m x r):

    scores(v) = A (M v)        pullback(g) = M' (A' g)

Computing A M would cost m products with A and as much memory again, while fitting takes only a few
dozen products.

Preconditioner.  Most of the information of a kernel is in a few hundred directions of the feature
space.  For Nystrom features these are the leading directions of the landmarks
(:mod:`ranksvm.maps.whitening`); for other features they are the principal directions of a sample of
items.  The scatter (:mod:`ranksvm.objective`) is that of a few thousand items in this subspace V,
which has orthonormal columns, and its inverse P acts as r + V (P - I) V' r.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._cached import cached_property
from ranksvm._rounding import SLACK
from ranksvm._vectors import Array, length
from ranksvm.maps.features import NystroemBasis
from ranksvm.maps.kernels import LINEAR, kernel_matrix, row_blocks
from ranksvm.maps.matrix import EuclideanMap, MatrixMap
from ranksvm.maps.sample import SampledScatter, WeightedItems
from ranksvm.maps.whitening import Subspace, eigenvector_whitening

# Maximum number of directions, of items that they are computed from, and of items in the scatter.
MOST_DIRECTIONS = 256
MOST_LANDMARKS = 512
MOST_ITEMS = 8_192
BLOCK_ROWS = 2_048
# With fewer features, the scatter of the features themselves is used.
FEWEST_FEATURES = 64
LEAST_EIGENVALUE = 1e-6


class FeatureMap(EuclideanMap):
    """``scores(v) = A v`` with the Euclidean inner product.

    Parameters
    ----------
    inner : EuclideanMap
        The map of A, of shape (n_items, m).
    values : callable
        ``values(rows)`` returns rows of A.
    n_values : int or None
        Number of rows to choose from for the subspace; None for all of A.
    n_threads : int
        Number of threads.
    """

    def __init__(
        self,
        inner: EuclideanMap,
        values: Callable[[NDArray[np.int64]], NDArray[Any]],
        *,
        n_values: int | None = None,
        n_threads: int = 1,
    ) -> None:
        self.shape = inner.shape
        self._inner = inner
        self._n_values = inner.shape[0] if n_values is None else n_values
        self._values = values
        self._threads = n_threads

    @property
    def n_products(self) -> int:  # type: ignore[override]
        return self._inner.n_products

    def zero_scores(self) -> Array:
        return self._inner.zero_scores()

    def scores(self, w: Array) -> Array:
        return self._inner.scores(w)

    def pullback(self, g: Array) -> Array:
        return self._inner.pullback(g)

    @property
    def longest_row(self) -> float:
        return self._inner.longest_row

    @property
    def score_depth(self) -> int:
        return self._inner.score_depth

    @property
    def pullback_depth(self) -> int:
        return self._inner.pullback_depth

    def sharpen(self) -> bool:
        is_sharper = self._inner.sharpen()
        self.tallest = self._inner.tallest
        return is_sharper

    @cached_property
    def subspace(self) -> Subspace:
        """The subspace of the preconditioner."""
        basis = _principal(self._values, self._n_values, self._threads)
        return Subspace(basis, basis)

    @property
    def has_subspace(self) -> bool:
        """Whether the scatter is that of a sample of the items in a subspace."""
        return self.shape[1] >= FEWEST_FEATURES

    def coordinates(self, rows: NDArray[np.int64]) -> Array:
        """Return the coordinates of items in the subspace."""
        across = np.ascontiguousarray(self.subspace.directions.T)
        found = np.empty((len(rows), len(across)))
        for part in row_blocks(len(rows), BLOCK_ROWS):  # limits the size of the copies
            kernel_matrix(
                LINEAR, self._values(rows[part]), across, n_threads=self._threads, out=found[part]
            )
        return found

    @cached_property
    def _sampled_scatter(self) -> SampledScatter:
        return SampledScatter(self.coordinates, MOST_ITEMS)

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        """Return the scatter of a sample of the items in the subspace."""
        if not self.has_subspace or self._inner.has_own_sample:
            return self._inner.scatter(parts)
        return self._sampled_scatter.at(parts, self._threads)

    def lift(self, inverse: Callable[[Array], Array]) -> Callable[[Array], Array]:
        if not self.has_subspace:
            return inverse
        basis = self._basis

        def lifted(r: Array) -> Array:
            inside = basis.pullback(r)
            return r + basis.scores(inverse(inside) - inside)

        return lifted

    @cached_property
    def _basis(self) -> MatrixMap:
        return MatrixMap(self.subspace.basis, n_threads=self._threads)


class NystroemMap(FeatureMap):
    """``scores(v) = A (M v)`` with the Euclidean inner product.

    Parameters
    ----------
    inner, values, n_values, n_threads
        As in :class:`FeatureMap`.
    basis : NystroemBasis
        The matrix M, of shape (m, r), and its leading directions.
    """

    def __init__(
        self,
        inner: EuclideanMap,
        values: Callable[[NDArray[np.int64]], NDArray[Any]],
        basis: NystroemBasis,
        *,
        n_values: int | None = None,
        n_threads: int = 1,
    ) -> None:
        super().__init__(inner, values, n_values=n_values, n_threads=n_threads)
        if basis.leading is None:
            raise ValueError("the basis needs leading directions")
        matrix = basis.whitening
        self.shape = inner.shape[0], matrix.shape[1]
        self.subspace = basis.leading
        self._whitening = MatrixMap(matrix, n_threads=n_threads)
        self._column_norms = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))

    @property
    def has_subspace(self) -> bool:
        return True

    def scores(self, w: Array) -> Array:
        return super().scores(self._whitening.scores(w))

    def pullback(self, g: Array) -> Array:
        return self._whitening.pullback(super().pullback(g))

    def reach(self, w: Array) -> float:
        return SLACK * self.longest_row * float(np.einsum("j,j->", self._column_norms, np.abs(w)))

    @property
    def score_rounding(self) -> float:
        return super().score_rounding + self._whitening.score_rounding

    def pullback_error(self, size: float, error: float) -> float:
        return super().pullback_error(size, error) + self._whitening.pullback_error(size, 0.0)

    def widened(self, norm: float, v: Array, pullback_error: float) -> float:
        return norm + self.longest_row * length(self._column_norms) * pullback_error

    def sharpen(self) -> bool:
        return False


def _principal(
    values: Callable[[NDArray[np.int64]], NDArray[Any]], n_items: int, n_threads: int
) -> Array:
    """Return the principal directions of a sample of items, orthonormal, shape (dim, k)."""
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(n_items)[:MOST_LANDMARKS])
    some = values(rows)
    products = kernel_matrix(LINEAR, some, some, n_threads=n_threads)
    white = eigenvector_whitening(products, threshold=LEAST_EIGENVALUE)[:, :MOST_DIRECTIONS]
    directions: Array = kernel_matrix(LINEAR, some.T, white.T, n_threads=n_threads)
    return directions
