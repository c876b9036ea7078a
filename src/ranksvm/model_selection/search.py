"""The choice of parameters: every candidate fitted on training parts, scored on held-out parts.

A *candidate* is one value of every parameter that is searched.  Along C fits follow a path, each
from its neighbours (:mod:`ranksvm.model_selection.path`); other parameters, such as gamma, have a
path for each of their values.  So the unit of work, a *cell*, is one path on one training part: the
problem is made ready once, and serves all C.  Finished cells can be kept in a file
(:mod:`ranksvm.model_selection.checkpoint`).

Of models whose coefficients mean the same on every part, linear ones, the first path guides those
of the other splits, which then run in parallel.  Of others, kernel models, one path cannot guide
another, and there is memory for one at a time: cells run one after the other, each with all
threads.  So do all cells that are kept in a file, which holds no path that could guide others.
Neither the number of threads nor the order in which splits end, nor an interrupt, changes a bit of
the result.

Of candidates with the best mean score over the splits the one with the smallest C is chosen, and of
those the one with the smallest of the other parameters: the most regular, then the smoothest.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Message, Param
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import Settings
from ranksvm.learners.problem import shortfall
from ranksvm.model_selection.checkpoint import Cell, Checkpoint, identity
from ranksvm.model_selection.grids import make_grid
from ranksvm.model_selection.runs import SplitResult, SplitTask, naming, run_in_parallel
from ranksvm.model_selection.splits import Split, make_splits
from ranksvm.solvers.base import Status

__all__ = ["Progress", "Search", "search"]

# Called with what is done, what there is to do, and a line about what was done last.
Progress = Callable[[int, int, str], Any]

# Means that agree to so many digits count as equal.
DIGITS = 12


@dataclass(frozen=True, eq=False)
class Search:
    """What every candidate is worth.

    Attributes
    ----------
    grid : dict of str to ndarray
        The values of every parameter, C last.
    settings : Settings
        What else the fits had; with a random state that was drawn if an approximation had none.
    metric, conventions : str
    scores : ndarray of shape (n_splits, n_candidates)
        The metric on the held-out parts; NaN for a split that has no query to take it on, and
        where a model scores held-out items by numbers that are not finite.
    counted : ndarray of bool, shape (n_splits,)
        Whether a split has a query to take the metric on.
    objectives, gaps, seconds : ndarray of shape (n_splits, n_candidates)
        Of the fits on the training parts; the certified gap is that of each fit on its own.  Making
        a problem ready counts for its smallest C.
    n_iter, n_products : ndarray of int64, shape (n_splits, n_candidates)
    mean_coef : ndarray of shape (n_candidates, n_features) or None
        Mean over the splits, a good start for a fit on everything; None of kernel models, and of
        cells that are kept in a file.
    n_resumed : int
        Cells that were taken over from a checkpoint.
    shortfalls : tuple of Message
        What to say about fits that ended before their tolerance.
    undefined : tuple of str
        What to say about splits that do not count.
    unscored : tuple of str
        What to say about fits whose scores are not finite.  Such a candidate cannot be chosen.
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
        """Parameters of the candidates by name, C fastest; each of shape (n_candidates,)."""
        columns = np.meshgrid(*self.grid.values(), indexing="ij")
        return {name: column.ravel() for name, column in zip(self.grid, columns, strict=True)}

    @property
    def means(self) -> Array:
        """Mean score over the splits that count; NaN for a candidate that cannot be chosen."""
        mean: Array = self.scores[self.counted].mean(axis=0)
        return mean

    @property
    def deviations(self) -> Array:
        """Standard deviation of the scores over the splits that count."""
        deviation: Array = self.scores[self.counted].std(axis=0)
        return deviation

    @property
    def best_index(self) -> int:
        """Place of the best candidate; see the module's text."""
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
        """Coefficients for a fit of the best candidate on everything to begin with."""
        return None if self.mean_coef is None else self.mean_coef[self.best_index]

    @property
    def edges(self) -> tuple[Message, ...]:
        """A sentence for each parameter whose best value is the smallest or the largest."""
        told = (_edge_of(name, best, self.grid[name]) for name, best in self.best.items())
        return tuple(sentence for sentence in told if sentence is not None)

    def facts(self) -> dict[str, Any]:
        """Return how the choice was made, as the file of a model tells it."""
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
    """Fit every candidate on every training part and take the metric on what was held out.

    Parameters
    ----------
    data : RankingData
        With labels, and without preferences.  Weights are for the fits; the metric counts every
        item the same.
    settings : Settings
        Its C, and the other parameters that are searched, play no part.
    Cs : sequence of float, int or None, default=None
        Values to try, positive and different; how many of the default grid; or None for all of it.
    others : mapping of str to the same, or None, default=None
        Of parameters beside C: ``{"gamma": [0.1, 1.0]}``.
    folds : iterable of (train, test) or None
        Row numbers; a query has to be on one side.  Each running split holds a copy of its rows.
    validation : RankingData or None
        Instead of folds: train on everything, take the metric on these items.
    metric, conventions : str
        As for :func:`ranksvm.metrics.evaluate`.
    n_threads : int
        In all: as many splits at a time, and what is left over inside them; all of them inside
        the fits of kernel models.
    progress : callable or None
        Called as ``progress(done, total, message)`` after every fit, from the calling thread.
    checkpoint : path-like or None
        File to keep finished cells in.  If it is there, they are not done again; a file of another
        search is refused, and one that is in use.

    Returns
    -------
    Search

    Raises
    ------
    ValueError
        If a split or the checkpoint cannot be used; the message says which one.
    """
    if data.preferences is not None:
        raise ValueError("a search takes no preferences, which folds would tear apart")
    grid = make_grid(data, settings, Cs, others)
    splits = make_splits(data, folds, validation, metric, conventions)
    *beside, _ = grid
    rows = [
        dict(zip(beside, values, strict=True))
        for values in itertools.product(*(grid[name].tolist() for name in beside))
    ]
    # All fits draw alike; a search that goes on draws as it began.
    seed = _random_state(settings)
    tally = _Tally(len(rows) * len(splits) * grid["C"].size, progress)
    cells: list[list[Cell]] = []
    mean_coefs: list[Array] = []
    n_resumed = 0
    with ExitStack() as stack:
        file: Checkpoint | None = None
        if checkpoint is not None:
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
    """Return the seed of all fits, drawn if they need one and have none."""
    seed: int | None = getattr(settings, "random_state", None)
    if seed is None and getattr(settings, "approximation", None) is not None:
        seed = int(np.random.default_rng().integers(2**31))
    return seed


class _Tally:
    """Counts what is done and passes it on."""

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
    """The cells of one row of the grid: the same parameters, but for C."""

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
        """Name of the row in a checkpoint."""
        return ", ".join(f"{name}={value!r}" for name, value in self.row.items())

    @property
    def n_known(self) -> int:
        """How many cells are in the file."""
        return sum(self._known(number) is not None for number in range(len(self.splits)))

    def _known(self, number: int) -> Cell | None:
        return None if self.file is None else self.file.get(self.key, number)

    def tell(self, message: str) -> None:
        self.tally.add(f"{self.where}{message}")

    def one_by_one(self) -> list[Cell]:
        """Do the splits one after the other, each with all threads."""
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
        """Do the first split, and then the others side by side along its path."""
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
    """Return what to say about scores that should be there."""
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
    """Return a sentence when the best of a grid is its smallest or largest value; or None."""
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
