"""How good it gets: the mean of the best candidates of a search, and tuned LambdaRank.

Everything is chosen by NDCG@10 on the validation part of each fold; the test parts are used once,
for the numbers here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.common import SEED
from benchmarks.folds import letor_fold
from benchmarks.papers.jobs import Job, Runner
from benchmarks.papers.measure.quality import (
    CRITERION,
    GRID,
    TREES,
    auto_jobs,
    lambdarank_again,
    lambdarank_jobs,
)
from benchmarks.papers.models import folds_of, no_lightgbm, sets_there
from benchmarks.papers.report import Report
from benchmarks.papers.tuning import PERMUTATIONS, Tuned, choose
from benchmarks.report import Row
from ranksvm.metrics import compare, evaluate

NAME = "quality"
TITLE = "How good it gets: the best of a search, and tuned LambdaRank"
SOURCE = "ranksvm.AutoRankSVM; LightGBM, the package"

# Metrics by their conventions.
METRICS = {
    "MeanNDCG": ("mean_ndcg", "letor"),
    "MAP": ("map", "letor"),
    "NDCG@10": ("ndcg@10", "standard"),
}
OURS, FAST = "ours", "ours, fast"
RIVAL, RIVAL_RANKS = "LambdaRank", "LambdaRank with ranks"
AGAIN = ", fitted again"


def run(runner: Runner, report: Report) -> None:
    reason = no_lightgbm()
    if reason is not None:
        report.say(f"LightGBM is left out: {reason}.")
    for name in sets_there(report):
        models = _ours(runner, name)
        if reason is None:
            models |= _rivals(runner, name)
        _tables(name, models, report)


def _ours(runner: Runner, name: str) -> dict[str, Tuned]:
    found = {}
    for label, preset in ((OURS, "best"), (FAST, "fast")):
        jobs = auto_jobs(
            name, folds_of(runner), preset=runner.size(preset, "fast"), threads=runner.threads
        )
        results = runner.run(f"{name}, {label}", jobs)
        found[label] = choose(name, label, folds_of(runner), results, CRITERION)
        again = [result["again"] for result in results]
        found[label + AGAIN] = replace(found[label], label=label + AGAIN, scores=again)
    return found


def _rivals(runner: Runner, name: str) -> dict[str, Tuned]:
    found = {}
    for label, ranks in ((RIVAL, False), (RIVAL_RANKS, True)):
        jobs = lambdarank_jobs(
            name,
            folds_of(runner),
            grid=GRID[:: runner.size(1, 5)],
            trees=TREES[:: runner.size(1, 9)],
            ranks=ranks,
            threads=runner.threads,
        )
        tuned = choose(
            name, label, folds_of(runner), runner.run(f"{name}, {label}", jobs), CRITERION
        )
        found[label] = tuned
        again = [
            Job(
                f"{name}, {label}, fold {fold + 1}, fitted again",
                lambdarank_again,
                {
                    "name": name,
                    "fold": fold,
                    "trees": int(trees),
                    "leaves": int(leaves),
                    "rate": rate,
                    "ranks": ranks,
                    "threads": runner.threads,
                },
            )
            for fold, (trees, leaves, rate) in zip(tuned.folds, tuned.chosen, strict=True)
        ]
        results = runner.run(f"{name}, {label}{AGAIN}", again)
        found[label + AGAIN] = replace(
            tuned, label=label + AGAIN, scores=[result["test"] for result in results]
        )
    return found


def _tables(name: str, models: dict[str, Tuned], report: Report) -> None:
    report.table(
        f"{name}: tuned by NDCG@10 on validation, mean over the test parts",
        [{"model": label} | {title: _mean(model, title) for title in METRICS}
         for label, model in models.items()],
        "MeanNDCG and MAP by LETOR's definitions, NDCG@10 by the usual one. Fitted again: to the "
        "training and the validation part together, with what was chosen.",
    )  # fmt: skip
    if RIVAL not in models:
        return
    for suffix in ("", AGAIN):
        ours = OURS + suffix
        rivals = [models[rival + suffix] for rival in (RIVAL, RIVAL_RANKS)]
        rows = [row for rival in rivals for row in _differences(models[ours], rival)]
        report.table(
            f"{name}: {ours} compared with LambdaRank, query by query",
            rows,
            "Difference of the means over all test queries, with a 95% interval.",
        )
        ahead = [row for row in rows if row["difference"].startswith("+")]
        clear = [row for row in ahead if row["within a standard error"] == "no"]
        report.find(
            f"{name}, {ours}: ahead of LambdaRank in {len(ahead)} of {len(rows)} comparisons, in "
            f"{len(clear)} of them by more than a standard error.",
            agrees=None,
        )


def _mean(model: Tuned, title: str) -> str:
    metric, conventions = METRICS[title]
    values = []
    for fold, scores in zip(model.folds, model.scores, strict=True):
        test = letor_fold(model.name, fold).test
        values.append(
            evaluate(test.truth, scores, test.qid, [metric], conventions=conventions)[metric]
        )
    return f"{np.mean(values):.4f}"


def _differences(ours: Tuned, rival: Tuned) -> list[Row]:
    tests = [letor_fold(ours.name, fold).test for fold in ours.folds]
    y = np.concatenate([part.truth for part in tests])
    qid = np.concatenate([10**6 * k + part.groups.index for k, part in enumerate(tests)])
    scores = {model.label: np.concatenate(model.scores) for model in (rival, ours)}
    rows: list[Row] = []
    for title, (metric, conventions) in METRICS.items():
        (row,) = compare(
            y, scores, qid, metrics=[metric], conventions=conventions, baseline=rival.label,
            n_permutations=PERMUTATIONS, random_state=SEED,
        ).rows  # fmt: skip
        error = (row.high - row.low) / (2.0 * 1.96)
        rows.append(
            {
                "against": rival.label,
                "metric": title,
                "difference": f"{row.difference:+.4f}",
                "95% interval": f"{row.low:+.4f} to {row.high:+.4f}",
                "better / worse / same": f"{row.wins} / {row.losses} / {row.ties}",
                "p": f"{row.randomization:.3f}",
                "within a standard error": "yes" if abs(row.difference) <= error else "no",
            }
        )
    return rows
