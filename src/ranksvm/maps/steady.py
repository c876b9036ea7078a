"""The scatter of a series of similar problems, such as a path over C."""

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
    """The scatter of a map that stays as long as its weights nearly do.

    The scatter only scales, and along a path the violated pairs change slowly; on dense data it
    costs several products with X.
    """

    def __init__(self, score_map: ScoreMap) -> None:
        self._map = score_map
        self._shares: list[Array] | None = None  # of the total weight
        self._matrix: Array | None = None

    def __call__(self, parts: Sequence[WeightedItems]) -> Array | None:
        """As ``ScoreMap.scatter``."""
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
