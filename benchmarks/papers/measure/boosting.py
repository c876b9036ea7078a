"""LightGBM's LambdaRank on a fold of a LETOR set.

The default is ``LGBMRanker()`` with its default parameters and 100 trees.  The small grid has some
numbers of leaves, learning rates and minimum leaf sizes; every 10th tree up to 300 is a candidate.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from benchmarks.common import SEED, pinned
from benchmarks.folds import letor_fold
from benchmarks.papers.jobs import Job
from benchmarks.papers.measure.grids import on_validation
from ranksvm.data import RankingData

DEFAULT_TREES = 100
TREES = tuple(range(10, 301, 10))
# Leaves, learning rate, minimum items in a leaf; LightGBM's defaults first.
DEFAULT = (31, 0.1, 20)
GRID = tuple(product((7, 15, 31), (0.03, 0.1), (20, 100)))


def boosting_jobs(
    name: str,
    folds: Iterable[int],
    *,
    grid: Iterable[Sequence[float]],
    trees: Iterable[int],
    threads: int,
) -> list[Job]:
    """All parameters of a grid on some folds of a set."""
    counts = list(trees)
    return [
        Job(
            f"{name}, LambdaRank, fold {fold + 1}: {leaves:g}, {rate:g}, {least:g}",
            boosting,
            {
                "name": name,
                "fold": fold,
                "parameters": [leaves, rate, least],
                "trees": counts,
                "threads": threads,
            },
        )
        for fold in folds
        for leaves, rate, least in grid
    ]


def boosting(
    name: str, fold: int, parameters: list[float], trees: list[int], threads: int
) -> dict[str, Any]:
    """One fit; the candidates are its first trees, as many as each of ``trees`` says."""
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
    groups = train.groups
    order = np.argsort(groups.index, kind="stable")  # LightGBM wants the items of a query together
    with pinned(threads):
        before = time.perf_counter()
        model.fit(train.X[order], train.truth[order].astype(int), group=groups.sizes)
        seconds = time.perf_counter() - before
    booster = model.booster_

    def scores(part: RankingData) -> list[Any]:
        return [np.asarray(booster.predict(part.X, num_iteration=n)) for n in trees]

    return {
        "candidates": [[n, *parameters] for n in trees],
        "valid": on_validation(scores(valid), valid),
        "test": np.array(scores(test)),
        "stopped": [False] * len(trees),
        "seconds": seconds,
    }
