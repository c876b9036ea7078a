"""Kernels where numbers are hard: offsets, outliers, few digits, no kernels; and BLAS threads."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_info

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm._threads import one_blas_thread
from ranksvm.kernel_approximation import Nystroem
from ranksvm.maps.gram_checks import check_gram
from ranksvm.maps.kernels import resolve_gamma

Array = np.ndarray
N = 40


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(N), [-0.5, 0.5]).astype(float)
    return X, y


def quiet_fit(model: KernelRankSVM, X: Any, y: Array) -> KernelRankSVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an early end that says so is fine
        return model.fit(X, y)


# --- The certificate -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("offset", [0.0, 100.0, 1e6, 1e9])
def test_linear_kernel_of_items_far_away(data, dtype: str, offset: float) -> None:
    X, y = data
    truth = LinearRankSVM(1e3, tol=1e-9, scaling=None).fit(X, y)
    model = quiet_fit(KernelRankSVM(1e3, kernel="linear", dtype=dtype, scaling=None), X + offset, y)
    slack = 1e-6 * truth.objective_ * max(1.0, offset / 1e3)  # of X + offset itself
    assert abs(model.objective_ - truth.objective_) <= model.gap_ + slack
    assert (model.status_ == "converged") == (model.gap_ <= 1.01e-4 * model.objective_)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("gamma", [1e-3, 1e-6, 1e-9, 1e-12])
def test_certificate_of_kernels_that_hardly_tell_items_apart(
    data, dtype: str, gamma: float
) -> None:
    """For gamma -> 0 and C ~ 1 / gamma the rbf kernel becomes the linear one: a finite limit."""
    X, y = data
    limit = LinearRankSVM(20.0, tol=1e-9, scaling=None).fit(X, y).objective_ / 20.0
    model = quiet_fit(KernelRankSVM(10.0 / gamma, gamma=gamma, dtype=dtype, scaling=None), X, y)
    value, gap = model.objective_ * gamma / 10.0, model.gap_ * gamma / 10.0
    assert value - gap <= limit + 50.0 * gamma
    assert value >= limit - 50.0 * gamma - gap
    if dtype == "float64" and gamma >= 1e-6:
        assert model.status_ == "converged"


@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_polynomials_of_unscaled_features_end_honestly(data, gamma: float) -> None:
    X, y = data
    model = quiet_fit(
        KernelRankSVM(1e3, kernel="poly", gamma=gamma, max_iter=200, scaling=None), X + 1000.0, y
    )
    assert model.status_ != "converged"
    assert model.gap_ > 1e-4 * model.objective_


# --- Digits --------------------------------------------------------------------------------------


def test_an_item_far_away_does_no_harm(data) -> None:
    X, y = data
    plain = KernelRankSVM(30.0, gamma=0.2, tol=1e-8, scaling=None).fit(X, y)
    for far in (1e8, 1e12):
        more = np.vstack([X, np.full(3, far)])
        model = KernelRankSVM(30.0, gamma=0.2, tol=1e-8, scaling=None)
        model.fit(more, np.append(y, 0.0), qid=np.append(np.zeros(N), 1))
        np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-4)
        # And when it takes part in pairs.
        with_it = quiet_fit(KernelRankSVM(30.0, gamma=0.2, scaling=None), more, np.append(y, 0.0))
        assert np.isfinite(with_it.objective_)


def test_sparse_items_are_scored_like_dense_ones_far_away(data) -> None:
    X, y = data
    model = KernelRankSVM(30.0, gamma=0.2, scaling=None).fit(X + 1e7, y)
    dense = model.predict(X + 1e7)
    np.testing.assert_allclose(model.predict(sp.csr_matrix(X + 1e7)), dense, atol=1e-9)


def test_gamma_scale(data) -> None:
    X, _ = data
    weight = np.random.default_rng(0).random(N)
    mean = np.average(X, axis=0, weights=weight).mean()
    weighted = 1.0 / (3 * np.average((X - mean) ** 2, axis=0, weights=weight).mean())
    for scale, offset in ((1.0, 0.0), (1e20, 0.0), (1.0, 1e4)):
        moved = (scale * X + offset).astype(np.float32).astype(np.float64)
        for form in (moved, moved.astype(np.float32), sp.csr_matrix(moved)):
            for items in (form, sp.csr_matrix(form).astype(np.float32)):
                assert resolve_gamma("scale", items) == pytest.approx(
                    1.0 / (3 * moved.var()), rel=1e-6
                )
                assert resolve_gamma("scale", items, weight) == pytest.approx(
                    weighted / scale**2, rel=1e-2
                )
    halves = sp.csr_matrix(
        (np.repeat(X, 2) / 2, np.tile([0, 0, 1, 1, 2, 2], N), np.arange(N + 1) * 6)
    )
    assert not halves.has_canonical_format  # every entry is stored as two halves
    assert resolve_gamma("scale", halves) == pytest.approx(1.0 / (3 * X.var()))
    assert resolve_gamma("scale", np.ones((4, 2))) == 1.0
    with pytest.raises(ValueError, match=r"variance of X is .*Scale the features"):
        resolve_gamma("scale", 1e-170 * X)
    with (
        pytest.raises(ValueError, match=r"variance of X is .*Scale the features"),
        np.errstate(over="ignore"),
    ):
        resolve_gamma("scale", 1e170 * X)


# --- No kernels ----------------------------------------------------------------------------------


def test_sigmoid_is_refused_where_it_is_no_kernel_and_right_where_it_is(data) -> None:
    X, y = data
    for gamma, coef0 in ((0.1, 0.0), (0.5, 1.0), (3.0, -1.0)):
        with pytest.raises(ValueError, match=r"sigmoid is not positive semi-definite.*coef0"):
            KernelRankSVM(kernel="sigmoid", gamma=gamma, coef0=coef0, scaling=None).fit(X, y)
    small = 0.1 * X
    K = np.tanh(0.1 * small @ small.T - 1.0)
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    model = KernelRankSVM(1e4, kernel="sigmoid", gamma=0.1, coef0=-1.0, tol=1e-8, scaling=None).fit(
        small, y
    )
    # The same ranking problem with a constant added, which no pair can see.
    values, vectors = np.linalg.eigh(centred)
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    truth = LinearRankSVM(1e4, tol=1e-8, scaling=None).fit(features, y)
    assert np.linalg.eigvalsh(K)[0] < -1.0
    assert model.objective_ == pytest.approx(truth.objective_, rel=1e-5)


def test_callables_that_are_no_kernels(data) -> None:
    X, y = data

    def skew(A: Array, B: Array) -> Array:
        return rbf_kernel(A, B) + 0.1 * A[:, :1]

    with pytest.raises(ValueError, match=r"kernel skew must be symmetric; K\["):
        KernelRankSVM(kernel=skew, scaling=None).fit(X, y)
    with pytest.raises(ValueError, match="is not positive semi-definite on these items"):
        KernelRankSVM(kernel=lambda A, B: np.sin(3.0 * A @ B.T), scaling=None).fit(X, y)
    with pytest.raises(ValueError, match="must return real numbers; got values of type complex"):
        KernelRankSVM(kernel=lambda A, B: rbf_kernel(A, B) + 0j, scaling=None).fit(X, y)
    flat = KernelRankSVM(
        C=1.0, kernel=lambda A, B: rbf_kernel(A, B).astype(np.float32).tolist(), scaling=None
    )
    named = KernelRankSVM(C=1.0, gamma=1.0 / 3.0, scaling=None).fit(X, y)
    np.testing.assert_allclose(flat.fit(X, y).predict(X), named.predict(X), atol=1e-5)


def test_a_matrix_of_zeros_is_a_kernel() -> None:
    assert check_gram(np.zeros((1500, 1500))).shape == (1500, 1500)
    y = np.arange(4.0)
    model = KernelRankSVM(kernel="precomputed", C=2.0, scaling=None).fit(np.zeros((4, 4)), y)
    assert model.objective_ == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"degree": 10**23}, "degree must be at most 100"),
        ({"random_state": -1}, "random_state must be None or a non-negative integer; got -1"),
        ({"approximation": "nystroem", "n_components": 40, "memory_budget": "30kB"}, "64 KB"),
    ],
)
def test_parameters_out_of_range(data, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelRankSVM(**params, scaling=None).fit(*data)


def test_a_failed_refit_of_a_transformer_leaves_the_older_one(data) -> None:
    X, _ = data
    model = Nystroem(n_components=10, random_state=0).fit(X)
    before = model.transform(X)
    with pytest.raises(ValueError, match="n_components must be a positive integer"):
        model.set_params(n_components=0).fit(X[:, :2])
    np.testing.assert_array_equal(model.transform(X), before)


# --- BLAS threads --------------------------------------------------------------------------------


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_the_threads_of_the_blas_come_back() -> None:
    """Whoever goes last lifts the limit, in whatever order they came."""
    before = blas_threads()
    first, second = threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def early() -> None:
        with one_blas_thread():
            first.set()
            second.wait(10)
        seen.append(blas_threads())

    worker = threading.Thread(target=early)
    worker.start()
    first.wait(10)
    with one_blas_thread():
        second.set()
        worker.join(10)
        seen.append(blas_threads())
    assert seen == [{1}, {1}]
    assert blas_threads() == before
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        raise KeyboardInterrupt
    assert blas_threads() == before


@pytest.mark.parametrize("sparse", [False, True])
def test_half_as_many_digits_of_items_cost_no_bits_of_their_scores(data, sparse: bool) -> None:
    """Scores of float32 items are those of the same numbers in float64."""
    X, y = data
    single = X.astype(np.float32)
    given = sp.csr_matrix(single) if sparse else single
    model = KernelRankSVM(30.0, gamma=0.2, scaling=None).fit(given, y)
    np.testing.assert_array_equal(model.predict(given), model.predict(given.astype(np.float64)))
    again = KernelRankSVM(30.0, gamma=0.2, scaling=None).fit(given.astype(np.float64), y)
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
