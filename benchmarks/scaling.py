"""Time against the number of threads: where it goes, and what does not profit from threads.

Every case is run with 1, 2, 4, ... threads, in turn.  The breakdown shows the seconds of each phase
with one thread and with the most; "rest" is what no phase covers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import SEED, Call, Config, Timing, interleave
from benchmarks.report import GOAL_KEYS, Report, Row
from benchmarks.scaling_cases import Case, cases, fit_linear
from benchmarks.sets import LETOR_C
from ranksvm import _core
from ranksvm._cores import available_cores
from ranksvm.datasets import make_letor_like

TITLE = "time against the number of threads"


def run(config: Config, report: Report) -> None:
    speed_ups: list[Row] = []
    for case in cases(config):
        row, phases = _measured(case, config)
        report.table(f"{case.name}: seconds by phase", phases)
        speed_ups.append(row)
        goal = f"scaling_{case.key}_{config.threads}"
        if goal in GOAL_KEYS:
            report.reach(goal, 1.0 / row["speed-up"], f"{row['speed-up']:.2f} times as fast")
    report.table("seconds by the number of threads", speed_ups)
    report.note("phases of several threads at once may add up to more than the whole")
    _floor(config, report)
    _beside_others(config, report)


def _floor(config: Config, report: Report) -> None:
    """Measure how fast threads read memory, which bounds the speed-up of products with X."""
    rows: list[Row] = []
    counts = doublings(config.threads)
    for n_items in (config.size(100_000, 2_000), config.size(2_000_000, 5_000)):
        values = np.random.default_rng(SEED).standard_normal(46 * n_items)
        calls = {str(n): Call(partial(_core.dot, values, values, n), n) for n in counts}
        read = interleave(calls, rounds=config.size(25, 2), seconds=5.0)
        row: dict[str, Any] = {"array": f"{n_items:,} x 46"}
        for n in counts:
            name = f"{n} threads, GB/s" if n > 1 else "1 thread, GB/s"
            row[name] = values.nbytes / read[str(n)].seconds / 1e9
        row["speed-up"] = read["1"].seconds / read[str(counts[-1])].seconds
        rows.append(row)
    report.table("reading an array once", rows)


def _measured(case: Case, config: Config) -> tuple[Row, list[Row]]:
    """Time a case; return its row of the table of all, and its breakdown."""
    data = case.make()
    counts = doublings(config.threads)
    case.run(data, counts[-1])  # the first use of memory takes longer, whoever makes it
    calls = {str(n): Call(partial(_profiled, case, data, n), n) for n in counts}
    timings = interleave(
        calls, rounds=config.size(7, 1), seconds=config.size(10.0, 1.0), keep_all=True
    )
    whole = {n: timings[str(n)].seconds for n in counts}
    row: dict[str, Any] = {"case": case.name}
    row |= {f"{n} threads, s" if n > 1 else "1 thread, s": whole[n] for n in counts}
    row["speed-up"] = whole[1] / whole[counts[-1]]
    return row, _breakdown(timings, counts[-1])


def _profiled(case: Case, data: Any, n_threads: int) -> dict[str, float]:
    """Run a case; return the seconds of its phases, and of the rest."""
    with case.phases() as phases:
        before = time.perf_counter()
        case.run(data, n_threads)
        whole = time.perf_counter() - before
    return {**phases.seconds, "rest": max(0.0, whole - sum(phases.seconds.values()))}


def _breakdown(timings: Mapping[str, Timing], most: int) -> list[Row]:
    one, many = timings["1"], timings[str(most)]
    rows = []
    for phase in one.result:
        alone, shared = (
            timing.median(lambda found, name=phase: found.get(name, 0.0)) for timing in (one, many)
        )
        rows.append(
            {
                "phase": phase,
                "1 thread, s": alone,
                f"{most} threads, s": shared,
                "speed-up": alone / shared if shared > 0.0 else None,
                f"share with {most}": shared / many.seconds,
            }
        )
    return rows


def doublings(most: int) -> list[int]:
    """Return 1, 2, 4, ... up to the most."""
    counts = [1]
    while 2 * counts[-1] <= most:
        counts.append(2 * counts[-1])
    return counts if counts[-1] == most else [*counts, most]


def _beside_others(config: Config, report: Report) -> None:
    """Measure fits while as many other processes as there are cores are busy."""
    data = make_letor_like(config.size(2_440, 60), random_state=SEED)[:3]
    counts = doublings(config.threads)
    settings = {"C": LETOR_C, "reduction": "sum"}
    calls = {str(n): Call(partial(fit_linear, data, n, settings), n) for n in counts}
    idle = interleave(calls, rounds=config.size(15, 2), seconds=10.0)
    with busy_processes(available_cores()):
        busy = interleave(calls, rounds=config.size(25, 2), seconds=20.0)
    rows = [
        {"threads": n, "idle machine, s": idle[str(n)].seconds, "busy, s": busy[str(n)].seconds}
        for n in counts
    ]
    report.table("100,000 x 46 in 2,440 queries, beside one busy process per core", rows)
    worst = max(busy[str(n)].seconds for n in counts[1:]) / busy["1"].seconds
    report.reach("busy", worst, f"the worst of {', '.join(map(str, counts[1:]))} threads")


@contextmanager
def busy_processes(n: int) -> Iterator[None]:
    """Keep n processes busy inside the block."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
