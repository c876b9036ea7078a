"""Metrics of a large ranking, against the sorts that NumPy would need for them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import ndcg_score

from benchmarks.common import SEED, Array, Call, Config, interleave, ratio, thread_counts
from benchmarks.report import Report, Row
from ranksvm.metrics import DEFAULT_METRICS, evaluate, ndcg

TITLE = "NDCG@10 and other metrics, against numpy.argsort + numpy.lexsort"

GRADES = 5
NAMES = (
    "ndcg@10", "mean_ndcg", "map", "p@10", "mrr", "err@10", "pairwise_accuracy", "kendall_tau",
    "auc",
)  # fmt: skip


def run(config: Config, report: Report) -> None:
    n_queries = config.size(10_000, 100)
    sizes = {"queries of 100": np.full(n_queries, 100), "one query": np.array([100 * n_queries])}
    rows: list[Row] = []
    for title, lengths in sizes.items():
        rows += _against_sorts(title, lengths, config, report)
    report.table("times of NumPy's two sorts of the same items, and of metrics", rows)
    _against_scikit_learn(config, report)


def _items(lengths: Any) -> tuple[Any, Array, Any]:
    """Grades, scores that know something of them, and grouped query ids."""
    rng = np.random.default_rng(SEED)
    qid = np.repeat(np.arange(lengths.shape[0]), lengths)
    y = rng.integers(0, GRADES, qid.shape[0])
    scores: Array = y + 2.0 * rng.standard_normal(qid.shape[0])
    return y, scores, qid


def _sorts(scores: Array, qid: Any) -> None:
    np.argsort(scores)
    np.lexsort((scores, qid))


def _against_sorts(title: str, lengths: Any, config: Config, report: Report) -> list[Row]:
    y, scores, qid = _items(lengths)
    calls = {"numpy.argsort + numpy.lexsort": Call(partial(_sorts, scores, qid))}
    what: dict[str, tuple[str, int]] = {name: (name, 1) for name in calls}
    for threads in thread_counts(config):
        kinds = {
            "ndcg@10": partial(ndcg, y, scores, qid, k=10),
            f"the {len(DEFAULT_METRICS)} default metrics": partial(evaluate, y, scores, qid),
        }
        if threads == 1:
            kinds |= {f"evaluate {name}": partial(evaluate, y, scores, qid, name) for name in NAMES}
        for kind, function in kinds.items():
            calls[f"{kind}, {threads}"] = Call(function, threads)
            what[f"{kind}, {threads}"] = (kind, threads)
    timings = interleave(calls, rounds=config.size(9, 3))
    base = timings["numpy.argsort + numpy.lexsort"]
    rows: list[Row] = [
        {
            "set": title,
            "items": scores.shape[0],
            "what": what[name][0],
            "threads": what[name][1],
            "ms": 1e3 * timing.seconds,
            "/ sorts": ratio(timing, base),
        }
        for name, timing in timings.items()
    ]
    if lengths.shape[0] > 1:
        found = {(row["what"], row["threads"]): row["/ sorts"] for row in rows}
        several = found[f"the {len(DEFAULT_METRICS)} default metrics", 1]
        detail = (
            f"{scores.shape[0]:,} items in {lengths.shape[0]:,} queries, 1 thread; "
            f"{len(DEFAULT_METRICS)} metrics at once {several:.2f}"
        )
        report.reach("ndcg", found["ndcg@10", 1], detail)
    return rows


def _against_scikit_learn(config: Config, report: Report) -> None:
    """A loop over queries, as scikit-learn's function wants it; the same numbers."""
    n_queries = config.size(300, 20)
    y, scores, qid = _items(np.full(n_queries, 100))
    shape = (n_queries, 1, 100)
    queries = list(zip(y.reshape(shape), scores.reshape(shape), strict=True))

    def loop() -> float:
        return float(np.mean([ndcg_score(a, b, k=10, ignore_ties=True) for a, b in queries]))

    timings = interleave(
        {
            "scikit-learn, query by query": Call(loop),
            "ranksvm": Call(partial(ndcg, y, scores, qid, k=10, gain="linear")),
        },
        rounds=config.size(7, 3),
    )
    theirs, ours = timings.values()
    if not np.isclose(theirs.result, ours.result, rtol=1e-12):
        raise RuntimeError(f"NDCG@10 is {ours.result}, but scikit-learn has {theirs.result}")
    rows = [
        {"by": name, "ms": 1e3 * timing.seconds, "/ scikit-learn": ratio(timing, theirs)}
        for name, timing in timings.items()
    ]
    report.table(f"NDCG@10, linear gain, {n_queries} queries of 100 items, 1 thread", rows)
