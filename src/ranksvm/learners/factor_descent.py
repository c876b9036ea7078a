"""Minimization over the factors by L-BFGS.

The best iterate is kept: the one with the highest score on the validation set or, without one, the
lowest objective.  A random starting point is never preferred, even if it has the best score.

L-BFGS is made for smooth functions.  The hinge is not smooth, but it is differentiable almost
everywhere, and with many pairs its kinks hardly matter.  With few pairs, the line search may end at
a kink, where the negative gradient is not a descent direction.  The run then continues with the
kinks rounded off, by less and less from stage to stage.  Reported values always refer to the
original objective.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, NamedTuple

import numpy as np

from ranksvm._checks import finite_number
from ranksvm._messages import Message
from ranksvm._points import Point
from ranksvm._vectors import Array, dot
from ranksvm.backends.native import NativeBackend
from ranksvm.learners.factors import (
    METHOD,
    FactorEval,
    FactorizedSettings,
    FactorObjective,
    linear_start,
    random_start,
)
from ranksvm.learners.fit import Fit, shortfall
from ranksvm.learners.linear import LinearProblem
from ranksvm.learners.participants import has_weight
from ranksvm.learners.watching import Validate
from ranksvm.solvers.base import Callback, Status, TraceRow

CORRECTIONS = 10  # correction pairs that L-BFGS keeps
# Length of the first step relative to the norm of the starting point.  Early stopping evaluates
# every iteration, so the first steps must be small.
FIRST_STEP = 0.1
MOST_TRIALS = 50  # maximum number of evaluations in a line search
WIDTHS = tuple(2.0**-k for k in range(2, 18, 3))  # of the rounded kinks
# A stage with rounded kinks ends when an iteration lowers F by at most this fraction.
STAGE_TOL = 1e-6
REMEDIES = {
    Status.MAX_ITER: "raise {max_iter} or {tol}",
    Status.EXHAUSTED: "raise {tol}, or try another {random_state}",
}


class Restart(NamedTuple):
    """One run: its seed, its best iterate, and its history."""

    seed: int
    objective: float
    valid: float | None
    n_iter: int
    status: str
    history: tuple[TraceRow, ...]


@dataclass(frozen=True)
class FactorFit(Fit):
    """A fit of a factorized model; ``coef`` is w(V).

    Attributes
    ----------
    factors : ndarray of shape (n_items, n_factors)
        Factors of the items, V.
    restarts : tuple of Restart
        All restarts, in the order of their seeds.
    best : int
        Index of the restart that was kept.
    best_iteration : int
        Its iteration that was kept.
    """

    factors: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    restarts: tuple[Restart, ...] = ()
    best: int = 0
    best_iteration: int = 0

    def report(self) -> dict[str, Any]:
        return {
            "optimizer": self.solver,
            "restarts": [
                {
                    "seed": one.seed,
                    "objective": one.objective,
                    "valid": one.valid,
                    "iterations": one.n_iter,
                    "status": one.status,
                }
                for one in self.restarts
            ],
            "best_restart": self.best,
            "best_iteration": self.best_iteration,
        }

    @property
    def shortfall(self) -> Message | None:
        return shortfall(
            self.solver, self.status, self.n_iter, self.relative_gap, self.tol,
            remedies=REMEDIES, method="optimizer", optimum=" to the global optimum",
        )  # fmt: skip


class Shared(NamedTuple):
    """What all runs of a fit share.

    ``lower`` is a lower bound of F.  ``stop`` is set by the callback, or after an error in one of
    the runs.
    """

    lower: float
    callback: Callback | None
    validate: Validate | None
    stop: Event
    lock: Lock  # held while a function of the user runs


class _Ended(Exception):
    """The run has met a stopping criterion."""


class Descent:
    """One run of the minimization.

    Parameters
    ----------
    problem : LinearProblem
        The convex problem.
    linear : Fit
        Its solution.
    settings : FactorizedSettings
        Parameters.
    shared : Shared
        What this run shares with others.
    seed : int
        Seed of the starting point.
    """

    def __init__(
        self,
        problem: LinearProblem,
        linear: Fit,
        settings: FactorizedSettings,
        shared: Shared,
        seed: int,
    ) -> None:
        (pairs,) = problem.backends
        assert isinstance(pairs, NativeBackend)
        self._problem = problem
        self._settings = settings
        self._shared = shared
        self._seed = seed
        convex = problem.objective(settings.C)
        objective = FactorObjective(convex, pairs)
        self._objective = self._stage = objective
        # Items of weight zero, whose factors stay zero.
        self._idle = np.flatnonzero(~has_weight(problem.data)[objective.rows])
        self._began = time.perf_counter()
        self._products_before = convex.n_products
        self._last: tuple[Array, FactorEval] | None = None
        self._rows: list[TraceRow] = []
        self._best: tuple[float, TraceRow, Array, Array] | None = None
        self._status: Status | None = None
        start = None
        if settings.init == "linear":
            start = linear_start(objective, linear.point, settings, seed, self._idle)
        self._began_at_random = start is None
        if start is None:
            start = random_start(
                objective, settings.n_factors, settings.init_scale, seed, self._idle
            )
        self._start = start

    def run(self) -> tuple[float, FactorFit]:
        """Minimize, and return the best iterate.

        The number says how good it is: its validation score or, without a validation set, the
        negative objective.
        """
        try:
            self._watch(self._start.ravel())
            self._descend(self._start.ravel())
        except _Ended:
            pass
        assert self._best is not None
        assert self._status is not None
        merit, row, factors, weights = self._best
        status, last = self._status, self._rows[-1]
        if self._shared.validate is not None and row is not last:
            status = Status.EARLY
        history = tuple(self._rows)
        name = status.name.lower()
        restart = Restart(self._seed, row.objective, row.metric, last.iteration, name, history)
        return merit, FactorFit(
            point=Point(weights, np.empty(0)),
            objective=row.objective,
            gap=row.gap,
            n_iter=last.iteration,
            n_products=self._n_products,
            n_pairs=self._problem.n_pairs,
            status=status,
            history=history,
            solver=METHOD,
            tol=self._settings.tol,
            factors=self._objective.by_item(factors.reshape(self._start.shape)),
            restarts=(restart,),
            best_iteration=row.iteration,
        )

    @property
    def _n_products(self) -> int:
        return self._objective.objective.n_products - self._products_before

    def _descend(self, start: Array) -> None:
        """Run SciPy's L-BFGS-B until it ends, or ``_watch`` ends it."""
        # Imported here because the import is slow, and reading a model does not need it.
        from scipy.optimize import OptimizeResult, minimize

        # L-BFGS-B works best with values near 1, and its first step has length 1.
        unit, size = FIRST_STEP * math.sqrt(dot(start, start)) or 1.0, self._rows[0].objective

        def function(x: Array) -> tuple[float, Array]:
            at = self._at(unit * x)
            value = at.stated if self._stage is self._objective else at.value
            return value / size, at.grad.ravel() * (unit / size)

        def watch(intermediate_result: OptimizeResult) -> None:  # SciPy requires this name
            self._watch(unit * intermediate_result.x)

        objective = self._objective
        has_kinks = "smoothing" in objective.objective.loss.capabilities
        x, left = start / unit, self._settings.max_iter
        for width in (0.0, *WIDTHS) if has_kinks else (0.0,):
            self._stage = objective.smoothed(width) if width else objective
            self._last = None
            # SciPy multiplies ftol by the larger of the value and 1.
            tol = STAGE_TOL * min(1.0, function(x)[0]) if width else 0.0
            result = minimize(
                function,
                x,
                jac=True,
                method="L-BFGS-B",
                callback=watch,
                options={
                    "maxcor": CORRECTIONS,
                    "maxiter": left,
                    "maxls": MOST_TRIALS,
                    "maxfun": MOST_TRIALS * left,
                    "ftol": tol,
                    "gtol": 0.0,
                },
            )
            x, left = result.x, left - result.nit
            if left <= 0:
                break
        self._status = Status.MAX_ITER if left <= 0 else Status.EXHAUSTED

    def _at(self, x: Array) -> FactorEval:
        """Evaluate the objective of the current stage; ``x`` must not be modified afterwards."""
        if self._last is None or not np.array_equal(self._last[0], x):
            at = self._stage.at(x.reshape(self._start.shape))
            at.grad[self._idle] = 0.0
            self._last = x, at
        return self._last[1]

    def _watch(self, x: Array) -> None:
        """Record an iteration, and raise ``_Ended`` if it meets a stopping criterion."""
        shared, settings = self._shared, self._settings
        at = self._at(x)
        value, weights = at.stated, at.weights
        valid = None
        if shared.validate is not None:
            with shared.lock:
                valid = _finite_score(shared.validate(weights))
        row = TraceRow(
            len(self._rows),
            value,
            math.nextafter(max(0.0, value - shared.lower), math.inf),
            self._n_products,
            0,
            time.perf_counter() - self._began,
            valid,
        )
        self._rows.append(row)
        merit = -value if valid is None else valid
        if row.iteration == 0 and self._began_at_random:
            merit = -np.inf
        if self._best is None or merit > self._best[0]:
            self._best = (merit, row, x, weights)
        if shared.callback is not None:
            with shared.lock:
                if shared.callback(row, weights):
                    shared.stop.set()
        if row.gap <= settings.tol * abs(value):
            self._status = Status.CONVERGED
        elif valid is not None and row.iteration - self._best[1].iteration >= settings.patience:
            self._status = Status.EARLY
        elif shared.stop.is_set():
            self._status = Status.STOPPED
        if self._status is not None:
            raise _Ended


def _finite_score(score: Any) -> float:
    if finite_number(score) is None:
        raise ValueError(
            f"the score on the validation set is {score!r}: early stopping needs a validation "
            "set with at least one comparable pair and a metric that returns a finite number"
        )
    return float(score)
