"""Newton on a smoothed objective, with the smoothing taken back as far as the gap asks.

For an objective with a kinked risk R and a family R_mu of smooth stand-ins, R_mu -> R as mu -> 0,
whose evaluations certify the stated objective (see :class:`ranksvm.solvers.base.Eval`), the gap at
the minimum of F_mu falls with the square of mu: only pairs within mu of the kink contribute, each
about mu.  So a few reductions of mu suffice.  Each stage starts at the end of the one before, and
is left as soon as its own part of the gap (distance from the minimum of F_mu) is small against the
part that only a smaller mu can remove.  Widths are powers of two, which objectives may divide by
without rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ranksvm.solvers.base import (
    Callback,
    Monitor,
    Objective,
    Point,
    SolverResult,
    Status,
    gradient_norm2,
)
from ranksvm.solvers.newton import Newton, Stepper

__all__ = ["SmoothedNewton"]


@dataclass(frozen=True)
class SmoothedNewton:
    """Continuation in the width of a smoothed kink.

    Parameters
    ----------
    tol : float
        Stop when the certified gap is at most ``tol * objective``.
    max_iter : int
        Newton steps at most, over all stages.
    mu : float
        First width.
    shrink : float
        Least reduction of the width from stage to stage.
    newton : Newton
        Settings of the steps.
    """

    tol: float = 1e-3
    max_iter: int = 200
    mu: float = 0.5
    shrink: float = 0.5
    newton: Newton = field(default_factory=lambda: Newton(forcing=0.2))

    name = "smoothed_newton"
    requires = frozenset({"smoothing"})

    def solve(
        self, objective: Objective, start: Point, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimise ``objective`` from ``start``."""
        monitor = Monitor(objective, self.tol, callback)
        mu = self.mu
        point = start
        iteration = 0
        status: Status | None = None
        idle = 0
        first = True
        while status is None:
            width = 2.0 ** min(-1, round(math.log2(mu)))
            smooth = objective.smoothed(width)  # type: ignore[attr-defined]
            stepper = Stepper(self.newton, smooth)
            evaluation = smooth.at(point)
            monitor.offer(evaluation, evaluation.dual)
            if first:
                status = monitor.record(0)
                first = False
            before = monitor.gap
            while status is None:
                # What the width leaves of the gap even at the minimum of F_mu, and the rest.
                rest = 0.5 * gradient_norm2(smooth, evaluation)
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
                # The gap goes with mu^2.
                factor = (0.5 * goal / max(gap, 1e-300)) ** 0.5
                mu *= min(self.shrink, max(0.1, factor))
                idle = 0 if monitor.gap < 0.9 * before else idle + 1
                if mu < 1e-12 or idle > 8:
                    status = Status.STALLED
        return monitor.result(status, iteration)
