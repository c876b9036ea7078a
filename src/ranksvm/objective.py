"""F(w) = 1/2 <w, w> + C * loss(scores(w)), as the solvers want to see it.

The lower bound of the optimum that comes with every evaluation is the dual objective at the
multipliers that the loss proposes (see :mod:`ranksvm.pairs.oracle`), scaled by the best factor:
with u = C X' g,

    D(theta) = theta C A1 - theta^2 C A2 - theta^2 / 2 <u, u>,    0 <= theta <= theta_max.

At theta = 1 the gap F - D of the squared hinge is 1/2 |grad F|^2.

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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ranksvm.maps.matrix import ScoreMap
from ranksvm.pairs.oracle import LossEval, PairLoss
from ranksvm.solvers.base import Array, Point, Preconditioner, Trial, dot

__all__ = ["RankEval", "RankObjective"]

# A smaller C, or one that many times larger, is a new problem: products with it lose their digits.
_LEAST_C = 1e-250
_MOST_RESCALED = 1e100


class RankObjective:
    """Regularised pairwise loss of the scores that a map gives.

    Parameters
    ----------
    score_map : ScoreMap
    loss : PairLoss
    C : float
    """

    def __init__(self, score_map: ScoreMap, loss: PairLoss, C: float) -> None:
        self.score_map = score_map
        self.loss = loss
        self.C = C

    @property
    def capabilities(self) -> frozenset[str]:
        smooth = "hessian" in self.loss.capabilities
        return self.loss.capabilities | ({"preconditioner"} if smooth else set())

    @property
    def euclidean(self) -> bool:
        return self.score_map.euclidean

    @property
    def n_products(self) -> int:
        return self.score_map.n_products

    def point(self, w: Array) -> Point:
        if not np.any(w):
            return Point(w, self.zero_scores())
        return Point(w, self.score_map.scores(w))

    def zero_scores(self) -> Array:
        return np.zeros(self.score_map.shape[0])

    def inner(self, u: Array, v: Point) -> float:
        return self.score_map.inner(u, v.w, v.scores)

    def at(self, point: Point) -> RankEval:
        norm2 = self.score_map.norm2(point.w, point.scores)
        return self._finish(point, self.loss.at(point.scores), norm2)

    def smoothed(self, mu: float) -> RankObjective:
        """Return the same objective with its loss smoothed; capability "smoothing"."""
        loss: Any = self.loss
        return RankObjective(self.score_map, loss.smoothed(mu), self.C)

    def _finish(self, point: Point, loss: LossEval, norm2: float) -> RankEval:
        C = self.C
        risk_grad = self.score_map.pullback(loss.grad)
        risk_scores = None
        with np.errstate(over="ignore", invalid="ignore"):
            risk_grad *= C
            if not self.euclidean:
                risk_scores = self.score_map.scores(risk_grad)
            u2 = self.score_map.norm2(risk_grad, risk_scores)
        if not np.isfinite(u2 + norm2 + loss.value):
            raise OverflowError(
                "numbers too large for float64: the scores reach "
                f"{np.abs(point.scores).max():.3g} and the gradient {np.abs(risk_grad).max():.3g}. "
                "Scale the features down (for example with sklearn.preprocessing.StandardScaler), "
                "choose a smaller C, smaller weights, or smaller parameters of a kernel."
            )
        bend = 2.0 * C * loss.dual_quadratic + u2
        reward = C * loss.dual_linear
        theta = loss.dual_scale if bend <= 0.0 else min(loss.dual_scale, reward / bend)
        dual = theta * (reward - 0.5 * theta * bend) if np.isfinite(theta) else 0.0
        rounding = C * loss.rounding + self._norm_rounding(point.w, risk_grad)
        # Once for the bound itself, once for the value that it will be taken from.
        dual -= 2.0 * rounding
        half = 0.5 * norm2
        return RankEval(
            objective=self,
            point=point,
            norm2=norm2,
            loss=loss,
            value=half + C * loss.value,
            grad=point.w + risk_grad,
            risk=C * loss.value,
            risk_grad=risk_grad,
            risk_scores=risk_scores,
            primal=half + C * loss.stated,
            dual=max(0.0, dual),  # the objective is never negative
            rounding=rounding,
        )

    def _norm_rounding(self, w: Array, u: Array) -> float:
        """Return what rounding may have done to half the squared norms of w and u."""
        if self.euclidean:
            return 0.0
        return 0.5 * (self.score_map.rounding(w) + self.score_map.rounding(u))


@dataclass(frozen=True)
class RankEval:
    """See :class:`ranksvm.solvers.base.Eval`."""

    objective: RankObjective
    point: Point
    norm2: float
    loss: LossEval
    value: float
    grad: Array
    risk: float
    risk_grad: Array
    risk_scores: Array | None
    primal: float
    dual: float
    rounding: float

    def hessp(self, direction: Point) -> Array:
        assert self.loss.hessp is not None
        product = self.objective.score_map.pullback(self.loss.hessp(direction.scores))
        product *= self.objective.C
        product += direction.w
        return product

    def can_rescale(self, C: float) -> bool:
        """Whether float64 can go from the C of this evaluation to another one."""
        return min(C, self.objective.C) > _LEAST_C and C < _MOST_RESCALED * self.objective.C

    def rescaled(self, objective: RankObjective) -> RankEval:
        """Return the evaluation of an objective that differs in C alone, at the same point.

        Nothing is computed anew.  The lower bound is the dual objective at theta = 1.
        """
        loss = self.loss
        factor = objective.C / self.objective.C
        risk = factor * self.risk
        risk_grad = factor * self.risk_grad
        risk_scores = None if self.risk_scores is None else factor * self.risk_scores
        value = 0.5 * self.norm2 + risk
        rounding = objective.C * loss.rounding + objective._norm_rounding(self.point.w, risk_grad)
        dual = objective.C * (loss.dual_linear - loss.dual_quadratic)
        dual -= 0.5 * objective.score_map.norm2(risk_grad, risk_scores)
        return replace(
            self,
            objective=objective,
            value=value,
            grad=self.point.w + risk_grad,
            risk=risk,
            risk_grad=risk_grad,
            risk_scores=risk_scores,
            primal=value,
            dual=max(0.0, dual - 2.0 * rounding),
            rounding=rounding,
        )

    def preconditioner(self, *, diagonal: bool = False) -> Preconditioner | None:
        """Return an approximate inverse of the Hessian; see the module's text."""
        objective = self.objective
        assert self.loss.degrees is not None
        matrix = objective.score_map.scatter(self.loss.degrees())
        if matrix is None:
            return None
        matrix *= objective.C
        if diagonal or matrix.ndim == 1:
            inverse = 1.0 / (1.0 + (matrix if matrix.ndim == 1 else matrix.diagonal()))
            if not diagonal:
                inverse = np.sqrt(inverse)
            return objective.score_map.lift(lambda r: inverse * r)
        # The identity, and enough on top to factorise a matrix that rounding made indefinite.
        matrix[np.diag_indices_from(matrix)] += 1.0 + 1e-13 * np.trace(matrix)
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # hopelessly scaled features: go without
            return None
        return objective.score_map.lift(lambda r: cho_solve(factor, r, check_finite=False))

    def line(self, direction: Point) -> Callable[[float], Trial]:
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
                square = norm2 if objective.euclidean else objective.score_map.norm2(w, moved)
                return objective._finish(Point(w, moved), loss, square)

            return Trial(value, slope, 0.5 * norm2 + objective.C * loss.stated, accept)

        return trial
