"""Commands with ``--query-features``: train, tune, predict, evaluate, compare, explain, info."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ranksvm import FactorizedRankSVM, KernelRankSVM, LinearRankSVM, LinearRankSVMCV, load
from ranksvm.data import load_letor, save_letor, shard_files
from ranksvm.learners import read_model

Run = Callable[..., tuple[int, str, str]]
Good = Callable[..., str]


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    """A linear model with ranks, and standard deviations."""
    X, y, qid = load_letor(folder / "train.txt")
    path = folder / "ranks.safetensors"
    names = ("rank", "zscore")
    LinearRankSVM(query_features=names, scaling="standard").fit(X, y, qid).save(path)
    return path


@pytest.mark.parametrize(
    ("options", "estimator"),
    [
        ((), LinearRankSVM()),
        (("--drop-features",), LinearRankSVM(keep_features=False)),
        (("--kernel", "rbf"), KernelRankSVM()),
        (
            ("--kernel", "rbf", "--approximation", "nystroem", "--components", "9"),
            KernelRankSVM(approximation="nystroem", n_components=9, random_state=0),
        ),
        (("--factors", "3", "--tol", "0.1"), FactorizedRankSVM(3, tol=0.1, random_state=0)),
    ],
)
def test_train_predict_evaluate(
    folder: Path, good: Good, tmp_path: Path, options: tuple[str, ...], estimator: LinearRankSVM
) -> None:
    path, train, test = tmp_path / "m.safetensors", folder / "train.txt", folder / "test.txt"
    told = good("train", train, "--query-features", "rank, zscore", "--scaling", "standard",
                *options, "-o", path)  # fmt: skip
    assert "5 features" in told
    estimator.set_params(query_features=("rank", "zscore"), scaling="standard")
    estimator.fit(*load_letor(train))
    X, y, qid = load_letor(test)
    expected = estimator.predict(X, qid)
    np.testing.assert_array_equal(load(path).predict(X, qid), expected)
    scores = np.array(good("predict", path, test).split(), dtype=float)
    np.testing.assert_array_equal(scores, expected)
    found = json.loads(good("evaluate", test, "--model", path, "-m", "pairwise_accuracy", "--json"))
    assert found["metrics"]["pairwise_accuracy"] == pytest.approx(estimator.score(X, y, qid))


def test_early_stopping_sees_them(folder: Path, good: Good, tmp_path: Path) -> None:
    path, train, valid = tmp_path / "m.safetensors", folder / "train.txt", folder / "valid.txt"
    good("train", train, "--valid", valid, "--factors", "2", "--patience", "2", "--query-features",
         "rank", "-m", "pairwise_accuracy", "-o", path)  # fmt: skip
    estimator = FactorizedRankSVM(2, query_features=("rank",), patience=2, random_state=0)
    estimator.fit(*load_letor(train), eval_set=tuple(load_letor(valid)))
    X, _, qid = load_letor(valid)
    np.testing.assert_array_equal(load(path).predict(X, qid), estimator.predict(X, qid))


@pytest.mark.filterwarnings("ignore:.*of the grid.*")
def test_tune(folder: Path, good: Good, run: Run, tmp_path: Path) -> None:
    path, train, valid = tmp_path / "m.safetensors", folder / "train.txt", folder / "valid.txt"
    given = ("tune", train, "--query-features", "rank", "--C-grid", "0.01,0.1,1", "-m", "ndcg@5")
    code, out, _ = run(*given, "--folds", 3, "-o", path, "--json")
    assert code == 0
    search = LinearRankSVMCV([0.01, 0.1, 1.0], query_features=("rank",), metric="ndcg@5", cv=3)
    search.fit(*load_letor(train))
    assert json.loads(out)["score"] == search.best_score_
    X, _, qid = load_letor(valid)
    np.testing.assert_array_equal(load(path).predict(X, qid), search.predict(X, qid))
    code, out, _ = run(*given, "--valid", valid, "--json")
    search.fit(*load_letor(train), validation=tuple(load_letor(valid)))
    assert json.loads(out)["score"] == search.best_score_


def test_tune_resolves_gamma_on_what_the_kernel_sees(folder: Path, run: Run) -> None:
    train = folder / "train.txt"
    given = ("--kernel", "rbf", "--gamma", "scale", "--query-features", "rank", "--scaling")
    code, out, _ = run("tune", train, *given, "standard", "--C-grid", "1", "--folds", 2, "--json")
    model = KernelRankSVM(query_features=("rank",), scaling="standard").fit(*load_letor(train))
    assert (code, json.loads(out)["gamma"]) == (0, model.gamma_)


def test_tables_and_columns_in_any_order(folder: Path, good: Good, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    good("train", folder / "train.csv", "--query-features", "minmax,rank", "-o", path)
    assert read_model(path).feature_names == tuple(f"n{j}" for j in range(5))
    scores = good("predict", path, folder / "test.csv")
    assert good("predict", path, folder / "test-turned.csv") == scores
    assert "rank(n0)" in good("info", path, "--top", 15)
    shown = json.loads(good("explain", path, folder / "test.csv", 1, 2, "--top", 99, "--json"))
    names = {part["name"] for part in shown["contributions"]}
    assert {"n0", "rank(n0)", "minmax(n0)"} <= names


def test_explain(folder: Path, good: Good, trained: Path) -> None:
    X, _, qid = load_letor(folder / "test.txt")
    shown = json.loads(good("explain", trained, folder / "test.txt", 1, 3, "--top", 99, "--json"))
    scores = load(trained).predict(X, qid)
    assert shown["difference"] == pytest.approx(scores[0] - scores[2])
    parts = {part["name"]: part["contribution"] for part in shown["contributions"]}
    assert sum(parts.values()) == pytest.approx(shown["difference"])
    assert {"feature 1", "rank(feature 1)", "zscore(feature 5)"} <= parts.keys()
    same = load(trained).explain(X, 0, 2, qid)  # counts from 0
    expected = dict(zip(same.names, same.contributions, strict=True))
    assert parts["rank(feature 2)"] == pytest.approx(expected["rank(feature 1)"])


def test_info(good: Good, trained: Path) -> None:
    about = json.loads(good("info", trained, "--top", 99, "--json"))
    assert (about["features"], about["features_used"]) == (5, 5)
    assert about["query_features"] == ["rank", "zscore"]
    assert about["keep_features"] is True
    assert {"1", "rank(1)", "zscore(5)"} <= about["largest_weights"].keys()
    assert "rank zscore" in good("info", trained)


def test_info_of_a_feature_called_like_one_of_the_query(good: Good, tmp_path: Path) -> None:
    X, path = np.random.default_rng(0).normal(size=(30, 2)), tmp_path / "m.safetensors"
    frame = pd.DataFrame(X, columns=["a", "rank(a)"])
    model = LinearRankSVM(query_features=("rank",)).fit(frame, X @ [1.0, 2.0], np.arange(30) // 10)
    model.save(path)
    weights = json.loads(good("info", path, "--json"))["largest_weights"]
    assert sorted(weights.values()) == sorted(model.coef_.tolist())
    assert {"a", "rank(a)", "rank(rank(a))"} <= weights.keys()


def test_compare_and_runs(folder: Path, good: Good, trained: Path, tmp_path: Path) -> None:
    test, scores, run = folder / "test.txt", tmp_path / "s.txt", tmp_path / "r.txt"
    good("predict", trained, test, "-o", scores)
    good("predict", trained, test, "--trec-run", "-o", run)
    assert len(run.read_text().splitlines()) == load_letor(test).n_items
    (row,) = json.loads(good("compare", test, scores, trained, "--json"))["rows"]
    assert row["difference"] == 0.0  # the scores are those of the model
    assert row["mean"] == row["baseline_mean"] > 0.0


def test_data_without_queries(folder: Path, run: Run, trained: Path, tmp_path: Path) -> None:
    test, bare = folder / "test.txt", tmp_path / "bare.txt"
    X, y, _ = load_letor(test)
    save_letor(bare, X, y)
    for command in (
        ("predict", trained, bare),
        ("predict", trained, test, "--ignore-qid"),
        ("evaluate", bare, "--model", trained),
        ("explain", trained, bare, 1, 2),
    ):
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert "18 queries with features of the query (rank, zscore)" in err
        assert "--qid-column" in err
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("1 2\n")
    code, out, err = run("tune", folder / "train.txt", "--pairs", pairs, "--valid", bare,
                         "--query-features", "rank")  # fmt: skip
    assert (code, out) == (3, "")
    assert f"--query-features rank compare the items of a query, and {bare} has no query ids" in err


def test_one_ranking_needs_none(good: Good, run: Run, tmp_path: Path, folder: Path) -> None:
    path, bare = tmp_path / "m.safetensors", tmp_path / "bare.txt"
    X, y, _ = load_letor(folder / "test.txt")
    save_letor(bare, X, y)
    run("train", bare, "--ignore-qid", "--query-features", "rank", "-o", path)
    scores = np.array(good("predict", path, bare, "--ignore-qid").split(), dtype=float)
    np.testing.assert_array_equal(scores, load(path).predict(X))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--query-features", "median"), 2, "--query-features must be one of 'rank', 'minmax'"),
        (("--query-features", "rank,rank"), 2, "--query-features has 'rank' twice"),
        (("--query-features", ""), 2, "--query-features must be one of"),
        (("--drop-features",), 2, "--drop-features needs --query-features"),
        (("--kernel", "rbf", "--query-features", "rank", "--dask", "local:1"), 2,
         "--dask cannot be combined with --kernel rbf: it is for linear models and kernel "
         "approximations"),
        (("--query-features", "rank", "-o", "m.dat"), 2,
         "is for linear models, without --query-features"),
    ],
)  # fmt: skip
def test_wrong_options(
    run: Run, folder: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    found, out, err = run("train", folder / "train.txt", *options)
    assert (found, out) == (code, "")
    assert message in err


def test_pieces_of_whole_queries(
    run: Run, good: Good, folder: Path, trained: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(shard_files, "block_size", lambda budget: 20_000)
    X, y, qid = load_letor(folder / "test.txt")
    X, y, qid = (
        np.tile(X, (60, 1)),
        np.tile(y, 60),
        np.arange(60).repeat(len(qid)) * 100 + np.tile(qid, 60),
    )
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "qid.npy", qid)
    np.save(tmp_path / "label.npy", y)
    given = ("--qid-column", tmp_path / "qid.npy", "--memory", "30MB")
    scores = np.array(good("predict", trained, tmp_path / "X.npy", *given).split(), dtype=float)
    np.testing.assert_array_equal(scores, load(trained).predict(X, qid))
    found = good("evaluate", tmp_path / "X.npy", "--model", trained, "-m", "pairwise_accuracy",
                 "--label-column", tmp_path / "label.npy", *given, "--json")  # fmt: skip
    accuracy = json.loads(found)["metrics"]["pairwise_accuracy"]
    assert accuracy == pytest.approx(load(trained).score(X, y, qid))
    # Queries that are scattered over the file.
    qid = np.arange(len(qid)) % 7
    np.save(tmp_path / "qid.npy", qid)
    scores = np.array(good("predict", trained, tmp_path / "X.npy", *given).split(), dtype=float)
    np.testing.assert_array_equal(scores, load(trained).predict(X, qid))
    little = (*given[:3], "0.4MB")
    code, out, err = run("predict", trained, tmp_path / "X.npy", *little)
    assert (code, out) == (3, "")
    assert ", and scoring " in err
    assert "features of 7 queries in several shards (query 0, for example, has items in" in err
    assert "or sort the rows by query" in err


@pytest.mark.parametrize(
    "kind", [(), ("--kernel", "rbf", "--approximation", "nystroem", "--components", "9")]
)
def test_training_in_pieces(
    run: Run, good: Good, folder: Path, tmp_path: Path, monkeypatch: Any, kind: tuple[str, ...]
) -> None:
    train, valid, cache = folder / "train.txt", folder / "valid.txt", tmp_path / "cache"
    options = ("--query-features", "rank,minmax", *kind, "--valid", valid, "-m", "ndcg@5")
    known = good("train", train, *options, "-o", tmp_path / "known.safetensors", "--json")
    monkeypatch.setattr(shard_files, "block_size", lambda budget: 5_000)
    pieces = ("--memory", "100MB", "--cache", cache)
    found = good("train", train, *options, *pieces, "-o", tmp_path / "m.safetensors", "--json")
    expected, result = json.loads(known), json.loads(found)
    assert result["valid"] == pytest.approx(expected["valid"], rel=1e-3)
    X, _, qid = load_letor(valid)
    models = load(tmp_path / "m.safetensors"), load(tmp_path / "known.safetensors")
    assert models[0]._get_model().view == models[1]._get_model().view
    if not kind:
        scores = [model.predict(X, qid) for model in models]
        np.testing.assert_allclose(*scores, rtol=1e-6, atol=1e-9)
        given = ("tune", train, *options, "--C-grid", "0.01,0.1,1", "--json")
        tables = [json.loads(run(*given, *more)[1]) for more in ((), pieces)]
        assert tables[0]["C"] == tables[1]["C"]
        assert tables[0]["score"] == pytest.approx(tables[1]["score"])


def test_exports_are_refused(run: Run, trained: Path, tmp_path: Path) -> None:
    code, _, err = run("convert", trained, tmp_path / "m.dat")
    assert code == 3
    assert "features of the query (rank, zscore). Train it without them" in err
    assert not (tmp_path / "m.dat").exists()


def test_an_exact_kernel_still_takes_a_memory_limit(good: Good, folder: Path) -> None:
    told = good("train", folder / "train.txt", "--kernel", "rbf", "--scaling", "standard",
                "--query-features", "rank", "--memory", "1GB")  # fmt: skip
    assert "rbf kernel" in told
