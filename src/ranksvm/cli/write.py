"""Output that is there as a whole or not at all, or goes to stdout; and what it may replace.

One rule for all commands (:mod:`ranksvm._contents` has it): an input of the same command is never
replaced, and another file only by what it is itself, or with ``--force``.  The suffix of a name
must be one of what is written.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from ranksvm._contents import (
    HEAD_BYTES,
    LETOR,
    MODEL,
    PARQUET,
    SCORES,
    TABLE,
    Content,
    check_replaces,
)
from ranksvm._files import atomic_write, naming
from ranksvm.cli.options import COMPRESSED, SUFFIXES, Format
from ranksvm.cli.output import STDOUT, UsageProblem, check_stdout, say
from ranksvm.model_io import ModelRecord, write_model

__all__ = [
    "DATA_FILES",
    "MODEL_FILE",
    "SCORE_FILE",
    "check_output",
    "is_regular",
    "is_same",
    "is_stdout",
    "is_svmrank",
    "open_output",
    "write_record",
]


def is_stdout(path: str | None) -> bool:
    """Whether output goes where results are printed."""
    return path in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_regular(path: str) -> bool:
    """Whether a name is that of a file that keeps what is written, or of nothing yet."""
    return os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)


class Kind(NamedTuple):
    """What a command writes: how it is recognised, and which names are for it.

    ``suffixes`` are those of its names (a name without one is always right); None allows all but
    those of ``others``.
    """

    content: Content
    what: str
    suffixes: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()


_TEXT = (".txt", ".dat", ".data", ".letor", ".svm", ".svmlight", ".libsvm")
_DATA = (*_TEXT, *SUFFIXES)
MODEL_FILE = Kind(MODEL, "a model", (".safetensors", ".dat"))
SCORE_FILE = Kind(SCORES, "scores", None, (".safetensors", ".parquet", ".pq", *COMPRESSED))
DATA_FILES = {
    Format.letor: Kind(LETOR, "data", _DATA),
    Format.csv: Kind(TABLE, "data", _DATA),
    Format.tsv: Kind(TABLE, "data", _DATA),
    Format.parquet: Kind(PARQUET, "data", _DATA),
}


def check_output(
    path: str | None,
    inputs: Sequence[str | None],
    kind: Kind | None = None,
    *,
    force: bool = False,
) -> None:
    """Look before the work whether its result can be written, and what it would replace.

    Parameters
    ----------
    path : str or None
        Where the result goes, if anywhere.
    inputs : sequence of (str or None)
        Files of the same command, which are never replaced.
    kind : Kind or None
        What it is; None if whoever writes it looks at what is there himself.
    force : bool
        Whether a file that holds something else may be replaced.
    """
    if path is None:
        return
    if is_stdout(path):
        check_stdout()
    elif not path:
        raise UsageProblem("the name of the output file is empty")
    elif os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "cannot be written: this is a directory", path)
    else:
        folder = os.path.dirname(os.path.realpath(path))
        if not os.path.isdir(folder):
            reason = f"cannot be written: there is no directory {folder}"
            raise FileNotFoundError(errno.ENOENT, reason, path)
    for source in inputs:
        if source is not None and is_same(path, source):
            shown = "standard output" if is_stdout(path) else path
            raise UsageProblem(f"{shown} is the input; give the output another name")
    if kind is None or is_stdout(path) or not is_regular(path):
        return
    _check_name(path, kind)
    if not force:
        _check_content(path, kind)


def is_same(path: str, source: str) -> bool:
    """Whether an output is the very file that an input is, by whatever name."""
    one = _status(1 if is_stdout(path) else path)
    other = _status(0 if source == "-" else source)
    if one is None or other is None or not stat.S_ISREG(one.st_mode):
        return False
    return os.path.samestat(one, other)


def _status(file: str | int) -> os.stat_result | None:
    try:
        return os.stat(file)
    except (OSError, ValueError):
        return None


def _check_name(path: str, kind: Kind) -> None:
    """Refuse a name that says another format than the file would have."""
    suffix = os.path.splitext(path)[1].lower()
    if kind.suffixes is None:
        if suffix in kind.others:
            raise UsageProblem(f"{path}: {kind.what} are plain text, and {suffix} is not")
        return
    if kind is MODEL_FILE and suffix in SUFFIXES:
        raise UsageProblem(f"{path} is a name for a table, not for a model")
    if kind is not MODEL_FILE and suffix in COMPRESSED:
        suffix = os.path.splitext(os.path.splitext(path)[0])[1].lower()
    if suffix and suffix not in kind.suffixes:
        raise UsageProblem(
            f"{path}: {suffix} is no suffix for {kind.what}. Use {', '.join(kind.suffixes)}, or a "
            "name without suffix"
        )


def _check_content(path: str, kind: Kind) -> None:
    head = None
    if os.path.splitext(path)[1].lower() in COMPRESSED and os.path.isfile(path):
        from ranksvm.data.sources import FileFormatError, text_blocks

        try:
            first = next(iter(text_blocks(path, block_bytes=HEAD_BYTES)))
            head = bytes(first.text[: min(first.size, HEAD_BYTES)])
        except FileFormatError:
            head = None
    try:
        check_replaces(path, kind.content, head=head)
    except FileExistsError as error:
        raise UsageProblem(f"{path}: {error.strerror}") from None


@contextmanager
def open_output(path: str) -> Iterator[Any]:
    """Open a file that takes its place when the block ends well; "-" is stdout."""
    if not is_stdout(path):
        with atomic_write(path, "wb") as file:
            yield file
        return
    yield _StandardOutput()
    with naming(STDOUT):
        sys.stdout.flush()


class _StandardOutput:
    """Standard output for bytes; on a terminal, what it would obey is escaped."""

    closed = False

    def write(self, data: bytes) -> int:
        if sys.stdout.isatty():
            say(bytes(data).decode("utf-8", "surrogateescape").removesuffix("\n"))
        else:
            with naming(STDOUT):
                sys.stdout.buffer.write(data)
        return len(data)

    def flush(self) -> None:
        with naming(STDOUT):
            sys.stdout.flush()


def is_svmrank(path: str) -> bool:
    """Whether a name asks for SVM^rank's format."""
    return path.lower().endswith(".dat")


def write_record(path: str, record: ModelRecord) -> None:
    """Write a model: SVM^rank's format when the name ends in ``.dat``, else ours."""
    if is_svmrank(path):
        from ranksvm.export.svmrank import write_svmrank

        write_svmrank(path, _as_linear(record))
    elif is_stdout(path):
        with naming(STDOUT):
            write_model(sys.stdout.buffer, record)
            sys.stdout.buffer.flush()
    else:
        write_model(path, record)


def _as_linear(record: ModelRecord) -> ModelRecord:
    """Leave the factors out of a model whose weights say it all."""
    if record.kind != "factorized":
        return record
    return replace(record, kind="linear", arrays={"coef": record.arrays["coef"]})
