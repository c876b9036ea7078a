"""``ranksvm tune --preset``: search for the best model of all, and average the best candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import typer

from ranksvm._durations import parse_duration
from ranksvm._text import counted, printable
from ranksvm._threads import resolve_n_jobs
from ranksvm.cli.leaderboard import CANDIDATE, candidate_row
from ranksvm.cli.model_options import SEED, ModelOptions, model_flags
from ranksvm.cli.options import by_default
from ranksvm.cli.output import UsageProblem, as_usage, note, say, show_json, show_table, warn
from ranksvm.cli.write import is_stdout, save_model
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.model_selection.auto_models import search_and_fit
from ranksvm.model_selection.auto_plan import PRESETS
from ranksvm.model_selection.auto_results import COMPLETE, INTERRUPTED
from ranksvm.model_selection.auto_search import AutoSearch, Budget
from ranksvm.model_selection.search import Progress
from ranksvm.model_selection.splitters import folds_of

N_MODELS = 20
N_LANDMARKS = 300
_SHOWN = 10  # candidates in the table
_INTERRUPTED = 130  # exit code

_preset: dict[str, Any] = {"rich_help_panel": "Preset"}
Name: Any = Literal[tuple(PRESETS)]


@dataclass(frozen=True)
class PresetOptions:
    """Options of a search for the best model of all."""

    preset: Annotated[
        Name | None,
        typer.Option(
            help="Search for the best model of all, and average the best candidates: "
            + "; ".join(f"{name} tries {one.help}" for name, one in PRESETS.items())
            + ".",
            **_preset,
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop after this time, such as 90s, 5m or 1h, with the best candidates so far. "
            + by_default("until nothing is left to try"),
            **_preset,
        ),
    ] = None
    models: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of candidates to average; at most a quarter of all that were tried. "
            f"{by_default(N_MODELS)}",
            **_preset,
        ),
    ] = None

    def check(self, chosen: ModelOptions, pairs: str | None) -> None:
        """Raise if options cannot be combined."""
        if self.preset is None:
            for name in ("time", "models"):
                if getattr(self, name) is not None:
                    raise UsageProblem(f"--{name} needs --preset")
            return
        given = [model_flags()[name] for name in sorted(chosen.given)]
        given += [model_flags()[f"{name}s"] for name in chosen.grids]
        if given:
            raise UsageProblem(f"--preset chooses the model: leave out {', '.join(given)}")
        if pairs is not None:
            raise UsageProblem("--preset learns from labels: leave out --pairs")
        if self.time is not None:
            with as_usage():
                parse_duration("time_limit", self.time)


def tune_preset(
    options: PresetOptions,
    data: RankingData,
    validation: RankingData | None,
    *,
    n_folds: int,
    metric: str | None,
    conventions: str,
    checkpoint: str | None,
    output: str | None,
    jobs: int | None,
    json: bool,
    progress: Progress,
    tables: Mapping[str, Any],
) -> int | None:
    """Search, write the model, and show what was found.  Returns the exit code.

    ``tables`` are parameters about the columns of a table, which the model records.
    """
    assert options.preset is not None
    if isinstance(data.X, ShardedMatrix):
        raise UsageProblem("--preset needs all items in memory: leave out --memory")
    budget = Budget(None if options.time is None else parse_duration("time_limit", options.time))
    search = AutoSearch(
        data,
        PRESETS[options.preset],
        folds=None if validation is not None else folds_of(data, n_folds),
        validation=validation,
        metric=metric,
        conventions=conventions,
        n_models=options.models or N_MODELS,
        n_landmarks=N_LANDMARKS,
        random_state=SEED,
        budget=budget,
        refit=output is not None,
        n_threads=resolve_n_jobs(jobs),
        progress=progress,
    )
    if output is None:
        result, model = search.run(checkpoint), None
    else:
        result, model = search_and_fit(
            search,
            data,
            validation,
            checkpoint=checkpoint,
            n_threads=resolve_n_jobs(jobs),
            progress=progress,
        )
        params = {
            "preset": options.preset,
            "time_limit": options.time,
            "n_models": options.models or N_MODELS,
            "n_landmarks": N_LANDMARKS,
            "metric": result.metric,
            "conventions": conventions,
            "random_state": SEED,
            **tables,
        }
        model = replace(model, params=params)
        save_model(output, model)
    report = {
        "preset": options.preset,
        "metric": result.metric,
        "metric_default_for": result.metric_default_for or None,
        "conventions": result.conventions,
        "on": result.on,
        "ended": result.ended,
        "best_score": result.chosen[0].mean,
        "leaderboard": result.leaderboard(),
        "members": None if model is None else model.describe()["members"],
        "seconds": budget.spent,
        "resumed": result.n_resumed,
        "model": output,
    }
    if json:
        show_json(report)
    else:
        _show(report, to_stderr=is_stdout(output))
        if output is None:
            say("no model was saved; -o MODEL saves the mean of the best candidates")
    if result.ended == INTERRUPTED:
        warn("interrupted: the model is made of what was found until then, not fitted again")
        return _INTERRUPTED
    return None


def _show(report: Mapping[str, Any], *, to_stderr: bool) -> None:
    """Print the best candidates."""
    rows = report["leaderboard"]
    default = report["metric_default_for"]
    chosen = f" (default for {default})" if default else ""
    ended = "" if report["ended"] == COMPLETE else f", ended by: {report['ended']}"
    say(
        f"{printable(report['on'])}, {report['metric']}{chosen}, "
        f"{counted(len(rows), 'candidate')}, {report['seconds']:.1f} s{ended}",
        to_stderr=to_stderr,
    )
    show_table(
        [*CANDIDATE, report["metric"], "time"],
        [candidate_row(row) for row in rows[:_SHOWN]],
        to_stderr=to_stderr,
    )
    n_chosen = sum(row["chosen"] for row in rows)
    note(f"the model is the mean of the best {counted(n_chosen, 'candidate')}")
    if report["model"] is not None and not to_stderr:
        say(f"model written to {printable(report['model'])}")
