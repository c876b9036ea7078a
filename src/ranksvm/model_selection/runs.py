"""Fit the path of a split and score its held-out part; one split at a time, or several in parallel.

A finished path can guide the paths of other splits (see :mod:`ranksvm.model_selection.path`) if
coefficients mean the same on every training part.  It is kept together with the scores of *all*
items, which are known anyway: those of training items from the fit, those of held-out items from
the metric.
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
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners import make_problem
from ranksvm.learners.problem import Fit, GuidedProblem, PathProblem
from ranksvm.learners.settings import Settings
from ranksvm.model_selection.cell import Cell
from ranksvm.model_selection.path import fit_path
from ranksvm.model_selection.splits import Split


class SplitResult(NamedTuple):
    """The path of one split.

    ``coefs`` has one row per C.  ``guide`` has the coefficients and the scores of all items of the
    data set, if they are in memory, for other splits to follow; None if it was not asked for, or a
    score is not finite.
    """

    cell: Cell
    coefs: Array
    guide: list[Point] | None


class _Stopped(Exception):
    """Another split has failed, or the user has interrupted the search."""


@dataclass(frozen=True, eq=False)
class Task:
    """What to do with each split: fit a path over ``Cs`` and score the held-out part.

    ``score(labels, scores, query)`` is the metric, ``where`` the beginning of messages, and
    ``tell`` gets a message after each fit.  If ``stop`` is set, fits end at their next iteration.
    """

    data: RankingData
    settings: Settings
    Cs: Array
    score: Callable[..., float]
    where: str
    tell: Callable[[str], Any]
    stop: threading.Event | None = None

    def run(
        self,
        split: Split,
        n_threads: int,
        *,
        guide: list[Point] | None = None,
        keep: bool = False,
    ) -> SplitResult:
        """Fit the path of a split and score its held-out part.

        ``keep`` returns the path as a guide for other splits.  This requires settings whose
        coefficients mean the same on every training part.
        """
        seconds = [0.0] * self.Cs.size
        clock = time.perf_counter()

        def look(*_: Any) -> None:
            if self.stop is not None and self.stop.is_set():
                raise _Stopped

        def finished(k: int, fit: Fit) -> None:
            nonlocal clock
            now = time.perf_counter()
            seconds[k], clock = now - clock, now
            self.tell(f"{self.where}{split.name}, C = {self.Cs[k]:.4g}: {fit.n_iter} iterations")

        def follow(k: int) -> Point:
            assert guide is not None
            assert isinstance(problem, GuidedProblem)
            return problem.known_point(guide[k], split.train)

        with _naming(f"{self.where}{split.name}: "):
            pairwise = self.settings.is_pairwise
            part = split.training_part(self.data, pairwise=pairwise)
            problem = make_problem(part, self.settings, n_threads=n_threads)
            assert isinstance(problem, PathProblem)
            fits = fit_path(
                problem,
                self.Cs,
                guide=None if guide is None else follow,
                callback=look,
                finished=finished,
            )
            held_out = split.held_out_part(self.data, pairwise=pairwise)
            found = problem.score(held_out.X, fits)
            kept = self._for_others(problem, split, fits, found) if keep else None
        cell = Cell(
            scores=tuple(
                self.score(held_out.truth, scores, held_out.groups.index)
                if split.undefined is None and np.isfinite(scores).all()
                else np.nan
                for scores in found
            ),
            objectives=tuple(fit.objective for fit in fits),
            gaps=tuple(fit.gap for fit in fits),
            seconds=tuple(seconds),
            n_iter=tuple(fit.n_iter for fit in fits),
            n_products=tuple(fit.n_products for fit in fits),
            statuses=tuple(fit.status.name for fit in fits),
            solver=fits[0].solver,
        )
        return SplitResult(cell, np.array([fit.coef for fit in fits]), kept)

    def _for_others(
        self, problem: PathProblem, split: Split, fits: list[Fit], found: list[Array]
    ) -> list[Point] | None:
        """Return the solutions with the scores of all items; None if a score is not finite.

        Scores of data in shards are not kept.
        """
        if isinstance(self.data.X, ShardedMatrix):
            return [fit.point._replace(scores=None) for fit in fits]
        known = [(split.train, [fit.point.scores for fit in fits]), (split.test, found)]
        left_out = np.setdiff1d(np.arange(self.data.n_items), np.r_[split.train, split.test])
        if left_out.size:
            known.append((left_out, problem.score(self.data.take(left_out).X, fits)))
        points = []
        for k, fit in enumerate(fits):
            every = np.empty(self.data.n_items)
            for rows, scores in known:
                every[rows] = scores[k]
            points.append(fit.point._replace(scores=every))
        return points if all(np.isfinite(point.scores).all() for point in points) else None

    def run_guided(self, splits: Sequence[Split], n_threads: int) -> list[SplitResult]:
        """Run the first split, then the others in parallel, guided by its path."""
        first, *others = splits
        runs = [self.run(first, n_threads, keep=bool(others))]
        guide = runs[0].guide
        n_workers = min(n_threads, len(others))
        if isinstance(self.data.X, ShardedMatrix):  # shards are read by one fit at a time
            n_workers = 1
        if n_workers > 1:
            return runs + self._run_in_parallel(others, n_workers, n_threads // n_workers, guide)
        return runs + [self.run(split, n_threads, guide=guide) for split in others]

    def _run_in_parallel(
        self, splits: Sequence[Split], n_workers: int, n_threads: int, guide: list[Point] | None
    ) -> list[SplitResult]:
        """Run splits in threads; the calling thread reports their messages."""
        stop = threading.Event()
        messages: queue.SimpleQueue[str] = queue.SimpleQueue()
        worker = replace(self, tell=messages.put, stop=stop)

        def report() -> None:
            while not messages.empty():
                self.tell(messages.get())

        calls = [partial(worker.run, split, n_threads, guide=guide) for split in splits]
        return run_in_parallel(calls, n_workers, stop, report)


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
