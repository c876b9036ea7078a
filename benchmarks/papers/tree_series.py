"""The sets of section 5 of Airola, Pahikkala & Salakoski in growing sizes, and their measurements.

Quadratic countings are measured while an evaluation takes about a second at most, and extrapolated
beyond that with the growth that they showed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks import sets
from benchmarks.common import growth_exponent
from benchmarks.papers.jobs import Job, Result, Runner
from benchmarks.papers.measure import tree as measure
from benchmarks.papers.measure.tree import COUNTINGS
from benchmarks.papers.models import left_out
from benchmarks.papers.report import Report

# Most items, as in the paper.
LARGEST = 512_000
OURS = "auto"
EXPLICIT = "explicit pairs"
# Growth is fitted from here on, if there are two such sizes: below, fixed costs matter.
FITTED_FROM = 4_000


@dataclass(frozen=True)
class Series:
    """A set in growing sizes, and what was measured on it by size."""

    name: str
    sizes: Sequence[int]
    options: Mapping[str, Any] = field(default_factory=dict)
    real: bool = True
    iterations: Mapping[int, Result] = field(default_factory=dict)
    fits: Mapping[int, Result] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.name} ({'real' if self.real else 'generated'})"

    @property
    def largest(self) -> int:
        return max(self.sizes)

    def counting(self, name: str) -> dict[int, float]:
        """Seconds of one evaluation in score space, by size."""
        return {m: found[name] for m, found in self.iterations.items() if name in found}

    def iteration(self, name: str) -> dict[int, float]:
        """Seconds of one evaluation with the products, by size."""
        return {m: s + self.iterations[m]["products"] for m, s in self.counting(name).items()}

    def of_fits(self, method: str, what: str = "seconds") -> dict[int, Any]:
        return {
            m: found["methods"][method][what]
            for m, found in self.fits.items()
            if method in found["methods"]
        }


def measured_series(runner: Runner, report: Report) -> list[Series]:
    """The real sets that are there, and last the generated one."""
    return [_measured(runner, series) for series in _all_series(runner, report)]


def _all_series(runner: Runner, report: Report) -> list[Series]:
    real = runner.size((1_000, 2_000, 4_000, 8_000, 16_000), (250, 500, 1_000))
    all_series = []
    for name in ("cadata", "reuters21578"):
        if sets.has_file(name):
            all_series.append(Series(name, real))
        else:
            report.say(left_out(name))
    sizes = runner.size(tuple(1_000 * 2**k for k in range(10)), (250, 500, 1_000))
    options = {"n_test": runner.size(sets.REUTERS_LIKE_TEST, 2_000)}
    return [*all_series, Series("reuters-like", sizes, options, real=False)]


def most_items(runner: Runner, counting: str, *, trained: bool) -> int:
    """Largest m for a counting; quadratic ones while an evaluation takes about a second."""
    if counting in (OURS, "tree"):
        return LARGEST
    if trained:
        return runner.size(16_000, 500)
    return runner.size(64_000 if counting == "pairs" else 32_000, 500)


def _measured(runner: Runner, series: Series) -> Series:
    jobs = [job for m in series.sizes for job in _jobs(runner, series, m)]
    results = runner.run(f"tree: {series.name}", jobs)
    return replace(
        series,
        iterations=dict(zip(series.sizes, results[::2], strict=True)),
        fits=dict(zip(series.sizes, results[1::2], strict=True)),
    )


def _jobs(runner: Runner, series: Series, m: int) -> tuple[Job, Job]:
    about = {"name": series.name, "options": {"m": m, **series.options}}
    counted = [c for c in COUNTINGS if m <= most_items(runner, c, trained=False)]
    once = {
        "countings": [OURS, *counted],
        "rounds": runner.size(7, 1),
        "seconds": runner.size(8.0, 0.3),
    }
    fits = {
        "countings": [c for c in COUNTINGS if m <= most_items(runner, c, trained=True)],
        "rounds": runner.size(3, 1),
        "seconds": runner.size(15.0, 0.3),
        "threads": runner.threads,
    }
    label = f"{series.name} {m:,}"
    return (
        Job(f"{label}, iteration", measure.subgradient, about | once),
        Job(f"{label}, training", measure.training, about | fits),
    )


@dataclass(frozen=True)
class Memory:
    """Peak memory on the generated set in MB, by method and size."""

    sizes: Sequence[int]
    found: Mapping[tuple[str, int], Result]

    @property
    def data(self) -> dict[int, float]:
        return {m: self.found["ours hinge", m]["input"] / 1e6 for m in self.sizes}

    def peak(self, method: str) -> dict[int, float]:
        """The data and what the method adds, by size."""
        return {
            m: (result["input"] + result["added"]) / 1e6
            for (name, m), result in self.found.items()
            if name == method
        }

    def by_formula(self, m: int) -> float:
        """The data and a matrix of all pairs."""
        return self.data[m] + measure.pair_bytes(self.found["ours hinge", m]["pairs"]) / 1e6


def measured_memory(runner: Runner) -> Memory:
    """Quadratic countings are measured as far as training with them is."""
    full = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 128_000, LARGEST)
    sizes = runner.size(full, (500, 1_000))
    most = {f"bmrm {c}": most_items(runner, c, trained=True) for c in COUNTINGS}
    most |= {"ours hinge": LARGEST, "ours squared_hinge": runner.size(LARGEST, 0)}
    jobs = {
        (method, m): Job(f"{method}, {m:,} items", measure.memory, {"method": method, "m": m})
        for m in sizes
        for method in measure.FITS
        if m <= most[method]
    }
    jobs |= {
        (EXPLICIT, m): Job(f"{EXPLICIT}, {m:,} items", measure.explicit_pairs, {"m": m})
        for m in sizes
        if m <= runner.size(4_000, 500)
    }
    results = runner.run("tree: memory", list(jobs.values()))
    return Memory(sizes, dict(zip(jobs, results, strict=True)))


def exponent(times: Mapping[int, float]) -> float | None:
    """Growth exponent of times by size."""
    large = [m for m in times if m >= FITTED_FROM]
    sizes = large if len(large) > 1 else list(times)
    return growth_exponent(sizes, [times[m] for m in sizes])


def extrapolated(times: Mapping[int, float], m: int) -> float:
    """The last time, grown to another size with the exponent of all."""
    last = max(times)
    return times[last] * (m / last) ** (exponent(times) or 1.0)
