"""Recognize what a file holds from its first bytes, and decide what may replace it.

An existing file is only replaced by content of the same kind: a model by a model, scores by scores,
data by data of the same format.  A new name, an empty file, or anything that is not a regular file
(a pipe, a device) can always be written to.  ``force`` overrides the rule.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from ranksvm._messages import PYTHON, Formatter, Param

HEAD_BYTES = 1 << 16
_MODEL_HEADER = re.compile(rb'\{"__metadata__":\{"ranksvm":')
_LINES = 100  # lines examined
_PAIR = re.compile(rb"[^\s:#]+:[^\s:]+")


class NotReplacedError(FileExistsError):
    """The file exists and holds something else.  The message omits the error number."""

    def __str__(self) -> str:
        return self.render(PYTHON)

    def render(self, formatter: Formatter) -> str:
        """Format the message for one interface of the library."""
        return f"{self.strerror}, or use {Param('force', True).render(formatter)} to replace it"


# Suffixes of other programs' formats, which this library does not write.
OTHER_SUFFIXES = (
    ".onnx", ".pkl", ".pickle", ".joblib", ".json", ".jsonl", ".pmml", ".xml", ".yaml", ".npy",
    ".npz", ".h5", ".hdf5", ".pt", ".pth", ".ubj", ".cbm", ".arrow", ".feather", ".xls", ".xlsx",
    ".zip", ".tar", ".tgz",
)  # fmt: skip


class Content(NamedTuple):
    """A kind of file: what messages call it, and a test of its first bytes."""

    name: str
    is_it: Callable[[bytes], bool]


def _is_model(head: bytes) -> bool:
    """Accept our models and those of SVM^light and SVM^rank, but no other safetensors files."""
    return _MODEL_HEADER.match(head, 8) is not None or head.startswith(b"SVM-light Version ")


def _is_scores(head: bytes) -> bool:
    """Accept one number per line, or a TREC run."""
    lines = _whole_lines(head)
    first = lines[0].split() if lines else []
    if len(first) == 6 and first[1].upper() == b"Q0":
        return True
    return bool(lines) and all(_is_number(line) for line in lines)


def _is_letor(head: bytes) -> bool:
    """Accept text in which every line is a label with index:value pairs, or only a comment."""
    words = [line.partition(b"#")[0].split() for line in _whole_lines(head)[:_LINES]]
    return any(len(line) > 1 for line in words) and all(
        _is_number(line[0]) and all(map(_PAIR.fullmatch, line[1:])) for line in words if line
    )


def _is_table(head: bytes) -> bool:
    """Accept what `ranksvm convert` writes: a table whose first column is the label."""
    first = re.split(rb"[,\t]", head.partition(b"\n")[0].strip())[0]
    return first.strip(b'"') == b"label"


def _whole_lines(head: bytes) -> list[bytes]:
    if len(head) < HEAD_BYTES:
        return head.splitlines()
    # If a single line is longer than that, keep its complete words.
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
    """Raise a NotReplacedError if the file exists and holds something else.

    Parameters
    ----------
    path : path-like
        File to be written.
    content : Content
        Kind of content to be written.
    head : bytes or None
        First bytes of the existing content, for a compressed file; None reads them from the file.
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
