"""Multipliers of low rank: a non-convex way to a linear machine, with a certificate all the same.

What is minimised is F(V) = f(w(V)) of :mod:`ranksvm.training.factors`.  The optimum of the convex f
is below every F(V), so the linear machine, which is solved first, certifies how far a descent is
from the *global* minimum of F:

    gap = F(V) - (objective of the linear fit - its own gap).

A descent ends

    converged     when the gap is at most ``tol`` times F,
    early         when a validation score has not risen for ``patience`` iterations (or whenever the
                  best one came before the end),
    exhausted     when no step lowers F any further (a stationary point, or a kink of the hinge),
    max_iter      after that many iterations,
    stopped       when the callback says so.

Restarts differ in their seeds alone and share the threads.  The one with the best validation score
is kept or, without validation, the one with the lowest F.  A random start itself, which has learned
nothing, is never kept for its score, however lucky.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from numbers import Real
from threading import Event, Lock
from typing import Any, NamedTuple

import numpy as np

from ranksvm._checks import check_choice, check_positive, check_seed
from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.factorized import FactorMap
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.base import Point, Status
from ranksvm.solvers.descent import CORRECTIONS, DESCENTS, Descended
from ranksvm.training.factors import FactorObjective, best_multiple, random_start
from ranksvm.training.multipliers import (
    EXTRA_DIRECTIONS,
    Multipliers,
    factorise,
    multiplier_point,
    multiplier_terms,
)
from ranksvm.training.problem import Fit, LinearProblem, check_memory
from ranksvm.training.settings import LinearSettings, Settings
from ranksvm.training.stochastic import make_batches, sgd
from ranksvm.training.weights import effective_query_weight

__all__ = ["FactorFit", "FactorRow", "FactorizedProblem", "FactorizedSettings", "Restart"]

OPTIMIZERS = (*DESCENTS, "sgd")
# The one that reaches the same objective with the fewest products.
AUTO_OPTIMIZER = "lbfgs"
# Arrays of the size of the factors that a descent holds at most.
ARRAYS = {"lbfgs": 2 * CORRECTIONS + 8, "gradient": 7, "sgd": 7}
# Of the tolerance that is asked for, the linear fit takes this part.
LINEAR_SHARE = 0.25

Validate = Callable[[Array], float]
"""Weights of the features to a score that should be large."""


@dataclass(frozen=True)
class FactorizedSettings(Settings):
    """The parameters of ``FactorizedRankSVM`` that shape the model."""

    loss: str = "hinge"
    tol: float = 1e-3
    max_iter: int = 500
    n_factors: int = 10
    n_restarts: int = 1
    init: str = "random"
    init_scale: float = 0.1
    optimizer: str = "auto"
    patience: int = 20
    random_state: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("n_factors", self.n_factors, integer=True)
        check_positive("n_restarts", self.n_restarts, integer=True)
        check_positive("init_scale", self.init_scale)
        check_positive("patience", self.patience, integer=True)
        check_choice("init", self.init, ("random", "linear"))
        if self.init == "linear" and self.n_restarts > 1:
            raise ValueError(
                f"n_restarts={self.n_restarts} with init='linear' would be the same descent again "
                "and again: there is one linear start. Use n_restarts=1, or init='random'."
            )
        check_choice("optimizer", self.optimizer, ("auto", *OPTIMIZERS))
        check_seed("random_state", self.random_state)

    @property
    def method(self) -> str:
        """The optimizer."""
        return AUTO_OPTIMIZER if self.optimizer == "auto" else self.optimizer


class FactorRow(NamedTuple):
    """One iteration of a descent (one pass over the queries, for "sgd").

    ``valid`` is the score on the validation set, NaN without one.
    """

    iteration: int
    objective: float
    gap: float
    n_products: int
    seconds: float
    valid: float


class Restart(NamedTuple):
    """One descent: its seed, the best it found, and its learning curve."""

    seed: int
    objective: float
    valid: float
    n_iter: int
    status: str
    history: tuple[FactorRow, ...]


@dataclass(frozen=True)
class FactorFit(Fit):
    """A fit whose ``coef`` are w(V).

    Attributes
    ----------
    factors : ndarray of shape (n_items, n_factors)
        V.
    restarts : tuple of Restart
        All descents, in the order of their seeds.
    best : int
        Which of them this is.
    best_iteration : int
        The iteration of it that this is.
    linear : Fit or None
        That of the linear machine.
    """

    factors: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    restarts: tuple[Restart, ...] = ()
    best: int = 0
    best_iteration: int = 0
    linear: Fit | None = field(default=None, repr=False)

    @property
    def shortfall(self) -> str | None:
        if self.status not in (Status.MAX_ITER, Status.EXHAUSTED):
            return None
        reached = self.gap / max(abs(self.objective), np.finfo(float).tiny)
        remedy = "raise max_iter or tol"
        if self.status is Status.EXHAUSTED:
            remedy = "raise tol, or take another random_state or optimizer"
        return (
            f"optimizer {self.solver!r} stopped after {self.n_iter} iterations at most "
            f"{reached:.2e} (relative) above the global optimum, tol={self.tol:g} was asked for "
            f"({self.status.value}); {remedy}."
        )


class _Method(NamedTuple):
    name: str


class FactorizedProblem:
    """A set to learn from, made ready for descents in V.

    Parameters
    ----------
    X : ndarray, CSR or CSC of shape (n_items, n_features), float32 or float64, finite
    utility, groups, item_weight, query_weight, n_threads
        As for :class:`ranksvm.training.RankProblem`.
    settings : FactorizedSettings
    """

    def __init__(
        self,
        X: Any,
        utility: Array,
        groups: QueryGroups,
        settings: FactorizedSettings,
        *,
        item_weight: Array | None = None,
        query_weight: Array | None = None,
        n_threads: int = 1,
    ) -> None:
        team = min(settings.n_restarts, n_threads)
        width = settings.n_factors * ARRAYS[settings.method]
        if settings.init == "linear":
            width += 4 * (2 * settings.n_factors + EXTRA_DIRECTIONS)
        needed = 8 * groups.n_items * width * team
        check_memory(
            needed,
            f"{settings.n_factors:,} factors of {groups.n_items:,} items",
            "Take fewer factors, optimizer='gradient', or one restart at a time (n_jobs=1).",
        )
        self.settings = settings
        self.n_threads = n_threads
        self.groups = groups
        self.solver = _Method(settings.method)
        self._X, self._utility = X, utility
        self._item_weight, self._query_weight = item_weight, query_weight
        fine = np.ones(len(utility), dtype=np.bool_)
        if item_weight is not None:
            fine &= item_weight > 0.0
        if query_weight is not None:
            fine &= query_weight[groups.index] > 0.0
        # Items of weight zero take no part: their factors stay zero.
        self._idle = None if fine.all() else ~fine
        self._convex = self._linear_problem(n_threads)
        self.n_pairs = self._convex.n_pairs
        self.n_coefficients = self._convex.n_coefficients

    def _linear_problem(self, n_threads: int) -> LinearProblem:
        settings = self.settings
        linear = LinearSettings(
            C=settings.C,
            loss=settings.loss,
            reduction=settings.reduction,
            solver=settings.solver,
            counting=settings.counting,
            tol=LINEAR_SHARE * settings.tol,
        )
        return LinearProblem(
            self._X,
            self._utility,
            self.groups,
            linear,
            item_weight=self._item_weight,
            query_weight=self._query_weight,
            n_threads=n_threads,
        )

    def score(self, X: Any, fits: Sequence[Fit]) -> list[Array]:
        """Scores of items under some fits of this problem."""
        return self._convex.score(X, fits)

    def solve(
        self,
        C: float | None = None,
        *,
        start: Any = None,
        callback: Callable[[FactorRow, Array], Any] | None = None,
        validate: Validate | None = None,
    ) -> FactorFit:
        """Minimise F.

        Parameters
        ----------
        C : float or None
            That of the settings when None.
        start : None
            There is no other start than that of the settings.
        callback : callable or None
            Called as ``callback(row, coef)`` after every iteration of every restart, by one restart
            at a time; a true result stops them all.
        validate : callable or None
            From the weights of the features to a score; see the module's text.
        """
        del start
        settings = self.settings if C is None else replace(self.settings, C=C)
        with one_blas_thread():
            linear = self._convex.solve(settings.C)
            lower = linear.objective - linear.gap
            team = max(1, min(settings.n_restarts, self.n_threads))
            share = max(1, self.n_threads // team)
            shared = _Shared(lower, callback, validate)
            seeds = _seeds(settings.random_state, settings.n_restarts)

            def run(seed: int) -> _Found:
                problem = self._convex if team == 1 else self._linear_problem(share)
                return _Descent(self, problem, linear, settings, shared, share, seed).run()

            if team == 1:
                found = [run(seed) for seed in seeds]
            else:
                found = _in_parallel(run, seeds, team, shared.cancel)
        return self._choose(found, linear, settings)

    def _choose(
        self, found: Sequence[_Found], linear: Fit, settings: FactorizedSettings
    ) -> FactorFit:
        best = int(np.argmax([one.merit for one in found]))
        chosen = found[best]
        row = chosen.row
        return FactorFit(
            point=Point(chosen.weights, np.empty(0)),
            objective=chosen.restart.objective,
            gap=row.gap,
            n_iter=chosen.restart.n_iter,
            n_products=linear.n_products + sum(one.n_products for one in found),
            n_pairs=self.n_pairs,
            status=chosen.status,
            history=chosen.restart.history,  # type: ignore[arg-type]
            solver=settings.method,
            tol=settings.tol,
            factors=chosen.factors,
            restarts=tuple(one.restart for one in found),
            best=best,
            best_iteration=row.iteration,
            linear=linear,
        )


class _Found(NamedTuple):
    merit: float  # what the best of a descent is chosen by
    restart: Restart
    row: FactorRow
    factors: Array
    weights: Array
    status: Status
    n_products: int


class _Shared:
    """What all descents of a fit look at."""

    def __init__(
        self,
        lower: float,
        callback: Callable[[FactorRow, Array], Any] | None,
        validate: Validate | None,
    ) -> None:
        self.lower = lower
        self.validate = validate
        self.stop = Event()  # end well
        self.cancel = Event()  # drop everything
        self._callback = callback
        self._lock = Lock()

    def check(self) -> None:
        """Raise if another descent has failed, or the user interrupts."""
        if self.cancel.is_set():
            raise _Cancelled

    def judge(self, weights: Array) -> float:
        """Score on the validation set; NaN without one."""
        if self.validate is None:
            return np.nan
        with self._lock:  # one call of the user's function at a time
            score = self.validate(weights)
        if not isinstance(score, Real) or not np.isfinite(float(score)):
            raise ValueError(
                f"the score on the validation set is {score!r}: early stopping needs a validation "
                "set with at least one comparable pair and a metric that is a finite number"
            )
        return float(score)

    def tell(self, row: FactorRow, weights: Array) -> None:
        if self._callback is None:
            return
        with self._lock:
            if self._callback(row, weights):
                self.stop.set()


class _Cancelled(Exception):
    """Nobody waits for this descent any more."""


class _Descent:
    """One descent, from its seed to the best that it found."""

    def __init__(
        self,
        problem: FactorizedProblem,
        linear_problem: LinearProblem,
        linear: Fit,
        settings: FactorizedSettings,
        shared: _Shared,
        n_threads: int,
        seed: int,
    ) -> None:
        self._problem = problem
        self._linear = linear
        self._settings = settings
        self._shared = shared
        self._seed = seed
        self._n_threads = n_threads
        item_weight = problem._item_weight
        self._pairs = NativeBackend(
            PairOrder(problem._utility, problem.groups, item_weight), n_threads=n_threads
        )
        self._query_weight = effective_query_weight(
            self._pairs.pair_weights, settings.reduction, problem._query_weight
        )
        if self._query_weight is not None:
            self._pairs.set_query_weight(self._query_weight)
        objective = linear_problem.objective(settings.C)
        self._objective = FactorObjective(objective, FactorMap(objective.score_map, self._pairs))
        self._batch_products: Callable[[], float] = float
        rows = self._objective.factor_map.rows
        self._idle = None if problem._idle is None else np.flatnonzero(problem._idle[rows])
        self._shape = (problem.groups.n_items, settings.n_factors)
        self._began = time.perf_counter()
        self._products_before = self._objective.n_products
        self._last: tuple[float, Array] = (np.nan, np.empty(0))
        self._known: tuple[Array, tuple[float, Array]] | None = None
        self._rows: list[FactorRow] = []
        self._best: tuple[float, int, Array, Array] | None = None
        self._status: Status | None = None
        self._since = 0

    def run(self) -> _Found:
        flat = self._start().ravel()
        first = self._function(flat)
        self._known = (flat, first)
        self._watch(flat, first[0])
        if self._status is None:
            end = self._descend(flat)
            if self._status is None:
                self._status = Status.EXHAUSTED if end.exhausted else Status.MAX_ITER
        assert self._best is not None
        merit, at, factors, weights = self._best
        row = self._rows[at]
        if self._shared.validate is not None and row is not self._rows[-1]:
            self._status = Status.EARLY
        restart = Restart(
            self._seed, row.objective, row.valid, self._rows[-1].iteration,
            self._status.name.lower(), tuple(self._rows),
        )  # fmt: skip
        return _Found(
            merit,
            restart, row, self._objective.factor_map.by_item(factors.reshape(self._shape)), weights,
            self._status, self._n_products,
        )  # fmt: skip

    @property
    def _n_products(self) -> int:
        made = self._objective.n_products - self._products_before
        return made + round(self._batch_products())

    def _descend(self, start: Array) -> Descended:
        settings = self._settings
        if settings.method in DESCENTS:
            descend = DESCENTS[settings.method]
            return descend(self._function, start, max_iter=settings.max_iter, watch=self._watch)
        return self._stochastic(start.reshape(self._shape))

    def _stochastic(self, start: Array) -> Descended:
        problem, objective = self._problem, self._objective.objective
        batches = make_batches(
            problem._X,
            problem._utility,
            problem.groups,
            self._objective.factor_map.rows,
            loss=self._settings.loss,
            C=objective.C,
            item_weight=problem._item_weight,
            query_weight=self._query_weight,
            seed=self._seed,
            n_threads=self._n_threads,
        )
        # A batch is a part of X, and so are its products.
        self._batch_products = lambda: sum(b.objective.n_products for b in batches) / len(batches)
        return sgd(
            batches, self._function, start, idle=self._idle, max_iter=self._settings.max_iter,
            seed=self._seed, watch=self._watch,
        )  # fmt: skip

    def _start(self) -> Array:
        return STARTS[self._settings.init](self)

    def random_start(self) -> Array:
        """Draw factors; see :mod:`ranksvm.training.factors`."""
        settings = self._settings
        return random_start(
            self._objective, self._problem.groups, settings.n_factors, settings.init_scale,
            self._seed, self._idle,
        )  # fmt: skip

    def linear_start(self) -> Array:
        """Factorise the multipliers of the linear machine, scaled to the lowest F.

        Where so few factors say nothing of them, F would not fall along w(V): then at random.
        """
        settings, objective = self._settings, self._objective.objective
        point = multiplier_point(objective, self._linear.point, settings.loss)
        terms = multiplier_terms(settings.loss, objective.C)
        multipliers = Multipliers(self._pairs, point.scores, terms)
        factors = factorise(
            multipliers, self._problem.groups, settings.n_factors, self._seed, self._shared.check
        )
        factors = factors[self._objective.factor_map.rows]
        if self._idle is not None:
            factors[self._idle] = 0.0
        multiple = best_multiple(objective, self._objective.factor_map.weights(factors))
        if not multiple > 0.0:
            return self.random_start()
        factors *= np.sqrt(multiple)
        return factors

    def _function(self, x: Array) -> tuple[float, Array]:
        if self._known is not None and x is self._known[0]:
            return self._known[1]  # the start, which was looked at already
        self._shared.check()
        factors = x.reshape(self._shape)
        at = self._objective.at(factors)
        if self._idle is not None:
            at.grad[self._idle] = 0.0
        self._last = (at.value, at.weights)
        return at.value, at.grad.ravel()

    def _watch(self, x: Array, value: float) -> bool:
        """Keep the books of an iteration; return whether the descent ends here."""
        shared, settings = self._shared, self._settings
        known, weights = self._last
        if known != value:  # the last evaluation was a trial that was not taken
            weights = self._objective.factor_map.weights(x.reshape(self._shape))
        valid = shared.judge(weights)
        row = FactorRow(
            len(self._rows),
            value,
            max(0.0, value - shared.lower),
            self._n_products,
            time.perf_counter() - self._began,
            valid,
        )
        self._rows.append(row)
        merit = -value if np.isnan(valid) else valid
        if row.iteration == 0 and settings.init == "random":
            merit = -np.inf
        if self._best is None or merit > self._best[0]:
            self._best = (merit, len(self._rows) - 1, np.array(x), weights)
            self._since = 0
        else:
            self._since += 1
        shared.tell(row, weights)
        if row.gap <= settings.tol * abs(value):
            self._status = Status.CONVERGED
        elif shared.validate is not None and self._since >= settings.patience:
            self._status = Status.EARLY
        if self._status is None and shared.stop.is_set():
            self._status = Status.STOPPED
        return self._status is not None


STARTS: dict[str, Callable[[_Descent], Array]] = {
    "random": _Descent.random_start,
    "linear": _Descent.linear_start,
}


def _seeds(random_state: int | None, n_restarts: int) -> list[int]:
    return [int(seed) for seed in np.random.SeedSequence(random_state).generate_state(n_restarts)]


def _in_parallel(
    run: Callable[[int], _Found], seeds: Sequence[int], team: int, cancel: Event
) -> list[_Found]:
    """All descents on a few threads; when one fails or the user interrupts, the others end too."""
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
