"""What a user would pick instead: LightGBM's LambdaRank, with default parameters and tuned.

Its parameters and number of trees are chosen by MAP on validation, as C and gamma of ours are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.papers.approximation import fits_at_choice
from benchmarks.papers.boosting_cells import boosting_cells
from benchmarks.papers.cells import Lab
from benchmarks.papers.document import Document
from benchmarks.papers.models import (
    BOOSTING,
    BOOSTING_DEFAULT,
    no_lightgbm,
    sets_there,
    tuned_by,
)
from benchmarks.papers.tuning import Tuned, best_of, n_significant, significance, spread
from benchmarks.report import Row

NAME = "lambdarank"
TITLE = "Beside LightGBM's LambdaRank"
SOURCE = "LightGBM, the package"

OURS = ("linear L2", "Nystrom rbf", "exact rbf")
METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "mean_ndcg", "p@1", "p@3", "map")
CHOSEN_BY = "map"


def run(lab: Lab, document: Document) -> None:
    reason = no_lightgbm()
    if reason is not None:
        document.say(f"LightGBM is left out: {reason}.")
        return
    for name in sets_there(document):
        _compare(lab, name, document)


def _compare(lab: Lab, name: str, document: Document) -> None:
    rows: list[Row] = []
    models: list[Tuned] = []
    for label in OURS:
        model = tuned_by(lab, name, label, [CHOSEN_BY])[CHOSEN_BY]
        fits = fits_at_choice(lab, model)
        models.append(model)
        rows.append(_row(model, [fit["seconds"] for fit in fits]))
    for label in (BOOSTING_DEFAULT, BOOSTING):
        model = tuned_by(lab, name, label, [CHOSEN_BY])[CHOSEN_BY]
        models.append(model)
        rows.append(_row(model, _seconds(lab, model)))
    document.table(
        f"{name}: ours and LambdaRank, tuned by MAP on validation",
        rows,
        f"Mean ± standard deviation of the folds; seconds of one fit at the choice, from scratch, "
        f"median of the folds, {lab.threads} threads. Choices: log2 C and log2 gamma; trees, "
        "leaves, rate, least items a leaf.",
    )
    ours = best_of(models[: len(OURS)])
    rival = models[-1]
    named = replace(ours, label="ours, chosen on validation")
    tested = significance([rival, named], METRICS, rival.label)
    document.table(f"{name}: ours against LambdaRank, query by query", tested)
    better = sum(named.mean(metric) > rival.mean(metric) for metric in METRICS)
    worse = sum(named.mean(metric) < rival.mean(metric) for metric in METRICS)
    document.say(
        f"{name}: ours, the family chosen on validation among {', '.join(OURS)}, is better than "
        f"tuned LambdaRank in {better} of {len(METRICS)} columns and worse in {worse}; "
        f"{n_significant(tested)}."
    )
    mine, theirs = rows[: len(OURS)], rows[len(OURS) :]
    document.say(
        f"{name}: one fit takes "
        + ", ".join(f"{row['fit, s']:.3g} s ({row['model']})" for row in (*mine, *theirs))
        + "."
    )


def _seconds(lab: Lab, model: Tuned) -> list[float]:
    """Of a fit at the choice of each fold, with as many trees as were chosen."""
    cells = [
        cell
        for fold, (trees, *parameters) in zip(model.folds, model.chosen, strict=True)
        for cell in boosting_cells(
            model.name, [fold], grid=[parameters], trees=[int(trees)], threads=lab.threads
        )
    ]
    found = lab.run(f"{model.name}, {model.label}, fits at the choice", cells)
    return [result["seconds"] for result in found]


def _row(model: Tuned, seconds: list[float]) -> Row:
    return (
        {"model": model.label}
        | spread(model, METRICS)
        | {"fit, s": float(np.median(seconds)), "chosen by fold": model.told}
    )
