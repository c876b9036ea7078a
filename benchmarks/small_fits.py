"""What whole calls cost where there is little to compute: small fits, a hundred items, cold starts.

Calls alternate, a few of each at a time; times are medians over the rounds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import SEED, Config, pinned, thread_counts
from benchmarks.report import Report, Row
from benchmarks.sets import real_tasks
from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.datasets import make_ranking
from ranksvm.learners import KernelModel
from ranksvm.maps.expansion import Expansion
from ranksvm.maps.kernels import Kernel

TITLE = "small fits, predictions of a hundred items, load and predict from a cold start"

ITEMS = 100
GAMMA = 0.1
# Ends with its processor time in seconds and its peak memory in MB.
COLD_START = """
import sys, time
import numpy as np
{imports}
{work}
lines = open("/proc/self/status").read().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(time.process_time(), peak / 1024)
"""


def run(config: Config, report: Report) -> None:
    _fits(config, report)
    _predictions(config, report)
    _cold_starts(config, report)


def _fits(config: Config, report: Report) -> None:
    X, y, qid, _ = make_ranking(50, 20, 20, random_state=SEED)
    sets: dict[str, Any] = {"1,000 x 20 in 50 queries": (X, y, qid)}
    goals = {"1,000 x 20 in 50 queries": "small_fit"}
    for task in real_tasks(report.note, only="MQ2008"):
        name = f"{task.name}, {task.X.shape[0]:,} x {task.X.shape[1]}"
        sets[name], goals[name] = (task.X, task.y, task.qid), "small_fit_mq2008"
    rows: list[Row] = []
    for name, (X, y, qid) in sets.items():
        calls = {
            threads: lambda X=X, y=y, qid=qid, threads=threads: LinearRankSVM(n_jobs=threads).fit(
                X, y, qid
            )
            for threads in thread_counts(config)
        }
        times = _seconds(calls, rounds=config.size(60, 2), repeat=config.size(4, 1))
        model = calls[1]()
        rows += [
            {
                "set": name, "threads": threads, "iterations": model.n_iter_,
                "products": model.n_products_, "ms": 1e3 * seconds,
            }
            for threads, seconds in times.items()
        ]  # fmt: skip
        best = min(times, key=lambda threads: times[threads])
        report.reach(goals[name], 1e3 * times[best], f"{name}, {best} threads")
    report.table("a whole call of LinearRankSVM().fit", rows)


def _predictions(config: Config, report: Report) -> None:
    X, y, qid, _ = make_ranking(config.size(250, 20), 40, 46, random_state=SEED)
    items = np.ascontiguousarray(X[:ITEMS])
    names = [f"feature {k}" for k in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    some = pd.DataFrame(items, columns=names)
    linear = LinearRankSVM(n_jobs=1).fit(X, y, qid)
    of_frame = LinearRankSVM(n_jobs=1).fit(frame, y, qid)
    nystroem = KernelRankSVM(
        approximation="nystroem", gamma=GAMMA, random_state=0, n_jobs=1, max_iter=5, tol=0.1,
        n_components=config.size(500, 50),
    ).fit(X, y, qid)  # fmt: skip
    points = X[: config.size(10_000, 500)]
    exact = {threads: _exact(points, threads) for threads in thread_counts(config)}
    calls: dict[str, Callable[[], Any]] = {
        "NumPy, X @ w": lambda: items @ linear.coef_,
        "linear": lambda: linear.predict(items),
        "linear, pandas frame": lambda: of_frame.predict(some),
        f"rbf, Nystrom {len(nystroem.coef_)}": lambda: nystroem.predict(items),
    }
    kernel = f"rbf, exact, {len(points):,} support items"
    for threads, model in exact.items():
        name = kernel if threads == 1 else f"{kernel}, {threads} threads"
        calls[name] = lambda model=model: model.predict(items)
    peer = _boosted(X, y, qid, report)
    if peer is not None:
        calls["LightGBM, 100 trees, Booster.predict"] = lambda: peer.predict(items, num_threads=1)
    with pinned(1):
        times = _seconds(calls, rounds=config.size(150, 2), repeat=config.size(10, 1))
    micro = {name: 1e6 * seconds for name, seconds in times.items()}
    numpy, plain, framed, approximate = list(micro.values())[:4]
    report.table(
        f"predict of {ITEMS} items with {X.shape[1]} features, 1 thread unless stated",
        [{"model": name, "µs": value} for name, value in micro.items()],
    )
    report.reach("predict_linear", plain - numpy, "µs over NumPy's product")
    report.reach("predict_frame", framed - plain, "µs over the same items in an array")
    report.reach("predict_nystroem", approximate, "µs")
    best = min((name for name in micro if name.startswith(kernel)), key=micro.__getitem__)
    report.reach("predict_exact", micro[best] / 1e3, f"ms, {best}; 1 thread {micro[kernel]:.0f} µs")
    n_values = ITEMS * len(points)
    report.note(
        f"exact: {n_values * X.shape[1] / 1e6:.0f} million products and {n_values / 1e6:.1f} "
        "million exponentials a call"
    )


def _exact(points: Any, threads: int) -> KernelRankSVM:
    """An exact model with these support items; how long it predicts depends on no coefficient."""
    coef = np.random.default_rng(SEED).normal(size=len(points))
    expansion = Expansion(Kernel("rbf", gamma=GAMMA), points.copy(), coef)
    model = KernelModel(
        expansion=expansion, support=np.arange(len(points)), params={"n_jobs": threads}, facts={}
    )
    return KernelRankSVM._from_model(model)


def _boosted(X: Any, y: Any, qid: Any, report: Report) -> Any:
    try:
        from lightgbm import LGBMRanker
    except (ImportError, OSError) as error:
        report.note(f"LightGBM skipped: {error}")
        return None
    sizes = np.unique(qid, return_counts=True)[1]
    ranker = LGBMRanker(n_estimators=100, random_state=0, n_jobs=1, verbose=-1)
    return ranker.fit(X, y, group=sizes).booster_


def _cold_starts(config: Config, report: Report) -> None:
    if not Path("/proc/self/status").is_file():
        report.note("cold starts skipped: peak memory is read from /proc")
        return
    X, y, qid, _ = make_ranking(20, 20, 46, random_state=SEED)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        LinearRankSVM().fit(X, y, qid).save(path)
        predict = f"ranksvm.load({path!r}).predict(np.ones(({ITEMS}, 46)))"
        programs = {
            "import numpy": ("", ""),
            "load, predict": ("import ranksvm", predict),
            "with scikit-learn": ("import ranksvm, sklearn.base", predict),
        }
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in programs}
        for _ in range(config.size(15, 2)):
            for name, (imports, work) in programs.items():
                found[name].append(_cold_start(COLD_START.format(imports=imports, work=work)))
    rows = []
    for name, runs in found.items():
        wall, processor, peak = (statistics.median(one) for one in zip(*runs, strict=True))
        rows.append(
            {"program": name, "seconds": wall, "of the processor": processor, "peak, MB": peak}
        )
    report.table("from a cold interpreter: load a linear model, predict once", rows)
    report.reach("cold_seconds", rows[1]["seconds"], "seconds, the interpreter's start included")
    report.reach("cold_memory", rows[1]["peak, MB"], "MB")


def _cold_start(program: str) -> tuple[float, float, float]:
    before = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    )
    wall = time.perf_counter() - before
    processor, peak = map(float, done.stdout.split())
    return wall, processor, peak


def _seconds(
    calls: Mapping[Any, Callable[[], Any]], *, rounds: int, repeat: int
) -> dict[Any, float]:
    """Median time of a call, by name; every round calls each of them ``repeat`` times in a row."""
    times: dict[Any, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            before = time.perf_counter()
            for _ in range(repeat):
                call()
            times[name].append((time.perf_counter() - before) / repeat)
    return {name: statistics.median(found) for name, found in times.items()}
