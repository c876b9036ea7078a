"""Every published column of OHSUMED and MQ2008 beside our best model.

A column is a metric for which a source paper gives a number.  Two of ours stand beside the best
published RankSVM, and beside the best published method of any kind:

    chosen        every fold takes the family, C and gamma that are best on its validation part;
                  nothing is chosen by test parts
    best family   of the families, each tuned on validation, the one with the best mean on the test
                  parts: what a table of all families would print in bold, as the papers' tables do

Both exist in two versions, tuned by MAP and by the column's own metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from benchmarks.papers.cells import Lab
from benchmarks.papers.document import Bars, Document
from benchmarks.papers.grids import LONGEST
from benchmarks.papers.models import (
    BOOSTING,
    PAPER_GRIDS,
    RANKSVMS,
    STEPS,
    no_lightgbm,
    sets_there,
    tuned_by,
)
from benchmarks.papers.published import NAMES, ONE_FOLD, PUBLISHED, READINGS, Published
from benchmarks.papers.tuning import Tuned, best_of, verdict
from benchmarks.report import Row

NAME = "columns"
TITLE = "Every published column, and our best model"
SOURCE = (
    "Chen, Li, Dou, Liang & Lv, Ranking support vector machine with kernel approximation (2017), "
    "table 4; Zhang, Xu, Lan, Guo, Xie, Huang & Cheng, Modeling parameter interactions in ranking "
    "SVM (poster), section 4; Kuo, Lee & Lin, Large-scale kernel RankSVM (2014), supplement, "
    "tables VIII and IX"
)

MAP = "map"
COLUMNS_OF_ONE_FOLD = {"p@5": "precision@5", "reciprocal_true_rank": "mean reciprocal rank"}
# Ways to tune.
BY_MAP, BY_OWN = "MAP", "the column's metric"
# By criterion: all families.
Models = Mapping[str, Sequence[Tuned]]


def run(lab: Lab, document: Document) -> None:
    bars = []
    for name in sets_there(document):
        metrics = [metric for metric in NAMES if _published(name, metric)]
        criteria = list(dict.fromkeys((MAP, *metrics, *_one_fold(name))))
        by_family = [tuned_by(lab, name, label, criteria) for label in RANKSVMS]
        models = {criterion: [one[criterion] for one in by_family] for criterion in criteria}
        _tell(name, metrics, models, document)
        if _one_fold(name):
            _tell_one_fold(name, models, document)
        _tell_searches(name, models[MAP], document)
        bars.append(_bars(lab, name, metrics, models))
    if bars:
        document.figure(
            "Quality on LETOR's sets: published and ours",
            bars,
            "Mean of the folds' test parts, LETOR's definitions; ours tuned by MAP on the "
            "validation parts alone. The vertical axes do not begin at 0.",
            picture="papers_quality",
        )


# --- Five folds -----------------------------------------------------------------------------------


def _published(name: str, metric: str, *, ranksvm: bool = False) -> list[Published]:
    return [row for row in PUBLISHED[name] if metric in row.values and (row.ours or not ranksvm)]


def _best_published(name: str, metric: str, *, ranksvm: bool) -> Published:
    return max(_published(name, metric, ranksvm=ranksvm), key=lambda row: row.values[metric])


def _tell(name: str, metrics: Sequence[str], models: Models, document: Document) -> None:
    rows: list[Row] = []
    for metric in metrics:
        rival = _best_published(name, metric, ranksvm=True)
        anyone = _best_published(name, metric, ranksvm=False)
        target = rival.values[metric]
        row: dict[str, str] = {
            "column": NAMES[metric],
            "best published RankSVM": f"{target:.4f} {rival.method}",
            "any published method": f"{anyone.values[metric]:.4f} {anyone.method}",
        }
        for way, criterion in ((BY_MAP, MAP), (BY_OWN, metric)):
            chosen = best_of(models[criterion])
            family = _best_family(models[criterion], metric)
            row[f"ours, chosen by {way}"] = _told(chosen, metric, target)
            row[f"best family, by {way}"] = f"{_told(family, metric, target)}: {family.label}"
        rows.append(row)
    document.table(
        f"{name}: published columns",
        rows,
        "Mean of five folds, ours with the standard deviation over the folds; better or worse than "
        "the best published RankSVM. Chosen: family, C and gamma of each fold on its validation "
        "part. Best family: tuned on validation, the family picked by its test mean, as bold print "
        "in a table is.",
    )
    for way, criterion_of in _ways():
        reached = _reached(name, metrics, lambda m, of=criterion_of: best_of(models[of(m)]))
        document.say(
            f"{name}, **family, C and gamma chosen on validation by {way}**: {reached}.",
        )
    for way, criterion_of in _ways():
        reached = _reached(name, metrics, lambda m, of=criterion_of: _best_family(models[of(m)], m))
        papers = _reached(
            name,
            metrics,
            lambda m, of=criterion_of: _best_family(
                [model for model in models[of(m)] if model.label in PAPER_GRIDS], m
            ),
        )
        document.say(
            f"{name}, **the best of our families, each tuned on validation by {way}**: {reached}. "
            f"Of the families with the papers' own grids and weights: {papers}."
        )


def _ways() -> list[tuple[str, Callable[[str], str]]]:
    return [(BY_MAP, lambda metric: MAP), (BY_OWN, lambda metric: metric)]


def _best_family(models: Sequence[Tuned], metric: str) -> Tuned:
    return max(models, key=lambda model: model.mean(metric))


def _reached(name: str, metrics: Sequence[str], model_of: Callable[[str], Tuned]) -> str:
    """Say how many columns a model reaches, and by how much it misses the others."""
    missed = []
    for metric in metrics:
        target = _best_published(name, metric, ranksvm=True).values[metric]
        short = target - round(model_of(metric).mean(metric), 4)
        if short > 5e-5:
            missed.append(f"{NAMES[metric]} by {short:.4f}")
    ending = f"; it misses {', '.join(missed)}" if missed else "; none is missed"
    return (
        f"at least the best published RankSVM in {len(metrics) - len(missed)} of {len(metrics)} "
        f"columns{ending}"
    )


def _told(model: Tuned, metric: str, target: float) -> str:
    return f"{model.told_mean(metric)}, {verdict(model.mean(metric), target)}"


# --- One fold -------------------------------------------------------------------------------------


def _one_fold(name: str) -> list[str]:
    """Our metrics for the columns of Kuo, Lee & Lin, which are of MQ2008."""
    return [ours for mine in READINGS.values() for ours in mine] if name == "MQ2008" else []


def _tell_one_fold(name: str, models: Models, document: Document) -> None:
    rows: list[Row] = []
    for theirs, readings in READINGS.items():
        program, target = max(ONE_FOLD[theirs].items(), key=lambda one: one[1])
        for metric in readings:
            chosen = best_of(models[metric]).by_fold(metric)[0]
            family = max(models[metric], key=lambda model: model.by_fold(metric)[0])
            value = family.by_fold(metric)[0]
            rows.append(
                {
                    "column": COLUMNS_OF_ONE_FOLD[theirs],
                    "our metric": NAMES[metric],
                    "published, TRON": f"{ONE_FOLD[theirs]['TRON']:.4f}",
                    "best published": f"{target:.4f} {program}",
                    "ours, chosen": f"{chosen:.4f}, {verdict(chosen, target)}",
                    "best family": f"{value:.4f}, {verdict(value, target)}: {family.label}",
                }
            )
    document.table(
        f"{name}: columns of one fold, ours the first",
        rows,
        "Tuned by the metric of the row; better or worse than the best published. Which fold it "
        "was and which metrics they are is not clear: see the section on kernels.",
    )


# --- How the searches went ------------------------------------------------------------------------


def _tell_searches(name: str, models: Sequence[Tuned], document: Document) -> None:
    rows: list[Row] = [
        {
            "family": model.label,
            "candidates, all folds": model.n_candidates,
            "ended early": model.n_stopped,
            "largest gap": f"{model.largest_gap:.1e}" if model.largest_gap else None,
            "of the choices by MAP ended early": sum(model.stopped),
            "chosen by MAP: log2 C (, gamma)": model.told,
        }
        for model in models
    ]
    step = max((STEPS.get((name, model.label), 1) for model in models), default=1)
    document.table(
        f"{name}: how the searches went",
        rows,
        f"Ended early: after {LONGEST} steps of conjugate gradients. "
        "Wider grid, queries equal: grids and weights that no paper has. Fac-RSVM: the second "
        "number is its start; its descents are stopped by MAP, whatever C is chosen by."
        + (f" Exact rbf: every {step}nd C and gamma." if step == 2 else ""),
        detail=True,
    )


def _bars(lab: Lab, name: str, metrics: Sequence[str], models: Models) -> Bars:
    families = models[MAP]
    values: dict[str, list[float | None]] = {
        "best published RankSVM": [
            _best_published(name, metric, ranksvm=True).values[metric] for metric in metrics
        ]
    }
    for label in ("linear L1", "linear L2", "Nystrom rbf", "exact rbf"):
        model = next(model for model in families if model.label == label)
        values[f"ours: {label}"] = [model.mean(metric) for metric in metrics]
    if no_lightgbm() is None:
        boosted = tuned_by(lab, name, BOOSTING, [MAP])[MAP]
        values["LightGBM LambdaRank, tuned"] = [boosted.mean(metric) for metric in metrics]
    lowest = min(value for row in values.values() for value in row if value is not None)
    start = math.floor(10 * lowest) / 10
    groups = [NAMES[metric] for metric in metrics]
    return Bars(name, groups, values, "test, mean of folds", start=start)
