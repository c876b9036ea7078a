"""Features that are a product of two matrices, A M, which is never formed.

For Nystrom features A holds the kernel values with m landmarks and M whitens them (m x r):

    scores(v) = A (M v)        pullback(g) = M' (A' g)

Forming A M would cost m products with A and as much memory again; a fit needs some dozens.  The
columns of M are in order of importance, so the preconditioner looks at the first few hundred
features, and at some thousand items.  Without M the features are A itself, in no order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._vectors import Array, dot
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.matrix import MatrixMap
from ranksvm.solvers.base import Preconditioner

__all__ = ["FoldedMap"]

# Features and items that the scatter looks at, at most.
MOST_FEATURES = 256
MOST_ITEMS = 8_192


class FoldedMap:
    """``scores(v) = A (M v)`` with the plain inner product.

    Parameters
    ----------
    values : ndarray of shape (n_items, m), float32 or float64
        A.
    fold : ndarray of shape (m, r)
        M, the most important columns first.
    n_threads : int
    """

    euclidean = True

    def __init__(self, values: NDArray[Any], fold: Array, *, n_threads: int = 1) -> None:
        self._values = values
        self._fold = fold
        self._threads = n_threads
        self._outer = MatrixMap(values, n_threads=n_threads)
        self._inner = MatrixMap(fold, n_threads=n_threads)
        self._sample: _Sample | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n_items, n_features)."""
        return self._outer.shape[0], self.dim

    @property
    def dim(self) -> int:
        """Number of features."""
        return self._inner.shape[1]

    @property
    def n_products(self) -> int:
        """Products with A made so far, in either direction."""
        return self._outer.n_products

    def scores(self, w: Array) -> Array:
        return self._outer.scores(self._inner.scores(w))

    def pullback(self, g: Array) -> Array:
        return self._inner.pullback(self._outer.pullback(g))

    def inner(self, u: Array, v: Array, v_scores: Array) -> float:
        del v_scores
        return dot(u, v)

    def norm2(self, v: Array, v_scores: Array | None) -> float:
        del v_scores
        return dot(v, v)

    def scatter(self, weight: Array, groups: QueryGroups) -> Array | None:
        """Scatter of the first features, from a sample of the items."""
        if self._sample is None:
            first = np.ascontiguousarray(self._fold[:, :MOST_FEATURES])
            self._sample = _Sample(self._values, first, groups)
        return self._sample.scatter(weight, self._threads)

    def lift(self, inverse: Callable[[Array], Array]) -> Preconditioner:
        def on_vector(r: Array) -> Array:
            first = min(MOST_FEATURES, r.size)
            out = r.copy()
            out[:first] = inverse(r[:first])
            return out

        return Preconditioner(on_vector=on_vector)


class _Sample:
    """Some items, of whole queries if there are many, with some of their features."""

    def __init__(self, values: NDArray[Any], fold: Array, groups: QueryGroups) -> None:
        n_items = values.shape[0]
        step = max(1, n_items // MOST_ITEMS)
        if groups.n_queries >= 64 * step:
            rows = np.flatnonzero(groups.index % step == 0)
        else:
            rows = np.arange(0, n_items, step)
        self._rows = rows
        self._share = len(rows) / n_items
        self._features = values[rows].astype(np.float64, copy=False) @ fold
        self._groups = QueryGroups.from_qid(groups.index[rows], len(rows))

    def scatter(self, weight: Array, n_threads: int) -> Array:
        flat: Array = _core.scatter(
            self._features,
            weight[self._rows],
            self._groups.rows,
            self._groups.offsets,
            1,
            True,
            n_threads,
        )
        dim = self._features.shape[1]
        scatter: Array = flat.reshape(dim, dim) / self._share
        return scatter
