"""What the commands that train share: options to settings, items to a fit, a fit to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.cli.factor_options import FactorOptions
from ranksvm.cli.inputs import Items, check_features
from ranksvm.cli.kernel_options import KernelOptions
from ranksvm.cli.options import SolverOptions
from ranksvm.cli.output import NOT_CONVERGED, UsageProblem, as_usage, note, progress
from ranksvm.data.preferences import Preferences
from ranksvm.data.queries import QueryGroups
from ranksvm.model_io import ModelRecord
from ranksvm.training import (
    FactorizedProblem,
    FactorizedSettings,
    Fit,
    KernelProblem,
    KernelSettings,
    LinearProblem,
    LinearSettings,
    Settings,
    fit_facts,
    make_problem,
)
from ranksvm.training.factorized import FactorFit
from ranksvm.training.kernel_record import kernel_arrays, kernel_facts

__all__ = [
    "Model",
    "Trained",
    "finish",
    "fit_items",
    "make_model",
    "make_record",
    "make_settings",
]


def make_settings(
    C: float | None,
    options: SolverOptions,
    kernel: KernelOptions,
    factors: FactorOptions | None = None,
) -> Settings:
    """Make settings of options; what was not given keeps its default."""
    who_draws = "--kernel" if factors is None else "--kernel or --factors"
    factors = factors or FactorOptions()
    given: dict[str, Any] = {"C": C, **asdict(options), **asdict(kernel), **asdict(factors)}
    made: Any = LinearSettings
    if kernel.kernel is not None:
        made = KernelSettings
    elif factors.n_factors is not None:
        made = FactorizedSettings
        given["random_state"] = kernel.random_state or 0
    elif kernel.random_state is not None:
        raise UsageProblem(f"--seed needs {who_draws}")
    with as_usage():
        settings: Settings = made(
            **{name: value for name, value in given.items() if value is not None}
        )
    return settings


def fit_items(
    items: Items,
    groups: QueryGroups,
    settings: Settings,
    jobs: int | None,
    *,
    utility: Array | None,
    preferences: Preferences | None = None,
    **options: Any,
) -> Trained:
    """Solve the problem of a set, with a bar that shows the gap.

    Parameters
    ----------
    items : Items
    groups : QueryGroups
    settings : Settings
    jobs : int or None
    utility : ndarray of shape (n_items,) or None
        Labels; None if the preferences alone count.
    preferences : Preferences or None, default=None
    **options
        Of the problem's ``solve``.
    """
    check_features(items)
    pairs = {} if preferences is None else {"preferences": preferences}
    with progress("training") as advance:
        problem = make_problem(
            items.X, utility, groups, settings, n_threads=resolve_n_jobs(jobs), **pairs
        )
        fit = problem.solve(
            callback=lambda row, _: advance(
                row.iteration, None, f"iteration {row.iteration}, gap {row.gap:.1e}"
            ),
            **options,
        )
    return Trained(settings, groups, problem, fit)


class Trained(NamedTuple):
    """A solved problem."""

    settings: Settings
    groups: QueryGroups
    problem: Any
    fit: Any


class Model(NamedTuple):
    """What is saved of a fit, and what is told about it."""

    kind: str
    arrays: Mapping[str, Any]
    facts: Mapping[str, Any]
    about: Mapping[str, Any]


def _linear_model(problem: LinearProblem, fit: Fit) -> Model:
    del problem
    return Model("linear", {"coef": fit.coef}, {}, {})


def _kernel_model(problem: KernelProblem, fit: Fit) -> Model:
    expansion = problem.expansion(fit)
    kind, arrays = kernel_arrays(expansion, problem.support(fit) if problem.is_exact else None)
    assert problem.kernel is not None
    gamma = problem.kernel.gamma
    about = {
        "gamma": None if problem.kernel.function == "linear" else gamma,
        "support_items" if problem.is_exact else "components": len(expansion.coef),
    }
    return Model(kind, arrays, {**kernel_facts(expansion), "gamma": gamma}, about)


def _factorized_model(problem: FactorizedProblem, fit: FactorFit) -> Model:
    del problem
    restarts = [
        {
            "seed": one.seed,
            "objective": one.objective,
            "valid": one.valid,
            "iterations": one.n_iter,
            "status": one.status,
        }
        for one in fit.restarts
    ]
    kept = {"best_iteration": fit.best_iteration}
    about = {"optimizer": fit.solver, "restarts": restarts, "best_restart": fit.best, **kept}
    return Model("factorized", {"coef": fit.coef, "factors": fit.factors}, kept, about)


MODELS: dict[type[Settings], Callable[[Any, Any], Model]] = {
    LinearSettings: _linear_model,
    KernelSettings: _kernel_model,
    FactorizedSettings: _factorized_model,
}


def make_model(trained: Trained) -> Model:
    """Take out of a fit what is saved and told."""
    return MODELS[type(trained.settings)](trained.problem, trained.fit)


def make_record(
    items: Items, trained: Trained, model: Model, facts: Mapping[str, Any] | None = None
) -> ModelRecord:
    """Put together what is saved."""
    found = {**fit_facts(trained.fit, trained.groups), **model.facts, **(facts or {})}
    if items.zero_based is not None:
        found["zero_based"] = items.zero_based
    if items.others:
        found["frame_columns"] = list(items.others)
    if items.qid_column is not None:
        found["qid_column"] = items.qid_column
    return ModelRecord(
        kind=model.kind,
        params=asdict(trained.settings),
        arrays=model.arrays,
        feature_names=items.feature_names,
        facts=found,
    )


def finish(fit: Fit) -> int | None:
    """Warn about a fit that ended early, and say so with the exit code."""
    if fit.shortfall is None:
        return None
    note(f"warning: {fit.shortfall}")
    return NOT_CONVERGED
