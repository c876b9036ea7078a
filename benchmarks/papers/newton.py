"""The supplement of Lee & Lin: Newton against cutting planes, zero dual variables, cost by levels.

:mod:`benchmarks.papers.newton_cells` measures and says how; here it is told.
"""

from __future__ import annotations

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
    DEFAULT_TOL,
    FINEST,
    GOALS,
    LETOR,
    choose,
    default_newton,
    optimum,
    trace,
)
from benchmarks.papers.zeros import tell_zeros
from benchmarks.report import Row
from benchmarks.sets import data_folder

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


def run(lab: Lab, document: Document) -> None:
    there = []
    for name in SETS:
        if is_there(name) if name in LETOR else (data_folder() / name).is_dir():
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
    _reached(document, watched)


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
        at[loss]
        | {"method": method, "lower": best[loss]["lower"], "stop_after": lab.size(20.0, 1.5)}
        for method, loss in RUNS
    ]
    traces = dict(zip(RUNS, cells("iterations", trace, given), strict=True))
    end = {"C": chosen[SQUARED]["C"], "lower": best[SQUARED]["lower"]}
    (stop,) = cells("default stopping", default_newton, [end])
    return Watched(chosen, best, traces, stop)


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
        "for cadata on a held-out quarter of the training rows (lambda = 1 / (2 C) over the mean). "
        f"Default stopping: certified gap of {DEFAULT_TOL:g}. Pairwise accuracy over all pairs of "
        "the test part; NDCG is LETOR's mean NDCG, and for cadata, where 2^y means nothing, "
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
        "each loss is a certified lower bound from a fit to a relative gap of at most "
        f"{gaps[0]:.1g} (squared hinge) and {gaps[1]:.1g} (hinge); relative values are no more "
        "exact than that. Newton is put at the CG iterations done when an outer step ends: there "
        'is no point to judge before. "Newton as TRON" has a trust region, no preconditioner and '
        "systems solved to a tenth of the gradient; the library's own Newton has a line search and "
        "a preconditioner, which looks at a sample of X in each outer step. Cutting planes without "
        "a line search are the method of TreeRankSVM but for two savings: the risk is known to be "
        "at least zero, and planes that are long idle are dropped. A line search costs no product "
        "with X, but evaluations of the loss."
    )


def _strength(name: str, C: float) -> str:
    return f"C = 2^{np.log2(C):.0f}" if name in LETOR else f"lambda = {0.5 / C:.3g}"


def _figures(document: Document, watched: Mapping[str, Watched]) -> None:
    for key, title, label, log in (
        ("value", "relative function value", "(f - f*) / f*", "xy"),
        ("accuracy", "pairwise accuracy on the test part", "pairwise accuracy", "x"),
        ("ndcg", "NDCG on the test part", "NDCG", "x"),
    ):
        document.figure(
            f"Figure (II): {title}",
            [_panel(name, one, key, label, log) for name, one in watched.items()],
            "Horizontal line: Newton with its default stopping.",
            picture=f"newton-{key}",
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


def _reached(document: Document, watched: Mapping[str, Watched]) -> None:
    rows: list[Row] = []
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
        f"{FINEST:g} or when the time is up: iterations, evaluations of the loss at new scores, "
        "looks of the preconditioner at X.",
    )
    rivals = [run_ for run_ in RUNS if run_[0] in PLANES]
    table: list[Row] = []
    for method in NEWTONS:
        for what in ("iterations", "products"):
            row = {"fewer": what, "by": method}
            for rival in rivals:
                won, of, _ = _compare(watched, (method, SQUARED), rival, what)
                row[f"than {_called(rival)}"] = f"{won} of {of}"
            table.append(row)
    document.table(
        "How often Newton needs fewer",
        table,
        "Over the sets and the relative values of the table before. Different losses are "
        "different problems, each with its own C and f*; the last two columns compare at the same "
        "one.",
    )
    _verdict(document, watched, rivals)


def _count(value: float) -> int | None:
    return None if np.isnan(value) else int(value)


def _compare(
    watched: Mapping[str, Watched], ours: tuple[str, str], theirs: tuple[str, str], what: str
) -> tuple[int, int, list[str]]:
    """How often one needs fewer, of how many, and where it does not.

    What both have at the start, or neither ever reaches, does not count.
    """
    won, of, lost = 0, 0, []
    for name, one in watched.items():
        left, right = (np.nan_to_num(one.traces[r][f"goal_{what}"], nan=np.inf)
                       for r in (ours, theirs))  # fmt: skip
        for goal, a, b in zip(GOALS, left, right, strict=True):
            if (a == b == 0) or (np.isinf(a) and np.isinf(b)):
                continue
            of += 1
            won += bool(a < b)
            if not a < b:
                lost.append(f"{name} {goal:g} ({_finite(a)} against {_finite(b)})")
    return won, of, lost


def _finite(count: float) -> str:
    return f"{count:.0f}" if np.isfinite(count) else "never"


def _verdict(
    document: Document, watched: Mapping[str, Watched], rivals: Sequence[tuple[str, str]]
) -> None:
    won, of, lost = _compare(watched, PAPERS_NEWTON, PAPERS_PLANES, "iterations")
    text = 'Published: "In all problems Tree-TRON is faster." '
    if won == of:
        text += (
            f"Here, too: {PAPERS_NEWTON[0]} needs fewer CG iterations than the cutting planes "
            f"without a line search need iterations, for the hinge, in all {of} cases."
        )
    else:
        text += (
            f"Here {PAPERS_NEWTON[0]} needs fewer CG iterations than the cutting planes without a "
            f"line search, for the hinge, in {won} of {of} cases; not for {', '.join(lost)}."
        )
    document.say(text)
    won, of, lost = _sum(_compare(watched, ("Newton", SQUARED), r, "iterations") for r in rivals)
    where = "everywhere" if won == of else f"in {won} of {of} cases; not for {', '.join(lost)}"
    searching = [run_ for run_ in rivals if run_[0] == PLANES[0]]
    held, cases, _ = _sum(_compare(watched, PAPERS_NEWTON, r, "iterations") for r in searching)
    hold = "it is" if held == cases else "it is not" if 2 * held < cases else "it is not always"
    document.say(
        "The library's own Newton needs fewer iterations than any of the cutting planes "
        f"{where}. Whether {PAPERS_NEWTON[0]} is ahead of cutting planes with a line search, which "
        f"the paper does not ask: by iterations {hold}, it needs fewer in {held} of {cases} cases."
    )


def _sum(found: Iterable[tuple[int, int, list[str]]]) -> tuple[int, int, list[str]]:
    won, of, lost = zip(*found, strict=True)
    return sum(won), sum(of), list(dict.fromkeys(place for places in lost for place in places))
