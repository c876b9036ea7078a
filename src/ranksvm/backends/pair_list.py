"""Explicit pairs on the CPU: every pair is visited, O(|P|) per plan or product, multithreaded.

The pairs are stored by item, so each statistic of an item is a sum over its own partners (see
``cpp/include/ranksvm/pair_list.hpp``).

Rounding.  A pair adds weight * (c_i - c_j) to the Laplacian products of both its items.  The sums
are computed by halves, so a term is rounded at most ``DEPTH`` times.  With d_i the weight of all
pairs of item i, the absolute values of the terms of all items add up to at most 2 sum d_i |c_i|.
Multiplied by |c_i|, as in a quadratic form, they add up to at most 2 sum d_i c_i^2, because
(|a| + |b|)^2 <= 2 a^2 + 2 b^2.  On a grid and with integer weights, all these sums are exact.

Queries.  Pairs that form one query have one factor, by which finished sums are multiplied.  With
several queries, the weights of the pairs are multiplied by those of their queries, one rounding
each, before they are stored.  They count as integers only if both factors are: 3 times the number
nearest to 1/3 is rounded to 1, and is not 1.

Ties.  A tie is stored as both orders with half of its weight.  So that weights stay integers, all
are stored twice as large, with half the factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._cached import cached_property
from ranksvm._rounding import roundings
from ranksvm._vectors import Array, dot
from ranksvm.backends.native import NativePlan
from ranksvm.data.preferences import Preferences, components, positive_pairs
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairErrors

# 64 terms added in sequence, sums by halves for at most 2^40 pairs, and some before and after.
DEPTH = 120
MOST_ON_GRID = 2.0**30


class PairListBackend:
    """Finds the violated pairs of a list, which form one query or, if they know theirs, several.

    Parameters
    ----------
    preferences : Preferences
        Checked preferences; pairs of weight zero are left out.
    n_items : int
        Number of items.
    n_threads : int
        Number of threads.
    """

    def __init__(self, preferences: Preferences, n_items: int, *, n_threads: int = 1) -> None:
        self._kept = positive_pairs(preferences)
        self._n_items, self._threads = n_items, n_threads
        weight, query = self._kept.weight, self._kept.query
        n_queries = preferences.n_queries
        self.pairs: Sequence[int] = [len(self._kept)]
        self.pair_weights: Array = np.array(self.pairs, dtype=np.float64)
        with np.errstate(over="ignore"):  # overflow is checked elsewhere
            if query is not None:
                self.pairs = np.bincount(query, minlength=n_queries).tolist()
                self.pair_weights = np.bincount(query, weight, n_queries).astype(np.float64)
            elif weight is not None:
                self.pair_weights = np.array([float(weight.sum())])
        self._query_weight: Array = np.ones(n_queries)
        self._stored: _StoredPairs | None = None

    def set_query_weight(self, weight: Array) -> None:
        self._query_weight = weight
        self._stored = None

    @property
    def weight(self) -> float:
        with np.errstate(over="ignore"):
            return dot(self._query_weight, self.pair_weights)

    @property
    def stored(self) -> _StoredPairs:
        """The pairs with their weights, stored when they are needed."""
        if self._stored is None:
            pairs, factor, own = self._kept, 1.0, self._query_weight
            rounded = False
            if pairs.query is None:
                (factor,) = own.tolist()
            elif (own != 1.0).any():
                weight = own[pairs.query]
                if pairs.weight is not None:
                    rounded = not (_is_whole(weight) and _is_whole(pairs.weight))
                    weight *= pairs.weight
                pairs = replace(pairs, weight=weight)
            if pairs.n_ties:
                pairs, half = _both_orders(pairs)
                factor *= half
            self._stored = _StoredPairs(
                pairs, factor, self._n_items, self._threads, rounded=rounded
            )
        return self._stored

    @property
    def groups(self) -> QueryGroups:
        return self.stored.groups

    def at(self, scores: Array, *, on_grid: bool = False) -> PairListSnapshot:
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        return PairListSnapshot(self.stored, scores, self.weight, on_grid=on_grid)


class _StoredPairs:
    """A native list with a factor of all its weights, and what all plans share.

    Parameters
    ----------
    pairs : Preferences
        The pairs with their final weights, apart from the factor.
    factor : float
        Factor of all weights.
    n_items : int
        Number of items.
    n_threads : int
        Number of threads.
    rounded : bool
        Whether the weights are products that may have been rounded, perhaps to integers.
    """

    def __init__(
        self, pairs: Preferences, factor: float, n_items: int, n_threads: int, *, rounded: bool
    ) -> None:
        better, worse, weight = pairs.better, pairs.worse, pairs.weight
        self.n_threads = n_threads
        self._factor = factor
        self._weighted = weight is not None
        with np.errstate(over="ignore"):  # overflow is checked elsewhere
            self._degree = _degree(better, weight, n_items) + _degree(worse, weight, n_items)
        # Largest degree of an item, which determines the grid.
        most = float(np.max(self._degree, initial=1.0))
        exact = not rounded and (weight is None or _is_whole(weight))
        self.whole = exact and most < MOST_ON_GRID
        self._per_unit = 2.0 ** (math.frexp(4.0 * most)[1] - 50)
        self.list = _core.PairList(
            np.ascontiguousarray(better, dtype=np.int64),
            np.ascontiguousarray(worse, dtype=np.int64),
            None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
            n_items,
            n_threads,
        )
        self.list.set_factor(factor)
        self.groups: QueryGroups = components(self.list, n_items)
        self._share: Array = 1.0 / self.groups.sizes

    def centred(self, scores: Array) -> Array:
        """Return scores minus group means; each is divided first, since the sum might overflow."""
        group = self.groups.index
        with np.errstate(over="ignore", invalid="ignore"):
            middle = np.bincount(group, scores * self._share[group], len(self._share))
            centred: Array = scores - middle[group]
        return centred

    def to_grid(self, centred: Array) -> tuple[Array, float]:
        """Round scores so that sums over an item's pairs are exact; also return the change."""
        largest = float(np.max(np.abs(centred), initial=0.0))
        step = self._per_unit * 2.0 ** math.frexp(largest + 1.0)[1]
        return np.rint(centred / step) * step, 0.5 * step + 4e-16 * largest

    def errors(self, centred: Array, moved: float, weight: float) -> PairErrors:
        """Return the bounds for centered scores; ``weight`` is that of all pairs."""
        degree, factor = self._degree, self._factor
        with np.errstate(over="ignore"):  # the objective checks for overflow
            linear = factor * dot(degree, np.abs(centred))
            square = factor * float(np.einsum("i,i,i->", degree, centred, centred))
        # Sums are exact until they are multiplied by the factor.
        counting = 0 if factor == 1.0 else 4
        adding = counting
        if self._weighted and not self.whole:
            counting = 2 * DEPTH
        if not moved:
            adding = 2 * DEPTH
        return PairErrors(
            total=roundings(counting) * weight,
            imbalance=roundings(2 * counting) * weight,
            tilt=roundings(counting + 8) * linear,
            product=roundings(adding) * linear,
            square=roundings(adding) * square,
            linear=linear,
            quadratic=2.0 * square,
            moved=moved,
        )


class PairListSnapshot:
    """See :class:`ranksvm.pairs.order.PairSnapshot`."""

    def __init__(self, pairs: _StoredPairs, scores: Array, weight: float, *, on_grid: bool) -> None:
        self._pairs = pairs
        self._scores = scores
        self._weight = weight
        self._moved = 0.0
        if on_grid and pairs.whole:
            self._scores, self._moved = pairs.to_grid(pairs.centred(scores))
            self.centred = self._scores

    @cached_property
    def centred(self) -> Array:
        return self._pairs.centred(self._scores)

    @cached_property
    def errors(self) -> PairErrors:
        return self._pairs.errors(self.centred, self._moved, self._weight)

    def plan(self, margin: float, *, products: bool) -> NativePlan:
        del products
        threads = self._pairs.n_threads
        plan = self._pairs.list.plan(self._scores, margin, threads)
        return NativePlan(plan, self, threads)


def _both_orders(pairs: Preferences) -> tuple[Preferences, float]:
    """Return pairs without ties: a tie becomes two pairs; and the factor of all weights."""
    assert pairs.tie is not None
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight
    one, half = (2.0, 1.0) if _is_whole(weight) else (1.0, 0.5)
    weight = np.where(pairs.tie, half, one) * weight
    tied = pairs.take(pairs.tie)
    return (
        Preferences(
            np.concatenate([pairs.better, tied.worse]),
            np.concatenate([pairs.worse, tied.better]),
            np.concatenate([weight, weight[pairs.tie]]),
        ),
        1.0 / one,
    )


def _is_whole(weight: Array) -> bool:
    """Return whether all weights are integers."""
    return bool((weight % 1.0 == 0.0).all())


def _degree(rows: NDArray[np.int64], weight: Array | None, n_items: int) -> Array:
    """Return the weight of all pairs of each item."""
    return np.bincount(rows, weight, n_items).astype(np.float64)
