"""Exact kernels: one coefficient per item, with the inner product of the kernel.

For w = sum_i beta_i phi(x_i) the scores are K beta and <u, v> = u' K v, so that

    scores(beta) = K beta        pullback(g) = g        |beta|^2 = beta . K beta

and the gradient of the risk is C g itself, without a factor K: conjugate gradients in this inner
product solve (I + C H K) d = -(beta + C g), with one product with K per step.

Preconditioner.  A set of landmarks L spans a subspace of w.  With K[L, L] = R R', it has the
orthonormal basis V = E R'^-1, where E selects the landmarks.  The coordinates of u in it are
V' K u = R^-1 (K u)[L], which follow from the scores of u.  The items have the features
F = K[:, L] R'^-1 in the subspace, and their scatter is that of :mod:`ranksvm.objective`.  A
correction c in the subspace changes the coefficients by V c and the scores by K[:, L] R'^-1 c, so
the preconditioner needs no product with K beyond the one of the CG step.  The landmarks are drawn
so that F F' is close to K (:mod:`ranksvm.maps.cholesky`); if the eigenvalues of K decrease slowly,
this works better than drawing them uniformly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ranksvm._cached import cached_property
from ranksvm._points import Point
from ranksvm._rounding import SLACK, roundings
from ranksvm._rows import take_rows
from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array, dot, dot_depth
from ranksvm.maps.cholesky import pivoted_cholesky
from ranksvm.maps.gram import Gram
from ranksvm.maps.gram_checks import ADVICE
from ranksvm.maps.kernels import LINEAR, kernel_matrix
from ranksvm.maps.matrix import MatrixMap
from ranksvm.maps.sample import SampledScatter, WeightedItems

EPS = float(np.finfo(np.float64).eps)

MOST_LANDMARKS = 500
FEWEST_LANDMARKS = 32
# Maximum number of landmarks as a fraction of the items.
SHARE_OF_ITEMS = 0.1
# Approximate number of items from which landmarks are drawn, and of items in the scatter per
# landmark.
POOL = 8_192
ITEMS_PER_LANDMARK = 8
# Times of a step of the Cholesky decomposition and of a new kernel value, relative to that of a
# value in a product.
STEP_TIME, VALUE_TIME = 0.4, 5.0


def preconditioner_rank(n_items: int, itemsize: int, memory: int) -> int:
    """Return the number of landmarks that fit into ``memory`` bytes; 0 for no preconditioner."""
    fitting = max(0, memory) // (itemsize * max(1, n_items))
    rank = min(MOST_LANDMARKS, int(SHARE_OF_ITEMS * n_items), fitting)
    return rank if rank >= FEWEST_LANDMARKS else 0


class KernelMap:
    """``scores(beta) = K beta`` in the space of the kernel.

    Parameters
    ----------
    gram : Gram
        The kernel matrix K.
    rank : int
        Number of landmarks of the preconditioner; 0 for none.  The preconditioner is created once
        the products so far have cost as much as it will.
    n_threads : int
        Number of threads.
    """

    capabilities: frozenset[str] = frozenset()

    def __init__(self, gram: Gram, *, rank: int = 0, n_threads: int = 1) -> None:
        self.gram = gram
        self._rank = rank
        self._threads = n_threads
        self.shape = gram.n_items, gram.n_items
        self.n_products = 0
        self._subspace: _Subspace | None = None

    def zero_scores(self) -> Array:
        return np.zeros(self.shape[0])

    def scores(self, w: Array) -> Array:
        self.n_products += 1
        return self.gram.product(w)

    def pullback(self, g: Array) -> Array:
        return g.copy()

    def inner(self, u: Array, v: Array, v_scores: Array) -> float:
        del v
        return dot(u, v_scores)

    def norm2(self, v: Array, v_scores: Array, v_error: float) -> float:
        square = dot(v, v_scores)
        if square >= 0.0 or not np.isfinite(square):
            return square
        length = dot(v, v)
        if -square > self.gram.noise * length + self.norm2_error(v, v_error, square):
            raise ValueError(
                "the kernel is not positive semi-definite on these items: there is a vector v "
                f"with v'Kv = {square / length:.3g} |v|^2, or the kernel values differ too much "
                f"in size for float64. {ADVICE} Scale the features."
            )
        return 0.0

    def reach(self, w: Array) -> float:
        # |K_ij|^2 <= K_ii K_jj.
        return float(np.sqrt(self.gram.scale)) * self._size(w)

    @property
    def score_rounding(self) -> float:
        return roundings(self.gram.n_items + 64)  # 64 for values that differ in their last bits

    def size(self, v: Array, norm2: float) -> float:
        del norm2
        return self._size(v)

    def _size(self, v: Array) -> float:
        return SLACK * float(np.einsum("i,i->", self._roots, np.abs(v)))

    @cached_property
    def _roots(self) -> Array:
        """Return for each item a number such that |K_ij| is at most the product of two of them."""
        if self.gram.definite:
            return np.sqrt(np.abs(self.gram.diagonal()))
        return np.full(self.gram.n_items, float(np.sqrt(self.gram.scale)))

    def norm2_error(self, v: Array, v_error: float, norm2: float) -> float:
        """Bound the errors of sums in float64, and of values rounded to a lower precision."""
        del norm2
        size = self._size(v)
        kept = 2.0 * self.gram.precision * dot(v, v) if self.gram.precision > EPS else 0.0
        rounding = roundings(dot_depth(v.size))
        arithmetic = float(np.abs(v).sum()) * v_error + rounding * size * size
        return SLACK * (self.gram.scale * kept + arithmetic)

    def pullback_error(self, size: float, error: float) -> float:
        del size
        return error

    def widened(self, norm: float, v: Array, pullback_error: float) -> float:
        del v
        return norm + SLACK * float(np.sqrt(self.gram.scale)) * pullback_error

    def sharpen(self) -> bool:
        return False

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        if self._subspace is None and self._rank and self.n_products >= self._price:
            self._subspace = _Subspace(self.gram, self._rank, self._threads)
        return None if self._subspace is None else self._subspace.scatter.at(parts, self._threads)

    @property
    def _price(self) -> float:
        """Cost of the preconditioner, in products with a K stored in memory.

        It must not depend on how much of K is actually stored, or the model would depend on it.
        """
        n, k = self.gram.n_items, self._rank
        made = STEP_TIME * min(n, POOL) * k * k + VALUE_TIME * n * k
        return made / (0.5 * n * n)

    def lift(self, inverse: Callable[[Array], Array]) -> Callable[[Point], Point]:
        assert self._subspace is not None
        return self._subspace.lift(inverse)


class _Subspace:
    """The span of a set of landmarks, drawn at random with a fixed seed."""

    def __init__(self, gram: Gram, rank: int, n_threads: int) -> None:
        n_items = gram.n_items
        pool = np.arange(0, n_items, max(1, n_items // POOL))
        with one_blas_thread():
            places, features = pivoted_cholesky(
                gram.diagonal()[pool],
                lambda drawn: gram.block(pool, pool[drawn]),
                rank,
                64.0 * gram.noise / n_items,
                n_threads=n_threads,
            )
        self._items = pool[places]
        self._root = features[places]
        self._columns = gram.columns(self._items)
        self._map = MatrixMap(self._columns, n_threads=n_threads)
        self._threads = n_threads
        self._reach = SLACK * gram.scale
        self.scatter = SampledScatter(self._features, ITEMS_PER_LANDMARK * len(self._items))

    def _features(self, rows: NDArray[np.int64]) -> Array:
        """Return the coordinates of items in the subspace."""
        some = take_rows(self._columns, rows, self._threads).astype(np.float64, copy=False)
        # A product with the inverse, which many threads share: a scatter only has to be roughly
        # right.
        inverse = self._solve(np.eye(len(self._root)))
        return kernel_matrix(LINEAR, some, inverse, n_threads=self._threads)

    def lift(self, inverse: Callable[[Array], Array]) -> Callable[[Point], Point]:
        def lifted(point: Point) -> Point:
            inside = self._solve(point.scores[self._items])
            change = self._solve(inverse(inside) - inside, trans="T")
            w = np.zeros_like(point.w)
            w[self._items] = change
            reach = self._reach * float(np.abs(change).sum())
            error = (self._map.score_rounding + roundings(64)) * reach  # see KernelMap
            moved = Point(w, self._map.scores(change), error, reach)
            return point.plus(1.0, moved)

        return lifted

    def _solve(self, right: Array, trans: str = "N") -> Array:
        # Imported here because the import is slow and not needed to read a model.
        from scipy.linalg import solve_triangular

        solved: Array = solve_triangular(
            self._root, right, lower=True, trans=trans, check_finite=False
        )
        return solved
