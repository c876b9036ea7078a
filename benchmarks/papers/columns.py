"""Every published metric of OHSUMED and MQ2008, and our best model.

Ours are compared with the best published RankSVM and the best published method of any kind:

    chosen        every fold takes the family, C and gamma that are best on its validation part;
                  nothing is chosen on test parts
    best family   every family is tuned on validation, and the one with the best mean on the test
                  parts is shown: what a table prints in bold, in the papers as well

Both are tuned once by MAP and once by the metric itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from benchmarks.papers.jobs import Runner
from benchmarks.papers.measure.grids import MAX_CG_STEPS
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
from benchmarks.papers.report import Bars, Report
from benchmarks.papers.tuning import Tuned, best_of, verdict
from benchmarks.report import Row

NAME = "columns"
TITLE = "Every published metric, and our best model"
SOURCE = (
    "Chen, Li, Dou, Liang & Lv, Ranking support vector machine with kernel approximation (2017), "
    "table 4; Zhang, Xu, Lan, Guo, Xie, Huang & Cheng, Modeling parameter interactions in ranking "
    "SVM (poster), section 4; Kuo, Lee & Lin, Large-scale kernel RankSVM (2014), supplement, "
    "tables VIII and IX"
)

MAP = "map"
METRICS_OF_ONE_FOLD = {"p@5": "precision@5", "reciprocal_true_rank": "mean reciprocal rank"}
# What to tune by: the criterion for a metric.
WAYS: Mapping[str, Callable[[str], str]] = {
    "MAP": lambda metric: MAP,
    "the metric itself": lambda metric: metric,
}
# All families, by criterion.
Models = Mapping[str, Sequence[Tuned]]


def run(runner: Runner, report: Report) -> None:
    bars = []
    for name in sets_there(report):
        metrics = [metric for metric in NAMES if _published(name, metric)]
        criteria = list(dict.fromkeys((MAP, *metrics, *_one_fold(name))))
        by_family = [tuned_by(runner, name, label, criteria) for label in RANKSVMS]
        models = {criterion: [one[criterion] for one in by_family] for criterion in criteria}
        _five_folds(name, metrics, models, report)
        if _one_fold(name):
            _first_fold(name, models, report)
        _searches(name, models[MAP], report)
        bars.append(_bars(runner, name, metrics, models))
    if bars:
        report.figure(
            "Quality on LETOR's sets: published and ours",
            bars,
            "Quality on LETOR's sets: mean over the test parts of the folds, LETOR's definitions; "
            "ours tuned by MAP on the validation parts. The vertical axes do not begin at 0.",
            picture="papers_quality",
        )


# --- Five folds -----------------------------------------------------------------------------------


def _published(name: str, metric: str, *, ranksvm: bool = False) -> list[Published]:
    return [row for row in PUBLISHED[name] if metric in row.values and (row.ours or not ranksvm)]


def _best_published(name: str, metric: str, *, ranksvm: bool) -> Published:
    return max(_published(name, metric, ranksvm=ranksvm), key=lambda row: row.values[metric])


def _five_folds(name: str, metrics: Sequence[str], models: Models, report: Report) -> None:
    rows: list[Row] = []
    for metric in metrics:
        rival = _best_published(name, metric, ranksvm=True)
        anyone = _best_published(name, metric, ranksvm=False)
        target = rival.values[metric]
        row: dict[str, str] = {
            "metric": NAMES[metric],
            "best published RankSVM": f"{target:.4f} {rival.method}",
            "best published method": f"{anyone.values[metric]:.4f} {anyone.method}",
        }
        for way, criterion in WAYS.items():
            candidates = models[criterion(metric)]
            chosen, family = best_of(candidates), best_family(candidates, metric)
            row[f"ours, chosen by {way}"] = _with_verdict(chosen, metric, target)
            row[f"best family, by {way}"] = (
                f"{_with_verdict(family, metric, target)}: {family.label}"
            )
        rows.append(row)
    report.table(
        f"{name}: published metrics",
        rows,
        "Mean of five folds, ours with the standard deviation over the folds; better or worse than "
        "the best published RankSVM. Chosen: family, C and gamma of each fold on its validation "
        "part. Best family: tuned on validation; the family with the best test mean is shown.",
    )
    for way, criterion in WAYS.items():
        missed = _missed(name, metrics, lambda m, of=criterion: best_of(models[of(m)]))
        picked = _missed(name, metrics, lambda m, of=criterion: best_family(models[of(m)], m))
        papers = _missed(
            name,
            metrics,
            lambda m, of=criterion: best_family(
                [model for model in models[of(m)] if model.label in PAPER_GRIDS], m
            ),
        )
        worse = f"; worse for {', '.join(missed)}" if missed else ""
        sentence = (
            f"{name}: with the family of models, C and gamma chosen on validation (by {way}), ours "
            f"is at least as good as the best published RankSVM for {_reached(metrics, missed)} "
            f"metrics{worse}. Picking the family by its test mean, which no user can do, gives "
            f"{_reached(metrics, picked)}."
        )
        if way == "MAP":
            report.find(sentence, agrees=not missed)
        else:
            report.say(sentence)
        report.say(
            "With only the families with the papers' grids and weights, picking by the test mean "
            f"gives {_reached(metrics, papers)}."
        )


def best_family(models: Sequence[Tuned], metric: str) -> Tuned:
    """The family with the best mean on the test parts."""
    return max(models, key=lambda model: model.mean(metric))


def _missed(name: str, metrics: Sequence[str], model_of: Callable[[str], Tuned]) -> list[str]:
    """The metrics for which a model is worse than the best published RankSVM, and by how much."""
    missed = []
    for metric in metrics:
        target = _best_published(name, metric, ranksvm=True).values[metric]
        short = target - round(model_of(metric).mean(metric), 4)
        if short > 5e-5:
            missed.append(f"{NAMES[metric]} by {short:.4f}")
    return missed


def _reached(metrics: Sequence[str], missed: Sequence[str]) -> str:
    return f"{len(metrics) - len(missed)} of {len(metrics)}"


def _with_verdict(model: Tuned, metric: str, target: float) -> str:
    return f"{model.mean_text(metric)}, {verdict(model.mean(metric), target)}"


# --- One fold -------------------------------------------------------------------------------------


def _one_fold(name: str) -> list[str]:
    """Our metrics for those of Kuo, Lee & Lin, which are of MQ2008."""
    return [ours for mine in READINGS.values() for ours in mine] if name == "MQ2008" else []


def _first_fold(name: str, models: Models, report: Report) -> None:
    rows: list[Row] = []
    for theirs, readings in READINGS.items():
        program, target = max(ONE_FOLD[theirs].items(), key=lambda one: one[1])
        for metric in readings:
            chosen = best_of(models[metric]).by_fold(metric)[0]
            family = max(models[metric], key=lambda model: model.by_fold(metric)[0])
            value = family.by_fold(metric)[0]
            rows.append(
                {
                    "published metric": METRICS_OF_ONE_FOLD[theirs],
                    "our metric": NAMES[metric],
                    "published, TRON": f"{ONE_FOLD[theirs]['TRON']:.4f}",
                    "best published": f"{target:.4f} {program}",
                    "ours, chosen": f"{chosen:.4f}, {verdict(chosen, target)}",
                    "best family": f"{value:.4f}, {verdict(value, target)}: {family.label}",
                }
            )
    report.table(
        f"{name}: metrics published for one fold; ours are of the first",
        rows,
        "Tuned by the metric of the row; better or worse than the best published. The paper does "
        "not say which fold, and its metrics are not clear: see the section on exact kernels.",
    )


# --- How the searches went ------------------------------------------------------------------------


def _searches(name: str, models: Sequence[Tuned], report: Report) -> None:
    rows: list[Row] = [
        {
            "family": model.label,
            "candidates, all folds": model.n_candidates,
            "stopped early": model.n_stopped,
            "largest gap": f"{model.largest_gap:.1e}" if model.largest_gap else None,
            "chosen by MAP and stopped early": sum(model.stopped),
            "chosen by MAP: log2 C (, gamma)": model.choices,
        }
        for model in models
    ]
    halved = any(STEPS.get((name, model.label), 1) == 2 for model in models)
    report.table(
        f"{name}: the searches",
        rows,
        f"Stopped early: after {MAX_CG_STEPS} steps of conjugate gradients. Wider grid, queries "
        "equal: grids and weights that no paper has. Fac-RSVM: the second number is its random "
        "start; its descents are stopped by MAP, whatever C is chosen by."
        + (" Exact rbf: every second C and gamma." if halved else ""),
    )


def _bars(runner: Runner, name: str, metrics: Sequence[str], models: Models) -> Bars:
    values = {
        "best published RankSVM": [
            _best_published(name, metric, ranksvm=True).values[metric] for metric in metrics
        ]
    }
    for label in ("linear L1", "linear L2", "Nystrom rbf", "exact rbf"):
        model = next(model for model in models[MAP] if model.label == label)
        values[f"ours: {label}"] = [model.mean(metric) for metric in metrics]
    if no_lightgbm() is None:
        boosted = tuned_by(runner, name, BOOSTING, [MAP])[MAP]
        values["LightGBM LambdaRank, tuned"] = [boosted.mean(metric) for metric in metrics]
    start = math.floor(10 * min(min(row) for row in values.values())) / 10
    return Bars(name, [NAMES[m] for m in metrics], values, "test, mean of folds", start)
