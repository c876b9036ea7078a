"""The command tune: choose C and other parameters of a model, on folds or a validation file.

A table has one row for every candidate; the model is refitted at the best one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

import typer

from ranksvm._text import counted, printable, progress
from ranksvm._threads import resolve_n_jobs
from ranksvm.cli.columns import read_held_out, show_shards
from ranksvm.cli.inputs import check_features
from ranksvm.cli.model_options import ModelOptions, model_options
from ranksvm.cli.options import (
    ConventionsOption,
    DataOptions,
    Force,
    Json,
    TrainingOptions,
    by_default,
    command,
    examples,
)
from ranksvm.cli.output import (
    NOT_CONVERGED,
    UsageProblem,
    as_usage,
    say,
    show_json,
    show_table,
    warn,
)
from ranksvm.cli.pair_options import PairOptions, read_with_pairs
from ranksvm.cli.preset import PresetOptions, tune_preset
from ranksvm.cli.train import (
    check_outputs,
    check_resume,
    finish,
    training_bar,
    with_memory,
    with_tables,
)
from ranksvm.cli.write import is_stdout, save_model
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.settings import searched
from ranksvm.learners.views import seen_data, with_view
from ranksvm.model_selection.judges import judge_named
from ranksvm.model_selection.search import Progress, Search, search
from ranksvm.model_selection.splitters import folds_of


@command(
    epilog=examples(
        "ranksvm tune train.txt --folds 5 --metric ndcg@10 -o m.safetensors",
        "ranksvm tune train.txt --kernel rbf --gamma-grid 2^-7,2^-5 --resume search.db",
        "ranksvm tune items.txt --pairs pairs.txt -o m.safetensors",
        "ranksvm tune train.txt --preset best --time 5m -o m.safetensors",
    ),
    chosen=model_options(searches=True),
    auto=PresetOptions,
    explicit=PairOptions,
    data=TrainingOptions,
)
def app(
    files: Annotated[
        list[str],
        typer.Argument(metavar="TRAIN", help="Training data; several files are one set."),
    ],
    valid: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Validation data to choose on, instead of folds."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of cross-validation folds; no query is split, and no pair. "
            + by_default(5),
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
            metavar="METRIC",
            help="Metric to maximize: ndcg@10, map, recall@100, ndcg_linear@10 ... "
            + by_default(
                "ndcg@10 for graded labels (integers from 0 to 31) in queries, else "
                "pairwise_accuracy; for pairs without labels pair_accuracy"
            ),
        ),
    ] = None,
    conventions: ConventionsOption = "standard",
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Model file to write, refitted at the best values on all of TRAIN.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    *,
    chosen: ModelOptions,
    auto: PresetOptions,
    explicit: PairOptions,
    data: DataOptions,
) -> int | None:
    """Choose C, and gamma of a kernel, by cross-validation or on a validation file; then refit.

    With --preset, search for the best model of all instead.
    """
    if valid is not None and folds is not None:
        raise UsageProblem("--valid and --folds are two ways to choose: give only one")
    auto.check(chosen, explicit.pairs)
    settings, options = with_memory(with_tables(chosen.settings, data), data)
    inputs = [*files, valid, explicit.pairs]
    check_outputs(output, inputs, json, force, settings)
    if metric not in (None, "auto"):
        with as_usage():
            judge_named(metric)
    if resume is not None:
        check_resume(resume, inputs, output)
    items = read_with_pairs(files, explicit, options, settings)
    check_features(items)
    if output is not None:
        settings.check_budget(items)
    held_out = None if valid is None else read_held_out(valid, items, options, settings.view)
    threads = resolve_n_jobs(options.jobs)
    items = with_view(items, settings.view, n_threads=threads)
    grids = dict(chosen.grids)
    for name, grid in searched(type(settings)).items():
        if name in chosen.given:
            seen = seen_data(items, settings, n_threads=threads)
            grids[name] = [grid.resolve(getattr(settings, name), seen)]
    n_folds = folds or 5
    # Solvers import this when they start, which takes longer than a small fit.
    import scipy.linalg  # noqa: F401

    if auto.preset is not None:
        with search_bar(items) as advance:
            return tune_preset(
                auto,
                items,
                held_out,
                n_folds=n_folds,
                metric=metric,
                conventions=conventions,
                checkpoint=resume,
                output=output,
                jobs=options.jobs,
                json=json,
                progress=advance,
                tables={"missing": settings.missing, "min_frequency": settings.min_frequency},
            )
    began = time.perf_counter()
    with search_bar(items) as advance:
        found = search(
            items,
            settings,
            grids.pop("C", None),
            grids,
            folds=None if valid is not None else folds_of(items, n_folds),
            validation=held_out,
            metric=metric,
            conventions=conventions,
            n_threads=threads,
            progress=advance,
            checkpoint=resume,
        )
    report = {
        **found.best,
        "score": found.best_score,
        "metric": found.metric,
        "metric_default_for": found.metric_default_for or None,
        "conventions": found.conventions,
        "on": found.on,
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
            with training_bar(items) as callback:
                fit, model = found.refit(
                    items,
                    n_threads=threads,
                    callback=callback,
                    calibrate=None if items.preferences is None else True,
                )
            facts = {**model.facts, "selection": found.facts()}
            save_model(output, replace(model, facts=facts))
            report["model"] = output
    finally:  # the search is done, whatever happens to the model
        for message, _ in found.warnings():
            warn(message)
        if json:
            show_json(report)
        else:
            _show_search(report, found, to_stderr=is_stdout(output))
            if output is None:
                say("no model was saved; -o MODEL saves one, refitted at the best values")
    early = NOT_CONVERGED if found.shortfalls else None
    return early if fit is None else finish(fit) or early


@contextmanager
def search_bar(data: RankingData) -> Iterator[Progress]:
    """Show the last fit of a search and, with data in shards, the current pass over them."""
    fits = 0, 0, "first fit"
    with progress("tuning") as advance:

        def after_fit(done: int, total: int, text: str) -> None:
            nonlocal fits
            fits = done, total, text
            advance(*fits)

        def after_shard(done: float, total: float | None, shard: str) -> None:
            fits_done, n_fits, text = fits
            advance(fits_done, n_fits or None, f"{text}, {shard}")

        show_shards(data.X, after_shard)
        yield after_fit


def _shown_value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _show_search(report: Mapping[str, Any], found: Search, *, to_stderr: bool) -> None:
    """Print the score of every candidate."""
    sizes = " times ".join(
        f"{counted(values.size, 'value')} of {name}" for name, values in found.grid.items()
    )
    again = f", {counted(report['resumed'], 'part')} done before" if report["resumed"] else ""
    chosen = f" (default for {found.metric_default_for})" if found.metric_default_for else ""
    say(
        f"{printable(report['on'])}, {found.metric}{chosen}, {sizes}, {report['seconds']:.2f} s"
        f"{again}",
        to_stderr=to_stderr,
    )
    spread, best = ["std"] if len(found.scores) > 1 else [], found.best_index
    rows = [
        [
            *(_shown_value(row[name]) for name in found.grid),
            row["mean"],
            *(row[name] for name in spread),
            "best" if k == best else "",
        ]
        for k, row in enumerate(report["table"])
    ]
    show_table([*found.grid, found.metric, *spread, ""], rows, to_stderr=to_stderr)
    if report["model"] is not None and not to_stderr:
        say(f"model written to {printable(report['model'])}")
