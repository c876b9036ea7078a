"""Plain convex objectives for the tests of the solvers: no ranking, no native code.

    F(w) = 1/2 |w|^2 + sum_i loss_i(s_i),        s = A w

With a_i = loss_i'(s_i) the Fenchel dual gives a lower bound of the optimum at every point,

    D(a) = - sum_i conjugate_i(a_i) - 1/2 |A'a|^2  <=  min F.

Labels are folded into the rows of A, so a margin loss looks at s alone.  Each loss states its
conjugate; the Huberised hinge lies below the hinge and its derivatives are feasible for the dual
of the hinge, so it certifies the hinge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from ranksvm._points import Point
from ranksvm._vectors import Array
from ranksvm.solvers.base import Trial


class Loss(Protocol):
    """A sum of convex functions of one score each."""

    def value(self, scores: Array) -> float: ...
    def slopes(self, scores: Array) -> Array: ...
    def conjugate(self, slopes: Array) -> float: ...


@runtime_checkable
class HasCurvature(Protocol):
    def curvatures(self, scores: Array) -> Array: ...


@runtime_checkable
class HasSmoothing(Protocol):
    def smoothed(self, mu: float) -> Loss: ...


@dataclass(frozen=True)
class Quadratic:
    """1/2 (s - target)^2."""

    target: Array

    def value(self, scores: Array) -> float:
        return 0.5 * float(np.sum((scores - self.target) ** 2))

    def slopes(self, scores: Array) -> Array:
        return scores - self.target

    def curvatures(self, scores: Array) -> Array:
        return np.ones_like(scores)

    def conjugate(self, slopes: Array) -> float:
        return float(np.sum(slopes * (0.5 * slopes + self.target)))


@dataclass(frozen=True)
class SquaredHinge:
    """C max(0, 1 - s)^2."""

    C: float

    def value(self, scores: Array) -> float:
        return self.C * float(np.sum(np.maximum(0.0, 1.0 - scores) ** 2))

    def slopes(self, scores: Array) -> Array:
        return -2.0 * self.C * np.maximum(0.0, 1.0 - scores)

    def curvatures(self, scores: Array) -> Array:
        return np.where(scores < 1.0, 2.0 * self.C, 0.0)

    def conjugate(self, slopes: Array) -> float:
        assert np.all(slopes <= 0.0)
        return float(np.sum(slopes + slopes**2 / (4.0 * self.C)))


@dataclass(frozen=True)
class Hinge:
    """C max(0, 1 - s)."""

    C: float

    def value(self, scores: Array) -> float:
        return self.C * float(np.sum(np.maximum(0.0, 1.0 - scores)))

    def slopes(self, scores: Array) -> Array:
        return np.where(scores < 1.0, -self.C, 0.0)

    def conjugate(self, slopes: Array) -> float:
        assert np.all((slopes >= -self.C) & (slopes <= 0.0))
        return float(np.sum(slopes))

    def smoothed(self, mu: float) -> HuberHinge:
        return HuberHinge(self.C, mu)


@dataclass(frozen=True)
class HuberHinge:
    """The hinge with its kink replaced by a parabola over 1 - mu < s < 1; below the hinge."""

    C: float
    mu: float

    def value(self, scores: Array) -> float:
        short = np.maximum(0.0, 1.0 - scores)
        parts = np.where(short < self.mu, short**2 / (2.0 * self.mu), short - 0.5 * self.mu)
        return self.C * float(np.sum(parts))

    def slopes(self, scores: Array) -> Array:
        return -self.C * np.clip((1.0 - scores) / self.mu, 0.0, 1.0)

    def curvatures(self, scores: Array) -> Array:
        short = 1.0 - scores
        return np.where((short > 0.0) & (short < self.mu), self.C / self.mu, 0.0)

    def conjugate(self, slopes: Array) -> float:
        return float(np.sum(slopes + self.mu * slopes**2 / (2.0 * self.C)))


class CountingMap:
    """w -> A w and back, counting."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        self.n_products = 0

    def scores(self, w: Array) -> Array:
        self.n_products += 1
        return self.matrix @ w

    def pullback(self, slopes: Array) -> Array:
        self.n_products += 1
        return slopes @ self.matrix


class PlainObjective:
    """1/2 |w|^2 + loss(A w); implements :class:`ranksvm.solvers.base.Objective`.

    ``stated`` is the loss whose optimum is certified, if it is not ``loss`` itself.
    """

    def __init__(self, linear_map: CountingMap, loss: Loss, stated: Loss | None = None) -> None:
        self.map = linear_map
        self.loss = loss
        self.stated = loss if stated is None else stated

    @property
    def capabilities(self) -> frozenset[str]:
        names = {"euclidean"}
        if isinstance(self.loss, HasCurvature):
            names |= {"hessian"}
        if isinstance(self.loss, HasSmoothing):
            names |= {"smoothing"}
        return frozenset(names)

    @property
    def n_products(self) -> int:
        return self.map.n_products

    def point(self, w: Array) -> Point:
        if not w.any():
            return Point(w, np.zeros(self.map.matrix.shape[0]))
        return Point(w, self.map.scores(w))

    def zero(self) -> Point:
        return self.point(np.zeros(self.map.matrix.shape[1]))

    def at(self, point: Point) -> PlainEval:
        slopes = self.loss.slopes(point.scores)
        return PlainEval(self, point, slopes, self.map.pullback(slopes))

    def scored(self, dual: Point) -> Point:
        return self.point(dual.w)

    def inner(self, u: Array, v: Point) -> float:
        return float(u @ v.w)

    def norm_bound(self, v: Point, slope_error: float = 0.0) -> float:
        return float(np.linalg.norm(v.w)) + slope_error

    def smoothed(self, mu: float) -> PlainObjective:
        """Return the smooth stand-in.  It counts its products together with this objective."""
        assert isinstance(self.loss, HasSmoothing)
        return PlainObjective(self.map, self.loss.smoothed(mu), self.stated)


@dataclass(frozen=True)
class PlainEval:
    """Implements :class:`ranksvm.solvers.base.Eval`."""

    objective: PlainObjective
    point: Point
    slopes: Array
    risk_grad: Array

    @property
    def _half_square(self) -> float:
        return 0.5 * float(self.point.w @ self.point.w)

    @property
    def risk(self) -> float:
        return self.objective.loss.value(self.point.scores)

    @property
    def value(self) -> float:
        return self._half_square + self.risk

    @property
    def grad(self) -> Array:
        return self.point.w + self.risk_grad

    @property
    def slope(self) -> Point:
        return Point(self.grad, self.grad)

    @property
    def risk_slope(self) -> Point:
        return Point(self.risk_grad, self.risk_grad)

    @property
    def primal(self) -> float:
        return self._half_square + self.objective.stated.value(self.point.scores)

    @property
    def dual(self) -> float:
        square = float(self.risk_grad @ self.risk_grad)
        return -self.objective.stated.conjugate(self.slopes) - 0.5 * square

    # These problems are small and well scaled: rounding is left out.
    slope_error = slope_loss = 0.0

    @property
    def estimate(self) -> float:
        return self.primal

    @property
    def offset(self) -> float:
        return self.risk - float(self.risk_grad @ self.point.w)

    @property
    def slope_size(self) -> float:
        return float(np.linalg.norm(self.risk_grad))

    @cached_property
    def _curvatures(self) -> Array:
        assert isinstance(self.objective.loss, HasCurvature)
        return self.objective.loss.curvatures(self.point.scores)

    def hessp(self, direction: Point) -> Array:
        return direction.w + self.objective.map.pullback(self._curvatures * direction.scores)

    def preconditioner(self, *, diagonal: bool = False, improved: bool = False) -> None:
        del diagonal, improved

    def line(self, direction: Point, target: Point | None = None) -> Callable[[float], Trial]:
        del target
        objective = self.objective

        def along(t: float) -> Trial:
            point = self.point.plus(t, direction)
            half_square = 0.5 * float(point.w @ point.w)
            slopes = objective.loss.slopes(point.scores)
            return Trial(
                step=t,
                value=half_square + objective.loss.value(point.scores),
                slope=float(point.w @ direction.w + slopes @ direction.scores),
                accept=lambda: PlainEval(objective, point, slopes, objective.map.pullback(slopes)),
            )

        return along


@dataclass(frozen=True)
class Problem:
    """A matrix, a loss, and the optimum by an independent solver."""

    name: str
    matrix: Array
    loss: Loss
    optimum: float

    def objective(self) -> PlainObjective:
        """Return a fresh objective, with its own count of products."""
        return PlainObjective(CountingMap(self.matrix), self.loss)


def _value(matrix: Array, loss: Loss, w: Array) -> float:
    return 0.5 * float(w @ w) + loss.value(matrix @ w)


def _optimum_ridge(matrix: Array, loss: Quadratic) -> float:
    identity = np.eye(matrix.shape[1])
    w = np.linalg.solve(identity + matrix.T @ matrix, matrix.T @ loss.target)
    return _value(matrix, loss, np.asarray(w, dtype=np.float64))


def _optimum_squared_hinge(matrix: Array, loss: SquaredHinge) -> float:
    def fun(w: Array) -> tuple[float, Array]:
        scores = matrix @ w
        return _value(matrix, loss, w), w + loss.slopes(scores) @ matrix

    def hess(w: Array) -> Array:
        curvatures = loss.curvatures(matrix @ w)
        return np.eye(w.size) + (matrix.T * curvatures) @ matrix

    start = np.zeros(matrix.shape[1])
    found = minimize(fun, start, jac=True, hess=hess, method="trust-exact", options={"gtol": 1e-9})
    return float(found.fun)


def _optimum_hinge(matrix: Array, loss: Hinge) -> float:
    # LIBLINEAR wants two classes, so half of the folded labels are unfolded again.
    labels = np.where(np.arange(matrix.shape[0]) % 2, 1.0, -1.0)
    svc = LinearSVC(
        loss="hinge", C=loss.C, fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0
    )
    svc.fit(matrix * labels[:, None], labels)
    return _value(matrix, loss, svc.coef_.ravel())


def classification_rows(n_rows: int, n_features: int, seed: int) -> Array:
    """Rows of a noisy two-class problem, labels folded in."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_rows, n_features))
    noise = rng.normal(size=n_rows)
    labels = np.sign(features @ rng.normal(size=n_features) + noise)
    return features * labels[:, None]


def pair_rows(n_items: int, n_features: int, seed: int) -> Array:
    """All differences better - worse of a noisy linear ranking: the rows of a RankSVM."""
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(n_items, n_features))
    utility = items @ rng.normal(size=n_features) + rng.normal(size=n_items)
    better, worse = np.nonzero(utility[:, None] > utility[None, :])
    return items[better] - items[worse]


@cache
def ridge() -> Problem:
    matrix = classification_rows(60, 12, seed=1)
    loss = Quadratic(np.random.default_rng(2).normal(size=60))
    return Problem("ridge", matrix, loss, _optimum_ridge(matrix, loss))


@cache
def squared_hinge() -> Problem:
    matrix, loss = classification_rows(300, 10, seed=3), SquaredHinge(0.5)
    return Problem("squared_hinge", matrix, loss, _optimum_squared_hinge(matrix, loss))


@cache
def squared_hinge_pairs() -> Problem:
    matrix = pair_rows(80, 6, seed=4)
    loss = SquaredHinge(1000.0 / matrix.shape[0])
    return Problem("squared_hinge_pairs", matrix, loss, _optimum_squared_hinge(matrix, loss))


@cache
def hinge() -> Problem:
    matrix, loss = classification_rows(300, 10, seed=5), Hinge(0.5)
    return Problem("hinge", matrix, loss, _optimum_hinge(matrix, loss))


@cache
def hinge_kinked() -> Problem:
    """More features than terms: the optimum sits on many kinks."""
    matrix, loss = classification_rows(25, 40, seed=6), Hinge(10.0)
    return Problem("hinge_kinked", matrix, loss, _optimum_hinge(matrix, loss))


@cache
def hinge_pairs(strength: float = 1000.0) -> Problem:
    """Shaped like ranking: many terms, few features; ``strength`` is C times their number."""
    matrix = pair_rows(80, 6, seed=7)
    loss = Hinge(strength / matrix.shape[0])
    return Problem("hinge_pairs", matrix, loss, _optimum_hinge(matrix, loss))


SMOOTH: tuple[Callable[[], Problem], ...] = (ridge, squared_hinge, squared_hinge_pairs)
KINKED: tuple[Callable[[], Problem], ...] = (hinge, hinge_kinked, hinge_pairs)
