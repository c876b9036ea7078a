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
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._messages import Message, ParameterError, Row
from ranksvm._values import as_float, exact_vector
from ranksvm.data.queries import QueryGroups, ids_from_text
from ranksvm.data.sources import (
    MAX_LINE_BYTES,
    FileFormatError,
    Source,
    name_of,
    text_blocks,
)
from ranksvm.data.targets import Target, open_target

__all__ = ["Qrels", "Run", "TrecError", "as_objects", "read_qrels", "read_run", "write_run"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_GRADE = re.compile(rb"[+-]?[0-9]{1,18}")
_LARGEST_GRADE = 2**53
_SHOWN = 60
# Lines that are formatted and written at a time.
_LINES = 20_000


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
    known: dict[bytes, int] = {}

    def grade(fields: list[bytes]) -> int:
        found = known.get(fields[3])
        if found is None:
            if not _GRADE.fullmatch(fields[3]):
                raise _FieldError(fields[3], "expected an integer relevance in the fourth column")
            found = int(fields[3])
            if abs(found) > _LARGEST_GRADE:
                raise _FieldError(
                    fields[3],
                    "expected a relevance between -2^53 and 2^53, since float64 cannot tell larger "
                    "integers apart",
                )
            known[fields[3]] = found
        return found

    names = "query, iteration, document, relevance"
    columns = _read(source, 4, names, grade, max_line_bytes)
    return Qrels(columns.qid, columns.docid, np.array(columns.values, dtype=np.int64))


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

    def score(fields: list[bytes]) -> float:
        try:
            found = float(fields[4])
        except ValueError:
            found = math.nan
        if not math.isfinite(found) or b"_" in fields[4]:
            raise _FieldError(fields[4], "expected a finite score in the fifth column")
        return found

    columns = _read(source, 6, "query, Q0, document, rank, score, tag", score, max_line_bytes)
    scores = np.array(columns.values, dtype=np.float64)
    return Run(columns.qid, columns.docid, scores, columns.first[5].decode("utf-8", "replace"))


class _FieldError(Exception):
    """A field is not what was expected."""

    def __init__(self, field: bytes, expected: str) -> None:
        super().__init__(f"found {_shown(field)}, {expected}")


class _Columns(NamedTuple):
    qid: NDArray[Any]
    docid: NDArray[np.object_]
    values: list[Any]
    first: list[bytes]


def _shown(field: bytes) -> str:
    text = field[: 4 * _SHOWN].decode("utf-8", "replace")
    return repr(text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")


def _lines(source: Source, max_line_bytes: int) -> Iterator[bytes]:
    for block in text_blocks(
        source, max_line_bytes=max_line_bytes, error=TrecError, background=True
    ):
        yield from bytes(memoryview(block.text)[: block.size]).split(b"\n")[:-1]


def _read(
    source: Source,
    n_columns: int,
    names: str,
    parse: Callable[[list[bytes]], Any],
    max_line_bytes: int,
) -> _Columns:
    """Read a file whose first column is the query and whose third is the document."""
    file = name_of(source)
    ids: list[str] = []
    documents: list[str] = []
    values: list[Any] = []
    first: list[bytes] = []
    queries: dict[bytes, tuple[str, dict[str, int]]] = {}
    number = 0
    try:
        for number, line in enumerate(_lines(source, max_line_bytes), 1):
            fields = line.split()
            if len(fields) != n_columns:
                if not fields:
                    continue
                raise _FieldError(line, f"expected {n_columns} columns: {names}; got {len(fields)}")
            found = queries.get(fields[0])
            if found is None:
                found = queries[fields[0]] = (_text(fields[0]), {})
            query, lines = found
            document = _text(fields[2])
            before = lines.setdefault(document, number)
            if before != number:
                raise _FieldError(
                    fields[2],
                    f"expected every document once per query; query {query} already has it on "
                    f"line {before}",
                )
            ids.append(query)
            documents.append(document)
            values.append(parse(fields))
            first = first or fields
    except _FieldError as error:
        raise TrecError(str(error), file, number) from None
    if not ids:
        raise TrecError(f"holds no data; expected lines with {n_columns} columns ({names})", file)
    return _Columns(ids_from_text(ids), as_objects(documents), values, first)


def _text(field: bytes) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError:
        raise _FieldError(field, "expected UTF-8 text") from None


def as_objects(texts: list[str]) -> NDArray[np.object_]:
    """Return strings as an object array."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def write_run(
    target: Target,
    qid: ArrayLike | None,
    docid: ArrayLike,
    scores: ArrayLike,
    *,
    tag: str = "ranksvm",
) -> None:
    """Write a ranking as a TREC run.

    Queries are written in order of first appearance, and the documents of a query by descending
    score, with ranks from 1.  Documents with equal scores keep their order.  TREC's tools (and
    :func:`join`) ignore the ranks and order equal scores by descending document id.  Scores are
    written with all digits, so that different scores stay different.

    Parameters
    ----------
    target : path, "-" or file object
        File to write; see :func:`save_letor`.
    qid : array-like of shape (n_items,), or None
        Query ids; None means a single query, 0.
    docid : array-like of str, shape (n_items,)
        Document ids.
    scores : array-like of shape (n_items,)
        Scores; larger is better.
    tag : str, default="ranksvm"
        Name of the run.

    Raises
    ------
    ValueError
        If lengths differ, a score is not finite, an id or the tag contains whitespace, or a
        document occurs twice in a query.  Nothing is written in that case.
    """
    values = as_float("scores", exact_vector("scores", scores))
    if values.ndim != 1:
        raise ValueError(f"scores must be one-dimensional; got shape {values.shape}")
    n_items = values.shape[0]
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ParameterError(
            "scores must be finite; got {value} in {row}", value=values[bad[0]], row=Row(bad[0])
        )
    documents = np.asarray(docid, dtype=object)
    if documents.shape != (n_items,):
        raise ValueError(
            f"docid must have one id per score; got shape {documents.shape} for {n_items} scores"
        )
    _check_word("tag", tag)
    groups = QueryGroups.from_qid(qid, n_items)
    names = [str(query) for query in groups.ids.tolist()]
    for name in names:
        _check_word("qid", name)
    index = groups.index
    order = np.lexsort((-values, index))
    ranks = np.arange(n_items) - groups.offsets[index[order]] + 1
    _check_documents(documents, index, names)
    with open_target(target) as write:
        for begin in range(0, n_items, _LINES):
            rows = order[begin : begin + _LINES]
            lines = zip(
                index[rows].tolist(),
                documents[rows].tolist(),
                ranks[begin : begin + _LINES].tolist(),
                values[rows].tolist(),
                strict=True,
            )
            text = "".join(f"{names[q]} Q0 {d} {r} {s!r} {tag}\n" for q, d, r, s in lines)
            write(text.encode("utf-8", "surrogateescape"))


def _check_word(name: str, word: object, row: int | None = None) -> None:
    fine = isinstance(word, str) and len(word.split()) == 1 and word == word.strip()
    if not fine or _CONTROL.search(str(word)):
        raise ParameterError(
            "{name} must be a word without whitespace or control characters; got {word!r}",
            name=name if row is None else Message("{name} of {row}", name=name, row=Row(row)),
            word=word,
        )


def _check_documents(
    documents: NDArray[np.object_], index: NDArray[np.int64], names: list[str]
) -> None:
    seen: set[tuple[int, str]] = set()
    for row, key in enumerate(zip(index.tolist(), documents.tolist(), strict=True)):
        _check_word("docid", key[1], row)
        if key in seen:
            raise ParameterError(
                "docid {docid!r} of {row} occurs twice in query {query}; a run must list a "
                "document once per query",
                docid=key[1],
                row=Row(row),
                query=names[key[0]],
            )
        seen.add(key)
