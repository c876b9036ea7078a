"""Tables on the screen, everything in one JSON file, and the goals."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from benchmarks.common import Config

Row = Mapping[str, Any]

_PACKAGES = (
    "ranksvm", "numpy", "scipy", "scikit-learn", "scikit-survival", "lightgbm", "threadpoolctl",
    "matplotlib",
)  # fmt: skip


@dataclass(frozen=True)
class Goal:
    """A number that must not be exceeded; ``threads`` are those that the goal speaks of."""

    key: str
    what: str
    at_most: float
    threads: int


GOALS = (
    Goal("oracle_1", "oracle value + gradient, m = 1e6, 1 thread / stable sort", 2.0, 1),
    Goal("oracle_n", "the same, 2 threads", 1.2, 2),
    Goal("hessp_1", "Hessian product at a frozen point, m = 1e6, 1 thread / stable sort", 0.7, 1),
    Goal("hessp_n", "the same, 2 threads", 0.4, 2),
    Goal(
        "outside_products",
        "squared-hinge fit, reuters-like 512,000, 1 thread: outside / inside the products with X",
        0.7,
        1,
    ),
    Goal("csr_products", "threaded CSR products, 2 threads / SciPy's", 0.6, 2),
    Goal(
        "explicit_pairs",
        "hinge fit at gap 1e-3, cadata-like 16,000, 1 thread / explicit pairs",
        0.01,
        1,
    ),
    Goal(
        "letor_tree",
        "oracle value + gradient, LETOR-like, 1 thread / counting='tree'",
        0.3,
        1,
    ),
    Goal("growth", "growth exponent of fit time with m, cadata-like 1e4 to 1e6, 1 thread", 1.2, 1),
    Goal("letor_read", "load_letor, 2 threads / scikit-learn's load_svmlight_file", 0.1, 2),
    Goal("letor_memory", "peak memory of load_letor / the arrays that it returns", 2.0, 2),
    Goal("ndcg", "NDCG@10, 1e6 items in 1e4 queries, 1 thread / argsort + lexsort", 2.0, 1),
    Goal(
        "query_ranks",
        "ranks within queries, 1e6 x 46 in 24,400 queries, 1 thread / argsort of X by column",
        1.5,
        1,
    ),
    Goal("gain_fit", "linear fit with pair_weight='gain', 1 thread / uniform weights", 2.0, 1),
    Goal("auto_mq2008", "AutoRankSVM on MQ2008's first fold, 2 threads: seconds", 60.0, 2),
    Goal("auto_fast", "the same with preset='fast'", 1.0, 2),
    Goal("auto_large", "AutoRankSVM on 70,000 x 46 LETOR-like items, 2 threads: seconds", 600.0, 2),
    Goal("path", "LinearRankSVMCV over a grid of C / the same fits cold, 1 thread", 0.5, 1),
    Goal("help_seconds", "seconds of `ranksvm --help`", 0.4, 1),
    Goal(
        "train_seconds", "seconds of `ranksvm train` on 9,630 items (MQ2008's first fold)", 1.5, 1
    ),
    Goal("small_fit", "a fit of 1,000 x 20 in 50 queries: milliseconds of the whole call", 1.5, 1),
    Goal("small_fit_mq2008", "the same, MQ2008's first fold", 12.0, 1),
    Goal(
        "predict_linear", "predict of 100 items, linear: microseconds over NumPy's X @ w", 30.0, 1
    ),
    Goal("predict_frame", "the same, a pandas frame: microseconds over the array", 300.0, 1),
    Goal("predict_nystroem", "the same, Nystrom 500: microseconds", 250.0, 1),
    Goal("predict_exact", "the same, exact rbf with 10,000 support items: milliseconds", 2.0, 1),
    Goal("cold_seconds", "load and first linear prediction, cold interpreter: seconds", 0.25, 1),
    Goal("cold_memory", "the same: peak memory, MB", 60.0, 1),
    Goal("earlier", "no set gets slower: now / an earlier revision, the worst of all", 1.05, 1),
    Goal("kernel_products", "exact rbf, MQ2007's size: products with K", 70, 2),
    Goal("kernel_outside", "the same: part of the time outside forming K and the products", 0.1, 2),
    Goal("kernel_seconds", "the same: seconds of the fit", 180.0, 2),
    Goal("tiled_scores", "the same in 1 GB: difference of scores / their deviation", 1e-6, 2),
    Goal("tiled_memory", "the same in 1 GB: peak memory of the process beyond it, GB", 0.5, 2),
    Goal("kernel_mq2008", "exact rbf, MQ2008's first fold: seconds", 2.5, 2),
    Goal("kernel_cadata", "exact rbf, cadata-like 16,000, one ranking: seconds", 8.0, 2),
    Goal("nystroem_seconds", "Nystrom 2,000, MQ2007's size: seconds", 15.0, 2),
    Goal("nystroem_share", "the same / the exact fit", 0.2, 2),
    Goal("fourier_seconds", "Fourier 2,000, MQ2007's size: seconds", 15.0, 2),
    Goal("fourier_share", "the same / the exact fit", 0.2, 2),
    Goal("nystroem_letor", "Nystrom 2,000, LETOR-like 1,700 queries: seconds", 10.0, 2),
    Goal("nystroem_memory", "the same: peak memory of the process, GB", 1.5, 2),
    Goal("nystroem_growth", "growth exponent of Nystrom 500 with the items, 1e4 to 3e5", 1.1, 2),
    Goal("pair_growth", "growth exponent of value and gradient, 1e6 to 1e7 listed pairs", 1.2, 2),
    Goal("chosen_linear", "20,000 pairs of rows x 384, linear: seconds", 0.3, 2),
    Goal("chosen_nystroem", "the same, Nystrom 500: seconds", 1.5, 2),
    Goal(
        "factor_growth",
        "growth exponent of value and derivative, 10 factors, one query, 1e4 to 3e5 items",
        1.2,
        2,
    ),
    Goal(
        "out_of_core_speed",
        "fit_files, 16 GB of Parquet in 4 GB: speed of the disk / of the fit",
        1.43,
        2,
    ),
    Goal("out_of_core_memory", "the same: peak memory of the process beyond 4 GB, GB", 0.3, 2),
    Goal("out_of_core_coef", "fit_files / fit: largest difference of coefficients", 1e-10, 2),
    *(
        Goal(f"scaling_{key}_{threads}", f"{what}: {threads} threads / 1 thread", at_most, threads)
        for key, what, with_16 in (
            ("queries", "linear fit, 2,000,000 x 46, 50,000 queries", 1 / 8),
            ("ranking", "linear fit, 1,000,000 x 8, one ranking", 1 / 6),
            ("queries_100k", "linear fit, 100,000 x 46, 2,440 queries", None),
            ("ranking_100k", "linear fit, 100,000 x 8, one ranking", None),
            ("text", "linear fit, text-like CSR, 512,000 x 50,000", 1 / 8),
            ("kernel", "exact rbf, MQ2007's size", 1 / 10),
            ("nystroem", "Nystrom 2,000, MQ2007's size", 1 / 8),
            ("letor", "reading LETOR text", 1 / 8),
            ("cv", "LinearRankSVMCV, 5 folds x 19 C", 1 / 8),
        )
        for threads, at_most in ((2, 1 / 1.7), (16, with_16))
        if at_most is not None
    ),
    Goal("busy", "linear fit, 100,000 x 46, one busy process per core: threads / 1 thread", 1.0, 1),
    Goal("kernel_peer", "exact rbf, 1,000 items / scikit-survival's kernel SVM", 0.01, 2),
    Goal("survival_peer", "linear survival fit, 100,000 items / scikit-survival's", 0.01, 1),
    Goal(
        "survival_kernel_peer", "exact rbf survival fit, 2,000 items / scikit-survival's", 0.01, 2
    ),
    Goal("survival_fit", "survival fit with censored times, 1 thread / all events", 2.2, 1),
    Goal("text_products", "reuters-like 512,000, C = 2^-10 over the sum: products with X", 110, 1),
    Goal("rbf_products", "exact rbf, cadata-like 16,000: products with K", 100, 1),
    Goal("raw_products", "136 features of scales 1e-3 to 1e7: products / standardised", 2.0, 1),
    Goal("cheap_products", "cheap fits: products / without recycled directions", 1.05, 1),
)


GOAL_KEYS = frozenset(goal.key for goal in GOALS)


@dataclass(frozen=True)
class Measured:
    value: float
    detail: str


class Report:
    """Collects what the benchmarks find; prints it as it comes."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.parts: dict[str, dict[str, Any]] = {}
        self._part: dict[str, Any] = {}
        self._reached: dict[str, Measured] = {}

    @contextmanager
    def part(self, name: str, title: str) -> Any:
        """Everything inside the block belongs to the benchmark ``name``."""
        print(f"\n=== {name}: {title}", flush=True)
        self._part = self.parts[name] = {"title": title, "tables": {}, "notes": [], "curves": []}
        start = time.perf_counter()
        yield
        self._part["seconds"] = time.perf_counter() - start
        print(f"\n[{name}: {self._part['seconds']:.1f} s]", flush=True)

    def table(self, title: str, rows: Sequence[Row]) -> None:
        self._part["tables"][title] = [dict(row) for row in rows]
        print(f"\n{title}")
        print(format_table(rows), flush=True)

    def note(self, text: str) -> None:
        """A sentence that belongs to the tables: a check that was made, a row that was skipped."""
        self._part["notes"].append(text)
        print(f"  - {text}", flush=True)

    def curve(self, panel: str, label: str, points: Sequence[tuple[float, float]]) -> None:
        """A line of a figure: its panel, its name, (x, y) pairs."""
        self._part["curves"].append({"panel": panel, "label": label, "points": list(points)})

    def reach(self, key: str, value: float, detail: str) -> None:
        """Put down what was measured for a goal, and under which circumstances."""
        if key not in GOAL_KEYS:
            raise KeyError(f"no goal {key!r}; there are {', '.join(g.key for g in GOALS)}")
        self._reached[key] = Measured(value, detail)

    def goals(self) -> list[dict[str, Any]]:
        rows = []
        for goal in GOALS:
            found = self._reached.get(goal.key)
            rows.append(
                {
                    **asdict(goal),
                    "measured": None if found is None else found.value,
                    "verdict": self._verdict(goal, found),
                    "detail": "" if found is None else found.detail,
                }
            )
        return rows

    def _verdict(self, goal: Goal, found: Measured | None) -> str:
        if found is None:
            return "not run"
        if self.config.quick or goal.threads not in (1, self.config.threads):
            return "not judged"
        return "pass" if found.value <= goal.at_most else "miss"

    def print_goals(self) -> None:
        columns = ("what", "measured", "at_most", "verdict", "detail")
        rows = [{name: row[name] for name in columns} for row in self.goals()]
        print("\n=== goals\n")
        print(format_table(rows))
        if self.config.quick:
            print("\nquick: the sizes are smaller than stated, so the goals are not judged.")
        elif self.config.threads != 2:
            print("\nGoals that speak of another number of threads are not judged.")

    def write(self, path: Path) -> None:
        content = {
            "machine": describe_machine(),
            "config": asdict(self.config),
            "goals": self.goals(),
            "parts": self.parts,
        }
        path.write_text(json.dumps(content, indent=1, default=_plain) + "\n", encoding="utf-8")


def describe_machine() -> dict[str, Any]:
    """Processor, versions, BLAS: what the numbers depend on, and no name or path."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    pools = [
        f"{pool['internal_api']} {pool.get('version') or ''}".strip() for pool in threadpool_info()
    ]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "cpu": _cpu_model(),
        "cores": cores,
        "load": load,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "thread_pools": sorted(set(pools)),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else "unknown"


def format_table(rows: Sequence[Row]) -> str:
    """Aligned columns; numbers to the right."""
    if not rows:
        return "  (no rows)"
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[show(row.get(name)) for name in names] for row in rows]
    numeric = [all(not isinstance(row.get(name), str) for row in rows) for name in names]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]

    def line(parts: Sequence[str]) -> str:
        aligned = (
            part.rjust(width) if right else part.ljust(width)
            for part, width, right in zip(parts, widths, numeric, strict=True)
        )
        return ("  " + "  ".join(aligned)).rstrip()

    return "\n".join([line(names), line(["-" * width for width in widths]), *map(line, cells)])


def show(value: Any) -> str:
    """A cell of a table as text: texts as they are, numbers with three digits or more."""
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def _plain(value: Any) -> Any:
    """NumPy's numbers as JSON's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")
