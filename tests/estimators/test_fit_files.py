"""``fit_files``: the same models as ``fit``, from files."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from ranksvm import KernelRankSVM, KernelRankSVMCV, LinearRankSVM, LinearRankSVMCV, load
from ranksvm.data import save_letor
from ranksvm.datasets import make_ranking

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

BUDGET = "24MB"


@pytest.fixture(scope="module")
def data():
    X, y, qid, _ = make_ranking(
        n_queries=120, items_per_query=(1, 40), n_features=6, random_state=4
    )
    return X, y, qid


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data) -> Path:
    folder = tmp_path_factory.mktemp("files")
    X, y, qid = data
    for number, rows in enumerate(np.array_split(np.arange(len(y)), 3)):
        columns = {"grade": y[rows], "query": [f"q{one}" for one in qid[rows]]}
        columns |= {f"x{j}": X[rows, j] for j in range(X.shape[1])}
        parquet.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=300)
    save_letor(folder / "all.txt.gz", X, y, qid)
    return folder


def named(X):
    """Items with the names of the columns in the files."""
    return pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})


def close(model, known) -> bool:
    return bool(
        np.abs(model.coef_ - known.coef_).max() <= 1e-10 * np.abs(known.coef_).max()
        and model.n_iter_ == known.n_iter_
    )


def test_linear_from_parquet(data, folder) -> None:
    X, y, qid = data
    known = LinearRankSVM(20.0).fit(X, y, qid)
    for paths in (folder, f"{folder}/*.parquet", sorted(folder.glob("*.parquet"))):
        model = LinearRankSVM(20.0).fit_files(paths, y="grade", qid="query", memory_budget=BUDGET)
        assert close(model, known)
        assert model.feature_names_in_.tolist() == [f"x{j}" for j in range(6)]
    assert np.allclose(model.predict(named(X)), known.predict(X), rtol=0, atol=1e-9)
    assert model.n_pairs_ == known.n_pairs_


def test_linear_from_letor_text_and_arrays(data, folder, tmp_path) -> None:
    X, y, qid = data
    known = LinearRankSVM().fit(X, y, qid)
    model = LinearRankSVM().fit_files(
        folder / "all.txt.gz", memory_budget=BUDGET, cache=tmp_path / "cache"
    )
    assert close(model, known)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for source in (mapped, tmp_path / "X.npy"):
        assert close(LinearRankSVM().fit_files(source, y, qid, memory_budget=BUDGET), known)


def test_the_type_of_the_features(data, folder, tmp_path) -> None:
    X, y, qid = data
    rounded = X.astype(np.float32)
    assert not np.array_equal(rounded, X)
    known = LinearRankSVM().fit(rounded, y, qid)
    cached = {"memory_budget": BUDGET, "cache": tmp_path / "cache", "dtype": "float32"}
    model = LinearRankSVM().fit_files(folder / "all.txt.gz", **cached)
    assert np.abs(model.coef_ - known.coef_).max() <= 1e-5 * np.abs(known.coef_).max()
    named = {"y": "grade", "qid": "query", "memory_budget": BUDGET}
    model = LinearRankSVM().fit_files(folder, **named, dtype="float32")
    assert np.abs(model.coef_ - known.coef_).max() <= 1e-5 * np.abs(known.coef_).max()
    assert not close(model, LinearRankSVM().fit_files(folder, **named))
    for kind, params in ((KernelRankSVM, {"approximation": "nystroem"}), (LinearRankSVMCV, {})):
        with pytest.raises(ValueError, match="dtype must be"):
            kind(**params).fit_files(folder, **named, dtype="float16")


def test_the_index_of_a_pandas_frame_is_no_feature(data, tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    X, y, qid = data
    frame = pandas.DataFrame(X, columns=list("abcdef")).assign(label=y, qid=qid)
    frame.index = np.arange(len(y))[::-1] * 7.0
    frame.to_parquet(tmp_path / "index.parquet")
    model = LinearRankSVM().fit_files(tmp_path / "index.parquet", memory_budget=BUDGET)
    assert model.feature_names_in_.tolist() == list("abcdef")


def test_weights(data, folder, tmp_path) -> None:
    X, y, qid = data
    rng = np.random.default_rng(0)
    weight, own = rng.uniform(0.5, 2.0, len(y)), rng.uniform(0.5, 2.0, len(np.unique(qid)))
    np.save(tmp_path / "X.npy", X)
    known = LinearRankSVM().fit(X, y, qid, sample_weight=weight, query_weight=own)
    model = LinearRankSVM().fit_files(
        tmp_path / "X.npy", y, qid, sample_weight=weight, query_weight=own, memory_budget=BUDGET
    )
    assert close(model, known)


def test_one_global_ranking(data, folder) -> None:
    X, y, _ = data
    columns = [f"x{j}" for j in range(6)]
    model = LinearRankSVM().fit_files(
        folder, y="grade", qid=None, columns=columns, memory_budget=BUDGET
    )
    assert close(model, LinearRankSVM().fit(X, y))


def test_some_columns(data, folder) -> None:
    X, y, qid = data
    model = LinearRankSVM().fit_files(
        folder, y="grade", qid="query", columns=["x4", "x1"], memory_budget=BUDGET
    )
    assert close(model, LinearRankSVM().fit(X[:, [4, 1]], y, qid))


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_kernel_features(data, folder, approximation) -> None:
    X, y, qid = data
    params = {"approximation": approximation, "n_components": 80, "random_state": 1}
    known = KernelRankSVM(5.0, **params).fit(X, y, qid)
    model = KernelRankSVM(5.0, **params).fit_files(
        folder, y="grade", qid="query", memory_budget=BUDGET
    )
    assert model.objective_ == pytest.approx(known.objective_, rel=1e-11)
    assert np.allclose(model.predict(named(X)), known.predict(X), rtol=0, atol=1e-9)


def test_an_exact_kernel_is_refused(folder) -> None:
    with pytest.raises(ValueError, match="use approximation='nystroem' or 'fourier'"):
        KernelRankSVM().fit_files(folder, y="grade", qid="query")


def test_a_search(data, folder) -> None:
    X, y, qid = data
    known = LinearRankSVMCV(4, cv=3, metric="ndcg@5").fit(X, y, qid)
    model = LinearRankSVMCV(4, cv=3, metric="ndcg@5").fit_files(
        folder, y="grade", qid="query", memory_budget=BUDGET
    )
    assert model.C_ == known.C_
    assert np.allclose(
        model.cv_results_["mean_test_score"], known.cv_results_["mean_test_score"], atol=1e-12
    )
    assert np.abs(model.coef_ - known.coef_).max() <= 1e-6 * np.abs(known.coef_).max()


def test_a_search_on_validation_files(data, folder) -> None:
    model = KernelRankSVMCV(
        [5.0],
        [0.3],
        approximation="nystroem",
        n_components=20,
        metric="pairwise_accuracy",
        random_state=0,
    ).fit_files(
        folder / "0.parquet",
        y="grade",
        qid="query",
        validation=[folder / "1.parquet"],
        memory_budget=BUDGET,
    )
    assert model.n_splits_ == 1
    X, y, qid = data
    first, second = np.array_split(np.arange(len(y)), 3)[:2]
    known = KernelRankSVM(
        5.0, gamma=0.3, approximation="nystroem", n_components=20, random_state=0
    ).fit(X[first], y[first], qid[first])
    score = known.score(X[second], y[second], qid[second])
    assert model.best_score_ == pytest.approx(score, rel=1e-10)
    assert model.best_estimator_.n_features_in_ == 6


def test_a_saved_model(data, folder, tmp_path) -> None:
    X, _, _ = data
    model = LinearRankSVM().fit_files(folder, y="grade", qid="query", memory_budget=BUDGET)
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    items = named(X)
    assert np.array_equal(again.predict(items), model.predict(items))
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(items), model.predict(items))


def test_a_failed_fit_leaves_the_old_model(data, folder, tmp_path) -> None:
    X, y, qid = data
    model = LinearRankSVM().fit(X, y, qid)
    before = model.predict(X)
    with pytest.raises(FileNotFoundError):
        model.fit_files(tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="no column 'label'"):
        model.fit_files(folder)
    assert np.array_equal(model.predict(X), before)


# --- Checkpoints ---------------------------------------------------------------------------------


class Stop(Exception):
    pass


def test_an_interrupted_fit_continues(data, folder, tmp_path) -> None:
    path = tmp_path / "state.npz"
    params = {"C": 2000.0, "tol": 1e-8}
    known = LinearRankSVM(**params).fit_files(folder, y="grade", qid="query", memory_budget=BUDGET)

    def stop(row, coef):
        if row.iteration == 3:
            raise Stop

    options = {"y": "grade", "qid": "query", "memory_budget": BUDGET, "checkpoint": path}
    with pytest.raises(Stop):
        LinearRankSVM(**params).fit_files(folder, callback=stop, **options)
    assert path.exists()
    seen = []
    model = LinearRankSVM(**params).fit_files(
        folder, callback=lambda row, coef: seen.append(row.objective), **options
    )
    assert not path.exists()
    assert model.n_iter_ > 3
    assert len(seen) < known.n_iter_  # it did not start over
    assert model.objective_ == pytest.approx(known.objective_, rel=1e-7)


def test_a_checkpoint_of_another_fit_is_refused(data, folder, tmp_path) -> None:
    path = tmp_path / "state.npz"
    options = {"y": "grade", "qid": "query", "memory_budget": BUDGET, "checkpoint": path}
    with pytest.raises(Stop):
        LinearRankSVM(100.0).fit_files(folder, callback=_stop_at_once, **options)
    content = path.read_bytes()
    with pytest.raises(ValueError, match=r"from a different fit \(different parameters\)"):
        LinearRankSVM(200.0).fit_files(folder, **options)
    with pytest.raises(ValueError, match="different features"):
        LinearRankSVM(100.0).fit_files(folder / "1.parquet", **options)
    assert path.read_bytes() == content
    with pytest.raises(ValueError, match="needs random_state"):
        KernelRankSVM(approximation="fourier", n_components=80).fit_files(folder, **options)


def _stop_at_once(row, coef):
    if row.iteration:
        raise Stop


KILLED = """
import sys, time
from ranksvm import LinearRankSVM
def slow(row, coef):
    print(row.iteration, flush=True)
    time.sleep(0.3)
model = LinearRankSVM(2000.0, tol=1e-9).fit_files(
    sys.argv[1], y="grade", qid="query", memory_budget="20MB", checkpoint=sys.argv[2],
    callback=slow,
)
print("done", model.n_iter_, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process as `kill -9` does")
def test_a_killed_fit_continues(folder, tmp_path) -> None:
    """Killed with SIGKILL after the second iteration, the same command goes on from there."""
    path = tmp_path / "state.npz"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "2":
                time.sleep(0.05)
                process.kill()
                break
        process.wait(timeout=30)
    assert path.exists()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    *iterations, last = done.stdout.split("\n")[:-1]
    total = int(last.split()[1])
    assert total >= len(iterations) - 1 + 2
    assert not path.exists()
