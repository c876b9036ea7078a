"""Table (I) of the supplement of Lee & Lin: how many dual variables are zero for a large C."""

from __future__ import annotations

import numpy as np

from benchmarks.folds import N_FOLDS
from benchmarks.papers.jobs import Job, Result, Runner
from benchmarks.papers.measure.newton import dual_zeros
from benchmarks.papers.report import Report
from benchmarks.report import Row

PUBLISHED_ZEROS = {
    "MQ2007": 5.15,
    "MQ2008": 22.44,
    "YAHOO LTRC set 2": 11.14,
    "MQ2007-list": 19.64,
    "MQ2008-list": 23.86,
}
ZEROS_C = 2.0**20
ZEROS_TOLS = (1e-3, 1e-9)
CHECK_SOLVER, CHECK_TOL = "bundle", 1e-6


def report_zeros(runner: Runner, report: Report) -> None:
    name = "MQ2008"
    folds: list[int | None] = [*range(N_FOLDS), None]

    def job(fold: int | None, solver: str, tol: float) -> Job:
        about = {"name": name, "fold": fold, "C": ZEROS_C, "solver": solver, "tol": tol}
        return Job(f"{_part(fold)}, {solver}, {tol:g}", dual_zeros, about)

    jobs = [job(fold, "newton", tol) for tol in ZEROS_TOLS for fold in folds]
    *fits, check = runner.run(
        "newton: zero dual variables", [*jobs, job(0, CHECK_SOLVER, CHECK_TOL)]
    )
    coarse, fine = fits[: len(folds)], fits[len(folds) :]
    shares = [zero_share(fit) for fit in fine]
    published = PUBLISHED_ZEROS[name]
    mean = float(np.mean(shares[:-1]))
    rows: list[Row] = [{"data": "published", "zero, %": f"{published:.2f}"}]
    rows += [_row(_part(fold), fit) for fold, fit in zip(folds, fine, strict=True)]
    rows.insert(-1, {"data": "mean of the folds", "zero, %": f"{mean:.2f}"})
    report.table(
        f"Table (I): zero dual variables, {name}, squared hinge, C = 2^{np.log2(ZEROS_C):.0f}",
        rows,
        "Zero: margin at least 1, the pair is not violated. Right order: margin above 0. The last "
        "column but one is the share of the pairs with a non-zero dual variable whose margin is "
        "between 0 and 1.",
    )
    candidates = {_part(fold): share for fold, share in zip(folds, shares, strict=True)}
    candidates["mean of the folds"] = mean
    nearest = min(candidates, key=lambda part: abs(candidates[part] - published))
    same = f"{shares[0]:.2f}" == f"{published:.2f}"
    moved = max(abs(zero_share(a) - share) for a, share in zip(coarse, shares, strict=True))
    report.find(
        f"{name}, Lee & Lin, supplement, table (I), share of zero dual variables: "
        f"{shares[0]:.2f}% on fold 1, published {published:.2f}%."
        + ("" if same else f" The nearest is {nearest}, {candidates[nearest]:.2f}%."),
        agrees=same,
    )
    report.say(
        f"Between tolerances of {ZEROS_TOLS[0]:g} and {ZEROS_TOLS[1]:g} the share changes by at "
        f"most {moved:.2g} percentage points on any of these parts. On fold 1 another solver "
        f"(cutting planes, relative gap {check['gap']:.1g}) gives {zero_share(check):.2f}%."
    )
    others = (f"{other} ({share}%)" for other, share in PUBLISHED_ZEROS.items() if other != name)
    report.say(f"Published for sets that are not computed here: {', '.join(others)}.")
    right = [fit["right"] / fit["pairs"] for fit in fine]
    within = [fit["within"] / fit["violated"] for fit in fine]
    report.find(
        'Lee & Lin, supplement: "while most pairs are correctly classified, they satisfy '
        f"0 < w'(x_i - x_j) < 1 only\". Here {100 * min(right):.1f}% to {100 * max(right):.1f}% of "
        f"the pairs are in the right order, and {100 * min(within):.1f}% to "
        f"{100 * max(within):.1f}% of the pairs with a non-zero dual variable (margin below 1) "
        "have a margin between 0 and 1.",
        agrees=min(right) > 0.5 and min(within) > 0.5,
    )


def _part(fold: int | None) -> str:
    return "the whole set" if fold is None else f"fold {fold + 1}, training part"


def zero_share(fit: Result) -> float:
    """Return the share of zero dual variables in percent."""
    return 100.0 * (1.0 - fit["violated"] / fit["pairs"])


def _row(part: str, fit: Result) -> Row:
    return {
        "data": part,
        "zero, %": f"{zero_share(fit):.2f}",
        "pairs": fit["pairs"],
        "right order, %": f"{100 * fit['right'] / fit['pairs']:.2f}",
        "0 < margin < 1 of non-zero, %": f"{100 * fit['within'] / fit['violated']:.2f}",
        "relative gap": fit["gap"],
    }
