"""What a run has found, in the order of its telling: sections of paragraphs, tables and figures.

Everything that enters a document is printed as it comes, the points of figures included, so the
report has no number that the run did not print.  :mod:`benchmarks.papers.html` and
:mod:`benchmarks.papers.markdown` write documents down.

Texts may have ``**bold**`` and ```code``` in them.  A cell of a table is a text, a number or None
("-").  Tables, figures and paragraphs are part of the
short Markdown summary as well as of the report, unless they are marked as a ``detail``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report import Row, format_table

__all__ = ["Bars", "Curve", "Document", "Figure", "Panel", "Paragraph", "Section", "Table"]


@dataclass(frozen=True)
class Paragraph:
    text: str
    detail: bool = False


@dataclass(frozen=True)
class Table:
    """``rows`` need not all have all columns; ``caption`` says how the numbers came about."""

    title: str
    rows: Sequence[Row]
    caption: str = ""
    detail: bool = False

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))


@dataclass(frozen=True)
class Curve:
    """A line of a panel.

    Attributes
    ----------
    label : str
        A label has one colour in all panels of a figure.
    points : sequence of (x, y)
    style : {"line", "published", "level"}
        "published": single marks that are not ours.  "level": a horizontal line at the first y.
    """

    label: str
    points: Sequence[tuple[float, float]]
    style: str = "line"


@dataclass(frozen=True)
class Panel:
    """Curves on one pair of axes; ``log`` names those with a logarithmic scale: "", "x", "xy"."""

    title: str
    curves: Sequence[Curve]
    xlabel: str
    ylabel: str
    log: str = "xy"


@dataclass(frozen=True)
class Bars:
    """Groups of bars on one pair of axes; ``values[label]`` has one number, or None, by group."""

    title: str
    groups: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    ylabel: str
    log: str = ""
    start: float = 0.0  # of the vertical axis


@dataclass(frozen=True)
class Figure:
    """Panels side by side; with a ``picture`` it is also written as ``<picture>.png``."""

    title: str
    panels: Sequence[Panel | Bars]
    caption: str = ""
    picture: str | None = None
    detail: bool = False


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    source: str
    parts: list[Paragraph | Table | Figure] = field(default_factory=list)


class Document:
    """Sections, printed as they grow."""

    def __init__(self) -> None:
        self.sections: list[Section] = []

    def section(self, name: str, title: str, source: str = "") -> None:
        """Begin a section; ``source`` cites the paper it is about."""
        self.sections.append(Section(name, title, source))
        print(f"\n=== {name}: {title}" + (f"\n    {source}" if source else ""), flush=True)

    def say(self, text: str, *, detail: bool = False) -> None:
        """Add a paragraph."""
        self._add(Paragraph(text, detail))
        print(f"\n{text}", flush=True)

    def table(
        self, title: str, rows: Sequence[Row], caption: str = "", *, detail: bool = False
    ) -> None:
        """Add a table."""
        table = Table(title, [dict(row) for row in rows], caption, detail)
        self._add(table)
        print(f"\n{title}\n{format_table(table.rows)}", flush=True)
        if caption:
            print(f"  {caption}", flush=True)

    def figure(
        self,
        title: str,
        panels: Sequence[Panel | Bars],
        caption: str = "",
        *,
        picture: str | None = None,
        detail: bool = False,
    ) -> None:
        """Add a figure, and print its points."""
        self._add(Figure(title, list(panels), caption, picture, detail))
        print(f"\nfigure: {title}")
        for panel in panels:
            print(f"  {panel.title}")
            for label, text in _points(panel):
                print(f"    {label}: {text}")
        if caption:
            print(f"  {caption}")

    def _add(self, part: Paragraph | Table | Figure) -> None:
        self.sections[-1].parts.append(part)


def _points(panel: Panel | Bars) -> list[tuple[str, str]]:
    if isinstance(panel, Bars):
        return [
            (label, "  ".join(f"{g} {_show(v)}" for g, v in zip(panel.groups, values, strict=True)))
            for label, values in panel.values.items()
        ]
    return [
        (curve.label, "  ".join(f"({_show(x)}, {_show(y)})" for x, y in curve.points))
        for curve in panel.curves
    ]


def _show(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"
