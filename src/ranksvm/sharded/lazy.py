"""Scores that stay in the shards, as recipes for computing them.

Scores of a point on a line are those of its start plus a multiple of those of the direction, as in
memory.  A shard remembers the last few vectors of scores, and computes them again if it has
forgotten them, to the same bits.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from ranksvm._vectors import Array

# After this many steps, or if the vectors of the steps take this many bytes, scores are computed
# from the weights again.
MOST_STEPS = 8
MOST_BYTES = 1_000_000

_numbers = itertools.count()


class Recipe(NamedTuple):
    """How to compute scores: those of ``start`` plus ``step`` times X w.

    ``number`` identifies the scores, and ``w_number`` those of X w.  Without a start, they are X w.
    """

    number: int
    w_number: int
    w: Array
    step: float = 1.0
    start: Recipe | None = None

    @property
    def direction(self) -> Recipe:
        """The recipe of X w."""
        return Recipe(self.w_number, self.w_number, self.w)


class LazyScores:
    """Scores X w of all items, which stay in the shards.

    They can be added and multiplied by numbers, as in :class:`ranksvm._points.Point`.

    Attributes
    ----------
    w : ndarray
        The weights.
    product : Recipe
        The recipe of a product with X.
    recipe : Recipe
        The recipe of these scores, which may start from those of another point.
    """

    def __init__(
        self, w: Array, recipe: Recipe | None = None, scaled: tuple[float, LazyScores] | None = None
    ) -> None:
        number = next(_numbers)
        self.w = w
        self.product = Recipe(number, number, w)
        self.recipe = self.product if recipe is None else recipe
        self._scaled = scaled

    @property
    def _start(self) -> Recipe:
        """The recipe to start a line from."""
        steps, one = 1, self.recipe
        while one.start is not None:
            steps, one = steps + 1, one.start
        most = min(MOST_STEPS, max(1, MOST_BYTES // self.w.nbytes))
        return self.recipe if steps <= most else self.product

    def __mul__(self, factor: float) -> LazyScores:
        return LazyScores(factor * self.w, scaled=(factor, self))

    __rmul__ = __mul__

    def __add__(self, other: LazyScores) -> LazyScores:
        step, direction = (1.0, other) if other._scaled is None else other._scaled
        along = direction.product
        recipe = Recipe(next(_numbers), along.number, along.w, step, self._start)
        return LazyScores(self.w + other.w, recipe)


class Where(NamedTuple):
    """Where a loss is evaluated; the hinge may be smoothed, with width ``mu``."""

    recipe: Recipe
    mu: float | None = None
