"""Products with X: the same numbers for every layout, and no copy of what can be read as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ranksvm import _core
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.matrix import MatrixMap
from ranksvm.maps.sample import by_whole_groups


def int64_indices(X: Any) -> Any:
    X = X.copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


# name -> (from a dense matrix, whether the layout can be read as it is)
LAYOUTS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "C order": (np.ascontiguousarray, True),
    "Fortran order": (np.asfortranarray, True),
    "every other row": (lambda X: np.repeat(X, 2, axis=0)[::2], False),
    "every other column": (lambda X: np.repeat(X, 2, axis=1)[:, ::2], False),
    "rows backwards": (lambda X: X[::-1].copy()[::-1], False),
    "CSR": (sp.csr_array, True),
    "CSC": (sp.csc_array, True),
    "CSR matrix": (sp.csr_matrix, True),
    "CSC matrix": (sp.csc_matrix, True),
    "COO": (sp.coo_array, False),
    "CSR, 64-bit indices": (lambda X: int64_indices(sp.csr_array(X)), True),
    "CSC, 64-bit indices": (lambda X: int64_indices(sp.csc_array(X)), True),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_type = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def random_matrix(rows: int, cols: int, density: float, seed: int = 0, dtype=np.float64) -> Array:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, cols)) * (rng.random((rows, cols)) < density)
    return X.astype(dtype)


def check_products(X: Any, dense: Array, n_threads: int = 2, seed: int = 1) -> None:
    """Both products, up to the rounding of sums in float64."""
    rng = np.random.default_rng(seed)
    w, g = rng.normal(size=dense.shape[1]), rng.normal(size=dense.shape[0])
    score_map = MatrixMap(X, n_threads=n_threads)
    exact = dense.astype(np.float64)
    assert score_map.shape == dense.shape
    scores, pullback = score_map.scores(w), score_map.pullback(g)
    assert scores.dtype == pullback.dtype == np.float64
    assert score_map.n_products == 2
    np.testing.assert_allclose(
        scores, exact @ w, rtol=0, atol=1e-14 * (abs(exact) @ abs(w)).max(initial=1)
    )
    np.testing.assert_allclose(
        pullback, exact.T @ g, rtol=0, atol=1e-14 * (abs(exact).T @ abs(g)).max(initial=1)
    )


@every_layout
@every_type
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (3, 17), (50, 40)])
def test_every_layout_gives_the_products(layout: str, dtype: type, shape: tuple[int, int]) -> None:
    dense = random_matrix(*shape, density=0.5, dtype=dtype)
    check_products(LAYOUTS[layout][0](dense), dense)


@every_layout
@given(
    rows=st.integers(0, 20),
    cols=st.integers(0, 20),
    density=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_every_shape_with_empty_rows_and_columns(
    layout: str, rows: int, cols: int, density: float, seed: int
) -> None:
    dense = random_matrix(rows, cols, density, seed)
    dense[::3] = 0.0
    dense[:, 1::4] = 0.0
    check_products(LAYOUTS[layout][0](dense), dense)


@every_layout
@every_type
@pytest.mark.parametrize("shape", [(40_000, 30), (300, 5000)])
def test_large_matrices_are_cut_into_pieces(layout: str, dtype: type, shape) -> None:
    dense = random_matrix(*shape, density=0.5, dtype=dtype)
    dense[100:200] = 0.0
    check_products(LAYOUTS[layout][0](dense), dense)


@every_layout
@every_type
@pytest.mark.parametrize("shape", [(40_000, 30), (300, 5000)])
def test_thread_counts_give_the_same_bits(layout: str, dtype: type, shape) -> None:
    X = LAYOUTS[layout][0](random_matrix(*shape, density=0.5, dtype=dtype))
    rng = np.random.default_rng(2)
    w, g = rng.normal(size=shape[1]), rng.normal(size=shape[0])
    one = MatrixMap(X, n_threads=1)
    for n_threads in (2, 3, 8):
        many = MatrixMap(X, n_threads=n_threads)
        np.testing.assert_array_equal(one.scores(w), many.scores(w))
        np.testing.assert_array_equal(one.pullback(g), many.pullback(g))


def test_uneven_rows_are_cut_by_their_entries() -> None:
    """A few rows hold nearly everything; most are empty."""
    rng = np.random.default_rng(3)
    lengths = np.zeros(3000, dtype=np.int64)
    lengths[[0, 1500, 2999]] = 200_000
    lengths[5::7] = 1
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    X = sp.csr_array(
        (rng.normal(size=indptr[-1]), rng.integers(0, 500, indptr[-1]), indptr), shape=(3000, 500)
    )
    w, g = rng.normal(size=500), rng.normal(size=3000)
    for matrix, x, y in ((X, w, g), (X.T, g, w)):  # the transpose is a CSC matrix
        for n_threads in (1, 2):
            score_map = MatrixMap(matrix, n_threads=n_threads)
            np.testing.assert_allclose(score_map.scores(x), matrix @ x, rtol=0, atol=1e-9)
            np.testing.assert_allclose(score_map.pullback(y), matrix.T @ y, rtol=0, atol=1e-9)


# --- Copies --------------------------------------------------------------------------------------


@every_type
@pytest.mark.parametrize("layout", [name for name, (_, usable) in LAYOUTS.items() if usable])
def test_no_copy_of_a_usable_layout(layout: str, dtype: type) -> None:
    X = LAYOUTS[layout][0](random_matrix(50, 20, 0.5, dtype=dtype))
    stored = MatrixMap(X)._stored
    if sp.issparse(X):
        for mine, theirs in zip(stored[:3], (X.data, X.indices, X.indptr), strict=True):
            assert np.shares_memory(mine, theirs)
    else:
        assert np.shares_memory(stored[0], X)


@pytest.mark.parametrize("layout", ["every other row", "every other column", "rows backwards"])
def test_other_layouts_are_converted_once(layout: str) -> None:
    X = LAYOUTS[layout][0](random_matrix(50, 20, 1.0))
    score_map = MatrixMap(X)
    part = score_map._stored[0]
    assert not np.shares_memory(part, X)
    score_map.scores(np.ones(20))
    assert score_map._stored[0] is part


def test_read_only_input_is_fine_and_stays_as_it_was() -> None:
    dense = random_matrix(30, 10, 0.5)
    for X in (dense.copy(), np.asfortranarray(dense)):
        X.setflags(write=False)
        check_products(X, dense)
        assert np.shares_memory(MatrixMap(X)._stored[0], X)
    X = sp.csr_array(dense)
    for part in (X.data, X.indices, X.indptr):
        part.setflags(write=False)
    check_products(X, dense)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1)])
def test_slices_with_one_row_or_column(shape: tuple[int, int]) -> None:
    """Contiguous by definition, whatever their strides say."""
    big = random_matrix(12, 12, 1.0)
    for X in (big[: shape[0] * 2 : 2, : shape[1]], big.T[: shape[0], : shape[1] * 2 : 2]):
        X = X[: shape[0], : shape[1]]
        check_products(X, np.array(X))


# --- Types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int64, np.uint16, np.bool_, np.float16, ">f8", ">f4", np.longdouble]
)
def test_other_types_become_float64(dtype) -> None:
    dense = np.random.default_rng(4).integers(0, 3, (20, 6)).astype(dtype)
    for X in (dense, sp.csr_array(dense.astype(np.float64)).astype(np.float32)):
        check_products(X, np.asarray(dense, dtype=np.float64))


@pytest.mark.parametrize(
    "layout", ["C order", "Fortran order", "CSR", "CSC", "CSR, 64-bit indices"]
)
def test_sums_of_float32_are_kept_in_float64(layout: str) -> None:
    column = np.array([1e8, 1.0, -1e8], dtype=np.float32)  # 1e8 + 1 = 1e8 in float32
    X = LAYOUTS[layout][0](column[:, None])
    assert MatrixMap(X).pullback(np.ones(3))[0] == 1.0
    X = LAYOUTS[layout][0](column[None, :])
    assert MatrixMap(X).scores(np.ones(3))[0] == 1.0
    # The vector is not rounded to float32 either.
    assert MatrixMap(X).scores(np.array([0.0, 1.0 + 1e-12, 0.0]))[0] == 1.0 + 1e-12
    # A long sum: in float32 it would be off by some percent.
    n = 400_000
    X = LAYOUTS[layout][0](np.full((n, 1), 0.1, dtype=np.float32))
    assert MatrixMap(X).pullback(np.ones(n))[0] == pytest.approx(
        n * float(np.float32(0.1)), rel=1e-13
    )


@pytest.mark.parametrize("mixed", ["indices", "indptr"])
def test_index_types_that_differ(mixed: str) -> None:
    dense = random_matrix(20, 10, 0.4)
    X = sp.csr_array(dense)
    setattr(X, mixed, getattr(X, mixed).astype(np.int64))
    check_products(X, dense)


def test_duplicate_and_unsorted_entries_add_up() -> None:
    X = sp.csr_array(
        (np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    check_products(X, np.array([[2.0, 0.0, 5.0], [0.0, 8.0, 0.0]]))


def test_room_behind_the_last_entry_is_not_read() -> None:
    """SciPy allows data longer than indptr says."""
    X = sp.csr_array((3, 4))
    X.data = np.array([1.0, 2.0, np.nan])
    X.indices = np.array([1, 3, 0], dtype=np.int32)
    X.indptr = np.array([0, 1, 1, 2], dtype=np.int32)
    check_products(X, np.array([[0, 1.0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2.0]]))


@pytest.mark.slow
def test_more_than_two_to_the_31_entries(untouched) -> None:
    n = 2**31 + 10
    data, indices = untouched(n, np.float32), untouched(n, np.int64)
    data[-1], indices[-1] = 3.0, 1
    data[0], indices[0] = 5.0, 1
    X = sp.csr_array((3, 2), dtype=np.float32)
    X.data, X.indices = data, indices
    X.indptr = np.array([0, n - 2, n - 2, n], dtype=np.int64)
    score_map = MatrixMap(X, n_threads=2)
    assert np.shares_memory(score_map._stored[0], data)
    np.testing.assert_array_equal(score_map.scores(np.array([7.0, 2.0])), [10.0, 0.0, 6.0])
    np.testing.assert_array_equal(score_map.pullback(np.array([1.0, 1.0, 10.0])), [0.0, 35.0])


# --- Broken input --------------------------------------------------------------------------------


def broken(change: Callable[[Any], None], layout: str) -> Any:
    X = {"CSR": sp.csr_array, "CSC": sp.csc_array}[layout](random_matrix(6, 6, 0.7))
    change(X)
    return X


def set_part(name: str, place: int, value: int) -> Callable[[Any], None]:
    def change(X: Any) -> None:
        getattr(X, name)[place] = value

    return change


def shorten(name: str) -> Callable[[Any], None]:
    def change(X: Any) -> None:
        setattr(X, name, getattr(X, name)[:-1])

    return change


@pytest.mark.parametrize("layout", ["CSR", "CSC"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(set_part("indices", 2, 6), id="index too large"),
        pytest.param(set_part("indices", 2, -1), id="negative index"),
        pytest.param(set_part("indices", 0, 2**30), id="index far out"),
        pytest.param(set_part("indptr", -1, 10**6), id="end beyond the data"),
        pytest.param(set_part("indptr", 0, 1), id="does not start at 0"),
        pytest.param(set_part("indptr", 0, -1), id="starts below 0"),
        pytest.param(set_part("indptr", 3, 0), id="descends"),
        pytest.param(shorten("indices"), id="indices too short"),
        pytest.param(shorten("indptr"), id="indptr too short"),
    ],
)
def test_broken_sparse_structure_is_refused(layout: str, change: Callable[[Any], None]) -> None:
    with pytest.raises(ValueError, match=r"broken sparse matrix .*\(6, 6\).*Rebuild it"):
        MatrixMap(broken(change, layout))


def test_wrong_lengths_are_refused() -> None:
    for X in (np.ones((4, 3)), np.ones((4, 3), order="F"), sp.csr_array(np.ones((4, 3)))):
        score_map = MatrixMap(X)
        with pytest.raises(ValueError, match="4 elements, expected 3"):
            score_map.scores(np.ones(4))
        with pytest.raises(ValueError, match="3 elements, expected 4"):
            score_map.pullback(np.ones(3))


def test_native_products_take_no_conversion() -> None:
    """The bindings refuse what they would have to copy; the map above decides about copies."""
    with pytest.raises(TypeError):
        _core.dense_product(np.asfortranarray(np.ones((4, 3))), np.ones(3), False, 1)
    with pytest.raises(TypeError):
        _core.dense_product(np.ones((4, 3)), np.ones(3, dtype=np.float32), False, 1)


# --- Scatter of the items inside their queries ---------------------------------------------------


def naive_scatter(X: Array, weight: Array, groups: QueryGroups) -> Array:
    out = np.zeros((X.shape[1], X.shape[1]))
    for q in range(groups.n_queries):
        rows = groups.rows[groups.offsets[q] : groups.offsets[q + 1]]
        w, x = weight[rows], X[rows].astype(np.float64)
        if w.sum() > 0.0:
            x = x - w @ x / w.sum()
            out += (x.T * w) @ x
    return out


DENSE = [name for name in LAYOUTS if "CS" not in name and "COO" not in name]
SPARSE = [name for name in LAYOUTS if name not in DENSE]


@every_type
@pytest.mark.parametrize("layout", DENSE)
@pytest.mark.parametrize(
    ("n", "dim", "n_queries"), [(1, 1, 1), (60, 7, 5), (900, 13, 200), (70, 65, 1)]
)
def test_scatter(layout: str, dtype: type, n: int, dim: int, n_queries: int) -> None:
    rng = np.random.default_rng(5)
    dense = random_matrix(n, dim, 1.0, dtype=dtype)
    groups = QueryGroups.from_qid(rng.integers(0, n_queries, n), n)
    weight = rng.choice([0.0, 0.5, 2.0], n)
    got = MatrixMap(LAYOUTS[layout][0](dense), n_threads=2).scatter([(weight, groups)])
    expected = naive_scatter(dense, weight, groups)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * (1.0 + abs(expected).max()))
    np.testing.assert_array_equal(got, got.T)


@every_type
@pytest.mark.parametrize("layout", [*SPARSE, "C order", "Fortran order"])
def test_scatter_of_many_or_sparse_columns_is_its_diagonal(layout: str, dtype: type) -> None:
    rng = np.random.default_rng(6)
    n, dim = 400, 300
    dense = random_matrix(n, dim, 0.2, dtype=dtype)
    groups = QueryGroups.from_qid(rng.integers(0, 20, n), n)
    weight = np.full(n, 3.0)
    X = LAYOUTS[layout][0](dense)
    got = MatrixMap(X).scatter([(weight, groups)])
    expected = np.diag(naive_scatter(dense, weight, groups))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11 * expected.max())
    for n_threads in (2, 3):
        again = MatrixMap(X, n_threads=n_threads).scatter([(weight, groups)])
        np.testing.assert_array_equal(again, got)


@pytest.mark.parametrize("layout", [*SPARSE, "C order", "Fortran order"])
@pytest.mark.parametrize("dim", [7, 300])
def test_scatter_of_parts_is_their_sum(layout: str, dim: int) -> None:
    """Each with its own groups, also when a part has no weight in the first call."""
    rng = np.random.default_rng(8)
    n = 400
    dense = random_matrix(n, dim, 0.3)
    groups = [QueryGroups.from_qid(rng.integers(0, k, n), n) for k in (5, 40)]
    score_map = MatrixMap(LAYOUTS[layout][0](dense))
    before = score_map.n_products
    # Later weights only scale a diagonal.
    for amounts in ((2.0, 0.0), (1.0, 5.0), (0.0, 0.0), (4.0, 3.0)):
        got = score_map.scatter(
            [(np.full(n, amount), g) for amount, g in zip(amounts, groups, strict=True)]
        )
        expected = sum(
            naive_scatter(dense, np.full(n, amount), g)
            for amount, g in zip(amounts, groups, strict=True)
        )
        if got.ndim == 1:
            expected = np.diag(expected)
            assert score_map.n_products <= before + 4
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11 * (1.0 + expected.max()))


@pytest.mark.parametrize("layout", [*SPARSE, "C order", "Fortran order"])
@pytest.mark.parametrize("dim", [7, 300])
def test_scatter_without_weight_is_nothing_and_no_nan(layout: str, dim: int) -> None:
    """Queries without violated pairs have no weight at all; their items must not matter."""
    n = 400
    groups = QueryGroups.from_qid(np.arange(n) % 20, n)
    weight = np.where(np.arange(n) % 20 < 5, 0.0, 1.0)
    score_map = MatrixMap(LAYOUTS[layout][0](random_matrix(n, dim, 0.3)))
    for some in (weight, np.zeros(n)):
        got = score_map.scatter([(some, groups)])
        assert np.all(np.isfinite(got))
        assert np.all((np.diag(got) if got.ndim == 2 else got) >= 0.0)
    assert not got.any()


@pytest.mark.parametrize("n_queries", [1, 4000])
def test_scatter_of_a_sample_is_near_and_the_same_for_every_thread_count(n_queries: int) -> None:
    rng = np.random.default_rng(7)
    n, dim = 50_000, 60
    X = random_matrix(n, dim, 1.0)
    groups = QueryGroups.from_qid(rng.integers(0, n_queries, n), n)
    weight = rng.random(n)
    got = MatrixMap(X).scatter([(weight, groups)])
    for n_threads in (2, 3):
        np.testing.assert_array_equal(
            MatrixMap(X, n_threads=n_threads).scatter([(weight, groups)]), got
        )
    expected = naive_scatter(X, weight, groups)
    ratios = np.linalg.eigvals(np.linalg.solve(expected, got)).real
    assert 0.7 < ratios.min() <= ratios.max() < 1.4


def test_whole_groups_are_sampled_only_if_there_are_many_and_none_is_huge() -> None:
    n, step = 64_000, 4
    many = QueryGroups.from_qid(np.arange(n) // 100, n)
    assert by_whole_groups(many, step)
    assert not by_whole_groups(QueryGroups.from_qid(np.arange(n) // 1000, n), step)
    one_huge = QueryGroups.from_qid(np.maximum(0, np.arange(n) // 100 - 200), n)
    assert one_huge.n_queries >= 64 * step
    assert not by_whole_groups(one_huge, step)
