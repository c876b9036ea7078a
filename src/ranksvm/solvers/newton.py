"""Truncated Newton: conjugate gradients (CG) on H p = -g, then a globalized step.

Every CG step costs one product with X (the image of the new residual) and one with X'.  The image
of the Newton step is a combination of images that are already known, so neither taking the step nor
searching along it costs a product; the gradient at the new point costs one with X'.

CG stops at |r| <= eta |g| in the norm of the preconditioner.  ``eta`` starts at ``forcing`` and
follows the decrease of the gradient (Eisenstat & Walker 1996).  The certified gap is about half the
squared norm of the gradient, so CG also stops when the residual is as small as the gap that is
required: solving the last system more accurately would be wasted.

With the inner product of a kernel, a CG step costs one product with K.  So would the norm of the
residual, which in the last step would be a wasted product.  Instead, CG stops when step j has
gained less than ``_LITTLE / j`` of the total gain of the quadratic model (Nash & Sofer 1990).

From a system with many CG steps on, search directions improve the preconditioner of later systems
(:mod:`ranksvm.solvers.recycling`).

There are two globalization strategies:

``"line_search"``
    The full step if it decreases F enough (Armijo) and at least halves the slope; otherwise a
    search in score space for a point with these properties (F is convex along the line, and its
    slope is known).
``"trust_region"``
    Steihaug's CG inside a ball whose radius follows the ratio of actual to predicted decrease
    (Lin, Weng & Keerthi 2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ranksvm._checks import check_choice
from ranksvm._points import Point
from ranksvm._vectors import Array, dot
from ranksvm.solvers.base import Callback, Eval, Monitor, Objective, SolverResult, Status, Trial
from ranksvm.solvers.recycling import FEWEST_FEATURES, Recycling

GLOBALIZATIONS = ("line_search", "trust_region")
PRECONDITIONERS = ("auto", "diagonal", "none")
# Largest ``eta`` of a resumed solve.
_FORCING_NEAR = 0.3
_LITTLE = 0.3
# Stop after this many steps that neither gain more than this fraction of F nor improve the bound:
# only rounding errors are left.
_PATIENCE = 20
_STILL = 1e-9
# Differences of F below this fraction of F may be rounding errors, while the slope still tells
# where F decreases (Hager & Zhang 2005).
_NOISE = 1e-13
_REST = 0.1  # part of the gap
# Maximum number of CG steps per Newton step; more than the second number indicate a poor
# preconditioner.
_MAX_CG = 500
_MANY_STEPS = 25
# Maximum number of points that a line search looks at.
_MAX_TRIALS = 25


@dataclass(frozen=True)
class Newton:
    """Newton-CG for objectives with a Hessian.

    Parameters
    ----------
    tol : float
        Stop when the certified gap is at most ``tol * objective``.
    max_iter : int
        Maximum number of Newton steps.
    globalization : {"line_search", "trust_region"}
        How steps are limited; see the module docstring.
    preconditioner : {"auto", "diagonal", "none"}
        Preconditioner: ``"auto"`` uses that of the objective, if it has one, and ``"diagonal"`` its
        diagonal.
    forcing : float
        Largest ``eta``.
    """

    tol: float = 1e-3
    max_iter: int = 100
    globalization: str = "line_search"
    preconditioner: str = "auto"
    forcing: float = 0.5

    name = "newton"
    requires = frozenset({"hessian"})

    def __post_init__(self) -> None:
        check_choice("globalization", self.globalization, GLOBALIZATIONS)
        check_choice("preconditioner", self.preconditioner, PRECONDITIONERS)

    def solve(
        self, objective: Objective, start: Point, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimize ``objective`` from ``start``."""
        monitor = Monitor(objective, self.tol, callback)
        return self._solve(objective, objective.at(start), monitor)

    def resume(
        self, objective: Objective, evaluation: Eval, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimize ``objective`` from the point of ``evaluation``, one of its own.

        Such a start is near the solution, where solving the systems more accurately saves steps.
        """
        near = replace(self, forcing=min(self.forcing, _FORCING_NEAR))
        return near._solve(objective, evaluation, Monitor(objective, self.tol, callback))

    def _solve(self, objective: Objective, evaluation: Eval, monitor: Monitor) -> SolverResult:
        monitor.offer(evaluation, evaluation.dual)
        status = monitor.record(0)
        stepper = Stepper(self, objective)
        iteration = 0
        mark = (0, monitor.upper, monitor.gap)
        while status is None:
            if iteration == self.max_iter:
                status = Status.MAX_ITER
                break
            moved = stepper.step(evaluation, gap_goal=self.tol * abs(monitor.upper))
            if moved is None:
                status = Status.STALLED
                break
            iteration += 1
            evaluation, cg_steps = moved
            monitor.offer(evaluation, evaluation.dual)
            status = monitor.record(iteration, cg_steps)
            since, upper, gap = mark
            if monitor.upper < upper - _STILL * abs(upper) or monitor.gap < 0.9 * gap:
                mark = (iteration, monitor.upper, monitor.gap)
            elif status is None and iteration - since >= _PATIENCE:
                status = Status.STALLED
        return monitor.result(status, iteration, evaluation)


class Stepper:
    """Newton steps on one objective, with the state that they share, such as the trust radius."""

    def __init__(self, settings: Newton, objective: Objective) -> None:
        self._settings = settings
        self._objective = objective
        self._radius = np.inf
        self._last: float | None = None
        self._unseen = np.inf  # decrease that the model predicted for the last step in the noise
        self._effort = _Effort()
        self._is_euclidean = "euclidean" in objective.capabilities
        self._recycling = Recycling()

    def step(self, evaluation: Eval, gap_goal: float) -> tuple[Eval, int] | None:
        """Make one Newton step; return None if only rounding errors are left."""
        if self._settings.globalization == "trust_region":
            return self._trusted(evaluation, gap_goal)
        newton = self._conjugate_gradients(evaluation, gap_goal, np.inf)
        trial = line_search(self._objective, evaluation, newton.step)
        if trial is None and self._recycling.is_on:
            # Perhaps rounding spoiled the recycled directions: once more without them.
            self._recycling = Recycling()
            newton = self._conjugate_gradients(evaluation, gap_goal, np.inf)
            trial = line_search(self._objective, evaluation, newton.step)
        if trial is None:
            return None
        if newton.decrease <= _NOISE * abs(evaluation.value):
            # Go on while the steps become shorter, and the gap is that of the gradient,
            # |grad|^2 / 2, rather than that of rounding errors.
            rest = 0.5 * self._objective.inner(evaluation.grad, evaluation.slope)
            is_smaller = newton.decrease <= 0.5 * self._unseen
            if not is_smaller or rest <= _REST * (evaluation.primal - evaluation.dual):
                return None
            self._unseen = newton.decrease
        return trial.accept(), newton.steps

    def _preconditioner(self, evaluation: Eval) -> Any:
        found = None
        wanted = self._settings.preconditioner
        if wanted != "none" and (self._effort.wants_it or self._recycling.is_on):
            found = evaluation.preconditioner(
                diagonal=wanted == "diagonal", improved=self._recycling.is_on
            )
        self._effort.has_it = found is not None
        return _identity if found is None else self._recycling.improved(found)

    def _forcing(self, norm2: float) -> float:
        """Return how far to reduce the residual of the Newton system, relative to the gradient."""
        shrunk = math.sqrt(norm2 / self._last) if self._last is not None else math.inf
        self._last = norm2
        return float(max(min(self._settings.forcing, 0.9 * shrunk), 1e-8))

    def _trusted(self, evaluation: Eval, gap_goal: float) -> tuple[Eval, int] | None:
        steps = 0
        for _ in range(30):
            newton = self._conjugate_gradients(evaluation, gap_goal, self._radius)
            steps += newton.steps
            trial = evaluation.line(newton.step)(1.0)
            length = float(np.sqrt(self._objective.inner(newton.step.w, newton.step)))
            ratio = (evaluation.value - trial.value) / max(newton.decrease, 1e-300)
            if ratio < 0.25:
                self._radius = 0.25 * min(self._radius, length)
            elif ratio > 0.75 and newton.at_boundary:
                self._radius *= 3.0
            if not np.isfinite(self._radius):
                self._radius = 4.0 * length
            if ratio > 1e-4:
                return trial.accept(), steps
            if newton.decrease <= 1e-15 * abs(evaluation.value):
                break
        return None

    def _conjugate_gradients(self, evaluation: Eval, gap_goal: float, radius: float) -> _Step:
        """Return an approximate minimizer of the quadratic model inside a ball."""
        objective = self._objective
        kind = _Plain if self._is_euclidean else _InScores
        system = kind(objective, evaluation, self._preconditioner(evaluation), gap_goal)
        has_many = evaluation.point.w.size >= FEWEST_FEATURES
        can_recycle = has_many and self._is_euclidean and self._effort.has_it
        self._recycling.begin()
        residual = -evaluation.grad
        solution = evaluation.point.times(0.0)
        direction: Point | None = None
        model = 0.0
        rho = 0.0
        for step in range(1, self._effort.most() + 1):
            image = system.image(residual)
            if image is None:
                break
            rho_new = objective.inner(residual, image)
            if not rho_new > 0.0:  # the residual is zero up to rounding
                break
            if direction is None:
                system.accuracy = self._forcing(rho_new) ** 2 * rho_new
                direction = image
            else:
                direction = image.plus(rho_new / rho, direction)
            rho = rho_new
            product = evaluation.hessp(direction)
            curvature = objective.inner(product, direction)
            if not curvature > 0.0:  # due to rounding: the Hessian is at least the identity
                return _Step(solution, step, model, False)
            length = rho / curvature
            if math.isfinite(radius):
                inside = _length_to_boundary(objective, solution, direction, radius)
                if length >= inside:
                    model += inside * rho - 0.5 * inside * inside * curvature
                    return _Step(solution.plus(inside, direction), step, model, True)
            if can_recycle:
                self._recycling.add(direction.w, product, curvature)
            solution = solution.plus(length, direction)
            gain = 0.5 * length * rho
            model += gain
            residual = residual - length * product
            if system.is_solved(residual, step * gain, model):
                break
        self._effort.note(step)
        if self._recycling.end(step):
            self._last = None  # it was measured by another preconditioner
        return _Step(solution, step, model, False)


def _identity(vector: Any) -> Any:
    return vector


@dataclass
class _System:
    """A Newton system; the preconditioner acts on what ``Eval.preconditioner`` says."""

    objective: Objective
    evaluation: Eval
    preconditioner: Callable[[Any], Any]
    gap_goal: float
    accuracy: float = 0.0  # stop when r.Pr is this small


@dataclass
class _Plain(_System):
    """The Newton system with the Euclidean inner product: norms of residuals are cheap."""

    def __post_init__(self) -> None:
        self._descent = self.preconditioner(-self.evaluation.grad)

    def image(self, residual: Array) -> Point | None:
        """Return the preconditioned residual with its scores; None if the system is solved."""
        del residual
        return self.objective.point(self._descent)

    def is_solved(self, residual: Array, last: float, gained: float) -> bool:
        """Return whether to stop; ``last`` is the number of steps times the gain of the last."""
        del last, gained
        if dot(residual, residual) <= self.gap_goal:
            return True
        self._descent = self.preconditioner(residual)
        return dot(residual, self._descent) <= self.accuracy


@dataclass
class _InScores(_System):
    """The Newton system with an inner product that needs scores, as with a kernel."""

    def __post_init__(self) -> None:
        self._first: Point | None = self.evaluation.slope

    def image(self, residual: Array) -> Point | None:
        if self._first is not None:  # the scores of the first residual are known
            image, self._first = self._first.times(-1.0), None
        else:
            image = self.objective.point(residual)
            if self.objective.inner(residual, image) <= self.gap_goal:
                return None
        preconditioned: Point = self.preconditioner(image)
        return preconditioned

    def is_solved(self, residual: Array, last: float, gained: float) -> bool:
        del residual
        return last <= _LITTLE * gained


class _Effort:
    """Decides whether to use the preconditioner, from the CG steps of the last systems.

    The preconditioner relies on an estimate of the Hessian, which is poor if few pairs are
    violated.  After a system that needed many steps with it, the next one is tried without it, for
    at most twice as many steps.  From then on, the choice that last needed fewer steps is used.
    """

    def __init__(self) -> None:
        self.has_it = False
        self._steps: dict[bool, int] = {}

    @property
    def wants_it(self) -> bool:
        with_it, without = self._steps.get(True), self._steps.get(False)
        if with_it is None or with_it <= _MANY_STEPS:
            return True
        return without is not None and with_it <= without

    def most(self) -> int:
        """Return the number of steps to allow."""
        is_trial = not self.has_it and True in self._steps and False not in self._steps
        return min(_MAX_CG, 2 * self._steps[True]) if is_trial else _MAX_CG

    def note(self, steps: int) -> None:
        if self.has_it or True in self._steps:
            self._steps[self.has_it] = steps


@dataclass(frozen=True)
class _Step:
    """A Newton step, its number of CG steps, and the decrease predicted by the quadratic model."""

    step: Point
    steps: int
    decrease: float
    at_boundary: bool


def line_search(
    objective: Objective, evaluation: Eval, step: Point, *, target: Point | None = None
) -> Trial | None:
    """Try the full step; if it does not decrease F enough, find a point near the minimum.

    Returns None if no point along the step is better than the start, as far as can be told.  If the
    decrease is too small to be seen in F, the slopes decide.  For ``target`` see
    ``Eval.line``.
    """
    line = evaluation.line(step, target)
    slope = objective.inner(evaluation.grad, step)
    if not slope < 0.0:
        return None
    low = Trial(0.0, evaluation.value, slope, lambda: evaluation)
    high: Trial | None = None
    best: Trial | None = None
    noise = _NOISE * abs(evaluation.value)
    t = 1.0
    for k in range(_MAX_TRIALS):
        trial = line(t)
        if trial.value < evaluation.value and (best is None or trial.value < best.value):
            best = trial
        goal = evaluation.value + 1e-4 * t * slope
        if -t * slope <= noise:
            goal = evaluation.value + noise
        enough = trial.value <= goal
        if enough and abs(trial.slope) <= 0.5 * abs(slope):
            return trial
        # What is known of the ends of the bracket; only ``best`` keeps its evaluation in memory.
        end = trial._replace(accept=low.accept)
        if trial.slope > 0.0:
            high = end
        else:
            low = end
        if high is None:
            t *= 4.0
            continue
        width = high.step - low.step
        if width <= 1e-13 * high.step:
            break
        bend = high.slope - low.slope
        if k % 2 == 0:  # the intersection of the tangents at both ends: exact for a kink
            guess = low.step + (high.slope * width - (high.value - low.value)) / bend
            guard = 1e-3 * width
        else:  # the zero of the slope, if it were linear
            guess = low.step - low.slope * width / bend
            guard = 0.1 * width
        t = float(np.clip(guess, low.step + guard, high.step - guard))
    return best


def _length_to_boundary(
    objective: Objective, solution: Point, direction: Point, radius: float
) -> float:
    """Return the positive t with |solution + t direction| = radius."""
    a = objective.inner(direction.w, direction)
    b = objective.inner(solution.w, direction)
    c = radius * radius - objective.inner(solution.w, solution)
    root = float(np.sqrt(max(0.0, b * b + a * max(0.0, c))))
    return (root - b) / a
