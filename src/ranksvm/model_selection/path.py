"""Solutions for many values of C, each computed from the previous ones.

Let w(C) be the minimiser of

    F_C(w) = 1/2 |w|^2 + C R(w),        R the sum over the pairs.

C is processed in ascending order.  Every fit reuses what the previous one computed (see
:meth:`ranksvm.learners.problem.RankProblem.solve`) and starts from a forecast: a polynomial through
the last solutions, in a function of C.  The best function changes along the path:

    C       near w(0) = 0, where all pairs are violated and w(C) is about - C R'(0)
    log C   in between
    1 / C   when w(C) approaches its limit

A ``guide`` is the path of a similar problem, such as another fold of the same data set.  It adds
forecasts of the *difference* from it, which is small and changes slowly.  The kind of forecast that
would have been best for the last C is used for the next one.  Solutions carry their scores, so a
forecast needs no product with X.  The fit starts at the lowest point of F on the way to the
forecast.

The quality of a forecast affects only the time of a fit: every fit has its own certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._points import Combination, Point
from ranksvm.learners.fit import Fit
from ranksvm.learners.problem import PathProblem
from ranksvm.model_selection.grids import check_grid

# Returns the solution of a similar problem for Cs[k], with the scores of the items of this problem;
# None if it cannot be followed from here on.
Guide = Callable[[int], Point | None]

# The variables of the polynomials.  In C itself, w(0) = 0 is another known solution.
VARIABLES: dict[str, Callable[[float], float]] = {
    "C": lambda C: C,
    "log C": math.log,
    "1 / C": lambda C: 1.0 / C,
}
DEGREES = (1, 2)
# Approximate number of coefficients used to compare forecasts.
COMPARED = 1024


def fit_path(
    problem: PathProblem,
    Cs: Sequence[float] | NDArray[np.float64],
    *,
    guide: Guide | None = None,
    callback: Callable[..., Any] | None = None,
    finished: Callable[[int, Fit], Any] | None = None,
) -> list[Fit]:
    """Solve a problem for every C.

    Parameters
    ----------
    problem : PathProblem
        Its own C is ignored.
    Cs : sequence of float
        Positive, without duplicates, in any order.
    guide : callable or None, default=None
        ``guide(k)`` returns the solution of a similar problem for ``Cs[k]``, as a Point with the
        scores of the items of this problem, or None to end the guidance.  It is called in ascending
        order of C, and changes the results by no more than the tolerance.
    callback : callable or None, default=None
        Called as ``callback(row, coef)`` after every iteration of every fit.  A true result stops
        that fit; an exception stops the path.
    finished : callable or None, default=None
        Called as ``finished(k, fit)`` after the fit for ``Cs[k]``.

    Returns
    -------
    list of Fit
        In the order of Cs.  Each fit is certified to the tolerance of the problem, like a separate
        fit.
    """
    grid = check_grid("C", Cs)
    fits: dict[int, Fit] = {}
    known: list[_Known] = []
    errors: dict[str, float] = {}  # of each kind of forecast for the last C
    last: Fit | None = None
    for k in np.argsort(grid).tolist():
        C = float(grid[k])
        guided = None if guide is None else guide(k)
        if guided is None:
            guide = None
        forecasts = _forecasts(C, known, guided)
        start = None
        if forecasts:  # without any errors yet, the first one
            best = min(forecasts, key=lambda kind: errors.get(kind, math.inf))
            start = Combination(forecasts[best])
        last = problem.solve(C, start=start, after=last, callback=callback)
        point = last.on_path.point
        errors = {kind: _distance(parts, point) for kind, parts in forecasts.items()}
        known = [*known[-max(DEGREES) :], _Known(C, point, guided)]
        fits[k] = last.without_evaluation()
        if finished is not None:
            finished(k, fits[k])
    return [fits[k] for k in range(grid.size)]


class _Known(NamedTuple):
    """A solution of the path, and the solution of the guide for the same C."""

    C: float
    point: Point
    guide: Point | None

    def times(self, weight: float) -> _Parts:
        """Return the solution, times a weight."""
        return [(weight, self.point)] if self.C > 0.0 else []

    def difference(self, weight: float) -> _Parts:
        """Return the difference from the guide, times a weight."""
        if self.C == 0.0:
            return []
        assert self.guide is not None
        return [(weight, self.point), (-weight, self.guide)]


# A forecast is a linear combination of points: factors and points.
_Parts = list[tuple[float, Point]]


def _forecasts(C: float, solutions: Sequence[_Known], guide: Point | None) -> dict[str, _Parts]:
    """Return all kinds of forecasts that have enough solutions, the safest first."""
    if not solutions:
        return {} if guide is None else {"guide": [(1.0, guide)]}
    last = solutions[-1]
    found: dict[str, _Parts] = {}
    if guide is not None:
        found["guide, same"] = [(1.0, guide), *last.difference(1.0)]
    for variable, x in VARIABLES.items():
        known = solutions
        if variable == "C" and len(known) <= max(DEGREES):  # at the start of the path
            known = [_Known(0.0, last.point, guide), *known]  # C = 0 stands for w = 0
        for degree in DEGREES:
            if len(known) <= degree:
                continue
            used = known[-degree - 1 :]
            nodes = [x(one.C) for one in used]
            if len(set(nodes)) < len(nodes):  # the values of C differ only by rounding
                continue
            weights = _lagrange(nodes, x(C))
            if not all(map(math.isfinite, weights)):  # a C is nearly zero
                continue
            weighted = list(zip(weights, used, strict=True))
            found[f"{variable}, degree {degree}"] = [
                part for weight, one in weighted for part in one.times(weight)
            ]
            if guide is not None and degree == 1:
                differences = [part for weight, one in weighted for part in one.difference(weight)]
                found[f"guide, {variable}"] = [(1.0, guide), *differences]
    found["same"] = [(1.0, last.point)]
    return found


def _lagrange(nodes: Sequence[float], x: float) -> list[float]:
    """Return the weights of the values at the nodes in the interpolating polynomial at x."""
    return [
        math.prod((x - other) / (node - other) for j, other in enumerate(nodes) if j != i)
        for i, node in enumerate(nodes)
    ]


def _distance(parts: _Parts, point: Point) -> float:
    """Return the squared distance of the coefficients, or of a sample of about a thousand."""
    some = slice(None, None, max(1, point.w.size // COMPARED))
    rest = -point.w[some]
    for weight, part in parts:
        rest += weight * part.w[some]
    return float(np.einsum("i,i->", rest, rest))
