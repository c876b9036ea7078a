"""From arrays to a certified minimiser: linear RankSVM without scikit-learn.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - w.x_better + w.x_worse)

Estimators, model selection and commands meet here.  :class:`LinearSettings` says what is minimised
and how; a :class:`LinearProblem` is what does not depend on C (the sorted utilities, the map with
X), so that a path over C prepares it once; :class:`LinearFit` is the answer with its certificate.

From one C to the next.  What is known of the sum over pairs at a point (its value, its gradient,
the violated pairs behind its Hessian) does not depend on C: a fit handed to the next one as
``after`` gives an evaluation of the new F at its own solution without any work.  From there a
forecast ``start`` is a direction to search; with known scores, that takes no product with X.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm._checks import as_weights, check_choice, check_positive, check_weights
from ranksvm._vectors import Array, dot
from ranksvm._version import library_version
from ranksvm.backends.native import COUNTINGS, NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.matrix import MatrixMap
from ranksvm.maps.steady import SteadyScatter
from ranksvm.objective import RankEval, RankObjective
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.base import (
    Callback,
    Point,
    Resuming,
    Solver,
    SolverResult,
    Status,
    TraceRow,
    missing_capabilities,
)
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import Newton, search
from ranksvm.solvers.smoothing import SmoothedNewton

__all__ = [
    "REDUCTIONS",
    "SOLVERS",
    "LinearFit",
    "LinearProblem",
    "LinearSettings",
    "Point",
    "check_query_weight",
    "linear_facts",
    "total_pair_weight",
]

SOLVERS: dict[str, Callable[..., Solver]] = {
    "newton": Newton,
    "smoothed_newton": SmoothedNewton,
    "bundle": Bundle,
}
# The fastest at the same certified gap: for the hinge also the one with the fewest products with
# X; for the squared hinge Hessian products are cheaper than the evaluations of the bundle method.
AUTO_SOLVER = {"squared_hinge": "newton", "hinge": "bundle"}
# What to do about a solver that asks for more than the loss has.
REMEDY = {
    "hessian": "the hinge has no second derivatives: use solver='smoothed_newton' or 'bundle', "
    "or loss='squared_hinge'",
    "smoothing": "the squared hinge is smooth already: use solver='newton' or 'bundle', or "
    "loss='hinge'",
}
REDUCTIONS = ("sum", "mean", "query_mean")
BYTES_PER_FEATURE = 56  # seven vectors: coefficients, gradients, directions
# Rounding of scores that came along by vector updates which needs no second look, against F.
DRIFT = 1e-11
# A forecast nearer than this to the last solution, relative to its length, is no direction.
NEAR = 1e-4


@dataclass(frozen=True)
class LinearSettings:
    """What is minimised and how; the parameters of ``LinearRankSVM`` that shape the model.

    Checked when made: a wrong value raises a ValueError that names it.
    """

    C: float = 50.0
    loss: str = "squared_hinge"
    reduction: str = "mean"
    solver: str = "auto"
    counting: str = "auto"
    tol: float = 1e-4
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_positive("max_iter", self.max_iter, integer=True)
        check_choice("loss", self.loss, LOSSES)
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("counting", self.counting, COUNTINGS)
        check_choice("solver", self.solver, ("auto", *SOLVERS))
        for capability in sorted(missing_capabilities(self.make_solver(), LOSSES[self.loss])):
            raise ValueError(
                f"solver={self.solver!r} does not work with loss={self.loss!r}: "
                f"{REMEDY[capability]}"
            )

    def make_solver(self) -> Solver:
        """Return the solver; "auto" is the fastest one for the loss."""
        name = AUTO_SOLVER[self.loss] if self.solver == "auto" else self.solver
        return SOLVERS[name](tol=self.tol, max_iter=self.max_iter)


@dataclass(frozen=True)
class LinearFit:
    """A minimiser and how good it is: ``objective`` minus the optimum is at most ``gap``.

    ``point`` holds the coefficients with their scores, to start another fit from; ``evaluation``
    what else is known there, for a fit ``after`` this one.
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

    @property
    def coef(self) -> Array:
        """Weights, shape (n_features,)."""
        return self.point.w

    @property
    def shortfall(self) -> str | None:
        """A sentence about a fit that ended before its tolerance, with a remedy; or None."""
        if self.status not in (Status.MAX_ITER, Status.STALLED):
            return None
        reached = self.gap / max(abs(self.objective), np.finfo(float).tiny)
        remedy = (
            "raise max_iter, scale the features, or lower C"
            if self.status is Status.MAX_ITER
            else "scale the features, lower C, or raise tol"
        )
        return (
            f"solver {self.solver!r} stopped after {self.n_iter} iterations with a relative gap of "
            f"{reached:.2e}, tol={self.tol:g} was asked for ({self.status.value}); {remedy}."
        )


class LinearProblem:
    """A set to learn from, made ready once and solved for any C.

    Parameters
    ----------
    X : ndarray, CSR or CSC of shape (n_items, n_features), float32 or float64, finite
    utility : ndarray of float64, shape (n_items,), finite
    groups : QueryGroups
    settings : LinearSettings
    item_weight : ndarray of shape (n_items,) or None
    query_weight : ndarray of shape (n_queries,) or None
    n_threads : int
    """

    def __init__(
        self,
        X: Any,
        utility: Array,
        groups: QueryGroups,
        settings: LinearSettings,
        *,
        item_weight: Array | None = None,
        query_weight: Array | None = None,
        n_threads: int = 1,
    ) -> None:
        check_room(X.shape[1])
        self.settings = settings
        self.groups = groups
        backend = NativeBackend(
            PairOrder(utility, groups, item_weight),
            counting=settings.counting,
            n_threads=n_threads,
        )
        self._factor = reduce_weights(backend, settings.reduction, query_weight, len(utility))
        self._loss = LOSSES[settings.loss](backend)
        self._map = MatrixMap(X, n_threads=n_threads)
        self._steady_map = SteadyScatter(self._map)
        self.n_pairs = int(sum(backend.pairs))
        self.solver = settings.make_solver()

    @property
    def n_features(self) -> int:
        return self._map.dim

    def objective(self, C: float, *, steady: bool = False) -> RankObjective:
        """F for this C; ``steady`` keeps its preconditioner from one C to the next."""
        score_map = self._steady_map if steady else self._map
        return RankObjective(score_map, self._loss, C * self._factor, self.groups)

    def solve(
        self,
        C: float | None = None,
        *,
        start: Array | Point | None = None,
        after: LinearFit | None = None,
        callback: Callback | None = None,
    ) -> LinearFit:
        """Minimise F.

        Parameters
        ----------
        C : float or None
            That of the settings when None.
        start : ndarray of shape (n_features,), Point or None
            Where to begin: coefficients, or a point whose scores are known; zero when None.
        after : LinearFit or None
            A fit of this problem for another C, whose knowledge is used again; without a
            ``start`` the new fit begins at its solution.  The certificate is as good as ever.
        callback : callable or None
            Called as ``callback(row, coef)`` after every iteration; a true result stops.
        """
        before = self._map.n_products
        C = self.settings.C if C is None else C
        known = None if after is None else after.evaluation
        if known is not None and not known.can_rescale(C * self._factor):
            known = None
        objective = self.objective(C, steady=known is not None)
        if after is not None and start is None:
            start = after.point
        if start is None:
            start = np.zeros(self._map.dim)
        point = start if isinstance(start, Point) else objective.point(start)
        if known is not None and isinstance(self.solver, Resuming):
            evaluation = _search_towards(known.rescaled(objective), point)
            result = self.solver.resume(objective, evaluation, callback=callback)
        else:
            result = self.solver.solve(objective, point, callback=callback)
        end = _settle_scores(result, objective, carried=known is not None)
        return LinearFit(
            point=end.point,
            objective=float(end.value),
            gap=float(result.gap + end.drift),
            n_iter=result.n_iter,
            n_products=self._map.n_products - before,
            n_pairs=self.n_pairs,
            status=result.status,
            history=tuple(result.trace),
            solver=self.solver.name,
            tol=self.settings.tol,
            evaluation=end.evaluation,
        )


def _search_towards(evaluation: RankEval, point: Point) -> RankEval:
    """Evaluate at a lower point on the way to ``point``; stay if there is none.

    Or if ``point`` is so near that the scores of the difference are rounding errors, which a
    search that goes far would blow up.
    """
    direction = point.plus(-1.0, evaluation.point)
    if dot(direction.w, direction.w) <= NEAR**2 * evaluation.norm2:
        return evaluation
    trial = search(evaluation, direction)
    lower: Any = evaluation if trial is None else trial.accept()
    found: RankEval = lower
    return found


class _End(NamedTuple):
    """A solution, F there, what rounding of its scores may have done to F, and what is known."""

    point: Point
    value: float
    drift: float
    evaluation: RankEval | None


def _settle_scores(result: SolverResult, objective: RankObjective, *, carried: bool) -> _End:
    """Make sure of the scores of a solution.

    Solvers carry scores along by vector updates; the certificate must not rest on those.  So they
    are computed anew.  On a path it is enough to know what the difference does: to first order the
    loss changes by g.(X w - s), where C X'g is the gradient at hand, and the second order is that
    of rounding squared.
    """
    evaluation: Any = result.evaluation
    if carried and evaluation is not None:
        moved = dot(evaluation.risk_grad, result.point.w)
        drift = abs(moved - objective.C * dot(evaluation.loss.grad, result.point.scores))
        if drift <= DRIFT * result.objective:
            return _End(result.point, result.objective, 2.0 * drift, evaluation)
    exact = objective.point(result.point.w)
    drift = float(np.max(np.abs(exact.scores - result.point.scores), initial=0.0))
    if drift <= 1e-12 * (1.0 + float(np.max(np.abs(exact.scores), initial=0.0))):
        known = None if evaluation is None else replace(evaluation, point=exact)
        return _End(exact, result.objective, 0.0, known)
    value = 0.5 * objective.inner(exact.w, exact) + objective.C * (
        objective.loss.at(exact.scores).stated
    )
    return _End(exact, value, abs(value - result.objective), None)


def check_room(n_features: int) -> None:
    """Raise when vectors of so many features cannot fit into memory: a file with a huge index."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return
    needed = BYTES_PER_FEATURE * n_features
    if needed > 0.8 * memory:
        raise MemoryError(
            f"X has {n_features:,} features, and a fit needs about {needed / 1e9:.0f} GB for "
            f"vectors of that length; there are {memory / 1e9:.0f} GB. Number the features without "
            "gaps."
        )


def reduce_weights(
    backend: NativeBackend, reduction: str, query_weight: Array | None, n_items: int
) -> float:
    """Give the backend its query weights; return the factor that goes with C."""
    mass = backend.pair_weights
    weight = np.ones(len(mass)) if query_weight is None else query_weight
    with np.errstate(over="ignore", invalid="ignore"):
        total = dot(weight, mass)
    if not np.isfinite(total):
        raise OverflowError(
            "the pair weights are too large for float64: a pair weighs query_weight times the "
            "sample_weight of both items. Scale the weights down."
        )
    if not total > 0.0:
        pairs = sum(backend.pairs)
        why = (
            "every query has only one distinct utility in y"
            if pairs == 0
            else f"all {pairs} comparable pairs have weight zero"
        )
        raise ValueError(
            f"no comparable pair to learn from (n_samples={n_items}, queries={len(mass)}): {why}. "
            "A pair needs two items of one query with different utilities and positive weights; "
            "check qid and y."
        )
    if reduction == "query_mean":
        there = mass > 0.0
        scaled = np.zeros(len(mass))
        scaled[there] = weight[there] / mass[there] / weight[there].sum()
        backend.set_query_weight(scaled)
        return 1.0
    if query_weight is not None:
        backend.set_query_weight(weight)
    return 1.0 / total if reduction == "mean" else 1.0


def total_pair_weight(
    utility: Array,
    groups: QueryGroups,
    *,
    item_weight: Array | None = None,
    query_weight: Array | None = None,
) -> float:
    """Weight N of all comparable pairs: C over their sum is C over their mean divided by N."""
    mass = NativeBackend(PairOrder(utility, groups, item_weight)).pair_weights
    return float(mass.sum()) if query_weight is None else dot(query_weight, mass)


def check_query_weight(weight: Any, groups: QueryGroups) -> Array | None:
    """One weight per query, from a sequence in order of first appearance or a mapping by id."""
    if weight is None:
        return None
    n_queries = len(groups.ids)
    if hasattr(weight, "to_dict"):  # a pandas Series goes by its index
        weight = weight.to_dict()
    if isinstance(weight, Mapping):
        missing = [q for q in groups.ids.tolist() if q not in weight]
        if missing:
            raise ValueError(
                f"query_weight has no entry for {len(missing)} of {n_queries} queries, "
                f"among them {missing[0]!r}"
            )
        weight = [weight[q] for q in groups.ids.tolist()]
    weights = as_weights("query_weight", weight)
    if len(weights) != n_queries:
        raise ValueError(
            f"query_weight has {len(weights)} values for {n_queries} queries; give one weight per "
            "query, in the order in which the queries first appear in qid, or a dict by query id"
        )
    check_weights("query_weight", weights, "query")
    return weights


def linear_facts(fit: LinearFit, groups: QueryGroups) -> dict[str, Any]:
    """How a model came about, as its file tells it."""
    return {
        "objective": fit.objective,
        "gap": fit.gap,
        "status": fit.status.name.lower(),
        "solver": fit.solver,
        "n_iter": fit.n_iter,
        "n_products": fit.n_products,
        "n_pairs": fit.n_pairs,
        "n_items": groups.n_items,
        "n_queries": groups.n_queries,
        "ranksvm": library_version(),
    }
