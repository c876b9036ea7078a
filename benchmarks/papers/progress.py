"""Progress bars of a run; plain lines where nobody looks (no terminal) or rich is not there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bars"]

Tell = Callable[[str, bool], None]
# Seconds between two plain lines.
PAUSE = 30.0


@contextmanager
def bars(title: str, total: int) -> Iterator[Tell]:
    """One bar for ``total`` cells; ``tell(label, known)`` comes before each of them."""
    try:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        with _lines(title, total) as tell:
            yield tell
        return
    if not sys.stderr.isatty():
        with _lines(title, total) as tell:
            yield tell
        return
    from rich.console import Console

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[label]}", style="dim"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total, label="")
        begun = 0

        def tell(label: str, known: bool) -> None:
            nonlocal begun
            progress.update(task, completed=begun, label=label)
            begun += 1

        yield tell
        progress.update(task, completed=total, label="")


@contextmanager
def _lines(title: str, total: int) -> Iterator[Tell]:
    start = last = time.monotonic()
    begun = known_ones = 0

    def tell(label: str, known: bool) -> None:
        nonlocal begun, known_ones, last
        known_ones += known
        now = time.monotonic()
        if not known and now - last > PAUSE:
            print(f"{title}: {begun} of {total} done, now {label}", file=sys.stderr, flush=True)
            last = now
        begun += 1

    yield tell
    seconds = time.monotonic() - start
    found = f", {known_ones} of them before" if known_ones else ""
    print(f"{title}: {total} done{found}, {seconds:.0f} s", file=sys.stderr, flush=True)
