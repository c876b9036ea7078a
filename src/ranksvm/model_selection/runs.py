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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm._messages import UserError
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import Fit, Point, Settings, make_problem
from ranksvm.model_selection.path import Guide, fit_path
from ranksvm.model_selection.splits import Split, take_metric

__all__ = ["SplitResult", "SplitTask", "naming", "run_in_parallel"]


# Seconds between checks for an interrupt.  A signal does not always wake a waiting thread: it may
# arrive just before the wait, or another library's handler may resume it.
_LOOK_UP = 0.1


class SplitResult(NamedTuple):
    """Results of one split, with one entry per C in each list.

    ``scores`` is the metric on the held-out part; NaN if it is undefined there, or if the model
    gives some held-out item a score that is not finite.  ``seconds`` of the smallest C include the
    time to prepare the problem.  ``guide`` has the coefficients and the scores of all items of the
    data set, for other splits to follow.
    """

    fits: list[Fit]
    scores: list[float]
    seconds: list[float]
    guide: list[Point] | None


class _Stopped(Exception):
    """Another split has failed, or the user has interrupted the search."""


@dataclass(frozen=True, eq=False)
class SplitTask:
    """What to do with each split: fit a path over ``Cs`` and compute ``metric``."""

    data: RankingData
    settings: Settings
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
        """Fit the path of a split and score its held-out part.

        ``keep`` returns the path as a guide for other splits.  This requires settings whose
        coefficients mean the same on every training part.
        """
        seconds = [0.0] * self.Cs.size
        clock = time.perf_counter()

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
            point: Point = problem.known_point(guide[k], split.train)
            return point

        follow: Guide | None = None if guide is None else following
        with naming(f"{split.name}: "):
            pairwise = self.settings.is_pairwise
            part = split.training_part(self.data, pairwise=pairwise)
            problem = make_problem(part, self.settings, n_threads=n_threads)
            fits = fit_path(problem, self.Cs, guide=follow, callback=look, finished=finished)
            held_out = split.held_out_part(self.data, pairwise=pairwise)
            found = problem.score(held_out.X, fits)
            kept = self._for_others(problem, split, fits, found) if keep else None
        scores = [np.nan if split.undefined else self._score(held_out, one) for one in found]
        # The scores of the training items are not needed any more.
        short = [_without_scores(fit) for fit in fits]
        return SplitResult(short, scores, seconds, kept)

    def _score(self, held_out: RankingData, scores: Array) -> float:
        """Return the metric; NaN if a score is not finite."""
        if not np.isfinite(scores).all():
            return np.nan
        return take_metric(
            held_out.truth, scores, held_out.query_numbers, self.metric, self.conventions
        )

    def _for_others(
        self,
        problem: Any,
        split: Split,
        fits: list[Fit],
        found: list[Array],
    ) -> list[Point] | None:
        """Return the solutions with the scores of all items; None if a score is not finite."""
        assert split.test is not None
        n_items = self.data.n_items
        left = np.ones(n_items, dtype=np.bool_)
        left[split.train] = left[split.test] = False
        rest = np.flatnonzero(left)  # empty unless the folds leave items out
        left_out = (
            problem.score(self.data.take(rest).X, fits) if rest.size else [np.empty(0)] * len(fits)
        )
        points = []
        for fit, scores, others in zip(fits, found, left_out, strict=True):
            full = np.empty(n_items)
            full[split.test] = scores
            full[split.train] = fit.point.scores
            full[rest] = others
            points.append(fit.point._replace(scores=full))
        return points if all(np.isfinite(point.scores).all() for point in points) else None


def run_in_parallel(
    task: SplitTask,
    splits: Sequence[Split],
    workers: int,
    n_threads: int,
    guide: list[Point] | None,
    tell: Callable[[str], Any],
) -> list[SplitResult]:
    """Run splits in threads; native code releases Python's global lock.

    The calling thread reports messages and waits for an interrupt or an error in a split.  Then
    splits that have not started are cancelled, and the others stop at their next iteration.
    """
    stop = threading.Event()
    # Messages, and None for each split that has ended.
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


@contextmanager
def naming(where: str) -> Iterator[None]:
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


def _without_scores(fit: Fit) -> Fit:
    return replace(fit, point=Point(fit.coef, np.empty(0)))
