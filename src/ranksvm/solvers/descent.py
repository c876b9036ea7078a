"""Minimisation of functions that need not be convex: value and gradient, nothing else.

Both methods are monotone: every iterate lies lower than the one before, so the last is the best.

``lbfgs``
    Quasi-Newton steps.  With the last moves s_i and the changes y_i of the gradient as columns of S
    and Y, R the upper triangle of S'Y, D its diagonal and gamma = s.y / y.y of the last pair, the
    inverse Hessian is taken for (Byrd, Nocedal & Schnabel)

        H = gamma I + [S, gamma Y] [[R^-T (D + gamma Y'Y) R^-1, -R^-T], [-R^-1, 0]] [S, gamma Y]'.

    That is four passes over the memory a step, by matrix products; L-BFGS-B of SciPy, which takes
    care of bounds, needs several times as long for vectors of this length.  The line search asks
    for the weak Wolfe conditions by a shrinking interval: that works at kinks, too (Lewis &
    Overton).
``gradient``
    Steepest descent.  A step must lower the value by a ten-thousandth of what the slope promises
    (Armijo); it is halved until it does, and tried twice as long the next time.

They end after ``max_iter`` iterations, when ``watch`` says so, or when no step along the direction
at hand lowers the value any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ranksvm._vectors import Array, dot

__all__ = ["DESCENTS", "Descended", "Function", "Watch", "gradient", "lbfgs"]

Function = Callable[[Array], tuple[float, Array]]
"""x to value and gradient."""
Watch = Callable[[Array, float], bool]
"""Called with every iterate and its value; a true result ends the descent there."""

CORRECTIONS = 10
ARMIJO = 1e-4
FLATTER = 0.9
MOST_TRIALS = 50
MOST_HALVINGS = 60


class Descended(NamedTuple):
    """Where a descent ended, and whether that is because nothing lower was found."""

    x: Array
    value: float
    n_iter: int
    exhausted: bool


def lbfgs(function: Function, start: Array, *, max_iter: int, watch: Watch) -> Descended:
    """Quasi-Newton steps from a memory of ten moves."""
    memory = _Memory(start.size)
    x = start
    value, slope = function(x)
    for n_iter in range(max_iter):
        step = None
        while step is None:
            direction = memory.direction(slope)
            descent = dot(direction, slope)
            first = 1.0 if len(memory) else _first_step(x, slope)
            step = _weak_wolfe(function, x, value, direction, descent, first)
            if step is None and not len(memory):
                return Descended(x, value, n_iter, True)
            if step is None:
                memory.clear()  # the gradient itself is the last resort
        moved, lower, next_slope = step
        memory.add(moved - x, next_slope - slope)
        x, value, slope = moved, lower, next_slope
        if watch(x, value):
            return Descended(x, value, n_iter + 1, False)
    return Descended(x, value, max_iter, False)


class _Memory:
    """The last moves and changes of the gradient, and the inverse Hessian made of them."""

    def __init__(self, size: int) -> None:
        self._moves: Array = np.empty((CORRECTIONS, size))
        self._changes: Array = np.empty((CORRECTIONS, size))
        self._cross: Array = np.zeros((CORRECTIONS, CORRECTIONS))  # S'Y
        self._square: Array = np.zeros((CORRECTIONS, CORRECTIONS))  # Y'Y
        self._places: list[int] = []  # oldest first

    def __len__(self) -> int:
        return len(self._places)

    def clear(self) -> None:
        self._places.clear()

    def add(self, move: Array, change: Array) -> None:
        """Take in a pair, unless its curvature is lost in rounding."""
        product = dot(move, change)
        if not product > 1e-14 * np.sqrt(dot(move, move) * dot(change, change)):
            return
        place = self._places.pop(0) if len(self) == CORRECTIONS else len(self)
        self._places.append(place)
        self._moves[place], self._changes[place] = move, change
        filled = len(self)
        self._cross[:filled, place] = self._moves[:filled] @ change
        self._cross[place, :filled] = self._changes[:filled] @ move
        self._square[:filled, place] = self._square[place, :filled] = (
            self._changes[:filled] @ change
        )

    def direction(self, slope: Array) -> Array:
        """Return minus the inverse Hessian times the gradient."""
        if not len(self):
            return -slope
        filled = len(self)
        at = np.array(self._places)
        cross, square = self._cross[np.ix_(at, at)], self._square[np.ix_(at, at)]
        gamma = cross[-1, -1] / square[-1, -1]
        upper = np.triu(cross)
        along_moves = (self._moves[:filled] @ slope)[at]
        along_changes = (self._changes[:filled] @ slope)[at]
        solved = np.linalg.solve(upper, along_moves)
        inner = cross.diagonal() * solved + gamma * (square @ solved) - gamma * along_changes
        of_moves, of_changes = np.empty(filled), np.empty(filled)
        of_moves[at] = np.linalg.solve(upper.T, inner)
        of_changes[at] = -gamma * solved
        direction: Array = gamma * slope
        direction += of_moves @ self._moves[:filled]
        direction += of_changes @ self._changes[:filled]
        np.negative(direction, out=direction)
        return direction


def _weak_wolfe(
    function: Function, x: Array, value: float, direction: Array, descent: float, first: float
) -> tuple[Array, float, Array] | None:
    """Find a step that lowers the value enough and flattens the slope; None if none goes down."""
    if not descent < 0.0:
        return None
    # F and its slope at the lower end of the interval that holds a good step.
    low, at_low, slope_low = 0.0, value, descent
    high, step = np.inf, first
    found: tuple[Array, float, Array] | None = None
    for _ in range(MOST_TRIALS):
        moved = x + step * direction
        lower, gradient = function(moved)
        if not lower <= value + ARMIJO * step * descent or not lower < value:
            high = step
            # The minimum of the parabola through both ends with the slope at the lower one.
            width = high - low
            bend = lower - at_low - slope_low * width
            share = -0.5 * slope_low * width / bend if bend > 0.0 else 0.5
            step = low + width * min(max(share, 0.1), 0.5)
            continue
        found = moved, lower, gradient
        slope = dot(gradient, direction)
        if slope >= FLATTER * descent:
            return found
        bend = slope - slope_low
        further = -slope * (step - low) / bend if bend > 0.0 else np.inf  # where slopes reach zero
        least, most = (0.5, 0.9) if np.isfinite(high) else (1.0, 4.0)
        room = high - step if np.isfinite(high) else step
        low, at_low, slope_low = step, lower, slope
        step += min(max(further, least * room), most * room)
    return found


def _first_step(x: Array, slope: Array) -> float:
    """Return a step along the gradient by a tenth of the length of x, or by 1 from zero."""
    square = dot(slope, slope)
    length = 0.1 * float(np.sqrt(dot(x, x))) or 1.0
    return length / float(np.sqrt(square)) if square > 0.0 else 0.0


def gradient(function: Function, start: Array, *, max_iter: int, watch: Watch) -> Descended:
    """Steepest descent with a step that finds its own length."""
    x = start
    value, slope = function(x)
    square = dot(slope, slope)
    step = _first_step(x, slope)
    for n_iter in range(max_iter):
        for _ in range(MOST_HALVINGS):
            moved = x - step * slope
            lower, next_slope = function(moved)
            if lower <= value - ARMIJO * step * square:
                break
            step *= 0.5
        else:
            return Descended(x, value, n_iter, True)
        if not lower < value:
            return Descended(x, value, n_iter, True)
        x, value, slope = moved, lower, next_slope
        square = dot(slope, slope)
        step *= 2.0
        if watch(x, value):
            return Descended(x, value, n_iter + 1, False)
    return Descended(x, value, max_iter, False)


DESCENTS: dict[str, Callable[..., Descended]] = {"lbfgs": lbfgs, "gradient": gradient}
