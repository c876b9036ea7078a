"""The bundle method on plain convex objectives with known optima."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from solver_problems import KINKED, SMOOTH, Problem, hinge, hinge_pairs, ridge, squared_hinge

from ranksvm._vectors import Array
from ranksvm.solvers import planes
from ranksvm.solvers.base import SolverResult, Status, TraceRow
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.simplex_qp import SimplexSolution, solve_simplex_qp

every_problem = pytest.mark.parametrize("make", SMOOTH + KINKED, ids=lambda make: make.__name__)
with_and_without_line_search = pytest.mark.parametrize("line_search", [True, False])

# What is known of the optima: LIBLINEAR's are not exact to rounding.
REFERENCE_RTOL = 1e-8


def solve(problem: Problem, solver: Bundle) -> SolverResult:
    objective = problem.objective()
    return solver.solve(objective, objective.zero())


@every_problem
@with_and_without_line_search
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_reaches_the_optimum(make: Callable[[], Problem], line_search: bool, tol: float) -> None:
    problem = make()
    result = solve(problem, Bundle(tol, line_search=line_search))
    assert result.status is Status.CONVERGED
    assert result.gap <= tol * result.objective
    assert result.objective == pytest.approx(problem.optimum, rel=tol + REFERENCE_RTOL)


@every_problem
@with_and_without_line_search
def test_reported_objective_is_the_value_at_the_point(
    make: Callable[[], Problem], line_search: bool
) -> None:
    problem = make()
    result = solve(problem, Bundle(line_search=line_search))
    np.testing.assert_allclose(problem.matrix @ result.point.w, result.point.scores, atol=1e-9)
    fresh = problem.objective()
    assert fresh.at(fresh.point(result.point.w)).primal == pytest.approx(result.objective, 1e-12)


@every_problem
@with_and_without_line_search
def test_gap_bounds_suboptimality_in_every_iteration(
    make: Callable[[], Problem], line_search: bool
) -> None:
    problem = make()
    objective = problem.objective()
    seen: list[tuple[TraceRow, float]] = []

    def watch(row: TraceRow, w: Array) -> None:
        value = 0.5 * float(w @ w) + problem.loss.value(problem.matrix @ w)
        seen.append((row, value))

    result = Bundle(1e-6, line_search=line_search).solve(
        objective, objective.zero(), callback=watch
    )
    slack = REFERENCE_RTOL * problem.optimum
    for row, value in seen:
        assert row.objective == pytest.approx(value, rel=1e-12)
        assert row.objective >= problem.optimum - slack
        assert row.objective - row.gap <= problem.optimum + slack
    assert [row for row, _ in seen] == list(result.trace)
    assert [row.iteration for row in result.trace] == list(range(1, result.n_iter + 1))


@every_problem
@with_and_without_line_search
def test_bounds_only_improve(make: Callable[[], Problem], line_search: bool) -> None:
    trace = solve(make(), Bundle(1e-6, line_search=line_search)).trace
    upper = np.array([row.objective for row in trace])
    lower = upper - np.array([row.gap for row in trace])
    assert np.all(np.diff(upper) <= 0.0)
    assert np.all(np.diff(lower) >= -1e-12 * np.abs(upper[1:]))


@with_and_without_line_search
def test_callback_stops(line_search: bool) -> None:
    objective = hinge().objective()
    result = Bundle(line_search=line_search).solve(
        objective, objective.zero(), callback=lambda row, w: row.iteration == 3
    )
    assert result.status is Status.STOPPED
    assert result.n_iter == len(result.trace) == 3
    assert result.gap == result.trace[-1].gap > 0.0


@with_and_without_line_search
@pytest.mark.parametrize("max_iter", [1, 4])
def test_iteration_limit(line_search: bool, max_iter: int) -> None:
    result = solve(hinge(), Bundle(1e-9, max_iter, line_search=line_search))
    assert result.status is Status.MAX_ITER
    assert result.n_iter == len(result.trace) == max_iter
    assert result.gap > 1e-9 * result.objective


@every_problem
def test_beyond_rounding_it_stalls(make: Callable[[], Problem]) -> None:
    result = solve(make(), Bundle(0.0))
    # A gap of exactly zero is possible, when the bounds meet or cross by rounding.
    assert result.status is Status.STALLED or result.gap == 0.0
    assert result.gap <= 1e-11 * result.objective
    assert result.n_iter < 200


def test_products_are_counted_from_the_start_of_the_solve() -> None:
    objective = hinge().objective()
    first = Bundle().solve(objective, objective.zero())
    second = Bundle().solve(objective, objective.zero())
    assert first.n_products == second.n_products == objective.n_products // 2


def test_an_iteration_costs_two_products_where_the_risk_is_smooth() -> None:
    for problem in (ridge(), squared_hinge()):
        result = solve(problem, Bundle(1e-4))
        # The start has no scores to compute.
        assert result.n_products == 2 * result.n_iter - 1


def test_plain_method_costs_two_products_per_iteration() -> None:
    result = solve(hinge(), Bundle(line_search=False))
    assert result.n_products == 2 * result.n_iter - 1


@pytest.mark.parametrize("strength", [10.0, 1e3, 1e5])
def test_line_search_saves_products_on_ranking_problems(strength: float) -> None:
    problem = hinge_pairs(strength)
    searched = solve(problem, Bundle())
    plain = solve(problem, Bundle(line_search=False))
    assert searched.status is plain.status is Status.CONVERGED
    assert searched.n_products < 0.6 * plain.n_products


def test_line_search_needs_few_trials() -> None:
    trace = solve(hinge_pairs(), Bundle()).trace
    assert trace[0].inner_iterations == 0
    assert np.mean([row.inner_iterations for row in trace[1:]]) <= 4.0


def test_inactive_planes_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def recording(gram: Array, linear: Array, start: Array, *, tol: float) -> SimplexSolution:
        sizes.append(linear.size)
        return solve_simplex_qp(gram, linear, start, tol=tol)

    monkeypatch.setattr(planes, "solve_simplex_qp", recording)
    problem = squared_hinge()
    patient = solve(problem, Bundle(1e-6, line_search=False, patience=10**6))
    assert sizes[-1] == patient.n_iter + 1  # all planes and the zero plane
    sizes.clear()
    dropping = solve(problem, Bundle(1e-6, line_search=False, patience=5))
    assert max(sizes) < 0.3 * dropping.n_iter
    assert dropping.status is Status.CONVERGED
    assert dropping.objective == pytest.approx(problem.optimum, rel=1e-6)


@every_problem
def test_impatience_still_converges(make: Callable[[], Problem]) -> None:
    problem = make()
    result = solve(problem, Bundle(1e-5, patience=1))
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(problem.optimum, rel=1e-5 + REFERENCE_RTOL)


@every_problem
@with_and_without_line_search
def test_works_without_a_known_bound_of_the_risk(
    make: Callable[[], Problem], line_search: bool
) -> None:
    problem = make()
    result = solve(problem, Bundle(risk_lower=None, line_search=line_search, max_iter=2000))
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(problem.optimum, rel=1e-3 + REFERENCE_RTOL)


def test_start_at_the_optimum_ends_at_once() -> None:
    problem = ridge()
    objective = problem.objective()
    optimum = Bundle(1e-10).solve(objective, objective.zero()).point
    again = Bundle(1e-3).solve(objective, optimum)
    assert again.status is Status.CONVERGED
    assert again.n_iter == 1
    assert again.n_products == 1


@every_problem
def test_warm_start_from_a_far_point(make: Callable[[], Problem]) -> None:
    problem = make()
    objective = problem.objective()
    far = objective.point(np.full(problem.matrix.shape[1], 10.0))
    result = Bundle(1e-4).solve(objective, far)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(problem.optimum, rel=1e-4 + REFERENCE_RTOL)


def test_smoothed_objective_certifies_the_stated_one() -> None:
    problem = hinge()
    objective = problem.objective().smoothed(1e-3)
    result = Bundle(1e-2).solve(objective, objective.zero())
    assert result.status is Status.CONVERGED
    assert result.objective >= problem.optimum * (1.0 - REFERENCE_RTOL)
    assert result.objective - result.gap <= problem.optimum


def test_interrupt_leaves_the_objective_usable() -> None:
    problem = hinge()
    objective = problem.objective()

    def interrupt(row: TraceRow, w: Array) -> None:
        if row.iteration == 4:
            raise KeyboardInterrupt

    solver = Bundle()
    with pytest.raises(KeyboardInterrupt):
        solver.solve(objective, objective.zero(), callback=interrupt)
    result = solver.solve(objective, objective.zero())
    untouched = solve(problem, solver)
    assert result.status is Status.CONVERGED
    np.testing.assert_array_equal(result.point.w, untouched.point.w)


def test_zero_data_is_solved_by_zero() -> None:
    problem = Problem("zero", np.zeros((5, 3)), hinge().loss, 2.5)
    result = solve(problem, Bundle(0.0))
    assert result.status is Status.CONVERGED
    assert result.objective == problem.optimum
    np.testing.assert_array_equal(result.point.w, np.zeros(3))


def test_needs_no_optional_capability() -> None:
    assert Bundle().requires <= hinge().objective().capabilities


@every_problem
def test_the_problems_are_what_they_say(make: Callable[[], Problem]) -> None:
    problem = make()
    plain = problem.objective()
    rng = np.random.default_rng(0)
    objectives = [plain, plain.smoothed(0.1)] if "smoothing" in plain.capabilities else [plain]
    for objective in objectives:
        at = objective.at(objective.point(rng.normal(size=problem.matrix.shape[1])))
        direction = objective.point(rng.normal(size=problem.matrix.shape[1]))
        assert at.dual <= problem.optimum <= at.primal
        assert at.value <= at.primal

        line, step = at.line(direction), 1e-6
        ahead, behind, here = line(step), line(-step), line(0.0)
        assert here.value == pytest.approx(at.value)
        assert here.slope == pytest.approx(at.grad @ direction.w)
        assert here.slope == pytest.approx((ahead.value - behind.value) / (2 * step), rel=1e-4)
        np.testing.assert_allclose(here.accept().grad, at.grad)
        if "hessian" in objective.capabilities:
            change = (ahead.accept().grad - behind.accept().grad) / (2 * step)
            np.testing.assert_allclose(at.hessp(direction), change, rtol=1e-4, atol=1e-4)
