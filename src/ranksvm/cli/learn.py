"""The command train: from items, their labels or pairs of them, to a model that is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ranksvm._checks import check_positive
from ranksvm._text import printable
from ranksvm._vectors import Array
from ranksvm.cli.factor_options import FactorOptions
from ranksvm.cli.inputs import Items, documents_of, only_one_stdin, read_items, without_missing
from ranksvm.cli.judge import check_metrics, default_metrics, judge
from ranksvm.cli.kernel_options import KernelOptions
from ranksvm.cli.models import finish, fit_items, make_model, make_record, make_settings
from ranksvm.cli.options import By, DataOptions, Rules, SolverOptions
from ranksvm.cli.output import UsageProblem, as_usage, counted, note, number, say, show_json
from ranksvm.cli.pair_options import PairOptions
from ranksvm.cli.scoring import read_held_out, score_items
from ranksvm.cli.write import MODEL_FILE, check_output, is_stdout, is_svmrank, write_record
from ranksvm.data.preferences import Preferences, count_contradictions, positive_pairs
from ranksvm.data.queries import QueryGroups
from ranksvm.data.sources import name_of

__all__ = ["ModelOptions", "check_outputs", "train"]

_LOSS = {"squared_hinge": "squared hinge", "hinge": "hinge"}
_COMPONENT = {"nystroem": "Nystrom landmarks", "fourier": "random Fourier features"}
_REDUCTION = {
    "mean": "mean over pairs",
    "sum": "sum over pairs",
    "query_mean": "mean over the pairs of each query, then over queries",
}


@dataclass(frozen=True)
class ModelOptions:
    """What is to be learnt: C, or SVM^rank's c and loss, and the groups of options."""

    C: float | None
    svmrank: tuple[float, int] | None
    solver: SolverOptions
    kernel: KernelOptions
    factors: FactorOptions


def train(
    files: Sequence[str],
    valid: str | None,
    output: str | None,
    metrics: Sequence[str] | None,
    conventions: Rules | None,
    json: bool,
    force: bool,
    wanted: ModelOptions,
    pairs: PairOptions,
    data: DataOptions,
) -> int | None:
    """Fit once, save, judge on a validation file if there is one."""
    if (metrics or conventions) and valid is None:
        raise UsageProblem("--metric and --conventions need --valid")
    data = without_missing(data)
    check_outputs(output, [*files, valid, pairs.path], json, force, wanted.kernel)
    check_metrics(metrics)
    _check_together(wanted, pairs, valid)
    solver = wanted.solver
    if wanted.svmrank is not None:
        solver = replace(solver, loss="hinge")
        with as_usage():
            check_positive("--svmrank-c", wanted.svmrank[0])
    settings = make_settings(wanted.C, solver, wanted.kernel, wanted.factors)
    by_document = pairs.path is not None and pairs.by is By.docid
    items = read_items(files, data, labels=pairs.uses_labels, comments=by_document)
    utility = items.labels if pairs.uses_labels else None
    preferences = None if pairs.path is None else _read_preferences(pairs.path, pairs, items, data)
    held_out = None if valid is None else read_held_out(valid, items, data)
    groups = items.groups
    if wanted.svmrank is not None:
        from ranksvm.export.svmrank import from_svmrank_c

        c, loss = wanted.svmrank
        C, reduction = from_svmrank_c(c, groups, utility, loss=loss)
        settings = replace(settings, C=C, reduction=reduction)
    rules = conventions or "standard"
    if held_out is not None:  # what cannot be judged is an error before the work
        judge(held_out.labels, np.zeros(len(held_out.labels)), held_out.qid, metrics, rules)
    decides, solving = None, {}
    if wanted.factors.patience is not None and held_out is not None:
        decides = metrics[0] if metrics else default_metrics(held_out.labels)[0]
        solving["validate"] = _validation(held_out, decides, rules)
    began = time.perf_counter()
    trained = fit_items(
        items, groups, settings, data.jobs, utility=utility, preferences=preferences, **solving
    )
    seconds = time.perf_counter() - began
    fit, model = trained.fit, make_model(trained)
    n_explicit = 0 if preferences is None else len(positive_pairs(preferences).better)
    given = {} if preferences is None else {"explicit_pairs": n_explicit}
    record = make_record(items, trained, model, given)
    if output is not None:
        write_record(output, record)
    judged = None
    if held_out is not None:
        scores = score_items(record, held_out, data.jobs)
        judged = judge(held_out.labels, scores, held_out.qid, metrics, rules).values
    report = {
        "data": {
            **describe(items, groups, fit.n_pairs),
            "explicit_pairs": n_explicit,
            "labels": utility is not None,
        },
        "settings": asdict(settings),
        **model.about,
        "objective": fit.objective,
        "gap": fit.gap,
        "relative_gap": fit.gap / fit.objective if fit.objective > 0.0 else 0.0,
        "status": fit.status.name.lower(),
        "early_stopping": decides,
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


def _check_together(wanted: ModelOptions, pairs: PairOptions, valid: str | None) -> None:
    """Look before the work at options that exclude or need each other."""
    kernel, factors, solver = wanted.kernel.kernel, wanted.factors, wanted.solver
    if kernel is not None and factors.n_factors is not None:
        raise UsageProblem("--kernel cannot be combined with --factors")
    if pairs.path is not None and factors.n_factors is not None:
        raise UsageProblem("--factors cannot be combined with --pairs")
    if factors.patience is not None and valid is None:
        raise UsageProblem("--patience needs --valid")
    if wanted.svmrank is None:
        return
    if kernel not in (None, "linear"):
        raise UsageProblem(f"--svmrank-c is for linear models, not for --kernel {kernel}")
    if factors.n_factors is not None:
        raise UsageProblem("--svmrank-c is for linear models, not for --factors")
    if pairs.path is not None:
        raise UsageProblem("--svmrank-c is about labels; with --pairs, give --C")
    if any(value is not None for value in (wanted.C, solver.loss, solver.reduction)):
        raise UsageProblem("--svmrank-c sets --C, --loss and --reduction; give no others")


def _read_preferences(
    path: str, pairs: PairOptions, items: Items, data: DataOptions
) -> Preferences:
    """Read pairs of items, and tell when some of them contradict each other."""
    from ranksvm.data.pair_files import read_pairs

    preferences = read_pairs(
        path,
        n_items=items.X.shape[0],
        docids=documents_of(items, "--pairs-by") if pairs.by is By.docid else None,
        qid=items.qid,
        y=items.y,
        zero_based=pairs.zero_based,
        **data.limits,
    )
    if preferences.weight is not None and not preferences.weight.any():
        raise ValueError(
            f"{name_of(path)}: all pairs have weight zero, so there is nothing to learn from"
        )
    n_contradictions = count_contradictions(preferences)
    if n_contradictions:
        note(
            f"warning: {name_of(path)} prefers {counted(n_contradictions, 'pair')} of items both "
            "ways; both count"
        )
    return preferences


def _validation(held_out: Items, decides: str, conventions: Rules) -> Callable[[Array], float]:
    """Return what gives weights of features a metric on a validation file."""
    from ranksvm.maps.matrix import MatrixMap
    from ranksvm.metrics import parse_metric

    score_map, metric = MatrixMap(held_out.X), parse_metric(decides)

    def validate(coef: Array) -> float:
        scores = score_map.scores(coef)
        return metric(held_out.labels, scores, held_out.qid, conventions=conventions)

    validate(np.zeros(held_out.X.shape[1]))  # what is not defined is an error before the work
    return validate


def check_outputs(
    output: str | None,
    inputs: Sequence[str | None],
    json: bool,
    force: bool,
    kernel: KernelOptions,
) -> None:
    """Look before the work at where things come from and go to."""
    only_one_stdin(*inputs)
    if output is not None and kernel.kernel is not None and is_svmrank(output):
        raise UsageProblem(
            f"{output}: SVM^rank's format (.dat) is for linear models; give another name"
        )
    check_output(output, inputs, MODEL_FILE, force=force)
    if json and is_stdout(output):
        raise UsageProblem("the model and --json cannot both go to standard output")


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
        f"{_told_pairs(data)}",
        f"{_LOSS[settings['loss']]}, {_told_reduction(settings['reduction'], data)}, "
        f"C = {settings['C']:.6g}",
        *([_told_kernel(report)] if "kernel" in settings else []),
        *([_told_factors(report)] if "n_factors" in settings else []),
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
            say(printable(line))


def _told_pairs(data: Mapping[str, Any]) -> str:
    if not data["labels"]:
        return counted(data["explicit_pairs"], "explicit pair")
    explicit = f", {data['explicit_pairs']:,} of them explicit" if data["explicit_pairs"] else ""
    return counted(data["pairs"], "pair") + explicit


def _told_reduction(reduction: str, data: Mapping[str, Any]) -> str:
    if reduction != "query_mean" or not data["explicit_pairs"]:
        return _REDUCTION[reduction]
    if not data["labels"]:  # all listed pairs count as one query
        return _REDUCTION["mean"]
    return f"{_REDUCTION[reduction]}, of which the explicit pairs are one"


def _told_factors(report: Mapping[str, Any]) -> str:
    parts = [counted(report["settings"]["n_factors"], "factor"), report["optimizer"]]
    if len(report["restarts"]) > 1:
        parts.append(f"best of {len(report['restarts'])} descents")
    if report["status"] == "early":
        parts.append(f"stopped by {report['early_stopping']}")
    if report["early_stopping"] is not None:
        parts.append(f"iteration {report['best_iteration']} kept")
    return ", ".join([*parts, counted(report["products"], "product")])


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
