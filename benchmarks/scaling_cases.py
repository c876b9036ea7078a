"""What is run with 1, 2, ... threads: linear fits, kernels, readers, searches, metrics.

A case makes its data once and runs with any number of threads.  Its phases are functions and
methods that are watched from outside while it runs; what they call in turn counts for them, too.
The rest of the time is "rest".
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
from benchmarks.sets import (
    CADATA_LAMBDA,
    LETOR_C,
    REUTERS_LAMBDA,
    Task,
    letor_like,
    mq2007_like,
)
from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV, _points, objective
from ranksvm.backends import native
from ranksvm.data import load_letor, save_letor, svmlight, svmlight_writer
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_cadata_like, make_letor_like, make_reuters_like
from ranksvm.estimators import inputs
from ranksvm.learners import kernel as kernel_training
from ranksvm.maps import feature_map, features
from ranksvm.maps.features import FourierBasis, NystroemBasis
from ranksvm.maps.gram import TiledGram
from ranksvm.maps.kernel import KernelMap
from ranksvm.maps.matrix import MatrixMap
from ranksvm.metrics.ranked import Truth
from ranksvm.metrics.registry import parse_metric
from ranksvm.model_selection import runs
from ranksvm.pairs import oracle

# The package has a function of the same name.
search: Any = import_module("ranksvm.model_selection.search")

# Owner and name of a function or method, and the phase that its time belongs to.
Watched = tuple[tuple[Any, str, str], ...]

LINEAR: Watched = (
    (inputs, "check_X", "checking X"),
    (inputs, "check_labels", "labels, ids"),
    (QueryGroups, "from_qid", "labels, ids"),
    (native.NativeBackend, "__init__", "order of pairs"),
    (MatrixMap, "scores", "X w"),
    (MatrixMap, "pullback", "X' g"),
    (MatrixMap, "_row_norm", "norms of X"),
    (MatrixMap, "scatter", "preconditioner"),
    (native.NativeSnapshot, "__init__", "sorting scores"),
    (native.NativeSnapshot, "plan", "violated pairs"),
    (native.NativePlan, "laplacian", "sums over pairs"),
    (native.NativePlan, "score_laplacian", "sums over pairs"),
    (native.NativePlan, "counts", "sums over pairs"),
    (native.NativePlan, "imbalance", "gathers"),
    (native.NativeSnapshot, "centred", "gathers"),
    (_points, "add_scaled", "vectors"),
    (_points, "scaled", "vectors"),
    (objective, "add_scaled", "vectors"),
    (oracle, "dot", "vectors"),
    (oracle, "scale", "vectors"),
    (oracle, "add_scaled_to", "vectors"),
)
EXACT: Watched = (
    (TiledGram, "__init__", "kernel values"),
    (TiledGram, "product", "products"),
    (KernelMap, "scatter", "preconditioner"),
    (kernel_training.KernelProblem, "model", "model"),
)
NYSTROEM: Watched = (
    (features, "choose_landmarks", "landmarks"),
    (features, "whitening", "whitening"),
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
        found = vars(owner).get(name)
        function = getattr(found, "__func__", None) or getattr(found, "fget", None)
        function = function or getattr(owner, name)

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with phases.phase(phase):
                return function(*args, **kwargs)

        kind = type(found) if isinstance(found, classmethod | property) else lambda same: same
        return mock.patch.object(owner, name, kind(timed))

    with ExitStack() as patches:
        for point in watched:
            patches.enter_context(watch(*point))
        yield phases


@dataclass(frozen=True)
class Case:
    """Something whose time depends on the number of threads.

    Attributes
    ----------
    key : str
        Goals, if any, are ``scaling_<key>_2`` and ``scaling_<key>_16``.
    name : str
    make : callable
        ``make()`` returns the data.
    run : callable
        ``run(data, n_threads)`` is what is timed.
    phases : callable
        ``phases()`` is a context manager; its value has the seconds of the phases of a run inside
        its block, by name.  Phases of several threads at once may add up to more than the run.
    """

    key: str
    name: str
    make: Callable[[], Any]
    run: Callable[[Any, int], Any]
    phases: Callable[[], Any]


def cases(config: Config) -> list[Case]:
    """Return the cases, in the sizes that the command line asked for."""
    return [*_linear_cases(config), *_other_cases(config)]


def _linear_cases(config: Config) -> list[Case]:
    letor = {"C": LETOR_C, "reduction": "sum"}
    kinds: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
        "queries": (
            "linear, 2,000,000 x 46 in 50,000 queries",
            partial(_set, make_letor_like, config.size(48_800, 200)), letor,
        ),
        "queries_100k": (
            "linear, 100,000 x 46 in 2,440 queries",
            partial(_set, make_letor_like, config.size(2_440, 60)), letor,
        ),
        "ranking": (
            "linear, one ranking of 1,000,000 x 8",
            partial(_set, make_cadata_like, config.size(1_000_000, 5_000)),
            {"C": 0.5 / CADATA_LAMBDA},
        ),
        "ranking_100k": (
            "linear, one ranking of 100,000 x 8",
            partial(_set, make_cadata_like, config.size(100_000, 3_000)),
            {"C": 0.5 / CADATA_LAMBDA},
        ),
        "text": (
            "linear, text-like CSR 512,000 x 50,000",
            partial(_set, make_reuters_like, config.size(512_000, 2_000)),
            {"C": 0.5 / REUTERS_LAMBDA},
        ),
    }  # fmt: skip
    return [
        Case(key, name, make, partial(fit_linear, settings=settings), partial(watching, LINEAR))
        for key, (name, make, settings) in kinds.items()
    ]


def _set(make: Callable[..., Any], size: int) -> Any:
    return make(size, random_state=SEED)[:3]


def fit_linear(data: Any, n_threads: int, settings: Mapping[str, Any]) -> LinearRankSVM:
    """Fit a linear model to (X, y, qid)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LinearRankSVM(scaling=None, tol=TOL, n_jobs=n_threads, **settings).fit(*data)


def _other_cases(config: Config) -> list[Case]:
    n_queries = config.size(1_017, 30)
    components = config.size(2_000, 60)
    nystroem = _approximate("nystroem", components)
    kernel: dict[str, tuple[str, Mapping[str, Any], Watched]] = {
        "kernel": ("exact rbf", {"memory_budget": "8GB"}, EXACT),
        "nystroem": (f"Nystrom {components:,}", nystroem, NYSTROEM),
        "kmeans": (
            f"Nystrom {components:,}, k-means landmarks",
            {**nystroem, "landmarks": "kmeans"}, NYSTROEM,
        ),
        "fourier": (f"Fourier {components:,}", _approximate("fourier", components), FOURIER),
    }  # fmt: skip
    found = [
        Case(
            key,
            f"{name}, MQ2007-like",
            partial(_mq2007, n_queries),
            partial(_fit_kernel, settings=settings),
            partial(watching, watched),
        )
        for key, (name, settings, watched) in kernel.items()
    ]
    rows = config.size(20_000, 40)  # queries: about 500 MB of text
    reading, writing = partial(watching, READER), partial(watching, WRITER)
    small = partial(TextFile, config.size(4_000, 40), is_compressed=True)
    found += [
        Case("letor", "reading LETOR text", partial(TextFile, rows), _read, reading),
        Case("letor_gzip", "reading LETOR text, gzip", small, _read, reading),
        Case("letor_write", "writing LETOR text", partial(TextFile, rows), _write, writing),
        Case(
            "cv",
            "LinearRankSVMCV, 5 folds x 19 C",
            partial(letor_like, config.size(7_200, 60)),
            _search,
            partial(watching, SEARCH),
        ),
    ]
    n_items = config.size(1_000_000, 3_000)
    for key, name, size in (
        ("metrics", "queries of 100", 100),
        ("metrics_ranking", "one ranking", n_items),
    ):
        found.append(
            Case(
                key,
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
        task.C, gamma=task.gamma, reduction=task.reduction, scaling=None, tol=TOL,
        random_state=SEED, n_jobs=n_threads, **settings,
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
        2.0 ** np.arange(-14.0, 5.0),
        cv=5,
        metric="ndcg@10",
        scaling=None,
        tol=TOL,
        n_jobs=n_threads,
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
