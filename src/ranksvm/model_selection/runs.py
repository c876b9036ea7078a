"""One split at a time, or several at once: fit the path, score what was held out.

A path that is done can guide the others (see :mod:`ranksvm.model_selection.path`) if coefficients
mean the same on every training part: it is kept with the scores for *all* items of the set, which
are known already, on one side from the fit and on the other from the metric.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.metrics import evaluate
from ranksvm.model_selection.path import Guide, fit_path
from ranksvm.model_selection.splitters import Rows
from ranksvm.training import Fit, KernelProblem, LinearProblem, Point, Settings, make_problem

__all__ = [
    "HeldOut",
    "Split",
    "SplitResult",
    "SplitTask",
    "TrainingSet",
    "make_splits",
    "run_in_parallel",
    "take_metric",
]


# Seconds between looks for an interrupt.  A signal need not wake a thread that waits: it may come
# just before, and handlers of other libraries let the wait go on.
_LOOK_UP = 0.1


class HeldOut(NamedTuple):
    """Items to take the metric on.

    ``X`` of shape (n_items, n_features), ``utility`` of shape (n_items,), ``qid`` of shape
    (n_items,) or None for one global ranking.
    """

    X: Any
    utility: Array
    qid: Any


class Split(NamedTuple):
    """A training part and ``test`` rows of the same set, or else items that were ``held_out``."""

    name: str
    train: Rows
    test: Rows | None
    held_out: HeldOut | None


class TrainingSet(NamedTuple):
    """All items, what is minimised over some of them, and their weights."""

    X: Any
    utility: Array
    groups: QueryGroups
    settings: Settings
    item_weight: Array | None = None
    query_weight: Array | None = None

    @property
    def ids(self) -> Rows | None:
        """Query number of every item; None when there is one global ranking."""
        return None if self.groups.n_queries == 1 else self.groups.index

    def problem(self, rows: Rows, n_threads: int) -> LinearProblem | KernelProblem:
        """Make the problem of some items."""
        if self._is_all(rows):
            groups, query_weight = self.groups, self.query_weight
        else:
            groups = QueryGroups.from_qid(self.groups.index[rows], rows.size)
            query_weight = None if self.query_weight is None else self.query_weight[groups.ids]
        return make_problem(
            self.features(rows, rows),
            self.utility[rows],
            groups,
            self.settings,
            item_weight=None if self.item_weight is None else self.item_weight[rows],
            query_weight=query_weight,
            n_threads=n_threads,
        )

    def held_out(self, rows: Rows, train: Rows) -> HeldOut:
        """Items to take the metric on, for a model of others."""
        ids = self.ids
        return HeldOut(
            self.features(rows, train), self.utility[rows], None if ids is None else ids[rows]
        )

    def features(self, rows: Rows, train: Rows) -> Any:
        """X of some items, as a model of the items ``train`` takes it."""
        if self.settings.is_pairwise and not self._is_all(train):
            return self.X[np.ix_(rows, train)]
        return self.X if self._is_all(rows) else _rows_of(self.X, rows)

    def _is_all(self, rows: Rows) -> bool:
        return rows.size == len(self.utility) and bool((np.diff(rows) == 1).all())


class SplitResult(NamedTuple):
    """Of one split: fits and scores by C, seconds of each fit, and the path for others to follow.

    Making the problem ready counts as part of the fit for the smallest C.
    ``guide`` has by C the coefficients and their scores for all items of the set; ``undefined``
    says why the scores are NaN, if they are.
    """

    fits: list[Fit]
    scores: list[float]
    seconds: list[float]
    guide: list[Point] | None
    undefined: str | None


class _Stopped(Exception):
    """Another split has failed, or the user has had enough."""


@dataclass(frozen=True, eq=False)
class SplitTask:
    """What is done with every split: a path over ``Cs``, scored by ``metric``."""

    items: TrainingSet
    Cs: Array
    metric: str
    conventions: str

    def run(
        self,
        split: Split,
        n_threads: int,
        tell: Callable[[str], Any],
        *,
        guide: list[Point] | None = None,
        keep: bool = False,
        stop: threading.Event | None = None,
    ) -> SplitResult:
        """Fit the path of a split and score it; ``keep`` what can guide other splits.

        That takes settings whose coefficients mean the same on every set.
        """
        seconds = [0.0] * self.Cs.size
        clock = time.perf_counter()
        try:
            problem = self.items.problem(split.train, n_threads)
        except ValueError as error:
            raise ValueError(f"{split.name}: {error}") from error

        def look(*_: Any) -> None:
            if stop is not None and stop.is_set():
                raise _Stopped

        def finished(k: int, fit: Fit) -> None:
            nonlocal clock
            now = time.perf_counter()
            seconds[k], clock = now - clock, now
            tell(f"{split.name}, C = {self.Cs[k]:.4g}: {fit.n_iter} iterations")

        def following(k: int) -> Point:
            assert guide is not None
            return Point(guide[k].w, guide[k].scores[split.train])

        follow: Guide | None = None if guide is None else following
        fits = fit_path(problem, self.Cs, guide=follow, callback=look, finished=finished)
        held_out = split.held_out
        if held_out is None:
            assert split.test is not None
            held_out = self.items.held_out(split.test, split.train)
        found = problem.score(held_out.X, fits)
        undefined = None
        try:
            scores = [
                take_metric(held_out.utility, one, held_out.qid, self.metric, self.conventions)
                for one in found
            ]
        except ValueError as error:
            # The name is known and the utilities of the set will do: it is for want of queries.
            undefined = f"{split.name}, held-out part: {error}"
            scores = [np.nan] * len(fits)
        kept = self._for_others(problem, split, fits, found) if keep else None
        # The scores of the training items have served.
        short = [_without_scores(fit) for fit in fits]
        return SplitResult(short, scores, seconds, kept, undefined)

    def _for_others(
        self,
        problem: LinearProblem | KernelProblem,
        split: Split,
        fits: list[Fit],
        found: list[Array],
    ) -> list[Point]:
        assert split.test is not None
        n_items = len(self.items.utility)
        left = np.ones(n_items, dtype=np.bool_)
        left[split.train] = left[split.test] = False
        rest = np.flatnonzero(left)  # nothing, unless the folds leave items out
        left_out = (
            problem.score(_rows_of(self.items.X, rest), fits)
            if rest.size
            else [np.empty(0)] * len(fits)
        )
        points = []
        for fit, scores, others in zip(fits, found, left_out, strict=True):
            full = np.empty(n_items)
            full[split.test] = scores
            full[split.train] = fit.point.scores
            full[rest] = others
            points.append(Point(fit.coef, full))
        return points


def run_in_parallel(
    task: SplitTask,
    splits: Sequence[Split],
    workers: int,
    n_threads: int,
    guide: list[Point] | None,
    tell: Callable[[str], Any],
) -> list[SplitResult]:
    """Run splits in threads: native code works outside Python's lock.

    The calling thread passes messages on and waits for trouble: an interrupt, or an error of a
    split.  Then splits that have not begun never will, and the others end at their next iteration.
    """
    stop = threading.Event()
    # What was done, or None when a split has ended.
    messages: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def ended(future: Future[SplitResult]) -> None:
        del future
        messages.put(None)

    with ThreadPoolExecutor(workers, thread_name_prefix="ranksvm-split") as pool:
        try:
            futures = [
                pool.submit(task.run, split, n_threads, messages.put, guide=guide, stop=stop)
                for split in splits
            ]
            for future in futures:
                future.add_done_callback(ended)
            running = len(futures)
            while running:
                try:
                    message = messages.get(timeout=_LOOK_UP)
                except queue.Empty:
                    continue
                if message is not None:
                    tell(message)
                    continue
                running -= 1
                for future in futures:
                    if future.done():
                        future.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def make_splits(
    items: TrainingSet,
    folds: Iterable[tuple[Any, Any]] | None,
    validation: HeldOut | None,
) -> list[Split]:
    """Check folds, or make one split of a validation set."""
    if (folds is None) == (validation is None):
        raise ValueError("give either folds or a validation set")
    if validation is not None:
        return [Split("validation set", np.arange(len(items.utility)), None, validation)]
    parts = list(folds or ())
    if not parts:
        raise ValueError("there is no fold: give at least one pair of (train, test)")
    return [fold_split(items, k, *pair) for k, pair in enumerate(parts, start=1)]


def fold_split(items: TrainingSet, number: int, train: Any, test: Any) -> Split:
    """Check one (train, test) of row numbers or masks."""
    name = f"fold {number}"
    groups = items.groups
    train = _row_numbers(train, groups.n_items, name)
    test = _row_numbers(test, groups.n_items, name)
    if groups.n_queries == 1:
        both = _in_both(train, test, groups.n_items)
        if both.size:
            raise ValueError(
                f"{name}: {both.size} items are in the training and in the held-out part, row "
                f"{both[0]} for example; the parts of a fold must not share items"
            )
    else:
        both = _in_both(groups.index[train], groups.index[test], groups.n_queries)
        if both.size:
            (example,) = groups.ids[both[:1]].tolist()
            raise ValueError(
                f"{name} splits {both.size} queries, {example!r} for example: some of its items "
                "are to train on and some to score. Use QueryKFold, or another splitter that "
                "keeps groups together."
            )
    return Split(name, train, test, None)


def take_metric(utility: Array, scores: Array, qid: Any, metric: str, conventions: str) -> float:
    """Value of one metric by name."""
    chosen: Any = conventions
    (value,) = evaluate(utility, scores, qid, [metric], conventions=chosen).values()
    return value


def _in_both(some: Rows, others: Rows, n: int) -> Rows:
    """Numbers below n that are on both sides, ascending."""
    there = np.zeros((2, n), dtype=np.bool_)
    there[0, some] = there[1, others] = True
    return np.flatnonzero(there.all(axis=0))


def _row_numbers(part: Any, n_items: int, name: str) -> Rows:
    rows = np.asarray(part)
    if rows.dtype == np.bool_ and rows.shape == (n_items,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.size == 0:
        raise ValueError(
            f"{name}: each part must be a one-dimensional array of row numbers, at least one; got "
            f"shape {rows.shape} of dtype {rows.dtype}"
        )
    if int(rows.min()) < 0 or int(rows.max()) >= n_items:
        raise ValueError(
            f"{name}: row numbers must lie in 0 to {n_items - 1}; got {int(rows.min())} to "
            f"{int(rows.max())}"
        )
    return rows.astype(np.int64, copy=False)


def _rows_of(X: Any, rows: Rows) -> Any:
    return X[rows] if hasattr(X, "tocsr") else np.take(X, rows, axis=0)


def _without_scores(fit: Fit) -> Fit:
    return replace(fit, point=Point(fit.coef, np.empty(0)))
