"""Kernel models at the size of MQ2007's first fold, and on parts of it.

The set is generated with the shape of LETOR's (:func:`benchmarks.sets.mq2007_like`); smaller sets
are its first queries.  C = 2^-2 over the sum of the pairs and gamma = 2^-5, as in table 2 of Chen,
Li, Dou, Liang & Lv.  A fit stops at a certified relative gap of 1e-3, or after ten minutes.
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

MAX_SECONDS = 600.0
LOG2_C, LOG2_GAMMA = -2, -5

# Settings of a model beside C.
MODELS: dict[str, dict[str, Any]] = {
    "linear L1": {"loss": "hinge"},
    "linear L2": {},
    "exact rbf L2": {"gamma": 2.0**LOG2_GAMMA},
    "exact rbf L1": {"gamma": 2.0**LOG2_GAMMA, "loss": "hinge"},
    "Nystrom rbf L2": {"gamma": 2.0**LOG2_GAMMA, "approximation": "nystroem"},
    "Fourier rbf L2": {"gamma": 2.0**LOG2_GAMMA, "approximation": "fourier"},
}


def fit_generated(
    model: str,
    log2_C: int,
    n_queries: int,
    of_queries: int,
    components: int,
    threads: int,
) -> dict[str, Any]:
    """One fit on the first ``n_queries`` of ``of_queries``, tested on held-out queries."""
    whole, held_out = mq2007_like(of_queries)
    task = _first(whole, n_queries)
    settings: dict[str, Any] = {**MODELS[model], "C": 2.0**log2_C, "reduction": "sum"}
    settings |= {"tol": TOL, "n_jobs": threads}
    make: Any = LinearRankSVM
    if "gamma" in settings:
        make = KernelRankSVM
        # All of K, or as much as fits into memory: the result is the same.
        memory = int(min(max(budget(task.n_items), 4e9), SHARE_OF_MEMORY * free_memory()))
        settings |= {"memory_budget": memory, "n_components": components, "random_state": SEED}
    fitted = make(**settings)
    with pinned(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = time.perf_counter()
        fitted.fit(task.X, task.y, task.qid, callback=lambda row, _: row.seconds > MAX_SECONDS)
        seconds = time.perf_counter() - before
        scores = fitted.predict(held_out.X)
    metric = "mean_ndcg"
    found = evaluate(held_out.y, scores, held_out.qid, [metric], conventions="letor")
    return _outcome(fitted, task.n_items, seconds) | {metric: float(found[metric])}


def fit_sample(
    name: str, share: float, log2_C: float, log2_gamma: float, threads: int
) -> dict[str, Any]:
    """One exact fit on a random part of the training queries of a real set's first fold."""
    train = letor_fold(name, 0).train
    groups = train.groups
    wanted = max(1, round(share * groups.n_queries))
    queries = np.random.default_rng(SEED).permutation(groups.n_queries)[:wanted]
    part = train.take(np.flatnonzero(np.isin(groups.index, queries)))
    model = KernelRankSVM(
        2.0**log2_C, gamma=2.0**log2_gamma, reduction="sum", scaling=None, tol=TOL, n_jobs=threads
    )
    with pinned(threads):
        before = time.perf_counter()
        model.fit(*part)
        seconds = time.perf_counter() - before
    return _outcome(model, part.n_items, seconds)


def _outcome(model: Any, items: int, seconds: float) -> dict[str, Any]:
    return {
        "items": items,
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
