"""The search of :class:`ranksvm.AutoRankSVM`: many candidates, the best of which are averaged.

A *candidate* is a pair weight and a C in a space (:mod:`ranksvm.model_selection.auto_plan`).  The
first split decides which spaces are looked at; with several splits, the most promising candidates
are then fitted on the others, and compared by their mean score.

The search ends when nothing is left to try, when its time is up, or when it is interrupted.  What
was found until then counts, except for a space that was not finished.

:mod:`ranksvm.model_selection.auto_models` makes one model of the best candidates.
"""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ranksvm._text import counted
from ranksvm.data.query_view import QueryView
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.settings import Settings
from ranksvm.learners.views import with_view
from ranksvm.model_selection.auto_cells import Key, Outcome, Part, SpaceRun, beyond_edge, run_space
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
from ranksvm.model_selection.auto_results import (
    COMPLETE,
    INTERRUPTED,
    TIME_LIMIT,
    AutoResult,
    Candidate,
    Kept,
    best_first,
    by_space,
)
from ranksvm.model_selection.choice import choose_metric
from ranksvm.model_selection.splits import make_splits

if TYPE_CHECKING:
    from ranksvm.model_selection.checkpoint import Checkpoint

# Called as progress(done, total, message).
Progress = Callable[[int, int, str], Any]
# With several splits: this many candidates for each model are fitted on all of them ...
CONTENDERS = 3
# ... and this share of the time limit is for the first split.
FIRST_SHARE = 0.4
# Of few candidates, at most this share is chosen: the others would only do harm.
MOST_CHOSEN = 0.25
# Estimates of the time that is needed to fit the models again are multiplied by this.
CAUTION = 1.3


class _TimeIsUp(Exception):
    """The time limit is reached."""


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
    random_state : int or None
        Seed of the landmarks; None for a new one, or that of the checkpoint.
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
        random_state: int | None,
        budget: Budget,
        refit: bool,
        n_threads: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self._data, self._validation = data, validation
        self._judge, self._default_for = choose_metric(metric, data, validation, conventions)
        self._conventions = conventions
        splits = make_splits(data, folds, validation, self._judge, n_threads=n_threads)
        self._all_splits = splits
        self._splits = [one for one in splits if one.undefined is None]
        self._n_models, self._n_landmarks = n_models, n_landmarks
        self._random_state = random_state
        self._seed = secrets.randbelow(2**31) if random_state is None else random_state
        # The models of the first split that may be chosen.
        self._n_kept = n_models if len(self._splits) == 1 else CONTENDERS * n_models
        self._budget, self._refits = budget, refit
        self._n_threads, self._progress = n_threads, progress
        self._families = families_of(data, preset)
        self._pair_weights = pair_weights_for(data, preset, validation)
        self._candidates: dict[tuple[Space, Key], Candidate] = {}
        self._kept: Kept = {}
        self._space_seconds: dict[Space, float] = {}  # to prepare it, on the first split
        self._settings: dict[Space, Settings] = {}
        self._views: dict[QueryView, Part] = {}  # of one split
        self._views_of = 0
        self._file: Checkpoint[SpaceRun] | None = None
        self._n_resumed = self._done = 0

    def run(self, checkpoint: str | os.PathLike[str] | None = None) -> AutoResult:
        """Search; with a checkpoint, continue from that file and keep it up to date."""
        with ExitStack() as stack:
            if checkpoint is not None:
                self._file = stack.enter_context(self._opened(checkpoint))
            try:
                ended = self._explore()
                self._compare()
            except _TimeIsUp:
                ended = TIME_LIMIT
            except KeyboardInterrupt:
                if not self._candidates:
                    raise
                ended = INTERRUPTED
        return self._result(ended)

    def _opened(self, path: str | os.PathLike[str]) -> Checkpoint[SpaceRun]:
        # Not every Python has SQLite.
        from ranksvm.model_selection.checkpoint import Checkpoint, data_identity

        name = self._judge.name
        which = {
            **data_identity(self._data, self._all_splits, name, self._conventions),
            "pair weights": ", ".join(self._pair_weights),
            "landmarks": str(self._n_landmarks),
            "seed": "any" if self._random_state is None else str(self._random_state),
        }
        read = partial(SpaceRun.from_text, metric=name, pair_weights=self._pair_weights)
        file = Checkpoint(path, which, read, self._seed)
        if file.random_state is not None:
            self._seed = file.random_state
        return file

    def first_part(self) -> RankingData:
        """Return the training part of the first split."""
        return self._splits[0].training_part(self._data, pairwise=False, n_threads=self._n_threads)

    # --- The first split ------------------------------------------------------------------------

    def _explore(self) -> str:
        """Look at all spaces on the first split, until nothing is left to try or time is up.

        Returns why it ended.
        """
        share = FIRST_SHARE if len(self._splits) > 1 else 1.0
        explorer = Explorer(self._families)
        while (space := explorer.next()) is not None:
            try:
                run = self._run(0, space, self._first_keys(space), grows=True, share=share)
            except _TimeIsUp:
                if len(self._splits) == 1 or not self._candidates:
                    raise
                return TIME_LIMIT  # the rest is for the other splits
            for key, one in run.outcomes.items():
                self._candidates[space, key] = self._candidate(space, key)
                self._candidates[space, key].add(one)
            self._keep(space, run)
            fits = sum(one.seconds for one in run.outcomes.values())
            self._space_seconds[space] = max(0.0, run.seconds - fits)
            scores = [one.score for one in run.outcomes.values() if not math.isnan(one.score)]
            explorer.tell(space, scores)
            self._tell(f"{space}: {max(scores, default=math.nan):.4f}", explorer.n_left())
        return COMPLETE

    def _candidate(self, space: Space, key: Key) -> Candidate:
        settings = replace(self._settings_of(space), C=key.C, pair_weight=key.pair_weight)
        return Candidate(space, key, settings)

    def _first_keys(self, space: Space) -> list[Key]:
        low, high = LINEAR_CS if space.family.kernel is None else KERNEL_CS
        return [
            Key(weight, power) for weight in self._pair_weights for power in range(low, high + 1)
        ]

    def _keep(self, space: Space, run: SpaceRun) -> None:
        """Keep the models of the best candidates so far, and no others."""
        self._kept.update({(space, key): made for key, made in run.models.items()})
        best = {(one.space, one.key) for one in self._best(self._n_kept)}
        self._kept = {which: made for which, made in self._kept.items() if which in best}

    # --- The other splits -----------------------------------------------------------------------

    def _compare(self) -> None:
        """Fit the most promising candidates on the other splits."""
        grouped = by_space(self._best(CONTENDERS * self._n_models))
        for number in range(1, len(self._splits)):
            found: dict[tuple[Space, Key], Outcome] = {}
            for left, (space, keys) in enumerate(grouped.items()):
                run = self._run(number, space, keys, grows=False)
                found |= {(space, key): one for key, one in run.outcomes.items()}
                rest = (len(self._splits) - number) * len(grouped) - left - 1
                self._tell(f"{self._splits[number].name}, {space}", rest)
            # A split that is not complete does not count.
            for which, one in found.items():
                self._candidates[which].add(one)
        if len(self._splits) > 1:
            self._grow()

    def _grow(self) -> None:
        """Let the path over C of the best candidate grow while it lies on the edge on all splits.

        The first split alone may have had its best elsewhere.
        """
        while True:
            space = self._best(1)[0].space
            known = [
                one
                for one in self._candidates.values()
                if one.space == space and len(one.scores) == len(self._splits)
            ]
            wanted = beyond_edge({one.key: one.mean for one in known})
            if not wanted:
                return
            runs = [
                self._run(number, space, wanted, grows=False) for number in range(len(self._splits))
            ]
            for key in wanted:
                self._candidates[space, key] = made = self._candidate(space, key)
                for run in runs:
                    made.add(run.outcomes[key])
            self._keep(space, runs[0])
            self._tell(f"{space}: more values of C", 0)

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
        best = self._best(self._n_kept)
        reserved = self._reserved(best[: self._n_models])

        def look() -> None:
            if best:  # at least one space is complete
                self._budget.check(reserved, share)

        look()
        threshold = best[-1].mean if len(best) == self._n_kept else -math.inf
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
        if self._views_of != number:  # only those of one split are kept
            self._views, self._views_of = {}, number
        if view not in self._views:
            parts = (
                split.training_part(self._data, pairwise=False, n_threads=self._n_threads),
                split.held_out_part(self._data, pairwise=False, n_threads=self._n_threads),
            )
            train, held_out = (with_view(one, view, n_threads=self._n_threads) for one in parts)
            self._views[view] = Part(train, held_out, self._judge, self._n_threads)
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

    def _reserved(self, best: Sequence[Candidate]) -> float:
        """Return the seconds that fitting these candidates again will take, about."""
        if not self._refits:  # only those of a checkpoint, which has no models
            best = [one for one in best if (one.space, one.key) not in self._kept]
        seconds = sum(one.seconds / len(one.scores) for one in best)
        seconds += sum(self._space_seconds[space] for space in {one.space for one in best})
        n_train = self._splits[0].train.size
        n_items = n_train
        if self._refits:
            n_items = self._data.n_items
            n_items += 0 if self._validation is None else self._validation.n_items
        return CAUTION * seconds * n_items / n_train

    # --- Results --------------------------------------------------------------------------------

    def _best(self, n: int) -> list[Candidate]:
        return best_first(self._candidates.values())[:n]

    def _tell(self, message: str, left: int) -> None:
        self._done += 1
        if self._progress is None:
            return
        best = self._best(1)[0]
        text = f"{message}; best {self._judge.name} {best.mean:.4f} ({best.space})"
        self._progress(self._done, self._done + left, text)

    def _result(self, ended: str) -> AutoResult:
        ordered = best_first(self._candidates.values())
        usable = [one for one in ordered if not math.isnan(one.mean)]
        if not usable:
            raise ValueError(
                "there is nothing to choose from: no candidate has finite scores on the held-out "
                "items. Scale the features down."
            )
        most = len(usable[0].scores)
        n_chosen = min(self._n_models, math.ceil(MOST_CHOSEN * len(self._candidates)))
        chosen = [one for one in usable if len(one.scores) == most][:n_chosen]
        return AutoResult(
            candidates=ordered,
            chosen=chosen,
            metric=self._judge.name,
            metric_default_for=self._default_for,
            conventions=self._conventions,
            on=counted(most, "fold") if self._validation is None else self._validation.origin.name,
            ended=ended,
            seconds=self._budget.spent,
            n_splits=most,
            n_resumed=self._n_resumed,
            kept=self._kept,
        )
