"""Weight vectors together with their scores, shared by maps, objectives and solvers."""

from __future__ import annotations

from typing import Any, NamedTuple

from ranksvm._rounding import roundings
from ranksvm._vectors import Array, add_scaled, scaled


class Point(NamedTuple):
    """A vector w and its scores.  Points can be added and scaled like vectors.

    ``error`` bounds the difference between a stored score and the exact score of ``w``.  It covers
    the rounding of the product with X and of all later updates of ``w`` and the scores.  ``reach``
    bounds the scores and the sums of absolute values that they are computed from; the rounding
    errors of updates are relative to it.

    Scores are an array, or anything else that can be added and multiplied by numbers; None if they
    are not known.
    """

    w: Array
    scores: Any
    error: float = 0.0
    reach: float = 0.0

    def plus(self, step: float, other: Point) -> Point:
        """Return ``self + step * other``."""
        w = add_scaled(self.w, step, other.w)
        scores = add_scaled(self.scores, step, other.scores)
        return Point(w, scores, *self.plus_error(step, other))

    def times(self, factor: float) -> Point:
        """Return ``factor * self``."""
        reach = abs(factor) * self.reach
        error = abs(factor) * self.error + roundings(2) * reach
        return Point(scaled(factor, self.w), scaled(factor, self.scores), error, reach)

    def plus_error(self, step: float, other: Point) -> tuple[float, float]:
        """Return ``error`` and ``reach`` of ``self + step * other``.

        A product and a sum are rounded, both in w and in the scores.
        """
        reach = self.reach + abs(step) * other.reach
        return self.error + abs(step) * other.error + roundings(5) * reach, reach

    def mixed_error(self, step: float, other: Point) -> float:
        """Return the error of ``self + step * (other - self)``, a mean if ``step`` < 1."""
        reach = self.reach + 2.0 * abs(step) * (self.reach + other.reach)
        return abs(1.0 - step) * self.error + abs(step) * other.error + roundings(8) * reach
