"""Bundle method: cutting planes for the risk, an exact regularizer, and a line search.

It minimizes F(w) = 1/2 <w, w> + R(w) for any convex R, smooth or not, from values and
subgradients.  A subgradient a_k of R at w_k gives a cutting plane,

    R(w)  >=  c_k + <a_k, w>,        c_k = R(w_k) - <a_k, w_k>

(an evaluation provides it, together with a bound on its rounding error).  Together, the planes form
a model

    F_t(w) = 1/2 <w, w> + max_k (c_k + <a_k, w>)  <=  F(w).

With weights b in the simplex, its minimum is the maximum of the dual

    D(b) = c'b - 1/2 <w_b, w_b>,     w_b = - sum_k b_k a_k,

attained at w_b.  Every feasible b has D(b) <= min F, so the certificate does not depend on how
accurately this small quadratic program is solved.

Plain BMRM (Teo et al. 2010; Algorithm 1 of Airola et al. 2011) evaluates F at the minimizer w_t of
the model, which jumps around while the model is poor.  The optimized cutting plane algorithm (Franc
& Sonnenburg 2009) uses w_t only as a direction: it minimizes F along the line from the best point
through w_t.  The scores change linearly along the line, so a trial costs no product with X.  This
module follows that algorithm, with changes suggested by measurements on ranking problems:

- The new plane is taken *at* the minimizer on the line and not, as in the original, a tenth of the
  remaining way to w_t beyond it.  With many terms in the risk, F is nearly smooth, and planes near
  the best point describe it where it matters.  The next line starts at the same evaluation, so an
  iteration costs one product with X (the scores of w_t) and one with X' (the plane).  With the
  inner product of a kernel, planes carry their scores, and w_t is a combination of planes, so an
  iteration costs one product with K.
- If the minimizer on the line is at a kink, a plane on the near side does not cut off w_t.  A
  second plane is taken beyond the kink, for one more product.  If the line has no lower point at
  all, this is the only new plane.
- The line search starts with the step of the previous one, and stops when the tangents at the ends
  of its bracket show that little can be gained; two trials are typical.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ranksvm._points import Point
from ranksvm.solvers.base import Callback, Eval, Monitor, Objective, SolverResult, Status, Trial
from ranksvm.solvers.planes import Planes

# The model is minimized up to this fraction of the optimality gap.
_MODEL_TOL = 1e-3
_MAX_TRIALS = 10
# The line search stops when it has nine tenths of the possible gain on the line ...
_SLACK = 0.1
# ... or when the rest is this fraction of the optimality gap.
_NEGLIGIBLE = 1e-4
# Minimum fraction of a bracket that a trial cuts off.
_MARGIN = 0.02
# A line search that ends with more than this fraction of the initial slope ends at a kink; where F
# is smooth, the slope is smaller.
_KINK = 0.1
# Where the second plane is taken, as a fraction of the way from there to w_t.
_BEYOND = 0.1
# Relative change of a bound that counts as rounding, and the number of such iterations that are a
# stall.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
_STALL_AFTER = 10


@dataclass(frozen=True)
class Bundle:
    """Cutting planes with a line search, for any convex risk.

    The objective's ``value`` must nowhere exceed the stated objective (it may be a smoothed
    approximation from below), since the planes certify a lower bound on the minimum of ``value``.

    Parameters
    ----------
    tol : float
        Stop when the certified gap is at most ``tol * objective``.
    max_iter : int
        Maximum number of iterations.
    line_search : bool
        If False, every plane is taken at the minimizer of the model (plain BMRM).
    patience : int
        A plane whose weight has been zero for this many iterations is replaced by a new one.  The
        memory needed is the number of features times the number of planes kept.
    risk_lower : float or None
        A lower bound on R, used as the first plane; it keeps the first steps short if R is steep.
        Zero is valid for every nonnegative loss.  None if no bound is known.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    line_search: bool = True
    patience: int = 10
    risk_lower: float | None = 0.0

    name = "bundle"
    requires = frozenset[str]()

    def solve(
        self, objective: Objective, start: Point, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimize from ``start``.

        An iteration adds new planes, minimizes the model and records the result; the first
        iteration has the plane at ``start``.  ``inner_iterations`` of a trace row is the number of
        trials of the line search that led to the planes.
        """
        monitor = Monitor(objective, self.tol, callback)
        return self._solve(objective, objective.at(start), monitor)

    def resume(
        self, objective: Objective, evaluation: Eval, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimize from the point of ``evaluation``, one of this objective.

        Planes of a problem with another C would be valid here, scaled like the risk.  They are not
        reused: near the new minimum they are far below the risk, and on paths over C they saved
        products on some data sets and cost more on others.
        """
        return self._solve(objective, evaluation, Monitor(objective, self.tol, callback))

    def _solve(self, objective: Objective, center: Eval, monitor: Monitor) -> SolverResult:
        origin = np.zeros_like(center.point.w)
        own_duals = "euclidean" in objective.capabilities
        model = Planes(origin.size, self.patience, own_duals=own_duals)
        if self.risk_lower is not None:
            model.add(Point(origin, origin), self.risk_lower)
        stall = _Stall()
        new = [center]
        step, trials = 1.0, 0
        iteration = 0
        while True:
            iteration += 1
            for at in new:
                errors = at.slope_error, at.slope_loss, at.slope_size
                model.add(at.risk_slope, at.offset, errors, center=at is center)
                monitor.offer(at, at.dual)
            model_tol = _MODEL_TOL * min(monitor.gap, abs(monitor.upper))
            minimizer, lower = model.minimize(objective, model_tol)
            monitor.offer(center, lower)
            status = monitor.record(iteration, trials)
            if status is None and stall.reached(monitor.upper, lower):
                status = Status.STALLED
            if status is None and iteration >= self.max_iter:
                status = Status.MAX_ITER
            if status is not None:
                return monitor.result(status, iteration, center)

            target = objective.scored(minimizer)
            if self.line_search:
                center, new, step, trials = _step_towards(
                    objective, center, target, min(step, 1.0), _NEGLIGIBLE * monitor.gap
                )
            else:
                center = objective.at(target)
                new = [center]


class _Stall:
    """Detects that neither the best value nor the model has improved for several iterations."""

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


def _step_towards(
    objective: Objective, center: Eval, target: Point, first: float, negligible: float
) -> tuple[Eval, list[Eval], float, int]:
    """Search the line from the center through the target; evaluate where planes are needed.

    Returns the new center, the evaluations for new planes, the step and the number of trials.
    """
    direction = target.plus(-1.0, center.point)
    slope = objective.inner(center.grad, direction)
    if not slope < 0.0:
        # The center's plane makes F decrease towards the target, except for rounding.
        return center, [objective.at(target)], 1.0, 0
    line = center.line(direction, target)
    origin = Trial(0.0, center.value, slope, lambda: center)
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
    return moved, new, step, trials


def _search_line(
    line: Callable[[float], Trial], origin: Trial, first: float, negligible: float
) -> tuple[Trial, Trial, int]:
    """Approximately minimize a convex function on ``t > 0``, from values and slopes.

    The tangents at the ends of a bracket of the minimum intersect at a lower bound on it.  The
    search ends when the gain that this bound still allows is a small fraction of the gain so far,
    or at most ``negligible``.

    Parameters
    ----------
    line : callable
        The function.
    origin : Trial
        The known point ``t = 0``.  Its slope is negative, but at a kink it may come from another
        subgradient than the one that applies in this direction.
    first : float
        First step to try.
    negligible : float
        Gain that is not worth a trial.

    Returns
    -------
    best : Trial
        The lowest point seen; ``origin`` itself if none is lower.
    beyond : Trial
        The nearest point seen beyond the minimum, where the function increases; the farthest point
        if it decreases everywhere.
    trials : int
        Number of trials.
    """
    low = best = origin
    high: Trial | None = None
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


def _extrapolate(previous: Trial, low: Trial) -> float:
    """Return a step beyond ``low``, where F still decreases: the slopes' secant zero, bounded."""
    rise = low.slope - previous.slope
    ahead = -low.slope * (low.step - previous.step) / rise if rise > 0.0 else math.inf
    return low.step + min(max(ahead, 0.2 * low.step), 4.0 * low.step)


def _crossing(low: Trial, high: Trial) -> float:
    """Return the value where the tangents at both ends intersect, a lower bound."""
    width = high.step - low.step
    ahead = (high.value - low.value - high.slope * width) / (low.slope - high.slope)
    return low.value + low.slope * min(max(ahead, 0.0), width)


def _interpolate(low: Trial, high: Trial) -> float:
    """Return the minimizer of the cubic through both ends, at some distance from them."""
    width = high.step - low.step
    theta = 3.0 * (low.value - high.value) / width + low.slope + high.slope
    root = math.sqrt(max(0.0, theta * theta - low.slope * high.slope))
    share = (theta + root - low.slope) / (2.0 * root + high.slope - low.slope)
    return low.step + width * min(max(share, _MARGIN), 1.0 - _MARGIN)
