"""The best model that a search finds, and LightGBM's LambdaRank, tuned on the same validation part.

Both are tuned by NDCG@10 (the usual definition; LETOR's is 0 for queries with fewer than ten items)
on the validation part of a fold, and nothing else.  What was chosen is used as it was trained, and
once more fitted to the training and the validation part together.  LambdaRank also gets the ranks
of all features within the query, as our models do.
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
from ranksvm.data import RankingData
from ranksvm.data.query_view import QueryView
from ranksvm.metrics import evaluate
from ranksvm.model_selection.auto_models import as_trained, joined, refitted
from ranksvm.model_selection.auto_plan import PRESETS
from ranksvm.model_selection.auto_results import COMPLETE
from ranksvm.model_selection.auto_search import AutoSearch, Budget

CRITERION = "ndcg@10"
# Leaves and learning rates; every 10th tree up to 300 is a candidate.
GRID = tuple(product((4, 7, 15, 31), (0.03, 0.1)))
TREES = tuple(range(10, 301, 10))
RANKS = QueryView(("rank",))
# The defaults of AutoRankSVM.
N_MODELS, N_LANDMARKS = 20, 300


def auto_jobs(name: str, folds: Iterable[int], *, preset: str, threads: int) -> list[Job]:
    """Our search on some folds of a set."""
    return [
        Job(
            f"{name}, {preset} search, fold {fold + 1}",
            auto,
            {"name": name, "fold": fold, "preset": preset, "threads": threads},
        )
        for fold in folds
    ]


def auto(name: str, fold: int, preset: str, threads: int) -> dict[str, Any]:
    """One search: scores of the test items by its model as it was trained, and fitted again."""
    train, valid, test = letor_fold(name, fold)
    with pinned(threads):
        before = time.perf_counter()
        search = AutoSearch(
            train,
            PRESETS[preset],
            folds=None,
            validation=valid,
            metric=CRITERION,
            conventions="standard",
            n_models=N_MODELS,
            n_landmarks=N_LANDMARKS,
            random_state=SEED,
            budget=Budget(None),
            refit=True,
            n_threads=threads,
        )
        result = search.run()
        once = as_trained(result, train, n_threads=threads)
        again = refitted(result, joined(train, valid), n_threads=threads)
        seconds = time.perf_counter() - before
    return {
        "candidates": [[len(result.candidates)]],
        "valid": {CRITERION: [result.chosen[0].mean]},
        "test": [once.scores(test.X, groups=test.groups)],
        "again": again.scores(test.X, groups=test.groups),
        "stopped": [result.ended != COMPLETE],
        "seconds": seconds,
    }


def lambdarank_jobs(
    name: str,
    folds: Iterable[int],
    *,
    grid: Iterable[tuple[int, float]],
    trees: Sequence[int],
    ranks: bool,
    threads: int,
) -> list[Job]:
    """LambdaRank with all parameters of a grid on some folds of a set."""
    grid = list(grid)
    return [
        Job(
            f"{name}, LambdaRank{' with ranks' if ranks else ''}, fold {fold + 1}: {leaves}, "
            f"{rate:g}",
            lambdarank,
            {
                "name": name,
                "fold": fold,
                "leaves": leaves,
                "rate": rate,
                "trees": list(trees),
                "ranks": ranks,
                "threads": threads,
            },
        )
        for fold in folds
        for leaves, rate in grid
    ]


def lambdarank(
    name: str, fold: int, leaves: int, rate: float, trees: list[int], ranks: bool, threads: int
) -> dict[str, Any]:
    """One fit; the candidates are its first trees, as many as each of ``trees`` says."""
    train, valid, test = letor_fold(name, fold)
    booster, seconds = _boosted([train], max(trees), leaves, rate, ranks, threads)

    def scores(part: RankingData) -> list[Any]:
        X = _features(part, ranks)
        return [np.asarray(booster.predict(X, num_iteration=n)) for n in trees]

    found = [evaluate(valid.truth, s, valid.qid, [CRITERION])[CRITERION] for s in scores(valid)]
    return {
        "candidates": [[n, leaves, rate] for n in trees],
        "valid": {CRITERION: [float(one) for one in found]},
        "test": np.array(scores(test)),
        "stopped": [False] * len(trees),
        "seconds": seconds,
    }


def lambdarank_again(
    name: str, fold: int, trees: int, leaves: int, rate: float, ranks: bool, threads: int
) -> dict[str, Any]:
    """Scores of the test items by the same trees, fitted to training and validation part."""
    train, valid, test = letor_fold(name, fold)
    booster, _ = _boosted([train, valid], trees, leaves, rate, ranks, threads)
    return {"test": np.asarray(booster.predict(_features(test, ranks)))}


def _boosted(
    parts: Sequence[RankingData], trees: int, leaves: int, rate: float, ranks: bool, threads: int
) -> tuple[Any, float]:
    from lightgbm import LGBMRanker

    model = LGBMRanker(
        n_estimators=trees,
        num_leaves=leaves,
        learning_rate=rate,
        n_jobs=threads,
        random_state=SEED,
        verbose=-1,
    )
    X, y, sizes = [], [], []
    for part in parts:
        order = np.argsort(part.groups.index, kind="stable")  # LightGBM wants queries together
        X.append(_features(part, ranks)[order])
        y.append(part.truth[order].astype(int))
        sizes.append(part.groups.sizes)
    with pinned(threads):
        before = time.perf_counter()
        model.fit(np.concatenate(X), np.concatenate(y), group=np.concatenate(sizes))
        seconds = time.perf_counter() - before
    return model.booster_, seconds


def _features(part: RankingData, ranks: bool) -> Any:
    return RANKS.apply(part.X, part.groups) if ranks else part.X
