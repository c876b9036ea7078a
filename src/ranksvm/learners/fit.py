"""A solution with its certificate, and what a model records about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from ranksvm._messages import Message, Param
from ranksvm._points import Point
from ranksvm._text import counted
from ranksvm._vectors import Array
from ranksvm._version import library_version
from ranksvm.data.preferences import positive_pairs
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.settings import Settings
from ranksvm.objective import RankEval
from ranksvm.solvers.base import Status, TraceRow

# What to do about a fit that ended early.  "C" is not a Param, because `ranksvm tune` has no option
# --C.
REMEDIES = {
    Status.MAX_ITER: "raise {max_iter}, scale the features, or lower C",
    Status.STALLED: "scale the features, subtract the mean from those that vary little for their "
    "size, lower C, or raise {tol}",
}


@dataclass(frozen=True)
class Fit:
    """A solution and its certificate.

    F(coef) and the optimum both lie between ``objective - gap`` and ``objective``; ``lower`` is
    that lower bound without the rounding of the difference.

    ``point`` has the coefficients and their scores, from which another fit can start;
    ``evaluation`` has the value and derivatives there, for a fit ``after`` this one.

    With several rounds, numbers of iterations and products are those of all rounds, and ``history``
    tells them apart.  ``status`` is that of the last round that did not converge, and CONVERGED if
    all did: the weights of a round rest on the ranking of the one before.  Everything else is about
    the last round.  ``first`` is the fit of round 0.
    """

    point: Point
    objective: float
    gap: float
    n_iter: int
    n_products: int
    n_pairs: int
    status: Status
    history: tuple[TraceRow, ...]
    solver: str
    tol: float
    evaluation: RankEval | None = field(default=None, repr=False, compare=False)
    lower: float = -math.inf
    first: Fit | None = field(default=None, repr=False, compare=False)

    @property
    def on_path(self) -> Fit:
        """The fit that a path over C goes by: of round 0, whose pairs are the same for all C."""
        return self if self.first is None else self.first

    def without_evaluation(self) -> Self:
        """Return the fit without what needs memory: the violated pairs."""
        first = None if self.first is None else self.first.without_evaluation()
        return replace(self, evaluation=None, first=first)

    @property
    def coef(self) -> Array:
        """The coefficients, one per column of the score map."""
        return self.point.w

    def report(self) -> dict[str, Any]:
        """Return what a JSON report contains about this kind of fit beyond its certificate."""
        return {}

    @property
    def relative_gap(self) -> float:
        """The gap relative to the objective."""
        return relative_gap(self.objective, self.gap)

    @property
    def shortfall(self) -> Message | None:
        """A message with a remedy if the fit ended before it reached ``tol``; otherwise None."""
        return solver_shortfall(self.solver, self.status, self.n_iter, self.relative_gap, self.tol)


def relative_gap(objective: float, gap: float) -> float:
    """Return a gap relative to the objective; zero if the objective is zero."""
    return gap / objective if objective > 0.0 else 0.0


def solver_shortfall(
    solver: str, status: Status, n_iter: int, gap: float, tol: float
) -> Message | None:
    """Return the message about a fit that may have several rounds; see :func:`shortfall`."""
    if status not in REMEDIES or not gap <= tol:
        return shortfall(solver, status, n_iter, gap, tol)
    return Message(
        "solver {solver!r} reached {asked} in the last round, but not in an earlier one, whose "
        "ranking gave the pairs their weights ({why}); {remedy}.",
        solver=solver,
        asked=Param("tol", tol),
        why=status.value,
        remedy=_remedy(REMEDIES[status]),
    )


def shortfall(
    solver: str,
    status: Status,
    n_iter: int,
    gap: float,
    tol: float,
    *,
    remedies: Mapping[Status, str] = REMEDIES,
    method: str = "solver",
    optimum: str = "",
) -> Message | None:
    """Return a message with a remedy if a fit ended before it reached ``tol``; otherwise None.

    ``gap`` is the relative gap.
    """
    if status not in remedies:
        return None
    return Message(
        "{method} {solver!r} stopped after {iterations} with a relative gap{optimum} of "
        "{gap:.2e}, which exceeds {asked} ({why}); {remedy}.",
        method=method,
        solver=solver,
        iterations=counted(n_iter, "iteration"),
        optimum=optimum,
        gap=gap,
        asked=Param("tol", tol),
        why=status.value,
        remedy=_remedy(remedies[status]),
    )


def _remedy(text: str) -> Message:
    return Message(text, **{name: Param(name) for name in ("max_iter", "tol", "random_state")})


def about_fit(fit: Fit, data: RankingData, settings: Settings) -> dict[str, Any]:
    """Return the parameters, facts and feature names of the model of a fit.

    ``data`` must be as :func:`ranksvm.learners.make_problem` gives it to a problem.
    """
    if data.view != settings.view:
        raise ValueError(f"the settings have {settings.view}, the data {data.view}")
    facts = {
        "objective": fit.objective,
        "gap": fit.gap,
        "status": fit.status.name.lower(),
        "solver": fit.solver,
        "n_iter": fit.n_iter,
        "n_products": fit.n_products,
        "n_pairs": fit.n_pairs,
        "n_items": data.n_items,
        "n_queries": data.groups.n_queries,
        "ranksvm": library_version(),
        **data.origin.facts(),
        **data.view.facts(),
    }
    if data.preferences is not None:
        listed = positive_pairs(data.preferences, data.query_weight)
        facts["explicit_pairs"] = len(listed)
        if listed.n_ties:
            facts["explicit_ties"] = listed.n_ties
    return {
        "params": {one.name: getattr(settings, one.name) for one in fields(settings)},
        "facts": facts,
        "feature_names": data.feature_names,
    }
