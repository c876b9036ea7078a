"""The report of a run while it grows: sections of sentences, tables and figures.

Everything is printed as it is added.  :mod:`benchmarks.papers.pages` writes it down.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.report import Row, format_table

# Texts such as "0.41 ± 0.02", "-12 -11", "(1, -6)", "< 0.001", "85%" and "-".
_NUMBERS = re.compile(r"[-+±<>(),/^%.e\d\s]*")


@dataclass(frozen=True)
class Table:
    """Rows need not have all columns; the caption says how the numbers came about."""

    title: str
    rows: Sequence[Row]
    caption: str = ""

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def is_numeric(self, column: str) -> bool:
        """Return whether a column has nothing but numbers."""
        values = [row.get(column) for row in self.rows]
        return all(not isinstance(v, str) or _NUMBERS.fullmatch(v) is not None for v in values)


@dataclass(frozen=True)
class Curve:
    """A line of a panel.

    Attributes
    ----------
    label : str
    points : sequence of (x, y)
    style : {"line", "published", "level"}
        "published": single marks.  "level": a horizontal line at the first y.
    """

    label: str
    points: Sequence[tuple[float, float]]
    style: str = "line"


@dataclass(frozen=True)
class Panel:
    """Curves on one pair of axes; ``log`` names the logarithmic ones: "", "x", "y" or "xy"."""

    title: str
    curves: Sequence[Curve]
    xlabel: str
    ylabel: str
    log: str = "xy"

    @property
    def labels(self) -> list[str]:
        return [curve.label for curve in self.curves]

    @property
    def numbers(self) -> Table:
        """What the panel shows."""
        points = (", ".join(f"({x:.4g}, {y:.4g})" for x, y in c.points) for c in self.curves)
        axes = f"({self.xlabel}, {self.ylabel})"
        rows = [{"": label, axes: text} for label, text in zip(self.labels, points, strict=True)]
        return Table(self.title, rows)


@dataclass(frozen=True)
class Bars:
    """Groups of bars: ``values[label]`` has one number per group; y begins at ``start``."""

    title: str
    groups: Sequence[str]
    values: Mapping[str, Sequence[float]]
    ylabel: str
    start: float = 0.0

    @property
    def labels(self) -> list[str]:
        return list(self.values)

    @property
    def numbers(self) -> Table:
        """What the panel shows."""
        rows = [
            {"": label} | {g: f"{v:.4f}" for g, v in zip(self.groups, values, strict=True)}
            for label, values in self.values.items()
        ]
        return Table(self.title, rows)


@dataclass(frozen=True)
class Figure:
    """Panels side by side; ``picture`` is the name of the PNG file that other pages show."""

    title: str
    panels: Sequence[Panel | Bars]
    caption: str = ""
    picture: str | None = None


@dataclass(frozen=True)
class Section:
    """What is said about a paper, in order; a text is a paragraph."""

    name: str
    title: str
    source: str
    parts: list[str | Table | Figure] = field(default_factory=list)


class Report:
    """Sections, and what of them the short page says.

    Attributes
    ----------
    sections : list of Section
    agreeing, differing, other : list of str
        Sentences for the short page: where the run agrees with the papers, where it does not, and
        what has no counterpart in the papers.
    """

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.agreeing: list[str] = []
        self.differing: list[str] = []
        self.other: list[str] = []

    def section(self, name: str, title: str, source: str) -> None:
        """Start a section; ``source`` cites the paper."""
        self.sections.append(Section(name, title, source))
        print(f"\n=== {name}: {title}\n    {source}", flush=True)

    def say(self, text: str) -> None:
        """Add a paragraph."""
        self.sections[-1].parts.append(text)
        print(f"\n{text}", flush=True)

    def find(self, text: str, *, agrees: bool | None) -> None:
        """Add a paragraph that the short page has, too; None if there is nothing to agree with."""
        self.say(text)
        {True: self.agreeing, False: self.differing, None: self.other}[agrees].append(text)

    def table(self, title: str, rows: Sequence[Row], caption: str = "") -> None:
        """Add a table."""
        self.sections[-1].parts.append(Table(title, rows, caption))
        print(f"\n{title}\n{format_table(rows)}", flush=True)
        if caption:
            print(f"  {caption}", flush=True)

    def figure(
        self,
        title: str,
        panels: Sequence[Panel | Bars],
        caption: str = "",
        *,
        picture: str | None = None,
    ) -> None:
        """Add a figure."""
        self.sections[-1].parts.append(Figure(title, panels, caption, picture))
        print(f"\nfigure: {title}", flush=True)

    @property
    def pictures(self) -> list[Figure]:
        """Figures that other pages show."""
        parts = (part for section in self.sections for part in section.parts)
        return [part for part in parts if isinstance(part, Figure) and part.picture]
