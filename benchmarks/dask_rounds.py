"""What a round on a Dask cluster costs, and what a fit on a large cluster would.

A *round* is one task on every shard and the sum of the results.  On clusters of 1, 2 and 4 worker
processes on this machine, rounds of four kinds are timed against the same tasks in this process:

    scores, pullback      the products of a gathered fit: 8 bytes a row move
    gradient, Hessian     the rounds of a local fit: scores, pairs and pullback in one task

The model has three terms: what the engine costs a round and a task, what the tasks take on one core
for each row and feature, and what the network takes for the bytes that move.  The first two are
measured here; the network is not.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import SEED, Config
from benchmarks.report import Report, Row
from ranksvm._vectors import total
from ranksvm.data.local_shards import LocalShards
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import RowBlock, Shard, ShardedMatrix
from ranksvm.datasets import make_ranking
from ranksvm.learners.linear import LinearProblem, LinearSettings
from ranksvm.sharded.lazy import LazyScores, Where
from ranksvm.sharded.pair_shards import Evaluate, HessianProduct
from ranksvm.sharded.tasks import Pullback, Scores

TITLE = "rounds on a Dask cluster"
N_FEATURES = 46
N_SHARDS = 8
WORKERS = (1, 2, 4)
ROUNDS = 9
# The cluster of the model.
ROWS, FEATURES, MACHINES, NETWORK = 1e9, 100, 100, 1.25e9  # bytes a second: 10 Gbit/s


def run(config: Config, report: Report) -> None:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        report.note("skipped: dask.distributed is not installed (pip install 'ranksvm[dask]')")
        return
    rows = config.size(125_000, 2_000)
    blocks = [_block(rows, number) for number in range(N_SHARDS)]
    here, moved = _seconds(_local(blocks)), _bytes_moved(_local(blocks))
    table: list[Row] = []
    overhead = []
    for workers in WORKERS[: config.size(3, 2)]:
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        with cluster, Client(cluster) as client:
            found = _seconds(_on_cluster(client, blocks))
            empty = _empty_round(client)
        for kind, seconds in found.items():
            table.append(
                {
                    "round": kind,
                    "workers": workers,
                    "seconds": seconds,
                    "tasks alone, 1 core, s": here[kind],
                    "overhead, s": seconds - here[kind] / min(workers, config.threads),
                    "bytes moved": moved[kind],
                }
            )
        overhead.append({"workers": workers, "round of empty tasks, s": empty})
    report.table(f"{N_SHARDS} shards of {rows:,} x {N_FEATURES} float64", table)
    report.table("the engine alone", overhead)
    report.note(
        "tasks alone: the same tasks one after the other in this process; overhead: what is left "
        f"when they are shared among the workers and the {config.threads} cores of this machine"
    )
    report.table(
        f"model: {ROWS:.0e} x {FEATURES} float64 on {MACHINES} workers of one core, 10 Gbit/s",
        _model(here, moved, rows, overhead[-1]["round of empty tasks, s"]),
    )
    report.note("measured: engine, seconds per row and feature; modeled: the sum, and the network")


def _block(rows: int, number: int) -> RankingData:
    X, y, qid, _ = make_ranking(rows // 40, 40, N_FEATURES, random_state=SEED + number)
    return RankingData(X, y, qid + number * rows)


def _joined(blocks: list[RankingData]) -> tuple[Any, Any]:
    return tuple(np.concatenate([getattr(one, name) for one in blocks]) for name in ("y", "qid"))


def _local(blocks: list[RankingData]) -> RankingData:
    shards = [
        Shard(RowBlock(lambda X=one.X: X), one.n_items, y=one.y, query=one.qid) for one in blocks
    ]
    for shard, one in zip(shards, blocks, strict=True):
        shard.rows.hold(one.X)
    y, qid = _joined(blocks)
    made = LocalShards(shards, N_FEATURES, blocks[0].X.dtype)
    data = RankingData(ShardedMatrix(made), y, qid)
    made.facts.groups = data.groups
    return data


def _on_cluster(client: Any, blocks: list[RankingData]) -> RankingData:
    from dask import delayed

    from ranksvm.dask.engine import Engine
    from ranksvm.dask.partitions import training_shards

    parts = [delayed(_block)(len(blocks[0].y), number) for number in range(len(blocks))]
    parts = [delayed(lambda one: (one.X, one.y, one.qid))(part) for part in parts]
    return training_shards(Engine(client), parts, None, None)


def _seconds(data: RankingData) -> dict[str, float]:
    """Time the rounds of a data set in shards."""
    shards = data.X.shards
    rng = np.random.default_rng(SEED)
    w, direction = rng.normal(size=(2, N_FEATURES))
    g = rng.normal(size=data.n_items)
    problem = LinearProblem(data, LinearSettings(C=50.0, scaling=None))
    pairs = problem._map.pairs.shards  # type: ignore[attr-defined]
    parts = shards.split(g)

    def gradient() -> Any:
        where = Where(LazyScores(rng.normal(size=N_FEATURES)).recipe)
        return total(reply.pulled for reply in pairs.map(Evaluate(where, pull=True)))

    where = Where(LazyScores(w).recipe)
    list(pairs.map(Evaluate(where, pull=True)))
    along = LazyScores(direction).recipe
    rounds: dict[str, Callable[[], Any]] = {
        "scores": lambda: np.concatenate(list(shards.map(Scores(w)))),
        "pullback": lambda: total(shards.map([Pullback(part) for part in parts])),
        "gradient": gradient,
        "Hessian": lambda: total(pairs.map(HessianProduct(where, along))),
    }
    return {kind: _median(work) for kind, work in rounds.items()}


def _median(work: Callable[[], Any]) -> float:
    work()
    seconds = []
    for _ in range(ROUNDS):
        clock = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - clock)
    return float(np.median(seconds))


def _empty_round(client: Any) -> float:
    """Seconds of a round whose tasks do nothing."""

    def work() -> Any:
        return client.gather([client.submit(abs, k, pure=False) for k in range(N_SHARDS)])

    return _median(work)


def _bytes_moved(data: RankingData) -> dict[str, int]:
    """Bytes of the tasks and results of one round, over all shards."""
    shards = data.X.shards
    rng = np.random.default_rng(SEED)
    w = rng.normal(size=N_FEATURES)
    problem = LinearProblem(data, LinearSettings(C=50.0, scaling=None))
    pairs = problem._map.pairs  # type: ignore[attr-defined]
    where = Where(LazyScores(w).recipe)
    pairs.ask(where, pull=True, samples=True)  # the first round chooses the sample
    rounds: dict[str, tuple[Any, list[Any]]] = {
        "scores": (shards, [Scores(w)] * N_SHARDS),
        "pullback": (shards, [Pullback(part) for part in shards.split(np.zeros(data.n_items))]),
        "gradient": (pairs.shards, [Evaluate(where, True, rows=one) for one in pairs.sample.rows]),
        "Hessian": (pairs.shards, [HessianProduct(where, LazyScores(w).recipe)] * N_SHARDS),
    }
    moved = {}
    for kind, (those, tasks) in rounds.items():
        sent = [*tasks, *those.map(tasks)]
        moved[kind] = sum(len(pickle.dumps(one)) for one in sent)
    return moved


def _model(
    here: dict[str, float], bytes_moved: dict[str, int], rows: int, empty: float
) -> list[Row]:
    """Seconds of a round on the cluster of the model."""
    values = rows * N_SHARDS * N_FEATURES
    table: list[Row] = []
    for kind, seconds in here.items():
        engine = empty * MACHINES / N_SHARDS  # one task for each worker
        compute = seconds / values * ROWS * FEATURES / MACHINES
        # Gathered rounds move 8 bytes a row; local ones the same for each shard, here as there.
        gathered = kind in ("scores", "pullback")
        moved = 8 * ROWS if gathered else bytes_moved[kind] * MACHINES / N_SHARDS
        network = moved / NETWORK
        table.append(
            {
                "round": kind,
                "engine, s": engine,
                "tasks, s": compute,
                "network, s": network,
                "sum, s": engine + compute + network,
            }
        )
    return table
