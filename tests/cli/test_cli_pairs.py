"""``train --pairs`` and ``tune --pairs``: explicit preferences, alone and beside labels."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import ranksvm
from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV
from ranksvm.data import save_letor
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import read_model
from ranksvm.metrics import evaluate

NAMES = [f"n{j}" for j in range(5)]


@pytest.fixture(scope="module")
def sample():
    return RankingData(*make_ranking(15, (3, 8), 5, random_state=3)[:3])


@pytest.fixture(scope="module")
def pairs(sample):
    """Pairs inside queries and across, some of them twice, with weights; none contradicts."""
    rng = np.random.default_rng(0)
    value = sample.X @ rng.normal(size=5) + rng.normal(size=len(sample.y))
    rows = rng.integers(0, len(sample.y), size=(90, 2))
    rows = rows[value[rows[:, 0]] > value[rows[:, 1]]]
    return rows[:, 0], rows[:, 1], rng.integers(0, 5, size=len(rows)) / 4


@pytest.fixture(scope="module")
def folder(sample, pairs, tmp_path_factory):
    X, y, qid = sample
    folder = tmp_path_factory.mktemp("pairs")
    places = [int((qid[:row] == qid[row]).sum()) for row in range(len(qid))]
    docids = [f"D{place}" for place in places]
    save_letor(folder / "items.txt", X, y, qid, comments=[f"docid = {one}" for one in docids])
    save_letor(folder / "bare.txt", X, y, qid)
    held_out = make_ranking(10, (4, 8), 5, random_state=4)
    save_letor(folder / "valid.txt", *held_out[:3])
    frame = pd.DataFrame(X, columns=NAMES).assign(qid=qid)
    frame.to_csv(folder / "items.csv", index=False)
    frame.assign(label=y).to_csv(folder / "labelled.csv", index=False)
    lines = [
        f"{better + 1} {worse + 1} {weight}\n" for better, worse, weight in zip(*pairs, strict=True)
    ]
    (folder / "pairs.txt").write_text("# better worse weight\n" + "".join(lines))
    plain = [line.rpartition(" ")[0] + "\n" for line in lines]
    (folder / "plain.txt").write_text("".join(plain))
    return folder


def utility_pairs(y, qid):
    return np.array(
        [(i, j) for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]]
    ).T


def objective(coef, X, better, worse, weight, C, loss):
    """F with the mean over pairs, and its derivative if the loss has one."""
    gaps = X[better] - X[worse]
    slack = np.maximum(0.0, 1.0 - gaps @ coef)
    share = C * weight / weight.sum()
    if loss == "hinge":
        return 0.5 * coef @ coef + share @ slack, None
    slope = coef - 2.0 * (share * slack) @ gaps
    return 0.5 * coef @ coef + share @ slack**2, slope


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("labels", [False, True])
def test_the_model_is_the_minimum_over_the_pairs(
    good, folder, sample, pairs, tmp_path, loss, labels
):
    path = tmp_path / "m.safetensors"
    options = ["--with-labels"] if labels else []
    out = good("train", folder / "items.txt", "--pairs", folder / "pairs.txt", *options, "-C", 4,
               "--scaling", "none", "--loss", loss, "--tol", "1e-9", "-o", path,
               "--json")  # fmt: skip
    better, worse, weight = pairs
    if labels:
        more = utility_pairs(sample.y, sample.qid)
        better, worse = np.r_[better, more[0]], np.r_[worse, more[1]]
        weight = np.r_[weight, np.ones(more.shape[1])]
    found = json.loads(out)
    coef = ranksvm.load(path).coef_
    value, slope = objective(coef, sample.X, better, worse, weight, 4.0, loss)
    assert found["objective"] == pytest.approx(value, rel=1e-10)
    assert found["gap"] <= 1e-9 * value
    if slope is not None:
        assert np.abs(slope).max() < 1e-3 * np.abs(coef).max()
    rng = np.random.default_rng(1)
    for step in rng.normal(size=(20, 5)) * 0.05:  # no neighbour is lower
        other, _ = objective(coef + step, sample.X, better, worse, weight, 4.0, loss)
        assert other > value
    n_explicit = int((pairs[2] > 0.0).sum())
    assert 0 < n_explicit < len(pairs[0])  # those of weight zero are not counted
    assert found["data"]["explicit_pairs"] == n_explicit
    assert found["data"]["pairs"] == n_explicit + (more.shape[1] if labels else 0)
    assert found["data"]["items"] == len(sample.y)
    assert read_model(path).facts["explicit_pairs"] == n_explicit


def test_what_is_told(good, folder, sample, pairs):
    n = len(pairs[0])
    alone = good("train", folder / "items.txt", "--pairs", folder / "plain.txt")
    assert f", {n} explicit pairs\n" in alone
    both = good("train", folder / "items.txt", "--pairs", folder / "plain.txt", "--with-labels")
    total = n + utility_pairs(sample.y, sample.qid).shape[1]
    assert f", {total} pairs, {n} of them explicit\n" in both
    report = json.loads(good("train", folder / "items.txt", "--json"))
    assert report["data"]["explicit_pairs"] == 0


def test_pairs_of_weight_zero_are_not_counted(good, folder, sample, tmp_path):
    (tmp_path / "pairs.txt").write_text("1 2\n3 4 0\n2 3 0\n")
    arguments = ["train", folder / "items.txt", "--pairs", tmp_path / "pairs.txt"]
    assert ", 1 explicit pair\n" in good(*arguments)
    total = 1 + utility_pairs(sample.y, sample.qid).shape[1]
    assert f", {total} pairs, 1 of them explicit\n" in good(*arguments, "--with-labels")


def test_listed_pairs_belong_to_their_queries(good, run, folder, sample, pairs, tmp_path):
    arguments = ["train", folder / "items.txt", "--reduction", "query_mean"]
    each = "mean over the pairs of each query, then over queries"
    assert f", {each}, C = 5, standard scaling\n" in good(*arguments)
    better, worse, weight = pairs
    listed = ["--pairs", folder / "pairs.txt"]
    for labels in ([], ["--with-labels"]):
        _, out, _ = run(*arguments, *listed, *labels, "-o", tmp_path / "m")
        assert (
            f", {each}, of which the pairs across queries are one, C = 5, standard scaling\n" in out
        )
        y = sample.y if labels else None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*from the labels as well")
            model = LinearRankSVM(reduction="query_mean").fit_pairs(
                sample.X, better, worse, weight=weight, y=y, qid=sample.qid
            )
        assert np.array_equal(ranksvm.load(tmp_path / "m").coef_, model.coef_)
    # Without queries, or with nothing but pairs across them, they are one query.
    for options in (["--ignore-qid"], []):
        if not options:
            across = sample.qid[better] != sample.qid[worse]
            lines = [
                f"{b + 1} {w + 1}\n" for b, w in zip(better[across], worse[across], strict=True)
            ]
            (tmp_path / "across.txt").write_text("".join(lines))
            listed = ["--pairs", tmp_path / "across.txt"]
        assert ", mean over pairs, C = 5, standard scaling\n" in good(*arguments, *listed, *options)
        one, other = (
            json.loads(good("train", folder / "items.txt", "--reduction", way, *listed, *options,
                            "--tol", "1e-8", "--json"))
            for way in ("query_mean", "mean")
        )  # fmt: skip
        assert one["objective"] == pytest.approx(other["objective"], rel=1e-7)


def test_pairs_that_count_twice(run, folder, sample, tmp_path):
    first, second = utility_pairs(sample.y, sample.qid)[:, :2].T + 1
    lines = [f"{b} {w}\n" for b, w in (first, second, second[::-1])]
    path = tmp_path / "pairs.txt"
    for text, told in (
        (lines[0] + lines[1], "2 of 2 pairs follow from the labels as well and count twice."),
        (lines[0] + "1 2 0\n", "1 of 2 pairs follows from the labels as well and counts twice."),
    ):
        path.write_text(text)
        code, _, err = run("train", folder / "items.txt", "--pairs", path, "--with-labels")
        assert code == 0
        assert err.startswith(f"ranksvm: warning: {path}: {told} Drop th")
        assert run("train", folder / "items.txt", "--pairs", path)[2] == ""
    path.write_text(lines[2])
    assert run("train", folder / "items.txt", "--pairs", path, "--with-labels")[2] == ""


@pytest.mark.parametrize("labels", [[], ["--with-labels"]])
@pytest.mark.parametrize("options", [[], ["--reduction", "sum"], ["--kernel", "rbf"]])
def test_weights_that_overflow_are_refused(run, folder, tmp_path, options, labels):
    (tmp_path / "pairs.txt").write_text("1 2 1e308\n3 4\n")
    code, out, err = run("train", folder / "items.txt", "--pairs", tmp_path / "pairs.txt",
                         *options, *labels, "-o", tmp_path / "m")  # fmt: skip
    assert (code, out) == (3, "")
    assert err.startswith("ranksvm: error: ")
    assert "weights" in err
    assert err.count("\n") == 1  # no warning of NumPy before it
    assert not (tmp_path / "m").exists()


def test_pairs_of_the_labels_give_the_model_of_the_labels(good, folder, sample, tmp_path):
    better, worse = utility_pairs(sample.y, sample.qid) + 1
    lines = [f"{i} {j}\n" for i, j in zip(better, worse, strict=True)]
    with gzip.open(tmp_path / "pairs.gz", "wt") as file:
        file.writelines(lines)
    good("train", folder / "bare.txt", "--pairs", tmp_path / "pairs.gz", "--tol", "1e-10",
         "-o", tmp_path / "pairs")  # fmt: skip
    good("train", folder / "bare.txt", "--tol", "1e-10", "-o", tmp_path / "labels")
    one, other = (ranksvm.load(tmp_path / name).coef_ for name in ("pairs", "labels"))
    assert np.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_estimator_finds_the_same(good, folder, sample, pairs, tmp_path):
    better, worse, weight = pairs
    good("train", folder / "items.txt", "--pairs", folder / "pairs.txt", "-o", tmp_path / "m")
    model = LinearRankSVM().fit_pairs(sample.X, better, worse, weight=weight)
    assert np.array_equal(ranksvm.load(tmp_path / "m").coef_, model.coef_)
    good("train", folder / "items.txt", "--pairs", folder / "pairs.txt", "--with-labels",
         "-o", tmp_path / "b")  # fmt: skip
    model = LinearRankSVM().fit_pairs(
        sample.X, better, worse, weight=weight, y=sample.y, qid=sample.qid
    )
    assert np.array_equal(ranksvm.load(tmp_path / "b").coef_, model.coef_)


@pytest.mark.parametrize(
    ("options", "params"),
    [
        (["--kernel", "rbf"], {}),
        (["--kernel", "rbf", "--approximation", "nystroem", "--components", "12"],
         {"approximation": "nystroem", "n_components": 12, "random_state": 0}),
    ],
)  # fmt: skip
def test_kernels_learn_from_pairs(good, folder, sample, pairs, tmp_path, options, params):
    path = tmp_path / "m.safetensors"
    out = good("train", folder / "items.txt", "--pairs", folder / "pairs.txt", *options, "-o", path)
    assert "explicit pairs" in out
    assert "rbf kernel" in out
    better, worse, weight = pairs
    model = KernelRankSVM(**params).fit_pairs(sample.X, better, worse, weight=weight)
    assert np.array_equal(ranksvm.load(path).predict(sample.X), model.predict(sample.X))


def test_pairs_by_document(good, folder, sample, tmp_path):
    qid = sample.qid
    first = [int(np.flatnonzero(qid == query)[0]) for query in dict.fromkeys(qid.tolist())]
    by_id = [f"qid:{qid[row]} D1 D0 {k + 1}\n" for k, row in enumerate(first)]
    by_row = [f"{row + 2} {row + 1} {k + 1}\n" for k, row in enumerate(first)]
    (tmp_path / "by_id.txt").write_text("".join(by_id))
    (tmp_path / "by_row.txt").write_text("".join(by_row))
    arguments = ["train", folder / "items.txt", "--pairs"]
    good(*arguments, tmp_path / "by_id.txt", "--pairs-by", "docid", "-o", tmp_path / "a")
    good(*arguments, tmp_path / "by_row.txt", "--pairs-by", "row", "-o", tmp_path / "b")
    one, other = (ranksvm.load(tmp_path / name).coef_ for name in "ab")
    assert np.array_equal(one, other)


def test_contradictions_are_counted_and_learnt_from(run, folder, tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("1 2\n2 1\n1 2\n4 3 0.5\n3 4\n5 6\n7 8\n8 7 0\n")
    code, out, err = run("train", folder / "items.txt", "--pairs", path, "-o", tmp_path / "m")
    assert code == 0
    assert err == f"ranksvm: warning: {path} prefers 2 pairs of items both ways; both count\n"
    assert "model written" in out
    _, _, err = run("train", folder / "items.txt", "--pairs", "-", stdin=b"1 2\n2 1\n")
    assert err.startswith("ranksvm: warning: standard input prefers 1 pair of items both ways")


def test_labels_contradict_nothing(good, folder, sample, tmp_path):
    """A pair that goes against the labels counts beside them."""
    better, worse = utility_pairs(sample.y, sample.qid)[:, 0] + 1
    (tmp_path / "pairs.txt").write_text(f"{worse} {better}\n")
    good("train", folder / "items.txt", "--pairs", tmp_path / "pairs.txt", "--with-labels")


def test_tables_need_no_labels(good, run, folder, pairs, sample, tmp_path):
    good("train", folder / "items.csv", "--pairs", folder / "pairs.txt", "-o", tmp_path / "a")
    good("train", folder / "labelled.csv", "--pairs", folder / "pairs.txt", "-o", tmp_path / "b")
    model = ranksvm.load(tmp_path / "a")
    assert model.feature_names_in_.tolist() == NAMES
    expected = LinearRankSVM().fit_pairs(sample.X, pairs[0], pairs[1], weight=pairs[2]).coef_
    for name in "ab":
        assert np.allclose(ranksvm.load(tmp_path / name).coef_, expected, rtol=1e-10)
    code, _, err = run("train", folder / "items.csv", "--pairs", folder / "pairs.txt",
                       "--with-labels")  # fmt: skip
    assert code == 3
    assert "has no column 'label'" in err


def test_validation_judges_by_labels(good, folder, sample, pairs):
    out = good("train", folder / "items.txt", "--pairs", folder / "pairs.txt",
               "--valid", folder / "valid.txt", "-m", "ndcg@5", "--json")  # fmt: skip
    X, y, qid, _ = make_ranking(10, (4, 8), 5, random_state=4)
    model = LinearRankSVM().fit_pairs(sample.X, pairs[0], pairs[1], weight=pairs[2])
    assert json.loads(out)["valid"] == pytest.approx(
        evaluate(y, model.predict(X), qid, metrics="ndcg@5")
    )


def test_pairs_from_a_pipe(good, folder, tmp_path):
    text = (folder / "pairs.txt").read_bytes()
    good("train", folder / "items.txt", "--pairs", "-", "-o", tmp_path / "a", stdin=text)
    good("train", folder / "items.txt", "--pairs", folder / "pairs.txt", "-o", tmp_path / "b")
    one, other = (ranksvm.load(tmp_path / name).coef_ for name in "ab")
    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--pairs-by", "row"], 2, "--pairs-by needs --pairs"),
        (["--with-labels"], 2, "--with-labels needs --pairs"),
        (["--pairs", "{f}/pairs.txt", "--svmrank-c", "1"], 2, "--svmrank-c is about labels"),
        (
            ["--pairs", "{f}/pairs.txt", "--factors", "3"],
            2,
            "--factors cannot be combined with --pairs",
        ),
        (["--pairs", "{f}/absent.txt"], 3, "absent.txt"),
        (["--pairs", "{f}/pairs.txt", "-o", "{f}/pairs.txt"], 2, "is also an input"),
        (
            ["--pairs", "{f}/pairs.txt", "--pairs-by", "name"],
            2,
            "'name' is not one of 'row', 'docid'",
        ),
    ],
)
def test_what_is_refused(run, folder, arguments, code, message):
    arguments = [argument.format(f=folder) for argument in arguments]
    found, out, err = run("train", folder / "items.txt", *arguments)
    assert (found, out) == (code, "")
    assert message in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
    assert (folder / "pairs.txt").read_text().startswith("# better")


@pytest.mark.parametrize(
    "line", ["1 1", "1 1000", "0 1", "1", "D0 D1", "1 2 -1", "1 2 3 4", "1,,2"]
)
def test_bad_lines_are_named(run, folder, tmp_path, line):
    (tmp_path / "pairs.txt").write_text(f"1 2\n{line}\n")
    code, out, err = run("train", folder / "items.txt", "--pairs", tmp_path / "pairs.txt",
                         "-o", tmp_path / "m")  # fmt: skip
    assert (code, out) == (3, "")
    assert "pairs.txt, line 2: " in err
    assert not (tmp_path / "m").exists()


def test_pairs_without_weight_are_nothing_to_learn_from(run, folder, tmp_path):
    (tmp_path / "pairs.txt").write_text("1 2 0\n3 4 0\n")
    code, out, err = run("train", folder / "items.txt", "--pairs", tmp_path / "pairs.txt")
    assert (code, out) == (3, "")
    assert "pairs.txt: all pairs have weight zero" in err
    code, _, err = run("train", folder / "items.txt", "--pairs", "-", stdin=b"1 2 0\n")
    assert code == 3
    assert "standard input: all pairs have weight zero" in err


def test_documents_that_are_not_there(run, folder, tmp_path):
    (tmp_path / "pairs.txt").write_text("D0 D1\n")
    code, _, err = run("train", folder / "bare.txt", "--pairs", tmp_path / "pairs.txt",
                       "--pairs-by", "docid")  # fmt: skip
    assert code == 3
    assert "has no document ids" in err
    assert "Name items by row numbers (--pairs-by row)." in err
    code, _, err = run("train", folder / "items.txt", "--pairs", tmp_path / "pairs.txt",
                       "--pairs-by", "docid")  # fmt: skip
    assert code == 3
    assert "pairs.txt, line 1" in err
    assert "qid:" in err


def test_it_does_without_scikit_learn(folder):
    program = (
        "import sys; from ranksvm.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'sklearn', 'pandas', 'narwhals'} & set(sys.modules)"
    )
    arguments = ["train", folder / "items.txt", "--pairs", folder / "pairs.txt", "--with-labels"]
    subprocess.run([sys.executable, "-c", program, *map(str, arguments)], check=True)


# --- tune ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inside(sample, tmp_path_factory):
    """Pairs inside queries, at most one for each item."""
    rows = []
    for query in dict.fromkeys(sample.qid.tolist()):
        members = np.flatnonzero(sample.qid == query)
        members = members[np.argsort(-sample.y[members], kind="stable")]
        rows += list(zip(members[::2], members[1::2], strict=False))
    better, worse = np.array(rows).T
    path = tmp_path_factory.mktemp("inside") / "inside.txt"
    path.write_text("".join(f"{b + 1} {w + 1}\n" for b, w in rows))
    return path, better, worse


def test_tuning_on_pairs(run, folder, sample, inside, tmp_path):
    path, better, worse = inside
    _, out, _ = run("tune", folder / "items.txt", "--pairs", path, "--folds", 3,
                    "--C-grid", "0.1,1,10", "--json", "-o", tmp_path / "m")  # fmt: skip
    found = json.loads(out)
    model = LinearRankSVMCV([0.1, 1.0, 10.0], cv=3)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* of the grid, and a ")
        model.fit_pairs(sample.X, better, worse, qid=sample.qid)
    assert (found["metric"], found["metric_default_for"]) == (
        "pair_accuracy",
        "pairs without labels",
    )
    assert [row["mean"] for row in found["table"]] == model.cv_results_["mean_test_score"].tolist()
    assert found["C"] == model.C_
    assert np.array_equal(ranksvm.load(tmp_path / "m").coef_, model.coef_)
    assert read_model(tmp_path / "m").facts["selection"]["metric"] == "pair_accuracy"
    _, out, _ = run("tune", folder / "items.txt", "--pairs", path, "--C-grid", "0.1,1,10")
    assert out.startswith("5 folds, pair_accuracy (default for pairs without labels), 3 values")


def test_tuning_on_pairs_and_labels(run, folder, sample, inside):
    path, *_ = inside
    for options, metric in (
        (["--with-labels"], "ndcg@10"),
        (["--with-labels", "-m", "pair_accuracy"], "pair_accuracy"),
        (["--valid", folder / "valid.txt"], "ndcg@10"),
        (["--valid", folder / "valid.txt", "-m", "map"], "map"),
    ):
        code, out, err = run("tune", folder / "items.txt", "--pairs", path, "--C-grid", "0.1,1,10",
                             "--json", *options)  # fmt: skip
        assert code == 0
        assert json.loads(out)["metric"] == metric
        assert ("from the labels as well" in err) == ("--with-labels" in options)


def test_a_search_on_pairs_can_be_resumed(good, run, folder, inside, tmp_path):
    path, *_ = inside
    command = ["tune", folder / "items.txt", "--pairs", path, "--C-grid", "0.1,1,10", "--json",
               "--resume", tmp_path / "s.db"]  # fmt: skip
    _, first, _ = run(*command)
    _, again, _ = run(*command)
    assert json.loads(again)["resumed"] == 5
    assert json.loads(again)["table"] == json.loads(first)["table"]
    other = tmp_path / "other.txt"
    other.write_text(path.read_text().replace("\n", " 2\n"))
    command[3] = other
    code, _, err = run(*command)
    assert code == 3
    assert "is from a different search (different pairs)" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--with-labels"], 2, "--with-labels needs --pairs"),
        (["-m", "pair_accuracy"], 3, "--metric pair_accuracy needs explicit pairs"),
        (["--pairs", "{i}", "-m", "map"], 3, "--metric map needs labels of the held-out items"),
        (["--pairs", "{i}", "--memory", "1GB"], 2, "--pairs cannot be combined with --memory"),
        (["--pairs", "{f}/across.txt", "--folds", "2"], 3, "the pairs connect all queries"),
        (["--pairs", "{f}/across.txt"], 3, "Choose on a validation set (--valid)."),
        (["--pairs", "{i}", "-o", "{i}"], 2, "is also an input"),
    ],
)
def test_what_tuning_refuses(run, folder, sample, inside, arguments, code, message):
    n = len(sample.y)
    (folder / "across.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(1, n)))
    arguments = [one.format(f=folder, i=inside[0]) for one in arguments]
    found, out, err = run("tune", folder / "items.txt", "--C-grid", "0.1,1", *arguments)
    assert (found, out) == (code, "")
    assert message in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
