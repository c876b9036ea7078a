"""scikit-survival's kernel machine on the same problem.

FastKernelSurvivalSVM with ``rank_ratio=1`` and all events observed minimises

    1/2 b'Kb + alpha/2 sum over pairs of max(0, 1 - ...)^2

over one coefficient an item, so alpha = 2 C.  It has no certificate: our objective at its
coefficients, against a certified lower bound of the optimum, says how near it came.  Two
comparisons are made:

    equal gap     scikit-survival until the first of its Newton steps (SciPy's ``newton-cg`` tells
                  them) that is within 1e-3 of the optimum, and ours to a certified gap of 1e-3
    equal value   scikit-survival until it ends, with SciPy's tolerance, and ours to a certified gap
                  as small as scikit-survival's is then; of this the goal speaks
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import SEED, TOL, Array, Config, pinned
from benchmarks.kernel_fits import kernel_fit, median_fits
from benchmarks.report import Report, Row
from benchmarks.sets import Task, cadata_rbf
from ranksvm.maps.kernels import Kernel, kernel_matrix

try:
    from sksurv.svm import FastKernelSurvivalSVM, survival_svm
    from sksurv.util import Surv
except ImportError:  # an optional dependency of the benchmarks
    FastKernelSurvivalSVM = None

TITLE = "exact kernel machine against scikit-survival's"

# Relative gap of the fit that gives the lower bound.
NEAREST = 1e-8
# Seconds after which scikit-survival is stopped.
LONGEST = 120.0


@dataclass(frozen=True)
class Step:
    """Where a Newton step has led, and when."""

    seconds: float
    coef: Array


def run(config: Config, report: Report) -> None:
    task = cadata_rbf(config.size(1_000, 200))
    K = kernel_matrix(Kernel("rbf", gamma=float(task.gamma or 1.0)), task.X, task.X)
    near = kernel_fit(task, threads=config.threads, tol=NEAREST).model
    judge = Judge(task, K, near.objective_ - near.gap_)
    ours = partial(_ours, task, judge, config)
    if FastKernelSurvivalSVM is None:
        report.note("scikit-survival skipped: it is not installed (make bench does it)")
        rows = [ours(TOL)]
    else:
        with pinned(config.threads):
            model, steps, seconds = _solve(task)
        near_enough = (step for step in steps if judge.gap(step.coef) <= TOL)
        step = next(near_enough, steps[-1])
        least = judge.gap(model.coef_)
        rows = [
            ours(TOL),
            judge.row("scikit-survival", f"{TOL:g}, equal gap", step.seconds, step.coef),
            ours(least),
            judge.row(
                "scikit-survival", "its own", seconds, model.coef_, model.optimizer_result_.fun
            ),
        ]
        at_gap = rows[0]["seconds"] / rows[1]["seconds"]
        detail = f"{task.n_items:,} items, gap {least:.1e}; at a gap of {TOL:g} {at_gap:.2g}"
        report.reach("kernel_peer", rows[2]["seconds"] / rows[3]["seconds"], detail)
    report.table(f"{task.name}, one ranking, {task.strength}, {config.threads} threads", rows)
    report.note("objective: ours at the coefficients; own: by the program's account")


@dataclass(frozen=True)
class Judge:
    """The objective at any coefficients of the items, and how far from the optimum it is."""

    task: Task
    K: Array
    lower: float

    def value(self, coef: Array) -> float:
        scores = self.K @ coef
        pairs: float = self.task.loss("squared_hinge").at(scores).value
        return 0.5 * float(coef @ scores) + self.task.sum_C * pairs

    def gap(self, coef: Array) -> float:
        """Relative, and certified."""
        value = self.value(coef)
        return (value - self.lower) / value

    def row(
        self, program: str, tol: str, seconds: float, coef: Array, own: float | None = None
    ) -> Row:
        return {
            "program": program,
            "tol": tol,
            "seconds": seconds,
            "objective": f"{self.value(coef):.9g}",
            "own": None if own is None else f"{own:.9g}",
            "suboptimality <=": self.gap(coef),
        }


def _ours(task: Task, judge: Judge, config: Config, tol: float) -> Row:
    call = partial(kernel_fit, task, threads=config.threads, tol=tol)
    fits = median_fits({"ours": call}, config, rounds=7, seconds=config.size(8.0, 1.0))
    model = fits["ours"].model
    coef = np.zeros(task.n_items)
    coef[model.support_] = model.dual_coef_
    return judge.row("ranksvm", f"gap {tol:.1g}", fits["ours"].seconds, coef, model.objective_)


def _solve(task: Task) -> tuple[Any, list[Step], float]:
    """Fit with SciPy's default tolerance; all Newton steps, and the seconds of the whole fit."""
    y = Surv.from_arrays(np.ones(task.n_items, dtype=bool), task.y)
    model = FastKernelSurvivalSVM(
        2.0 * task.sum_C, kernel="rbf", gamma=task.gamma, max_iter=200, random_state=SEED
    )
    with _steps_seen(task) as steps, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = time.perf_counter()
        model.fit(task.X, y)
        seconds = time.perf_counter() - before
    return model, steps, seconds


@contextmanager
def _steps_seen(task: Task) -> Iterator[list[Step]]:
    """Listen to ``scipy.optimize.minimize`` inside scikit-survival; stop it when it takes long."""
    steps: list[Step] = []
    start = time.perf_counter()
    order = np.argsort(task.y)  # scikit-survival works on the items in this order

    def listen(x: Array) -> None:
        coef = np.empty_like(x)
        coef[order] = x
        steps.append(Step(time.perf_counter() - start, coef))
        if steps[-1].seconds > LONGEST:
            raise StopIteration

    minimize = partial(survival_svm.minimize, callback=listen)
    with mock.patch.object(survival_svm, "minimize", minimize):
        yield steps
