"""The supplement of Lee & Lin: Newton against cutting planes, zero dual variables, cost by levels.

:mod:`benchmarks.papers.newton_cells` measures and says how; here it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import growth_exponent
from benchmarks.folds import N_FOLDS, is_there
from benchmarks.papers.cells import Cell, Lab, Result
from benchmarks.papers.document import Curve, Document, Panel
from benchmarks.papers.newton_cells import (
    CADATA_NDCG,
    DEFAULT_TOL,
    FINEST,
    GOALS,
    LETOR,
    choose,
    default_newton,
    dual_zeros,
    levels,
    optimum,
    trace,
)
from benchmarks.report import Row
from benchmarks.sets import data_folder
from ranksvm.backends.native import COUNTINGS

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

# Table (I).
PUBLISHED_ZEROS = {
    "MQ2007": 5.15,
    "MQ2008": 22.44,
    "YAHOO LTRC set 2": 11.14,
    "MQ2007-list": 19.64,
    "MQ2008-list": 23.86,
}
ZEROS_C = 2.0**20
ZEROS_TOLS = (1e-3, 1e-9)
CHECK_SOLVER, CHECK_TOL = "bundle", 1e-6

# O(l k) countings are left out above so many steps; a step takes a few nanoseconds.
MOST_STEPS = 6e8
# Growth is looked at over all k, and over so many of the largest.
LARGEST = 4


class Bound(NamedTuple):
    """What is said about a counting, the growth of that with k, and what difference is small."""

    text: str
    steps: Callable[[float], float]
    close: float = 0.1


BOUNDS = {
    "auto": Bound("O(l log k)", np.log2),
    "tree": Bound("O(l log k)", np.log2),
    "direct": Bound("O(l k)", float, 0.25),
    "joachims": Bound("O(l k)", float, 0.25),
    "pairs": Bound("O(l^2)", lambda k: 1.0 - 1.0 / k),
}


def run(lab: Lab, document: Document) -> None:
    there = []
    for name in SETS:
        if is_there(name) if name in LETOR else (data_folder() / name).is_dir():
            there.append(name)
        else:
            document.say(f"{name} is skipped: not there; $RANKSVM_DATA names the folder of sets.")
    if there:
        _convergence(lab, document, there)
    if "MQ2008" in there:
        _zeros(lab, document)
    _levels(lab, document)


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


# --- Table (I) ------------------------------------------------------------------------------------


def _zeros(lab: Lab, document: Document) -> None:
    name = "MQ2008"
    folds: list[int | None] = [*range(N_FOLDS), None]

    def cell(fold: int | None, solver: str, tol: float) -> Cell:
        about = {"name": name, "fold": fold, "C": ZEROS_C, "solver": solver, "tol": tol}
        return Cell(f"{_part(fold)}, {solver}, {tol:g}", dual_zeros, about, reads=(name,))

    todo = [cell(fold, "newton", tol) for tol in ZEROS_TOLS for fold in folds]
    *fits, check = lab.run("newton: zero dual variables", [*todo, cell(0, CHECK_SOLVER, CHECK_TOL)])
    coarse, fine = fits[: len(folds)], fits[len(folds) :]
    shares = [_zero_share(fit) for fit in fine]
    rows: list[Row] = [{"data": "published", "zero, %": f"{PUBLISHED_ZEROS[name]:.2f}"}]
    rows += [_zero_row(_part(fold), fit) for fold, fit in zip(folds, fine, strict=True)]
    mean = float(np.mean(shares[:-1]))
    rows.insert(-1, {"data": "mean of the folds", "zero, %": f"{mean:.2f}"})
    document.table(
        f"Table (I): zero dual variables, {name}, squared hinge, C = 2^{np.log2(ZEROS_C):.0f}",
        rows,
        "Zero: margin at least 1, the pair is not violated. Right: margin above 0. The last column "
        "but one is the share of the non-zero ones whose margin is between 0 and 1.",
    )
    moved = max(abs(_zero_share(a) - share) for a, share in zip(coarse, shares, strict=True))
    distance = f"by at most {moved:.1g} percentage points" if moved > 0.0 else "by not one pair"
    candidates = {_part(fold): share for fold, share in zip(folds, shares, strict=True)}
    candidates["mean of the folds"] = mean
    published = PUBLISHED_ZEROS[name]
    nearest = min(candidates, key=lambda part: abs(candidates[part] - published))
    first = candidates[_part(0)]
    same = f"{first:.2f}" == f"{published:.2f}"
    agreement = (
        "the published figure to its last digit"
        if same
        else f"against {published:.2f}% published; nearest is {nearest}, {candidates[nearest]:.2f}%"
    )
    document.say(
        f"Fold 1 has {first:.2f}% zeros, {agreement}. Between tolerances of {ZEROS_TOLS[0]:g} and "
        f"{ZEROS_TOLS[1]:g} it moves {distance} on any of these parts; on fold 1 another solver "
        f"(cutting planes, relative gap {check['gap']:.1g}) gives {_zero_share(check):.2f}%."
    )
    others = (f"{other} ({share}%)" for other, share in PUBLISHED_ZEROS.items() if other != name)
    document.say(f"Published but not computed, as the sets are not there: {', '.join(others)}.")
    right = [fit["right"] / fit["pairs"] for fit in fine]
    within = [fit["within"] / fit["violated"] for fit in fine]
    seen = min(right) > 0.5 and min(within) > 0.5
    document.say(
        'Published: "while most pairs are correctly classified, they satisfy '
        "0 < w'(x_i - x_j) < 1 only\". "
        + ("Here, too" if seen else "Here this is not so on all parts")
        + f": {100 * min(right):.1f}% to {100 * max(right):.1f}% of the pairs are in the right "
        f"order, and {100 * min(within):.1f}% to {100 * max(within):.1f}% of the non-zero ones "
        "have a margin between 0 and 1."
    )


def _part(fold: int | None) -> str:
    return "all five parts" if fold is None else f"fold {fold + 1}, training part"


def _zero_share(fit: Result) -> float:
    return 100.0 * (1.0 - fit["violated"] / fit["pairs"])


def _zero_row(part: str, fit: Result) -> Row:
    return {
        "data": part,
        "zero, %": f"{_zero_share(fit):.2f}",
        "pairs": fit["pairs"],
        "right, %": f"{100 * fit['right'] / fit['pairs']:.2f}",
        "0 < margin < 1 of non-zero, %": f"{100 * fit['within'] / fit['violated']:.2f}",
        "relative gap": fit["gap"],
    }


# --- Section II -----------------------------------------------------------------------------------


def _levels(lab: Lab, document: Document) -> None:
    sizes = lab.size((16_384, 131_072), (1_024, 4_096))
    rounds = lab.size(5, 3)
    step = lab.size(1, 2)
    cells = [
        Cell(
            f"l = {n_items:,}",
            levels,
            {"n_items": n_items, "countings": _to_measure(n_items, sizes, step), "rounds": rounds},
        )
        for n_items in sizes
    ]
    panels: list[Panel] = []
    rows: list[Row] = []
    growth: list[Row] = []
    for n_items, cell, found in zip(
        sizes, cells, lab.run("newton: cost by levels", cells), strict=True
    ):
        times = {
            counting: dict(zip(ks, found[counting].tolist(), strict=True))
            for counting, ks in cell.arguments["countings"].items()
        }
        curves = [Curve(counting, list(by_k.items())) for counting, by_k in times.items()]
        panels.append(Panel(f"l = {n_items:,}", curves, "levels k", "ms"))
        rows += [
            {"l": n_items, "k": k} | {name: times.get(name, {}).get(k) for name in COUNTINGS}
            for k in times["auto"]
        ]
        growth += [_growth_row(n_items, counting, by_k) for counting, by_k in times.items()]
    document.figure(
        "Section II: one evaluation by the number of levels",
        panels,
        "Value and gradient of the squared hinge at fixed scores, one query, one thread; the "
        f"shortest of {rounds} rounds.",
        picture="newton-levels",
    )
    document.table(
        "Section II: ms of one evaluation, one thread",
        rows,
        "Left out (-): all pairs at the larger l, and O(l k) countings where l k is above "
        f"{MOST_STEPS:.0e}.",
        detail=True,
    )
    document.table(
        "Section II: growth with k",
        growth,
        "Slope of log ms against log k by least squares, over all k and over the "
        f"{LARGEST} largest k that were measured for the counting; beside it that of the bound "
        "itself over the same k (of k, of log k, of the number of pairs). Times include the sort, "
        "which does not know k and rules at small k. The paper gives bounds alone, no times.",
    )
    for counting in ("direct", "joachims", "tree", "auto"):
        document.say(_growth_told(counting, [row for row in growth if row["counting"] == counting]))
    _crossing(document, rows)


def _to_measure(n_items: int, sizes: Sequence[int], step: int) -> dict[str, list[int]]:
    """The k to measure for each counting: powers of two up to ``n_items``, but not for hours."""
    ks = [2**e for e in range(int(np.log2(n_items)), 0, -step)][::-1]
    few = [k for k in ks if n_items * k <= MOST_STEPS]
    wanted = {"auto": ks, "tree": ks, "direct": few, "joachims": few}
    return wanted | ({"pairs": ks} if n_items == min(sizes) else {})


def _growth_row(n_items: int, counting: str, by_k: Mapping[int, float]) -> Row:
    bound = BOUNDS[counting]
    row: Row = {"l": n_items, "counting": counting, "bound": bound.text}
    ks = sorted(by_k)
    # log2(2) = 1 and log 1 = 0: the bounds are positive from k = 2 on.
    for label, some in (("all k", ks), ("largest k", ks[-LARGEST:])):
        row[label] = growth_exponent(some, [by_k[k] for k in some])
        row[f"bound, {label}"] = growth_exponent(some, [bound.steps(k) for k in some])
    return row


def _growth_told(counting: str, rows: Sequence[Row]) -> str:
    bound = BOUNDS[counting]
    # k itself rules only where it is large; log k, if anything, everywhere.
    labels = ("largest k",) if bound.text == "O(l k)" else ("all k", "largest k")
    told = []
    for label in labels:
        found = [(row["l"], row[label], row[f"bound, {label}"]) for row in rows]
        if all(abs(mine - its) <= bound.close for _, mine, its in found):
            verdict = "this agrees with the bound"
        elif all(mine <= its + bound.close for _, mine, its in found):
            verdict = "this is within the bound"
        else:
            above = [f"l = {n:,}" for n, mine, its in found if mine > its + bound.close]
            verdict = f"this is more than the bound at {' and '.join(above)}, which counts steps "
            verdict += "and not what a step costs in memory"
        numbers = ", ".join(f"{mine:.2f} at l = {n:,} (bound {its:.2f})" for n, mine, its in found)
        told.append(f"over {label.replace('largest', 'the largest')} {numbers}; {verdict}")
    return f"{counting}, {bound.text}: exponents {'. And '.join(told)}."


def _crossing(document: Document, rows: Sequence[Row]) -> None:
    """From which k on the tree is faster than the direct counting, and where ours stands."""
    parts = []
    for n_items in dict.fromkeys(row["l"] for row in rows):
        mine = [row for row in rows if row["l"] == n_items and row["direct"] is not None]
        later = [
            row["k"]
            for i, row in enumerate(mine)
            if all(after["tree"] < after["direct"] for after in mine[i:])
        ]
        told = f"from k = {later[0]:,} on" if later else "at no k measured"
        parts.append(f"{told} for l = {n_items:,}")
    others = [
        min(row[name] for name in COUNTINGS if name != "auto" and row[name] is not None)
        / row["auto"]
        for row in rows
    ]
    fastest = sum(other > 1.0 for other in others)
    document.say(
        f"The tree is faster than direct counting {', '.join(parts)}. The library's own counting "
        f"(auto) is the fastest at {fastest} of {len(rows)} points; the fastest of the others "
        f"takes {min(others):.2f} to {max(others):.2f} times as long."
    )
