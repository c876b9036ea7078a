"""The usual alternative: LightGBM's LambdaRank, with default parameters and tuned.

Its parameters and number of trees are chosen by MAP on validation, like C and gamma of ours.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.papers.approximation import fits_at_choice
from benchmarks.papers.jobs import Runner
from benchmarks.papers.measure.boosting import boosting_jobs
from benchmarks.papers.models import (
    BOOSTING,
    BOOSTING_DEFAULT,
    no_lightgbm,
    sets_there,
    tuned_by,
)
from benchmarks.papers.report import Report
from benchmarks.papers.tuning import Tuned, best_of, count_significant, significance, spread
from benchmarks.report import Row

NAME = "lambdarank"
TITLE = "Compared with LightGBM's LambdaRank"
SOURCE = "LightGBM, the package"

OURS = ("linear L2", "Nystrom rbf", "exact rbf")
METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "mean_ndcg", "p@1", "p@3", "map")
CHOSEN_BY = "map"


def run(runner: Runner, report: Report) -> None:
    reason = no_lightgbm()
    if reason is not None:
        report.say(f"LightGBM is left out: {reason}.")
        return
    for name in sets_there(report):
        _compare(runner, name, report)


def _compare(runner: Runner, name: str, report: Report) -> None:
    rows: list[Row] = []
    models: list[Tuned] = []
    for label in (*OURS, BOOSTING_DEFAULT, BOOSTING):
        model = tuned_by(runner, name, label, [CHOSEN_BY])[CHOSEN_BY]
        models.append(model)
        if label in OURS:
            seconds = [fit["seconds"] for fit in fits_at_choice(runner, model)]
        else:
            seconds = _seconds(runner, model)
        rows.append(
            {"model": label}
            | spread(model, METRICS)
            | {"fit, s": float(np.median(seconds)), "chosen by fold": model.choices}
        )
    report.table(
        f"{name}: ours and LambdaRank, tuned by MAP on validation",
        rows,
        f"Mean ± standard deviation of the folds; seconds of one fit with the chosen parameters, "
        f"from scratch, median of the folds, {runner.threads} threads. Chosen: log2 C and log2 "
        "gamma; number of trees, leaves, learning rate, minimum items in a leaf.",
    )
    rival = models[-1]
    ours = replace(best_of(models[: len(OURS)]), label="ours, chosen on validation")
    tested = significance([rival, ours], METRICS, rival.label)
    report.table(f"{name}: ours compared with LambdaRank, query by query", tested)
    better = sum(ours.mean(metric) > rival.mean(metric) for metric in METRICS)
    worse = sum(ours.mean(metric) < rival.mean(metric) for metric in METRICS)
    times = ", ".join(f"{row['fit, s']:.2g} s ({row['model']})" for row in rows)
    report.find(
        f"{name}: our model, with its family ({', '.join(OURS)}) chosen on validation, is better "
        f"than tuned LightGBM LambdaRank for {better} of {len(METRICS)} metrics and worse for "
        f"{worse}; {count_significant(tested)}. One fit takes {times}.",
        agrees=None,
    )


def _seconds(runner: Runner, model: Tuned) -> list[float]:
    """Seconds of a fit for each fold, with as many trees as were chosen."""
    jobs = [
        job
        for fold, (trees, *parameters) in zip(model.folds, model.chosen, strict=True)
        for job in boosting_jobs(
            model.name, [fold], grid=[parameters], trees=[int(trees)], threads=runner.threads
        )
    ]
    title = f"{model.name}, {model.label}, fits with the chosen parameters"
    return [result["seconds"] for result in runner.run(title, jobs)]
