"""How long a fit goes on after Ctrl-C: from the signal to KeyboardInterrupt in the caller."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np

from benchmarks.common import SEED, Config
from benchmarks.report import Report, Row
from benchmarks.sets import reuters_like
from ranksvm import LinearRankSVM
from ranksvm.data import RankingData
from ranksvm.datasets import make_cadata_like

TITLE = "from Ctrl-C to KeyboardInterrupt, during a fit that would go on"


def run(config: Config, report: Report) -> None:
    # A process in the background of a script ignores Ctrl-C unless it says otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    m = config.size(1_000_000, 100_000)
    dense = RankingData(*make_cadata_like(m, random_state=SEED)[:3])
    sparse = reuters_like(config.size(512_000, 20_000))
    rows: list[Row] = [
        _measure(name, sample.X, sample.y, threads, counting)
        for name, sample, countings in (
            (f"cadata-like {m:,}", dense, ("auto", "tree", "direct", "joachims", "pairs")),
            (f"reuters-like {sparse.X.shape[0]:,}", sparse, ("auto",)),
        )
        for counting in countings
        for threads in (1, config.threads)
    ]
    report.table("seconds until a fit has stopped (goal: 1)", rows)


def _measure(name: str, X: Any, y: Any, threads: int, counting: str) -> Row:
    """The slowest of three interrupts, at different moments of the fit."""
    longest = 0.0
    for delay in (0.4, 0.9, 1.7):
        sent: list[float] = []

        def interrupt(sent: list[float] = sent) -> None:
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(delay, interrupt)
        timer.start()
        try:
            while True:  # fits that end by themselves start again
                LinearRankSVM(50.0, scaling=None, tol=1e-9, n_jobs=threads, counting=counting).fit(
                    X, y
                )
        except KeyboardInterrupt:
            longest = max(longest, time.perf_counter() - sent[0])
        timer.join()
    return {"set": name, "counting": counting, "threads": threads, "seconds": np.float64(longest)}
