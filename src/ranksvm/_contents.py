"""Kinds of files: how to recognize them by their first bytes, and the names they may have."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

HEAD_BYTES = 1 << 16
_MODEL_HEADER = re.compile(rb'\{"__metadata__":\{"ranksvm":')
_LINES = 100  # lines examined
_PAIR = re.compile(rb"[^\s:#]+:[^\s:]+")


SVMLIGHT = b"SVM-light Version "  # first bytes of models of SVM^light and SVM^rank
# First bytes of compressed files, and the formats.
COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
# First bytes of files that are neither text nor models, and what they are.
OTHER_FILES = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!": "a rar archive",
    b"\x1f\x9d": "data compressed by `compress`",
    b"\x04\x22\x4d\x18": "LZ4 data",
    b"%PDF-": "a PDF document",
    b"\x93NUMPY": "a NumPy array file",
    b"\x89HDF": "an HDF5 file",
    b"\x89PNG": "an image",
    b"\x7fELF": "a program",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x80": "a pickle, which could run code and is not opened",
}
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

    def wrong_suffix(self, path: str) -> str | None:
        """Return the suffix of a file name that means another format; None if there is none."""
        stem, suffix = os.path.splitext(path.lower())
        if suffix in COMPRESSED and suffix not in self.other_suffixes:
            suffix = os.path.splitext(stem)[1]
        return suffix if suffix in self.other_suffixes else None


def starts_with(head: bytes, known: Mapping[bytes, str]) -> str | None:
    """Return what a table such as OTHER_FILES says about the first bytes of a file."""
    return next((what for magic, what in known.items() if head.startswith(magic)), None)


def is_svmrank(head: bytes) -> bool:
    """Return whether a file is a model of SVM^light or SVM^rank."""
    return head.startswith(SVMLIGHT)


def is_safetensors(head: bytes) -> bool:
    """Return whether a file has the format of our models.

    It starts with the length of the header in eight bytes, and then the header.  Eight letters
    would be far more than 2^32.
    """
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32


def _is_model(head: bytes) -> bool:
    """Accept our models and those of SVM^light and SVM^rank, but no other safetensors files."""
    return _MODEL_HEADER.match(head, 8) is not None or is_svmrank(head)


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
