"""Whitening of kernel matrices, by Cholesky factors and by eigenvectors."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm import KernelRankSVM
from ranksvm._vectors import Array
from ranksvm.datasets import make_ranking
from ranksvm.maps import whitening as module
from ranksvm.maps.features import NystroemBasis, make_nystroem
from ranksvm.maps.kernels import Kernel, kernel_matrix
from ranksvm.maps.whitening import BLOCK, eigenvector_whitening, whitening

RBF = Kernel("rbf", gamma=0.3)
POSITIVE = [RBF, Kernel("laplacian", 0.2), Kernel("linear"), Kernel("poly", 0.5, 1.0, 3)]
every_positive = pytest.mark.parametrize("kernel", POSITIVE, ids=lambda kernel: kernel.name)


def random_items(n: int = 60, d: int = 5, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, d))


def error(basis: Any, kernel: Kernel, X: Any, dtype: Any = np.float64) -> float:
    features = basis.features(X, dtype).astype(np.float64)
    return float(np.abs(features @ features.T - kernel_matrix(kernel, X, X)).max())


def positive(m: int, condition: float, seed: int = 0) -> Array:
    """A symmetric matrix with eigenvalues from 1 down to 1 / condition, evenly on a log scale."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(m, m)))[0]
    W = (U * np.geomspace(1.0, 1.0 / condition, m)) @ U.T
    return 0.5 * (W + W.T)


@given(m=st.integers(1, 12), rank=st.integers(1, 12), seed=st.integers(0, 1000))
def test_whitening_whitens_and_inverts(m: int, rank: int, seed: int) -> None:
    rank = min(m, rank)
    root = np.random.default_rng(seed).normal(size=(m, rank))
    W = root @ root.T
    M = whitening(W).matrix
    assert M.shape[0] == m
    assert M.shape[1] == np.linalg.matrix_rank(W, rtol=1e-12)
    np.testing.assert_allclose(M.T @ W @ M, np.eye(M.shape[1]), atol=1e-4)
    np.testing.assert_allclose(W @ M @ M.T @ W, W, atol=1e-9 * np.abs(W).max())


def test_columns_come_by_descending_eigenvalue_down_to_the_threshold():
    W = np.diag([2.0, 5.0, 1e-5, 3.0])
    whole = eigenvector_whitening(W, threshold=1e-12)
    np.testing.assert_allclose(np.abs(whole).max(axis=0) ** -2, [5.0, 3.0, 2.0, 1e-5])
    assert whitening(W, threshold=1e-3).matrix.shape == (4, 3)


@pytest.mark.parametrize("noise", [1e-16, 1e-12, 1e-8])
def test_what_the_rounding_of_a_kernel_explains_is_dropped(noise: float) -> None:
    """A matrix of rank 3 with errors of some size: all its other eigenvalues are errors."""
    rng = np.random.default_rng(0)
    root, errors = rng.normal(size=(200, 3)), noise * rng.normal(size=(200, 200))
    assert whitening(root @ root.T + errors + errors.T).matrix.shape == (200, 3)


@every_positive
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_duplicates_among_landmarks_do_no_harm(kernel: Kernel, offset: float) -> None:
    if kernel.name in ("linear", "poly"):
        offset = 0.01 * offset
    X = random_items(30) + offset
    M = whitening(kernel_matrix(kernel, X, X)).matrix
    Z = np.concatenate([X, X[:20], X[:5]])
    double = whitening(kernel_matrix(kernel, Z, Z)).matrix
    assert double.shape == (55, M.shape[1])
    once, twice = NystroemBasis(kernel, X, M), NystroemBasis(kernel, Z, double)
    new = random_items(40, seed=1) + offset
    K = kernel_matrix(kernel, new, X)
    scale = np.abs(K).max()
    for basis in (once, twice):
        assert np.abs(basis.features(new) @ basis.features(X).T - K).max() < 1e-8 * scale


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7, 1e-9, 1e-12])
def test_near_duplicates_do_no_harm(distance: float) -> None:
    rng = np.random.default_rng(0)
    X = random_items(40)
    Z = np.concatenate([X, X + distance * rng.normal(size=X.shape)])
    K = kernel_matrix(RBF, Z, Z)
    basis = NystroemBasis(RBF, Z, whitening(K).matrix)
    assert error(basis, RBF, Z) < 1e-9
    assert error(basis, RBF, Z, np.float32) < 1e-6  # rounded after whitening, not before


def test_a_kernel_that_is_not_positive_semidefinite():
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -0\.5, its largest 12\."):
        whitening(np.diag([12.0, 1.0, -0.5]))
    with pytest.raises(ValueError, match="no positive eigenvalue"):
        whitening(np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"not positive semi-definite: .* sigmoid"):
        make_nystroem(random_items(), Kernel("sigmoid", 1.0, -1.0), 30, seed=0)


def test_a_kernel_that_is_not_symmetric():
    def skew(X: Array, Z: Array) -> Array:
        return np.exp(-np.square(X[:, :1] - Z[:, 0])) + 0.1 * (X[:, :1] > Z[:, 0])

    with pytest.raises(ValueError, match=r"symmetric at the landmarks; K\[\d+, \d+\] = .* differ"):
        make_nystroem(random_items(), Kernel(skew), 30, seed=0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_kernel_that_is_not_finite(value: float) -> None:
    W = np.eye(3)
    W[1, 2] = value
    with pytest.raises(ValueError, match=r"not finite .* landmarks 1 and 2 \(1 of 9 values\)"):
        whitening(W)


# Cholesky factors


def is_by_cholesky(M: Array) -> bool:
    """Whether a whitening matrix is triangular."""
    return M.shape[0] == M.shape[1] and not np.tril(M, -1).any()


@pytest.mark.parametrize("m", [1, 2, 63, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 17])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e8])
def test_cholesky_factors_of_any_number_of_blocks(m: int, condition: float) -> None:
    W = positive(m, condition)
    M = whitening(W).matrix
    assert is_by_cholesky(M)
    np.testing.assert_allclose(M.T @ np.linalg.cholesky(W), np.eye(m), atol=1e-14 * condition)
    np.testing.assert_allclose(M.T @ W @ M, np.eye(m), atol=1e-14 * condition)


@given(
    m=st.integers(2, 40),
    exponent=st.floats(0.0, 16.0),
    threshold=st.sampled_from([1e-12, 1e-7]),
    seed=st.integers(0, 1000),
)
def test_what_eigenvectors_drop_is_dropped(
    m: int, exponent: float, threshold: float, seed: int
) -> None:
    """Where nothing has to be dropped both are whitenings, and otherwise eigenvectors are used."""
    W = positive(m, 10.0**exponent, seed)
    M = whitening(W, threshold=threshold).matrix
    by_eigenvectors = eigenvector_whitening(W, threshold=threshold)
    assert M.shape == by_eigenvectors.shape
    if not is_by_cholesky(M):
        np.testing.assert_array_equal(M, by_eigenvectors)
    elif threshold > 1e-8:  # then W is well enough conditioned to compare
        both = M @ M.T, by_eigenvectors @ by_eigenvectors.T
        np.testing.assert_allclose(*both, rtol=1e-6, atol=1e-6 * np.abs(both[0]).max())


def test_a_smallest_eigenvalue_that_no_pivot_shows():
    """All pivots of this matrix are 1, but its smallest eigenvalue is about 4^-n."""
    n = 30
    L = np.eye(n) - np.tril(np.ones((n, n)), -1)
    W = L @ L.T
    assert np.linalg.eigvalsh(W)[0] < 1e-12 * np.linalg.eigvalsh(W)[-1]
    np.testing.assert_allclose(np.diag(np.linalg.cholesky(W)), 1.0)
    M = whitening(W).matrix
    assert not is_by_cholesky(M)
    assert M.shape[1] < n


@pytest.mark.parametrize("m", [100, 3 * BLOCK + 5])
def test_threads_change_neither_a_whitening_nor_its_leading_directions(m: int) -> None:
    W = kernel_matrix(RBF, random_items(m), random_items(m)) + 1e-3 * np.eye(m)

    def arrays(n_threads: int) -> list[Array]:
        M, leading = whitening(W, n_directions=40, n_threads=n_threads)
        assert leading is not None
        assert is_by_cholesky(M)
        return [M, *leading]

    one = arrays(1)
    for n_threads in (2, 7):
        for a, b in zip(one, arrays(n_threads), strict=True):
            np.testing.assert_array_equal(a, b)


# Leading directions


@pytest.mark.parametrize("most", [1, 20, 59, 60, 100])
@pytest.mark.parametrize("threshold", [1e-12, 0.05])
def test_leading_directions_are_orthonormal(most: int, threshold: float) -> None:
    W = kernel_matrix(RBF, random_items(), random_items())
    M, leading = whitening(W, threshold=threshold, n_directions=most)
    assert is_by_cholesky(M) == (threshold < 1e-3)
    assert leading is not None
    k = min(most, M.shape[1])
    assert leading.basis.shape == (M.shape[1], k)
    np.testing.assert_allclose(leading.basis.T @ leading.basis, np.eye(k), atol=1e-14)
    np.testing.assert_allclose(leading.directions, M @ leading.basis, atol=1e-9)
    assert whitening(W, threshold=threshold).leading is None


def test_leading_directions_hold_nearly_as_much_as_those_of_eigenvectors():
    W = kernel_matrix(RBF, random_items(300), random_items(300))
    L = np.linalg.cholesky(W)
    for k in (5, 20, 60):
        leading = whitening(W, n_directions=k).leading
        assert leading is not None
        held = np.linalg.norm(L @ leading.basis) ** 2
        most = np.linalg.eigvalsh(W)[-k:].sum()
        assert most * 0.95 <= held <= most * (1.0 + 1e-12)


@pytest.mark.parametrize("condition", [1e6, 1e9, 1e11])
def test_leading_directions_that_are_nearly_dependent(condition: float) -> None:
    leading = whitening(positive(40, condition), n_directions=30).leading
    assert leading is not None
    np.testing.assert_allclose(leading.basis.T @ leading.basis, np.eye(30), atol=1e-13)


# Fits


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_both_whitenings_give_the_same_model(loss: str) -> None:
    X, y, qid, _ = make_ranking(60, random_state=0)

    def fit() -> Any:
        model = KernelRankSVM(
            10.0, loss=loss, gamma=0.05, approximation="nystroem", n_components=200, tol=1e-7,
            random_state=0,
        )  # fmt: skip
        return model.fit(X, y, qid)

    by_cholesky = fit()
    with mock.patch.object(module, "_safe_factors", return_value=None):
        by_eigenvectors = fit()
    slack = by_cholesky.gap_ + by_eigenvectors.gap_
    assert abs(by_cholesky.objective_ - by_eigenvectors.objective_) <= slack
    scores = by_cholesky.predict(X), by_eigenvectors.predict(X)
    np.testing.assert_allclose(*scores, atol=1e-2 * np.ptp(scores[0]))
    assert not np.array_equal(*scores)  # they are two computations
