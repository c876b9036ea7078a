"""The native backend: multithreaded C++ on the CPU.

``counting`` selects the algorithm:

===========  ==============================================================================
auto         bit masks for queries of at most 128 items, radix counting for larger ones
tree         red-black order-statistics tree (Airola, Pahikkala & Salakoski), O(n log k)
direct       one counter per relevance level (Lee & Lin, supplement II.1), O(n k)
joachims     one pass per relevance level (Lee & Lin, supplement, Algorithm I), O(n k)
pairs        all comparable pairs, O(n^2)
===========  ==============================================================================

for a query of n items with k distinct labels.  All give exactly the same counts, and the same sums
up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._cached import cached_property
from ranksvm._checks import check_choice
from ranksvm._rounding import roundings
from ranksvm._vectors import Array, dot
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairErrors, PairOrder, PairSnapshot

# What ``_core.Order.centred`` returns besides the centered scores.
Magnitudes = tuple[float, float, float, float, float]

COUNTINGS = ("auto", "tree", "direct", "joachims", "pairs")


class NativeBackend:
    """Finds violated pairs with the native core.

    Parameters
    ----------
    order : PairOrder
        Labels, queries and item weights.
    counting : str
        Counting algorithm, one of ``COUNTINGS``.
    n_threads : int
        Number of threads.
    """

    def __init__(self, order: PairOrder, *, counting: str = "auto", n_threads: int = 1) -> None:
        check_choice("counting", counting, COUNTINGS)
        self.groups: QueryGroups = order.groups
        self._counting = counting
        self._threads = n_threads
        weight, worse = order.better_weight, None
        self._most_weight = weight  # of both roles
        self._by_gain = order.by_gain
        if order.roles is not None:
            worse = order.worse_weight
            worse = np.ones(order.groups.n_items) if worse is None else worse
            self._most_weight = np.maximum(1.0 if weight is None else weight, worse)
        self._order = _core.Order(
            np.ascontiguousarray(order.utility, dtype=np.float64),
            np.ascontiguousarray(order.groups.rows, dtype=np.int64),
            np.ascontiguousarray(order.groups.offsets, dtype=np.int64),
            None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
            None,
            n_threads,
            order.by_gain,
            None if worse is None else np.ascontiguousarray(worse, dtype=np.float64),
        )
        self._query_weight: Array | None = None
        self._query_factor: Array | None = None
        self._size_up()

    def release_memory(self) -> None:
        """Free what earlier evaluations have left for later ones to use."""
        self._order.release_memory()

    @cached_property
    def pairs(self) -> Sequence[int]:
        counts: list[int] = self._order.pairs().tolist()
        return counts

    @property
    def pair_weights(self) -> Array:
        weights = self._order.pair_weights()
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked elsewhere
            return weights if self._query_factor is None else self._query_factor * weights

    def set_query_factor(self, factor: Array) -> None:
        """Multiply the weights of the pairs of each query, beside the weight of the query."""
        self._query_factor = factor
        self.set_query_weight(np.ones(len(factor)))

    def set_query_weight(self, weight: Array) -> None:
        if self._query_factor is not None:
            weight = self._query_factor * weight
        self._query_weight = np.ascontiguousarray(weight, dtype=np.float64)
        self._order.set_query_weight(self._query_weight)
        self._size_up()

    def _size_up(self) -> None:
        """Set the weight of all pairs, and bounds on the errors of sums of weights."""
        groups = self.groups
        own = np.ones(groups.n_queries) if self._query_weight is None else self._query_weight
        sums = 0.0
        whole = self._order.has_grid  # sums of integer weights are as exact as counts
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked elsewhere
            self.weight = dot(own, self._order.pair_weights())
            if not whole:  # running sums and their differences are rounded
                mass = np.bincount(groups.index, self._most_weight, groups.n_queries)
                pull = self._order.largest_gains() * mass
                additions = 4.0 * groups.sizes + 96.0
                terms = float(np.einsum("q,q,q,q->", additions, own, mass, pull))
                sums = roundings(4) * self._payloads * terms
        weighted = not whole or self._query_weight is not None
        exact = not weighted and self.weight < 2.0**53
        many = groups.n_queries + 16 + (0 if whole else groups.n_items)
        self._count_error = 0.0 if exact else roundings(many) * self.weight + sums
        self._imbalance_error = roundings(8) * self.weight + 2.0 * sums if weighted else 0.0

    @property
    def _payloads(self) -> float:
        """Number of sums that a sum over partners takes; see ``cpp/include/ranksvm/plan.hpp``."""
        return 2.0 if self._by_gain else 1.0

    @property
    def factor_rows(self) -> NDArray[np.int64]:
        return self._order.rows()

    def factor_coefficients(self, factors: Array) -> Array:
        return self._order.factor_coefficients(factors, self._threads)

    def factor_gradient(self, factors: Array, t: Array) -> Array:
        t = np.ascontiguousarray(t, dtype=np.float64)
        return self._order.factor_gradient(factors, t, self._threads).reshape(factors.shape)

    def at(self, scores: Array, *, on_grid: bool = False) -> NativeSnapshot:
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        return NativeSnapshot(self, scores, on_grid=on_grid and self._order.has_grid)

    def _errors(self, magnitudes: Magnitudes, *, on_grid: bool) -> PairErrors:
        """See ``docs/certificates_proof.md``, "Sums over violated pairs"."""
        linear, square, linear_additions, square_additions, moved = magnitudes
        if on_grid:  # the sums are exact; only the query weights are multiplied afterwards
            own = 0.0 if self._query_weight is None else roundings(4)
            products = own * linear, own * linear, own * square
            return PairErrors(
                self._count_error, self._imbalance_error, *products, linear, 2.0 * square, moved
            )
        # Sums of weights have such errors, too; the classic algorithms have longer running sums.
        each = self._payloads * roundings(1 if self._counting == "auto" else 4)
        counts = 0.0 if self._order.has_grid else 2.0 * each
        return PairErrors(
            total=self._count_error,
            imbalance=self._imbalance_error,
            tilt=counts * linear_additions + roundings(8) * linear,
            product=(each + counts) * linear_additions,
            square=(each + counts) * square_additions,
            linear=linear,
            quadratic=2.0 * square,
            moved=moved,
        )


class NativeSnapshot:
    """The violated pairs at given scores, found by the native core."""

    def __init__(self, backend: NativeBackend, scores: Array, *, on_grid: bool) -> None:
        self._backend = backend
        self._threads = backend._threads
        self._on_grid = on_grid
        self._scores = scores
        if on_grid:
            self._scores = self._centred[0]
        self._sorted = backend._order.sort(self._scores, backend._counting, backend._threads)

    @cached_property
    def _centred(self) -> tuple[Array, Magnitudes]:
        return self._backend._order.centred(self._scores, self._on_grid, self._threads)

    @property
    def centred(self) -> Array:
        return self._centred[0]

    @property
    def errors(self) -> PairErrors:
        return self._backend._errors(self._centred[1], on_grid=self._on_grid)

    def plan(self, margin: float, *, products: bool) -> NativePlan:
        return NativePlan(self._sorted.plan(margin, products, self._threads), self, self._threads)


class NativePlan:
    """A plan of the native core, made at the scores of ``snapshot``."""

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
