"""CONTRIBUTING's "How to add", followed: what is added works in the estimators and the command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
from command_server import quick_command
from sklearn.metrics.pairwise import cosine_similarity

import ranksvm
from ranksvm import KernelRankSVM, LinearRankSVM, multiplier_spectrum
from ranksvm.data import RankingData, save_letor
from ranksvm.datasets import make_ranking
from ranksvm.learners import LEARNERS
from ranksvm.metrics import evaluate
from ranksvm.model_selection import QueryKFold, search

Command = Callable[..., str]


@pytest.fixture(autouse=True)
def added(monkeypatch: Any) -> None:
    for registry, name, entry in recipes.ENTRIES:
        monkeypatch.setitem(registry, name, entry)


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    X, y, qid, _ = make_ranking(12, (4, 9), 5, random_state=0)
    return X, y, qid


@pytest.fixture(scope="module")
def file(data: Any, tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("recipes") / "train.txt"
    save_letor(path, *data)
    return path


@pytest.fixture(scope="module")
def command(tmp_path_factory: Any) -> Iterator[Command]:
    """Run the command in a process that has registered the recipes.

    Returns what it prints: on stderr, if it is to end with an error.
    """
    prepare = "import recipes; recipes.register()"
    with quick_command(tmp_path_factory.mktemp("bin"), prepare) as folder:

        def run(*arguments: object, code: int = 0) -> str:
            done = subprocess.run(
                [folder / "ranksvm", *map(str, arguments)],
                env={**os.environ, "COLUMNS": "250"},  # help in lines that are not broken
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == code, done.stderr
            return done.stderr if code else done.stdout

        yield run


def test_a_loss(command: Command, data: Any, file: Path) -> None:
    X, y, qid = data
    half = LinearRankSVM(20.0, loss="half_squared_hinge", tol=1e-8).fit(X, y, qid)
    whole = LinearRankSVM(10.0, loss="squared_hinge", tol=1e-8).fit(X, y, qid)
    np.testing.assert_allclose(half.coef_, whole.coef_, rtol=1e-4)
    assert half.gap_ <= 1e-8 * half.objective_
    with pytest.raises(ValueError, match=r"loss must be .*; got 'half_squared_hinge'"):
        multiplier_spectrum(X, y, qid, loss="half_squared_hinge")
    report = json.loads(
        command("train", file, "--loss", "half_squared_hinge", "--C", 20, "--tol", 1e-8, "--json")
    )
    assert report["objective"] == pytest.approx(half.objective_)
    assert "half_squared_hinge" in command("train", "--help")


def test_a_solver(command: Command, data: Any, file: Path) -> None:
    X, y, qid = data
    model = LinearRankSVM(0.1, solver="steepest_descent", tol=1e-3).fit(X, y, qid)
    newton = LinearRankSVM(0.1, tol=1e-6).fit(X, y, qid)
    assert model.status_ == "converged"
    assert newton.objective_ - newton.gap_ <= model.objective_ <= (1 + 1e-3) * newton.objective_
    with pytest.raises(ValueError, match="needs a loss with second derivatives"):
        LinearRankSVM(loss="hinge", solver="steepest_descent").fit(X, y, qid)
    told = command("train", file, "--solver", "steepest_descent", "--C", 0.1, "--tol", 1e-3)
    assert "certified relative gap" in told


def test_a_kernel(command: Command, data: Any, file: Path, tmp_path: Path) -> None:
    X, y, qid = data
    named = KernelRankSVM(kernel="cosine_similarity", scaling=None).fit(X, y, qid)
    computed = KernelRankSVM(kernel="precomputed", scaling=None).fit(cosine_similarity(X), y, qid)
    np.testing.assert_allclose(named.predict(X), computed.predict(cosine_similarity(X)), atol=1e-6)
    approximate = KernelRankSVM(
        kernel="cosine_similarity",
        approximation="nystroem",
        n_components=40,
        random_state=0,
        scaling=None,
    ).fit(X, y, qid)
    np.testing.assert_allclose(approximate.objective_, named.objective_, rtol=1e-3)
    path = tmp_path / "model.safetensors"
    assert "cosine_similarity kernel" in command(
        "train", file, "--kernel", "cosine_similarity", "--scaling", "none", "-o", path
    )
    np.testing.assert_array_equal(ranksvm.load(path).predict(X), named.predict(X))
    scores = [float(line) for line in command("predict", path, file).split()]
    np.testing.assert_array_equal(scores, named.predict(X))


def test_a_metric(command: Command, data: Any, file: Path, tmp_path: Path) -> None:
    X, y, qid = data
    scores = LinearRankSVM().fit(X, y, qid).predict(X)
    by_hand = [
        y[qid == q][np.argmax(scores[qid == q])] == y[qid == q].max() for q in np.unique(qid)
    ]
    (value,) = evaluate(y, scores, qid, ["best_first"]).values()
    assert value == np.mean(by_hand)
    path = tmp_path / "scores.txt"
    path.write_text("".join(f"{score!r}\n" for score in scores.tolist()))
    found = json.loads(command("evaluate", file, "--scores", path, "-m", "best_first", "--json"))
    assert found["metrics"]["best_first"] == value
    assert "best_first" in command(
        "tune", file, "-m", "best_first", "--folds", 3, "--C-grid", "1,9"
    )


def test_a_kind_of_model(command: Command, data: Any, file: Path, tmp_path: Path) -> None:
    X, y, qid = data
    model = recipes.DifferenceRanker(2.0, power=0.5).fit(X, y, qid)
    better, worse = np.nonzero((qid[:, None] == qid) & (y[:, None] > y))
    mean = (X[better] - X[worse]).mean(axis=0)
    np.testing.assert_allclose(model.coef_, 2.0 * np.sign(mean) * np.sqrt(np.abs(mean)))
    path = tmp_path / "model.safetensors"
    told = command("train", file, "--average", "mean", "--power", 0.5, "--C", 2, "-o", path)
    assert "model written" in told
    loaded = ranksvm.load(path)
    assert isinstance(loaded, recipes.DifferenceRanker)
    assert loaded.power == 0.5
    np.testing.assert_allclose(loaded.predict(X), model.predict(X))
    np.testing.assert_allclose(
        [float(line) for line in command("predict", path, file).split()], model.predict(X)
    )
    assert "difference model" in command("info", path)
    assert "sum" in command("explain", path, file, 1, 2)
    command("convert", path, tmp_path / "model.dat")
    assert set(LEARNERS) >= {"linear", "kernel", "factorized", "difference"}


@pytest.mark.filterwarnings("ignore:.* of the grid:UserWarning")
def test_a_search_for_it(command: Command, data: Any, file: Path, tmp_path: Path) -> None:
    X, y, qid = data
    folds = list(QueryKFold(3).split(qid=qid))
    powers = [0.25, 1.0, 3.0]
    found = search(
        RankingData(X, y, qid), recipes.DifferenceSettings(), [1.0, 9.0], {"power": powers},
        folds=folds, metric="pairwise_accuracy",
    )  # fmt: skip
    by_hand = {
        power: np.mean(
            [
                recipes.DifferenceRanker(power=power)
                .fit(X[train], y[train], qid[train])
                .score(X[test], y[test], qid[test])
                for train, test in folds
            ]
        )
        for power in powers
    }
    np.testing.assert_allclose(found.means, np.repeat(list(by_hand.values()), 2))
    best = max(powers, key=lambda power: by_hand[power])
    assert found.best == {"power": best, "C": 1.0}  # C changes no order, so the smallest is taken

    with pytest.warns(UserWarning, match="the best C, 1, is the smallest of the grid"):
        model = recipes.DifferenceRankerCV([1.0, 9.0], powers, cv=folds).fit(X, y, qid)
    assert (model.C_, model.power_) == (1.0, best)
    same = recipes.DifferenceRanker(1.0, power=best).fit(X, y, qid)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    default = recipes.DifferenceRankerCV(cv=3).fit(X, y, qid)
    np.testing.assert_array_equal(default.powers_, [0.5, 1.0, 1.5, 2.0])

    path, kind = tmp_path / "model.safetensors", ("--average", "mean")
    grids = ("--C-grid", "1,9", "--power-grid", "0.25,1,3")
    options = (*kind, *grids, "--folds", 3, "--resume", tmp_path / "search.db")
    report = json.loads(command("tune", file, *options, "-o", path, "--json"))
    assert (report["C"], report["power"]) == (1.0, best)
    np.testing.assert_array_equal(ranksvm.load(path).predict(X), same.predict(X))
    assert "2 values of C" in command("tune", file, *options)
    assert "4 values of power times 7 values of C" in command("tune", file, *kind)
    fixed = json.loads(command("tune", file, *kind, "--power", 3, "--C-grid", "1,9", "--json"))
    assert {row["power"] for row in fixed["table"]} == {3.0}
    told = command("tune", "--help")
    assert "even steps to 2" in told
    assert "7 values from 12.5 to 51,200 with --kernel" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--average", "mean", "--svmrank-c", 1], "not for --average mean"),
        (["train", "--average", "mean", "--pairs", "p"], "--average cannot be combined with --pai"),
        (["train", "--power", 2], "--power needs --average"),
        (["tune", "--power-grid", "1,2"], "--power-grid needs --average"),
        (["tune", "--average", "mean", "--power", 1, "--power-grid", "1,2"], "give only one"),
        (["tune", "--average", "mean", "--gamma-grid", "1,2"], "--gamma-grid needs --kernel"),
    ],
)
def test_messages_name_it(command: Command, file: Path, arguments: list[Any], message: str) -> None:
    name, *options = arguments
    assert message in command(name, file, *options, code=2)
