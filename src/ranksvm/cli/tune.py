"""The command tune: C of a linear model, or C and gamma of a kernel, on folds or a validation file.

A table has one row for every candidate; the model is refitted at the best one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from ranksvm._text import counted, printable, progress
from ranksvm._threads import resolve_n_jobs
from ranksvm.cli.columns import read_held_out
from ranksvm.cli.evaluate import check_metrics
from ranksvm.cli.inputs import check_features, read_data, without_missing
from ranksvm.cli.model_options import Wanted, model_options
from ranksvm.cli.options import (
    ConventionsOption,
    DataOptions,
    Force,
    Json,
    by_default,
    command,
    examples,
)
from ranksvm.cli.output import (
    NOT_CONVERGED,
    UsageProblem,
    say,
    show_json,
    show_table,
    warn,
)
from ranksvm.cli.train import check_outputs, finish, fit_data
from ranksvm.cli.write import check_output, is_regular, is_same, is_stdout, save_model
from ranksvm.learners import KernelSettings
from ranksvm.learners.kernel import check_refit_room
from ranksvm.learners.settings import excluded_by, parse_number
from ranksvm.maps.kernels import resolve_gamma
from ranksvm.model_selection.search import Search, search
from ranksvm.model_selection.splitters import folds_of

_MOST_VALUES = 1000  # of a grid
_GRID_HELP = (
    "Values of {0} to try (0.1,1,10 or 2^-5,2^0), or a range from:to:how_many, evenly in log {0}. "
)


@command(
    epilog=examples(
        "ranksvm tune train.txt --folds 5 --metric ndcg@10 -o m.safetensors",
        "ranksvm tune train.txt --kernel rbf --gamma-grid 2^-7,2^-5 --resume search.db",
    ),
    wanted=model_options(searches=True),
    data=DataOptions,
)
def app(
    files: Annotated[
        list[str],
        typer.Argument(metavar="TRAIN", help="Training data; several files are one set."),
    ],
    valid: Annotated[
        str | None,
        typer.Option(help="Validation data to choose on, instead of folds."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            help=f"Number of cross-validation folds; no query is split. {by_default(5)}",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Checkpoint file: save finished work to it, and continue from it if it exists.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            "-m",
            help=f"Metric to maximize. {by_default('pairwise_accuracy')}",
        ),
    ] = None,
    conventions: ConventionsOption = "standard",
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Model file to write, refitted at the best values on all of TRAIN.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    C_grid: Annotated[
        str | None,
        typer.Option(
            "--C-grid",
            help=_GRID_HELP.format("C")
            + by_default("19 values from 0.8 to 2e5, 10 with --kernel; scaled for --reduction sum"),
        ),
    ] = None,
    gamma_grid: Annotated[
        str | None,
        typer.Option(
            help=_GRID_HELP.format("gamma")
            + by_default("5 values around scale, each 4 times the one before"),
        ),
    ] = None,
    *,
    wanted: Wanted,
    data: DataOptions,
) -> int | None:
    """Choose C, and gamma of a kernel, by cross-validation or on a validation file; then refit."""
    if valid is not None and folds is not None:
        raise UsageProblem("--valid and --folds are two ways to choose: give only one")
    Cs = None if C_grid is None else _parse_grid(C_grid, "--C-grid")
    grids = {}
    if gamma_grid is not None:
        grids["gamma"] = _parse_grid(gamma_grid, "--gamma-grid")
        _check_gamma_grid(wanted)
    settings, options = wanted.settings, without_missing(data)
    inputs = [*files, valid]
    check_outputs(output, inputs, json, force, settings)
    check_metrics(None if metric is None else [metric])
    if resume is not None:
        _check_resume(resume, inputs, output)
    items = read_data(files, options)
    check_features(items)
    if isinstance(settings, KernelSettings):
        if output is not None:
            check_refit_room(items, settings)
        if "gamma" in wanted.given:
            grids["gamma"] = [resolve_gamma(settings.gamma, items.X)]
    n_folds = folds or 5
    # Solvers import this when they start, which takes longer than a small fit.
    import scipy.linalg  # noqa: F401

    began = time.perf_counter()
    with progress("tuning") as advance:
        found = search(
            items,
            settings,
            Cs,
            grids,
            folds=None if valid is not None else folds_of(items, n_folds),
            validation=None if valid is None else read_held_out(valid, items, options),
            metric=metric or "pairwise_accuracy",
            conventions=conventions,
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
        "table": [
            {**candidate, "mean": mean, "std": deviation, "splits": scores}
            for candidate, mean, deviation, scores in zip(
                found.candidates, found.means, found.deviations, found.scores.T, strict=True
            )
        ],
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
        for message, _ in found.warnings():
            warn(message)
        if json:
            show_json(report)
        else:
            _show_search(report, found, to_stderr=is_stdout(output))
    early = NOT_CONVERGED if found.shortfalls else None
    return early if fit is None else finish(fit) or early


def _parse_grid(text: str, option: str) -> list[float]:
    """Parse different positive values (``0.1,1,10``, ``2^-5,2^0``) or a range (``0.01:100:5``)."""
    try:
        values = _range(text) if ":" in text else [parse_number(part) for part in text.split(",")]
        if not all(0.0 < value < math.inf for value in values) or len(values) > _MOST_VALUES:
            raise ValueError
    except (ValueError, OverflowError, ZeroDivisionError):
        raise UsageProblem(
            f"{option} {text!r}: expected positive numbers such as 0.1,1,10 or 2^-5,2^0, or a "
            f"range from:to:how_many such as 0.01:100:5; at most {_MOST_VALUES}"
        ) from None
    if len(set(values)) < len(values):
        raise UsageProblem(f"{option} {text!r} has a value twice")
    return values


def _range(text: str) -> list[float]:
    """Parse ``from:to:how_many``: values that are evenly spaced in the logarithm."""
    first, last, count = text.split(":")
    low, high, n = parse_number(first), parse_number(last), int(count)
    if not 1 <= n <= _MOST_VALUES or not (0.0 < low < math.inf and 0.0 < high < math.inf):
        raise ValueError
    step = (math.log(high) - math.log(low)) / max(1, n - 1)
    between = (low * math.exp(step * k) for k in range(1, n - 1))
    # Twelve digits, so that a grid of powers of ten is one.
    return [low, *(float(f"{value:.12g}") for value in between), high][:n]


def _check_gamma_grid(wanted: Wanted) -> None:
    """Refuse a grid of gamma if there is no gamma, or if it is fixed."""
    settings = wanted.settings
    if not isinstance(settings, KernelSettings):
        raise UsageProblem("--gamma-grid needs --kernel")
    if "gamma" in wanted.given:
        raise UsageProblem("--gamma fixes what --gamma-grid is to choose: give only one")
    if excluded_by(settings, "gamma") is not None:
        raise UsageProblem(f"--gamma-grid has no meaning for --kernel {settings.kernel}")


def _check_resume(resume: str, inputs: Sequence[str | None], output: str | None) -> None:
    """Check before the work that the file of a search can be written."""
    if is_stdout(resume) or not is_regular(resume):
        raise UsageProblem(f"--resume needs a file, which the next run can read; got {resume}")
    same = output is not None and os.path.realpath(resume) == os.path.realpath(output)
    if output is not None and (same or is_same(output, resume)):
        raise UsageProblem(f"{output} cannot be both the model and the file of --resume")
    check_output(resume, inputs, called="--resume")


def _show_search(report: Mapping[str, Any], found: Search, *, to_stderr: bool) -> None:
    """Print the score of every candidate."""
    sizes = " times ".join(
        f"{counted(values.size, 'value')} of {name}" for name, values in found.grid.items()
    )
    again = f", {counted(report['resumed'], 'part')} done before" if report["resumed"] else ""
    say(
        f"{printable(report['on'])}, {found.metric}, {sizes}, {report['seconds']:.2f} s{again}",
        to_stderr=to_stderr,
    )
    spread, best = ["std"] if len(found.scores) > 1 else [], found.best_index
    rows = [
        [
            *(f"{row[name]:.6g}" for name in found.grid),
            row["mean"],
            *(row[name] for name in spread),
            "best" if k == best else "",
        ]
        for k, row in enumerate(report["table"])
    ]
    show_table([*found.grid, found.metric, *spread, ""], rows, to_stderr=to_stderr)
    if report["model"] is not None and not to_stderr:
        say(f"model written to {printable(report['model'])}")
