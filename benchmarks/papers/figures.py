"""Figures of the report, drawn with matplotlib.

Panels stand side by side with one legend below all of them.  A label has the same colour in all
panels of a figure.  Published values are hollow stars, levels are dashed lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from benchmarks.papers.report import Bars, Figure, Panel
from benchmarks.report import show

# For the colour-blind, on white: those of Okabe and Ito without yellow, three dark ones, grey.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
    "#882255", "#6B6B00", "#332288", "#777777",
)  # fmt: skip
MARKERS = "os^Dv<>PX"
# Inches of a panel, by the number of panels in a row.
SIZES = {1: (6.8, 4.2), 2: (5.0, 3.8), 3: (4.2, 3.5)}
# With no more bars than this in a panel, each has its value above it.
FEW_BARS = 12
STYLE = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
}


def draw(figure: Figure, kind: str) -> bytes:
    """Return the content of an "svg" or "png" file."""
    import matplotlib.style
    from matplotlib.figure import Figure as Canvas

    columns = 2 if len(figure.panels) == 4 else min(max(len(figure.panels), 1), max(SIZES))
    rows = max(math.ceil(len(figure.panels) / columns), 1)
    width, height = SIZES[columns]
    labels = dict.fromkeys(label for panel in figure.panels for label in panel.labels)
    looks = {
        label: {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
        for k, label in enumerate(labels)
    }
    with matplotlib.style.context(["default", STYLE]):
        canvas = Canvas(figsize=(width * columns, height * rows), layout="constrained")
        legend: dict[str, Any] = {}
        for k, panel in enumerate(figure.panels):
            axes = canvas.add_subplot(rows, columns, k + 1, title=panel.title)
            plot = _bars if isinstance(panel, Bars) else _curves
            legend = plot(axes, panel, looks) | legend
        if legend:
            room = int(12 * width * columns / (max(map(len, legend)) + 6))
            lines = math.ceil(len(legend) / max(room, 1))
            canvas.set_figheight(height * rows + 0.2 * lines)
            canvas.legend(
                legend.values(), legend.keys(), loc="outside lower center",
                ncols=math.ceil(len(legend) / lines),
            )  # fmt: skip
        file = BytesIO()
        canvas.savefig(file, format=kind, dpi=150)
    return file.getvalue()


def _curves(axes: Any, panel: Panel, looks: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the curves of a panel; return the entries of the legend."""
    for name in ("x", "y"):
        if name in panel.log:  # points without a logarithm are left out
            axes.set(**{f"{name}scale": "log"})
    legend = {}
    for curve in panel.curves:
        if not curve.points:
            continue
        x, y = zip(*curve.points, strict=True)
        look = looks[curve.label]
        if curve.style == "level":
            handle = axes.axhline(y[0], color=look["color"], linestyle="--", linewidth=1.2)
        elif curve.style == "published":
            (handle,) = axes.plot(
                x, y, "*", markersize=11, markerfacecolor="white", markeredgecolor=look["color"]
            )
        else:
            every = max(1, len(x) // 25)  # the marks of a long curve would hide it
            (handle,) = axes.plot(x, y, **look, markersize=4, markevery=every, linewidth=1.5)
        legend[curve.label] = handle
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.grid(visible=True, alpha=0.25)
    return legend


def _bars(axes: Any, panel: Bars, looks: Mapping[str, Any]) -> dict[str, Any]:
    """Draw groups of bars; return the entries of the legend."""
    width = 0.8 / len(panel.values)
    few = len(panel.values) * len(panel.groups) <= FEW_BARS
    legend = {}
    for k, (label, values) in enumerate(panel.values.items()):
        shift = (k - (len(panel.values) - 1) / 2) * width
        places = [group + shift for group in range(len(panel.groups))]
        bars = axes.bar(places, values, 0.92 * width, color=looks[label]["color"])
        if few:
            axes.bar_label(bars, [show(value) for value in values], fontsize=7.5, padding=1.5)
        legend[label] = bars
    axes.set_ylim(bottom=panel.start)
    begins = f" (axis from {panel.start:g})" if panel.start else ""
    axes.set_ylabel(panel.ylabel + begins)
    axes.set_xticks(range(len(panel.groups)), panel.groups, rotation=30, ha="right")
    axes.grid(visible=True, axis="y", alpha=0.25)
    return legend
