"""The commands that learn: train, tune."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ranksvm._checks import check_positive
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.cli.inputs import (
    Items,
    aligned_columns,
    check_finite,
    only_one_stdin,
    read_items,
    score_items,
)
from ranksvm.cli.judge import check_metrics, judge
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
    show_table,
)
from ranksvm.cli.write import check_output, is_stdout, write_record
from ranksvm.data.queries import QueryGroups
from ranksvm.model_io import ModelRecord
from ranksvm.training import Fit, LinearProblem, LinearSettings, fit_facts

if TYPE_CHECKING:
    from ranksvm.model_selection.search import PathSearch

__all__ = ["train", "tune"]

_MOST_CS = 1000
_N_DEFAULT = 19  # values of C to try when no grid is given
_LOSS = {"squared_hinge": "squared hinge", "hinge": "hinge"}
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
    data: DataOptions,
) -> int | None:
    """Fit once, save, judge on a validation file if there is one."""
    if (metrics or conventions) and valid is None:
        raise UsageProblem(
            "--metric and --conventions are about the file of --valid; there is none"
        )
    check_outputs(output, [*files, valid], json)
    check_metrics(metrics)
    if svmrank is not None and any(v is not None for v in (C, options.loss, options.reduction)):
        raise UsageProblem("--svmrank-c sets --C, --loss and --reduction; give no others")
    if svmrank is not None:
        options = replace(options, loss="hinge")
        with as_usage():
            check_positive("--svmrank-c", svmrank[0])
    settings = make_settings(C, options)
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
    fit = fit_items(items, groups, settings, data.jobs)
    seconds = time.perf_counter() - began
    record = make_record(items, groups, settings, fit)
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


def tune(
    files: Sequence[str],
    valid: str | None,
    folds: int | None,
    grid: str | None,
    metric: str | None,
    conventions: Rules,
    output: str | None,
    json: bool,
    options: SolverOptions,
    data: DataOptions,
) -> int | None:
    """Fit a path over C on folds or against a validation file; refit at the best C."""
    from ranksvm.model_selection.search import HeldOut, default_Cs, search_path
    from ranksvm.model_selection.splitters import QueryKFold, item_folds
    from ranksvm.training import total_pair_weight

    if valid is not None and folds is not None:
        raise UsageProblem("--valid and --folds are two ways to choose C: give only one")
    check_outputs(output, [*files, valid], json)
    check_metrics(None if metric is None else [metric])
    Cs: Sequence[float] | Array | None = None if grid is None else parse_grid(grid)
    settings = make_settings(None, options)
    items = read_items(files, data)
    check_finite(items)
    groups = items.groups
    if Cs is None:
        Cs = default_Cs(_N_DEFAULT, settings.reduction, total_pair_weight(items.labels, groups))
    split: dict[str, Any] = {}
    if valid is None:
        folds = 5 if folds is None else folds
        split["folds"] = (
            item_folds(items.labels, folds)
            if items.qid is None
            else list(QueryKFold(folds).split(qid=items.qid))
        )
    else:
        held_out = read_items([valid], data, features=items.feature_names)
        check_finite(held_out)
        columns = aligned_columns(items, held_out)
        split["validation"] = HeldOut(columns, held_out.labels, held_out.qid)
    began = time.perf_counter()
    with progress("tuning") as advance:
        search = search_path(
            items.X,
            items.labels,
            groups,
            settings,
            Cs,
            metric=metric or "pairwise_accuracy",
            conventions=conventions,
            n_threads=resolve_n_jobs(data.jobs),
            progress=advance,
            **split,
        )
    seconds = time.perf_counter() - began
    where = valid if valid is not None else f"{folds} folds"
    fit = None
    if output is not None:
        best = replace(settings, C=search.best_C)
        fit = fit_items(items, groups, best, data.jobs, start=search.mean_coef[search.best_index])
        selection = {
            "metric": search.metric,
            "conventions": conventions,
            "on": where,
            "Cs": search.Cs.tolist(),
            "mean_scores": search.mean_scores.tolist(),
        }
        write_record(output, make_record(items, groups, best, fit, {"selection": selection}))
    warn_about(search)
    report = {
        "C": search.best_C,
        "score": search.best_score,
        "metric": search.metric,
        "conventions": conventions,
        "on": where,
        "table": search_table(search),
        "seconds": seconds,
        "model": output,
    }
    if json:
        show_json(report)
    else:
        show_search(report, one_split=valid is not None, to_stderr=is_stdout(output))
    early = NOT_CONVERGED if search.shortfalls else None
    return early if fit is None else finish(fit) or early


def search_table(search: PathSearch) -> list[dict[str, Any]]:
    """One row for every C."""
    return [
        {"C": C, "mean": mean, "std": std, "splits": by_split}
        for C, mean, std, by_split in zip(
            search.Cs.tolist(),
            search.mean_scores.tolist(),
            np.nanstd(search.scores, axis=0).tolist(),
            search.scores.T.tolist(),
            strict=True,
        )
    ]


def warn_about(search: PathSearch) -> None:
    """Tell what is wrong with a search, if anything."""
    n_fits = search.scores.size
    for trouble, what in ((search.undefined, "splits do not count"), (search.shortfalls, "")):
        if trouble:
            what = what or f"of {n_fits} fits ended early"
            note(f"warning: {len(trouble)} {what}, the first of them: {trouble[0]}")
    if search.edge is not None:
        edge = search.edge.replace("Give Cs that reach", "Give a --C-grid that reaches")
        note(f"warning: {edge}")


def show_search(report: Mapping[str, Any], *, one_split: bool, to_stderr: bool) -> None:
    """Show what every C is worth."""
    metric, table = report["metric"], report["table"]
    stream = sys.stderr if to_stderr else sys.stdout
    print(
        f"{report['on']}, {metric}, {counted(len(table), 'value')} of C, {report['seconds']:.2f} s",
        file=stream,
    )
    spread = [] if one_split else ["std"]
    rows = [
        [
            f"{row['C']:.6g}",
            row["mean"],
            *(row[name] for name in spread),
            "best" if row["C"] == report["C"] else "",
        ]
        for row in table
    ]
    show_table(["C", metric, *spread, ""], rows, to_stderr=to_stderr)
    if report["model"] is not None and not to_stderr:
        print(f"model written to {report['model']}")


def check_outputs(output: str | None, inputs: Sequence[str | None], json: bool) -> None:
    """Look before the work at where things come from and go to."""
    only_one_stdin(*inputs)
    check_output(output, inputs, model=True)
    if json and is_stdout(output):
        raise UsageProblem("the model and --json cannot both go to standard output")


def make_settings(C: float | None, options: SolverOptions) -> LinearSettings:
    """Make settings of options; what was not given keeps its default."""
    given: dict[str, Any] = {"C": C, **asdict(options)}
    with as_usage():
        return LinearSettings(**{k: v for k, v in given.items() if v is not None})


def parse_grid(text: str) -> list[float]:
    """Read ``0.1,1,10``, ``2^-5,2^0`` or ``from:to:how_many``."""
    try:
        if ":" in text:
            first, last, count = text.split(":")
            low, high, n = _parse_number(first), _parse_number(last), int(count)
            if not 1 <= n <= _MOST_CS or not (0.0 < low < math.inf and 0.0 < high < math.inf):
                raise ValueError
            step = (math.log(high) - math.log(low)) / max(1, n - 1)
            between = (low * math.exp(step * k) for k in range(1, n - 1))
            # Twelve digits, so that a grid of powers of ten is one.
            values = [low, *(float(f"{value:.12g}") for value in between), high][:n]
            return _different(values, text)
        values = [_parse_number(part) for part in text.split(",")]
        if not all(0.0 < value < math.inf for value in values) or len(values) > _MOST_CS:
            raise ValueError
    except (ValueError, OverflowError, ZeroDivisionError):
        raise UsageProblem(
            f"--C-grid {text!r}: expected positive numbers such as 0.1,1,10 or 2^-5,2^0, or a "
            f"range from:to:how_many such as 0.01:100:5; at most {_MOST_CS}"
        ) from None
    return _different(values, text)


def _different(values: list[float], text: str) -> list[float]:
    if len(set(values)) < len(values):
        raise UsageProblem(f"--C-grid {text!r} has a value twice")
    return values


def _parse_number(text: str) -> float:
    base, power, exponent = text.partition("^")
    if power and not float(base) > 0.0:
        raise ValueError
    return math.pow(float(base), float(exponent)) if power else float(base)


def fit_items(
    items: Items,
    groups: QueryGroups,
    settings: LinearSettings,
    jobs: int | None,
    *,
    start: Array | None = None,
) -> Fit:
    """Solve the problem of a set, with a bar that shows the gap."""
    check_finite(items)
    problem = LinearProblem(items.X, items.labels, groups, settings, n_threads=resolve_n_jobs(jobs))
    with progress("training") as advance:
        return problem.solve(
            start=start,
            callback=lambda row, _: advance(
                row.iteration, None, f"iteration {row.iteration}, gap {row.gap:.1e}"
            ),
        )


def make_record(
    items: Items,
    groups: QueryGroups,
    settings: LinearSettings,
    fit: Fit,
    facts: Mapping[str, Any] | None = None,
) -> ModelRecord:
    """Put together what is saved."""
    found = {**fit_facts(fit, groups), **(facts or {})}
    if items.zero_based is not None:
        found["zero_based"] = items.zero_based
    if items.others:
        found["frame_columns"] = list(items.others)
    return ModelRecord(
        kind="linear",
        params=asdict(settings),
        arrays={"coef": fit.coef},
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


def finish(fit: Fit) -> int | None:
    """Warn about a fit that ended early, and say so with the exit code."""
    if fit.shortfall is None:
        return None
    note(f"warning: {fit.shortfall}")
    return NOT_CONVERGED
