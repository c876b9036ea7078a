"""The command tune: C of a linear model, or C and gamma of a kernel, on folds or a validation file.

A table has one row for every candidate; the model is refitted at the best one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from ranksvm._messages import Message
from ranksvm._text import printable
from ranksvm._threads import resolve_n_jobs
from ranksvm.cli.columns import read_held_out
from ranksvm.cli.evaluate import check_metrics
from ranksvm.cli.inputs import check_features, labels_of, read_data, without_missing
from ranksvm.cli.model_options import Wanted, grid_options, model_options
from ranksvm.cli.options import (
    Conventions,
    ConventionsOption,
    DataOptions,
    Force,
    Json,
    by_default,
    command,
    data_options,
    examples,
)
from ranksvm.cli.output import (
    NOT_CONVERGED,
    UsageProblem,
    counted,
    progress,
    say,
    show_json,
    show_table,
    warn,
)
from ranksvm.cli.train import check_outputs, finish, fit_data
from ranksvm.cli.write import check_output, is_regular, is_same, is_stdout, save_model
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import KernelSettings
from ranksvm.learners.kernel import check_refit_room
from ranksvm.maps.kernels import resolve_gamma
from ranksvm.model_selection.grids import searched
from ranksvm.model_selection.search import Search, search
from ranksvm.model_selection.splitters import folds_of

__all__ = ["app"]


@command(
    epilog=examples(
        "ranksvm tune train.txt --folds 5 --metric ndcg@10 -o m.safetensors",
        "ranksvm tune train.txt --kernel rbf --gamma-grid 2^-7,2^-5 --resume search.db",
    ),
    grids=grid_options(),
    wanted=model_options(without=["C"], searches=True),
    data=data_options,
)
def app(
    files: Annotated[
        list[str],
        typer.Argument(metavar="TRAIN", help="Training data; several files are one set."),
    ],
    valid: Annotated[
        str | None,
        typer.Option(help="Validation data to choose on, instead of folds.", show_default=False),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            help=f"Number of cross-validation folds; no query is split. {by_default(5)}",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Checkpoint file: save finished work to it, and continue from it if it exists.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            "-m",
            help=f"Metric to maximize. {by_default('pairwise_accuracy')}",
            show_default=False,
        ),
    ] = None,
    conventions: ConventionsOption = Conventions.standard,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Model file to write, refitted at the best values on all of TRAIN.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    *,
    grids: dict[str, Any],
    wanted: Wanted,
    data: DataOptions,
) -> int | None:
    """Choose C, and gamma of a kernel, by cross-validation or on a validation file; then refit."""
    if valid is not None and folds is not None:
        raise UsageProblem("--valid and --folds are two ways to choose: give only one")
    settings, options = wanted.settings, without_missing(data)
    inputs = [*files, valid]
    check_outputs(output, inputs, json, force, settings)
    check_metrics(None if metric is None else [metric])
    _check_grids(grids, wanted)
    if resume is not None:
        _check_resume(resume, inputs, output)
    items = read_data(files, options)
    labels_of(items)
    check_features(items)
    if output is not None and isinstance(settings, KernelSettings):
        check_refit_room(items, settings)
    if "gamma" in wanted.given and isinstance(settings, KernelSettings):
        grids["gamma"] = [resolve_gamma(settings.gamma, items.X)]
    n_folds = 5 if folds is None else folds
    # Solvers import this when they start, which takes longer than a small fit.
    import scipy.linalg  # noqa: F401

    began = time.perf_counter()
    with progress("tuning") as advance:
        found = search(
            items,
            settings,
            grids.pop("C", None),
            grids,
            folds=None if valid is not None else folds_of(items, n_folds),
            validation=None if valid is None else _held_out(valid, items, options),
            metric=metric or "pairwise_accuracy",
            conventions=conventions.rules,
            n_threads=resolve_n_jobs(options.jobs),
            progress=advance,
            checkpoint=resume,
        )
    where = valid if valid is not None else f"{n_folds} folds"
    report = {
        **found.best,
        "score": found.best_score,
        "metric": found.metric,
        "conventions": found.conventions,
        "on": where,
        "table": search_table(found),
        "seconds": time.perf_counter() - began,
        "resumed": found.n_resumed,
        "model": None,
    }
    fit = None
    try:
        if output is not None:
            start = {} if found.best_start is None else {"start": found.best_start}
            fit, model = fit_data(items, found.best_settings, options.jobs, **start)
            facts = {**model.facts, "selection": {**found.facts(), "on": where}}
            save_model(output, replace(model, facts=facts))
            report["model"] = output
    finally:  # the search is done, whatever happens to the model
        warn_about(found)
        if json:
            show_json(report)
        else:
            one_split, to_stderr = valid is not None, is_stdout(output)
            show_search(report, found.best, one_split=one_split, to_stderr=to_stderr)
    early = NOT_CONVERGED if found.shortfalls else None
    return early if fit is None else finish(fit) or early


def _check_grids(grids: Mapping[str, Any], wanted: Wanted) -> None:
    """Look before the work at grids of parameters that there are not, or that are fixed."""
    for name in grids:
        if name == "C":
            continue
        if not hasattr(wanted.settings, name):
            raise UsageProblem(f"--{name}-grid needs --kernel")
        if name in wanted.given:
            raise UsageProblem(f"--{name} fixes what --{name}-grid is to choose: give only one")
        if name not in searched(wanted.settings):
            kernel = getattr(wanted.settings, "kernel", "")
            raise UsageProblem(f"--{name}-grid has no meaning for --kernel {kernel}")


def _check_resume(resume: str, inputs: Sequence[str | None], output: str | None) -> None:
    """Look before the work at the file of a search."""
    if is_stdout(resume) or not is_regular(resume):
        raise UsageProblem(f"--resume needs a file, which the next run can read; got {resume}")
    same = output is not None and os.path.realpath(resume) == os.path.realpath(output)
    if output is not None and (same or is_same(output, resume)):
        raise UsageProblem(f"{output} cannot be both the model and the file of --resume")
    check_output(resume, inputs, called="--resume")


def _held_out(valid: str, data: RankingData, options: DataOptions) -> RankingData:
    held_out = read_held_out(valid, data, options)
    labels_of(held_out)
    return held_out


def search_table(found: Search) -> list[dict[str, Any]]:
    """One row for every candidate."""
    params = found.params
    return [
        {**dict(zip(params, values, strict=True)), "mean": mean, "std": std, "splits": by_split}
        for *values, mean, std, by_split in zip(
            *(column.tolist() for column in params.values()),
            found.means.tolist(),
            found.deviations.tolist(),
            found.scores.T.tolist(),
            strict=True,
        )
    ]


def warn_about(found: Search) -> None:
    """Tell what is wrong with a search, if anything."""
    n_fits = found.scores.size
    troubles: tuple[tuple[Sequence[Any], str], ...] = (
        (found.undefined, "splits do not count"),
        (found.unscored, f"of {n_fits} fits have no score"),
        (found.shortfalls, f"of {n_fits} fits ended early"),
    )
    for trouble, what in troubles:
        if trouble:
            warn(
                Message(
                    "{n} {what}, the first of them: {first}",
                    n=len(trouble),
                    what=what,
                    first=trouble[0],
                )
            )
    for edge in found.edges:
        warn(edge)


def show_search(
    report: Mapping[str, Any], best: Mapping[str, float], *, one_split: bool, to_stderr: bool
) -> None:
    """Show what every candidate is worth."""
    metric, table = report["metric"], report["table"]
    sizes = " times ".join(
        f"{counted(len({row[name] for row in table}), 'value')} of {name}" for name in best
    )
    again = f", {counted(report['resumed'], 'part')} done before" if report["resumed"] else ""
    say(
        f"{printable(report['on'])}, {metric}, {sizes}, {report['seconds']:.2f} s{again}",
        to_stderr=to_stderr,
    )
    spread = [] if one_split else ["std"]
    rows = [
        [
            *(f"{row[name]:.6g}" for name in best),
            row["mean"],
            *(row[name] for name in spread),
            "best" if all(row[name] == value for name, value in best.items()) else "",
        ]
        for row in table
    ]
    show_table([*best, metric, *spread, ""], rows, to_stderr=to_stderr)
    if report["model"] is not None and not to_stderr:
        say(f"model written to {printable(report['model'])}")
