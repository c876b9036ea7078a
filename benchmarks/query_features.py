"""Features of the query, against one sort of every column by NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.stats

from benchmarks.common import SEED, Call, Config, interleave, ratio, thread_counts
from benchmarks.report import Report, Row
from ranksvm.data import QueryGroups
from ranksvm.data.query_features import QUERY_FEATURES, query_features

TITLE = "features of the query, against numpy.argsort of every column"

N_FEATURES = 46
SORT = "numpy.argsort(X, axis=0)"


def run(config: Config, report: Report) -> None:
    n_queries = config.size(24_400, 100)
    n_items = config.size(1_000_000, 4_100)
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n_items, N_FEATURES))
    qid = np.sort(np.arange(n_items) % n_queries)
    groups = QueryGroups.from_qid(qid, n_items)
    _check(X, groups)
    sizes = f"{n_items:,} x {N_FEATURES} in {n_queries:,} queries"

    calls = {SORT: Call(partial(np.argsort, X, axis=0))}
    single = {"C order": X, "Fortran order": np.asfortranarray(X), "float32": X.astype(np.float32)}
    for threads in thread_counts(config):
        for name in QUERY_FEATURES:
            calls[f"{name}, {threads}"] = _call(X, groups, name, threads)
    for what in ("Fortran order", "float32"):
        calls[f"rank, {what}, 1"] = _call(single[what], groups, "rank", 1)
    rows, found = _rows(calls, config)
    report.table(f"{sizes}: seconds, and divided by those of the sort", rows)
    report.reach(
        "query_ranks",
        found["rank, 1"],
        f"{sizes}, 1 thread; with {config.threads} {found[f'rank, {config.threads}']:.2f}",
    )
    del single, calls

    few = X[:, :4]
    calls = {SORT: Call(partial(np.argsort, few, axis=0))}
    for size in (10, 100, 1_000, 10_000, n_items):
        cut = QueryGroups.from_qid(np.arange(n_items) // size, n_items)
        for threads in thread_counts(config):
            calls[f"queries of {size:,}, {threads}"] = _call(few, cut, "rank", threads)
    report.table(f"ranks of {n_items:,} x 4 by the size of the queries", _rows(calls, config)[0])

    n_columns = config.size(2_000, 200)
    shape = (config.size(50_000, 500), n_columns)
    S = sp.random_array(shape, density=0.01, format="csr", rng=np.random.default_rng(SEED))
    cut = QueryGroups.from_qid(np.arange(shape[0]) // 41, shape[0])
    calls = {"dense": _call(S.toarray(), cut, "rank", 1), "CSR": _call(S, cut, "rank", 1)}
    timings = interleave(calls, rounds=config.size(5, 2))
    table: list[Row] = [
        {"X": name, "seconds": timing.seconds, "/ dense": ratio(timing, timings["dense"])}
        for name, timing in timings.items()
    ]
    report.table(f"ranks of {shape[0]:,} x {n_columns:,}, one in 100 not zero, 1 thread", table)


def _call(X: Any, groups: QueryGroups, name: str, threads: int) -> Call:
    return Call(partial(query_features, X, groups, (name,), n_threads=threads), threads)


def _rows(calls: dict[str, Call], config: Config) -> tuple[list[Row], dict[str, float]]:
    timings = interleave(calls, rounds=config.size(3, 2), seconds=60.0)
    found = {name: ratio(timing, timings[SORT]) for name, timing in timings.items()}
    rows: list[Row] = [
        {
            "what": name if name == SORT else name.rpartition(", ")[0],
            "threads": calls[name].threads,
            "seconds": timing.seconds,
            "/ sort": found[name],
        }
        for name, timing in timings.items()
    ]
    return rows, found


def _check(X: Any, groups: QueryGroups) -> None:
    """Compare a few queries with SciPy's ranks."""
    found = query_features(X, groups, ("rank",))
    for q in range(0, groups.n_queries, max(1, groups.n_queries // 20)):
        rows = groups.rows[groups.offsets[q] : groups.offsets[q + 1]]
        expected = scipy.stats.rankdata(X[rows], axis=0) / len(rows)
        if not np.array_equal(found[rows], expected):
            raise RuntimeError(f"ranks of query {q} differ from SciPy's")
