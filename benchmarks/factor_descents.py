"""Which optimizer gets the objective of factorized multipliers down fastest.

All start from the same factors (five draws, medians) and are compared by the products with X and
the seconds that they take to a certified gap.  SciPy's L-BFGS-B minimises the same function.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import SEED, Config
from benchmarks.folds import is_there, letor_fold
from benchmarks.report import Report, Row
from ranksvm._threads import one_blas_thread
from ranksvm.backends.native import NativeBackend
from ranksvm.maps.factorized import FactorMap
from ranksvm.pairs.order import PairOrder
from ranksvm.learners import FactorizedProblem, FactorizedSettings
from ranksvm.learners.factors import FactorObjective, random_start

TITLE = "factorized multipliers: optimizers"
N_FACTORS = 10
GAPS = (1e-1, 1e-2, 1e-3)
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "lbfgs": {"optimizer": "lbfgs"},
    "lbfgs from linear multipliers": {"optimizer": "lbfgs", "init": "linear"},
    "gradient": {"optimizer": "gradient"},
    "sgd": {"optimizer": "sgd"},
}


def run(config: Config, report: Report) -> None:
    for name in ("OHSUMED", "MQ2008"):
        if is_there(name):
            _optimizers(name, letor_fold(name, 0).train, config, report)
        else:
            report.note(f"{name} skipped: not there; $RANKSVM_DATA names the folder of the sets")


def _optimizers(name: str, train: Any, config: Config, report: Report) -> None:
    X, y, groups = train
    rows: list[Row] = []
    for loss in ("hinge", "squared_hinge"):
        runs: dict[str, list[Run]] = {}
        for seed in range(SEED, SEED + config.size(5, 1)):
            for label, options in OPTIMIZERS.items():
                settings = FactorizedSettings(
                    loss=loss,
                    n_factors=N_FACTORS,
                    random_state=seed,
                    tol=GAPS[-1],
                    max_iter=config.size(500, 20),
                    **options,
                )
                problem = FactorizedProblem(X, y, groups, settings, n_threads=config.threads)
                fit = problem.solve()
                curve = [Step(r.gap / r.objective, r.n_products, r.seconds) for r in fit.history]
                runs.setdefault(label, []).append(Run(fit.n_iter, curve))
                if label == "lbfgs":
                    found = _scipy(problem, settings, fit, config)
                    runs.setdefault("SciPy's L-BFGS-B", []).append(found)
        for label, found in runs.items():
            rows.append({"loss": loss, "optimizer": label} | _medians(found))
            points = [(step.products, step.gap) for step in found[0].curve]
            report.curve(f"{name}, {loss}", label, points)
    report.table(
        f"{name}, first fold, C = 50, {N_FACTORS} factors: to a relative gap, medians over "
        f"{config.size(5, 1)} seeds",
        rows,
    )


class Step(NamedTuple):
    """Where a descent is."""

    gap: float
    products: int
    seconds: float


class Run(NamedTuple):
    """One descent."""

    iterations: int
    curve: Sequence[Step]


def _scipy(problem: Any, settings: Any, ours: Any, config: Config) -> Run:
    """SciPy's L-BFGS-B from the same start, on the same function."""
    from scipy.optimize import minimize

    lower = ours.linear.objective - ours.linear.gap
    groups = problem.groups
    convex = problem._convex.objective(settings.C)
    pairs = NativeBackend(PairOrder(problem._items.utility, groups), n_threads=config.threads)
    objective = FactorObjective(convex, FactorMap(convex.score_map, pairs))
    before, began = objective.n_products, time.perf_counter()
    start = random_start(objective, groups, N_FACTORS, settings.init_scale, ours.restarts[0].seed)
    curve: list[Step] = []

    def function(x: Any) -> Any:
        at = objective.at(x.reshape(start.shape))
        return at.value, at.grad.ravel()

    def callback(intermediate_result: Any) -> None:
        value = float(intermediate_result.fun)
        seconds = time.perf_counter() - began
        curve.append(Step((value - lower) / value, objective.n_products - before, seconds))
        if curve[-1].gap <= GAPS[-1]:
            raise StopIteration

    options = {"maxcor": 10, "maxiter": settings.max_iter, "ftol": 0.0, "gtol": 0.0}
    with one_blas_thread():
        result = minimize(
            function, start.ravel(), jac=True, method="L-BFGS-B", callback=callback, options=options
        )
    return Run(int(result.nit), curve)


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


NEVER = Step(np.inf, np.inf, np.inf)  # type: ignore[arg-type]
