"""What is run with 1, 2, ... threads: kernels, readers and writers, searches, metrics.

A case makes its data once and runs with any number of threads.  Its phases are functions and
methods that are watched from outside while it runs; what they call in turn counts for them, too.
The rest of the time is "other".
"""

from __future__ import annotations

import tempfile
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import SEED, TOL, Config
from benchmarks.sets import Task, letor_like, mq2007_like
from ranksvm import KernelRankSVM, LinearRankSVMCV
from ranksvm.data import load_letor, save_letor, svmlight, svmlight_writer
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import kernel as kernel_training
from ranksvm.maps import feature_map, features
from ranksvm.maps.features import FourierBasis, NystroemBasis
from ranksvm.maps.gram import TiledGram
from ranksvm.maps.kernel import KernelMap
from ranksvm.maps.matrix import MatrixMap
from ranksvm.metrics.ranked import Truth
from ranksvm.metrics.registry import parse_metric
from ranksvm.model_selection import runs

# The package has a function of the same name.
search: Any = import_module("ranksvm.model_selection.search")

# Owner and name of a function or method, and the phase that its time belongs to.
Watched = tuple[tuple[Any, str, str], ...]

EXACT: Watched = (
    (TiledGram, "__init__", "kernel values"),
    (TiledGram, "product", "products"),
    (KernelMap, "scatter", "preconditioner"),
    (kernel_training.KernelProblem, "model", "model"),
)
NYSTROEM: Watched = (
    (features, "choose_landmarks", "landmarks"),
    (features, "whitening", "eigenvectors"),
    (NystroemBasis, "raw", "kernel values"),
    (MatrixMap, "scores", "products"),
    (MatrixMap, "pullback", "products"),
    (feature_map.FeatureMap, "scatter", "preconditioner"),
)
FOURIER: Watched = (
    (FourierBasis, "features", "features"),
    (MatrixMap, "scores", "products"),
    (MatrixMap, "pullback", "products"),
    (feature_map.FeatureMap, "scatter", "preconditioner"),
)
READER: Watched = ((svmlight, "_assemble", "filling the arrays"),)
WRITER: Watched = ((svmlight_writer._core, "format_dense", "formatting"),)
SEARCH: Watched = (
    (search, "make_splits", "splits"),
    (RankingData, "take", "taking rows"),
    (runs, "make_problem", "problems"),
    (runs, "fit_path", "paths"),
    (runs.Task, "_scored", "metric"),
    (search.Search, "refit", "refit"),
)
METRIC: Watched = (
    (Truth, "rank", "sorting"),
    (Truth, "__init__", "grouping"),
)


@dataclass
class Phases:
    """Seconds of the calling thread by phase; those of other threads are added up as well."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _inside: threading.local = field(default_factory=threading.local)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a block, unless it is part of another phase."""
        if getattr(self._inside, "phase", None) is not None:
            yield
            return
        self._inside.phase = name
        before = time.perf_counter()
        try:
            yield
        finally:
            self._inside.phase = None
            with self._lock:
                self.seconds[name] += time.perf_counter() - before


@contextmanager
def watching(watched: Watched) -> Iterator[Phases]:
    """Time the phases inside the block."""
    phases = Phases()

    def watch(owner: Any, name: str, phase: str) -> Any:
        function = getattr(owner, name)

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with phases.phase(phase):
                return function(*args, **kwargs)

        return mock.patch.object(owner, name, timed)

    with ExitStack() as patches:
        for point in watched:
            patches.enter_context(watch(*point))
        yield phases


@dataclass(frozen=True)
class Case:
    """Something whose time depends on the number of threads.

    Attributes
    ----------
    name : str
    make : callable
        ``make()`` returns the data.
    run : callable
        ``run(data, n_threads)`` is what is timed.
    phases : callable
        ``phases()`` is a context manager; its value has the seconds of the phases of a run inside
        its block, by name.  Phases of several threads at once may add up to more than the run.
    goal : float or None
        How many times faster 16 cores should be than one.
    """

    name: str
    make: Callable[[], Any]
    run: Callable[[Any, int], Any]
    phases: Callable[[], Any]
    goal: float | None = None


def cases(config: Config) -> list[Case]:
    """Return the cases, in the sizes that the command line asked for."""
    n_queries = config.size(1_017, 30)
    components = config.size(2_000, 60)
    kernel: dict[str, tuple[Mapping[str, Any], Watched, float | None]] = {
        "exact rbf": ({"memory_budget": "8GB"}, EXACT, 10.0),
        f"Nystrom {components:,}": (_approximate("nystroem", components), NYSTROEM, 8.0),
        f"Nystrom {components:,}, k-means landmarks": (
            {**_approximate("nystroem", components), "landmarks": "kmeans"}, NYSTROEM, None,
        ),
        f"Fourier {components:,}": (_approximate("fourier", components), FOURIER, None),
    }  # fmt: skip
    found = [
        Case(
            f"{name}, MQ2007-like",
            partial(_mq2007, n_queries),
            partial(_fit_kernel, settings=settings),
            partial(watching, watched),
            goal,
        )
        for name, (settings, watched, goal) in kernel.items()
    ]
    rows = config.size(20_000, 40)  # queries: about 500 MB of text
    found += [
        Case("reading LETOR text", partial(TextFile, rows), _read, partial(watching, READER), 8.0),
        Case(
            "reading LETOR text, gzip",
            partial(TextFile, config.size(4_000, 40), is_compressed=True),
            _read,
            partial(watching, READER),
        ),
        Case("writing LETOR text", partial(TextFile, rows), _write, partial(watching, WRITER)),
        Case(
            "LinearRankSVMCV, 5 folds x 19 C",
            partial(letor_like, config.size(7_200, 60)),
            _search,
            partial(watching, SEARCH),
            8.0,
        ),
    ]
    n_items = config.size(1_000_000, 3_000)
    for name, size in (("queries of 100", 100), ("one ranking", n_items)):
        found.append(
            Case(
                f"4 metrics of {n_items:,} items, {name}",
                partial(_items, n_items, size),
                _evaluate,
                partial(watching, METRIC),
            )
        )
    return found


# --- Kernels --------------------------------------------------------------------------------------


def _approximate(approximation: str, n_components: int) -> dict[str, Any]:
    return {"approximation": approximation, "n_components": n_components}


def _mq2007(n_queries: int) -> Task:
    return mq2007_like(n_queries)[0]


def _fit_kernel(task: Task, n_threads: int, settings: Mapping[str, Any]) -> KernelRankSVM:
    model = KernelRankSVM(
        task.C, gamma=task.gamma, reduction=task.reduction, tol=TOL, random_state=SEED,
        n_jobs=n_threads, **settings,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(task.X, task.y, task.qid)


# --- Text -----------------------------------------------------------------------------------------


class TextFile:
    """A set, and its file, which is deleted with this object."""

    def __init__(self, n_queries: int, *, is_compressed: bool = False) -> None:
        task = letor_like(n_queries)
        # Six decimals, as in the files of LETOR.
        self.data = RankingData(task.X.round(6), task.y, task.qid)
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / ("set.txt.gz" if is_compressed else "set.txt")
        self.written = Path(self._folder.name) / "written.txt"
        save_letor(self.path, *self.data)


def _read(file: TextFile, n_threads: int) -> RankingData:
    return load_letor(file.path, n_jobs=n_threads)


def _write(file: TextFile, n_threads: int) -> None:
    save_letor(file.written, *file.data, n_jobs=n_threads)


# --- Searches and metrics -------------------------------------------------------------------------


def _search(task: Task, n_threads: int) -> LinearRankSVMCV:
    model = LinearRankSVMCV(
        2.0 ** np.arange(-14.0, 5.0), cv=5, metric="ndcg@10", tol=TOL, n_jobs=n_threads
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(task.X, task.y, task.qid)


def _items(n_items: int, size: int) -> tuple[Any, Any, Any]:
    """Grades, scores that know something of them, and query ids."""
    rng = np.random.default_rng(SEED)
    y = rng.integers(0, 5, n_items)
    return y, y + 2.0 * rng.standard_normal(n_items), np.arange(n_items) // size


def _evaluate(items: tuple[Any, Any, Any], n_threads: int) -> list[float]:
    y, scores, qid = items
    truth = Truth(y, qid, n_jobs=n_threads)
    ranked = truth.ranked(scores)
    metrics = map(parse_metric, ("ndcg@10", "map", "mrr", "pairwise_accuracy"))
    return [metric.mean(metric.by_query(ranked, "standard")) for metric in metrics]
