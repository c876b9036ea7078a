"""What factorized multipliers gain on LETOR's sets, and whether multipliers have low rank.

Every fold trains on three parts, chooses on the fourth by MAP and is judged on the fifth, by
LETOR's definitions.  RankSVM chooses C.  The factorized machine chooses C, the iteration at which
its descent is stopped and, of five starts, the best.  Both have the hinge, as on the poster of
Zhang, Xu, Lan, Guo, Xie, Huang & Cheng, whose figures stand beside.  The difference of the two is
tested query by query.

Rank: the multipliers of the linear machine on the training part of the first fold, for a usual and
a large C; the share of their squares that the best matrix of each rank holds, averaged over
queries, beside the same after they were dealt anew to the pairs of their query.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import SEED, Config
from benchmarks.quality import letor_fold, letor_parts
from benchmarks.report import Report, Row
from ranksvm import multiplier_spectrum
from ranksvm.metrics import compare, evaluate
from ranksvm.training import FactorizedProblem, FactorizedSettings, LinearProblem, LinearSettings

TITLE = "factorized multipliers on LETOR's sets: quality, and rank"
METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "map")
CHOSEN_BY = "map"
# Over the mean of the pairs.
CS = 2.0 ** np.arange(-8.0, 13.0, 2.0)
N_FACTORS = 10
RANK_CS = (50.0, 5000.0)
MOST_RANK = 30
LINEAR, FACTORIZED = "RankSVM", "Fac-RSVM"
PUBLISHED = {
    "OHSUMED": {
        LINEAR: (0.5289, 0.4553, 0.4392, 0.4427),
        FACTORIZED: (0.5507, 0.4798, 0.4546, 0.4463),
    },
    "MQ2008": {
        LINEAR: (0.3686, 0.4277, 0.4730, 0.4713),
        FACTORIZED: (0.3660, 0.4289, 0.4731, 0.4714),
    },
}


def run(config: Config, report: Report) -> None:
    for name in ("OHSUMED", "MQ2008"):
        parts = letor_parts(name, report)
        if parts is None:
            continue
        folds = [letor_fold(parts, fold) for fold in range(config.size(5, 1))]
        _quality(name, folds, config, report)
        _rank(name, folds[0][0], report)


def _quality(name: str, folds: list[Any], config: Config, report: Report) -> None:
    """Tune, judge, compare."""
    seeds = range(SEED, SEED + config.size(5, 2))
    linear: list[Any] = []
    by_seed: list[list[Any]] = [[] for _ in seeds]
    best: list[Any] = []
    chosen: dict[str, list[str]] = {LINEAR: [], FACTORIZED: []}
    for train, valid, test in folds:
        C, weights = _tune_linear(train, valid, config)
        linear.append(test[0] @ weights)
        chosen[LINEAR].append(f"{np.log2(C):.0f}")
        tuned = [_tune_factorized(train, valid, seed, config) for seed in seeds]
        for mine, one in zip(by_seed, tuned, strict=True):
            mine.append(test[0] @ one.weights)
        winner = max(tuned, key=lambda one: one.valid)
        best.append(test[0] @ winner.weights)
        chosen[FACTORIZED].append(f"({np.log2(winner.C):.0f}, {winner.iteration})")
    rows: list[Row] = [
        {"model": LINEAR} | _shown(_means(linear, folds)) | {"chosen": " ".join(chosen[LINEAR])},
        _published(name, LINEAR),
        {"model": f"{FACTORIZED}, best of {len(seeds)} starts on validation"}
        | _shown(_means(best, folds))
        | {"chosen": " ".join(chosen[FACTORIZED])},
    ]
    singles = [_means(mine, folds) for mine in by_seed]
    for label, which in (("worst", min), ("mean", np.mean), ("best", max)):
        found = {m: float(which([one[m] for one in singles])) for m in METRICS}
        rows.append({"model": f"{FACTORIZED}, one start: {label} of {len(seeds)}"} | _shown(found))
    rows.append(_published(name, FACTORIZED))
    report.table(f"{name}, mean of {len(folds)} folds, LETOR's definitions", rows)
    _significance(name, folds, {LINEAR: linear, FACTORIZED: best}, report)


def _means(by_fold: list[Any], folds: list[Any]) -> dict[str, float]:
    found = [
        evaluate(test[1], mine, test[2].index, METRICS, conventions="letor")
        for mine, (_, _, test) in zip(by_fold, folds, strict=True)
    ]
    return {m: float(np.mean([one[m] for one in found])) for m in METRICS}


def _shown(values: dict[str, float]) -> dict[str, str]:
    return {metric: f"{value:.4f}" for metric, value in values.items()}


def _published(name: str, label: str) -> Row:
    values = dict(zip(METRICS, PUBLISHED[name][label], strict=True))
    return {"model": f"published: {label}"} | _shown(values)


def _significance(
    name: str, folds: list[Any], scores: dict[str, list[Any]], report: Report
) -> None:
    y = np.concatenate([test[1] for *_, test in folds])
    qid = np.concatenate([1_000_000 * k + test[2].index for k, (*_, test) in enumerate(folds)])
    tested = compare(
        y, {label: np.concatenate(parts) for label, parts in scores.items()}, qid, metrics=METRICS,
        conventions="letor", baseline=LINEAR, random_state=SEED,
    )  # fmt: skip
    rows: list[Row] = [
        {
            "metric": row.metric,
            f"{FACTORIZED} - {LINEAR}": f"{row.difference:+.4f}",
            "95% interval": f"{row.low:+.4f} to {row.high:+.4f}",
            "wins": row.wins,
            "losses": row.losses,
            "ties": row.ties,
            "p, randomization": row.randomization,
            "p, Holm": row.randomization_holm,
        }
        for row in tested.rows
    ]
    report.table(f"{name}, query by query, all folds", rows)


def _judge(part: Any, weights: Any) -> float:
    X, y, groups = part
    return float(
        evaluate(y, X @ weights, groups.index, [CHOSEN_BY], conventions="letor")[CHOSEN_BY]
    )


def _grid(config: Config) -> Any:
    return CS[:: config.size(1, 4)]


def _tune_linear(train: Any, valid: Any, config: Config) -> tuple[float, Any]:
    settings = LinearSettings(loss="hinge", tol=1e-3)
    problem = LinearProblem(*train, settings, n_threads=config.threads)
    fits = [(float(C), problem.solve(C).coef) for C in _grid(config)]
    return max(fits, key=lambda fit: _judge(valid, fit[1]))


class Tuned(NamedTuple):
    """What was chosen on validation."""

    valid: float
    C: float
    iteration: int
    weights: Any


def _tune_factorized(train: Any, valid: Any, seed: int, config: Config) -> Tuned:
    settings = FactorizedSettings(
        n_factors=N_FACTORS,
        max_iter=config.size(200, 20),
        patience=30,
        random_state=seed,
        tol=1e-4,
    )
    problem = FactorizedProblem(*train, settings, n_threads=config.threads)
    found = []
    for C in _grid(config):
        fit = problem.solve(float(C), validate=lambda weights: _judge(valid, weights))
        score = fit.restarts[fit.best].valid
        found.append(Tuned(score, float(C), fit.best_iteration, fit.coef))
    return max(found, key=lambda one: one.valid)


def _rank(name: str, train: Any, report: Report) -> None:
    X, y, groups = train
    rows: list[Row] = []
    for loss in ("hinge", "squared_hinge"):
        for C in RANK_CS:
            found = multiplier_spectrum(X, y, groups.index, C=C, loss=loss, seed=SEED)
            for label, shuffled in (("multipliers", False), ("dealt anew", True)):
                energy = found.mean_energy(MOST_RANK, shuffled=shuffled)
                rows.append(
                    {
                        "loss": loss,
                        "C": C,
                        "what": label,
                        "queries": len(found.energy),
                        "violated": f"{100 * found.n_violated.sum() / found.n_pairs.sum():.0f}%",
                        "largest rank, median": float(np.median(found.full_rank)),
                        **{f"rank {k}": f"{100 * energy[k - 1]:.1f}%" for k in (1, 2, 5, 10)},
                        **{
                            f"rank for {100 * share:.0f}%, median": float(
                                np.median(found.rank(share, shuffled=shuffled))
                            )
                            for share in (0.9, 0.99)
                        },
                    }
                )
                points = [(k + 1, 1.0 - energy[k]) for k in range(MOST_RANK) if energy[k] < 0.9999]
                report.curve(f"{name}, {loss}", f"{label}, C = {C:g}", points)
    report.table(f"{name}, first fold: share of the squared multipliers that a rank holds", rows)
