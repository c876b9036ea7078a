"""Measurements for the experiments of Airola, Pahikkala & Salakoski, section 5.

The paper's objective is J(w) = (1/N) sum of the hinge over N pairs + lambda |w|^2.  Ours is
F = C J with C = 1 / (2 lambda), so a gap of eps in J is one of C eps in F.

- :func:`subgradient`: loss and subgradient once, at the coefficients of a finished fit, with every
  counting; the products X w and X' g are timed separately.
- :func:`training`: whole fits.  "bmrm" is the paper's Algorithm 1: a plane at the minimiser of the
  planes so far, all planes kept, no line search, stopped by the callback as soon as the certified
  gap in J is below eps.  "ours" are the library's fits with default solver and counting, to a
  relative gap of eps: J is at most 1 at the optimum (its value at w = 0), so this is never looser.
- :func:`memory`, :func:`explicit_pairs`: how much memory a fit adds to a new process.

Calls are timed in turn, see :func:`benchmarks.common.interleave`; seconds are medians over the
rounds, or of the only run of a call that takes long.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import Array, Call, interleave
from benchmarks.memory import peak, reset_peak
from benchmarks.sets import (
    Task,
    cadata_split,
    matrix_bytes,
    reuters_like,
    reuters_like_split,
    reuters_split,
)
from benchmarks.variants import PLAIN_BMRM
from ranksvm import LinearRankSVM
from ranksvm.learners import SOLVERS
from ranksvm.maps.matrix import MatrixMap
from ranksvm.metrics import pairwise_accuracy

COUNTINGS = ("tree", "direct", "joachims", "pairs")
# The gap in J at which the paper stops.
EPS = 1e-3
# Only the callback stops a fit by the paper's algorithm.
_NEVER_TOL = 1e-12
_MOST_ITERATIONS = 100_000

SPLITS: dict[str, Callable[..., tuple[Task, Task]]] = {
    "cadata": cadata_split,
    "reuters21578": reuters_split,
    "reuters-like": reuters_like_split,
}


def subgradient(
    *, name: str, options: dict[str, Any], countings: Sequence[str], rounds: int, seconds: float
) -> dict[str, Any]:
    """Seconds of loss and subgradient in score space by counting, and of the two products.

    ``options`` are those of the set; ``seconds`` is about how long all rounds may take.
    """
    task, _ = SPLITS[name](**options)
    X = MatrixMap(task.X)
    coef = task.fit("hinge").model.coef_
    scores = X.scores(coef)
    losses = {counting: task.loss("hinge", counting) for counting in countings}
    slope = task.loss("hinge").at(scores).grad
    calls = {counting: Call(partial(loss.at, scores)) for counting, loss in losses.items()}
    calls["products"] = Call(lambda: (X.scores(coef), X.pullback(slope)))
    timings = interleave(calls, rounds=rounds, seconds=seconds)
    return {name: timing.seconds for name, timing in timings.items()}


def training(
    *,
    name: str,
    options: dict[str, Any],
    countings: Sequence[str],
    threads: int,
    rounds: int,
    seconds: float,
) -> dict[str, Any]:
    """Seconds, iterations, gap in J and pairwise test error of whole fits, by method.

    Methods are "bmrm <counting>", "ours hinge", "ours squared_hinge", and with more than one thread
    "ours hinge threaded".
    """
    task, test = SPLITS[name](**options)
    calls = {f"bmrm {counting}": Call(partial(_bmrm, task, counting)) for counting in countings}
    for loss in ("hinge", "squared_hinge"):
        calls[f"ours {loss}"] = Call(partial(_ours, task, loss))
    if threads > 1:
        calls["ours hinge threaded"] = Call(partial(_ours, task, "hinge", threads), threads)
    timings = interleave(calls, rounds=rounds, seconds=seconds)
    found = {
        name: {
            "seconds": timing.seconds,
            "rounds": len(timing.rounds),
            "iterations": timing.result.n_iter_,
            "products": timing.result.n_products_,
            "J": timing.result.objective_ / task.C,
            "gap in J": timing.result.gap_ / task.C,
            "status": timing.result.status_,
            "test error": 1.0 - pairwise_accuracy(test.y, test.X @ timing.result.coef_),
        }
        for name, timing in timings.items()
    }
    about = {"m": task.n_items, "test items": test.n_items, "features": task.X.shape[1]}
    return about | {"pairs": task.n_pairs, "methods": found}


def _bmrm(task: Task, counting: str) -> LinearRankSVM:
    """The paper's algorithm, to the paper's gap."""
    model = LinearRankSVM(
        C=task.C,
        reduction=task.reduction,
        loss="hinge",
        scaling=None,
        solver="bmrm",
        counting=counting,
        tol=_NEVER_TOL,
        max_iter=_MOST_ITERATIONS,
        n_jobs=1,
    )
    solvers = {"bmrm": PLAIN_BMRM.factory}
    with mock.patch.dict(SOLVERS, solvers), warnings.catch_warnings():
        # Stopping by the callback is intended.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(task.X, task.y, callback=lambda row, _: row.gap < EPS * task.C)


def _ours(task: Task, loss: str, threads: int = 1) -> LinearRankSVM:
    model = LinearRankSVM(
        C=task.C, reduction=task.reduction, loss=loss, scaling=None, tol=EPS, n_jobs=threads
    )
    return model.fit(task.X, task.y)


# --- Memory ---------------------------------------------------------------------------------------

FITS: dict[str, Callable[[Task], LinearRankSVM]] = {
    **{f"bmrm {counting}": partial(_bmrm, counting=counting) for counting in COUNTINGS},
    "ours hinge": partial(_ours, loss="hinge"),
    "ours squared_hinge": partial(_ours, loss="squared_hinge"),
}


def memory(*, method: str, m: int) -> dict[str, Any]:
    """Bytes that a fit on reuters-like adds to a process that holds the data; its iterations."""
    return _in_child(_memory_of_fit, method, m)


def explicit_pairs(*, m: int) -> dict[str, Any]:
    """Bytes that the matrix of all pairs and one gradient with it add, on the same data."""
    return _in_child(_memory_of_pairs, m)


def _in_child(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Call a function in a new process with one thread."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with (
        mock.patch.dict(os.environ, one),
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        return pool.submit(function, *arguments).result()


def _memory_of_fit(method: str, m: int) -> dict[str, Any]:
    FITS[method](reuters_like(200))  # so that libraries loaded by the first fit do not count
    return _risen(m, FITS[method])


def _memory_of_pairs(m: int) -> dict[str, Any]:
    _squared_hinge_by_matrix(reuters_like(200))
    return _risen(m, _squared_hinge_by_matrix)


def _risen(m: int, work: Callable[[Task], Any]) -> dict[str, Any]:
    task = reuters_like(m)
    exact = reset_peak()
    before = peak()
    done = work(task)
    risen = peak() - before
    return {
        "input": matrix_bytes(task.X) + task.y.nbytes,
        "added": risen,
        "pairs": task.n_pairs,
        "features": task.X.shape[1],
        "iterations": getattr(done, "n_iter_", None),
        "exact": exact,
    }


def plane_bytes(n_planes: int, n_features: int) -> int:
    """Bytes of the normal vectors of cutting planes."""
    return 8 * n_planes * n_features


def pair_bytes(n_pairs: int) -> int:
    """Bytes of a CSR matrix with two entries for each pair: values, columns, row starts."""
    return n_pairs * (2 * (8 + 4) + 4)


def _squared_hinge_by_matrix(task: Task) -> Array:
    """The gradient at zero as PRSVM computes it: with a sparse matrix of all pairs."""
    differences = pair_matrix(task.y)
    coef = np.zeros(task.X.shape[1])
    slack = differences @ (task.X @ coef)
    np.subtract(1.0, slack, out=slack)
    np.maximum(slack, 0.0, out=slack)
    gradient: Array = coef - 2.0 * task.sum_C * (task.X.T @ (differences.T @ slack))
    return gradient


def pair_matrix(y: Array) -> sp.csr_array:
    """One row for each comparable pair: 1 at the better item, -1 at the worse one."""
    order = np.argsort(-y).astype(np.int32)
    # Items from this place of the order on are worse than the item at the same place.
    first = np.searchsorted(-y[order], -y[order], side="right")
    counts = len(y) - first
    n_pairs = int(counts.sum())
    columns = np.empty((n_pairs, 2), dtype=np.int32)
    values = np.empty((n_pairs, 2))
    values[:] = 1.0, -1.0
    row = 0
    for better, start, count in zip(order, first, counts, strict=True):
        columns[row : row + count, 0] = better
        columns[row : row + count, 1] = order[start:]
        row += count
    starts = np.arange(0, 2 * n_pairs + 1, 2, dtype=np.int32)
    shape = n_pairs, len(y)
    return sp.csr_array((values.ravel(), columns.ravel(), starts), shape=shape)
