"""Hyperparameter search: fit every candidate on training parts, score it on held-out parts.

A *candidate* is one combination of parameter values.  The fits for different C follow a path, each
one starting from the previous solutions (:mod:`ranksvm.model_selection.path`).  Each value of
another parameter, such as gamma, has its own path.  The unit of work is therefore a *cell*: one
path on one training part, for which the problem is prepared once.  Finished cells can be stored in
a file (:mod:`ranksvm.model_selection.checkpoint`).

For linear models, whose coefficients mean the same on every training part, the path of the first
split guides the paths of the other splits, which run in parallel.  For kernel models a path cannot
guide another one, and memory is needed for one problem at a time: their cells run one after the
other, each with all threads.  So do cells that are stored in a file, because it does not contain
the paths.  The results do not depend on the number of threads, on the order in which splits finish,
or on interruptions, down to the last bit.

Of the candidates with the best mean score over the splits, the one with the smallest C is chosen,
and of those the one with the smallest other parameters.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Message, Param
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import Settings
from ranksvm.learners.problem import shortfall
from ranksvm.model_selection.cell import Cell
from ranksvm.model_selection.grids import make_grid
from ranksvm.model_selection.runs import SplitResult, SplitTask, naming, run_in_parallel
from ranksvm.model_selection.splits import Split, make_splits
from ranksvm.solvers.base import Status

if TYPE_CHECKING:
    from ranksvm.model_selection.checkpoint import Checkpoint

__all__ = ["Progress", "Search", "search"]

# Called as progress(done, total, message).
Progress = Callable[[int, int, str], Any]

# Mean scores that agree to this many decimals count as equal.
DIGITS = 12


@dataclass(frozen=True, eq=False)
class Search:
    """Results of a search.

    Attributes
    ----------
    grid : dict of str to ndarray
        Values of each parameter; C is the last one.
    settings : Settings
        Other settings of the fits.  If an approximation had no random state, this is the one that
        was drawn.
    metric, conventions : str
    scores : ndarray of shape (n_splits, n_candidates)
        Metric on the held-out parts.  NaN if the metric is undefined on a held-out part, or if the
        model gives held-out items scores that are not finite.
    counted : ndarray of bool, shape (n_splits,)
        Whether the metric is defined on the held-out part of a split.
    objectives, gaps, seconds : ndarray of shape (n_splits, n_candidates)
        Objective, certified gap and time of each fit.  The time to prepare a problem is added to
        the fit with the smallest C.
    n_iter, n_products : ndarray of int64, shape (n_splits, n_candidates)
    mean_coef : ndarray of shape (n_candidates, n_features) or None
        Mean of the coefficients over the splits, a good start for a fit on all items.  None for
        kernel models and with a checkpoint.
    n_resumed : int
        Number of cells that were loaded from a checkpoint.
    shortfalls : tuple of Message
        Warnings about fits that stopped before reaching their tolerance.
    undefined : tuple of str
        Warnings about splits that do not count.
    unscored : tuple of str
        Warnings about fits whose scores are not finite.  Such a candidate cannot be chosen.
    """

    grid: dict[str, Array]
    settings: Settings
    metric: str
    conventions: str
    scores: Array
    counted: NDArray[np.bool_]
    objectives: Array
    gaps: Array
    seconds: Array
    n_iter: NDArray[np.int64]
    n_products: NDArray[np.int64]
    mean_coef: Array | None
    n_resumed: int
    shortfalls: tuple[Message, ...]
    undefined: tuple[str, ...]
    unscored: tuple[str, ...]

    @property
    def params(self) -> dict[str, Array]:
        """Parameters of the candidates, each of shape (n_candidates,); C varies fastest."""
        columns = np.meshgrid(*self.grid.values(), indexing="ij")
        return {name: column.ravel() for name, column in zip(self.grid, columns, strict=True)}

    @property
    def means(self) -> Array:
        """Mean scores over the splits that count; NaN for a candidate that cannot be chosen."""
        mean: Array = self.scores[self.counted].mean(axis=0)
        return mean

    @property
    def deviations(self) -> Array:
        """Standard deviations of the scores over the splits that count."""
        deviation: Array = self.scores[self.counted].std(axis=0)
        return deviation

    @property
    def best_index(self) -> int:
        """Index of the best candidate; ties go to the smallest C, then to smaller other values."""
        rounded = np.round(self.means, DIGITS)
        best = np.flatnonzero(rounded == np.nanmax(rounded)).tolist()
        by_C_first = list(self.params.values())[::-1]
        return int(min(best, key=lambda place: [values[place] for values in by_C_first]))

    @property
    def best(self) -> dict[str, float]:
        """Parameters of the best candidate."""
        place = self.best_index
        return {name: float(values[place]) for name, values in self.params.items()}

    @property
    def best_score(self) -> float:
        """The best mean score."""
        return float(self.means[self.best_index])

    @property
    def best_settings(self) -> Settings:
        """Settings of the best candidate."""
        return _with(self.settings, **self.best)

    @property
    def best_start(self) -> Array | None:
        """Starting point for a fit of the best candidate on all items, if there is one."""
        return None if self.mean_coef is None else self.mean_coef[self.best_index]

    @property
    def edges(self) -> tuple[Message, ...]:
        """A warning for each parameter whose best value is at the edge of its grid."""
        told = (_edge_of(name, best, self.grid[name]) for name, best in self.best.items())
        return tuple(sentence for sentence in told if sentence is not None)

    def facts(self) -> dict[str, Any]:
        """Return a description of the search for the model file."""
        return {
            "metric": self.metric,
            "conventions": self.conventions,
            **{f"{name}s": values.tolist() for name, values in self.grid.items()},
            "mean_scores": self.means.reshape([v.size for v in self.grid.values()]).tolist(),
        }


def search(
    data: RankingData,
    settings: Settings,
    Cs: Any = None,
    others: Mapping[str, Any] | None = None,
    *,
    folds: Iterable[tuple[Any, Any]] | None = None,
    validation: RankingData | None = None,
    metric: str = "pairwise_accuracy",
    conventions: str = "standard",
    n_threads: int = 1,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Search:
    """Fit every candidate on every training part, and compute the metric on the held-out part.

    Parameters
    ----------
    data : RankingData
        Items with labels and without preferences.  Weights are used for the fits; the metric does
        not use them.
    settings : Settings
        Settings of the fits.  Its C and the other searched parameters are ignored.
    Cs : sequence of float, int or None, default=None
        Values of C to try (positive, no duplicates), or their number in the default grid; None uses
        the default number.
    others : mapping of str to such values, or None, default=None
        Values of other parameters, for example ``{"gamma": [0.1, 1.0]}``.
    folds : iterable of (train, test) or None
        Row numbers or masks.  A query must not be on both sides.  Each running split holds a copy
        of its rows.
    validation : RankingData or None
        Use this set as the held-out part, instead of folds, and train on all of ``data``.
    metric, conventions : str
        As in :func:`ranksvm.metrics.evaluate`.
    n_threads : int
        Total number of threads.  Splits of linear models share them; every other fit uses all.
    progress : callable or None
        Called as ``progress(done, total, message)`` after each fit, from the calling thread.
    checkpoint : path-like or None
        File to store finished cells in.  If it exists, the search continues from it.  The file of a
        different search, or one that is in use, is refused.

    Returns
    -------
    Search

    Raises
    ------
    ValueError
        If a grid, a split or the checkpoint cannot be used; the message says which.
    """
    if data.preferences is not None:
        raise ValueError("a search cannot use preferences: folds would separate their items")
    grid = make_grid(data, settings, Cs, others)
    splits = make_splits(data, folds, validation, metric, conventions)
    *beside, _ = grid
    rows = [
        dict(zip(beside, values, strict=True))
        for values in itertools.product(*(grid[name].tolist() for name in beside))
    ]
    # One seed for all fits, also after a search is resumed.
    seed = _random_state(settings)
    tally = _Tally(len(rows) * len(splits) * grid["C"].size, progress)
    cells: list[list[Cell]] = []
    mean_coefs: list[Array] = []
    n_resumed = 0
    with ExitStack() as stack:
        file: Checkpoint | None = None
        if checkpoint is not None:
            # Not every Python has SQLite.
            from ranksvm.model_selection.checkpoint import Checkpoint, identity

            which = identity(data, settings, splits, grid["C"], metric, conventions, beside)
            file = stack.enter_context(Checkpoint(checkpoint, which, grid["C"].size, seed))
            seed = file.random_state
        if seed is not None:
            settings = _with(settings, random_state=seed)
        for row in rows:
            task = SplitTask(data, _with(settings, **row), grid["C"], metric, conventions)
            work = _Work(task, splits, row, n_threads, tally, file)
            if settings.shares_coefficients and file is None:
                found, mean_coef = work.guided()
                mean_coefs.append(mean_coef)
            else:
                n_resumed += work.n_known
                found = work.one_by_one()
            cells.append(found)
    return _gathered(
        cells,
        splits,
        grid,
        settings,
        metric,
        conventions,
        mean_coef=np.concatenate(mean_coefs) if mean_coefs else None,
        n_resumed=n_resumed,
    )


def _with(settings: Settings, **values: Any) -> Settings:
    return replace(settings, **values)


def _random_state(settings: Any) -> int | None:
    """Return the seed of all fits; draw one if they need it and have none."""
    seed: int | None = getattr(settings, "random_state", None)
    if seed is None and getattr(settings, "approximation", None) is not None:
        seed = int(np.random.default_rng().integers(2**31))
    return seed


class _Tally:
    """Counts finished fits and reports them."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0

    def add(self, message: str) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total, message)


@dataclass(frozen=True)
class _Work:
    """The cells of one row of the grid: all parameters but C are fixed."""

    task: SplitTask
    splits: Sequence[Split]
    row: Mapping[str, float]
    n_threads: int
    tally: _Tally
    file: Checkpoint | None

    @property
    def where(self) -> str:
        return "".join(f"{name} = {value:.4g}, " for name, value in self.row.items())

    @property
    def key(self) -> str:
        """Name of this row in a checkpoint."""
        return ", ".join(f"{name}={value!r}" for name, value in self.row.items())

    @property
    def n_known(self) -> int:
        """Number of cells that are in the checkpoint."""
        return sum(self._known(number) is not None for number in range(len(self.splits)))

    def _known(self, number: int) -> Cell | None:
        return None if self.file is None else self.file.get(self.key, number)

    def tell(self, message: str) -> None:
        self.tally.add(f"{self.where}{message}")

    def one_by_one(self) -> list[Cell]:
        """Process the splits one after the other, each with all threads."""
        return [self._cell(number, split) for number, split in enumerate(self.splits)]

    def _cell(self, number: int, split: Split) -> Cell:
        done = self._known(number)
        if done is not None:
            for C in self.task.Cs.tolist():
                self.tell(f"{split.name}, C = {C:.4g}: done before")
            return done
        with naming(self.where):
            cell = _cell_of(self.task.run(split, self.n_threads, self.tell))
        if self.file is not None:
            self.file.add(self.key, number, cell)
        return cell

    def guided(self) -> tuple[list[Cell], Array]:
        """Process the first split, then the others in parallel, guided by its path.

        Returns the cells and the mean coefficients for every C.
        """
        task, n_threads = self.task, self.n_threads
        first, *others = self.splits
        results = [task.run(first, n_threads, self.tell, keep=bool(others))]
        guide = results[0].guide
        workers = min(n_threads, len(others))
        if workers > 1:
            results += run_in_parallel(
                task, others, workers, n_threads // workers, guide, self.tell
            )
        else:
            results += [task.run(split, n_threads, self.tell, guide=guide) for split in others]
        mean = np.zeros((task.Cs.size, results[0].fits[0].coef.size))
        for one in results:
            for row, fit in zip(mean, one.fits, strict=True):
                row += fit.coef / len(results)
        return [_cell_of(result) for result in results], mean


def _cell_of(result: SplitResult) -> Cell:
    fits = result.fits
    return Cell(
        scores=tuple(map(float, result.scores)),
        objectives=tuple(fit.objective for fit in fits),
        gaps=tuple(fit.gap for fit in fits),
        seconds=tuple(result.seconds),
        n_iter=tuple(fit.n_iter for fit in fits),
        n_products=tuple(fit.n_products for fit in fits),
        statuses=tuple(fit.status.name for fit in fits),
        solver=fits[0].solver,
    )


def _gathered(
    cells: Sequence[Sequence[Cell]],
    splits: Sequence[Split],
    grid: dict[str, Array],
    settings: Settings,
    metric: str,
    conventions: str,
    **rest: Any,
) -> Search:
    def table(name: str, dtype: Any = np.float64) -> Any:
        by_row = np.array([[getattr(cell, name) for cell in row] for row in cells], dtype=dtype)
        return by_row.transpose(1, 0, 2).reshape(len(splits), -1)

    by_name = {name: table(name) for name in ("scores", "objectives", "gaps", "seconds")}
    counts = {name: table(name, np.int64) for name in ("n_iter", "n_products")}
    short = [
        _shortfall(cell, k, settings.tol)
        for row in cells
        for cell in row
        for k in range(len(cell.scores))
    ]
    made = Search(
        grid=grid,
        settings=settings,
        metric=metric,
        conventions=conventions,
        counted=np.array([split.undefined is None for split in splits]),
        **by_name,
        **counts,
        shortfalls=tuple(one for one in short if one is not None),
        undefined=tuple(split.undefined for split in splits if split.undefined is not None),
        unscored=(),
        **rest,
    )
    made = replace(made, unscored=_unscored(made, splits))
    if np.isnan(made.means).all():
        raise ValueError(
            "there is nothing to choose from: no candidate has finite scores in every split. "
            f"{made.unscored[0]}"
        )
    return made


def _shortfall(cell: Cell, k: int, tol: float) -> Message | None:
    status = Status[cell.statuses[k]]
    return shortfall(cell.solver, status, cell.n_iter[k], cell.objectives[k], cell.gaps[k], tol)


def _unscored(made: Search, splits: Sequence[Split]) -> tuple[str, ...]:
    """Return warnings about scores that are NaN although the metric is defined."""
    params = made.params
    texts = []
    for place, split in zip(*np.nonzero(np.isnan(made.scores.T)), strict=True):
        if splits[split].undefined is None:
            *others, C = (f"{name} = {values[place]:.4g}" for name, values in params.items())
            where = ", ".join([*others, splits[split].name, C])
            texts.append(
                f"{where}: the scores of held-out items are not finite, and this candidate cannot "
                "be chosen. Scale the features."
            )
    return tuple(texts)


def _edge_of(name: str, best: float, values: Array) -> Message | None:
    """Return a warning if the best value is the smallest or largest of its grid."""
    if values.size < 2 or best not in (values.min(), values.max()):
        return None
    smallest = best == values.min()
    return Message(
        "the best {name}, {best:g}, is the {which} of the grid, and a {other} one may be better. "
        "Extend {grid}.",
        name=name,
        best=best,
        which="smallest" if smallest else "largest",
        other="smaller" if smallest else "larger",
        grid=Param(f"{name}s"),
    )
