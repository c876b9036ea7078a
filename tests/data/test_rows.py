"""Copies of rows, by any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ranksvm._rows import take_rows

ROWS = np.random.default_rng(1).integers(5_000, size=9_000)
THREADS = (1, 2, 3, 5, 16)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("layout", ["C", "F", "wide", "reversed", "every second"])
def test_dense_rows(dtype: Any, layout: str) -> None:
    values = np.random.default_rng(0).normal(scale=100.0, size=(5_000, 40)).astype(dtype)
    X = {
        "C": values,
        "F": np.asfortranarray(values),
        "wide": values[:, :23],
        "reversed": values[::-1],
        "every second": values[:, ::2],
    }[layout]
    for n_threads in THREADS:
        taken = take_rows(X, ROWS, n_threads)
        assert taken.dtype == X.dtype
        np.testing.assert_array_equal(taken, X[ROWS])
    assert take_rows(X, ROWS[:0], 2).shape == (0, X.shape[1])


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_sparse_rows(make: Any, dtype: Any, index: Any) -> None:
    X = make(sp.random(5_000, 300, 0.1, format="csr", random_state=0), dtype=dtype)
    X.data += 1
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    for n_threads in THREADS:
        taken = take_rows(X, ROWS, n_threads)
        expected = X[ROWS]
        assert type(taken) is type(X)
        assert taken.shape == expected.shape
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(taken, name), getattr(expected, name))
    assert take_rows(X, ROWS[:0], 2).shape == (0, 300)


def test_rows_that_do_not_exist_are_refused() -> None:
    X = np.ones((3, 2))
    for row in (-1, 3):
        with pytest.raises(ValueError, match=f"row {row} was asked for, but there are 3"):
            take_rows(X, np.array([row]))
        with pytest.raises(ValueError, match=f"row {row} was asked for"):
            take_rows(sp.csr_array(X), np.array([row]))
