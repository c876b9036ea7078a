"""Nystrom and random Fourier features: time against the exact machine, memory, growth.

The objective of an approximation is that of its own features: its gap says how well that was
solved, and NDCG@10 on held-out queries how much the approximation costs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.common import TOL, Config, growth_exponent
from benchmarks.kernel_fits import fit_in_child, kernel_fit, median_fits
from benchmarks.kernels import Exact, exact_fit
from benchmarks.report import Report, Row
from benchmarks.sets import letor_rbf
from ranksvm.metrics import ndcg

TITLE = "approximate kernel machines"

NAMES = {"nystroem": "Nystrom", "fourier": "Fourier"}
COMPONENTS = 2_000
GROWTH_COMPONENTS = 500
# About 41 items a query: 1e4 to 3e5 items.
GROWTH_QUERIES = (240, 725, 2_400, 7_250)


def run(config: Config, report: Report) -> None:
    _against_exact(exact_fit(config), config, report)
    _letor(config, report)
    _growth(config, report)


def _against_exact(exact: Exact, config: Config, report: Report) -> None:
    components = config.size(COMPONENTS, 200)
    cases = [(kind, dtype) for dtype in ("float64", "float32") for kind in NAMES]
    calls = {
        f"{kind} {dtype}": partial(
            kernel_fit,
            exact.task,
            threads=config.threads,
            approximation=kind,
            n_components=components,
            dtype=dtype,
        )
        for kind, dtype in cases
    }
    fits = median_fits(calls, config, rounds=3, seconds=config.size(40.0, 1.0))
    held_out = exact.held_out
    rows: list[Row] = [
        {
            "machine": "exact",
            "type": "float64",
            **exact.fit.row(),
            "/ exact": 1.0,
            "NDCG@10": ndcg(held_out.y, exact.scores, held_out.qid, k=10),
        }
    ]
    for (kind, dtype), fit in zip(cases, fits.values(), strict=True):
        share = fit.seconds / exact.fit.seconds
        rows.append(
            {
                "machine": f"{NAMES[kind]} {components:,}",
                "type": dtype,
                **fit.row(),
                "/ exact": share,
                "NDCG@10": ndcg(held_out.y, fit.model.predict(held_out.X), held_out.qid, k=10),
            }
        )
        if dtype == "float64" and exact.full_size:
            detail = f"{exact.task.n_items:,} items, {fit.model.status_}"
            report.reach(f"{kind}_seconds", fit.seconds, detail)
            report.reach(f"{kind}_share", share, f"exact: {exact.fit.seconds:.1f} s")
    task = exact.task
    report.table(f"{task.name} items, {exact.n_queries:,} queries, {task.strength}", rows)
    report.note(f"gap {TOL:g}; forming: K, or the features; outside includes landmarks")
    report.note(f"NDCG@10: on {held_out.n_items:,} held-out items")


def _letor(config: Config, report: Report) -> None:
    """The fit of the memory goal, in a process of its own."""
    rows: list[Row] = []
    for dtype in ("float64", "float32"):
        row = fit_in_child(
            "LETOR",
            config.size(1_700, 30),
            threads=config.threads,
            rounds=config.size(2, 1),
            approximation="nystroem",
            n_components=config.size(COMPONENTS, 200),
            dtype=dtype,
        )
        rows.append({"set": row["set"], "type": dtype, **row})
    task = letor_rbf(config.size(1_700, 30))
    report.table(f"Nystrom, {task.n_items:,} items, in a process of its own", rows)
    report.note("peak: of the whole process, libraries and data included")
    judged = rows[0]
    detail = f"{task.n_items:,} items, {judged['products']} products, {judged['status']}"
    report.reach("nystroem_letor", judged["seconds"], detail)
    report.reach("nystroem_memory", judged["peak, GB"], f"{task.n_items:,} items, float64")


def _growth(config: Config, report: Report) -> None:
    """C over the sum of the pairs, and over their mean: the same strength at the smallest size."""
    components = config.size(GROWTH_COMPONENTS, 50)
    sizes = config.size(GROWTH_QUERIES, (20, 40, 80))
    mean_C = letor_rbf(sizes[0]).C * letor_rbf(sizes[0]).n_pairs
    rows: list[Row] = []
    for n_queries in sizes:
        task = letor_rbf(n_queries)
        tasks = {"sum": task, "mean": replace(task, C=mean_C, reduction="mean")}
        calls = {
            reduction: partial(
                kernel_fit,
                one,
                threads=config.threads,
                approximation="nystroem",
                n_components=components,
            )
            for reduction, one in tasks.items()
        }
        fits = median_fits(calls, config, rounds=5, seconds=config.size(12.0, 0.3))
        for reduction, fit in fits.items():
            rows.append({"items": task.n_items, "reduction": reduction, **fit.row()})
    letor_rbf.cache_clear()
    report.table(f"Nystrom, {components} components, {task.strength}", rows)
    report.note("mean: as strong as the sum at the smallest size, and then the same problem")
    slopes = {reduction: _slope(rows, reduction) for reduction in ("sum", "mean")}
    shown = ", ".join(f"{reduction} {slope:.2f}" for reduction, slope in slopes.items())
    detail = f"{rows[0]['items']:,} to {rows[-1]['items']:,} items; C over the {shown}"
    report.reach("nystroem_growth", max(slopes.values()), detail)


def _slope(rows: list[Row], reduction: str) -> float:
    mine = [row for row in rows if row["reduction"] == reduction]
    slope = growth_exponent([row["items"] for row in mine], [row["seconds"] for row in mine])
    assert slope is not None
    return slope
