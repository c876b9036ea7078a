"""The interface between solvers and objectives.

A solver minimizes

    F(w) = 1/2 <w, w> + R(w),        R convex,

and knows nothing about ranking, matrices or kernels.  It uses only the protocols below.

A :class:`Point` is a vector together with its image under the linear map of the problem (the
scores ``X w``).  Points form a linear space, so a solver that builds a step as a combination of
directions gets the scores of the step for free: taking the step or searching along it costs no
further product with X.
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ranksvm._points import Point
from ranksvm._vectors import Array

# Relative amount by which the bounds may cross, for objectives that do not allow for rounding.
_CROSSED = 1e-12


class Trial(NamedTuple):
    """A point on a line, after ``step`` times its direction: F and its slope along the line.

    ``accept()`` evaluates F fully at that point.  It reuses what is known and costs one product
    with X'.
    """

    step: float
    value: float
    slope: float
    accept: Callable[[], Eval]


class Eval(Protocol):
    """The objective at one point; immutable.

    F may be a smoothed approximation of the *stated* objective, the one that the user asked for.

    Attributes
    ----------
    point : Point
        The point w and its scores.
    value : float
        F(w), the function that is minimized.
    grad : ndarray
        Its gradient (a subgradient where F has a kink).
    slope, risk_slope : Point
        The (sub)gradients of F and of R, each with its dual: the vector that represents it in inner
        products.  This is the vector itself or, without the capability "euclidean", its scores.
    estimate : float
        The stated objective at w, as computed.
    primal : float
        An upper bound on the stated objective at w, and therefore on its optimum.  Unless F is
        smoothed, it is ``value`` plus a bound on the rounding errors.
    dual : float
        A lower bound on the optimum of the stated objective.
    offset, slope_error, slope_loss : float
        For every v, R(v) is at least ``offset + <a, v>``, where a equals the gradient of R up to
        rounding: its norm is at most ``objective.norm_bound(risk_slope, slope_error) +
        slope_loss``, and likewise for means of several a.
    slope_size : float
        Bounds the norm of every vector whose entries are no larger than those of the gradient of R.

    ``primal``, ``dual`` and ``offset`` are valid in spite of rounding errors.
    """

    @property
    def point(self) -> Point: ...
    @property
    def value(self) -> float: ...
    @property
    def grad(self) -> Array: ...
    @property
    def slope(self) -> Point: ...
    @property
    def risk_slope(self) -> Point: ...
    @property
    def estimate(self) -> float: ...
    @property
    def primal(self) -> float: ...
    @property
    def dual(self) -> float: ...
    @property
    def offset(self) -> float: ...
    @property
    def slope_error(self) -> float: ...
    @property
    def slope_loss(self) -> float: ...
    @property
    def slope_size(self) -> float: ...

    def hessp(self, direction: Point) -> Array:
        """Return the Hessian of F times ``direction.w``.  One product with X'."""
        ...

    def preconditioner(self, *, diagonal: bool = False, improved: bool = False) -> Any:
        """Return an approximate inverse of the Hessian of F, or None if there is none.

        It is a function from vectors to vectors, whose scores then have to be computed, or,
        without the capability "euclidean", from points to points.  ``diagonal`` asks for that of
        the diagonal.  With ``improved``, the solver improves it (see
        :mod:`ranksvm.solvers.recycling`), and a few large eigenvalues do no harm.
        """
        ...

    def line(self, direction: Point, target: Point | None = None) -> Callable[[float], Trial]:
        """Return a function ``t -> Trial`` at ``point + t * direction``.  No product with X.

        ``target`` is ``point + direction``, if the direction was computed as their difference.
        """
        ...


class Objective(Protocol):
    """A function to minimize.

    ``capabilities`` holds the names of the optional features that this objective supports:

    ``"hessian"``
        ``Eval.hessp`` and ``Eval.preconditioner`` work.
    ``"smoothing"``
        The objective is :class:`Smoothable`.
    ``"euclidean"``
        <u, v> is the Euclidean inner product.  Otherwise it is u . scores(v), as with a kernel.
    """

    @property
    def capabilities(self) -> frozenset[str]: ...

    @property
    def n_products(self) -> int:
        """Number of products with X or X' so far."""
        ...

    def point(self, w: Array) -> Point:
        """Return ``w`` with its scores.  One product with X (none for ``w = 0``)."""
        ...

    def at(self, point: Point) -> Eval:
        """Evaluate the objective.  One product with X'."""
        ...

    def scored(self, dual: Point) -> Point:
        """Return a vector that is given with its dual (see ``Eval.slope``), with its scores."""
        ...

    def inner(self, u: Array, v: Point) -> float:
        """Return the inner product in the space of w; ``v`` has its scores or its dual."""
        ...

    def norm_bound(self, v: Point, slope_error: float = 0.0) -> float:
        """Bound the norm of v, and of every vector that differs from v by ``slope_error``."""
        ...


@runtime_checkable
class Smoothable(Objective, Protocol):
    """An objective with the capability "smoothing"."""

    def smoothed(self, mu: float) -> Objective:
        """Return an objective that has a Hessian and tends to this one as mu -> 0."""
        ...


class Status(enum.Enum):
    """Why a solver stopped; the value is the text shown to the user."""

    CONVERGED = "the certified gap is within the tolerance"
    MAX_ITER = "the iteration limit was reached before the tolerance"
    STALLED = "rounding errors stop further progress before the tolerance"
    STOPPED = "stopped by the callback"
    EXHAUSTED = "no step lowers the objective any further"
    EARLY = "the best score on the validation set came before the end"


class TraceRow(NamedTuple):
    """One iteration of a solver, as kept in ``history_``.

    ``metric`` is the value of the metric on an evaluation set, None without one.  ``round`` counts
    the fits of a model that is fitted several times, with other weights of pairs; iterations start
    anew in each.
    """

    iteration: int
    objective: float
    gap: float
    n_products: int
    inner_iterations: int
    seconds: float
    metric: float | None = None
    round: int = 0

    @property
    def valid(self) -> float | None:
        """``metric``, by its name in earlier versions."""
        return self.metric


Callback = Callable[["TraceRow", Array], Any]


@dataclass(frozen=True)
class SolverResult:
    """The result of a solver, with its certificate.

    The stated objective at ``point`` and its optimum both lie between ``objective - gap`` and
    ``objective``.  ``evaluation`` is the evaluation at ``point``, from which a :class:`Resuming`
    solver could continue; None if it was not kept.  ``lowest`` is the lowest objective that was
    computed, without allowing for rounding, and its point.  ``lower`` is the best lower bound.
    """

    point: Point
    objective: float
    gap: float
    status: Status
    n_iter: int
    n_products: int
    trace: Sequence[TraceRow]
    evaluation: Eval | None
    lowest: tuple[float, Point]
    lower: float

    def followed_by(self, other: SolverResult) -> SolverResult:
        """Return the combined result of this solve and of ``other``, which continued it."""
        last = self.trace[-1]
        lower = max(self.lower, other.lower)
        best = min((other, self), key=lambda result: result.objective)
        more = (
            row._replace(
                iteration=row.iteration + self.n_iter,
                n_products=row.n_products + last.n_products,
                seconds=row.seconds + last.seconds,
            )
            for row in other.trace
        )
        return replace(
            best,
            gap=best.objective - lower,
            lower=lower,
            lowest=min(self.lowest, other.lowest, key=lambda low: low[0]),
            status=other.status,
            n_iter=self.n_iter + other.n_iter,
            n_products=self.n_products + other.n_products,
            trace=(*self.trace, *more),
        )


class Solver(Protocol):
    """A solver; ``requires`` names the capabilities that an objective must have."""

    @property
    def name(self) -> str: ...
    @property
    def requires(self) -> frozenset[str]: ...

    def solve(
        self, objective: Objective, start: Point, *, callback: Callback | None = None
    ) -> SolverResult: ...


@runtime_checkable
class Resuming(Protocol):
    """A solver that can also start from an existing evaluation of the objective."""

    def resume(
        self, objective: Objective, evaluation: Eval, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimize ``objective`` from the point of ``evaluation``, one of its own."""
        ...


class Monitor:
    """Bookkeeping shared by all solvers: best point, best bound, trace, callback, stopping.

    The optimality gap is the best objective minus the best lower bound seen so far.  Both only
    improve, so the certificate after an early stop uses everything that was computed.
    """

    def __init__(self, objective: Objective, tol: float, callback: Callback | None) -> None:
        self._objective = objective
        self._tol = tol
        self._callback = callback
        self._start = time.perf_counter()
        self._products_before = objective.n_products
        self.best: Point | None = None
        self.lowest: tuple[float, Point] | None = None
        self.upper = np.inf
        self.lower = -np.inf
        self.trace: list[TraceRow] = []

    @property
    def n_products(self) -> int:
        return self._objective.n_products - self._products_before

    @property
    def gap(self) -> float:
        """Certified gap; infinite if the bounds cross by more than rounding can explain."""
        gap = self.upper - self.lower
        return abs(gap) if gap >= -_CROSSED * abs(self.upper) else np.inf

    @property
    def converged(self) -> bool:
        return self._is_small(self.gap)

    def _is_small(self, gap: float) -> bool:
        return math.isfinite(gap) and gap <= self._tol * abs(self.upper)

    def offer(self, evaluation: Eval, lower: float) -> None:
        """Update the best point and bounds with an evaluation and a lower bound."""
        point, upper, estimate = evaluation.point, evaluation.primal, evaluation.estimate
        if self.best is None or upper < self.upper:
            self.best, self.upper = point, upper
        if self.lowest is None or estimate < self.lowest[0]:
            self.lowest = estimate, point
        self.lower = max(self.lower, lower)

    def record(self, iteration: int, inner_iterations: int = 0) -> Status | None:
        """Record an iteration; return a status if the solver has to stop."""
        assert self.best is not None
        gap = self.gap
        row = TraceRow(
            iteration,
            float(self.upper),
            float(gap),
            self.n_products,
            inner_iterations,
            time.perf_counter() - self._start,
        )
        self.trace.append(row)
        stop = self._callback is not None and self._callback(row, self.best.w)
        if self._is_small(gap):
            return Status.CONVERGED
        return Status.STOPPED if stop else None

    def result(self, status: Status, n_iter: int, last: Eval | None = None) -> SolverResult:
        """Return the result; ``last`` is kept if it was made at the best point."""
        assert self.best is not None
        assert self.lowest is not None
        kept = last if last is not None and last.point is self.best else None
        if status is Status.STALLED and self.converged:  # a last bound closed the gap
            status = Status.CONVERGED
        return SolverResult(
            self.best,
            float(self.upper),
            float(self.gap),
            status,
            n_iter,
            self.n_products,
            tuple(self.trace),
            kept,
            self.lowest,
            float(self.lower),
        )
