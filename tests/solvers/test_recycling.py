"""Recycled search directions: what they do to a preconditioner, when they begin, and that they
change the way of a fit and not its end."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.data.preferences import Preferences
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.linear import LinearProblem, LinearSettings
from ranksvm.model_selection.path import fit_path
from ranksvm.solvers import recycling
from ranksvm.solvers.base import Status
from ranksvm.solvers.recycling import FEW_STEPS, MOST_DIRECTIONS, Recycling

NEVER = 10**9


def without_recycling():
    return mock.patch.object(recycling, "FEW_STEPS", NEVER)


def made(seed: int, dim: int, n_directions: int) -> tuple[Recycling, list, np.ndarray]:
    """Recycling of random directions of a random positive definite matrix."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((dim, dim))
    matrix = root @ root.T + np.eye(dim)
    found = Recycling()
    found.begin()
    pairs = []
    for _ in range(n_directions):
        direction = rng.standard_normal(dim)
        product = matrix @ direction
        found.add(direction, product, float(direction @ product))
        pairs.append((direction, product))
    assert found.end(FEW_STEPS + 1)
    return found, pairs, matrix


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 2 * MOST_DIRECTIONS))
@settings(max_examples=60, deadline=None)
def test_improved_is_symmetric_definite_and_exact_on_the_last_direction(
    seed: int, dim: int, n_directions: int
) -> None:
    found, pairs, _ = made(seed, dim, n_directions)
    diagonal = np.random.default_rng(seed + 1).uniform(0.1, 10.0, dim)
    apply = found.improved(lambda r: diagonal * r)
    matrix = np.column_stack([apply(e) for e in np.eye(dim)])
    size = np.abs(matrix).max()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-9 * size)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9 * size
    direction, product = pairs[-1]
    np.testing.assert_allclose(apply(product), direction, rtol=1e-6, atol=1e-8)


def test_conjugate_directions_give_the_inverse() -> None:
    """After as many steps of CG as there are dimensions, the Hessian is known."""
    dim = 8
    _, _, matrix = made(3, dim, 1)
    found = Recycling()
    found.begin()
    residual = direction = np.random.default_rng(4).standard_normal(dim)
    for _ in range(dim):
        product = matrix @ direction
        curvature = float(direction @ product)
        found.add(direction, product, curvature)
        rest = residual - (residual @ residual) / curvature * product
        direction = rest + (rest @ rest) / (residual @ residual) * direction
        residual = rest
    found.end(dim)
    apply = found.improved(lambda r: r)
    inverse = np.column_stack([apply(e) for e in np.eye(dim)])
    np.testing.assert_allclose(inverse @ matrix, np.eye(dim), atol=1e-6)


def test_it_begins_after_a_system_of_many_steps_and_stays() -> None:
    found = Recycling()
    one = np.ones(3)

    def unchanged(vector):
        return vector

    found.begin()
    found.add(one, 2.0 * one, 6.0)
    assert not found.end(FEW_STEPS)
    assert found.improved(unchanged) is unchanged
    found.begin()
    assert not found.end(FEW_STEPS + 1), "directions of an earlier system are not kept"
    found.begin()
    found.add(one, 2.0 * one, 6.0)
    assert found.end(FEW_STEPS + 1)
    found.begin()
    assert not found.end(1)
    assert found.is_on
    np.testing.assert_allclose(found.improved(unchanged)(2.0 * one), one)


def test_no_more_vectors_are_kept_than_fit() -> None:
    found = Recycling()
    with mock.patch.object(recycling, "MOST_NUMBERS", 2 * 10 * recycling.FEWEST_DIRECTIONS):
        found.begin()
        for k in range(6):
            found.add(np.full(10, 1.0 + k), np.ones(10), 1.0)
        assert len(found._known) == recycling.FEWEST_DIRECTIONS
        found.begin()
        found.add(np.ones(11), np.ones(11), 1.0)
        assert not found.end(FEW_STEPS + 1), "too few would fit"


# --- In fits -------------------------------------------------------------------------------------


def correlated(n_items: int = 1_500, n_queries: int = 1, seed: int = 0) -> RankingData:
    """Sparse items with 300 correlated features: hard systems if C is large."""
    rng = np.random.default_rng(seed)
    mix = rng.standard_normal((300, 300)) * np.exp(rng.standard_normal((300, 1)))
    X = rng.standard_normal((n_items, 300)) @ mix / 20.0
    y = X @ rng.standard_normal(300) + 5.0 * rng.standard_normal(n_items)
    qid = np.sort(rng.integers(0, n_queries, n_items)) if n_queries > 1 else None
    return RankingData(sp.csr_matrix(np.where(np.abs(X) < 0.5, 0.0, X)), y, qid)


def fitted(data: RankingData, **options):
    settings = LinearSettings(**{"C": 1e-5, "reduction": "sum", "tol": 1e-4, **options})
    return LinearProblem(data, settings).solve()


def hard_steps(fit) -> int:
    return max(row.inner_iterations for row in fit.history)


def test_hard_systems_need_fewer_products() -> None:
    data = correlated(seed=1)
    with without_recycling():
        before = fitted(data, tol=1e-3)
    now = fitted(data, tol=1e-3)
    assert hard_steps(before) > FEW_STEPS
    assert now.n_products < before.n_products
    assert now.status is before.status is Status.CONVERGED


@given(
    seed=st.integers(0, 1000),
    n_queries=st.sampled_from([1, 5, 400]),
    n_levels=st.sampled_from([2, 3, None]),
    weighted=st.booleans(),
    loss=st.sampled_from(["squared_hinge", "hinge"]),
    reduction=st.sampled_from(["sum", "query_mean"]),
)
@settings(max_examples=12, deadline=None)
def test_the_end_is_the_same(seed, n_queries, n_levels, weighted, loss, reduction) -> None:
    """Both fits are certified, so their objectives differ by no more than the larger gap."""
    data = correlated(600, n_queries, seed)
    rng = np.random.default_rng(seed)
    y = data.y if n_levels is None else rng.integers(0, n_levels, data.n_items).astype(float)
    weight = rng.integers(0, 3, data.n_items).astype(float) if weighted else None
    data = RankingData(data.X, y, data.qid, item_weight=weight)
    C = 1e-4 if reduction == "sum" else 1e2
    options = {"loss": loss, "reduction": reduction, "C": C, "tol": 1e-3, "max_iter": 2_000}
    if loss == "hinge":
        options["solver"] = "smoothed_newton"
    now = fitted(data, **options)
    with without_recycling():
        before = fitted(data, **options)
    assert now.status is before.status is Status.CONVERGED
    assert now.objective - now.gap <= before.objective
    assert before.objective - before.gap <= now.objective


def test_preferences() -> None:
    data = correlated(1_000)
    rng = np.random.default_rng(1)
    better, worse = rng.permutation(1_000)[:500], rng.permutation(1_000)[:500]
    differ = better != worse
    pairs = Preferences(better[differ], worse[differ], None)
    data = RankingData(data.X, data.y, preferences=pairs)
    now = fitted(data, C=1e-4)
    with without_recycling():
        before = fitted(data, C=1e-4)
    assert hard_steps(before) > FEW_STEPS
    assert now.status is Status.CONVERGED
    assert max(now.objective - now.gap, before.objective - before.gap) <= min(
        now.objective, before.objective
    )


@pytest.mark.parametrize("wide", [False, True])
def test_every_number_of_threads_gives_the_same_bits(wide: bool) -> None:
    data = correlated(2_000)
    X = data.X.toarray() if wide else data.X
    models = [
        LinearRankSVM(C=1e-6, reduction="sum", tol=1e-3, n_jobs=n).fit(X, data.y)
        for n in (1, 2, 3, 7, 16)
    ]
    assert max(row.inner_iterations for row in models[0].history_) > FEW_STEPS
    for one, other in pairwise(models):
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert one.gap_ == other.gap_
        assert one.n_products_ == other.n_products_


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).standard_normal((800, 20)),
        sp.random(800, 2_000, 0.02, random_state=0, format="csr"),  # without a preconditioner
    ],
    ids=["few features", "more features than items"],
)
def test_other_fits_do_not_change_a_bit(X) -> None:
    y = np.random.default_rng(1).standard_normal(800)
    now = fitted(RankingData(X, y), C=1.0)
    with without_recycling():
        before = fitted(RankingData(X, y), C=1.0)
    np.testing.assert_array_equal(now.coef, before.coef)


def test_kernels_do_not_recycle() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 4)), rng.standard_normal(600)

    def fit() -> KernelRankSVM:
        return KernelRankSVM(C=1.0, gamma=0.5, reduction="sum", tol=1e-3).fit(X, y)

    now = fit()
    with without_recycling():
        before = fit()
    assert max(row.inner_iterations for row in now.history_) > FEW_STEPS
    assert now.objective_ == before.objective_


def test_a_callback_that_stops() -> None:
    data = correlated()
    problem = LinearProblem(data, LinearSettings(C=1e-4, reduction="sum", tol=1e-6))
    full = problem.solve()
    first = next(row.iteration for row in full.history if row.inner_iterations > FEW_STEPS)
    fit = problem.solve(callback=lambda row, coef: row.iteration > first)
    assert fit.status is Status.STOPPED
    assert fit.n_iter == first + 1
    assert fit.history[-1].objective == full.history[first + 1].objective


def test_path_over_C() -> None:
    data = correlated(1_500)
    problem = LinearProblem(data, LinearSettings(reduction="sum", tol=1e-3))
    Cs = [1e-6, 1e-4]
    for C, fit in zip(Cs, fit_path(problem, Cs), strict=True):
        alone = problem.solve(C)
        assert fit.status is Status.CONVERGED
        assert fit.objective - fit.gap <= alone.objective
        assert alone.objective - alone.gap <= fit.objective


def test_without_improvement_it_is_given_up_once() -> None:
    """If rounding spoils the recycled directions, the step is made without them."""
    data = correlated(1_000)
    broken = Recycling.improved

    def reversed_sign(self: Recycling, preconditioner):
        found = broken(self, preconditioner)
        return (lambda r: -found(r)) if self.is_on else found

    with mock.patch.object(Recycling, "improved", reversed_sign):
        fit = fitted(data)
    assert fit.status is Status.CONVERGED


# --- Features of very different scales ------------------------------------------------------------


def test_raw_features_do_not_need_many_more_products_than_standardised_ones() -> None:
    """A few more, because they are regularized differently; without the scaling a hundred times."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3_000, 12)) @ rng.standard_normal((12, 60))
    X += rng.standard_normal(X.shape)
    y = np.digitize(X @ rng.standard_normal(60) / 20 + rng.standard_normal(3_000), (0.0, 1.0, 2.0))
    qid = np.repeat(np.arange(50), 60)
    scales = 10.0 ** np.linspace(-3.0, 7.0, 60)
    fits = [
        fitted(RankingData(features, y.astype(float), qid), C=2.0**-10, tol=1e-3)
        for features in (X / X.std(axis=0), X * scales)
    ]
    assert all(fit.status is Status.CONVERGED for fit in fits)
    assert fits[1].n_products <= 3 * fits[0].n_products


def test_scaled_factorization_is_the_inverse() -> None:
    """The factorization of a badly scaled scatter has all its digits."""
    rng = np.random.default_rng(0)
    scales = 10.0 ** np.linspace(-3.0, 7.0, 20)
    X = rng.standard_normal((500, 20))
    y = rng.standard_normal(500)

    def inverse(features):
        problem = LinearProblem(RankingData(features, y), LinearSettings(reduction="sum"))
        objective = problem.objective(1e-3)
        at = objective.at(objective.point(np.zeros(20)))
        apply = at.preconditioner()
        return np.column_stack([apply(e) for e in np.eye(20)]), objective.scatter(at.loss.degrees())

    found, scatter = inverse(X * scales)
    hessian = np.eye(20) + 1e-3 * scatter
    unit = np.sqrt(np.outer(np.diag(hessian), np.diag(hessian)))  # entries differ by 1e20
    np.testing.assert_allclose((found * unit) @ (hessian / unit), np.eye(20), atol=1e-8)
