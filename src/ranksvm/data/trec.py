"""TREC files: relevance judgments (qrels) and rankings (runs).

    qrels    query  iteration  document  relevance
             301    0          FBIS3-10082  1

    run      query  Q0  document     rank  score     tag
             301    Q0  FBIS3-10082  1     8.342107  ranksvm

Columns are separated by whitespace.  As in TREC's own tools, the iteration, the word ``Q0`` and the
rank are ignored: the ranking is determined by the scores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._values import as_objects
from ranksvm.data.queries import ids_from_text
from ranksvm.data.sources import MAX_LINE_BYTES, FieldError, Source, name_of, text_lines
from ranksvm.data.streams import FileFormatError

_GRADE = re.compile(rb"[+-]?[0-9]{1,18}")
_LARGEST_GRADE = 2**53


class TrecError(FileFormatError):
    """A TREC file has a line that cannot be read; see :class:`FileFormatError`."""


class Qrels(NamedTuple):
    """Relevance judgments.

    Attributes
    ----------
    qid : ndarray of shape (n_judgments,)
        Query ids: int64 if every id is an integer in its usual form, else strings.
    docid : ndarray of object, shape (n_judgments,)
        Document ids, as strings.
    relevance : ndarray of int64, shape (n_judgments,)
        Relevance labels.
    """

    qid: NDArray[Any]
    docid: NDArray[np.object_]
    relevance: NDArray[np.int64]


class Run(NamedTuple):
    """A ranking by scores.

    Attributes
    ----------
    qid : ndarray of shape (n_items,)
        Query ids: int64 if every id is an integer in its usual form, else strings.
    docid : ndarray of object, shape (n_items,)
        Document ids, as strings.
    score : ndarray of float64, shape (n_items,)
        Scores; larger is better.
    tag : str
        Name of the run, from the first line.
    """

    qid: NDArray[Any]
    docid: NDArray[np.object_]
    score: NDArray[np.float64]
    tag: str


def read_qrels(source: Source, *, max_line_bytes: int = MAX_LINE_BYTES) -> Qrels:
    """Read relevance judgments.

    Parameters
    ----------
    source : path, "-" or file object
        File to read, possibly compressed; see :func:`load_letor`.
    max_line_bytes : int, default=16777216
        Maximum length of a line; a longer one is an error.

    Returns
    -------
    Qrels

    Raises
    ------
    TrecError
        If a line does not have four columns, a relevance label is not an integer or beyond 2^53, a
        document is judged twice for the same query, or the file has no judgments.
    """

    @cache
    def grade(field: bytes) -> int:
        if not _GRADE.fullmatch(field):
            raise FieldError(field, "expected an integer relevance in the fourth column")
        if abs(int(field)) > _LARGEST_GRADE:
            raise FieldError(
                field,
                "expected a relevance between -2^53 and 2^53, since float64 cannot tell larger "
                "integers apart",
            )
        return int(field)

    names = ("query", "iteration", "document", "relevance")
    qid, docid, grades, _ = _read(source, names, 3, grade, max_line_bytes)
    return Qrels(qid, docid, np.array(grades, dtype=np.int64))


def read_run(source: Source, *, max_line_bytes: int = MAX_LINE_BYTES) -> Run:
    """Read a ranking.

    Parameters
    ----------
    source : path, "-" or file object
        File to read, possibly compressed; see :func:`load_letor`.
    max_line_bytes : int, default=16777216
        Maximum length of a line; a longer one is an error.

    Returns
    -------
    Run

    Raises
    ------
    TrecError
        If a line does not have six columns, a score is not a finite number, a document is ranked
        twice for the same query, or the file has no items.
    """

    def score(field: bytes) -> float:
        try:
            found = float(field)
        except ValueError:
            found = math.nan
        if not math.isfinite(found) or b"_" in field:
            raise FieldError(field, "expected a finite score in the fifth column")
        return found

    names = ("query", "Q0", "document", "rank", "score", "tag")
    qid, docid, scores, first = _read(source, names, 4, score, max_line_bytes)
    tag = first[5].decode("utf-8", "replace")
    return Run(qid, docid, np.array(scores, dtype=np.float64), tag)


def _read(
    source: Source,
    names: tuple[str, ...],
    column: int,
    parse: Callable[[bytes], Any],
    max_line_bytes: int,
) -> tuple[NDArray[Any], NDArray[np.object_], list[Any], list[bytes]]:
    """Read a file whose first column is the query and whose third is the document.

    Returns the query ids, the documents, the parsed values of ``column``, and the fields of the
    first line.
    """
    file = name_of(source)
    expected = f"{len(names)} columns: {', '.join(names)}"
    ids: list[str] = []
    documents: list[str] = []
    values: list[Any] = []
    first: list[bytes] = []
    queries: dict[bytes, tuple[str, dict[str, int]]] = {}
    number = 0
    try:
        # Not kept in a variable: the file is closed as soon as an error leaves the loop.
        for number, line in enumerate(
            text_lines(source, max_line_bytes=max_line_bytes, error=TrecError), 1
        ):
            fields = line.split()
            if not fields:
                continue
            if len(fields) != len(names):
                raise FieldError(line, f"expected {expected}; got {len(fields)}")
            found = queries.get(fields[0])
            if found is None:
                found = queries[fields[0]] = (_text(fields[0]), {})
            query, line_of = found
            document = _text(fields[2])
            before = line_of.setdefault(document, number)
            if before != number:
                raise FieldError(
                    fields[2],
                    f"expected every document once per query; query {query} already has it on "
                    f"line {before}",
                )
            ids.append(query)
            documents.append(document)
            values.append(parse(fields[column]))
            first = first or fields
    except FieldError as error:
        raise TrecError(error.message, file, number) from None
    if not ids:
        raise TrecError(f"holds no data; expected lines with {expected}", file)
    return ids_from_text(ids), as_objects(documents), values, first


def _text(field: bytes) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError:
        raise FieldError(field, "expected UTF-8 text") from None
