"""The kinds of files that are written: how to recognize them, and the names they may have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

HEAD_BYTES = 1 << 16
_MODEL_HEADER = re.compile(rb'\{"__metadata__":\{"ranksvm":')
_LINES = 100  # lines examined
_PAIR = re.compile(rb"[^\s:#]+:[^\s:]+")


# Suffixes of other programs' formats, which this library does not write.
OTHER_SUFFIXES = (
    ".onnx", ".pkl", ".pickle", ".joblib", ".json", ".jsonl", ".pmml", ".xml", ".yaml", ".npy",
    ".npz", ".h5", ".hdf5", ".pt", ".pth", ".ubj", ".cbm", ".arrow", ".feather", ".xls", ".xlsx",
    ".zip", ".tar", ".tgz",
)  # fmt: skip
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
# Suffixes of tables, and their formats.  Anything else is LETOR text.
TABLES: dict[str, Literal["csv", "tsv", "parquet"]] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class FileKind(NamedTuple):
    """A kind of file: what messages call it, and a test of its first bytes.

    A name that ends in one of ``other_suffixes`` means another format; ``advice`` ends the message
    about it, and ``plural`` is what would be written.
    """

    name: str
    is_it: Callable[[bytes], bool]
    plural: str = "data"
    other_suffixes: tuple[str, ...] = (*OTHER_SUFFIXES, ".safetensors")
    advice: str = "Use .txt, .csv, .tsv or .parquet"


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


MODEL = FileKind(
    "a model",
    _is_model,
    "models",
    (*OTHER_SUFFIXES, ".txt", *TABLES, *COMPRESSED),
    "Use .safetensors, or .dat for SVM^rank's format",
)
SCORES = FileKind(
    "scores or a TREC run",
    _is_scores,
    "scores",
    (".safetensors", ".parquet", ".pq", *COMPRESSED),
    "Scores are uncompressed text. Use a name like scores.txt",
)
LETOR = FileKind("LETOR text", _is_letor)
_TABLE = FileKind("a table with the column 'label' first", _is_table)
_PARQUET = FileKind("a Parquet file", lambda head: head.startswith(b"PAR1"))
DATA = {"letor": LETOR, "csv": _TABLE, "tsv": _TABLE, "parquet": _PARQUET}  # by format
