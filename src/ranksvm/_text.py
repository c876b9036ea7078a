"""Text for display: tables, progress bars, and text from files made safe to print.

Feature names, ids and file names can contain anything: escape sequences that a terminal executes,
line endings that forge lines of output, or marks that reverse the direction of text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

# Called with how much is done, the total or None, and a text.
Advance = Callable[[float, float | None, str], Any]


def printable(text: str, encoding: str = "utf-8") -> str:
    """Escape characters that are not printable or not in the encoding, as ``repr`` does."""
    if text.isprintable() and can_show(text, encoding):
        return text
    return "".join(
        sign
        if sign.isprintable() and can_show(sign, encoding)
        else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def can_show(text: str, encoding: str) -> bool:
    """Return whether an encoding can represent a text."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def counted(n: int, what: str) -> str:
    """Return a count with its noun: ``1 query``, ``2,345 queries``."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{n:,} {what if n == 1 else plural}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """Return names in a row, the first few of many: ``a, b and 3 more``."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


@contextmanager
def progress(what: str, otherwise: Advance = lambda *_: None) -> Iterator[Advance]:
    """Show a progress bar on stderr, and yield the function that moves it.

    If stderr is not a terminal, or rich is not installed, yield ``otherwise``.
    """
    is_terminal = getattr(sys.stderr, "isatty", bool)()  # stderr may be None
    if not (is_terminal and find_spec("rich")):
        yield otherwise
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(printable(what), total=None, text="")
        yield lambda done, total, text: bar.update(
            task, completed=done, total=total, text=printable(text)
        )


def format_table(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Lay out a plain-text table: column names, a rule, and the rows.

    Parameters
    ----------
    names : sequence of str
        Column names.
    rows : sequence of sequence of str
        Cells.  Pass text from files through :func:`printable` first.
    right : sequence of bool
        Whether to right-align each column.
    """
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [names, ["-" * width for width in widths], *rows]
    )
