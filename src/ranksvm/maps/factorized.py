"""Map low-rank multipliers to feature weights.

Every item has a vector v of K numbers.  A comparable pair of a better item b and a worse item w has
the multiplier <v_b, v_w>.  The feature weights are

    w(V) = sum over pairs of <v_b, v_w> (x_b - x_w) = X' c(V),

which is quadratic in V.  For a function f of the weights with gradient g, the derivative of f(w(V))
with respect to v_i is

    sum over worse j of (t_i - t_j) v_j - sum over better j of (t_i - t_j) v_j,    t = X g.

Both c and this derivative are running sums in order of relevance, which take O(n K) for any number
of pairs.  V is stored in that order: its row p belongs to item ``rows[p]``.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.maps.matrix import ScoreMap


class FactoredPairs(Protocol):
    """Sums over the comparable pairs, for factors of shape (n_items, n_factors) in C order."""

    @property
    def factor_rows(self) -> NDArray[np.int64]:
        """Items to which the rows of the factors belong."""
        ...

    def factor_coefficients(self, factors: Array) -> Array:
        """Return c, with one entry per item."""
        ...

    def factor_gradient(self, factors: Array, t: Array) -> Array:
        """Return the gradient of sum over pairs of <v_b, v_w> (t_b - t_w) in the factors."""
        ...


class FactorMap:
    """``weights(V) = X' c(V)`` and its derivative.

    Parameters
    ----------
    score_map : ScoreMap
        Map of X.
    pairs : FactoredPairs
        Sums over the comparable pairs.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_items,)
        Items to which the rows of V belong.
    """

    def __init__(self, score_map: ScoreMap, pairs: FactoredPairs) -> None:
        self._map = score_map
        self._pairs = pairs
        self.rows = pairs.factor_rows

    def weights(self, factors: Array) -> Array:
        """Return w(V), with one product with X'."""
        return self._map.pullback(self._pairs.factor_coefficients(factors))

    def pullback(self, factors: Array, gradient: Array) -> Array:
        """Return the derivative of <gradient, w(V)> with respect to V, with one product with X."""
        return self._pairs.factor_gradient(factors, self._map.scores(gradient))

    def by_item(self, factors: Array) -> Array:
        """Return V with its rows in the order of the items."""
        out = np.empty_like(factors)
        out[self.rows] = factors
        return out
