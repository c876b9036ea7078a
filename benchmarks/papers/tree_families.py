"""The sets of section 5 of Airola, Pahikkala & Salakoski in growing sizes, measured.

Countings whose cost is quadratic are measured where an evaluation takes about a second at most, and
extrapolated beyond, with the growth that they showed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks import sets
from benchmarks.common import growth_exponent
from benchmarks.papers import tree_cells
from benchmarks.papers.cells import Cell, Lab, Result
from benchmarks.papers.document import Document
from benchmarks.papers.models import left_out
from benchmarks.papers.tree_cells import COUNTINGS

__all__ = [
    "COUNTINGS",
    "EXPLICIT",
    "JUDGED_FROM",
    "LARGEST",
    "OURS",
    "Family",
    "Memory",
    "exponent",
    "extrapolated",
    "judged",
    "measured_families",
    "measured_memory",
    "most_items",
]

# The most items, as in the paper.
LARGEST = 512_000
OURS = "auto"
EXPLICIT = "explicit pairs"
# Growth is judged from here on, where there are two such sizes: below, fixed costs show.
JUDGED_FROM = 4_000


@dataclass(frozen=True)
class Family:
    """A set in growing sizes, and what was measured on it, by size."""

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
        """The same with the products."""
        return {m: s + self.iterations[m]["products"] for m, s in self.counting(name).items()}

    def of_fits(self, method: str, what: str = "seconds") -> dict[int, Any]:
        return {
            m: found["methods"][method][what]
            for m, found in self.fits.items()
            if method in found["methods"]
        }


def measured_families(lab: Lab, document: Document) -> list[Family]:
    """Real sets that are there, and last the generated one."""
    return [_measured(lab, family) for family in _families(lab, document)]


def _families(lab: Lab, document: Document) -> list[Family]:
    """Real sets that are there, and last the generated one."""
    real = lab.size((1_000, 2_000, 4_000, 8_000, 16_000), (250, 500, 1_000))
    families = []
    for name in ("cadata", "reuters21578"):
        if sets.has_file(name):
            families.append(Family(name, real))
        else:
            document.say(left_out(name))
    sizes = lab.size(tuple(1_000 * 2**k for k in range(10)), (250, 500, 1_000))
    options = {"n_test": lab.size(sets.REUTERS_LIKE_TEST, 2_000)}
    return [*families, Family("reuters-like", sizes, options, real=False)]


def most_items(lab: Lab, counting: str, *, trained: bool) -> int:
    """Largest m for a counting: quadratic ones where an evaluation takes about a second."""
    if counting in (OURS, "tree"):
        return LARGEST
    if trained:
        return lab.size(16_000, 500)
    return lab.size(64_000 if counting == "pairs" else 32_000, 500)


def _measured(lab: Lab, family: Family) -> Family:
    cells = [cell for m in family.sizes for cell in _cells(lab, family, m)]
    results = lab.run(f"tree: {family.name}", cells)
    return replace(
        family,
        iterations=dict(zip(family.sizes, results[::2], strict=True)),
        fits=dict(zip(family.sizes, results[1::2], strict=True)),
    )


def _cells(lab: Lab, family: Family, m: int) -> tuple[Cell, Cell]:
    reads = (family.name,) if family.real else ()
    about = {"family": family.name, "options": {"m": m, **family.options}}
    counted = [c for c in COUNTINGS if m <= most_items(lab, c, trained=False)]
    trained = [c for c in COUNTINGS if m <= most_items(lab, c, trained=True)]
    once = {"countings": [OURS, *counted], "rounds": lab.size(7, 1), "seconds": lab.size(8.0, 0.3)}
    fits = {"countings": trained, "rounds": lab.size(3, 1), "seconds": lab.size(15.0, 0.3)}
    fits["threads"] = lab.threads
    label = f"{family.name} {m:,}"
    return (
        Cell(f"{label}, iteration", tree_cells.subgradient, about | once, reads),
        Cell(f"{label}, training", tree_cells.training, about | fits, reads),
    )


@dataclass(frozen=True)
class Memory:
    """Peaks of memory on the generated set, by method and size; MB."""

    sizes: Sequence[int]
    found: Mapping[tuple[str, int], Result]

    @property
    def data(self) -> dict[int, float]:
        return {m: self.found["ours hinge", m]["input"] / 1e6 for m in self.sizes}

    def peak(self, method: str) -> dict[int, float]:
        """The data and what the method adds to them, for the sizes that it was measured at."""
        return {
            m: (result["input"] + result["added"]) / 1e6
            for (name, m), result in self.found.items()
            if name == method
        }

    def by_formula(self, m: int) -> float:
        """The data and a matrix of all pairs."""
        return self.data[m] + tree_cells.pair_bytes(self.found["ours hinge", m]["pairs"]) / 1e6


def measured_memory(lab: Lab) -> Memory:
    """Quadratic countings as far as training with them is measured."""
    full = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 128_000, LARGEST)
    sizes = lab.size(full, (500, 1_000))
    most = {f"bmrm {c}": most_items(lab, c, trained=True) for c in COUNTINGS}
    most |= {"ours hinge": LARGEST, "ours squared_hinge": lab.size(LARGEST, 0)}
    cells = {
        (method, m): Cell(f"{method}, {m:,} items", tree_cells.memory, {"method": method, "m": m})
        for m in sizes
        for method in tree_cells.FITS
        if m <= most[method]
    }
    cells |= {
        (EXPLICIT, m): Cell(f"{EXPLICIT}, {m:,} items", tree_cells.explicit_pairs, {"m": m})
        for m in sizes
        if m <= lab.size(4_000, 500)
    }
    results = lab.run("tree: memory", list(cells.values()))
    return Memory(sizes, dict(zip(cells, results, strict=True)))


def judged(sizes: Iterable[int]) -> list[int]:
    large = [m for m in sizes if m >= JUDGED_FROM]
    return large if len(large) > 1 else list(sizes)


def exponent(times: Mapping[int, float]) -> float | None:
    sizes = judged(times)
    return growth_exponent(sizes, [times[m] for m in sizes])


def extrapolated(times: Mapping[int, float], m: int) -> float:
    last = max(times)
    return times[last] * (m / last) ** (exponent(times) or 1.0)
