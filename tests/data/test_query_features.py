"""Features of items relative to their query, against the definitions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_features import (
    QUERY_FEATURES,
    append_query_features,
    check_query_features,
    query_feature_names,
    query_features,
)

ALL = tuple(QUERY_FEATURES)
LARGEST = float(np.finfo(np.float64).max)
TINIEST = 5e-324


def column_features(x: Array) -> dict[str, Array]:
    """The definitions, for one column of one query, in NumPy and SciPy."""
    mean, deviation, low = x.mean(), x.std(), x.min()
    differ = x.max() > low
    return {
        "rank": scipy.stats.rankdata(x, method="average") / x.shape[0],
        "minmax": (x - low) / (x.max() - low) if differ else 0.0 * x,
        "zscore": (x - mean) / deviation if differ else 0.0 * x,
        "mean_diff": x - mean if differ else 0.0 * x,
    }


def brute_force(X: Any, qid: Any, names: Sequence[str] = ALL) -> Array:
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    out = np.empty((X.shape[0], len(names), X.shape[1]))
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        for c in range(X.shape[1]):
            found = column_features(X[rows, c])
            for k, name in enumerate(names):
                out[rows, k, c] = found[name]
    return out.reshape(X.shape[0], -1)


def exact_column(x: Array) -> dict[str, list[Fraction]]:
    """The definitions in rational arithmetic; of "zscore", the square with its sign."""
    values = [Fraction(float(one)) for one in x]
    n, low, high = len(values), min(values), max(values)
    mean = sum(values) / n
    variance = sum((one - mean) ** 2 for one in values) / n
    zero = [Fraction(0)] * n
    return {
        "rank": [
            Fraction(2 * sum(b < a for b in values) + sum(b == a for b in values) + 1, 2 * n)
            for a in values
        ],
        "minmax": [(a - low) / (high - low) for a in values] if high > low else zero,
        "zscore": [(a - mean) * abs(a - mean) / variance for a in values] if high > low else zero,
        "mean_diff": [a - mean for a in values],
    }


def groups_of(qid: Any) -> QueryGroups:
    return QueryGroups.from_qid(np.asarray(qid), len(qid))


def random_items(
    sizes: Sequence[int], n: int, seed: int = 0, *, ties: bool = True
) -> tuple[Array, NDArray[np.int64]]:
    """Items of queries in no order."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    rng.shuffle(qid)
    X = rng.normal(size=(qid.shape[0], n))
    if ties:
        X[:, ::2] = np.round(X[:, ::2])
    return X, qid


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 3, 46])
def test_every_layout_and_type(layout: str, dtype: Any, n: int) -> None:
    X, qid = random_items([1, 2, 41, 7, 60, 1, 400, 520], n)
    X = X.astype(dtype)
    got = query_features(LAYOUTS[layout](X), groups_of(qid), ALL, dtype=np.float64)
    expected = brute_force(X, qid)
    np.testing.assert_array_equal(got[:, :n], expected[:, :n])
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    own = query_features(LAYOUTS[layout](X), groups_of(qid), ALL)
    assert own.dtype == dtype
    np.testing.assert_array_equal(own, got.astype(dtype))


@pytest.mark.parametrize("names", [("rank",), ("mean_diff", "rank"), ALL, ("zscore", "minmax")])
def test_names_choose_the_columns(names: tuple[str, ...]) -> None:
    X, qid = random_items([5, 1, 30], 4)
    got = query_features(X, groups_of(qid), names)
    np.testing.assert_allclose(got, brute_force(X, qid, names), atol=1e-13)
    assert query_feature_names(names, "abcd") == [f"{name}({f})" for name in names for f in "abcd"]


@pytest.mark.parametrize(
    ("sizes", "n"),
    [([3, 2, 9], 1500), ([20_000, 1, 300], 60), ([300_000], 4), ([41] * 1000, 46)],
    ids=str,
)
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array])
def test_every_number_of_threads_gives_the_same_bits(sizes: Any, n: int, make: Any) -> None:
    X, qid = random_items(sizes, n)
    if make is sp.csr_array:
        X[X < 0.7] = 0.0
    groups, X = groups_of(qid), make(X)
    one = query_features(X, groups, ALL)
    for threads in (2, 3, 16):
        np.testing.assert_array_equal(query_features(X, groups, ALL, n_threads=threads), one)
    some = np.flatnonzero(qid == qid[0])
    dense = X[some].toarray() if sp.issparse(X) else X[some]
    chosen = [0, n - 1]
    expected = brute_force(dense[:, chosen], np.zeros(some.size))
    got = one[some].reshape(some.size, len(ALL), n)[:, :, chosen].reshape(some.size, -1)
    np.testing.assert_array_equal(got[:, :2], expected[:, :2])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.0 + 2.0**-52, 3.0]),
    st.sampled_from([LARGEST, -LARGEST, LARGEST / 3, 1e308, TINIEST, -TINIEST, 3e-310, 1e-150]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=-4.0, max_value=4.0, width=16),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), NUMBERS, NUMBERS), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_against_rational_arithmetic(
    items: list[tuple[int, float, float]], sparse: bool, store_zeros: bool
) -> None:
    """Ties, queries of one item, negative zeros, the largest and smallest numbers there are."""
    qid = np.array([item[0] for item in items])
    X = np.array([item[1:] for item in items])
    given_X: Any = X
    if sparse:
        stored = (X != 0.0) | store_zeros
        rows, columns = np.nonzero(stored)
        given_X = sp.csr_array((X[stored], (rows, columns)), shape=X.shape)
    got = query_features(given_X, groups_of(qid), ALL).reshape(len(items), len(ALL), 2)
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        for c in range(2):
            exact = exact_column(X[rows, c])
            for k, name in enumerate(ALL):
                check_values(name, got[rows, k, c], exact[name])


def check_values(name: str, got: Array, exact: list[Fraction]) -> None:
    if name == "rank":
        assert got.tolist() == [float(one) for one in exact]  # rounded once
        return
    largest = max(abs(one) for one in exact)
    for value, wanted in zip(got.tolist(), exact, strict=True):
        if name == "zscore":
            assert abs(Fraction(value) * abs(Fraction(value)) - wanted) <= largest / 10**13
        elif abs(wanted) > Fraction(LARGEST) * (1 - Fraction(1, 10**13)):
            assert name == "mean_diff"
            assert abs(value) > 0.99 * LARGEST
        else:
            assert abs(Fraction(value) - wanted) <= largest / 10**13 + Fraction(TINIEST)


def test_close_values_keep_their_digits():
    """A mean that is rounded to a float would be wrong by a large part of the differences."""
    x = np.nextafter(1e16, np.inf, dtype=np.float64)
    X = np.array([[1e16], [x], [x], [1e16]])
    got = query_features(X, groups_of([0] * 4), ("zscore", "mean_diff"))
    np.testing.assert_array_equal(got, [[-1, -1], [1, 1], [1, 1], [-1, -1]])


def test_zeros_are_equal_whatever_their_sign():
    X = np.array([[0.0], [-0.0], [1.0], [-0.0]])
    for layout in (np.asarray, lambda X: sp.csr_array((X.ravel(), ([0, 1, 2, 3], [0] * 4)))):
        got = query_features(layout(X), groups_of([0] * 4), ALL)
        np.testing.assert_array_equal(got[:, 0], [0.5, 0.5, 1.0, 0.5])
        np.testing.assert_array_equal(got[:, 1], [0.0, 0.0, 1.0, 0.0])
        assert not np.signbit(got[:, 1]).any()


def test_one_item_and_equal_items():
    X = np.array([[3.0], [1e308], [1e308], [1e308], [7.0]])
    got = query_features(X, groups_of([1, 2, 2, 2, 3]), ALL)
    np.testing.assert_array_equal(got[:, 0], [1.0, 2 / 3, 2 / 3, 2 / 3, 1.0])
    np.testing.assert_array_equal(got[:, 1:], 0.0)


def test_sparse_items_with_explicit_zeros_and_repeated_entries():
    data = np.array([1.0, 2.0, 0.5, 0.5, 0.0, -1.0, 0.0])
    indices, indptr = np.array([2, 0, 1, 1, 0, 2, 1]), np.array([0, 2, 5, 7, 7])
    messy = sp.csr_array((data, indices, indptr), shape=(4, 3))
    got = query_features(messy, groups_of([0] * 4), ALL)
    np.testing.assert_allclose(got, brute_force(messy, np.zeros(4)), atol=1e-15)
    np.testing.assert_array_equal(messy.indices, indices)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_items_of_both_index_types(index: Any) -> None:
    X, qid = random_items([4, 30, 1], 9)
    X[X < 0.5] = 0.0
    S = sp.csr_array(X)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    got = query_features(S, groups_of(qid), ALL)
    np.testing.assert_allclose(got, brute_force(X, qid), atol=1e-13)


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_are_appended_without_a_copy(make: Any, dtype: Any) -> None:
    X, qid = random_items([4, 30, 1], 5)
    X[X < 0.0] = 0.0
    X = X.astype(dtype)
    groups = groups_of(qid)
    whole = append_query_features(make(X), groups, ("rank", "zscore"), n_threads=2)
    assert whole.dtype == dtype
    np.testing.assert_array_equal(whole[:, :5], X)
    alone = query_features(make(X), groups, ("rank", "zscore"))
    np.testing.assert_array_equal(whole[:, 5:], alone)

    room = np.full((X.shape[0], 20), -7.0)
    back = query_features(make(X), groups, ("rank", "zscore"), out=room[:, 6:16])
    assert back.base is room
    np.testing.assert_array_equal(room[:, 6:16].astype(dtype), alone)
    assert (room[:, :6] == -7.0).all()
    assert (room[:, 16:] == -7.0).all()


def test_items_are_not_changed_and_may_be_read_only():
    X, qid = random_items([4, 3], 2)
    before = X.copy()
    X.setflags(write=False)
    query_features(X, groups_of(qid), ALL)
    np.testing.assert_array_equal(X, before)


def test_nothing_to_do():
    none = QueryGroups.from_qid(None, 0)
    assert query_features(np.empty((0, 3)), none, ALL).shape == (0, 12)
    assert query_features(np.empty((2, 3)), groups_of([0, 0]), ()).shape == (2, 0)
    assert query_features(np.empty((2, 0)), groups_of([0, 0]), ALL).shape == (2, 0)
    assert (
        query_features(sp.csr_array((2, 3)), groups_of([0, 0]), ("rank",)).tolist()
        == [[0.75] * 3] * 2
    )


# What goes wrong


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("rank", r"features must be a list or tuple of names, such as \(\"rank\",\); got 'rank'"),
        (None, "must be a list or tuple"),
        (("ranks",), "features must be one of 'rank', 'minmax', 'zscore', 'mean_diff'; got 'ranks"),
        ((1,), "must be one of"),
        (["rank", "zscore", "rank"], "features has 'rank' twice"),
    ],
)
def test_bad_names(names: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_query_features("features", names)


def test_good_names():
    assert check_query_features("features", ["zscore", "rank"]) == ("zscore", "rank")
    assert check_query_features("features", ()) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": np.empty((3, 3))}, r"out must have shape \(3, 2\)"),
        ({"out": np.empty((3, 2)), "dtype": np.float32}, "dtype float32; got .* float64"),
        ({"out": np.empty((2, 3)).T}, "rows of out must be contiguous"),
        ({"dtype": np.int64}, "must be float32 or float64"),
    ],
)
def test_bad_results(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        query_features(np.ones((3, 2)), groups_of([0, 0, 1]), ("rank",), **options)


def test_groups_of_other_items():
    with pytest.raises(ValueError, match="groups has 2 items, but X has 3"):
        query_features(np.ones((3, 2)), groups_of([0, 0]), ("rank",))
