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
from typing import NamedTuple, Protocol

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups

__all__ = ["PairBackend", "PairErrors", "PairOrder", "PairPlan", "PairSnapshot"]


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


class PairErrors(NamedTuple):
    """How far the statistics of a plan may be off, at scores s with centred scores c.

    Measured by sums over the pairs that the plan holds to be violated, with exactly the scores s.

    Attributes
    ----------
    total : float
        Of the total weight.
    imbalance : float
        Sum over items of the errors of the imbalances.
    tilt : float
        Of imbalance . c, before the products are added up.
    product : float
        Sum over items of the errors of the Laplacian times c.
    square : float
        Of c . (Laplacian times c), before the products are added up.
    linear, quadratic : float
        Bounds of the absolute values that are added up for imbalance . c, and for the quadratic
        form.
    moved : float
        How far a grid has moved the scores.
    """

    total: float
    imbalance: float
    tilt: float
    product: float
    square: float
    linear: float
    quadratic: float
    moved: float = 0.0


class PairSnapshot(Protocol):
    """Scores, sorted once for plans of any margin."""

    @property
    def centred(self) -> Array:
        """The scores, minus a constant of each group: the same losses, smaller rounding errors."""
        ...

    @property
    def errors(self) -> PairErrors:
        """Bounds of the rounding errors of every plan at these scores."""
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

    @property
    def weight(self) -> float:
        """Sum of the weights of all pairs, queries' own weights included."""
        ...

    def set_query_weight(self, weight: Array) -> None: ...

    def at(self, scores: Array, *, on_grid: bool = False) -> PairSnapshot:
        """Sort the scores.

        ``on_grid`` lets the backend move them a little, so that sums over pairs come out exactly;
        ``PairErrors`` tells whether it did.
        """
        ...
