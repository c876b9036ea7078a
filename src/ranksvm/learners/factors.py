"""The objective of factorized models, and its starting points.

    F(V) = f(w(V)),    f(w) = 1/2 |w|^2 + C * loss(X w),    w(V) = sum <v_b, v_w> (x_b - x_w)

(:mod:`ranksvm.maps.factorized`).  f is the objective of the linear model, so F is never below the
minimum of f; and since nearly every w that a linear model can learn is a w(V), both have the same
infimum.  V = 0 is a saddle point and cannot be the start.

A random start is drawn from a normal distribution and scaled, by one factor for all items, so that
the scores of w(V) have the standard deviation ``scale`` around the means of their queries: well
inside the margin, whatever the scale of the features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array, dot
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.factorized import FactorMap
from ranksvm.objective import RankObjective

__all__ = ["FactorEval", "FactorObjective", "best_multiple", "random_start", "spread"]

BISECTIONS = 20
DOUBLINGS = 200
ROUNDING = 1e-12  # a spread below this, relative to the scores, counts as zero


class FactorEval(NamedTuple):
    """F at given factors: value, gradient with respect to the factors, and feature weights.

    ``stated`` is an upper bound of F with the original loss that includes rounding errors;
    ``value`` and ``grad`` belong to the loss in use, which may be smoothed.
    """

    value: float
    grad: Array
    weights: Array
    stated: float


class FactorObjective:
    """F(V) and its gradient, for four products with X or its transpose.

    Parameters
    ----------
    objective : RankObjective
        The function f.
    factor_map : FactorMap
        The function w(V), for the same X.
    """

    def __init__(self, objective: RankObjective, factor_map: FactorMap) -> None:
        self.objective = objective
        self.factor_map = factor_map

    @property
    def n_products(self) -> int:
        """Number of products with X or its transpose so far."""
        return self.objective.n_products

    def at(self, factors: Array) -> FactorEval:
        weights = self.factor_map.weights(factors)
        evaluation = self.objective.at(self.objective.point(weights))
        grad = self.factor_map.pullback(factors, evaluation.grad)
        return FactorEval(evaluation.value, grad, weights, float(evaluation.primal))

    def smoothed(self, width: float) -> FactorObjective:
        """Round off the kink of the loss, which must have the capability "smoothing"."""
        return FactorObjective(self.objective.smoothed(width), self.factor_map)


def random_start(
    objective: FactorObjective,
    groups: QueryGroups,
    n_factors: int,
    scale: float,
    seed: int,
    idle: NDArray[np.int64] | None = None,
) -> Array:
    """Return random factors for which the scores have the standard deviation ``scale``.

    The factors of the rows ``idle`` are zero, and their scores do not count.
    """
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((groups.n_items, n_factors))
    rows = objective.factor_map.rows
    if idle is not None:
        factors[idle] = 0.0
        rows = np.delete(rows, idle)
    weights = objective.factor_map.weights(factors)
    scores = objective.objective.point(weights).scores
    found = spread(scores[rows], groups.index[rows])
    if found > ROUNDING * float(np.max(np.abs(scores), initial=0.0)):
        factors *= np.sqrt(scale / found)
    return factors


def spread(scores: Array, query: NDArray[np.int64]) -> float:
    """Return the standard deviation of scores around the means of their queries."""
    means = np.bincount(query, scores) / np.maximum(np.bincount(query), 1)
    deviation = scores - means[query]
    return float(np.sqrt(dot(deviation, deviation) / max(1, len(scores))))


def best_multiple(objective: RankObjective, weights: Array) -> float:
    """Return the a >= 0 that minimizes f(a w), which is convex in a; 0 if f does not decrease."""
    point = objective.point(weights)
    square = objective.inner(weights, point)
    if not square > 0.0:
        return 0.0

    def slope(a: float) -> float:
        return a * square + objective.C * dot(
            objective.loss.at(a * point.scores).grad, point.scores
        )

    # Start where the scores are as large as the margin, and bracket the zero of the slope by
    # factors of two.
    largest = float(np.max(np.abs(point.scores), initial=0.0))
    high = 1.0 / largest if largest > 0.0 else 1.0
    for _ in range(DOUBLINGS):
        if slope(high) >= 0.0:
            break
        high *= 2.0
    low = 0.5 * high
    for _ in range(DOUBLINGS):
        if slope(low) < 0.0:
            break
        low, high = 0.5 * low, low
    else:
        return 0.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
        if high - low <= 1e-3 * high:
            break
    return 0.5 * (low + high)
