"""What a file holds, told by its beginning; and the rule of what may replace it.

A file that is there is replaced only by what it is itself: a model by a model, scores by scores,
data by data of the same format.  A name that is free, an empty file, and what is no regular file (a
pipe, a device) may always be written to.  Whoever means it can force it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from ranksvm._messages import PYTHON, Door, Param

__all__ = [
    "HEAD_BYTES",
    "LETOR",
    "MODEL",
    "OTHER_SUFFIXES",
    "PARQUET",
    "SCORES",
    "TABLE",
    "Content",
    "NotReplacedError",
    "check_replaces",
]

HEAD_BYTES = 1 << 16
_MODEL_HEADER = re.compile(rb'\{"__metadata__":\{"ranksvm":')
_LINES = 100  # that are looked at
_PAIR = re.compile(rb"[^\s:#]+:[^\s:]+")


class NotReplacedError(FileExistsError):
    """A file is there that holds something else; says so without the number of the error."""

    def __str__(self) -> str:
        return self.told(PYTHON)

    def told(self, door: Door) -> str:
        """Return the message in the words of a door."""
        return f"{self.strerror}, or use {Param('force', True).told(door)} to replace it"


# Of files of other programs, which nothing here is written as.
OTHER_SUFFIXES = (
    ".onnx", ".pkl", ".pickle", ".joblib", ".json", ".jsonl", ".pmml", ".xml", ".yaml", ".npy",
    ".npz", ".h5", ".hdf5", ".pt", ".pth", ".ubj", ".cbm", ".arrow", ".feather", ".xls", ".xlsx",
    ".zip", ".tar", ".tgz",
)  # fmt: skip


class Content(NamedTuple):
    """What files of a kind are called, and how their first bytes tell them from others."""

    name: str
    is_it: Callable[[bytes], bool]


def _is_model(head: bytes) -> bool:
    """Ours, or one of SVM^light or SVM^rank; a safetensors file of another program is none."""
    return _MODEL_HEADER.match(head, 8) is not None or head.startswith(b"SVM-light Version ")


def _is_scores(head: bytes) -> bool:
    """One number a line, or a TREC run."""
    lines = _whole_lines(head)
    first = lines[0].split() if lines else []
    if len(first) == 6 and first[1].upper() == b"Q0":
        return True
    return bool(lines) and all(_is_number(line) for line in lines)


def _is_letor(head: bytes) -> bool:
    """Find a label and index:value, or nothing but a comment, in every line."""
    words = [line.partition(b"#")[0].split() for line in _whole_lines(head)[:_LINES]]
    return any(len(line) > 1 for line in words) and all(
        _is_number(line[0]) and all(map(_PAIR.fullmatch, line[1:])) for line in words if line
    )


def _is_table(head: bytes) -> bool:
    """Look for what `ranksvm convert` writes: the first column is the label."""
    first = re.split(rb"[,\t]", head.partition(b"\n")[0].strip())[0]
    return first.strip(b'"') == b"label"


def _whole_lines(head: bytes) -> list[bytes]:
    if len(head) < HEAD_BYTES:
        return head.splitlines()
    # A line that is longer ends with its last whole word.
    return (head.rpartition(b"\n")[0] or head.rpartition(b" ")[0]).splitlines()


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


MODEL = Content("a model", _is_model)
SCORES = Content("scores or a TREC run", _is_scores)
LETOR = Content("LETOR text", _is_letor)
TABLE = Content("a table with the column 'label' first", _is_table)
PARQUET = Content("a Parquet file", lambda head: head.startswith(b"PAR1"))


def check_replaces(
    path: str | os.PathLike[str], content: Content, *, head: bytes | None = None
) -> None:
    """Raise a NotReplacedError if a file is there that holds something else.

    Parameters
    ----------
    path : path-like
        Where something is to be written.
    content : Content
        What that is.
    head : bytes or None
        The beginning of what is there, if it is not as it stands in the file: decompressed.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        return
    if head is None:
        with open(name, "rb") as file:
            head = file.read(HEAD_BYTES)
    if head and not content.is_it(head):
        message = (
            f"{name} already exists and is not {content.name}; not overwritten. Choose another name"
        )
        raise NotReplacedError(errno.EEXIST, message, name)
