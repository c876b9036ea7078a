"""Factorized RankSVM on a fold, from one random start, for every C; and the rank of multipliers.

A descent is stopped where MAP on the validation part is best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.common import SEED, pinned
from benchmarks.folds import letor_fold
from benchmarks.papers.jobs import Job
from benchmarks.papers.measure.grids import LOG2_CS, on_validation
from ranksvm import multiplier_spectrum
from ranksvm.learners import FactorizedProblem, FactorizedSettings
from ranksvm.metrics import evaluate

N_FACTORS = 10
N_STARTS = 5
STOPPED_BY = "map"
MAX_RANK = 30


def factorized_jobs(
    name: str, folds: Iterable[int], *, starts: int, step: int, threads: int
) -> list[Job]:
    """All starts on some folds of a set; ``step`` takes every second, third, ... C of the grid."""
    return [
        Job(
            f"{name}, Fac-RSVM, fold {fold + 1}, start {seed + 1}",
            factorized,
            {
                "name": name,
                "fold": fold,
                "seed": seed,
                "log2_Cs": list(LOG2_CS[::step]),
                "threads": threads,
            },
        )
        for fold in folds
        for seed in range(SEED, SEED + starts)
    ]


def factorized(name: str, fold: int, seed: int, log2_Cs: list[int], threads: int) -> dict[str, Any]:
    """One start: metrics on validation and scores of the test items, by C."""
    train, valid, test = letor_fold(name, fold)
    settings = FactorizedSettings(
        n_factors=N_FACTORS,
        reduction="sum",
        scaling=None,
        max_iter=200,
        patience=30,
        random_state=seed,
        tol=1e-4,
    )

    def validate(weights: Any) -> float:
        found = evaluate(
            valid.truth, valid.X @ weights, valid.qid, [STOPPED_BY], conventions="letor"
        )
        return float(found[STOPPED_BY])

    with pinned(threads):
        fits = [
            FactorizedProblem(
                train, replace(settings, C=2.0**log2_C), n_threads=threads
            ).solve(validate=validate)
            for log2_C in log2_Cs
        ]  # fmt: skip
    return {
        "candidates": [[log2_C, seed] for log2_C in log2_Cs],
        "valid": on_validation([valid.X @ fit.coef for fit in fits], valid),
        "test": np.array([test.X @ fit.coef for fit in fits]),
        "stopped": [False] * len(fits),
        "iterations": [fit.best_iteration for fit in fits],
    }


def rank_jobs(name: str, Cs: Iterable[float]) -> list[Job]:
    """The rank of the multipliers on the first fold, for both losses and some C."""
    return [
        Job(
            f"{name}, rank of the multipliers, {loss}, C = {C:g}",
            multiplier_rank,
            {"name": name, "loss": loss, "C": C},
        )
        for loss in ("hinge", "squared_hinge")
        for C in Cs
    ]


def multiplier_rank(name: str, loss: str, C: float) -> dict[str, Any]:
    """Share of the squared multipliers that the best matrix of each rank has, mean of queries."""
    X, y, qid = letor_fold(name, 0).train
    found = multiplier_spectrum(X, y, qid, C=C, loss=loss, scaling=None, seed=SEED)
    return {
        "loss": loss,
        "C": C,
        "violated": float(found.n_violated.sum() / found.n_pairs.sum()),
        "largest": float(np.median(found.full_rank)),
        "multipliers": np.asarray(found.mean_energy(MAX_RANK)),
        "shuffled": np.asarray(found.mean_energy(MAX_RANK, shuffled=True)),
    }
