"""Products with X of fits that are hard for Newton's method, and of fits that are cheap.

"before" is the same fit without recycled search directions (:mod:`ranksvm.solvers.recycling`).
Products and CG steps do not vary from run to run; seconds are processor time of one run with one
thread.  Nothing is computed on samples, so every product counts in full.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

from benchmarks.common import LOSSES, Config
from benchmarks.kernel_fits import kernel_fit
from benchmarks.report import Report, Row
from benchmarks.sets import (
    LETOR_C,
    Task,
    cadata_like,
    cadata_rbf,
    letor_like,
    mslr_like,
    reuters_like,
)
from ranksvm.solvers import recycling

TITLE = "products with X, with recycled search directions and without"

_NEVER = 10**9


class _Fit(NamedTuple):
    products: int
    cg_steps: int
    seconds: float
    status: str

    @classmethod
    def of(cls, task: Task, **settings: Any) -> _Fit:
        before = time.process_time()
        fit = task.fit(**settings) if task.gamma is None else kernel_fit(task, threads=1)
        seconds = time.process_time() - before
        model = fit.model
        steps = sum(row.inner_iterations for row in model.history_)
        return cls(model.n_products_, steps, seconds, model.status_)


def _strong(task: Task) -> Task:
    """The set with C = 2^-10 over the sum, which for text means little regularization."""
    return replace(task, C=LETOR_C, reduction="sum", strength="C = 2^-10, sum")


def _cheap(config: Config) -> Iterator[Task]:
    """Sets whose fits take few products."""
    yield reuters_like(config.size(512_000, 4_000))
    yield cadata_like(config.size(100_000, 4_000))
    yield letor_like(config.size(1_700, 40))
    yield mslr_like(config.size(200, 20))


def run(config: Config, report: Report) -> None:
    rows: list[Row] = []
    text = _strong(reuters_like(config.size(512_000, 4_000)))
    fit = _compare(text, "squared_hinge", rows)[1]
    report.reach("text_products", fit.products, f"{text.name}, {text.strength}")
    cost, where = 0.0, ""
    for task in _cheap(config):
        for loss in LOSSES:
            before, now = _compare(task, loss, rows)
            if now.products >= cost * before.products:
                cost, where = now.products / before.products, f"highest: {task.name}, {loss}"
    report.reach("cheap_products", cost, where)
    kernel = cadata_rbf(config.size(16_000, 1_000))
    fit = _compare(kernel, "squared_hinge", rows)[1]
    report.reach("rbf_products", fit.products, f"{kernel.name}, {kernel.strength}")
    report.table("products to a certified gap of 1e-3", rows)
    _raw_features(config, report)


def _compare(task: Task, loss: str, rows: list[Row]) -> tuple[_Fit, _Fit]:
    with mock.patch.object(recycling, "FEW_STEPS", _NEVER):
        before = _Fit.of(task, loss=loss)
    now = _Fit.of(task, loss=loss)
    rows.append(
        {
            "set": task.name, "strength": task.strength, "loss": loss,
            "products before": before.products, "products": now.products,
            "CG before": before.cg_steps, "CG": now.cg_steps,
            "s before": before.seconds, "s": now.seconds,
        }
    )  # fmt: skip
    return before, now


def _raw_features(config: Config, report: Report) -> None:
    """Features as they are measured, and the same ones standardised."""
    rows: list[Row] = []
    products = {}
    for is_raw in (False, True):
        task = mslr_like(config.size(200, 20), raw=is_raw)
        fit = _Fit.of(task, loss="squared_hinge")
        products[is_raw] = fit.products
        rows.append({"set": task.name, **fit._asdict()})
    fit = _Fit.of(task, loss="squared_hinge", scaling="standard")
    rows.append({"set": f"{task.name}, scaling='standard'", **fit._asdict()})
    report.table("features of very different scales; squared hinge", rows)
    detail = f"{task.name}, {task.strength}: {products[True]} and {products[False]} products"
    report.reach("raw_products", products[True] / products[False], detail)
