"""CONTRIBUTING's "How to add", followed: what is added works in the estimators and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
from sklearn.metrics.pairwise import cosine_similarity

import ranksvm
from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.data import save_letor
from ranksvm.datasets import make_ranking
from ranksvm.learners import LEARNERS
from ranksvm.metrics import evaluate

HERE = Path(__file__).parents[1]


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


def command(*arguments: object) -> str:
    """Run the command in a process that has registered the recipes; gives stdout."""
    code = "import recipes; recipes.register(); from ranksvm.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=HERE,
        env={**os.environ, "COLUMNS": "250"},  # help in lines that are not broken
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_loss(data: Any, file: Path) -> None:
    X, y, qid = data
    half = LinearRankSVM(20.0, loss="half_squared_hinge", tol=1e-8).fit(X, y, qid)
    whole = LinearRankSVM(10.0, loss="squared_hinge", tol=1e-8).fit(X, y, qid)
    np.testing.assert_allclose(half.coef_, whole.coef_, rtol=1e-4)
    assert half.gap_ <= 1e-8 * half.objective_
    report = json.loads(
        command("train", file, "--loss", "half_squared_hinge", "--C", 20, "--tol", 1e-8, "--json")
    )
    assert report["objective"] == pytest.approx(half.objective_)
    assert "half_squared_hinge" in command("train", "--help")


def test_a_solver(data: Any, file: Path) -> None:
    X, y, qid = data
    model = LinearRankSVM(0.1, solver="steepest_descent", tol=1e-3).fit(X, y, qid)
    newton = LinearRankSVM(0.1, tol=1e-6).fit(X, y, qid)
    assert model.status_ == "converged"
    assert newton.objective_ - newton.gap_ <= model.objective_ <= (1 + 1e-3) * newton.objective_
    with pytest.raises(ValueError, match="needs a loss with second derivatives"):
        LinearRankSVM(loss="hinge", solver="steepest_descent").fit(X, y, qid)
    told = command("train", file, "--solver", "steepest_descent", "--C", 0.1, "--tol", 1e-3)
    assert "certified relative gap" in told


def test_a_kernel(data: Any, file: Path, tmp_path: Path) -> None:
    X, y, qid = data
    named = KernelRankSVM(kernel="cosine_similarity").fit(X, y, qid)
    computed = KernelRankSVM(kernel="precomputed").fit(cosine_similarity(X), y, qid)
    np.testing.assert_allclose(named.predict(X), computed.predict(cosine_similarity(X)), atol=1e-6)
    approximate = KernelRankSVM(
        kernel="cosine_similarity", approximation="nystroem", n_components=40, random_state=0
    ).fit(X, y, qid)
    np.testing.assert_allclose(approximate.objective_, named.objective_, rtol=1e-3)
    path = tmp_path / "model.safetensors"
    assert "cosine_similarity kernel" in command(
        "train", file, "--kernel", "cosine_similarity", "-o", path
    )
    np.testing.assert_array_equal(ranksvm.load(path).predict(X), named.predict(X))
    scores = [float(line) for line in command("predict", path, file).split()]
    np.testing.assert_array_equal(scores, named.predict(X))


def test_a_metric(data: Any, file: Path, tmp_path: Path) -> None:
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


def test_a_kind_of_model(data: Any, file: Path, tmp_path: Path) -> None:
    X, y, qid = data
    model = recipes.DifferenceRanker(0.25).fit(X, y, qid)
    better, worse = np.nonzero((qid[:, None] == qid) & (y[:, None] > y))
    np.testing.assert_allclose(model.coef_, 0.75 * (X[better] - X[worse]).mean(axis=0))
    path = tmp_path / "model.safetensors"
    told = command("train", file, "--shrinkage", 0.25, "-o", path)
    assert "model written" in told
    loaded = ranksvm.load(path)
    assert isinstance(loaded, recipes.DifferenceRanker)
    assert loaded.shrinkage == 0.25
    np.testing.assert_allclose(loaded.predict(X), model.predict(X))
    np.testing.assert_allclose(
        [float(line) for line in command("predict", path, file).split()], model.predict(X)
    )
    assert "difference model" in command("info", path)
    assert "sum" in command("explain", path, file, 1, 2)
    command("convert", path, tmp_path / "model.dat")
    assert set(LEARNERS) >= {"linear", "kernel", "factorized", "difference"}
