"""Every published column of OHSUMED and MQ2008 beside our best model.

A column is a metric for which a source paper gives a number of five folds.  Two of ours stand
beside the best published RankSVM and the best published method of any kind:

    chosen        every fold takes the family, C and gamma that are best on its validation part
    best family   of the families, each tuned on validation, the one with the best mean on the test
                  parts: what a table that lists all of them would print in bold

Both exist in two versions, tuned by the column's own metric and by MAP.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.papers.cells import Lab
from benchmarks.papers.document import Bars, Document
from benchmarks.papers.models import BOOSTING, RANKSVMS, has_lightgbm, sets_there, tuned_by
from benchmarks.papers.published import NAMES, PUBLISHED, Published
from benchmarks.papers.tuning import Tuned, best_of
from benchmarks.report import Row

NAME = "columns"
TITLE = "Every published column, and our best model"
SOURCE = (
    "Chen, Li, Dou, Liang & Lv, Ranking support vector machine with kernel approximation (2017), "
    "table 4; Zhang, Xu, Lan, Guo, Xie, Huang & Cheng, Modeling parameter interactions in ranking "
    "SVM (poster), section 4"
)

MAP = "map"
# By criterion and family.
Models = Mapping[str, Sequence[Tuned]]


def run(lab: Lab, document: Document) -> None:
    bars = []
    for name in sets_there(document):
        metrics = [metric for metric in NAMES if _published(name, metric)]
        by_family = [tuned_by(lab, name, label, (*metrics, MAP)) for label in RANKSVMS]
        models = {metric: [one[metric] for one in by_family] for metric in (*metrics, MAP)}
        _tell(name, metrics, models, document)
        bars.append(_bars(lab, name, metrics, models))
    if bars:
        document.figure(
            "Quality on LETOR's sets: published and ours",
            bars,
            "Mean of the folds' test parts, LETOR's definitions; ours tuned by MAP on the "
            "validation parts alone. The vertical axes do not begin at 0.",
            picture="papers_quality",
        )


def _published(name: str, metric: str, *, ranksvm: bool = False) -> list[Published]:
    return [row for row in PUBLISHED[name] if metric in row.values and (row.ours or not ranksvm)]


def _best_published(name: str, metric: str, *, ranksvm: bool) -> Published:
    return max(_published(name, metric, ranksvm=ranksvm), key=lambda row: row.values[metric])


def _tell(name: str, metrics: Sequence[str], models: Models, document: Document) -> None:
    rows: list[Row] = []
    misses: dict[str, list[str]] = {"best family": [], "chosen": []}
    for metric in metrics:
        rival = _best_published(name, metric, ranksvm=True)
        anyone = _best_published(name, metric, ranksvm=False)
        target = rival.values[metric]
        for criterion in dict.fromkeys((metric, MAP)):
            family = max(models[criterion], key=lambda model: model.mean(metric))
            chosen = best_of(models[criterion])
            rows.append(
                {
                    "column": NAMES[metric],
                    "tuned by": NAMES[criterion],
                    "best published RankSVM": f"{target:.4f} {rival.method}",
                    "any method": f"{anyone.values[metric]:.4f} {anyone.method}",
                    "our best family": f"{family.told_mean(metric)} {family.label}",
                    "verdict": _verdict(family.mean(metric), target),
                    "chosen on validation": f"{chosen.mean(metric):.4f}",
                    "verdict ": _verdict(chosen.mean(metric), target),
                }
            )
        for kind, value in (
            ("best family", _most(models, metric, family_wise=True)),
            ("chosen", _most(models, metric, family_wise=False)),
        ):
            if _round(value) < target:
                misses[kind].append(f"{NAMES[metric]} by {target - value:.4f}")
    document.table(
        f"{name}: published columns",
        rows,
        "Published values are means of five folds; ± is the standard deviation over our folds. "
        "Verdicts are about the best published RankSVM.",
    )
    n = len(metrics)
    for kind, what in (
        ("best family", "the best of our families, each tuned on validation"),
        ("chosen", "the model whose family was chosen on validation as well"),
    ):
        missed = misses[kind]
        ending = f"; it misses {', '.join(missed)}." if missed else ": none is missed."
        document.say(
            f"{name}: {what}, tuned by the column's metric or by MAP, is at least the best "
            f"published RankSVM in {n - len(missed)} of {n} columns{ending}"
        )


def _most(models: Models, metric: str, *, family_wise: bool) -> float:
    """The better of the two ways to tune."""
    values = []
    for criterion in (metric, MAP):
        if family_wise:
            values.append(max(model.mean(metric) for model in models[criterion]))
        else:
            values.append(best_of(models[criterion]).mean(metric))
    return max(values)


def _round(value: float) -> float:
    """As the papers print."""
    return round(value, 4)


def _verdict(ours: float, theirs: float) -> str:
    difference = _round(ours) - theirs
    if abs(difference) < 5e-5:
        return "equal"
    return f"{'better' if difference > 0 else 'worse'} by {abs(difference):.4f}"


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
    if has_lightgbm():
        boosted = tuned_by(lab, name, BOOSTING, [MAP])[MAP]
        values["LightGBM LambdaRank, tuned"] = [boosted.mean(metric) for metric in metrics]
    lowest = min(value for row in values.values() for value in row if value is not None)
    start = math.floor(10 * lowest) / 10
    return Bars(
        name, [NAMES[metric] for metric in metrics], values, "test, mean of folds", "", start
    )
