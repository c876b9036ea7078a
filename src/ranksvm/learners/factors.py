"""Factorized models: their parameters, their objective, and its starting points.

Every item has a vector v of K numbers.  A comparable pair of a better item b and a worse item w has
the multiplier <v_b, v_w>, and the objective is

    F(V) = f(w(V)),    f(w) = 1/2 |w|^2 + C * loss(X w),
    w(V) = sum over pairs of <v_b, v_w> (x_b - x_w) = X' c(V).

f is the objective of the linear model, so F is never below the minimum of f; and since nearly every
w that a linear model can learn is a w(V), both have the same infimum.  V = 0 is a saddle point and
cannot be the start.

With the gradient g of f, the derivative of F with respect to v_i is

    sum over worse j of (t_i - t_j) v_j - sum over better j of (t_i - t_j) v_j,    t = X g.

Both c and this derivative are running sums in order of relevance, which take O(n K) for any number
of pairs.  V is stored in that order: its row p belongs to item ``rows[p]``.

A random start is drawn from a normal distribution and scaled, by one factor for all items, so that
the scores of w(V) have the standard deviation ``scale`` around the means of their queries: well
inside the margin, whatever the scale of the features.  A linear start approximates the multipliers
of the linear model (:mod:`ranksvm.learners.multipliers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice, check_integer, check_positive, check_seed
from ranksvm._messages import Param, ParameterError
from ranksvm._points import Point
from ranksvm._vectors import Array, dot
from ranksvm.backends.native import NativeBackend
from ranksvm.learners.multipliers import (
    MULTIPLIER_TERMS,
    Multipliers,
    factorize,
    multiplier_point,
    multiplier_terms,
)
from ranksvm.learners.settings import Settings, parameter, with_default
from ranksvm.objective import RankObjective

STARTS = ("random", "linear")
METHOD = "lbfgs"  # name of the optimizer
REMOVED = ("gradient", "sgd")  # optimizers of earlier versions; the estimator warns about them
NO_ITEMS = np.empty(0, dtype=np.int64)

BISECTIONS = 20
DOUBLINGS = 200
ROUNDING = 1e-12  # a spread below this, relative to the scores, counts as zero


@dataclass(frozen=True)
class FactorizedSettings(Settings):
    """The parameters of ``FactorizedRankSVM`` that determine the model."""

    loss: str = with_default("loss", "hinge")
    tol: float = with_default("tol", 1e-3)
    max_iter: int = with_default("max_iter", 500)
    n_factors: int = parameter(
        10, "Train a factorized model with this many factors per item.", flag="factors"
    )
    n_restarts: int = parameter(
        1, "Number of random starts; the best result is kept.", flag="restarts"
    )
    init: str = parameter(
        "random",
        "Start at random factors or at the linear model.",
        choices=lambda: STARTS,
        rare=True,
    )
    init_scale: float = parameter(
        0.1,
        "Deviation of the scores at a random start.",
        only=("init", lambda: ("random",)),
        rare=True,
    )
    optimizer: str = "auto"
    patience: int = parameter(20, "Stop if --valid is no better for N iterations.")
    random_state: int | None = parameter(None, "Random seed.", flag="seed", rare=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("n_factors", self.n_factors)
        check_integer("n_restarts", self.n_restarts)
        check_positive("init_scale", self.init_scale)
        check_integer("patience", self.patience)
        check_choice("init", self.init, STARTS)
        check_seed("random_state", self.random_state)
        check_choice("optimizer", self.optimizer, ("auto", METHOD, *REMOVED))
        if self.scaling == "quantile":
            raise ParameterError(
                "factorized models are linear in the features, so {scaling} is not available. "
                "{remedy}",
                remedy="Use {others}.",
                scaling=Param("scaling", self.scaling),
                others=Param("scaling", "standard", "minmax", "robust"),
            )
        if self.n_rounds:
            raise ParameterError(
                "factorized models are fitted once, so {pair_weight} is not available. {remedy}",
                remedy="Use {others}.",
                pair_weight=Param("pair_weight", self.pair_weight),
                others=Param("pair_weight", "gain", "uniform"),
            )
        if self.init == "linear" and self.n_restarts > 1:
            raise ParameterError(
                "{n_restarts} with {linear} would repeat the same run, because there is only one "
                "linear start. {remedy}",
                remedy="Use {one}, or {random}.",
                n_restarts=Param("n_restarts", self.n_restarts),
                linear=Param("init", "linear"),
                one=Param("n_restarts", 1),
                random=Param("init", "random"),
            )
        if self.init == "linear" and self.loss not in MULTIPLIER_TERMS:
            raise ParameterError(
                "{linear} is not available for {loss}, whose Lagrange multipliers are not known. "
                "{remedy}",
                remedy="Use {random}.",
                linear=Param("init", "linear"),
                loss=Param("loss", self.loss),
                random=Param("init", "random"),
            )


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
    pairs : NativeBackend
        The comparable pairs.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_items,)
        Items to which the rows of V belong.
    """

    def __init__(self, objective: RankObjective, pairs: NativeBackend) -> None:
        self.objective = objective
        self.pairs = pairs
        self.rows = pairs.factor_rows

    def weights(self, factors: Array) -> Array:
        """Return w(V)."""
        return self.objective.score_map.pullback(self.pairs.factor_coefficients(factors))

    def at(self, factors: Array) -> FactorEval:
        weights = self.weights(factors)
        evaluation = self.objective.at(self.objective.point(weights))
        t = self.objective.score_map.scores(evaluation.grad)
        grad = self.pairs.factor_gradient(factors, t)
        return FactorEval(evaluation.value, grad, weights, float(evaluation.primal))

    def by_item(self, factors: Array) -> Array:
        """Return V with its rows in the order of the items."""
        out = np.empty_like(factors)
        out[self.rows] = factors
        return out

    def smoothed(self, width: float) -> FactorObjective:
        """Round off the kink of the loss, which must have the capability "smoothing"."""
        return FactorObjective(self.objective.smoothed(width), self.pairs)


def random_start(
    objective: FactorObjective,
    n_factors: int,
    scale: float,
    seed: int,
    idle: NDArray[np.int64] = NO_ITEMS,
) -> Array:
    """Return random factors for which the scores have the standard deviation ``scale``.

    The factors of the rows ``idle`` are zero, and their scores do not count.
    """
    groups = objective.pairs.groups
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((groups.n_items, n_factors))
    factors[idle] = 0.0
    rows = np.delete(objective.rows, idle)
    weights = objective.weights(factors)
    scores = objective.objective.point(weights).scores
    found = spread(scores[rows], groups.index[rows])
    if found > ROUNDING * float(np.max(np.abs(scores), initial=0.0)):
        factors *= np.sqrt(scale / found)
    return factors


def linear_start(
    objective: FactorObjective,
    optimum: Point,
    settings: FactorizedSettings,
    seed: int,
    idle: NDArray[np.int64],
) -> Array | None:
    """Return factors of the multipliers of the linear model, scaled to minimize F.

    ``optimum`` is the linear model.  The factors of the rows ``idle`` are zero.  Returns None if
    there are too few factors to give a descent direction w(V).
    """
    convex, pairs = objective.objective, objective.pairs
    point = multiplier_point(convex, optimum, settings.loss)
    terms = multiplier_terms(settings.loss, convex.C)
    multipliers = Multipliers(pairs, point.scores, terms)
    factors = factorize(multipliers, pairs.groups, settings.n_factors, seed)[objective.rows]
    factors[idle] = 0.0
    multiple = best_multiple(convex, objective.weights(factors))
    return factors * np.sqrt(multiple) if multiple > 0.0 else None


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
