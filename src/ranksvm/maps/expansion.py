"""What a kernel model is once it is learnt: scores as a sum over points.

    s(x) = sum_j coef_j k(x, z_j)

The points are the support items of an exact kernel, the landmarks of Nystrom features (with their
whitening folded into coef), or the frequencies of random Fourier features (k is a cosine then).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.maps.kernels import Kernel, is_sparse, kernel_matrix, kernel_scores, row_blocks
from ranksvm.maps.matrix import MatrixMap

__all__ = ["Expansion", "GivenExpansion"]

# Kernel values that are kept at a time when several models are scored.
BLOCK_VALUES = 1 << 23


@dataclass(frozen=True, eq=False)
class Expansion:
    """A sum of kernels.

    Attributes
    ----------
    kernel : Kernel
    points : ndarray or CSR of shape (n_points, n_features)
    coef : ndarray of shape (n_points,)
    shift : ndarray of shape (n_points,) or None
        Phases of the cosines.
    """

    kernel: Kernel
    points: Any
    coef: Array
    shift: Array | None = None

    @property
    def n_features(self) -> int:
        return int(self.points.shape[1])

    def without_zeros(self) -> Expansion:
        """Return the same sum without points whose coefficient is zero."""
        there = np.flatnonzero(self.coef)
        return Expansion(self.kernel, self.points[there], self.coef[there])

    def scores(self, X: Any, *, n_threads: int = 1) -> Array:
        """Scores of items, shape (n_items,); in tiles."""
        return kernel_scores(
            self.kernel, X, self.points, self.coef, n_threads=n_threads, shift=self.shift
        )

    def scores_for(self, X: Any, coefs: Sequence[Array], *, n_threads: int = 1) -> list[Array]:
        """Scores under several coefficients; every kernel value is computed once."""
        scores = [np.empty(X.shape[0]) for _ in coefs]
        for part in row_blocks(X.shape[0], max(1, BLOCK_VALUES // max(1, self.points.shape[0]))):
            values = kernel_matrix(
                self.kernel, X[part], self.points, n_threads=n_threads, shift=self.shift
            )
            block = MatrixMap(values, n_threads=n_threads)
            for out, coef in zip(scores, coefs, strict=True):
                out[part] = block.scores(coef)
        return scores


@dataclass(frozen=True, eq=False)
class GivenExpansion:
    """A sum of kernel values that come from outside.

    Attributes
    ----------
    items : ndarray of int64
        Places of the points among the items that the model was trained on.
    coef : ndarray of the same shape
    n_features : int
        Number of items that the model was trained on: kernel values to come for an item.
    """

    items: NDArray[np.int64]
    coef: Array
    n_features: int

    def without_zeros(self) -> GivenExpansion:
        """Return the same sum without points whose coefficient is zero."""
        there = np.flatnonzero(self.coef)
        return GivenExpansion(self.items[there], self.coef[there], self.n_features)

    def scores(self, X: Any, *, n_threads: int = 1) -> Array:
        """Scores of items from their kernel values with all training items."""
        (scores,) = self.scores_for(X, [self.coef], n_threads=n_threads)
        return scores

    def scores_for(self, X: Any, coefs: Sequence[Array], *, n_threads: int = 1) -> list[Array]:
        """Scores under several coefficients."""
        if is_sparse(X):
            X = X.toarray()
        score_map = MatrixMap(X, n_threads=n_threads)
        scores = []
        for coef in coefs:
            full = np.zeros(self.n_features)
            full[self.items] = coef
            scores.append(score_map.scores(full))
        return scores
