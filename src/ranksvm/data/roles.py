"""Weights of items in the two roles that they have in pairs: the better one, and the worse one.

The weight of a pair of a better item i and a worse item j is multiplied by ``better_i * worse_j``.
An item whose weight in a role is zero never has this role.  With survival times, a censored item is
never the worse one: it is not known when its time ended.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from ranksvm._vectors import Array, Rows


class RoleWeights(NamedTuple):
    """Weights of the items as the better and as the worse one of a pair; None means 1."""

    better: Array | None = None
    worse: Array | None = None

    def take(self, rows: Rows) -> Self:
        """Return the weights of some items."""
        return type(self)(*(None if weight is None else weight[rows] for weight in self))


def times(weight: Array | None, other: Array | None) -> Array | None:
    """Return the product of two weights of the items; None means 1."""
    if weight is None or other is None:
        return other if weight is None else weight
    return weight * other
