"""Cutting planes: a lower model of a convex risk, and its minimum together with 1/2 <w, w>.

See :mod:`ranksvm.solvers.bundle`.  Every number that a lower bound depends on comes with a bound on
its rounding error.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ranksvm._points import Point
from ranksvm._rounding import roundings
from ranksvm._vectors import Array
from ranksvm.solvers.base import Objective
from ranksvm.solvers.simplex_qp import solve_simplex_qp

_Scalar = TypeVar("_Scalar", bound=np.generic)

FIRST_CAPACITY = 16


class Planes:
    """The cutting planes, stacked, with their Gram matrix and the last weights.

    Every slope is stored with its dual, the vector that represents it in inner products: the slope
    itself, which is stored only once, or its scores if the inner product is that of a kernel.
    """

    def __init__(self, n_features: int, patience: int, *, own_duals: bool) -> None:
        self._patience = patience
        self._own_duals = own_duals
        self._n_planes = 0
        self._slopes = np.empty((FIRST_CAPACITY, n_features))
        self._duals = self._slopes if own_duals else np.empty_like(self._slopes)
        self._gram = np.empty((FIRST_CAPACITY, FIRST_CAPACITY))
        self._offsets = np.empty(FIRST_CAPACITY)
        # For each plane: error, loss and size of the slope; error and reach of its scores.
        self._errors = np.empty((FIRST_CAPACITY, 5))
        self._weights = np.zeros(FIRST_CAPACITY)
        self._idle = np.zeros(FIRST_CAPACITY, dtype=np.intp)  # iterations since last active
        self._center: int | None = None

    def add(
        self,
        slope: Point,
        offset: float,
        errors: tuple[float, float, float] = (0.0, 0.0, 0.0),
        *,
        center: bool = False,
    ) -> None:
        """Add the plane R(v) >= offset + <slope, v>.

        ``errors`` are ``slope_error``, ``slope_loss`` and ``slope_size`` of its evaluation.
        The plane at the ``center`` is kept until the center moves: it makes F decrease from the
        center towards the minimizer of the model.
        """
        place = self._free_place()
        kept = slice(0, self._n_planes)
        self._slopes[place] = slope.w
        self._duals[place] = slope.scores
        self._offsets[place] = offset
        self._errors[place] = *errors, slope.error, slope.reach
        self._gram[place, kept] = self._gram[kept, place] = _inner(self._slopes[kept], slope.scores)
        self._weights[place] = 0.0
        self._idle[place] = 0
        if center:
            self._center = place

    def minimize(self, objective: Objective, tol: float) -> tuple[Point, float]:
        """Minimize the model up to ``tol``.

        Returns the minimizer with its dual, and a lower bound on the minimum of F.
        """
        kept = slice(0, self._n_planes)
        solution = solve_simplex_qp(
            self._gram[kept, kept], self._offsets[kept], self._weights[kept], tol=tol
        )
        weights = solution.weights
        active = np.flatnonzero(weights)
        self._weights[kept] = weights
        self._idle[kept] += 1
        self._idle[active] = 0
        if self._center is not None:
            self._idle[self._center] = 0
        w = dual = self._combined(self._slopes, weights, active)
        if not self._own_duals:
            dual = self._combined(self._duals, weights, active)
        # The weights sum to 1 only up to rounding, which affects all sums with them.
        off = roundings(2 * active.size + 8) + abs(float(weights.sum()) - 1.0)
        offsets = self._offsets[kept]
        slope_error, loss, size, error, reach = _inner(self._errors[kept].T, weights).tolist()
        point = Point(w, dual, error + 2.0 * off * reach, (1.0 + off) * reach)
        offset = float(weights @ offsets) - off * float(weights @ np.abs(offsets))
        # From the point and not from the Gram matrix, whose rounding errors would enter the bound.
        slope_loss = (1.0 + off) * loss + off * size
        norm = objective.norm_bound(point, (1.0 + off) * slope_error) + slope_loss
        return point, offset - 0.5 * (1.0 + roundings(4)) * norm * norm

    @staticmethod
    def _combined(vectors: Array, weights: Array, active: NDArray[np.intp]) -> Array:
        combined: Array = -np.einsum("k,kj->j", weights[active], vectors[active])
        return combined

    def _free_place(self) -> int:
        """Return the place of the plane that was inactive longest, or a new place at the end."""
        if self._n_planes:
            oldest = int(self._idle[: self._n_planes].argmax())
            if self._idle[oldest] >= self._patience:
                return oldest
        capacity = self._offsets.size
        if self._n_planes == capacity:
            shape = 2 * capacity, self._slopes.shape[1]
            self._slopes = _enlarged(self._slopes, shape)
            self._duals = self._slopes if self._own_duals else _enlarged(self._duals, shape)
            self._gram = _enlarged(self._gram, (2 * capacity, 2 * capacity))
            self._offsets = _enlarged(self._offsets, (2 * capacity,))
            self._errors = _enlarged(self._errors, (2 * capacity, 5))
            self._weights = _enlarged(self._weights, (2 * capacity,))
            self._idle = _enlarged(self._idle, (2 * capacity,))
        self._n_planes += 1
        return self._n_planes - 1


def _inner(u: Array, v: Array) -> Any:
    """Return inner products of one or several stacked vectors with a vector of dual ``v``."""
    return np.einsum("...j,j->...", u, v)  # no BLAS: see ranksvm._vectors


def _enlarged(array: NDArray[_Scalar], shape: tuple[int, ...]) -> NDArray[_Scalar]:
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(0, size) for size in array.shape)] = array
    return larger
