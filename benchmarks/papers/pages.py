"""The pages of a report, from the templates in ``templates/``.

``report.html`` has everything and needs no other file; ``summary.md`` is the short page that
``--docs docs`` puts into the documentation as ``papers.md``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.papers.figures import draw
from benchmarks.papers.report import Figure, Report
from benchmarks.report import show
from ranksvm._files import atomic_write


def _svg(figure: Figure) -> str:
    """Return a data: address, so that names inside one picture cannot clash with another's."""
    return "data:image/svg+xml;base64," + base64.b64encode(draw(figure, "svg")).decode("ascii")


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=lambda name: name is not None and ".html" in name,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters |= {"show": show, "svg": _svg}


def write_report(path: Path, report: Report, about: Mapping[str, str], *, quick: bool) -> Path:
    """Write the whole report; ``about`` is what the numbers depend on."""
    return _write(path, "report.html.jinja", report=report, about=about, quick=quick)


def write_summary(path: Path, report: Report, about: Mapping[str, str], *, quick: bool) -> Path:
    """Write the short page."""
    return _write(path, "summary.md.jinja", report=report, about=about, quick=quick)


def write_pictures(folder: Path, report: Report) -> list[Path]:
    """Write the figures that other pages show."""
    written = []
    for figure in report.pictures:
        path = folder / f"{figure.picture}.png"
        with atomic_write(path) as file:
            file.write(draw(figure, "png"))
        written.append(path)
    return written


def _write(path: Path, template: str, **values: object) -> Path:
    with atomic_write(path) as file:
        file.write(TEMPLATES.get_template(template).render(**values).encode())
    return path
