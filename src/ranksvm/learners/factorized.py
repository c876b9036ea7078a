"""Factorized models: a linear model found by a non-convex problem, with a certificate.

The objective is F(V) = f(w(V)); see :mod:`ranksvm.learners.factors`.  The minimum of the convex f
is a lower bound of F.  The linear problem is therefore solved first, and its solution certifies how
far F(V) is from the *global* minimum of F:

    gap = F(V) - (objective of the linear fit - its own gap).

A run ends with the status

    converged     when the gap is at most ``tol`` times F,
    early         when the validation score has not improved for ``patience`` iterations (or
                  whenever an earlier iteration had the best score),
    exhausted     when no step lowers F any further (a stationary point, or a kink of the hinge),
    max_iter      after ``max_iter`` iterations,
    stopped       when the callback asks for it.

Restarts differ only in their seeds, and share the threads.  The restart with the best validation
score is kept or, without a validation set, the one with the lowest F.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from threading import Event, Lock
from typing import Any

import numpy as np

from ranksvm._memory import check_memory
from ranksvm._messages import Message, Param
from ranksvm._threads import one_blas_thread, run_in_parallel
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.factor_descent import (
    CORRECTIONS,
    Descent,
    FactorFit,
    Shared,
)
from ranksvm.learners.factorized_model import FactorizedModel
from ranksvm.learners.factors import METHOD, FactorizedSettings
from ranksvm.learners.linear import LinearProblem, LinearSettings, of_weights, with_weights
from ranksvm.learners.multipliers import EXTRA_DIRECTIONS
from ranksvm.learners.watching import Scorer, Validate
from ranksvm.solvers.base import Callback

# Maximum number of arrays of the size of the factors that a run needs.
ARRAYS = 4 * CORRECTIONS + 8
# The tolerance of the linear fit, as a fraction of ``tol``.
LINEAR_SHARE = 0.25


class FactorizedProblem:
    """The training problem of a factorized model.

    Parameters
    ----------
    data : RankingData
        With labels; X dense, CSR or CSC, float32 or float64, finite.
    settings : FactorizedSettings
        Parameters.
    n_threads : int
        Number of threads.
    """

    solver_name = METHOD

    def __init__(
        self, data: RankingData, settings: FactorizedSettings, *, n_threads: int = 1
    ) -> None:
        if data.preferences is not None:
            raise ValueError(
                "factorized models learn from labels, not from listed pairs: use a linear or a "
                "kernel model"
            )
        self._team = min(settings.n_restarts, n_threads)  # runs at a time
        width = settings.n_factors * ARRAYS
        if settings.init == "linear":
            width += 4 * (2 * settings.n_factors + EXTRA_DIRECTIONS)
        check_memory(
            8 * data.n_items * width * self._team,
            f"{settings.n_factors:,} factors of {data.n_items:,} items",
            Message(
                "Use fewer {n_factors}, or run one restart at a time ({n_jobs}).",
                n_factors=Param("n_factors"),
                n_jobs=Param("n_jobs", 1),
            ),
        )
        self.data = data
        self.settings = settings
        self.n_threads = n_threads
        self._linear = self._linear_problem(n_threads)

    def _linear_problem(self, n_threads: int) -> LinearProblem:
        """Return the convex problem, whose minimum is a lower bound of F."""
        shared = {one.name: getattr(self.settings, one.name) for one in fields(LinearSettings)}
        shared["tol"] *= LINEAR_SHARE
        del shared["max_iter"]
        return LinearProblem(self.data, LinearSettings(**shared), n_threads=n_threads)

    def solve(
        self, *, callback: Callback | None = None, validate: Validate | None = None
    ) -> FactorFit:
        """Minimize F.

        Parameters
        ----------
        callback : callable or None
            Called as ``callback(row, coef)`` after every iteration of every restart, by one restart
            at a time.  A true return value stops all restarts.
        validate : callable or None
            Returns the validation score of given feature weights; used for early stopping.

        Returns
        -------
        FactorFit
        """
        settings = self.settings
        states = np.random.SeedSequence(settings.random_state).generate_state(settings.n_restarts)
        team = self._team
        with one_blas_thread():
            linear = self._linear.solve()
            weights = self._linear.weights
            shared = Shared(
                linear.lower,
                None if callback is None else with_weights(callback, weights),
                None if validate is None else of_weights(validate, weights),
                Event(),
                Lock(),
            )

            def run(seed: int) -> tuple[float, FactorFit]:
                problem = self._linear
                if team > 1:  # counts its own products, with its share of the threads
                    problem = self._linear_problem(self.n_threads // team)
                return Descent(problem, linear, settings, shared, seed).run()

            if team == 1:
                found = [run(seed) for seed in states.tolist()]
            else:
                calls = [partial(run, seed) for seed in states.tolist()]
                found = run_in_parallel(calls, team, shared.stop)
        fits = [fit for _, fit in found]
        best = int(np.argmax([merit for merit, _ in found]))
        return replace(
            fits[best],
            n_products=linear.n_products + sum(fit.n_products for fit in fits),
            restarts=tuple(restart for fit in fits for restart in fit.restarts),
            best=best,
        )

    def scorer(self, X: Any) -> Scorer:
        """Return the function from weights of the features as they are to the scores of items."""
        return self._linear.scorer(X)

    def model(self, fit: FactorFit) -> FactorizedModel:
        """Return the model of a fit."""
        about = self._linear.about(fit, self.settings)
        about["facts"]["best_iteration"] = fit.best_iteration
        coef = self._linear.weights(fit.coef)
        return FactorizedModel(coef=coef, factors=fit.factors, **about)
