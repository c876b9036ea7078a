"""The supplement of Lee & Lin: Newton against cutting planes, zero dual variables, cost by levels.

:mod:`benchmarks.papers.newton_cells` measures and says how; here it is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.folds import is_there
from benchmarks.papers.cells import Cell, Lab, Result
from benchmarks.papers.document import Curve, Document, Panel
from benchmarks.papers.levels import tell_levels
from benchmarks.papers.models import left_out
from benchmarks.papers.newton_cells import (
    CADATA_NDCG,
    CADATA_PART,
    DEFAULT_TOL,
    FINEST,
    FORCING,
    GOALS,
    LETOR,
    choose,
    default_newton,
    optimum,
    trace,
)
from benchmarks.papers.zeros import tell_zeros
from benchmarks.report import Row
from benchmarks.sets import has_file

NAME = "newton"
TITLE = "Newton and cutting planes, zero dual variables, counting by levels"
SOURCE = (
    "Ching-Pei Lee & Chih-Jen Lin, Large-scale linear rankSVM, Neural Computation 26(4), 2014: "
    "the supplement"
)

SETS = (*LETOR, "cadata")
# C over the sum of the pairs; lambda = 1 / (2 C) over their mean.
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
    "Pairwise accuracy is the share of all pairs of the test part in the right order, queries with "
    "many pairs counting for more: no mean over queries."
)


def run(lab: Lab, document: Document) -> None:
    there = []
    for name in SETS:
        if is_there(name) if name in LETOR else has_file(name):
            there.append(name)
        else:
            document.say(left_out(name))
    if there:
        _convergence(lab, document, there)
    if "MQ2008" in there:
        tell_zeros(lab, document)
    tell_levels(lab, document)


# --- Figure (II) ----------------------------------------------------------------------------------


class Watched(NamedTuple):
    """A set: the choices of C, f* by loss, the traces by method and loss, the default stop."""

    chosen: Mapping[str, Result]
    best: Mapping[str, Result]
    traces: Mapping[tuple[str, str], Result]
    stop: Result


def _convergence(lab: Lab, document: Document, names: Sequence[str]) -> None:
    watched = {name: _watch(lab, name) for name in names}
    _tell_sets(document, watched)
    _figures(document, watched)
    _reached(lab, document, watched)


def _watch(lab: Lab, name: str) -> Watched:
    rows = lab.size(16_000, 2_000) if name == "cadata" else 0
    Cs = LETOR_CS if name in LETOR else [0.5 / strength for strength in CADATA_LAMBDAS]
    common: dict[str, Any] = {"name": name, "rows": rows}

    def cells(title: str, compute: Any, given: Sequence[dict[str, Any]]) -> list[Result]:
        todo = [
            Cell(f"{some.get('method', title)}, {name}", compute, common | some, reads=(name,))
            for some in given
        ]
        return lab.run(f"newton: {title}, {name}", todo)

    losses = (SQUARED, HINGE)
    grid = list(Cs[:: lab.size(1, 3)])
    found = cells("choosing C", choose, [{"loss": loss, "Cs": grid} for loss in losses])
    chosen = dict(zip(losses, found, strict=True))
    at = {loss: {"loss": loss, "C": chosen[loss]["C"]} for loss in losses}
    best = dict(zip(losses, cells("optimum", optimum, list(at.values())), strict=True))
    given = [
        at[loss] | {"method": method, "lower": best[loss]["lower"], "most": _most(lab)}
        for method, loss in RUNS
    ]
    traces = dict(zip(RUNS, cells("iterations", trace, given), strict=True))
    end = {"C": chosen[SQUARED]["C"], "lower": best[SQUARED]["lower"]}
    (stop,) = cells("default stopping", default_newton, [end])
    return Watched(chosen, best, traces, stop)


def _most(lab: Lab) -> int:
    """Iterations after which a run is given up."""
    return int(lab.size(10_000, 500))


def _tell_sets(document: Document, watched: Mapping[str, Watched]) -> None:
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
    document.table(
        "Figure (II): the sets, C by loss, and Newton with its default stopping",
        rows,
        "C: best pairwise accuracy on the validation part of fold 1 (C over the sum of the pairs), "
        f"for cadata on one in {CADATA_PART} of the training rows, held out (lambda = 1 / (2 C) "
        f"over the mean). Default stopping: certified relative gap of {DEFAULT_TOL:g}. {ACCURACY} "
        "NDCG is LETOR's mean NDCG, and for cadata, where 2^y means nothing, "
        f"NDCG@{CADATA_NDCG} with gain y.",
    )
    edges = [
        f"{name} ({loss.replace('_', ' ')})"
        for name, one in watched.items()
        for loss, result in one.chosen.items()
        if result["at_edge"]
    ]
    if edges:
        document.say(f"The best C is at an end of its grid for {', '.join(edges)}.", detail=True)
    gaps = [max(one.best[loss]["gap"] for one in watched.values()) for loss in (SQUARED, HINGE)]
    document.say(
        "All methods start at w = 0, and a curve shows the best point so far. The optimum f* of "
        "each loss is a certified lower bound from a fit; the largest relative gap of these fits "
        f"is {gaps[0]:.2g} (squared hinge) and {gaps[1]:.2g} (hinge), and relative values are no "
        "more exact than that. Newton is put at the CG iterations done when an outer step ends: "
        'there is no point to judge before. "Newton as TRON" has a trust region, no preconditioner '
        f"and systems solved to {FORCING:g} of the gradient; the library's own Newton has a line "
        "search and a preconditioner, which looks at a sample of X in each outer step. Cutting "
        "planes without "
        "a line search are the method of TreeRankSVM but for two savings: the risk is known to be "
        "at least zero, and planes that are long idle are dropped. A line search costs no product "
        "with X, but evaluations of the loss."
    )


def _strength(name: str, C: float) -> str:
    return f"C = 2^{np.log2(C):.0f}" if name in LETOR else f"lambda = {0.5 / C:.3g}"


def _figures(document: Document, watched: Mapping[str, Watched]) -> None:
    for key, title, label, log, how in (
        ("value", "relative function value", "(f - f*) / f*", "xy", ""),
        ("accuracy", "pairwise accuracy on the test part", "pairwise accuracy", "x", ACCURACY),
        ("ndcg", "NDCG on the test part", "NDCG", "x", ""),
    ):
        document.figure(
            f"Figure (II): {title}",
            [_panel(name, one, key, label, log) for name, one in watched.items()],
            f"Horizontal line: Newton with its default stopping. {how}".strip(),
            picture=f"papers_newton_{key}",
        )


def _panel(name: str, one: Watched, key: str, ylabel: str, log: str) -> Panel:
    curves = []
    for run_, result in one.traces.items():
        points = zip(result["iteration"], result[key], strict=True)
        curves.append(Curve(_called(run_), [(x, y) for x, y in points if x > 0]))  # no log of 0
    curves.append(Curve("Newton, default stopping", [(1.0, one.stop[key])], "level"))
    return Panel(name, curves, "iterations (CG iterations of Newton)", ylabel, log)


def _called(run_: tuple[str, str]) -> str:
    method, loss = run_
    return f"{method}, {loss.replace('_', ' ')}"


def _reached(lab: Lab, document: Document, watched: Mapping[str, Watched]) -> None:
    rows: list[Row] = []
    results = [result for one in watched.values() for result in one.traces.values()]
    short = sum(not result["arrived"] for result in results)
    ended = f"{short} of the {len(results)} runs did not get to {FINEST:g}."
    for name, one in watched.items():
        for run_, result in one.traces.items():
            row: Row = {"set": name, "method": _called(run_)}
            for what in ("iterations", "products"):
                goals = zip(GOALS, result[f"goal_{what}"], strict=True)
                row |= {f"{what} to {goal:g}": _count(count) for goal, count in goals}
            row |= {name: result[name] for name in ("iterations", "evaluations", "looks")}
            rows.append(row | {"ended at": result["reached"]})
    document.table(
        "Figure (II): iterations and products with X to a relative function value",
        rows,
        "Products with X and X' together. The last columns are of the whole run, which ends at "
        f"{FINEST:g} or after {_most(lab):,} iterations (CG iterations of Newton): iterations, "
        f"evaluations of the loss at new scores, looks of the preconditioner at X. {ended}",
    )
    rivals = [run_ for run_ in RUNS if run_[0] in PLANES]
    table: list[Row] = []
    for method in NEWTONS:
        for what in ("iterations", "products"):
            row = {"fewer": what, "by": method}
            for rival in rivals:
                found = _compare(watched, (method, SQUARED), rival, what)
                row[f"than {_called(rival)}"] = found.told()
            table.append(row)
    document.table(
        "How often Newton needs fewer",
        table,
        "Over the sets and the relative values of the table before. A value that only one of the "
        "two reached counts for that one, one that neither reached or both had at the start does "
        "not count. Different losses are different problems, each with its own C and f*; the last "
        "two columns compare at the same one.",
    )
    _verdict(lab, document, watched, rivals)


def _count(value: float) -> int | None:
    return None if np.isnan(value) else int(value)


class Compared(NamedTuple):
    """How often one needs fewer, of how many, how often as the other never got there, where not."""

    won: int
    of: int
    never: int
    lost: Sequence[str]

    def told(self) -> str:
        never = f" ({self.never} never reached)" if self.never else ""
        return f"{self.won} of {self.of}{never}"

    @property
    def against_never(self) -> str:
        """Of the comparisons won, those against a run that was given up."""
        if self.never == 0:
            return "the others got there each time"
        return f"in {self.never} of those that it won the other run never got there"


def _compare(
    watched: Mapping[str, Watched], ours: tuple[str, str], theirs: tuple[str, str], what: str
) -> Compared:
    """What both have at the start, or neither ever reaches, does not count."""
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
                lost.append(f"{name} {goal:g} ({_finite(a)} against {_finite(b)})")
    return Compared(won, of, never, lost)


def _finite(count: float) -> str:
    return f"{count:.0f}" if np.isfinite(count) else "never"


def _verdict(
    lab: Lab,
    document: Document,
    watched: Mapping[str, Watched],
    rivals: Sequence[tuple[str, str]],
) -> None:
    found = _compare(watched, PAPERS_NEWTON, PAPERS_PLANES, "iterations")
    if not found.of:
        document.say("No run got to any of the relative values: nothing to compare.")
        return
    all_won = found.won == found.of
    document.say(
        'Published: "In all problems Tree-TRON is faster." '
        + ("Here, too, by iterations: " if all_won else "Here, by iterations, this is not so: ")
        + f"{PAPERS_NEWTON[0]} needs fewer CG iterations than the cutting planes without a line "
        f"search need iterations, for the hinge, in {found.won} of {found.of} cases; "
        + ("" if all_won else f"not for {', '.join(found.lost)}; ")
        + f"{found.against_never}. Runs are given up after {_most(lab):,} iterations."
    )
    own = _sum(_compare(watched, ("Newton", SQUARED), r, "iterations") for r in rivals)
    where = "" if own.won == own.of else f"; not for {', '.join(own.lost)}"
    searching = [run_ for run_ in rivals if run_[0] == PLANES[0]]
    held = _sum(_compare(watched, PAPERS_NEWTON, r, "iterations") for r in searching)
    hold = "it is not always"
    if held.won == held.of:
        hold = "it is"
    elif 2 * held.won < held.of:
        hold = "mostly it is not"
    document.say(
        "The library's own Newton needs fewer iterations than cutting planes with or without a "
        f"line search, for either loss, in {own.won} of {own.of} cases{where}; "
        f"{own.against_never}. Whether {PAPERS_NEWTON[0]} is ahead of cutting planes with a line "
        f"search, which the paper does not ask: by iterations {hold}, it needs fewer in "
        f"{held.won} of {held.of} cases; {held.against_never}."
    )


def _sum(found: Iterable[Compared]) -> Compared:
    won, of, never, lost = zip(*found, strict=True)
    places = Counter(place for places in lost for place in places)
    told = [place if n == 1 else f"{place}, {n} times" for place, n in places.items()]
    return Compared(sum(won), sum(of), sum(never), told)
