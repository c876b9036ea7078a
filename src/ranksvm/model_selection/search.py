"""Hyperparameter search: fit every candidate on training parts, score it on held-out parts.

A *candidate* is one combination of parameter values.  The fits for different C follow a path, each
one starting from the previous solutions (:mod:`ranksvm.model_selection.path`).  Each value of
another parameter, such as gamma, has its own path.  The unit of work is therefore a *cell*: one
path on one training part, for which the problem is prepared once.  Finished cells can be stored in
a file (:mod:`ranksvm.model_selection.checkpoint`).

For linear models, whose coefficients mean the same on every training part, the path of the first
split guides the paths of the other splits, and splits run in parallel.  For kernel models a path
cannot guide another one, and memory is needed for one problem at a time: their cells run one after
the other, each with all threads.  So do cells that are stored in a file, because it does not
contain the paths.  The results do not depend on the number of threads, on the order in which splits
finish, or on interruptions, down to the last bit.

Of the candidates with the best mean score over the splits, the one with the smallest C is chosen,
and of those the one with the smallest other parameters.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Message, Param
from ranksvm._text import counted
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import make_problem
from ranksvm.learners.calibration import with_probability
from ranksvm.learners.fit import Fit
from ranksvm.learners.gains import check_gains
from ranksvm.learners.problem import PathProblem, RankProblem
from ranksvm.learners.settings import Settings, excluded_by
from ranksvm.learners.views import check_held_out, with_view
from ranksvm.model_selection.cell import Cell
from ranksvm.model_selection.choice import choose_metric
from ranksvm.model_selection.grids import make_grid
from ranksvm.model_selection.runs import Task
from ranksvm.model_selection.splits import Split, make_splits
from ranksvm.models.model import Model
from ranksvm.solvers.base import Callback

if TYPE_CHECKING:
    from ranksvm.model_selection.checkpoint import Checkpoint

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
    metric_default_for : str
        What the metric was chosen for, such as "graded labels in queries"; empty if it was named.
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
    on : str
        What the candidates were compared on: "5 folds", or the name of the validation set.
    n_resumed : int
        Number of parts of the search that were loaded from a checkpoint.  A part is all values of
        C, for one value of each other parameter, on one split.
    shortfalls : tuple of Message
        One warning for each fit that stopped before it reached its tolerance.
    undefined : tuple of str
        One warning for each split on which the metric is undefined; it does not count.
    unscored : tuple of str
        One warning for each fit that gave held-out items scores that are not finite.  Its candidate
        cannot be chosen.
    separated : tuple of str
        One warning for each split that separates the items of pairs.
    """

    grid: dict[str, Array]
    settings: Settings
    metric: str
    metric_default_for: str
    conventions: str
    scores: Array
    counted: NDArray[np.bool_]
    objectives: Array
    gaps: Array
    seconds: Array
    n_iter: NDArray[np.int64]
    n_products: NDArray[np.int64]
    mean_coef: Array | None
    on: str
    n_resumed: int
    shortfalls: tuple[Message, ...]
    undefined: tuple[str, ...]
    unscored: tuple[str, ...]
    separated: tuple[str, ...] = ()

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """Parameters of each candidate; C varies fastest."""
        return _combinations(self.grid)

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
        """Index of the best candidate; ties go to the smallest C, then to smaller other values.

        Of names, such as those of weights of pairs, the first one of the grid is the smallest.
        """
        rounded = np.round(self.means, DIGITS)
        best = np.flatnonzero(rounded == np.nanmax(rounded)).tolist()
        candidates = self.candidates

        def size(place: int) -> list[float]:  # names are as large as their place in the grid
            return [
                float(np.flatnonzero(self.grid[name] == value)[0]) if _is_name(value) else value
                for name, value in reversed(candidates[place].items())
            ]

        return int(min(best, key=size))

    @property
    def best(self) -> dict[str, Any]:
        """Parameters of the best candidate."""
        return self.candidates[self.best_index]

    @property
    def best_score(self) -> float:
        """The best mean score."""
        return float(self.means[self.best_index])

    @property
    def best_settings(self) -> Settings:
        """Settings of the best candidate."""
        return _with(self.settings, **self.best)

    @property
    def edges(self) -> tuple[Message, ...]:
        """A warning for each parameter whose best value is the smallest or largest one tried."""
        edges = []
        for name, best in self.best.items():
            values = self.grid[name]
            if _is_name(best) or values.size == 1 or best not in (values.min(), values.max()):
                continue
            smallest = best == values.min()
            edges.append(
                Message(
                    "the best {name}, {best:g}, is the {which} of the grid, and a {other} one may "
                    "be better. Extend {grid}.",
                    name=name,
                    best=best,
                    which="smallest" if smallest else "largest",
                    other="smaller" if smallest else "larger",
                    grid=Param(f"{name}s"),
                )
            )
        return tuple(edges)

    @property
    def best_start(self) -> Array | None:
        """Starting point for a fit of the best candidate on all items, if there is one."""
        return None if self.mean_coef is None else self.mean_coef[self.best_index]

    def refit(
        self,
        data: RankingData,
        *,
        n_threads: int = 1,
        callback: Callback | None = None,
        calibrate: bool | None = None,
    ) -> tuple[Fit, Model]:
        """Fit the best candidate on all items, whose features of the query may be made already.

        ``calibrate``: whether a model of explicit pairs shall know probabilities; None if there are
        no such pairs.
        """
        problem = make_problem(data, self.best_settings, n_threads=n_threads)
        assert isinstance(problem, PathProblem)
        fit = problem.solve(start=self.best_start, callback=callback)
        model = problem.model(fit)
        if calibrate is not None:
            assert isinstance(problem, RankProblem)
            model = with_probability(model, data, problem, fit, calibrate=calibrate)
        return fit, model

    def warnings(self, refit: Fit | None = None) -> Iterator[tuple[Message, bool]]:
        """Yield the warnings about this search, and whether each is about fits that ended early.

        With ``refit``, the fit of the best candidate on all items counts as one of the fits.
        """
        short, n_splits, n_fits = list(self.shortfalls), len(self.scores), self.scores.size
        if refit is not None:
            short += [] if refit.shortfall is None else [refit.shortfall]
        for those, total, what in (
            (self.undefined, n_splits, "splits do not count"),
            (self.separated, n_splits, "splits separate items of pairs"),
            (self.unscored, n_fits, "fits have no score"),
            (short, n_fits + (refit is not None), "fits ended early"),
        ):
            if those:
                text = f"{len(those)} of {total} {what}, the first of them: {{first}}"
                yield Message(text, first=those[0]), those is short
        for edge in self.edges:
            yield edge, False

    def facts(self) -> dict[str, Any]:
        """Return a description of the search for the model file."""
        return {
            "metric": self.metric,
            "conventions": self.conventions,
            "on": self.on,
            "splits": len(self.scores),
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
    metric: str | None = "auto",
    conventions: str = "standard",
    n_threads: int = 1,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Search:
    """Fit every candidate on every training part, and compute the metric on the held-out part.

    Parameters
    ----------
    data : RankingData
        Items with labels, preferences or both.  Weights are used for the fits; of the metrics, only
        pair_accuracy uses them, those of the pairs.
    settings : Settings
        Settings of the fits.  Its C and the other searched parameters are ignored.
    Cs : sequence of float, int or None, default=None
        Values of C to try (positive, no duplicates), or their number in the default grid; None uses
        the default number.
    others : mapping of str to such values, or None, default=None
        Values of other parameters, for example ``{"gamma": [0.1, 1.0]}`` or
        ``{"pair_weight": ["uniform", "gain"]}``.
    folds : iterable of (train, test) or None
        Row numbers or masks.  A query must not be on both sides.  Preferences between the two sides
        count on neither, and there is a warning.  Each running split holds a copy of its rows.
    validation : RankingData or None
        Use this set as the held-out part, instead of folds, and train on all of ``data``.
    metric : str or None, default="auto"
        Name of a metric; "auto" or None takes that of :mod:`ranksvm.model_selection.choice`.
    conventions : {"standard", "letor"}, default="standard"
        As in :func:`ranksvm.metrics.evaluate`.
    n_threads : int
        Total number of threads.  Splits of linear models share them; every other fit uses all.
    progress : callable or None
        Called as ``progress(done, total, message)`` after each fit, from the calling thread.
    checkpoint : path-like or None
        File to store finished parts in.  If it exists, the search continues from it.  The file of a
        different search, or one that is in use, is refused.

    Returns
    -------
    Search

    Raises
    ------
    ValueError
        If a grid, a split or the checkpoint cannot be used; the message says which.
    """
    # Once for all folds, which are made of whole queries.  (Those of one ranking are not: their
    # items are compared with all items of the ranking, in every fold.)
    data = with_view(data, settings.view, n_threads=n_threads)
    if validation is not None:
        check_held_out(data, validation, settings.view)
        validation = with_view(validation, settings.view, n_threads=n_threads)
    grid = make_grid(data, settings, Cs, others)
    judge, default_for = choose_metric(metric, data, validation, conventions)
    metric = judge.name
    splits = make_splits(data, folds, validation, judge, n_threads=n_threads)
    beside = {name: values for name, values in grid.items() if name != "C"}
    rows = _combinations(beside)
    for row in rows:  # before the work of other candidates
        check_gains(data, _with(settings, **row))
    # One seed for all fits, also after a search is resumed.
    seed = _random_state(settings)
    total, done = len(rows) * len(splits) * grid["C"].size, itertools.count(1)

    def tell(message: str) -> None:
        if progress is not None:
            progress(next(done), total, message)

    cells: list[list[Cell]] = []  # by row and split
    mean_coefs: list[Array] = []
    n_resumed = 0
    with ExitStack() as stack:
        file: Checkpoint[Cell] | None = None
        if checkpoint is not None:
            # Not every Python has SQLite.
            from ranksvm.model_selection.checkpoint import Checkpoint, identity

            which = identity(data, settings, splits, grid["C"], metric, conventions, list(beside))
            read = partial(Cell.from_text, n_C=grid["C"].size, metric=metric)
            file = stack.enter_context(Checkpoint(checkpoint, which, read, seed))
            seed = file.random_state
        if seed is not None:
            settings = _with(settings, random_state=seed)
        for row in rows:
            where = _where(row)
            task = Task(data, _with(settings, **row), grid["C"], judge, where, tell)
            if settings.shares_coefficients and file is None:
                runs = task.run_guided(splits, n_threads)
                cells.append([run.cell for run in runs])
                shares = (run.coefs / len(runs) for run in runs)
                mean_coefs.append(sum(shares, start=np.zeros_like(runs[0].coefs)))
                continue
            key = ", ".join(f"{name}={value!r}" for name, value in row.items())
            cells.append([])
            for number, split in enumerate(splits):
                cell = None if file is None else file.get(key, number)
                if cell is None:
                    cell = task.run(split, n_threads).cell
                    if file is not None:
                        file.add(key, number, cell)
                else:
                    n_resumed += 1
                    for C in grid["C"].tolist():
                        tell(f"{where}{split.name}, C = {C:.4g}: done before")
                cells[-1].append(cell)
    return _gathered(
        rows,
        cells,
        splits,
        grid=grid,
        settings=settings,
        metric=metric,
        metric_default_for=default_for,
        conventions=conventions,
        mean_coef=np.concatenate(mean_coefs) if mean_coefs else None,
        separated=tuple(_separated(data, splits)),
        on=f"{len(splits)} folds" if validation is None else validation.origin.name,
        n_resumed=n_resumed,
    )


def _gathered(
    rows: Sequence[Mapping[str, Any]],
    cells: Sequence[Sequence[Cell]],
    splits: Sequence[Split],
    *,
    grid: dict[str, Array],
    settings: Settings,
    **known: Any,
) -> Search:
    """Return the results of all cells as tables, with warnings."""

    def table(name: str) -> Any:
        by_row = np.array([[getattr(cell, name) for cell in row] for row in cells])
        return by_row.transpose(1, 0, 2).reshape(len(splits), -1)

    short = (one for row in cells for cell in row for one in cell.shortfalls(settings.tol))
    unscored = tuple(
        f"{_where(row)}{split.name}, C = {C:.4g}: the scores of held-out items are not finite, and "
        "this candidate cannot be chosen. Scale the features."
        for row, of_row in zip(rows, cells, strict=True)
        for k, C in enumerate(grid["C"].tolist())
        for split, cell in zip(splits, of_row, strict=True)
        if split.undefined is None and math.isnan(cell.scores[k])
    )
    tables = ("scores", "objectives", "gaps", "seconds", "n_iter", "n_products")
    found = Search(
        grid=grid,
        settings=settings,
        **{name: table(name) for name in tables},
        counted=np.array([split.undefined is None for split in splits]),
        shortfalls=tuple(short),
        undefined=tuple(split.undefined for split in splits if split.undefined is not None),
        unscored=unscored,
        **known,
    )
    if np.isnan(found.means).all():
        raise ValueError(
            "there is nothing to choose from: no candidate has finite scores in every split. "
            f"{unscored[0]}"
        )
    return found


def _separated(data: RankingData, splits: Sequence[Split]) -> Iterator[str]:
    """Yield a warning for each split that separates the items of pairs."""
    for split in splits:
        count = split.separated(data)
        if count:
            yield (
                f"{split.name} has {counted(count, 'pair')} with one item in the training part and "
                "one in the held-out part, which count in neither."
            )


def _combinations(grid: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Return all combinations of the values of a grid; the last parameter varies fastest."""
    values = itertools.product(*(values.tolist() for values in grid.values()))
    return [dict(zip(grid, row, strict=True)) for row in values]


def _where(row: Mapping[str, Any]) -> str:
    """Return the beginning of messages about a row of the grid."""
    return "".join(
        f"{name} = {value if _is_name(value) else f'{value:.4g}'}, " for name, value in row.items()
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _with(settings: Settings, **values: Any) -> Settings:
    return replace(settings, **values)


def _random_state(settings: Any) -> int | None:
    """Return the seed of all fits; draw one if they need it and have none."""
    if not hasattr(settings, "random_state"):
        return None
    seed = settings.random_state
    if seed is None and excluded_by(settings, "random_state") is None:
        seed = np.random.default_rng().integers(2**31)
    return None if seed is None else int(seed)
