"""Minimization over the factors by L-BFGS: one run, and several runs in parallel.

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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event, Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import finite_number
from ranksvm._vectors import Array, dot
from ranksvm.backends.native import NativeBackend
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.factors import FactorEval, FactorObjective, best_multiple, random_start
from ranksvm.learners.linear import LinearProblem
from ranksvm.learners.multipliers import (
    Multipliers,
    factorize,
    multiplier_point,
    multiplier_terms,
)
from ranksvm.learners.problem import Fit
from ranksvm.learners.weights import effective_query_weight
from ranksvm.maps.factorized import FactorMap
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.base import Callback, Status, TraceRow

__all__ = [
    "CORRECTIONS",
    "STARTS",
    "Descent",
    "Found",
    "Plan",
    "Restart",
    "Shared",
    "Validate",
    "in_parallel",
]

Validate = Callable[[Array], float]
"""Returns the validation score of given feature weights; larger is better."""

CORRECTIONS = 10  # correction pairs that L-BFGS keeps
# Length of the first step relative to the norm of the starting point.  Early stopping evaluates
# every iteration, so the first steps must be small.
FIRST_STEP = 0.1
MOST_TRIALS = 50  # maximum number of evaluations in a line search
WIDTHS = tuple(2.0**-k for k in range(2, 18, 3))  # of the rounded kinks
# A stage with rounded kinks ends when an iteration lowers F by at most this fraction.
STAGE_TOL = 1e-6


class Plan(NamedTuple):
    """The parameters of a run; see ``FactorizedSettings``."""

    n_factors: int
    init: str
    init_scale: float
    max_iter: int
    tol: float
    patience: int


class Restart(NamedTuple):
    """One run: its seed, its best iterate, and its history."""

    seed: int
    objective: float
    valid: float | None
    n_iter: int
    status: str
    history: tuple[TraceRow, ...]


def idle_items(data: RankingData) -> NDArray[np.bool_] | None:
    """Return a mask of the items of weight zero, whose factors stay zero; None if there is none."""
    idle = np.zeros(data.n_items, dtype=np.bool_)
    if data.item_weight is not None:
        idle |= data.item_weight == 0.0
    if data.query_weight is not None:
        idle |= (data.query_weight == 0.0)[data.groups.index]
    return idle if idle.any() else None


class Found(NamedTuple):
    """The result of a run."""

    merit: float  # validation score or, without a validation set, the negative objective
    restart: Restart
    row: TraceRow
    factors: Array
    weights: Array
    status: Status
    n_products: int


class Shared:
    """State that all runs of a fit share."""

    def __init__(
        self,
        lower: float,
        callback: Callback | None,
        validate: Validate | None,
    ) -> None:
        self.lower = lower
        self.validate = validate
        self.stop = Event()  # requested by the callback; results are kept
        self.cancel = Event()  # after an error or an interrupt; results are dropped
        self._callback = callback
        self._lock = Lock()

    def check(self) -> None:
        """Raise if another run has failed or the user has interrupted the fit."""
        if self.cancel.is_set():
            raise _Cancelled

    def judge(self, weights: Array) -> float | None:
        """Return the validation score; None without a validation set."""
        if self.validate is None:
            return None
        with self._lock:  # one call of the user's function at a time
            score = self.validate(weights)
        if finite_number(score) is None:
            raise ValueError(
                f"the score on the validation set is {score!r}: early stopping needs a validation "
                "set with at least one comparable pair and a metric that returns a finite number"
            )
        return float(score)

    def tell(self, row: TraceRow, weights: Array) -> None:
        """Call the callback; a true return value ends all runs."""
        if self._callback is None:
            return
        with self._lock:
            if self._callback(row, weights):
                self.stop.set()


class _Cancelled(Exception):
    """The result of this run is no longer needed."""


class _Ended(Exception):
    """The run has met a stopping criterion."""


class Descent:
    """One run of the minimization."""

    def __init__(
        self, problem: LinearProblem, linear: Fit, plan: Plan, shared: Shared, seed: int
    ) -> None:
        data, settings = problem.data, problem.settings
        assert data.y is not None
        self._linear = linear
        self._loss = settings.loss
        self._plan = plan
        self._groups = data.groups
        self._shared = shared
        self._seed = seed
        order = PairOrder(data.y, data.groups, data.item_weight)
        self._pairs = NativeBackend(order, n_threads=problem.n_threads)
        query_weight = effective_query_weight(
            self._pairs.pair_weights, settings.reduction, data.query_weight
        )
        if query_weight is not None:
            self._pairs.set_query_weight(query_weight)
        objective = problem.objective(settings.C)
        self._objective = FactorObjective(objective, FactorMap(objective.score_map, self._pairs))
        self._stage = self._objective
        idle = idle_items(data)
        rows = self._objective.factor_map.rows
        self._idle = None if idle is None else np.flatnonzero(idle[rows])
        self._shape = (data.n_items, plan.n_factors)
        self._began_at_random = False
        self._began = time.perf_counter()
        self._products_before = self._objective.n_products
        self._last: tuple[Array, FactorEval] | None = None
        self._rows: list[TraceRow] = []
        self._best: tuple[float, int, Array, Array] | None = None
        self._status: Status | None = None
        self._since = 0

    def run(self) -> Found:
        """Minimize, and return the best iterate."""
        flat = STARTS[self._plan.init](self).ravel()
        try:
            self._watch(flat)
            self._descend(flat)
        except _Ended:
            pass
        assert self._best is not None
        assert self._status is not None
        merit, at, factors, weights = self._best
        row = self._rows[at]
        if self._shared.validate is not None and row is not self._rows[-1]:
            self._status = Status.EARLY
        restart = Restart(
            self._seed, row.objective, row.valid, self._rows[-1].iteration,
            self._status.name.lower(), tuple(self._rows),
        )  # fmt: skip
        return Found(
            merit,
            restart, row, self._objective.factor_map.by_item(factors.reshape(self._shape)), weights,
            self._status, self._n_products,
        )  # fmt: skip

    @property
    def _n_products(self) -> int:
        return self._objective.n_products - self._products_before

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

        x, left = start / unit, self._plan.max_iter
        for stage in self._stages():
            self._stage, self._last = stage, None
            # SciPy multiplies ftol by the larger of the value and 1.
            tol = 0.0 if stage is self._objective else STAGE_TOL * min(1.0, function(x)[0])
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

    def _stages(self) -> Iterator[FactorObjective]:
        yield self._objective
        if "smoothing" in self._objective.objective.loss.capabilities:
            yield from map(self._objective.smoothed, WIDTHS)

    def random_start(self) -> Array:
        """Return random factors; see :mod:`ranksvm.learners.factors`."""
        self._began_at_random = True
        return random_start(
            self._objective, self._groups, self._plan.n_factors, self._plan.init_scale, self._seed,
            self._idle,
        )  # fmt: skip

    def linear_start(self) -> Array:
        """Return factors of the multipliers of the linear model, scaled to minimize F.

        If they are too few to give a descent direction w(V), random factors are used instead.
        """
        objective = self._objective.objective
        point = multiplier_point(objective, self._linear.point, self._loss)
        terms = multiplier_terms(self._loss, objective.C)
        multipliers = Multipliers(self._pairs, point.scores, terms)
        factors = factorize(
            multipliers, self._groups, self._plan.n_factors, self._seed, self._shared.check
        )
        factors = factors[self._objective.factor_map.rows]
        if self._idle is not None:
            factors[self._idle] = 0.0
        multiple = best_multiple(objective, self._objective.factor_map.weights(factors))
        if not multiple > 0.0:
            return self.random_start()
        factors *= np.sqrt(multiple)
        return factors

    def _at(self, x: Array) -> FactorEval:
        """Evaluate the objective of the current stage; ``x`` must not be modified afterwards."""
        if self._last is None or not np.array_equal(self._last[0], x):
            self._shared.check()
            at = self._stage.at(x.reshape(self._shape))
            if self._idle is not None:
                at.grad[self._idle] = 0.0
            self._last = x, at
        return self._last[1]

    def _watch(self, x: Array) -> None:
        """Record an iteration, and raise ``_Ended`` if it meets a stopping criterion."""
        shared, plan = self._shared, self._plan
        at = self._at(x)
        value, weights = at.stated, at.weights
        valid = shared.judge(weights)
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
            self._best = (merit, len(self._rows) - 1, x, weights)
            self._since = 0
        else:
            self._since += 1
        shared.tell(row, weights)
        if row.gap <= plan.tol * abs(value):
            self._status = Status.CONVERGED
        elif shared.validate is not None and self._since >= plan.patience:
            self._status = Status.EARLY
        elif shared.stop.is_set():
            self._status = Status.STOPPED
        if self._status is not None:
            raise _Ended


STARTS: dict[str, Callable[[Descent], Array]] = {
    "random": Descent.random_start,
    "linear": Descent.linear_start,
}


def in_parallel(
    run: Callable[[int], Found], seeds: Sequence[int], team: int, cancel: Event
) -> list[Found]:
    """Run all seeds on ``team`` threads; if one fails or the user interrupts, the others end."""
    with ThreadPoolExecutor(team) as pool:
        futures = [pool.submit(run, seed) for seed in seeds]
        try:
            done = wait(futures, return_when=FIRST_EXCEPTION).done
            for future in done:
                future.result()
        except BaseException:
            cancel.set()
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]
