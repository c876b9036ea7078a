"""Whole fits on the large sets: where the time goes, and how far it is from the floor.

The floor of a fit is what its products with X would have taken with SciPy or NumPy, and its sorts
with ``numpy.argsort``: as many of each as the fit made, with the same threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.common import (
    LOSSES,
    SEED,
    TOL,
    Call,
    Config,
    Profile,
    Timing,
    interleave,
    thread_counts,
)
from benchmarks.report import Report, Row
from benchmarks.sets import Task, cadata_like, letor_like, reuters_like

TITLE = "whole fits on the large sets, against the floor"


def run(config: Config, report: Report) -> None:
    tasks: tuple[Callable[[], Task], ...] = (
        partial(cadata_like, config.size(1_000_000, 5_000)),
        partial(reuters_like, config.size(512_000, 2_000)),
        partial(letor_like, config.size(1_700, 60)),
        partial(letor_like, config.size(24_400, 100)),
    )
    rows = [row for make in tasks for row in fit_rows(make(), config)]
    report.table(f"fits to a certified relative gap of {TOL:g}", rows)
    report.note("outside: seconds of the fit, checks of the input included, not in X w or X' g")
    report.note("floor: as many SciPy/NumPy products and numpy.argsorts as the fit made")
    judged = next(row for row in rows if row["set"].startswith("reuters"))
    detail = f"{judged['set']}, {judged['products']} products, {judged['seconds']:.2f} s"
    report.reach("outside_products", judged["outside / products"], detail)


def fit_rows(task: Task, config: Config) -> list[Row]:
    """Fits of one set: both losses, one thread and several; squared hinge, one thread first."""
    cases = [(loss, threads) for loss in LOSSES for threads in thread_counts(config)]
    calls = {
        f"{loss} {threads}": Call(partial(task.fit, loss, threads=threads), threads)
        for loss, threads in cases
    }
    timings = interleave(
        calls, rounds=config.size(3, 1), seconds=config.size(90.0, 1.0), keep_all=True
    )
    return [
        _row(task, loss, threads, timings[f"{loss} {threads}"], config) for loss, threads in cases
    ]


def _row(task: Task, loss: str, threads: int, timing: Timing, config: Config) -> Row:
    fit = timing.result
    floor = floor_seconds(task, fit.profile, fit.model.coef_, threads, config)
    return {
        "set": task.name,
        "strength": task.strength,
        "loss": loss,
        "threads": threads,
        "seconds": timing.seconds,
        "iterations": fit.model.n_iter_,
        "products": fit.model.n_products_,
        "evaluations": fit.profile.evaluations,
        "scatters": fit.profile.calls["scatter"],
        "in products, s": timing.median(lambda fit: fit.profile.product_seconds),
        "outside, s": timing.median(lambda fit: fit.outside),
        "outside / products": timing.median(lambda fit: fit.outside / fit.profile.product_seconds),
        "floor, s": floor,
        "/ floor": timing.seconds / floor,
        "rel gap": fit.relative_gap,
        "status": fit.model.status_,
    }


def floor_seconds(
    task: Task, profile: Profile, coef: np.ndarray, threads: int, config: Config
) -> float:
    """Seconds of as many products and sorts as a fit made, by NumPy and SciPy."""
    X, scores = task.X, task.X @ coef
    g = np.random.default_rng(SEED).standard_normal(task.n_items)
    calls = {
        "scores": Call(lambda: X @ coef, threads),
        "pullback": Call(lambda: X.T @ g, threads),
        "sort": Call(lambda: np.argsort(scores), threads),
    }
    timings = interleave(calls, rounds=3, seconds=config.size(10.0, 0.5))
    return (
        profile.calls["scores"] * timings["scores"].seconds
        + profile.calls["pullback"] * timings["pullback"].seconds
        + profile.evaluations * timings["sort"].seconds
    )
