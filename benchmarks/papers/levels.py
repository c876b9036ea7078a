"""Section II of the supplement of Lee & Lin: the cost of counting by the number of levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.common import growth_exponent
from benchmarks.papers.jobs import Job, Runner
from benchmarks.papers.measure.newton import levels
from benchmarks.papers.report import Curve, Panel, Report
from benchmarks.report import Row
from ranksvm.backends.native import COUNTINGS

# O(l k) countings are left out above so many steps; a step takes a few nanoseconds.
MOST_STEPS = 6e8
# Growth is fitted over all k, and over so many of the largest.
LARGEST = 4


class Bound(NamedTuple):
    """A bound as a text, its growth with k, and which difference of exponents is small."""

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


def report_levels(runner: Runner, report: Report) -> None:
    sizes = runner.size((16_384, 131_072), (1_024, 4_096))
    rounds = runner.size(5, 3)
    step = runner.size(1, 2)
    jobs = [
        Job(
            f"l = {n_items:,}",
            levels,
            {"n_items": n_items, "countings": _to_measure(n_items, sizes, step), "rounds": rounds},
        )
        for n_items in sizes
    ]
    panels: list[Panel] = []
    rows: list[Row] = []
    growth: list[Row] = []
    results = runner.run("newton: cost by levels", jobs)
    for n_items, job, found in zip(sizes, jobs, results, strict=True):
        times = {
            counting: dict(zip(ks, found[counting].tolist(), strict=True))
            for counting, ks in job.arguments["countings"].items()
        }
        curves = [Curve(counting, list(by_k.items())) for counting, by_k in times.items()]
        panels.append(Panel(f"l = {n_items:,}", curves, "levels k", "ms"))
        rows += [
            {"l": n_items, "k": k} | {name: times.get(name, {}).get(k) for name in COUNTINGS}
            for k in times["auto"]
        ]
        growth += [_growth_row(n_items, counting, by_k) for counting, by_k in times.items()]
    report.figure(
        "Section II: milliseconds of one evaluation by the number of levels",
        panels,
        "Value and gradient of the squared hinge at fixed scores, one query, one thread; the "
        f"shortest of {rounds} rounds.",
    )
    skipped = any(row["l"] * row["k"] > MOST_STEPS for row in rows)
    report.table(
        "Section II: milliseconds of one evaluation, one thread",
        rows,
        f"Left out (-): all pairs above l = {min(sizes):,}"
        + (f", and O(l k) countings where l k is above {MOST_STEPS:g}." if skipped else "."),
    )
    report.table(
        "Section II: growth with k",
        growth,
        "Slope of log milliseconds against log k by least squares, over all k and over the "
        f"{LARGEST} largest k measured for the counting; beside it the slope of the bound over the "
        "same k. Times include a sort, which does not depend on k. The paper gives bounds, no "
        "times.",
    )
    within, above = [], []
    for counting in ("direct", "joachims", "tree", "auto"):
        mine = [row for row in growth if row["counting"] == counting]
        text, agrees = _compare_with_bound(counting, mine)
        report.say(text)
        (within if agrees else above).append(f"{counting} ({BOUNDS[counting].text})")
    report.find(
        "Lee & Lin, supplement, section II, cost of counting by the number of levels k: the growth "
        f"of the measured time is within the bound for {', '.join(within) or 'no counting'}"
        + (f"; above it, at least for the largest k, for {', '.join(above)}" if above else "")
        + ".",
        agrees=not above,
    )
    _crossing(report, rows)


def _to_measure(n_items: int, sizes: Sequence[int], step: int) -> dict[str, list[int]]:
    """The k to measure for each counting: powers of two up to ``n_items``, if not too slow."""
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


def _compare_with_bound(counting: str, rows: Sequence[Row]) -> tuple[str, bool]:
    """Say how a counting grows, and whether that is within its bound."""
    bound = BOUNDS[counting]
    # The term with k dominates O(l k) only where k is large.
    labels = ("largest k",) if bound.text == "O(l k)" else ("all k", "largest k")
    parts, agrees = [], True
    for label in labels:
        found = [(row["l"], row[label], row[f"bound, {label}"]) for row in rows]
        above = [f"l = {n:,}" for n, mine, its in found if mine > its + bound.close]
        numbers = ", ".join(f"{mine:.2f} at l = {n:,} (bound {its:.2f})" for n, mine, its in found)
        which = f"above the bound at {' and '.join(above)}" if above else "within the bound"
        parts.append(f"over {label.replace('largest', 'the largest')} {numbers}: {which}")
        agrees = agrees and not above
    text = (
        f'counting="{counting}", {bound.text}, growth exponents in k {"; ".join(parts)} '
        f"(differences up to {bound.close:g} do not count)."
    )
    if not agrees:
        text += " The bound counts steps, not what a step costs."
    return text, agrees


def _crossing(report: Report, rows: Sequence[Row]) -> None:
    """From which k on the tree is faster than direct counting, and how fast ours is."""
    parts = []
    for n_items in dict.fromkeys(row["l"] for row in rows):
        mine = [row for row in rows if row["l"] == n_items and row["direct"] is not None]
        later = [
            row["k"]
            for i, row in enumerate(mine)
            if all(after["tree"] < after["direct"] for after in mine[i:])
        ]
        since = f"from k = {later[0]:,} on" if later else "at no k measured"
        parts.append(f"{since} for l = {n_items:,}")
    others = [
        min(row[name] for name in COUNTINGS if name != "auto" and row[name] is not None)
        / row["auto"]
        for row in rows
    ]
    fastest = sum(other > 1.0 for other in others)
    report.say(
        f"The tree is faster than direct counting {', '.join(parts)}. The library's own counting "
        f"(auto) is the fastest at {fastest} of {len(rows)} points; the fastest of the others "
        f"takes {min(others):.2f} to {max(others):.2f} times as long."
    )
