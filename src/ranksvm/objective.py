"""F(w) = 1/2 <w, w> + C * loss(scores(w)), as the solvers want to see it.

The lower bound of the optimum that comes with every evaluation is the dual objective at the
multipliers that the loss proposes (see :mod:`ranksvm.pairs.oracle`), scaled by the best factor:
with u = C X' g,

    D(theta) = theta C A1 - theta^2 C A2 - theta^2 / 2 <u, u>,    0 <= theta <= theta_max.

At theta = 1 the gap F - D of the squared hinge is 1/2 |grad F|^2.  For the same multipliers, and
every v, C loss(scores(v)) >= C A1 - C A2 + <u, v>: the cutting plane of the bundle method.

Rounding.  Everything that enters D, F or the plane is off by a known amount at most: A1, A2 and g
(the loss says so), u (the map says so), the scores (the point says so).  A1 is taken as small, and
A2, |u| and the slacks as large, as they may be.  theta is then the best for these numbers, so that
the bound holds whatever theta is.  ``docs/certificates_proof.md`` has the whole argument.

Preconditioner.  The Hessian in scores is the Laplacian D - A of the violated pairs (times a
factor).  In the random graph with the same degrees d, A would be d d' / sum(d) in every query; with
that the Hessian of F is the identity plus C times the weighted scatter of the items inside their
queries.  (Items that a list of pairs connects stand for a query; pairs of several kinds have a
scatter each, and these add up.)  For few features this matrix is cheap, and so close to the truth
that one or two CG steps suffice.  For many features only its diagonal is at hand, and the features
are far from independent; its square root needs fewer products than the diagonal itself or nothing,
unless there are more features than items to tell them apart: then nothing is best.

Kernels have as many features as there are items, and most of what they say lies in a few hundred
of them.  Their maps give the scatter of such a subspace, and ``lift`` its inverse to the whole
space, with the identity on the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ranksvm._points import Point
from ranksvm._rounding import TINY, roundings
from ranksvm._vectors import Array, dot
from ranksvm.maps.matrix import ScoreMap
from ranksvm.maps.sample import WeightedItems
from ranksvm.pairs.oracle import LossEval, PairLoss
from ranksvm.solvers.base import Trial

__all__ = ["RankEval", "RankObjective", "too_large"]

# Weighted scatter of the items inside their groups; see ``ScoreMap.scatter``.
Scatter = Callable[[Sequence[WeightedItems]], Array | None]

# A smaller C, or one that many times larger, is a new problem: products with it lose their digits.
_LEAST_C = 1e-250
_MOST_RESCALED = 1e100
# What a few operations on bounds may lose.
SLIGHTLY = 1.0 + roundings(16)


class RankObjective:
    """Regularised pairwise loss of the scores that a map gives.

    Parameters
    ----------
    score_map : ScoreMap
    loss : PairLoss
    C : float
    weight_rounding : float, default=0.0
        How far C times the weight of a pair may be off, relatively.
    scatter : callable or None, default=None
        In place of the map's ``scatter``.
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
        self.weight_rounding = weight_rounding + roundings(8)
        self.scatter: Scatter = score_map.scatter if scatter is None else scatter

    @property
    def capabilities(self) -> frozenset[str]:
        smooth = "hessian" in self.loss.capabilities
        own = {"preconditioner"} if smooth else set()
        return self.loss.capabilities | self.score_map.capabilities | own

    @property
    def n_products(self) -> int:
        return self.score_map.n_products

    def point(self, w: Array) -> Point:
        if not np.any(w):
            return Point(w, self.zero_scores())
        return self.known(w, self.score_map.scores(w))

    def known(self, w: Array, scores: Array, error: float = 0.0) -> Point:
        """Return the point of scores that are as good as a product, but for ``error``."""
        reach = self.score_map.reach(w)
        return Point(w, scores, max(error, self.score_map.score_rounding * reach), reach)

    def scored(self, dual: Point) -> Point:
        return self.score_map.scored(dual, self.point)

    def zero_scores(self) -> Array:
        return np.zeros(self.score_map.shape[0])

    def inner(self, u: Array, v: Point) -> float:
        return self.score_map.inner(u, v.w, v.scores)

    def norm_bound(self, v: Point, slope_error: float = 0.0) -> float:
        norm2 = self.score_map.norm2(v.w, v.scores)
        norm2 += self.score_map.norm2_error(v.w, v.reach, v.error)
        return SLIGHTLY * self.score_map.widened(float(np.sqrt(norm2)), v.w, slope_error)

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
        with np.errstate(over="ignore", invalid="ignore"):
            risk_grad *= self.C
            norm2 = self.score_map.norm2(point.w, point.scores)
            slope = self.score_map.dual(risk_grad, self.point)
            u2 = self.score_map.norm2(risk_grad, slope.scores)
        if not np.isfinite(u2 + norm2 + loss.value):
            raise too_large(point, risk_grad)
        return self._certified(point, norm2, loss, slope)

    def _certified(self, point: Point, norm2: float, loss: LossEval, risk_slope: Point) -> RankEval:
        """Put an evaluation together, with bounds that allow for rounding."""
        risk_grad = risk_slope.w
        C, score_map, off = self.C, self.score_map, loss.errors
        stated = loss.stated + off.stated + loss.blurred(point.error)
        norm2_most = norm2 + score_map.norm2_error(point.w, point.reach, point.error)
        some, more = C * self.weight_rounding, C * (1.0 + self.weight_rounding)
        reward = C * (loss.dual_linear - off.linear) - some * loss.dual_linear - TINY
        cost = more * (loss.dual_quadratic + off.quadratic)
        size = 2.0 * (loss.dual_linear + off.linear) + off.grad  # of the gradient, item by item
        slope_size = score_map.size(risk_grad)
        slope_error = SLIGHTLY * C * score_map.pullback_error(size, off.grad)
        slope_loss = SLIGHTLY * (self.weight_rounding + roundings(4)) * slope_size
        norm = self.norm_bound(risk_slope, slope_error) + slope_loss
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
            risk=C * loss.value,
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
    """Return the error for numbers beyond float64."""
    scores = np.max(np.abs(point.scores), initial=0.0)
    steep = "" if gradient is None else f" and the gradient {np.abs(gradient).max():.3g}"
    return OverflowError(
        f"numbers too large for float64: the scores reach {scores:.3g}{steep}. "
        "Scale the features down (for example with sklearn.preprocessing.StandardScaler), "
        "choose a smaller C, smaller weights, or smaller parameters of a kernel."
    )


def _or_else(bound: float, safe: float) -> float:
    """Return a bound, or one that says nothing where it overflowed on the way."""
    return safe if np.isnan(bound) else float(bound)


@dataclass(frozen=True)
class RankEval:
    """See :class:`ranksvm.solvers.base.Eval`."""

    objective: RankObjective
    point: Point
    norm2: float
    loss: LossEval
    value: float
    risk: float
    risk_slope: Point
    estimate: float
    primal: float
    dual: float
    offset: float
    slope_error: float
    slope_loss: float
    slope_size: float
    # What it was rescaled from, if it was.
    source: RankEval | None = None

    @property
    def risk_grad(self) -> Array:
        return self.risk_slope.w

    @cached_property
    def slope(self) -> Point:
        return self.objective.score_map.added(self.point, self.risk_slope)

    @property
    def grad(self) -> Array:
        return self.slope.w

    def hessp(self, direction: Point) -> Array:
        assert self.loss.hessp is not None
        product = self.objective.score_map.pullback(self.loss.hessp(direction.scores))
        product *= self.objective.C
        product += direction.w
        return product

    def blurred(self, error: float) -> float:
        """How much of F is unknown where scores may be off by ``error``."""
        return self.objective.C * self.loss.blurred(error)

    def can_rescale(self, C: float) -> bool:
        """Whether float64 can go from the C of this evaluation to another one."""
        source = self.objective if self.source is None else self.source.objective
        return min(C, source.C) > _LEAST_C and C < _MOST_RESCALED * source.C

    def rescaled(self, objective: RankObjective) -> RankEval:
        """Return the evaluation of an objective that differs in C alone, at the same point.

        No product with X is made.
        """
        source = self if self.source is None else self.source  # roundings do not add up
        factor = objective.C / source.objective.C
        slope = source.risk_slope.times(factor)
        made = objective._certified(self.point, self.norm2, self.loss, slope)
        return replace(made, source=source)

    def preconditioner(self, *, diagonal: bool = False) -> Any:
        """Return an approximate inverse of the Hessian; see the module's text."""
        objective = self.objective
        assert self.loss.degrees is not None
        matrix = objective.scatter(self.loss.degrees())
        if matrix is None:
            return None
        matrix *= objective.C
        if diagonal or matrix.ndim == 1:
            inverse = 1.0 / (1.0 + (matrix if matrix.ndim == 1 else matrix.diagonal()))
            if not diagonal:
                inverse = np.sqrt(inverse)
            return objective.score_map.lift(lambda r: inverse * r)
        # Imported here because it takes long, and reading a model does without.
        from scipy.linalg import cho_factor, cho_solve

        # The identity, and enough on top to factorise a matrix that rounding made indefinite.
        matrix[np.diag_indices_from(matrix)] += 1.0 + 1e-13 * np.trace(matrix)
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # hopelessly scaled features: go without
            return None
        return objective.score_map.lift(lambda r: cho_solve(factor, r, check_finite=False))

    def line(self, direction: Point, target: Point | None = None) -> Callable[[float], Trial]:
        objective, point = self.objective, self.point
        cross = objective.inner(point.w, direction)
        square = objective.inner(direction.w, direction)

        def trial(t: float) -> Trial:
            moved = point.scores + t * direction.scores
            loss = objective.loss.at(moved)
            norm2 = self.norm2 + 2.0 * t * cross + t * t * square
            value = 0.5 * norm2 + objective.C * loss.value
            slope = cross + t * square + objective.C * dot(loss.grad, direction.scores)

            def accept() -> RankEval:
                w = point.w + t * direction.w
                error = (
                    point.plus_error(t, direction)[0]
                    if target is None
                    else point.mixed_error(t, target)
                )
                return objective._finish(Point(w, moved, error, objective.score_map.reach(w)), loss)

            return Trial(value, slope, accept)

        return trial
