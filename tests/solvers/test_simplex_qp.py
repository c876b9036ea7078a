"""The quadratic program over the simplex, against an independent solver and its own KKT system."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ranksvm._vectors import Array
from ranksvm.solvers.simplex_qp import SimplexSolution, solve_simplex_qp


def assert_feasible(solution: SimplexSolution) -> None:
    assert np.all(solution.weights >= 0.0)
    assert solution.weights.sum() == pytest.approx(1.0, abs=1e-13)


def assert_optimal(gram: Array, linear: Array, solution: SimplexSolution, rtol: float) -> None:
    """The gradient is smallest, and equal, on the support.  Recomputed from the weights alone."""
    assert_feasible(solution)
    weights = solution.weights
    gradient = gram @ weights - linear
    scale = float(np.max(np.abs(gram) @ weights) + np.max(np.abs(linear)))
    assert np.all(gradient[weights > 0.0] <= gradient.min() + rtol * scale)
    assert solution.value == pytest.approx(
        0.5 * weights @ gram @ weights - linear @ weights, abs=1e-12 * scale
    )
    excess = float(weights @ gradient - gradient.min())
    assert solution.excess == pytest.approx(excess, abs=1e-12 * scale)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Array, Array]:
    """Gram matrices of slopes of full or low rank, repeated, near each other, with a zero slope."""
    size = draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    slopes = rng.normal(size=(size, draw(st.integers(1, 30))))
    kind = draw(st.sampled_from(["plain", "repeated", "near", "scaled", "integers", "zero"]))
    if kind == "repeated":
        slopes = slopes[rng.integers(0, size, size=size)]
    elif kind == "near":
        slopes = 10.0 + 10.0 ** rng.uniform(-8, 0, size=(size, 1)) * slopes
    elif kind == "scaled":
        slopes *= 10.0 ** rng.uniform(-3, 3, size=(size, 1))
    elif kind == "integers":
        slopes = np.round(slopes)
    elif kind == "zero":
        slopes[rng.integers(0, size)] = 0.0
    gram = slopes @ slopes.T
    linear = rng.normal(size=size) * draw(st.sampled_from([0.0, 1.0, 100.0]))
    return gram, linear


@given(programs())
@settings(deadline=None, max_examples=300)
def test_kkt_conditions_hold(program: tuple[Array, Array]) -> None:
    gram, linear = program
    # The gradient itself is only as good as the square root of the rounding errors where the
    # curvature vanishes; that the value is not affected is tested below.
    assert_optimal(gram, linear, solve_simplex_qp(gram, linear), rtol=1e-6)


@given(programs(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=200)
def test_every_start_gives_the_same_value(program: tuple[Array, Array], seed: int) -> None:
    gram, linear = program
    rng = np.random.default_rng(seed)
    start = rng.uniform(size=linear.size) * rng.integers(0, 2, size=linear.size)
    cold = solve_simplex_qp(gram, linear)
    warm = solve_simplex_qp(gram, linear, start)
    assert_feasible(warm)
    largest = np.maximum(cold.weights, warm.weights)
    scale = float(np.max(np.abs(gram) @ largest) + np.max(np.abs(linear)))
    assert warm.value == pytest.approx(cold.value, abs=1e-10 * scale)


@given(programs())
@settings(deadline=None, max_examples=40)
def test_no_worse_than_slsqp(program: tuple[Array, Array]) -> None:
    gram, linear = program
    scale = max(1.0, float(np.abs(gram).max()))
    peer = minimize(
        lambda b: (0.5 * b @ gram @ b - linear @ b) / scale,
        np.full(linear.size, 1.0 / linear.size),
        jac=lambda b: (gram @ b - linear) / scale,
        bounds=[(0.0, 1.0)] * linear.size,
        constraints={"type": "eq", "fun": lambda b: b.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    weights = np.maximum(peer.x, 0.0)
    weights /= weights.sum()
    theirs = 0.5 * weights @ gram @ weights - linear @ weights
    ours = solve_simplex_qp(gram, linear)
    assert ours.value <= theirs + 1e-9 * (scale + np.abs(linear).max())


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_small_programs_by_brute_force(size: int) -> None:
    rng = np.random.default_rng(size)
    for _ in range(20):
        slopes = rng.normal(size=(size, 3))
        gram, linear = slopes @ slopes.T, rng.normal(size=size)
        grid = rng.dirichlet(np.full(size, 0.5), size=20_000)
        values = 0.5 * np.einsum("bi,ij,bj->b", grid, gram, grid) - grid @ linear
        assert solve_simplex_qp(gram, linear).value <= values.min() + 1e-12


def test_one_weight() -> None:
    solution = solve_simplex_qp(np.array([[4.0]]), np.array([3.0]))
    np.testing.assert_array_equal(solution.weights, [1.0])
    assert solution.value == pytest.approx(-1.0)
    assert solution.excess == 0.0


def test_known_solution() -> None:
    # The point of the segment between two slopes that is nearest to the origin.
    slopes = np.array([[1.0, 0.0], [0.0, 2.0]])
    solution = solve_simplex_qp(slopes @ slopes.T, np.zeros(2))
    np.testing.assert_allclose(solution.weights, [0.8, 0.2])


def test_flat_program_is_linear() -> None:
    solution = solve_simplex_qp(np.zeros((4, 4)), np.array([0.0, 1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(solution.weights, [0.0, 0.0, 1.0, 0.0])


def test_all_cuts_the_same() -> None:
    solution = solve_simplex_qp(np.full((6, 6), 2.0), np.ones(6), np.arange(6.0))
    assert_feasible(solution)
    assert solution.value == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(3, np.nan), np.array([np.inf, 1.0, 0.0])])
def test_unusable_start_is_replaced(bad: Array) -> None:
    gram, linear = np.diag([1.0, 2.0, 4.0]), np.zeros(3)
    solution = solve_simplex_qp(gram, linear, bad)
    np.testing.assert_allclose(solution.weights, np.array([4.0, 2.0, 1.0]) / 7.0)


def test_start_is_not_changed() -> None:
    start = np.array([1.0, 0.0, 0.0])
    solve_simplex_qp(np.diag([1.0, 2.0, 4.0]), np.zeros(3), start)
    np.testing.assert_array_equal(start, [1.0, 0.0, 0.0])


def test_warm_start_after_a_new_cut_takes_few_steps() -> None:
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(40, 200))
    gram, linear = slopes @ slopes.T, 10.0 * rng.normal(size=40)
    before = solve_simplex_qp(gram[:-1, :-1], linear[:-1])
    cold = solve_simplex_qp(gram, linear)
    warm = solve_simplex_qp(gram, linear, np.append(before.weights, 0.0))
    assert warm.value == pytest.approx(cold.value, rel=1e-12)
    assert warm.steps <= 5 < cold.steps


def test_step_limit_returns_a_feasible_point_with_its_excess() -> None:
    rng = np.random.default_rng(1)
    slopes = rng.normal(size=(30, 60))
    gram, linear = slopes @ slopes.T, rng.normal(size=30)
    exact = solve_simplex_qp(gram, linear)
    for limit in range(exact.steps):
        early = solve_simplex_qp(gram, linear, max_steps=limit)
        assert_feasible(early)
        assert early.steps <= limit
        assert early.value - exact.value <= early.excess + 1e-12


def test_tolerance_bounds_the_excess() -> None:
    rng = np.random.default_rng(2)
    slopes = rng.normal(size=(30, 60))
    gram, linear = slopes @ slopes.T, rng.normal(size=30)
    exact = solve_simplex_qp(gram, linear)
    loose = solve_simplex_qp(gram, linear, tol=3.0)
    assert loose.excess <= 3.0
    assert loose.steps < exact.steps
    assert loose.value - exact.value <= loose.excess


def test_indefinite_by_rounding_still_ends() -> None:
    rng = np.random.default_rng(3)
    slopes = rng.normal(size=(60, 2)) + 1e4
    gram = slopes @ slopes.T
    gram += 1e-6 * rng.normal(size=gram.shape)
    gram = 0.5 * (gram + gram.T)
    solution = solve_simplex_qp(gram, rng.normal(size=60))
    assert_feasible(solution)
    assert solution.steps <= 20 + 10 * 60
