"""Search directions of earlier Newton systems, which improve the preconditioner of later ones.

A system that needs many steps of conjugate gradients (CG) has eigenvalues that its preconditioner P
does not know.  CG has met them: of its search directions s, the products y = H s with the Hessian
are known.  With them, P becomes

    (I - s y' / s'y) P (I - y s' / s'y) + s s' / s'y

for one direction after the other, as in the L-BFGS method (Morales & Nocedal 2000).  The result is
exact on the last direction, and costs no product with X.  Hessians change from one system to the
next, but slowly.

The rule.  Recycling begins after the first system that needed more than ``FEW_STEPS`` steps with a
preconditioner, and goes on until the end of the solve.  Before that, nothing changes, so a solve
that is cheap stays as it is.  With fewer than ``FEWEST_FEATURES`` dimensions nothing is recycled,
because CG ends soon anyhow and its last directions are mostly rounding errors.  Without a
preconditioner nothing is recycled: the other eigenvalues are spread, too, and to know a few of them
gains nothing.  Nor is it done if the inner product needs scores, as with a kernel, where the
eigenvalues beyond the preconditioner decrease slowly: it halved the products at best, and doubled
them at worst.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ranksvm._vectors import Array, dot

FEW_STEPS = 5
FEWEST_FEATURES = 256
# Number of directions that are kept, and the most numbers in their vectors and products.  With
# fewer than the second number, nothing is recycled.
MOST_DIRECTIONS, FEWEST_DIRECTIONS = 12, 4
MOST_NUMBERS = 1 << 23

Preconditioner = Callable[[Array], Array]


class _Known(NamedTuple):
    """A search direction, its product with the Hessian, and their inner product."""

    direction: Array
    product: Array
    curvature: float


class Recycling:
    """The last search directions of all systems of one solve, with the Euclidean inner product.

    Attributes
    ----------
    is_on : bool
        Whether they are used.
    """

    def __init__(self) -> None:
        self._known: deque[_Known] = deque(maxlen=MOST_DIRECTIONS)
        self.is_on = False

    def begin(self) -> None:
        """Begin a system; before recycling begins, only the directions of one system are kept."""
        if not self.is_on:
            self._known.clear()

    def add(self, direction: Array, product: Array, curvature: float) -> None:
        """Keep a direction and its product, which must not change afterwards."""
        most = MOST_NUMBERS // max(1, 2 * direction.size)
        if most < FEWEST_DIRECTIONS:
            return
        while len(self._known) >= most:
            self._known.popleft()
        self._known.append(_Known(direction, product, curvature))

    def end(self, steps: int) -> bool:
        """End a system that took so many steps; return whether recycling begins now."""
        if self.is_on or steps <= FEW_STEPS or not self._known:
            return False
        self.is_on = True
        return True

    def improved(self, preconditioner: Preconditioner) -> Preconditioner:
        """Return a better preconditioner; the same one if nothing is recycled."""
        if not self.is_on:
            return preconditioner
        known = tuple(self._known)

        def apply(vector: Array) -> Array:
            rest = vector
            weights = []
            for one in reversed(known):
                weight = dot(one.direction, rest) / one.curvature
                rest = rest - weight * one.product
                weights.append(weight)
            found = preconditioner(rest)
            for one, weight in zip(known, reversed(weights), strict=True):
                excess = dot(one.product, found) / one.curvature
                found = found + (weight - excess) * one.direction
            return found

        return apply
