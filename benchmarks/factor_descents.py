"""Which optimizer gets the objective of factorized multipliers down fastest.

All start from the same factors and are compared by the products with X and the seconds that they
take to a certified gap.  SciPy's L-BFGS-B minimises the same function.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.common import SEED, Config
from benchmarks.quality import letor_fold, letor_parts
from benchmarks.report import Report, Row
from ranksvm.backends.native import NativeBackend
from ranksvm.maps.factorized import FactorMap
from ranksvm.pairs.order import PairOrder
from ranksvm.training import FactorizedProblem, FactorizedSettings
from ranksvm.training.factors import FactorObjective, random_start

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
        parts = letor_parts(name, report)
        if parts is not None:
            _optimizers(name, letor_fold(parts, 0)[0], config, report)


def _optimizers(name: str, train: Any, config: Config, report: Report) -> None:
    X, y, groups = train
    rows: list[Row] = []
    for loss in ("hinge", "squared_hinge"):
        for label, options in OPTIMIZERS.items():
            settings = FactorizedSettings(
                loss=loss, n_factors=N_FACTORS, random_state=SEED, tol=GAPS[-1],
                max_iter=config.size(500, 20), **options,
            )  # fmt: skip
            problem = FactorizedProblem(X, y, groups, settings, n_threads=config.threads)
            fit = problem.solve()
            rows.append(
                {"loss": loss, "optimizer": label, "iterations": fit.n_iter}
                | _reached([(r.gap / r.objective, r.n_products, r.seconds) for r in fit.history])
                | {"rel gap": fit.gap / fit.objective, "status": fit.status.name.lower()}
            )
            points = [(row.n_products, row.gap / row.objective) for row in fit.history]
            report.curve(f"{name}, {loss}", label, points)
            if label == "lbfgs":
                rows.append(_scipy(loss, problem, settings, fit, config))
    report.table(
        f"{name}, first fold, C = 50, {N_FACTORS} factors: products and seconds to a relative gap",
        rows,
    )


def _scipy(loss: str, problem: Any, settings: Any, ours: Any, config: Config) -> Row:
    """SciPy's L-BFGS-B from the same start, on the same function."""
    from scipy.optimize import minimize

    lower = ours.linear.objective - ours.linear.gap
    groups = problem.groups
    convex = problem._convex.objective(settings.C)
    pairs = NativeBackend(PairOrder(problem._utility, groups), n_threads=config.threads)
    objective = FactorObjective(convex, FactorMap(convex.score_map, pairs))
    start = random_start(objective, groups, N_FACTORS, settings.init_scale, ours.restarts[0].seed)
    before, began = objective.n_products, time.perf_counter()
    curve: list[tuple[float, int, float]] = []

    def function(x: Any) -> Any:
        at = objective.at(x.reshape(start.shape))
        return at.value, at.grad.ravel()

    def callback(intermediate_result: Any) -> None:
        value = float(intermediate_result.fun)
        seconds = time.perf_counter() - began
        curve.append(((value - lower) / value, objective.n_products - before, seconds))
        if curve[-1][0] <= GAPS[-1]:
            raise StopIteration

    options = {"maxcor": 10, "maxiter": settings.max_iter, "ftol": 0.0, "gtol": 0.0}
    result = minimize(
        function, start.ravel(), jac=True, method="L-BFGS-B", callback=callback, options=options
    )
    return (
        {"loss": loss, "optimizer": "SciPy's L-BFGS-B", "iterations": result.nit}
        | _reached(curve)
        | {"rel gap": curve[-1][0], "status": "converged" if curve[-1][0] <= GAPS[-1] else "ended"}
    )


def _reached(curve: Sequence[tuple[float, int, float]]) -> dict[str, Any]:
    """Products and seconds until each gap; None if it was never reached."""
    found: dict[str, Any] = {}
    for gap in GAPS:
        first = next((row for row in curve if row[0] <= gap), None)
        found[f"products {gap:g}"] = None if first is None else first[1]
        found[f"s {gap:g}"] = None if first is None else first[2]
    return found
