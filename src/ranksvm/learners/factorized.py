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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice, check_positive, check_seed
from ranksvm._memory import check_memory
from ranksvm._messages import Message, Param, ParameterError
from ranksvm._text import counted
from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.factor_descent import (
    CORRECTIONS,
    STARTS,
    Descent,
    Found,
    Plan,
    Restart,
    Shared,
    Validate,
    in_parallel,
)
from ranksvm.learners.linear import COEF, LinearModel, LinearProblem, LinearSettings
from ranksvm.learners.multipliers import EXTRA_DIRECTIONS, MULTIPLIER_TERMS
from ranksvm.learners.problem import Fit, about_fit
from ranksvm.learners.settings import Settings, parameter, redefault
from ranksvm.models.model import ArraySpec, Format
from ranksvm.solvers.base import Callback, Point, Status

__all__ = ["FactorFit", "FactorizedModel", "FactorizedProblem", "FactorizedSettings", "Restart"]

# Maximum number of arrays of the size of the factors that a run needs.
ARRAYS = 4 * CORRECTIONS + 8
# The tolerance of the linear fit, as a fraction of ``tol``.
LINEAR_SHARE = 0.25
METHOD = "lbfgs"  # name of the optimizer
REMOVED = ("gradient", "sgd")  # optimizers of earlier versions; the estimator warns about them


@dataclass(frozen=True)
class FactorizedSettings(Settings):
    """The parameters of ``FactorizedRankSVM`` that determine the model."""

    loss: str = redefault(Settings, "loss", "hinge")
    tol: float = redefault(Settings, "tol", 1e-3)
    max_iter: int = redefault(Settings, "max_iter", 500)
    n_factors: int = parameter(
        10, "Train a factorized model with this many factors per item.", flag="factors"
    )
    n_restarts: int = parameter(
        1, "Number of random starts; the best result is kept.", flag="restarts"
    )
    init: str = parameter(
        "random", "Start at random factors, or at the linear model.", choices=lambda: STARTS
    )
    init_scale: float = parameter(
        0.1,
        "Standard deviation of the scores at a random start.",
        only=("init", lambda: ("random",)),
    )
    optimizer: str = "auto"
    patience: int = parameter(
        20, "Stop after this many iterations without a better validation score (needs --valid)."
    )
    random_state: int | None = parameter(None, "Random seed.", flag="seed")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("n_factors", self.n_factors, integer=True)
        check_positive("n_restarts", self.n_restarts, integer=True)
        check_positive("init_scale", self.init_scale)
        check_positive("patience", self.patience, integer=True)
        check_choice("init", self.init, STARTS)
        check_seed("random_state", self.random_state)
        check_choice("optimizer", self.optimizer, ("auto", METHOD, *REMOVED))
        if self.init == "linear" and self.n_restarts > 1:
            raise ParameterError(
                "{n_restarts} with {linear} would repeat the same run, because there is only one "
                "linear start. Use {one}, or {random}.",
                n_restarts=Param("n_restarts", self.n_restarts),
                linear=Param("init", "linear"),
                one=Param("n_restarts", 1),
                random=Param("init", "random"),
            )
        if self.init == "linear" and self.loss not in MULTIPLIER_TERMS:
            raise ParameterError(
                "{linear} is not available for {loss}, whose Lagrange multipliers are not known. "
                "Use {random}.",
                linear=Param("init", "linear"),
                loss=Param("loss", self.loss),
                random=Param("init", "random"),
            )


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
        if self.status not in (Status.MAX_ITER, Status.EXHAUSTED):
            return None
        remedy = "raise {max_iter} or {tol}"
        if self.status is Status.EXHAUSTED:
            remedy = "raise {tol}, or try another {random_state}"
        return Message(
            "optimizer {solver!r} stopped after {n_iter} iterations with a relative gap to the "
            "global optimum of {gap:.2e}, which exceeds {asked} ({why}); {remedy}.",
            solver=self.solver,
            n_iter=self.n_iter,
            gap=self.gap / max(abs(self.objective), np.finfo(float).tiny),
            asked=Param("tol", self.tol),
            why=self.status.value,
            remedy=Message(
                remedy,
                max_iter=Param("max_iter"),
                tol=Param("tol"),
                random_state=Param("random_state"),
            ),
        )


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
        team = min(settings.n_restarts, n_threads)
        width = settings.n_factors * ARRAYS
        if settings.init == "linear":
            width += 4 * (2 * settings.n_factors + EXTRA_DIRECTIONS)
        check_memory(
            8 * data.n_items * width * team,
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
        self.n_pairs = self._linear.n_pairs

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
        plan = Plan(**{name: getattr(settings, name) for name in Plan._fields})
        with one_blas_thread():
            linear = self._linear.solve()
            team = max(1, min(settings.n_restarts, self.n_threads))
            share = max(1, self.n_threads // team)
            shared = Shared(linear.lower, callback, validate)
            seeds = _seeds(settings.random_state, settings.n_restarts)

            def run(seed: int) -> Found:
                problem = self._linear if team == 1 else self._linear_problem(share)
                return Descent(problem, linear, plan, shared, seed).run()

            if team == 1:
                found = [run(seed) for seed in seeds]
            else:
                found = in_parallel(run, seeds, team, shared.cancel)
        return self._best(found, linear)

    def _best(self, found: Sequence[Found], linear: Fit) -> FactorFit:
        best = int(np.argmax([one.merit for one in found]))
        chosen = found[best]
        return FactorFit(
            point=Point(chosen.weights, np.empty(0)),
            objective=chosen.restart.objective,
            gap=chosen.row.gap,
            n_iter=chosen.restart.n_iter,
            n_products=linear.n_products + sum(one.n_products for one in found),
            n_pairs=self.n_pairs,
            status=chosen.status,
            history=chosen.restart.history,
            solver=METHOD,
            tol=self.settings.tol,
            factors=chosen.factors,
            restarts=tuple(one.restart for one in found),
            best=best,
            best_iteration=chosen.row.iteration,
        )

    def model(self, fit: FactorFit) -> FactorizedModel:
        """Return the model of a fit."""
        about = about_fit(fit, self.data, self.settings)
        about["facts"]["best_iteration"] = fit.best_iteration
        return FactorizedModel(coef=fit.coef, factors=fit.factors, **about)


def _seeds(random_state: int | None, n_restarts: int) -> list[int]:
    return [int(seed) for seed in np.random.SeedSequence(random_state).generate_state(n_restarts)]


def _check_factors(arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
    """Raise if there are no factors."""
    del n_features
    if not arrays["factors"].size:
        raise ValueError(f"array 'factors' must not be empty; got shape {arrays['factors'].shape}")


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorizedModel(LinearModel):
    """A linear model, and the factors of the training items that define its weights.

    Attributes
    ----------
    factors : ndarray of shape (n_items, n_factors)
        Factors of the training items.
    """

    factors: Array

    FORMATS: ClassVar[Mapping[str, Format]] = {
        "factorized": Format(
            {
                "coef": COEF,
                "factors": ArraySpec(np.dtype(np.float64), ("items", "factors")),
            },
            _check_factors,
        )
    }

    @property
    def kind(self) -> str:
        return "factorized"

    def describe(self) -> dict[str, Any]:
        n_items, n_factors = self.factors.shape
        return {**super().describe(), "factors": n_factors, "items_with_factors": n_items}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"coef": self.coef, "factors": self.factors}


def words(report: Mapping[str, Any]) -> str:
    """Return a line of text about a factorized model that was just trained."""
    parts = [counted(report["settings"]["n_factors"], "factor"), report["optimizer"]]
    if len(report["restarts"]) > 1:
        parts.append(f"best of {len(report['restarts'])} restarts")
    if report["status"] == "early":
        parts.append(f"stopped by {report['early_stopping']}")
    if report["early_stopping"] is not None:
        parts.append(f"iteration {report['best_iteration']} kept")
    return ", ".join([*parts, counted(report["products"], "product")])
