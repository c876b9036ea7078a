"""RankSVM and factorized RankSVM, and the rank of the multipliers.

Both have the hinge.  On the validation part RankSVM chooses C; the factorized model chooses C, the
iteration at which its descent is stopped and the best of five random starts.  Everything is chosen
by MAP.  The poster does not give its grids; ours is that of the other papers, every second power of
2 for the factorized model.
"""

from __future__ import annotations

from statistics import fmean

from benchmarks.papers.jobs import Result, Runner
from benchmarks.papers.measure.factorized import N_FACTORS, N_STARTS, rank_jobs
from benchmarks.papers.models import FACTORIZED, JOBS, folds_of, sets_there, tuned_by
from benchmarks.papers.published import FACTORIZED as POSTER
from benchmarks.papers.published import NAMES, PUBLISHED
from benchmarks.papers.report import Curve, Panel, Report
from benchmarks.papers.tuning import (
    Tuned,
    agreement,
    choose,
    compare_with,
    count_significant,
    significance,
    spread,
)
from benchmarks.report import Row

NAME = "factorized"
TITLE = "Factorized RankSVM: does low rank help, and is the rank low?"
SOURCE = (
    "Zhang, Xu, Lan, Guo, Xie, Huang & Cheng, Modeling parameter interactions in ranking SVM "
    "(poster)"
)

METRICS = ("map", "ndcg@1", "ndcg@3", "ndcg@5")
CHOSEN_BY = "map"
LINEAR = "linear L1"
RANKS = (1, 2, 5, 10)
SMALL_RANK = 5
# With the mean over pairs: a usual and a large C.
RANK_CS = (50.0, 5000.0)


def run(runner: Runner, report: Report) -> None:
    panels = []
    for name in sets_there(report):
        models = [
            tuned_by(runner, name, label, [CHOSEN_BY])[CHOSEN_BY] for label in (LINEAR, FACTORIZED)
        ]
        _quality(runner, name, models, report)
        panels += _rank(runner, name, report)
    if panels:
        report.figure(
            "Share of the squared multipliers that is left, by rank",
            panels,
            "Mean over the queries of the first fold's training part. Shuffled: the same "
            "multipliers, assigned at random to the pairs of their query.",
            picture="papers_rank",
        )


def _quality(runner: Runner, name: str, models: list[Tuned], report: Report) -> None:
    poster = {row.ours: row for row in PUBLISHED[name] if row.source == POSTER and row.ours}
    rows: list[Row] = []
    for model in models:
        published = poster[model.label]
        rows.append({"model": f"published: {published.method}"} | published.shown(METRICS))
        rows.append(
            {"model": f"ours: {model.label}"}
            | spread(model, METRICS)
            | {"log2 C (and start) by fold": model.choices}
        )
    starts = runner.size(N_STARTS, 1)
    if starts > 1:
        rows += _single_starts(runner, name)
    report.table(
        f"{name}: RankSVM and factorized RankSVM",
        rows,
        f"RankSVM: C = 2^-12 to 2^6. Factorized: every second of these, {N_FACTORS} factors; "
        f"stopped where MAP on validation is best; the best of {starts} random starts on "
        "validation. Rows about one start: worst, mean and best over the starts, separately for "
        "each column.",
    )
    for model in models:
        report.say(f"{name}, {compare_with(model, poster[model.label])}")
    text, agrees = agreement([(model, poster[model.label]) for model in models])
    report.find(f"{name}, {POSTER}, RankSVM and factorized RankSVM: {text}.", agrees=agrees)
    tested = significance(models, METRICS, LINEAR)
    report.table(f"{name}: factorized compared with RankSVM, query by query", tested)
    linear, factorized = models
    better = sum(factorized.mean(metric) > linear.mean(metric) for metric in METRICS)
    theirs = sum(poster[FACTORIZED].values[m] > poster[LINEAR].values[m] for m in METRICS)
    report.find(
        f"{name}, Zhang et al.: the factorized model is better than RankSVM for {better} of "
        f"{len(METRICS)} metrics, published {theirs}; {count_significant(tested)}.",
        agrees=better >= theirs,
    )


def _single_starts(runner: Runner, name: str) -> list[Row]:
    """What single starts reach, each with its own choice of C: how much the start matters."""
    results = runner.run(f"{name}, {FACTORIZED}", JOBS[FACTORIZED](runner, name))
    by_start: dict[float, list[Result]] = {}
    for result in results:
        by_start.setdefault(result["candidates"][0][1], []).append(result)
    folds = folds_of(runner)
    models = [choose(name, FACTORIZED, folds, mine, CHOSEN_BY) for mine in by_start.values()]
    return [
        {"model": f"ours: {FACTORIZED}, one start: {label} of {len(models)}"}
        | {NAMES[m]: f"{which([model.mean(m) for model in models]):.4f}" for m in METRICS}
        for label, which in (("worst", min), ("mean", fmean), ("best", max))
    ]


def _rank(runner: Runner, name: str, report: Report) -> list[Panel]:
    found = runner.run(f"{name}, rank of the multipliers", rank_jobs(name, RANK_CS))
    rows: list[Row] = []
    curves: dict[str, list[Curve]] = {}
    for result in found:
        for which in ("multipliers", "shuffled"):
            shares = result[which]
            rows.append(
                {
                    "loss": result["loss"].replace("_", " "),
                    "C": result["C"],
                    "which": which,
                    "violated pairs": f"{100 * result['violated']:.0f}%",
                    "largest possible rank, median": result["largest"],
                    **{f"rank {k}": f"{100 * shares[k - 1]:.1f}%" for k in RANKS},
                }
            )
            points = [(k + 1, 1.0 - share) for k, share in enumerate(shares) if share < 0.9999]
            label = f"{which}, C = {result['C']:g}"
            curves.setdefault(result["loss"], []).append(Curve(label, points))
    report.table(f"{name}, first fold: share of the squared multipliers by rank", rows)
    usual = next(one for one in found if one["loss"] == "hinge" and one["C"] == RANK_CS[0])
    left, shuffled = (1.0 - usual[w][SMALL_RANK - 1] for w in ("multipliers", "shuffled"))
    text = (
        f"{name}, Zhang et al.: the rank of the multipliers is low. Here, with the hinge and "
        f"C = {RANK_CS[0]:g}, the best rank-{SMALL_RANK} approximation misses {100 * left:.1f}% of "
        f"the squared multipliers ({100 * shuffled:.1f}% if they are permuted within each query)."
    )
    if usual["largest"] <= SMALL_RANK:
        text += (
            f" But most queries are too small for a higher rank: the largest possible one is "
            f"{usual['largest']:g} in the median."
        )
    report.find(text, agrees=bool(left < 0.5 * shuffled))
    return [
        Panel(f"{name}, {loss.replace('_', ' ')}", mine, "rank", "share of the squares left out")
        for loss, mine in curves.items()
    ]
