"""A prepared ranking problem, solved for any C.

Reuse from one C to the next.  The sum over pairs at a point (its value, its gradient, the violated
pairs behind its Hessian) does not depend on C: if a fit is passed to the next one as ``after``, the
new F is known at the old solution without any work.  From there, a forecast ``start`` gives a
search direction; if its scores are known, the line search takes no product with X.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ranksvm._memory import check_memory
from ranksvm._points import Combination, Point
from ranksvm._rows import take_rows
from ranksvm._vectors import Array, add_scaled, dot, vector_threads
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.fit import Fit
from ranksvm.learners.settings import Settings
from ranksvm.learners.training_pairs import TrainingPairs, weighted_pairs
from ranksvm.learners.watching import Scorer, Validate, Watch
from ranksvm.maps.matrix import ScoreMap
from ranksvm.maps.sample import SteadyScatter
from ranksvm.models.model import Model
from ranksvm.objective import RankEval, RankObjective, too_large
from ranksvm.solvers.base import Callback, Resuming, SolverResult, Status, TraceRow
from ranksvm.solvers.newton import line_search

BYTES_PER_FEATURE = 56  # seven vectors: coefficients, gradients, directions
# Scores that were updated instead of computed are computed again when their errors matter: before a
# fit, if the errors in F exceed this fraction of the tolerance; after a stall, if this reduces the
# errors to less than this fraction.
STALE = 0.1
MAX_REFRESHES = 3  # after a stall
# A forecast is not used as a search direction if its distance from the last solution, relative to
# the norm of the latter, is below this.
NEAR = 1e-4


class Problem(Protocol):
    """A prepared data set of any kind of model."""

    @property
    def solver_name(self) -> str:
        """Name of the solver, for messages."""
        ...

    def solve(self, *, callback: Callback | None = None) -> Fit:
        """Fit the model; ``callback(row, coef)`` may be called after every iteration.

        A problem may have more parameters, which are then optional.
        """
        ...

    def model(self, fit: Any) -> Model:
        """Return the model of a fit."""
        ...


@runtime_checkable
class PathProblem(Problem, Protocol):
    """A problem that is solved for many C, as a search does."""

    def solve(
        self,
        C: float | None = None,
        *,
        start: Array | Point | Combination | None = None,
        after: Fit | None = None,
        callback: Callback | None = None,
    ) -> Fit:
        """Fit the model for one C; see :meth:`RankProblem.solve`.

        ``start`` and ``after`` only save time, and may be ignored.
        """
        ...

    def score(self, X: Any, fits: Sequence[Fit]) -> list[Array]:
        """Return the scores of items for each of several fits of this problem."""
        ...


class WatchedProblem(Problem, Protocol):
    """A problem whose fits can be watched on an evaluation set."""

    def solve(self, *, callback: Callback | None = None, validate: Validate | None = None) -> Fit:
        """Fit the model; with ``validate``, the rows of the history have its values."""
        ...

    def scorer(self, X: Any) -> Scorer:
        """Return the function from coefficients, as a callback gets them, to scores of items.

        ``X`` has the columns of the training set.  What does not depend on the coefficients is
        computed once.
        """
        ...


@runtime_checkable
class GuidedProblem(PathProblem, Protocol):
    """A problem whose path can follow that of another fold, if ``settings.shares_coefficients``."""

    def weights(self, coef: Array) -> Array:
        """Return coefficients in the form that all folds share."""
        ...

    def shared_point(self, point: Point) -> Point:
        """Return a point with coefficients in the form that all folds share."""
        ...

    def known_point(self, point: Point, items: NDArray[np.int64]) -> Point:
        """Restrict such a point of a larger data set to this one.

        The items of this data set are its rows ``items``.
        """
        ...


class RankProblem:
    """A training set, prepared once and solved for any C.

    Parameters
    ----------
    score_map : ScoreMap
        Maps coefficients to the scores of the items.
    pairs : TrainingPairs
        The pairs of the items.
    settings : Settings
        Parameters.
    labeled : RankingData or None
        The items of the map with their labels, queries and weights, for weights that depend on a
        ranking (``settings.n_rounds``); X does not matter.
    n_threads : int
        Number of threads.
    """

    def __init__(
        self,
        score_map: ScoreMap,
        pairs: TrainingPairs,
        settings: Settings,
        *,
        labeled: RankingData | None = None,
        n_threads: int = 1,
    ) -> None:
        self.n_threads = n_threads
        self.labeled = labeled
        self._map = score_map
        self._use(pairs, settings)

    def _use(self, pairs: TrainingPairs, settings: Settings) -> None:
        self.settings = settings
        self.solver = settings.make_solver()
        self.backends = pairs.backends
        self.n_pairs = pairs.n_pairs
        self._loss = pairs.loss
        self._factor, self._weight_rounding = pairs.factor, pairs.rounding
        self._steady_scatter = SteadyScatter(self._map.scatter)

    def with_pairs(self, pairs: TrainingPairs, settings: Settings | None = None) -> Self:
        """Return the same problem with other pairs of the same items.

        Both share the score map, with all that it has computed: features, landmarks, kernel values
        and samples for the preconditioner.

        Parameters
        ----------
        pairs : TrainingPairs
            Usually ``weighted_pairs(problem.labeled, settings)``.
        settings : Settings or None
            Other parameters of the pairs, the loss and the solver; those of the features must be
            the same.  None: those of this problem.
        """
        other = copy(self)
        other._use(pairs, settings or self.settings)
        return other

    @property
    def solver_name(self) -> str:
        """Name of the solver."""
        return self.solver.name

    def objective(self, C: float, *, steady: bool = False) -> RankObjective:
        """Return F for this C; ``steady`` keeps the preconditioner from one C to the next."""
        return RankObjective(
            self._map,
            self._loss,
            C * self._factor,
            self._weight_rounding,
            scatter=self._steady_scatter if steady else None,
        )

    def weights(self, coef: Array) -> Array:
        """Return coefficients in the form that all folds share."""
        return coef

    def shared_point(self, point: Point) -> Point:
        """Return a point with coefficients in the form that all folds share."""
        return point

    def known_point(self, point: Point, items: NDArray[np.int64]) -> Point:
        """Restrict a point of a larger data set to this one, whose items are its rows ``items``.

        Without scores, they are computed.
        """
        objective = self.objective(self.settings.C)
        if point.scores is None:
            return objective.point(point.w)
        scores = take_rows(point.scores, items, self.n_threads)
        return objective.known(point.w, scores, point.error)

    def solve(
        self,
        C: float | None = None,
        *,
        start: Array | Point | Combination | None = None,
        after: Fit | None = None,
        callback: Callback | None = None,
        validate: Validate | None = None,
    ) -> Fit:
        """Minimize F.

        Parameters
        ----------
        C : float or None
            Weight of the loss; None for that of the settings.
        start : ndarray of shape (n_coefficients,), Point, Combination or None
            Starting point: coefficients, or a point or combination of points whose scores are
            known.  None: the solution of ``after``, or zero.
        after : Fit or None
            A fit of this problem for another C, whose evaluation is reused.  The certificate does
            not depend on it.
        callback : callable or None
            Called as ``callback(row, coef)`` after every iteration.  A true return value stops the
            fit.
        validate : callable or None
            Returns the value of a metric for coefficients, which the rows then have.

        Returns
        -------
        Fit
        """
        watch = None if validate is None else Watch(validate, callback)
        if watch is not None:
            callback = watch
        with vector_threads(self.n_threads):
            after = None if after is None else after.on_path
            fit = self._solve(C, start, after, callback)
            for number in range(1, self.settings.n_rounds + 1):
                if fit.status is Status.STOPPED:
                    break
                fit = self._next_round(number, fit, C, callback)
            return fit if watch is None else replace(fit, history=watch.history(fit.history))

    def _next_round(
        self, number: int, before: Fit, C: float | None, callback: Callback | None
    ) -> Fit:
        """Fit again from the last solution, with the weights that pairs have at its ranking."""
        assert self.labeled is not None
        assert before.point.scores is not None
        pairs = weighted_pairs(
            self.labeled, self.settings, before.point.scores, n_threads=self.n_threads
        )

        def tell(row: TraceRow, coef: Array) -> Any:
            return callback is not None and callback(row._replace(round=number), coef)

        fit = self.with_pairs(pairs)._solve(C, before.point, None, tell)
        rows = (row._replace(round=number) for row in fit.history)
        return replace(
            fit,
            n_iter=before.n_iter + fit.n_iter,
            n_products=before.n_products + fit.n_products,
            status=before.status if fit.status is Status.CONVERGED else fit.status,
            history=(*before.history, *rows),
            first=before.on_path,
        )

    def _solve(
        self,
        C: float | None,
        start: Array | Point | Combination | None,
        after: Fit | None,
        callback: Callback | None,
    ) -> Fit:
        before = self._map.n_products
        C = self.settings.C if C is None else C
        known = None if after is None else after.evaluation
        if known is not None and not known.can_rescale(C * self._factor):
            known = None
        objective = self.objective(C, steady=known is not None)
        if after is not None and start is None:
            start = after.point
        if start is None:
            start = np.zeros(self._map.shape[1])
        if not isinstance(start, Point | Combination):
            start = objective.point(start)
        if known is not None and isinstance(self.solver, Resuming):
            evaluation = known.rescaled(objective)
            if self._is_stale(evaluation, evaluation.point):
                evaluation = objective.at(objective.point(evaluation.point.w))
            if self._is_stale(evaluation, start):  # a forecast multiplies errors of known scores
                start = objective.point(start.w)
            evaluation = _line_search_towards(evaluation, start)
            result = self.solver.resume(objective, evaluation, callback=callback)
        else:
            point = start.point if isinstance(start, Combination) else start
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

    def _is_stale(self, evaluation: RankEval, point: Point | Combination) -> bool:
        """Whether rounding errors in the scores of a point would make F too inaccurate."""
        return evaluation.blurred(point.error) > STALE * self.settings.tol * evaluation.value

    def _refreshed(
        self, objective: RankObjective, result: SolverResult, callback: Callback | None
    ) -> SolverResult:
        """Continue a stalled fit from newly computed scores, if rounding errors caused the stall.

        Solvers update scores by vector operations, and a point knows a bound on the errors of these
        updates.  After a start far from the solution, they can exceed the tolerance.  The bounds on
        rounding errors are tightened as well, where possible.
        """
        for _ in range(MAX_REFRESHES):
            if result.status is not Status.STALLED:
                break
            lowest = result.lowest[1]
            is_sharper = self._map.sharpen()
            fresh = objective.point(lowest.w)
            if fresh.error > STALE * lowest.error and not is_sharper:
                break
            result = result.followed_by(self.solver.solve(objective, fresh, callback=callback))
        if result.status is not Status.STALLED:
            return result
        # Because of rounding, the point with the lowest upper bound is not always the one with the
        # lowest F.
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


def _line_search_towards(evaluation: RankEval, target: Point | Combination) -> RankEval:
    """Return the evaluation at a lower point found by a line search towards ``target``.

    Returns ``evaluation`` if there is none, or if ``target`` is so near that the scores of the
    difference are mostly rounding errors, which a long step would magnify.
    """
    objective, origin = evaluation.objective, evaluation.point
    near = NEAR**2 * evaluation.norm2
    if "euclidean" in objective.capabilities:  # a look at the coefficients, before scores are made
        step = add_scaled(target.w, -1.0, origin.w)
        if dot(step, step) <= near or not dot(evaluation.grad, step) < 0.0:
            return evaluation
    if isinstance(target, Combination):
        direction = target.minus(origin)
        target = Point(target.w, None, target.error, target.reach)
    else:
        direction = target.plus(-1.0, origin)
    if objective.inner(direction.w, direction) <= near:
        return evaluation
    trial = line_search(objective, evaluation, direction, target=target)
    lower: Any = evaluation if trial is None else trial.accept()
    found: RankEval = lower
    return found


def check_room(n_features: int) -> None:
    """Raise if vectors of this many features do not fit into memory (a file with a huge index)."""
    needed = BYTES_PER_FEATURE * n_features
    check_memory(needed, f"vectors of {n_features:,} features", "Number the features without gaps.")
