"""RankSVM and factorized RankSVM, and the rank of the multipliers.

Both have the hinge.  RankSVM chooses C on the validation part; the factorized machine C, the
iteration at which its descent is stopped and, of five random starts, the best.  Everything is
chosen by MAP.  The poster says nothing of its grids; ours is that of the other papers, every second
power of 2 for the factorized machine.
"""

from __future__ import annotations

from statistics import fmean

from benchmarks.papers.cells import Lab, Result
from benchmarks.papers.document import Curve, Document, Panel
from benchmarks.papers.factor_cells import N_FACTORS, N_STARTS, rank_cells
from benchmarks.papers.models import CELLS, FACTORIZED, folds_of, sets_there, tuned_by
from benchmarks.papers.published import FACTORIZED as POSTER
from benchmarks.papers.published import NAMES, PUBLISHED
from benchmarks.papers.tuning import (
    Tuned,
    choose,
    n_significant,
    plain_verdict,
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
# Over the mean of the pairs: a usual and a large one.
RANK_CS = (50.0, 5000.0)


def run(lab: Lab, document: Document) -> None:
    panels = []
    for name in sets_there(document):
        models = [
            tuned_by(lab, name, label, [CHOSEN_BY])[CHOSEN_BY] for label in (LINEAR, FACTORIZED)
        ]
        _quality(lab, name, models, document)
        panels += _rank(lab, name, document)
    if panels:
        document.figure(
            "Share of the squared multipliers that a rank leaves",
            panels,
            "Mean over the queries of the first fold's training part. Dealt anew: the same "
            "numbers, dealt to the pairs of their query at random.",
            picture="papers_rank",
        )


def _quality(lab: Lab, name: str, models: list[Tuned], document: Document) -> None:
    poster = {row.ours: row for row in PUBLISHED[name] if row.source == POSTER and row.ours}
    rows: list[Row] = []
    for model in models:
        published = poster[model.label]
        rows.append({"model": f"published: {published.method}"} | published.shown(METRICS))
        rows.append(
            {"model": f"ours: {model.label}"}
            | spread(model, METRICS)
            | {"log2 C (and start) by fold": model.told}
        )
    if lab.size(N_STARTS, 1) > 1:
        rows += _single_starts(lab, name)
    starts = lab.size(N_STARTS, 1)
    document.table(
        f"{name}: RankSVM and factorized RankSVM",
        rows,
        f"RankSVM: C = 2^-12 to 2^6. Factorized: every second of these, {N_FACTORS} factors; "
        f"descents stopped where MAP on validation is best, and of {starts} random start(s) the "
        "best there. One start: column by column, over the starts.",
    )
    for model in models:
        document.say(f"{name}, {plain_verdict(model, poster[model.label])}")
    tested = significance(models, METRICS, LINEAR)
    document.table(f"{name}: factorized against RankSVM, query by query", tested)
    better = sum(models[1].mean(metric) > models[0].mean(metric) for metric in METRICS)
    document.say(
        f"{name}: the factorized machine is better than RankSVM in {better} of {len(METRICS)} "
        f"columns; {n_significant(tested)}."
    )


def _single_starts(lab: Lab, name: str) -> list[Row]:
    """What single starts reach, each with its own choice of C: how much the start matters."""
    results = lab.run(f"{name}, {FACTORIZED}", CELLS[FACTORIZED](lab, name))
    by_start: dict[float, list[Result]] = {}
    for result in results:
        by_start.setdefault(result["candidates"][0][1], []).append(result)
    folds = folds_of(lab)
    models = [choose(name, FACTORIZED, folds, mine, CHOSEN_BY) for mine in by_start.values()]
    return [
        {"model": f"ours: {FACTORIZED}, one start: {label} of {len(models)}"}
        | {NAMES[m]: f"{which([model.mean(m) for model in models]):.4f}" for m in METRICS}
        for label, which in (("worst", min), ("mean", fmean), ("best", max))
    ]


def _rank(lab: Lab, name: str, document: Document) -> list[Panel]:
    found = lab.run(f"{name}, rank of the multipliers", rank_cells(name, RANK_CS))
    rows: list[Row] = []
    curves: dict[str, list[Curve]] = {}
    for result in found:
        for what in ("energy", "dealt anew"):
            energy = result[what]
            rows.append(
                {
                    "loss": result["loss"].replace("_", " "),
                    "C": result["C"],
                    "what": "multipliers" if what == "energy" else what,
                    "violated pairs": f"{100 * result['violated']:.0f}%",
                    "largest rank, median": result["largest"],
                    **{f"rank {k}": f"{100 * energy[k - 1]:.1f}%" for k in RANKS},
                }
            )
            points = [(k + 1, 1.0 - share) for k, share in enumerate(energy) if share < 0.9999]
            label = f"{'multipliers' if what == 'energy' else what}, C = {result['C']:g}"
            curves.setdefault(result["loss"], []).append(Curve(label, points))
    document.table(f"{name}, first fold: share of the squared multipliers that a rank holds", rows)
    usual = next(one for one in found if one["loss"] == "hinge" and one["C"] == RANK_CS[0])
    left, anew = (1.0 - usual[what][SMALL_RANK - 1] for what in ("energy", "dealt anew"))
    small = usual["largest"] <= SMALL_RANK
    document.say(
        f"{name}: with the hinge and C = {RANK_CS[0]:g} rank {SMALL_RANK} leaves {100 * left:.1f}% "
        f"of the squares, and {100 * anew:.1f}% when they are dealt anew to the pairs. "
        + (
            "The poster calls the rank low. So do we, as it leaves less than half."
            if left < 0.5 * anew
            else "The poster calls the rank low; we do not, as it leaves more than half."
        )
        + (
            f" But the largest rank that a query could have is {usual['largest']:g} in the median: "
            "for most queries no rank could be high."
            if small
            else ""
        )
    )
    return [
        Panel(f"{name}, {loss.replace('_', ' ')}", mine, "rank", "share of the squares left")
        for loss, mine in curves.items()
    ]
