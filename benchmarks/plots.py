"""Figures from the curves that the benchmarks left in the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Curves = Mapping[str, Sequence[Mapping[str, Any]]]

# Which parts give curves to which figure; curves of the same panel share its axes.
_FIGURES = {
    "fit_time": (("growth", "peers"), "items", "seconds of a fit, gap 1e-3, 1 thread"),
    "oracle_time": (("oracle",), "items", "seconds, 1 thread"),
    "convergence": (("variants",), "products with X", "certified relative gap"),
    "factor_time": (("factors",), "items", "seconds, value and derivative"),
    "factor_descents": (("factor_descents",), "products with X", "certified relative gap"),
}


def draw(parts: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write one PNG per figure that has data; without matplotlib none."""
    try:
        import matplotlib
    except ImportError:
        print("no figures: matplotlib is not installed (make bench does it)")
        return []
    matplotlib.use("Agg")
    written = []
    for name, (sources, xlabel, ylabel) in _FIGURES.items():
        panels: dict[str, list[Mapping[str, Any]]] = {}
        for source in sources:
            for curve in parts.get(source, {}).get("curves", ()):
                panels.setdefault(curve["panel"], []).append(curve)
        if panels:
            path = folder / f"{name}.png"
            _figure(panels, xlabel, ylabel, path)
            written.append(path)
    return written


def _figure(panels: Curves, xlabel: str, ylabel: str, path: Path) -> None:
    import matplotlib.pyplot as plt

    columns = min(len(panels), 2)
    rows = math.ceil(len(panels) / columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(6.5 * columns, 4.5 * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    # A name keeps its colour from panel to panel.
    labels = list(dict.fromkeys(curve["label"] for curves in panels.values() for curve in curves))
    for axis, (title, curves) in zip(axes.flat, panels.items(), strict=False):
        for curve in curves:
            points = [(x, y) for x, y in curve["points"] if x > 0 and y > 0]
            if not points:
                continue
            axis.plot(
                *zip(*points, strict=True),
                marker="o",
                markersize=3,
                label=curve["label"],
                color=f"C{labels.index(curve['label']) % 10}",
                linestyle="--" if curve["label"] in ("floor", "numpy.argsort") else "-",
            )
        axis.set(title=title, xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log")
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)
