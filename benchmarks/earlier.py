"""Is anything slower with one thread than in an earlier revision of this repository?

``--against REV`` names the revision.  It is taken out of git, built and installed into a temporary
folder, and both libraries make the same calls on the same data, in processes that alternate.  On a
busy machine the processor time says more than the clock, so ratios are of that: medians over the
rounds of this one divided by the earlier one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import earlier_work
from benchmarks.common import SEED, TOL, Config
from benchmarks.report import Report, Row
from benchmarks.sets import CADATA_LAMBDA, LETOR_C, LETOR_RBF, REUTERS_LAMBDA
from ranksvm.data import save_letor
from ranksvm.datasets import make_cadata_like, make_letor_like, make_ranking, make_reuters_like

TITLE = "one thread, against an earlier revision (--against REV)"

ROOT = Path(__file__).resolve().parents[1]
GOAL = "earlier"
# Of the calls that search, and the one of those that do not: defaults change from one revision to
# the next.
CS = [50.0 * 2.0**power for power in range(-6, 13)]
METRICS = ["ndcg@10", "map", "mrr", "pairwise_accuracy"]
# One thread, whoever starts them.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class NotThere(Exception):
    """The earlier revision cannot be had; the message says why."""


@dataclass(frozen=True)
class Library:
    """A library that a process can be told to import.

    Attributes
    ----------
    folder : Path or None
        Where it was installed; None for the one that these benchmarks import.
    """

    folder: Path | None = None

    def seconds(self, data: Path, kind: str, parameters: Any, limit: float) -> tuple[float, float]:
        """Time a call in a process of its own: seconds by the clock, and of the processor."""
        options, first, last = [], [], []
        if self.folder is not None:
            # Without the site module, which would put this library onto the path.
            options, first = ["-S"], [str(self.folder)]
            last = list(dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")))
        work = {"kind": kind, "parameters": parameters, "first": first, "last": last}
        (data / "work.json").write_text(json.dumps(work), encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, *options, earlier_work.__file__, str(data), str(limit)]
        done = subprocess.run(
            command, env={**kept, **ONE_THREAD}, cwd=data, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{kind} failed: {done.stderr[-2000:]}")
        clock, processor = json.loads(done.stdout)
        return clock, processor


@dataclass(frozen=True)
class Set:
    """Data, and the calls that are timed on it.

    Attributes
    ----------
    name : str
    make : callable
        ``make(folder)`` writes the data.
    calls : mapping of str to (str, mapping)
        By the name of the call: its kind, one of ``earlier_work.WORK``, and its parameters.
    """

    name: str
    make: Callable[[Path], None]
    calls: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)


def run(config: Config, report: Report) -> None:
    try:
        with earlier_library(config.against) as earlier:
            compare(Library(), earlier, config, report)
    except NotThere as error:
        report.note(f"skipped: {error}")


def compare(this: Library, earlier: Library, config: Config, report: Report) -> None:
    """Time all calls with both libraries."""
    rows: list[Row] = []
    for one in sets(config):
        with tempfile.TemporaryDirectory() as folder:
            one.make(Path(folder))
            for name, (kind, parameters) in one.calls.items():
                rounds = []
                for turn in range(config.size(5, 1)):
                    pair = (this, earlier) if turn % 2 else (earlier, this)
                    found = {
                        id(library): library.seconds(
                            Path(folder), kind, parameters, config.size(2.0, 0.0)
                        )
                        for library in pair
                    }
                    rounds.append((*found[id(earlier)], *found[id(this)]))
                before, before_cpu, after, after_cpu = zip(*rounds, strict=True)
                ratios = [a / b for a, b in zip(after_cpu, before_cpu, strict=True)]
                rows.append(
                    {
                        "set": one.name,
                        "call": name,
                        "earlier, s": statistics.median(before),
                        "now, s": statistics.median(after),
                        "now / earlier": statistics.median(ratios),
                        "lowest": min(ratios),
                        "highest": max(ratios),
                    }
                )
    report.table(f"one thread, {config.against} and now; ratios of processor time", rows)
    worst = max(rows, key=lambda row: row["now / earlier"])
    report.reach(GOAL, worst["now / earlier"], f"{worst['set']}, {worst['call']}")


@contextmanager
def earlier_library(revision: str) -> Iterator[Library]:
    """Build and install a revision; the folder is deleted afterwards."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        archive, sources, installed = folder / "sources.tar", folder / "sources", folder / "library"
        _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", what=revision)
        _git("archive", "--format=tar", f"--output={archive}", revision, what=revision)
        with tarfile.open(archive) as packed:
            packed.extractall(sources, filter="data")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        install += ["--disable-pip-version-check", "--no-build-isolation"]
        done = subprocess.run(
            [*install, "--target", str(installed), str(sources)], capture_output=True, text=True
        )
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise NotThere(f"{revision} does not build here. {' '.join(last)}")
        yield Library(installed)


def _git(*arguments: str, what: str) -> None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    except OSError as error:
        raise NotThere(f"git cannot be run ({error.strerror})") from error
    if done.returncode:
        raise NotThere(f"there is no revision {what} here. {done.stderr.strip()}".strip())


# --- What is timed --------------------------------------------------------------------------------


def sets(config: Config) -> list[Set]:
    """Return the sets, in the sizes that the command line asked for."""
    letor = {"C": LETOR_C, "reduction": "sum"}
    cadata, reuters = {"C": 0.5 / CADATA_LAMBDA}, {"C": 0.5 / REUTERS_LAMBDA}
    rbf = {"kernel": "rbf", "reduction": "sum", "tol": TOL, "random_state": SEED, **LETOR_RBF}
    features = config.size(500, 20)
    n_items = config.size(1_000_000, 2_000)
    return [
        Set(
            "1,000 x 20",
            partial(_ranking, config.size(50, 5)),
            {
                "fit": _linear({}),
                "LinearRankSVMCV": _fit("LinearRankSVMCV", Cs=CS, cv=5, tol=TOL),
                "predict of 100 items": _predict(100, {}),
            },
        ),
        Set(
            "LETOR-like 100,000",
            partial(_letor, config.size(2_440, 20), with_text=True),
            {
                **_both_losses(letor),
                "predict": _predict(config.size(100_000, 500), letor),
                "reading LETOR text": ("read", {}),
            },
        ),
        Set("LETOR-like 1,000,000", partial(_letor, config.size(24_400, 30)), _squared(letor)),
        Set(
            "one ranking of 100,000",
            partial(_cadata, config.size(100_000, 500)),
            _both_losses(cadata),
        ),
        Set(
            "one ranking of 1,000,000",
            partial(_cadata, config.size(1_000_000, 600)),
            _squared(cadata),
        ),
        Set(
            "text-like 64,000",
            partial(_reuters, config.size(64_000, 300)),
            _both_losses(reuters),
        ),
        Set("text-like 512,000", partial(_reuters, config.size(512_000, 400)), _squared(reuters)),
        Set(
            "rbf, 4,000 items",
            partial(_letor, config.size(98, 8)),
            {"exact": _fit("KernelRankSVM", **rbf)},
        ),
        Set(
            "rbf, 10,000 items",
            partial(_letor, config.size(244, 10)),
            {
                f"Nystrom {features}": _fit(
                    "KernelRankSVM", approximation="nystroem", n_components=features, **rbf
                ),
                f"Fourier {features}": _fit(
                    "KernelRankSVM", approximation="fourier", n_components=features, **rbf
                ),
            },
        ),
        Set(
            "1,000,000 items in queries of 100",
            partial(_scores, n_items, 100),
            {"4 metrics": ("evaluate", {"metrics": METRICS})},
        ),
        Set(
            "one ranking of 1,000,000 scores",
            partial(_scores, n_items, n_items),
            {"4 metrics": ("evaluate", {"metrics": METRICS})},
        ),
    ]


Call = tuple[str, Mapping[str, Any]]


def _fit(estimator: str, **parameters: Any) -> Call:
    return "fit", {"estimator": estimator, **parameters}


def _linear(parameters: Mapping[str, Any]) -> Call:
    return _fit("LinearRankSVM", **{"C": CS[6], "tol": TOL, **parameters})


def _predict(n_items: int, parameters: Mapping[str, Any]) -> Call:
    return "predict", {"items": n_items, **_linear(parameters)[1]}


def _squared(parameters: Mapping[str, Any]) -> dict[str, Call]:
    return {"squared hinge": _linear(parameters)}


def _both_losses(parameters: Mapping[str, Any]) -> dict[str, Call]:
    return {**_squared(parameters), "hinge": _linear({**parameters, "loss": "hinge"})}


def _write(folder: Path, X: Any, y: Any, qid: Any) -> None:
    if sp.issparse(X):
        sp.save_npz(folder / "X.npz", X, compressed=False)
    else:
        np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    if qid is not None:
        np.save(folder / "qid.npy", qid)


def _ranking(n_queries: int, folder: Path) -> None:
    _write(folder, *make_ranking(n_queries, 20, 20, random_state=SEED)[:3])


def _letor(n_queries: int, folder: Path, *, with_text: bool = False) -> None:
    X, y, qid = make_letor_like(n_queries, random_state=SEED)[:3]
    _write(folder, X, y, qid)
    if with_text:
        save_letor(folder / "set.txt", X.round(6), y, qid)


def _cadata(n_items: int, folder: Path) -> None:
    _write(folder, *make_cadata_like(n_items, random_state=SEED)[:3])


def _reuters(n_items: int, folder: Path) -> None:
    _write(folder, *make_reuters_like(n_items, random_state=SEED)[:3])


def _scores(n_items: int, size: int, folder: Path) -> None:
    rng = np.random.default_rng(SEED)
    y = rng.integers(0, 5, n_items)
    _write(folder, y + 2.0 * rng.standard_normal(n_items), y, np.arange(n_items) // size)
