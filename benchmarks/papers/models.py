"""The models that are compared with the papers: every family, tuned on validation.

Results are kept, so several sections can ask for the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.folds import N_FOLDS, is_there
from benchmarks.papers.jobs import Job, Runner
from benchmarks.papers.measure.boosting import (
    DEFAULT,
    DEFAULT_TREES,
    GRID,
    TREES,
    boosting_jobs,
)
from benchmarks.papers.measure.factorized import N_STARTS, factorized_jobs
from benchmarks.papers.measure.grids import FAMILIES, grid_jobs
from benchmarks.papers.report import Report
from benchmarks.papers.tuning import Tuned, choose

SETS = ("OHSUMED", "MQ2008")
FACTORIZED = "Fac-RSVM"
RANKSVMS = (*FAMILIES, FACTORIZED)
# Families whose grids are those of the papers.
PAPER_GRIDS = ("linear L1", "linear L2", "exact rbf", "Nystrom rbf", "Fourier rbf", FACTORIZED)
# Only every second C and gamma: no paper has the exact kernel on this set, and its fits take long.
STEPS = {("OHSUMED", "exact rbf"): 2}
BOOSTING_DEFAULT = "LambdaRank, default"
BOOSTING = "LambdaRank, small grid"


def folds_of(runner: Runner) -> Sequence[int]:
    """All folds; the first in a quick run."""
    return range(runner.size(N_FOLDS, 1))


def left_out(name: str) -> str:
    """The sentence about a set that is missing."""
    return (
        f"{name} is left out: its files are not there. Name the folder of the data sets with "
        "make papers DATA=... or with --data."
    )


def sets_there(report: Report) -> list[str]:
    """LETOR's sets that are there; the report says which are missing."""
    for name in SETS:
        if not is_there(name):
            report.say(left_out(name))
    return [name for name in SETS if is_there(name)]


def no_lightgbm() -> str | None:
    """Say why LightGBM cannot be used, or return None."""
    try:
        import lightgbm  # noqa: F401
    except ImportError:
        return "it is not installed (make papers installs it)"
    except OSError as error:  # no OpenMP runtime
        return f"it does not load: {error}"
    return None


def _step(runner: Runner) -> int:
    """Every C and gamma of the grids; a few in a quick run."""
    return runner.size(1, 7)


def _factorized(runner: Runner, name: str) -> list[Job]:
    return factorized_jobs(
        name,
        folds_of(runner),
        starts=runner.size(N_STARTS, 1),
        step=2 * _step(runner),
        threads=runner.threads,
    )


def _default_boosting(runner: Runner, name: str) -> list[Job]:
    trees = [DEFAULT_TREES]
    return boosting_jobs(
        name, folds_of(runner), grid=[DEFAULT], trees=trees, threads=runner.threads
    )


def _boosting(runner: Runner, name: str) -> list[Job]:
    grid, trees = GRID[:: runner.size(1, 6)], TREES[:: runner.size(1, 9)]
    return boosting_jobs(name, folds_of(runner), grid=grid, trees=trees, threads=runner.threads)


def _grid(family: str, runner: Runner, name: str) -> list[Job]:
    step = _step(runner) * STEPS.get((name, family), 1)
    return grid_jobs(name, family, folds_of(runner), step=step, threads=runner.threads)


# The jobs of a family on a set.
JOBS: Mapping[str, Callable[[Runner, str], list[Job]]] = {
    **{family: partial(_grid, family) for family in FAMILIES},
    FACTORIZED: _factorized,
    BOOSTING_DEFAULT: _default_boosting,
    BOOSTING: _boosting,
}


def tuned_by(runner: Runner, name: str, label: str, criteria: Sequence[str]) -> dict[str, Tuned]:
    """A family on a set, tuned on validation by each of some criteria."""
    results = runner.run(f"{name}, {label}", JOBS[label](runner, name))
    folds = folds_of(runner)
    return {criterion: choose(name, label, folds, results, criterion) for criterion in criteria}
