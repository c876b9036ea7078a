"""A ranking problem made ready, and its solution with a certificate.

From one C to the next.  What is known of the sum over pairs at a point (its value, its gradient,
the violated pairs behind its Hessian) does not depend on C: a fit handed to the next one as
``after`` gives an evaluation of the new F at its own solution without any work.  From there a
forecast ``start`` is a direction to search; with known scores, that takes no product with X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._memory import check_memory
from ranksvm._messages import Message, Param
from ranksvm._vectors import Array
from ranksvm._version import library_version
from ranksvm.backends.native import NativeBackend
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.data.preferences import positive_pairs
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.participants import count_pairs
from ranksvm.learners.settings import Settings
from ranksvm.learners.weights import no_pairs, reduce_weights
from ranksvm.maps.matrix import ScoreMap
from ranksvm.maps.steady import SteadyScatter
from ranksvm.objective import RankEval, RankObjective, too_large
from ranksvm.pairs.oracle import LOSSES, PairLoss, SumLoss
from ranksvm.pairs.order import PairBackend, PairOrder
from ranksvm.solvers.base import Callback, Point, Resuming, SolverResult, Status, TraceRow
from ranksvm.solvers.newton import line_search

__all__ = ["Fit", "RankProblem", "about_fit", "check_room", "shortfall"]

BYTES_PER_FEATURE = 56  # seven vectors: coefficients, gradients, directions
# Scores that came along are computed anew when their errors matter: when they blur F by this part
# of the tolerance before a fit, or when it has stalled and this part of the errors would be left.
STALE = 0.1
# So often at most after a stall.
REFRESHED = 3
# A forecast nearer than this to the last solution, relative to its length, is no direction.
NEAR = 1e-4


@dataclass(frozen=True)
class Fit:
    """A minimiser and how good it is.

    F(coef) and the optimum both lie between ``objective - gap`` and ``objective``; ``lower`` is
    that lower bound before the subtraction.

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
    lower: float = -math.inf

    @property
    def coef(self) -> Array:
        """Coefficients: one per feature of the map from them to the scores."""
        return self.point.w

    def report(self) -> dict[str, Any]:
        """Return what there is to tell of this kind of fit beside its certificate, for JSON."""
        return {}

    @property
    def shortfall(self) -> Message | None:
        """A sentence about a fit that ended before its tolerance, with a remedy; or None."""
        return shortfall(self.solver, self.status, self.n_iter, self.objective, self.gap, self.tol)


def shortfall(
    solver: str, status: Status, n_iter: int, objective: float, gap: float, tol: float
) -> Message | None:
    """Return a sentence about a fit that ended before its tolerance; None if it did not."""
    if status not in (Status.MAX_ITER, Status.STALLED):
        return None
    # C is C everywhere: `ranksvm tune` has no option --C.
    remedy = (
        "raise {max_iter}, scale the features, or lower C"
        if status is Status.MAX_ITER
        else "scale the features, lower C, or raise {tol}"
    )
    return Message(
        "solver {solver!r} stopped after {n_iter} iterations with a relative gap of {gap:.2e}, "
        "{asked} was asked for ({why}); {remedy}.",
        solver=solver,
        n_iter=n_iter,
        gap=gap / max(abs(objective), np.finfo(float).tiny),
        asked=Param("tol", tol),
        why=status.value,
        remedy=Message(remedy, max_iter=Param("max_iter"), tol=Param("tol")),
    )


class RankProblem:
    """A set to learn from, made ready once and solved for any C.

    Parameters
    ----------
    score_map : ScoreMap
        From coefficients to the scores of the items.
    data : RankingData
        Its preferences are pairs beside those of the labels, or instead of them if there are no
        labels.  The plain sum over pairs and the mean know no difference between the two; for
        ``reduction="query_mean"`` all listed pairs together are one more query.
    settings : Settings
    n_threads : int
    """

    def __init__(
        self,
        score_map: ScoreMap,
        data: RankingData,
        settings: Settings,
        *,
        n_threads: int = 1,
    ) -> None:
        self.data = data
        self.settings = settings
        self.n_threads = n_threads
        backends: list[PairBackend] = []
        if data.y is not None:
            order = PairOrder(data.y, data.groups, data.item_weight)
            backends.append(NativeBackend(order, counting=settings.counting, n_threads=n_threads))
        if data.preferences is not None:
            backends.append(PairListBackend(data.preferences, data.n_items, n_threads=n_threads))
        if not backends:
            raise no_pairs(data)
        reduced = reduce_weights(backends, settings.reduction, data.query_weight, data.n_items)
        self._factor, self._weight_rounding = reduced
        losses = [LOSSES[settings.loss](backend) for backend in backends]
        self._loss: PairLoss = losses[0] if len(losses) == 1 else SumLoss(losses)
        self._map = score_map
        self._steady_scatter = SteadyScatter(score_map)
        self.n_pairs = count_pairs(data, backends)
        self.solver = settings.make_solver()

    @property
    def solver_name(self) -> str:
        """Name of the solver."""
        return self.solver.name

    @property
    def n_coefficients(self) -> int:
        """Number of unknowns."""
        return self._map.dim

    def objective(self, C: float, *, steady: bool = False) -> RankObjective:
        """F for this C; ``steady`` keeps its preconditioner from one C to the next."""
        return RankObjective(
            self._map,
            self._loss,
            C * self._factor,
            self._weight_rounding,
            scatter=self._steady_scatter if steady else None,
        )

    def known_point(self, point: Point, items: NDArray[np.int64]) -> Point:
        """Return the part of a point of a larger set whose items these are."""
        return self.objective(self.settings.C).known(point.w, point.scores[items], point.error)

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
            evaluation = known.rescaled(objective)
            if self._is_stale(evaluation, evaluation.point):
                evaluation = objective.at(objective.point(evaluation.point.w))
            if self._is_stale(evaluation, point):  # forecasts multiply the errors of their parts
                point = objective.point(point.w)
            evaluation = _line_search_towards(evaluation, point)
            result = self.solver.resume(objective, evaluation, callback=callback)
        else:
            result = self.solver.solve(objective, point, callback=callback)
        result = self._refreshed(objective, result, callback)
        status, gap = result.status, math.nextafter(result.gap, math.inf)
        if status is Status.STALLED and gap <= self.settings.tol * result.objective:
            status = Status.CONVERGED
        if not np.isfinite(result.objective):
            raise too_large(result.point)
        last: Any = result.evaluation
        return Fit(
            point=result.point,
            objective=result.objective,
            gap=gap,
            n_iter=result.n_iter,
            n_products=self._map.n_products - before,
            n_pairs=self.n_pairs,
            status=status,
            history=tuple(result.trace),
            solver=self.solver.name,
            tol=self.settings.tol,
            evaluation=last,
            lower=result.lower,
        )

    def _is_stale(self, evaluation: RankEval, point: Point) -> bool:
        """Whether the errors of the scores of a point would blur F too much."""
        return evaluation.blurred(point.error) > STALE * self.settings.tol * evaluation.value

    def _refreshed(
        self, objective: RankObjective, result: SolverResult, callback: Callback | None
    ) -> SolverResult:
        """Go on from fresh scores where the errors of scores that came along are in the way.

        Solvers carry scores along by vector updates, and points know what these may have lost.
        After a start that is far away, that can be more than the tolerance.  Bounds of rounding
        errors may be sharpened, too.
        """
        for _ in range(REFRESHED):
            if result.status is not Status.STALLED:
                break
            lowest = result.point if result.lowest is None else result.lowest[1]
            is_sharper = self._map.sharpen()
            fresh = objective.point(lowest.w)
            if fresh.error > STALE * lowest.error and not is_sharper:
                break
            result = result.followed_by(self.solver.solve(objective, fresh, callback=callback))
        if result.status is not Status.STALLED or result.lowest is None:
            return result
        # The point with the lowest bound is not the one with the lowest F, which rounding blurs.
        end = objective.at(objective.point(result.lowest[1].w))
        if not end.estimate < result.objective:
            return result
        lower = max(result.lower, end.dual)
        return replace(
            result,
            point=end.point,
            objective=end.primal,
            gap=end.primal - lower,
            lower=lower,
            evaluation=end,
        )


def _line_search_towards(evaluation: RankEval, point: Point) -> RankEval:
    """Evaluate at a lower point on the way to ``point``; stay if there is none.

    Or if ``point`` is so near that the scores of the difference are rounding errors, which a
    line search that goes far would blow up.
    """
    direction = point.plus(-1.0, evaluation.point)
    if evaluation.objective.inner(direction.w, direction) <= NEAR**2 * evaluation.norm2:
        return evaluation
    trial = line_search(evaluation.objective, evaluation, direction, target=point)
    lower: Any = evaluation if trial is None else trial.accept()
    found: RankEval = lower
    return found


def check_room(n_features: int) -> None:
    """Raise when vectors of so many features cannot fit into memory: a file with a huge index."""
    needed = BYTES_PER_FEATURE * n_features
    check_memory(needed, f"vectors of {n_features:,} features", "Number the features without gaps.")


def about_fit(fit: Fit, data: RankingData, settings: Settings) -> dict[str, Any]:
    """Return what a model of a fit knows beside its arrays: parameters, facts, feature names."""
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
    }
    if data.preferences is not None:
        facts["explicit_pairs"] = len(positive_pairs(data.preferences).better)
    return {
        "params": {one.name: getattr(settings, one.name) for one in fields(settings)},
        "facts": facts,
        "feature_names": data.feature_names,
    }
