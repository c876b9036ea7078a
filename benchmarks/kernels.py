"""Exact kernel machines: products with K, where the time goes, K in little memory, the floor.

K is symmetric and one half of it is kept: 4 n^2 bytes in float64, 7 GB at MQ2007's size.  A product
reads it once, so that no fit in memory can be faster than its number of products times the time
that the machine takes to read so much.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import SEED, TOL, Array, Call, Config, interleave, pinned
from benchmarks.kernel_fits import KernelFit, fit_in_child, kernel_fit, median_fits
from benchmarks.report import Report, Row
from benchmarks.sets import Task, mq2007_like, mq2008_rbf
from ranksvm.data import RankingData
from ranksvm.learners.participants import comparable_items
from ranksvm.maps.gram import TiledGram
from ranksvm.maps.kernels import Kernel
from ranksvm.metrics import ndcg

TITLE = "exact kernel machines"

QUERIES = 1_017
# Of the memory that is free, K may take so much.
SHARE_OF_MEMORY = 0.75
# Seconds after which a fit that no goal speaks of is stopped, and one that a goal speaks of.
LONG, LONGEST = 90.0, 300.0
# The reading of the floor: 1 GB, or less in a quick run.
FLOOR_ROWS = 12_500
FLOOR_COLUMNS = 10_000


@dataclass(frozen=True)
class Exact:
    """The exact fit at MQ2007's size with all of K in memory; other parts compare with it.

    ``full_size`` is false if the machine has too little memory for it, and the set is smaller.
    """

    n_queries: int
    task: Task
    held_out: Task
    full_size: bool
    fit: KernelFit

    @property
    def scores(self) -> Array:
        return self.fit.model.predict(self.held_out.X)


@lru_cache(maxsize=1)
def exact_fit(config: Config) -> Exact:
    """Run once for all parts that ask."""
    wanted = n_queries = config.size(QUERIES, 40)
    needed, free = budget(mq2007_like(wanted)[0].n_items), SHARE_OF_MEMORY * free_memory()
    if needed > free:
        n_queries = int(wanted * (free / needed) ** 0.5)
    task, held_out = mq2007_like(n_queries)
    with pinned(config.threads):
        fit = kernel_fit(
            task,
            threads=config.threads,
            memory_budget=budget(task.n_items),
            stop_after=LONGEST,
        )
    return Exact(n_queries, task, held_out, n_queries == wanted, fit)


def budget(n_items: int) -> int:
    """Bytes for all of K in float64, its preconditioner and the tiles."""
    return int(1.02 * (4 * n_items**2 + 8 * 1_000 * n_items)) + 64 * 10**6


def free_memory() -> float:
    """Bytes that are free for a new process; 8 GB where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 8e9
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def run(config: Config, report: Report) -> None:
    exact = exact_fit(config)
    if not exact.full_size:
        report.note(f"too little memory for {QUERIES:,} queries: {exact.n_queries:,}, and no goals")
    _mq2007(exact, config, report)
    _floor(exact, config, report)
    _others(config, report)


# --- MQ2007's size --------------------------------------------------------------------------------


def _mq2007(exact: Exact, config: Config, report: Report) -> None:
    """In memory, in less memory, in float32; held-out NDCG and difference of the scores."""
    task, held_out = exact.task, exact.held_out
    scores = exact.scores
    rows = [_row("float64, all of K", exact.fit.row(), scores, scores, held_out)]
    for dtype in ("float64", "float32"):
        with pinned(config.threads):
            fit = kernel_fit(task, threads=config.threads, stop_after=LONG, dtype=dtype)
        name = f"{dtype}, 4 GB (default)"
        rows.append(_row(name, fit.row(), fit.model.predict(held_out.X), scores, held_out))
    memory = config.size(10**9, 9 * 10**6)
    tiled, others = _tiled(exact, memory, config)
    rows.append(_row(f"float64, {memory / 1e9:g} GB", tiled, others, scores, held_out))
    report.table(f"{task.name} items, {exact.n_queries:,} queries, {task.strength}", rows)
    report.note(f"gap {TOL:g}; outside: part of the time not in forming K or products with it")
    report.note(f"difference: of scores on {held_out.n_items:,} held-out items, / their deviation")
    report.note("peak: of the whole process, libraries and data included")
    if not exact.full_size:
        return
    fit = exact.fit
    detail = f"{task.n_items:,} items, {fit.model.status_}, gap {fit.relative_gap:.1e}"
    report.reach("kernel_products", fit.model.n_products_, detail)
    report.reach("kernel_outside", fit.outside, f"{fit.seconds * fit.outside:.1f} s")
    report.reach("kernel_seconds", fit.seconds, detail)
    last = rows[-1]
    report.reach("tiled_scores", last["difference"], f"{tiled['seconds']:.0f} s, {tiled['status']}")
    beyond = tiled["peak, GB"] - memory / 1e9
    report.reach("tiled_memory", beyond, f"peak {tiled['peak, GB']:.2f} GB")


def _tiled(exact: Exact, memory: int, config: Config) -> tuple[Row, Array]:
    """A fit in little memory, in a process of its own, and its scores of the held-out items."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.npy"
        row = fit_in_child(
            "MQ2007",
            exact.n_queries,
            threads=config.threads,
            scores=path,
            memory_budget=memory,
            stop_after=LONGEST,
        )
        return row, np.load(path)


def _row(name: str, fit: Row, scores: Array, exact: Array, held_out: Task) -> Row:
    return {
        "memory": name,
        **_without(fit, "set", "strength", "landmarks, s"),
        "s / product": fit["products, s"] / fit["products"],
        "difference": float(np.abs(scores - exact).max() / exact.std()),
        "NDCG@10": ndcg(held_out.y, scores, held_out.qid, k=10),
    }


# --- The floor ------------------------------------------------------------------------------------


def _floor(exact: Exact, config: Config, report: Report) -> None:
    """One product with K: from memory, computed on the fly, and what the machine can read."""
    task, fit = exact.task, exact.fit
    items = comparable_items(RankingData(task.X, task.y, task.qid))
    n = len(items)
    K = _unheld_gram(task.X[items], task, config.threads)
    A = np.ones((config.size(FLOOR_ROWS, 500), config.size(FLOOR_COLUMNS, 500)))
    x = np.random.default_rng(SEED).standard_normal(n)
    ones = np.ones(A.shape[1])
    calls = {
        "K, on the fly": Call(lambda: K.product(x), config.threads),
        "numpy, a matrix": Call(lambda: A @ ones, config.threads),
    }
    timings = interleave(calls, rounds=3, seconds=config.size(15.0, 0.5))
    in_memory = fit.clock.seconds["products"] / fit.model.n_products_
    values = n * (n + 1) / 2
    reading = timings["numpy, a matrix"].seconds
    rows = [
        _speed("K, in memory", in_memory, values, 8 * values),
        _speed("K, on the fly", timings["K, on the fly"].seconds, values, None),
        _speed("numpy, a matrix", reading, A.size, A.nbytes),
        {"product": "floor of K in memory", "seconds": reading * 8 * values / A.nbytes},
    ]
    report.table(f"one product, {config.threads} threads; K of the {n:,} items with a pair", rows)
    report.note("values: those of one half of K, which are all that a product needs")


def _unheld_gram(X: Any, task: Task, threads: int) -> TiledGram:
    """K with hardly more memory than tiles take."""
    memory = 1 << 20
    while True:
        try:
            kernel = Kernel("rbf", gamma=float(task.gamma or 1.0))
            return TiledGram(X, kernel, dtype=np.float64, memory=memory, n_threads=threads)
        except ValueError:  # less than one tile for each thread
            memory *= 2


def _speed(name: str, seconds: float, values: float, read: float | None) -> Row:
    return {
        "product": name,
        "seconds": seconds,
        "values, 1e9 / s": values / seconds / 1e9,
        "GB / s": None if read is None else read / seconds / 1e9,
    }


# --- MQ2008, cadata -------------------------------------------------------------------------------


def _others(config: Config, report: Report) -> None:
    rows: list[Row] = []
    task = mq2008_rbf(report.note)
    if task is not None:
        call = partial(kernel_fit, task, threads=config.threads)
        fits = median_fits(
            {"fit": call}, config, rounds=config.size(5, 1), seconds=config.size(12.0, 0.1)
        )
        fit = fits["fit"]
        rows.append({"set": task.name, "strength": task.strength, **fit.row()})
        detail = f"{task.n_items:,} items, {fit.model.n_products_} products"
        report.reach("kernel_mq2008", fit.seconds, detail)
    m = config.size(16_000, 1_500)
    row = fit_in_child("cadata", m, threads=config.threads, rounds=config.size(3, 1))
    rows.append(row)
    detail = f"{row['products']} products, peak of the process {row['peak, GB']:.2f} GB"
    report.reach("kernel_cadata", row["seconds"], detail)
    report.table(f"other sets, gap {TOL:g}", [_without(row, "landmarks, s") for row in rows])


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}
