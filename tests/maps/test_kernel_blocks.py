"""Kernel matrices in tiles: against NumPy and scikit-learn's pairwise kernels, in every storage."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import pairwise_kernels

from ranksvm import _core
from ranksvm._vectors import Array

GAMMA, COEF0, DEGREE = 0.3, 0.7, 3
# name -> parameters that scikit-learn's kernel of that name takes
KERNELS: dict[str, dict[str, Any]] = {
    "linear": {},
    "poly": {"gamma": GAMMA, "coef0": COEF0, "degree": DEGREE},
    "sigmoid": {"gamma": GAMMA, "coef0": COEF0},
    "rbf": {"gamma": GAMMA},
    "laplacian": {"gamma": GAMMA},
}
STORAGES = ["dense", "int32", "int64"]
every_kernel = pytest.mark.parametrize("name", KERNELS)
every_pair_of_storages = pytest.mark.parametrize(
    ("left", "right"), [(a, b) for a in STORAGES for b in STORAGES]
)


def make_items(n: int, d: int, seed: int, density: float = 0.5) -> Array:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < density)


def rows_of(X: Array, storage: str, shift: Array | None = None) -> Any:
    if storage == "dense":
        return _core.KernelRows.dense(X, shift=shift)
    S = sp.csr_array(X)
    indices, indptr = S.indices.astype(storage), S.indptr.astype(storage)
    return _core.KernelRows.sparse(S.data, indices, indptr, X.shape[1], shift=shift)


def function(name: str, scale: float = 1.0) -> Any:
    return _core.KernelFunction(name, GAMMA, COEF0, DEGREE, scale)


def block(f: Any, A: Any, B: Any, dtype: Any = np.float64, threads: int = 2) -> Array:
    out = np.full((A.shape[0], B.shape[0]), np.nan, dtype)
    _core.kernel_block(f, A, 0, A.shape[0], B, 0, B.shape[0], out, threads)
    return out


def matrix(f: Any, A: Any, height: int, single: bool, held: int = 0, threads: int = 2) -> Any:
    """The kernel matrix of items; every ``held``-th strip is kept, none if that is 0."""
    kept = [bool(held) and k % held == 0 for k in range(-(-A.shape[0] // height))]
    make = _core.KernelStrips32 if single else _core.KernelStrips64
    return make(f, A, height, kept, threads)


def strips(
    f: Any, A: Any, height: int, single: bool, x: Array, held: int = 0, threads: int = 2
) -> Array:
    return matrix(f, A, height, single, held, threads).product(x, threads)


def given_strips(f: Any, A: Any, height: int, dtype: Any, x: Array) -> Array:
    n = A.shape[0]
    y = np.zeros(n)
    for a0 in range(0, n, height):
        a1 = min(a0 + height, n)
        strip = np.empty((a1 - a0, n - a0), dtype)
        _core.kernel_block(f, A, a0, a1, A, a0, n, strip, 1)
        _core.symmetric_strip(strip, a0, x, y, 2)
    return y


@every_kernel
@every_pair_of_storages
def test_blocks_equal_those_of_scikit_learn(name, left, right):
    X, Z = make_items(37, 46, 0), make_items(401, 46, 1)
    expected = pairwise_kernels(X, Z, metric=name, **KERNELS[name])
    got = block(function(name), rows_of(X, left), rows_of(Z, right))
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * abs(expected).max())
    scaled = block(function(name, 2.0), rows_of(X, left), rows_of(Z, right))
    np.testing.assert_array_equal(scaled, 2.0 * got)
    single = block(function(name), rows_of(X, left), rows_of(Z, right), np.float32)
    np.testing.assert_array_equal(single, got.astype(np.float32))


@every_pair_of_storages
def test_fourier_features(left, right):
    X, Z = make_items(37, 300, 0, 0.1), make_items(50, 300, 1, 1.0)
    shift = np.random.default_rng(2).uniform(0.0, 2.0 * np.pi, 50)
    f = _core.KernelFunction("cosine", 2.0, scale=0.5)
    got = block(f, rows_of(X, left), rows_of(Z, right, shift))
    np.testing.assert_allclose(got, 0.5 * np.cos(2.0 * X @ Z.T + shift), atol=1e-12)
    got = block(f, rows_of(X, left, shift[:37]), rows_of(Z, right))
    np.testing.assert_allclose(got, 0.5 * np.cos(2.0 * X @ Z.T), atol=1e-12)


@every_kernel
@every_pair_of_storages
def test_sums_are_those_over_blocks(name, left, right):
    A, B = rows_of(make_items(530, 9, 0), left), rows_of(make_items(800, 9, 1), right)
    coef = np.random.default_rng(2).normal(size=800)
    K = block(function(name), A, B)
    got = _core.kernel_cross(function(name), A, B, coef, 2)
    np.testing.assert_allclose(got, K @ coef, atol=1e-12 * (abs(K) @ abs(coef)).max())
    for threads in (1, 3):
        np.testing.assert_array_equal(_core.kernel_cross(function(name), A, B, coef, threads), got)


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian"])
@pytest.mark.parametrize("d", [1, 46, 300])  # 300 are too many to be kept
def test_packed_rows_give_the_same_bits(name, d):
    B = make_items(1000, d, 2)
    plain, packed = rows_of(B, "dense"), _core.KernelRows.dense(B, threads=2, packed=True)
    coef = np.random.default_rng(3).normal(size=len(B))
    f = function(name)
    everything = block(f, rows_of(make_items(100, d, 1), "dense"), plain)
    for n in (1, 2, 4, 5, 8, 100):  # whole blocks of rows, and parts of one
        A = rows_of(make_items(100, d, 1)[:n], "dense")
        np.testing.assert_array_equal(block(f, A, packed), everything[:n])
        expected = _core.kernel_cross(f, A, plain, coef, 2)
        for threads in (1, 2):
            got = _core.kernel_cross(f, A, packed, coef, threads)
            np.testing.assert_array_equal(got, expected)
        for first, last in ((0, 7), (5, 400), (24, 30), (999, 1000)):
            out = np.empty((n, last - first))
            _core.kernel_block(f, A, 0, n, packed, first, last, out, 1)
            np.testing.assert_array_equal(out, everything[:n, first:last])


@every_kernel
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("single", [False, True])
def test_strips_add_up_to_the_product(name, storage, single):
    f, A = function(name), rows_of(make_items(450, 9, 0), storage)
    x = np.random.default_rng(1).normal(size=450)
    K = block(f, A, A, np.float32 if single else np.float64).astype(np.float64)
    got = strips(f, A, 100, single, x)
    # Sparse distances are symmetric up to rounding, which can be one unit of float32.
    tolerance = 1e-6 if single and storage != "dense" else 1e-12
    np.testing.assert_allclose(got, K @ x, atol=tolerance * (abs(K) @ abs(x)).max())
    for threads in (1, 2, 3, 5, 16):
        for held in (0, 1, 2):
            again = strips(f, A, 100, single, x, held, threads)
            np.testing.assert_array_equal(again, got)
    dtype = np.float32 if single else np.float64
    np.testing.assert_array_equal(given_strips(f, A, 100, dtype, x), got)


@given(
    n=st.integers(0, 60),
    m=st.integers(0, 60),
    d=st.integers(0, 40),
    name=st.sampled_from(sorted(KERNELS)),
    left=st.sampled_from(STORAGES),
    right=st.sampled_from(STORAGES),
    height=st.integers(1, 60),
    seed=st.integers(0, 1000),
)
def test_any_shape(n, m, d, name, left, right, height, seed):
    X, Z = make_items(n, d, seed), make_items(m, d, seed + 1)
    product, difference = X @ Z.T, X[:, None] - Z[None]
    expected = {
        "linear": product,
        "poly": (GAMMA * product + COEF0) ** DEGREE,
        "sigmoid": np.tanh(GAMMA * product + COEF0),
        "rbf": np.exp(-GAMMA * np.square(difference).sum(axis=2)),
        "laplacian": np.exp(-GAMMA * abs(difference).sum(axis=2)),
    }[name]
    f, A, B = function(name), rows_of(X, left), rows_of(Z, right)
    assert A.shape == X.shape
    K = block(f, A, B)
    bound = 1e-12 * abs(expected).max(initial=1.0)
    np.testing.assert_allclose(K, expected, rtol=1e-12, atol=bound)
    coef = np.random.default_rng(seed).normal(size=m)
    np.testing.assert_allclose(
        _core.kernel_cross(f, A, B, coef, 2), K @ coef, atol=bound * max(m, 1) * 4
    )
    x = np.random.default_rng(seed).normal(size=n)
    np.testing.assert_allclose(
        strips(f, A, height, False, x),
        block(f, A, A) @ x,
        atol=1e-12 * max(n, 1) * 4 * abs(block(f, A, A)).max(initial=1.0),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_are_written_into_views(dtype):
    X = make_items(50, 5, 0)
    f, A = function("rbf"), rows_of(X, "dense")
    whole = block(f, A, A, dtype)
    room = np.full((60, 70), -1.0, dtype)
    _core.kernel_block(f, A, 10, 40, A, 5, 50, room[20:50, 3:48], 2)
    expected = np.full((60, 70), -1.0, dtype)
    expected[20:50, 3:48] = whole[10:40, 5:50]
    np.testing.assert_array_equal(room, expected)


def test_empty_ranges_change_nothing():
    f, A = function("rbf"), rows_of(make_items(20, 5, 0), "dense")
    _core.kernel_block(f, A, 3, 3, A, 0, 20, np.empty((0, 20)), 2)
    _core.kernel_block(f, A, 0, 20, A, 7, 7, np.empty((20, 0)), 2)
    x, y = np.ones(20), np.zeros(20)
    _core.symmetric_strip(np.empty((0, 20)), 0, x, y, 2)
    assert not y.any()
    none = rows_of(make_items(0, 5, 0), "dense")
    assert strips(f, none, 10, False, np.empty(0)).shape == (0,)
    assert _core.kernel_cross(f, none, A, x, 2).shape == (0,)
    np.testing.assert_array_equal(_core.kernel_cross(f, A, none, np.empty(0), 2), y)


def test_items_keep_their_arrays_alive():
    def make() -> Any:
        X = make_items(2000, 40, 3)
        return rows_of(X, "dense"), rows_of(X, "int32", np.arange(2000.0))

    dense, sparse = make()
    gc.collect()
    X = make_items(2000, 40, 3)
    f = _core.KernelFunction("cosine")
    got = np.empty((5, 2000))
    _core.kernel_block(f, dense, 0, 5, sparse, 0, 2000, got, 1)
    np.testing.assert_allclose(got, np.cos(X[:5] @ X.T + np.arange(2000.0)), atol=1e-12)


def test_a_product_adds_to_what_is_there():
    f, A = function("rbf"), rows_of(make_items(30, 5, 0), "dense")
    x = np.random.default_rng(0).normal(size=30)
    y = np.arange(30.0)
    _core.symmetric_strip(block(f, A, A), 0, x, y, 1)
    np.testing.assert_allclose(y, np.arange(30.0) + block(f, A, A) @ x, atol=1e-12)


def test_what_does_not_fit_is_refused():
    f, A = function("rbf"), rows_of(make_items(20, 5, 0), "dense")
    wide = rows_of(make_items(20, 6, 0), "int32")
    x, y = np.ones(20), np.zeros(20)
    square = np.zeros((20, 20))
    with pytest.raises(ValueError, match="5 and 6 features"):
        _core.kernel_block(f, A, 0, 20, wide, 0, 20, square, 1)
    with pytest.raises(ValueError, match="5 and 6 features"):
        _core.kernel_cross(f, A, wide, x, 1)
    with pytest.raises(ValueError, match="first axis of out has 20 elements, expected 19"):
        _core.kernel_block(f, A, 1, 20, A, 0, 20, square, 1)
    with pytest.raises(ValueError, match="second axis of out has 20 elements, expected 0"):
        _core.kernel_block(f, A, 0, 20, A, 5, 4, square, 1)
    with pytest.raises(ValueError, match="rows from 1 to 21 were asked for, but there are 20"):
        _core.kernel_block(f, A, 1, 21, A, 0, 20, square, 1)
    with pytest.raises(ValueError, match="not contiguous"):
        _core.kernel_block(f, A, 0, 20, A, 0, 10, square[:, ::2], 1)
    with pytest.raises(TypeError):
        _core.kernel_block(f, A, 0, 20, A, 0, 20, square.astype(np.int64), 1)
    with pytest.raises(ValueError, match="coef has 19 elements, expected 20"):
        _core.kernel_cross(f, A, A, x[:19].copy(), 1)
    with pytest.raises(ValueError, match="x has 19 elements"):
        matrix(f, A, 10, False).product(x[:19].copy(), 1)
    with pytest.raises(ValueError, match="there are 2 strips, but 3 flags"):
        _core.KernelStrips64(f, A, 10, [True] * 3, 1)
    for height in (0, 513):
        with pytest.raises(ValueError, match=f"a strip has 1 to 512 rows, not {height}"):
            _core.KernelStrips64(f, A, height, [True], 1)
    with pytest.raises(ValueError, match="y has 19 elements"):
        _core.symmetric_strip(square, 0, x, y[:19].copy(), 1)
    with pytest.raises(ValueError, match="same array"):
        _core.symmetric_strip(square, 0, x, x, 1)
    with pytest.raises(ValueError, match="x has 20 elements, expected 25"):
        _core.symmetric_strip(square, 5, x, y, 1)
    with pytest.raises(ValueError, match="rows from 10 to 21"):
        _core.symmetric_strip(np.empty((11, 10)), 10, x, y, 1)
    with pytest.raises(ValueError, match="not symmetric"):
        matrix(_core.KernelFunction("cosine"), A, 20, False)
    read_only = np.zeros(20)
    read_only.flags.writeable = False
    with pytest.raises(TypeError):
        _core.symmetric_strip(square, 0, x, read_only, 1)


def test_functions_without_meaning_are_refused():
    with pytest.raises(ValueError, match=r"unknown kernel 'gauss'; valid: linear, poly.* cosine$"):
        _core.KernelFunction("gauss")
    with pytest.raises(ValueError, match=r"'rbf' has gamma = -1\.0.*expected at least 0"):
        _core.KernelFunction("rbf", -1.0)
    with pytest.raises(ValueError, match="'laplacian' has gamma = nan"):
        _core.KernelFunction("laplacian", np.nan)
    with pytest.raises(ValueError, match="'poly' has degree = -1"):
        _core.KernelFunction("poly", degree=-1)
    with pytest.raises(ValueError, match="scale = inf"):
        _core.KernelFunction("linear", scale=np.inf)


def test_broken_items_are_refused():
    data, indices, indptr = np.ones(3), np.array([0, 2, 1]), np.array([0, 2, 3])
    sparse = _core.KernelRows.sparse
    assert sparse(data, indices, indptr, 3).shape == (2, 3)
    with pytest.raises(ValueError, match="shift has 3 elements, expected 2"):
        sparse(data, indices, indptr, 3, shift=np.ones(3))
    with pytest.raises(ValueError, match="factor has 2 elements, expected 3"):
        sparse(data, indices, indptr, 3, factor=np.ones(2))
    with pytest.raises(ValueError, match="indices has 2 elements, expected 3"):
        sparse(data, indices[:2].copy(), indptr, 3)
    for broken in ([], [1, 2, 3], [0, 3, 2], [0, 2, 4]):
        with pytest.raises(ValueError, match="indptr"):
            sparse(data, indices, np.array(broken, dtype=np.int64), 3)
    for columns in ([2, 0, 1], [1, 1, 1], [-1, 1, 1], [0, 3, 1]):
        with pytest.raises(ValueError, match="sum_duplicates"):
            sparse(data, np.array(columns), indptr, 3)
    with pytest.raises(ValueError, match="n_cols is negative"):
        sparse(np.ones(0), np.zeros(0, np.int64), np.zeros(1, np.int64), -1)
    with pytest.raises(ValueError, match="shift has 3 elements, expected 2"):
        _core.KernelRows.dense(np.ones((2, 2)), shift=np.ones(3))
    with pytest.raises(ValueError, match="centre has 3 elements, expected 2"):
        _core.KernelRows.dense(np.ones((2, 2)), centre=np.ones(3))
    with pytest.raises(ValueError, match="offset and factor go together"):
        _core.KernelRows.dense(np.ones((2, 2)), factor=np.ones(2))
    with pytest.raises(TypeError):
        _core.KernelRows.dense(np.ones((2, 2), np.int64))


def test_the_recommended_height_is_a_number_of_rows():
    assert isinstance(_core.kernel_strip_rows, int)
    assert _core.kernel_strip_rows > 0
