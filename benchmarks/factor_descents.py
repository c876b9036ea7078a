"""Where a descent in factorized multipliers should begin.

L-BFGS from random factors, and from the multipliers of the linear machine: products with X and
seconds to a certified gap, medians over seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import SEED, Config
from benchmarks.folds import is_there, letor_fold
from benchmarks.report import Report, Row
from ranksvm.data import RankingData
from ranksvm.learners import FactorizedProblem, FactorizedSettings

TITLE = "factorized multipliers: starts"
N_FACTORS = 10
GAPS = (1e-1, 1e-2, 1e-3)
STARTS = {"random": "random factors", "linear": "linear multipliers"}


def run(config: Config, report: Report) -> None:
    for name in ("OHSUMED", "MQ2008"):
        if is_there(name):
            _starts(name, letor_fold(name, 0).train, config, report)
        else:
            report.note(f"{name} skipped: not there; $RANKSVM_DATA names the folder of the sets")


def _starts(name: str, train: RankingData, config: Config, report: Report) -> None:
    rows: list[Row] = []
    n_seeds = config.size(5, 1)
    for loss in ("hinge", "squared_hinge"):
        for init, label in STARTS.items():
            found: list[Run] = []
            for seed in range(SEED, SEED + n_seeds):
                settings = FactorizedSettings(
                    C=50.0,
                    loss=loss,
                    scaling=None,
                    n_factors=N_FACTORS,
                    init=init,
                    random_state=seed,
                    tol=GAPS[-1],
                    max_iter=config.size(500, 20),
                )
                fit = FactorizedProblem(train, settings, n_threads=config.threads).solve()
                curve = [Step(r.gap / r.objective, r.n_products, r.seconds) for r in fit.history]
                found.append(Run(fit.n_iter, curve))
            rows.append({"loss": loss, "start": label} | _medians(found))
            points = [(step.products, step.gap) for step in found[0].curve]
            report.curve(f"{name}, {loss}", label, points)
    report.table(
        f"{name}, first fold, C = 50, {N_FACTORS} factors: to a relative gap, medians over "
        f"{n_seeds} seeds",
        rows,
    )


class Step(NamedTuple):
    """Where a descent is."""

    gap: float
    products: float
    seconds: float


class Run(NamedTuple):
    """One descent."""

    iterations: int
    curve: Sequence[Step]


def _medians(runs: Sequence[Run]) -> dict[str, Any]:
    """Products and seconds until each gap; None if most never reached it."""
    row: dict[str, Any] = {"iterations": statistics.median(run.iterations for run in runs)}
    for gap in GAPS:
        first = [next((step for step in run.curve if step.gap <= gap), NEVER) for run in runs]
        products = statistics.median(step.products for step in first)
        seconds = statistics.median(step.seconds for step in first)
        row[f"products {gap:g}"] = int(products) if np.isfinite(products) else None
        row[f"s {gap:g}"] = seconds if np.isfinite(seconds) else None
    row["rel gap"] = statistics.median(min(step.gap for step in run.curve) for run in runs)
    return row


NEVER = Step(np.inf, np.inf, np.inf)
