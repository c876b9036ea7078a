"""Progress of a search: a progress bar on a terminal, log lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ranksvm.estimators.model_ranker import logged
from ranksvm.model_selection.search import Progress

__all__ = ["shown"]


@contextmanager
def shown(verbose: int, progress: Progress | None) -> Iterator[Progress | None]:
    """Yield a callback that shows progress if ``verbose`` is set, and then calls ``progress``."""
    if not verbose:
        yield progress
        return
    bar = _bar()
    with logged(verbose) as logger:

        def tell(done: int, total: int, message: str) -> None:
            if bar is None:
                logger.info("%d of %d fits: %s", done, total, message)
            else:
                bar.update(task, total=total, completed=done, description=message)
            if progress is not None:
                progress(done, total, message)

        if bar is None:
            yield tell
            return
        with bar:
            task = bar.add_task("fits", total=None)
            yield tell


def _bar() -> Any:
    """Return a progress bar of rich; None if rich is not installed or there is no terminal."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    return Bar(*columns, console=console, transient=True)
