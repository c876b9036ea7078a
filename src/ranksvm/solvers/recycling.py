"""Search directions of earlier Newton systems, which improve the preconditioner of later ones.

A system that needs many steps of conjugate gradients (CG) has eigenvalues that its preconditioner P
does not know.  CG has met them: of its search directions s, the products y = H s with the Hessian
are known.  With them, P becomes

    (I - s y' / s'y) P (I - y s' / s'y) + s s' / s'y

for one direction after the other, as in the L-BFGS method (Morales & Nocedal 2000).  The result is
exact on the last direction, and costs no product with X.  Hessians change from one system to the
next, but slowly.

The inner products are those of the objective.  If they need scores, P acts on points, and the
scores of y are needed; they follow from those of the residuals before and after the step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ranksvm._points import Point
from ranksvm._vectors import Array
from ranksvm.solvers.base import Objective

# Recycling begins after a system with more steps than this.
FEW_STEPS = 5
# Number of directions that are kept, and the most numbers that their vectors may have.
MOST_DIRECTIONS = 12
MOST_NUMBERS = 1 << 25
_NO_SCORES = np.empty(0)


class _Known(NamedTuple):
    """A search direction, its product with the Hessian, and their inner product."""

    direction: Point
    product: Point
    curvature: float


class Recycling:
    """The last search directions of all systems of one objective.

    Parameters
    ----------
    objective : Objective
        Says what the inner product is.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._is_euclidean = "euclidean" in objective.capabilities
        self._known: deque[_Known] = deque(maxlen=MOST_DIRECTIONS)
        self.is_on = False

    def add(self, direction: Point, product: Array | Point, curvature: float) -> None:
        """Keep a direction; ``product`` is a point unless the inner product is Euclidean."""
        if not isinstance(product, Point):
            direction, product = _bare(direction.w), _bare(product)
        numbers = 2 * (direction.w.size + np.size(direction.scores))
        while self._known and (len(self._known) + 1) * numbers > MOST_NUMBERS:
            self._known.popleft()
        self._known.append(_Known(direction, product, curvature))

    def clear(self) -> None:
        """Forget all directions."""
        self._known.clear()

    def improve(self, preconditioner: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a better preconditioner, on what the given one acts on: vectors or points."""
        known = tuple(self._known)
        if not known:
            return preconditioner
        if not self._is_euclidean:
            return lambda point: self._apply(known, preconditioner, point)
        return lambda vector: (
            self._apply(known, lambda rest: _bare(preconditioner(rest.w)), _bare(vector)).w
        )

    def _apply(
        self, known: tuple[_Known, ...], preconditioner: Callable[[Point], Point], point: Point
    ) -> Point:
        inner = self._objective.inner
        weights = []
        for one in reversed(known):
            weight = inner(point.w, one.direction) / one.curvature
            point = point.plus(-weight, one.product)
            weights.append(weight)
        found = preconditioner(point)
        for one, weight in zip(known, reversed(weights), strict=True):
            excess = inner(one.product.w, found) / one.curvature
            found = found.plus(weight - excess, one.direction)
        return found


def _bare(vector: Array) -> Point:
    """Return a vector whose inner products need no scores, as a point."""
    return Point(vector, _NO_SCORES)
