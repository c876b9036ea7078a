"""One descent in factors, with its books; several of them side by side.

The best iterate is kept: the one with the highest score on a validation set or, without one, the
lowest.  A random start itself, which has learned nothing, is never kept for its score, however
lucky.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event, Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import finite_number
from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.factorized import FactorMap
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.base import Status
from ranksvm.solvers.descent import DESCENTS, Descended
from ranksvm.training.factor_settings import FactorizedSettings
from ranksvm.training.factors import FactorObjective, best_multiple, random_start
from ranksvm.training.multipliers import (
    Multipliers,
    factorise,
    multiplier_point,
    multiplier_terms,
)
from ranksvm.training.problem import Fit, LinearProblem
from ranksvm.training.stochastic import make_batches, sgd
from ranksvm.training.weights import effective_query_weight

__all__ = [
    "Descent", "FactorItems", "FactorRow", "Found", "Restart", "Shared", "Validate", "in_parallel",
]  # fmt: skip

Validate = Callable[[Array], float]
"""Weights of the features to a score that should be large."""


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


class FactorItems(NamedTuple):
    """A set to learn from; as for :class:`ranksvm.training.RankProblem`.

    ``idle`` tells the items of weight zero, which take no part: their factors stay zero.  None if
    there are none.
    """

    X: Any
    utility: Array
    groups: QueryGroups
    item_weight: Array | None
    query_weight: Array | None

    @property
    def idle(self) -> NDArray[np.bool_] | None:
        idle = np.zeros(self.groups.n_items, dtype=np.bool_)
        if self.item_weight is not None:
            idle |= self.item_weight == 0.0
        if self.query_weight is not None:
            idle |= (self.query_weight == 0.0)[self.groups.index]
        return idle if idle.any() else None


class Found(NamedTuple):
    """What a descent found."""

    merit: float  # what the best of a descent is chosen by
    restart: Restart
    row: FactorRow
    factors: Array
    weights: Array
    status: Status
    n_products: int


class Shared:
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
            raise Cancelled

    def judge(self, weights: Array) -> float:
        """Score on the validation set; NaN without one."""
        if self.validate is None:
            return np.nan
        with self._lock:  # one call of the user's function at a time
            score = self.validate(weights)
        if finite_number(score) is None:
            raise ValueError(
                f"the score on the validation set is {score!r}: early stopping needs a validation "
                "set with at least one comparable pair and a metric that is a finite number"
            )
        return float(score)

    def tell(self, row: FactorRow, weights: Array) -> None:
        """Call the callback; a true result ends all descents."""
        if self._callback is None:
            return
        with self._lock:
            if self._callback(row, weights):
                self.stop.set()


class Cancelled(Exception):
    """Nobody waits for this descent any more."""


class Descent:
    """One descent, from its seed to the best that it found."""

    def __init__(
        self,
        items: FactorItems,
        linear_problem: LinearProblem,
        linear: Fit,
        settings: FactorizedSettings,
        shared: Shared,
        n_threads: int,
        seed: int,
    ) -> None:
        self._items = items
        self._linear = linear
        self._settings = settings
        self._shared = shared
        self._seed = seed
        self._n_threads = n_threads
        order = PairOrder(items.utility, items.groups, items.item_weight)
        self._pairs = NativeBackend(order, n_threads=n_threads)
        self._query_weight = effective_query_weight(
            self._pairs.pair_weights, settings.reduction, items.query_weight
        )
        if self._query_weight is not None:
            self._pairs.set_query_weight(self._query_weight)
        objective = linear_problem.objective(settings.C)
        self._objective = FactorObjective(objective, FactorMap(objective.score_map, self._pairs))
        self._batch_products: Callable[[], float] = float
        rows = self._objective.factor_map.rows
        idle = items.idle
        self._idle = None if idle is None else np.flatnonzero(idle[rows])
        self._shape = (items.groups.n_items, settings.n_factors)
        self._began_at_random = False
        self._began = time.perf_counter()
        self._products_before = self._objective.n_products
        self._last: tuple[float, Array] = (np.nan, np.empty(0))
        self._known: tuple[Array, tuple[float, Array]] | None = None
        self._rows: list[FactorRow] = []
        self._best: tuple[float, int, Array, Array] | None = None
        self._status: Status | None = None
        self._since = 0

    def run(self) -> Found:
        """Descend."""
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
        return Found(
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
        items = self._items
        batches = make_batches(
            items.X,
            items.utility,
            items.groups,
            self._objective.factor_map.rows,
            loss=self._settings.loss,
            C=self._objective.objective.C,
            item_weight=items.item_weight,
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
        self._began_at_random = True
        return random_start(
            self._objective, self._items.groups, settings.n_factors, settings.init_scale,
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
            multipliers, self._items.groups, settings.n_factors, self._seed, self._shared.check
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
            math.nextafter(max(0.0, value - shared.lower), math.inf),
            self._n_products,
            time.perf_counter() - self._began,
            valid,
        )
        self._rows.append(row)
        merit = -value if np.isnan(valid) else valid
        if row.iteration == 0 and self._began_at_random:
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


STARTS: dict[str, Callable[[Descent], Array]] = {
    "random": Descent.random_start,
    "linear": Descent.linear_start,
}


def in_parallel(
    run: Callable[[int], Found], seeds: Sequence[int], team: int, cancel: Event
) -> list[Found]:
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
