"""A scatter that is reused in a series of similar problems, such as a path over C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ranksvm._vectors import Array
from ranksvm.maps.matrix import ScoreMap
from ranksvm.maps.sample import WeightedItems

__all__ = ["SteadyScatter"]

# The scatter is reused until this fraction of the weight has moved to other items.
MOVED = 0.1


class SteadyScatter:
    """The scatter of a map, recomputed only if its weights have changed noticeably.

    The scatter is only used for scaling, and the violated pairs change slowly along a path, while
    on dense data a scatter costs several products with X.
    """

    def __init__(self, score_map: ScoreMap) -> None:
        self._map = score_map
        self._shares: list[Array] | None = None  # shares of the total weight
        self._matrix: Array | None = None

    def __call__(self, parts: Sequence[WeightedItems]) -> Array | None:
        """Return the scatter; see ``ScoreMap.scatter``."""
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
    """Return the fraction of the weight that has moved to other items."""
    pairs = zip(before, now, strict=True)
    return sum(0.5 * float(np.abs(new - old).sum()) for old, new in pairs)
