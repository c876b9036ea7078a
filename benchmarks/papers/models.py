"""The models that the papers are compared by: every family, tuned on validation.

The cells are kept, so that several sections can ask for the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.folds import N_FOLDS, is_there
from benchmarks.papers.boosting_cells import DEFAULT, DEFAULT_TREES, GRID, TREES, boosting_cells
from benchmarks.papers.cells import Cell, Lab
from benchmarks.papers.document import Document
from benchmarks.papers.factor_cells import N_STARTS, factor_cells
from benchmarks.papers.grids import FAMILIES, grid_cells
from benchmarks.papers.tuning import Tuned, choose

__all__ = [
    "BOOSTING",
    "BOOSTING_DEFAULT",
    "FACTORIZED",
    "PAPER_GRIDS",
    "RANKSVMS",
    "SETS",
    "STEPS",
    "folds_of",
    "left_out",
    "no_lightgbm",
    "sets_there",
    "step_of",
    "tuned_by",
]

SETS = ("OHSUMED", "MQ2008")
FACTORIZED = "Fac-RSVM"
RANKSVMS = (*FAMILIES, FACTORIZED)
# Families whose grids are those of the papers.
PAPER_GRIDS = ("linear L1", "linear L2", "exact rbf", "Nystrom rbf", "Fourier rbf", FACTORIZED)
# Every so many C and gamma: no paper has the exact kernel on this set, and its fits take long.
STEPS = {("OHSUMED", "exact rbf"): 2}
BOOSTING_DEFAULT = "LambdaRank, default"
BOOSTING = "LambdaRank, small grid"


def folds_of(lab: Lab) -> Sequence[int]:
    """All folds; the first in a quick run."""
    return range(lab.size(N_FOLDS, 1))


def step_of(lab: Lab) -> int:
    """Of the grids: every C and gamma; a few in a quick run."""
    return int(lab.size(1, 7))


def left_out(name: str) -> str:
    """The line for a set that is absent."""
    return (
        f"{name} is left out: its files are not there. `make papers DATA=...` or `--data` names "
        "the folder of the sets."
    )


def sets_there(document: Document) -> list[str]:
    """LETOR's sets; a line for each that is absent."""
    for name in SETS:
        if not is_there(name):
            document.say(left_out(name))
    return [name for name in SETS if is_there(name)]


def no_lightgbm() -> str | None:
    """Why LightGBM cannot be used, or None."""
    try:
        import lightgbm  # noqa: F401
    except ImportError:
        return "it is not installed (make papers does that)"
    except OSError as error:  # no OpenMP runtime
        return f"it does not load: {error}"
    return None


def _factorized(lab: Lab, name: str) -> list[Cell]:
    starts, step = lab.size(N_STARTS, 1), 2 * step_of(lab)
    return factor_cells(name, folds_of(lab), starts=starts, step=step, threads=lab.threads)


def _default_boosting(lab: Lab, name: str) -> list[Cell]:
    trees = [DEFAULT_TREES]
    return boosting_cells(name, folds_of(lab), grid=[DEFAULT], trees=trees, threads=lab.threads)


def _boosting(lab: Lab, name: str) -> list[Cell]:
    grid, trees = GRID[:: lab.size(1, 6)], TREES[:: lab.size(1, 9)]
    return boosting_cells(name, folds_of(lab), grid=grid, trees=trees, threads=lab.threads)


def _grid(family: str, lab: Lab, name: str) -> list[Cell]:
    step = step_of(lab) * STEPS.get((name, family), 1)
    return grid_cells(name, family, folds_of(lab), step=step, threads=lab.threads)


# Cells of a family on a set.
CELLS: Mapping[str, Callable[[Lab, str], list[Cell]]] = {
    **{family: partial(_grid, family) for family in FAMILIES},
    FACTORIZED: _factorized,
    BOOSTING_DEFAULT: _default_boosting,
    BOOSTING: _boosting,
}


def tuned_by(lab: Lab, name: str, label: str, criteria: Sequence[str]) -> dict[str, Tuned]:
    """A family on a set, tuned on validation by each of some criteria."""
    results = lab.run(f"{name}, {label}", CELLS[label](lab, name))
    return {
        criterion: choose(name, label, folds_of(lab), results, criterion) for criterion in criteria
    }
