"""Every C and gamma of the papers' grids, on every fold of LETOR's sets.

A job is one family of models on one fold with one gamma: a warm-started path over all C.  Its
result has the metrics on the validation part, by which alone C and gamma are chosen
(:mod:`benchmarks.papers.tuning`), and the scores of the test part.

C weights the sum over pairs, as in the papers, or for the families with queries of equal weight the
mean over queries of the mean over their pairs.  Fits stop at a certified relative gap of 1e-6
(linear) or 1e-4 (kernels): at 1e-3 the choice, and with it the second digit of a metric, would
still depend on where a fit started.  Kernel fits with a large C and gamma are stopped after 100
steps of conjugate gradients and are marked as stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.common import SEED, pinned
from benchmarks.folds import letor_fold
from benchmarks.papers.jobs import Job
from ranksvm.data import RankingData
from ranksvm.learners import KernelSettings, LinearSettings, Settings, make_problem
from ranksvm.metrics import evaluate
from ranksvm.model_selection.path import fit_path
from ranksvm.solvers.base import Status

# As in Chen, Li, Dou, Liang & Lv, section 4.1.
LOG2_CS = tuple(range(-12, 7))
LOG2_GAMMAS = tuple(range(-12, 3))
# Beyond the lower end of that grid, which validation chooses for linear models on OHSUMED.
LOG2_WIDE_CS = tuple(range(-24, 7))
# For reduction="query_mean".
LOG2_QUERY_CS = tuple(range(-8, 17))
LINEAR_TOL, KERNEL_TOL = 1e-6, 1e-4
# Kernel fits of a path stop after so many steps of conjugate gradients, timed fits after so long.
MAX_CG_STEPS = 100
MAX_SECONDS = 120.0
CRITERIA = (
    "ndcg@1", "ndcg@3", "ndcg@5", "mean_ndcg", "p@1", "p@3", "p@5", "map", "pairwise_accuracy",
    "mrr", "reciprocal_true_rank@1",
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """Models that differ only in C and gamma."""

    settings: Settings
    log2_Cs: tuple[int, ...] = LOG2_CS

    @property
    def has_gamma(self) -> bool:
        return isinstance(self.settings, KernelSettings)

    def at(self, C: float, gamma: float | None, n_components: int | None = None) -> Settings:
        changes = {"C": C, "gamma": gamma, "n_components": n_components}
        return replace(self.settings, **{k: v for k, v in changes.items() if v is not None})


def _kernel(approximation: str | None = None, reduction: str = "sum", **more: Any) -> Settings:
    return KernelSettings(
        reduction=reduction,
        scaling=None,
        tol=KERNEL_TOL,
        approximation=approximation,
        n_components=500,
        random_state=SEED,
        **more,
    )


def _linear(**about: Any) -> Settings:
    return LinearSettings(scaling=None, **about)


FAMILIES: Mapping[str, Family] = {
    "linear L1": Family(_linear(reduction="sum", loss="hinge", tol=LINEAR_TOL)),
    "linear L2": Family(_linear(reduction="sum", tol=LINEAR_TOL)),
    "exact rbf": Family(_kernel()),
    "Nystrom rbf": Family(_kernel("nystroem")),
    "Fourier rbf": Family(_kernel("fourier")),
    "linear L1, wider grid": Family(
        _linear(reduction="sum", loss="hinge", tol=LINEAR_TOL), LOG2_WIDE_CS
    ),
    "linear L2, wider grid": Family(_linear(reduction="sum", tol=LINEAR_TOL), LOG2_WIDE_CS),
    "linear L1, queries equal": Family(
        _linear(reduction="query_mean", loss="hinge", tol=LINEAR_TOL), LOG2_QUERY_CS
    ),
    "linear L2, queries equal": Family(
        _linear(reduction="query_mean", tol=LINEAR_TOL), LOG2_QUERY_CS
    ),
    "Nystrom rbf, queries equal": Family(_kernel("nystroem", "query_mean"), LOG2_QUERY_CS),
}


def grid_jobs(
    name: str, family: str, folds: Sequence[int], *, threads: int, step: int = 1
) -> list[Job]:
    """A family on some folds of a set; ``step`` takes every second, third, ... C and gamma."""
    kind = FAMILIES[family]
    gammas: Sequence[int | None] = LOG2_GAMMAS[::step] if kind.has_gamma else (None,)
    return [
        Job(
            f"{name}, {family}, fold {fold + 1}"
            + ("" if gamma is None else f", gamma = 2^{gamma}"),
            path,
            {
                "name": name,
                "family": family,
                "fold": fold,
                "log2_gamma": gamma,
                "log2_Cs": list(kind.log2_Cs[::step]),
                "threads": threads,
            },
        )
        for fold in folds
        for gamma in gammas
    ]


def path(
    name: str, family: str, fold: int, log2_gamma: int | None, log2_Cs: list[int], threads: int
) -> dict[str, Any]:
    """One gamma on one fold: metrics on validation and scores of the test items, by C."""
    train, valid, test = letor_fold(name, fold)
    gamma = None if log2_gamma is None else 2.0**log2_gamma
    settings = FAMILIES[family].at(1.0, gamma)
    with pinned(threads):
        problem = make_problem(train, settings, n_threads=threads)
        limit = None if gamma is None else _CGLimit()
        fits = fit_path(problem, 2.0 ** np.array(log2_Cs, dtype=float), callback=limit)
        on_valid = problem.score(valid.X, fits)
        on_test = problem.score(test.X, fits)
    return {
        "candidates": [[C] if gamma is None else [C, log2_gamma] for C in log2_Cs],
        "valid": on_validation(on_valid, valid),
        "test": np.array(on_test),
        "gaps": [fit.gap / fit.objective for fit in fits],
        "stopped": [fit.status is Status.STOPPED for fit in fits],
    }


def on_validation(scores: Sequence[Any], valid: RankingData) -> dict[str, list[float]]:
    """Return every criterion of every candidate."""
    found = [evaluate(valid.truth, s, valid.qid, CRITERIA, conventions="letor") for s in scores]
    return {name: [float(one[name]) for one in found] for name in CRITERIA}


class _CGLimit:
    """Stops a fit by its steps of conjugate gradients; by the clock, results would vary."""

    def __init__(self) -> None:
        self.steps = 0

    def __call__(self, row: Any, coef: Any) -> bool:
        del coef
        if row.iteration <= 1:
            self.steps = 0
        self.steps += row.inner_iterations
        return self.steps > MAX_CG_STEPS


def fit_once(
    name: str,
    family: str,
    fold: int,
    log2_C: float,
    log2_gamma: float | None,
    threads: int,
    n_components: int | None = None,
) -> dict[str, Any]:
    """One fit from scratch, timed, and the scores of the test items.

    It stops at its tolerance, or at the first iteration after two minutes.
    """
    train, _, test = letor_fold(name, fold)
    gamma = None if log2_gamma is None else 2.0**log2_gamma
    settings = FAMILIES[family].at(2.0**log2_C, gamma, n_components)
    with pinned(threads):
        before = time.perf_counter()
        problem = make_problem(train, settings, n_threads=threads)
        fit = problem.solve(callback=lambda row, _: row.seconds > MAX_SECONDS)
        seconds = time.perf_counter() - before
        (scores,) = problem.score(test.X, [fit])
    return {
        "seconds": seconds,
        "gap": fit.gap / fit.objective,
        "converged": fit.status is Status.CONVERGED,
        "test": scores,
    }
