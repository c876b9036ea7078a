"""Kernel machines at the size of MQ2007's first fold, and at parts of it.

The set is generated, with the shape of LETOR's (:func:`benchmarks.sets.mq2007_like`), C = 2^-2 over
the sum of the pairs and gamma = 2^-5, as in table 2 of Chen, Li, Dou, Liang & Lv; smaller sets are
its first queries.  A fit ends at a certified relative gap of 1e-3, or after ten minutes.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import SEED, TOL, pinned
from benchmarks.folds import letor_fold
from benchmarks.kernels import SHARE_OF_MEMORY, budget, free_memory
from benchmarks.sets import Task, mq2007_like
from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.metrics import evaluate

__all__ = ["LOG2_C", "LOG2_GAMMA", "LONGEST", "MACHINES", "sample_cell", "size_cell"]

LONGEST = 600.0
LOG2_C, LOG2_GAMMA = -2, -5

# Settings of a machine beside C and gamma.
MACHINES: dict[str, dict[str, Any]] = {
    "linear L1": {"loss": "hinge"},
    "linear L2": {},
    "exact rbf L2": {"gamma": 2.0**LOG2_GAMMA},
    "exact rbf L1": {"gamma": 2.0**LOG2_GAMMA, "loss": "hinge"},
    "Nystrom rbf L2": {"gamma": 2.0**LOG2_GAMMA, "approximation": "nystroem"},
    "Fourier rbf L2": {"gamma": 2.0**LOG2_GAMMA, "approximation": "fourier"},
}


def size_cell(
    machine: str,
    log2_C: int,
    n_queries: int,
    of_queries: int,
    components: int,
    threads: int,
) -> dict[str, Any]:
    """One fit on the first ``n_queries`` of ``of_queries``, judged on held-out queries."""
    whole, held_out = mq2007_like(of_queries)
    task = _first(whole, n_queries)
    settings: dict[str, Any] = {**MACHINES[machine], "C": 2.0**log2_C, "reduction": "sum"}
    settings |= {"tol": TOL, "n_jobs": threads}
    make: Any = LinearRankSVM
    if "gamma" in settings:
        make = KernelRankSVM
        # All of K, or what there is room for: the model is the same.  Features take less.
        memory = int(min(max(budget(task.n_items), 4e9), SHARE_OF_MEMORY * free_memory()))
        settings |= {"memory_budget": memory, "n_components": components, "random_state": SEED}
    model = make(**settings)
    with pinned(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = time.perf_counter()
        model.fit(task.X, task.y, task.qid, callback=lambda row, _: row.seconds > LONGEST)
        seconds = time.perf_counter() - before
        scores = model.predict(held_out.X)
    return {
        "items": task.n_items,
        "pairs": int(task.n_pairs),
        "seconds": seconds,
        "gap": model.gap_ / model.objective_,
        "status": model.status_,
        "products": model.n_products_,
        "mean_ndcg": float(
            evaluate(held_out.y, scores, held_out.qid, ["mean_ndcg"], conventions="letor")[
                "mean_ndcg"
            ]
        ),
    }


def sample_cell(
    name: str, share: float, log2_C: float, log2_gamma: float, threads: int
) -> dict[str, Any]:
    """One exact fit on a part of the queries of a real set's first fold, drawn at random."""
    X, y, groups = letor_fold(name, 0).train
    wanted = max(1, round(share * groups.n_queries))
    drawn = np.random.default_rng(SEED).permutation(groups.n_queries)[:wanted]
    rows = np.isin(groups.index, drawn)
    model = KernelRankSVM(
        2.0**log2_C, gamma=2.0**log2_gamma, reduction="sum", tol=TOL, n_jobs=threads
    )
    with pinned(threads):
        before = time.perf_counter()
        model.fit(X[rows], y[rows], groups.index[rows])
        seconds = time.perf_counter() - before
    return {
        "items": int(rows.sum()),
        "pairs": int(model.n_pairs_),
        "seconds": seconds,
        "gap": model.gap_ / model.objective_,
        "status": model.status_,
        "products": model.n_products_,
    }


def _first(task: Task, n_queries: int) -> Task:
    groups = task.groups
    if n_queries == groups.n_queries:
        return task
    rows = groups.index < n_queries
    return replace(task, X=task.X[rows], y=task.y[rows], qid=task.qid[rows])
