"""What ``objective_`` and ``gap_`` promise, in rational arithmetic; ``make certify`` has more."""

from __future__ import annotations

import math
import random
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from fuzz import certificates
from fuzz.exact import ExactProblem, rational
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm._points import Combination, Point
from ranksvm._vectors import LONG
from ranksvm.backends.native import COUNTINGS, NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import LinearProblem, LinearSettings
from ranksvm.maps.matrix import MatrixMap
from ranksvm.model_selection.path import fit_path
from ranksvm.objective import RankObjective
from ranksvm.pairs.oracle import LOSSES, Hinge
from ranksvm.pairs.order import PairOrder


def exact_problem(X, y, C, *, loss="squared_hinge") -> ExactProblem:
    """The mean over all pairs of one query."""
    pairs = [(b, w) for b in range(len(y)) for w in range(len(y)) if y[b] > y[w]]
    weight = [rational([C])[0] / len(pairs)] * len(pairs)
    rows = [rational(row) for row in np.asarray(X, dtype=float)]
    power = 1 if loss == "hinge" else 2
    return ExactProblem(rows, [p[0] for p in pairs], [p[1] for p in pairs], weight, power)


def check(model: LinearRankSVM, X, y) -> None:
    exact = exact_problem(X, y, model.C, loss=model.loss)
    w = rational(model.coef_)
    (objective, gap), value = rational([model.objective_, model.gap_]), exact.value(w)
    assert objective - gap <= exact.lowest([w]) <= value <= objective
    assert (model.status_ == "converged") == (model.gap_ <= model.tol * model.objective_)


def quiet(model: LinearRankSVM, X, y) -> LinearRankSVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def test_a_warm_start_from_a_far_larger_c() -> None:
    """The multipliers at the start are scaled by a factor far from 1, and so are their errors."""
    X = np.array([[3.0, 3.0], [2.0, 0.0], [1.0, -2.0]]) * 672.1702372981217
    y = [1, 2, 0]
    model = LinearRankSVM(23417.16469419702, warm_start=True, scaling=None).fit(X, y)
    check(model, X, y)
    model.set_params(C=4.0878938661582107e-4).fit(X, y)
    check(model, X, y)
    cold = LinearRankSVM(model.C, scaling=None).fit(X, y)
    assert model.status_ == "converged"
    assert abs(model.objective_ - cold.objective_) <= model.gap_ + cold.gap_


@pytest.mark.parametrize(("n", "dim"), [(251, 1), (74, 3)])
def test_warm_starts_of_larger_sets(n: int, dim: int) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, dim)) * 30.0
    y = rng.integers(0, 5, n)
    model = LinearRankSVM(3.07e4, warm_start=True, scaling=None).fit(X, y)
    model.set_params(C=0.471).fit(X, y)
    cold = LinearRankSVM(0.471, tol=1e-9, scaling=None).fit(X, y)
    assert model.objective_ - model.gap_ <= cold.objective_
    assert cold.objective_ <= model.objective_ + cold.gap_


@pytest.mark.parametrize("loss", LOSSES)
def test_separable_data_of_a_huge_scale(loss: str) -> None:
    """Rounding of X w alone is more than the whole objective: the fit says so."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2))
    y = np.argsort(np.argsort(X @ [1.0, 2.0]))
    for scale in (1.0, 1e4, 6e8):
        model = quiet(LinearRankSVM(5000, loss=loss, scaling=None), X * scale, y)
        check(model, X * scale, y)
        if scale == 1.0:
            assert model.status_ == "converged"
        if scale == 6e8:
            assert model.status_ == "stalled"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("offset", [2.4e3, 1e5, 8e7])
def test_offsets_of_the_features(loss: str, offset: float) -> None:
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(9, 2)), 3) + offset
    y = rng.integers(0, 3, 9)
    for tol in (1e-4, 1e-12):
        model = quiet(LinearRankSVM(3.0, loss=loss, tol=tol, scaling=None), X, y)
        check(model, X, y)
        if tol == 1e-4:
            assert model.status_ == "converged"


def test_a_spread_with_an_outlier() -> None:
    """What rounding does to a quadratic form goes with the squares, not with the squared sum."""
    rng = np.random.default_rng(2)
    n = 60
    scores = rng.normal(size=n)
    scores[0] = 1e7
    order = PairOrder(rng.integers(0, 3, n).astype(float), QueryGroups.from_qid(None, n))
    rows = [rational([s]) for s in scores]
    pairs = [(b, w) for b in range(n) for w in range(n) if order.utility[b] > order.utility[w]]
    ones = rational(np.ones(len(pairs)))
    exact = ExactProblem(rows, [p[0] for p in pairs], [p[1] for p in pairs], ones, 2)
    truth = exact.value_of(rational([0.0])[0], rational(scores))
    for counting in COUNTINGS:
        at = LOSSES["squared_hinge"](NativeBackend(order, counting=counting)).at(scores)
        off = abs(rational([at.stated])[0] - truth)
        assert off <= rational([at.errors.stated + at.blurred(0.0)])[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [40, 700])
def test_sums_on_a_grid_are_exact(n: int, weighted: bool) -> None:
    """In any order: every counting gives the same bits, and the gradient adds up to zero."""
    rng = np.random.default_rng(n)
    groups = QueryGroups.from_qid(rng.integers(0, 2, n), n)
    weight = rng.integers(0, 4, n).astype(float) if weighted else None
    order = PairOrder(rng.integers(0, 4, n).astype(float), groups, weight)
    scores = rng.normal(size=n) * 3.0 + 1e4
    found = []
    for counting in COUNTINGS:
        at = Hinge(NativeBackend(order, counting=counting)).smoothed(2.0**-6).at(scores)
        assert at.errors.grad == 0.0
        assert at.moved < 1e-9
        for query in (0, 1):
            assert math.fsum(at.grad[groups.index == query]) == 0.0
        found.append(at.grad)
    for other in found[1:]:
        assert_array_equal(found[0], other)


def test_a_smoothing_finer_than_the_grid_is_not_exact() -> None:
    rng = np.random.default_rng(0)
    n = 50
    order = PairOrder(rng.integers(0, 4, n).astype(float), QueryGroups.from_qid(None, n))
    loss = Hinge(NativeBackend(order))
    scores = rng.normal(size=n) * 1e3
    assert loss.smoothed(2.0**-20).at(scores).errors.grad == 0.0
    assert loss.smoothed(2.0**-38).at(scores).errors.grad > 10.0


@pytest.mark.parametrize("loss", LOSSES)
def test_paths_of_many_steps_do_not_add_up_roundings(loss: str) -> None:
    """Every fit is that of the one before, for a C that is a few bits larger."""
    X = np.array([[0.3], [0.0]])
    settings = LinearSettings(C=1.3, loss=loss, reduction="sum", tol=1e-12, scaling=None)
    problem = LinearProblem(RankingData(X, np.array([1.0, 0.0])), settings)
    Cs = 1.3 * (1.0 + 4.0 * np.arange(800) * 2.0**-52)
    rows = [rational(row) for row in X]
    for C, fit in zip(Cs.tolist(), fit_path(problem, Cs), strict=True):
        exact = ExactProblem(rows, [0], [1], rational([C]), 1 if loss == "hinge" else 2)
        objective, gap = rational([fit.objective, fit.gap])
        w = rational(fit.coef)
        assert objective - gap <= exact.lowest([w]) <= exact.value(w) <= objective


def test_errors_that_overflow_spoil_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * 1e150
    settings = LinearSettings(loss="hinge", solver="bundle", scaling=None)
    problem = LinearProblem(RankingData(X, rng.integers(0, 3, 200).astype(float)), settings)
    fit = problem.solve(start=np.full(2, 1e152))
    assert np.isfinite([fit.objective, fit.gap]).all()
    tiny = quiet(LinearRankSVM(loss="hinge", scaling=None), X * 1e-460, rng.integers(0, 3, 200))
    assert np.isfinite([tiny.objective_, tiny.gap_]).all()


def test_repeated_entries_of_a_sparse_matrix() -> None:
    """Their squares say nothing about the norm of a row, nor do rows about the length of a sum."""
    k = 500
    X = sp.csr_array((np.full(k, 0.125), np.zeros(k, np.int32), [0, k, k]), shape=(2, 1))
    model = quiet(LinearRankSVM(1e-3, reduction="sum", tol=1e-13, scaling=None), X, [1, 0])
    exact = ExactProblem([rational([k * 0.125]), rational([0.0])], [0], [1], rational([1e-3]), 2)
    w = rational(model.coef_)
    objective, gap = rational([model.objective_, model.gap_])
    assert objective - gap <= exact.lowest([w]) <= exact.value(w) <= objective
    assert X.nnz == k  # nothing happened to what was given


def test_a_stalled_fit_returns_the_lowest_point_it_saw() -> None:
    """Not the one of which most is known: rounding blurs F there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)) * 10.0
    y = X[:, 0] + 10.0 * np.sin(0.3 * X[:, 1]) + 2.0 * rng.normal(size=400)
    model = KernelRankSVM(50.0, kernel="poly", gamma=1.0, scaling=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    scores = model.predict(X)
    slack = 1.0 - (scores[:, None] - scores[None, :])
    loss = np.mean(np.maximum(0.0, slack[y[:, None] > y[None, :]]) ** 2)
    assert model.status_ == "stalled"
    lowest = min(row.objective for row in model.history_)
    assert 50.0 * loss <= lowest
    assert model.objective_ - model.gap_ <= 50.0 * loss <= model.objective_


LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "CSR": sp.csr_array,
    "CSC": sp.csc_array,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(40, 7), (5, 60), (9, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_products_are_off_by_what_the_map_says(layout, shape, dtype, scale) -> None:
    rng = np.random.default_rng(shape[0])
    X = (rng.normal(size=shape) * 10.0 ** rng.uniform(-6.0, 6.0, shape) * scale).astype(dtype)
    score_map = MatrixMap(LAYOUTS[layout](X))
    rows = [rational(row) for row in X]
    w, g = rng.normal(size=shape[1]), rng.normal(size=shape[0])
    limit = Fraction(score_map.score_rounding * score_map.reach(w))
    for row, score in zip(rows, score_map.scores(w), strict=True):
        exact = sum(a * b for a, b in zip(row, rational(w), strict=True))
        assert abs(Fraction(float(score)) - exact) <= limit
    error = score_map.pullback_error(float(np.abs(g).sum()), 0.0)
    off = Fraction(score_map.widened(0.0, np.zeros(shape[1]), error))
    square = Fraction(0)
    for j, found in enumerate(score_map.pullback(g)):
        exact = sum(row[j] * b for row, b in zip(rows, rational(g), strict=True))
        square += (Fraction(float(found)) - exact) ** 2
    assert square <= off**2
    assert off <= 1e-12 * Fraction(score_map.reach(np.ones(shape[1]))) * shape[0]


@pytest.mark.parametrize("scale", [1e-170, 1e-5, 1e170])
def test_the_longest_row_whatever_its_scale(scale: float) -> None:
    """Its square may over- or underflow."""
    X = np.array([[3.0, 4.0], [1.0, 0.0]]) * scale
    for layout in LAYOUTS.values():
        reach = MatrixMap(layout(X)).reach(np.array([1.0, 0.0]))
        assert reach == pytest.approx(5.0 * scale, rel=0.01)
        assert reach >= 5.0 * scale


def test_points_know_what_updates_lose() -> None:
    """Far away and back again: the scores of w keep the errors of the way."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 3))
    score_map = MatrixMap(X)
    rows = [rational(row) for row in X]

    def point(w) -> Point:
        reach = score_map.reach(w)
        return Point(w, score_map.scores(w), score_map.score_rounding * reach, reach)

    here = point(rng.normal(size=3))
    for size in (1e8, 1.0, 1e12):
        there = point(rng.normal(size=3) * size)
        here = here.plus(0.3, there).plus(-0.3, there).times(1.1)
        for row, score in zip(rows, here.scores, strict=True):
            exact = sum(a * b for a, b in zip(row, rational(here.w), strict=True))
            assert abs(Fraction(float(score)) - exact) <= Fraction(here.error)
    assert here.error < 1.0


@pytest.mark.parametrize("n_items", [20, LONG])
def test_combinations_know_what_they_lose(n_items: int) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n_items, 3))
    objective = RankObjective(MatrixMap(X), None, 1.0)
    for count in (1, 2, 3, 6):
        # They nearly cancel, as those of a forecast do.
        w = rng.normal(size=3)
        points = [objective.point((w + 1e-9 * rng.normal(size=3)) * 10.0**k) for k in range(count)]
        parts = [(0.1**k * (-1.0) ** k, point) for k, point in enumerate(points)]
        made = Combination(parts)
        other = objective.point(rng.normal(size=3))
        chain = parts[0][1].times(parts[0][0])
        for factor, point in parts[1:]:
            chain = chain.plus(factor, point)
        difference = made.point.plus(-1.0, other)
        assert made.point.scores.tobytes() == chain.scores.tobytes()
        assert made.minus(other).scores.tobytes() == difference.scores.tobytes()
        assert made.minus(other)[2:] == difference[2:]
        for one in (made.point, made.minus(other)):
            assert one.reach >= float(np.abs(one.scores).max())
            for row, score in list(zip(X, one.scores, strict=True))[:20]:
                exact = sum(a * b for a, b in zip(rational(row), rational(one.w), strict=True))
                assert abs(Fraction(float(score)) - exact) <= Fraction(one.error)


def test_random_problems() -> None:
    found = Counter(certificates.one(random.Random(seed)) for seed in range(150))
    assert found["refused"] <= 3
    assert set(found) - {"refused"} == {kind.__name__ for kind in certificates.KINDS}


def test_an_rbf_kernel_with_extreme_weights_is_not_called_indefinite() -> None:
    """The errors of updated scores can make v'Kv negative; the kernel is not to blame."""
    assert certificates.one(random.Random(755338820)) == "kernel_case"
