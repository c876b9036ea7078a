"""One split at a time, or several at once: fit the path, score what was held out.

A path that is done can guide the others (see :mod:`ranksvm.model_selection.path`) if coefficients
mean the same on every training part: it is kept with the scores for *all* items of the set, which
are known already, on one side from the fit and on the other from the metric.
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


# Seconds between looks for an interrupt.  A signal need not wake a thread that waits: it may come
# just before, and handlers of other libraries let the wait go on.
_LOOK_UP = 0.1


class SplitResult(NamedTuple):
    """Of one split: fits and scores by C, seconds of each fit, and the path for others to follow.

    Making the problem ready counts as part of the fit for the smallest C.
    ``guide`` has by C the coefficients and their scores for all items of the set.  A score is NaN
    where the metric is undefined, or the model scores some held-out item by no finite number.
    """

    fits: list[Fit]
    scores: list[float]
    seconds: list[float]
    guide: list[Point] | None


class _Stopped(Exception):
    """Another split has failed, or the user has had enough."""


@dataclass(frozen=True, eq=False)
class SplitTask:
    """What is done with every split: a path over ``Cs``, scored by ``metric``."""

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
        """Fit the path of a split and score it; ``keep`` what can guide other splits.

        That takes settings whose coefficients mean the same on every set.
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
        # The scores of the training items have served.
        short = [_without_scores(fit) for fit in fits]
        return SplitResult(short, scores, seconds, kept)

    def _score(self, held_out: RankingData, scores: Array) -> float:
        """Take the metric; NaN if it would be one of numbers that are not finite."""
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
        """Return solutions with the scores of all items; None if some of these are not finite."""
        assert split.test is not None
        n_items = self.data.n_items
        left = np.ones(n_items, dtype=np.bool_)
        left[split.train] = left[split.test] = False
        rest = np.flatnonzero(left)  # nothing, unless the folds leave items out
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


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Errors of the library begin with ``where``; those of others stay what they are."""
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
