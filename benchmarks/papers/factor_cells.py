"""Factorized multipliers on a fold, from one random start, for every C; and the rank of alpha.

The descent for a C is stopped where MAP on the validation part is best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common import SEED, pinned
from benchmarks.folds import letor_fold
from benchmarks.papers.cells import Cell
from benchmarks.papers.grids import LOG2_CS, on_validation
from ranksvm import multiplier_spectrum
from ranksvm.metrics import evaluate
from ranksvm.learners import FactorizedProblem, FactorizedSettings

__all__ = ["N_FACTORS", "N_STARTS", "factor_cells", "rank_cells"]

N_FACTORS = 10
N_STARTS = 5
STOPPED_BY = "map"
MOST_RANK = 30


def factor_cells(name: str, folds: Any, *, starts: int, step: int, threads: int) -> list[Cell]:
    """Cells of all starts on folds of a set; ``step`` takes every so many C."""
    return [
        Cell(
            f"{name}, Fac-RSVM, fold {fold + 1}, start {seed + 1}",
            factor_cell,
            {
                "name": name,
                "fold": fold,
                "seed": seed,
                "log2_Cs": list(LOG2_CS[::step]),
                "threads": threads,
            },
            reads=(name,),
        )
        for fold in folds
        for seed in range(SEED, SEED + starts)
    ]


def factor_cell(
    name: str, fold: int, seed: int, log2_Cs: list[int], threads: int
) -> dict[str, Any]:
    """One start: metrics on validation by C, scores of the test items by C."""
    train, valid, test = letor_fold(name, fold)
    settings = FactorizedSettings(
        n_factors=N_FACTORS,
        reduction="sum",
        max_iter=200,
        patience=30,
        random_state=seed,
        tol=1e-4,
    )

    def judge(weights: Any) -> float:
        found = evaluate(
            valid.y, valid.X @ weights, valid.groups.index, [STOPPED_BY], conventions="letor"
        )
        return float(found[STOPPED_BY])

    with pinned(threads):
        problem = FactorizedProblem(*train, settings, n_threads=threads)
        fits = [problem.solve(2.0**log2_C, validate=judge) for log2_C in log2_Cs]
    return {
        "candidates": [[log2_C, seed] for log2_C in log2_Cs],
        "valid": on_validation([valid.X @ fit.coef for fit in fits], valid),
        "test": np.array([test.X @ fit.coef for fit in fits]),
        "stopped": [False] * len(fits),
        "iterations": [fit.best_iteration for fit in fits],
    }


def rank_cells(name: str, Cs: tuple[float, ...]) -> list[Cell]:
    """Cells for the rank of the multipliers of the first fold, for both losses and some C."""
    return [
        Cell(
            f"{name}, rank of the multipliers, {loss}, C = {C:g}",
            rank_cell,
            {"name": name, "loss": loss, "C": C},
            reads=(name,),
        )
        for loss in ("hinge", "squared_hinge")
        for C in Cs
    ]


def rank_cell(name: str, loss: str, C: float) -> dict[str, Any]:
    """Share of the squared multipliers that the best matrix of each rank holds, mean of queries."""
    X, y, groups = letor_fold(name, 0).train
    found = multiplier_spectrum(X, y, groups.index, C=C, loss=loss, seed=SEED)
    return {
        "loss": loss,
        "C": C,
        "queries": len(found.energy),
        "violated": float(found.n_violated.sum() / found.n_pairs.sum()),
        "largest": float(np.median(found.full_rank)),
        "energy": np.asarray(found.mean_energy(MOST_RANK)),
        "dealt anew": np.asarray(found.mean_energy(MOST_RANK, shuffled=True)),
        "rank for 90%": float(np.median(found.rank(0.9))),
        "rank for 99%": float(np.median(found.rank(0.99))),
    }
