"""Files that can be read and mean something else: the commands say so, or refuse them."""

from __future__ import annotations

import numpy as np
import pytest

from ranksvm import LinearRankSVM
from ranksvm.data import LetorError, load_letor, save_letor
from ranksvm.datasets import make_ranking

JUDGEMENTS = "2 qid:1 # docid = A\n0 qid:1 # docid = B\n1 qid:2 # docid = C\n0 qid:2 # docid = D\n"
NO_FEATURES = "judged.txt has labels and ids but no features (index:value). Pass the file with"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readings")
    X, y, qid, _ = make_ranking(30, (4, 9), 5, random_state=0)
    save_letor(folder / "train.txt", X, y, qid)
    LinearRankSVM().fit(X, y, qid=qid).save(folder / "m")
    (folder / "judged.txt").write_text(JUDGEMENTS, encoding="ascii")
    return folder


# --- No features ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        "train {f}/judged.txt",
        "train {f}/judged.txt --kernel rbf",
        "train {f}/train.txt --valid {f}/judged.txt",
        "tune {f}/judged.txt --folds 2",
        "tune {f}/train.txt --valid {f}/judged.txt",
        "predict {f}/m {f}/judged.txt",
        "evaluate {f}/judged.txt --model {f}/m",
        "explain {f}/m {f}/judged.txt 1 2",
    ],
)
def test_files_without_features_are_refused(run, folder, arguments):
    code, out, err = run(*arguments.format(f=folder).split())
    assert (code, out) == (3, "")
    assert NO_FEATURES in err


def test_what_needs_no_features_takes_such_files(good, run, folder, tmp_path):
    assert "features used" in good("info", folder / "judged.txt")
    (tmp_path / "scores").write_text("1\n2\n3\n4\n")
    good("evaluate", folder / "judged.txt", "--scores", tmp_path / "scores")
    (tmp_path / "t.csv").write_text("label,qid\n1,a\n0,a\n")
    code, _, err = run("train", tmp_path / "t.csv")
    assert (code, "t.csv has labels and ids but no feature columns" in err) == (3, True)
    (tmp_path / "zero.txt").write_text("1 qid:1 1:0\n0 qid:1\n")
    assert good("predict", folder / "m", tmp_path / "zero.txt") == "0.0\n0.0\n"


# --- No queries ----------------------------------------------------------------------------------


def test_text_without_query_ids_is_told_as_tables_are(run, good, tmp_path):
    (tmp_path / "a.txt").write_text("2 1:1\n1 1:0.5\n0 1:0\n")
    (tmp_path / "a.csv").write_text("label,x\n2,1\n1,0.5\n0,0\n")
    said = {}
    for name in ("a.txt", "a.csv"):
        code, out, err = run("train", tmp_path / name)
        assert (code, "1 query" in out) == (0, True)
        said[name] = err.removeprefix(f"ranksvm: {tmp_path / name} has no ")
        assert "has no 'qid" in err
        assert "--ignore-qid to silence this note" in err
        good("train", tmp_path / name, "--ignore-qid")
    assert said["a.txt"].startswith("'qid:' fields; treating all items as one query. Use ")
    assert said["a.csv"].startswith("'qid' column; treating all items as one query. Name ")


# --- Pairs ---------------------------------------------------------------------------------------


def test_pairs_that_count_from_0(run, good, folder, tmp_path):
    _, y, qid, _ = make_ranking(30, (4, 9), 5, random_state=0)
    same = (qid[:, None] == qid) & (y[:, None] > y)
    better, worse = np.nonzero(same)
    inside = (better > 0) & (worse > 0)  # row 0 itself would give it away
    lines = [f"{i} {j}\n" for i, j in zip(better[inside], worse[inside], strict=True)]
    (tmp_path / "zero.txt").write_text("".join(lines))
    arguments = ("train", folder / "train.txt", "--pairs", tmp_path / "zero.txt")
    code, _, err = run(*arguments)
    assert code == 0
    assert f"labels; counted from 0, {inside.sum()} of {inside.sum()}." in err
    assert "If so, use --pairs-zero-based" in err
    out = good(*arguments, "--pairs-zero-based")
    assert f"{inside.sum():,} explicit pairs" in out
    inside = (better + 1 < len(y)) & (worse + 1 < len(y))  # and so would the last row here
    lines = [f"{i + 1} {j + 1}\n" for i, j in zip(better[inside], worse[inside], strict=True)]
    (tmp_path / "one.txt").write_text("".join(lines))
    one = ("train", folder / "train.txt", "--pairs", tmp_path / "one.txt")
    good(*one)
    code, _, err = run(*one, "--pairs-zero-based")
    assert code == 0
    assert "one.txt may count rows from 1: counted from 0, " in err
    assert "If so, leave --pairs-zero-based out." in err
    (tmp_path / "zero.txt").write_text("3 1\n1 0\n")
    code, _, err = run(*arguments)
    assert code == 3
    assert "line 2: found '0', but rows are counted from 1" in err
    assert "counts from 0, use --pairs-zero-based" in err
    for options in (
        ["--pairs-zero-based"],
        [*arguments[2:], "--pairs-by", "docid", "--pairs-zero-based"],
    ):
        code, _, err = run("train", folder / "train.txt", *options)
        assert (code, "--pairs-zero-based" in err) == (2, True)


# --- Numbers of items ----------------------------------------------------------------------------


def test_items_count_from_1_everywhere(run, good, folder, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("2 qid:1 1:1 # first\n0 qid:1 1:3 # docid = B\n1 qid:1 1:2 # third\n")
    ranked = good("predict", folder / "m", path, "--trec-run").splitlines()
    assert sorted(line.split()[2] for line in ranked) == ["1", "3", "B"]
    explained = good("explain", folder / "m", path, "1", "3", "--json")
    assert '"item": 1' in explained
    assert '"item": 3' in explained

    path.write_text("2 qid:1 1:1 # docid = B\n0 qid:2 1:3 # docid = C\n1 qid:1 1:2 # docid = B\n")
    code, _, err = run("predict", folder / "m", path, "--trec-run")
    assert (code, "docid 'B' of item 3 occurs twice in query 1" in err) == (3, True)
    (tmp_path / "t.csv").write_text("label,qid,x\n1,a,2\n0,a b,1\n")
    code, _, err = run("convert", tmp_path / "t.csv", tmp_path / "t.txt")
    assert (code, "got 'a b' in item 2" in err) == (3, True)
    (tmp_path / "t.csv").write_text("label,qid,x,z\n1,a,2,1\n0,a,1,inf\n")
    code, _, err = run("convert", tmp_path / "t.csv", tmp_path / "t.txt")
    assert (code, "an infinite value in item 2, column 2" in err) == (3, True)
    path.write_text("2 qid:1 1:1\n-1 qid:1 1:3\n")
    code, _, err = run("evaluate", path, "--model", folder / "m", "-m", "ndcg@2")
    assert (code, "got -1.0 in item 2" in err) == (3, True)


# --- Missing values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        "evaluate {t} --model {f}/m",
        "compare {t} {f}/m {f}/m2",
    ],
)
def test_missing_values_cannot_be_kept_where_numbers_are_needed(run, folder, tmp_path, arguments):
    path = tmp_path / "a.txt"
    path.write_text("2 qid:1 1:1\n0 qid:1 1:3\n")  # nothing is missing: the option is the mistake
    (folder / "m2").write_bytes((folder / "m").read_bytes())
    command = arguments.format(f=folder, t=path).split()
    code, out, err = run(*command, "--missing", "nan")
    assert (code, out) == (2, "")
    assert "--missing nan does not work with models, which need numbers" in err
    assert "--missing zero" in err


@pytest.mark.parametrize("command", ["train", "tune", "predict"])
def test_nan_is_not_offered_where_numbers_are_needed(run, command):
    code, _, err = run(command, "a", "b", "--missing", "nan")
    assert (code, "'nan' is not one of 'error', 'zero'" in err, err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(
    ("arguments", "keeps"),
    [
        ("info {t}", True),
        ("convert {t} {t}.csv", True),
        ("evaluate {t} --scores {t}", True),
        ("train {t}", False),
        ("tune {t}", False),
        ("predict {f}/m {t}", False),
        ("explain {f}/m {t} 1 2", False),
        ("evaluate {t} --model {f}/m", False),
    ],
)
def test_a_missing_value_is_told_with_advice_that_works(run, folder, tmp_path, arguments, keeps):
    path = tmp_path / "a.txt"
    path.write_text("2 qid:1 1:NULL\n0 qid:1 1:3\n")
    code, _, err = run(*arguments.format(f=folder, t=path).split())
    found = "line 1, column 11: found a missing value ('NULL'). Fill it in, or use --missing zero"
    assert (code, found in err) == (3, True), err
    assert ("--missing nan" in err) is keeps
    with pytest.raises(LetorError, match="missing='zero' to read it as 0 or missing='nan' to keep"):
        load_letor(path)


def test_missing_values_can_be_kept_where_they_do_no_harm(good, folder, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("2 qid:1 1:NULL\n0 qid:1 1:3\n1 qid:1 1:1\n")
    assert "missing values" in good("info", path, "--missing", "nan")
    good("convert", path, tmp_path / "b.csv", "--missing", "nan")
    (tmp_path / "scores").write_text("1\n2\n3\n")
    good("evaluate", path, "--scores", tmp_path / "scores", "--missing", "nan")
    good("explain", folder / "m", path, "2", "3", "--missing", "nan")
