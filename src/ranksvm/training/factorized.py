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
is kept or, without validation, the one with the lowest F.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.solvers.base import Point, Status
from ranksvm.solvers.descent import CORRECTIONS
from ranksvm.training.factor_descent import (
    Descent,
    FactorItems,
    FactorRow,
    Found,
    Restart,
    Shared,
    Validate,
    in_parallel,
)
from ranksvm.training.factor_settings import FactorizedSettings
from ranksvm.training.multipliers import EXTRA_DIRECTIONS
from ranksvm.training.problem import Fit, LinearProblem, check_memory
from ranksvm.training.settings import LinearSettings

__all__ = ["FactorFit", "FactorRow", "FactorizedProblem", "FactorizedSettings", "Restart"]

# Arrays of the size of the factors that a descent holds at most.
ARRAYS = {"lbfgs": 2 * CORRECTIONS + 8, "gradient": 7, "sgd": 7}
# Of the tolerance that is asked for, the linear fit takes this part.
LINEAR_SHARE = 0.25


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
        self._items = FactorItems(X, utility, groups, item_weight, query_weight)
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
            self._items.X,
            self._items.utility,
            self._items.groups,
            linear,
            item_weight=self._items.item_weight,
            query_weight=self._items.query_weight,
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
            lower = linear.lower
            team = max(1, min(settings.n_restarts, self.n_threads))
            share = max(1, self.n_threads // team)
            shared = Shared(lower, callback, validate)
            seeds = _seeds(settings.random_state, settings.n_restarts)

            def run(seed: int) -> Found:
                problem = self._convex if team == 1 else self._linear_problem(share)
                return Descent(self._items, problem, linear, settings, shared, share, seed).run()

            if team == 1:
                found = [run(seed) for seed in seeds]
            else:
                found = in_parallel(run, seeds, team, shared.cancel)
        return self._choose(found, linear, settings)

    def _choose(
        self, found: Sequence[Found], linear: Fit, settings: FactorizedSettings
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


def _seeds(random_state: int | None, n_restarts: int) -> list[int]:
    return [int(seed) for seed in np.random.SeedSequence(random_state).generate_state(n_restarts)]
