"""Pairwise losses of a vector of scores: value, gradient, Hessian products, conjugate.

For a pair of a better item b and a worse item w let xi = M - s_b + s_w, with margin M.  The sums
over the violated pairs (xi > 0) can be computed from four statistics per item: the number of its
violated partners above and below, and the sums of a vector over them.  Only three combinations of
these are needed:

    total          the weight of all violated pairs
    net_i          partners above minus partners below             (``imbalance``)
    (L v)_i        sum over the violated partners j of v_i - v_j   (``laplacian``)

L is the Laplacian of the graph whose edges are the violated pairs.  With these,

    sum xi   = M total + net.s                  gradient  net
    sum xi^2 = M^2 total + 2 M net.s + s.L s    gradient  2 (L s + M net)      Hessian  2 L

Pair weights are part of the statistics, so the formulas stay the same.

Conjugates.  The gradient of a loss at s has the form g = sum alpha_p (e_w - e_b) over pairs p with
alpha >= 0.  These multipliers are feasible for the dual problem.  Scaled by theta, they satisfy
-conjugate(theta g) >= theta A1 - theta^2 A2 for theta in [0, theta_max]:

    hinge           alpha = weight where violated    A1 = sum alpha          A2 = 0, theta_max = 1
    squared hinge   alpha = 2 weight xi              A1 = 2 sum weight xi    A2 = sum weight xi^2

The smoothed hinge replaces the corner by a parabola of width mu,

    h_mu(xi) = (max(0, xi)^2 - max(0, xi - mu)^2) / (2 mu),

which is a difference of two squared hinges with margins 1 and 1 - mu and needs no new statistics.
Its multipliers weight * clip(xi / mu, 0, 1) are feasible for the hinge itself, so every evaluation
of the smoothed loss also certifies the hinge.

Pairs of different kinds (from labels, and listed) have one loss each.  The losses add up, and so do
their gradients, Hessians and multipliers; one theta applies to all of them.

Rounding.  The multipliers are feasible at any scores, and for any set of pairs taken as violated,
as long as these pairs really are violated: s_b - s_w, rounded, is below M only if it is below M.  A
certificate therefore only needs bounds on the differences between the computed value, A1, A2 and
gradient and the exact ones for these scores and pairs (:class:`LossErrors`).  The error of the
scores themselves, compared with X w, only matters for the value.  If no score is off by more than
e, no slack xi is off by more than 2e, and the value is at most

    hinge           value + 2e * weight of all pairs
    squared hinge   value + 2e * A1 + 4e^2 * weight of all pairs
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ranksvm._rounding import UNIT, roundings
from ranksvm._vectors import (
    Array,
    add,
    add_scaled_to,
    any_nonzero,
    dot,
    dot_depth,
    power_sums,
    scale,
)
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairBackend, PairErrors, PairPlan

# Diagonal of the Hessian with respect to the scores, and the groups of items that are compared.
Degrees = tuple[Array, QueryGroups]


class LossErrors(NamedTuple):
    """Bounds on the rounding errors of an evaluation; see the module docstring.

    They apply to ``stated``, ``dual_linear`` and ``dual_quadratic``; ``grad`` bounds the sum over
    items of the errors of the gradient.
    """

    stated: float
    linear: float
    quadratic: float
    grad: float


@dataclass(frozen=True)
class LossEval:
    """A loss at fixed scores.

    Attributes
    ----------
    value : float
        Value of the loss.
    grad : ndarray
        Gradient with respect to the scores.
    stated : float
        Value of the original loss if this one is smoothed, else its own value.
    dual_linear, dual_quadratic, dual_scale : float
        A1, A2 and theta_max of the module docstring, for the original loss.
    hessp : callable or None
        Product of the Hessian with respect to the scores with a vector.
    degrees : callable or None
        The diagonals of the Hessian with respect to the scores: one for each kind of pairs, with
        its groups.
    errors : LossErrors
        Bounds on the rounding errors.  They matter if the scores of a query span very many margins,
        because sums of small slacks are then differences of large numbers.
    steepness, bend, moved : float
        Used by ``blurred``; ``moved`` bounds the change of the scores by rounding to a grid.
    """

    value: float
    grad: Array
    stated: float
    dual_linear: float
    dual_quadratic: float
    dual_scale: float
    errors: LossErrors
    steepness: float
    bend: float = 0.0
    moved: float = 0.0
    hessp: Callable[[Array], Array] | None = None
    degrees: Callable[[], Sequence[Degrees]] | None = None

    def slope(self, direction: Array) -> float:
        """Return the derivative of ``value`` along a direction of the scores."""
        return dot(self.grad, direction)

    def blurred(self, error: float) -> float:
        """Bound the increase of the stated value if scores are off by ``error``.

        Differences of scores are rounded, too, so a pair that is barely violated may be missed.
        """
        off = error + self.moved + UNIT
        return off * (2.0 * self.steepness + 4.0 * off * self.bend)


class PairLoss(Protocol):
    """A loss; ``at`` fixes the order and the violated pairs, which its result reuses."""

    capabilities: frozenset[str]

    def at(self, scores: Array) -> LossEval: ...


class LossType(Protocol):
    """A class of losses: makes the loss of the pairs of a backend."""

    @property
    def capabilities(self) -> frozenset[str]: ...

    def __call__(self, backend: PairBackend) -> PairLoss: ...


class Hinge:
    """Hinge loss: sum weight * max(0, 1 - s_b + s_w)."""

    capabilities = frozenset({"smoothing"})

    def __init__(self, backend: PairBackend) -> None:
        self._backend = backend

    def at(self, scores: Array) -> LossEval:
        snapshot = self._backend.at(scores)
        plan = snapshot.plan(1.0, products=False)
        net = plan.imbalance
        value = max(0.0, plan.total + dot(net, snapshot.centred))
        off = snapshot.errors
        errors = LossErrors(_linear_error(off, value, net.size), off.total, 0.0, off.imbalance)
        return LossEval(value, net, value, plan.total, 0.0, 1.0, errors, self._backend.weight)

    def smoothed(self, mu: float) -> SmoothedHinge:
        return SmoothedHinge(self._backend, mu)


class SquaredHinge:
    """Squared hinge loss: sum weight * max(0, 1 - s_b + s_w)^2."""

    capabilities = frozenset({"hessian"})

    def __init__(self, backend: PairBackend) -> None:
        self._backend = backend

    def at(self, scores: Array) -> LossEval:
        snapshot = self._backend.at(scores)
        plan = snapshot.plan(1.0, products=True)
        linear, value, grad = _power_sums(plan, snapshot.centred, 1.0)

        def hessp(direction: Array) -> Array:
            product = plan.laplacian(direction)
            scale(2.0, product)
            return product

        def degrees() -> list[Degrees]:
            above, below = plan.counts()
            add_scaled_to(above, 1.0, below)  # in place, because these are long
            scale(2.0, above)
            return [(above, self._backend.groups)]

        reward = 2.0 * linear
        off = snapshot.errors
        square = _square_error(off, value, grad.size)
        errors = LossErrors(
            stated=square,
            linear=2.0 * _linear_error(off, linear, grad.size),
            quadratic=square,
            grad=_gradient_error(off, reward),
        )
        return LossEval(
            value, grad, value, reward, value, np.inf, errors,
            steepness=reward + errors.linear, bend=self._backend.weight,
            hessp=hessp, degrees=degrees,
        )  # fmt: skip


class SmoothedHinge:
    """The hinge loss, with its corner smoothed over a width ``mu`` in (0, 1).

    The gradient is a difference of nearly equal sums, divided by mu, so rounding errors matter.  If
    the scores are on a grid and mu is a power of two, there are no rounding errors.
    """

    capabilities = frozenset({"hessian"})

    def __init__(self, backend: PairBackend, mu: float) -> None:
        if not 0.0 < mu < 1.0:
            raise ValueError(f"mu must lie in (0, 1), got {mu}")
        self._backend = backend
        self._mu = mu

    def at(self, scores: Array) -> LossEval:
        mu = self._mu
        snapshot = self._backend.at(scores, on_grid=True)
        outer = snapshot.plan(1.0, products=True)
        inner = snapshot.plan(1.0 - mu, products=True)
        hinge, value, grad = _power_sums(outer, snapshot.centred, 1.0)
        _, inner_value, inner_grad = _power_sums(inner, snapshot.centred, 1.0 - mu)
        difference = outer.imbalance
        add_scaled_to(difference, -1.0, inner.imbalance)
        add_scaled_to(grad, -1.0, inner_grad)
        scale(0.5 / mu, grad)
        off = snapshot.errors
        # Whether mu is a power of two and not finer than the grid.
        fits = math.frexp(mu)[0] == 0.5 and mu >= 2.0 * off.moved
        exact = fits and off.imbalance == 0.0 and off.product == 0.0
        if not exact:
            _balance(grad, self._backend.groups)

        def hessp(direction: Array) -> Array:
            product = outer.laplacian(direction)
            add_scaled_to(product, -1.0, inner.laplacian(direction))
            product /= mu
            return product

        def degrees() -> list[Degrees]:
            above, below = outer.counts()
            inner_above, inner_below = inner.counts()
            # Weighted counts are rounded; their difference may be slightly negative.
            degree = np.maximum(0.0, above + below - inner_above - inner_below) / mu
            return [(degree, self._backend.groups)]

        # Differences of nearly equal sums: rounding must not make them negative.
        value = max(0.0, (value - inner_value) / (2.0 * mu))
        zone = outer.total - inner.total  # weight of the pairs on the parabola
        multipliers = max(0.0, inner.total + (zone + dot(difference, snapshot.centred)) / mu)
        # These errors apply to both plans.
        moment = float(np.einsum("i,i->", np.abs(difference), np.abs(snapshot.centred)))
        adding = roundings(dot_depth(grad.size) + 8) * moment
        errors = LossErrors(
            stated=_linear_error(off, hinge, grad.size),
            linear=(4.0 * off.total + 2.0 * off.tilt + adding) / mu + roundings(8) * multipliers,
            quadratic=0.0,
            # Doubled because of `_balance`.
            grad=0.0 if exact else 2.0 * _gradient_error(off, 2.0 * (hinge + outer.total)) / mu,
        )
        # Rounded differences of scores may let a multiplier exceed the weight of its pair.
        theta_max = 1.0 if exact else 1.0 - 8.0 * UNIT / mu
        return LossEval(
            value, grad, hinge, multipliers, 0.0, theta_max, errors,
            steepness=self._backend.weight, moved=off.moved, hessp=hessp, degrees=degrees,
        )  # fmt: skip


class SumLoss:
    """The sum of several losses.

    Parameters
    ----------
    parts : sequence of PairLoss
        At least one loss; all of the same type, so that they have the same capabilities.
    """

    def __init__(self, parts: Sequence[PairLoss]) -> None:
        self._parts = parts
        self.capabilities: frozenset[str] = frozenset.intersection(*(p.capabilities for p in parts))

    def at(self, scores: Array) -> LossEval:
        parts = [part.at(scores) for part in self._parts]
        products = [part.hessp for part in parts if part.hessp is not None]
        diagonals = [part.degrees for part in parts if part.degrees is not None]

        def hessp(direction: Array) -> Array:
            return add(product(direction) for product in products)

        def degrees() -> list[Degrees]:
            return [degree for diagonal in diagonals for degree in diagonal()]

        total = sum_evals(parts, add(part.grad for part in parts))
        smooth = "hessian" in self.capabilities
        return replace(total, hessp=hessp, degrees=degrees) if smooth else total

    def smoothed(self, mu: float) -> SumLoss:
        """Return the sum of the smoothed parts; capability "smoothing"."""
        parts: Sequence[Any] = self._parts
        return SumLoss([part.smoothed(mu) for part in parts])


def sum_evals(parts: Sequence[LossEval], grad: Any) -> LossEval:
    """Return the sum of several evaluations, with a given gradient and no Hessian."""
    return LossEval(
        value=sum(part.value for part in parts),
        grad=grad,
        stated=sum(part.stated for part in parts),
        dual_linear=sum(part.dual_linear for part in parts),
        dual_quadratic=sum(part.dual_quadratic for part in parts),
        dual_scale=min(part.dual_scale for part in parts),
        errors=_sum_errors(parts),
        steepness=sum(part.steepness for part in parts),
        bend=sum(part.bend for part in parts),
        moved=max(part.moved for part in parts),
    )


def _sum_errors(parts: Sequence[LossEval]) -> LossErrors:
    total = LossErrors(*(sum(kind) for kind in zip(*(part.errors for part in parts), strict=True)))
    rounding = roundings(2 * len(parts))
    linear = sum(part.dual_linear for part in parts)
    return LossErrors(
        total.stated + rounding * sum(part.stated for part in parts),
        total.linear + rounding * linear,
        total.quadratic + rounding * sum(part.dual_quadratic for part in parts),
        total.grad + rounding * 2.0 * linear,
    )


def _power_sums(plan: PairPlan, scores: Array, margin: float) -> tuple[float, float, Array]:
    """Return the sum of xi, the sum of xi^2, and the gradient of the latter."""
    net = plan.imbalance
    product = plan.score_laplacian() if any_nonzero(scores) else np.zeros_like(scores)
    tilt, bend = power_sums(net, scores, margin, product)
    total = plan.total
    linear = margin * total + tilt
    square = margin * margin * total + 2.0 * margin * tilt + bend
    return max(0.0, linear), max(0.0, square), product


def _linear_error(off: PairErrors, value: float, n_items: int) -> float:
    """Bound the error of a sum of slacks, total + net.c, computed as ``value``."""
    adding = roundings(dot_depth(n_items)) * off.linear
    return off.total + off.tilt + adding + roundings(2) * value


def _square_error(off: PairErrors, value: float, n_items: int) -> float:
    """Bound the error of a sum of squared slacks, total + 2 net.c + c.Lc, computed as ``value``."""
    adding = roundings(dot_depth(n_items)) * (2.0 * off.linear + off.quadratic)
    return off.total + 2.0 * off.tilt + off.square + adding + roundings(4) * value


def _gradient_error(off: PairErrors, size: float) -> float:
    """Bound the summed errors of 2 (L c + net), whose absolute values sum to 2 ``size``."""
    return 2.0 * off.imbalance + 2.0 * off.product + roundings(8) * size


def _balance(grad: Array, groups: QueryGroups) -> None:
    """Make a gradient sum to zero in every group, as it would without rounding.

    After the division by mu, its errors are large enough to matter if features have an offset,
    because X' multiplies the sum by that offset.
    """
    sums = np.bincount(groups.index, grad, groups.n_queries)
    # The correction is proportional to the entries, so that zeros stay zero.
    size = np.abs(grad)
    scale = np.bincount(groups.index, size, groups.n_queries)
    share = np.divide(sums, scale, out=np.zeros_like(sums), where=scale > 0.0)
    size *= share[groups.index]
    grad -= size


LOSSES: dict[str, LossType] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
}
