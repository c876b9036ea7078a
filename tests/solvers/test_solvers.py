"""Newton and smoothed Newton on plain convex functions; all solvers on ranking, against LIBLINEAR.

The plain problems know nothing of ranking.  The ranking problems are small enough to write every
pair as a row, x_better - x_worse, and to hand these rows to an independent solver: RankSVM without
an intercept is a linear SVM on them, with the same C and the same scaling of both losses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from sklearn.svm import LinearSVC
from solver_problems import KINKED, SMOOTH, Problem, hinge, ridge, squared_hinge

from ranksvm._points import Point
from ranksvm._vectors import Array
from ranksvm.backends.native import COUNTINGS, NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.matrix import MatrixMap
from ranksvm.objective import RankObjective
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.base import Objective, Solver, SolverResult, Status, TraceRow
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import GLOBALIZATIONS, PRECONDITIONERS, Newton
from ranksvm.solvers.smoothing import SmoothedNewton

# What is known of the optima: LIBLINEAR's are not exact to rounding.
REFERENCE_RTOL = 1e-8

MakeSolver = Callable[..., Solver]


def newton(globalization: str, preconditioner: str) -> MakeSolver:
    def make(**options) -> Newton:
        return Newton(globalization=globalization, preconditioner=preconditioner, **options)

    return make


def smoothed(**options) -> SmoothedNewton:
    return SmoothedNewton(**{"max_iter": 1000, **options})  # as many as the estimator allows


NEWTONS = {
    f"newton, {g}, {p}": newton(g, p) for g in GLOBALIZATIONS for p in PRECONDITIONERS
}  # fmt: skip
SMOOTHED: dict[str, MakeSolver] = {"smoothed newton": smoothed}
BUNDLES: dict[str, MakeSolver] = {"bundle": Bundle}

# Every solver with the plain problems that it is for.
PLAIN = [
    pytest.param(make, problem, id=f"{name}: {problem.__name__}")
    for makers, problems in ((NEWTONS, SMOOTH), (SMOOTHED, KINKED))
    for name, make in makers.items()
    for problem in problems
]
on_plain_problems = pytest.mark.parametrize(("make", "problem"), PLAIN)


def start(problem: Problem) -> tuple[Objective, Point]:
    objective = problem.objective()
    return objective, objective.zero()


def value(problem: Problem, w: Array) -> float:
    return 0.5 * float(w @ w) + problem.loss.value(problem.matrix @ w)


# --- Plain convex functions ----------------------------------------------------------------------


@on_plain_problems
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_reaches_the_optimum(make: MakeSolver, problem: Callable[[], Problem], tol: float) -> None:
    truth = problem()
    result = make(tol=tol).solve(*start(truth))
    assert result.status is Status.CONVERGED
    assert result.gap <= tol * result.objective
    assert result.objective == pytest.approx(truth.optimum, rel=tol + REFERENCE_RTOL)


@on_plain_problems
def test_gap_bounds_suboptimality_in_every_row_of_the_trace(
    make: MakeSolver, problem: Callable[[], Problem]
) -> None:
    truth = problem()
    seen: list[tuple[TraceRow, float]] = []
    result = make(tol=1e-7).solve(
        *start(truth), callback=lambda row, w: seen.append((row, value(truth, w)))
    )
    slack = REFERENCE_RTOL * truth.optimum
    for row, at_best in seen:
        assert row.objective == pytest.approx(at_best, rel=1e-12)
        assert row.objective >= truth.optimum - slack
        assert row.objective - row.gap <= truth.optimum + slack
    assert [row for row, _ in seen] == list(result.trace)
    assert [row.iteration for row in result.trace] == list(range(result.n_iter + 1))
    products = [row.n_products for row in result.trace]
    assert products == sorted(products)
    assert products[-1] <= result.n_products
    assert (result.objective, result.gap) == (result.trace[-1].objective, result.trace[-1].gap)


@on_plain_problems
def test_bounds_only_improve(make: MakeSolver, problem: Callable[[], Problem]) -> None:
    trace = make(tol=1e-7).solve(*start(problem())).trace
    upper = np.array([row.objective for row in trace])
    lower = upper - np.array([row.gap for row in trace])
    assert np.all(np.diff(upper) <= 0.0)
    assert np.all(np.diff(lower) >= -1e-12 * upper[1:])


@on_plain_problems
def test_result_belongs_to_its_point(make: MakeSolver, problem: Callable[[], Problem]) -> None:
    truth = problem()
    result = make(tol=1e-6).solve(*start(truth))
    np.testing.assert_allclose(truth.matrix @ result.point.w, result.point.scores, atol=1e-9)
    assert value(truth, result.point.w) == pytest.approx(result.objective, rel=1e-12)


@on_plain_problems
def test_warm_start_from_a_far_point(make: MakeSolver, problem: Callable[[], Problem]) -> None:
    truth = problem()
    objective, _ = start(truth)
    far = objective.point(np.full(truth.matrix.shape[1], 10.0))
    result = make(tol=1e-6).solve(objective, far)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(truth.optimum, rel=1e-6 + REFERENCE_RTOL)


@on_plain_problems
def test_start_at_the_optimum_ends_soon(make: MakeSolver, problem: Callable[[], Problem]) -> None:
    truth = problem()
    objective, zero = start(truth)
    optimum = make(tol=1e-9).solve(objective, zero).point
    cold = make(tol=1e-4).solve(objective, zero)
    warm = make(tol=1e-4).solve(objective, optimum)
    assert warm.status is Status.CONVERGED
    assert warm.n_products <= cold.n_products


@on_plain_problems
def test_beyond_rounding_it_stalls(make: MakeSolver, problem: Callable[[], Problem]) -> None:
    """A tolerance that cannot be reached ends in an honest status, near the optimum."""
    truth = problem()
    result = make(tol=1e-300).solve(*start(truth))
    # A gap of exactly zero is possible, when the bounds meet or cross by rounding.
    assert result.status is Status.STALLED or result.gap == 0.0
    assert result.objective == pytest.approx(truth.optimum, rel=1e-6)
    assert result.gap <= 1e-6 * result.objective


@on_plain_problems
@pytest.mark.parametrize("max_iter", [1, 2])
def test_iteration_limit(make: MakeSolver, problem: Callable[[], Problem], max_iter: int) -> None:
    result = make(tol=1e-12, max_iter=max_iter).solve(*start(problem()))
    assert result.n_iter <= max_iter
    if result.status is not Status.CONVERGED:  # one step solves the quadratic
        assert result.status is Status.MAX_ITER
        assert result.n_iter == max_iter
        assert result.gap > 1e-12 * result.objective


@pytest.mark.parametrize("stop_at", [0, 2])
@pytest.mark.parametrize("make", [*NEWTONS.values(), *SMOOTHED.values()], ids=[*NEWTONS, *SMOOTHED])
def test_callback_stops(make: MakeSolver, stop_at: int) -> None:
    problem = hinge() if isinstance(make(), SmoothedNewton) else squared_hinge()
    result = make(tol=1e-12).solve(
        *start(problem), callback=lambda row, w: row.iteration == stop_at
    )
    assert result.status is Status.STOPPED
    assert result.n_iter == stop_at == result.trace[-1].iteration
    assert result.gap == result.trace[-1].gap > 0.0
    assert result.objective - result.gap <= problem.optimum * (1.0 + REFERENCE_RTOL)


@pytest.mark.parametrize("make", [*NEWTONS.values(), *SMOOTHED.values()], ids=[*NEWTONS, *SMOOTHED])
def test_interrupt_leaves_the_objective_usable(make: MakeSolver) -> None:
    problem = hinge() if isinstance(make(), SmoothedNewton) else squared_hinge()
    objective, zero = start(problem)

    def interrupt(row: TraceRow, w: Array) -> None:
        if row.iteration == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(tol=1e-9).solve(objective, zero, callback=interrupt)
    result = make(tol=1e-6).solve(objective, zero)
    untouched = make(tol=1e-6).solve(*start(problem))
    np.testing.assert_array_equal(result.point.w, untouched.point.w)


def test_quadratic_takes_one_newton_step() -> None:
    """With an exact Hessian and a full CG solve, the first step ends at the optimum."""
    problem = ridge()
    for globalization in GLOBALIZATIONS:
        result = Newton(1e-10, globalization=globalization, forcing=1e-9).solve(*start(problem))
        assert result.n_iter == 1
        assert result.objective == pytest.approx(problem.optimum, rel=1e-10)


def test_products_of_newton_are_two_per_cg_step_and_one_per_step() -> None:
    result = Newton(1e-6).solve(*start(squared_hinge()))
    cg_steps = sum(row.inner_iterations for row in result.trace)
    assert cg_steps >= result.n_iter
    # The gradient at the start and after each step, X and X' for each CG step.
    assert result.n_products == 1 + result.n_iter + 2 * cg_steps


def test_requirements_are_stated() -> None:
    smooth, kinked = squared_hinge().objective(), hinge().objective()
    assert Newton().requires <= smooth.capabilities
    assert Newton().requires - kinked.capabilities == {"hessian"}
    assert SmoothedNewton().requires <= kinked.capabilities
    assert SmoothedNewton().requires - smooth.capabilities == {"smoothing"}


@pytest.mark.parametrize(
    ("option", "valid"), [("globalization", GLOBALIZATIONS), ("preconditioner", PRECONDITIONERS)]
)
def test_unknown_options_list_the_valid_ones(option: str, valid: tuple[str, ...]) -> None:
    listed = ", ".join(map(repr, valid))
    with pytest.raises(ValueError, match=f"{option} must be one of {listed}; got 'magic'"):
        Newton(**{option: "magic"})


def test_zero_data_is_solved_by_zero() -> None:
    flat = np.zeros((5, 3))
    for make, problem in ((Newton, squared_hinge()), (SmoothedNewton, hinge())):
        result = make(tol=1e-9).solve(*start(Problem("flat", flat, problem.loss, 2.5)))
        assert result.objective == pytest.approx(2.5, rel=1e-9)
        np.testing.assert_array_equal(result.point.w, np.zeros(3))


# --- Ranking -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranking:
    """Items of several queries, and the optimum of their RankSVM by LIBLINEAR on explicit pairs."""

    loss: str
    C: float
    X: Array
    y: Array
    qid: np.ndarray
    item_weight: Array | None
    optimum: float
    coef: Array

    @property
    def groups(self) -> QueryGroups:
        return QueryGroups.from_qid(self.qid, len(self.y))

    def objective(self, counting: str = "auto", n_threads: int = 1) -> RankObjective:
        order = PairOrder(self.y, self.groups, self.item_weight)
        backend = NativeBackend(order, counting=counting, n_threads=n_threads)
        score_map = MatrixMap(self.X, n_threads=n_threads)
        return RankObjective(score_map, LOSSES[self.loss](backend), self.C)

    def solve(self, solver: Solver, counting: str = "auto") -> SolverResult:
        objective = self.objective(counting)
        return solver.solve(objective, objective.point(np.zeros(self.X.shape[1])))

    def value(self, w: Array) -> float:
        rows, weights = pair_rows(self.X, self.y, self.qid, self.item_weight)
        slack = np.maximum(0.0, 1.0 - rows @ w)
        power = 1 if self.loss == "hinge" else 2
        return 0.5 * float(w @ w) + self.C * float(weights @ slack**power)


def pair_rows(
    X: Array, y: Array, qid: np.ndarray, item_weight: Array | None
) -> tuple[Array, Array]:
    """x_better - x_worse of every comparable pair, and its weight."""
    better, worse = np.nonzero((qid[:, None] == qid[None, :]) & (y[:, None] > y[None, :]))
    w = np.ones(len(y)) if item_weight is None else item_weight
    return X[better] - X[worse], w[better] * w[worse]


def liblinear(loss: str, C: float, rows: Array, weights: Array) -> Array:
    """Coefficients of a linear SVM without intercept that wants all rows on its positive side."""
    # LIBLINEAR wants two classes: half of the rows are turned round.
    labels = np.where(np.arange(len(rows)) % 2, 1.0, -1.0)
    svc = LinearSVC(
        loss=loss, C=C, fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0, dual=True
    )
    return svc.fit(rows * labels[:, None], labels, sample_weight=weights).coef_.ravel()


@cache
def ranking(loss: str, C: float, weighted: bool = False) -> Ranking:
    rng = np.random.default_rng(17)
    n, n_features = 90, 6
    X = rng.normal(size=(n, n_features))
    qid = rng.integers(0, 4, n)
    y = np.round(X @ rng.normal(size=n_features) + 1.5 * rng.normal(size=n))  # ties
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n) if weighted else None
    rows, weights = pair_rows(X, y, qid, weight)
    coef = liblinear(loss, C, rows[weights > 0.0], weights[weights > 0.0])
    found = Ranking(loss, C, X, y, qid, weight, 0.0, coef)
    return Ranking(loss, C, X, y, qid, weight, found.value(coef), coef)


STRENGTHS = (1e-3, 1e-1)
RANKING = [
    pytest.param(make, loss, id=f"{name}: {loss}")
    for makers, losses in (
        (NEWTONS, ("squared_hinge",)),
        (SMOOTHED, ("hinge",)),
        (BUNDLES, ("hinge", "squared_hinge")),
    )
    for name, make in makers.items()
    for loss in losses
]
on_rankings = pytest.mark.parametrize(("make", "loss"), RANKING)


@on_rankings
@pytest.mark.parametrize("C", STRENGTHS)
@pytest.mark.parametrize("weighted", [False, True])
def test_optimum_is_liblinears_on_explicit_pairs(
    make: MakeSolver, loss: str, C: float, weighted: bool
) -> None:
    problem = ranking(loss, C, weighted)
    # Rounding of weighted sums lets smoothing go only so far.
    tol = 1e-5 if weighted and make is smoothed else 1e-8
    result = problem.solve(make(tol=tol))
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(problem.optimum, rel=10.0 * tol)
    assert problem.value(result.point.w) == pytest.approx(result.objective, rel=1e-11)
    # F is strongly convex: |w - w*|^2 <= 2 (F(w) - F(w*)).
    distance = np.linalg.norm(result.point.w - problem.coef)
    assert distance <= 2.0 * np.sqrt(20.0 * tol * problem.optimum)


@on_rankings
@pytest.mark.parametrize("C", STRENGTHS)
def test_certified_gap_bounds_suboptimality(make: MakeSolver, loss: str, C: float) -> None:
    problem = ranking(loss, C)
    objective = problem.objective()
    seen: list[tuple[TraceRow, float]] = []
    make(tol=1e-8).solve(
        objective,
        objective.point(np.zeros(problem.X.shape[1])),
        callback=lambda row, w: seen.append((row, problem.value(w))),
    )
    assert len(seen) >= 3
    slack = REFERENCE_RTOL * problem.optimum
    for row, at_best in seen:
        assert row.objective == pytest.approx(at_best, rel=1e-10)
        assert at_best - problem.optimum <= row.gap + slack
    # And it is no empty promise: the last one is small.
    assert seen[-1][0].gap <= 1e-8 * problem.optimum * (1.0 + REFERENCE_RTOL)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", STRENGTHS)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_evaluation_has_a_lower_bound_of_the_optimum(
    loss: str, C: float, weighted: bool
) -> None:
    """The dual value at the scaled multipliers, at any point, however far from the optimum."""
    problem = ranking(loss, C, weighted)
    objective = problem.objective()
    objectives = [objective] if loss == "squared_hinge" else [
        objective, objective.smoothed(0.5), objective.smoothed(0.01)
    ]  # fmt: skip
    rng = np.random.default_rng(18)
    slack = 1.0 + REFERENCE_RTOL
    for scale in (0.0, 1e-3, 0.1, 1.0, 10.0, 1e3):
        for _ in range(5):
            w = problem.coef * rng.choice([0.0, 1.0]) + scale * rng.normal(size=len(problem.coef))
            for candidate in objectives:
                at = candidate.at(candidate.point(w))
                assert 0.0 <= at.dual <= problem.optimum * slack
                assert at.primal * slack >= problem.optimum
                assert at.primal == pytest.approx(problem.value(w), rel=1e-9)
    # Strong duality: at the optimum the bound is tight where the loss is smooth.
    best = objective.at(objective.point(problem.coef))
    if loss == "squared_hinge":
        assert best.dual == pytest.approx(problem.optimum, rel=1e-6)


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("counting", COUNTINGS)
def test_newton_and_bundle_find_the_same_optimum(counting: str, C: float) -> None:
    problem = ranking("squared_hinge", C)
    by_newton = problem.solve(Newton(1e-10), counting)
    by_bundle = problem.solve(Bundle(1e-10), counting)
    assert by_newton.status is by_bundle.status is Status.CONVERGED
    assert by_newton.objective == pytest.approx(by_bundle.objective, rel=2e-10)
    np.testing.assert_allclose(by_newton.point.w, by_bundle.point.w, atol=1e-4)


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0])
def test_smoothed_newton_and_bundle_find_the_same_optimum(C: float) -> None:
    problem = ranking("hinge", C)
    by_newton = problem.solve(SmoothedNewton(1e-8))
    by_bundle = problem.solve(Bundle(1e-8))
    assert by_newton.status is by_bundle.status is Status.CONVERGED
    assert by_newton.objective == pytest.approx(by_bundle.objective, rel=2e-8)


@on_rankings
def test_all_solvers_carry_the_right_scores(make: MakeSolver, loss: str) -> None:
    problem = ranking(loss, 0.1)
    result = problem.solve(make(tol=1e-8))
    np.testing.assert_allclose(result.point.scores, problem.X @ result.point.w, atol=1e-9)


def test_preconditioner_changes_the_way_and_not_the_end() -> None:
    """Badly scaled features: fewer CG steps with it, the same optimum."""
    plain = ranking("squared_hinge", 0.1)
    scales = 10.0 ** np.linspace(-2, 2, plain.X.shape[1])
    problem = Ranking(
        "squared_hinge", 0.1, plain.X * scales, plain.y, plain.qid, None, 0.0, plain.coef
    )
    with_it = problem.solve(Newton(1e-9, preconditioner="auto"))
    without = problem.solve(Newton(1e-9, preconditioner="none"))
    objective = problem.objective()
    start = objective.at(objective.point(np.zeros(problem.X.shape[1])))
    assert start.preconditioner() is not None
    assert with_it.objective == pytest.approx(without.objective, rel=2e-9)
    steps = [sum(row.inner_iterations for row in r.trace) for r in (with_it, without)]
    assert steps[0] < steps[1]


def test_preconditioner_is_near_the_inverse_hessian() -> None:
    """It is positive definite, symmetric, and brings the Hessian's eigenvalues near one."""
    problem = ranking("squared_hinge", 0.1)
    objective = problem.objective()
    dim = problem.X.shape[1]
    for w in (np.zeros(dim), problem.coef):
        at = objective.at(objective.point(w))
        hessian = np.column_stack([at.hessp(objective.point(e)) for e in np.eye(dim)])
        apply = at.preconditioner()
        inverse = np.column_stack([apply(e) for e in np.eye(dim)])
        np.testing.assert_allclose(inverse, inverse.T, rtol=1e-9, atol=1e-15)
        assert np.linalg.eigvalsh(inverse).min() > 0.0
        eigenvalues = np.linalg.eigvals(inverse @ hessian).real
        assert eigenvalues.min() > 0.2
        assert eigenvalues.max() < 5.0
