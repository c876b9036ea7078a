"""Landmarks: which items the Nystrom method looks at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from ranksvm._vectors import Array
from ranksvm.maps import landmarks
from ranksvm.maps.kernels import Kernel, kernel_matrix
from ranksvm.maps.landmarks import LANDMARKS, as_generator, choose_landmarks

RBF = Kernel("rbf", gamma=0.5)
every_way = pytest.mark.parametrize("how", LANDMARKS)


def random_items(n: int = 200, d: int = 5, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, d))


def rows_of(chosen: Any, X: Array) -> np.ndarray:
    """Which rows of X they are; every one has to be there."""
    chosen = chosen.toarray() if sp.issparse(chosen) else chosen
    same = (chosen[:, None, :] == X[None, :, :]).all(axis=2)
    assert same.any(axis=1).all()
    return same.argmax(axis=1)


def inertia(X: Array, centres: Array) -> float:
    return float(((X[:, None, :] - centres[None]) ** 2).sum(axis=2).min(axis=1).sum())


@pytest.mark.parametrize("how", ["uniform", "leverage"])
@given(n=st.integers(1, 40), share=st.floats(0.0, 1.0), seed=st.integers(0, 2**32 - 1))
def test_rows_are_drawn_once_and_in_order(how: str, n: int, share: float, seed: int) -> None:
    X = np.arange(2.0 * n).reshape(n, 2)
    m = max(1, round(share * n))
    rows = rows_of(choose_landmarks(X, RBF, m, how, seed=seed), X)
    assert len(rows) == m
    assert (np.diff(rows) > 0).all()


def test_every_row_has_the_same_chance_of_a_uniform_draw():
    X = np.arange(20.0)[:, None]
    counts = np.zeros(20)
    for seed in range(2000):
        counts[rows_of(choose_landmarks(X, RBF, 5, "uniform", seed=seed), X)] += 1
    np.testing.assert_allclose(counts, 500, atol=5 * np.sqrt(2000 * 0.25 * 0.75))


@every_way
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_a_seed_decides_and_threads_do_not(how: str, layout: Any) -> None:
    X = layout(np.maximum(0.0, random_items(700, 12)))
    first, *others = (
        choose_landmarks(X, RBF, 60, how, seed=3, n_threads=threads) for threads in (1, 2, 5, 1)
    )
    for other in others:
        assert type(other) is type(first)
        np.testing.assert_array_equal(_dense(other), _dense(first))
    different = choose_landmarks(X, RBF, 60, how, seed=4)
    assert not np.array_equal(_dense(different), _dense(first))


@every_way
def test_sparse_items_get_the_same_landmarks_as_dense_ones(how: str) -> None:
    X = np.maximum(0.0, random_items(300, 8))
    dense = choose_landmarks(X, RBF, 40, how, seed=0)
    sparse = choose_landmarks(sp.csr_array(X), RBF, 40, how, seed=0)
    assert sp.issparse(sparse)
    assert sparse.has_sorted_indices
    np.testing.assert_allclose(sparse.toarray(), dense, atol=1e-12)


@every_way
def test_the_size_of_blocks_changes_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = random_items(333)
    whole = choose_landmarks(X, RBF, 30, how, seed=0)
    monkeypatch.setattr(landmarks, "BLOCK_VALUES", 1)
    np.testing.assert_array_equal(choose_landmarks(X, RBF, 30, how, seed=0), whole)


@every_way
def test_of_large_sets_a_part_is_looked_at(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landmarks, "MOST_ROWS", 100)
    monkeypatch.setattr(landmarks, "MOST_PILOTS", 7)
    seen = 0

    def count(kernel: Kernel, X: Any, Z: Any, **settings: Any) -> Array:
        nonlocal seen
        seen = max(seen, X.shape[0])
        return kernel_matrix(kernel, X, Z, **settings)

    monkeypatch.setattr(landmarks, "kernel_matrix", count)
    chosen = choose_landmarks(random_items(5000), RBF, 30, how, seed=0)
    assert chosen.shape == (30, 5)
    assert seen <= 300


@every_way
def test_items_are_not_changed(how: str) -> None:
    X = random_items()
    before = X.copy()
    chosen = choose_landmarks(X, RBF, 20, how, seed=0)
    assert not np.shares_memory(chosen, X)
    np.testing.assert_array_equal(X, before)


@every_way
def test_all_kinds_of_seeds(how: str) -> None:
    X = random_items()
    fresh = [choose_landmarks(X, RBF, 10, how, seed=None) for _ in range(2)]
    assert not np.array_equal(*fresh)
    for make in (np.random.default_rng, np.random.RandomState):
        generator = make(7)
        first, second = (choose_landmarks(X, RBF, 10, how, seed=generator) for _ in range(2))
        assert not np.array_equal(first, second)  # it has moved on
        np.testing.assert_array_equal(choose_landmarks(X, RBF, 10, how, seed=make(7)), first)
    generator = np.random.default_rng(0)
    assert as_generator(generator) is generator


# Centroids


def blobs(n: int, centres: Array, spread: float, seed: int = 0) -> tuple[Array, np.ndarray]:
    rng = np.random.default_rng(seed)
    label = rng.integers(len(centres), size=n)
    return centres[label] + spread * rng.normal(size=(n, centres.shape[1])), label


@pytest.mark.parametrize("offset", [0.0, 1e7])
@pytest.mark.parametrize("seed", range(5))
def test_far_clusters_get_their_means(offset: float, seed: int) -> None:
    """Also far from the origin, where |x|^2 - 2 <x, c> + |c|^2 alone would lose all digits."""
    X, label = blobs(500, 10.0 * np.eye(7), 0.05)
    X += offset
    chosen = choose_landmarks(X, RBF, 7, "kmeans", seed=seed)
    means = np.array([X[label == k].mean(axis=0) for k in range(7)])
    np.testing.assert_allclose(chosen[np.lexsort(chosen.T)], means[np.lexsort(means.T)], atol=1e-7)


@pytest.mark.parametrize("m", [5, 40])
def test_centroids_are_nearly_as_good_as_those_of_scikit_learn(m: int) -> None:
    X, _ = blobs(1500, 3.0 * random_items(30, 6), 0.5)
    ours = [inertia(X, choose_landmarks(X, RBF, m, "kmeans", seed=seed)) for seed in range(3)]
    theirs = [KMeans(m, n_init=1, random_state=seed).fit(X).inertia_ for seed in range(3)]
    uniform = [inertia(X, choose_landmarks(X, RBF, m, seed=seed)) for seed in range(3)]
    assert np.mean(ours) < 1.15 * np.mean(theirs)
    assert np.mean(ours) < 0.8 * np.mean(uniform)


@given(
    distinct=st.integers(1, 12),
    copies=st.integers(1, 5),
    m=st.integers(1, 60),
    seed=st.integers(0, 1000),
    sparse=st.booleans(),
)
def test_centroids_of_repeated_items(
    distinct: int, copies: int, m: int, seed: int, sparse: bool
) -> None:
    """With as many centres as different items every item is one, and none is made up."""
    base = np.arange(3.0 * distinct).reshape(distinct, 3) % 7 + np.arange(distinct)[:, None]
    X = np.tile(base, (copies, 1))
    m = min(m, len(X))
    chosen = _dense(choose_landmarks(sp.csr_array(X) if sparse else X, RBF, m, "kmeans", seed=seed))
    assert chosen.shape == (m, 3)
    assert (chosen >= X.min(axis=0) - 1e-9).all()
    assert (chosen <= X.max(axis=0) + 1e-9).all()
    if m >= distinct:
        assert inertia(X, chosen) < 1e-9
        assert inertia(chosen, X) < 1e-9


def test_centres_without_items_get_the_farthest_ones():
    label = np.array([0, 0, 0, 2, 2])
    distance = np.array([0.0, 3.0, 1.0, 0.5, 4.0])
    filled = landmarks._fill_empty(label, distance, 5)
    np.testing.assert_array_equal(filled, [0, 3, 4, 2, 1])
    np.testing.assert_array_equal(label, [0, 0, 0, 2, 2])


def test_a_centre_that_loses_its_only_item_stays():
    items = np.array([[1.0], [2.0], [4.0]])
    centres = np.array([[1.5], [7.0], [4.0]])
    means = landmarks._means(items, np.array([0, 0, 2]), centres)
    np.testing.assert_array_equal(means, [[1.5], [7.0], [4.0]])


def test_sparse_centroids_stay_sparse():
    """A set that would not fit into memory as a dense one, had it a few more items."""
    X = sp.random_array((400, 200_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
    chosen = choose_landmarks(X, RBF, 50, "kmeans", seed=0)
    assert chosen.shape == (50, 200_000)
    assert chosen.nnz <= X.nnz


# Leverages


@pytest.mark.parametrize("kernel", [RBF, Kernel("poly", 0.3, 1.0, 3), Kernel("laplacian", 0.2)])
def test_with_all_items_as_pilots_the_leverages_are_exact(kernel: Kernel) -> None:
    X = random_items(80, 4)
    estimate = landmarks._leverages(X, kernel, X, 2)
    K = kernel_matrix(kernel, X, X)
    tail = np.linalg.eigvalsh(K)[:-10].sum() / 10
    exact = np.diagonal(K @ np.linalg.inv(K + tail * np.eye(80)))
    np.testing.assert_allclose(estimate / tail, exact, rtol=1e-6)


def test_leverages_find_the_rare_items():
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(2000, 3))
    X[::250] += 5.0 * rng.normal(size=(8, 3))
    rare = np.arange(0, 2000, 250)
    found = {
        how: np.mean(
            [
                np.isin(rare, rows_of(choose_landmarks(X, RBF, 30, how, seed=seed), X)).mean()
                for seed in range(10)
            ]
        )
        for how in ("uniform", "leverage")
    }
    assert found["uniform"] < 0.05
    assert found["leverage"] > 0.6


def test_leverages_of_an_indefinite_kernel_or_of_rank_one_are_still_a_draw():
    X = random_items()
    for kernel in (Kernel("sigmoid", 1.0, -1.0), Kernel("linear")):
        for items in (X, X[:, :1], np.zeros_like(X)):
            assert choose_landmarks(items, kernel, 50, "leverage", seed=0).shape[0] == 50


def test_weighted_draws_have_the_chances_of_their_weights():
    weight = np.array([1.0, 2.0, 0.0, 5.0, 1e-320])
    rng = np.random.default_rng(0)
    first = np.array([landmarks._draw_weighted(weight, 1, rng)[0] for _ in range(4000)])
    share = np.bincount(first, minlength=5) / 4000
    np.testing.assert_allclose(share, weight / weight.sum(), atol=0.03)
    # Both at once: P(0 and 1) = 1/8 * 2/7 + 2/8 * 1/6
    pairs = [tuple(landmarks._draw_weighted(weight, 2, rng)) for _ in range(4000)]
    assert pairs.count((0, 1)) / 4000 == pytest.approx(1 / 28 + 1 / 24, abs=0.02)
    for size in (4, 5):
        rows = landmarks._draw_weighted(weight, size, rng)
        np.testing.assert_array_equal(rows, [0, 1, 3, 4] if size == 4 else np.arange(5))


# What goes wrong


@every_way
def test_more_landmarks_than_items(how: str) -> None:
    items = random_items(10)
    with pytest.warns(UserWarning, match="n_components=11 exceeds .* using n_components=10"):
        landmarks = choose_landmarks(items, RBF, 11, how, seed=0)
    assert landmarks.shape == items.shape
    if how != "kmeans":
        np.testing.assert_array_equal(landmarks, items)


@pytest.mark.parametrize("n_landmarks", [0, -1, 2.5, True, "3", None])
def test_a_number_of_landmarks_that_is_none(n_landmarks: Any) -> None:
    with pytest.raises(ValueError, match="n_components must be a positive integer; got"):
        choose_landmarks(random_items(10), RBF, n_landmarks)


def test_an_unknown_way():
    with pytest.raises(
        ValueError, match="landmarks must be one of 'uniform', 'kmeans', 'leverage'"
    ):
        choose_landmarks(random_items(10), RBF, 3, "best")


def _dense(X: Any) -> Array:
    return X.toarray() if sp.issparse(X) else X
