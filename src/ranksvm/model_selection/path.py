"""Solutions for many C, each from its neighbours.

For the solution w(C) of

    F_C(w) = 1/2 |w|^2 + C R(w),        R the sum over the pairs,

C is taken in ascending order, and every fit gets what the one before it knows (see
:meth:`ranksvm.learners.RankProblem.solve`) and a forecast of its solution: the polynomial in a
function of C through the last solutions.  Which function is right changes along the path:

    C       near w(0) = 0, where all pairs are violated and w(C) is about - C R'(0)
    log C   in between
    1 / C   when w(C) comes near its limit

A ``guide``, the path of a similar problem such as another fold of the same set, adds forecasts of
the *difference* from it, which is small and changes slowly.  The kind of forecast that would have
been best for the last C is used for the next.  Solutions carry their scores, so that a forecast
costs no product with X, and the fit begins where F is lowest on the way to it.

However good or bad the forecast was, a fit ends with its own certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm.learners import Fit, Point, RankProblem
from ranksvm.model_selection.grids import check_grid

__all__ = ["Guide", "fit_path"]

# Solution of a similar problem for the C at a place of the grid, with the scores of our items.
Guide = Callable[[int], Point]

# The variables of the polynomials; of those that start at C = 0, w = 0 is a solution too.
VARIABLES: dict[str, Callable[[float], float]] = {
    "C": lambda C: C,
    "log C": math.log,
    "1 / C": lambda C: 1.0 / C,
}
DEGREES = (1, 2)
# Coefficients that forecasts are compared by, about.
COMPARED = 1024


def fit_path(
    problem: RankProblem,
    Cs: Sequence[float] | NDArray[np.float64],
    *,
    guide: Guide | None = None,
    callback: Callable[..., Any] | None = None,
    finished: Callable[[int, Fit], Any] | None = None,
) -> list[Fit]:
    """Solve a problem for every C.

    Parameters
    ----------
    problem : RankProblem
        Its own C plays no part.
    Cs : sequence of float
        Positive and different, in any order.
    guide : callable or None, default=None
        ``guide(k)`` is the solution of a similar problem for ``Cs[k]``, as a Point with the scores
        of the items of this one.  The results do not depend on it beyond their tolerance.
    callback : callable or None, default=None
        Called as ``callback(row, coef)`` after every iteration of every fit.  A true result stops
        that fit; what it raises stops the path.
    finished : callable or None, default=None
        Called as ``finished(k, fit)`` when the fit for ``Cs[k]`` is done.

    Returns
    -------
    list of Fit
        In the order of Cs.  Each is certified at the tolerance of the problem, like a fit on its
        own.
    """
    grid = check_grid("C", Cs)
    fits: dict[int, Fit] = {}
    forecast = _Forecast(guide)
    last: Fit | None = None
    for k in np.argsort(grid).tolist():
        C = float(grid[k])
        start = forecast.at(k, C)
        fit = problem.solve(C, start=start, after=last, callback=callback)
        forecast.learn(fit.point)
        last = fit
        fits[k] = replace(fit, evaluation=None)  # the violated pairs take more room than the rest
        if finished is not None:
            finished(k, fits[k])
    return [fits[k] for k in range(grid.size)]


class _Known(NamedTuple):
    """A solution of the path, and that of the guide beside it."""

    C: float
    point: Point
    guide: Point | None


# A forecast is a combination of points.
_Combination = list[tuple[float, Point]]


class _Forecast:
    """Forecasts of the next solution; remembers how good each kind was last time."""

    def __init__(self, guide: Guide | None) -> None:
        self._guide = guide
        self._known: list[_Known] = []
        self._errors: dict[str, float] = {}
        self._next: tuple[float, Point | None, dict[str, _Combination]] | None = None

    def at(self, k: int, C: float) -> Point | None:
        """Return the forecast for ``Cs[k]``, which is C; None when nothing is known."""
        guide = None if self._guide is None else self._guide(k)
        kinds = self._kinds(C, guide)
        self._next = C, guide, kinds
        if not kinds:
            return None
        # With no experience, the first kind there is.
        best = min(kinds, key=lambda kind: self._errors.get(kind, math.inf))
        return _combined(kinds[best])

    def learn(self, point: Point) -> None:
        """Take in the solution that the last forecast was for."""
        assert self._next is not None
        C, guide, kinds = self._next
        self._errors = {kind: _distance(parts, point) for kind, parts in kinds.items()}
        self._known = [*self._known[-max(DEGREES) :], _Known(C, point, guide)]

    def _kinds(self, C: float, guide: Point | None) -> dict[str, _Combination]:
        """Every kind of forecast that there are enough solutions for, the safest first."""
        if not self._known:
            return {} if guide is None else {"guide": [(1.0, guide)]}
        kinds: dict[str, _Combination] = {}
        if guide is not None:
            kinds["guide, same"] = [(1.0, guide), *_difference(1.0, self._known[-1])]
        zero = self._known[-1].point.times(0.0)
        for variable, x in VARIABLES.items():
            known = self._known
            if variable == "C" and len(known) <= max(DEGREES):  # all from the start of the path
                known = [_Known(0.0, zero, None if guide is None else zero), *known]
            for degree in DEGREES:
                if len(known) <= degree:
                    continue
                used = known[-degree - 1 :]
                nodes = [x(one.C) for one in used]
                if len(set(nodes)) < len(nodes):  # values of C that differ in their last bits
                    continue
                weights = _lagrange(nodes, x(C))
                if not all(map(math.isfinite, weights)):  # of a C that is nearly zero
                    continue
                kinds[f"{variable}, degree {degree}"] = [
                    (weight, one.point) for weight, one in zip(weights, used, strict=True)
                ]
                if guide is not None and degree == 1:
                    kinds[f"guide, {variable}"] = [(1.0, guide)] + [
                        part
                        for weight, one in zip(weights, used, strict=True)
                        for part in _difference(weight, one)
                    ]
        kinds["same"] = [(1.0, self._known[-1].point)]
        return kinds


def _lagrange(nodes: Sequence[float], x: float) -> list[float]:
    """Weights of the values at the nodes in the polynomial through them, at x."""
    return [
        math.prod((x - other) / (node - other) for j, other in enumerate(nodes) if j != i)
        for i, node in enumerate(nodes)
    ]


def _difference(weight: float, known: _Known) -> _Combination:
    assert known.guide is not None
    return [(weight, known.point), (-weight, known.guide)]


def _combined(parts: _Combination) -> Point:
    (weight, first), *others = parts
    total = first if weight == 1.0 else first.times(weight)
    for weight, point in others:
        total = total.plus(weight, point)
    return total


def _distance(parts: _Combination, point: Point) -> float:
    """Squared distance of the coefficients, or of about a thousand: enough to compare."""
    some = slice(None, None, max(1, point.w.size // COMPARED))
    rest = -point.w[some]
    for weight, part in parts:
        rest += weight * part.w[some]
    return float(np.einsum("i,i->", rest, rest))
