"""The real sets, where they are at hand: fits, optima, every counting, LinearSVC on the pairs."""

from __future__ import annotations

from functools import partial

from benchmarks.common import LOSSES, TOL, Call, Config, interleave
from benchmarks.fits import fit_rows
from benchmarks.peers import compare
from benchmarks.report import Report, Row
from benchmarks.sets import Task, real_tasks, too_slow
from ranksvm.backends.native import COUNTINGS

TITLE = "real sets"
LONGEST = 15.0


def run(config: Config, report: Report) -> None:
    tasks = list(real_tasks(report.note, only=config.size(None, "MQ2008")))
    if not tasks:
        return
    rows = [row for task in tasks for row in fit_rows(task, config)]
    report.table(f"fits to a certified relative gap of {TOL:g}", rows)
    report.table("squared hinge, optima", [_optimum(task) for task in tasks])
    report.table("seconds of a fit by counting, 1 thread", _countings(tasks, config, report))
    report.note(f"no number: skipped, or not done in {LONGEST:g} s")
    rows = [row for task in tasks for row in compare(task, config, report, {})]
    report.table(f"seconds until the objective is within {TOL:g} of the optimum, 1 thread", rows)


def _optimum(task: Task) -> Row:
    """A nearly exact optimum, beside the published one where there is one."""
    fit = task.fit("squared_hinge", tol=1e-8)
    found = fit.model.objective_
    known = task.optimum
    return {
        "set": task.name,
        "strength": task.strength,
        "optimum": f"{found:.9g}",
        "certified to": fit.relative_gap,
        "published": None if known is None else f"{known:.9g}",
        "difference": None if known is None else abs(found - known) / known,
        "products": fit.model.n_products_,
    }


def _countings(tasks: list[Task], config: Config, report: Report) -> list[Row]:
    rows: list[Row] = []
    for task in tasks:
        for loss in LOSSES:
            calls = {}
            for counting in COUNTINGS:
                if reason := too_slow(task, counting):
                    report.note(f"skipped, {loss}: {reason}")
                    continue
                calls[counting] = Call(
                    partial(task.fit, loss, counting=counting, stop_after=LONGEST)
                )
            timings = interleave(calls, rounds=3, seconds=config.size(6.0, 0.5))
            seconds = {
                counting: timing.seconds
                for counting, timing in timings.items()
                if timing.result.model.status_ == "converged"
            }
            rows.append({"set": task.name, "loss": loss} | {c: seconds.get(c) for c in COUNTINGS})
    return rows
