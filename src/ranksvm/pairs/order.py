"""What is compared with what.

Items i and j are a *comparable pair* when they belong to one query and their utilities differ; the
one with the larger utility is the *better*.  A pair weighs ``query_weight * w_i * w_j``.

Pairs may also be listed one by one, each with its own weight
(:class:`ranksvm.data.preferences.Preferences`).  A list is asked for by the same protocols: all its
pairs count as one query, and in place of the queries, whose items are all compared with each other,
stand the groups of items that its pairs connect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups

__all__ = ["PairBackend", "PairOrder", "PairPlan", "PairSnapshot"]


@dataclass(frozen=True)
class PairOrder:
    """Utilities, queries and item weights: everything that fixes the pairs.

    Attributes
    ----------
    utility : ndarray of shape (n_items,)
    groups : QueryGroups
    item_weight : ndarray of shape (n_items,) or None
    """

    utility: Array
    groups: QueryGroups
    item_weight: Array | None = None


class PairPlan(Protocol):
    """The violated pairs at fixed scores: those with s_better - s_worse < margin."""

    @property
    def total(self) -> float:
        """Sum of the weights of the violated pairs."""
        ...

    @property
    def imbalance(self) -> Array:
        """By item: weight of its violated pairs with a better partner minus with a worse one."""
        ...

    def laplacian(self, x: Array) -> Array:
        """By item i: sum over its violated pairs of weight * (x_i - x_partner)."""
        ...

    def score_laplacian(self) -> Array:
        """``laplacian(scores)``."""
        ...

    def counts(self) -> tuple[Array, Array]:
        """By item: weights of its violated pairs, partner better and partner worse."""
        ...

    def sums(self, x: Array) -> tuple[Array, Array]:
        """By item: weight * x_partner summed over its violated pairs, better and worse."""
        ...


class PairSnapshot(Protocol):
    """Scores, sorted once for plans of any margin."""

    @property
    def centred(self) -> Array:
        """The scores, minus a constant of each group: the same losses, smaller rounding errors."""
        ...

    @property
    def magnitude(self) -> float:
        """Scale of the rounding errors in a quadratic form of the scores.

        Sum over queries of weight * (sum of item weight * abs(centred score))^2; for a list, see
        :mod:`ranksvm.backends.pair_list`.
        """
        ...

    @property
    def mass(self) -> float:
        """Scale of the rounding errors of weighted counts; 0 without weights, counts are exact.

        Sum over queries of weight * (sum of item weight)^2; for a list, some times the weight of
        all its pairs.
        """
        ...

    def plan(self, margin: float, *, products: bool) -> PairPlan: ...


class PairBackend(Protocol):
    """All that a device has to implement."""

    @property
    def groups(self) -> QueryGroups:
        """Items that are compared: the queries, or what a list of pairs connects."""
        ...

    @property
    def pairs(self) -> Sequence[int]:
        """Comparable pairs of each query."""
        ...

    @property
    def pair_weights(self) -> Array:
        """Of each query: sum of the weights of its pairs, without the query's own weight."""
        ...

    def set_query_weight(self, weight: Array) -> None: ...

    def at(self, scores: Array) -> PairSnapshot: ...
