"""A map for a series of similar problems, such as a path over C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ranksvm._vectors import Array
from ranksvm.maps.matrix import ScoreMap
from ranksvm.maps.sample import WeightedItems

__all__ = ["SteadyScatter"]

# The scatter stays until this part of the weight has moved.
MOVED = 0.1


class SteadyScatter:
    """A map whose preconditioner stays as long as its weights nearly do.

    The scatter only scales, and along a path the violated pairs change slowly; on dense data it
    costs several products with X.
    """

    def __init__(self, score_map: ScoreMap) -> None:
        self._map = score_map
        self._shares: list[Array] | None = None  # of the total weight
        self._matrix: Array | None = None
        self.shape = score_map.shape
        self.dim = score_map.dim
        self.scores = score_map.scores
        self.pullback = score_map.pullback
        self.inner = score_map.inner
        self.norm2 = score_map.norm2
        self.reach = score_map.reach
        self.size = score_map.size
        self.norm2_error = score_map.norm2_error
        self.pullback_error = score_map.pullback_error
        self.widened = score_map.widened
        self.sharpen = score_map.sharpen
        self.lift = score_map.lift
        self.euclidean = score_map.euclidean

    @property
    def n_products(self) -> int:
        return self._map.n_products

    @property
    def score_rounding(self) -> float:
        return self._map.score_rounding

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        total = sum(float(weight.sum()) for weight, _ in parts)
        if not total > 0.0:
            return self._map.scatter(parts)
        shares = [weight / total for weight, _ in parts]
        if self._shares is None or _moved(self._shares, shares) > MOVED:
            matrix = self._map.scatter(parts)
            self._matrix = None if matrix is None else matrix / total
            self._shares = shares
        return None if self._matrix is None else self._matrix * total


def _moved(before: Sequence[Array], now: Sequence[Array]) -> float:
    """Part of the weight that is with other items than before."""
    pairs = zip(before, now, strict=True)
    return sum(0.5 * float(np.abs(new - old).sum()) for old, new in pairs)
