"""The commands with kernel models: what they learn, tell, write and refuse."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ranksvm
from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.data import load_letor, save_letor
from ranksvm.learners import read_model
from ranksvm.metrics import evaluate
from ranksvm.models import ModelFileError, files


def scores_of(text: str) -> np.ndarray:
    return np.array([float(line) for line in text.splitlines()])


# --- train ---------------------------------------------------------------------------------------

WAYS = {
    "exact": (["--kernel", "rbf"], {}),
    "poly": (
        ["--kernel", "poly", "--gamma", "2^-3", "--degree", "2", "--coef0", "0.5"],
        {"kernel": "poly", "gamma": 0.125, "degree": 2, "coef0": 0.5},
    ),
    "nystroem": (
        ["--kernel", "laplacian", "--approximation", "nystroem", "--components", "9",
         "--landmarks", "leverage", "--seed", "7", "--dtype", "float32"],
        {"kernel": "laplacian", "approximation": "nystroem", "n_components": 9,
         "landmarks": "leverage", "random_state": 7, "dtype": "float32"},
    ),
    "fourier": (
        ["--kernel", "rbf", "--gamma", "auto", "--approximation", "fourier", "--components", "20",
         "--loss", "hinge", "--reduction", "query_mean"],
        {"gamma": "auto", "approximation": "fourier", "n_components": 20, "random_state": 0,
         "loss": "hinge", "reduction": "query_mean"},
    ),
    "linear": (["--kernel", "linear"], {"kernel": "linear"}),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_train_saves_the_model_that_the_estimator_finds(good, folder, samples, tmp_path, way):
    options, params = WAYS[way]
    path = tmp_path / "m.safetensors"
    out = good("train", folder / "train.txt", "-C", 20, *options, "-o", path)
    expected = KernelRankSVM(20.0, **params).fit(*samples["train"][:3])
    saved = ranksvm.load(path)
    assert type(saved) is KernelRankSVM
    X = samples["test"][0]
    assert np.array_equal(saved.predict(X), expected.predict(X))
    assert saved.get_params() == expected.get_params()
    assert saved.gamma_ == expected.gamma_
    # What is told.
    assert f"{expected.kernel} kernel" in out
    assert f"{expected.n_products_} products" in out
    if way != "linear":
        assert f"gamma = {expected.gamma_:.6g}" in out
    n_points = len(saved.dual_coef_) if hasattr(saved, "dual_coef_") else len(saved.coef_)
    what = {"nystroem": "Nystrom landmarks", "fourier": "random Fourier features"}
    assert f"{n_points} {what.get(way, 'support items')}" in out
    assert "certified relative gap" in out
    # The model in the other commands.
    scored = good("predict", path, folder / "test.txt")
    assert np.array_equal(scores_of(scored), saved.predict(load_letor(folder / "test.txt").X))
    judged = json.loads(
        good("evaluate", folder / "test.txt", "--model", path, "--json", "-m", "map")
    )
    _, y, qid, _ = samples["test"]
    found = evaluate(y, expected.predict(X), qid, ["map"])
    assert judged["metrics"]["map"] == pytest.approx(found["map"])
    about = json.loads(good("info", path, "--json"))
    assert about["kind"] == f"{read_model(path).kind} model"
    assert about["kernel"] == expected.kernel
    assert about["gamma"] == (None if way == "linear" else expected.gamma_)
    assert about["support_items" if "support_" in vars(saved) else "components"] == n_points
    assert about["objective"] == expected.objective_
    assert about["relative_gap"] == expected.gap_ / expected.objective_
    assert about["features"] == 5
    assert "largest_weights" not in about
    assert "objective" in good("info", path)
    copy = tmp_path / "copy.safetensors"
    good("convert", path, copy)
    assert copy.read_bytes() == path.read_bytes()


def test_train_judges_and_tells_in_json(good, folder, samples):
    report = json.loads(
        good("train", folder / "train.txt", "--kernel", "rbf", "--gamma", "0.1", "--valid",
             folder / "valid.txt", "-m", "ndcg@5", "--conventions", "letor", "--json")
    )  # fmt: skip
    expected = KernelRankSVM(gamma=0.1).fit(*samples["train"][:3])
    X, y, qid, _ = samples["valid"]
    found = evaluate(y, expected.predict(X), qid, ["ndcg@5"], conventions="letor")
    assert report["valid"] == pytest.approx(found)
    assert report["settings"]["kernel"] == "rbf"
    assert report["gamma"] == 0.1
    assert report["support_items"] == len(expected.support_)
    assert report["products"] == expected.n_products_


def test_without_a_kernel_nothing_has_changed(good, folder, samples, tmp_path):
    out = good("train", folder / "train.txt", "-o", tmp_path / "m")
    assert "kernel," not in out
    report = json.loads(good("train", folder / "train.txt", "--json"))
    assert "gamma" not in report
    assert "kernel" not in report["settings"]
    assert type(ranksvm.load(tmp_path / "m")) is LinearRankSVM


def test_columns_are_matched_by_name(good, run, folder, samples, tmp_path):
    path = tmp_path / "m"
    good("train", folder / "train.csv", "--kernel", "rbf", "-o", path)
    expected = KernelRankSVM().fit(*samples["train"][:3]).predict(samples["test"][0])
    for name in ("test.csv", "test-turned.csv"):
        assert np.allclose(scores_of(good("predict", path, folder / name)), expected, atol=1e-9)
    frame = pd.read_csv(folder / "test.csv")
    assert np.allclose(
        ranksvm.load(path).predict(frame[[f"n{j}" for j in range(5)]]), expected, atol=1e-9
    )
    frame.drop(columns="n3").to_csv(tmp_path / "less.csv", index=False)
    code, _, err = run("predict", path, tmp_path / "less.csv")
    assert code == 3
    assert "'n3'" in err


def test_columns_that_one_side_lacks_are_zero(run, good, folder, samples, tmp_path):
    X, y, qid, _ = samples["test"]
    sparse = tmp_path / "sparse.txt"
    wide = np.zeros((len(y), 300))  # so many zeros that it is read as CSR
    wide[:, :3] = X[:, :3]
    wide[0, 299] = 5.0
    save_letor(sparse, wide, y, qid)
    assert hasattr(load_letor(sparse).X, "indptr")
    for kernel in ("rbf", "poly"):
        path = tmp_path / kernel
        good("train", folder / "train.txt", "--kernel", kernel, "-o", path)
        code, out, err = run("predict", path, sparse)
        assert code == 0
        assert "300 features, the model 5: the others weigh nothing" in err
        assert np.allclose(scores_of(out), ranksvm.load(path).predict(wide[:, :5]), atol=1e-9)
        # A sparse model, and items with fewer columns than it has.
        good("train", sparse, "--kernel", kernel, "-o", tmp_path / "sparse-model")
        assert read_model(tmp_path / "sparse-model").kind == "kernel_sparse"
        out = good("predict", tmp_path / "sparse-model", folder / "test.txt")
        full = np.zeros_like(wide)
        full[:, :5] = X
        expected = ranksvm.load(tmp_path / "sparse-model").predict(full)
        assert np.allclose(scores_of(out), expected, atol=1e-9)


def test_kernel_and_linear_models_are_compared(good, folder, tmp_path):
    good("train", folder / "train.txt", "-o", tmp_path / "linear")
    good("train", folder / "train.txt", "--kernel", "rbf", "-o", tmp_path / "rbf")
    out = good("compare", folder / "test.txt", tmp_path / "linear", tmp_path / "rbf")
    assert "linear" in out
    assert "rbf" in out


def test_the_linear_kernel_with_svmrank_c(good, folder, tmp_path):
    for name, options in (("linear", []), ("kernel", ["--kernel", "linear"])):
        good("train", folder / "train.txt", "--svmrank-c", 3, *options, "-o", tmp_path / name)
    scores = [
        scores_of(good("predict", tmp_path / name, folder / "test.txt"))
        for name in ("linear", "kernel")
    ]
    assert np.allclose(*scores, atol=1e-2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--gamma", "1"], 2, "--gamma needs --kernel"),
        (["--degree", "2"], 2, "--degree needs --kernel"),
        (["--coef0", "2"], 2, "--coef0 needs --kernel"),
        (["--approximation", "nystroem"], 2, "--approximation needs --kernel"),
        (["--components", "9"], 2, "--components needs --kernel"),
        (["--landmarks", "uniform"], 2, "--landmarks needs --kernel"),
        (["--memory", "plenty"], 2, "--memory must be a positive number"),
        (["--factors", "2", "--memory", "1GB"], 2, "--memory cannot be combined with --factors"),
        (["--memory", "1KB"], 3, "--memory 1KB is too little for"),
        (["--dtype", "float32"], 2, "--dtype needs --kernel"),
        (["--seed", "1"], 2, "--seed needs --kernel"),
        (["--kernel", "rbf", "--gamma", "0"], 2, "error: --gamma must be a positive"),
        (["--kernel", "rbf", "--gamma=-1"], 2, "error: --gamma must be a positive"),
        (["--kernel", "rbf", "--gamma", "nan"], 2, "error: --gamma must be a positive"),
        (["--kernel", "rbf", "--gamma", "wide"], 2, "number, 'scale' or 'auto'; got 'wide'"),
        (["--kernel", "rbf", "--gamma", "9^999"], 2, "number, 'scale' or 'auto'; got '9^999'"),
        (["--kernel", "cubic"], 2, "cubic"),
        (["--kernel", "precomputed"], 2, "precomputed"),
        (["--kernel", "rbf", "--approximation", "taylor"], 2, "taylor"),
        (["--kernel", "rbf", "--dtype", "float16"], 2, "float16"),
        (["--kernel", "rbf", "--degree", "2"], 2,
         "--degree has no meaning for --kernel rbf; it needs --kernel poly"),
        (["--kernel", "linear", "--gamma", "2"], 2, "--gamma has no meaning"),
        (["--kernel", "poly", "--degree", "0"], 2, "error: --degree must be a positive integer"),
        (["--kernel", "poly", "--coef0", "inf"], 2, "error: --coef0 must be a finite number"),
        (["--kernel", "rbf", "--components", "5"], 2, "--components needs --approximation"),
        (["--kernel", "rbf", "--approximation", "fourier", "--landmarks", "uniform"], 2,
         "for --approximation fourier; it needs --approximation nystroem"),
        (["--kernel", "rbf", "--approximation", "fourier", "--components", "0"], 2,
         "--components must be a positive integer"),
        (["--kernel", "poly", "--approximation", "fourier"], 2, "Use --approximation nystroem"),
        (["--kernel", "rbf", "--memory", "plenty"], 2, "--memory must be a positive number"),
        (["--kernel", "rbf", "--svmrank-c", "1"], 2, "--svmrank-c is for linear models"),
        (["--kernel", "rbf", "-o", "{t}/m.dat"], 2, "(.dat) is for linear models"),
        (["--kernel", "rbf", "--memory", "1KB"], 3, "Use a larger --memory"),
        (["--kernel", "rbf", "--approximation", "fourier", "--memory", "1KB"], 3,
         "--memory 1KB is too little for"),
        (["--kernel", "rbf", "--approximation", "fourier", "--components", "9999999"], 3,
         "more than --memory 4GB: use fewer --components, --dtype float32"),
    ],
)  # fmt: skip
def test_bad_values(run, folder, tmp_path, arguments, code, message):
    arguments = [argument.format(t=tmp_path) for argument in arguments]
    output = [] if "-o" in arguments else ["-o", tmp_path / "m"]
    found, out, err = run("train", folder / "train.txt", *arguments, *output)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_more_components_than_items_are_told_once(run, folder, tmp_path):
    options = ("--kernel", "rbf", "--approximation", "nystroem", "--components", "100000")
    code, _, err = run("train", folder / "train.txt", *options, "-o", tmp_path / "m")
    assert code == 0
    assert err.count("warning: --components 100000 exceeds the") == 1
    code, _, err = run("tune", folder / "train.txt", *options, "--gamma", "0.1", "--gamma", "0.2")
    assert code == 0, err
    told = [line for line in err.splitlines() if "--components 100000 exceeds the" in line]
    assert len(told) == len(set(told)) > 0


def test_a_kernel_model_has_no_place_in_svmranks_format(good, run, folder, tmp_path):
    good("train", folder / "train.txt", "--kernel", "rbf", "-o", tmp_path / "m")
    code, _, err = run("convert", tmp_path / "m", tmp_path / "m.dat")
    assert code == 3
    assert "(.dat) is for models with one weight per feature; got a kernel model" in err
    assert not (tmp_path / "m.dat").exists()


def hostile(path, monkeypatch, **facts):
    """Make a file with a right checksum and other facts."""
    model = read_model(path)
    kind, arrays = model.kind, model.arrays()
    changed = SimpleNamespace(
        kind=kind,
        params=model.params,
        facts={**model.facts, **facts},
        feature_names=None,
        scaling=None,
        FORMATS=model.FORMATS,
        arrays=lambda: arrays,
    )
    with monkeypatch.context() as patch:
        patch.setattr(files, "check_model", lambda *_: None)
        path.write_bytes(files._to_bytes(changed))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kernel": {"function": "magic"}}, "the kernel must have the entries"),
        ({"kernel": None}, "the kernel must have the entries"),
        ({"gamma": "wide"}, "gamma in the facts must be"),
        ({"gamma": float("nan")}, "gamma in the facts must be"),
        ({"objective": 10**400}, "objective in the facts must be"),
        ({"n_features": 7}, "n_features in the facts is 7"),
    ],
)
def test_all_commands_refuse_what_load_refuses(
    good, run, folder, tmp_path, monkeypatch, facts, message
):
    path = tmp_path / "m"
    good("train", folder / "train.txt", "--kernel", "rbf", "-o", path)
    hostile(path, monkeypatch, **facts)
    with pytest.raises(ModelFileError, match=message):
        ranksvm.load(path)
    test = folder / "test.txt"
    for command in (
        ["predict", path, test], ["evaluate", test, "--model", path], ["info", path],
        ["info", path, "--json"], ["convert", path, tmp_path / "copy"],
    ):  # fmt: skip
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert message in err
    assert not (tmp_path / "copy").exists()


def test_info_shows_facts_that_are_not_finite(good, folder, tmp_path, monkeypatch):
    path = tmp_path / "m"
    good("train", folder / "train.txt", "--kernel", "rbf", "-o", path)
    inf = float("inf")
    strange = {"some": [None, True, {"a": [1.5, float("nan"), -inf]}], "more": 10**300}
    hostile(path, monkeypatch, objective=inf, gap=float("nan"), **strange)
    assert "objective" in good("info", path)
    assert json.loads(good("info", path, "--json"))["objective"] is None


def test_scores_that_overflow_are_refused(good, run, folder, samples, tmp_path):
    X, y, qid, _ = samples["test"]
    path, large = tmp_path / "m", tmp_path / "large.txt"
    good("train", folder / "train.txt", "--kernel", "poly", "-o", path)
    X = X.copy()
    X[2:4] *= 1e150
    save_letor(large, X, y, qid)
    output = ["-o", tmp_path / "scores"]
    for command in (["predict", path, large], ["predict", path, large, *output],
                    ["evaluate", large, "--model", path],
                    ["compare", large, path, folder / "test.txt"]):  # fmt: skip
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert "2 items of" in err
        assert "a score that is not finite, the first of them item 3 (" in err
    assert not (tmp_path / "scores").exists()


def test_columns_that_are_zero_take_no_room(good, run, folder, samples, tmp_path, monkeypatch):
    """Dense items and a model, or a training set, of very many columns."""
    wide = tmp_path / "wide.txt"
    lines = (folder / "train.txt").read_text().splitlines()
    wide.write_text("\n".join([lines[0] + " 2000000:1", *lines[1:]]) + "\n")
    path = tmp_path / "m"
    good("train", wide, "--kernel", "rbf", "--gamma", 0.1, "-o", path)
    assert read_model(path).kind == "kernel_sparse"
    zeros = np.zeros

    def small(shape, *args, **kwargs):
        assert np.prod(shape) < 1e7
        return zeros(shape, *args, **kwargs)

    monkeypatch.setattr(np, "zeros", small)
    found = scores_of(good("predict", path, folder / "test.txt"))
    model = ranksvm.load(path)
    X, points = samples["test"][0], model.support_vectors_.tocsc()
    near = ((X[:, None] - points[:, :5].toarray()[None]) ** 2).sum(axis=2)
    distances = near + points[:, [1_999_999]].toarray().ravel() ** 2
    assert np.allclose(found, np.exp(-0.1 * distances) @ model.dual_coef_, atol=1e-9)
    code, out, _ = run("tune", wide, "--kernel", "rbf", "--gamma", 0.1, "--C-grid", "1,10",
                       "--valid", folder / "valid.txt", "--json")  # fmt: skip
    assert code == 0
    assert len(json.loads(out)["table"]) == 2


def test_scikit_learn_stays_unimported(folder, tmp_path):
    train, model = str(folder / "train.txt"), str(tmp_path / "m")
    test = str(folder / "test.txt")
    commands = [
        ["train", train, "--kernel", "rbf", "--valid", test, "-o", model],
        ["train", train, "--kernel", "rbf", "--approximation", "nystroem", "--components", "9",
         "--landmarks", "kmeans"],
        ["tune", train, "--kernel", "rbf", "--C-grid", "1,10", "--resume", model + ".db"],
        ["predict", model, test],
        ["evaluate", test, "--model", model],
        ["info", model],
    ]  # fmt: skip
    program = f"""
import sys
from ranksvm.cli import main
for arguments in {commands!r}:
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, (arguments, ended.code)
    assert "sklearn" not in sys.modules, arguments
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


# --- tune ----------------------------------------------------------------------------------------

GRID = ["--kernel", "rbf", "--gamma-grid", "2^-7,2^-2", "--C-grid", "0.5,500,20"]


def test_tune_on_folds(run, folder, samples, tmp_path):
    code, out, _ = run("tune", folder / "train.txt", *GRID, "--folds", 3, "-o", tmp_path / "m")
    assert code == 0
    first, names, _, *rows, last = out.splitlines()
    assert first.startswith(
        "3 folds, ndcg@10 (default for graded labels in queries), 2 values of gamma times 3 values "
        "of C"
    )
    assert names.split() == ["gamma", "C", "ndcg@10", "std"]
    assert [row.split()[:2] for row in rows] == [
        [gamma, C] for gamma in ("0.0078125", "0.25") for C in ("0.5", "500", "20")
    ]
    assert last == f"model written to {tmp_path / 'm'}"
    (best,) = (row.split() for row in rows if row.endswith("best"))
    saved = ranksvm.load(tmp_path / "m")
    assert (saved.gamma, saved.C) == (float(best[0]), float(best[1]))
    selection = saved._facts["selection"]
    assert selection["gammas"] == [2**-7, 0.25]
    assert selection["on"] == "3 folds"
    expected = KernelRankSVM(saved.C, gamma=saved.gamma).fit(*samples["train"][:3])
    X = samples["test"][0]
    assert np.array_equal(saved.predict(X), expected.predict(X))


def test_tune_on_a_validation_file(run, folder, samples, tmp_path):
    code, out, err = run(
        "tune", folder / "train.txt", "--kernel", "rbf", "--C-grid", "1,10", "--gamma-grid",
        "1e-3:10:3", "--valid", folder / "valid.txt", "-m", "ndcg@5", "--conventions", "letor",
        "--approximation", "nystroem", "--components", 20, "--tol", "1e-8", "--json",
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    X, y, qid, _ = samples["valid"]
    assert [(row["gamma"], row["C"]) for row in found["table"]] == [
        (gamma, C) for gamma in (1e-3, 0.1, 10.0) for C in (1.0, 10.0)
    ]
    for row in found["table"]:
        one = KernelRankSVM(
            row["C"], gamma=row["gamma"], approximation="nystroem", n_components=20,
            random_state=0, tol=1e-8,
        ).fit(*samples["train"][:3])  # fmt: skip
        value = evaluate(y, one.predict(X), qid, ["ndcg@5"], conventions="letor")["ndcg@5"]
        assert row["mean"] == pytest.approx(value, abs=1e-6)
        assert row["splits"] == [row["mean"]]
    best = max(found["table"], key=lambda row: row["mean"])
    assert found["score"] == best["mean"]
    at_edge = found["C"] in (1.0, 10.0), found["gamma"] in (1e-3, 10.0)
    assert ("Extend --C-grid." in err) == at_edge[0]
    assert ("Extend --gamma-grid." in err) == at_edge[1]


def test_tune_by_default_and_with_one_gamma(run, folder):
    fast = ["--folds", 2, "--approximation", "fourier", "--components", 10, "--json"]
    _, out, _ = run("tune", folder / "train.txt", "--kernel", "laplacian", *fast)
    table = json.loads(out)["table"]
    assert len({row["gamma"] for row in table}) == 5
    assert {row["C"] for row in table} == {12.5 * 4.0**power for power in range(7)}
    _, out, _ = run("tune", folder / "train.txt", "--kernel", "rbf", "--gamma", "2^-3", *fast)
    assert {row["gamma"] for row in json.loads(out)["table"]} == {0.125}
    _, out, _ = run("tune", folder / "train.txt", "--kernel", "rbf", "--gamma", "scale", *fast)
    assert len({row["gamma"] for row in json.loads(out)["table"]}) == 1
    _, out, _ = run("tune", folder / "train.txt", "--kernel", "linear", "--folds", 2, "--json")
    assert "gamma" not in json.loads(out)["table"][0]


def test_an_interrupted_search_goes_on(run, folder, tmp_path, monkeypatch):
    from ranksvm.cli import tune

    arguments = ["tune", folder / "train.txt", *GRID, "--folds", 3, "--json"]
    whole = json.loads(run(*arguments)[1])
    path = tmp_path / "search.db"

    @contextmanager
    def interrupted(what):
        def advance(done, total, text):
            if done == 8:
                raise KeyboardInterrupt

        yield advance

    with monkeypatch.context() as patch:
        patch.setattr(tune, "progress", interrupted)
        code, out, err = run(*arguments, "--resume", path)
    assert (code, out) == (130, "")
    assert "interrupted" in err
    assert n_finished(path) == 2
    code, out, _ = run(*arguments, "--resume", path)
    found = json.loads(out)
    assert code == 0
    assert found["resumed"] == 2
    assert found["table"] == whole["table"]
    assert (found["C"], found["gamma"]) == (whole["C"], whole["gamma"])
    code, out, _ = run(*arguments[:-1], "--resume", path)
    assert "6 parts done before" in out
    # Another search.
    code, _, err = run(*arguments, "--resume", path, "-m", "map")
    assert code == 3
    assert "is from a different search (different metric). Delete it or choose another" in err


def test_a_linear_search_goes_on_as_well(run, folder, tmp_path):
    arguments = ["tune", folder / "train.txt", "--C-grid", "0.1,1,10", "--folds", 3, "--json"]
    path = tmp_path / "search.db"
    first, again = (json.loads(run(*arguments, "--resume", path)[1]) for _ in range(2))
    assert (first["resumed"], again["resumed"]) == (0, 3)
    assert first["table"] == again["table"]
    whole = json.loads(run(*arguments)[1])
    for one, other in zip(first["table"], whole["table"], strict=True):
        assert one["mean"] == pytest.approx(other["mean"], abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--gamma-grid", "1,2"], 2, "--gamma-grid needs --kernel"),
        (["--kernel", "rbf", "--gamma-grid", "1,2", "--gamma", "1"], 2, "give only one"),
        (["--kernel", "linear", "--gamma-grid", "1,2"], 2, "no meaning for --kernel linear"),
        (["--kernel", "rbf", "--gamma-grid", "1,0"], 2, "--gamma-grid '1,0': expected positive"),
        (["--kernel", "rbf", "--gamma-grid", "1,1"], 2, "--gamma-grid '1,1' has a value twice"),
        (["--kernel", "rbf", "--resume", "-"], 2, "--resume needs a file"),
        (["--kernel", "rbf", "--resume", "/dev/full"], 2, "needs a file, which the next run can r"),
        (["--kernel", "rbf", "--resume", "/dev/zero"], 2, "got /dev/zero"),
        (["--kernel", "rbf", "--resume", "/dev/null"], 2, "got /dev/null"),
        (["--kernel", "rbf", "--resume", ""], 2, "is empty"),
        (["--kernel", "rbf", "--resume", "{t}"], 3, "this is a directory"),
        (["--kernel", "rbf", "--resume", "{t}/r", "--memory", "1KB"], 3, ", fold 1: "),
        (["--kernel", "poly", "--degree", "1" + "0" * 23], 2, "degree must be at most"),
        (["--kernel", "rbf", "--resume", "{t}/m", "-o", "{t}/m"], 2, "cannot be both"),
        (
            ["--kernel", "rbf", "--resume", "{f}/train.txt"],
            2,
            "train.txt is also an input",
        ),
        (
            ["--kernel", "rbf", "--resume", "{f}/valid.txt"],
            3,
            "is not a checkpoint; not overwritten",
        ),
        (["--kernel", "rbf", "--resume", "{t}/no/r"], 3, "there is no directory"),
        (["--kernel", "rbf", "-o", "{t}/m.dat"], 2, "(.dat) is for linear models"),
        (
            ["--kernel", "rbf", "--gamma", "0.1", "--memory", "1KB"],
            3,
            "error: gamma = 0.1, fold 1: ",
        ),
    ],
)
def test_bad_values_for_tune(run, folder, tmp_path, arguments, code, message):
    before = (folder / "valid.txt").read_bytes()
    arguments = [argument.format(t=tmp_path, f=folder) for argument in arguments]
    found, out, err = run("tune", folder / "train.txt", *arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    assert (folder / "valid.txt").read_bytes() == before


def test_a_set_without_pairs_is_told_with_its_size(run, tmp_path):
    save_letor(tmp_path / "flat.txt", np.eye(6), np.ones(6), np.repeat([1, 2], 3))
    code, _, err = run("train", tmp_path / "flat.txt", "--kernel", "rbf")
    assert code == 3
    assert "no comparable pair to learn from (6 samples, 2 queries)" in err


@pytest.mark.parametrize("way", [["--json"], []])
@pytest.mark.parametrize("linear", [True, False])
def test_a_model_that_fails_leaves_the_search(run, folder, tmp_path, monkeypatch, way, linear):
    """What the search has found is shown even if the refit or its file come to nothing."""
    from ranksvm.cli import tune

    arguments = ["tune", folder / "train.txt", *(["--C-grid", "1,10"] if linear else GRID),
                 "--folds", 3, "-o", tmp_path / "m", *way]  # fmt: skip
    _, whole, _ = run(*arguments)
    (tmp_path / "m").unlink()

    def told(out):
        if not way:
            return [line for line in out.splitlines()[1:] if "model written" not in line]
        return {key: value for key, value in json.loads(out).items()
                if key not in ("seconds", "model")}  # fmt: skip

    def full(*_):
        raise OSError(28, "No space left on device", str(tmp_path / "m"))

    def unfit(*_, **__):
        raise MemoryError("not enough memory")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    for where, name, failing, code, message in (
        (tune, "save_model", full, 3, "m: No space left on device"),
        (tune.Search, "refit", unfit, 3, "not enough memory"),
        (tune.Search, "refit", interrupted, 130, "interrupted"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, failing)
            found, out, err = run(*arguments)
        assert found == code
        assert message in err
        assert told(out) == told(whole)
        assert "model written" not in out
        if way:
            assert json.loads(out)["model"] is None
        assert list(tmp_path.iterdir()) == []


def test_room_for_the_model_is_looked_for_before_the_search(run, folder, samples, tmp_path):
    _, y, qid, _ = samples["train"]
    n_items = sum(np.unique(y[qid == q]).size > 1 for q in qid)
    most = 4_000_000_000 // (n_items * 8) + 1
    arguments = ["tune", folder / "train.txt", *GRID, "--approximation", "fourier", "--components",
                 most, "--folds", 3]  # fmt: skip
    code, out, err = run(*arguments, "-o", tmp_path / "m", "--resume", tmp_path / "r")
    assert (code, out) == (3, "")
    assert f"{most} features of {n_items} items take" in err
    assert list(tmp_path.iterdir()) == []


def test_a_gamma_that_overflows_is_told(run, folder, samples, tmp_path):
    X, y, qid, _ = samples["valid"]
    save_letor(tmp_path / "huge.txt", X * 1e120, y, qid)
    code, out, err = run(
        "tune", folder / "train.txt", "--kernel", "poly", "--gamma-grid", "1e-10,1e-60", "--C-grid",
        "1,10", "--valid", tmp_path / "huge.txt", "--json",
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    assert found["gamma"] == 1e-60
    assert [row["mean"] is None for row in found["table"]] == [True, True, False, False]
    assert "2 of 4 fits have no score, the first of them: gamma = 1e-10, validation set" in err


# --- tune, and what happens to processes ---------------------------------------------------------

LONG = ["--kernel", "rbf", "--gamma-grid", "0.001:10:40", "--C-grid", "1,10,100", "--folds", "5"]


def n_finished(path, how="mode=ro"):
    """Count the parts of a search that are in its file."""
    with closing(sqlite3.connect(f"{path.as_uri()}?{how}", uri=True)) as base:
        return base.execute("SELECT count(*) FROM cells").fetchone()[0]


def started(*arguments):
    program = [sys.executable, "-c", "from ranksvm.cli import main; main()"]
    return subprocess.Popen(
        [*program, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def wait_for_parts(path, n, process):
    """Wait until a file holds n parts, while a process goes on writing it."""
    done = 0
    while done < n:
        assert process.poll() is None, "the search was over too soon"
        time.sleep(0.002)
        with suppress(sqlite3.Error):  # it is not there yet, or half written
            done = n_finished(path, "mode=ro&immutable=1")


def test_a_killed_search_goes_on(run, folder, tmp_path):
    path = tmp_path / "search.db"
    arguments = ["tune", folder / "train.txt", *LONG, "-j", 1, "--resume", path, "--json"]
    for n in (3, 9):
        process = started(*arguments)
        wait_for_parts(path, n, process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    done = n_finished(path, "mode=rw")  # which undoes what was half written
    assert 8 <= done < 200
    code, out, _ = run(*arguments)
    assert code == 0
    found = json.loads(out)
    assert found["resumed"] == done
    assert n_finished(path) == 40 * 5
    whole = json.loads(run(*arguments[:-3], "--json")[1])
    assert found["table"] == whole["table"]
    assert [one.name for one in tmp_path.iterdir()] == ["search.db"]


def test_two_processes_on_one_file(run, folder, tmp_path):
    path = tmp_path / "search.db"
    arguments = ["tune", folder / "train.txt", *LONG, "-j", 1, "--resume", path, "--json"]
    process = started(*arguments)
    try:
        wait_for_parts(path, 2, process)
        process.send_signal(signal.SIGSTOP)  # and it keeps the lock
        content = path.read_bytes()
        code, out, err = run(*arguments)
        assert (code, out) == (3, "")
        assert f"{path} is in use by another process" in err
        assert path.read_bytes() == content
        process.send_signal(signal.SIGCONT)
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
    assert n_finished(path) == 40 * 5
    assert json.loads(run(*arguments)[1])["resumed"] == 200


def test_help_has_a_panel_of_kernels(good):
    for command in ("train", "tune"):
        text = good(command, "--help")
        assert "--kernel" in text
        assert "--approximation" in text
    assert "--resume" in text
