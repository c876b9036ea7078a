"""The command tune: C of a linear model, or C and gamma of a kernel, on folds or a validation file.

A table has one row for every candidate; the model is refitted at the best one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ranksvm._text import printable
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.cli.grids import parse_grid
from ranksvm.cli.inputs import Items, check_features, read_items, without_missing
from ranksvm.cli.judge import check_metrics
from ranksvm.cli.kernel_options import KernelOptions
from ranksvm.cli.learn import check_outputs
from ranksvm.cli.models import finish, fit_items, make_model, make_record, make_settings
from ranksvm.cli.options import DataOptions, Rules, SolverOptions
from ranksvm.cli.output import (
    NOT_CONVERGED,
    UsageProblem,
    counted,
    note,
    progress,
    say,
    show_json,
    show_table,
)
from ranksvm.cli.scoring import read_held_out
from ranksvm.cli.write import check_output, is_regular, is_same, is_stdout, write_record
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.kernels import resolve_gamma
from ranksvm.training import KernelSettings, LinearSettings, Settings, total_pair_weight

if TYPE_CHECKING:
    from ranksvm.model_selection.search import Search

__all__ = ["Grids", "tune"]


class Grids(NamedTuple):
    """Candidates as they were given, and the file of a search that can go on; None if not."""

    Cs: str | None
    gammas: str | None
    resume: str | None


class Chosen(NamedTuple):
    """A search, the settings at its best candidate and where their fit may start."""

    search: Any
    settings: Settings
    start: Array | None


def tune(
    files: Sequence[str],
    valid: str | None,
    folds: int | None,
    grids: Grids,
    metric: str | None,
    conventions: Rules,
    output: str | None,
    json: bool,
    force: bool,
    options: SolverOptions,
    kernel: KernelOptions,
    data: DataOptions,
) -> int | None:
    """Search on folds or against a validation file; refit at the best candidate."""
    if valid is not None and folds is not None:
        raise UsageProblem("--valid and --folds are two ways to choose: give only one")
    data = without_missing(data)
    check_outputs(output, [*files, valid], json, force, kernel)
    check_metrics(None if metric is None else [metric])
    _check_grids(grids, kernel, [*files, valid], output)
    Cs = None if grids.Cs is None else parse_grid(grids.Cs, "--C-grid")
    gammas = None if grids.gammas is None else parse_grid(grids.gammas, "--gamma-grid")
    settings = make_settings(None, options, kernel)
    items = read_items(files, data)
    check_features(items)
    groups = items.groups
    if output is not None and isinstance(settings, KernelSettings):
        from ranksvm.model_selection.grid import check_refit_room

        check_refit_room(items.labels, groups, settings)
    if kernel.gamma is not None:
        gammas = [resolve_gamma(kernel.gamma, items.X)]
    folds = 5 if folds is None else folds
    began = time.perf_counter()
    chosen = SEARCHES[type(settings)](
        items,
        groups,
        settings,
        Cs,
        gammas,
        grids.resume,
        metric=metric or "pairwise_accuracy",
        conventions=conventions,
        n_threads=resolve_n_jobs(data.jobs),
        **_split(items, valid, folds, data),
    )
    search, seconds = chosen.search, time.perf_counter() - began
    where = valid if valid is not None else f"{folds} folds"
    best = {name: float(values[search.best_index]) for name, values in search.params.items()}
    report = {
        **best,
        "score": search.best_score,
        "metric": search.metric,
        "conventions": conventions,
        "on": where,
        "table": search_table(search),
        "seconds": seconds,
        "resumed": getattr(search, "n_resumed", 0),
        "model": None,
    }
    fit = None
    try:
        if output is not None:
            trained = fit_items(
                items, groups, chosen.settings, data.jobs, utility=items.labels, start=chosen.start
            )
            facts = {"selection": {**search.facts(), "on": where}}
            write_record(output, make_record(items, trained, make_model(trained), facts))
            fit, report["model"] = trained.fit, output
    finally:  # the search is done, whatever happens to the model
        warn_about(search)
        if json:
            show_json(report)
        else:
            show_search(report, best, one_split=valid is not None, to_stderr=is_stdout(output))
    early = NOT_CONVERGED if search.shortfalls else None
    return early if fit is None else finish(fit) or early


def _check_grids(
    grids: Grids, kernel: KernelOptions, inputs: Sequence[str | None], output: str | None
) -> None:
    """Look before the work at options that go with kernels."""
    for option, value in (("--gamma-grid", grids.gammas), ("--resume", grids.resume)):
        if value is not None and kernel.kernel is None:
            raise UsageProblem(f"{option} needs --kernel")
    if grids.gammas is not None and kernel.gamma is not None:
        raise UsageProblem("--gamma fixes what --gamma-grid is to choose: give only one")
    if grids.gammas is not None and kernel.kernel == "linear":
        raise UsageProblem("--gamma-grid has no meaning for --kernel linear")
    if grids.resume is None:
        return
    if is_stdout(grids.resume) or not is_regular(grids.resume):
        raise UsageProblem(
            f"--resume needs a file, which the next run can read; got {grids.resume}"
        )
    same = output is not None and os.path.realpath(grids.resume) == os.path.realpath(output)
    if output is not None and (same or is_same(output, grids.resume)):
        raise UsageProblem(f"{output} cannot be both the model and the file of --resume")
    check_output(grids.resume, inputs, called="--resume")


def _split(items: Items, valid: str | None, folds: int, data: DataOptions) -> dict[str, Any]:
    """Folds, or a validation file with the columns of the training set."""
    from ranksvm.model_selection.search import HeldOut
    from ranksvm.model_selection.splitters import QueryKFold, item_folds

    if valid is None and items.qid is None:
        return {"folds": item_folds(items.labels, folds)}
    if valid is None:
        return {"folds": list(QueryKFold(folds).split(qid=items.qid))}
    held_out = read_held_out(valid, items, data)
    return {"validation": HeldOut(held_out.X, held_out.labels, held_out.qid)}


def _default_Cs(n: int, settings: Settings, items: Items, groups: QueryGroups) -> Array:
    from ranksvm.model_selection.search import default_Cs

    return default_Cs(n, settings.reduction, total_pair_weight(items.labels, groups))


def _search_linear(
    items: Items,
    groups: QueryGroups,
    settings: LinearSettings,
    Cs: Any,
    gammas: None,
    resume: None,
    **options: Any,
) -> Chosen:
    from ranksvm.model_selection.search import search_path

    del gammas, resume
    if Cs is None:
        Cs = _default_Cs(19, settings, items, groups)
    with progress("tuning") as advance:
        search = search_path(
            items.X, items.labels, groups, settings, Cs, progress=advance, **options
        )
    start = None if search.mean_coef is None else search.mean_coef[search.best_index]
    return Chosen(search, replace(settings, C=search.best_C), start)


def _search_kernel(
    items: Items,
    groups: QueryGroups,
    settings: KernelSettings,
    Cs: Any,
    gammas: Any,
    resume: str | None,
    **options: Any,
) -> Chosen:
    from ranksvm.model_selection.grid import search_grid

    if Cs is None:
        Cs = _default_Cs(10, settings, items, groups)
    with progress("tuning") as advance:
        search = search_grid(
            items.X,
            items.labels,
            groups,
            settings,
            Cs,
            gammas,
            progress=advance,
            checkpoint=resume,
            **options,
        )
    best = replace(settings, C=search.best_C, random_state=search.random_state)
    if search.has_gamma:
        best = replace(best, gamma=search.best_gamma)
    return Chosen(search, best, None)


SEARCHES: dict[type[Settings], Callable[..., Chosen]] = {
    LinearSettings: _search_linear,
    KernelSettings: _search_kernel,
}


def search_table(search: Search) -> list[dict[str, Any]]:
    """One row for every candidate."""
    params = search.params
    return [
        {**dict(zip(params, values, strict=True)), "mean": mean, "std": std, "splits": by_split}
        for *values, mean, std, by_split in zip(
            *(column.tolist() for column in params.values()),
            search.means.tolist(),
            search.deviations.tolist(),
            search.flat("scores").T.tolist(),
            strict=True,
        )
    ]


def warn_about(search: Search) -> None:
    """Tell what is wrong with a search, if anything."""
    n_fits = search.flat("scores").size
    for trouble, what in (
        (search.undefined, "splits do not count"),
        (search.unscored, f"of {n_fits} fits have no score"),
        (search.shortfalls, f"of {n_fits} fits ended early"),
    ):
        if trouble:
            note(f"warning: {len(trouble)} {what}, the first of them: {trouble[0]}")
    for edge in search.edges:
        for name in search.params:
            edge = edge.replace(f"Give {name}s that reach", f"Give a --{name}-grid that reaches")
        note(f"warning: {edge}")


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
