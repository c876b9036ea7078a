"""The choice of C and gamma of a kernel.

For every gamma and every split into a training and a held-out part the kernel matrix or the
features are made once, and serve a path over all C (:mod:`ranksvm.model_selection.path`); the
metric is taken on the held-out part.  Such a cell, one gamma on one split, is the unit of work: one
runs at a time, with all threads and all of the memory, and what is finished can be kept in a file
(:mod:`ranksvm.model_selection.checkpoint`).

The useful gamma.  1 / (n_features * variance of X), "scale", makes the squared distances in the
exponent about 2; good ones lie within a few powers of 4 of it, and the default grid has five of
them, "scale" in the middle.  One gamma is one number for all splits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.kernels import is_sparse, resolve_gamma
from ranksvm.model_selection.checkpoint import Cell, Checkpoint, identity
from ranksvm.model_selection.path import check_grid
from ranksvm.model_selection.runs import SplitTask, naming
from ranksvm.model_selection.search import (
    Progress,
    Tally,
    best_places,
    check_choice_left,
    check_count,
    edge_of,
    unscored_texts,
)
from ranksvm.model_selection.splits import HeldOut, Split, TrainingSet, make_splits
from ranksvm.training import KernelSettings
from ranksvm.training.kernel import check_feature_room
from ranksvm.training.participants import comparable_items

__all__ = ["GridSearch", "check_refit_room", "default_gammas", "has_gamma", "search_grid"]

WITH_GAMMA = ("rbf", "laplacian", "poly", "sigmoid")
N_GAMMAS = 5
FACTOR = 4.0  # from one gamma to the next


def has_gamma(settings: KernelSettings) -> bool:
    """Whether the kernel has a gamma to choose."""
    return settings.kernel in WITH_GAMMA


def check_refit_room(
    utility: Array,
    groups: QueryGroups,
    settings: KernelSettings,
    item_weight: Array | None = None,
    query_weight: Array | None = None,
) -> None:
    """Raise when the features of all items do not fit the budget, though those of folds might."""
    if settings.approximation is not None:
        items = comparable_items(utility, groups, item_weight, query_weight)
        check_feature_room(items.size, settings)


def default_gammas(X: Any, n: int = N_GAMMAS, item_weight: Array | None = None) -> Array:
    """Return a log-spaced grid around ``gamma="scale"``.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_items, n_features)
    n : int, default=5
        At least 1.
    item_weight : ndarray of shape (n_items,) or None
        Weights of the items in the variance.

    Returns
    -------
    ndarray of shape (n,), ascending by factors of 4
    """
    check_count("gammas", n)
    powers = np.arange(n, dtype=np.float64) - 0.5 * (n - 1)
    return np.asarray(resolve_gamma("scale", X, item_weight) * FACTOR**powers, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class GridSearch:
    """What every pair of gamma and C is worth.

    Attributes
    ----------
    Cs : ndarray of shape (n_C,)
    gammas : ndarray of shape (n_gamma,)
        Both as given.
    metric, conventions : str
    scores : ndarray of shape (n_gamma, n_splits, n_C)
        The metric on the held-out parts; NaN for a split that has no query to take it on, and
        where a model scores held-out items by numbers that are not finite.
    counted : ndarray of bool, shape (n_splits,)
        Whether a split has a query to take the metric on.
    objectives, gaps, seconds : ndarray of shape (n_gamma, n_splits, n_C)
        Of the fits on the training parts.  Making the kernel matrix or the features ready counts
        for the smallest C.
    n_iter, n_products : ndarray of int64, shape (n_gamma, n_splits, n_C)
    has_gamma : bool
        Whether the kernel has a gamma.
    n_resumed : int
        Cells, of n_gamma * n_splits, that were taken over from a checkpoint.
    random_state : int or None
        That of all fits; drawn if an approximation was given none.
    shortfalls : tuple of str
        What to say about fits that ended before their tolerance.
    undefined : tuple of str
        What to say about splits that do not count.
    unscored : tuple of str
        What to say about fits whose scores are not finite.  Such a pair cannot be chosen.
    """

    Cs: Array
    gammas: Array
    metric: str
    conventions: str
    scores: Array
    counted: NDArray[np.bool_]
    objectives: Array
    gaps: Array
    seconds: Array
    n_iter: NDArray[np.int64]
    n_products: NDArray[np.int64]
    has_gamma: bool
    n_resumed: int
    random_state: int | None
    shortfalls: tuple[str, ...]
    undefined: tuple[str, ...]
    unscored: tuple[str, ...]

    @property
    def mean_scores(self) -> Array:
        """Mean over the splits that count, shape (n_gamma, n_C); NaN if it cannot be chosen."""
        mean: Array = self.scores[:, self.counted].mean(axis=1)
        return mean

    @property
    def means(self) -> Array:
        """The mean scores in one row, shape (n_gamma * n_C,)."""
        return self.mean_scores.ravel()

    @property
    def deviations(self) -> Array:
        """Standard deviation of the scores over these splits, shape (n_gamma * n_C,)."""
        deviation: Array = self.scores[:, self.counted].std(axis=1).ravel()
        return deviation

    @property
    def params(self) -> dict[str, Array]:
        """Every pair, C fastest: each of shape (n_gamma * n_C,); without a gamma C alone."""
        Cs = {"C": np.tile(self.Cs, self.gammas.size)}
        return {"gamma": np.repeat(self.gammas, self.Cs.size), **Cs} if self.has_gamma else Cs

    def flat(self, name: str) -> Array:
        """Values of an attribute by split and pair, shape (n_splits, n_gamma * n_C)."""
        values: Array = getattr(self, name)
        return values.transpose(1, 0, 2).reshape(values.shape[1], -1)

    @property
    def best_index(self) -> int:
        """Place of the best pair; of equal ones the smallest C, then the smallest gamma."""
        n = self.Cs.size
        best = best_places(self.means).tolist()
        return int(min(best, key=lambda place: (self.Cs[place % n], self.gammas[place // n])))

    @property
    def best_C(self) -> float:
        """C of the pair with the best mean score."""
        return float(self.Cs[self.best_index % self.Cs.size])

    @property
    def best_gamma(self) -> float:
        """Gamma of the pair with the best mean score."""
        return float(self.gammas[self.best_index // self.Cs.size])

    @property
    def best_score(self) -> float:
        """The best mean score."""
        return float(self.means[self.best_index])

    def facts(self) -> dict[str, Any]:
        """Return how C and gamma were chosen, as the file of a model tells it."""
        return {
            "metric": self.metric,
            "conventions": self.conventions,
            "Cs": self.Cs.tolist(),
            **({"gammas": self.gammas.tolist()} if self.has_gamma else {}),
            "mean_scores": self.mean_scores.tolist(),
        }

    @property
    def edges(self) -> tuple[str, ...]:
        """A sentence for each of C and gamma if the best one is the smallest or the largest."""
        told = (
            edge_of("C", self.best_C, self.Cs),
            edge_of("gamma", self.best_gamma, self.gammas),
        )
        return tuple(sentence for sentence in told if sentence is not None)


def search_grid(
    X: Any,
    utility: Array,
    groups: QueryGroups,
    settings: KernelSettings,
    Cs: Sequence[float] | Array,
    gammas: Sequence[float] | Array | None = None,
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
    checkpoint: str | os.PathLike[str] | None = None,
) -> GridSearch:
    """Fit every gamma and C on every training part and take the metric on what was held out.

    Parameters
    ----------
    X : ndarray, CSR or CSC of shape (n_items, n_features), float32 or float64, finite
        The kernel matrix, of shape (n_items, n_items), when the kernel is "precomputed".
    utility : ndarray of float64, shape (n_items,), finite
    groups : QueryGroups
    settings : KernelSettings
        Its C and gamma play no part.
    Cs : sequence of float
        Positive and different.
    gammas : sequence of float or None
        Positive and different; None is :func:`default_gammas`.  A kernel without gamma takes None,
        and the grid has one row, 1.0.
    folds, validation, metric, conventions, item_weight, query_weight, labels, progress
        As for :func:`ranksvm.model_selection.search_path`; cells that are taken over from a
        checkpoint count as done.
    n_threads : int
        Inside the fits; splits run one after the other.
    checkpoint : path-like or None
        File to keep finished cells in.  If it is there, they are not done again; a file of another
        search is refused.

    Returns
    -------
    GridSearch

    Raises
    ------
    ValueError
        If a split or the checkpoint cannot be used; the message says which one.
    """
    if is_sparse(X):
        X = X.tocsr()
    if validation is not None and is_sparse(validation.X):
        validation = validation._replace(X=validation.X.tocsr())
    C_grid = check_grid("C", Cs)
    gamma_grid = _check_gammas(gammas, settings, X, item_weight)
    items = TrainingSet(X, utility, groups, settings, item_weight, query_weight, labels)
    splits = make_splits(items, folds, validation, metric, conventions)
    random_state = settings.random_state
    if random_state is None and settings.approximation is not None:
        random_state = int(np.random.default_rng().integers(2**31))
    kept: Any = nullcontext()
    if checkpoint is not None:
        search = identity(items, splits, C_grid, metric, conventions)
        kept = Checkpoint(checkpoint, search, C_grid.size, len(splits), random_state)
        random_state = kept.random_state
    seeded = replace(settings, random_state=random_state)
    tally = Tally(gamma_grid.size * len(splits) * C_grid.size, progress)
    cells, n_resumed = [], 0
    with kept as file:
        for gamma in gamma_grid.tolist():
            chosen = items._replace(settings=replace(seeded, gamma=gamma))
            task = SplitTask(chosen, C_grid, metric, conventions)
            work = _Work(task, gamma, _where(settings, gamma), n_threads, tally, file)
            n_resumed += sum(work.known(number) is not None for number in range(len(splits)))
            cells.append([work.cell(number, split) for number, split in enumerate(splits)])
    return _gather(
        cells,
        splits,
        settings,
        Cs=C_grid,
        gammas=gamma_grid,
        metric=metric,
        conventions=conventions,
        n_resumed=n_resumed,
        random_state=random_state,
    )


def _check_gammas(
    gammas: Any, settings: KernelSettings, X: Any, item_weight: Array | None
) -> Array:
    if has_gamma(settings) and gammas is None:
        return default_gammas(X, item_weight=item_weight)
    if has_gamma(settings):
        return check_grid("gamma", gammas)
    if gammas is not None:
        raise ValueError(
            f"the kernel {settings.kernel!r} has no gamma: give no gammas; got {gammas!r}"
        )
    return np.ones(1)


def _where(settings: KernelSettings, gamma: float) -> str:
    return f"gamma = {gamma:.4g}, " if has_gamma(settings) else ""


class _Work(NamedTuple):
    """What is done for one gamma; ``where`` stands before what is said about it."""

    task: SplitTask
    gamma: float
    where: str
    n_threads: int
    tally: Tally
    file: Checkpoint | None

    def known(self, number: int) -> Cell | None:
        """Return the cell of a split if it is in the file."""
        return None if self.file is None else self.file.get(self.gamma, number)

    def cell(self, number: int, split: Split) -> Cell:
        """Return the cell of a split, from the file or by fits."""
        done = self.known(number)
        if done is not None:
            for C in self.task.Cs.tolist():
                self._tell(f"{split.name}, C = {C:.4g}: done before")
            return done
        with naming(self.where):
            cell = Cell.of(self.task.run(split, self.n_threads, self._tell))
        if self.file is not None:
            self.file.add(self.gamma, number, cell)
        return cell

    def _tell(self, message: str) -> None:
        self.tally.add(f"{self.where}{message}")


def _gather(
    cells: Sequence[Sequence[Cell]], splits: Sequence[Split], settings: KernelSettings, **about: Any
) -> GridSearch:
    def table(name: str, dtype: Any = np.float64) -> Any:
        return np.array([[getattr(cell, name) for cell in row] for row in cells], dtype=dtype)

    scores = table("scores")
    search = GridSearch(
        **about,
        scores=scores,
        counted=np.array([split.undefined is None for split in splits]),
        objectives=table("objectives"),
        gaps=table("gaps"),
        seconds=table("seconds"),
        n_iter=table("n_iter", np.int64),
        n_products=table("n_products", np.int64),
        has_gamma=has_gamma(settings),
        shortfalls=tuple(text for row in cells for cell in row for text in cell.shortfalls),
        undefined=tuple(split.undefined for split in splits if split.undefined is not None),
        unscored=tuple(
            text
            for gamma, of_gamma in zip(about["gammas"].tolist(), scores, strict=True)
            for text in unscored_texts(of_gamma, about["Cs"], splits, _where(settings, gamma))
        ),
    )
    check_choice_left(search)
    return search
