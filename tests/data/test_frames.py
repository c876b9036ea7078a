"""Frames of pandas, polars and Arrow: columns by name, the same model as from arrays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from ranksvm import LinearRankSVM, load
from ranksvm.data import RankingData
from ranksvm.data.frames import drop_columns, is_frame, split_frame
from ranksvm.datasets import make_ranking

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
NAMES = ("bm25", "clicks", "age")


@pytest.fixture(scope="module")
def sample():
    return RankingData(*make_ranking(12, (3, 9), 3, shuffle=True, random_state=3)[:3])


def columns(sample) -> dict:
    return {
        "label": sample.y,
        "bm25": sample.X[:, 0],
        "query": [f"q{q}" for q in sample.qid],
        "clicks": sample.X[:, 1],
        "age": sample.X[:, 2],
        "weight": 1.0 + sample.qid % 3,
    }


@pytest.fixture(params=FRAMES)
def make(request):
    return FRAMES[request.param]


def test_columns_by_name_give_the_model_of_the_arrays(sample, make):
    frame = make(columns(sample))
    weight = 1.0 + sample.qid % 3
    plain = LinearRankSVM().fit(sample.X, sample.y, sample.qid, sample_weight=weight)
    named = LinearRankSVM().fit(frame, "label", qid="query", sample_weight="weight")
    np.testing.assert_allclose(named.coef_, plain.coef_, rtol=1e-10)  # another memory layout
    assert list(named.feature_names_in_) == list(NAMES)
    # The same frame, with its other columns, can be scored.
    np.testing.assert_allclose(named.predict(frame), plain.predict(sample.X), rtol=1e-10)
    np.testing.assert_array_equal(named.rank(frame, qid="query"), plain.rank(sample.X, sample.qid))
    assert named.score(frame, "label", qid="query", sample_weight="weight") == plain.score(
        sample.X, sample.y, sample.qid, weight
    )


def test_qid_alone_by_name(sample, make):
    values = columns(sample)
    frame = make({name: values[name] for name in (*NAMES, "query")})
    model = LinearRankSVM().fit(frame, sample.y, qid="query")
    expected = LinearRankSVM().fit(sample.X, sample.y, sample.qid)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-10)
    grouped = LinearRankSVM().fit(frame, sample.y, group="query")
    np.testing.assert_array_equal(grouped.coef_, model.coef_)


def test_a_loaded_model_knows_which_columns_are_no_features(sample, make, tmp_path):
    frame = make(columns(sample))
    model = LinearRankSVM().fit(frame, "label", qid="query", sample_weight="weight")
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_ids_and_labels_as_series(sample):
    for make_series in (pd.Series, pl.Series, pa.array):
        model = LinearRankSVM().fit(
            sample.X, make_series(sample.y), qid=make_series([f"q{q}" for q in sample.qid])
        )
        expected = LinearRankSVM().fit(sample.X, sample.y, sample.qid)
        np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_feature_names_are_checked_at_predict(sample, make):
    values = columns(sample)
    model = LinearRankSVM().fit(make(values), "label", qid="query", sample_weight="weight")
    with pytest.raises(ValueError, match="order"):
        model.predict(make({name: values[name] for name in ("age", "clicks", "bm25")}))
    with pytest.raises(ValueError, match="missing"):
        model.predict(make({name: values[name] for name in ("bm25", "age")}))
    with pytest.raises(ValueError, match="unseen"):
        model.predict(make({"bm25": values["bm25"], "price": values["age"]}))
    more = make({"price": values["age"], **{name: values[name] for name in NAMES}})
    with pytest.warns(UserWarning, match="1 column that the model does not know, ignored: 'price'"):
        scores = model.predict(more)
    np.testing.assert_array_equal(scores, model.predict(make(values)))


def test_a_refit_without_names_forgets_the_columns(sample, make):
    frame = make(columns(sample))
    model = LinearRankSVM().fit(frame, "label", qid="query", sample_weight="weight")
    values = columns(sample)
    model.fit(make({name: values[name] for name in NAMES}), sample.y, sample.qid)
    with pytest.warns(UserWarning, match="3 columns that the model does not know"):
        model.predict(frame)
    assert not hasattr(clone(model), "feature_names_in_")


def test_wrong_names(sample, make):
    frame = make(columns(sample))
    with pytest.raises(ValueError, match=r"qid='quarry' must name one column.*no column.*'label'"):
        LinearRankSVM().fit(frame, "label", qid="quarry")
    with pytest.raises(ValueError, match="another argument names, too"):
        LinearRankSVM().fit(frame, "label", qid="label")
    with pytest.raises(ValueError, match=r"'query' is not numeric.*holds query ids: qid='query'"):
        LinearRankSVM().fit(split_frame(frame, y="label", w="weight")[0], sample.y)


def test_a_name_without_a_frame(sample):
    with pytest.raises(ValueError, match=r"qid='query' names a column, but X is a ndarray"):
        LinearRankSVM().fit(sample.X, sample.y, qid="query")
    with pytest.raises(ValueError, match=r"y='label' names a column"):
        LinearRankSVM().fit(sample.X, sample.y, sample.qid).score(sample.X, "label", sample.qid)


def test_lazy_frames_are_refused(sample):
    lazy = pl.LazyFrame(columns(sample))
    with pytest.raises(TypeError, match=r"lazy frame.*collect"):
        LinearRankSVM().fit(lazy, "label", qid="query")


def test_missing_ids_and_values_are_named(sample, make):
    values = columns(sample)
    broken = make({**values, "query": [None, *values["query"][1:]]})
    with pytest.raises(ValueError, match=r"qid has a missing id in row 0"):
        LinearRankSVM().fit(broken, "label", qid="query")
    holes = make({**values, "clicks": [None, *values["clicks"][1:].tolist()]})
    with pytest.raises(ValueError, match=r"column 1 \('clicks'\): 1 NaN"):
        LinearRankSVM().fit(holes, "label", qid="query", sample_weight="weight")


def test_integer_and_boolean_columns(sample, make):
    values = columns(sample)
    frame = make(
        {
            "label": values["label"].astype(int),
            "query": sample.qid,
            "a": (100 * sample.X[:, 0]).astype(np.int32),
            "b": sample.X[:, 1] > 0.5,
        }
    )
    model = LinearRankSVM().fit(frame, "label", qid="query")
    X = np.column_stack([(100 * sample.X[:, 0]).astype(np.int32), sample.X[:, 1] > 0.5])
    expected = LinearRankSVM().fit(X.astype(float), sample.y, sample.qid)
    np.testing.assert_allclose(model.coef_, expected.coef_)


def test_duplicate_column_names_are_ambiguous(sample):
    frame = pd.DataFrame(np.column_stack([sample.X, sample.qid]), columns=["a", "b", "q", "q"])
    with pytest.raises(ValueError, match="q"):
        LinearRankSVM().fit(frame, sample.y, qid="q")


def test_helpers_leave_other_things_alone(sample):
    for thing in (sample.X, sample.X.tolist(), None):
        assert not is_frame(thing)
        assert drop_columns(thing, ["a"]) is thing
    assert split_frame(sample.X, qid=None) == (sample.X, {"qid": None})
