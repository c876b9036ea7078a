"""Kernel matrices behind products: strips, precomputed ones, landmarks and the preconditioner."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import ranksvm.maps.gram as gram_module
import ranksvm.maps.kernel as kernel_module
from ranksvm._memory import format_size, parse_memory
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import KernelProblem, KernelSettings
from ranksvm.maps.cholesky import BATCH, pivoted_cholesky
from ranksvm.maps.gram import GivenGram, TiledGram
from ranksvm.maps.kernel import FEWEST_LANDMARKS, KernelMap, preconditioner_rank
from ranksvm.maps.kernels import Kernel, kernel_diagonal, kernel_matrix, kernel_scores
from ranksvm.objective import RankObjective
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.newton import Newton

Array = np.ndarray
RBF = Kernel("rbf", gamma=0.4)
N, DIM = 150, 4


@pytest.fixture
def items() -> Array:
    return np.random.default_rng(0).standard_normal((N, DIM))


@pytest.fixture
def small_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_module, "STRIP_ROWS", 32)
    monkeypatch.setattr(gram_module, "TILE_VALUES", 1024)


def full_size(dtype: str) -> int:
    """Bytes that hold all strips of 32 rows."""
    return sum(min(32, N - k) * (N - k) for k in range(0, N, 32)) * np.dtype(dtype).itemsize


# --- Products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [2**30, 2**20])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "linear", "callable"])
def test_columns_are_what_products_take(
    items: Array, small_strips: None, name: str, sparse: bool, dtype: str, memory: int
) -> None:
    """But for their last bits, also far from zero: a preconditioner takes scores from them."""
    kernel = Kernel(rbf_like if name == "callable" else name, gamma=0.4)
    X: Any = items if sparse else items + 1e5
    gram = TiledGram(sp.csr_matrix(X) if sparse else X, kernel, dtype=dtype, memory=memory)
    some = np.array([0, 3, 31, 32, 77, N - 1])
    columns = gram.columns(some)
    assert columns.dtype == dtype
    for place, item in enumerate(some):
        taken = gram.product(np.eye(N)[item])
        np.testing.assert_allclose(columns[:, place], taken, rtol=0, atol=8e-15 * gram.scale)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "callable"])
def test_products_are_those_of_the_matrix(
    items: Array, small_strips: None, dtype: str, sparse: bool, name: str
) -> None:
    chosen: Any = rbf_like if name == "callable" else name
    kernel = Kernel(chosen, gamma=0.4)
    truth = laplacian_kernel(items, gamma=0.4) if name == "laplacian" else rbf_like(items, items)
    X = sp.csr_matrix(items) if sparse else items
    vectors = np.random.default_rng(1).standard_normal((3, N))
    least = 8 * 2 * 32 * N if name == "callable" else 8 * 2 * 1024 + 8 * N * DIM
    seen: list[float] = []
    products: list[Array] = []
    for share in (0.0, 0.3, 1.0):
        memory = least + int(share * full_size(dtype))
        for n_threads in (1, 2):
            gram = TiledGram(X, kernel, dtype=dtype, memory=memory, n_threads=n_threads)
            seen.append(gram.share_held)
            for x in vectors:
                got = gram.product(x)
                exact = 1e-12 if dtype == "float64" else 1e-5
                np.testing.assert_allclose(got, truth @ x, atol=exact * np.abs(x).sum())
            products.append(np.array([gram.product(x) for x in vectors]))
            np.testing.assert_array_equal(products[-1], products[0])
    assert seen[0] < 0.35 < seen[-1] == 1.0
    some, others = np.array([5, 3, 77]), np.array([0, 149])
    np.testing.assert_allclose(gram.block(some, others), truth[np.ix_(some, others)], atol=1e-7)
    np.testing.assert_allclose(gram.diagonal(), np.diag(truth), atol=1e-12)


def rbf_like(A: Any, B: Any) -> Array:
    return rbf_kernel(A, B, gamma=0.4)


def test_a_given_matrix_is_used_in_part(items: Array) -> None:
    K = rbf_like(items, items)
    some = np.arange(3, N, 2)
    gram = GivenGram(K, some, n_threads=2)
    part = K[np.ix_(some, some)]
    x = np.random.default_rng(1).standard_normal(len(some))
    np.testing.assert_allclose(gram.product(x), part @ x, atol=1e-12)
    np.testing.assert_array_equal(gram.block(np.arange(4), np.array([2])), part[:4, [2]])
    np.testing.assert_array_equal(gram.diagonal(), np.diag(part))


@pytest.mark.parametrize("budget", ["1GB", "2.2MB"])
def test_the_matrix_does_not_outlive_its_problem(items: Array, budget: str) -> None:
    data = RankingData(items, items[:, 0])
    settings = KernelSettings(memory_budget=budget, gamma=0.4)
    gc.disable()
    try:
        problem = KernelProblem(data, settings)
        fit = problem.solve()
        gone = weakref.ref(problem._map.gram)
        del problem, fit
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["linear", "poly", "sigmoid", "rbf", "laplacian", "callable"])
def test_diagonal(items: Array, name: str) -> None:
    chosen: Any = rbf_like if name == "callable" else name
    kernel = Kernel(chosen, gamma=0.3, coef0=0.5, degree=2)
    expected = np.diag(kernel_matrix(kernel, items, items))
    np.testing.assert_allclose(kernel_diagonal(kernel, items), expected, rtol=1e-12)
    if name != "callable":
        np.testing.assert_allclose(kernel_diagonal(kernel, sp.csr_matrix(items)), expected)


def test_scores_are_sums_of_kernels(items: Array) -> None:
    coef = np.random.default_rng(1).standard_normal(N)
    new = items[:40] + 0.2
    expected = rbf_like(new, items) @ coef
    for X in (new, sp.csr_matrix(new), new.astype(np.float32)):
        for Z in (items, sp.csr_matrix(items)):
            for n_threads in (1, 2):
                got = kernel_scores(RBF, X, Z, coef, n_threads=n_threads)
                np.testing.assert_allclose(got, expected, atol=1e-5)
    assert kernel_scores(RBF, new[:0], items, coef).shape == (0,)


# --- Landmarks and the preconditioner ------------------------------------------------------------


def test_pivoted_cholesky(items: Array) -> None:
    K = rbf_like(items, items)
    chosen, features = pivoted_cholesky(np.diag(K), lambda at: K[:, at], 100, 1e-14)
    assert len(set(chosen.tolist())) == len(chosen) == 100
    root = features[chosen]
    np.testing.assert_array_equal(np.triu(root, 1), 0.0)
    np.testing.assert_allclose(root @ root.T, K[np.ix_(chosen, chosen)], atol=1e-10)
    # F F' is the Nystrom approximation of K, which never exceeds K.
    W = K[np.ix_(chosen, chosen)]
    nystroem = K[:, chosen] @ np.linalg.solve(W, K[chosen])
    np.testing.assert_allclose(features @ features.T, nystroem, atol=1e-7)
    left = np.trace(K - features @ features.T)
    rng = np.random.default_rng(3)
    by_chance = []
    for _ in range(10):
        at = rng.permutation(N)[:100]
        W = K[np.ix_(at, at)]
        by_chance.append(np.trace(K - K[:, at] @ np.linalg.solve(W, K[at])))
    assert 0.0 <= left < np.mean(by_chance)


def test_pivoted_cholesky_ends_when_nothing_is_left() -> None:
    """Few distinct items, or few directions, and none of them twice."""
    rng = np.random.default_rng(0)
    few = np.repeat(rng.standard_normal((7, 3)), 20, axis=0)
    K = rbf_kernel(few)
    chosen, features = pivoted_cholesky(np.diag(K), lambda at: K[:, at], 60, 1e-14)
    assert len(chosen) == 7
    np.testing.assert_allclose(features @ features.T, K, atol=1e-10)
    flat = rng.standard_normal((200, 5))
    K = flat @ flat.T
    chosen, features = pivoted_cholesky(np.diag(K), lambda at: K[:, at], BATCH, 1e-13)
    assert len(chosen) == 5
    chosen, features = pivoted_cholesky(np.zeros(4), lambda at: np.zeros((4, len(at))), 3, 0.0)
    assert features.shape == (4, 0)


def test_rank_of_the_preconditioner() -> None:
    assert preconditioner_rank(100, 8, 10**9) == 0
    assert preconditioner_rank(10 * FEWEST_LANDMARKS, 8, 10**9) == FEWEST_LANDMARKS
    assert preconditioner_rank(41_500, 8, 10**9) == kernel_module.MOST_LANDMARKS
    assert preconditioner_rank(10**6, 8, 10**6) == 0


def ranking_objective(rank: int, C: float) -> tuple[RankObjective, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    y = np.digitize(X[:, 0] ** 2 + 0.3 * rng.standard_normal(N), [0.3, 1.0]).astype(float)
    groups = QueryGroups.from_qid(np.arange(N) // 30, N)
    gram = TiledGram(X, Kernel("rbf", gamma=0.05), dtype="float64", memory=10**8)
    loss = LOSSES["squared_hinge"](NativeBackend(PairOrder(y, groups)))
    return RankObjective(KernelMap(gram, rank=rank), loss, C), rbf_kernel(X, gamma=0.05)


@pytest.fixture
def for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the preconditioner at once."""
    monkeypatch.setattr(kernel_module, "STEP_TIME", 0.0)
    monkeypatch.setattr(kernel_module, "VALUE_TIME", 0.0)


def test_preconditioner_is_near_the_inverse_hessian(for_nothing: None) -> None:
    """Self-adjoint and positive in the inner product of the kernel; eigenvalues near one."""
    objective, K = ranking_objective(60, 0.5)
    at = objective.at(objective.point(np.zeros(N)))
    precondition = at.preconditioner()
    assert precondition is not None
    applied = [precondition(objective.point(e)) for e in np.eye(N)]
    inverse = np.column_stack([point.w for point in applied])
    images = np.column_stack([point.scores for point in applied])
    np.testing.assert_allclose(images, K @ inverse, atol=1e-8)
    np.testing.assert_allclose(K @ inverse, (K @ inverse).T, atol=1e-8)
    hessian = np.column_stack([at.hessp(objective.point(e)) for e in np.eye(N)])
    plain = np.linalg.eigvals(hessian).real
    eigenvalues = np.linalg.eigvals(inverse @ hessian).real
    assert eigenvalues.min() > 0.1
    assert eigenvalues.max() / eigenvalues.min() < 0.2 * plain.max() / plain.min()


@pytest.mark.parametrize("globalization", ["line_search", "trust_region"])
def test_preconditioner_saves_products(for_nothing: None, globalization: str) -> None:
    results = []
    for rank in (0, 60):
        objective, _ = ranking_objective(rank, 0.5)
        solver = Newton(tol=1e-8, globalization=globalization)
        results.append(solver.solve(objective, objective.point(np.zeros(N))))
    without, with_it = results
    assert with_it.objective == pytest.approx(without.objective, rel=2e-8)
    assert with_it.n_products < 0.7 * without.n_products


# --- Sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * 10**9), ("512 MB", 512 * 10**6), ("1.5GiB", 3 * 2**29), ("1e3", 1000),
        ("2kib", 2048), (7.9, 7), (10**12, 10**12), ("3T", 3 * 10**12), ("100b", 100),
    ],
)  # fmt: skip
def test_sizes_are_read(text: Any, size: int) -> None:
    assert parse_memory("memory_budget", text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1 XB", "0", None, True, np.inf, np.nan, [1]])
def test_other_sizes_are_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="memory_budget must be a positive number of bytes"):
        parse_memory("memory_budget", text)


def test_sizes_are_told() -> None:
    assert [format_size(size) for size in (17, 2000, 1.5e6, 4e9)] == [
        "17 bytes",
        "2 KB",
        "1.5 MB",
        "4 GB",
    ]
