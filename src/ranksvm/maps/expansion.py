"""A fitted kernel model: scores as a sum over points.

    s(x) = sum_j coef_j k(x, z_j)

The points are the support items of an exact kernel, the landmarks of Nystrom features (with the
whitening matrix multiplied into coef), or the frequencies of random Fourier features (where k is a
cosine).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._cached import cached_property
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.maps.kernels import (
    Kernel,
    ReadyItems,
    kernel_matrix,
    kernel_scores,
    ready_items,
    value_blocks,
)
from ranksvm.maps.matrix import MatrixMap

# Kernel values held at a time when several models are scored.
BLOCK_VALUES = 1 << 23
# Points of at most this many bytes are kept in the two forms that the native code takes.  With more
# of them, a few items take so long that preparing the points no longer matters.
READY_BYTES = 1 << 25


@dataclass(frozen=True, eq=False)
class Expansion:
    """A weighted sum of kernel values at points.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    points : ndarray or CSR of shape (n_points, n_features)
        The points.
    coef : ndarray of shape (n_points,)
        Their coefficients.
    shift : ndarray of shape (n_points,) or None
        Phases, for cosines.
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

    @cached_property
    def _ready_points(self) -> ReadyItems | None:
        """The points as the native code takes them, unless a copy of them would be large.

        The points cannot be changed from then on: the copy would not change with them.
        """
        if self.kernel.called is not None or is_sparse(self.points):
            return None
        if 8 * self.points.size > READY_BYTES:
            return None
        self.points.flags.writeable = False
        return ready_items(self.kernel, self.points, self.shift, is_kept=True)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out objects of the native code, which cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name != "_ready_points"}

    def scores(self, X: Any, *, n_threads: int = 1) -> Array:
        """Return the scores of items, shape (n_items,); computed in tiles.

        What does not depend on X is kept for the next call, and ``points`` become read-only.
        """
        return kernel_scores(
            self.kernel, X, self.points, self.coef, n_threads=n_threads, shift=self.shift,
            ready=self._ready_points,
        )  # fmt: skip

    def scores_for(self, X: Any, coefs: Sequence[Array], *, n_threads: int = 1) -> list[Array]:
        """Return scores for several coefficient vectors; kernel values are computed once."""
        scores = [np.empty(X.shape[0]) for _ in coefs]
        for part in value_blocks(X.shape[0], self.points.shape[0], BLOCK_VALUES):
            values = kernel_matrix(
                self.kernel, X[part], self.points, n_threads=n_threads, shift=self.shift
            )
            block = MatrixMap(values, n_threads=n_threads)
            for out, coef in zip(scores, coefs, strict=True):
                out[part] = block.scores(coef)
        return scores

    def scorer(self, X: Any, memory: int, *, n_threads: int = 1) -> Callable[[Array], Array]:
        """Return the function from coefficients of the points to the scores of items.

        Kernel values are kept if they take at most ``memory`` bytes, and are otherwise computed
        again in every call.
        """
        X = X.tocsr() if is_sparse(X) else X
        if 8 * X.shape[0] * self.points.shape[0] <= memory:
            values = kernel_matrix(
                self.kernel, X[:], self.points, n_threads=n_threads, shift=self.shift
            )
            return MatrixMap(values, n_threads=n_threads).scores
        return lambda coef: self.scores_for(X, [coef], n_threads=n_threads)[0]


@dataclass(frozen=True, eq=False)
class GivenExpansion:
    """A weighted sum of precomputed kernel values.

    Attributes
    ----------
    items : ndarray of int64
        Indices of the points among the training items.
    coef : ndarray of the same shape
        Their coefficients.
    n_features : int
        Number of training items, which is the number of kernel values expected for an item.
    """

    items: NDArray[np.int64]
    coef: Array
    n_features: int

    def without_zeros(self) -> GivenExpansion:
        """Return the same sum without points whose coefficient is zero."""
        there = np.flatnonzero(self.coef)
        return GivenExpansion(self.items[there], self.coef[there], self.n_features)

    def scores(self, X: Any, *, n_threads: int = 1) -> Array:
        """Return the scores of items from their kernel values with all training items."""
        (scores,) = self.scores_for(X, [self.coef], n_threads=n_threads)
        return scores

    def scores_for(self, X: Any, coefs: Sequence[Array], *, n_threads: int = 1) -> list[Array]:
        """Return scores for several coefficient vectors."""
        if is_sparse(X):
            X = X.toarray()
        score_map = MatrixMap(X, n_threads=n_threads)
        scores = []
        for coef in coefs:
            full = np.zeros(self.n_features)
            full[self.items] = coef
            scores.append(score_map.scores(full))
        return scores

    def scorer(self, X: Any, memory: int, *, n_threads: int = 1) -> Callable[[Array], Array]:
        """Return the function from coefficients of the points to the scores of items."""
        del memory  # the values are there
        X = X.toarray() if is_sparse(X) else X
        return lambda coef: self.scores_for(X, [coef], n_threads=n_threads)[0]
