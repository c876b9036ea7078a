"""LinearRankSVM as a scikit-learn user meets it."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ranksvm import LinearRankSVM
from ranksvm._vectors import Array
from ranksvm.backends.native import COUNTINGS
from ranksvm.datasets import make_ranking
from ranksvm.metrics import pairwise_accuracy
from ranksvm.solvers.base import TraceRow

REDUCTIONS = ("sum", "mean", "query_mean")
# (loss, solver) of all ways to fit
WAYS = [
    ("squared_hinge", "newton"),
    ("squared_hinge", "bundle"),
    ("hinge", "smoothed_newton"),
    ("hinge", "bundle"),
]
every_way = pytest.mark.parametrize(("loss", "solver"), WAYS)
every_loss = pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
every_reduction = pytest.mark.parametrize("reduction", REDUCTIONS)


@parametrize_with_checks(
    [
        LinearRankSVM(scaling=None),
        LinearRankSVM(reduction="sum", C=0.1, scaling=None),
        LinearRankSVM(reduction="query_mean", counting="tree", scaling=None),
        LinearRankSVM(loss="hinge", scaling=None),
        LinearRankSVM(loss="hinge", solver="smoothed_newton", scaling=None),
        LinearRankSVM(solver="bundle", n_jobs=2, scaling=None),
    ]
)
def test_scikit_learn_checks(estimator: LinearRankSVM, check: Any) -> None:
    """All of them: there is no list of expected failures."""
    check(estimator)


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array, np.ndarray]:
    """Queries of different sizes and ids, rows shuffled."""
    X, y, qid, _ = make_ranking(25, (5, 30), 8, shuffle=True, random_state=0)
    return X, y, qid


def explicit(
    X: Array, y: Array, qid: np.ndarray, weight: Array | None = None
) -> tuple[Array, Array, np.ndarray]:
    """x_better - x_worse of every pair, its weight, and its query."""
    better, worse = np.nonzero((qid[:, None] == qid[None, :]) & (y[:, None] > y[None, :]))
    w = np.ones(len(y)) if weight is None else weight
    return X[better] - X[worse], w[better] * w[worse], qid[better]


def stated_objective(
    model: LinearRankSVM, X: Array, y: Array, qid: np.ndarray, weight: Array | None = None
) -> float:
    """The objective of the documentation at ``coef_``, pair by pair."""
    rows, weights, query = explicit(X, y, qid, weight)
    slack = np.maximum(0.0, 1.0 - rows @ model.coef_)
    loss = slack if model.loss == "hinge" else slack**2
    if model.reduction == "query_mean":
        means = [
            np.average(loss[query == q], weights=weights[query == q])
            for q in np.unique(query)
            if weights[query == q].sum() > 0.0
        ]
        risk = np.mean(means)
    else:
        risk = weights @ loss
        if model.reduction == "mean":
            risk /= weights.sum()
    return 0.5 * float(model.coef_ @ model.coef_) + model.C * float(risk)


# --- What a fit gives ----------------------------------------------------------------------------


@every_way
@every_reduction
def test_objective_and_gap_are_what_they_say(data, loss: str, solver: str, reduction: str) -> None:
    X, y, qid = data
    C = 0.05 if reduction == "sum" else 30.0
    model = LinearRankSVM(C, loss=loss, solver=solver, reduction=reduction, scaling=None).fit(
        X, y, qid
    )
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(stated_objective(model, X, y, qid), rel=1e-10)
    assert 0.0 <= model.gap_ <= model.tol * model.objective_
    best = clone(model).set_params(tol=1e-7).fit(X, y, qid)
    assert model.objective_ - best.objective_ <= model.gap_
    assert best.gap_ <= 1e-7 * best.objective_


@every_loss
@pytest.mark.parametrize("C", [1.0, 1e3, 1e6])
def test_certificate_holds_when_scores_spread_wide(loss: str, C: float) -> None:
    """Hardly any noise and a large C spread the scores over tens of thousands of margins.

    Sums of squared slacks then lose most of their digits when they are taken from sums of scores.
    A fit may end early for that, but it must not claim a gap that it does not know.  The truth
    comes from differences of features, where nothing cancels.
    """
    rng = np.random.default_rng(1)
    X = 100.0 * rng.normal(size=(200, 5))
    y = X @ rng.normal(size=5)
    qid = np.zeros(len(y))
    models = []
    for solver in [solver for of_loss, solver in WAYS if of_loss == loss]:
        model = LinearRankSVM(C, loss=loss, solver=solver, reduction="sum", tol=1e-6, scaling=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # honest
            models.append(model.fit(X, y))
    truth = [stated_objective(model, X, y, qid) for model in models]
    for model, value in zip(models, truth, strict=True):
        slack = model.gap_ + 1e-7 * value
        assert abs(model.objective_ - value) <= slack
        assert value - min(truth) <= slack


@every_way
def test_attributes_of_a_fit(data, loss: str, solver: str) -> None:
    X, y, qid = data
    model = LinearRankSVM(loss=loss, solver=solver, scaling=None).fit(X, y, qid)
    assert model.coef_.shape == (X.shape[1],)
    assert model.coef_.dtype == np.float64
    for value, kind in (
        (model.objective_, float), (model.gap_, float), (model.n_iter_, int),
        (model.n_products_, int), (model.n_pairs_, int), (model.status_, str),
        (model.history_, list),
    ):  # fmt: skip
        assert type(value) is kind
    assert model.n_features_in_ == X.shape[1]
    assert not hasattr(model, "feature_names_in_")
    assert model.n_pairs_ == len(explicit(X, y, qid)[0])
    last = model.history_[-1]
    assert isinstance(last, TraceRow)
    assert last.iteration == model.n_iter_
    assert 0 < last.n_products <= model.n_products_
    objectives = [row.objective for row in model.history_]
    assert objectives == sorted(objectives, reverse=True)


def test_pairs_are_counted_exactly() -> None:
    n = 150_000
    rng = np.random.default_rng(0)
    model = LinearRankSVM(tol=0.5, scaling=None).fit(rng.normal(size=(n, 1)), rng.permutation(n))
    assert model.n_pairs_ == n * (n - 1) // 2 > 2**33
    assert type(model.n_pairs_) is int


def test_learns_what_there_is_to_learn(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(scaling=None).fit(X, y, qid)
    assert model.score(X, y, qid) > 0.8
    X, y, qid, _ = make_ranking(20, 20, 6, noise=0.0, n_levels=None, random_state=1)
    assert LinearRankSVM(C=1e6, scaling=None).fit(X, y, qid).score(X, y, qid) > 0.99


def test_no_qid_is_one_query(data) -> None:
    X, y, _ = data
    together = LinearRankSVM(scaling=None).fit(X, y)
    named = LinearRankSVM(scaling=None).fit(X, y, np.full(len(y), "all"))
    np.testing.assert_array_equal(together.coef_, named.coef_)
    assert together.n_pairs_ == len(explicit(X, y, np.zeros(len(y)))[0])


def test_group_is_another_name_for_qid(data) -> None:
    X, y, qid = data
    expected = LinearRankSVM(scaling=None).fit(X, y, qid=qid)
    np.testing.assert_array_equal(
        LinearRankSVM(scaling=None).fit(X, y, group=qid).coef_, expected.coef_
    )
    np.testing.assert_array_equal(LinearRankSVM(scaling=None).fit(X, y, qid).coef_, expected.coef_)


@pytest.mark.parametrize(
    "as_ids", [lambda q: [f"query {i}" for i in q], lambda q: q * 1000 - 7, list]
)
def test_ids_are_only_names(data, as_ids) -> None:
    X, y, qid = data
    expected = LinearRankSVM(scaling=None).fit(X, y, qid)
    model = LinearRankSVM(scaling=None).fit(X, y, as_ids(qid))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.rank(X, as_ids(qid)), expected.rank(X, qid))


def test_only_the_order_of_the_utilities_counts(data) -> None:
    X, y, qid = data
    expected = LinearRankSVM(scaling=None).fit(X, y, qid)
    for other in (np.exp(3 * y), y.astype(int), y - 10, y > 0 if set(y) == {0, 1} else y * 2):
        np.testing.assert_array_equal(
            LinearRankSVM(scaling=None).fit(X, other, qid).coef_, expected.coef_
        )


def test_arguments_are_left_alone(data) -> None:
    X, y, qid = (np.array(part) for part in data)
    weight = np.random.default_rng(0).random(len(y))
    copies = X.copy(), y.copy(), qid.copy(), weight.copy()
    for order in ("C", "F"):
        frozen = np.array(X, order=order)
        for part in (frozen, y, qid, weight):
            part.setflags(write=False)
        model = LinearRankSVM(scaling=None).fit(frozen, y, qid, sample_weight=weight)
        model.predict(frozen)
        model.score(frozen, y, qid, sample_weight=weight)
    for part, copy in zip((frozen, y, qid, weight), copies, strict=True):
        np.testing.assert_array_equal(part, copy)


# --- The same model, however it is asked for -----------------------------------------------------


@every_way
def test_thread_count_does_not_change_a_bit(data, loss: str, solver: str) -> None:
    X, y, qid = data
    for matrix in (X, np.asfortranarray(X), sp.csr_array(X)):
        models = [
            LinearRankSVM(loss=loss, solver=solver, n_jobs=n_jobs, scaling=None).fit(matrix, y, qid)
            for n_jobs in (1, 2, 3, None, -1)
        ]
        for model in models[1:]:
            np.testing.assert_array_equal(model.coef_, models[0].coef_)
            assert (model.objective_, model.gap_) == (models[0].objective_, models[0].gap_)


@pytest.mark.parametrize("sparse", [False, True])
def test_thread_count_does_not_change_a_bit_of_a_large_model(sparse: bool) -> None:
    """Large enough for threads inside one query and inside the products."""
    n = 80_000
    X, y, _, _ = make_ranking(
        None, n, 20, n_levels=None, density=0.5 if sparse else 1.0, random_state=2
    )
    one, two = (LinearRankSVM(n_jobs=n_jobs, scaling=None).fit(X, y).coef_ for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_fits_side_by_side_do_not_disturb_each_other(data) -> None:
    """Native code runs without the interpreter's lock, and there are no global settings."""
    X, y, qid = data
    models = [LinearRankSVM(C, n_jobs=n, scaling=None) for C in (1.0, 10.0, 50.0) for n in (1, 2)]
    expected = [clone(model).fit(X, y, qid).coef_ for model in models]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda model: model.fit(X, y, qid).coef_, models))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@every_way
@every_reduction
def test_row_order_does_not_change_the_model(data, loss: str, solver: str, reduction: str) -> None:
    X, y, qid = data
    weight = np.random.default_rng(3).random(len(y))
    C = 0.05 if reduction == "sum" else 30.0
    model = LinearRankSVM(C, loss=loss, solver=solver, reduction=reduction, scaling=None)
    expected = clone(model).fit(X, y, qid, sample_weight=weight)
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(y))
        got = clone(model).fit(X[rows], y[rows], qid[rows], sample_weight=weight[rows])
        np.testing.assert_allclose(got.coef_, expected.coef_, rtol=1e-8, atol=1e-8)
        assert got.objective_ == pytest.approx(expected.objective_, rel=1e-9)


@pytest.mark.parametrize("shape", [(40, 30, 6), (100, 60, 120), (1, 40_000, 96)])
def test_row_order_does_not_change_the_model_of_a_larger_set(shape: tuple[int, int, int]) -> None:
    X, y, qid, _ = make_ranking(*shape, n_levels=5, random_state=4)
    expected = LinearRankSVM(scaling=None).fit(X, y, qid).coef_
    rows = np.random.default_rng(5).permutation(len(y))
    got = LinearRankSVM(scaling=None).fit(X[rows], y[rows], qid[rows]).coef_
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@every_loss
def test_every_counting_gives_the_same_model(data, loss: str) -> None:
    X, y, qid = data
    weight = np.random.default_rng(6).random(len(y))
    expected = LinearRankSVM(loss=loss, scaling=None).fit(X, y, qid, sample_weight=weight)
    for counting in COUNTINGS:
        model = LinearRankSVM(loss=loss, counting=counting, scaling=None).fit(
            X, y, qid, sample_weight=weight
        )
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8, atol=1e-8)


@every_way
@pytest.mark.parametrize(
    "layout", [np.asfortranarray, sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix]
)
def test_layout_does_not_change_the_model(data, loss: str, solver: str, layout) -> None:
    X, y, qid = data
    model = LinearRankSVM(loss=loss, solver=solver, tol=1e-7, scaling=None)
    expected = clone(model).fit(X, y, qid)
    got = clone(model).fit(layout(X), y, qid)
    assert got.objective_ == pytest.approx(expected.objective_, rel=2e-7)
    np.testing.assert_allclose(got.coef_, expected.coef_, rtol=0, atol=5e-3)
    np.testing.assert_allclose(got.predict(layout(X)), X @ got.coef_, rtol=0, atol=1e-12)


@every_loss
@pytest.mark.parametrize(
    "layout", [np.ascontiguousarray, np.asfortranarray, sp.csr_array, sp.csc_array]
)
def test_float32_is_the_model_of_the_rounded_features(data, loss: str, layout) -> None:
    X, y, qid = data
    rounded = X.astype(np.float32)
    model = LinearRankSVM(loss=loss, tol=1e-9, scaling=None)
    expected = clone(model).fit(layout(rounded.astype(np.float64)), y, qid)
    got = clone(model).fit(layout(rounded), y, qid)
    np.testing.assert_allclose(got.coef_, expected.coef_, rtol=1e-8, atol=1e-8)
    assert got.coef_.dtype == got.predict(layout(rounded)).dtype == np.float64


# --- Weights and reductions ----------------------------------------------------------------------


@every_way
@every_reduction
def test_sample_weight_is_repetition(data, loss: str, solver: str, reduction: str) -> None:
    X, y, qid = data
    times = np.random.default_rng(7).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    C = 0.05 if reduction == "sum" else 30.0
    # Rounding of weighted sums lets smoothing go only so far.
    tol = 1e-7 if (solver, reduction) == ("smoothed_newton", "query_mean") else 1e-8
    model = LinearRankSVM(C, loss=loss, solver=solver, reduction=reduction, tol=tol, scaling=None)
    weighted = clone(model).fit(X, y, qid, sample_weight=times)
    repeated = clone(model).fit(X[rows], y[rows], qid[rows])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2.0 * tol)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=0, atol=1e-3)
    assert weighted.objective_ == pytest.approx(
        stated_objective(weighted, X, y, qid, times.astype(float)), rel=1e-10
    )


def test_scalar_and_uniform_weights(data) -> None:
    X, y, qid = data
    expected = LinearRankSVM(scaling=None).fit(X, y, qid)  # a mean: the size of the weights cancels
    for weight in (2.0, np.full(len(y), 3.0)):
        model = LinearRankSVM(scaling=None).fit(X, y, qid, sample_weight=weight)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-9)


@every_loss
def test_query_weight_is_a_factor_of_its_pairs(data, loss: str) -> None:
    X, y, qid = data
    first_seen = list(dict.fromkeys(qid.tolist()))
    weights = np.random.default_rng(8).choice([0.0, 1.0, 2.0], len(first_seen))
    model = LinearRankSVM(0.05, loss=loss, reduction="sum", tol=1e-10, scaling=None)
    got = clone(model).fit(X, y, qid, query_weight=weights)
    by_id = clone(model).fit(X, y, qid, query_weight=dict(zip(first_seen, weights, strict=True)))
    np.testing.assert_array_equal(by_id.coef_, got.coef_)
    # Weight 2 is the query twice, under another name; weight 0 is the query left out.
    of_row = np.array([weights[first_seen.index(q)] for q in qid.tolist()])
    parts = [
        (qid[of_row > 0], np.flatnonzero(of_row > 0)),
        (qid[of_row > 1] + 10**6, np.flatnonzero(of_row > 1)),
    ]
    new_qid = np.concatenate([ids for ids, _ in parts])
    rows = np.concatenate([rows for _, rows in parts])
    expected = clone(model).fit(X[rows], y[rows], new_qid)
    assert got.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    np.testing.assert_allclose(got.coef_, expected.coef_, rtol=0, atol=1e-4)


@every_loss
def test_reductions_convert_into_each_other(data, loss: str) -> None:
    X, y, qid = data
    C = 20.0
    n_pairs = len(explicit(X, y, qid)[0])
    model = LinearRankSVM(C, loss=loss, tol=1e-10, scaling=None)
    mean = clone(model).set_params(reduction="mean").fit(X, y, qid)
    total = clone(model).set_params(reduction="sum", C=C / n_pairs).fit(X, y, qid)
    np.testing.assert_allclose(total.coef_, mean.coef_, rtol=1e-9, atol=1e-9)
    assert total.objective_ == pytest.approx(mean.objective_, rel=1e-10)

    of_query = clone(model).set_params(reduction="query_mean").fit(X, y, qid)
    query = explicit(X, y, qid)[2]
    mass = {q: int((query == q).sum()) for q in qid.tolist()}
    judged = sum(m > 0 for m in mass.values())
    weights = {q: 1.0 / m if m else 0.0 for q, m in mass.items()}
    total.set_params(C=C / judged).fit(X, y, qid, query_weight=weights)
    np.testing.assert_allclose(total.coef_, of_query.coef_, rtol=1e-9, atol=1e-9)


def test_strength_in_the_other_notation(data) -> None:
    """J(w) = (1/N) sum loss + lambda |w|^2 has its minimum at the model with C = 1 / (2 lambda)."""
    X, y, qid = data
    lam = 0.01
    model = LinearRankSVM(1.0 / (2.0 * lam), reduction="mean", tol=1e-11, scaling=None).fit(
        X, y, qid
    )
    rows = explicit(X, y, qid)[0]
    slack = np.maximum(0.0, 1.0 - rows @ model.coef_)
    gradient = -2.0 * slack @ rows / len(rows) + 2.0 * lam * model.coef_
    assert np.abs(gradient).max() < 1e-6


def test_given_pairs_count_although_no_labeled_pair_has_weight() -> None:
    weight = [0.0, 0.0, 1.0]
    model = LinearRankSVM(scaling=None).fit_pairs(
        np.eye(3), [0], [1], y=[1, 2, 3], sample_weight=weight
    )
    assert model.n_pairs_ == 1
    assert model.coef_[0] > model.coef_[1]


def test_items_of_no_weight_do_not_count(data) -> None:
    X, y, qid = data
    keep = np.random.default_rng(9).random(len(y)) < 0.7
    expected = LinearRankSVM(tol=1e-10, scaling=None).fit(X[keep], y[keep], qid[keep])
    got = LinearRankSVM(tol=1e-10, scaling=None).fit(X, y, qid, sample_weight=keep.astype(float))
    np.testing.assert_allclose(got.coef_, expected.coef_, rtol=0, atol=1e-5)


def test_queries_without_pairs_do_not_count(data) -> None:
    X, y, qid = data
    expected = LinearRankSVM(scaling=None).fit(X, y, qid)
    lonely = np.vstack([X, X[:3], X[:4] * 5.0])
    more_y = np.concatenate([y, [0.0, 1.0, 2.0], np.full(4, 7.0)])
    more_qid = np.concatenate([qid, [900, 901, 902], np.full(4, 903)])  # single items, one level
    for reduction in REDUCTIONS:
        C = 0.05 if reduction == "sum" else 30.0
        model = LinearRankSVM(C, reduction=reduction, tol=1e-10, scaling=None)
        expected = clone(model).fit(X, y, qid)
        got = clone(model).fit(lonely, more_y, more_qid)
        np.testing.assert_allclose(got.coef_, expected.coef_, rtol=0, atol=1e-5)
        assert got.n_pairs_ == expected.n_pairs_


# --- Convergence ---------------------------------------------------------------------------------


@every_way
def test_iteration_limit_warns_with_solver_gap_and_remedy(data, loss: str, solver: str) -> None:
    X, y, qid = data
    model = LinearRankSVM(loss=loss, solver=solver, max_iter=1, tol=1e-12, scaling=None)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y, qid)
    (warning,) = caught
    text = str(warning.message)
    assert repr(solver) in text
    assert "after 1 iteration with" in text
    assert f"relative gap of {model.gap_ / model.objective_:.2e}" in text
    assert "tol=1e-12" in text
    assert "raise max_iter" in text
    assert "lower C" in text
    assert warning.filename == __file__
    assert model.status_ == "max_iter"
    assert model.n_iter_ == 1
    assert model.gap_ > 0.0
    # Early as it is, the certificate holds.
    best = LinearRankSVM(loss=loss, tol=1e-8, scaling=None).fit(X, y, qid)
    assert model.objective_ - best.objective_ <= model.gap_


def test_parameters_of_numpy_are_told_as_numbers(data) -> None:
    X, y, qid = data
    with pytest.warns(ConvergenceWarning, match=r"which exceeds tol=1e-12 "):
        LinearRankSVM(max_iter=np.int64(1), tol=np.float64(1e-12), scaling=None).fit(X, y, qid)


@every_way
def test_tolerance_beyond_rounding_stalls_with_a_warning(data, loss: str, solver: str) -> None:
    X, y, qid = data
    model = LinearRankSVM(loss=loss, solver=solver, tol=1e-18, scaling=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, qid)
    if model.status_ == "stalled":
        (warning,) = caught
        assert warning.category is ConvergenceWarning
        assert repr(solver) in str(warning.message)
        assert "raise tol" in str(warning.message)
    else:  # the bounds may meet or cross by rounding
        assert model.status_ == "converged"
        assert not caught
    assert model.gap_ <= 1e-8 * model.objective_


@every_way
def test_callback_sees_every_iteration_and_can_stop(data, loss: str, solver: str) -> None:
    X, y, qid = data
    seen: list[tuple[TraceRow, Array]] = []

    def watch(row: TraceRow, coef: Array) -> bool:
        seen.append((row, coef.copy()))
        coef[:] = np.nan  # a copy: nothing to break
        return row.iteration == 3

    model = LinearRankSVM(loss=loss, solver=solver, tol=1e-12, scaling=None).fit(
        X, y, qid, callback=watch
    )
    assert model.status_ == "stopped"
    assert model.n_iter_ == 3
    assert [row for row, _ in seen] == model.history_
    np.testing.assert_array_equal(seen[-1][1], model.coef_)
    best = LinearRankSVM(loss=loss, tol=1e-8, scaling=None).fit(X, y, qid)
    assert model.objective_ - best.objective_ <= model.gap_


def test_callback_error_leaves_the_estimator_usable(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(scaling=None)

    def fail(row: TraceRow, coef: Array) -> None:
        raise RuntimeError("of my own making")

    with pytest.raises(RuntimeError, match="of my own making"):
        model.fit(X, y, qid, callback=fail)
    np.testing.assert_array_equal(
        model.fit(X, y, qid).coef_, LinearRankSVM(scaling=None).fit(X, y, qid).coef_
    )


@every_way
def test_warm_start_goes_on_where_the_last_fit_ended(data, loss: str, solver: str) -> None:
    X, y, qid = data
    model = LinearRankSVM(20.0, loss=loss, solver=solver, warm_start=True, scaling=None).fit(
        X, y, qid
    )
    cold = model.n_products_
    model.fit(X, y, qid)
    if solver != "smoothed_newton":  # it smooths as much as at first before it looks
        assert model.n_products_ < cold
    # From another problem's solution it still ends at this one's.
    model.set_params(C=30.0).fit(X, y, qid)
    expected = LinearRankSVM(30.0, loss=loss, tol=1e-8, scaling=None).fit(X, y, qid)
    assert model.objective_ - expected.objective_ <= model.gap_ <= 1e-4 * model.objective_
    # Other features: it starts anew.
    model.fit(X[:, :5], y, qid)
    assert model.coef_.shape == (5,)


def test_no_warm_start_by_default(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(scaling=None).fit(X, y, qid)
    first = model.coef_
    np.testing.assert_array_equal(model.fit(X, y, qid).coef_, first)
    assert model.coef_ is not first


def test_verbose_logs_and_leaves_no_trace(data, capsys, caplog) -> None:
    X, y, qid = data
    logger = logging.getLogger("ranksvm")
    before = list(logger.handlers), logger.level
    LinearRankSVM(scaling=None).fit(X, y, qid)
    assert not capsys.readouterr().err
    model = LinearRankSVM(verbose=1, scaling=None).fit(X, y, qid)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(model.history_)
    for word in ("newton", "objective", "gap", "products"):
        assert word in lines[-1]
    assert (list(logger.handlers), logger.level) == before
    # A user who listens to the logger gets each line there, and not on the screen as well.
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="ranksvm"):
        LinearRankSVM(verbose=1, scaling=None).fit(X, y, qid)
    assert len(caplog.records) == len(model.history_)
    assert not capsys.readouterr().err


def test_verbose_shows_each_line_once_with_logging_set_up() -> None:
    """As after ``logging.basicConfig()``: the root logger prints what reaches it."""
    code = textwrap.dedent("""
        import logging
        from ranksvm import LinearRankSVM
        logging.basicConfig()
        model = LinearRankSVM(verbose=1).fit([[0.0], [1.0], [3.0]], [0, 1, 2])
        print(len(model.history_))
    """)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(run.stderr.splitlines()) == int(run.stdout)


@pytest.mark.parametrize("how", ["callback", "input"])
def test_a_failed_refit_leaves_the_old_model_at_work(data, how: str) -> None:
    X, y, qid = data
    model = LinearRankSVM(scaling=None).fit(X, y, qid)
    expected = model.predict(X)
    wide = np.hstack([X, X])

    def interrupt(row: TraceRow, coef: np.ndarray) -> None:
        raise KeyboardInterrupt

    if how == "callback":
        with pytest.raises(KeyboardInterrupt):
            model.fit(wide, y, qid, callback=interrupt)
    else:
        with pytest.raises(ValueError, match="rows"):
            model.fit(wide, y[:-1], qid)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.n_features_in_ == X.shape[1]


def test_weighted_smoothed_newton_survives_rounded_counts() -> None:
    """Differences of weighted counts, divided by a tiny width, came out negative here."""
    rng = np.random.default_rng(31)
    n = int(rng.integers(20, 300))
    X = rng.standard_normal((n, 3))
    y = X[:, 0] + 0.1 * rng.standard_normal(n)
    weight = 10 ** rng.uniform(-2, 2, n)
    model = LinearRankSVM(1e6, loss="hinge", solver="smoothed_newton", tol=1e-8, scaling=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=weight)
    best = LinearRankSVM(1e6, loss="hinge", tol=1e-6, scaling=None).fit(X, y, sample_weight=weight)
    assert model.objective_ - model.gap_ <= best.objective_


def test_crossed_bounds_are_not_taken_for_optimality() -> None:
    """Huge offsets of the features make both bounds noisy; a gap of zero would be a false claim."""
    X = np.random.default_rng(0).standard_normal((200, 4)) + 1.7e9
    y = X[:, 0] - 1.7e9
    model = LinearRankSVM(loss="hinge", solver="smoothed_newton", tol=1e-8, scaling=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.gap_ > 0.0


def test_fit_in_a_forked_child_of_a_threaded_parent() -> None:
    """Threads do not survive a fork: the child needs its own."""
    code = textwrap.dedent("""
        import os
        import numpy as np
        from ranksvm import LinearRankSVM
        from ranksvm.datasets import make_cadata_like
        X, y, _, _ = make_cadata_like(100_000, random_state=0)
        coef = LinearRankSVM(n_jobs=2).fit(X, y).coef_
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(LinearRankSVM(n_jobs=2).fit(X, y).coef_, coef) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert run.stdout.strip() == "0", run.stderr


# --- predict, rank, score ------------------------------------------------------------------------


def test_predict_is_linear(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(scaling=None).fit(X, y, qid)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.predict(X[:1].tolist()), X[:1] @ model.coef_, rtol=1e-12)


def test_rank_counts_from_the_best_inside_each_query(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(scaling=None).fit(X, y, qid)
    scores, ranks = model.predict(X), model.rank(X, qid)
    assert ranks.dtype == np.int64
    for q in np.unique(qid):
        rows = np.flatnonzero(qid == q)
        assert sorted(ranks[rows]) == list(range(1, len(rows) + 1))
        for i in rows:
            assert ranks[i] == 1 + sum(
                scores[j] > scores[i] or (scores[j] == scores[i] and j < i) for j in rows
            )
    together = model.rank(X)
    np.testing.assert_array_equal(np.argsort(together), np.argsort(-scores, kind="stable"))


def test_rank_keeps_the_order_of_ties() -> None:
    model = LinearRankSVM(scaling=None).fit([[0.0], [1.0]], [0, 1])
    X = [[1.0], [2.0], [1.0], [2.0], [0.0], [1.0]]
    assert model.rank(X).tolist() == [3, 1, 4, 2, 6, 5]
    assert model.rank(X, ["b", "a", "b", "b", "a", "b"]).tolist() == [2, 1, 3, 1, 2, 4]
    assert model.rank([[7.0]]).tolist() == [1]


def test_score_is_the_pairwise_accuracy(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(scaling=None).fit(X, y, qid)
    weight = np.random.default_rng(10).random(len(y))
    scores = model.predict(X)
    assert model.score(X, y, qid) == pairwise_accuracy(y, scores, qid)
    assert model.score(X, y, np.zeros(len(y))) == pairwise_accuracy(y, scores)
    assert model.score(X, y, qid, sample_weight=weight) == pytest.approx(
        pairwise_accuracy(y, scores, qid, sample_weight=weight), rel=1e-14
    )
    # By hand: of query 0 the one pair is right, of query 1 one of two, ties half.
    model = LinearRankSVM(scaling=None).fit([[0.0], [1.0]], [0, 1])
    X = [[2.0], [1.0], [3.0], [4.0], [3.0]]
    assert model.score(X, [1, 0, 2, 1, 1], [0, 0, 1, 1, 1]) == (1.0 + 0.25) / 2


def test_not_fitted_says_so(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(scaling=None)
    for call in (lambda: model.predict(X), lambda: model.rank(X), lambda: model.score(X, y, qid)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()


# --- scikit-learn's tools ------------------------------------------------------------------------


def test_parameters_are_stored_as_given() -> None:
    params = {
        "C": 3, "loss": "hinge", "reduction": "sum", "pair_weight": "lambda", "gain": "linear",
        "discount": "letor", "truncation": 5, "n_reweight": 2, "scaling": "robust",
        "missing": "impute", "min_frequency": 3, "query_features": ["rank"], "keep_features": False,
        "solver": "bundle", "counting": "tree", "tol": 1e-3, "max_iter": 7,
        "warm_start": True, "n_jobs": 2, "verbose": 1,
    }  # fmt: skip
    model = LinearRankSVM(**params)
    assert model.get_params() == params
    assert clone(model).get_params() == params
    assert LinearRankSVM().set_params(**params).get_params() == params
    with pytest.raises(TypeError):
        LinearRankSVM(1.0, "hinge", scaling=None)


def test_defaults_are_the_documented_ones() -> None:
    assert LinearRankSVM().get_params() == {
        "C": 5.0, "loss": "squared_hinge", "reduction": "mean", "pair_weight": "uniform",
        "gain": "exp2", "discount": "log2", "truncation": 30, "n_reweight": 1, "scaling": "auto",
        "missing": "error", "min_frequency": None, "query_features": (), "keep_features": True,
        "solver": "auto", "counting": "auto", "tol": 1e-4, "max_iter": 1000,
        "warm_start": False, "n_jobs": None, "verbose": 0,
    }  # fmt: skip


def test_fit_changes_no_parameter(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(
        C=np.float32(2.0),
        tol=np.float64(1e-3),
        max_iter=np.int64(50),
        n_jobs=np.int64(1),
        scaling=None,
    )
    before = model.get_params()
    model.fit(X, y, qid)
    assert model.get_params() == before
    for name, value in before.items():
        assert getattr(model, name) is value


def test_clone_is_unfitted_and_equal(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(C=3.0, scaling=None).fit(X, y, qid)
    copy = clone(model)
    assert not hasattr(copy, "coef_")
    np.testing.assert_array_equal(copy.fit(X, y, qid).coef_, model.coef_)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_everything(data, protocol: int) -> None:
    X, y, qid = data
    model = LinearRankSVM(loss="hinge", scaling=None).fit(X, y, qid)
    back = pickle.loads(pickle.dumps(model, protocol=protocol))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.get_params() == model.get_params()
    assert back.history_ == model.history_
    assert (back.objective_, back.gap_, back.status_) == (
        model.objective_,
        model.gap_,
        model.status_,
    )
    assert isinstance(pickle.loads(pickle.dumps(LinearRankSVM(scaling=None))), LinearRankSVM)


def test_pipeline_without_routing(data) -> None:
    X, y, qid = data
    pipe = make_pipeline(StandardScaler(), LinearRankSVM(scaling=None))
    pipe.fit(X, y, linearranksvm__qid=qid)
    expected = LinearRankSVM(scaling=None).fit(StandardScaler().fit_transform(X), y, qid)
    np.testing.assert_array_equal(pipe[-1].coef_, expected.coef_)
    np.testing.assert_array_equal(
        pipe.predict(X), expected.predict(StandardScaler().fit_transform(X))
    )


def test_pipeline_with_routing(data) -> None:
    X, y, qid = data
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = Pipeline([("scale", StandardScaler()), ("rank", LinearRankSVM(scaling=None))])
        pipe.fit(X, y, qid=qid)
        scaled = StandardScaler().fit_transform(X)
        expected = LinearRankSVM(scaling=None).fit(scaled, y, qid)
        np.testing.assert_array_equal(pipe[-1].coef_, expected.coef_)
        assert pipe.score(X, y, qid=qid) == expected.score(scaled, y, qid)


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_grid_search_with_qid_routed(data, in_pipeline: bool) -> None:
    """One keyword reaches the folds, every fit and every score."""
    X, y, qid = data
    with sklearn.config_context(enable_metadata_routing=True):
        estimator: Any = LinearRankSVM(scaling=None)
        grid: dict[str, list] = {"C": [1.0, 50.0]}
        if in_pipeline:
            estimator = make_pipeline(StandardScaler(), estimator)
            grid = {"linearranksvm__C": [1.0, 50.0]}
        folds = GroupKFold(3).set_split_request(groups="qid")
        search = GridSearchCV(estimator, grid, cv=folds, error_score="raise").fit(X, y, qid=qid)
    results = search.cv_results_
    splits = list(GroupKFold(3).split(X, y, groups=qid))
    for c, candidate in enumerate(results["params"]):
        for k, (train, test) in enumerate(splits):
            assert not set(qid[train]) & set(qid[test])
            X_train, X_test = X[train], X[test]
            if in_pipeline:
                scaler = StandardScaler().fit(X_train)
                X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
            by_hand = LinearRankSVM(next(iter(candidate.values())), scaling=None).fit(
                X_train, y[train], qid[train]
            )
            expected = by_hand.score(X_test, y[test], qid[test])
            assert results[f"split{k}_test_score"][c] == pytest.approx(expected, rel=1e-12)
    best = search.best_estimator_[-1] if in_pipeline else search.best_estimator_
    assert best.n_pairs_ == len(explicit(X, y, qid)[0])  # refitted query by query


def test_cross_validate_with_weights_routed(data) -> None:
    X, y, qid = data
    weight = np.random.default_rng(11).random(len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            LinearRankSVM(scaling=None)
            .set_fit_request(sample_weight=True)
            .set_score_request(sample_weight=True)
        )
        folds = GroupKFold(3).set_split_request(groups="qid")
        results = cross_validate(
            model, X, y, cv=folds, params={"qid": qid, "sample_weight": weight}, error_score="raise"
        )
    for k, (train, test) in enumerate(GroupKFold(3).split(X, y, groups=qid)):
        by_hand = LinearRankSVM(scaling=None).fit(
            X[train], y[train], qid[train], sample_weight=weight[train]
        )
        expected = by_hand.score(X[test], y[test], qid[test], sample_weight=weight[test])
        assert results["test_score"][k] == pytest.approx(expected, rel=1e-12)


def test_feature_names_are_kept_and_checked(data) -> None:
    pandas = pytest.importorskip("pandas", reason="feature names come with pandas tables")
    X, y, qid = data
    names = [f"feature {j}" for j in range(X.shape[1])]
    table = pandas.DataFrame(X, columns=names)
    # Rows are matched by position: the index plays no part.
    backwards = np.arange(len(y))[::-1]
    model = LinearRankSVM(scaling=None).fit(
        table, pandas.Series(y, index=backwards), pandas.Series(qid, index=backwards)
    )
    assert model.feature_names_in_.tolist() == names
    np.testing.assert_allclose(
        model.coef_, LinearRankSVM(scaling=None).fit(X, y, qid).coef_, rtol=1e-9
    )
    np.testing.assert_array_equal(
        model.predict(table), model.predict(pandas.DataFrame(X, columns=names))
    )
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[names[::-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    table.iloc[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"column 1 \('feature 1'\): 1 NaN"):
        LinearRankSVM(scaling=None).fit(table, y, qid)


# --- Interruption --------------------------------------------------------------------------------

LONG_FIT = """
    import numpy as np
    from ranksvm import LinearRankSVM

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=({n}, 3)), rng.permutation({n})
    qid = {qid}
    model = LinearRankSVM(counting={counting!r}, n_jobs={n_jobs}, tol=1e-12)
    print("fitting", flush=True)
    try:
        model.fit(X, y, qid)
        print("finished", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    small = X[:50], y[:50]
    again = model.set_params(counting="auto").fit(*small)
    fresh = LinearRankSVM(tol=1e-12).fit(*small)
    assert np.array_equal(again.coef_, fresh.coef_)
    print("usable", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT as a terminal does")
@pytest.mark.parametrize(
    ("counting", "n", "qid", "n_jobs"),
    [
        ("pairs", 200_000, "None", 2),  # one query that has all threads to itself
        pytest.param("pairs", 200_000, "None", 1, marks=pytest.mark.slow),
        # one query of a size that one thread takes
        pytest.param("direct", 60_000, "None", 1, marks=pytest.mark.slow),
        pytest.param("direct", 60_000, "None", 2, marks=pytest.mark.slow),
        ("joachims", 200_000, "np.arange(200_000) % 5", 1),  # queries side by side
        pytest.param("joachims", 200_000, "np.arange(200_000) % 5", 2, marks=pytest.mark.slow),
    ],
)
def test_keyboard_interrupt_ends_a_long_fit(counting: str, n: int, qid: str, n_jobs: int) -> None:
    """The whole fit takes minutes.  The time limit is for slow machines, not a measurement."""
    code = textwrap.dedent(LONG_FIT).format(n=n, qid=qid, counting=counting, n_jobs=n_jobs)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "fitting\n"
            with pytest.raises(subprocess.TimeoutExpired):  # well inside the fit
                process.wait(timeout=0.7)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=10)
        finally:
            process.kill()
    assert (out, err) == ("interrupted\nusable\n", "")
    assert process.returncode == 0
