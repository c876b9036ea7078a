"""Steps completed by known search directions: as small a residual as there can be, for raw features
only, and never at the cost of the certificate."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksvm import LinearRankSVM
from ranksvm._points import Point
from ranksvm.datasets import make_ranking
from ranksvm.solvers import closing, newton
from ranksvm.solvers.closing import MOST_DIRECTIONS, Closing


def without_closing():
    return mock.patch.object(newton, "CONVERGED", -1.0)


def raw_features(seed: int = 0, n_features: int = 40):
    """Items whose features have scales from 1e-3 to 1e7."""
    X, y, qid, _ = make_ranking(40, 30, n_features, random_state=seed)
    scales = 10.0 ** np.random.default_rng(seed).uniform(-3.0, 7.0, n_features)
    return X * scales, y, qid


def filled(rng: np.random.Generator, n: int, dim: int, n_items: int = 3) -> tuple[Closing, list]:
    found, points = Closing(), []
    for _ in range(n):
        points.append((Point(rng.normal(size=dim), rng.normal(size=n_items)), rng.normal(size=dim)))
        found.add(*points[-1])
    return found, points


@given(st.integers(0, 10**6), st.integers(1, MOST_DIRECTIONS), st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_the_residual_is_the_smallest_one(seed: int, n: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    found, points = filled(rng, n, dim)
    residual = rng.normal(size=dim)
    solution = Point(rng.normal(size=dim), rng.normal(size=3))
    products = np.column_stack([product for _, product in points])
    best = residual - products @ np.linalg.lstsq(products, residual)[0]
    smallest, size = float(best @ best), float(residual @ residual)
    assert found.completed(solution, residual, 0.999 * smallest - 1e-9 * size) is None
    assert not found.has_closed
    goal = 1.001 * smallest + 1e-12 * size
    completed = found.completed(solution, residual, goal)
    assert completed is not None
    assert found.has_closed
    directions = np.column_stack([np.concatenate([p.w, p.scores]) for p, _ in points])
    step = np.concatenate([completed.w - solution.w, completed.scores - solution.scores])
    weights = np.linalg.lstsq(directions, step)[0]
    np.testing.assert_allclose(directions @ weights, step, atol=1e-6 * (1.0 + np.abs(step).max()))
    if n <= dim + 3:  # otherwise the coefficients are not unique
        left = residual - products @ weights
        assert left @ left <= goal + 1e-6 * size


def test_repeated_directions_do_no_harm() -> None:
    rng = np.random.default_rng(0)
    found, points = filled(rng, 2, 5)
    for _ in range(3):
        found.add(*points[-1])
    residual = 2.0 * points[0][1] - 3.0 * points[1][1]
    zero = Point(np.zeros(5), np.zeros(3))
    completed = found.completed(zero, residual, 1e-20)
    assert completed is not None
    for got, first, second in zip(completed[:2], points[0][0][:2], points[1][0][:2], strict=True):
        np.testing.assert_allclose(got, 2.0 * first - 3.0 * second, atol=1e-9)


def test_directions_of_two_systems_are_kept() -> None:
    rng = np.random.default_rng(0)
    found, points = filled(rng, 3, 8)
    zero = Point(np.zeros(8), np.zeros(3))
    first = points[0][1]
    found.begin(np.zeros(8), 1.0)
    assert found.completed(zero, first, 1e-20 * (first @ first)) is not None
    found.begin(np.zeros(8), 1.0)
    assert found.completed(zero, first, 1e-20 * (first @ first)) is None


def test_a_gap_that_is_not_reached_ends_it() -> None:
    rng = np.random.default_rng(0)
    for norm2, stays in ((1.9, True), (2.1, False)):
        found, points = filled(rng, 1, 1)
        assert found.completed(Point(np.zeros(1), np.zeros(3)), points[0][1], 1.0) is not None
        found.begin(np.array([np.sqrt(norm2)]), 1.0)
        assert found.is_on == stays


def test_memory_is_limited() -> None:
    rng = np.random.default_rng(0)
    found, _ = filled(rng, 3 * MOST_DIRECTIONS, 4)
    assert len(found._known) == MOST_DIRECTIONS
    for most, n_kept in ((0, 0), (10, 0), (11, 1), (25, 2)):
        with mock.patch.object(closing, "MOST_NUMBERS", most):
            found, _ = filled(rng, 5, 4)  # of 4 + 4 + 3 numbers
        assert len(found._known) == n_kept


@pytest.mark.parametrize("seed", range(8))
def test_raw_features_take_no_more_products(seed: int) -> None:
    X, y, qid = raw_features(seed)
    model = LinearRankSVM(C=1.0, tol=1e-3, n_jobs=1)
    with without_closing():
        before = model.fit(X, y, qid).n_products_
    now = model.fit(X, y, qid)
    assert now.status_ == "converged"
    assert now.gap_ <= 1e-3 * now.objective_
    assert now.n_products_ <= before
    lowest = LinearRankSVM(C=1.0, tol=1e-6, n_jobs=1).fit(X, y, qid).objective_
    assert now.objective_ - now.gap_ <= lowest * (1.0 + 1e-12)


def test_raw_features_take_fewer_products_in_total() -> None:
    found = []
    for seed in range(8):
        X, y, qid = raw_features(seed)
        with without_closing():
            before = LinearRankSVM(C=1.0, tol=1e-3, n_jobs=1).fit(X, y, qid).n_products_
        found.append((before, LinearRankSVM(C=1.0, tol=1e-3, n_jobs=1).fit(X, y, qid).n_products_))
    before, now = np.sum(found, axis=0)
    assert now < before


@pytest.mark.parametrize("seed", range(4))
def test_threads_do_not_change_a_bit(seed: int) -> None:
    X, y, qid = raw_features(seed)
    fits = [LinearRankSVM(C=1.0, tol=1e-3, n_jobs=n).fit(X, y, qid) for n in (1, 2, 5)]
    assert len({(fit.coef_.tobytes(), fit.objective_, fit.gap_) for fit in fits}) == 1


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_features_of_similar_sizes_are_left_alone(tol: float) -> None:
    X, y, qid, _ = make_ranking(40, 30, 40, random_state=0)
    model = LinearRankSVM(C=1.0, tol=tol, n_jobs=1)
    with without_closing():
        before = model.fit(X, y, qid).coef_.tobytes()
    assert model.fit(X, y, qid).coef_.tobytes() == before


def test_a_step_that_leads_nowhere_is_made_again_without_them() -> None:
    """Even if the completed solution is nonsense, the fit converges."""
    X, y, qid = raw_features()
    expected = LinearRankSVM(C=1.0, tol=1e-3, n_jobs=1).fit(X, y, qid)
    calls = []

    def nonsense(self: Closing, solution: Point, residual: np.ndarray, gap_goal: float) -> Point:
        calls.append(gap_goal)
        self.has_closed = True
        return solution.times(-1.0)

    with mock.patch.object(Closing, "completed", nonsense):
        model = LinearRankSVM(C=1.0, tol=1e-3, n_jobs=1).fit(X, y, qid)
    assert len(calls) == 1
    assert model.status_ == "converged"
    assert model.objective_ - model.gap_ <= expected.objective_
