"""Plain input skips scikit-learn's checks, with the same scores, warnings and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import NotFittedError

from ranksvm import FactorizedRankSVM, KernelRankSVM, LinearRankSVM
from ranksvm.estimators import inputs
from ranksvm.estimators.plain import plain_array, plain_items

N, D = 12, 3
NAMES = ["a", "b", "c"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
Y = RNG.integers(0, 3, N)


def with_value(value: float, dtype: Any = np.float64) -> Any:
    changed = X.astype(dtype)
    changed[4, 1] = value
    return changed


def frame(values: Any = X, names: Any = None, **options: Any) -> pd.DataFrame:
    return pd.DataFrame(values, columns=NAMES if names is None else names, **options)


def of_columns(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], **columns})


class OwnArray(np.ndarray):
    """What other libraries derive from arrays."""


class OwnFrame(pd.DataFrame):
    """What other libraries derive from frames."""


whole = np.round(4.0 * X)

ARRAYS: dict[str, Callable[[], Any]] = {
    "float64": lambda: X,
    "float32": lambda: X.astype(np.float32),
    "float16": lambda: X.astype(np.float16),
    "longdouble": lambda: X.astype(np.longdouble),
    "Fortran order": lambda: np.asfortranarray(X),
    "strided": lambda: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda: X[::-1],
    "read-only": lambda: np.broadcast_to(X[0], (N, D)),
    "big-endian": lambda: X.astype(">f8"),
    "integers": lambda: whole.astype(np.int64),
    "small integers": lambda: whole.astype(np.int8),
    "booleans": lambda: X > 0.0,
    "complex": lambda: X.astype(complex),
    "objects": lambda: X.astype(object),
    "texts": lambda: X.astype(str),
    "text objects": lambda: np.full((N, D), "word", dtype=object),
    "NaN": lambda: with_value(np.nan),
    "infinity": lambda: with_value(np.inf),
    "minus infinity, float32": lambda: with_value(-np.inf, np.float32),
    "sum overflows": lambda: np.full((N, D), 1e308),
    "sum overflows, NaN": lambda: np.where(X > 0.5, np.nan, 1e308),
    "masked": lambda: np.ma.masked_greater(X, 0.5),
    "nothing masked": lambda: np.ma.masked_greater(X, 1e9),
    "no rows": lambda: X[:0],
    "no columns": lambda: X[:, :0],
    "one row": lambda: X[:1],
    "one dimension": lambda: X[:, 0],
    "three dimensions": lambda: X[:, :, None],
    "no dimension": lambda: np.float64(3.0),
    "too many columns": lambda: np.hstack([X, X]),
    "too few columns": lambda: X[:, :2],
    "subclass": lambda: X.view(OwnArray),
    "matrix": lambda: np.asmatrix(X),
    "list": lambda: X.tolist(),
    "list with None": lambda: [*X.tolist()[:-1], [None] * D],
    "tuple of arrays": lambda: tuple(X),
    "CSR": lambda: sp.csr_array(X),
    "CSC": lambda: sp.csc_array(X),
    "COO": lambda: sp.coo_array(X),
    "CSR, NaN": lambda: sp.csr_array(with_value(np.nan)),
    "None": lambda: None,
    "text": lambda: "items",
}
FRAMES: dict[str, Callable[[], Any]] = {
    "frame": frame,
    "frame, float32": lambda: frame(X.astype(np.float32)),
    "frame, integers": lambda: frame(whole.astype(int)),
    "frame, unsigned": lambda: frame(np.abs(whole).astype(np.uint8)),
    "frame, float32 and float64": lambda: of_columns(a=X[:, 0].astype(np.float32)),
    "frame, float32 and int8": lambda: frame(X.astype(np.float32)).assign(b=np.int8(3)),
    "frame, float32 and int64": lambda: frame(X.astype(np.float32)).assign(b=np.int64(3)),
    "frame, float16": lambda: frame(X.astype(np.float16)),
    "frame, big integers": lambda: of_columns(b=np.full(N, 2**60 + 1)),
    "frame, booleans": lambda: of_columns(b=X[:, 1] > 0),
    "frame, only booleans": lambda: frame(X > 0),
    "frame, nullable": lambda: of_columns(b=pd.array(whole[:, 1].astype(int), dtype="Int64")),
    "frame, missing": lambda: of_columns(b=pd.array([None] + [1] * (N - 1), dtype="Int64")),
    "frame, sparse": lambda: of_columns(b=pd.arrays.SparseArray(X[:, 1])),
    "frame, categories": lambda: of_columns(b=pd.Categorical(["u", "v"] * (N // 2))),
    "frame, texts": lambda: of_columns(b=["word"] * N),
    "frame, objects": lambda: of_columns(b=X[:, 1].astype(object)),
    "frame, dates": lambda: of_columns(b=pd.date_range("2024-01-01", periods=N)),
    "frame, complex": lambda: of_columns(b=X[:, 1] + 1j),
    "frame, NaN": lambda: frame(with_value(np.nan)),
    "frame, infinity": lambda: frame(with_value(np.inf, np.float32)),
    "frame, no rows": lambda: frame().iloc[:0],
    "frame, other order": lambda: frame(names=["c", "a", "b"]),
    "frame, other names": lambda: frame(names=["u", "v", "w"]),
    "frame, numbered": lambda: pd.DataFrame(X),
    "frame, mixed names": lambda: frame(names=["a", "b", 3]),
    "frame, repeated name": lambda: frame(names=["a", "a", "b"]),
    "frame, two levels": lambda: frame(names=pd.MultiIndex.from_product([["a"], NAMES])),
    "frame, one more": lambda: of_columns(d=1.0),
    "frame, one less": lambda: frame()[["a", "b"]],
    "frame, its labels": lambda: of_columns(y=Y),
    "frame, other index": lambda: frame().sample(frac=1.0, random_state=0),
    "frame, every other row": lambda: frame().iloc[::2],
    "frame, subclass": lambda: OwnFrame(frame()),
    "polars": lambda: pl.DataFrame(X, schema=NAMES),
    "series": lambda: frame()["a"],
}
GIVEN = {**ARRAYS, **FRAMES}


def told(call: Callable[[], Any]) -> tuple[Any, ...]:
    """What a call returns or raises, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
            result: Any = (type(found), found.dtype, found.shape, found.tobytes())
        except Exception as error:
            result = (type(error), str(error))
    return result, [(one.category, str(one.message)) for one in caught]


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[Any, ...]]:
    """``told`` with all of scikit-learn's checks."""

    def run(call: Callable[[], Any]) -> tuple[Any, ...]:
        with monkeypatch.context() as patch:
            patch.setattr(inputs, "plain_array", lambda *arguments: None)
            patch.setattr(inputs, "plain_items", lambda *arguments: None)
            return told(call)

    return run


def without_address(result: tuple[Any, ...]) -> str:
    return str(result).split(" at 0x")[0]


RANKERS: dict[str, Any] = {
    "linear": LinearRankSVM(),
    "kernel": KernelRankSVM(gamma=0.5),
    "nystroem": KernelRankSVM(approximation="nystroem", n_components=4, random_state=0),
    "factorized": FactorizedRankSVM(n_factors=1, random_state=0, max_iter=3, tol=0.5),
}


@pytest.fixture(scope="module", params=["arrays", "frames", "frames with labels"])
def rankers(request: pytest.FixtureRequest) -> dict[str, Any]:
    items: Any = {"arrays": X, "frames": frame(), "frames with labels": of_columns(y=Y)}
    y: Any = "y" if request.param == "frames with labels" else Y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            name: type(ranker)(**ranker.get_params()).fit(items[request.param], y)
            for name, ranker in RANKERS.items()
        }


@pytest.mark.parametrize("given", GIVEN)
def test_predict_gives_the_same_scores_warnings_and_errors(rankers, slowly, given):
    for ranker in rankers.values():

        def call(ranker: Any = ranker) -> Any:
            return ranker.predict(GIVEN[given]())

        assert without_address(told(call)) == without_address(slowly(call))


@pytest.mark.parametrize("given", GIVEN)
def test_fit_gives_the_same_model_warnings_and_errors(slowly, given):
    def call() -> Any:
        ranker = LinearRankSVM(n_jobs=1)
        items = GIVEN[given]()
        ranker.fit(items, Y[: len(items)] if hasattr(items, "__len__") else Y)
        names = getattr(ranker, "feature_names_in_", np.empty(0, dtype=object))
        return np.array([ranker.n_features_in_, *names, *ranker.coef_], dtype=object).astype(str)

    assert without_address(told(call)) == without_address(slowly(call))


def test_features_of_an_earlier_fit_are_forgotten():
    ranker = LinearRankSVM().fit(frame(), Y)
    assert ranker.feature_names_in_.tolist() == NAMES
    ranker.fit(X[:, :2], Y)
    assert not hasattr(ranker, "feature_names_in_")
    assert ranker.n_features_in_ == 2


def test_a_failed_fit_leaves_the_features(monkeypatch):
    ranker = LinearRankSVM().fit(frame(), Y)
    with pytest.raises(ValueError, match="inconsistent"):
        ranker.fit(X[:, :2], Y[:3])
    assert ranker.feature_names_in_.tolist() == NAMES
    assert ranker.predict(frame()).shape == (N,)


@pytest.mark.parametrize(
    "y",
    [
        Y, Y.tolist(), Y.astype(np.int8), Y.astype(float), Y.astype(np.float32), Y > 1, Y[:, None],
        Y[None, :], Y[:, None, None], Y.astype(object), Y.astype(str), np.repeat(Y, 2)[::2],
        pd.Series(Y), np.where(Y > 1, np.nan, Y), Y.astype(complex), Y[:-1], np.ma.array(Y),
        Y.view(OwnArray), 3, None,
    ],
    ids=repr,
)  # fmt: skip
def test_labels_give_the_same_model_warnings_and_errors(monkeypatch, y):
    def call() -> Any:
        return LinearRankSVM(n_jobs=1).fit(X, y).coef_

    found = told(call)
    monkeypatch.setattr("ranksvm.estimators.checks.PLAIN_LABELS", "")
    assert without_address(found) == without_address(told(call))


@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.float16]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
    )
)
def test_what_is_called_plain_is_plain(values):
    found = plain_array(values)
    if found is not None:
        assert found is values
        assert values.ndim == 2
        assert values.size
        assert values.dtype in (np.float64, np.float32)
        assert np.isfinite(values).all()
    assert plain_items(values, None, None) is None
    assert plain_items(values, 3, np.array(NAMES, dtype=object)) is None


def test_the_usual_input_is_plain():
    names = np.array(NAMES, dtype=object)
    for array in (X, X.astype(np.float32), np.asfortranarray(X), X[::2]):
        assert plain_items(array, D, None) is array
        found = plain_items(frame(array), D, names)
        assert found is not None
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
    assert plain_items(frame(whole.astype(int)), D, names) is not None


def test_an_unfitted_ranker_says_so():
    for ranker in RANKERS.values():
        fresh = type(ranker)(**ranker.get_params())
        for method, arguments in (("predict", [X]), ("score", [X, Y]), ("rank", [X])):
            with pytest.raises(NotFittedError, match="is not fitted yet"):
                getattr(fresh, method)(*arguments)


def test_memory_maps_are_read(tmp_path: Path):
    np.save(tmp_path / "items.npy", X)
    ranker = LinearRankSVM().fit(X, Y)
    mapped = np.load(tmp_path / "items.npy", mmap_mode="r")
    assert ranker.predict(mapped).tobytes() == ranker.predict(X).tobytes()
