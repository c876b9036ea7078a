"""Frames with categories and missing values: fit, predict, explain, files, searches."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from ranksvm import (
    AutoRankSVM,
    FactorizedRankSVM,
    KernelRankSVM,
    KernelRankSVMCV,
    LinearRankSVM,
    LinearRankSVMCV,
    load,
)
from ranksvm.data.table_features import encode
from ranksvm.export import write_svmrank
from ranksvm.models import files

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table.from_pandas}
COLUMNS = ("price", "colour", "new")
ESTIMATORS = [
    LinearRankSVM(missing="impute"),
    KernelRankSVM(missing="impute"),
    KernelRankSVM(missing="impute", approximation="nystroem", n_components=20, random_state=0),
    FactorizedRankSVM(missing="impute", n_factors=2, random_state=0),
    LinearRankSVMCV([1.0, 5.0, 25.0], cv=2, missing="impute"),
    KernelRankSVMCV([10.0, 100.0, 1000.0], gammas=[0.01, 0.1, 1.0], cv=2, missing="impute"),
    AutoRankSVM(preset="fast", cv=2, missing="impute"),
    LinearRankSVM(missing="impute", query_features=("rank",)),
    LinearRankSVM(missing="impute", scaling="quantile"),
]


def shop(n: int = 160, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "label": 0,
            "query": [f"q{k // 8}" for k in range(n)],
            "price": rng.lognormal(size=n),
            "colour": rng.choice(["red", "blue", "green"], n),
            "new": rng.random(n) < 0.5,
        }
    )
    gain = (frame["colour"] == "red") - np.log(frame["price"]) + 0.3 * rng.normal(size=n)
    frame["label"] = np.digitize(gain, [-0.5, 0.5, 1.5])
    frame.loc[rng.random(n) < 0.1, "price"] = np.nan
    frame.loc[rng.random(n) < 0.05, "colour"] = None
    return frame


@pytest.mark.filterwarnings("ignore:.*of the grid")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_every_estimator_has_the_model_of_the_encoded_columns(estimator, tmp_path) -> None:
    frame, new = shop(), shop(40, seed=1)
    model = clone(estimator).fit(frame, "label", qid="query")
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == list(COLUMNS)
    names = ("price", "price=missing", "colour=blue", "colour=green", "colour=red",
             "colour=missing", "new")  # fmt: skip
    assert model._get_model().feature_names == names
    X, Z = (encode(model._encoding, one[list(COLUMNS)]) for one in (frame, new))
    plain = clone(estimator).set_params(missing="error").fit(X, frame["label"], qid=frame["query"])
    expected = plain.predict(Z, qid=new["query"])
    np.testing.assert_allclose(model.predict(new), expected, rtol=1e-6, atol=1e-9)
    model.save(tmp_path / "m.safetensors")
    loaded = load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    assert loaded.score(new, "label") == model.score(new, "label")
    kept = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(kept.predict(new), model.predict(new))
    one, other = (found.explain(new, 0, 3) for found in (model, loaded))
    assert one.names == other.names
    assert one.contributions.sum() == pytest.approx(one.difference)
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (
        tmp_path / "m.safetensors"
    ).read_bytes() or isinstance(model, LinearRankSVMCV | KernelRankSVMCV)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_gives_the_same_model(make) -> None:
    frame = shop()
    known = LinearRankSVM(missing="impute").fit(frame, "label", qid="query")
    model = LinearRankSVM(missing="impute").fit(make(frame), "label", qid="query")
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.predict(make(frame)), known.predict(frame), rtol=1e-9)


def test_explanations_name_values() -> None:
    frame = shop()
    model = LinearRankSVM(missing="impute").fit(frame, "label", qid="query")
    red, blue = (int(np.flatnonzero(frame["colour"] == one)[0]) for one in ("red", "blue"))
    explained = model.explain(frame, red, blue)
    parts = dict(zip(explained.names, explained.contributions, strict=True))
    names = list(model._get_model().feature_names)
    assert parts["colour=red"] == pytest.approx(model.coef_[names.index("colour=red")])
    assert parts["colour=blue"] == pytest.approx(-model.coef_[names.index("colour=blue")])


def test_svmrank_gets_the_weights_of_the_features(tmp_path) -> None:
    model = LinearRankSVM(missing="impute").fit(shop(), "label", qid="query")
    write_svmrank(tmp_path / "m.dat", model._get_model())
    text = (tmp_path / "m.dat").read_text().splitlines()[-1]
    assert text.count(":") == np.count_nonzero(model.coef_) == 7


def test_missing_values_are_an_error_by_default() -> None:
    frame = shop()
    with pytest.raises(ValueError, match=r"'colour' has no value in row \d+.*missing='impute'"):
        LinearRankSVM().fit(frame, "label", qid="query")
    numbers = frame[["label", "query", "price"]]
    with pytest.raises(ValueError, match=r'column 0 \(\'price\'\): \d+ NaN.*missing="impute"'):
        LinearRankSVM().fit(numbers, "label", qid="query")
    whole = frame.dropna()
    model = LinearRankSVM().fit(whole, "label", qid="query")
    for name in ("price", "colour"):
        broken = whole.copy()
        broken.loc[broken.index[2], name] = None
        with pytest.raises(ValueError, match=name):
            model.predict(broken)
    unknown = whole.assign(colour="violet")
    assert np.isfinite(model.predict(unknown)).all()


def test_arrays_keep_their_error_and_can_be_filled_in(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    X[::7, 1] = np.nan
    with pytest.raises(ValueError, match=r"column 1: 9 NaN"):
        LinearRankSVM().fit(X, y)
    model = LinearRankSVM(missing="impute").fit(X, y)
    filled = np.column_stack([X, np.isnan(X[:, 1])])[:, [0, 1, 3, 2]]
    filled[::7, 1] = np.nanmedian(X[:, 1])
    known = LinearRankSVM().fit(filled, y)
    np.testing.assert_allclose(model.predict(X), known.predict(filled), rtol=1e-9)
    assert model.explain(X, 0, 1).names[0].startswith("feature")
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(X), model.predict(X))
    with pytest.raises(ValueError, match="infinite"):
        LinearRankSVM(missing="impute").fit(np.where(np.isnan(X), np.inf, X), y)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match=r"X holds text.*Pass a frame"):
        LinearRankSVM().fit(np.array([["a", 1], ["b", 2]], dtype=object), [0, 1])


def test_what_comes_to_predict() -> None:
    frame = shop()
    model = LinearRankSVM(missing="impute").fit(frame, "label", qid="query")
    items = frame[list(COLUMNS)]
    expected = model.predict(items)
    np.testing.assert_array_equal(model.predict(frame), expected)
    with pytest.warns(UserWarning, match="does not know, ignored: 'title'"):
        np.testing.assert_array_equal(model.predict(frame.assign(title="x")), expected)
    with pytest.raises(ValueError, match="now missing:\n- colour\n- new"):
        model.predict(items[["price"]])
    with pytest.raises(ValueError, match="order"):
        model.predict(items[["new", "price", "colour"]])
    with pytest.raises(ValueError, match="trained on a frame with categories, and X is a ndarray"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="'price' must hold numbers"):
        model.predict(items.assign(price="cheap"))


def test_a_failed_fit_leaves_the_old_model() -> None:
    frame = shop()
    model = LinearRankSVM(missing="impute").fit(frame, "label", qid="query")
    expected = model.predict(frame)
    with pytest.raises(ValueError, match="text"):
        model.fit(frame.assign(title=[f"t{k}" for k in range(len(frame))]), "label", qid="query")
    np.testing.assert_array_equal(model.predict(frame), expected)
    plain = frame.dropna()[["label", "query", "price"]]
    model.set_params(missing="error").fit(plain, "label", qid="query")
    assert model._encoding is None
    assert model.coef_.shape == (1,)


def test_a_warm_start_knows_the_features() -> None:
    model = LinearRankSVM(missing="impute", warm_start=True).fit(shop(), "label", qid="query")
    first = model.coef_
    model.fit(shop(), "label", qid="query")
    assert model.n_iter_ <= 1
    np.testing.assert_allclose(model.coef_, first, rtol=1e-3, atol=1e-6)


def test_wide_categories_are_sparse_and_scaled() -> None:
    rng = np.random.default_rng(0)
    brand = rng.integers(0, 300, 1_500)
    frame = pd.DataFrame(
        {
            "label": (brand % 3 + rng.random(1_500)).round(),
            "query": np.arange(1_500) // 10,
            "price": 1e6 * rng.random(1_500),
            "brand": pd.Categorical([f"b{k}" for k in brand]),
        }
    )
    model = LinearRankSVM().fit(frame, "label", qid="query")
    assert model._encoding.is_sparse
    assert model._facts["scaling"] == "standard"
    assert model.score(frame, "label") > 0.8
    kernel = KernelRankSVM(approximation="nystroem", n_components=50, random_state=0)
    assert np.isfinite(kernel.fit(frame, "label", qid="query").predict(frame)).all()


def test_explicit_pairs_and_validation_sets() -> None:
    frame = shop()
    better, worse = [0, 1, 2, 3], [4, 5, 6, 7]
    model = LinearRankSVM(missing="impute")
    model.fit_pairs(frame[list(COLUMNS)], better, worse)
    assert model.score_pairs(frame[list(COLUMNS)], better, worse) == 1.0
    held_out = shop(40, seed=2)
    found = LinearRankSVMCV([1.0, 5.0, 25.0], missing="impute").fit(
        frame, "label", qid="query", validation=held_out
    )
    assert found.predict(held_out).shape == (40,)
    early = FactorizedRankSVM(missing="impute", n_factors=2, random_state=0)
    early.fit(frame, "label", qid="query", eval_set=held_out)
    assert early.predict(held_out).shape == (40,)


def test_files_are_refused(tmp_path) -> None:
    shop().to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="missing='impute' needs all items in memory"):
        LinearRankSVM(missing="impute").fit_files(tmp_path / "t.parquet", qid="query")
    with pytest.raises(ValueError, match="'colour'"):
        LinearRankSVM().fit_files(tmp_path / "t.parquet", qid="query")


def test_a_model_file_holds_only_numbers_and_names(tmp_path) -> None:
    """A file with another number of features than its encoding is refused."""
    model = LinearRankSVM(missing="impute").fit(shop(), "label", qid="query")
    model.save(tmp_path / "m")
    assert files.read_model(tmp_path / "m", {"linear": type(model._get_model())}).encoding
    content = (tmp_path / "m").read_bytes()
    assert b'\\"schema\\":2' in content
    hostile = model._get_model()
    facts = {**hostile.facts}
    facts["encoding"] = {**facts["encoding"], "marked": []}
    with pytest.raises(ValueError, match="gives 5 features, but the model has 7"):
        files.write_model(tmp_path / "h", replace(hostile, facts=facts))


def test_plain_models_are_stored_as_before(tmp_path) -> None:
    frame = shop().dropna()[["label", "query", "price", "new"]]
    model = LinearRankSVM().fit(frame, "label", qid="query")
    assert model._encoding is None
    assert "encoding" not in model._facts
    model.save(tmp_path / "m")
    assert b'\\"schema\\":1' in (tmp_path / "m").read_bytes()


def test_a_loaded_model_with_categories_predicts(tmp_path) -> None:
    frame = shop()
    model = LinearRankSVM(missing="impute").fit(frame, "label", qid="query")
    model.save(tmp_path / "m")
    frame.to_pickle(tmp_path / "frame")
    program = (
        "import pandas, ranksvm, sys\n"
        "print(*ranksvm.load(sys.argv[1]).predict(pandas.read_pickle(sys.argv[2])).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "m", tmp_path / "frame"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = np.array(done.stdout.split(), dtype=float)
    np.testing.assert_array_equal(found, model.predict(frame))


def test_text_through_a_pipeline() -> None:
    frame = shop().dropna(subset=["price"]).assign(title="red shoes")
    frame.loc[frame["label"] > 1, "title"] = "best red shoes ever"
    made = make_column_transformer(
        (TfidfVectorizer(), "title"), ("passthrough", ["price"]), remainder="drop"
    )
    model = make_pipeline(made, LinearRankSVM())
    model.fit(frame, frame["label"], linearranksvm__qid=frame["query"])
    assert model[-1].score(made.transform(frame), frame["label"], frame["query"]) > 0.9
