"""The pairwise loss in score space: value and gradient, Hessian products, every counting."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.common import (
    SEED,
    Array,
    Call,
    Config,
    Timing,
    growth_exponent,
    interleave,
    ratio,
    thread_counts,
)
from benchmarks.report import Report, Row
from benchmarks.sets import MOST_STEPS, Task, cadata_like, letor_like, too_slow
from ranksvm.backends.native import COUNTINGS

TITLE = "value, gradient and Hessian products in score space (squared hinge)"


def run(config: Config, report: Report) -> None:
    _against_sorts(config, report)
    _countings(config, report)
    _letor(config, report)


def _realistic(task: Task) -> Array:
    """Scores with a spread of 1 that have learned something of the utilities."""
    noise = np.random.default_rng(SEED).standard_normal(task.n_items)
    log_utility = np.log(task.y)
    signal = (log_utility - log_utility.mean()) / log_utility.std()
    scores: Array = 0.6 * signal + 0.8 * noise
    return scores


def _points(task: Task) -> dict[str, Array]:
    """Scores at which the loss is evaluated; the goals look at the first ones."""
    return {
        "realistic": _realistic(task),
        "optimum": task.X @ task.fit("squared_hinge").model.coef_,
        "start, all equal": np.zeros(task.n_items),
    }


def _against_sorts(config: Config, report: Report) -> None:
    """Compare with two sorts of the scores.

    The goals refer to the stable sort.  NumPy's default sort is several times faster on a CPU with
    AVX-512 than on others, so a ratio to it says more about the CPU than about this library.
    """
    task = cadata_like(config.size(1_000_000, 20_000))
    direction = np.random.default_rng(SEED + 1).standard_normal(task.n_items)
    losses = {threads: task.loss(threads=threads) for threads in thread_counts(config)}
    rows: list[Row] = []
    for point, scores in _points(task).items():
        calls = {
            "numpy.argsort": Call(partial(np.argsort, scores)),
            "numpy.argsort, stable": Call(partial(np.argsort, scores, kind="stable")),
        }
        for threads, loss in losses.items():
            frozen = loss.at(scores)
            calls[f"value + gradient {threads}"] = Call(partial(loss.at, scores), threads)
            calls[f"Hessian product {threads}"] = Call(partial(frozen.hessp, direction), threads)
        timings = interleave(calls, rounds=config.size(11, 3))
        for name, call in calls.items():
            rows.append(
                {
                    "scores": point,
                    "what": name.removesuffix(f" {call.threads}"),
                    "threads": call.threads,
                    "ms": _ms(timings[name]),
                    "/ argsort": ratio(timings[name], timings["numpy.argsort"]),
                    "/ stable": ratio(timings[name], timings["numpy.argsort, stable"]),
                }
            )
    report.table(f"{task.name}, against numpy.argsort of the same scores", rows)

    def found(what: str, threads: int) -> list[float]:
        wanted = (row for row in rows if row["what"] == what and row["threads"] == threads)
        return [row["/ stable"] for row in wanted]

    for key, what in (("oracle", "value + gradient"), ("hessp", "Hessian product")):
        for suffix, threads in (("1", 1), ("n", config.threads)):
            first, optimum, _ = found(what, threads)
            detail = f"m = {task.n_items:,}, {threads} thread(s); at the optimum {optimum:.2f}"
            report.reach(f"{key}_{suffix}", first, detail)


def _countings(config: Config, report: Report) -> None:
    rows: list[Row] = []
    seconds: dict[str, dict[int, float]] = {}
    skipped: list[str] = []
    for m in config.size((1_000, 10_000, 100_000, 1_000_000), (500, 2_000)):
        task = cadata_like(m)
        scores = _realistic(task)
        calls = {"numpy.argsort": Call(partial(np.argsort, scores))}
        for counting in COUNTINGS:
            if reason := too_slow(task, counting):
                skipped.append(reason)
                continue
            loss = task.loss(counting=counting)
            frozen = loss.at(scores)
            calls[counting] = Call(partial(loss.at, scores))
            calls[f"{counting} hessp"] = Call(partial(frozen.hessp, scores))
        timings = interleave(calls, rounds=5, seconds=config.size(25.0, 0.5))
        for name, timing in timings.items():
            seconds.setdefault(name, {})[m] = timing.seconds
        rows += [_counting_row(m, name, timings) for name in calls if "hessp" not in name]
    report.table("every counting on cadata-like, 1 thread", rows)
    for reason in skipped:
        report.note(f"skipped (more than {MOST_STEPS:.0e} steps): {reason}")
    for name, by_size in seconds.items():
        counting, _, hessp = name.partition(" ")
        panel = "Hessian product" if hessp else "value and gradient"
        report.curve(f"{panel}, cadata-like", counting, list(by_size.items()))
    exponents = [
        {"what": name, "growth exponent": growth_exponent(list(times), list(times.values()))}
        for name, times in seconds.items()
    ]
    report.table("growth of these times with m", exponents)


def _counting_row(m: int, name: str, timings: dict[str, Timing]) -> Row:
    hessp = timings.get(f"{name} hessp")
    return {
        "m": m,
        "counting": name,
        "value + gradient, ms": _ms(timings[name]),
        "Hessian product, ms": None if hessp is None else _ms(hessp),
    }


def _letor(config: Config, report: Report) -> None:
    task = letor_like(config.size(1_700, 60))
    scores = task.X @ task.fit("squared_hinge").model.coef_
    direction = np.random.default_rng(SEED + 1).standard_normal(task.n_items)
    points = {"optimum": scores, "random": direction}
    rows: list[Row] = []
    ratios: dict[str, float] = {}
    for point, at in points.items():
        calls = {}
        for counting in COUNTINGS:
            for threads in thread_counts(config):
                loss = task.loss(counting=counting, threads=threads)
                frozen = loss.at(at)
                key = f"{counting} {threads}"
                calls[key] = Call(partial(loss.at, at), threads)
                calls[f"{key} hessp"] = Call(partial(frozen.hessp, direction), threads)
        timings = interleave(calls, rounds=config.size(15, 3))
        for counting in COUNTINGS:
            for threads in thread_counts(config):
                timing = timings[f"{counting} {threads}"]
                rows.append(
                    {
                        "scores": point,
                        "counting": counting,
                        "threads": threads,
                        "value + gradient, ms": _ms(timing),
                        "/ tree": ratio(timing, timings[f"tree {threads}"]),
                        "Hessian product, ms": _ms(timings[f"{counting} {threads} hessp"]),
                    }
                )
        ratios[point] = ratio(timings["auto 1"], timings["tree 1"])
    report.table(f"{task.name} ({task.n_items:,} items)", rows)
    detail = f"{task.name}, at the optimum; at random scores {ratios['random']:.2f}"
    report.reach("letor_tree", ratios["optimum"], detail)


def _ms(timing: Timing) -> float:
    return 1e3 * timing.seconds
