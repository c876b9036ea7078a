"""The small quadratic program of the bundle method.

    minimize    q(b) = 1/2 b'G b - c'b      over the simplex  b >= 0, sum(b) = 1,

where G is symmetric positive semidefinite, dense and small (one row per cutting plane).  With the
gradient g = G b - c, the number

    excess(b) = b'g - min(g)  >=  q(b) - min q  >=  0

certifies how far a feasible b is from the optimum; it is zero exactly at a solution.

The method is a primal active set method.  On the support S of b, with a reference index r in S, a
step p that keeps the sum is free in the other indices, and the minimizer satisfies

    H p = -(g_i - g_r),   H_ij = G_ij - G_ir - G_rj + G_rr,   p_r = -sum(p).

The method moves from b towards b + p.  If a weight reaches zero on the way, its index leaves S
and p is computed again; otherwise b is optimal on S, and the index with the smallest gradient
enters S.  Consecutive programs differ by one or two cuts, so a start from the last weights needs
only a few such steps.

H is the Gram matrix of differences of cuts.  Cuts become similar near the optimum, so H is often
singular to working precision, and a multiple of its rounding errors is added to its diagonal.  This
acts as a proximal term around the *current* b: it does not change the solution, but keeps p finite,
though long, where there is no curvature.  Such a step ends where a weight reaches zero, as it
should.  If rounding still spoils the direction, a step is made for the pair of indices that
violates optimality most, for which the minimizer has a closed form.  If that does not decrease q
either, q is as low as rounding allows.  Every step starts and ends in the simplex.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array

_EPS = float(np.finfo(np.float64).eps)

# Multiples of the rounding errors of the diagonal that are added to it.  The second is tried if the
# first leaves H indefinite.
_RIDGES = (8.0, 1e6)


class SimplexSolution(NamedTuple):
    """A point of the simplex and a bound on its distance from the optimum.

    Attributes
    ----------
    weights : ndarray of shape (k,)
        Nonnegative weights that sum to one up to rounding.
    value : float
        q at the weights.
    excess : float
        Bound on ``value - min q``.
    steps : int
        Number of linear systems solved.
    """

    weights: Array
    value: float
    excess: float
    steps: int


def solve_simplex_qp(
    gram: Array,
    linear: Array,
    start: Array | None = None,
    *,
    tol: float = 0.0,
    max_steps: int | None = None,
) -> SimplexSolution:
    """Minimize ``1/2 b' gram b - linear' b`` over the simplex.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        Symmetric matrix, positive semidefinite up to rounding.
    linear : ndarray of shape (k,)
        Linear term.
    start : ndarray of shape (k,), optional
        Initial weights, moved into the simplex if necessary.  By default the best vertex is used.
    tol : float, default=0
        Stop when ``excess <= tol``.  Zero means as accurate as rounding allows.
    max_steps : int, optional
        Maximum number of steps (default: ``20 + 10 k``).  At the limit the current weights are
        returned, which are feasible, with their true ``excess``.

    Returns
    -------
    SimplexSolution
    """
    limit = 20 + 10 * linear.size if max_steps is None else max_steps
    norms = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    sizes = np.abs(linear)
    weights = _feasible(gram, linear, start)
    last_value = np.inf
    paired = False
    steps = 0
    while True:
        support = weights.nonzero()[0]
        image = gram @ weights
        gradient = image - linear
        value = float(0.5 * (weights @ image) - weights @ linear)
        entering = int(gradient.argmin())
        excess = float(weights @ gradient - gradient[entering])
        # Rounding errors of the excess, from |G_ij| <= norms_i norms_j.
        length = float(weights @ norms)
        noise = length * (length + norms[entering]) + weights @ sizes + sizes[entering]
        if excess <= max(tol, 4 * _EPS * noise) or steps >= limit:
            break
        stuck = not value < last_value
        if stuck and paired:
            break
        last_value, paired = value, stuck
        if stuck:
            steps += 1
            weights = _pair_step(gram, gradient, weights, entering)
            continue
        if weights[entering] == 0.0:
            support = np.append(support, entering)
        # Otherwise only errors of the last linear systems are left, and solving again removes most
        # of them.
        used, weights = _settle(gram, gradient, weights, support, entering, limit - steps)
        steps += used
    return SimplexSolution(weights, value, max(0.0, excess), steps)


def _feasible(gram: Array, linear: Array, start: Array | None) -> Array:
    """Return the initial weights as a point of the simplex, or the best vertex."""
    if start is not None:
        weights = np.maximum(start, 0.0)
        total = float(weights.sum())
        if 0.0 < total < np.inf:
            return weights / total
    weights = np.zeros_like(linear)
    weights[int((0.5 * gram.diagonal() - linear).argmin())] = 1.0
    return weights


def _settle(
    gram: Array,
    gradient: Array,
    weights: Array,
    support: NDArray[np.intp],
    entering: int,
    limit: int,
) -> tuple[int, Array]:
    """Minimize over the support, dropping indices whose weight reaches zero.

    Returns the number of steps and the weights.
    """
    local = weights[support]
    slopes = gradient[support]
    steps = 0
    while support.size > 1 and steps < limit:
        steps += 1
        block = gram[support[:, None], support]
        direction = _direction(block, slopes)
        if direction is None:
            return steps, _pair_step(gram, gradient, weights, entering)
        falling = (direction < 0.0).nonzero()[0]
        ratios = local[falling] / -direction[falling]
        first = int(ratios.argmin())
        length = min(1.0, float(ratios[first]))
        local = np.maximum(local + length * direction, 0.0)
        if length == 1.0:
            break
        stays = np.ones(support.size, dtype=np.bool_)
        stays[falling[first]] = False
        slopes = (slopes + length * (block @ direction))[stays]
        local = local[stays]
        support = support[stays]
    moved = np.zeros_like(weights)
    moved[support] = local / local.sum()
    return steps, moved


def _direction(block: Array, slopes: Array) -> Array | None:
    """Return the step to the minimizer on the support's affine hull; None if rounding spoils it."""
    # Imported here because the import is slow and not needed to read a model.
    from scipy.linalg.lapack import dposv

    diagonal = block.diagonal()
    # The smallest diagonal entry as reference loses the least precision in the differences.
    r = int(diagonal.argmin())
    row = block[r]
    hessian = block - row
    hessian -= (row - row[r])[:, None]
    right = slopes[r] - slopes
    # The row of the reference is zero; a unit row takes it out of the system.
    hessian[r] = hessian[:, r] = 0.0
    errors = _EPS * (diagonal + row[r])
    errors[r] = 1.0
    curvatures = hessian.diagonal().copy()
    for ridge in _RIDGES:
        hessian.flat[:: slopes.size + 1] = np.maximum(curvatures, 0.0) + ridge * errors
        _, direction, failed = dposv(hessian, right)
        if not failed:
            direction[r] -= direction.sum()
            if -np.inf < float(direction @ slopes) < 0.0:
                step: Array = direction
                return step
    return None


def _pair_step(gram: Array, gradient: Array, weights: Array, entering: int) -> Array:
    """Move weight to ``entering`` from the index in the support with the largest gradient."""
    leaving = int(np.where(weights > 0.0, gradient, -np.inf).argmax())
    slope = float(gradient[leaving] - gradient[entering])
    curvature = float(
        gram[entering, entering] - 2.0 * gram[entering, leaving] + gram[leaving, leaving]
    )
    room = float(weights[leaving])
    step = min(room, slope / curvature) if curvature > 0.0 else room
    moved = weights.copy()
    moved[entering] += step
    moved[leaving] = room - step
    return moved
