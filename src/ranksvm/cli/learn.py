"""The command train, and what it shares with tune: from items to a model that is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from ranksvm._checks import check_positive
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.cli.inputs import Items, check_finite, only_one_stdin, read_items
from ranksvm.cli.judge import check_metrics, judge
from ranksvm.cli.kernel_options import KernelOptions
from ranksvm.cli.options import DataOptions, Rules, SolverOptions
from ranksvm.cli.output import (
    NOT_CONVERGED,
    UsageProblem,
    as_usage,
    counted,
    note,
    number,
    progress,
    show_json,
)
from ranksvm.cli.scoring import score_items
from ranksvm.cli.write import check_output, is_stdout, is_svmrank, write_record
from ranksvm.data.queries import QueryGroups
from ranksvm.model_io import ModelRecord
from ranksvm.training import (
    Fit,
    KernelProblem,
    KernelSettings,
    LinearProblem,
    LinearSettings,
    Settings,
    fit_facts,
    make_problem,
)
from ranksvm.training.kernel_record import kernel_arrays, kernel_facts

__all__ = [
    "check_outputs",
    "finish",
    "fit_items",
    "make_model",
    "make_record",
    "make_settings",
    "train",
]

_LOSS = {"squared_hinge": "squared hinge", "hinge": "hinge"}
_COMPONENT = {"nystroem": "Nystrom landmarks", "fourier": "random Fourier features"}
_REDUCTION = {
    "mean": "mean over pairs",
    "sum": "sum over pairs",
    "query_mean": "mean over the pairs of each query, then over queries",
}


def train(
    files: Sequence[str],
    valid: str | None,
    output: str | None,
    C: float | None,
    svmrank: tuple[float, int] | None,
    metrics: Sequence[str] | None,
    conventions: Rules | None,
    json: bool,
    options: SolverOptions,
    kernel: KernelOptions,
    data: DataOptions,
) -> int | None:
    """Fit once, save, judge on a validation file if there is one."""
    if (metrics or conventions) and valid is None:
        raise UsageProblem(
            "--metric and --conventions are about the file of --valid; there is none"
        )
    check_outputs(output, [*files, valid], json, kernel)
    check_metrics(metrics)
    if svmrank is not None and kernel.kernel not in (None, "linear"):
        raise UsageProblem(f"--svmrank-c is for linear models, not for --kernel {kernel.kernel}")
    if svmrank is not None and any(v is not None for v in (C, options.loss, options.reduction)):
        raise UsageProblem("--svmrank-c sets --C, --loss and --reduction; give no others")
    if svmrank is not None:
        options = replace(options, loss="hinge")
        with as_usage():
            check_positive("--svmrank-c", svmrank[0])
    settings = make_settings(C, options, kernel)
    items = read_items(files, data)
    held_out = None
    if valid is not None:
        held_out = read_items([valid], data, features=items.feature_names)
    groups = items.groups
    if svmrank is not None:
        from ranksvm.export.svmrank import from_svmrank_c

        c, loss = svmrank
        C, reduction = from_svmrank_c(c, groups, items.labels, loss=loss)
        settings = replace(settings, C=C, reduction=reduction)
    began = time.perf_counter()
    trained = fit_items(items, groups, settings, data.jobs)
    seconds = time.perf_counter() - began
    fit, model = trained.fit, make_model(trained)
    record = make_record(items, trained, model)
    if output is not None:
        write_record(output, record)
    judged = None
    if held_out is not None:
        scores = score_items(record, held_out, data.jobs)
        rules = conventions or "standard"
        judged = judge(held_out.labels, scores, held_out.qid, metrics, rules).values
    report = {
        "data": describe(items, groups, fit.n_pairs),
        "settings": asdict(settings),
        **model.about,
        "objective": fit.objective,
        "gap": fit.gap,
        "relative_gap": fit.gap / fit.objective if fit.objective > 0.0 else 0.0,
        "status": fit.status.name.lower(),
        "iterations": fit.n_iter,
        "products": fit.n_products,
        "seconds": seconds,
        "valid": judged,
        "model": output,
    }
    if json:
        show_json(report)
    else:
        show_training(report, to_stderr=is_stdout(output))
    return finish(fit)


def check_outputs(
    output: str | None, inputs: Sequence[str | None], json: bool, kernel: KernelOptions
) -> None:
    """Look before the work at where things come from and go to."""
    only_one_stdin(*inputs)
    if output is not None and kernel.kernel is not None and is_svmrank(output):
        raise UsageProblem(
            f"{output}: SVM^rank's format (.dat) is for linear models; give another name"
        )
    check_output(output, inputs, model=True)
    if json and is_stdout(output):
        raise UsageProblem("the model and --json cannot both go to standard output")


def make_settings(
    C: float | None, options: SolverOptions, kernel: KernelOptions
) -> LinearSettings | KernelSettings:
    """Make settings of options; what was not given keeps its default."""
    made: Any = LinearSettings if kernel.kernel is None else KernelSettings
    given: dict[str, Any] = {"C": C, **asdict(options), **asdict(kernel)}
    with as_usage():
        settings: LinearSettings | KernelSettings = made(
            **{name: value for name, value in given.items() if value is not None}
        )
    return settings


def fit_items(
    items: Items,
    groups: QueryGroups,
    settings: Settings,
    jobs: int | None,
    *,
    start: Array | None = None,
) -> Trained:
    """Solve the problem of a set, with a bar that shows the gap."""
    check_finite(items)
    with progress("training") as advance:
        problem = make_problem(
            items.X, items.labels, groups, settings, n_threads=resolve_n_jobs(jobs)
        )
        fit = problem.solve(
            start=start,
            callback=lambda row, _: advance(
                row.iteration, None, f"iteration {row.iteration}, gap {row.gap:.1e}"
            ),
        )
    return Trained(settings, groups, problem, fit)


class Trained(NamedTuple):
    """A solved problem."""

    settings: Settings
    groups: QueryGroups
    problem: Any
    fit: Fit


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


MODELS: dict[type[Settings], Callable[[Any, Fit], Model]] = {
    LinearSettings: _linear_model,
    KernelSettings: _kernel_model,
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
    return ModelRecord(
        kind=model.kind,
        params=asdict(trained.settings),
        arrays=model.arrays,
        feature_names=items.feature_names,
        facts=found,
    )


def describe(items: Items, groups: QueryGroups, n_pairs: int) -> dict[str, Any]:
    """Name and size of a set."""
    return {
        "source": items.source,
        "items": groups.n_items,
        "queries": groups.n_queries,
        "features": int(items.X.shape[1]),
        "pairs": n_pairs,
    }


def show_training(report: Mapping[str, Any], *, to_stderr: bool) -> None:
    """Tell about a fit in a few lines."""
    data, settings = report["data"], report["settings"]
    lines = [
        f"{data['source']}: {counted(data['items'], 'item')}, "
        f"{counted(data['queries'], 'query')}, {counted(data['features'], 'feature')}, "
        f"{counted(data['pairs'], 'pair')}",
        f"{_LOSS[settings['loss']]}, {_REDUCTION[settings['reduction']]}, C = {settings['C']:.6g}",
        *([_told_kernel(report)] if "kernel" in settings else []),
        f"objective {report['objective']:.8g}, certified relative gap "
        f"{report['relative_gap']:.1e}, {counted(report['iterations'], 'iteration')}, "
        f"{report['seconds']:.2f} s",
    ]
    if report["valid"]:
        lines.append(
            "validation: "
            + ", ".join(f"{name} {number(value)}" for name, value in report["valid"].items())
        )
    if report["model"] is None:
        lines.append("the model was not saved; -o MODEL saves it")
    elif not to_stderr:
        lines.append(f"model written to {report['model']}")
    for line in lines:
        if to_stderr:
            note(line)
        else:
            print(line)


def _told_kernel(report: Mapping[str, Any]) -> str:
    settings = report["settings"]
    parts = [f"{settings['kernel']} kernel"]
    if report["gamma"] is not None:
        parts.append(f"gamma = {report['gamma']:.6g}")
    if "support_items" in report:
        parts.append(counted(report["support_items"], "support item"))
    else:
        parts.append(f"{report['components']:,} {_COMPONENT[settings['approximation']]}")
    return ", ".join([*parts, counted(report["products"], "product")])


def finish(fit: Fit) -> int | None:
    """Warn about a fit that ended early, and say so with the exit code."""
    if fit.shortfall is None:
        return None
    note(f"warning: {fit.shortfall}")
    return NOT_CONVERGED
