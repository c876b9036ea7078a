"""Fit the path of a split and score its held-out part; one split at a time, or several in parallel.

A path can guide the paths of other splits (see :mod:`ranksvm.model_selection.path`) if coefficients
mean the same on every training part.  Its solutions are published one by one, together with the
scores of *all* items: those of training items are known from the fit, those of held-out items are
needed for the metric anyway.

With enough threads for all splits they run side by side, and each follows the guide as soon as it
can.  Otherwise the guide runs first, with all threads, and then the others.  Every split may use
all threads, because the native threads form one pool: they help whoever has work for them, and no
split keeps threads that another could use.  The results are the same either way.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ranksvm._messages import UserError
from ranksvm._points import Point
from ranksvm._threads import run_in_parallel
from ranksvm._vectors import Array, Rows, all_finite, vector_threads
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners import make_problem
from ranksvm.learners.fit import Fit
from ranksvm.learners.problem import GuidedProblem, PathProblem
from ranksvm.learners.settings import Settings
from ranksvm.model_selection.cell import Cell
from ranksvm.model_selection.judges import Judge
from ranksvm.model_selection.path import fit_path
from ranksvm.model_selection.splits import Split

# Seconds between two looks of a waiting split for an error in another one.
_LOOK_UP = 0.05


class SplitResult(NamedTuple):
    """The path of one split; ``coefs`` has one row per C."""

    cell: Cell
    coefs: Array


class Guide:
    """The solutions of a path, for the paths of other splits, which may run at the same time.

    A point has the scores of all items of the data set, if they are in memory; None stands for a
    solution that cannot be followed, because a score is not finite.  The items are in the order in
    which the leading path has their scores: its own, held-out ones, the rest.

    Parameters
    ----------
    split : Split
        The split of the leading path.
    n_items : int
        Number of items of the data set.
    """

    def __init__(self, split: Split, n_items: int) -> None:
        self.left_out = split.left_out(n_items)
        held_out = [] if split.test is None else [split.test]
        self._place = np.empty(n_items, dtype=np.int64)
        self._place[np.concatenate((split.train, *held_out, self.left_out))] = np.arange(n_items)
        self._points: dict[int, Point | None] = {}
        self._changed = threading.Condition()

    def places_of(self, rows: Rows) -> Rows:
        """Return where the scores of some items are in those of a point."""
        return self._place[rows]

    def publish(self, k: int, point: Point | None) -> None:
        """Add the solution for ``Cs[k]``."""
        with self._changed:
            self._points[k] = point
            self._changed.notify_all()

    def wait_for(self, k: int, look: Callable[[], Any]) -> Point | None:
        """Return the solution for ``Cs[k]``; ``look`` is called now and then, and may raise."""
        while True:
            with self._changed:
                if k in self._points:
                    return self._points[k]
                self._changed.wait(_LOOK_UP)
            look()


class _Stopped(Exception):
    """Another split has failed, or the user has interrupted the search."""


@dataclass(frozen=True, eq=False)
class Task:
    """What to do with each split: fit a path over ``Cs`` and score the held-out part.

    ``where`` is the beginning of messages, and ``tell`` gets a message after each fit.  If ``stop``
    is set, fits end at their next iteration.
    """

    data: RankingData
    settings: Settings
    Cs: Array
    judge: Judge
    where: str
    tell: Callable[[str], Any]
    stop: threading.Event | None = None

    def run(
        self,
        split: Split,
        n_threads: int,
        *,
        follow: Guide | None = None,
        lead: Guide | None = None,
    ) -> SplitResult:
        """Fit the path of a split and score its held-out part.

        The path follows the guide ``follow``, and is published to the guide ``lead``.  Both require
        settings whose coefficients mean the same on every training part.
        """
        seconds = [0.0] * self.Cs.size
        clock = time.perf_counter()
        pairwise = self.settings.is_pairwise
        found: dict[int, Array] = {}  # scores of held-out items

        def look(*_: Any) -> None:
            if self.stop is not None and self.stop.is_set():
                raise _Stopped

        def finished(k: int, fit: Fit) -> None:
            nonlocal clock
            now = time.perf_counter()
            seconds[k], clock = now - clock, now
            self.tell(f"{self.where}{split.name}, C = {self.Cs[k]:.4g}: {fit.n_iter} iterations")
            if lead is not None:
                assert isinstance(problem, PathProblem)
                found[k], point = self._for_others(problem, split, held_out, lead.left_out, fit)
                lead.publish(k, point)
                clock = time.perf_counter()

        def guided(k: int) -> Point | None:
            assert follow is not None
            assert isinstance(problem, GuidedProblem)
            point = follow.wait_for(k, look)
            return None if point is None else problem.known_point(point, items)

        def part_to_score() -> RankingData:
            return split.held_out_part(self.data, pairwise=pairwise, n_threads=n_threads)

        items = split.train if follow is None else follow.places_of(split.train)
        with _naming(f"{self.where}{split.name}: "), vector_threads(n_threads):
            part = split.training_part(self.data, pairwise=pairwise, n_threads=n_threads)
            problem = make_problem(part, self.settings, n_threads=n_threads)
            assert isinstance(problem, PathProblem)
            if lead is not None:
                held_out = part_to_score()
            fits = fit_path(
                problem,
                self.Cs,
                guide=None if follow is None else guided,
                callback=look,
                finished=finished,
            )
            if lead is None:
                held_out = part_to_score()
                found = dict(enumerate(problem.score(held_out.X, fits)))
        cell = Cell(
            scores=self._scored(split, held_out, [found[k] for k in range(len(fits))], n_threads),
            objectives=tuple(fit.objective for fit in fits),
            gaps=tuple(fit.gap for fit in fits),
            seconds=tuple(seconds),
            n_iter=tuple(fit.n_iter for fit in fits),
            n_products=tuple(fit.n_products for fit in fits),
            statuses=tuple(fit.status.name for fit in fits),
            solver=fits[0].solver,
        )
        coefs = [fit.coef for fit in fits]
        if isinstance(problem, GuidedProblem):
            coefs = [problem.weights(coef) for coef in coefs]
        return SplitResult(cell, np.array(coefs))

    def _scored(
        self, split: Split, held_out: RankingData, found: Sequence[Array], n_threads: int
    ) -> tuple[float, ...]:
        """Return the metric for scores of the held-out items; NaN where it is not defined."""
        if split.undefined is not None:
            return (np.nan,) * len(found)
        return self.judge.values(held_out, found, n_threads)

    def _for_others(
        self, problem: PathProblem, split: Split, held_out: RankingData, left_out: Rows, fit: Fit
    ) -> tuple[Array, Point | None]:
        """Return the scores of held-out items, and the solution with the scores of all items.

        Scores of data in shards are not kept, nor those of a problem that knows some items only.
        """
        (found,) = problem.score(held_out.X, [fit])
        assert isinstance(problem, GuidedProblem)
        point, on_path = problem.shared_point(fit.on_path.point), found
        if point.scores is None or isinstance(self.data.X, ShardedMatrix):
            return found, point._replace(scores=None)
        scores = [point.scores]
        if split.test is not None:
            if fit.on_path is not fit:
                (on_path,) = problem.score(held_out.X, [fit.on_path])
            scores.append(on_path)
        if left_out.size:
            scores += problem.score(self.data.take(left_out).X, [fit.on_path])
        if not all(map(all_finite, scores)):
            return found, None
        return found, point._replace(scores=np.concatenate(scores))

    def run_guided(self, splits: Sequence[Split], n_threads: int) -> list[SplitResult]:
        """Run all splits; the path of the first one guides the others."""
        first, *others = splits
        if not others:
            return [self.run(first, n_threads)]
        guide = Guide(first, self.data.n_items)
        lead = partial(Task.run, split=first, n_threads=n_threads, lead=guide)
        follow = [partial(Task.run, split=one, n_threads=n_threads, follow=guide) for one in others]
        if isinstance(self.data.X, ShardedMatrix):  # shards are read by one fit at a time
            return [run(self) for run in (lead, *follow)]
        if n_threads >= len(splits):
            return self._run_in_parallel([lead, *follow], len(splits))
        return [lead(self), *self._run_in_parallel(follow, n_threads)]

    def _run_in_parallel(
        self, calls: Sequence[Callable[[Task], SplitResult]], n_workers: int
    ) -> list[SplitResult]:
        """Run splits in threads; the calling thread reports their messages."""
        if n_workers == 1:
            return [call(self) for call in calls]
        stop = threading.Event()
        messages: queue.SimpleQueue[str] = queue.SimpleQueue()
        worker = replace(self, tell=messages.put, stop=stop)

        def report() -> None:
            while not messages.empty():
                self.tell(messages.get())

        return run_in_parallel([partial(call, worker) for call in calls], n_workers, stop, report)


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Put ``where`` in front of errors of the library; other errors are not changed."""
    try:
        yield
    except UserError as error:
        raise error.after(where) from error
    except (ValueError, OverflowError) as error:
        if type(error) not in (ValueError, OverflowError, np.linalg.LinAlgError):
            raise
        kind = OverflowError if isinstance(error, OverflowError) else ValueError
        raise kind(f"{where}{error}") from error
