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


class _AllPairs:
    """A matrix of all pairs of items: entry [i, j] is the weight of those in which j is better.

    Parameters
    ----------
    groups : QueryGroups
        Groups of items that are compared.
    query : ndarray of shape (n_items, n_items)
        Query of each pair.
    pairs : sequence of int
        Number of pairs of each query.
    base : ndarray of shape (n_items, n_items)
        Weights of the pairs, without those of the queries.
    """

    def __init__(
        self, groups: QueryGroups, query: NDArray[np.int64], pairs: Sequence[int], base: Array
    ) -> None:
        self.groups = groups
        self.pairs = pairs
        mass = np.bincount(query.ravel(), base.ravel(), len(pairs))
        self.pair_weights = mass.astype(np.float64)
        self._query = query
        self._base = self._weight = base

    @property
    def weight(self) -> float:
        return float(self._weight.sum())

    def set_query_weight(self, weight: Array) -> None:
        self._weight = self._base * np.asarray(weight)[self._query]

    def at(self, scores: Array, *, on_grid: bool = False) -> ReferenceSnapshot:
        del on_grid
        return ReferenceSnapshot(self._weight, np.asarray(scores, dtype=float))


class ReferenceBackend(_AllPairs):
    """Finds violated pairs from the full matrix of pairs."""

    def __init__(self, order: PairOrder) -> None:
        groups = order.groups
        query = groups.index
        utility = np.asarray(order.utility, dtype=np.float64)
        ones = np.ones(len(query))
        better = ones if order.better_weight is None else order.better_weight
        worse = ones if order.worse_weight is None else order.worse_weight
        same = query[:, None] == query[None, :]
        self._comparable = same & (utility[:, None] < utility[None, :])
        if order.roles is not None:
            self._comparable &= np.outer(worse > 0.0, better > 0.0)
        pairs = np.bincount(query, self._comparable.sum(axis=1), groups.n_queries)
        base = np.where(self._comparable, np.outer(worse, better), 0.0)
        if order.by_gain:
            base *= np.where(self._comparable, utility[None, :] - utility[:, None], 0.0)
        of_pair = np.broadcast_to(query[:, None], base.shape)  # of the worse item
        super().__init__(groups, of_pair, pairs.astype(int).tolist(), base)

    @property
    def factor_rows(self) -> NDArray[np.int64]:
        return np.arange(len(self._base))

    def factor_coefficients(self, factors: Array) -> Array:
        multipliers = np.where(self._comparable, factors @ factors.T, 0.0)
        coefficients: Array = multipliers.sum(axis=0) - multipliers.sum(axis=1)
        return coefficients

    def factor_gradient(self, factors: Array, t: Array) -> Array:
        # Entry [i, j]: effect of the multiplier of the pair of worse i and better j.
        effect = np.where(self._comparable, t[None, :] - t[:, None], 0.0)
        gradient: Array = (effect + effect.T) @ factors
        return gradient


class ReferencePairList(_AllPairs):
    """Finds the violated pairs of a list."""

    def __init__(self, preferences: Preferences, n_items: int) -> None:
        better, worse, weight = preferences.better, preferences.worse, preferences.weight
        weight = np.ones(len(better)) if weight is None else weight
        base, query = np.zeros((n_items, n_items)), np.zeros((n_items, n_items), dtype=np.int64)
        tie = np.zeros(len(better), dtype=np.bool_) if preferences.tie is None else preferences.tie
        np.add.at(base, (worse, better), np.where(tie, 0.5, 1.0) * weight)
        np.add.at(base, (better, worse), np.where(tie, 0.5, 0.0) * weight)  # a tie: both orders
        numbers = np.zeros(len(better), dtype=np.int64)
        if preferences.query is not None:
            numbers = query[worse, better] = preferences.query  # the items determine the query
            query[better[tie], worse[tie]] = preferences.query[tie]
        pairs = np.bincount(numbers[weight > 0.0], minlength=preferences.n_queries)
        super().__init__(connected_items(preferences, n_items), query, pairs.tolist(), base)


class ReferenceSnapshot:
    """The violated pairs at given scores, as a matrix of pair weights."""

    def __init__(self, weight: Array, scores: Array) -> None:
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
        violated = scores[None, :] - scores[:, None] < margin
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
