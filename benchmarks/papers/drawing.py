"""Figures of a document as pictures, with matplotlib.

Panels stand side by side, three in a row at most, with one legend below all of them, so that it
never covers anything.  A label has one colour, one mark and one kind of line in all panels of a
figure; what others published is a hollow star, a level a dashed line.

The same figure gives the same bytes: settings of the user's matplotlib are left aside, a picture
has no date, and names inside an SVG come from its content.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any, TypeGuard

from benchmarks.papers.document import Bars, Curve, Figure, Panel
from benchmarks.report import show

__all__ = ["draw"]

# Told apart by the colour-blind and readable on white: those of Okabe and Ito but yellow, three
# dark ones, grey.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
    "#882255", "#6B6B00", "#332288", "#777777",
)  # fmt: skip
MARKS = "os^Dv<>PX"
LINES = ("-", (0, (5, 1.5)), (0, (1, 1)))  # after all colours are used up

# Inches of a panel by the number of panels in a row.
SIZES = {1: (6.8, 4.2), 2: (5.0, 3.8), 3: (4.2, 3.5)}
# Bars of a panel that still have their values above them.
FEW = 12

STYLE = {
    "svg.hashsalt": "benchmarks.papers",
    "svg.fonttype": "path",  # looks the same wherever it is opened
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.1,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
}
# No date and no program's name; SVG has fields of its own.
METADATA: dict[str, dict[str, None]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "png": {"Software": None},
}


def draw(figure: Figure, *, kind: str) -> bytes:
    """Draw a figure.

    Parameters
    ----------
    figure : Figure
    kind : {"svg", "png"}

    Returns
    -------
    bytes
        The content of the file.
    """
    if kind not in METADATA:
        raise ValueError(f"a figure is drawn as {' or '.join(METADATA)}, not as {kind!r}")
    try:
        import matplotlib.style
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ImportError(
            "figures are drawn with matplotlib, which is not installed: "
            "pip install 'ranksvm[bench]'"
        ) from error

    columns = min(max(len(figure.panels), 1), max(SIZES))
    if len(figure.panels) == 4:
        columns = 2  # two rows of two
    rows = max(math.ceil(len(figure.panels) / columns), 1)
    width, height = SIZES[columns]
    with matplotlib.style.context(["default", STYLE]):
        canvas = Canvas(figsize=(width * columns, height * rows), layout="constrained")
        looks = {label: _look(k) for k, label in enumerate(_labels(figure.panels))}
        legend: dict[str, Any] = {}
        for k, panel in enumerate(figure.panels):
            axes = canvas.add_subplot(rows, columns, k + 1)
            entries = (
                _bars(axes, panel, looks)
                if isinstance(panel, Bars)
                else _curves(axes, panel, looks)
            )
            for name, handle in entries:
                legend.setdefault(name, handle)
            axes.set_title(_plain(panel.title))
        _legend(canvas, legend)
        file = BytesIO()
        canvas.savefig(file, format=kind, dpi=150, metadata=METADATA[kind])
    return file.getvalue()


# --- Looks ----------------------------------------------------------------------------------------


def _labels(panels: Iterable[Panel | Bars]) -> list[str]:
    """All labels of a figure, in the order in which they come."""
    found: dict[str, None] = {}
    for panel in panels:
        names = panel.values if isinstance(panel, Bars) else (c.label for c in panel.curves)
        found.update(dict.fromkeys(names))
    return list(found)


def _look(k: int) -> dict[str, Any]:
    """Colour, mark and line of the k-th label."""
    return {
        "color": COLOURS[k % len(COLOURS)],
        "marker": MARKS[k % len(MARKS)],
        "linestyle": LINES[k // len(COLOURS) % len(LINES)],
    }


def _legend(canvas: Any, entries: dict[str, Any]) -> None:
    """One legend below the panels, in as many columns as there is room for."""
    named = {name: handle for name, handle in entries.items() if name}
    if not named:
        return
    room = 12.0 * canvas.get_figwidth()  # characters, roughly
    columns = max(1, min(len(named), int(room / (max(map(len, named)) + 6))))
    # As even as can be: eight entries where seven have room are four and four.
    rows = math.ceil(len(named) / columns)
    columns = math.ceil(len(named) / rows)
    canvas.set_figheight(canvas.get_figheight() + 0.2 * rows)
    canvas.legend(
        list(named.values()), list(map(_plain, named)), loc="outside lower center", ncols=columns
    )


def _plain(text: str) -> str:
    """A text that matplotlib takes as it is, not as a formula."""
    return text.replace("$", r"\$")


# --- Curves ---------------------------------------------------------------------------------------


def _curves(axes: Any, panel: Panel, looks: dict[str, dict[str, Any]]) -> list[tuple[str, Any]]:
    """Draw the curves of a panel; gives the entries of the legend."""
    axes.set_xscale("log" if "x" in panel.log else "linear")
    axes.set_yscale("log" if "y" in panel.log else "linear")
    entries = []
    for curve in panel.curves:
        points = _drawable(curve, panel.log)
        if not points:
            continue
        x, y = zip(*points, strict=True)
        look = looks[curve.label]
        name = curve.label
        if curve.style == "level":
            handle = axes.axhline(y[0], color=look["color"], linestyle="--", linewidth=1.2)
        elif curve.style == "published":
            (handle,) = axes.plot(
                x, y, linestyle="none", marker="*", markersize=11, markerfacecolor="white",
                markeredgecolor=look["color"], markeredgewidth=1.3, zorder=3,
            )  # fmt: skip
            if name and "published" not in name.lower():
                name += " (published)"
        else:
            # Marks of a long curve would hide it.
            every = max(1, len(points) // 25)
            (handle,) = axes.plot(x, y, **look, markersize=4, markevery=every, linewidth=1.5)
        entries.append((name, handle))
    axes.set_xlabel(_plain(panel.xlabel))
    axes.set_ylabel(_plain(panel.ylabel))
    axes.grid(visible=True, which="major", alpha=0.25)
    return entries


def _drawable(curve: Curve, log: str) -> Sequence[tuple[float, float]]:
    """Points that are numbers, and positive where the scale is logarithmic.

    The x of a level does not matter.
    """
    points = curve.points[:1] if curve.style == "level" else curve.points
    checked_x = curve.style != "level"
    return [
        (x, y)
        for x, y in points
        if _fits(y, "y" in log) and (not checked_x or _fits(x, "x" in log))
    ]


def _fits(value: float | None, log: bool) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


# --- Bars -----------------------------------------------------------------------------------------


def _bars(axes: Any, panel: Bars, looks: dict[str, dict[str, Any]]) -> list[tuple[str, Any]]:
    """Draw groups of bars; gives the entries of the legend."""
    log = "y" in panel.log
    axes.set_yscale("log" if log else "linear")
    width = 0.8 / max(len(panel.values), 1)
    there = {
        label: [(k, v) for k, v in enumerate(values) if _fits(v, log)]
        for label, values in panel.values.items()
    }
    heights = [v for bars in there.values() for _, v in bars]
    entries = []
    for position, (label, bars) in enumerate(there.items()):
        if not bars:
            continue
        shift = (position - (len(there) - 1) / 2) * width
        drawn = axes.bar(
            [k + shift for k, _ in bars],
            [v for _, v in bars],
            width * 0.92,
            color=looks[label]["color"],
        )
        if len(heights) <= FEW:
            axes.bar_label(drawn, [show(v) for _, v in bars], fontsize=7.5, padding=1.5)
        entries.append((label, drawn))

    bottom = _bottom(heights, panel.start, log)
    if heights:
        top = max(heights) if log else max(*heights, 0.0)
        # With room for the values above the bars.
        reach = top * (top / bottom) ** 0.08 if log else top + 0.08 * (top - bottom)
        axes.set_ylim(bottom, reach if reach > bottom else None)
    begins = panel.start if not log and bottom == panel.start != 0 else None
    note = "" if begins is None else f" (axis from {begins:g})"
    axes.set_ylabel(_plain(panel.ylabel) + note)
    axes.set_xlim(-0.6, len(panel.groups) - 0.4)
    crowded = sum(map(len, panel.groups)) > 6.0 * axes.figure.get_figwidth() / _in_a_row(axes)
    axes.set_xticks(
        range(len(panel.groups)),
        [_plain(group) for group in panel.groups],
        **({"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}),
    )
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=True, axis="y", which="major", alpha=0.25)
    if not log and bottom < 0:
        axes.axhline(0.0, color="black", linewidth=0.8)
    return entries


def _bottom(heights: Sequence[float], start: float, log: bool) -> float:
    """Where the vertical axis begins: at ``start``, or lower if a bar would be hidden."""
    low = min(heights, default=1.0)
    if log:
        return start if 0 < start < low else low / 3
    if low > start or (low == start == 0):
        return start
    return low - 0.15 * (max(max(heights, default=0.0), 0.0) - low) if low < 0 else 0.0


def _in_a_row(axes: Any) -> int:
    return int(axes.get_subplotspec().get_gridspec().ncols)
