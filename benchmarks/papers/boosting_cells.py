"""LightGBM's LambdaRank on a fold of a LETOR set.

As a user gets it: ``LGBMRanker()`` with its default parameters, 100 trees; and a small grid of
leaves, rates and least items a leaf, of which every 10 trees up to 300 are a candidate.
"""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np

from benchmarks.common import SEED, pinned
from benchmarks.folds import letor_fold
from benchmarks.papers.cells import Cell
from benchmarks.papers.grids import on_validation

__all__ = ["DEFAULT", "DEFAULT_TREES", "GRID", "TREES", "boosting_cells"]

DEFAULT_TREES = 100
TREES = tuple(range(10, 301, 10))
# Leaves, learning rate, least items a leaf; LightGBM's own choice first.
DEFAULT = (31, 0.1, 20)
GRID = tuple(product((7, 15, 31), (0.03, 0.1), (20, 100)))


def boosting_cells(name: str, folds: Any, *, grid: Any, trees: Any, threads: int) -> list[Cell]:
    """Cells of all parameters on folds of a set."""
    return [
        Cell(
            f"{name}, LambdaRank, fold {fold + 1}, {leaves} leaves, rate {rate:g}, {least} items",
            boosting_cell,
            {
                "name": name,
                "fold": fold,
                "parameters": [leaves, rate, least],
                "trees": list(trees),
                "threads": threads,
            },
            reads=(name,),
        )
        for fold in folds
        for leaves, rate, least in grid
    ]


def boosting_cell(
    name: str, fold: int, parameters: list[float], trees: list[int], threads: int
) -> dict[str, Any]:
    """One fit; the model after some of its trees are the candidates."""
    from lightgbm import LGBMRanker

    train, valid, test = letor_fold(name, fold)
    leaves, rate, least = parameters
    model = LGBMRanker(
        n_estimators=max(trees),
        num_leaves=int(leaves),
        learning_rate=rate,
        min_child_samples=int(least),
        n_jobs=threads,
        random_state=SEED,
        verbose=-1,
    )
    order = np.argsort(train.groups.index, kind="stable")  # queries in one piece each
    with pinned(threads):
        before = time.perf_counter()
        model.fit(train.X[order], train.y[order].astype(int), group=train.groups.sizes)
        seconds = time.perf_counter() - before
    booster = model.booster_

    def scores(part: Any) -> list[Any]:
        return [np.asarray(booster.predict(part.X, num_iteration=n)) for n in trees]

    return {
        "candidates": [[n, *parameters] for n in trees],
        "valid": on_validation(scores(valid), valid),
        "test": np.array(scores(test)),
        "stopped": [False] * len(trees),
        "seconds": seconds,
    }
