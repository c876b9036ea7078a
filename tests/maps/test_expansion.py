"""Sums over points: what is kept from one call to the next changes no score."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ranksvm import KernelRankSVM
from ranksvm.maps import expansion as expansions
from ranksvm.maps.expansion import Expansion
from ranksvm.maps.kernels import KERNELS, Kernel, kernel_scores

RNG = np.random.default_rng(0)
POINTS = RNG.normal(5.0, 1.0, size=(60, 7))
COEF = RNG.normal(size=60)
SHIFT = RNG.normal(size=60)
ITEMS = RNG.normal(5.0, 1.0, size=(25, 7))


def make(function: Any = "rbf", points: Any = POINTS) -> Expansion:
    shift = SHIFT if function == "cosine" else None
    return Expansion(Kernel(function, gamma=0.2, coef0=0.5), points.copy(), COEF, shift)


@pytest.mark.parametrize("function", [*KERNELS, "cosine"])
@pytest.mark.parametrize(
    "items",
    [ITEMS, ITEMS.astype(np.float32), np.asfortranarray(ITEMS), sp.csr_array(ITEMS), ITEMS[:0]],
    ids=["float64", "float32", "Fortran", "CSR", "none"],
)
def test_every_call_gives_the_same_scores(function, items):
    one = make(function)
    expected = kernel_scores(one.kernel, items, one.points, one.coef, shift=one.shift)
    for _ in range(3):
        for n_threads in (1, 2, 5):
            assert one.scores(items, n_threads=n_threads).tobytes() == expected.tobytes()


def test_items_with_many_columns_are_not_centred(monkeypatch):
    monkeypatch.setattr("ranksvm.maps.kernels.FEW_COLUMNS", 3)
    one, items = make(), sp.csr_array(ITEMS)
    expected = kernel_scores(one.kernel, items, one.points, one.coef)
    one.scores(ITEMS)
    assert one.scores(items).tobytes() == expected.tobytes()


def test_points_that_are_kept_cannot_change():
    one = make()
    one.points[0] = 1.0  # nothing is kept yet
    before = one.scores(ITEMS)
    with pytest.raises(ValueError, match="read-only"):
        one.points[0] = 2.0
    one.coef[:] *= 2.0  # coefficients may change
    try:
        assert np.allclose(one.scores(ITEMS), 2.0 * before)
    finally:
        one.coef[:] /= 2.0


def test_large_points_are_not_kept(monkeypatch):
    one = make()
    expected = one.scores(ITEMS).tobytes()
    monkeypatch.setattr(expansions, "READY_BYTES", 8 * POINTS.size - 1)
    other = make()
    assert other.scores(ITEMS).tobytes() == expected
    assert other._ready_points is None
    other.points[0] = 1.0
    assert other.scores(ITEMS).tobytes() != expected


def test_sparse_points_and_callables_are_not_kept():
    for one in (
        make(points=sp.csr_array(POINTS)),
        Expansion(Kernel(lambda X, Z: X @ Z.T), POINTS, COEF),
    ):
        one.scores(ITEMS)
        assert one._ready_points is None


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_copies_after_a_prediction(again):
    ranker = KernelRankSVM(gamma=0.5).fit(ITEMS, np.arange(25) % 3)
    scores = ranker.predict(ITEMS).tobytes()
    assert again(ranker).predict(ITEMS).tobytes() == scores
    assert again(again(ranker)).predict(ITEMS).tobytes() == scores


def test_the_items_of_a_fit_stay_writable():
    for approximation in (None, "nystroem"):
        X = ITEMS.copy()
        ranker = KernelRankSVM(approximation=approximation, n_components=25, random_state=0)
        ranker.fit(X, np.arange(25) % 3).predict(X)
        X[0] = 0.0


def test_threads_share_what_is_kept():
    one = make()
    expected = make().scores(ITEMS).tobytes()
    start, found = threading.Barrier(6), []

    def use() -> None:
        start.wait()
        found.extend(one.scores(ITEMS, n_threads=2).tobytes() for _ in range(20))

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {expected}
    assert len(found) == 120
