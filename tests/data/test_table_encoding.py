"""What becomes of the columns of a table: the same as in scikit-learn's ColumnTransformer."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from ranksvm.data.table_encoding import TableEncoding
from ranksvm.data.table_features import encode
from ranksvm.estimators.encodings import MOST_VALUES, learn_encoding

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table.from_pandas}


def table(n: int, seed: int = 0, *, holes: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "price": rng.lognormal(size=n),
            "colour": rng.choice(["red", "blue", "green", "a,b", ""], n),
            "stars": rng.integers(1, 6, n).astype(float),
            "new": rng.random(n) < 0.5,
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n)),
        }
    )
    if holes:
        frame.loc[rng.random(n) < 0.1, "price"] = np.nan
        frame["colour"] = frame["colour"].astype(object)
        frame.loc[rng.random(n) < 0.1, "colour"] = None
    return frame


def transformed(train: pd.DataFrame, frame: pd.DataFrame, **one_hot: object) -> pd.DataFrame:
    """Columns by name, from scikit-learn."""
    numbers, texts = ["price", "stars", "new"], ["colour", "size"]
    holes = [name for name in numbers if train[name].isna().any()]
    made = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median"), numbers),
            ("marks", MissingIndicator(features="all"), holes),
            ("texts", OneHotEncoder(handle_unknown="ignore", **one_hot), texts),
        ],
        sparse_threshold=0.0,
        verbose_feature_names_out=False,
    )
    as_float = [one.assign(new=one["new"].astype(float)) for one in (train, frame)]
    values = made.fit(as_float[0]).transform(as_float[1])
    names = numbers + [f"{name}=missing" for name in holes]
    encoder = made.named_transformers_["texts"]
    for name, out in zip(texts, encoder.categories_, strict=True):
        names += [f"{name}={'missing' if one is None else one}" for one in out]
    assert not one_hot or "min_frequency" not in one_hot
    return pd.DataFrame(np.asarray(values, dtype=float), columns=names)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_it_is_what_column_transformer_makes(make) -> None:
    train, new = table(300), table(80, seed=1)
    new.loc[:3, "colour"] = "purple"  # unknown
    encoding = learn_encoding(make(train), missing="impute")
    assert encoding is not None
    expected = transformed(train, new)
    assert sorted(encoding.feature_names) == sorted(expected.columns)
    found = pd.DataFrame(encode(encoding, make(new)), columns=encoding.feature_names)
    pd.testing.assert_frame_equal(found[expected.columns], expected)
    assert not found.loc[:3, [c for c in found if c.startswith("colour=")]].to_numpy().any()


def test_names_are_in_the_order_of_the_columns() -> None:
    encoding = learn_encoding(table(200), missing="impute")
    assert encoding.feature_names == (
        "price", "price=missing", "colour=", "colour=a,b", "colour=blue", "colour=green",
        "colour=red", "colour=missing", "stars", "new", "size=L", "size=M", "size=S",
    )  # fmt: skip


@pytest.mark.parametrize("min_frequency", [3, 0.2])
def test_rare_values_are_left_out(min_frequency) -> None:
    frame = pd.DataFrame({"colour": ["red"] * 6 + ["blue"] * 3 + ["green"], "x": 0.0})
    encoding = learn_encoding(frame, min_frequency=min_frequency)
    assert encoding.feature_names == ("colour=blue", "colour=red", "x")
    expected = OneHotEncoder(min_frequency=min_frequency, sparse_output=False)
    values = expected.fit_transform(frame[["colour"]])[:, :2]  # the last one is the rare ones
    np.testing.assert_array_equal(encode(encoding, frame)[:, :2], values)
    assert not encode(encoding, frame)[9].any()  # green


def test_wide_one_hot_is_sparse_and_the_same() -> None:
    rng = np.random.default_rng(0)
    brands = pd.Categorical([f"b{k}" for k in rng.integers(0, 400, 2_000)])
    frame = pd.DataFrame({"price": rng.normal(size=2_000), "brand": brands})
    frame.loc[::9, "price"] = np.nan
    encoding = learn_encoding(frame, missing="impute")
    assert encoding.is_sparse
    X = encode(encoding, frame)
    assert issparse(X)
    assert X.format == "csr"
    assert X.has_sorted_indices
    dense = np.column_stack(
        [
            frame["price"].fillna(frame["price"].median()),
            frame["price"].isna(),
            OneHotEncoder(sparse_output=False).fit_transform(frame[["brand"]]),
        ]
    )
    np.testing.assert_array_equal(X.toarray(), dense)


def test_plain_tables_have_no_encoding() -> None:
    frame = table(50, holes=False)[["price", "stars", "new"]]
    assert learn_encoding(frame) is None
    assert learn_encoding(frame.to_numpy(dtype=float)) is None


def test_float32_stays() -> None:
    frame = table(100)[["price", "colour"]].astype({"price": np.float32})
    encoding = learn_encoding(frame, missing="impute")
    assert encode(encoding, frame).dtype == np.float32
    wider = frame.assign(stars=1.0)
    assert encode(learn_encoding(wider, missing="impute"), wider).dtype == np.float64


def test_arrays_have_numbers_for_names() -> None:
    X = np.array([[1.0, np.nan], [2.0, 4.0], [4.0, 8.0]])
    encoding = learn_encoding(X, missing="impute")
    np.testing.assert_array_equal(
        encode(encoding, X), [[1.0, 6.0, 1.0], [2.0, 4.0, 0.0], [4.0, 8.0, 0.0]]
    )
    assert encoding.feature_names is None
    names = [encoding.feature_name(k, 1, "feature ") for k in range(3)]
    assert names == ["feature 1", "feature 2", "feature 2=missing"]


def test_what_was_whole_in_training_is_filled_in_later() -> None:
    encoding = learn_encoding(pd.DataFrame({"a": [1.0, 3.0], "b": [0.0, 1.0]}), missing="impute")
    later = pd.DataFrame({"a": [np.nan, 5.0], "b": [1.0, np.nan]})
    np.testing.assert_array_equal(encode(encoding, later), [[2.0, 1.0], [5.0, 0.5]])


def test_nullable_types_objects_and_decimals() -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "truth": pd.array([True, None, False], dtype="boolean"),
            "object": np.array([True, None, False], dtype=object),
            "level": pd.Categorical([1, 2, 2]),
        }
    )
    found = encode(learn_encoding(frame, missing="impute"), frame)
    expected = [[1, 0, 1, 0, 1, 0, 1, 0], [2, 1, 0.5, 1, 0.5, 1, 0, 1], [3, 0, 0, 0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(found, expected)


def test_values_that_look_like_numbers_later() -> None:
    encoding = learn_encoding(pd.DataFrame({"zip": pd.Categorical(["10", "20", "10"])}))
    later = pd.DataFrame({"zip": [10, 20, 30]})
    np.testing.assert_array_equal(encode(encoding, later), [[1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(encode(encoding, later.astype(float)), [[1, 0], [0, 1], [0, 0]])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.date_range("2024-01-01", periods=4), r"'it' \(Datetime.*such as the age in days"),
        (pd.to_timedelta([1, 2, 3, 4], unit="s"), r"'it' \(Duration.*dates or times"),
        ([f"text {k}" for k in range(4)], r"'it' is text: 4 different values in 4 rows.*tf-idf"),
        ([None] * 4, "'it' has only missing values"),
        ([np.nan] * 4, "'it' has only missing values"),
        ([1.0, np.inf, 2.0, 3.0], "'it' has 1 infinite value"),
        ([[1], [2], [3], [4]], "'it' must hold numbers"),
    ],
)
def test_columns_that_can_be_no_features(column, message) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "it": column})
    with pytest.raises(ValueError, match=message):
        learn_encoding(frame, missing="impute")


def test_text_of_many_values_needs_a_frequency() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"word": [f"w{int(k)}" for k in rng.exponential(60, 3_000)]})
    with pytest.raises(ValueError, match=rf"at most {MOST_VALUES} values.*min_frequency=10"):
        learn_encoding(frame)
    with pytest.raises(ValueError, match=r"none of them as often as min_frequency=2500"):
        learn_encoding(frame, min_frequency=2500)
    counts = frame["word"].value_counts()
    kept = learn_encoding(frame, min_frequency=30).values[0]
    assert set(kept) == set(counts[counts >= 30].index)
    declared = frame.astype("category")  # the user knows
    assert len(learn_encoding(declared).values[0]) == len(counts)


def test_a_number_that_becomes_text_is_an_error() -> None:
    encoding = learn_encoding(table(50), missing="impute")
    with pytest.raises(ValueError, match="'price' must hold numbers, as in training"):
        encode(encoding, table(5).assign(price="cheap"))


def test_facts_there_and_back() -> None:
    encoding = learn_encoding(table(100), missing="impute")
    again = TableEncoding.of_facts(encoding.facts())
    assert again.facts() == encoding.facts()
    new = table(30, seed=5)
    np.testing.assert_array_equal(encode(again, new), encode(encoding, new))
    assert TableEncoding.of_facts({}) is None
    assert again.n_features == again.starts[-1] == len(again.feature_names)
    facts = {**encoding.facts()["encoding"], "n_columns": 2**31 - 1, "columns": None}
    large = TableEncoding.of_facts({"encoding": {**facts, "medians": None}})
    assert large.n_features > 2**31 - 1  # without an array of that size


@pytest.mark.parametrize(
    "change",
    [
        {"n_columns": 0}, {"n_columns": True}, {"n_columns": 4}, {"n_columns": 10**30},
        {"columns": ["a"]}, {"columns": [1, 2, 3, 4, 5]}, {"columns": "abcde"},
        {"medians": [0.0]}, {"medians": [0.0, 0.0, 0.0, 0.0, float("nan")]}, {"medians": 1.0},
        {"marked": [5]}, {"marked": [-1]}, {"marked": ["0"]}, {"marked": 0},
        {"values": {"5": ["a"]}}, {"values": {"-1": ["a"]}}, {"values": {"x": ["a"]}},
        {"values": {"0": []}}, {"values": {"0": [1]}}, {"values": {"0": ["a", "a"]}},
        {"values": []}, {"values": {"9" * 30: ["a"]}}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_hostile_facts_are_refused(change) -> None:
    facts = copy.deepcopy(learn_encoding(table(100), missing="impute").facts())
    facts["encoding"] |= change
    with pytest.raises(ValueError, match="encoding in the facts must be"):
        TableEncoding.of_facts(facts)
