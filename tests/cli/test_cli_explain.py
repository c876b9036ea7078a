"""The command ``ranksvm explain``: whom it finds, what it draws, what it refuses."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.data import save_letor
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking

NAMES = [f"n{j}" for j in range(5)]


@pytest.fixture(scope="module")
def sample():
    return RankingData(*make_ranking(12, (3, 7), 5, random_state=2)[:3])


def document_ids(qid) -> list[str]:
    """E<row> for every other row; D<place in its query>, which many queries have, for the rest."""
    places = [int((qid[:row] == qid[row]).sum()) for row in range(len(qid))]
    ids = [f"E{row}" if row % 2 else f"D{place}" for row, place in enumerate(places)]
    return ["twice", "twice", *ids[2:]]


@pytest.fixture(scope="module")
def folder(sample, tmp_path_factory):
    """Items as text and as a table, and models of them."""
    X, y, qid = sample
    folder = tmp_path_factory.mktemp("explain")
    docids = document_ids(qid)
    save_letor(folder / "items.txt", X, y, qid, comments=[f"docid = {one}" for one in docids])
    save_letor(folder / "bare.txt", X, y, qid)
    save_letor(folder / "zero.txt", X, y, qid, zero_based=True)
    frame = pd.DataFrame(X, columns=NAMES).assign(label=y, qid=qid, docid=docids)
    frame.to_csv(folder / "items.csv", index=False)
    frame[["qid", *NAMES[::-1], "label"]].to_csv(folder / "turned.csv", index=False)
    LinearRankSVM().fit(X, y, qid).save(folder / "linear.safetensors")
    frame = frame.drop(columns=["docid"])
    LinearRankSVM().fit(frame, "label", qid="qid").save(folder / "named.safetensors")
    KernelRankSVM().fit(X, y, qid).save(folder / "kernel.safetensors")
    return folder


def model_of(sample):
    return LinearRankSVM().fit(*sample)


def test_the_picture_is_that_of_the_library(good, folder, sample):
    out = good("explain", folder / "linear.safetensors", folder / "items.txt", 3, 1)
    model = model_of(sample)
    found = model._get_model().explain(sample.X, 2, 0, items=("item 3", "item 1"), first=1)
    assert out == found.picture(80, encoding="utf-8") + "\n"
    assert f"feature {found.index[0] + 1} " in out
    assert "item 3 is " in out
    assert "others" not in out


def test_top_and_others(good, folder, sample):
    arguments = ["explain", folder / "linear.safetensors", folder / "items.txt", 3, 1]
    whole = json.loads(good(*arguments, "--json"))
    cut = json.loads(good(*arguments, "--json", "--top", 2))
    assert cut["contributions"] == whole["contributions"][:2]
    assert (whole["others"], whole["n_others"]) == (0.0, 0)
    assert cut["n_others"] == len(whole["contributions"]) - 2
    rest = math.fsum(part["contribution"] for part in whole["contributions"][2:])
    assert cut["others"] == rest
    lines = good(*arguments, "--top", 2).splitlines()
    assert lines[-2].startswith(f"{cut['n_others']} others")
    assert good(*arguments, "--top", 0).splitlines()[-2].startswith("5 others")
    # The figures are those of predict.
    scores = good("predict", *arguments[1:3]).split()
    assert [one["score"] for one in whole["items"]] == pytest.approx(
        [float(scores[2]), float(scores[0])], rel=1e-14
    )
    assert whole["difference"] == pytest.approx(
        math.fsum(part["contribution"] for part in whole["contributions"]), rel=1e-12
    )
    assert whole["part"] == "feature"
    assert whole["items"][0]["item"] == 3
    assert whole["items"][0]["qid"] == sample.qid[2]


def test_documents_by_their_ids(good, folder, sample):
    items, model = folder / "items.txt", folder / "linear.safetensors"
    row = 3
    query = sample.qid[row]
    other = next(k for k in range(len(sample.y)) if sample.qid[k] == query and k not in (0, 1, row))
    name = document_ids(sample.qid)[other]
    assert name == "D2"
    by_row = json.loads(good("explain", model, items, row + 1, other + 1, "--json"))
    by_id = json.loads(
        good("explain", model, items, "E3", name, "--by", "docid", "--qid", query, "--json")
    )
    assert by_id == by_row
    assert [one["docid"] for one in by_id["items"]] == ["E3", name]
    out = good("explain", model, items, "E3", name, "--by", "docid", "--qid", query)
    assert out.splitlines()[0].startswith("E3 is ")
    table = json.loads(
        good("explain", folder / "named.safetensors", folder / "items.csv", "E3", name,
             "--by", "docid", "--qid", query, "--json")
    )  # fmt: skip
    assert [one["item"] for one in table["items"]] == [row + 1, other + 1]
    # D2 is in many queries, but only one of them has E3: nobody has to name it.
    alone = good("explain", model, items, "E3", name, "--by", "docid", "--json")
    turned = good("explain", model, items, name, "E3", "--by", "docid", "--json")
    assert json.loads(alone) == by_id
    assert json.loads(turned)["items"] == by_id["items"][::-1]


def test_documents_of_two_queries(run, folder):
    """Those that are there once need not share a query."""
    model, items = folder / "linear.safetensors", folder / "items.txt"
    code, out, err = run("explain", model, items, "E3", "E21", "--by", "docid", "--json")
    assert code == 0
    assert [one["item"] for one in json.loads(out)["items"]] == [4, 22]
    assert "of different queries" in err


def test_only_the_two_items_have_to_be_finite(good, run, folder, tmp_path):
    model = folder / "named.safetensors"
    frame = pd.read_csv(folder / "items.csv")
    frame.loc[4, "n1"] = np.nan
    frame.to_csv(tmp_path / "holes.csv", index=False)
    expected = good("explain", model, folder / "items.csv", 1, 2)
    arguments = ["explain", model, tmp_path / "holes.csv", "--missing", "nan"]
    assert good(*arguments, 1, 2) == expected
    for pair in ((1, 5), (5, 1)):
        code, out, err = run(*arguments, *pair)
        assert (code, out) == (3, "")
        assert "has 1 value that is missing or infinite, the first in item 5, feature n1" in err


def test_sparse_items_have_to_be_finite(good, run, folder, tmp_path):
    lines = [f"{k % 2} qid:1 {1 + 40 * k}:1 {300 + k}:{'nan' if k == 2 else 2}\n" for k in range(4)]
    (tmp_path / "sparse.txt").write_text("".join(lines))
    model = folder / "linear.safetensors"
    arguments = [model, tmp_path / "sparse.txt", "--missing", "nan"]
    code, _, err = run("explain", *arguments, 1, 2)
    assert (code, "weigh nothing" in err) == (0, True)
    code, _, err = run("explain", *arguments, 4, 3)
    assert code == 3
    assert "the first in item 3, feature 302" in err


def test_features_of_a_table_with_further_columns_of_text(run, folder, tmp_path):
    """Columns that the model does not know are not looked at, whatever they hold."""
    frame = pd.read_csv(folder / "items.csv").assign(title="some words", n9=1.0)
    frame.to_csv(tmp_path / "more.csv", index=False)
    model = folder / "named.safetensors"
    _, expected, _ = run("explain", model, folder / "items.csv", 1, 2)
    code, out, err = run("explain", model, tmp_path / "more.csv", 1, 2)
    assert (code, out) == (0, expected)
    assert "has 2 columns that the model does not know, ignored: 'title', 'n9'" in err


@pytest.mark.parametrize(("terminal", "width"), [(50, 50), (90, 90), (300, 100), (10, 40)])
def test_the_picture_is_as_wide_as_the_terminal(run, folder, sample, monkeypatch, terminal, width):
    monkeypatch.setenv("COLUMNS", str(terminal))
    arguments = ["explain", folder / "linear.safetensors", folder / "items.txt", 3, 1]
    model = model_of(sample)._get_model()
    found = model.explain(sample.X, 2, 0, items=("item 3", "item 1"), first=1)
    # Not of the terminal, but of a file: always the same.
    assert run(*arguments)[1] == found.picture(80, encoding="utf-8") + "\n"
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    _, out, _ = run(*arguments)
    assert out == found.picture(width, encoding="utf-8") + "\n"
    assert max(map(len, out.splitlines())) in (width - 1, width)


def test_columns_are_matched_as_predict_does(good, run, folder, sample):
    model = folder / "named.safetensors"
    straight = good("explain", model, folder / "items.csv", 1, 2)
    assert good("explain", model, folder / "turned.csv", 1, 2) == straight
    assert all(name in straight for name in NAMES)
    # One feature more than the model has weighs nothing, one less is zero.
    X = np.column_stack([sample.X, np.arange(len(sample.y), dtype=float)])
    save_letor(folder / "wide.txt", X, sample.y, sample.qid)
    save_letor(folder / "narrow.txt", sample.X[:, :3], sample.y, sample.qid)
    linear = folder / "linear.safetensors"
    code, out, err = run("explain", linear, folder / "wide.txt", 1, 2)
    assert code == 0
    assert "the others weigh nothing" in err
    assert out == good("explain", linear, folder / "items.txt", 1, 2)
    found = json.loads(good("explain", linear, folder / "narrow.txt", 1, 2, "--json"))
    names = {part["name"] for part in found["contributions"]}
    assert names == {"feature 1", "feature 2", "feature 3"}


def test_features_are_counted_as_the_training_data_did(good, folder, tmp_path):
    path = tmp_path / "m.safetensors"
    good("train", folder / "zero.txt", "--zero-based", "-o", path)
    out = good("explain", path, folder / "zero.txt", 1, 3)
    found = json.loads(good("explain", path, folder / "zero.txt", 1, 3, "--json"))
    assert {(part["name"], part["index"]) for part in found["contributions"]} == {
        (f"feature {k}", k) for k in range(5)
    }
    one_based = good("explain", folder / "linear.safetensors", folder / "items.txt", 1, 3)
    assert {f"feature {k}" for k in range(5)} <= {line[:9] for line in out.splitlines()}
    assert [line[9:] for line in out.splitlines()[3:-1]] == [
        line[9:] for line in one_based.splitlines()[3:-1]
    ]


def test_sparse_text_and_foreign_models(good, folder, sample, tmp_path):
    X = np.zeros((len(sample.y), 400))
    X[:, ::80] = sample.X
    save_letor(tmp_path / "sparse.txt", X, sample.y, sample.qid)
    good("train", tmp_path / "sparse.txt", "-o", tmp_path / "m.dat")
    out = good("explain", tmp_path / "m.dat", tmp_path / "sparse.txt", 2, 1, "--json")
    names = [part["name"] for part in json.loads(out)["contributions"]]
    assert set(names) == {f"feature {k}" for k in (1, 81, 161, 241, 321)}
    indices = [part["index"] for part in json.loads(out)["contributions"]]
    assert names == [f"feature {k}" for k in indices]


def test_kernel_models_are_explained_by_their_items(good, folder, sample, tmp_path):
    out = good("explain", folder / "kernel.safetensors", folder / "items.txt", 2, 1, "--json")
    found = json.loads(out)
    expected = KernelRankSVM().fit(*sample).explain(sample.X, 1, 0).top(10)
    assert found["part"] == "support item"
    assert [part["name"] for part in found["contributions"]] == [
        f"training item {k + 1}" for k in expected.index
    ]
    assert [part["index"] for part in found["contributions"]] == (expected.index + 1).tolist()
    shown = good("explain", folder / "kernel.safetensors", folder / "items.txt", 2, 1)
    assert f"training item {expected.index[0] + 1} " in shown
    assert [part["contribution"] for part in found["contributions"]] == pytest.approx(
        expected.contributions.tolist(), rel=1e-9
    )
    for options, part in (
        (["nystroem", "--components", "6"], "landmark"),
        (["fourier", "--components", "6"], "random feature"),
    ):
        path = tmp_path / f"{options[0]}.safetensors"
        good("train", folder / "items.txt", "--kernel", "rbf", "--approximation", *options,
             "-o", path)  # fmt: skip
        text = good("explain", path, folder / "items.txt", 2, 1)
        assert all(f"{part} {k}" in text for k in range(1, 7))
        parts = json.loads(good("explain", path, folder / "items.txt", 2, 1, "--json"))
        assert {(one["name"], one["index"]) for one in parts["contributions"]} == {
            (f"{part} {k}", k) for k in range(1, 7)
        }


def test_items_of_two_queries_are_told(run, folder, sample):
    last = len(sample.y)
    code, out, err = run("explain", folder / "linear.safetensors", folder / "items.txt", 1, last)
    assert code == 0
    assert f"item 1 is above item {last}" in out or f"item 1 is below item {last}" in out
    assert "the items are of different queries, " in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["items.txt", "1", "1"], 2, "1 is named twice"),
        (["items.txt", "1", "01"], 2, "1 and 01 are the same item"),
        (["items.txt", "1", "D2"], 2, "got 'D2'. For document ids, use --by docid"),
        (["items.txt", "1", "1.5"], 2, "expected an item number (1, 2, ...); got '1.5'"),
        (["items.txt", "0", "1"], 3, "there is no item 0 in"),
        (["items.txt", "1", "100000"], 3, "there is no item 100000 in"),
        (["items.txt", "9" * 5000, "1"], 3, f"there is no item {'9' * 60}... in"),
        (["items.txt", "1", "0" * 5000], 3, f"there is no item {'0' * 60}... in"),
        (["items.txt", "1", "x" * 5000], 2, f"got '{'x' * 60}...'. For document ids"),
        (["items.txt", "1", "2", "--qid", "1"], 2, "--qid needs --by docid"),
        (["bare.txt", "a", "b", "--by", "docid"], 3, "has no document ids"),
        (["items.txt", "E3", "nobody", "--by", "docid"], 3, "there is no document nobody in"),
        (
            ["items.txt", "D2", "D0", "--by", "docid"],
            2,
            "have both documents (3, 4, 6, 8, 9 and 1 more). Say which one is meant with --qid",
        ),
        (["items.txt", "E7", "D2", "--by", "docid"], 3, "has both documents, E7 and D2. Use row"),
        (["items.txt", "E3", "twice", "--by", "docid"], 3, "(items 1, 2). Use row numbers"),
        (["items.txt", "D2", "E3", "--by", "docid", "--ignore-qid"], 3, "document D2 is "),
        (["items.txt", "E3", "E5", "--by", "docid", "--qid", "no"], 3, "has no query no"),
        (["items.txt", "E3", "E5", "--by", "docid", "--ignore-qid", "--qid", "1"], 3, "no query 1"),
        (["items.csv", "1", "2"], 3, "named columns, 'n0' for example"),
        (["absent.txt", "1", "2"], 3, "No such file"),
        (["items.txt", "1"], 2, "Missing argument 'J'"),
    ],
)
def test_what_is_refused(run, folder, arguments, code, message):
    file, *rest = arguments
    found, out, err = run("explain", folder / "linear.safetensors", folder / file, *rest)
    assert (found, out) == (code, "")
    assert message in err.replace("\n", " ")


def test_pipes_and_plain_terminals(good, folder):
    text = (folder / "items.txt").read_bytes()
    arguments = ["explain", folder / "linear.safetensors", "-", "3", "1"]
    expected = good("explain", folder / "linear.safetensors", folder / "items.txt", "3", "1")
    assert good(*arguments, stdin=text) == expected
    done = subprocess.run(
        [sys.executable, "-m", "ranksvm", *map(str, arguments)],
        input=text,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"#####" in done.stdout
