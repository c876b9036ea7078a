"""Seconds of AutoRankSVM, the last fits included: MQ2008's first fold, and 70,000 items."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.common import Config, pinned
from benchmarks.folds import is_there, letor_fold
from benchmarks.report import Report, Row
from benchmarks.sets import letor_like
from ranksvm import AutoRankSVM
from ranksvm.data import RankingData

TITLE = "AutoRankSVM: seconds of a whole search with a validation set"
LARGE_QUERIES = 1_700  # about 70,000 items, and a quarter more to choose on


def run(config: Config, report: Report) -> None:
    rows: list[Row] = []
    if is_there("MQ2008"):
        fold = letor_fold("MQ2008", 0)
        for key, preset in (("auto_mq2008", "best"), ("auto_fast", "fast")):
            rows.append(_row("MQ2008, fold 1", fold.train, fold.valid, preset, config))
            report.reach(key, rows[-1]["seconds"], f"{rows[-1]['candidates']} candidates")
    else:
        report.note("MQ2008 skipped: its files are not there; $RANKSVM_DATA names their folder")
    n_queries = config.size(LARGE_QUERIES, 60)
    task = letor_like(n_queries * 5 // 4)
    data = RankingData(task.X, task.y, task.qid)
    train, valid = (
        data.take(np.flatnonzero(part))
        for part in (data.groups.index < n_queries, data.groups.index >= n_queries)
    )
    rows.append(_row("LETOR-like", train, valid, "best", config))
    report.reach("auto_large", rows[-1]["seconds"], f"{train.n_items:,} x {train.n_features}")
    report.table("searches", rows)


def _row(name: str, train: RankingData, valid: RankingData, preset: str, config: Config) -> Row:
    with pinned(config.threads):
        before = time.perf_counter()
        model = AutoRankSVM(preset=preset, n_jobs=config.threads).fit(
            *train, validation=(valid.X, valid.y, valid.qid)
        )
        seconds = time.perf_counter() - before
    return {
        "set": name,
        "preset": preset,
        "items": train.n_items,
        "features": train.n_features,
        "candidates": len(model.leaderboard_),
        "members": len(model.members_),
        "seconds": seconds,
    }
