"""The objective F(w) = 1/2 <w, w> + C * loss(scores(w)), in the form that the solvers use.

Every evaluation comes with a lower bound on the optimum.  It is the dual objective at the
multipliers given by the loss (see :mod:`ranksvm.pairs.oracle`), scaled by the best factor.  With
u = C X' g,

    D(theta) = theta C A1 - theta^2 C A2 - theta^2 / 2 <u, u>,    0 <= theta <= theta_max.

At theta = 1 the gap F - D of the squared hinge is 1/2 |grad F|^2.  For the same multipliers and
every v, C loss(scores(v)) >= C A1 - C A2 + <u, v>, which is the cutting plane of the bundle method.

Rounding.  The error of everything that enters D, F or the plane has a known bound: the loss bounds
those of A1, A2 and g, the map that of u, and the point that of the scores.  A1 is taken as small as
possible, and A2, |u| and the slacks as large as possible.  theta is then optimized for these
numbers, so the bound is valid for any theta.  ``docs/certificates_proof.md`` has the full proof.

Preconditioner.  The Hessian with respect to the scores is the Laplacian D - A of the violated pairs
(times a factor).  In a random graph with the same degrees d, A would be d d' / sum(d) in every
query.  With this approximation, the Hessian of F is the identity plus C times the weighted scatter
of the items within their queries.  (For a list of pairs, the connected components take the place of
queries; pairs of different kinds have separate scatters, which add up.)  For few features this
matrix is cheap, and so accurate that one or two CG steps suffice.  It is scaled to a diagonal of
ones before it is factorized: the features may differ in size by ten orders of magnitude and more.
For many features only its diagonal is available, and the features are far from independent.  The
square root of the diagonal then needs fewer products than the diagonal itself or no preconditioner.
The diagonal leaves most eigenvalues near 1 and a few very large; a solver that improves the
preconditioner by what it learns about these (``improved``) does better with the diagonal.  If there
are more than twice as many features as items, no preconditioner is best.

Kernels have as many features as there are items, but most of the information is in a few hundred
directions.  Their maps give the scatter in such a subspace, and ``lift`` extends its inverse to the
whole space, with the identity on the complement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ranksvm._cached import cached_property
from ranksvm._cholesky import inverse_times
from ranksvm._points import Point
from ranksvm._rounding import TINY, roundings
from ranksvm._vectors import Array, add_scaled, add_scaled_to, any_nonzero, scale
from ranksvm.maps.matrix import ScoreMap
from ranksvm.maps.sample import Scatter
from ranksvm.pairs.oracle import LossEval, PairLoss
from ranksvm.solvers.base import Trial

# An evaluation is not rescaled to a C below this, or this many times larger than its own, because
# the products would lose digits.
_LEAST_C = 1e-250
_MOST_RESCALED = 1e100
# Covers the rounding of a few operations on bounds.
SLIGHTLY = 1.0 + roundings(16)


class RankObjective:
    """Regularized pairwise loss of the scores of a map.

    Parameters
    ----------
    score_map : ScoreMap
        Maps weights to scores.
    loss : PairLoss
        Loss of the scores.
    C : float
        Weight of the loss; a larger C means less regularization.
    weight_rounding : float, default=0.0
        Bound on the relative error of C times the weight of a pair.
    scatter : callable or None, default=None
        Used instead of the map's ``scatter``.
    """

    def __init__(
        self,
        score_map: ScoreMap,
        loss: PairLoss,
        C: float,
        weight_rounding: float = 0.0,
        *,
        scatter: Scatter | None = None,
    ) -> None:
        self.score_map = score_map
        self.loss = loss
        self.C = C
        self.weight_rounding = weight_rounding
        self.scatter: Scatter = score_map.scatter if scatter is None else scatter
        self._is_euclidean = "euclidean" in score_map.capabilities

    @property
    def capabilities(self) -> frozenset[str]:
        return self.loss.capabilities | self.score_map.capabilities

    @property
    def n_products(self) -> int:
        return self.score_map.n_products

    def point(self, w: Array) -> Point:
        if not any_nonzero(w):
            return Point(w, self.score_map.zero_scores())
        return self.known(w, self.score_map.scores(w))

    def known(self, w: Array, scores: Array, error: float = 0.0) -> Point:
        """Return a point with known scores.

        Their error is at most ``error`` or the rounding error of a product, whichever is larger.
        """
        reach = self.score_map.reach(w)
        return Point(w, scores, max(error, self.score_map.score_rounding * reach), reach)

    def scored(self, dual: Point) -> Point:
        return self.point(dual.w) if self._is_euclidean else dual

    def inner(self, u: Array, v: Point) -> float:
        return self.score_map.inner(u, v.w, v.scores)

    def norm_bound(self, v: Point, slope_error: float = 0.0) -> float:
        norm2 = self.score_map.norm2(v.w, v.scores, v.error)
        return self._norm_bound(v, norm2, slope_error)

    def _norm_bound(self, v: Point, norm2: float, slope_error: float) -> float:
        most = norm2 + self.score_map.norm2_error(v.w, v.error, norm2)
        return SLIGHTLY * self.score_map.widened(math.sqrt(most), v.w, slope_error)

    def at(self, point: Point) -> RankEval:
        return self._finish(point, self.loss.at(point.scores))

    def smoothed(self, mu: float) -> RankObjective:
        """Return the same objective with its loss smoothed; capability "smoothing"."""
        loss: Any = self.loss
        return RankObjective(
            self.score_map, loss.smoothed(mu), self.C, self.weight_rounding, scatter=self.scatter
        )

    def _finish(self, point: Point, loss: LossEval) -> RankEval:
        risk_grad = self.score_map.pullback(loss.grad)
        scale(self.C, risk_grad)
        norm2 = self.score_map.norm2(point.w, point.scores, point.error)
        slope = Point(risk_grad, risk_grad) if self._is_euclidean else self.point(risk_grad)
        u2 = self.score_map.norm2(slope.w, slope.scores, slope.error)
        if not math.isfinite(u2 + norm2 + loss.value):
            raise too_large(point, risk_grad)
        return self._certified(point, norm2, loss, slope, u2)

    def _certified(
        self, point: Point, norm2: float, loss: LossEval, risk_slope: Point, slope_norm2: float
    ) -> RankEval:
        """Assemble an evaluation, with bounds that allow for rounding.

        ``norm2`` and ``slope_norm2`` are the squared norms of the point and of the slope.
        """
        risk_grad = risk_slope.w
        C, score_map, off = self.C, self.score_map, loss.errors
        stated = loss.stated + off.stated + loss.blurred(point.error)
        norm2_most = norm2 + score_map.norm2_error(point.w, point.error, norm2)
        rounding = self.weight_rounding + roundings(8)  # of the weights, and of what follows
        some, more = C * rounding, C * (1.0 + rounding)
        reward = C * (loss.dual_linear - off.linear) - some * loss.dual_linear - TINY
        cost = more * (loss.dual_quadratic + off.quadratic)
        size = 2.0 * (loss.dual_linear + off.linear) + off.grad  # bounds the 1-norm of the gradient
        slope_size = score_map.size(risk_grad, slope_norm2)
        slope_error = SLIGHTLY * C * score_map.pullback_error(size, off.grad)
        slope_loss = SLIGHTLY * (rounding + roundings(4)) * slope_size
        norm = self._norm_bound(risk_slope, slope_norm2, slope_error) + slope_loss
        bend = 2.0 * cost + norm * norm
        theta = loss.dual_scale if bend <= 0.0 else min(loss.dual_scale, reward / bend)
        dual = theta * (reward - 0.5 * theta * bend) if 0.0 < theta < np.inf else 0.0
        primal = SLIGHTLY * (0.5 * norm2_most + more * stated + TINY)
        return RankEval(
            objective=self,
            point=point,
            norm2=norm2,
            loss=loss,
            value=0.5 * norm2 + C * loss.value,
            risk_slope=risk_slope,
            estimate=0.5 * norm2 + C * loss.stated,
            primal=_or_else(primal, np.inf),
            dual=_or_else(dual / SLIGHTLY, 0.0),
            offset=_or_else(reward - cost, -np.inf),
            slope_error=slope_error,
            slope_loss=slope_loss,
            slope_size=slope_size,
        )


def too_large(point: Point, gradient: Array | None = None) -> OverflowError:
    """Return the error for numbers that are too large for float64."""
    known = isinstance(point.scores, np.ndarray)
    scores = np.max(np.abs(point.scores), initial=0.0) if known else point.reach
    steep = "" if gradient is None else f" and the gradient {np.abs(gradient).max():.3g}"
    return OverflowError(
        f"numbers too large for float64: the scores reach {scores:.3g}{steep}. "
        "Scale the features down (for example with sklearn.preprocessing.StandardScaler), "
        "or choose a smaller C, smaller weights, or smaller kernel parameters."
    )


def _inverse(matrix: Array) -> Callable[[Array], Array] | None:
    """Return the product with the inverse of I + ``matrix``, which is overwritten.

    Returns None if its numbers are too large for float64.
    """
    # Scaled to a diagonal of ones, so that features of any size keep their digits; a little more
    # than that in case rounding made the matrix indefinite.
    size = 1.0 / np.sqrt(matrix.diagonal() + 1.0)
    with np.errstate(invalid="ignore"):  # inf times 0
        matrix *= size
        matrix *= size[:, None]
    matrix.flat[:: len(matrix) + 1] = 1.0 + 1e-13 * len(matrix)
    found = inverse_times(matrix)
    return None if found is None else lambda vector: size * found(size * vector)


def _or_else(bound: float, safe: float) -> float:
    """Return a bound, or a trivial one if overflow made it NaN."""
    return safe if math.isnan(bound) else float(bound)


@dataclass(frozen=True)
class RankEval:
    """See :class:`ranksvm.solvers.base.Eval`."""

    objective: RankObjective
    point: Point
    norm2: float
    loss: LossEval
    value: float
    risk_slope: Point
    estimate: float
    primal: float
    dual: float
    offset: float
    slope_error: float
    slope_loss: float
    slope_size: float
    # The evaluation that it was rescaled from, if any.
    source: RankEval | None = None

    @cached_property
    def slope(self) -> Point:
        if not self.objective._is_euclidean:
            return self.point.plus(1.0, self.risk_slope)
        grad = add_scaled(self.point.w, 1.0, self.risk_slope.w)
        return Point(grad, grad)

    @property
    def grad(self) -> Array:
        return self.slope.w

    def hessp(self, direction: Point) -> Array:
        assert self.loss.hessp is not None
        product = self.objective.score_map.pullback(self.loss.hessp(direction.scores))
        scale(self.objective.C, product)
        add_scaled_to(product, 1.0, direction.w)
        return product

    def blurred(self, error: float) -> float:
        """Bound the uncertainty of F if scores are off by ``error``."""
        return self.objective.C * self.loss.blurred(error)

    def can_rescale(self, C: float) -> bool:
        """Return whether the evaluation can be rescaled to another C without losing digits."""
        source = self.objective if self.source is None else self.source.objective
        return min(C, source.C) > _LEAST_C and C < _MOST_RESCALED * source.C

    def rescaled(self, objective: RankObjective) -> RankEval:
        """Return the evaluation of an objective that differs only in C, at the same point.

        It costs no product with X.
        """
        source = self if self.source is None else self.source  # so that errors do not accumulate
        factor = objective.C / source.objective.C
        slope = source.risk_slope.times(factor)
        slope_norm2 = objective.score_map.norm2(slope.w, slope.scores, slope.error)
        made = objective._certified(self.point, self.norm2, self.loss, slope, slope_norm2)
        return replace(made, source=source)

    def preconditioner(self, *, diagonal: bool = False, improved: bool = False) -> Any:
        """Return an approximate inverse of the Hessian; see the module docstring."""
        objective = self.objective
        assert self.loss.degrees is not None
        matrix = objective.scatter(self.loss.degrees())
        if matrix is None:
            return None
        matrix *= objective.C
        if diagonal or matrix.ndim == 1:
            inverse = 1.0 / (1.0 + (matrix if matrix.ndim == 1 else matrix.diagonal()))
            if not diagonal and not improved:
                inverse = np.sqrt(inverse)
            return objective.score_map.lift(lambda r: inverse * r)
        inverse_times = _inverse(matrix)
        return None if inverse_times is None else objective.score_map.lift(inverse_times)

    def line(self, direction: Point, target: Point | None = None) -> Callable[[float], Trial]:
        objective, point = self.objective, self.point
        cross = objective.inner(point.w, direction)
        square = objective.inner(direction.w, direction)

        def trial(t: float) -> Trial:
            moved = add_scaled(point.scores, t, direction.scores)
            loss = objective.loss.at(moved)
            norm2 = self.norm2 + 2.0 * t * cross + t * t * square
            value = 0.5 * norm2 + objective.C * loss.value
            slope = cross + t * square + objective.C * loss.slope(direction.scores)

            def accept() -> RankEval:
                w = add_scaled(point.w, t, direction.w)
                error = (
                    point.plus_error(t, direction)[0]
                    if target is None
                    else point.mixed_error(t, target)
                )
                return objective._finish(Point(w, moved, error, objective.score_map.reach(w)), loss)

            return Trial(t, value, slope, accept)

        return trial
