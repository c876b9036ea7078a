"""Output that is there as a whole or not at all, or goes to stdout."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import BinaryIO

from ranksvm._files import atomic_write
from ranksvm.cli.options import SUFFIXES
from ranksvm.cli.output import UsageProblem
from ranksvm.model_io import ModelRecord, write_model

__all__ = ["check_output", "is_regular", "is_stdout", "is_svmrank", "open_output", "write_record"]


def is_stdout(path: str | None) -> bool:
    """Whether output goes where results are printed."""
    return path in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_regular(path: str) -> bool:
    """Whether a name is that of a file that keeps what is written, or of nothing yet."""
    return os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)


def check_output(path: str | None, inputs: Sequence[str | None], *, model: bool = False) -> None:
    """Look before the work whether its result can be written."""
    if path is None or is_stdout(path):
        return
    if not path:
        raise UsageProblem("the name of the output file is empty")
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "cannot be written: this is a directory", path)
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        reason = f"cannot be written: there is no directory {folder}"
        raise FileNotFoundError(errno.ENOENT, reason, path)
    for source in inputs:
        if source is None or source == "-":
            continue
        if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
            raise UsageProblem(f"{path} is the input; give the output another name")
    if model and os.path.splitext(path)[1].lower() in SUFFIXES:
        raise UsageProblem(f"{path} is a name for a table, not for a model")


@contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Open a file that takes its place when the block ends well; "-" is stdout."""
    with _named_errors(path):
        if path == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        with atomic_write(path, "wb") as file:
            yield file


def is_svmrank(path: str) -> bool:
    """Whether a name asks for SVM^rank's format."""
    return path.lower().endswith(".dat")


def write_record(path: str, record: ModelRecord) -> None:
    """Write a model: SVM^rank's format when the name ends in ``.dat``, else ours."""
    with _named_errors(path):
        if is_svmrank(path):
            from ranksvm.export.svmrank import write_svmrank

            write_svmrank(path, _as_linear(record))
        elif path == "-":
            write_model(sys.stdout.buffer, record)
            sys.stdout.buffer.flush()
        else:
            write_model(path, record)


def _as_linear(record: ModelRecord) -> ModelRecord:
    """Leave the factors out of a model whose weights say it all."""
    if record.kind != "factorized":
        return record
    return replace(record, kind="linear", arrays={"coef": record.arrays["coef"]})


@contextmanager
def _named_errors(path: str) -> Iterator[None]:
    """Errors of the system say which file they are about."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, path) from error
        raise
