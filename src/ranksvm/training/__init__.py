"""From arrays to a certified minimiser, without scikit-learn.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - s_better + s_worse)

with scores s that are linear in w: w.x, or w.phi(x) for the features of a kernel.  Pairs come from
utilities inside queries, from a list of preferences, or from both.  Estimators,
model selection and commands meet here.  Settings say what is minimised and how; a problem is what
does not depend on C (the sorted utilities, the map from w to scores), so that a path over C
prepares it once; a :class:`Fit` is the answer with its certificate.
"""

from __future__ import annotations

from typing import Any

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.solvers.base import Point
from ranksvm.training.factorized import FactorizedProblem, FactorizedSettings
from ranksvm.training.kernel import KernelProblem, KernelSettings
from ranksvm.training.problem import Fit, LinearProblem, RankProblem, fit_facts
from ranksvm.training.settings import AUTO_SOLVER, REDUCTIONS, SOLVERS, LinearSettings, Settings
from ranksvm.training.weights import check_query_weight, total_pair_weight

__all__ = [
    "AUTO_SOLVER",
    "REDUCTIONS",
    "SOLVERS",
    "FactorizedProblem",
    "FactorizedSettings",
    "Fit",
    "KernelProblem",
    "KernelSettings",
    "LinearProblem",
    "LinearSettings",
    "Point",
    "RankProblem",
    "Settings",
    "check_query_weight",
    "fit_facts",
    "make_problem",
    "total_pair_weight",
]

PROBLEMS: dict[type[Settings], Any] = {
    LinearSettings: LinearProblem,
    KernelSettings: KernelProblem,
    FactorizedSettings: FactorizedProblem,
}


def make_problem(
    X: Any, utility: Array | None, groups: QueryGroups, settings: Settings, **options: Any
) -> LinearProblem | KernelProblem:
    """Return the problem that settings speak of; ``options`` as for :class:`RankProblem`."""
    problem: LinearProblem | KernelProblem = PROBLEMS[type(settings)](
        X, utility, groups, settings, **options
    )
    return problem
