"""Survival times: ranksvm against scikit-survival, and censored fits against uncensored ones.

FastSurvivalSVM and FastKernelSurvivalSVM with ``rank_ratio=1`` minimise

    1/2 |w|^2 + alpha/2 sum over pairs of max(0, 1 - ...)^2

over the pairs whose earlier time is an event, so alpha = 2 C.  No two times are equal here, because
they break ties at random.  They have no certificate: our objective at their coefficients, against a
certified lower bound of the optimum, says how near they came.  Two comparisons are made:

    equal gap         scikit-survival until the first of its Newton steps that is within 1e-3 of the
                      optimum, and ours to a certified gap of 1e-3
    equal objective   scikit-survival until it ends, with SciPy's tolerance or after a time limit,
                      and ours to a certified gap as small as scikit-survival's is then, but not
                      below 1e-6; of this the goals speak

The last table compares fits with a third of the items censored with fits without censoring.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from unittest import mock

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import LOSSES, SEED, TOL, Array, Call, Config, interleave, pinned, ratio
from benchmarks.report import Report, Row
from ranksvm import KernelSurvivalRankSVM, SurvivalRankSVM
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.survival import survival_order
from ranksvm.maps.kernels import Kernel, kernel_matrix
from ranksvm.pairs.oracle import SquaredHinge
from ranksvm.pairs.order import PairOrder

try:
    from sksurv.svm import FastKernelSurvivalSVM, FastSurvivalSVM, survival_svm
    from sksurv.util import Surv
except ImportError:  # an optional dependency of the benchmarks
    FastSurvivalSVM = None

TITLE = "survival times against scikit-survival, and against uncensored fits"

# Of the sum over pairs: scikit-survival's default, alpha = 1.
SUM_C = 0.5
# With a larger one, scikit-survival's kernel machine ends far from its optimum.
KERNEL_C = 1e-5
GAMMA = 0.05
# Relative gap of the fit that gives the lower bound.
NEAREST = 1e-8
# The least gap that is asked of the fits that are timed.
TIGHTEST = 1e-6
# Seconds after which scikit-survival is stopped, at the end of a Newton step.
LONGEST = 120.0


@dataclass(frozen=True)
class Survival:
    """Exponential times that depend on the features, censored at random; no two are equal."""

    kind: str
    X: Array
    time: Array
    event: Any
    sum_C: float

    @classmethod
    def of(cls, kind: str, X: Array, sum_C: float) -> Survival:
        rng = np.random.default_rng(SEED)
        n_items, n_features = X.shape
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        effect = X @ rng.normal(size=n_features) / np.sqrt(n_features)
        happens, ends = rng.exponential(np.exp(effect)), rng.exponential(2.0, n_items)
        times = np.minimum(happens, ends)
        assert len(np.unique(times)) == n_items
        return cls(kind, X, times, happens <= ends, sum_C)

    @cached_property
    def loss(self) -> SquaredHinge:
        order, roles = survival_order(self.time, self.event)
        groups = QueryGroups.from_qid(None, len(order))
        return SquaredHinge(NativeBackend(PairOrder(order, groups, roles=roles)))

    @property
    def name(self) -> str:
        size = f"{len(self.time):,} x {self.X.shape[1]}"
        return f"{self.kind}, {size}, {100 * self.event.mean():.0f}% events"

    @property
    def y(self) -> Any:
        return Surv.from_arrays(self.event, self.time)


def clinical(n_items: int, sum_C: float = SUM_C) -> Survival:
    """Like GBSG2: age, receptors, nodes, size, grades and yes or no; standardized."""
    rng = np.random.default_rng(SEED)
    age = np.clip(rng.normal(53.0, 10.0, n_items), 21.0, 80.0).round()
    grade = rng.integers(1, 4, n_items)
    columns = (
        age,
        np.floor(rng.lognormal(3.5, 1.6, n_items)),
        np.floor(rng.lognormal(3.3, 1.8, n_items)),
        np.minimum(51.0, 1.0 + np.floor(rng.exponential(4.0, n_items))),
        np.clip(rng.normal(29.0, 14.0, n_items), 3.0, 120.0).round(),
        rng.random(n_items) < 0.36,
        age + rng.normal(0.0, 4.0, n_items) > 50.0,
        grade > 1,
        grade > 2,
    )
    return Survival.of("clinical", np.column_stack(columns).astype(np.float64), sum_C)


def expression(n_items: int, n_features: int = 80) -> Survival:
    """Like the gene expressions of breast cancer: correlated features; standardized."""
    rng = np.random.default_rng(SEED)
    factors = rng.normal(size=(n_items, 10)) @ rng.normal(size=(10, n_features))
    X = 8.0 + factors + 0.3 * rng.normal(size=(n_items, n_features))
    return Survival.of("expression", X, SUM_C)


@dataclass(frozen=True)
class Step:
    """Where a Newton step has led, and when."""

    seconds: float
    coef: Array


@dataclass(frozen=True)
class Judge:
    """The objective at any coefficients, and how far from the optimum it is."""

    data: Survival
    scores: Callable[[Array], Array]
    norm2: Callable[[Array, Array], float]
    lower: float

    def value(self, coef: Array) -> float:
        scores = self.scores(coef)
        return 0.5 * self.norm2(coef, scores) + self.data.sum_C * self.data.loss.at(scores).value

    def gap(self, coef: Array) -> float:
        """Relative, and certified."""
        value = self.value(coef)
        return (value - self.lower) / value

    def row(
        self, program: str, until: str, seconds: float, coef: Array, own: float | None = None
    ) -> Row:
        return {
            "program": program,
            "until": until,
            "seconds": seconds,
            "objective": f"{self.value(coef):.9g}",
            "own": None if own is None else f"{own:.9g}",
            "suboptimality <=": self.gap(coef),
        }


def run(config: Config, report: Report) -> None:
    n_items = config.size(100_000, 300)
    found = [_linear(make(n_items), config, report) for make in (clinical, expression)]
    measured = [one for one in found if one is not None]
    if measured:
        report.reach("survival_peer", *max(measured))
    kernel = _kernel(clinical(config.size(2_000, 100), KERNEL_C), config, report)
    if kernel is not None:
        report.reach("survival_kernel_peer", *kernel)
    report.note("objective: ours at the coefficients; own: by the program's account")
    _censoring(config, report)


def _linear(data: Survival, config: Config, report: Report) -> tuple[float, str] | None:
    def fit(tol: float) -> SurvivalRankSVM:
        model = SurvivalRankSVM(
            data.sum_C, reduction="sum", scaling=None, tol=tol, n_jobs=config.threads
        )
        return model.fit(data.X, data.time, event=data.event)

    judge = Judge(
        data, lambda coef: data.X @ coef, lambda coef, _: float(coef @ coef), _lowest(fit)
    )
    theirs = partial(_solve, partial(_fast, data), data, slice(None), config.threads)
    return _compare(f"linear, {data.name}", fit, theirs, judge, config, report)


def _kernel(data: Survival, config: Config, report: Report) -> tuple[float, str] | None:
    def fit(tol: float) -> KernelSurvivalRankSVM:
        model = KernelSurvivalRankSVM(
            data.sum_C, reduction="sum", gamma=GAMMA, scaling=None, tol=tol, n_jobs=config.threads
        )
        return model.fit(data.X, data.time, event=data.event)

    K = kernel_matrix(Kernel("rbf", gamma=GAMMA), data.X, data.X)
    judge = Judge(
        data, lambda coef: K @ coef, lambda coef, scores: float(coef @ scores), _lowest(fit)
    )
    # scikit-survival works on the items in the order of their times.
    order = np.argsort(data.time)
    theirs = partial(_solve, partial(_fast_kernel, data), data, order, config.threads)
    return _compare(f"kernel rbf, {data.name}", fit, theirs, judge, config, report)


def _lowest(fit: Callable[[float], Any]) -> float:
    """A lower bound of the optimum, as near as rounding errors allow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(NEAREST)
    return float(model.objective_ - model.gap_)


def _fast(data: Survival) -> Any:
    return FastSurvivalSVM(2.0 * data.sum_C, max_iter=200, random_state=SEED)


def _fast_kernel(data: Survival) -> Any:
    return FastKernelSurvivalSVM(
        2.0 * data.sum_C, kernel="rbf", gamma=GAMMA, max_iter=200, random_state=SEED
    )


def _compare(
    title: str,
    fit: Callable[[float], Any],
    theirs: Callable[[], tuple[Any, list[Step], float]],
    judge: Judge,
    config: Config,
    report: Report,
) -> tuple[float, str] | None:
    """Our seconds divided by theirs at equal objective, and a detail; None without them."""
    title = f"{title}, {config.threads} threads"

    def ours(tol: float) -> Row:
        calls = {"ours": Call(lambda: fit(tol), config.threads)}
        timing = interleave(calls, rounds=7, seconds=config.size(8.0, 1.0))["ours"]
        coef = _coef(timing.result, len(judge.data.time))
        until = f"gap {tol:.1g}"
        return judge.row("ranksvm", until, timing.seconds, coef, timing.result.objective_)

    if FastSurvivalSVM is None:
        report.note("scikit-survival skipped: it is not installed (make bench does it)")
        report.table(title, [ours(TOL)])
        return None
    model, steps, seconds = theirs()
    step = next((step for step in steps if judge.gap(step.coef) <= TOL), steps[-1])
    least = judge.gap(model.coef_)
    rows = [
        ours(TOL),
        judge.row("scikit-survival", f"a step within {TOL:g}", step.seconds, step.coef),
        ours(max(least, TIGHTEST)),
        judge.row(
            "scikit-survival",
            f"stopped after {LONGEST:g} s" if seconds > LONGEST else "its end",
            seconds,
            model.coef_,
            float(model.optimizer_result_.fun),
        ),
    ]
    report.table(title, rows)
    at_gap = rows[0]["seconds"] / rows[1]["seconds"]
    detail = f"{judge.data.name}, gap {least:.1e}; at a gap of {TOL:g} {at_gap:.2g}"
    return rows[2]["seconds"] / rows[3]["seconds"], detail


def _coef(model: Any, n_items: int) -> Array:
    if isinstance(model, SurvivalRankSVM):
        return model.coef_
    coef = np.zeros(n_items)
    coef[model.support_] = model.dual_coef_
    return coef


def _solve(
    make: Callable[[], Any], data: Survival, order: Any, threads: int
) -> tuple[Any, list[Step], float]:
    """Fit with SciPy's default tolerance; all Newton steps, and the seconds of the whole fit."""
    model = make()
    with _steps_seen(order) as steps, warnings.catch_warnings(), pinned(threads):
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - before
    return model, steps, seconds


@contextmanager
def _steps_seen(order: Any) -> Iterator[list[Step]]:
    """Listen to ``scipy.optimize.minimize`` inside scikit-survival; stop it when it takes long."""
    steps: list[Step] = []
    start = time.perf_counter()

    def listen(x: Array) -> None:
        coef = np.empty_like(x)
        coef[order] = x
        steps.append(Step(time.perf_counter() - start, coef))
        if steps[-1].seconds > LONGEST:
            raise StopIteration

    minimize = partial(survival_svm.minimize, callback=listen)
    with mock.patch.object(survival_svm, "minimize", minimize):
        yield steps


def _censoring(config: Config, report: Report) -> None:
    data = expression(config.size(100_000, 2_000))
    everybody = np.ones(len(data.time), dtype=bool)
    rows = []
    for loss in LOSSES:

        def fit(event: Any, loss: str = loss) -> Any:
            model = SurvivalRankSVM(loss=loss, n_jobs=1)
            return model.fit(data.X, data.time, event=event)

        calls = {
            "all": Call(partial(fit, everybody)),
            "censored": Call(partial(fit, data.event)),
        }
        timings = interleave(calls, rounds=9, seconds=config.size(10.0, 1.0))
        found, plain = timings["censored"], timings["all"]
        rows.append(
            {
                "set": data.name,
                "loss": loss,
                "all events, s": plain.seconds,
                "censored, s": found.seconds,
                "censored / all": ratio(found, plain),
                "products": f"{plain.result.n_products_} -> {found.result.n_products_}",
                "status": found.result.status_,
            }
        )
    report.table("fits with censored times, and with all times taken for events, 1 thread", rows)
    worst = max(rows, key=lambda row: float(row["censored / all"]))
    report.reach("survival_fit", worst["censored / all"], f"{worst['loss']}, {worst['set']}")
