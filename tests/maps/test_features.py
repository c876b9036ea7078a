"""Nystrom and Fourier features: inner products that are nearly the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ranksvm._vectors import Array
from ranksvm.maps.features import FourierBasis, NystroemBasis, make_fourier, make_nystroem
from ranksvm.maps.kernels import Kernel, kernel_matrix
from ranksvm.maps.landmarks import LANDMARKS

RBF = Kernel("rbf", gamma=0.3)
LAPLACIAN = Kernel("laplacian", gamma=0.2)
POSITIVE = [RBF, LAPLACIAN, Kernel("linear"), Kernel("poly", 0.5, 1.0, 3)]
every_positive = pytest.mark.parametrize("kernel", POSITIVE, ids=lambda kernel: kernel.name)
every_way = pytest.mark.parametrize("how", LANDMARKS)


def random_items(n: int = 60, d: int = 5, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, d))


def exact(kernel: Kernel, X: Array, Z: Array) -> Array:
    """By the definition, one pair after the other."""
    value = {
        "rbf": lambda x, z: np.exp(-kernel.gamma * ((x - z) ** 2).sum()),
        "laplacian": lambda x, z: np.exp(-kernel.gamma * np.abs(x - z).sum()),
        "linear": lambda x, z: x @ z,
        "poly": lambda x, z: (kernel.gamma * (x @ z) + kernel.coef0) ** kernel.degree,
    }[kernel.function]
    return np.array([[value(x, z) for z in Z] for x in X])


def error(basis: Any, kernel: Kernel, X: Any, dtype: Any = np.float64) -> float:
    features = basis.features(X, dtype).astype(np.float64)
    return float(np.abs(features @ features.T - kernel_matrix(kernel, X, X)).max())


# Nystrom


@pytest.mark.parametrize("d", [2, 5, 10])
def test_raw_features_in_float32_need_the_threshold_of_float32(d: int) -> None:
    X = random_items(300, d)
    K = kernel_matrix(RBF, X, X)

    def rounded(dtype: Any) -> float:
        basis = make_nystroem(X, RBF, 300, seed=0, dtype=dtype)
        features = basis.raw(X, np.float32).astype(np.float64) @ basis.whitening
        return float(np.abs(features @ features.T - K).max())

    assert rounded(np.float32) < 3e-4
    if d == 2:  # hardly any eigenvalue is large
        assert rounded(np.float64) > 10 * rounded(np.float32)


@every_positive
@every_way
def test_with_all_items_as_landmarks_the_kernel_is_exact(kernel: Kernel, how: str) -> None:
    X, new = random_items(), random_items(20, seed=1)
    basis = make_nystroem(X, kernel, len(X), how, seed=0)
    scale = np.abs(exact(kernel, X, X)).max()
    np.testing.assert_allclose(
        basis.features(X) @ basis.features(X).T, exact(kernel, X, X), atol=1e-9 * scale
    )
    np.testing.assert_allclose(
        basis.features(new) @ basis.features(X).T, exact(kernel, new, X), atol=1e-9 * scale
    )


@every_positive
@every_way
@pytest.mark.parametrize("sparse", [False, True])
def test_landmarks_are_exact_and_nothing_is_overestimated(
    kernel: Kernel, how: str, sparse: bool
) -> None:
    """The approximation is a projection: k(x, x) - |phi(x)|^2 >= 0, and = 0 at landmarks."""
    X = np.maximum(0.0, random_items(80, 6))
    basis = make_nystroem(sp.csr_array(X) if sparse else X, kernel, 15, how, seed=0)
    Z = basis.landmarks.toarray() if sparse else basis.landmarks
    at = basis.features(Z)
    np.testing.assert_allclose(at @ at.T, exact(kernel, Z, Z), rtol=1e-8, atol=1e-8)
    square = (basis.features(X) ** 2).sum(axis=1)
    diagonal = np.diagonal(exact(kernel, X, X))
    assert (square <= diagonal * (1 + 1e-8) + 1e-8).all()


def blobs(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    share = np.concatenate([np.full(5, 0.18), np.full(20, 0.005)])
    centres = 3.0 * rng.normal(size=(25, 4))
    return centres[rng.choice(25, size=300, p=share)] + 0.3 * rng.normal(size=(300, 4))


def test_error_falls_with_components_and_better_landmarks():
    def mean_error(m: int, how: str) -> float:
        errors = []
        for seed in range(5):
            X = blobs(seed)
            features = make_nystroem(X, RBF, m, how, seed=seed).features(X)
            K = kernel_matrix(RBF, X, X)
            errors.append(np.linalg.norm(K - features @ features.T) / np.linalg.norm(K))
        return float(np.mean(errors))

    for how in LANDMARKS:
        errors = [mean_error(m, how) for m in (10, 40, 160)]
        assert (np.diff(np.log(errors)) < -0.3).all()
    assert mean_error(60, "kmeans") < 0.7 * mean_error(60, "uniform")
    assert mean_error(60, "leverage") < 0.9 * mean_error(60, "uniform")


# Fourier


@pytest.mark.parametrize("kernel", [RBF, LAPLACIAN], ids=["rbf", "laplacian"])
@pytest.mark.parametrize("orthogonal", [True, False])
def test_fourier_error_falls_with_the_root_of_components(kernel: Kernel, orthogonal: bool) -> None:
    X = random_items(30)
    K = exact(kernel, X, X)
    sizes = np.array([50, 100, 200, 400, 800])

    def rms(m: int) -> float:
        squares = []
        for seed in range(12):
            F = make_fourier(kernel, 5, m, orthogonal=orthogonal, seed=seed).features(X)
            squares.append(((F @ F.T - K) ** 2).mean())
        return float(np.sqrt(np.mean(squares)))

    exponent = np.polyfit(np.log(sizes), np.log([rms(m) for m in sizes]), 1)[0]
    assert -0.6 < exponent < -0.4


@pytest.mark.parametrize("kernel", [RBF, LAPLACIAN], ids=["rbf", "laplacian"])
def test_bias_and_variance_of_pairs_of_cosine_and_sine(kernel: Kernel) -> None:
    """m/2 frequencies: mean k(x - z), variance (1 + k(2 (x - z)) - 2 k(x - z)^2) / m."""
    x, z, m, n_draws = np.array([0.3, -0.2, 0.5]), np.array([-0.4, 0.1, 0.9]), 20, 4000
    k = exact(kernel, x[None], z[None])[0, 0]
    k2 = exact(kernel, 2 * x[None], 2 * z[None])[0, 0]
    rng = np.random.default_rng(0)
    values = np.empty(n_draws)
    for i in range(n_draws):
        basis = make_fourier(kernel, 3, m, orthogonal=False, seed=rng)
        frequencies, shifts = basis.frequencies, basis.shifts
        values[i] = 2 / m * (np.cos(frequencies @ x + shifts) @ np.cos(frequencies @ z + shifts))
    variance = (1 + k2 - 2 * k**2) / m
    assert values.mean() == pytest.approx(k, abs=4 * np.sqrt(variance / n_draws))
    assert values.var() == pytest.approx(variance, rel=0.1)
    assert variance < (1 + k2 / 2 - k**2) / m  # of cosines with phases of their own


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("orthogonal", [True, False])
def test_odd_numbers_of_features_are_not_biased(m: int, orthogonal: bool) -> None:
    x, z = np.array([0.8, -0.2]), np.array([-0.4, 0.1])
    k = exact(RBF, x[None], z[None])[0, 0]
    rng = np.random.default_rng(0)
    values = []
    for _ in range(4000):
        basis = make_fourier(RBF, 2, m, orthogonal=orthogonal, seed=rng)
        frequencies, shifts = basis.frequencies, basis.shifts
        values.append(2 / m * np.cos(frequencies @ x + shifts) @ np.cos(frequencies @ z + shifts))
    assert np.mean(values) == pytest.approx(k, abs=4 * np.std(values) / np.sqrt(4000))


@pytest.mark.parametrize("d", [4, 20])
def test_orthogonal_frequencies_lower_the_error(d: int) -> None:
    kernel = Kernel("rbf", gamma=1.0 / d)
    X = random_items(40, d)
    K = exact(kernel, X, X)

    def mean_square(orthogonal: bool) -> float:
        squares = []
        for seed in range(30):
            F = make_fourier(kernel, d, 2 * d, orthogonal=orthogonal, seed=seed).features(X)
            squares.append(((F @ F.T - K) ** 2).mean())
        return float(np.mean(squares))

    assert mean_square(True) < 0.8 * mean_square(False)


@given(m=st.integers(1, 50), d=st.integers(1, 9), seed=st.integers(0, 1000))
def test_orthogonal_frequencies_are_orthogonal_in_groups(m: int, d: int, seed: int) -> None:
    basis = make_fourier(RBF, d, m, seed=seed)
    frequencies, shifts = basis.frequencies, basis.shifts
    assert frequencies.shape == (m, d)
    assert shifts.shape == (m,)
    np.testing.assert_array_equal(frequencies[: m - m % 2 : 2], frequencies[1::2])
    different = frequencies[::2]
    for first in range(0, len(different), d):
        group = different[first : first + d]
        products = group @ group.T
        lengths = np.sqrt(np.diagonal(products))
        assert (np.abs(products / np.outer(lengths, lengths) - np.eye(len(group))) < 1e-12).all()


def test_orthogonal_frequencies_are_normal_each():
    """Every coordinate, and the length: a chi distribution."""
    frequencies = make_fourier(RBF, 4, 40_000, seed=0).frequencies
    different = frequencies[::2] / np.sqrt(2 * RBF.gamma)
    n = len(different)
    np.testing.assert_allclose(different.mean(axis=0), 0.0, atol=5 / np.sqrt(n))
    np.testing.assert_allclose(np.cov(different.T), np.eye(4), atol=5 * np.sqrt(2 / n))
    np.testing.assert_allclose((different**4).mean(axis=0), 3.0, atol=0.3)
    assert ((different**2).sum(axis=1)).var() == pytest.approx(8.0, rel=0.1)


def test_items_have_length_one():
    X = random_items()
    for kernel in (RBF, LAPLACIAN):
        features = make_fourier(kernel, 5, 64, seed=0).features(X)
        np.testing.assert_allclose((features**2).sum(axis=1), 1.0, rtol=1e-12)


def test_many_more_features_than_components():
    X = sp.random_array((5, 30_000), density=1e-3, format="csr", rng=np.random.default_rng(0))
    basis = make_fourier(Kernel("rbf", gamma=0.01), 30_000, 40, seed=0)
    np.testing.assert_allclose(basis.features(X), basis.features(X.toarray()), atol=1e-10)


@pytest.mark.parametrize("function", ["linear", "poly", "sigmoid", lambda X, Z: X @ Z.T])
def test_kernels_without_a_spectrum(function: Any) -> None:
    with pytest.raises(ValueError, match=r"'rbf' and 'laplacian'; got .* approximation='nystroem'"):
        make_fourier(Kernel(function), 3, 10)
    with pytest.raises(ValueError, match="n_components must be a positive integer; got 0"):
        make_fourier(RBF, 3, 0)


# What all bases do


def bases(X: Any) -> list[Any]:
    nystroem = [make_nystroem(X, RBF, 25, how, seed=0) for how in LANDMARKS]
    fourier = [make_fourier(kernel, X.shape[1], 24, seed=0) for kernel in (RBF, LAPLACIAN)]
    return [*nystroem, *fourier]


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sp.csr_array, sp.csr_matrix])
def test_features_are_raw_features_folded(layout: Any) -> None:
    dense = np.maximum(0.0, random_items(50, 7))
    X = layout(dense)
    for basis in bases(X):
        features = basis.features(X)
        assert features.shape == (50, basis.n_features)
        if isinstance(basis, FourierBasis):
            projected = dense @ basis.frequencies.T + basis.shifts
            np.testing.assert_allclose(features, np.sqrt(2 / 24) * np.cos(projected), atol=1e-12)
            continue
        raw = basis.raw(X)
        assert raw.shape == (50, basis.landmarks.shape[0])
        np.testing.assert_allclose(features, raw @ basis.whitening, atol=1e-9)
        weights = np.random.default_rng(0).normal(size=basis.n_features)
        coef = basis.coef_of(weights)
        scale = np.abs(coef).sum()
        np.testing.assert_allclose(raw @ coef, features @ weights, atol=1e-13 * scale)


def test_float32_features_are_rounded_float64_ones():
    X = random_items(50)
    for basis in bases(X):
        single, double = basis.features(X, np.float32), basis.features(X)
        assert single.dtype == np.float32
        np.testing.assert_array_equal(single, double.astype(np.float32))
        if isinstance(basis, NystroemBasis):
            assert basis.raw(X, np.float32).dtype == np.float32


def test_blocks_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = random_items(100)
    for basis in bases(X):
        expected = basis.features(X)
        for threads in (2, 5):
            np.testing.assert_array_equal(basis.features(X, n_threads=threads), expected)
        with monkeypatch.context() as patch:
            patch.setattr("ranksvm.maps.features.BLOCK_ROWS", 7)
            np.testing.assert_array_equal(basis.features(X), expected)


def test_no_items_no_features():
    for basis in bases(random_items(30)):
        assert basis.features(np.empty((0, 5))).shape == (0, basis.n_features)


def test_more_components_than_items():
    with pytest.warns(UserWarning, match="n_components=61 exceeds .* using n_components=60"):
        basis = make_nystroem(random_items(60), RBF, 61)
    assert len(basis.landmarks) == 60
