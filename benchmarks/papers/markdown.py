"""The summary of a run as Markdown (GitHub's): what is not marked as a detail.

Texts of a document may have two kinds of markup, which this writer and that of HTML know:

    **bold**   `code`

Everything else is meant literally and is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.papers.document import Document, Figure, Paragraph, Table
from benchmarks.report import show

__all__ = ["NO_ROWS", "TITLE", "right_aligned", "spans", "to_markdown"]

TITLE = "The papers, computed anew"
NO_ROWS = "(no rows)"

_SPAN = re.compile(r"`(?P<code>[^`]+)`|(?<!\w)\*\*(?=\S)(?P<bold>.+?)(?<=\S)\*\*(?!\w)")
# Signs that would mean something: an underscore not inside a word, a tag, an entity, a link.
_SPECIAL = re.compile(
    r"[\\*~`$]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\](?=[(\[:])"
)
_OF_ALT = re.compile(r"[\\\[\]*_<`&]")
_BLOCK = re.compile(r"^(#+|[>+=-]|\d+(?=[.)]))(?=[.)]?(\s|$))")  # begins a heading, a list, a quote
_NUMBERLIKE = re.compile(r"[-+−±<>≤≥~≈%*()/x×^e.,\d\s]*\d[-+−±<>≤≥~≈%*()/x×^e.,\d\s]*|-|")


def to_markdown(document: Document, about: Mapping[str, str]) -> str:
    """Write the summary.

    Parameters
    ----------
    document : Document
    about : mapping of str to str
        The machine, versions, the date: what the numbers depend on.

    Returns
    -------
    str
        Figures are there if they have a picture, which is expected beside the page.
    """
    blocks = [
        f"# {TITLE}",
        "Written by `make papers`, which writes a longer report.html as well: every number was "
        "computed by it, in this run or an earlier one with the same sources, data and machine, "
        "or is published and cited.",
    ]
    if about:
        blocks.append(_table(["this run", ""], [[k, v] for k, v in about.items()], [False] * 2))
    for section in document.sections:
        parts = [block for part in section.parts for block in _part(part)]
        if parts:
            blocks.append(f"## {_text(section.title)}")
            if section.source:
                blocks.append(f"Source: {_text(section.source)}")
            blocks.extend(parts)
    return "\n\n".join(blocks) + "\n"


def spans(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of a text with their kind: "text", "bold" or "code"."""
    text = " ".join(text.split())
    end = 0
    for match in _SPAN.finditer(text):
        if match.start() > end:
            yield "text", text[end : match.start()]
        kind = match.lastgroup or "text"
        yield kind, match[kind]
        end = match.end()
    if end < len(text):
        yield "text", text[end:]


def right_aligned(table: Table) -> list[bool]:
    """Which columns have nothing but numbers, also such as "0.41 ± 0.02"."""
    return [
        all(
            not isinstance(value, str) or _NUMBERLIKE.fullmatch(value) is not None
            for value in (row.get(name) for row in table.rows)
        )
        for name in table.columns
    ]


def _part(part: Paragraph | Table | Figure) -> list[str]:
    """The blocks of a part; none if it is a detail."""
    if part.detail:
        return []
    if isinstance(part, Paragraph):
        return [_paragraph(part.text)]
    caption = [_paragraph(part.caption)] if part.caption else []
    if isinstance(part, Table):
        rows = [[show(row.get(name)) for name in part.columns] for row in part.rows]
        table = _table(part.columns, rows, right_aligned(part)) if rows else NO_ROWS
        return [f"### {_text(part.title)}", table, *caption]
    if part.picture is None:
        return []
    alt = _OF_ALT.sub(r"\\\g<0>", part.title)
    return [f"### {_text(part.title)}", f"![{alt}]({part.picture}.png)", *caption]


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    lines = [
        [_cell(name) for name in names],
        ["---:" if r else "---" for r in right],
        *([_cell(value) for value in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return _text(text).replace("|", r"\|")


def _paragraph(text: str) -> str:
    """A text that begins a block, where some signs mean more."""
    return _BLOCK.sub(
        lambda m: m[1] + "\\" if m[1].isdigit() else "\\" + m[1],
        _text(text),
    )


def _text(text: str) -> str:
    return "".join(_WRITE[kind](piece) for kind, piece in spans(text))


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


_WRITE: dict[str, Callable[[str], str]] = {
    "text": _escape,
    "bold": lambda s: f"**{_escape(s)}**",
    "code": lambda s: f"`{s}`",
}
