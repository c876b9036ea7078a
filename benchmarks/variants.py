"""Which solver, and which of its variants, needs the fewest products with X.

Seconds are of one run each; products do not vary from run to run.  Looks at X that a preconditioner
takes are listed as "scatters"; they are not products, but each may cost as much as about two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.common import TOL, Config, FitResult
from benchmarks.report import Report, Row
from benchmarks.sets import Task, cadata_like, letor_like, real_tasks, reuters_like
from ranksvm import learners
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import GLOBALIZATIONS, PRECONDITIONERS, Newton
from ranksvm.solvers.smoothing import SmoothedNewton

TITLE = "variants of the solvers: products with X to a certified gap"

FORCINGS = (0.1, 0.3, 0.5)
FINE_TOL = 1e-6
_NEVER = 10**9


@dataclass(frozen=True)
class Variant:
    """A solver with settings that the estimator does not offer."""

    label: str
    factory: Callable[..., Any]

    def fit(self, task: Task, loss: str, tol: float, stop_after: float) -> FitResult:
        with mock.patch.dict(learners.SOLVERS, {"variant": self.factory}):
            return task.fit(loss, solver="variant", tol=tol, max_iter=10_000, stop_after=stop_after)


def newton_variants(config: Config) -> list[Variant]:
    """All combinations; the settings that the library has chosen are marked."""
    default = Newton()
    forcings = sorted({*FORCINGS, default.forcing}) if not config.quick else [default.forcing]
    variants = []
    for globalization, preconditioner, forcing in product(
        GLOBALIZATIONS, PRECONDITIONERS, forcings
    ):
        settings: dict[str, Any] = {
            "globalization": globalization,
            "preconditioner": preconditioner,
            "forcing": forcing,
        }
        chosen = all(getattr(default, name) == value for name, value in settings.items())
        label = f"{globalization}, {preconditioner}, {forcing:g}" + " *" * chosen
        variants.append(Variant(label, partial(Newton, **settings)))
    return variants


PLAIN_BMRM = Variant(
    "plain BMRM", partial(Bundle, line_search=False, risk_lower=None, patience=_NEVER)
)
BUNDLES = (
    Variant("bundle", Bundle),
    Variant("bundle without line search", partial(Bundle, line_search=False)),
    PLAIN_BMRM,
)
SOLVERS_OF_LOSS: dict[str, Sequence[Variant]] = {
    "squared_hinge": (Variant("newton", Newton), *BUNDLES),
    "hinge": (Variant("smoothed_newton", SmoothedNewton), *BUNDLES),
}


def _tasks(config: Config, report: Report) -> Iterator[Task]:
    yield cadata_like(config.size(100_000, 2_000))
    yield reuters_like(config.size(32_000, 500))
    yield letor_like(config.size(1_700, 60))
    if not config.quick:
        yield from real_tasks(report.note)


def run(config: Config, report: Report) -> None:
    tasks = list(_tasks(config, report))
    _newton(tasks, config, report)
    _solvers(tasks, config, report)


def _newton(tasks: list[Task], config: Config, report: Report) -> None:
    rows: list[Row] = []
    products: dict[str, list[int]] = {}
    for task in tasks:
        for variant in newton_variants(config):
            coarse, fine = (
                variant.fit(task, "squared_hinge", tol, _longest(config)) for tol in (TOL, FINE_TOL)
            )
            rows.append(
                {
                    "set": task.name,
                    "globalization, preconditioner, forcing": variant.label,
                    **_outcome(coarse, TOL),
                    **_outcome(fine, FINE_TOL),
                }
            )
            products.setdefault(variant.label, []).extend(
                fit.model.n_products_ for fit in (coarse, fine)
            )
    report.table("Newton, squared hinge, 1 thread; * marks the library's choice", rows)
    counts = np.array(list(products.values()), dtype=float)
    relative = np.exp(np.log(counts / counts.min(axis=0)).mean(axis=1))
    summary = [
        {
            "globalization, preconditioner, forcing": label,
            "products / fewest, geometric mean": mean,
            "worst set": worst,
        }
        for label, mean, worst in zip(
            products, relative, (counts / counts.min(axis=0)).max(axis=1), strict=True
        )
    ]
    summary.sort(key=lambda row: float(row["products / fewest, geometric mean"]))
    report.table("Newton over all sets and both gaps", summary)


def _outcome(fit: FitResult, tol: float) -> Row:
    """Products and seconds to a gap; a fit that did not get there says how far it got."""
    return {
        f"products to {tol:g}": fit.model.n_products_,
        f"scatters, {tol:g}": fit.profile.calls["scatter"],
        f"seconds, {tol:g}": fit.seconds,
        f"rel gap, {tol:g}": fit.relative_gap,
        f"status, {tol:g}": fit.model.status_,
    }


def _solvers(tasks: list[Task], config: Config, report: Report) -> None:
    rows: dict[str, list[Row]] = {loss: [] for loss in SOLVERS_OF_LOSS}
    for task, (loss, variants) in product(tasks, SOLVERS_OF_LOSS.items()):
        for variant in variants:
            fit = variant.fit(task, loss, TOL, _longest(config))
            row = {"set": task.name, "solver": variant.label, **_outcome(fit, TOL)}
            rows[loss].append(row | {"evaluations": fit.profile.evaluations})
            trace = [(step.n_products, step.gap / step.objective) for step in fit.model.history_]
            report.curve(f"{task.name}, {loss}", variant.label, trace)
    for loss, found in rows.items():
        report.table(f"solvers, {loss}, 1 thread", found)
    report.note(f"a fit is stopped after {_longest(config):g} s; its gap says how far it got")


def _longest(config: Config) -> float:
    return config.size(10.0, 0.5)
