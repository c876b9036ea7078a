"""A ranking problem made ready, and its solution with a certificate.

From one C to the next.  What is known of the sum over pairs at a point (its value, its gradient,
the violated pairs behind its Hessian) does not depend on C: a fit handed to the next one as
``after`` gives an evaluation of the new F at its own solution without any work.  From there a
forecast ``start`` is a direction to search; with known scores, that takes no product with X.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm._vectors import Array, dot
from ranksvm._version import library_version
from ranksvm.backends.native import NativeBackend
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.data.preferences import Preferences
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.matrix import MatrixMap, ScoreMap
from ranksvm.maps.steady import SteadyScatter
from ranksvm.objective import RankEval, RankObjective
from ranksvm.pairs.oracle import LOSSES, PairLoss, SumLoss
from ranksvm.pairs.order import PairBackend, PairOrder
from ranksvm.solvers.base import Callback, Point, Resuming, SolverResult, Status, TraceRow
from ranksvm.solvers.newton import search
from ranksvm.training.participants import Pairing, count_pairs, participants
from ranksvm.training.settings import Settings
from ranksvm.training.weights import no_pairs, reduce_weights

__all__ = ["Fit", "LinearProblem", "RankProblem", "fit_facts"]

BYTES_PER_FEATURE = 56  # seven vectors: coefficients, gradients, directions
# Rounding of scores that came along by vector updates which needs no second look, against F.
DRIFT = 1e-11
# Rows of X are copied when no more than this part of them takes part in a pair.
LEFT_OUT = 0.5
# A forecast nearer than this to the last solution, relative to its length, is no direction.
NEAR = 1e-4


@dataclass(frozen=True)
class Fit:
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
        """Coefficients: one per feature of the map from them to the scores."""
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


class RankProblem:
    """A set to learn from, made ready once and solved for any C.

    Parameters
    ----------
    score_map : ScoreMap
        From coefficients to the scores of the items.
    utility : ndarray of float64, shape (n_items,), finite, or None
        None: there are no pairs but the listed ones.
    groups : QueryGroups
    settings : Settings
    preferences : Preferences or None
        Pairs beside those of the utilities, or instead of them.  The plain sum over pairs and the
        mean know no difference between the two; for ``reduction="query_mean"`` all listed pairs
        together are one more query.
    item_weight : ndarray of shape (n_items,) or None
    query_weight : ndarray of shape (n_queries,) or None
    n_threads : int
    """

    def __init__(
        self,
        score_map: ScoreMap,
        utility: Array | None,
        groups: QueryGroups,
        settings: Settings,
        *,
        preferences: Preferences | None = None,
        item_weight: Array | None = None,
        query_weight: Array | None = None,
        n_threads: int = 1,
    ) -> None:
        self.settings = settings
        self.groups = groups
        self.n_threads = n_threads
        backends: list[PairBackend] = []
        if utility is not None:
            order = PairOrder(utility, groups, item_weight)
            backends.append(NativeBackend(order, counting=settings.counting, n_threads=n_threads))
        if preferences is not None:
            backends.append(PairListBackend(preferences, groups.n_items, n_threads=n_threads))
        if not backends:
            raise no_pairs(utility, groups)
        self._factor = reduce_weights(backends, settings.reduction, query_weight, groups.n_items)
        losses = [LOSSES[settings.loss](backend) for backend in backends]
        self._loss: PairLoss = losses[0] if len(losses) == 1 else SumLoss(losses)
        self._map = score_map
        self._steady_map = SteadyScatter(score_map)
        self.n_pairs = count_pairs(
            Pairing(utility, groups, preferences, item_weight, query_weight), backends
        )
        self.solver = settings.make_solver()

    @property
    def n_coefficients(self) -> int:
        """Number of unknowns."""
        return self._map.dim

    def objective(self, C: float, *, steady: bool = False) -> RankObjective:
        """F for this C; ``steady`` keeps its preconditioner from one C to the next."""
        score_map = self._steady_map if steady else self._map
        return RankObjective(score_map, self._loss, C * self._factor)

    def solve(
        self,
        C: float | None = None,
        *,
        start: Array | Point | None = None,
        after: Fit | None = None,
        callback: Callback | None = None,
    ) -> Fit:
        """Minimise F.

        Parameters
        ----------
        C : float or None
            That of the settings when None.
        start : ndarray of shape (n_coefficients,), Point or None
            Where to begin: coefficients, or a point whose scores are known; zero when None.
        after : Fit or None
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
        gap, status = float(result.gap + end.drift), result.status
        if status is Status.CONVERGED and gap > 1.01 * self.settings.tol * abs(end.value):
            status = Status.STALLED  # the scores had drifted
        return Fit(
            point=end.point,
            objective=float(end.value),
            gap=gap,
            n_iter=result.n_iter,
            n_products=self._map.n_products - before,
            n_pairs=self.n_pairs,
            status=status,
            history=tuple(result.trace),
            solver=self.solver.name,
            tol=self.settings.tol,
            evaluation=end.evaluation,
        )


class LinearProblem(RankProblem):
    """Coefficients for features.

    When listed pairs leave most items out, so does the problem: products with X are then products
    with the rows that take part, and points have scores for these.

    Parameters
    ----------
    X : ndarray, CSR or CSC of shape (n_items, n_features), float32 or float64, finite
    utility, groups, settings, preferences, item_weight, query_weight, n_threads
        As for :class:`RankProblem`.
    """

    def __init__(
        self,
        X: Any,
        utility: Array | None,
        groups: QueryGroups,
        settings: Settings,
        *,
        preferences: Preferences | None = None,
        item_weight: Array | None = None,
        query_weight: Array | None = None,
        n_threads: int = 1,
    ) -> None:
        check_room(X.shape[1])
        pairing = Pairing(utility, groups, preferences, item_weight, query_weight)
        if preferences is not None:
            items = participants(pairing)
            if items.size <= LEFT_OUT * groups.n_items:
                X = (X.tocsr() if hasattr(X, "tocsr") else X)[items]
                pairing = pairing.among(items)
        super().__init__(
            MatrixMap(X, n_threads=n_threads),
            pairing.utility,
            pairing.groups,
            settings,
            preferences=pairing.preferences,
            item_weight=pairing.item_weight,
            query_weight=pairing.query_weight,
            n_threads=n_threads,
        )

    def score(self, X: Any, fits: Sequence[Fit]) -> list[Array]:
        """Scores of items under some fits of this problem."""
        score_map = MatrixMap(X, n_threads=self.n_threads)
        return [score_map.scores(fit.coef) for fit in fits]


def _search_towards(evaluation: RankEval, point: Point) -> RankEval:
    """Evaluate at a lower point on the way to ``point``; stay if there is none.

    Or if ``point`` is so near that the scores of the difference are rounding errors, which a
    search that goes far would blow up.
    """
    direction = point.plus(-1.0, evaluation.point)
    if evaluation.objective.inner(direction.w, direction) <= NEAR**2 * evaluation.norm2:
        return evaluation
    trial = search(evaluation.objective, evaluation, direction)
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
        # <u, w> without the scores of w.
        dual = evaluation.risk_grad if evaluation.risk_scores is None else evaluation.risk_scores
        moved = dot(dual, result.point.w)
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
    needed = BYTES_PER_FEATURE * n_features
    check_memory(needed, f"vectors of {n_features:,} features", "Number the features without gaps.")


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise when something cannot fit into the memory of this machine."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return
    if needed > 0.8 * memory:
        raise MemoryError(
            f"a fit needs about {needed / 1e9:.0f} GB for {what}; there are {memory / 1e9:.0f} GB. "
            f"{remedy}"
        )


def fit_facts(fit: Fit, groups: QueryGroups) -> dict[str, Any]:
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
