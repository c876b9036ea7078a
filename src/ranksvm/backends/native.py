"""The native backend: C++ on the processor, threaded.

``counting`` names the algorithm:

===========  ==============================================================================
auto         bit masks for queries of at most 128 items, radix descent for larger ones
tree         red-black order-statistics tree (Airola, Pahikkala & Salakoski), O(n log k)
direct       one counter per relevance level (Lee & Lin, supplement II.1), O(n k)
joachims     one pass per relevance level (Lee & Lin, supplement, Algorithm I), O(n k)
pairs        all comparable pairs, O(n^2)
===========  ==============================================================================

for a query of n items with k distinct utilities.  All give the same counts to the last pair, and
the same sums up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairOrder, PairSnapshot

__all__ = ["COUNTINGS", "NativeBackend", "NativePlan"]

COUNTINGS = ("auto", "tree", "direct", "joachims", "pairs")


class NativeBackend:
    """Violated pairs by the native core.

    Parameters
    ----------
    order : PairOrder
    counting : str
        One of ``COUNTINGS``.
    n_threads : int
    """

    def __init__(self, order: PairOrder, *, counting: str = "auto", n_threads: int = 1) -> None:
        if counting not in COUNTINGS:
            raise ValueError(f"counting must be one of {', '.join(COUNTINGS)}; got {counting!r}")
        self.groups: QueryGroups = order.groups
        self._counting = counting
        self._threads = n_threads
        weight = order.item_weight
        n_queries = len(order.groups.offsets) - 1
        # By query: squared sum of the item weights; nothing when there are none.
        self._squares: Array = np.zeros(n_queries)
        if weight is not None:
            sums = np.bincount(order.groups.index, weight, n_queries)
            with np.errstate(over="ignore"):  # the pair weights overflow too, and are refused
                self._squares = np.square(sums.astype(np.float64))
        self._mass = float(self._squares.sum())
        self._order = _core.Order(
            np.ascontiguousarray(order.utility, dtype=np.float64),
            np.ascontiguousarray(order.groups.rows, dtype=np.int64),
            np.ascontiguousarray(order.groups.offsets, dtype=np.int64),
            None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
            None,
            n_threads,
        )

    @property
    def pairs(self) -> Sequence[int]:
        return self._order.pairs()

    @property
    def pair_weights(self) -> Array:
        return self._order.pair_weights()

    def set_query_weight(self, weight: Array) -> None:
        self._mass = float(np.einsum("q,q->", self._squares, weight))
        self._order.set_query_weight(np.ascontiguousarray(weight, dtype=np.float64))

    @property
    def factor_rows(self) -> NDArray[np.int64]:
        return self._order.rows()

    def factor_coefficients(self, factors: Array) -> Array:
        return self._order.factor_coefficients(factors, self._threads)

    def factor_gradient(self, factors: Array, t: Array) -> Array:
        t = np.ascontiguousarray(t, dtype=np.float64)
        return self._order.factor_gradient(factors, t, self._threads).reshape(factors.shape)

    def at(self, scores: Array) -> NativeSnapshot:
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        return NativeSnapshot(self._order, scores, self._mass, self._counting, self._threads)


class NativeSnapshot:
    def __init__(
        self, order: _core.Order, scores: Array, mass: float, counting: str, threads: int
    ) -> None:
        self.mass = mass
        self._order = order
        self._scores = scores
        self._threads = threads
        self._sorted = order.sort(scores, counting, threads)

    @cached_property
    def _centred(self) -> tuple[Array, float]:
        return self._order.centred(self._scores, self._threads)

    @property
    def centred(self) -> Array:
        return self._centred[0]

    @property
    def magnitude(self) -> float:
        return self._centred[1]

    def plan(self, margin: float, *, products: bool) -> NativePlan:
        return NativePlan(self._sorted.plan(margin, products, self._threads), self, self._threads)


class NativePlan:
    """A plan of the core; ``snapshot`` has the scores that it was made at."""

    def __init__(self, plan: _core.Plan, snapshot: PairSnapshot, threads: int) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._threads = threads

    @property
    def total(self) -> float:
        return self._plan.total

    @property
    def imbalance(self) -> Array:
        return self._plan.imbalance(self._threads)

    def laplacian(self, x: Array) -> Array:
        return self._plan.laplacian(np.ascontiguousarray(x, dtype=np.float64), self._threads)

    def score_laplacian(self) -> Array:
        return self._plan.score_laplacian(self._snapshot.centred, self._threads)

    def counts(self) -> tuple[Array, Array]:
        return self._plan.counts(self._threads)

    def sums(self, x: Array) -> tuple[Array, Array]:
        return self._plan.sums(np.ascontiguousarray(x, dtype=np.float64), self._threads)
