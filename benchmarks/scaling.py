"""Time against the number of threads: where it goes, and what does not profit from threads.

Every case is run with 1, 2, 4, ... threads, in turn.  The breakdown shows the seconds of each phase
with one thread and with the most; phases do not overlap, and "rest" is what no phase covers.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from unittest import mock

from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import SEED, TOL, Call, Config, Timing, interleave
from benchmarks.report import GOAL_KEYS, Report, Row
from benchmarks.sets import CADATA_LAMBDA, LETOR_C, REUTERS_LAMBDA
from ranksvm import LinearRankSVM, _points, objective
from ranksvm._cores import available_cores
from ranksvm.backends import native
from ranksvm.data.queries import QueryGroups
from ranksvm.datasets import make_cadata_like, make_letor_like, make_reuters_like
from ranksvm.estimators import inputs
from ranksvm.maps.matrix import MatrixMap
from ranksvm.pairs import oracle

TITLE = "time against the number of threads"

# A function or method: its owner and its name.
Place = tuple[Any, str]

LINEAR_PHASES: dict[str, tuple[Place, ...]] = {
    "checking X": ((inputs, "check_X"),),
    "labels, ids": ((inputs, "check_labels"), (QueryGroups, "from_qid")),
    "order of pairs": ((native.NativeBackend, "__init__"),),
    "X w": ((MatrixMap, "scores"),),
    "X' g": ((MatrixMap, "pullback"),),
    "norms of X": ((MatrixMap, "_row_norm"),),
    "preconditioner": ((MatrixMap, "scatter"),),
    "sorting scores": ((native.NativeSnapshot, "__init__"),),
    "violated pairs": ((native.NativeSnapshot, "plan"),),
    "sums over pairs": (
        (native.NativePlan, "laplacian"),
        (native.NativePlan, "score_laplacian"),
        (native.NativePlan, "counts"),
    ),
    "gathers": ((native.NativePlan, "imbalance"), (native.NativeSnapshot, "centred")),
    "vectors": (
        (_points, "add_scaled"), (_points, "scaled"), (objective, "add_scaled"),
        (oracle, "dot"), (oracle, "scale"), (oracle, "add_scaled_to"), (oracle, "any_nonzero"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Something to run with any number of threads.

    Attributes
    ----------
    key : str
        Goals, if any, are ``scaling_<key>_2`` and ``scaling_<key>_16``.
    make : callable
        Returns the data.
    run : callable
        ``run(data, n_threads)``.
    phases : mapping
        Functions to time, by phase.
    """

    key: str
    name: str
    make: Callable[[], Any]
    run: Callable[[Any, int], Any]
    phases: Mapping[str, tuple[Place, ...]]


def run(config: Config, report: Report) -> None:
    speed_ups: list[Row] = []
    for case in cases(config):
        row, phases = measure(case, config)
        report.table(f"{case.name}: seconds by phase", phases)
        speed_ups.append(row)
        detail = f"{case.name}, {config.threads} threads"
        goal = f"scaling_{case.key}_{config.threads}"
        if goal in GOAL_KEYS:
            report.reach(goal, 1.0 / row["speed-up"], detail)
    report.table("seconds by the number of threads", speed_ups)
    _beside_others(config, report)


def _beside_others(config: Config, report: Report) -> None:
    """Measure fits while as many other processes as there are cores are busy."""
    data = _letor(config.size(2_440, 60))
    counts = thread_counts(config.threads)
    calls = {str(n): Call(partial(_fit, data, n, C=LETOR_C, reduction="sum"), n) for n in counts}
    idle = interleave(calls, rounds=config.size(15, 2))
    with busy_processes(available_cores()):
        busy = interleave(calls, rounds=config.size(25, 2), seconds=30.0)
    rows = [
        {"threads": n, "idle machine, s": idle[str(n)].seconds, "busy, s": busy[str(n)].seconds}
        for n in counts
    ]
    report.table("100,000 items in queries, beside one busy process per core", rows)
    worst = max(busy[str(n)].seconds for n in counts[1:]) / busy["1"].seconds
    report.reach("busy", worst, f"the worst of {counts[1:]} threads")


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


def cases(config: Config) -> Iterator[Case]:
    yield Case(
        "queries",
        "linear, 50,000 queries",
        partial(_letor, config.size(48_800, 200)),
        partial(_fit, C=LETOR_C, reduction="sum"),
        LINEAR_PHASES,
    )
    yield Case(
        "ranking",
        "linear, one ranking",
        partial(_cadata, config.size(1_000_000, 5_000)),
        partial(_fit, C=0.5 / CADATA_LAMBDA),
        LINEAR_PHASES,
    )
    yield Case(
        "queries_100k",
        "linear, 100,000 items in queries",
        partial(_letor, config.size(2_440, 60)),
        partial(_fit, C=LETOR_C, reduction="sum"),
        LINEAR_PHASES,
    )
    yield Case(
        "ranking_100k",
        "linear, one ranking of 100,000",
        partial(_cadata, config.size(100_000, 3_000)),
        partial(_fit, C=0.5 / CADATA_LAMBDA),
        LINEAR_PHASES,
    )
    yield Case(
        "text",
        "linear, text-like CSR",
        partial(_reuters, config.size(512_000, 2_000)),
        partial(_fit, C=0.5 / REUTERS_LAMBDA),
        LINEAR_PHASES,
    )


def _letor(n_queries: int) -> Any:
    return make_letor_like(n_queries, random_state=SEED)[:3]


def _cadata(n_items: int) -> Any:
    return make_cadata_like(n_items, random_state=SEED)[:3]


def _reuters(n_items: int) -> Any:
    return make_reuters_like(n_items, random_state=SEED)[:3]


def _fit(data: Any, n_threads: int, **params: Any) -> Any:
    X, y, qid = data
    return LinearRankSVM(tol=TOL, n_jobs=n_threads, **params).fit(X, y, qid)


def measure(case: Case, config: Config) -> tuple[Row, list[Row]]:
    """Time a case; return its row of the table of all, and its breakdown."""
    data = case.make()
    counts = thread_counts(config.threads)
    calls = {str(n): Call(partial(profiled_run, case, data, n), n) for n in counts}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        timings = interleave(
            calls, rounds=config.size(5, 1), seconds=config.size(40.0, 1.0), keep_all=True
        )
    whole = {n: timings[str(n)].seconds for n in counts}
    first, last = counts[0], counts[-1]
    row: dict[str, Any] = {"case": case.name}
    row |= {f"{n} threads, s" if n > 1 else "1 thread, s": whole[n] for n in counts}
    row["speed-up"] = whole[first] / whole[last]
    return row, _breakdown(case, timings, counts)


def thread_counts(most: int) -> list[int]:
    """Return 1, 2, 4, ... up to the most."""
    counts = [1]
    while 2 * counts[-1] <= most:
        counts.append(2 * counts[-1])
    return counts if counts[-1] == most else [*counts, most]


def _breakdown(case: Case, timings: Mapping[str, Timing], counts: list[int]) -> list[Row]:
    rows = []
    ends = [counts[0], counts[-1]]
    for phase in [*case.phases, "rest"]:
        seconds = [timings[str(n)].median(lambda found, p=phase: found[p]) for n in ends]
        if max(seconds) < 1e-4 * timings[str(counts[0])].seconds:
            continue
        one, most = seconds
        rows.append(
            {
                "phase": phase,
                "1 thread, s": one,
                f"{counts[-1]} threads, s": most,
                "speed-up": one / most if most > 0.0 else None,
                f"share with {counts[-1]}": most / timings[str(counts[-1])].seconds,
            }
        )
    return rows


def profiled_run(case: Case, data: Any, n_threads: int) -> dict[str, float]:
    """Run a case; return the seconds of its phases, and of the rest."""
    with timed_phases(case.phases) as seconds:
        before = time.perf_counter()
        case.run(data, n_threads)
        whole = time.perf_counter() - before
    return {**seconds, "rest": whole - sum(seconds.values())}


@contextmanager
def timed_phases(phases: Mapping[str, tuple[Place, ...]]) -> Iterator[dict[str, float]]:
    """Time functions inside the block; one that is called by another one counts for that one."""
    seconds: dict[str, float] = dict.fromkeys(phases, 0.0)
    inside: list[str] = []

    def watched(function: Any, phase: str) -> Any:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if inside:
                return function(*args, **kwargs)
            inside.append(phase)
            before = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[phase] += time.perf_counter() - before
                inside.pop()

        return call

    with ExitStack() as patches:
        for phase, places in phases.items():
            for owner, name in places:
                found = vars(owner)[name]
                if isinstance(found, classmethod):
                    new: Any = classmethod(watched(found.__func__, phase))
                elif isinstance(found, property):
                    new = property(watched(found.fget, phase))
                else:
                    new = watched(found, phase)
                patches.enter_context(mock.patch.object(owner, name, new))
        yield seconds
