"""Output that is there as a whole or not at all, or goes to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ranksvm._files import atomic_write
from ranksvm.model_io import ModelRecord, write_model

__all__ = ["open_output", "write_record"]


@contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Open a file that takes its place when the block ends well; "-" is stdout."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_write(path, "wb") as file:
        yield file


def write_record(path: str, record: ModelRecord) -> None:
    """Write a model: SVM^rank's format when the name ends in ``.dat``, else ours."""
    if path.endswith(".dat"):
        from ranksvm.export.svmrank import write_svmrank

        write_svmrank(path, record)
    else:
        write_model(sys.stdout.buffer if path == "-" else path, record)
