"""Linear fits with weights of pairs from gains, against fits with uniform weights.

Both minimize the mean over pairs for C = 50 to the same certified gap.  Gains are 2^y - 1 for
grades, and y for real-valued labels.  The second table is about ``pair_weight="lambda"``, which
lists pairs: its time, and its peak memory beyond that of a uniform fit in the same process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.common import LOSSES, Call, Config, interleave, thread_counts
from benchmarks.memory import peak, reset_peak
from benchmarks.report import Report, Row
from benchmarks.sets import Task, cadata_like, letor_like, mslr_like
from ranksvm import LinearRankSVM
from ranksvm.pairs.gains import is_graded

TITLE = "linear fits with weights of pairs, against uniform weights"


def run(config: Config, report: Report) -> None:
    tasks: tuple[Callable[[], Task], ...] = (
        partial(letor_like, config.size(1_700, 60)),
        partial(letor_like, config.size(24_400, 100)),
        partial(mslr_like, config.size(2_000, 20)),
        partial(cadata_like, config.size(200_000, 2_000)),
    )
    rows = [row for make in tasks for row in _rows(make(), config)]
    report.table("seconds with gains, and divided by those with uniform weights", rows)
    judged = max(
        (row for row in rows if row["threads"] == 1), key=lambda row: row["gain / uniform"]
    )
    detail = f"the worst of {len(tasks)} sets: {judged['set']}, {judged['loss']}"
    report.reach("gain_fit", judged["gain / uniform"], detail)
    rows = [_lambda_row(letor_like(config.size(10_000, 60)), loss) for loss in LOSSES]
    report.table("lambda: one round with listed pairs after the uniform fit, 1 thread", rows)


def _rows(task: Task, config: Config) -> list[Row]:
    gain = "exp2" if is_graded(task.y) else "linear"
    cases = [(loss, threads) for loss in LOSSES for threads in thread_counts(config)]
    calls = {
        f"{loss} {threads} {weight}": Call(_fit(task, loss, weight, gain, threads), threads)
        for loss, threads in cases
        for weight in ("uniform", "gain")
    }
    timings = interleave(calls, rounds=config.size(5, 1), seconds=config.size(60.0, 1.0))
    rows = []
    for loss, threads in cases:
        uniform, gained = (timings[f"{loss} {threads} {name}"] for name in ("uniform", "gain"))
        rows.append(
            {
                "set": task.name,
                "gain": gain,
                "loss": loss,
                "threads": threads,
                "uniform, s": uniform.seconds,
                "gain, s": gained.seconds,
                "gain / uniform": gained.seconds / uniform.seconds,
                "products": f"{uniform.result.n_products_} -> {gained.result.n_products_}",
                "status": gained.result.status_,
            }
        )
    return rows


def _lambda_row(task: Task, loss: str) -> Row:
    uniform = Call(_fit(task, loss, "uniform", "exp2", 1))
    again = Call(_fit(task, loss, "lambda", "exp2", 1))
    before = interleave({"uniform": uniform}, rounds=2, seconds=1.0)["uniform"]
    exact = reset_peak()
    low = peak()
    timing = interleave({"lambda": again}, rounds=2, seconds=1.0)["lambda"]
    return {
        "set": task.name,
        "loss": loss,
        "pairs": timing.result.n_pairs_,
        "uniform, s": before.seconds,
        "lambda, s": timing.seconds,
        "bytes of a pair": (peak() - low) / timing.result.n_pairs_,
        "exact": exact,
        "status": timing.result.status_,
    }


def _fit(task: Task, loss: str, weight: str, gain: str, threads: int) -> Callable[[], Any]:
    model = LinearRankSVM(loss=loss, pair_weight=weight, gain=gain, n_jobs=threads)
    return lambda: model.fit(task.X, task.y, qid=task.qid)
