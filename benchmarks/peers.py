"""Other ways to the same optimum: scikit-survival, and LIBLINEAR on explicit pairs.

All solve the same problem.  scikit-survival's FastSurvivalSVM with ``rank_ratio=1`` and all events
observed minimises 1/2 |w|^2 + alpha/2 sum max(0, 1 - ...)^2, so alpha = 2 C.  LinearSVC sees a row
x_better - x_worse for every pair, with a label of +1 (or the negative row with -1, as it wants two
classes) and the same C.

They know nothing of certified gaps.  So each is run with ever tighter settings until our own
objective at its coefficients is within 1e-3 of a certified lower bound of the optimum, and the time
of that run alone counts: the earlier attempts are free.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.common import (
    LOSSES,
    SEED,
    TOL,
    Array,
    Call,
    Config,
    growth_exponent,
    interleave,
    ratio,
)
from benchmarks.fits import floor_seconds
from benchmarks.report import Report, Row
from benchmarks.sets import Task, cadata_like, letor_like, reuters_like, too_slow

try:
    from sksurv.svm import FastSurvivalSVM
    from sksurv.util import Surv
except ImportError:  # an optional dependency of the benchmarks
    FastSurvivalSVM = None

TITLE = "time to equal gap against other programs, 1 thread"

# Explicit differences are made up to so many stored numbers (8 bytes each, and their indices).
MOST_NUMBERS = 4e7
GOAL_SIZE = 16_000


@dataclass(frozen=True)
class Attempt:
    """Coefficients, seconds, and the value of the objective by the program's own account."""

    coef: Array
    seconds: float
    own_value: float


@dataclass(frozen=True)
class Peer:
    """A program with settings that get tighter and tighter.

    ``refuses`` says why it cannot take a set, or None; ``solve(task, loss, setting)`` runs it.
    """

    name: str
    losses: tuple[str, ...]
    settings: tuple[Any, ...]
    refuses: Callable[[Task], str | None]
    solve: Callable[[Task, str, Any], Attempt]


# --- scikit-survival ------------------------------------------------------------------------------


def _sksurv_refuses(task: Task) -> str | None:
    if FastSurvivalSVM is None:
        return "scikit-survival is not installed (make bench does it)"
    if sp.issparse(task.X):
        return "takes dense features only"
    if task.qid is not None:
        return "knows no queries"
    if task.has_ties:
        return "breaks ties of the utilities at random, which is another problem"
    return None


def _sksurv_solve(optimizer: str, task: Task, loss: str, tol: float) -> Attempt:
    del loss  # squared hinge only
    y = Surv.from_arrays(np.ones(task.n_items, dtype=bool), task.y)
    model = FastSurvivalSVM(
        2.0 * task.sum_C, optimizer=optimizer, tol=tol, max_iter=200, random_state=SEED
    )
    before = time.perf_counter()
    model.fit(task.X, y)
    seconds = time.perf_counter() - before
    return Attempt(model.coef_, seconds, float(model.optimizer_result_.fun))


# --- LIBLINEAR on explicit pairs ------------------------------------------------------------------


def _explicit_refuses(task: Task) -> str | None:
    width = 2.0 * task.X.nnz / task.n_items if sp.issparse(task.X) else task.X.shape[1]
    numbers = task.n_pairs * width
    if numbers <= MOST_NUMBERS:
        return None
    return f"{task.n_pairs:.2g} explicit pairs, {8 * numbers / 1e9:.2g} GB"


def explicit_pairs(task: Task) -> tuple[Any, Array]:
    """x_better - x_worse for every comparable pair, every other row negated, and the labels."""
    better, worse = [], []
    groups = task.groups
    for q in range(groups.n_queries):
        rows = groups.rows[groups.offsets[q] : groups.offsets[q + 1]]
        utility = task.y[rows]
        i, j = np.nonzero(utility[:, None] > utility[None, :])
        better.append(rows[i])
        worse.append(rows[j])
    i, j = np.concatenate(better), np.concatenate(worse)
    sign = np.where(np.arange(len(i)) % 2 == 0, 1.0, -1.0)
    differences = task.X[i] - task.X[j]
    if sp.issparse(differences):
        differences = sp.diags_array(sign) @ differences
        # LIBLINEAR's wrapper takes 32-bit indices.
        differences = sp.csr_matrix(differences)
    else:
        differences *= sign[:, None]
    return differences, sign


def _explicit_solve(task: Task, loss: str, setting: dict[str, Any]) -> Attempt:
    before = time.perf_counter()
    differences, sign = explicit_pairs(task)
    model = LinearSVC(
        C=task.sum_C,
        loss=loss,
        dual=loss == "hinge",
        fit_intercept=False,
        random_state=SEED,
        **setting,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(differences, sign)
    seconds = time.perf_counter() - before
    coef = model.coef_.ravel()
    slack = np.maximum(0.0, 1.0 - sign * (differences @ coef))
    pairs = slack.sum() if loss == "hinge" else slack @ slack
    return Attempt(coef, seconds, 0.5 * float(coef @ coef) + task.sum_C * float(pairs))


def _peers() -> Iterator[Peer]:
    for optimizer in ("avltree", "rbtree"):
        yield Peer(
            f"scikit-survival {optimizer}",
            ("squared_hinge",),
            (1e-1, 1e-2, 1e-3, 1e-5),
            _sksurv_refuses,
            partial(_sksurv_solve, optimizer),
        )
    name = "LinearSVC, explicit pairs"
    tols = tuple({"tol": tol, "max_iter": 1000} for tol in (1e-1, 1e-2, 1e-3, 1e-5))
    yield Peer(name, ("squared_hinge",), tols, _explicit_refuses, _explicit_solve)
    # Dual coordinate descent may go on for long: passes over the data bound its time.
    passes = tuple({"tol": 1e-10, "max_iter": n} for n in (1, 3, 10, 30, 100, 300))
    yield Peer(name, ("hinge",), passes, _explicit_refuses, _explicit_solve)


PEERS = tuple(_peers())


# --- The comparison -------------------------------------------------------------------------------


def run(config: Config, report: Report) -> None:
    last: dict[str, list[tuple[int, float]]] = {}
    sizes = config.size((316, 1_000, 3_162, 10_000, GOAL_SIZE, 31_623, 100_000), (200, 500))
    rows: list[Row] = []
    for m in sizes:
        found = compare(cadata_like(m), config, report, last)
        for row in found:
            last.setdefault(_key(row), []).append((m, row["seconds"]))
        rows += found
    rows += compare(reuters_like(config.size(500, 200)), config, report, {})
    rows += compare(letor_like(config.size(1_700, 30)), config, report, {})
    report.table(f"seconds until the objective is within {TOL:g} of the optimum", rows)
    report.note("suboptimality: our objective at the coefficients against a certified lower bound")
    report.note("agreement: the program's own value of the objective against ours, relative")
    report.note("LinearSVC's seconds include making the differences")
    for key, points in last.items():
        loss, method = key.split(": ", 1)
        if any(method == peer.name for peer in PEERS):
            report.curve(f"cadata-like, {loss}", method, points)
    _goal(config, report, last)


def _key(row: Row) -> str:
    return f"{row['loss']}: {row['method']}"


def compare(
    task: Task, config: Config, report: Report, last: dict[str, list[tuple[int, float]]]
) -> list[Row]:
    """Ours and every peer on one set."""
    rows: list[Row] = []
    for loss in LOSSES:
        lower = task.lower_bound(loss)
        ours: dict[str, dict[str, Any]] = {"ranksvm": {}, "ranksvm, tree": {"counting": "tree"}}
        if too_slow(task, "pairs") is None:
            # The same cutting planes, but every pair is looked at.
            ours["ranksvm bundle, pairs"] = {"solver": "bundle", "counting": "pairs"}
        longest = config.size(15.0, 2.0)
        calls = {
            name: Call(partial(task.fit, loss, stop_after=longest, **settings))
            for name, settings in ours.items()
        }
        timings = interleave(calls, rounds=3, seconds=config.size(10.0, 0.5))
        for name, timing in timings.items():
            value = task.value(loss, timing.result.model.coef_)
            own = timing.result.model.objective_
            rows.append(_row(task, loss, name, None, timing.seconds, value, lower, own))
        best = timings["ranksvm"].result
        floor = floor_seconds(task, best.profile, best.model.coef_, 1, config)
        rows.append({"set": task.name, "loss": loss, "method": "floor", "seconds": floor})
        for peer in PEERS:
            if loss not in peer.losses:
                continue
            expected = _expect(last.get(f"{loss}: {peer.name}", []), task.n_items)
            reason = peer.refuses(task)
            if reason is None and expected > longest:
                reason = f"would take about {expected:.0f} s an attempt"
            if reason is not None:
                report.note(f"{peer.name} skipped on {task.name}, {loss}: {reason}")
                continue
            rows.append(_first_good(peer, task, loss, lower))
    return rows


def _first_good(peer: Peer, task: Task, loss: str, lower: float) -> Row:
    """The least demanding setting that reaches the gap, or the last one."""
    for setting in peer.settings:
        attempt = peer.solve(task, loss, setting)
        value = task.value(loss, attempt.coef)
        if value - lower <= TOL * value:
            break
    shown = f"{setting}" if isinstance(setting, float) else f"{list(setting.values())}"
    return _row(task, loss, peer.name, shown, attempt.seconds, value, lower, attempt.own_value)


def _row(
    task: Task,
    loss: str,
    method: str,
    setting: str | None,
    seconds: float,
    value: float,
    lower: float,
    own_value: float,
) -> Row:
    suboptimality = (value - lower) / value
    return {
        "set": task.name,
        "loss": loss,
        "method": method,
        "tol": setting or f"gap {TOL:g}",
        "seconds": seconds,
        "suboptimality <=": suboptimality,
        "reached": bool(suboptimality <= TOL),
        "agreement": abs(own_value - value) / value,
    }


def _expect(points: list[tuple[int, float]], m: int) -> float:
    """Seconds at another size by the power law through what was measured; 0 when unknown."""
    if not points:
        return 0.0
    slope = growth_exponent([size for size, _ in points], [s for _, s in points])
    size, seconds = points[-1]
    return seconds * float((m / size) ** max(1.0, 2.0 if slope is None else slope))


def _goal(config: Config, report: Report, last: dict[str, list[tuple[int, float]]]) -> None:
    """Hinge at 16,000: our fit against the cutting planes over explicit pairs, in turn."""
    task = cadata_like(config.size(GOAL_SIZE, 1_000))
    explicit = partial(task.fit, "hinge", solver="bundle", counting="pairs")
    calls = {"ours": Call(partial(task.fit, "hinge")), "pairs": Call(explicit)}
    timings = interleave(calls, rounds=3, seconds=config.size(20.0, 1.0))
    found = ratio(timings["ours"], timings["pairs"])
    points = last.get("hinge: LinearSVC, explicit pairs", [])
    other = "LinearSVC was not measured"
    if points:
        expected = _expect(points, task.n_items)
        other = (
            f"to LinearSVC, extrapolated from m = {points[-1][0]:,}, "
            f"{timings['ours'].seconds / expected:.1g}"
        )
    detail = f"{task.name}, bundle with counting='pairs' {timings['pairs'].seconds:.2f} s; {other}"
    report.reach("explicit_pairs", found, detail)
