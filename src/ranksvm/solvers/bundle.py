"""Bundle method: cutting planes for the risk, the regulariser exact, a line search.

It minimises F(w) = 1/2 <w, w> + R(w) for any convex R, smooth or not, from values and
subgradients.  A subgradient a_k of R at w_k gives a cutting plane,

    R(w)  >=  c_k + <a_k, w>,        c_k = R(w_k) - <a_k, w_k>

(an evaluation states it, and what rounding may have done to it), and the planes together a model

    F_t(w) = 1/2 <w, w> + max_k (c_k + <a_k, w>)  <=  F(w).

With weights b in the simplex, its minimum is the maximum of the dual

    D(b) = c'b - 1/2 <w_b, w_b>,     w_b = - sum_k b_k a_k,

reached at w_b.  Every feasible b has D(b) <= min F, so the certificate does not depend on how
exactly the small program was solved.

Plain BMRM (Teo et al. 2010; Algorithm 1 of Airola et al. 2011) evaluates F at the model's
minimiser w_t, which jumps about while the model is poor.  The optimised cutting plane algorithm
(Franc & Sonnenburg 2009) takes w_t as a direction only: it minimises F along the line from the
best point through w_t.  The scores move linearly along it, so a trial costs no product with X.
This module follows it, with differences that measurements on ranking problems suggested:

- The new plane is taken *at* the minimiser of the line and not, as in the original, a tenth of
  the way further to w_t.  With many terms in the risk F is nearly smooth, and planes near the
  best point describe it where it matters.  The same evaluation is where the next line starts, so
  an iteration costs one product with X (the scores of w_t) and one with X' (the plane).  With the
  inner product of a kernel the planes carry their scores, and w_t, a combination of them, comes
  with its own: one product with K an iteration.
- If the line ends in a kink, a plane on this side of it does not cut w_t off.  A second plane is
  taken beyond, for one more product.  Where not even a lower point exists on the line, it is the
  only one.
- The line search starts from the step of the last one and stops when the tangents at the ends of
  its bracket show that little is left to gain; two trials are typical.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ranksvm.solvers.base import (
    Callback,
    Eval,
    Monitor,
    Objective,
    Point,
    SolverResult,
    Status,
    Trial,
)
from ranksvm.solvers.planes import Plane, Planes, plane_at

__all__ = ["Bundle"]

# The model is minimised up to this part of the optimality gap.
_MODEL_TOL = 1e-3
_MAX_TRIALS = 10
# The line search stops when it has nine tenths of what can be gained on the line ...
_SLACK = 0.1
# ... or when what is left is this part of the optimality gap.
_NEGLIGIBLE = 1e-4
# Least part of a bracket that a trial cuts off.
_MARGIN = 0.02
# A minimiser of the line with more than this part of the first slope sits at a kink: where F is
# smooth, the searches end with less.
_KINK = 0.1
# Part of the way from there to w_t where the second plane is taken.
_BEYOND = 0.1
# Relative movement of a bound that counts as rounding, and how many iterations of it are a stall.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
_STALL_AFTER = 10


@dataclass(frozen=True)
class Bundle:
    """Cutting planes with a line search, for any convex risk.

    The objective's ``value`` has to be the stated objective or below it everywhere (a smoothed
    stand-in from below), as the planes certify a lower bound of the minimum of ``value``.

    Parameters
    ----------
    tol : float
        Stop when the certified gap is at most ``tol * objective``.
    max_iter : int
        Iterations at most.
    line_search : bool
        Without it, every plane is taken at the minimiser of the model (plain BMRM).
    patience : int
        A plane whose weight has been zero for this many iterations gives its place to a new one.
        Memory is the number of features times the number of planes kept.
    risk_lower : float or None
        A number below R everywhere, used as the first plane.  Zero holds for every nonnegative
        loss.  It keeps the first steps short when R is steep.  None if no number is known.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    line_search: bool = True
    patience: int = 10
    risk_lower: float | None = 0.0

    name = "bundle"
    requires = frozenset[str]()

    def __post_init__(self) -> None:
        if not self.tol >= 0.0:
            raise ValueError(f"tol must be zero or more, got {self.tol!r}")
        if self.max_iter < 1 or self.patience < 1:
            raise ValueError(
                "max_iter and patience must be at least 1, "
                f"got {self.max_iter!r} and {self.patience!r}"
            )

    def solve(
        self, objective: Objective, start: Point, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimise from ``start``.

        An iteration takes in new planes, solves the model and reports; the first one has the
        plane at ``start``.  ``inner_iterations`` of a trace row counts the trials of the line
        search that led to the planes.
        """
        monitor = Monitor(objective, self.tol, callback)
        return self._solve(objective, objective.at(start), monitor)

    def resume(
        self, objective: Objective, evaluation: Eval, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimise from where ``evaluation``, one of this objective, was made.

        Planes of another strength of the risk would hold here, scaled like the risk.  They are
        not asked for: near the new minimum they are far below the risk, and on paths over C they
        saved products on some sets and cost more on others.
        """
        return self._solve(objective, evaluation, Monitor(objective, self.tol, callback))

    def _solve(self, objective: Objective, center: Eval, monitor: Monitor) -> SolverResult:
        origin = np.zeros_like(center.point.w)
        own_duals = "euclidean" in objective.capabilities
        model = Planes(origin.size, self.patience, own_duals=own_duals)
        if self.risk_lower is not None:
            model.add(Plane(Point(origin, origin), self.risk_lower))
        stall = _Stall()
        new = [center]
        step, trials = 1.0, 0
        iteration = 0
        while True:
            iteration += 1
            for at in new:
                model.add(plane_at(at), center=at is center)
                monitor.offer(at, at.dual)
            minimiser = model.minimise(_MODEL_TOL * min(monitor.gap, abs(monitor.upper)))
            lower = minimiser.lower(objective)
            monitor.offer(center, lower)
            status = monitor.record(iteration, trials)
            if status is None and stall.reached(monitor.upper, lower):
                status = Status.STALLED
            if status is None and iteration >= self.max_iter:
                status = Status.MAX_ITER
            if status is not None:
                return monitor.result(status, iteration, center)

            target = objective.scored(minimiser.point)
            if self.line_search:
                center, new, step, trials = _step_towards(
                    objective, center, target, min(step, 1.0), _NEGLIGIBLE * monitor.gap
                )
            else:
                center = objective.at(target)
                new = [center]


class _Stall:
    """Tells when neither the best value nor the model has moved for several iterations."""

    def __init__(self) -> None:
        self._upper = np.inf
        self._lower = -np.inf
        self._still = 0

    def reached(self, upper: float, lower: float) -> bool:
        moved = (
            math.isinf(self._upper)
            or upper < self._upper - _ROUNDING * abs(self._upper)
            or lower > self._lower + _ROUNDING * abs(self._lower)
        )
        if moved:
            self._upper, self._lower, self._still = upper, lower, 0
        else:
            self._still += 1
        return self._still >= _STALL_AFTER


class _Step(NamedTuple):
    """What a line search leads to."""

    center: Eval
    new: list[Eval]
    step: float
    trials: int


class _Sample(NamedTuple):
    """A point of the line."""

    step: float
    value: float
    slope: float
    accept: Callable[[], Eval]


def _step_towards(
    objective: Objective, center: Eval, target: Point, first: float, negligible: float
) -> _Step:
    """Search the line from the center through the target; evaluate where planes are wanted."""
    direction = target.plus(-1.0, center.point)
    slope = objective.inner(center.grad, direction)
    if not slope < 0.0:
        # The center's plane makes F fall towards the target, unless rounding has the last word.
        return _Step(center, [objective.at(target)], 1.0, 0)
    line = _sampler(center.line(direction, target))
    origin = _Sample(0.0, center.value, slope, lambda: center)
    best, beyond, trials = _search_line(line, origin, first, negligible)
    new: list[Eval] = []
    moved = center
    step = beyond.step
    if best is not origin:
        moved = best.accept()
        step = best.step
        new.append(moved)
    if abs(best.slope) > _KINK * abs(origin.slope):
        far = best.step + _BEYOND * (1.0 - best.step)
        if beyond.step < far or beyond is best:
            beyond = line(far)
        new.append(beyond.accept())
    return _Step(moved, new, step, trials)


def _sampler(line: Callable[[float], Trial]) -> Callable[[float], _Sample]:
    def sample(step: float) -> _Sample:
        trial = line(step)
        return _Sample(step, trial.value, trial.slope, trial.accept)

    return sample


def _search_line(
    line: Callable[[float], _Sample], origin: _Sample, first: float, negligible: float
) -> tuple[_Sample, _Sample, int]:
    """Minimise a convex function on ``t > 0`` roughly, from values and slopes.

    The tangents at the ends of a bracket of the minimum cross at a lower bound of it.  The
    search ends when what this bound leaves to gain is a small part of what was gained, or
    ``negligible``.

    Parameters
    ----------
    line : callable
        The function.
    origin : _Sample
        The known point ``t = 0``.  Its slope is negative, but at a kink it may belong to another
        subgradient than the one that rules in this direction.
    first : float
        First step to try.
    negligible : float
        Gain that is not worth a trial.

    Returns
    -------
    best : _Sample
        The lowest point seen; ``origin`` itself if none is lower.
    beyond : _Sample
        The nearest point seen beyond the minimum, where the function rises; the farthest one if
        it falls everywhere.
    trials : int
    """
    low = best = origin
    high: _Sample | None = None
    step = first
    trials = 0
    while trials < _MAX_TRIALS:
        sample = line(step)
        trials += 1
        if sample.value < best.value:
            best = sample
        if sample.slope < 0.0:
            previous, low = low, sample
        else:
            high = sample
        if high is None:
            if low.slope >= _SLACK * origin.slope:
                break
            step = _extrapolate(previous, low)
        else:
            floor = _crossing(low, high)
            if best.value - floor <= max(_SLACK * (origin.value - floor), negligible):
                break
            step = _interpolate(low, high)
    return best, low if high is None else high, trials


def _extrapolate(previous: _Sample, low: _Sample) -> float:
    """Step beyond ``low``, where F still falls: the zero of the secant of the slopes, bounded."""
    rise = low.slope - previous.slope
    ahead = -low.slope * (low.step - previous.step) / rise if rise > 0.0 else math.inf
    return low.step + min(max(ahead, 0.2 * low.step), 4.0 * low.step)


def _crossing(low: _Sample, high: _Sample) -> float:
    """Value where the tangents at both ends cross: the function is nowhere lower."""
    width = high.step - low.step
    ahead = (high.value - low.value - high.slope * width) / (low.slope - high.slope)
    return low.value + low.slope * min(max(ahead, 0.0), width)


def _interpolate(low: _Sample, high: _Sample) -> float:
    """Minimiser of the cubic with the values and slopes of both ends, kept away from them."""
    width = high.step - low.step
    theta = 3.0 * (low.value - high.value) / width + low.slope + high.slope
    root = math.sqrt(max(0.0, theta * theta - low.slope * high.slope))
    share = (theta + root - low.slope) / (2.0 * root + high.slope - low.slope)
    return low.step + width * min(max(share, _MARGIN), 1.0 - _MARGIN)
