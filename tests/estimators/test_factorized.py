"""Factorized RankSVM: sums over pairs against all pairs, descents against the linear machine."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.sparse import csr_array
from scipy.sparse.csgraph import structural_rank
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import ranksvm
from ranksvm import FactorizedRankSVM, LinearRankSVM, multiplier_spectrum
from ranksvm.backends.native import NativeBackend
from ranksvm.backends.reference import ReferenceBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_letor_like
from ranksvm.learners import (
    FactorizedProblem,
    FactorizedSettings,
    LinearProblem,
    LinearSettings,
)
from ranksvm.learners.factors import FactorObjective, best_multiple, random_start, spread
from ranksvm.learners.multipliers import (
    Multipliers,
    factorize,
    multiplier_point,
    multiplier_terms,
    query_multipliers,
)
from ranksvm.maps.matrix import MatrixMap
from ranksvm.objective import RankObjective
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def small_set(seed: int = 0, n: int = 60, d: int = 4, queries: int = 5, levels: int = 4) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    qid = rng.integers(0, queries, n)
    y = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.standard_normal(n)), -1, levels - 2)
    return X, y, qid


def double_sum(X: Any, y: Any, qid: Any, V: Any) -> Any:
    """w(V), pair by pair."""
    w = np.zeros(X.shape[1])
    for i in range(len(y)):
        for j in range(len(y)):
            if qid[i] == qid[j] and y[i] > y[j]:
                w += (V[i] @ V[j]) * (X[i] - X[j])
    return w


def make_objective(X: Any, y: Any, qid: Any, loss: str, C: float, **weights: Any) -> Any:
    order = PairOrder(np.asarray(y, float), QueryGroups.from_qid(qid, len(y)), **weights)
    backend = NativeBackend(order)
    score_map = MatrixMap(X)
    objective = RankObjective(score_map, LOSSES[loss](backend), C)
    return FactorObjective(objective, backend)


# --- Sums over pairs -----------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), min_size=1, max_size=40),
    st.integers(1, 5),
    st.integers(0, 1000),
)
def test_sums_equal_the_truth_over_all_pairs(items: Any, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    qid, y = np.array([q for q, _ in items]), np.array([u for _, u in items], float)
    order = PairOrder(y, QueryGroups.from_qid(qid, len(y)))
    V, t = rng.standard_normal((len(y), k)), rng.standard_normal(len(y))
    native, truth = NativeBackend(order), ReferenceBackend(order)
    rows = native.factor_rows
    assert sorted(rows.tolist()) == list(range(len(y)))
    np.testing.assert_allclose(
        native.factor_coefficients(V[rows]), truth.factor_coefficients(V), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        native.factor_gradient(V[rows], t), truth.factor_gradient(V, t)[rows], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("levels", [2, 5, 10**9])
def test_a_long_query_in_stretches_gives_the_same_bits_for_all_threads(levels: int) -> None:
    rng = np.random.default_rng(1)
    n, k = 120_000, 3  # four stretches
    y = rng.integers(0, levels, n).astype(float)
    V, t = rng.standard_normal((n, k)), rng.standard_normal(n)
    order = PairOrder(y, QueryGroups.from_qid(None, n))
    one, two = NativeBackend(order, n_threads=1), NativeBackend(order, n_threads=2)
    assert np.array_equal(one.factor_coefficients(V), two.factor_coefficients(V))
    assert np.array_equal(one.factor_gradient(V, t), two.factor_gradient(V, t))
    # Against sums over levels.
    found = one.factor_coefficients(V[one.factor_rows])
    level = np.unique(y, return_inverse=True)[1]
    sums = np.stack([np.bincount(level, V[:, c]) for c in range(k)], axis=1)
    below = np.vstack([np.zeros(k), np.cumsum(sums, axis=0)])
    worse, better = below[level], below[-1] - below[level + 1]
    expected = np.einsum("ik,ik->i", V, worse - better)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * scale)


def test_an_offset_of_t_drops_out() -> None:
    X, y, qid = small_set()
    backend = NativeBackend(PairOrder(y, QueryGroups.from_qid(qid, len(y))))
    V, t = X.copy(), X[:, 0].copy()
    np.testing.assert_allclose(
        backend.factor_gradient(V, t + 1e9), backend.factor_gradient(V, t), rtol=0, atol=1e-5
    )


def test_weights_are_the_explicit_double_sum() -> None:
    X, y, qid = small_set(2)
    V = np.random.default_rng(3).standard_normal((len(y), 3))
    objective = make_objective(X, y, qid, "hinge", 1.0)
    rows = objective.rows
    np.testing.assert_allclose(
        objective.weights(V[rows]), double_sum(X, y, qid, V), rtol=1e-12, atol=1e-12
    )
    assert np.array_equal(objective.by_item(V[rows]), V)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_value_and_derivative(loss: str) -> None:
    X, y, qid = small_set(4, n=25)
    objective = make_objective(X, y, qid, loss, 0.3)
    V = 0.2 * np.random.default_rng(5).standard_normal((len(y), 2))
    at = objective.at(V)
    w = double_sum(X, y, qid, objective.by_item(V))
    slack = [
        max(0.0, 1.0 - w @ (X[i] - X[j])) ** (2 if loss == "squared_hinge" else 1)
        for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]
    ]  # fmt: skip
    assert at.value == pytest.approx(0.5 * w @ w + 0.3 * sum(slack), rel=1e-12)
    numeric = approx_fprime(V.ravel(), lambda x: objective.at(x.reshape(V.shape)).value, 1e-7)
    np.testing.assert_allclose(at.grad.ravel(), numeric, rtol=0, atol=2e-5 * np.abs(numeric).max())


def test_a_random_start_has_the_scale_that_is_asked_for() -> None:
    X, y, qid = small_set(6)
    groups = QueryGroups.from_qid(qid, len(y))
    objective = make_objective(1e4 * X, y, qid, "hinge", 1.0)
    V = random_start(objective, 3, 0.25, seed=1)
    scores = 1e4 * X @ objective.weights(V)
    assert spread(scores, groups.index) == pytest.approx(0.25)
    assert np.array_equal(V, random_start(objective, 3, 0.25, seed=1))
    assert not np.array_equal(V, random_start(objective, 3, 0.25, seed=2))


def test_the_best_multiple_is_the_best() -> None:
    X, y, qid = small_set(7)
    objective = make_objective(X, y, qid, "squared_hinge", 0.5).objective
    w = LinearRankSVM(scaling=None).fit(X, y, qid=qid).coef_ * 7.0
    a = best_multiple(objective, w)
    values = {f: objective.at(objective.point(f * a * w)).value for f in (0.98, 1.0, 1.02)}
    assert min(values, key=values.__getitem__) == 1.0


# --- Descents ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("init", ["random", "linear"])
def test_a_descent_is_monotone_and_goes_on_to_its_end(init: str, loss: str) -> None:
    X, y, qid = small_set(32)
    settings = FactorizedSettings(
        C=2.0,
        n_factors=2,
        loss=loss,
        init=init,
        tol=1e-13,
        max_iter=20_000,
        random_state=0,
        scaling=None,
    )
    problem = FactorizedProblem(RankingData(X, y, qid), settings)
    fit = problem.solve()
    assert fit.status.name in ("EXHAUSTED", "CONVERGED")
    assert 0 < fit.n_iter < 20_000
    objectives = [row.objective for row in fit.history]
    assert fit.objective == min(objectives)
    assert fit.gap <= 0.05 * fit.objective
    V = fit.factors
    np.testing.assert_allclose(fit.coef, double_sum(X, y, qid, V), rtol=1e-9, atol=1e-12)
    if loss == "squared_hinge":  # a smooth function: no slope is left
        assert objectives == sorted(objectives, reverse=True)
        objective = make_objective(X, y, qid, loss, problem._linear.objective(2.0).C)
        rows = objective.rows
        start = random_start(objective, 2, 0.1, seed=0)
        slope = np.linalg.norm(objective.at(V[rows]).grad)
        assert slope <= 1e-4 * np.linalg.norm(objective.at(start).grad)


@pytest.mark.parametrize("init", ["random", "linear"])
def test_kinks_of_the_hinge_do_not_end_a_descent(init: str) -> None:
    """With few pairs they are far apart, and line searches end there."""
    found = []
    for seed in range(20):
        X, y, qid = small_set(seed, n=4 + seed, d=2 + seed % 7, queries=1 + seed % 3)
        model = FactorizedRankSVM(init=init, random_state=0, max_iter=200, scaling=None).fit(
            X, y, qid=qid
        )
        assert model.objective_ == min(row.objective for row in model.history_)
        found.append(model.status_)
    assert found.count("converged") >= 14  # about half of them end at a kink otherwise


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_scale_of_the_features_changes_nothing(loss: str) -> None:
    X, y, qid = small_set(33, n=120, queries=8)
    model = FactorizedRankSVM(3, 50.0, loss=loss, random_state=0, scaling=None).fit(X, y, qid=qid)
    for scale in (2.0**-20, 2.0**20):
        scaled = FactorizedRankSVM(3, 50.0 / scale**2, loss=loss, random_state=0, scaling=None)
        scaled.fit(scale * X, y, qid=qid)
        assert scaled.status_ == "converged"
        assert scaled.n_iter_ == model.n_iter_
        np.testing.assert_allclose(scaled.coef_ * scale, model.coef_, rtol=1e-6)


def test_a_descent_ends_when_told() -> None:
    X, y, qid = small_set(32)
    model = FactorizedRankSVM(2, 1e3, tol=1e-12, max_iter=3, random_state=0, scaling=None).fit(
        X, y, qid=qid
    )
    assert (model.status_, model.n_iter_, len(model.history_)) == ("max_iter", 3, 4)
    model.fit(X, y, qid=qid, callback=lambda row, coef: row.iteration == 2)
    assert (model.status_, model.n_iter_, len(model.history_)) == ("stopped", 2, 3)
    model.fit(X, y, qid=qid, callback=lambda row, coef: True)
    assert (model.status_, model.n_iter_, len(model.history_)) == ("stopped", 0, 1)


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
def test_the_descent_arrives_at_the_linear_machine(loss: str, reduction: str) -> None:
    X, y, qid = small_set(8)
    C = 0.05 if reduction == "sum" else 5.0
    linear = LinearRankSVM(
        C=C, loss=loss, reduction=reduction, tol=1e-8, max_iter=5000, scaling=None
    )
    linear.fit(X, y, qid=qid)
    model = FactorizedRankSVM(
        3, C, loss=loss, reduction=reduction, tol=1e-4, max_iter=3000, random_state=0, scaling=None
    ).fit(X, y, qid=qid)
    assert model.status_ == "converged"
    excess = model.objective_ - linear.objective_
    assert -1e-7 * linear.objective_ <= excess <= model.gap_ <= 1e-4 * model.objective_
    angle = model.coef_ @ linear.coef_ / np.linalg.norm(model.coef_) / np.linalg.norm(linear.coef_)
    assert angle > 0.999


def test_even_one_factor_is_enough() -> None:
    X, y, qid = small_set(9)
    model = FactorizedRankSVM(1, 5.0, tol=1e-3, max_iter=3000, random_state=0, scaling=None).fit(
        X, y, qid=qid
    )
    assert model.status_ == "converged"
    assert model.factors_.shape == (60, 1)


@pytest.mark.parametrize("optimizer", ["auto", "lbfgs"])
def test_the_books_of_a_descent(optimizer: str) -> None:
    X, y, qid = small_set(10, n=200, queries=40)
    model = FactorizedRankSVM(
        3, 2.0, optimizer=optimizer, tol=0.02, max_iter=3000, random_state=0, scaling=None
    ).fit(X, y, qid=qid)
    assert model.status_ == "converged"
    objectives = [row.objective for row in model.history_]
    assert objectives == sorted(objectives, reverse=True)
    assert [row.iteration for row in model.history_] == list(range(len(objectives)))
    products = [row.n_products for row in model.history_]
    assert products == sorted(products)
    assert model.n_products_ >= products[-1] > 0
    np.testing.assert_allclose(
        model.coef_, double_sum(X, y, qid, model.factors_), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("optimizer", ["gradient", "sgd"])
def test_optimizers_of_earlier_versions_are_replaced_with_a_warning(optimizer: str) -> None:
    X, y, qid = small_set(10)
    model = FactorizedRankSVM(
        2, optimizer=optimizer, random_state=0, scaling=None
    )  # as of every parameter,
    with pytest.warns(FutureWarning, match=f"optimizer='{optimizer}' was removed") as found:
        model.fit(X, y, qid=qid)  # the estimator takes note when it is fitted
    assert [w.filename for w in found] == [__file__]
    assert model.optimizer == optimizer
    plain = FactorizedRankSVM(2, random_state=0, scaling=None).fit(X, y, qid=qid)
    assert np.array_equal(model.coef_, plain.coef_)
    assert np.array_equal(model.factors_, plain.factors_)
    with pytest.warns(FutureWarning, match="was removed"):
        clone(model).fit(X, y, qid=qid)


def test_a_saved_model_of_an_earlier_optimizer_is_read_in_silence(tmp_path: Any) -> None:
    X, y, qid = small_set(10)
    model = FactorizedRankSVM(2, random_state=0, scaling=None).fit(X, y, qid=qid)
    model.set_params(optimizer="sgd").save(tmp_path / "model.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = ranksvm.load(tmp_path / "model.safetensors")
        assert np.array_equal(again.predict(X), model.predict(X))
    assert again.optimizer == "sgd"


@pytest.mark.parametrize("reduction", ["mean", "query_mean"])
def test_items_and_queries_of_weight_zero_take_no_part(reduction: str) -> None:
    X, y, qid = small_set(11, n=80, queries=6)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, len(y)).astype(float)
    of_query = {q: float(q % 3) for q in range(6)}
    model = FactorizedRankSVM(
        2, 3.0, reduction=reduction, tol=0.05, random_state=1, max_iter=2000, scaling=None
    )
    model.fit(X, y, qid=qid, sample_weight=weight, query_weight=of_query)
    idle = (weight == 0.0) | (qid % 3 == 0)
    assert model.status_ == "converged"
    assert model.gap_ <= 0.05 * model.objective_
    assert not model.factors_[idle].any()
    assert model.factors_[~idle].any()
    linear = LinearRankSVM(3.0, loss="hinge", reduction=reduction, tol=1e-6, scaling=None)
    linear.fit(X, y, qid=qid, sample_weight=weight, query_weight=of_query)
    assert model.objective_ >= linear.objective_ - linear.gap_
    assert model.objective_ - linear.objective_ <= model.gap_ + 1e-9


def test_same_bits_for_all_threads_and_restarts_in_parallel() -> None:
    X, y, qid = small_set(12, n=300, queries=20)
    models = [
        FactorizedRankSVM(
            4, n_restarts=3, max_iter=12, tol=1e-9, random_state=5, n_jobs=jobs, scaling=None
        ).fit(X, y, qid=qid)
        for jobs in (1, 2, 3)
    ]
    for other in models[1:]:
        assert np.array_equal(models[0].coef_, other.coef_)
        assert np.array_equal(models[0].factors_, other.factors_)
        assert [r.objective for r in other.restarts_] == [r.objective for r in models[0].restarts_]
    restarts = models[0].restarts_
    assert len({r.seed for r in restarts}) == len({r.objective for r in restarts}) == 3
    assert models[0].objective_ == min(r.objective for r in restarts)
    alone = FactorizedRankSVM(4, max_iter=12, tol=1e-9, random_state=5, scaling=None).fit(
        X, y, qid=qid
    )
    assert alone.objective_ == restarts[0].objective


def test_an_interrupt_ends_all_restarts() -> None:
    X, y, qid = small_set(12, n=300, queries=20)
    seen = []

    def interrupt(row: Any, coef: Any) -> None:
        seen.append(row)
        if len(seen) == 10:  # all threads have started
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    model = FactorizedRankSVM(4, n_restarts=5, tol=1e-12, random_state=0, n_jobs=2, scaling=None)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, qid=qid, callback=interrupt)
    assert len(seen) < 100  # the runs have ended, and others have not begun
    assert not any(one.name.startswith("ranksvm-worker") for one in threading.enumerate())


def test_early_stopping_keeps_the_best_on_the_validation_set() -> None:
    X, y, qid = small_set(13, n=120, d=12, queries=8)
    valid = small_set(14, n=60, d=12, queries=5)
    model = FactorizedRankSVM(4, 1e4, tol=1e-9, patience=5, random_state=0, scaling=None)
    model.fit(X, y, qid=qid, eval_set=valid)
    assert model.status_ == "early"
    scores = [row.valid for row in model.history_]
    best = int(np.argmax(scores))
    assert model.best_iteration_ == best
    assert len(scores) == best + 6
    assert model.score(valid[0], valid[1], valid[2]) == pytest.approx(scores[best])
    assert model.objective_ == model.history_[best].objective
    np.testing.assert_allclose(model.coef_, double_sum(X, y, qid, model.factors_), rtol=1e-9)

    seen = []

    def metric(truth: Any, scores: Any, ids: Any) -> float:
        seen.append((truth, ids))
        return -float(np.square(scores).sum())  # the start would be best

    model.fit(X, y, qid=qid, eval_set=valid, eval_metric=metric)
    assert model.best_iteration_ == 1
    assert len(seen) == 7
    assert np.array_equal(seen[0][0], valid[1])
    assert np.array_equal(seen[0][1], valid[2])
    many = clone(model).set_params(n_restarts=3).fit(X, y, qid=qid, eval_set=valid)
    assert many.score(*valid) == pytest.approx(max(r.valid for r in many.restarts_))


def test_the_status_speaks_of_the_model_that_is_kept() -> None:
    X, y, qid = small_set(13, n=120, d=6, queries=8)
    seen = set()
    for seed in range(8):
        model = FactorizedRankSVM(2, 10.0, tol=0.02, patience=50, random_state=seed, scaling=None)
        model.fit(X, y, qid=qid, eval_set=small_set(14, n=40, d=6))
        seen.add(model.status_)
        if model.status_ == "converged":
            assert model.gap_ <= 0.02 * model.objective_
            assert model.best_iteration_ == model.n_iter_
        if model.status_ == "early":
            assert model.best_iteration_ < model.n_iter_
    assert "early" in seen


def test_a_lucky_start_is_not_kept() -> None:
    X, y, qid = small_set(13, n=120, d=12, queries=8)
    rows: list[Any] = []

    def callback(row: Any, coef: Any) -> bool:
        rows.append(row)
        return row.iteration == 2

    for seed in range(5):
        model = FactorizedRankSVM(
            2, 1e3, tol=1e-9, n_restarts=5, random_state=seed, n_jobs=1, scaling=None
        )
        model.fit(X, y, qid=qid, eval_set=small_set(14, n=40, d=12), callback=callback)
        assert model.best_iteration_ > 0


def test_the_scale_of_a_start_is_that_of_the_items_that_count() -> None:
    X, y, qid = small_set(28, n=200, queries=10)
    weight = (np.arange(200) % 10 == 0).astype(float)
    first = []

    def callback(row: Any, coef: Any) -> bool:
        first.append(coef)
        return True

    model = FactorizedRankSVM(3, init_scale=0.2, random_state=0, scaling=None)
    model.fit(X, y, qid=qid, sample_weight=weight, callback=callback)
    counts = weight > 0.0
    groups = np.unique(qid[counts], return_inverse=True)[1]
    assert spread((X @ first[0])[counts], groups) == pytest.approx(0.2)


def test_more_factors_than_memory_are_refused_at_once() -> None:
    X, y, qid = small_set(29)
    for n_factors in (10**9, 2**62):
        with pytest.raises(MemoryError, match="Use fewer n_factors"):
            FactorizedRankSVM(n_factors, scaling=None).fit(X, y, qid=qid)


def test_early_stopping_with_frames() -> None:
    pandas = pytest.importorskip("pandas")
    X, y, qid = small_set(15)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(label=y, query=qid)
    by_name = FactorizedRankSVM(2, random_state=0, scaling=None).fit(
        frame, "label", "query", eval_set=(frame, "label", "query")
    )
    short = FactorizedRankSVM(2, random_state=0, scaling=None).fit(
        frame, "label", "query", eval_set=frame
    )
    np.testing.assert_array_equal(short.coef_, by_name.coef_)
    by_array = FactorizedRankSVM(2, random_state=0, scaling=None).fit(
        X, y, qid, eval_set=(X, y, qid)
    )
    np.testing.assert_allclose(by_name.coef_, by_array.coef_, rtol=1e-6)  # another layout
    np.testing.assert_allclose(by_name.predict(frame), by_array.predict(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eval_set": 3}, "eval_set must be one tuple"),
        ({"eval_set": [(1, 2), (1, 2)]}, "eval_set must be one tuple"),
        ({"eval_set": (np.ones((3, 4)), [1, 2, 3], [1] * 3), "eval_metric": 3}, "be callable"),
        (
            {"eval_set": (np.ones((3, 4)), [1, 2, 3], [1] * 3), "eval_metric": lambda *_: None},
            "eval_metric returned None",
        ),
        ({"eval_set": (1, 2, 3, 4)}, "got a tuple of 4"),
        ({"eval_metric": max}, "eval_metric needs eval_set"),
        ({"eval_set": (np.ones((3, 2)), [1, 2, 3])}, "features"),
        ({"eval_set": (np.ones((3, 4)), [1, 2])}, "inconsistent numbers"),
        ({"eval_set": (np.ones((3, 4)), [1, 1, 1], [1, 1, 1])}, "has a comparable pair"),
        (
            {"eval_set": (np.ones((3, 4)), [1, 2, 3], [1] * 3), "eval_metric": lambda *_: np.nan},
            "eval_metric returned nan",
        ),
    ],
)
def test_bad_validation_sets(arguments: Any, message: str) -> None:
    X, y, qid = small_set(16)
    model = FactorizedRankSVM(2, random_state=0, scaling=None).fit(X, y, qid=qid)
    before = model.coef_
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, qid=qid, **arguments)
    assert model.coef_ is before


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_factors": 0}, "n_factors must be"),
        ({"n_factors": 2.5}, "n_factors must be"),
        ({"n_restarts": 0}, "n_restarts must be"),
        ({"init": "zero"}, "init must be one of"),
        ({"init_scale": 0.0}, "init_scale must be"),
        ({"optimizer": "adam"}, "optimizer must be one of"),
        ({"init": "linear", "n_restarts": 2}, "n_restarts=2 with init='linear'"),
        ({"patience": 0}, "patience must be"),
        ({"random_state": -1}, "random_state"),
        ({"loss": "logistic"}, "loss must be one of"),
        ({"C": -1.0}, "C must be"),
    ],
)
def test_bad_parameters(params: Any, message: str) -> None:
    X, y, qid = small_set(17)
    with pytest.raises(ValueError, match=message):
        FactorizedRankSVM(**params, scaling=None).fit(X, y, qid=qid)


def test_no_pair_is_an_error() -> None:
    with pytest.raises(ValueError, match="no comparable pair"):
        FactorizedRankSVM(scaling=None).fit(np.ones((3, 2)), [1, 1, 1])


def test_items_that_all_look_the_same() -> None:
    model = FactorizedRankSVM(2, random_state=0, scaling=None).fit(np.ones((4, 2)), [1, 2, 3, 4])
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)
    assert model.status_ == "converged"


def test_a_callback_stops_all_restarts_and_sees_every_row() -> None:
    X, y, qid = small_set(18)
    rows: list[Any] = []

    def callback(row: Any, coef: Any) -> bool:
        assert coef.shape == (4,)
        rows.append(row)
        return len(rows) == 4

    model = FactorizedRankSVM(
        2, 1e3, tol=1e-9, n_restarts=2, random_state=0, n_jobs=2, scaling=None
    )
    model.fit(X, y, qid=qid, callback=callback)
    assert {r.status for r in model.restarts_} == {"stopped"}
    assert len(rows) == sum(len(r.history) for r in model.restarts_)


def test_a_failure_is_noticed_at_once() -> None:
    X, y, qid = small_set(27)
    slow = []

    def metric(truth: Any, scores: Any, ids: Any) -> float:
        if threading.current_thread().name.endswith("_1"):
            raise RuntimeError("broken metric")
        slow.append(None)
        time.sleep(0.02)
        return float(len(slow))

    model = FactorizedRankSVM(
        2, 1e3, tol=1e-12, n_restarts=2, n_jobs=2, max_iter=100_000, scaling=None
    )
    with pytest.raises(RuntimeError, match="broken metric"):
        model.fit(X, y, qid=qid, eval_set=(X, y, qid), eval_metric=metric)
    assert len(slow) < 1000


def test_an_error_in_one_restart_ends_the_others() -> None:
    X, y, qid = small_set(19, n=200)
    alive = threading.active_count()

    def callback(row: Any, coef: Any) -> bool:
        if row.iteration == 3:
            raise RuntimeError("enough")
        return False

    model = FactorizedRankSVM(
        2, 1e3, tol=1e-12, n_restarts=4, n_jobs=2, max_iter=100_000, scaling=None
    )
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(X, y, qid=qid, callback=callback)
    assert threading.active_count() == alive
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "n_features_in_")


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_a_descent_that_is_cut_short_says_how_far_it_is() -> None:
    X, y, qid = small_set(20)
    with pytest.warns(ConvergenceWarning, match="gap to the global optimum.*raise max_iter"):
        FactorizedRankSVM(2, 1e3, max_iter=2, random_state=0, scaling=None).fit(X, y, qid=qid)


def test_a_query_of_a_hundred_thousand_items() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 3))
    y = X[:, 0] + rng.standard_normal(len(X))  # five thousand million pairs
    model = FactorizedRankSVM(3, tol=0.02, random_state=0, scaling=None).fit(X, y)
    assert model.status_ == "converged"
    assert model.n_pairs_ == 100_000 * 99_999 // 2
    assert model.coef_[0] > 5.0 * np.abs(model.coef_[1:]).max()


def test_sparse_and_dense_agree() -> None:
    from scipy.sparse import csc_array

    X, y, qid = small_set(21)
    X[np.abs(X) < 0.5] = 0.0
    models = [
        FactorizedRankSVM(2, random_state=0, max_iter=5, tol=1e-9, scaling=None).fit(
            layout(X), y, qid=qid
        )
        for layout in (np.asarray, csr_array, csc_array)
    ]
    for other in models[1:]:
        np.testing.assert_allclose(other.coef_, models[0].coef_, rtol=1e-6)


def test_save_and_load(tmp_path: Any) -> None:
    X, y, qid = small_set(22)
    model = FactorizedRankSVM(
        3, 7.0, n_restarts=2, random_state=np.random.RandomState(0), scaling=None
    )
    model.fit(X, y, qid=qid, eval_set=(X, y, qid))
    model.save(tmp_path / "model.safetensors")
    again = ranksvm.load(tmp_path / "model.safetensors")
    assert isinstance(again, FactorizedRankSVM)
    assert np.array_equal(again.coef_, model.coef_)
    assert np.array_equal(again.factors_, model.factors_)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert (again.n_factors, again.C, again.random_state) == (3, 7.0, None)
    assert again.best_iteration_ == model.best_iteration_
    assert (again.gap_, again.status_) == (model.gap_, model.status_)
    assert again.history_ == []
    assert again.restarts_ == []
    again.save(tmp_path / "again.safetensors")


def test_pickles_and_clones() -> None:
    X, y, qid = small_set(22)
    model = FactorizedRankSVM(3, 7.0, n_restarts=2, random_state=0, scaling=None)
    for options in ({}, {"eval_set": (X, y, qid)}):
        model.fit(X, y, qid=qid, **options)
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.predict(X), model.predict(X))
        assert np.array_equal(again.factors_, model.factors_)
        assert (again.history_, again.restarts_) == (model.history_, model.restarts_)
        assert again.get_params() == model.get_params()
        assert all((row.valid is None) == (not options) for row in again.history_)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")


@pytest.mark.parametrize("shape", [(0, 0), (60, 0), (0, 3)])
def test_a_file_without_factors_is_no_model(shape: Any, tmp_path: Any) -> None:
    X, y, qid = small_set(22)
    model = FactorizedRankSVM(3, random_state=0, scaling=None).fit(X, y, qid=qid)
    model.factors_ = np.empty(shape)
    with pytest.raises(ValueError, match="'factors' must not be empty"):
        model.save(tmp_path / "model.safetensors")
    model.factors_ = np.ones((60, 3))
    model._facts["best_iteration"] = -5
    with pytest.raises(ValueError, match="best_iteration in the facts"):
        model.save(tmp_path / "model.safetensors")


def test_grid_search_over_factors() -> None:
    X, y, qid = small_set(23, n=120, queries=12)
    with ranksvm_routing():
        search = GridSearchCV(
            FactorizedRankSVM(random_state=0, tol=0.05, scaling=None),
            {"n_factors": [1, 3], "C": [1.0, 10.0]},
            cv=GroupKFold(3).set_split_request(groups="qid"),
        ).fit(X, y, qid=qid)
    assert 0.6 < search.best_score_ <= 1.0


def ranksvm_routing() -> Any:
    from sklearn import config_context

    return config_context(enable_metadata_routing=True)


def test_it_learns_to_rank_new_queries() -> None:
    X, y, qid, _ = make_letor_like(40, random_state=0)
    half = np.isin(qid, np.unique(qid)[:25])
    model = FactorizedRankSVM(random_state=0, scaling=None).fit(X[half], y[half], qid=qid[half])
    linear = LinearRankSVM(loss="hinge", scaling=None).fit(X[half], y[half], qid=qid[half])
    rest = (X[~half], y[~half], qid[~half])
    assert model.score(*rest) > 0.6
    assert abs(model.score(*rest) - linear.score(*rest)) < 0.03


@parametrize_with_checks(
    [
        FactorizedRankSVM(random_state=0, tol=0.05, scaling=None),
        FactorizedRankSVM(
            2, loss="squared_hinge", optimizer="lbfgs", tol=0.05, random_state=0, scaling=None
        ),
        FactorizedRankSVM(2, max_iter=20, n_restarts=2, random_state=0, scaling=None),
        FactorizedRankSVM(2, init="linear", tol=0.05, random_state=0, scaling=None),
    ],
    expected_failed_checks=lambda model: {
        f"check_sample_weight_equivalence_on_{layout}_data": "every item draws factors of its own: "
        "a repeated item starts elsewhere than one that weighs double"
        for layout in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# --- Multipliers of the linear machine -----------------------------------------------------------


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("levels", [2, 4])
def test_products_with_the_multipliers(loss: str, levels: int) -> None:
    X, y, qid = small_set(24, levels=levels)
    y = np.maximum(y, 0.0) if levels == 2 else y
    groups = QueryGroups.from_qid(qid, len(y))
    scores = X[:, 0] * 0.8
    terms = multiplier_terms(loss, 0.7)
    multipliers = Multipliers(NativeBackend(PairOrder(y, groups)), scores, terms)
    S = np.zeros((len(y), len(y)))
    for i in range(len(y)):
        for j in range(len(y)):
            if qid[i] == qid[j] and y[i] > y[j]:
                xi = max(0.0, 1.0 - scores[i] + scores[j])
                alpha = 2 * 0.7 * xi if loss == "squared_hinge" else 0.7 * min(xi / 0.1, 1.0)
                S[i, j] = S[j, i] = alpha
    V = np.random.default_rng(0).standard_normal((len(y), 3))
    np.testing.assert_allclose(multipliers.product(V), S @ V, rtol=0, atol=1e-10)
    for rows in np.split(groups.rows, groups.offsets[1:-1]):
        one = query_multipliers(y[rows], scores[rows], terms)
        best_first = rows[np.argsort(-y[rows], kind="stable")]
        expected = np.triu(S[np.ix_(best_first, best_first)])
        np.testing.assert_allclose(one, expected, rtol=0, atol=1e-12)


def test_the_spectrum_of_the_multipliers() -> None:
    X, y, qid = small_set(26, n=90, queries=4, levels=3)
    found = multiplier_spectrum(X, y, qid, C=1e-3, scaling=None)
    # With a tiny C all scores are near zero, all pairs violated by nearly 1: rank one, but for the
    # steps of the levels.
    pairs = [int(np.sum(y[qid == q][:, None] > y[qid == q][None, :])) for q in pd_unique(qid)]
    assert found.n_pairs.tolist() == found.n_violated.tolist() == pairs
    assert (found.rank(0.9) <= 2).all()
    assert (found.full_rank > 5).all()
    assert (found.mean_energy(50)[-1], found.mean_energy(50, shuffled=True)[-1]) == (1.0, 1.0)
    assert (np.diff(found.mean_energy(20)) >= 0.0).all()

    for q, full in zip(pd_unique(qid), found.full_rank, strict=True):
        mine = qid == q
        assert full == structural_rank(csr_array(y[mine][:, None] > y[mine][None, :]))
    for share in (0.0, 1.5):
        with pytest.raises(ValueError, match="share must lie in"):
            found.rank(share)
    assert (found.rank(1.0, shuffled=True) <= found.full_rank).all()

    # What it should be: the multipliers of the squared hinge, pair by pair.
    found = multiplier_spectrum(X, y, qid, C=20.0, scaling=None)
    model = LinearRankSVM(20.0, tol=1e-9, scaling=None).fit(X, y, qid=qid)
    s = model.predict(X)
    for q, energy in zip(pd_unique(qid), found.energy, strict=True):
        mine = qid == q
        up = y[mine][:, None] > y[mine][None, :]
        alpha = np.where(up, np.maximum(0.0, 1.0 - s[mine][:, None] + s[mine][None, :]), 0.0)
        sigma = np.linalg.svd(alpha, compute_uv=False) ** 2
        np.testing.assert_allclose(energy, np.cumsum(sigma)[: len(energy)] / sigma.sum(), atol=1e-4)
    # Structure, not size: dealt anew, the same numbers need a higher rank.
    assert found.rank(0.9).sum() < found.rank(0.9, shuffled=True).sum()


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("C", [0.5, 20.0, 2000.0])
def test_the_multipliers_make_the_weights(loss: str, C: float) -> None:
    X, y, qid = small_set(26, n=90, queries=4, levels=3)
    settings = LinearSettings(C=C, loss=loss, tol=1e-8, max_iter=9999, scaling=None)
    problem = LinearProblem(RankingData(X, y, qid), settings)
    objective = problem.objective(C)
    point = multiplier_point(objective, problem.solve().point, loss)
    s = X @ point.w
    np.testing.assert_allclose(point.scores, s, atol=1e-9)
    xi = np.maximum(0.0, 1.0 - s[:, None] + s[None, :])
    alpha = 2.0 * xi if loss == "squared_hinge" else np.minimum(xi / 0.1, 1.0)
    pair = (qid[:, None] == qid[None, :]) & (y[:, None] > y[None, :])
    alpha = objective.C * np.where(pair, alpha, 0.0)
    w = X.T @ (alpha.sum(axis=1) - alpha.sum(axis=0))
    np.testing.assert_allclose(point.w, w, rtol=0, atol=2e-3 * np.linalg.norm(w))

    found = multiplier_spectrum(X, y, qid, C=C, loss=loss, scaling=None)
    assert found.queries.tolist() == pd_unique(qid)
    for q, energy in zip(pd_unique(qid), found.energy, strict=True):
        sigma = np.linalg.svd(alpha[np.ix_(qid == q, qid == q)], compute_uv=False) ** 2
        np.testing.assert_allclose(energy, np.cumsum(sigma)[: len(energy)] / sigma.sum(), atol=1e-3)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_linear_start_never_stays_at_the_saddle(loss: str) -> None:
    model = FactorizedRankSVM(
        2, init="linear", loss=loss, random_state=0, max_iter=2000, scaling=None
    )
    model.fit(np.eye(4), [3, 2, 1, 0])
    assert model.status_ == "converged"
    for seed in range(20):
        X, y, qid = small_set(seed, n=4 + seed, d=2 + seed % 7, queries=1 + seed % 3)
        if len(np.unique(np.c_[qid, y], axis=0)) == len(np.unique(qid)):
            continue
        for C in (50.0, 1e4):
            fit = FactorizedProblem(
                RankingData(X, y, qid),
                FactorizedSettings(
                    C=C, loss=loss, init="linear", random_state=0, max_iter=200, scaling=None
                ),
            ).solve()  # fmt: skip
            assert fit.n_iter > 0 or fit.status.name == "CONVERGED"
            assert fit.objective < 0.999 * C


def test_no_weights_that_lead_up() -> None:
    X, y, qid = small_set(7)
    objective = make_objective(X, y, qid, "squared_hinge", 0.5).objective
    w = LinearRankSVM(scaling=None).fit(X, y, qid=qid).coef_
    assert best_multiple(objective, -w) == 0.0
    assert best_multiple(objective, 0.0 * w) == 0.0


def test_the_rank_of_one_item_between_many() -> None:
    y = np.array([2.0] + [1.0] * 10 + [0.0])
    found = multiplier_spectrum(np.random.default_rng(0).standard_normal((12, 2)), y, scaling=None)
    assert found.full_rank.tolist() == [2]
    assert found.energy[0][-1] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="at most 5,000 items"):
        multiplier_spectrum(np.zeros((5001, 1)), np.arange(5001), scaling=None)


def pd_unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values.tolist()))


def test_two_levels_get_the_best_approximation() -> None:
    rng = np.random.default_rng(0)
    qid = np.repeat([0, 1], [30, 20])
    y = (rng.random(50) < 0.4).astype(float)
    groups = QueryGroups.from_qid(qid, 50)
    scores = 0.5 * rng.standard_normal(50)
    terms = multiplier_terms("squared_hinge", 1.0)
    V = factorize(Multipliers(NativeBackend(PairOrder(y, groups)), scores, terms), groups, 3)
    for q in (0, 1):
        up, down = np.flatnonzero((qid == q) & (y == 1)), np.flatnonzero((qid == q) & (y == 0))
        A = 2.0 * np.maximum(0.0, 1.0 - scores[up][:, None] + scores[down][None, :])
        left, sigma, right = np.linalg.svd(A)
        best = (left[:, :3] * sigma[:3]) @ right[:3]
        np.testing.assert_allclose(V[up] @ V[down].T, best, atol=1e-3 * sigma[0])


def test_more_factors_than_a_query_has_items() -> None:
    X, y, qid = small_set(30, n=60, queries=12)
    model = FactorizedRankSVM(
        200, init="linear", random_state=0, tol=1e-3, max_iter=2000, scaling=None
    )
    assert model.fit(X, y, qid=qid).status_ == "converged"
    assert model.factors_.shape == (60, 200)
    np.testing.assert_allclose(model.coef_, double_sum(X, y, qid, model.factors_), rtol=1e-9)


@pytest.mark.parametrize(("scale", "C"), [(1e-3, 1e-3), (1e5, 1e7), (1e3, 1e7), (1e5, 1e-3)])
def test_a_linear_start_is_never_worse_than_nothing(scale: float, C: float) -> None:
    X, y, qid = small_set(31)
    settings = FactorizedSettings(
        C=C, init="linear", n_factors=3, random_state=0, max_iter=1, scaling=None
    )
    fit = FactorizedProblem(RankingData(scale * X, y, qid), settings).solve()
    assert fit.history[0].objective <= C * (1.0 + 1e-9)  # F(0)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_start_at_the_linear_multipliers_is_near_the_optimum(loss: str) -> None:
    X, y, qid = small_set(25, n=150, queries=10)
    common = {"C": 2.0, "loss": loss, "random_state": 0, "tol": 1e-3, "max_iter": 2000}
    data = RankingData(X, y, qid)
    starts = {}
    for init in ("random", "linear"):
        fit = FactorizedProblem(data, FactorizedSettings(init=init, **common, scaling=None)).solve()
        starts[init] = fit.history[0].gap / fit.objective
        assert fit.status.name == "CONVERGED"
    assert starts["linear"] < 0.1 < starts["random"]
