"""Newton's method on a smoothed objective, with the smoothing reduced as far as the gap requires.

Let R be a non-smooth risk and R_mu a family of smooth approximations, R_mu -> R as mu -> 0, whose
evaluations certify the stated objective (see :class:`ranksvm.solvers.base.Eval`).  The gap at the
minimum of F_mu decreases with the square of mu: only pairs within mu of the kink contribute, each
about mu.  A few reductions of mu therefore suffice.  Each stage starts where the previous one
ended.  It stops as soon as its own part of the gap (the distance from the minimum of F_mu) is small
compared with the part that only a smaller mu can remove.  Widths are powers of two, so that
objectives can divide by them without rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ranksvm._points import Point
from ranksvm.solvers.base import Callback, Monitor, Objective, Smoothable, SolverResult, Status
from ranksvm.solvers.newton import Newton, Stepper

_FIRST_WIDTH = 0.5
# From stage to stage the width is multiplied by at most this factor.
_SHRINK = 0.5
# Settings of the Newton steps.
_STEPS = Newton(forcing=0.2)


@dataclass(frozen=True)
class SmoothedNewton:
    """Newton's method with a decreasing smoothing width.

    Parameters
    ----------
    tol : float
        Stop when the certified gap is at most ``tol * objective``.
    max_iter : int
        Maximum number of Newton steps, over all stages.
    """

    tol: float = 1e-3
    max_iter: int = 200

    name = "smoothed_newton"
    requires = frozenset({"smoothing"})

    def solve(
        self, objective: Objective, start: Point, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimize ``objective`` from ``start``."""
        assert isinstance(objective, Smoothable)
        monitor = Monitor(objective, self.tol, callback)
        mu = _FIRST_WIDTH
        point = start
        iteration = 0
        status: Status | None = None
        idle = 0
        while status is None:
            width = 2.0 ** min(-1, round(math.log2(mu)))
            smooth = objective.smoothed(width)
            stepper = Stepper(_STEPS, smooth)
            evaluation = smooth.at(point)
            monitor.offer(evaluation, evaluation.dual)
            if not monitor.trace:
                status = monitor.record(0)
            before = monitor.gap
            while status is None:
                # The gap has a part due to the width, even at the minimum of F_mu, and a rest.
                rest = 0.5 * smooth.inner(evaluation.grad, evaluation.slope)
                width_part = max(0.0, evaluation.primal - evaluation.dual - rest)
                goal = self.tol * abs(monitor.upper)
                if rest <= 0.25 * goal or rest <= 0.5 * width_part:
                    break
                if iteration == self.max_iter:
                    status = Status.MAX_ITER
                    break
                moved = stepper.step(evaluation, gap_goal=max(0.25 * goal, 0.25 * width_part))
                if moved is None:
                    break
                iteration += 1
                evaluation, cg_steps = moved
                monitor.offer(evaluation, evaluation.dual)
                status = monitor.record(iteration, cg_steps)
            point = evaluation.point
            if status is None:
                gap = evaluation.primal - evaluation.dual
                goal = self.tol * abs(monitor.upper)
                # The gap is proportional to mu^2.
                factor = (0.5 * goal / max(gap, 1e-300)) ** 0.5
                mu *= min(_SHRINK, max(0.1, factor))
                idle = 0 if monitor.gap < 0.9 * before else idle + 1
                if mu < 1e-12 or idle > 8:
                    status = Status.STALLED
        return monitor.result(status, iteration)
