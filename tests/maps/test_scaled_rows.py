"""Features that are scaled inside the tiles of a kernel matrix give the bits of a scaled copy."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel

from ranksvm import KernelRankSVM
from ranksvm.data.scaled_rows import ScaledCSR, ScaledRows, scaled_rows, some_rows
from ranksvm.data.scaling import Affine, scaling_of
from ranksvm.datasets import make_ranking
from ranksvm.maps import kernels
from ranksvm.maps.gram import TiledGram
from ranksvm.maps.kernels import Kernel, kernel_matrix, kernel_scores, resolve_gamma

KERNELS = [
    Kernel("rbf", gamma=0.3),
    Kernel("laplacian", gamma=0.2),
    Kernel("poly", gamma=0.1, coef0=1.0),
    Kernel("linear"),
    Kernel(partial(linear_kernel, dense_output=True)),
]
LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "every second": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "CSR": sp.csr_matrix,
    "CSR, float32": lambda X: sp.csr_matrix(X.astype(np.float32)),
    "CSR, int64": lambda X: _wide(sp.csr_matrix(X)),
}


def _wide(X: Any) -> Any:
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def items(n: int = 60, d: int = 7, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d) + rng.normal(size=d)
    X[:, 2] = 5.0  # constant
    return np.where(rng.random((n, d)) < 0.3, 0.0, X)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda one: one.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_of_scaled_rows(layout: str, kernel: Kernel) -> None:
    X, Z = LAYOUTS[layout](items()), LAYOUTS[layout](items(25, seed=1))
    scaling = scaling_of("standard", X)
    lazy, other = scaled_rows(X, scaling), scaled_rows(Z, scaling)
    assert type(lazy) is (ScaledCSR if sp.issparse(X) else ScaledRows)
    scaled, scaled_z = scaling.apply(X), scaling.apply(Z)
    expected = kernel_matrix(kernel, scaled, scaled_z)
    if kernel.called is None:
        np.testing.assert_array_equal(kernel_matrix(kernel, lazy, other, n_threads=2), expected)
        np.testing.assert_array_equal(kernel_matrix(kernel, scaled, other), expected)
        coef = np.random.default_rng(2).normal(size=25)
        np.testing.assert_array_equal(
            kernel_scores(kernel, lazy, other, coef),
            kernel_scores(kernel, scaled, scaled_z, coef),
        )
    np.testing.assert_array_equal(kernel_matrix(kernel, lazy, scaled_z), expected)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda one: one.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_scaled_rows(layout: str, kernel: Kernel) -> None:
    X = LAYOUTS[layout](items())
    scaling = scaling_of("minmax", X)
    lazy, copied = (
        TiledGram(one, kernel, dtype="float64", memory=10**8)
        for one in (scaled_rows(X, scaling), scaling.apply(X))
    )
    x = np.random.default_rng(3).normal(size=60)
    np.testing.assert_array_equal(lazy.product(x), copied.product(x))
    some = np.array([3, 50, 17])
    for rows in (some, np.arange(60)):
        np.testing.assert_array_equal(lazy.block(rows, some), copied.block(rows, some))
    np.testing.assert_array_equal(lazy.columns(some), copied.columns(some))
    np.testing.assert_array_equal(lazy.diagonal(), copied.diagonal())
    full = lazy.block(np.arange(60), np.arange(60))
    np.testing.assert_allclose(full @ x, lazy.product(x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.diag(full), lazy.diagonal(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gamma_of_scaled_rows(layout: str, weighted: bool) -> None:
    X = LAYOUTS[layout](items())
    scaling = scaling_of("standard", X)
    weight = np.arange(60.0) if weighted else None
    expected = resolve_gamma("scale", scaling.apply(X), weight)
    assert resolve_gamma("scale", scaled_rows(X, scaling), weight) == expected


def test_constant_features_have_gamma_1() -> None:
    X = np.ones((5, 2))
    assert resolve_gamma("scale", scaled_rows(X, scaling_of("standard", X))) == 1.0


def test_some_rows_and_offsets() -> None:
    X = items()
    scaling = scaling_of("standard", X)
    some = np.array([5, 2])
    np.testing.assert_array_equal(
        some_rows(scaled_rows(X, scaling), some)[:], scaling.apply(X)[some]
    )
    # Offsets make sparse items dense.
    made = scaled_rows(sp.csr_matrix(X), scaling)
    np.testing.assert_array_equal(made, scaling.apply(X))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kernel": "laplacian"},
        {"kernel": "poly", "degree": 2},
        {"approximation": "nystroem", "n_components": 40, "random_state": 0},
        {"approximation": "fourier", "n_components": 40, "random_state": 0},
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_a_fit_makes_no_scaled_copy(monkeypatch: pytest.MonkeyPatch, settings, form) -> None:
    X, y, qid, _ = make_ranking(60, n_features=5, random_state=0)
    y[qid >= 3] = 0.0  # only some of the items are in pairs, and become points of the model
    seen = []
    apply = Affine.apply

    def recorded(self: Affine, X: Any, *args: Any, **options: Any) -> Any:
        seen.append(X.shape[0])
        return apply(self, X, *args, **options)

    monkeypatch.setattr(Affine, "apply", recorded)
    monkeypatch.setattr(kernels, "BLOCK_ROWS", 50)
    model = KernelRankSVM(scaling="standard", **settings).fit(form(X), y, qid)
    assert max(seen, default=0) <= max(50, int((qid < 3).sum())) < X.shape[0] // 2
    assert model.n_pairs_ > 0
