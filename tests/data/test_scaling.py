"""Scalings against NumPy, SciPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from ranksvm import _core
from ranksvm.data import scaling as module
from ranksvm.data.column_facts import find_columns
from ranksvm.data.scaling import (
    PREFIX,
    SCALINGS,
    Affine,
    Quantiles,
    scaling_arrays,
    scaling_from,
    scaling_of,
)
from ranksvm.maps.matrix import MatrixMap
from ranksvm.maps.scaled import ScaledMap

AFFINE = ("standard", "minmax", "robust")
FACTS = ("mean", "deviation", "low", "high")
THEIRS = {"standard": StandardScaler, "minmax": MinMaxScaler}


def items(n: int = 700, seed: int = 0) -> np.ndarray:
    """Columns of different scales, with ties, and a constant one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) * [1.0, 1e4, 1e-4, 1.0, 1.0] + [0.0, 30.0, -2.0, 0.0, 7.0]
    X[:, 3] = rng.integers(0, 3, n)
    X[:, 4] = 7.0
    return X


@pytest.mark.parametrize("name", sorted(THEIRS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_against_scikit_learn(name: str, dtype: type, order: str) -> None:
    X = np.asarray(items(), dtype=dtype, order=order)
    ours = scaling_of(name, X).apply(X)
    theirs = THEIRS[name]().fit_transform(X.astype(np.float64))
    np.testing.assert_allclose(ours[:, :4], theirs[:, :4], atol=1e-9)
    assert not ours[:, 4].any()


def test_robust_is_close_to_scikit_learn() -> None:
    """Quartiles have several definitions, which differ by a part of the distance of two values."""
    X = items(5_000)[:, :3]
    ours, theirs = scaling_of("robust", X).apply(X), RobustScaler().fit_transform(X)
    np.testing.assert_allclose(ours, theirs, atol=0.01)


def test_robust_where_most_values_are_equal() -> None:
    X = np.zeros((100, 1))
    X[:10, 0] = 1.0
    found = scaling_of("robust", X)
    assert isinstance(found, Affine)
    assert found.factor[0] == pytest.approx(1.0 / X.std())


def test_quantiles_are_normal_and_share_ties() -> None:
    X = items(3_000)
    scaled = scaling_of("quantile", X).apply(X)
    np.testing.assert_allclose(scaled[:, :3].mean(axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(scaled[:, :3].std(axis=0), 1.0, atol=0.01)
    for level in range(3):
        assert np.unique(scaled[X[:, 3] == level, 3]).size == 1
    assert not scaled[:, 4].any()
    order = np.argsort(X[:, 0])
    assert (np.diff(scaled[order, 0]) >= 0.0).all()


def test_roundings_are_no_quantiles() -> None:
    third = 1.0 / 3.0
    near = [third, np.nextafter(third, 1.0), -third, np.nextafter(-third, -1.0)]
    X = np.array([0.0, 2.0, *near, 1e300, -1.7e308])[:, None]
    scaled = scaling_of("quantile", X).apply(X)[:, 0]
    assert scaled[2] == pytest.approx(scaled[3], abs=1e-12)
    assert scaled[4] == pytest.approx(scaled[5], abs=1e-12)
    assert np.unique(scaled.round(9)).size == 6
    exact = np.array([0.0, 2.0, third, third, -third, -third, 1e300, -1.7e308])[:, None]
    np.testing.assert_allclose(scaled, scaling_of("quantile", exact).apply(exact)[:, 0], atol=1e-12)


@pytest.mark.parametrize("name", sorted(SCALINGS))
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_roundings_are_no_feature(name: str, form) -> None:
    few = np.arange(40) % 8
    X = np.array([1.0 + 8e-16 * few, -1e300 / 3.0 * (1.0 + 3e-16 * few), 1.0 + 1e-13 * few]).T
    found = scaling_of(name, form(X))
    assert found.constant.tolist() == [True, True, False]
    scaled = found.apply(X)
    assert not scaled[:, :2].any()
    assert scaled[:, 2].any()


def test_quantiles_of_new_values_are_within_those_of_training() -> None:
    X = items()
    found = scaling_of("quantile", X)
    new = np.array([[-1e300] * 5, [1e300] * 5, [np.finfo(np.float64).max] * 5])
    scaled = found.apply(new)
    inside = found.apply(X)
    np.testing.assert_array_equal(scaled[0], inside.min(axis=0))
    np.testing.assert_array_equal(scaled[1], inside.max(axis=0))
    np.testing.assert_array_equal(scaled[2], inside.max(axis=0))


@pytest.mark.parametrize("name", sorted(SCALINGS))
def test_a_weight_of_two_is_a_repeated_item(name: str) -> None:
    X = items(300)
    weight = np.random.default_rng(1).integers(0, 3, len(X)).astype(np.float64)
    weighted = scaling_of(name, X, weight)
    repeated = scaling_of(name, X[np.repeat(np.arange(len(X)), weight.astype(int))])
    for own, other in zip(weighted.arrays().values(), repeated.arrays().values(), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-12)


def test_quartiles_do_not_depend_on_roundings_of_shares() -> None:
    for n in range(4, 200, 4):
        X = np.arange(float(n))[:, None]
        found = scaling_of("robust", X)
        assert isinstance(found, Affine)
        assert found.offset[0] == n // 2 - 1
        assert found.factor[0] == pytest.approx(2.0 / n)


@pytest.mark.parametrize("name", sorted(SCALINGS))
def test_every_number_of_threads_gives_the_same_bits(name: str) -> None:
    X = items(40_000)
    one = scaling_of(name, X)
    for n_threads in (2, 3, 7, 16):
        other = scaling_of(name, X, n_threads=n_threads)
        for own, those in zip(one.arrays().values(), other.arrays().values(), strict=True):
            assert own.tobytes() == those.tobytes()
        assert one.apply(X).tobytes() == other.apply(X, n_threads).tobytes()


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_columns(weighted: bool) -> None:
    rng = np.random.default_rng(2)
    X = sp.random(400, 30, 0.2, format="csr", random_state=3)
    X.data -= 0.5
    weight = rng.integers(0, 3, 400).astype(np.float64) if weighted else None
    dense, sparse = find_columns(X.toarray(), weight), find_columns(X, weight)
    for fact in FACTS:
        np.testing.assert_allclose(getattr(sparse, fact), getattr(dense, fact), atol=1e-12)


def test_sparse_items_are_only_divided() -> None:
    X = sp.random(200, 12, 0.3, format="csr", random_state=3)
    for name in ("standard", "minmax", "robust"):
        scaled = scaling_of(name, X).apply(X)
        found = scaling_of(name, X.toarray())
        assert isinstance(found, Affine)
        np.testing.assert_allclose(scaled.toarray(), X.toarray() * found.factor, atol=1e-12)
        assert scaled.nnz == X.nnz
    np.testing.assert_allclose(
        scaling_of("quantile", X).apply(X), scaling_of("quantile", X.toarray()).apply(X.toarray())
    )


@settings(max_examples=200, deadline=None)
@given(
    X=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 3)),
        elements=st.floats(allow_nan=False, allow_infinity=False, width=64),
    ),
    name=st.sampled_from(sorted(SCALINGS)),
)
def test_any_finite_items_stay_finite(X: np.ndarray, name: str) -> None:
    scaled = scaling_of(name, X).apply(X)
    assert np.isfinite(scaled).all()
    columns = find_columns(X)
    assert not scaled[:, columns.is_constant].any()
    np.testing.assert_array_equal(columns.low, X.min(axis=0))
    np.testing.assert_array_equal(columns.high, X.max(axis=0))


@settings(max_examples=100, deadline=None)
@given(
    X=hnp.arrays(np.float64, (9, 2), elements=st.floats(-1e6, 1e6)),
    weight=hnp.arrays(np.float64, 9, elements=st.sampled_from([0.0, 1.0, 2.5])),
    cut=st.integers(1, 8),
)
def test_parts_join_to_the_whole(X: np.ndarray, weight: np.ndarray, cut: int) -> None:
    weight[0] = 1.0
    whole = find_columns(X, weight)
    parts = find_columns(X[:cut], weight[:cut]).joined(find_columns(X[cut:], weight[cut:]))
    for fact in ("weight", *FACTS):
        np.testing.assert_allclose(getattr(parts, fact), getattr(whole, fact), rtol=1e-9, atol=1e-9)
    used = weight > 0.0
    mean = np.average(X, axis=0, weights=weight)
    spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    np.testing.assert_allclose(whole.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whole.deviation, spread, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(whole.low, X[used].min(axis=0))


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e300])
def test_huge_and_tiny_values_keep_their_digits(size: float) -> None:
    X = items(500)[:, :1]
    np.testing.assert_allclose(
        scaling_of("standard", size * X).apply(size * X), scaling_of("standard", X).apply(X)
    )


@pytest.mark.parametrize("name", AFFINE)
@pytest.mark.parametrize("size", [1e-300, 1e200, 1e300])
def test_huge_and_tiny_sparse_values_are_like_dense_ones(name: str, size: float) -> None:
    X = items(50)[:, :3]
    X[X < 0.0] = 0.0
    X[:, 1] *= size
    dense, sparse = scaling_of(name, X), scaling_of(name, sp.csr_array(X))
    assert isinstance(dense, Affine)
    assert isinstance(sparse, Affine)
    np.testing.assert_allclose(sparse.factor, dense.factor, rtol=1e-9)


def test_sparse_columns_without_zeros_do_not_see_roundings_of_weights() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = 1e9 + rng.normal(size=(300, 2))
        weight = rng.random(300)
        deviation = find_columns(sp.csr_array(X), weight).deviation
        np.testing.assert_allclose(deviation, find_columns(X, weight).deviation, rtol=1e-6)


def test_parts_with_huge_values_join() -> None:
    X = np.array([[-1.7e308], [-1.6e308], [1.7e308], [1.5e308]])
    whole, parts = find_columns(X), find_columns(X[:2]).joined(find_columns(X[2:]))
    for fact in FACTS:
        np.testing.assert_allclose(getattr(parts, fact), getattr(whole, fact), rtol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_quantiles_of_items_with_tiny_weights_are_finite(form) -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    middle = scipy.stats.norm.ppf([1 / 6, 3 / 6, 5 / 6])
    for tiny in (1e-20, 1e-300):
        end = scipy.stats.norm.ppf(tiny / 6)
        found = scaling_of("quantile", form(X), np.array([1.0, 1.0, 1.0, tiny]))
        np.testing.assert_allclose(found.apply(X)[:, 0], [*middle, -end], rtol=1e-9, atol=1e-12)
        found = scaling_of("quantile", form(X), np.array([tiny, 1.0, 1.0, 1.0]))
        np.testing.assert_allclose(found.apply(X)[:, 0], [end, *middle], rtol=1e-9, atol=1e-12)


def test_a_sample_does_not_depend_on_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLE", 500)
    X = items(4_000)
    shuffled = X[np.random.default_rng(5).permutation(len(X))]
    for name in ("robust", "quantile"):
        one, other = scaling_of(name, X).arrays(), scaling_of(name, shuffled).arrays()
        for own, those in zip(one.values(), other.values(), strict=True):
            np.testing.assert_allclose(own, those, rtol=1e-9)


def test_scaled_map_is_the_map_of_scaled_items() -> None:
    rng = np.random.default_rng(0)
    X, factor = items(), rng.uniform(0.0, 3.0, 5)
    ours, theirs = ScaledMap(MatrixMap(X), factor), MatrixMap(X * factor)
    w, g = rng.standard_normal(5), rng.standard_normal(len(X))
    np.testing.assert_allclose(ours.scores(w), theirs.scores(w))
    np.testing.assert_allclose(ours.pullback(g), theirs.pullback(g))
    for sharp in (False, True):
        if sharp:
            ours.sharpen()
        assert ours.reach(w) >= np.abs(X * factor * w).sum(axis=1).max()
        assert ours.longest_row >= np.sqrt(((X * factor) ** 2).sum(axis=1)).max()


def test_files_refuse_what_is_not_a_scaling() -> None:
    affine, quantiles = Affine(np.zeros(2), np.ones(2)), Quantiles(np.ones((2, 3)), np.ones((2, 3)))
    for good in (affine, quantiles):
        back = scaling_from(scaling_arrays(good), 2)
        assert type(back) is type(good)
    assert scaling_from({}, 2) is None
    bad = [
        ({"offset": np.zeros(2)}, "unknown arrays"),
        ({"offset": np.zeros(2), "factor": np.zeros(3)}, "2 features"),
        ({"offset": np.zeros(2), "factor": -np.ones(2)}, "negative"),
        ({"offset": np.zeros(2), "factor": np.array([1.0, np.nan])}, "finite"),
        ({"offset": np.zeros(2), "factor": np.ones(2, dtype=np.float32)}, "float64"),
        ({"knots": np.array([[1.0, 0.0]] * 2), "levels": np.zeros((2, 2))}, "ascend"),
        ({"knots": np.zeros((2, 3)), "levels": np.zeros((2, 2))}, "2 features"),
        ({"knots": np.zeros((2, 0)), "levels": np.zeros((2, 0))}, "2 features"),
    ]
    for arrays, message in bad:
        with pytest.raises(ValueError, match=message):
            scaling_from({PREFIX + name: one for name, one in arrays.items()}, 2)


def test_native_code_checks_shapes() -> None:
    X, out = np.zeros((3, 2)), np.zeros((3, 2))
    with pytest.raises(ValueError, match="weight has 2"):
        _core.column_moments(X, np.ones(2), np.ones(2), 1)
    with pytest.raises(ValueError, match="factor has 3"):
        _core.scale_columns(X, np.ones(2), np.ones(3), out, 1)
    with pytest.raises(ValueError, match="no knots"):
        _core.map_columns(X, np.zeros((2, 0)), np.zeros((2, 0)), out, 1)
    with pytest.raises(ValueError, match="second axis of levels"):
        _core.map_columns(X, np.zeros((2, 3)), np.zeros((2, 2)), out, 1)


def test_repeated_and_missing_entries_of_sparse_columns() -> None:
    """Entries of the same place stand for their sum; a part may have no entries at all."""
    X = np.random.default_rng(0).normal(size=(6, 3))
    indices, indptr = np.repeat(np.tile(np.arange(3), 6), 2), np.arange(0, 37, 6)
    twice = sp.csr_array((np.repeat(X.ravel() / 2.0, 2), indices, indptr), shape=X.shape)
    for form in (twice, twice.tocsc()):
        stored = form.nnz
        one, other = find_columns(form), find_columns(X)
        assert form.nnz == stored
        np.testing.assert_allclose(one.deviation, other.deviation)
        np.testing.assert_allclose(one.low, other.low)
    empty = find_columns(sp.csr_array((4, 2)))
    np.testing.assert_array_equal(empty.deviation, [0.0, 0.0])
    assert empty.is_constant.all()
