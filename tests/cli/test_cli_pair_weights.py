"""``--pair-weight`` and its options, and ``--pair-weight-grid`` of tune."""

from __future__ import annotations

import json

import pytest

import ranksvm
from ranksvm import LinearRankSVM
from ranksvm.data import save_letor
from ranksvm.datasets import make_ranking


@pytest.fixture(scope="module")
def sample():
    return make_ranking(30, random_state=0)[:3]


@pytest.fixture(scope="module")
def train(sample, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "train.txt"
    save_letor(path, *sample)
    return path


@pytest.mark.parametrize(
    ("options", "params"),
    [
        (["--pair-weight", "gain"], {"pair_weight": "gain"}),
        (
            ["--pair-weight", "gain", "--gain", "linear", "--discount", "letor"],
            {"pair_weight": "gain", "gain": "linear", "discount": "letor"},
        ),
        (
            ["--pair-weight", "lambda", "--truncation", "5", "--reweight", "2"],
            {"pair_weight": "lambda", "truncation": 5, "n_reweight": 2},
        ),
    ],
)
def test_train(good, sample, train, tmp_path, options, params) -> None:
    path = tmp_path / "m.safetensors"
    out = good("train", train, *options, "-o", path, "--json")
    model = LinearRankSVM(**params).fit(*sample)
    assert json.loads(out)["objective"] == pytest.approx(model.objective_, rel=1e-9)
    loaded = ranksvm.load(path)
    assert {name: getattr(loaded, name) for name in params} == params


def test_the_weights_are_printed(good, train) -> None:
    options = ["--pair-weight", "lambda", "--reweight", "2"]
    assert "mean over pairs weighted by lambda, 3 rounds, C = 5," in good("train", train, *options)
    text = good("train", train, "--pair-weight", "gain")
    assert "mean over pairs weighted by gain, C = 5," in text
    assert "mean over pairs, C = 5," in good("train", train)


def test_tune_over_weights(good, train, tmp_path) -> None:
    path = tmp_path / "m.safetensors"
    options = ["--C-grid", "1,100,10000", "--pair-weight-grid", "uniform,gain", "--gain", "linear"]
    found = json.loads(good("tune", train, *options, "--folds", 3, "-o", path, "--json"))
    weights = [row["pair_weight"] for row in found["table"]]
    assert weights == ["uniform"] * 3 + ["gain"] * 3
    loaded = ranksvm.load(path)
    assert loaded.pair_weight == found["pair_weight"]
    assert loaded.gain == "linear"
    text = good("tune", train, *options, "--folds", 3)
    assert "2 values of pair_weight times 3 values of C" in text
    assert "pair_weight  C " in text


def test_one_weight_needs_no_grid(good, train) -> None:
    text = good("tune", train, "--C-grid", "1,100,10000", "--pair-weight", "gain", "--folds", 3)
    assert ", 3 values of C," in text


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("train", ["--gain", "linear"], "--gain has no meaning for --pair-weight uniform; it needs "
         "--pair-weight gain or lambda"),
        ("train", ["--pair-weight", "gain", "--truncation", "5"],
         "--truncation has no meaning for --pair-weight gain; it needs --pair-weight lambda"),
        ("train", ["--factors", "3", "--pair-weight", "lambda"],
         "so --pair-weight lambda is not available. Use --pair-weight gain or uniform"),
        ("train", ["--pair-weight", "gain", "--svmrank-c", "3"],
         "--svmrank-c cannot be combined with --pair-weight gain: SVM^rank counts all pairs alike"),
        ("tune", ["--pair-weight-grid", "uniform,ndcg"], "expected names out of uniform, gain"),
        ("tune", ["--pair-weight-grid", "gain,gain"], "has a value twice"),
        ("tune", ["--pair-weight-grid", "gain", "--pair-weight", "gain"], "give only one"),
        ("tune", ["--pair-weight-grid", "uniform,gain", "--truncation", "3"],
         "--truncation has no meaning"),
    ],
)  # fmt: skip
def test_what_is_refused(run, train, tmp_path, command, options, message) -> None:
    output = ["-o", tmp_path / "m.safetensors"]
    code, _, err = run(command, train, *options, *output)
    assert code == 2
    assert message in " ".join(err.split())


def test_labels_without_gains(run, tmp_path) -> None:
    path = tmp_path / "real.txt"
    path.write_text("0.5 qid:1 1:1\n1.5 qid:1 1:2\n")
    code, _, err = run("train", path, "--pair-weight", "gain", "-o", tmp_path / "m.safetensors")
    assert code != 0
    assert "got the label 0.5. Use --gain linear." in " ".join(err.split())
