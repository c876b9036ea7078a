"""What a solver sees and what it returns.

A solver minimises

    F(w) = 1/2 <w, w> + R(w),        R convex,

and knows nothing about ranking, matrices or kernels.  Everything it may ask for is in the
protocols below.

A :class:`Point` is a vector together with its image under the linear map of the problem (the
scores ``X w``).  Points form a linear space, so a solver that builds a step as a combination of
directions gets the scores of the step for free: moving along it and searching along it costs no
further product with X.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ranksvm._points import Point
from ranksvm._vectors import Array, dot

__all__ = [
    "Array",
    "Callback",
    "Capable",
    "Eval",
    "Monitor",
    "Objective",
    "Point",
    "Resuming",
    "Solver",
    "SolverResult",
    "Status",
    "TraceRow",
    "Trial",
    "dot",
    "gradient_norm2",
    "missing_capabilities",
]


# Part of an objective by which bounds may cross where nobody allows for rounding.
_CROSSED = 1e-12


class Trial(NamedTuple):
    """A point on a line: F there, and its slope along the line.

    ``accept()`` evaluates fully at that point, for one product with X', reusing what is known.
    """

    value: float
    slope: float
    accept: Callable[[], Eval]


class Eval(Protocol):
    """The objective at one point; immutable.

    Attributes
    ----------
    point : Point
    value : float
        F(w), the function this objective minimises.
    grad : ndarray
        Its gradient (a subgradient where F has a kink): ``w + risk_grad``.
    risk, risk_grad : float, ndarray
        R(w) and its (sub)gradient.
    slope, risk_slope : Point
        ``grad`` and ``risk_grad``, each with its dual: what inner products with it are taken
        against.  That is the vector itself or, without the capability "euclidean", its scores.
    estimate : float
        The *stated* objective at w, as computed.
    primal : float
        An upper bound of the *stated* objective at w, and so of its optimum: ``value`` and what
        rounding may have hidden, unless F is a smoothed stand-in for the stated objective.
    dual : float
        A lower bound of the optimum of the stated objective.
    offset, slope_error, slope_loss : float
        For every v, R(v) is at least ``offset + <a, v>``, where a is ``risk_grad`` but for
        rounding: its norm is at most ``objective.norm_bound(risk_grad, slope_error) + slope_loss``,
        and likewise for means of several a.
    slope_size : float
        Bounds the norm of every vector whose entries are no larger than those of ``risk_grad``.

    ``primal``, ``dual`` and ``offset`` hold whatever rounding does.
    """

    @property
    def point(self) -> Point: ...
    @property
    def value(self) -> float: ...
    @property
    def grad(self) -> Array: ...
    @property
    def risk(self) -> float: ...
    @property
    def risk_grad(self) -> Array: ...
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
        """Hessian of F times ``direction.w``.  One product with X'."""
        ...

    def preconditioner(self, *, diagonal: bool = False) -> Any:
        """Approximate inverse of the Hessian of F, or None; capability "preconditioner".

        A function from vectors to vectors, whose scores are then still to be found; without the
        capability "euclidean" from points to points.
        """
        ...

    def line(self, direction: Point, target: Point | None = None) -> Callable[[float], Trial]:
        """``t -> Trial`` at ``point + t * direction``.  No product with X.

        ``target`` is ``point + direction`` where that is what the direction was made from.
        """
        ...


class Objective(Protocol):
    """A function to minimise.

    ``capabilities`` holds the names of the optional parts that this objective has:

    ``"hessian"``
        ``Eval.hessp`` works.
    ``"smoothing"``
        ``smoothed(mu)`` returns an objective with a Hessian that tends to this one as mu -> 0.
    ``"preconditioner"``
        ``Eval.preconditioner()`` works.
    ``"euclidean"``
        <u, v> is the plain inner product.  Without, it is u . scores(v), as with a kernel.
    """

    @property
    def capabilities(self) -> frozenset[str]: ...

    @property
    def n_products(self) -> int:
        """Products with X or X' made so far."""
        ...

    def point(self, w: Array) -> Point:
        """Attach the scores to ``w``.  One product with X (none for ``w = 0``)."""
        ...

    def at(self, point: Point) -> Eval:
        """Evaluate.  One product with X'."""
        ...

    def scored(self, dual: Point) -> Point:
        """Return the point of a vector with its dual (see ``Eval.slope``)."""
        ...

    def inner(self, u: Array, v: Point) -> float:
        """Inner product of the space of w; ``v`` with its scores or its dual."""
        ...

    def norm_bound(self, v: Point, slope_error: float = 0.0) -> float:
        """Bound the norm of v from above, and of what v may be but for errors of slopes."""
        ...


def gradient_norm2(objective: Objective, evaluation: Eval) -> float:
    """Squared norm of the gradient in the inner product of the objective; no product with X."""
    return objective.inner(evaluation.grad, evaluation.slope)


class Status(enum.Enum):
    """How a solver ended; the value is the sentence shown to the user."""

    CONVERGED = "the certified gap is within the tolerance"
    MAX_ITER = "the iteration limit was reached before the tolerance"
    STALLED = "rounding errors stop further progress before the tolerance"
    STOPPED = "stopped by the callback"
    EXHAUSTED = "no step lowers the objective any further"
    EARLY = "the best score on the validation set came before the end"


class TraceRow(NamedTuple):
    """One iteration of a solver, as kept in ``history_``.

    ``valid`` is the score on a validation set, None without one.
    """

    iteration: int
    objective: float
    gap: float
    n_products: int
    inner_iterations: int
    seconds: float
    valid: float | None = None


Callback = Callable[["TraceRow", Array], Any]


@dataclass(frozen=True)
class SolverResult:
    """Where the solver ended and how good that is.

    The stated objective at ``point`` and its optimum both lie between ``objective - gap`` and
    ``objective``.  ``evaluation`` is what is known at ``point``, where a :class:`Resuming` solver
    could go on; None if it was not kept.  ``lowest`` is the lowest objective that was computed, and
    where, if what rounding may have done is left aside; ``lower`` is where the gap ends below.
    """

    point: Point
    objective: float
    gap: float
    status: Status
    n_iter: int
    n_products: int
    trace: Sequence[TraceRow]
    evaluation: Eval | None = None
    lowest: tuple[float, Point] | None = None
    lower: float = -np.inf

    def followed_by(self, other: SolverResult) -> SolverResult:
        """Return the result of a solve that ``other`` has gone on with."""
        last = self.trace[-1]
        lower = max(self.lower, other.lower)
        lows = [low for low in (self.lowest, other.lowest) if low is not None]
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
            lowest=min(lows, key=lambda low: low[0], default=None),
            status=other.status,
            n_iter=self.n_iter + other.n_iter,
            n_products=self.n_products + other.n_products,
            trace=(*self.trace, *more),
        )


class Solver(Protocol):
    """``requires`` names the capabilities an objective must have."""

    @property
    def name(self) -> str: ...
    @property
    def requires(self) -> frozenset[str]: ...

    def solve(
        self, objective: Objective, start: Point, *, callback: Callback | None = None
    ) -> SolverResult: ...


@runtime_checkable
class Resuming(Protocol):
    """A solver that starts as well from a point where the objective is evaluated already."""

    def resume(
        self, objective: Objective, evaluation: Eval, *, callback: Callback | None = None
    ) -> SolverResult:
        """Minimise ``objective`` from where ``evaluation``, one of its own, was made."""
        ...


class Capable(Protocol):
    """Something with ``capabilities``: an objective, or what one is made of."""

    @property
    def capabilities(self) -> frozenset[str]: ...


def missing_capabilities(solver: Solver, objective: Capable) -> frozenset[str]:
    """Names that ``solver`` needs and ``objective`` does not have."""
    return solver.requires - objective.capabilities


class Monitor:
    """The bookkeeping that all solvers share: best point, best bound, trace, callback, stop.

    The optimality gap is the best objective seen minus the best lower bound seen; both only
    improve, so the certificate of an early stop is as good as everything that was computed.
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
        """Certified gap.  Bounds that cross by more than a few roundings prove nothing."""
        gap = self.upper - self.lower
        return abs(gap) if gap >= -_CROSSED * abs(self.upper) else np.inf

    @property
    def converged(self) -> bool:
        return bool(np.isfinite(self.gap)) and self.gap <= self._tol * abs(self.upper)

    def offer(self, evaluation: Eval, lower: float) -> None:
        """Take in what is known at a point, and a lower bound."""
        point, upper, estimate = evaluation.point, evaluation.primal, evaluation.estimate
        if self.best is None or upper < self.upper:
            self.best, self.upper = point, upper
        if self.lowest is None or estimate < self.lowest[0]:
            self.lowest = estimate, point
        self.lower = max(self.lower, lower)

    def record(self, iteration: int, inner_iterations: int = 0) -> Status | None:
        """Close an iteration; return a status when the solver has to stop here."""
        assert self.best is not None
        row = TraceRow(
            iteration,
            float(self.upper),
            float(self.gap),
            self.n_products,
            inner_iterations,
            time.perf_counter() - self._start,
        )
        self.trace.append(row)
        stop = self._callback is not None and self._callback(row, self.best.w)
        if self.converged:
            return Status.CONVERGED
        return Status.STOPPED if stop else None

    def result(self, status: Status, n_iter: int, last: Eval | None = None) -> SolverResult:
        """Close the solve; ``last`` is handed on if it was made at the best point."""
        assert self.best is not None
        kept = last if last is not None and last.point is self.best else None
        if status is Status.STALLED and self.converged:  # a last bound was good enough
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
