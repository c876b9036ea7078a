"""Workers that die, restart, leave and join; errors of tasks; interrupts; fits at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="ranksvm.dask needs Dask")
pytest.importorskip("dask.dataframe", reason="ranksvm.dask needs Dask DataFrames")

import cloudpickle
import dask
import faults
import numpy as np
import sets
from clusters import local_cluster
from distributed import Client, worker_client

from ranksvm import LinearRankSVM
from ranksvm._messages import ParameterError
from ranksvm.dask import DaskKernelRankSVM, DaskLinearRankSVM, WorkersLostError, engine
from ranksvm.data import RankingData
from ranksvm.learners.fit import Fit
from ranksvm.learners.linear import LinearSettings

C = 500.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes, which their nannies start again when they are killed."""
    with local_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=30)
        yield client


@pytest.fixture(scope="module")
def data() -> RankingData:
    return sets.ranking()


@pytest.fixture(scope="module")
def cuts(data: RankingData) -> list[int]:
    return [100, 100, 230, 300]  # partition 1 is empty; the others have different sizes


@pytest.fixture(scope="module")
def expected(data: RankingData, cuts: list[int]) -> Fit:
    fit = sets.local_fit(data, cuts, LinearSettings(C=C))
    assert fit.n_iter >= 4  # so that something happens in the middle
    return fit


def same_bits(model: Any, fit: Fit) -> bool:
    return np.array_equal(model.coef_, fit.coef) and model.n_products_ == fit.n_products


def at_iteration(number: int, action: Callable[[], Any]) -> Any:
    """Return a callback that does something once."""

    def callback(row: Any, coef: Any) -> None:
        if row.iteration == number:
            action()

    return callback


def pids(client: Client) -> dict[str, int]:
    return client.run(os.getpid)


def test_without_a_client(data, cuts) -> None:
    with pytest.raises(ValueError, match=r"there is no Dask client. Create one first .* client"):
        DaskLinearRankSVM().fit(sets.as_tuples(data, cuts))


def test_worker_processes_give_the_bits_of_one_process(client, data, cuts, expected) -> None:
    model = DaskLinearRankSVM(C).fit(*sets.as_arrays(data, cuts))
    assert same_bits(model, expected)
    assert model.status_ == "converged"
    in_memory = LinearRankSVM(C).fit(data.X, data.y, data.qid)
    # The bound on the rounding errors, which is part of it, depends on the cuts.
    assert model.objective_ == pytest.approx(in_memory.objective_, rel=1e-10)
    np.testing.assert_allclose(model.coef_, in_memory.coef_, rtol=1e-10)


def kill_when_told(path: Path) -> threading.Thread:
    """Start a thread that kills the process whose number a file will have."""

    def kill() -> None:
        while not path.exists():
            time.sleep(0.005)
        os.kill(int(path.read_text()), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("round_", [pytest.param(0, marks=pytest.mark.slow), 5])
def test_a_worker_is_killed_in_the_middle_of_a_product(
    client, monkeypatch, tmp_path, data, cuts, expected, round_
) -> None:
    before = pids(client)
    told = tmp_path / "pid"
    killer = kill_when_told(told)
    faults.at_round(monkeypatch, faults.tells_where_it_runs, str(told), of=round_)
    model = DaskLinearRankSVM(C, client=client).fit(sets.as_tuples(data, cuts))
    killer.join(timeout=30)
    assert int(told.read_text()) in before.values()
    assert same_bits(model, expected)
    client.wait_for_workers(2, timeout=30)
    assert int(told.read_text()) not in pids(client).values()


@pytest.mark.slow
def test_one_and_three_processes_give_the_same_bits(data, cuts, expected) -> None:
    with local_cluster(1) as cluster, Client(cluster) as client:
        model = DaskLinearRankSVM(C, client=client)
        assert same_bits(model.fit(sets.as_tuples(data, cuts)), expected)
        cluster.scale(3)
        client.wait_for_workers(3, timeout=60)
        assert same_bits(model.fit(sets.as_tuples(data, cuts)), expected)


@pytest.mark.slow
def test_fits_inside_tasks(client, data, cuts, expected) -> None:
    """All threads of all workers are taken by tasks that wait for tasks of their own."""

    def fit(parts: Any, with_client: bool) -> Any:
        if not with_client:
            return DaskLinearRankSVM(C).fit(parts[0])
        with worker_client() as inside:
            return DaskLinearRankSVM(C, client=inside).fit(parts[0])

    # In a list, so that Dask does not compute the parts first.
    content = cloudpickle.dumps([sets.as_tuples(data, cuts)])
    run = lambda with_client: fit(cloudpickle.loads(content), with_client)  # noqa: E731
    futures = [client.submit(run, k == 2, pure=False) for k in range(3)]
    for future in futures:
        assert same_bits(future.result(timeout=60), expected)


def test_a_worker_restarts(client, data, cuts, expected) -> None:
    first = min(client.nthreads())
    restart = at_iteration(2, lambda: client.restart_workers([first], timeout=30))
    model = DaskLinearRankSVM(C, client=client).fit(sets.as_tuples(data, cuts), callback=restart)
    assert same_bits(model, expected)


@pytest.mark.slow
def test_workers_join_late_and_leave(data, cuts, expected) -> None:
    with local_cluster(1) as cluster, Client(cluster) as client:
        (first,) = client.nthreads()
        steps: list[str] = []

        def join() -> None:
            cluster.scale(2)
            client.wait_for_workers(2, timeout=30)
            steps.append("joined")

        def leave() -> None:
            client.retire_workers([first])
            assert first not in client.nthreads()
            steps.append("left")

        def callback(row: Any, coef: Any) -> None:
            {1: join, 3: leave}.get(row.iteration, lambda: None)()

        model = DaskLinearRankSVM(C, client=client)
        model.fit(sets.as_tuples(data, cuts), callback=callback)
        assert steps == ["joined", "left"]
    assert same_bits(model, expected)


@pytest.mark.slow
def test_a_worker_runs_out_of_memory(monkeypatch, tmp_path, data, cuts, expected) -> None:
    limit = 500_000_000
    with local_cluster(1, memory_limit=limit) as cluster, Client(cluster) as client:
        (before,) = pids(client).values()
        flag = tmp_path / "killed"
        faults.at_round(monkeypatch, faults.runs_out_of_memory_once, str(flag), limit)
        model = DaskLinearRankSVM(C, client=client).fit(sets.as_tuples(data, cuts))
        (after,) = pids(client).values()
    assert flag.exists()
    assert before != after  # the nanny has started another process
    assert same_bits(model, expected)


@pytest.mark.slow
def test_a_partition_that_kills_every_worker(client, monkeypatch, data, cuts) -> None:
    faults.at_round(monkeypatch, faults.is_always_killed, 130)
    with pytest.raises(WorkersLostError, match="4 workers died one after the other") as raised:
        DaskLinearRankSVM(C, client=client).fit(sets.as_tuples(data, cuts))
    assert "while partition 2 was worked on" in str(raised.value)
    assert "Use smaller partitions" in str(raised.value)


@contextmanager
def workers_of(address: str, n: int, folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Worker processes without nannies, which nobody starts again."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
    command += ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen(command, env=environment, **quiet) for _ in range(n)]
    try:
        yield processes
    finally:
        for one in processes:
            one.kill()
            one.wait()


@pytest.mark.parametrize("kind", [DaskLinearRankSVM, DaskKernelRankSVM])
def test_no_worker_is_left(monkeypatch, tmp_path, data, cuts, kind) -> None:
    monkeypatch.setattr(engine, "NO_WORKER_LIMIT", 0.5)
    monkeypatch.setattr(engine, "POLL", 0.2)
    state = tmp_path / "state.npz"
    parts = sets.as_tuples(data, cuts)
    options = {} if kind is DaskLinearRankSVM else {"n_components": 30, "random_state": 0}
    with local_cluster(1, processes=False) as cluster, Client(cluster) as client:
        expected = kind(C, client=client, **options).fit(parts)
        model = kind(C, client=client, checkpoint=state, **options)

        def lose_all() -> None:
            cluster.scale(0)
            while client.nthreads():
                time.sleep(0.01)

        with pytest.raises(WorkersLostError, match=r"all workers .* have been lost") as raised:
            model.fit(parts, callback=at_iteration(2, lose_all))
        assert "for 0.5 s there has been none" in str(raised.value)
        assert f"The state after iteration 2 is in {state}" in str(raised.value)
        cluster.scale(1)
        client.wait_for_workers(1, timeout=30)
        model.fit(parts)
    assert len(model.history_) < len(expected.history_)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-4)
    assert not state.exists()


@pytest.mark.slow
def test_all_workers_are_killed(monkeypatch, tmp_path, data, cuts, expected) -> None:
    monkeypatch.setattr(engine, "NO_WORKER_LIMIT", 2.0)
    state = tmp_path / "state.npz"
    parts = sets.as_tuples(data, cuts)
    with local_cluster(0) as cluster, Client(cluster) as client:
        model = DaskLinearRankSVM(C, client=client, checkpoint=state)
        with workers_of(cluster.scheduler_address, 2, tmp_path) as processes:
            client.wait_for_workers(2, timeout=60)

            def kill_all() -> None:
                for one in processes:
                    one.kill()

            begin = time.monotonic()
            with pytest.raises(WorkersLostError, match=r"all workers .* have been lost") as raised:
                model.fit(parts, callback=at_iteration(3, kill_all))
            assert time.monotonic() - begin < 30
        message = str(raised.value)
        assert "partition 0, partition 2, partition 3, partition 4" in message
        assert f"The state after iteration 3 is in {state}" in message
        assert state.exists()
        with workers_of(cluster.scheduler_address, 1, tmp_path):
            client.wait_for_workers(1, timeout=60)
            other = DaskLinearRankSVM(C + 1, client=client, checkpoint=state)
            with pytest.raises(ValueError, match=r"different fit \(different parameters\)"):
                other.fit(parts)
            model.fit(parts)
    assert model.status_ == "converged"
    assert len(model.history_) < len(expected.history)  # it did not start over
    assert model.n_iter_ >= 4
    assert model.objective_ == pytest.approx(expected.objective, rel=1e-4)
    assert not state.exists()


def test_all_workers_are_paused(monkeypatch, data, cuts) -> None:
    monkeypatch.setattr(engine, "PAUSED_LIMIT", 0.5)
    monkeypatch.setattr(engine, "POLL", 0.2)
    memory = {f"distributed.worker.memory.{name}": False for name in ("target", "spill")}
    with (
        dask.config.set({**memory, "distributed.worker.memory.pause": 0.01}),
        local_cluster(1, processes=False, memory_limit=1_000_000_000) as cluster,
        Client(cluster) as client,
        pytest.raises(WorkersLostError, match=r"all workers .* have been paused for 0.5 s"),
    ):
        DaskLinearRankSVM(C, client=client).fit(sets.as_tuples(data, cuts))


def test_the_scheduler_is_lost(data, cuts) -> None:
    with local_cluster(1, processes=False) as cluster, Client(cluster) as client:
        model = DaskLinearRankSVM(C, client=client)
        with pytest.raises(WorkersLostError, match="connection to the Dask scheduler was lost"):
            model.fit(sets.as_tuples(data, cuts), callback=at_iteration(2, cluster.close))


def test_ctrl_c(client, monkeypatch, data, cuts, expected) -> None:
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))

    def start(row: Any, coef: Any) -> None:
        if timer.ident is None:
            timer.start()

    with monkeypatch.context() as slow:
        faults.at_round(slow, faults.is_slow, 2.0, of=5)
        with pytest.raises(KeyboardInterrupt):
            DaskLinearRankSVM(C, client=client).fit(sets.as_tuples(data, cuts), callback=start)
    for _ in range(20):  # what was queued is cancelled
        if not client.futures:
            break
        time.sleep(0.05)
    assert not client.futures
    assert sum(map(len, client.processing().values())) <= 2  # what has begun ends by itself
    model = DaskLinearRankSVM(C, client=client).fit(sets.as_tuples(data, cuts))
    assert same_bits(model, expected)


def test_two_fits_at_once(client, data, cuts, expected) -> None:
    other = sets.local_fit(data, cuts, LinearSettings(C=3.0, loss="hinge"))

    def fit(options: Any) -> Any:
        return DaskLinearRankSVM(client=client, **options).fit(sets.as_tuples(data, cuts))

    with ThreadPoolExecutor(4) as pool:
        options = [{"C": C}, {"C": 3.0, "loss": "hinge"}] * 2
        models = list(pool.map(fit, options))
    for model, fitted in zip(models, [expected, other] * 2, strict=True):
        assert same_bits(model, fitted)


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("parameter", ParameterError, "C=3 is odd for this {shard} (in partition 2)"),
        ("value", ValueError, "row 7 is broken (in partition 2)"),
        ("odd", ValueError, "OddError: row 7 is odd (in partition 2)"),
        ("silent", OSError, "no message (in partition 2)"),
        ("key", RuntimeError, "KeyError: 'lost key' (in partition 2)"),
    ],
)
def test_a_task_raises(client, monkeypatch, data, cuts, expected, kind, error, message) -> None:
    with monkeypatch.context() as faulty:
        faults.at_round(faulty, faults.raises, 130, kind)
        with pytest.raises(error) as raised:
            DaskLinearRankSVM(C, client=client).fit(sets.as_tuples(data, cuts))
    assert type(raised.value) is error
    assert str(raised.value) == message
    assert isinstance(raised.value.__cause__, Exception)
