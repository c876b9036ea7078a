"""Scores of scaled features, without scaling X; see :mod:`ranksvm.data.scaling`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ranksvm._cached import cached_property
from ranksvm._rounding import SLACK, roundings
from ranksvm._vectors import Array, length
from ranksvm.maps.matrix import EuclideanMap
from ranksvm.maps.sample import WeightedItems


class ScaledMap(EuclideanMap):
    """``scores(v) = X (d v)`` and ``pullback(g) = d (X' g)``: features multiplied by factors d.

    Parameters
    ----------
    inner : EuclideanMap
        The map of X.
    factor : ndarray of shape (n_features,)
        The factors d.
    tallest : ndarray of shape (n_features,) or None
        Largest absolute value of each column of X, if that is known.
    """

    def __init__(self, inner: EuclideanMap, factor: Array, tallest: Array | None = None) -> None:
        if tallest is not None:
            inner.tallest = tallest
        self.shape = inner.shape
        self.has_own_sample = inner.has_own_sample
        self.factor = factor
        self._inner = inner

    @property
    def n_products(self) -> int:  # type: ignore[override]
        return self._inner.n_products

    def zero_scores(self) -> Array:
        return self._inner.zero_scores()

    def scores(self, w: Array) -> Array:
        return self._inner.scores(self.factor * w)

    def pullback(self, g: Array) -> Array:
        return self.factor * self._inner.pullback(g)

    def reach(self, w: Array) -> float:
        return min(super().reach(w), SLACK * self._inner.reach(self.factor * w))

    @property
    def tallest(self) -> Array | None:  # type: ignore[override]
        tallest = self._inner.tallest
        return None if tallest is None else SLACK * self.factor * tallest

    @property
    def score_rounding(self) -> float:
        return self._inner.score_rounding + roundings(1)

    @property
    def score_depth(self) -> int:
        return self._inner.score_depth + 1

    @property
    def pullback_depth(self) -> int:
        return self._inner.pullback_depth + 1

    @cached_property
    def _widest(self) -> float:
        return SLACK * self._inner.longest_row * float(np.max(self.factor, initial=0.0))

    @property
    def longest_row(self) -> float:
        tallest = self.tallest
        return self._widest if tallest is None else min(self._widest, length(tallest))

    def sharpen(self) -> bool:
        return self._inner.sharpen()

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        found = self._inner.scatter(parts)
        if found is None:
            return None
        if found.ndim == 1:
            return found * self.factor**2
        found = found * self.factor
        found *= self.factor[:, None]
        return found
