"""The last steps of a Newton solve, completed by search directions that are known already.

The certified gap is half the squared Euclidean norm of the gradient.  Conjugate gradients (CG) do
not minimize that norm but the quadratic model.  If features differ much in size, the model is at
its minimum long before the gradient is small enough for the certificate.  But of every search
direction p the product y = H p with the Hessian is known, and near the solution the Hessian hardly
changes from one system to the next.  So the residual r of CG can be made smaller without another
product with X, by the coefficients c that minimize

    |r - sum_k c_k y_k|

over the directions of the present system and of the one before.  If that is small enough for the
certificate, the system is solved; otherwise CG goes on as if nothing had happened.

The rule.  Directions are kept and used only while the model promises to decrease F by less than
``CONVERGED`` of the gap that is required: F itself has then converged, and the violated pairs
hardly change.  Features of similar sizes seldom get there, because then the gap is small, too.  The
certificate does not depend on any of this, since the gradient at the new point is computed as
always; if it is larger than it should be, nothing is completed any more.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from ranksvm._points import Point
from ranksvm._vectors import Array, add_scaled, dot, scaled

CONVERGED = 1e-3
# Number of directions that are kept, and the most numbers in all of them.
MOST_DIRECTIONS = 12
MOST_NUMBERS = 1 << 23
# A product is left out if all but this fraction of it is a combination of others.
_NEW = 1e-6


class _Known(NamedTuple):
    """A search direction and its product with the Hessian."""

    direction: Point
    product: Array


class Closing:
    """The search directions of the last two systems, with the Euclidean inner product.

    Attributes
    ----------
    is_on : bool
        Whether systems may be completed.
    has_closed : bool
        Whether the last system was.
    """

    def __init__(self, *, is_on: bool = True) -> None:
        self.is_on = is_on
        self.has_closed = False
        self._known: deque[_Known] = deque(maxlen=MOST_DIRECTIONS)
        self._n_own = 0  # of the present system, at the end

    def begin(self, slope: Array, gap_goal: float) -> None:
        """Begin a system at a point with this gradient."""
        if self.has_closed and 0.5 * dot(slope, slope) > gap_goal:
            self.is_on = False
        self.has_closed = False
        while len(self._known) > self._n_own:
            self._known.popleft()
        self._n_own = 0

    def add(self, direction: Point, product: Array) -> None:
        """Keep a direction and its product, which must not change afterwards."""
        scores = direction.scores
        numbers = 2 * product.size + (scores.size if isinstance(scores, np.ndarray) else 0)
        most = min(MOST_DIRECTIONS, MOST_NUMBERS // max(1, numbers))
        while self._known and len(self._known) >= most:
            self._known.popleft()
        if most > 0:
            self._known.append(_Known(direction, product))
            self._n_own = min(self._n_own + 1, len(self._known))

    def completed(self, solution: Point, residual: Array, gap_goal: float) -> Point | None:
        """Return a solution whose residual has a squared norm of at most ``gap_goal``.

        Returns None if the known directions are not enough for that.  ``solution`` is that of CG,
        and ``residual`` its residual.
        """
        known = tuple(self._known)
        # Products made orthonormal (Gram and Schmidt), and the combinations that they are.
        basis = list[tuple[Array, Array]]()
        coefficients = np.zeros(len(known))
        for k in reversed(range(len(known))):  # the newest ones are the most accurate
            rest, parts = known[k].product, np.zeros(len(known))
            least = _NEW * math.sqrt(dot(rest, rest))
            parts[k] = 1.0
            for _ in range(2):  # once more for what rounding has left
                for unit, of in basis:
                    share = dot(unit, rest)
                    rest = add_scaled(rest, -share, unit)
                    parts -= share * of
            norm = math.sqrt(dot(rest, rest))
            if not norm > least:
                continue
            basis.append((scaled(1.0 / norm, rest), parts / norm))
            share = dot(basis[-1][0], residual)
            residual = add_scaled(residual, -share, basis[-1][0])
            coefficients += share * basis[-1][1]
            if dot(residual, residual) <= gap_goal:
                self.has_closed = True
                for one, coefficient in zip(known, coefficients.tolist(), strict=True):
                    if coefficient:
                        solution = solution.plus(coefficient, one.direction)
                return solution
        return None
