"""Section II of the supplement of Lee & Lin: the cost of counting as the levels get many.

:mod:`benchmarks.papers.newton_cells` measures and says how; here it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.common import growth_exponent
from benchmarks.papers.cells import Cell, Lab
from benchmarks.papers.document import Curve, Document, Panel
from benchmarks.papers.newton_cells import levels
from benchmarks.report import Row
from ranksvm.backends.native import COUNTINGS

__all__ = ["tell_levels"]

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


def tell_levels(lab: Lab, document: Document) -> None:
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
        picture="papers_newton_levels",
    )
    skipped = any(row["l"] * row["k"] > MOST_STEPS for row in rows)
    document.table(
        "Section II: ms of one evaluation, one thread",
        rows,
        f"Left out (-): all pairs above l = {min(sizes):,}"
        + (f", and O(l k) countings where l k is above {MOST_STEPS:g}." if skipped else "."),
        detail=True,
    )
    document.table(
        "Section II: growth with k",
        growth,
        "Slope of log ms against log k by least squares, over all k and over the "
        f"{LARGEST} largest k that were measured for the counting; beside it that of the bound "
        "itself over the same k (of k, of log k, of the number of pairs). Times include the sort, "
        "which does not know k. The paper gives bounds alone, no times.",
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
            verdict = f"this agrees with the bound to within {bound.close:g}"
        elif all(mine <= its for _, mine, its in found):
            verdict = "this is within the bound"
        elif all(mine <= its + bound.close for _, mine, its in found):
            verdict = f"this is within the bound but for at most {bound.close:g}"
        else:
            above = [f"l = {n:,}" for n, mine, its in found if mine > its + bound.close]
            verdict = f"this is above the bound by more than {bound.close:g} at "
            verdict += f"{' and '.join(above)}; the bound counts steps, not what a step costs"
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
