"""Commands with tables: columns that are features, what they become, what a model remembers."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import ranksvm
from ranksvm.cli.options import TrainingOptions
from ranksvm.cli.table_files import TableFiles

NAMED = ("--label-column", "grade", "--qid-column", "query", "--docid-column", "product")
NUMBERS = ["price", "stars", "price_old"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A table as people have it, as CSV and as Parquet: t, and whole without holes."""
    folder = tmp_path_factory.mktemp("shop")
    rng, n = np.random.default_rng(0), 160
    frame = pd.DataFrame(
        {
            "query": [f"q{k // 8}" for k in range(n)],
            "product": [f"p{k}" for k in range(n)],
            "price": rng.lognormal(size=n).round(3),
            "stars": rng.integers(1, 6, n),
            "price_old": rng.lognormal(size=n).round(3),
            "colour": rng.choice(["red", "blue", "007"], n),
            "new": rng.random(n) < 0.5,
            "title": [f"thing {k}" for k in range(n)],
            "trust": rng.integers(1, 4, n),
            "visits": [1 + (k // 8) % 3 for k in range(n)],
        }
    )
    gain = (frame["colour"] == "red") - np.log(frame["price"]) + 0.3 * rng.normal(size=n)
    frame["grade"] = np.digitize(gain, [-0.5, 0.5, 1.5])
    holes = frame.copy()
    holes.loc[::9, "price"] = np.nan
    holes.loc[[5, 50], "colour"] = None
    for name, one in {"t": holes, "whole": frame}.items():
        one.to_csv(folder / f"{name}.csv", index=False)
        one.to_parquet(folder / f"{name}.parquet")
    return folder


def read(shop, name="t"):
    return pd.read_parquet(shop / f"{name}.parquet")


def fitted(shop, columns, name="whole", **options):
    frame = read(shop, name)
    model = ranksvm.LinearRankSVM(**options)
    return model.fit(frame[[*columns, "grade", "query"]], "grade", qid="query")


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        (["--features", "price*,stars"], NUMBERS),
        (["--features", "price", "--features", "stars"], ["price", "stars"]),
        (["--features", "*", "--drop", "title,colour,new,trust,visits"], NUMBERS),
        (["--drop", "t*", "--drop", "colour,new,visits,price_*"], ["price", "stars"]),
    ],
)
@pytest.mark.parametrize("pieces", [[], ["--memory", "1GB"]])
def test_columns_are_chosen_by_name_and_pattern(good, shop, tmp_path, given, columns, pieces):
    good("train", shop / "whole.parquet", *NAMED, *given, *pieces, "-o", tmp_path / "m")
    model = ranksvm.load(tmp_path / "m")
    assert model.feature_names_in_.tolist() == columns
    known = fitted(shop, columns)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-4)
    # The model knows what is what in the same table, and says nothing about what it leaves out.
    scores = np.array(good("predict", tmp_path / "m", shop / "whole.csv").split(), dtype=float)
    np.testing.assert_allclose(scores, model.predict(read(shop, "whole")[columns]), rtol=1e-9)
    if not pieces:
        np.testing.assert_allclose(model.predict(read(shop, "whole")), scores, rtol=1e-9)


def test_wrong_choices(run, shop):
    for given, message in (
        (["--features", "prise*"], "--features 'prise*': "),
        (["--features", "grade"], "--features 'grade': "),
        (["--drop", "titel"], "--drop 'titel': "),
        (["--features", "title", "--drop", "title"], "leave no column to learn from"),
        (["--features", "price", "--min-frequency", "x"], "--min-frequency must be a number of"),
        (["--features", "price", "--min-frequency", "1.5"], "--min-frequency must be a number of"),
    ):
        code, out, err = run("train", shop / "whole.csv", *NAMED, *given)
        assert (code, out) == (2, "")
        assert message in err
    for given, message in (
        ([], "column 'title' is text: 160 different values in 160 rows"),
        (["--features", "title"], "leave the column out (--drop title); keep its frequent values"),
        (["--features", "price", "--weight-column", "none"], "--weight-column"),
        (["--features", "price", "--weight-column", "title"], "--weight-column 'title': "),
        (["--features", "price", "--query-weight-column", "trust"], "must have the same weight"),
    ):
        code, out, err = run("train", shop / "whole.csv", *NAMED, *given)
        assert (code, out) == (3, "")
        assert message in err


def test_dates_are_refused_with_a_hint(run, tmp_path):
    lines = ["label,qid,since,a", *(f"{k % 3},1,2024-01-0{k},{k}" for k in range(1, 9))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    code, _, err = run("train", tmp_path / "t.csv")
    assert code == 3
    assert "'since' (Date) holds dates or times" in err
    assert "--drop since" in err
    assert run("train", tmp_path / "t.csv", "--drop", "since")[0] == 0


def test_weights(good, shop, tmp_path):
    given = ("--features", "price*,stars", "--weight-column", "trust")
    queries = ("--query-weight-column", "visits")
    good("train", shop / "whole.csv", *NAMED, *given, *queries, "-o", tmp_path / "m")
    frame = read(shop, "whole")
    by_query = frame.groupby("query", sort=False)["visits"].first()
    X, y, qid = frame[NUMBERS], frame["grade"], frame["query"]
    known = ranksvm.LinearRankSVM()
    known.fit(X, y, qid, sample_weight=frame["trust"], query_weight=by_query.to_numpy())
    np.testing.assert_allclose(ranksvm.load(tmp_path / "m").coef_, known.coef_, rtol=1e-6)
    good("train", shop / "whole.parquet", *NAMED, *given, "--memory", "1GB", "-o", tmp_path / "p")
    known.fit(X, y, qid, sample_weight=frame["trust"])
    np.testing.assert_allclose(ranksvm.load(tmp_path / "p").coef_, known.coef_, rtol=1e-4)


def test_a_model_remembers_labels_queries_and_documents(good, shop, tmp_path):
    given = ("--features", "price*,stars")
    good("train", shop / "whole.csv", *NAMED, *given, "-o", tmp_path / "m")
    told = good("evaluate", shop / "whole.csv", "--model", tmp_path / "m")
    assert told == good("evaluate", shop / "whole.csv", "--model", tmp_path / "m", *NAMED)
    lines = good("predict", tmp_path / "m", shop / "whole.csv", "--trec-run").splitlines()
    assert {line.split()[2] for line in lines} == set(read(shop)["product"])
    assert {line.split()[0] for line in lines} == set(read(shop)["query"])
    good("explain", tmp_path / "m", shop / "whole.csv", "p1", "p2", "--by", "docid")
    good("train", shop / "whole.csv", *NAMED, *given, "--C", 50, "-o", tmp_path / "other")
    good("compare", shop / "whole.csv", tmp_path / "m", tmp_path / "other")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_categories_and_missing_values(run, good, shop, tmp_path, form):
    given = ("--drop", "title,trust,visits", "--missing", "impute")
    file, model = shop / f"t.{form}", tmp_path / "m.safetensors"
    code, _, err = run("train", file, *NAMED, *given, "-o", model)
    assert (code, err.count("\n")) == (0, 1)
    assert "this column is a category, with one feature for each value: 'colour' (3)" in err
    columns = [*NUMBERS, "colour", "new"]
    known = fitted(shop, columns, "t", missing="impute")
    loaded = ranksvm.load(model)
    assert loaded.get_params() == known.get_params()
    np.testing.assert_allclose(loaded.coef_, known.coef_, rtol=1e-9)
    scores = np.array(good("predict", model, file).split(), dtype=float)
    np.testing.assert_allclose(scores, known.predict(read(shop)[columns]), rtol=1e-9)
    assert "colour=007" in good("info", model)
    assert json.loads(good("info", model, "--json"))["categories"] == {"colour": 3}
    bars = good("explain", model, file, 1, 2)
    assert "colour=" in bars or "price" in bars
    good("evaluate", file, "--model", model)
    good("convert", model, tmp_path / "m.dat")


def test_new_columns_values_and_files(run, good, shop, tmp_path):
    model = tmp_path / "m.safetensors"
    code, _, err = run(
        "train", shop / "whole.csv", *NAMED, "--drop", "title,trust,visits", "-o", model,
        "--valid", shop / "whole.csv",
    )  # fmt: skip
    assert code == 0, err
    frame = read(shop, "whole")
    known = fitted(shop, [*NUMBERS, "colour", "new"])
    # Values that are numbers in this file, in another order, and a column that is new.
    new = frame.assign(colour="007", more="x").iloc[:, ::-1]
    new.to_csv(tmp_path / "new.csv", index=False)
    code, out, err = run("predict", model, tmp_path / "new.csv")
    assert code == 0
    assert "new.csv has 1 column that the model does not know, ignored: 'more'" in err
    expected = known.predict(frame.assign(colour="007")[[*NUMBERS, "colour", "new"]])
    np.testing.assert_allclose(np.array(out.split(), dtype=float), expected, rtol=1e-9)
    frame.drop(columns=["colour", "stars"]).to_csv(tmp_path / "few.csv", index=False)
    code, _, err = run("predict", model, tmp_path / "few.csv")
    assert code == 3
    assert "few.csv: it lacks 2 of the 5 columns of the model: 'stars', 'colour'." in err
    code, _, err = run("predict", model, shop / "t.csv")
    assert code == 3
    assert "'colour' has no value in item 6" in err
    assert run("predict", model, shop / "t.csv", "--missing", "zero")[0] == 0
    code, _, err = run("predict", model, shop / "whole.parquet", "--memory", "1GB")
    assert code == 2
    assert "the model has categories, or fills in missing values, which --memory does not do" in err


def test_rare_values_have_no_feature(run, shop, tmp_path):
    lines = ["label,qid,colour,a"]
    lines += [f"{k % 3},{k // 10},{'red' if k % 2 else f'rare{k}'},{k % 7}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    code, _, err = run("train", tmp_path / "t.csv", "--min-frequency", 5, "-o", tmp_path / "m")
    assert code == 0, err
    assert "'colour' (1)" in err
    model = ranksvm.load(tmp_path / "m")
    assert model._encoding.feature_names == ("colour=red", "a")
    assert model.min_frequency == 5


def test_searches_and_presets(run, shop, tmp_path):
    given = (*NAMED, "--drop", "title,trust,visits", "--missing", "impute", "--folds", 2)
    for more in (["--C-grid", "1,5,25"], ["--preset", "fast"]):
        code, _, err = run("tune", shop / "t.csv", *given, *more, "-o", tmp_path / "m")
        assert code == 0, err
        model = ranksvm.load(tmp_path / "m")
        assert model.missing == "impute"
        code, out, err = run("predict", tmp_path / "m", shop / "t.csv")
        assert (code, err) == (0, "")
        columns = [*NUMBERS, "colour", "new"]
        expected = model.predict(read(shop)[[*columns, "query"]])
        np.testing.assert_allclose(np.array(out.split(), dtype=float), expected, rtol=1e-9)


def test_a_forgotten_query_column_is_no_category(run, shop):
    code, _, err = run("train", shop / "whole.csv", "--label-column", "grade", "--drop", "title")
    assert code == 3
    assert "'query' is not numeric, and its name says that it holds query ids" in err
    assert "--qid-column query" in err


def test_options_of_tables_are_refused_elsewhere(run, folder, shop):
    text = folder / "train.txt"
    for given in (
        ["--features", "a"], ["--drop", "a"], ["--weight-column", "a"], ["--min-frequency", "2"],
        ["--query-weight-column", "a"], ["--missing", "impute"],
    ):  # fmt: skip
        code, _, err = run("train", text, *given)
        assert code == 2
        assert f"{' '.join(given if 'impute' in given else given[:1])} is for tables" in err
    table = (shop / "whole.parquet", *NAMED, "--features", "price", "--memory", "1GB")
    for given in (["--missing", "impute"], ["--min-frequency", "2"]):
        code, _, err = run("train", *table, *given)
        assert code == 2
        assert given[0] in err


def test_labels_and_scores_need_no_features(good, shop, tmp_path):
    """A table with text can be judged: only its labels and queries matter."""
    scores = tmp_path / "scores.txt"
    scores.write_text("\n".join(str(k) for k in range(160)))
    good("evaluate", shop / "t.csv", *NAMED, "--scores", scores)


def test_plain_tables_need_no_scikit_learn(shop, tmp_path):
    program = (
        "import sys; from ranksvm.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('\\n', 'sklearn' in sys.modules)"
    )
    given = [*NAMED, "--features", "price*", "-o", tmp_path / "m"]
    for arguments in (["train", shop / "whole.csv", *given], ["predict", tmp_path / "m",
                      shop / "whole.csv"]):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
        )
        assert done.stdout.split()[-1] == "False"


# --- float32 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([pa.float32(), pa.float32()], np.float32),
        ([pa.float32(), pa.int8()], np.float32),
        ([pa.float32(), pa.bool_()], np.float32),
        ([pa.float32(), pa.int32()], np.float64),
        ([pa.float32(), pa.float64()], np.float64),
        ([pa.int8(), pa.bool_()], np.float64),
    ],
)
def test_float32_stays_as_it_is(tmp_path, types, expected):
    values = pa.array([0, 1, 1, None])
    columns = {f"x{j}": values.cast(kind) for j, kind in enumerate(types)}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    sources = [str(tmp_path / "t.parquet")] * 2
    tables = TableFiles(sources, "parquet", TrainingOptions(), "t")
    X = tables.read_numbers(["x1", "x0"])
    assert (X.dtype, X.flags.f_contiguous) == (expected, True)
    rows = [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [np.nan, np.nan]]
    np.testing.assert_array_equal(X, rows * 2)


def test_a_model_of_float32_columns(good, tmp_path, shop):
    frame = read(shop, "whole")[["grade", "query", *NUMBERS]]
    frame = frame.astype(dict.fromkeys(NUMBERS, np.float32))
    frame.to_parquet(tmp_path / "t.parquet")
    good("train", tmp_path / "t.parquet", *NAMED[:4], "-o", tmp_path / "m")
    known = ranksvm.LinearRankSVM().fit(frame, "grade", qid="query")
    np.testing.assert_allclose(ranksvm.load(tmp_path / "m").coef_, known.coef_, rtol=1e-5)


def test_files_with_other_columns_are_one_table(run, tmp_path):
    (tmp_path / "a.csv").write_text("label,qid,x\n1,1,2\n0,1,3\n")
    (tmp_path / "b.csv").write_text("label,qid,x,y\n1,2,2,1\n0,2,3,2\n")
    code, _, err = run("train", tmp_path / "a.csv", tmp_path / "b.csv")
    assert code == 3
    assert "column 'y' has 2 missing values, the first in item 1" in err
    assert "--missing zero or --missing impute" in err
    assert run("train", tmp_path / "a.csv", tmp_path / "b.csv", "--missing", "impute")[0] == 0
    (tmp_path / "empty.csv").write_text("label,qid,x,y\n1,2,2,\n0,2,3,\n")
    code, _, err = run("train", tmp_path / "empty.csv", "--missing", "impute")
    assert code == 3
    assert "column 'y' has only missing values. Leave it out: --drop y" in err
    code, _, err = run("train", tmp_path / "empty.csv")
    assert "column 'y' has 2 missing values" in err
