"""Which items are compared with each other.

Items i and j are a *comparable pair* if they belong to the same query and their labels differ; the
one with the larger label is the *better* one.  A pair has the weight ``query_weight * w_i * w_j``.
By gain, the labels are gains, and the weight is also multiplied by ``gain_better - gain_worse``.
By role, it is also multiplied by a weight of the better item and one of the worse item
(:mod:`ranksvm.data.roles`); only pairs of positive weight are comparable then.

Pairs can also be listed explicitly, each with its own weight
(:class:`ranksvm.data.preferences.Preferences`).  The same protocols serve such a list.  Its pairs
form one query, unless they know theirs.  Its groups are the sets of items that its pairs connect,
instead of the queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.data.roles import RoleWeights, times


@dataclass(frozen=True)
class PairOrder:
    """Labels, queries and item weights, which determine the pairs.

    Attributes
    ----------
    utility : ndarray of shape (n_items,)
        Labels; larger is better.
    groups : QueryGroups
        Queries.
    item_weight : ndarray of shape (n_items,) or None
        Weights of the items; None means weight 1.
    by_gain : bool
        Whether utilities are gains >= 0, whose difference multiplies the weight of a pair; see
        :func:`ranksvm.pairs.gains.gain_utility`.
    roles : RoleWeights or None
        Weights of the items in each role, beside ``item_weight``; not by gain.
    """

    utility: Array
    groups: QueryGroups
    item_weight: Array | None = None
    by_gain: bool = False
    roles: RoleWeights | None = None

    @property
    def better_weight(self) -> Array | None:
        """Weights of the items as the better one of a pair; None means 1."""
        return times(self.item_weight, None if self.roles is None else self.roles.better)

    @property
    def worse_weight(self) -> Array | None:
        """Weights of the items as the worse one of a pair; None means 1."""
        return times(self.item_weight, None if self.roles is None else self.roles.worse)


class PairPlan(Protocol):
    """The violated pairs at fixed scores: those with s_better - s_worse < margin."""

    @property
    def total(self) -> float:
        """Sum of the weights of the violated pairs."""
        ...

    @property
    def imbalance(self) -> Array:
        """Per item: weight of its violated pairs with better items minus those with worse ones."""
        ...

    def laplacian(self, x: Array) -> Array:
        """Return per item i the sum over its violated pairs of weight * (x_i - x_partner)."""
        ...

    def score_laplacian(self) -> Array:
        """Return ``laplacian(scores)``."""
        ...

    def counts(self) -> tuple[Array, Array]:
        """Return per item the weight of its violated pairs with better and with worse items."""
        ...

    def sums(self, x: Array) -> tuple[Array, Array]:
        """Return per item the sum of weight * x_partner over better and over worse partners."""
        ...


class PairErrors(NamedTuple):
    """Bounds on the errors of the statistics of a plan, at scores s with centered scores c.

    The exact values are the sums over the pairs that the plan considers violated, at exactly the
    scores s.

    Attributes
    ----------
    total : float
        Error of the total weight.
    imbalance : float
        Sum over items of the errors of the imbalances.
    tilt : float
        Error of imbalance . c, before the products are added up.
    product : float
        Sum over items of the errors of the Laplacian times c.
    square : float
        Error of c . (Laplacian times c), before the products are added up.
    linear, quadratic : float
        Bounds on the sums of absolute values in imbalance . c and in the quadratic form.
    moved : float
        Maximum change of a score by rounding to a grid.
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
    """Scores, sorted once for plans with any margin."""

    @property
    def centred(self) -> Array:
        """The scores minus a constant per group: the same losses with smaller rounding errors."""
        ...

    @property
    def errors(self) -> PairErrors:
        """Bounds on the rounding errors of every plan at these scores."""
        ...

    def plan(self, margin: float, *, products: bool) -> PairPlan: ...


class PairBackend(Protocol):
    """The interface that a device has to implement."""

    @property
    def groups(self) -> QueryGroups:
        """Groups of items that are compared: queries, or the components of a list of pairs."""
        ...

    @property
    def pairs(self) -> Sequence[int]:
        """Number of comparable pairs of each query; by role, of those of positive weight."""
        ...

    @property
    def pair_weights(self) -> Array:
        """Total weight of the pairs of each query, without the query weight."""
        ...

    @property
    def weight(self) -> float:
        """Total weight of all pairs, with the query weights."""
        ...

    def set_query_weight(self, weight: Array) -> None: ...

    def at(self, scores: Array, *, on_grid: bool = False) -> PairSnapshot:
        """Sort the scores.

        ``on_grid`` allows the backend to round them to a grid, so that sums over pairs are exact;
        ``PairErrors.moved`` says by how much.
        """
        ...
