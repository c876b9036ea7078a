"""Table (I) of the supplement of Lee & Lin: how many dual variables are zero at a large C.

:mod:`benchmarks.papers.newton_cells` measures and says how; here it is told.
"""

from __future__ import annotations

import numpy as np

from benchmarks.folds import N_FOLDS
from benchmarks.papers.cells import Cell, Lab, Result
from benchmarks.papers.document import Document
from benchmarks.papers.newton_cells import dual_zeros
from benchmarks.report import Row

__all__ = ["tell_zeros"]

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


def tell_zeros(lab: Lab, document: Document) -> None:
    name = "MQ2008"
    folds: list[int | None] = [*range(N_FOLDS), None]

    def cell(fold: int | None, solver: str, tol: float) -> Cell:
        about = {"name": name, "fold": fold, "C": ZEROS_C, "solver": solver, "tol": tol}
        return Cell(f"{_part(fold)}, {solver}, {tol:g}", dual_zeros, about, reads=(name,))

    todo = [cell(fold, "newton", tol) for tol in ZEROS_TOLS for fold in folds]
    *fits, check = lab.run("newton: zero dual variables", [*todo, cell(0, CHECK_SOLVER, CHECK_TOL)])
    coarse, fine = fits[: len(folds)], fits[len(folds) :]
    shares = [_zero_share(fit) for fit in fine]
    rows: list[Row] = [{"data": "published", "zero, %": f"{PUBLISHED_ZEROS[name]:.2f}"}]
    rows += [_zero_row(_part(fold), fit) for fold, fit in zip(folds, fine, strict=True)]
    mean = float(np.mean(shares[:-1]))
    rows.insert(-1, {"data": "mean of the folds", "zero, %": f"{mean:.2f}"})
    document.table(
        f"Table (I): zero dual variables, {name}, squared hinge, C = 2^{np.log2(ZEROS_C):.0f}",
        rows,
        "Zero: margin at least 1, the pair is not violated. Right: margin above 0. The last column "
        "but one is the share of the non-zero ones whose margin is between 0 and 1.",
    )
    moved = max(abs(_zero_share(a) - share) for a, share in zip(coarse, shares, strict=True))
    distance = f"by up to {moved:.2g} percentage points" if moved > 0.0 else "by not one pair"
    candidates = {_part(fold): share for fold, share in zip(folds, shares, strict=True)}
    candidates["mean of the folds"] = mean
    published = PUBLISHED_ZEROS[name]
    nearest = min(candidates, key=lambda part: abs(candidates[part] - published))
    first = candidates[_part(0)]
    same = f"{first:.2f}" == f"{published:.2f}"
    agreement = (
        "the published figure to its last digit"
        if same
        else f"against {published:.2f}% published; nearest is {nearest}, {candidates[nearest]:.2f}%"
    )
    document.say(
        f"Fold 1 has {first:.2f}% zeros, {agreement}. Between tolerances of {ZEROS_TOLS[0]:g} and "
        f"{ZEROS_TOLS[1]:g} it moves {distance} on any of these parts; on fold 1 another solver "
        f"(cutting planes, relative gap {check['gap']:.1g}) gives {_zero_share(check):.2f}%."
    )
    others = (f"{other} ({share}%)" for other, share in PUBLISHED_ZEROS.items() if other != name)
    document.say(f"Published for sets that are not computed here: {', '.join(others)}.")
    right = [fit["right"] / fit["pairs"] for fit in fine]
    within = [fit["within"] / fit["violated"] for fit in fine]
    seen = min(right) > 0.5 and min(within) > 0.5
    document.say(
        'Published: "while most pairs are correctly classified, they satisfy '
        "0 < w'(x_i - x_j) < 1 only\". "
        + ("Here, too" if seen else "Here this is not so on all parts")
        + f": {100 * min(right):.1f}% to {100 * max(right):.1f}% of the pairs are in the right "
        f"order, and {100 * min(within):.1f}% to {100 * max(within):.1f}% of the non-zero ones "
        "have a margin between 0 and 1."
    )


def _part(fold: int | None) -> str:
    return f"all {N_FOLDS} parts" if fold is None else f"fold {fold + 1}, training part"


def _zero_share(fit: Result) -> float:
    return 100.0 * (1.0 - fit["violated"] / fit["pairs"])


def _zero_row(part: str, fit: Result) -> Row:
    return {
        "data": part,
        "zero, %": f"{_zero_share(fit):.2f}",
        "pairs": fit["pairs"],
        "right, %": f"{100 * fit['right'] / fit['pairs']:.2f}",
        "0 < margin < 1 of non-zero, %": f"{100 * fit['within'] / fit['violated']:.2f}",
        "relative gap": fit["gap"],
    }
