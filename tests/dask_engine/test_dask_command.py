"""``ranksvm train --dask``: addresses, Parquet files, options, Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="ranksvm.dask needs Dask")
pandas = pytest.importorskip("pandas", reason="writes Parquet files")
pytest.importorskip("pyarrow", reason="writes Parquet files")

import numpy as np
import sets
from clusters import local_cluster

from ranksvm import LinearRankSVM
from ranksvm.cli import clusters as cli_clusters
from ranksvm.dask import engine, parquet
from ranksvm.dask.clients import find_client
from ranksvm.learners import read_model


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with local_cluster(2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def frame() -> Any:
    return sets.as_frame(sets.ranking(60), []).compute().rename(columns={"query": "qid"})


@pytest.fixture
def train(run: Any, address: str, tmp_path: Path) -> Any:
    """Train on the cluster; gives exit code, stderr and the model."""
    model = tmp_path / "model"

    def train(*arguments: Any) -> tuple[int, str, Any]:
        code, _, err = run("train", *arguments, "--dask", address, "-o", model)
        return code, err, read_model(model) if code == 0 else None

    return train


def test_features_of_the_query(train, frame, tmp_path) -> None:
    """Queries are cut by row groups, where the frame happens to be."""
    frame.to_parquet(tmp_path / "train.parquet", row_group_size=100)
    known = LinearRankSVM(query_features=("rank",)).fit(frame, "label", "qid")
    code, err, model = train(tmp_path / "train.parquet", "--query-features", "rank")
    assert (code, err) == (0, "")
    assert model.view.names == ("rank",)
    np.testing.assert_allclose(model.coef, known.coef_, rtol=1e-8)


def test_the_index_of_pandas_is_no_feature(train, frame, tmp_path) -> None:
    known = LinearRankSVM().fit(frame, "label", "qid")
    rows = np.random.default_rng(0).permutation(len(frame))
    frames = {
        "unnamed": frame.set_index(rows),
        "named": frame.set_index(pandas.Index(rows, name="position")),
        "ids": frame.set_index("qid"),
        "range": frame,
    }
    for name, one in frames.items():
        path = tmp_path / f"{name}.parquet"
        one.to_parquet(path)
        code, err, model = train(path)
        assert (code, err) == (0, "")
        assert model.feature_names == tuple(known.feature_names_in_)
        np.testing.assert_allclose(model.coef, known.coef_, rtol=1e-8)


def test_row_groups_are_partitions(train, monkeypatch, frame, tmp_path) -> None:
    path = tmp_path / "train.parquet"
    known = LinearRankSVM().fit(frame, "label", "qid")
    frame.to_parquet(path, row_group_size=100)
    names = list(frame.columns)
    assert 600 < len(frame) <= 700
    for size, expected in ((1, 7), (1_000_000, 1)):
        monkeypatch.setattr(parquet, "PART_BYTES", size)
        parts, _ = parquet.parquet_parts([str(path)], names)
        assert len(parts) == expected
        code, _, model = train(path)
        assert code == 0
        np.testing.assert_allclose(model.coef, known.coef_, rtol=1e-8)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("label", "y contains NaN or infinity in 1 of 100 rows, first in row 34"),
        ("f2", "nan in row 34, column 2 ('f2')"),
    ],
)
def test_errors_name_file_and_row_group(
    train, monkeypatch, frame, tmp_path, column, message
) -> None:
    monkeypatch.setattr(parquet, "PART_BYTES", 1)
    broken = frame.copy()
    broken.loc[234, column] = np.nan
    for name, one in (("a", frame), ("b", broken)):
        one.to_parquet(tmp_path / f"{name}.parquet", row_group_size=100)
    code, err, _ = train(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert code == 3
    assert err.count("\n") == 1
    assert message in err
    assert f"partition 9: {tmp_path / 'b.parquet'}, row group 2" in err


def test_several_small_row_groups_are_named(train, frame, tmp_path) -> None:
    path = tmp_path / "a.parquet"
    frame.assign(qid=frame["qid"].where(frame["qid"] != 7)).to_parquet(path, row_group_size=100)
    code, err, _ = train(path)
    assert code == 3
    assert "qid has a missing id in item 59" in err
    assert f"(in partition 0: {path}, row groups 0 to 6)" in err


def test_files_that_differ(train, frame, tmp_path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    frame.to_parquet(paths[0])
    others = [
        frame.assign(more=1.0),
        frame.drop(columns="f3"),
        frame.assign(f3=frame["f3"].astype(np.float32)),
    ]
    for other in others:
        other.to_parquet(paths[1])
        with pytest.raises(ValueError, match=r"f3|more") as known:
            LinearRankSVM().fit_files(paths, y="label", qid="qid")
        code, err, _ = train(*paths)
        assert (code, err) == (3, f"ranksvm: error: {known.value}\n")


def test_a_file_that_changes(address, frame, tmp_path) -> None:
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    (part,), _ = parquet.parquet_parts([str(path)], ["label"])
    frame[:10].to_parquet(path)
    with pytest.raises(ValueError, match="the file has changed since the beginning of the fit"):
        part.compute(scheduler="synchronous")


def test_columns_by_name(train, frame, tmp_path) -> None:
    path = tmp_path / "a.parquet"
    frame.assign(docid="text").rename(columns={"qid": "q", "label": "grade"}).to_parquet(path)
    code, err, model = train(path, "--label-column", "grade", "--qid-column", "q")
    assert (code, err) == (0, "")
    known = LinearRankSVM().fit(frame, "label", "qid")
    np.testing.assert_allclose(model.coef, known.coef_, rtol=1e-8)
    code, err, _ = train(path)
    assert code == 3
    assert "has no column 'label'" in err
    assert "--label-column" in err
    frame.to_parquet(path)
    code, err, model = train(path, "--ignore-qid")
    assert (code, err) == (0, "")
    assert model.feature_names == tuple(f"f{k}" for k in range(6))
    frame[["label", "qid"]].to_parquet(path)
    code, err, _ = train(path)
    assert code == 3
    assert "no feature columns" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--missing", "zero"], "--missing zero does not work with --dask: fill the values in"),
        (["--format", "csv"], "--dask reads Parquet files, and not --format csv. Convert"),
        (["--duplicates", "sum"], "--duplicates is about LETOR text"),
        (["--zero-based"], "--zero-based is about LETOR text"),
        (["--one-based"], "--one-based is about LETOR text"),
        (["--max-line-bytes", 100], "--max-line-bytes is about LETOR text"),
    ],
)
def test_options_without_effect_are_refused(train, frame, tmp_path, options, message) -> None:
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    code, err, _ = train(path, *options)
    assert code == 2
    assert message in err
    assert train(path, "--format", "parquet")[0] == 0


@pytest.mark.parametrize("address", ["local:0", "local:x", "local:", "local", "local:-1"])
def test_how_many_processes(run, frame, tmp_path, address) -> None:
    frame.to_parquet(tmp_path / "a.parquet")
    code, _, err = run("train", tmp_path / "a.parquet", "--dask", address)
    assert code == 2
    assert f"--dask {address}: N of local:N must be a number of worker processes" in err


def test_nobody_listens(run, monkeypatch, frame, tmp_path) -> None:
    assert cli_clusters.CONNECT_SECONDS <= 30
    monkeypatch.setattr(cli_clusters, "CONNECT_SECONDS", 0.5)
    frame.to_parquet(tmp_path / "a.parquet")
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = run("train", tmp_path / "a.parquet", "--dask", address)
    assert code == 3
    assert f"--dask {address}: no scheduler answers there" in err
    code, _, err = run("train", tmp_path / "a.parquet", "--dask", "odd://127.0.0.1:1")
    assert code == 3
    assert "--dask odd://127.0.0.1:1: no scheduler answers there" in err
    with pytest.raises(ValueError, match="there is no Dask client"):  # none is left behind
        find_client(None)


def test_no_worker(run, monkeypatch, frame, tmp_path) -> None:
    monkeypatch.setattr(engine, "NO_WORKER_LIMIT", 0.3)
    monkeypatch.setattr(engine, "POLL", 0.1)
    frame.to_parquet(tmp_path / "a.parquet")
    with local_cluster(0) as cluster:
        address = cluster.scheduler_address
        code, _, err = run("train", tmp_path / "a.parquet", "--dask", address)
    assert code == 3
    assert f"--dask {address}: all workers of the Dask cluster" in err


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals to a group of processes")
@pytest.mark.slow
def test_ctrl_c_of_a_local_cluster(frame, tmp_path) -> None:
    """As a terminal does it: the signal goes to the command and to its workers."""
    state = tmp_path / "state.npz"
    frame.to_parquet(tmp_path / "a.parquet")
    command = [sys.executable, "-m", "ranksvm", "train", str(tmp_path / "a.parquet")]
    command += ["--loss", "hinge", "-C", "1e6", "--tol", "1e-15", "--max-iter", "1000000"]
    command += ["--dask", "local:2", "--resume", str(state)]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        try:
            while not state.exists() and process.poll() is None:  # the fit is under way
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=60)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert (process.returncode, out, err) == (130, "", "ranksvm: error: interrupted\n")
    assert is_gone(process.pid)


def is_gone(group: int) -> bool:
    """Return whether a group of processes ends."""
    for _ in range(500):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False
