"""Exact kernels: one coefficient an item, with the inner product of the kernel.

For w = sum_i beta_i phi(x_i) the scores are K beta and <u, v> = u' K v, so that

    scores(beta) = K beta        pullback(g) = g        |beta|^2 = beta . K beta

and the gradient of the risk is C g itself, without K in front of it: conjugate gradients in this
inner product solve (I + C H K) d = -(beta + C g), for one product with K a step.

Preconditioner.  The subspace of w that k landmarks span has the orthonormal basis V = E M, where E
picks the landmarks and M whitens their part W of K (M' W M = I).  The coordinates of u in it are
V' K u = M' (K u)[landmarks], known with the scores of u; the items have the features A M in it,
with A = K[:, landmarks].  Their scatter (see :mod:`ranksvm.objective`) is M' S M with the scatter
S of A.  A correction c in the subspace changes coefficients by V c and scores by A M c: beyond the
one product of the step, none is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ranksvm import _core
from ranksvm._vectors import Array, dot
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.features import whitening
from ranksvm.maps.gram import Gram
from ranksvm.maps.matrix import MatrixMap
from ranksvm.solvers.base import Point, Preconditioner

__all__ = ["KernelMap", "preconditioner_rank"]

MOST_LANDMARKS = 500
FEWEST_LANDMARKS = 32
# At most this part of the items, and of the memory.
SHARE_OF_ITEMS = 0.1
SHARE_OF_MEMORY = 0.25
# The scatter looks at so many items for each landmark.
ITEMS_PER_LANDMARK = 16
# Directions with less than this part of the largest eigenvalue weigh nothing in the Hessian, and
# the scatter would lose its digits over them.
LEAST_EIGENVALUE = 1e-6


def preconditioner_rank(n_items: int, itemsize: int, memory: int) -> int:
    """Return how many landmarks pay; 0 for none."""
    fitting = int(SHARE_OF_MEMORY * memory) // (itemsize * max(1, n_items))
    rank = min(MOST_LANDMARKS, int(SHARE_OF_ITEMS * n_items), fitting)
    return rank if rank >= FEWEST_LANDMARKS else 0


class KernelMap:
    """``scores(beta) = K beta`` in the space of the kernel.

    Parameters
    ----------
    gram : Gram
    rank : int
        Landmarks of the preconditioner; 0 for none.
    n_threads : int
    """

    euclidean = False

    def __init__(self, gram: Gram, *, rank: int = 0, n_threads: int = 1) -> None:
        self.gram = gram
        self._threads = n_threads
        self._n_products = 0
        self._subspace = _Subspace(gram, rank, n_threads) if rank else None

    @property
    def shape(self) -> tuple[int, int]:
        """(n_items, n_items)."""
        return self.gram.n_items, self.gram.n_items

    @property
    def dim(self) -> int:
        """Number of items."""
        return self.gram.n_items

    @property
    def n_products(self) -> int:
        """Products with K made so far."""
        return self._n_products

    def scores(self, w: Array) -> Array:
        self._n_products += 1
        return self.gram.product(w)

    def pullback(self, g: Array) -> Array:
        return g.copy()

    def inner(self, u: Array, v: Array, v_scores: Array) -> float:
        del v
        return dot(u, v_scores)

    def norm2(self, v: Array, v_scores: Array | None) -> float:
        assert v_scores is not None
        square = dot(v, v_scores)
        if square >= 0.0 or not np.isfinite(square):
            return square
        length = dot(v, v)
        if -square > self.gram.noise * length:
            raise ValueError(
                "the kernel is not positive semi-definite on these items: there is a vector v "
                f"with v'Kv = {square / length:.3g} |v|^2. Use a kernel that is (rbf, laplacian, "
                "poly with coef0 >= 0), other parameters, or add a constant to the diagonal of a "
                "precomputed K."
            )
        return 0.0

    def scatter(self, weight: Array, groups: QueryGroups) -> Array | None:
        return None if self._subspace is None else self._subspace.scatter(weight, groups)

    def lift(self, inverse: Callable[[Array], Array]) -> Preconditioner:
        assert self._subspace is not None
        return self._subspace.lift(inverse)


class _Subspace:
    """The span of some landmarks, drawn at random but always the same ones."""

    def __init__(self, gram: Gram, rank: int, n_threads: int) -> None:
        self._threads = n_threads
        self._items = np.sort(np.random.default_rng(0).permutation(gram.n_items)[:rank])
        self._columns = gram.columns(self._items)
        within = self._columns[self._items].astype(np.float64)
        self._whiten = whitening(0.5 * (within + within.T), threshold=LEAST_EIGENVALUE)
        self._map = MatrixMap(self._columns, n_threads=n_threads)

    def scatter(self, weight: Array, groups: QueryGroups) -> Array:
        n_items, rank = self._columns.shape
        step = max(1, n_items // (ITEMS_PER_LANDMARK * rank))
        flat = _core.scatter(
            self._columns,
            weight,
            groups.rows,
            groups.offsets,
            step,
            len(groups.offsets) - 1 >= 64 * step,
            self._threads,
        )
        scatter: Array = self._whiten.T @ flat.reshape(rank, rank) @ self._whiten
        return scatter

    def lift(self, inverse: Callable[[Array], Array]) -> Preconditioner:
        def on_point(point: Point) -> Point:
            inside = self._whiten.T @ point.scores[self._items]
            change = self._whiten @ (inverse(inside) - inside)
            w = point.w.copy()
            w[self._items] += change
            return Point(w, point.scores + self._map.scores(change))

        return Preconditioner(on_point=on_point)
