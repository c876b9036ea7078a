"""The search of :class:`ranksvm.AutoRankSVM`: many candidates, the best of which are averaged.

A *candidate* is a pair weight and a C in a space (:mod:`ranksvm.model_selection.auto_plan`).  The
first split decides which spaces are looked at; with several splits, the most promising candidates
are then fitted on the others, and compared by their mean score.

The search ends when nothing is left to try, when its time is up, or when it is interrupted.  What
was found until then counts, except for a space that was not finished.

The model is a sum of the best candidates (:mod:`ranksvm.learners.ensemble_model`).  Scores of
different candidates have different scales, so each is divided by the standard deviation of its
scores within queries.  The sum of candidates of one space is one model of that space.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ranksvm._text import counted
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.ensemble_model import EnsembleModel
from ranksvm.learners.settings import Settings
from ranksvm.learners.views import with_view
from ranksvm.metrics.registry import Metric
from ranksvm.model_selection.auto_cells import (
    Key,
    Part,
    SpaceFits,
    SpaceRun,
    run_space,
)
from ranksvm.model_selection.auto_plan import (
    KERNEL_CS,
    LINEAR_CS,
    Explorer,
    Preset,
    Space,
    families_of,
    pair_weights_for,
    settings_of,
    view_of,
)
from ranksvm.model_selection.choice import choose_metric
from ranksvm.model_selection.splits import Split, make_splits
from ranksvm.models.model import Model

if TYPE_CHECKING:
    from ranksvm.model_selection.checkpoint import Checkpoint

# Called as progress(done, total, message).
Progress = Callable[[int, int, str], Any]
# With several splits: this many candidates for each model are fitted on all of them ...
CONTENDERS = 3
# ... and this share of the time limit is for the first split.
FIRST_SHARE = 0.4
# Estimates of the time that is needed to fit the models again are multiplied by this.
CAUTION = 1.3
# Candidates in the leaderboard of a model file.
MOST_LISTED = 100


class _TimeIsUp(Exception):
    """The time limit is reached."""


@dataclass
class Candidate:
    """A candidate, and how it did.

    Attributes
    ----------
    space : Space
    key : Key
        Pair weight and C.
    settings : Settings
    scores : list of float
        Metric on the held-out part of every split that was looked at.
    seconds : float
        Time of its fits.
    """

    space: Space
    key: Key
    settings: Settings
    scores: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Mean score; NaN if one of them is."""
        return float(np.mean(self.scores))

    def row(self) -> dict[str, Any]:
        """Return its parameters and its score, for a leaderboard."""
        shown = self.settings
        kernel = getattr(shown, "kernel", "linear")
        return {
            "kernel": kernel,
            "scaling": shown.scaling,
            "query_features": list(shown.query_features),
            "pair_weight": self.key.pair_weight,
            "gamma": None if kernel == "linear" else getattr(shown, "gamma", None),
            "C": self.key.C,
            "score": self.mean,
            "splits": len(self.scores),
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class AutoResult:
    """The results of a search.

    Attributes
    ----------
    candidates : list of Candidate
        Those that were looked at on all splits, best first; then the others.
    chosen : list of Candidate
        The best ones.
    metric, conventions, on : str
        As in :class:`ranksvm.model_selection.search.Search`.
    metric_default_for : str
    ended : str
        Why the search ended: "complete", "time limit" or "interrupted".
    seconds : float
    n_splits : int
        Number of splits that the chosen candidates were compared on.
    n_resumed : int
        Number of spaces, on one split each, that were loaded from a checkpoint.
    """

    candidates: list[Candidate]
    chosen: list[Candidate]
    metric: str
    metric_default_for: str
    conventions: str
    on: str
    ended: str
    seconds: float
    n_splits: int
    n_resumed: int
    kept: dict[tuple[Space, Key], tuple[Model, float]]

    def leaderboard(self) -> list[dict[str, Any]]:
        """Return all candidates, best first."""
        members = {(one.space, one.key) for one in self.chosen}
        return [
            {**one.row(), "chosen": (one.space, one.key) in members} for one in self.candidates
        ]

    def facts(self) -> dict[str, Any]:
        """Return a description of the search for the model file."""
        return {
            "metric": self.metric,
            "conventions": self.conventions,
            "on": self.on,
            "splits": self.n_splits,
            "best_score": self.chosen[0].mean,
            "n_candidates": len(self.candidates),
            "ended": self.ended,
            "seconds": self.seconds,
            "leaderboard": self.leaderboard()[:MOST_LISTED],
        }


class Budget:
    """The time that a search may take.

    Parameters
    ----------
    seconds : float or None
        None for as long as it takes.
    """

    def __init__(self, seconds: float | None) -> None:
        self._began = time.perf_counter()
        self._seconds = math.inf if seconds is None else seconds

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def check(self, reserved: float, share: float = 1.0) -> None:
        """Raise if only the reserved seconds are left of this share of the time."""
        if self.spent + reserved > share * self._seconds:
            raise _TimeIsUp


class AutoSearch:
    """Looks for the best candidates.

    Parameters
    ----------
    data : RankingData
        Items with labels.
    preset : Preset
        What to try.
    folds, validation, metric, conventions
        As for :func:`ranksvm.model_selection.search.search`.
    n_models : int
        Number of candidates to choose.
    n_landmarks : int
        Number of landmarks of kernel models.
    random_state : int
        Seed of the landmarks.
    budget : Budget
        The time for everything, ``refit`` included.
    refit : bool
        Whether the chosen candidates will be fitted again, on all items.
    n_threads : int
    progress : callable or None
        Called as ``progress(done, total, message)`` after each space.
    """

    def __init__(
        self,
        data: RankingData,
        preset: Preset,
        *,
        folds: Iterable[tuple[Any, Any]] | None,
        validation: RankingData | None,
        metric: str | None,
        conventions: str,
        n_models: int,
        n_landmarks: int,
        random_state: int,
        budget: Budget,
        refit: bool,
        n_threads: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self._data, self._validation = data, validation
        parsed, self._default_for = choose_metric(metric, data, validation, conventions)
        self._metric: Metric = parsed
        self._conventions = conventions
        splits = make_splits(
            data, folds, validation, parsed.name, conventions, n_threads=n_threads
        )
        self._all_splits = splits
        self._splits = [one for one in splits if one.undefined is None]
        self._n_models, self._n_landmarks, self._seed = n_models, n_landmarks, random_state
        self._budget, self._refits = budget, refit
        self._n_threads, self._progress = n_threads, progress
        self._families = families_of(data, preset)
        self._pair_weights = pair_weights_for(data, preset)
        self._candidates: dict[tuple[Space, Key], Candidate] = {}
        self._kept: dict[tuple[Space, Key], tuple[Model, float]] = {}
        self._space_seconds: dict[Space, float] = {}  # to prepare it, on the first split
        self._settings: dict[Space, Settings] = {}
        self._views: dict[Any, Part] = {}  # of the current split
        self._file: Checkpoint[SpaceRun] | None = None
        self._n_resumed = self._done = 0

    def run(self, checkpoint: str | os.PathLike[str] | None = None) -> AutoResult:
        """Search; with a checkpoint, continue from that file and keep it up to date."""
        ended = "complete"
        with ExitStack() as stack:
            if checkpoint is not None:
                self._file = stack.enter_context(self._opened(checkpoint))
            try:
                self._explore()
                self._compare()
            except _TimeIsUp:
                ended = "time limit"
            except KeyboardInterrupt:
                if not self._candidates:
                    raise
                ended = "interrupted"
        return self._result(ended)

    def _opened(self, path: str | os.PathLike[str]) -> Checkpoint[SpaceRun]:
        # Not every Python has SQLite.
        from ranksvm.model_selection.checkpoint import Checkpoint, data_identity

        name = self._metric.name
        which = {
            **data_identity(self._data, self._all_splits, name, self._conventions),
            "pair weights": ", ".join(self._pair_weights),
            "landmarks": str(self._n_landmarks),
        }
        read = partial(SpaceRun.from_text, metric=name, pair_weights=self._pair_weights)
        file = Checkpoint(path, which, read, self._seed)
        if file.random_state is not None:
            self._seed = file.random_state
        return file

    # --- The first split ------------------------------------------------------------------------

    def _explore(self) -> None:
        """Look at all spaces on the first split, until nothing is left to try."""
        share = FIRST_SHARE if len(self._splits) > 1 else 1.0
        explorer = Explorer(self._families)
        while (space := explorer.next()) is not None:
            try:
                run = self._run(0, space, self._first_keys(space), grows=True, share=share)
            except _TimeIsUp:
                if len(self._splits) == 1 or not self._candidates:
                    raise
                return
            for key, one in run.outcomes.items():
                settings = replace(self._settings_of(space), C=key.C, pair_weight=key.pair_weight)
                self._candidates[space, key] = Candidate(
                    space, key, settings, [one.score], one.seconds
                )
            self._keep(space, run)
            fits = sum(one.seconds for one in run.outcomes.values())
            self._space_seconds[space] = max(0.0, run.seconds - fits)
            best = max((one.score for one in run.outcomes.values()), default=math.nan)
            explorer.tell(space, (one.score for one in run.outcomes.values()))
            self._tell(f"{space}: {best:.4f}", explorer.n_left())

    def _first_keys(self, space: Space) -> list[Key]:
        low, high = LINEAR_CS if space.family.kernel is None else KERNEL_CS
        return [
            Key(weight, power) for weight in self._pair_weights for power in range(low, high + 1)
        ]

    def _keep(self, space: Space, run: SpaceRun) -> None:
        """Keep the models of the best candidates so far, and no others."""
        self._kept.update({(space, key): made for key, made in run.models.items()})
        best = {(one.space, one.key) for one in self._best(self._n_models)}
        self._kept = {which: made for which, made in self._kept.items() if which in best}

    # --- The other splits -----------------------------------------------------------------------

    def _compare(self) -> None:
        """Fit the most promising candidates on the other splits."""
        contenders = self._best(CONTENDERS * self._n_models)
        by_space = _grouped(contenders)
        for number in range(1, len(self._splits)):
            self._views = {}
            found: dict[tuple[Space, Key], Any] = {}
            for left, (space, keys) in enumerate(by_space.items()):
                run = self._run(number, space, keys, grows=False)
                found |= {(space, key): one for key, one in run.outcomes.items()}
                rest = (len(self._splits) - number) * len(by_space) - left - 1
                self._tell(f"{self._splits[number].name}, {space}", rest)
            # A split that is not complete does not count.
            for which, one in found.items():
                self._candidates[which].scores.append(one.score)
                self._candidates[which].seconds += one.seconds

    # --- One space ------------------------------------------------------------------------------

    def _run(
        self, number: int, space: Space, keys: Sequence[Key], *, grows: bool, share: float = 1.0
    ) -> SpaceRun:
        """Run a space on a split, or load what is known about it."""
        name = str(space)
        if not grows:  # other candidates are another part of the search
            name += "".join(f"; {key.pair_weight} {key.power}" for key in keys)
        known = None if self._file is None else self._file.get(name, number)
        if known is not None:
            self._n_resumed += 1
            return known
        first = not self._candidates and number == 0

        def look() -> None:
            if not first:  # at least one space is complete
                self._budget.check(self._reserved(), share)

        look()
        least = sorted((one.mean for one in self._best(self._n_models)), reverse=True)
        threshold = least[-1] if len(least) == self._n_models else -math.inf
        part = self._part(number, space)
        run = run_space(
            part,
            self._settings_of(space),
            keys,
            grows=grows,
            is_kept=lambda score: number == 0 and score >= threshold,
            look=look,
        )
        if self._file is not None:
            self._file.add(name, number, run)
        return run

    def _part(self, number: int, space: Space) -> Part:
        """Return the two parts of a split, with the columns of a space."""
        view, split = view_of(space.family), self._splits[number]
        if view not in self._views:
            parts = (
                split.training_part(self._data, pairwise=False, n_threads=self._n_threads),
                split.held_out_part(self._data, pairwise=False, n_threads=self._n_threads),
            )
            train, held_out = (with_view(one, view, n_threads=self._n_threads) for one in parts)
            self._views[view] = Part(
                train, held_out, self._metric, self._conventions, self._n_threads
            )
        return self._views[view]

    def _settings_of(self, space: Space) -> Settings:
        if space not in self._settings:
            train = self._part(0, space).train
            self._settings[space] = settings_of(
                space,
                train,
                n_landmarks=self._n_landmarks,
                random_state=self._seed,
                n_threads=self._n_threads,
            )
        return self._settings[space]

    def _reserved(self) -> float:
        """Return the seconds that fitting the chosen candidates again will take, about."""
        if not self._refits:
            return 0.0
        best = self._best(self._n_models)
        seconds = sum(one.seconds / len(one.scores) for one in best)
        seconds += sum(self._space_seconds[space] for space in {one.space for one in best})
        n_train = self._splits[0].train.size
        return CAUTION * seconds * everything(self._data, self._validation)[0] / max(1, n_train)

    # --- Results --------------------------------------------------------------------------------

    def _best(self, n: int) -> list[Candidate]:
        return self._ordered()[:n]

    def _ordered(self) -> list[Candidate]:
        """Return all candidates: those with the most splits first, and of these the best."""
        return sorted(self._candidates.values(), key=_rank)

    def _tell(self, message: str, left: int) -> None:
        self._done += 1
        if self._progress is None:
            return
        best = self._best(1)[0]
        text = f"{message}; best {self._metric.name} {best.mean:.4f} ({best.space})"
        self._progress(self._done, self._done + left, text)

    def _result(self, ended: str) -> AutoResult:
        usable = [one for one in self._ordered() if not math.isnan(one.mean)]
        if not usable:
            raise ValueError(
                "there is nothing to choose from: no candidate has finite scores on the held-out "
                "items. Scale the features down."
            )
        most = len(usable[0].scores)
        chosen = [one for one in usable if len(one.scores) == most][: self._n_models]
        return AutoResult(
            candidates=self._ordered(),
            chosen=chosen,
            metric=self._metric.name,
            metric_default_for=self._default_for,
            conventions=self._conventions,
            on=(
                f"{most} of {counted(len(self._all_splits), 'fold')}"
                if self._validation is None
                else self._validation.origin.name
            ),
            ended=ended,
            seconds=self._budget.spent,
            n_splits=most,
            n_resumed=self._n_resumed,
            kept=self._kept,
        )


def _rank(one: Candidate) -> tuple[Any, ...]:
    score = -one.mean if not math.isnan(one.mean) else math.inf
    return -len(one.scores), score, one.key.power, str(one.space), one.key.pair_weight


class _Everything(NamedTuple):
    n_items: int


def everything(data: RankingData, validation: RankingData | None) -> _Everything:
    """Return the number of items that the model is fitted to in the end."""
    return _Everything(data.n_items + (0 if validation is None else validation.n_items))


def _grouped(candidates: Iterable[Candidate]) -> dict[Space, list[Key]]:
    found: dict[Space, list[Key]] = {}
    for one in candidates:
        found.setdefault(one.space, []).append(one.key)
    return {space: sorted(keys, key=lambda key: key.power) for space, keys in found.items()}


def refitted(
    result: AutoResult,
    data: RankingData,
    *,
    n_threads: int = 1,
    progress: Progress | None = None,
) -> EnsembleModel:
    """Fit the chosen candidates to a data set, and return their mean."""
    members: list[Model] = []
    by_space = _grouped(result.chosen)
    settings = {one.space: one.settings for one in result.chosen}
    views: dict[Any, RankingData] = {}
    for done, (space, keys) in enumerate(by_space.items(), start=1):
        view = view_of(space.family)
        if view not in views:
            views[view] = with_view(data, view, n_threads=n_threads)
        fits = SpaceFits(views[view], settings[space], n_threads=n_threads)
        factors = [1.0 / (len(result.chosen) * fits.spread(key)) for key in keys]
        members.append(fits.model(keys, factors))
        if progress is not None:
            progress(done, len(by_space), f"fitting again: {space}")
    return combined(members, result, data)
