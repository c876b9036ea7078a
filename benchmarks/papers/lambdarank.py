"""What a user would pick instead: LightGBM's LambdaRank, with default parameters and tuned.

Its parameters and number of trees are chosen by MAP on validation, as C and gamma of ours are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.papers.approximation import fits_at_choice
from benchmarks.papers.boosting_cells import DEFAULT_TREES, TREES
from benchmarks.papers.cells import Lab
from benchmarks.papers.document import Document
from benchmarks.papers.models import (
    BOOSTING,
    BOOSTING_DEFAULT,
    CELLS,
    folds_of,
    has_lightgbm,
    sets_there,
    tuned_by,
)
from benchmarks.papers.tuning import Tuned, best_of, choose, n_significant, significance, spread
from benchmarks.report import Row

NAME = "lambdarank"
TITLE = "Beside LightGBM's LambdaRank"
SOURCE = "LightGBM, the package"

OURS = ("linear L2", "Nystrom rbf", "exact rbf")
METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "mean_ndcg", "p@1", "p@3", "map")
CHOSEN_BY = "map"


def run(lab: Lab, document: Document) -> None:
    if not has_lightgbm():
        document.say("LightGBM is not installed (make papers installs it): left out.")
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
        results = lab.run(f"{name}, {label}", CELLS[label](lab, name))
        model = choose(name, label, folds_of(lab), results, CHOSEN_BY)
        models.append(model)
        rows.append(_row(model, [result["seconds"] for result in results]))
    document.table(
        f"{name}: ours and LambdaRank, tuned by MAP on validation",
        rows,
        f"Mean ± standard deviation of the folds; seconds of one fit, median, {lab.threads} "
        "threads. Choices: log2 C and log2 gamma; trees, leaves, rate, least items a leaf.",
    )
    ours = best_of(models[: len(OURS)])
    rival = models[-1]
    named = replace(ours, label="ours, chosen on validation")
    tested = significance([rival, named], METRICS, rival.label)
    document.table(f"{name}: ours against LambdaRank, query by query", tested)
    better = sum(named.mean(metric) > rival.mean(metric) for metric in METRICS)
    document.say(
        f"{name}: ours, the family chosen on validation among {', '.join(OURS)}, is better than "
        f"tuned LambdaRank in {better} of {len(METRICS)} columns; {n_significant(tested)}."
    )
    fastest = min(rows[: len(OURS)], key=lambda row: row["fit, s"])
    document.say(
        f"{name}: one fit takes {fastest['fit, s']:.3g} s ({fastest['model']}) to "
        f"{max(row['fit, s'] for row in rows[: len(OURS)]):.3g} s with ours, "
        f"{rows[-2]['fit, s']:.3g} s with LambdaRank's defaults ({DEFAULT_TREES} trees), "
        f"{rows[-1]['fit, s']:.3g} s in its grid ({TREES[-1]} trees)."
    )


def _row(model: Tuned, seconds: list[float]) -> Row:
    return (
        {"model": model.label}
        | spread(model, METRICS)
        | {"fit, s": float(np.median(seconds)), "chosen by fold": model.told}
    )
