"""A map for a series of similar problems, such as a path over C."""

from __future__ import annotations

import numpy as np

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.matrix import ScoreMap

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
        self._weight: Array | None = None
        self._matrix: Array | None = None
        self.shape = score_map.shape
        self.dim = score_map.dim
        self.scores = score_map.scores
        self.pullback = score_map.pullback
        self.inner = score_map.inner
        self.norm2 = score_map.norm2
        self.rounding = score_map.rounding
        self.lift = score_map.lift
        self.euclidean = score_map.euclidean

    @property
    def n_products(self) -> int:
        return self._map.n_products

    def scatter(self, weight: Array, groups: QueryGroups) -> Array | None:
        total = float(weight.sum())
        if not total > 0.0:
            return self._map.scatter(weight, groups)
        share = weight / total
        if self._weight is None or 0.5 * float(np.abs(share - self._weight).sum()) > MOVED:
            matrix = self._map.scatter(weight, groups)
            self._matrix = None if matrix is None else matrix / total
            self._weight = share
        return None if self._matrix is None else self._matrix * total
