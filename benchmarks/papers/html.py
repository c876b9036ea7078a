"""The report of a run: one HTML page that needs no other files, no scripts and no network.

Pictures are SVG inside the page, each as a document of its own (a data: address), so that names
inside them cannot clash.  Below each are the numbers it shows; without matplotlib there are only
those.  The page is well-formed XML too.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape

from benchmarks.papers.document import Bars, Document, Figure, Panel, Paragraph, Section, Table
from benchmarks.papers.drawing import draw
from benchmarks.papers.markdown import NO_ROWS, TITLE, right_aligned, spans
from benchmarks.report import show

__all__ = ["to_html"]

_CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; padding: 2.5rem 1.25rem 5rem; background: #fff; color: #1c1e21;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 62rem; margin: 0 auto; }
h1, h2, h3 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 2rem; margin: 0 0 1.25rem; }
h2 { font-size: 1.45rem; margin: 3.5rem 0 .5rem; padding-top: 1rem; border-top: 1px solid #d5d9de; }
h3 { font-size: 1.02rem; margin: 2.25rem 0 .6rem; }
p, figcaption, nav { max-width: 44rem; }
.source, figcaption { color: #545b64; font-size: .92rem; }
.source { margin-top: 0; }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: #f1f3f5;
  padding: .05em .3em; border-radius: 3px; }
a { color: #0b5cad; text-underline-offset: .15em; }
nav ul { padding-left: 1.2rem; margin: .4rem 0 0; }
figure { margin: 0; }
figcaption { margin-top: .6rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .8rem; text-align: left; vertical-align: top; }
th { font-weight: 600; vertical-align: bottom; border-bottom: 2px solid #9aa2ac; }
td { border-bottom: 1px solid #e4e7eb; }
th:first-child, td:first-child { padding-left: 0; }
.number { text-align: right; white-space: nowrap; }
tbody tr:hover { background: #f6f8fa; }
.about { margin-bottom: 1.5rem; }
.about th { font-weight: 400; color: #545b64; border-bottom: 1px solid #e4e7eb;
  vertical-align: top; white-space: nowrap; }
img { display: block; max-width: 100%; height: auto; }
details { margin-top: .5rem; font-size: .9rem; }
summary { cursor: pointer; color: #545b64; }
details h4 { margin: .8rem 0 .2rem; font-size: .9rem; }
@media print { details { display: none; } h3, figure { break-inside: avoid; } }
"""


def to_html(document: Document, about: Mapping[str, str]) -> str:
    """Write the report.

    Parameters
    ----------
    document : Document
    about : mapping of str to str
        The machine, versions, the date: what the numbers depend on.

    Returns
    -------
    str
        The page, details included.
    """
    rows = "\n".join(
        f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in about.items()
    )
    contents = "\n".join(
        f'<li><a href="#{_anchor(k)}">{_text(section.title)}</a></li>'
        for k, section in enumerate(document.sections)
    )
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8" />',
        '<meta name="viewport" content="width=device-width, initial-scale=1" />',
        f"<title>{TITLE}</title>",
        f"<style>{_CSS}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{TITLE}</h1>",
        f'<table class="about">\n<tbody>\n{rows}\n</tbody>\n</table>' if rows else "",
        f"<nav><strong>Contents</strong>\n<ul>\n{contents}\n</ul>\n</nav>" if contents else "",
        *(_section(section, _anchor(k)) for k, section in enumerate(document.sections)),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _anchor(k: int) -> str:
    return f"section-{k + 1}"


def _section(section: Section, anchor: str) -> str:
    lines = [f'<section id="{anchor}">', f"<h2>{_text(section.title)}</h2>"]
    if section.source:
        lines.append(f'<p class="source">{_text(section.source)}</p>')
    for part in section.parts:
        if isinstance(part, Paragraph):
            lines.append(f"<p>{_text(part.text)}</p>")
        else:
            inner = _table(part) if isinstance(part, Table) else _figure(part)
            lines += [f"<h3>{_text(part.title)}</h3>", "<figure>", inner]
            if part.caption:
                lines.append(f"<figcaption>{_text(part.caption)}</figcaption>")
            lines.append("</figure>")
    return "\n".join([*lines, "</section>"])


def _table(table: Table) -> str:
    if not table.rows:
        return f"<p>{NO_ROWS}</p>"
    columns = list(zip(table.columns, map(_align, right_aligned(table)), strict=True))
    lines = ['<div class="scroll"><table>', "<thead>", "<tr>"]
    lines += [f"<th{align}>{_text(name)}</th>" for name, align in columns]
    lines += ["</tr>", "</thead>", "<tbody>"]
    for row in table.rows:
        cells = (f"<td{align}>{_text(show(row.get(name)))}</td>" for name, align in columns)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table></div>"])


def _align(right: bool) -> str:
    return ' class="number"' if right else ""


def _figure(figure: Figure) -> str:
    """The picture, and the numbers it shows to unfold."""
    numbers = "\n".join(
        f"<h4>{_text(panel.title)}</h4>\n{_table(_numbers(panel))}" for panel in figure.panels
    )
    try:
        picture = base64.b64encode(draw(figure, kind="svg")).decode("ascii")
    except ImportError:
        return f"<p>No picture, as matplotlib is not installed.</p>\n{numbers}"
    image = f'<img alt="{escape(figure.title)}" src="data:image/svg+xml;base64,{picture}" />'
    return f"{image}\n<details>\n<summary>Its numbers</summary>\n{numbers}\n</details>"


def _numbers(panel: Panel | Bars) -> Table:
    """What a panel shows, with the digits that were printed."""
    if isinstance(panel, Bars):
        rows = [
            {"": label} | {g: _digits(v) for g, v in zip(panel.groups, values, strict=True)}
            for label, values in panel.values.items()
        ]
    else:
        points = f"({panel.xlabel}, {panel.ylabel})"
        rows = [
            {"": c.label, points: "  ".join(f"({_digits(x)}, {_digits(y)})" for x, y in c.points)}
            for c in panel.curves
        ]
    return Table(panel.title, rows)


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _text(text: str) -> str:
    """Escape a text and set its markup."""
    return "".join(
        f"<{_TAGS[kind]}>{escape(piece)}</{_TAGS[kind]}>" if kind in _TAGS else escape(piece)
        for kind, piece in spans(text)
    )


_TAGS = {"bold": "strong", "code": "code"}
