"""Commands with ``--memory`` and ``--dask``: data in pieces, or on a cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import ranksvm
from ranksvm.data.synthetic import make_ranking
from ranksvm.learners import read_model

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

PIECES = ["--memory", "30MB"]


@pytest.fixture(scope="module")
def tables(folder, tmp_path_factory):
    """The sets of ``folder`` as Parquet files."""
    pandas = pytest.importorskip("pandas")
    tables = tmp_path_factory.mktemp("tables")
    for name in ("train", "valid", "test"):
        pandas.read_csv(folder / f"{name}.csv").to_parquet(tables / f"{name}.parquet")
    return tables


def figures(text: str) -> str:
    """The output of a command without its times and gaps, which depend on rounding."""
    return re.sub(r"\d\.\de-\d+|\d+\.\d+ s", "-", text)


@pytest.mark.parametrize("kind", ["txt", "parquet"])
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--loss", "hinge"],
        ["--kernel", "rbf", "--approximation", "nystroem", "--components", 9],
    ],
)
def test_train_in_pieces(good, folder, tables, tmp_path, kind, options) -> None:
    train, valid = (
        (folder if kind == "txt" else tables) / f"{name}.{kind}" for name in ("train", "valid")
    )
    cache = ["--cache", tmp_path / "cache"]
    path = tmp_path / "m.safetensors"
    known = good("train", train, "--valid", valid, *options, "-o", path)
    coef = read_model(path)
    text = good("train", train, "--valid", valid, *options, "-o", path, *PIECES, *cache)
    assert figures(text) == figures(known)
    items = np.random.default_rng(0).uniform(size=(9, coef.n_features))
    assert np.allclose(read_model(path).scores(items), coef.scores(items), rtol=0, atol=1e-8)
    assert not list(folder.glob("*-cache"))


def test_predict_and_evaluate_in_pieces(good, tables, folder, tmp_path) -> None:
    model = tmp_path / "m.safetensors"
    good("train", tables / "train.parquet", "-o", model)
    for name in (tables / "test.parquet", folder / "test.txt"):
        if name.suffix == ".txt":
            good("train", folder / "train.txt", "-o", model, "--force")
        cache = ["--cache", tmp_path / "cache"]
        known = np.array(good("predict", model, name).split(), dtype=float)
        found = np.array(good("predict", model, name, *PIECES, *cache).split(), dtype=float)
        assert np.allclose(found, known, rtol=0, atol=1e-12)
        asked = ["evaluate", name, "--model", model, "--json"]
        known = json.loads(good(*asked))
        found = json.loads(good(*asked, *PIECES, *cache))
        assert found["metrics"] == pytest.approx(known["metrics"], rel=1e-12)
        assert found["items"] == known["items"]


def test_text_with_fewer_features_than_the_model(good, run, folder, tmp_path) -> None:
    model, text = tmp_path / "m.safetensors", tmp_path / "few.txt"
    good("train", folder / "train.txt", "-o", model)
    text.write_text("1 qid:1 2:0.5\n0 qid:1 1:0.25 3:1\n")
    _, known, _ = run("predict", model, text)
    code, found, err = run("predict", model, text, *PIECES)
    assert (code, err) == (0, "")
    assert np.allclose(*(np.array(one.split(), float) for one in (found, known)), atol=1e-12)


def test_ids_of_some_lines_are_ignored(good, run, folder, tmp_path) -> None:
    text = tmp_path / "some.txt"
    lines = (folder / "train.txt").read_text().splitlines(keepends=True)
    text.write_text(
        "".join(re.sub(" qid:[^ ]+", "", one) if k % 2 else one for k, one in enumerate(lines))
    )
    code, _, err = run("train", text, *PIECES)
    assert (code, "line 2, column 3: found" in err, "or use --ignore-qid for" in err) == (3, 1, 1)
    paths = [tmp_path / "a", tmp_path / "b"]
    known = good("train", text, "--ignore-qid", "-o", paths[0])
    found = good("train", text, "--ignore-qid", "-o", paths[1], *PIECES)
    assert figures(found).replace(str(paths[1]), str(paths[0])) == figures(known)
    coef = [read_model(path).coef for path in paths]
    assert np.abs(coef[0] - coef[1]).max() <= 1e-8 * np.abs(coef[0]).max()


@pytest.mark.parametrize("name", ["none.txt", "none.parquet"])
@pytest.mark.parametrize("command", ["train", "predict"])
def test_items_without_features(good, run, folder, tables, tmp_path, name, command) -> None:
    """The same error with and without --memory."""
    import pandas

    none = tmp_path / name
    if name.endswith("txt"):
        none.write_text("1 qid:1\n0 qid:1\n")
    else:
        pandas.DataFrame({"label": [1, 0], "qid": [1, 1], "docid": [5, 6]}).to_parquet(none)
    arguments = [command, none]
    if command == "predict":
        good("train", folder / "train.txt", "-o", tmp_path / "m")
        arguments.insert(1, tmp_path / "m")
    errors = []
    for options in ([], PIECES):
        code, _, err = run(*arguments, *options)
        assert code == 3
        errors.append(err.splitlines()[-1])
    assert errors[0] == errors[1]
    assert "has labels and ids but no feature" in errors[0]


def test_tune_in_pieces(good, tables, tmp_path) -> None:
    asked = ["tune", tables / "train.parquet", "--folds", 3, "--C-grid", "0.1,1,10"]
    asked += ["--scaling", "none", "--json"]
    known = json.loads(good(*asked))
    found = json.loads(good(*asked, *PIECES, "-o", tmp_path / "m"))
    assert found["C"] == known["C"]
    for one, other in zip(found["table"], known["table"], strict=True):
        assert one["splits"] == pytest.approx(other["splits"], rel=1e-12)
    assert ranksvm.load(tmp_path / "m").n_features_in_ == 5


def test_a_pattern_of_files(good, tables, tmp_path) -> None:
    text = good("train", f"{tables}/t*.parquet", *PIECES, "--json")
    both = [good("info", tables / f"{name}.parquet", "--json") for name in ("train", "test")]
    assert json.loads(text)["data"]["items"] == sum(json.loads(one)["items"] for one in both)


def test_resume(good, run, tables, tmp_path, monkeypatch) -> None:
    state, model = tmp_path / "state.npz", tmp_path / "m"
    asked = ["train", tables / "train.parquet", "-C", 1e5, "-o", model, "--resume", state]
    known = good(*asked, *PIECES)
    assert not state.exists()
    code, _, _ = run(*asked, *PIECES, "--max-iter", 2)
    assert code == 4  # not converged
    assert state.exists()
    code, found, err = run(*asked, *PIECES)
    assert (code, err) == (0, f"ranksvm: {state}: continuing after 2 iterations\n")
    assert not state.exists()
    iterations = [int(re.search(r"(\d+) iterations", text)[1]) for text in (known, found)]
    assert iterations[1] >= 3
    code, _, err = run("train", tables / "train.parquet", "--resume", model)
    assert code == 3
    assert "is damaged or is not the state of a fit" in err
    assert "choose another --resume" in err
    code, _, err = run("train", tables / "train.parquet", "--resume", tables / "train.parquet")
    assert code == 2
    code, _, err = run("train", tables / "train.parquet", "--factors", 2, "--resume", state)
    assert (code, "--resume cannot be combined with --factors" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "{f}/train.csv", *PIECES], 2, "--memory does not work with CSV files. Convert"),
        (["train", "-", *PIECES], 2, "--memory reads the data several times, so it needs files"),
        (["train", "{f}/train.txt", "--cache", "x"], 2, "--cache needs --memory"),
        (["train", "{t}/train.parquet", "--cache", "x", "--kernel", "rbf", *PIECES], 2,
         "--cache cannot be combined with --kernel"),
        (["train", "{t}/train.parquet", "--memory", "1KB"], 3, "Raise --memory to"),
        (["train", "{t}/none*.parquet", *PIECES], 3, "no file matches"),
        (["train", "{t}/train.parquet", "--pairs", "x", *PIECES], 2, "combined with --memory"),
        (["train", "{t}/train.parquet", "--dask", "here"], 2, "the address of a scheduler"),
        (["train", "{t}/train.parquet", "--dask", "local:2", *PIECES], 2, "--memory"),
        (["train", "{t}/train.parquet", "--dask", "local:2", "--kernel", "rbf"], 2, "--dask"),
        (["predict", "{m}", "{t}/test.parquet", "--trec-run", *PIECES], 2, "no document ids"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(
    run, good, folder, tables, tmp_path, arguments, code, message
) -> None:
    good("train", tables / "train.parquet", "-o", tmp_path / "m")
    named = {"f": folder, "t": tables, "m": tmp_path / "m"}
    found, out, err = run(*(str(one).format(**named) for one in arguments))
    assert (found, out) == (code, "")
    assert message in err


def test_a_changed_text_is_refused(good, run, folder, tmp_path) -> None:
    text = tmp_path / "train.txt"
    text.write_bytes((folder / "train.txt").read_bytes())
    good("train", text, *PIECES)
    with text.open("ab") as file:
        file.write(b"1 qid:999 1:0.5\n")
    code, _, err = run("train", text, *PIECES)
    assert code == 3
    assert "has changed" in err or "changed since" in err


@pytest.mark.skipif(sys.platform == "win32", reason="starts worker processes")
def test_train_on_a_cluster(good, tables, tmp_path) -> None:
    pytest.importorskip("distributed")
    known = good("train", tables / "train.parquet", "-o", tmp_path / "a")
    found = good("train", tables / "train.parquet", "-o", tmp_path / "b", "--dask", "local:2")
    assert figures(found).replace("/b\n", "/a\n") == figures(known)
    coef = [read_model(tmp_path / name).coef for name in "ab"]
    assert np.abs(coef[0] - coef[1]).max() <= 1e-10 * np.abs(coef[0]).max()


# --- A command that is killed --------------------------------------------------------------------


def iterations_in(path) -> int:
    """The number of iterations that a state holds; 0 if there is none."""
    try:
        with np.load(path) as state:
            return int(state["n_iter"])
    except FileNotFoundError:
        return 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_model_that_cannot_be_written_leaves_the_state(run, tables, tmp_path) -> None:
    state = tmp_path / "state.npz"
    asked = ["train", tables / "train.parquet", "-C", 1e5, "--resume", state]
    code, _, err = run(*asked, "-o", "/dev/full")
    assert code == 3
    assert "No space left" in err
    assert state.exists()
    code, _, err = run(*asked, "-o", tmp_path / "model")
    assert (code, "continuing after" in err, state.exists()) == (0, True, False)


@pytest.mark.skipif(os.name != "posix", reason="kills a process as `kill -9` does")
def test_a_killed_command_goes_on(tmp_path) -> None:
    """Killed with SIGKILL in the middle of a fit, the same command continues from its state."""
    X, y, qid, _ = make_ranking(3000, (3, 20), 20, random_state=0)
    columns = {"label": y, "qid": qid} | {f"x{j}": X[:, j] for j in range(20)}
    parquet.write_table(pa.table(columns), tmp_path / "train.parquet", row_group_size=4000)
    state, model = tmp_path / "state.npz", tmp_path / "model.safetensors"
    command = [
        sys.executable, "-m", "ranksvm", "train", str(tmp_path / "train.parquet"), "--memory",
        "60MB", "-C", "1e6", "--tol", "1e-9", "--resume", str(state), "-o", str(model), "--json",
    ]  # fmt: skip

    def complete():
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr, read_model(model).coef

    known, err, coef = complete()
    assert err == ""
    model.unlink()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while iterations_in(state) < 2:
            assert process.poll() is None, "the fit ended before it could be killed"
            time.sleep(0.001)
        process.kill()
    before = iterations_in(state)
    assert before >= 2
    assert not model.exists()

    found, err, again = complete()
    assert f"{state}: continuing after {before} iterations" in err
    assert not state.exists()
    assert found["status"] == known["status"] == "converged"
    assert found["iterations"] > before
    assert found["products"] < known["products"]
    # The objective is strongly convex: a gap bounds the distance from the optimum.
    far = np.sqrt(2.0 * known["gap"]) + np.sqrt(2.0 * found["gap"])
    assert np.linalg.norm(again - coef) <= far
    assert far < 1e-2 * np.linalg.norm(coef)
