"""The reference backend: all pairs of items in NumPy, for tests.  O(n^2) time and memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranksvm._rounding import roundings
from ranksvm._vectors import Array
from ranksvm.data.preferences import Preferences, connected_items
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairErrors, PairOrder

__all__ = ["ReferenceBackend", "ReferencePairList"]


class ReferenceBackend:
    """Finds violated pairs from the full matrix of pairs."""

    def __init__(self, order: PairOrder) -> None:
        self.groups: QueryGroups = order.groups
        query = order.groups.index
        n = len(query)
        utility = np.asarray(order.utility, dtype=np.float64)
        weight = np.ones(n) if order.item_weight is None else order.item_weight
        self._query = query
        # Entry [i, j]: whether j is better than i.
        same = query[:, None] == query[None, :]
        self._comparable = same & (utility[:, None] < utility[None, :])
        self._base = np.where(self._comparable, np.outer(weight, weight), 0.0)
        self._weight = self._base
        self._n_queries = len(order.groups.offsets) - 1

    @property
    def pairs(self) -> Sequence[int]:
        counts = np.bincount(
            self._query, weights=self._comparable.sum(axis=1), minlength=self._n_queries
        )
        return [int(c) for c in counts]

    @property
    def pair_weights(self) -> Array:
        sums = self._base.sum(axis=1)
        return np.bincount(self._query, sums, self._n_queries).astype(np.float64)

    @property
    def weight(self) -> float:
        return float(self._weight.sum())

    def set_query_weight(self, weight: Array) -> None:
        self._weight = self._base * np.asarray(weight)[self._query][:, None]

    @property
    def factor_rows(self) -> NDArray[np.int64]:
        return np.arange(len(self._query))

    def factor_coefficients(self, factors: Array) -> Array:
        multipliers = np.where(self._comparable, factors @ factors.T, 0.0)
        coefficients: Array = multipliers.sum(axis=0) - multipliers.sum(axis=1)
        return coefficients

    def factor_gradient(self, factors: Array, t: Array) -> Array:
        # Entry [i, j]: effect of the multiplier of the pair of worse i and better j.
        effect = np.where(self._comparable, t[None, :] - t[:, None], 0.0)
        gradient: Array = (effect + effect.T) @ factors
        return gradient

    def at(self, scores: Array, *, on_grid: bool = False) -> ReferenceSnapshot:
        del on_grid
        return ReferenceSnapshot(self._comparable, self._weight, np.asarray(scores, dtype=float))


class ReferencePairList:
    """Finds the violated pairs of a list from the full matrix of pairs."""

    def __init__(self, preferences: Preferences, n_items: int) -> None:
        better, worse, weight = preferences
        self.groups: QueryGroups = connected_items(preferences, n_items)
        self.pairs: Sequence[int] = [len(better) if weight is None else int(np.sum(weight > 0.0))]
        # Entry [i, j]: weight of the pairs in which j is better than i.
        self._base = np.zeros((n_items, n_items))
        np.add.at(self._base, (worse, better), 1.0 if weight is None else weight)
        self._weight = self._base

    @property
    def pair_weights(self) -> Array:
        return np.array([self._base.sum()])

    @property
    def weight(self) -> float:
        return float(self._weight.sum())

    def set_query_weight(self, weight: Array) -> None:
        self._weight = self._base * float(weight[0])

    def at(self, scores: Array, *, on_grid: bool = False) -> ReferenceSnapshot:
        del on_grid
        return ReferenceSnapshot(self._base > 0.0, self._weight, np.asarray(scores, dtype=float))


class ReferenceSnapshot:
    def __init__(self, comparable: NDArray[np.bool_], weight: Array, scores: Array) -> None:
        self._comparable = comparable
        self._weight = weight
        self.centred = scores

    @property
    def errors(self) -> PairErrors:
        scores = np.abs(self.centred)
        degree = self._weight.sum(axis=0) + self._weight.sum(axis=1)
        linear, square = float(degree @ scores), float(degree @ scores**2)
        many = 2 * len(scores) + 16
        return PairErrors(
            total=roundings(many * many) * float(degree.sum()),
            imbalance=roundings(2 * many) * float(degree.sum()),
            tilt=roundings(many) * linear,
            product=roundings(2 * many) * linear,
            square=roundings(2 * many) * square,
            linear=linear,
            quadratic=2.0 * square,
        )

    def plan(self, margin: float, *, products: bool) -> ReferencePlan:
        del products
        scores = self.centred
        violated = self._comparable & (scores[None, :] - scores[:, None] < margin)
        return ReferencePlan(np.where(violated, self._weight, 0.0), scores)


class ReferencePlan:
    """``edges[i, j]`` is the weight of the violated pair of worse i and better j, else 0."""

    def __init__(self, edges: Array, scores: Array) -> None:
        self._edges = edges
        self._scores = scores

    @property
    def total(self) -> float:
        return float(self._edges.sum())

    @property
    def imbalance(self) -> Array:
        above, below = self.counts()
        return above - below

    def laplacian(self, x: Array) -> Array:
        difference = self._edges * (x[:, None] - x[None, :])
        product: Array = difference.sum(axis=1) - difference.sum(axis=0)
        return product

    def score_laplacian(self) -> Array:
        return self.laplacian(self._scores)

    def counts(self) -> tuple[Array, Array]:
        return self._edges.sum(axis=1), self._edges.sum(axis=0)

    def sums(self, x: Array) -> tuple[Array, Array]:
        return self._edges @ x, self._edges.T @ x
