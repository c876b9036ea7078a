"""Explicit pairs on the CPU: every pair is visited, O(|P|) per plan or product, multithreaded.

The pairs are stored by item, so each statistic of an item is a sum over its own partners (see
``cpp/include/ranksvm/pair_list.hpp``).

Rounding.  A pair adds weight * (c_i - c_j) to the Laplacian products of both its items.  The sums
are computed by halves, so a term is rounded at most ``DEPTH`` times.  With d_i the weight of all
pairs of item i, the absolute values of the terms of all items add up to at most 2 sum d_i |c_i|.
Multiplied by |c_i|, as in a quadratic form, they add up to at most 2 sum d_i c_i^2, because
(|a| + |b|)^2 <= 2 a^2 + 2 b^2.  On a grid and with integer weights, all these sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    """Finds the violated pairs of a list; all pairs count as one query.

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
        better, worse, weight = positive_pairs(preferences)
        self.pairs: Sequence[int] = [len(better)]
        with np.errstate(over="ignore"):  # overflow is checked elsewhere
            total = float(len(better)) if weight is None else float(weight.sum())
            self._degree = _degree(better, weight, n_items) + _degree(worse, weight, n_items)
        self.pair_weights: Array = np.array([total])
        self._factor = 1.0
        self._weighted = weight is not None
        # Largest degree of an item, which determines the grid.
        most = float(np.max(self._degree, initial=1.0))
        self._whole = most < MOST_ON_GRID and (weight is None or bool((weight % 1.0 == 0.0).all()))
        self._per_unit = 2.0 ** (math.frexp(4.0 * most)[1] - 50)
        self._threads = n_threads
        self._list = _core.PairList(
            np.ascontiguousarray(better, dtype=np.int64),
            np.ascontiguousarray(worse, dtype=np.int64),
            None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
            n_items,
            n_threads,
        )
        self.groups: QueryGroups = components(self._list, n_items)
        self._share: Array = 1.0 / self.groups.sizes

    def set_query_weight(self, weight: Array) -> None:
        (self._factor,) = weight.tolist()
        self._list.set_factor(self._factor)

    @property
    def weight(self) -> float:
        return self._factor * float(self.pair_weights[0])

    def at(self, scores: Array, *, on_grid: bool = False) -> PairListSnapshot:
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        return PairListSnapshot(self, scores, on_grid=on_grid and self._whole)

    def _centred(self, scores: Array) -> Array:
        """Return scores minus group means; each is divided first, since the sum might overflow."""
        group = self.groups.index
        with np.errstate(over="ignore", invalid="ignore"):
            middle = np.bincount(group, scores * self._share[group], len(self._share))
            centred: Array = scores - middle[group]
        return centred

    def _to_grid(self, centred: Array) -> tuple[Array, float]:
        """Round scores so that sums over an item's pairs are exact; also return the change."""
        largest = float(np.max(np.abs(centred), initial=0.0))
        step = self._per_unit * 2.0 ** math.frexp(largest + 1.0)[1]
        return np.rint(centred / step) * step, 0.5 * step + 4e-16 * largest

    def _errors(self, centred: Array, moved: float) -> PairErrors:
        degree, factor = self._degree, self._factor
        with np.errstate(over="ignore"):  # the objective checks for overflow
            linear = factor * dot(degree, np.abs(centred))
            square = factor * float(np.einsum("i,i,i->", degree, centred, centred))
        # Sums are exact until they are multiplied by the factor.
        counting = 0 if factor == 1.0 else 4
        adding = counting
        if self._weighted and not self._whole:
            counting = 2 * DEPTH
        if not moved:
            adding = 2 * DEPTH
        return PairErrors(
            total=roundings(counting) * self.weight,
            imbalance=roundings(2 * counting) * self.weight,
            tilt=roundings(counting + 8) * linear,
            product=roundings(adding) * linear,
            square=roundings(adding) * square,
            linear=linear,
            quadratic=2.0 * square,
            moved=moved,
        )


class PairListSnapshot:
    """See :class:`ranksvm.pairs.order.PairSnapshot`."""

    def __init__(self, backend: PairListBackend, scores: Array, *, on_grid: bool) -> None:
        self._backend = backend
        self._scores = scores
        self._moved = 0.0
        if on_grid:
            self._scores, self._moved = backend._to_grid(backend._centred(scores))
            self.centred = self._scores

    @cached_property
    def centred(self) -> Array:
        return self._backend._centred(self._scores)

    @cached_property
    def errors(self) -> PairErrors:
        return self._backend._errors(self.centred, self._moved)

    def plan(self, margin: float, *, products: bool) -> NativePlan:
        del products
        threads = self._backend._threads
        plan = self._backend._list.plan(self._scores, margin, threads)
        return NativePlan(plan, self, threads)


def _degree(rows: NDArray[np.int64], weight: Array | None, n_items: int) -> Array:
    """Return the weight of all pairs of each item."""
    return np.bincount(rows, weight, n_items).astype(np.float64)
