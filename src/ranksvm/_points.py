"""Weight vectors together with their scores, shared by maps, objectives and solvers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ranksvm._cached import cached_property
from ranksvm._rounding import roundings
from ranksvm._vectors import Array, add_scaled, combined, scaled


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


class Combination:
    """A linear combination of points that is not computed yet.

    Its coefficients are cheap.  Scores are as long as there are items, so they are formed once and
    in one pass: those of the combination, or those of its difference from another point.

    ``error`` and ``reach`` are those of :attr:`point`.  A term is multiplied once, and added no
    more often than there are terms, both in w and in the scores.

    Parameters
    ----------
    parts : sequence of (float, Point)
        Factors and points, at least one.
    """

    def __init__(self, parts: Sequence[tuple[float, Point]]) -> None:
        self._factors = [factor for factor, _ in parts]
        self._points = [point for _, point in parts]
        sizes = [abs(factor) for factor in self._factors]
        self.reach = sum(size * one.reach for size, one in zip(sizes, self._points, strict=True))
        errors = sum(size * one.error for size, one in zip(sizes, self._points, strict=True))
        self.error = errors + roundings(2 * len(sizes) + 1) * self.reach

    @cached_property
    def w(self) -> Array:
        """The coefficients."""
        w: Array = combined(self._factors, [one.w for one in self._points])
        return w

    @property
    def point(self) -> Point:
        """The combination with its scores."""
        scores = combined(self._factors, [one.scores for one in self._points])
        return Point(self.w, scores, self.error, self.reach)

    def minus(self, other: Point) -> Point:
        """Return ``self.point.plus(-1.0, other)``, to the last bit, with one pass over scores."""
        points = [*self._points, other]
        scores = combined([*self._factors, -1.0], [one.scores for one in points])
        reach = self.reach + other.reach
        error = self.error + other.error + roundings(5) * reach
        return Point(add_scaled(self.w, -1.0, other.w), scores, error, reach)
