"""Fits of kernel machines with a clock inside, here or in a process of their own.

The clock watches from outside what a fit spends its time on:

    landmarks   choosing and whitening them (Nystrom)
    forming     the values of K that are kept, or the features
    products    with K, or with the features and their transpose

It wraps methods for as long as the fit lasts, and has to see as many products as the fit says it
made.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import SEED, TOL, Call, Config, interleave, pinned
from benchmarks.memory import peak
from benchmarks.report import Row
from benchmarks.sets import Task, cadata_rbf, letor_rbf, mq2007_like
from ranksvm import KernelRankSVM
from ranksvm.learners import kernel as kernel_training
from ranksvm.maps.feature_map import FeatureMap, NystroemMap
from ranksvm.maps.features import FourierBasis, NystroemBasis
from ranksvm.maps.gram import TiledGram

# Owner, name and kind of what is watched.  The preconditioner of an exact kernel has products with
# a matrix of its own, which are none with K.
WATCHED: dict[str | None, tuple[tuple[Any, str, str], ...]] = {
    None: ((TiledGram, "__init__", "forming"), (TiledGram, "product", "products")),
    "nystroem": (
        (kernel_training, "make_nystroem", "landmarks"),
        (NystroemBasis, "raw", "forming"),
        (NystroemMap, "scores", "products"),
        (NystroemMap, "pullback", "products"),
    ),
    "fourier": (
        (FourierBasis, "features", "forming"),
        (FeatureMap, "scores", "products"),
        (FeatureMap, "pullback", "products"),
    ),
}


@dataclass
class Clock:
    """Calls and seconds by kind of work, "fit" for all of it, and the part of K that was kept."""

    calls: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    held: float | None = None


@contextmanager
def clocked(approximation: str | None) -> Iterator[Clock]:
    """Watch the fits inside the block."""
    clock = Clock()

    def watch(owner: Any, name: str, kind: str) -> Any:
        function = getattr(owner, name)

        @wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            before = time.perf_counter()
            result = function(*args, **kwargs)
            clock.seconds[kind] += time.perf_counter() - before
            clock.calls[kind] += 1
            if name == "__init__":
                clock.held = args[0].share_held
            return result

        return mock.patch.object(owner, name, watched)

    with ExitStack() as patches:
        for point in WATCHED[approximation]:
            patches.enter_context(watch(*point))
        yield clock


@dataclass(frozen=True)
class KernelFit:
    """A fitted model, how long it took (input checks included), and on what."""

    model: KernelRankSVM
    clock: Clock
    seconds: float

    @property
    def outside(self) -> float:
        """Part of the time that went neither into forming K or the features nor into products."""
        inside = self.clock.seconds["forming"] + self.clock.seconds["products"]
        return 1.0 - inside / self.clock.seconds["fit"]

    @property
    def relative_gap(self) -> float:
        return self.model.gap_ / self.model.objective_

    def row(self) -> Row:
        """What every table says of a fit."""
        clock, model = self.clock, self.model
        return {
            "seconds": self.seconds,
            "iterations": model.n_iter_,
            "products": model.n_products_,
            "landmarks, s": clock.seconds.get("landmarks"),
            "forming, s": clock.seconds["forming"],
            "products, s": clock.seconds["products"],
            "outside": self.outside,
            "K held": clock.held,
            "rel gap": self.relative_gap,
            "status": model.status_,
        }


def kernel_fit(
    task: Task, *, threads: int, stop_after: float = np.inf, **settings: Any
) -> KernelFit:
    """Fit an rbf machine to the gap at which everything is compared.

    Parameters
    ----------
    stop_after : float
        The fit is stopped at the first iteration that ends later than so many seconds.
    **settings
        For ``KernelRankSVM``, on top of those of the task.
    """
    settings = {
        "C": task.C, "reduction": task.reduction, "gamma": task.gamma, "tol": TOL,
        "scaling": None, "random_state": SEED, "n_jobs": threads, **settings,
    }  # fmt: skip
    model = KernelRankSVM(**settings)
    gc.collect()  # the K of the fit before may still be there
    with clocked(model.approximation) as clock, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = time.perf_counter()
        model.fit(task.X, task.y, task.qid, callback=lambda row, _: row.seconds > stop_after)
        clock.seconds["fit"] = time.perf_counter() - before
    if clock.calls["products"] != model.n_products_:
        raise RuntimeError(
            f"the clock saw {clock.calls['products']} products and the fit made "
            f"{model.n_products_}: adapt WATCHED to the methods that make them"
        )
    return KernelFit(model, clock, clock.seconds["fit"])


def median_fits(
    calls: Mapping[str, Callable[[], KernelFit]], config: Config, *, rounds: int, seconds: float
) -> dict[str, KernelFit]:
    """Fits in turn: the last ones, each with the median of the seconds of all."""
    timings = interleave(
        {name: Call(call, config.threads) for name, call in calls.items()},
        rounds=rounds,
        seconds=seconds,
        keep_all=True,
    )
    return {
        name: replace(timing.result, seconds=timing.median(lambda fit: fit.seconds))
        for name, timing in timings.items()
    }


# --- In a process of its own ----------------------------------------------------------------------

SETS: dict[str, Callable[[int], Task]] = {
    "cadata": cadata_rbf,
    "LETOR": letor_rbf,
    "MQ2007": lambda n_queries: mq2007_like(n_queries)[0],
}


def fit_in_child(
    name: str,
    size: int,
    *,
    threads: int,
    rounds: int = 1,
    scores: Path | None = None,
    **settings: Any,
) -> Row:
    """Fit in a new process: the median of some rounds, and the peak memory of the whole process.

    Parameters
    ----------
    name, size
        A set of ``SETS``.
    scores : Path or None
        Where to write the scores of the held-out items of MQ2007-like, as a ``.npy`` file.
    **settings
        As for :func:`kernel_fit`.
    """
    case = {
        "name": name, "size": size, "threads": threads, "rounds": rounds,
        "scores": None if scores is None else str(scores), "settings": settings,
    }  # fmt: skip
    pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernel_fits", json.dumps(case)],
        env=os.environ | dict.fromkeys(pools, str(threads)),
        cwd=Path(__file__).resolve().parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    row: Row = json.loads(done.stdout)
    return row


def _measure(case: dict[str, Any]) -> dict[str, Any]:
    """In the child."""
    task = SETS[case["name"]](case["size"])
    seconds = []
    with pinned(case["threads"]):
        for _ in range(case["rounds"]):
            fit = kernel_fit(task, threads=case["threads"], **case["settings"])
            seconds.append(fit.seconds)
    if case["scores"] is not None:
        held_out = mq2007_like(case["size"])[1]
        np.save(case["scores"], fit.model.predict(held_out.X))
    return {
        "set": task.name,
        "strength": task.strength,
        **fit.row(),
        "seconds": statistics.median(seconds),
        "peak, GB": peak() / 1e9,
    }


if __name__ == "__main__":
    print(json.dumps(_measure(json.loads(sys.argv[1]))))
