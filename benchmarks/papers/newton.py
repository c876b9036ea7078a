"""The supplement of Lee & Lin: Newton and cutting planes, zero dual variables, cost by levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.folds import is_there
from benchmarks.papers.jobs import Job, Result, Runner
from benchmarks.papers.levels import report_levels
from benchmarks.papers.measure.newton import (
    CADATA_NDCG,
    CADATA_PART,
    DEFAULT_TOL,
    FINEST,
    FORCING,
    GOALS,
    LETOR,
    choose_C,
    default_newton,
    optimum,
    trace,
)
from benchmarks.papers.models import left_out
from benchmarks.papers.report import Curve, Panel, Report
from benchmarks.papers.zeros import report_zeros
from benchmarks.report import Row
from benchmarks.sets import has_file

NAME = "newton"
TITLE = "Newton and cutting planes, zero dual variables, counting by levels"
SOURCE = (
    "Ching-Pei Lee & Chih-Jen Lin, Large-scale linear rankSVM, Neural Computation 26(4), 2014: "
    "the supplement"
)

SETS = (*LETOR, "cadata")
# LETOR: C for the sum over pairs.  cadata: lambda = 1 / (2 C) for their mean.
LETOR_CS = tuple(2.0**k for k in range(-12, 7))
CADATA_LAMBDAS = tuple(10.0 ** (k / 2) for k in range(-6, 3))

NEWTONS = ("Newton", "Newton as TRON")
PLANES = ("cutting planes", "cutting planes, no line search")
HINGE, SQUARED = "hinge", "squared_hinge"
RUNS = (
    *((method, SQUARED) for method in NEWTONS),
    *((method, HINGE) for method in PLANES),
    *((method, SQUARED) for method in PLANES),
)
# What the paper compares: TRON, and cutting planes for the hinge without a line search.
PAPERS_NEWTON = ("Newton as TRON", SQUARED)
PAPERS_PLANES = ("cutting planes, no line search", HINGE)
ACCURACY = (
    "Pairwise accuracy is the share of all pairs of the test part in the right order, not a mean "
    "over queries."
)


def run(runner: Runner, report: Report) -> None:
    there = []
    for name in SETS:
        if is_there(name) if name in LETOR else has_file(name):
            there.append(name)
        else:
            report.say(left_out(name))
    if there:
        watched = {name: _watch(runner, name) for name in there}
        _sets(report, watched)
        _figures(report, watched)
        _reached(runner, report, watched)
    if "MQ2008" in there:
        report_zeros(runner, report)
    report_levels(runner, report)


# --- Figure (II) ----------------------------------------------------------------------------------


class Watched(NamedTuple):
    """A set: the chosen C and f* by loss, the traces by method and loss, the default stop."""

    chosen: Mapping[str, Result]
    best: Mapping[str, Result]
    traces: Mapping[tuple[str, str], Result]
    stop: Result


def _watch(runner: Runner, name: str) -> Watched:
    rows = runner.size(16_000, 2_000) if name == "cadata" else 0
    Cs = LETOR_CS if name in LETOR else [0.5 / strength for strength in CADATA_LAMBDAS]
    common: dict[str, Any] = {"name": name, "rows": rows}

    def results(title: str, function: Any, given: Sequence[dict[str, Any]]) -> list[Result]:
        jobs = [Job(f"{some.get('method', title)}, {name}", function, common | some)
                for some in given]  # fmt: skip
        return runner.run(f"newton: {title}, {name}", jobs)

    losses = (SQUARED, HINGE)
    grid = list(Cs[:: runner.size(1, 3)])
    found = results("choosing C", choose_C, [{"loss": loss, "Cs": grid} for loss in losses])
    chosen = dict(zip(losses, found, strict=True))
    at = {loss: {"loss": loss, "C": chosen[loss]["C"]} for loss in losses}
    best = dict(zip(losses, results("optimum", optimum, list(at.values())), strict=True))
    given = [
        at[loss] | {"method": method, "lower": best[loss]["lower"], "most": _most(runner)}
        for method, loss in RUNS
    ]
    traces = dict(zip(RUNS, results("iterations", trace, given), strict=True))
    end = {"C": chosen[SQUARED]["C"], "lower": best[SQUARED]["lower"]}
    (stop,) = results("default tolerance", default_newton, [end])
    return Watched(chosen, best, traces, stop)


def _most(runner: Runner) -> int:
    """Most iterations of a run."""
    return runner.size(10_000, 500)


def _sets(report: Report, watched: Mapping[str, Watched]) -> None:
    rows: list[Row] = []
    for name, one in watched.items():
        facts, stop = one.chosen[SQUARED], one.stop
        rows.append(
            {
                "set": name,
                "items": facts["items"],
                "pairs": facts["pairs"],
                "test items": facts["tested"],
                "for the squared hinge": _strength(name, facts["C"]),
                "for the hinge": _strength(name, one.chosen[HINGE]["C"]),
                "CG iterations": stop["iterations"],
                "products": stop["products"],
                "(f - f*) / f*": stop["value"],
                "pairwise accuracy": f"{stop['accuracy']:.4f}",
                "NDCG": f"{stop['ndcg']:.4f}",
            }
        )
    report.table(
        "Figure (II): the sets, C by loss, and Newton with its default tolerance",
        rows,
        "C: best pairwise accuracy on the validation part of fold 1 (sum over pairs); for cadata "
        f"on one in {CADATA_PART} of the training rows, held out (lambda = 1 / (2 C), mean over "
        f"pairs). Default tolerance: certified relative gap of {DEFAULT_TOL:g}. {ACCURACY} "
        "NDCG is LETOR's mean NDCG, and for cadata, whose utilities are prices, "
        f"NDCG@{CADATA_NDCG} with linear gain.",
    )
    ends = [
        f"{name} ({loss.replace('_', ' ')})"
        for name, one in watched.items()
        for loss, result in one.chosen.items()
        if result["at_end"]
    ]
    if ends:
        report.say(f"The best C is at an end of its grid for {', '.join(ends)}.")
    gaps = [max(one.best[loss]["gap"] for one in watched.values()) for loss in (SQUARED, HINGE)]
    report.say(
        "All methods start at w = 0, and a curve shows the best point so far. The optimum f* of "
        "each loss is a certified lower bound from a fit; the largest relative gap of these fits "
        f"is {gaps[0]:.2g} (squared hinge) and {gaps[1]:.2g} (hinge), and relative values are no "
        "more exact than that. Newton is drawn at the number of CG iterations done when an outer "
        'step ends. "Newton as TRON" has a trust region, no preconditioner and systems solved to '
        f"{FORCING:g} of the gradient; the library's own Newton has a line search and a "
        "preconditioner, which looks at a sample of X in each outer step. Cutting planes without a "
        "line search are the method of TreeRankSVM with two savings: the risk is known to be at "
        "least zero, and planes that have long been inactive are dropped. A line search needs no "
        "products with X, but evaluations of the loss."
    )


def _strength(name: str, C: float) -> str:
    return f"C = 2^{np.log2(C):.0f}" if name in LETOR else f"lambda = {0.5 / C:.3g}"


def _figures(report: Report, watched: Mapping[str, Watched]) -> None:
    for key, title, label, log, how in (
        ("value", "relative function value", "(f - f*) / f*", "xy", ""),
        ("accuracy", "pairwise accuracy on the test part", "pairwise accuracy", "x", ACCURACY),
        ("ndcg", "NDCG on the test part", "NDCG", "x", ""),
    ):
        report.figure(
            f"Figure (II): {title}",
            [_panel(name, one, key, label, log) for name, one in watched.items()],
            f"Horizontal line: Newton with its default tolerance. {how}".strip(),
        )


def _panel(name: str, one: Watched, key: str, ylabel: str, log: str) -> Panel:
    curves = []
    for method, result in one.traces.items():
        points = zip(result["iteration"], result[key], strict=True)
        curves.append(Curve(_label(method), [(x, y) for x, y in points if x > 0]))  # no log of 0
    curves.append(Curve("Newton, default tolerance", [(1.0, one.stop[key])], "level"))
    return Panel(name, curves, "iterations (CG iterations of Newton)", ylabel, log)


def _label(run_: tuple[str, str]) -> str:
    method, loss = run_
    return f"{method}, {loss.replace('_', ' ')}"


def _reached(runner: Runner, report: Report, watched: Mapping[str, Watched]) -> None:
    rows: list[Row] = []
    results = [result for one in watched.values() for result in one.traces.values()]
    short = sum(not result["arrived"] for result in results)
    for name, one in watched.items():
        for method, result in one.traces.items():
            row: Row = {"set": name, "method": _label(method)}
            for what in ("iterations", "products"):
                goals = zip(GOALS, result[f"goal_{what}"], strict=True)
                row |= {f"{what} to {goal:g}": _count(count) for goal, count in goals}
            row |= {name: result[name] for name in ("iterations", "evaluations", "samples")}
            rows.append(row | {"ended at": result["reached"]})
    report.table(
        "Figure (II): iterations and products with X to reach a relative function value",
        rows,
        "Products with X and X' together. The last columns are of the whole run, which ends at "
        f"{FINEST:g} or after {_most(runner):,} iterations (CG iterations of Newton): iterations, "
        "evaluations of the loss at new scores, samples of X that the preconditioner took. "
        f"{short} of the {len(results)} runs did not get to {FINEST:g}.",
    )
    rivals = [run_ for run_ in RUNS if run_[0] in PLANES]
    table: list[Row] = []
    for method in NEWTONS:
        for what in ("iterations", "products"):
            row = {"fewer": what, "method": method}
            for rival in rivals:
                row[f"than {_label(rival)}"] = compare(watched, (method, SQUARED), rival, what).text
            table.append(row)
    report.table(
        "How often Newton needs fewer",
        table,
        "Over the sets and the relative values of the table above. A value that only one of the "
        "two reached counts for that one; values that neither reached, or both had at the start, "
        "do not count. Different losses are different problems, each with its own C and f*; the "
        "last two columns compare on the same problem.",
    )
    _verdict(report, watched, rivals)


def _count(value: float) -> int | None:
    return None if np.isnan(value) else int(value)


class Compared(NamedTuple):
    """In how many cases a method needs fewer; where the other never got there; where it lost."""

    won: int
    of: int
    never: int
    lost: Sequence[str]

    @property
    def text(self) -> str:
        never = f" ({self.never} never got there)" if self.never else ""
        return f"{self.won} of {self.of} cases{never}"


def compare(
    watched: Mapping[str, Watched], ours: tuple[str, str], theirs: tuple[str, str], what: str
) -> Compared:
    """Compare the iterations or products that two methods need to the relative values.

    Values that both have at the start, or that neither ever reaches, do not count.
    """
    won, of, never, lost = 0, 0, 0, []
    for name, one in watched.items():
        left, right = (np.nan_to_num(one.traces[r][f"goal_{what}"], nan=np.inf)
                       for r in (ours, theirs))  # fmt: skip
        for goal, a, b in zip(GOALS, left, right, strict=True):
            if (a == b == 0) or (np.isinf(a) and np.isinf(b)):
                continue
            of += 1
            won += bool(a < b)
            never += bool(np.isinf(b))
            if not a < b:
                counts = " and ".join("never" if np.isinf(n) else f"{n:.0f}" for n in (a, b))
                lost.append(f"{name} to {goal:g} ({counts})")
    return Compared(won, of, never, lost)


def _verdict(
    report: Report, watched: Mapping[str, Watched], rivals: Sequence[tuple[str, str]]
) -> None:
    found = compare(watched, PAPERS_NEWTON, PAPERS_PLANES, "iterations")
    if not found.of:
        report.say("No run reached any of the relative values, so there is nothing to compare.")
        return
    report.find(
        'Lee & Lin, supplement, figure (II): "In all problems Tree-TRON is faster." Time was not '
        "compared here, only iterations: Newton, set up like TRON, needs fewer CG iterations than "
        "cutting planes without a line search (hinge) need iterations, in "
        f"{found.text} (sets and accuracies).",
        agrees=found.won == found.of,
    )
    own = _sum(compare(watched, ("Newton", SQUARED), r, "iterations") for r in rivals)
    searching = [run_ for run_ in rivals if run_[0] == PLANES[0]]
    tron = _sum(compare(watched, PAPERS_NEWTON, r, "iterations") for r in searching)
    report.find(
        "The library's own Newton needs fewer iterations than cutting planes with or without a "
        f"line search, for either loss, in {own.text}. Set up like TRON it needs fewer than "
        f"cutting planes with a line search, which the paper does not have, in {tron.text}.",
        agrees=None,
    )
    for method, lost in ((PAPERS_NEWTON[0], found.lost), ("Newton", own.lost)):
        if lost:
            report.say(f"Where {method} does not need fewer: {', '.join(lost)}.")


def _sum(found: Iterable[Compared]) -> Compared:
    won, of, never, lost = zip(*found, strict=True)
    places = Counter(place for places in lost for place in places)
    texts = [place if n == 1 else f"{place}, {n} times" for place, n in places.items()]
    return Compared(sum(won), sum(of), sum(never), texts)
