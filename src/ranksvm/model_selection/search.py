"""The choice of C: paths on folds, or against a validation set, scored by a metric.

Every split is a training part and a held-out part.  The path over all C is fitted on the first
(:mod:`ranksvm.model_selection.path`), the metric taken on the second.  The first split is solved by
itself, with all threads; its path then guides those of the others, which run in parallel.  Of
models whose coefficients belong to items, kernel models, one path cannot guide another, and there
is memory for one at a time: their splits run one after the other, each with all threads.  Neither
the number of threads nor the order in which splits end changes a bit of the result.

The useful C.  Over the *mean* of the pairs C = 50 is a fair start on sets of very different kinds,
and more often too small than too large: texts want far more.  So the default grid is log-spaced
from 50 * 4^-3 to 50 * 4^6, in steps of 2 when it has 19 values, and the same for "query_mean".
Over the *sum* of the pairs the same strengths are smaller by the weight N of all pairs of the set.
`make bench ARGS="--only path"` prints the best C of several sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice, shown
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.model_selection.path import check_Cs
from ranksvm.model_selection.runs import SplitResult, SplitTask, run_in_parallel
from ranksvm.model_selection.splits import HeldOut, Split, TrainingSet, make_splits
from ranksvm.training import REDUCTIONS, Fit, Settings

__all__ = [
    "DIGITS",
    "HeldOut",
    "PathSearch",
    "Progress",
    "Search",
    "Tally",
    "best_places",
    "check_choice_left",
    "default_Cs",
    "edge_of",
    "search_path",
    "unscored_texts",
]

# Called with what is done, what there is to do, and a line about what was done last.
Progress = Callable[[int, int, str], Any]

_MIDDLE_C = 50.0
_MOST_VALUES = 1_000_000  # of a grid
_SMALLEST, _LARGEST = -3.0, 6.0  # powers of 4 away from it
# Means that agree to so many digits count as equal.
DIGITS = 12


def check_count(name: str, n: int) -> None:
    """Raise unless a grid can have so many values."""
    if not 1 <= n <= _MOST_VALUES:
        raise ValueError(
            f"{name} must be a sequence, or how many values to try (at least 1); got {shown(n)}"
        )


def default_Cs(n: int, reduction: str, pair_weight: float) -> Array:
    """Return a log-spaced grid of n values that means the same for every reduction.

    Parameters
    ----------
    n : int
        At least 1.
    reduction : {"sum", "mean", "query_mean"}
    pair_weight : float
        Weight of all pairs, see :func:`ranksvm.training.total_pair_weight`.

    Returns
    -------
    ndarray of shape (n,), ascending
    """
    check_choice("reduction", reduction, REDUCTIONS)
    check_count("Cs", n)
    powers = np.linspace(_SMALLEST, _LARGEST, n) if n > 1 else np.zeros(1)
    Cs: Array = _MIDDLE_C * 4.0**powers
    return Cs / pair_weight if reduction == "sum" else Cs


class Search(Protocol):
    """What every search can tell; candidates stand in one row, whatever the grid is."""

    @property
    def metric(self) -> str: ...
    @property
    def shortfalls(self) -> tuple[str, ...]: ...
    @property
    def undefined(self) -> tuple[str, ...]: ...
    @property
    def unscored(self) -> tuple[str, ...]: ...
    @property
    def edges(self) -> tuple[str, ...]: ...
    @property
    def Cs(self) -> Array: ...
    @property
    def best_C(self) -> float: ...
    @property
    def best_score(self) -> float: ...

    @property
    def params(self) -> dict[str, Array]:
        """Parameters of the candidates by name, each of shape (n_candidates,)."""
        ...

    @property
    def means(self) -> Array:
        """Mean score of every candidate over the splits that count; NaN if it has none in one."""
        ...

    @property
    def deviations(self) -> Array:
        """Standard deviation over these splits, likewise."""
        ...

    @property
    def best_index(self) -> int:
        """Place of the best candidate."""
        ...

    def flat(self, name: str) -> Array:
        """Values of an attribute by split and candidate, shape (n_splits, n_candidates)."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return how the choice was made, as the file of a model tells it."""
        ...


@dataclass(frozen=True, eq=False)
class PathSearch:
    """What every C is worth.

    Attributes
    ----------
    Cs : ndarray of shape (n_C,)
        As given.
    metric, conventions : str
    scores : ndarray of shape (n_splits, n_C)
        The metric on the held-out parts; NaN for a split that has no query to take it on, and
        where a model scores held-out items by numbers that are not finite.
    counted : ndarray of bool, shape (n_splits,)
        Whether a split has a query to take the metric on.
    objectives, gaps, seconds : ndarray of shape (n_splits, n_C)
        Of the fits on the training parts; the certified gap is that of each fit on its own.
    n_iter, n_products : ndarray of int64, shape (n_splits, n_C)
    mean_coef : ndarray of shape (n_C, n_features) or None
        Mean over the splits, a good start for a fit on everything; None of kernel models.
    shortfalls : tuple of str
        What to say about fits that ended before their tolerance.
    undefined : tuple of str
        What to say about splits that do not count.
    unscored : tuple of str
        What to say about fits whose scores are not finite.  Their C cannot be chosen.
    """

    Cs: Array
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
    shortfalls: tuple[str, ...]
    undefined: tuple[str, ...]
    unscored: tuple[str, ...]

    @property
    def mean_scores(self) -> Array:
        """Mean over the splits that count, shape (n_C,); NaN for a C that cannot be chosen."""
        mean: Array = self.scores[self.counted].mean(axis=0)
        return mean

    @property
    def means(self) -> Array:
        """The mean scores."""
        return self.mean_scores

    @property
    def deviations(self) -> Array:
        """Standard deviation of the scores over the splits that count, shape (n_C,)."""
        deviation: Array = self.scores[self.counted].std(axis=0)
        return deviation

    @property
    def best_index(self) -> int:
        """Place of the best C: the highest mean score, and of equal ones the smallest C."""
        best = best_places(self.means)
        return int(best[np.argmin(self.Cs[best])])

    @property
    def best_C(self) -> float:
        """The C with the best mean score."""
        return float(self.Cs[self.best_index])

    @property
    def best_score(self) -> float:
        """The best mean score."""
        return float(self.mean_scores[self.best_index])

    @property
    def edges(self) -> tuple[str, ...]:
        """A sentence when the best C is the smallest or the largest one."""
        edge = edge_of("C", self.best_C, self.Cs)
        return () if edge is None else (edge,)

    @property
    def params(self) -> dict[str, Array]:
        """What was tried."""
        return {"C": self.Cs}

    def flat(self, name: str) -> Array:
        """Values of an attribute by split and candidate, shape (n_splits, n_C)."""
        values: Array = getattr(self, name)
        return values

    def facts(self) -> dict[str, Any]:
        """Return how C was chosen, as the file of a model tells it."""
        return {
            "metric": self.metric,
            "conventions": self.conventions,
            "Cs": self.Cs.tolist(),
            "mean_scores": self.mean_scores.tolist(),
        }


def best_places(means: Array) -> NDArray[np.int64]:
    """Places of the highest of some means, equal up to rounding; ValueError if all are NaN."""
    if np.isnan(means).all():
        raise ValueError("no candidate has a score")
    rounded = np.round(means, DIGITS)
    return np.flatnonzero(rounded == np.nanmax(rounded))


def unscored_texts(
    scores: Array, Cs: Array, splits: Sequence[Split], where: str = ""
) -> tuple[str, ...]:
    """Return what to say about scores, of shape (n_splits, n_C), that should be there."""
    return tuple(
        f"{where}{split.name}, C = {C:.4g}: the scores of held-out items are not finite, and this "
        "candidate cannot be chosen. Scale the features."
        for split, row in zip(splits, scores, strict=True)
        if split.undefined is None
        for C in Cs[np.isnan(row)].tolist()
    )


def edge_of(name: str, best: float, grid: Array) -> str | None:
    """Return a sentence when the best of a grid is its smallest or largest value; or None."""
    if grid.size < 2 or best not in (grid.min(), grid.max()):
        return None
    smallest = best == grid.min()
    return (
        f"the best {name}, {best:g}, is the {'smallest' if smallest else 'largest'} of the grid, "
        f"and a {'smaller' if smallest else 'larger'} one may be better. Give {name}s that reach "
        "further."
    )


def search_path(
    X: Any,
    utility: Array,
    groups: QueryGroups,
    settings: Settings,
    Cs: Sequence[float] | Array,
    *,
    folds: Iterable[tuple[Any, Any]] | None = None,
    validation: HeldOut | None = None,
    metric: str = "pairwise_accuracy",
    conventions: str = "standard",
    item_weight: Array | None = None,
    query_weight: Array | None = None,
    labels: NDArray[Any] | None = None,
    n_threads: int = 1,
    progress: Progress | None = None,
) -> PathSearch:
    """Fit every C on every training part and take the metric on what was held out.

    Parameters
    ----------
    X : ndarray, CSR or CSC of shape (n_items, n_features), float32 or float64, finite
    utility : ndarray of float64, shape (n_items,), finite
    groups : QueryGroups
    settings : LinearSettings or KernelSettings
        Its C plays no part.
    Cs : sequence of float
        Positive and different.
    folds : iterable of (train, test) or None
        Row numbers; a query has to be on one side.  Each running split holds a copy of its rows.
    validation : HeldOut or None
        Instead of folds: train on everything, take the metric on these items.
    metric, conventions : str
        As for :func:`ranksvm.metrics.evaluate`.
    item_weight : ndarray of shape (n_items,) or None
        For the fits; the metric counts every item the same.
    query_weight : ndarray of shape (n_queries,) or None
        Likewise.
    labels : ndarray of shape (n_items,) or None
        What the metric looks at, if float64 does not hold the values; None: the utilities.
    n_threads : int
        In all: as many splits at a time, and what is left over inside them; all of them inside
        the fits of kernel models.
    progress : callable or None
        Called as ``progress(done, total, message)`` after every fit, from the calling thread.

    Returns
    -------
    PathSearch

    Raises
    ------
    ValueError
        If a split cannot be used; the message says which one.
    """
    grid = check_Cs(Cs)
    items = TrainingSet(X, utility, groups, settings, item_weight, query_weight, labels)
    splits = make_splits(items, folds, validation, metric, conventions)
    task = SplitTask(items, grid, metric, conventions)
    tally = Tally(len(splits) * grid.size, progress)
    first, *others = splits
    together = settings.shares_coefficients
    results = [task.run(first, n_threads, tally.add, keep=together and bool(others))]
    guide = results[0].guide
    workers = min(n_threads, len(others)) if together else 1
    if workers > 1:
        results += run_in_parallel(task, others, workers, n_threads // workers, guide, tally.add)
    else:
        results += [task.run(split, n_threads, tally.add, guide=guide) for split in others]
    mean_coef = _mean_coef(results) if together else None
    return _gather(results, splits, task, mean_coef)


class Tally:
    """Counts what is done and passes it on."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0

    def add(self, message: str) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total, message)


def _mean_coef(results: Sequence[SplitResult]) -> Array:
    mean = np.zeros((len(results[0].fits), results[0].fits[0].coef.size))
    for one in results:
        for row, fit in zip(mean, one.fits, strict=True):
            row += fit.coef / len(results)
    return mean


def _gather(
    results: Sequence[SplitResult],
    splits: Sequence[Split],
    task: SplitTask,
    mean_coef: Array | None,
) -> PathSearch:
    def table(quantity: Callable[[Fit], Any], dtype: Any = np.float64) -> Any:
        return np.array([[quantity(fit) for fit in one.fits] for one in results], dtype=dtype)

    shortfalls = [fit.shortfall for one in results for fit in one.fits]
    scores = np.array([one.scores for one in results])
    search = PathSearch(
        Cs=task.Cs,
        metric=task.metric,
        conventions=task.conventions,
        scores=scores,
        counted=np.array([split.undefined is None for split in splits]),
        objectives=table(lambda fit: fit.objective),
        gaps=table(lambda fit: fit.gap),
        seconds=np.array([one.seconds for one in results]),
        n_iter=table(lambda fit: fit.n_iter, np.int64),
        n_products=table(lambda fit: fit.n_products, np.int64),
        mean_coef=mean_coef,
        shortfalls=tuple(shortfall for shortfall in shortfalls if shortfall is not None),
        undefined=tuple(split.undefined for split in splits if split.undefined is not None),
        unscored=unscored_texts(scores, task.Cs, splits),
    )
    check_choice_left(search)
    return search


def check_choice_left(search: Search) -> None:
    """Raise when no candidate has a score in every split that counts."""
    if np.isnan(search.means).all():
        raise ValueError(
            f"there is nothing to choose from: no candidate has finite scores in every split. "
            f"{search.unscored[0]}"
        )
