"""What all benchmarks share: sizes, pinned threads, fair timing, a look inside a fit.

Things that are compared are timed in turn, round by round, so that whatever else the machine does
hits all of them alike; a ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ranksvm import LinearRankSVM
from ranksvm.backends.native import NativeBackend
from ranksvm.maps.matrix import MatrixMap

Array = NDArray[np.float64]
Choice = TypeVar("Choice")

SEED = 0
# The relative optimality gap at which everything is compared.
TOL = 1e-3
LOSSES = ("squared_hinge", "hinge")
# The last revision whose threads were OpenMP's.
AGAINST = "fd89fc9^"


@dataclass(frozen=True)
class Config:
    """What the command line asked for.

    Attributes
    ----------
    quick : bool
        Small sizes, to see that everything works.
    threads : int
        Threads of the threaded measurements; the others use one.
    against : str
        The revision of this repository to compare with.
    """

    quick: bool = False
    threads: int = 2
    against: str = AGAINST

    def size(self, full: Choice, quick: Choice) -> Choice:
        """The first of the two, or with ``--quick`` the second."""
        return quick if self.quick else full


def thread_counts(config: Config) -> tuple[int, ...]:
    """One thread, and the threads asked for."""
    return tuple(sorted({1, config.threads}))


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Hold BLAS, OpenMP and numexpr (which scikit-survival uses) to so many threads.

    ranksvm itself takes its number of threads as an argument.
    """
    numexpr = sys.modules.get("numexpr")
    before = numexpr.set_num_threads(threads) if numexpr else 0
    try:
        with threadpool_limits(limits=threads):
            yield
    finally:
        if numexpr:
            numexpr.set_num_threads(before)


@dataclass(frozen=True)
class Call:
    """Something to time, and the threads that it gets."""

    function: Callable[[], Any]
    threads: int = 1


@dataclass(frozen=True)
class Timing:
    """Seconds of the rounds that count, and what the calls returned (the last one at least)."""

    rounds: tuple[float, ...]
    results: tuple[Any, ...]

    @property
    def seconds(self) -> float:
        return statistics.median(self.rounds)

    @property
    def result(self) -> Any:
        return self.results[-1]

    def median(self, quantity: Callable[[Any], float]) -> float:
        """Of something that can be read off the results."""
        return statistics.median(map(quantity, self.results))


def interleave(
    calls: Mapping[str, Call], *, rounds: int = 7, seconds: float = 20.0, keep_all: bool = False
) -> dict[str, Timing]:
    """Time calls in turn, round by round, after a rehearsal.

    A call whose rehearsal took more than its share of the time is not repeated: the rehearsal
    counts for it.  Every round starts with another call.

    Parameters
    ----------
    calls : mapping of str to Call
    rounds : int
        Rounds at most.
    seconds : float
        No new round begins when it would end later than this; the rehearsal is extra.
    keep_all : bool
        Keep the results of all rounds, not of the last one alone.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    results: dict[str, list[Any]] = {name: [] for name in calls}

    def once(name: str, *, forget: bool) -> None:
        if forget:  # before the clock runs: giving memory back takes time, too
            results[name].clear()
        with pinned(calls[name].threads):
            before = time.perf_counter()
            result = calls[name].function()
            times[name].append(time.perf_counter() - before)
        results[name].append(result)

    for name in calls:
        once(name, forget=True)
    names = [name for name in calls if times[name][0] <= seconds / len(calls)]
    start = time.perf_counter()
    for done in range(rounds if names else 0):
        turn = done % len(names)
        for name in names[turn:] + names[:turn]:
            once(name, forget=done == 0 or not keep_all)
        if (time.perf_counter() - start) * (done + 2) / (done + 1) > seconds:
            break
    return {
        name: Timing(tuple(times[name][1:] or times[name]), tuple(results[name])) for name in calls
    }


def ratio(numerator: Timing, denominator: Timing) -> float:
    """Median over the rounds of the ratio within the round; of medians if one had fewer rounds."""
    if len(numerator.rounds) != len(denominator.rounds):
        return numerator.seconds / denominator.seconds
    pairs = zip(numerator.rounds, denominator.rounds, strict=True)
    return statistics.median(a / b for a, b in pairs)


def growth_exponent(sizes: list[int], seconds: list[float]) -> float | None:
    """Slope of log seconds against log size by least squares; None with fewer than two sizes."""
    if len(set(sizes)) < 2:
        return None
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@dataclass
class Profile:
    """What a fit did: calls and seconds by kind of work.

    Attributes
    ----------
    calls, seconds : mapping
        Of "scores" (X w), "pullback" (X' g) and "scatter" (a preconditioner's look at X).
    evaluations : int
        Times that the pairwise loss was asked for at new scores; each takes a sort.
    """

    calls: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    evaluations: int = 0

    @property
    def products(self) -> int:
        return self.calls["scores"] + self.calls["pullback"]

    @property
    def product_seconds(self) -> float:
        return self.seconds["scores"] + self.seconds["pullback"]


@contextmanager
def profiled() -> Iterator[Profile]:
    """Watch the products with X and the evaluations of the loss inside the block."""
    profile = Profile()

    def watch(name: str) -> Any:
        method = getattr(MatrixMap, name)

        @wraps(method)
        def watched(*args: Any, **kwargs: Any) -> Any:
            before = time.perf_counter()
            result = method(*args, **kwargs)
            profile.seconds[name] += time.perf_counter() - before
            profile.calls[name] += 1
            return result

        return mock.patch.object(MatrixMap, name, watched)

    at = NativeBackend.at

    def counted_at(self: NativeBackend, scores: Array, **options: Any) -> Any:
        profile.evaluations += 1
        return at(self, scores, **options)

    with ExitStack() as patches:
        for name in {"scores", "pullback", "scatter"} & set(vars(MatrixMap)):
            patches.enter_context(watch(name))
        patches.enter_context(mock.patch.object(NativeBackend, "at", counted_at))
        yield profile


@dataclass(frozen=True)
class FitResult:
    """A fitted model, how long it took and what it did."""

    model: LinearRankSVM
    profile: Profile
    seconds: float

    @property
    def outside(self) -> float:
        """Seconds spent on anything but products with X."""
        return self.seconds - self.profile.product_seconds

    @property
    def relative_gap(self) -> float:
        return self.model.gap_ / self.model.objective_


def timed_fit(
    model: LinearRankSVM, X: Any, y: Array, qid: Any, *, stop_after: float = np.inf
) -> FitResult:
    """Fit; a fit that ends early keeps quiet about it, as its status and gap are reported.

    Parameters
    ----------
    stop_after : float
        The fit is stopped at the first iteration that ends later than so many seconds.
    """
    with profiled() as profile, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = time.perf_counter()
        model.fit(X, y, qid, callback=lambda row, _: row.seconds > stop_after)
        seconds = time.perf_counter() - before
    return FitResult(model, profile, seconds)
