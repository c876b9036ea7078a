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
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice
from ranksvm._text import printable
from ranksvm.data.queries import ids_from_text
from ranksvm.data.sources import (
    MAX_LINE_BYTES,
    FileFormatError,
    Source,
    name_of,
    text_blocks,
)
from ranksvm.data.trec_writer import write_run

__all__ = ["JoinedRun", "Qrels", "Run", "TrecError", "join", "read_qrels", "read_run", "write_run"]

_GRADE = re.compile(rb"[+-]?[0-9]{1,18}")
_LARGEST_GRADE = 2**53
_SHOWN = 60


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


class JoinedRun(NamedTuple):
    """A run with its judgments, ready for :mod:`ranksvm.metrics`.

    Attributes
    ----------
    y : ndarray of float64, shape (n_items,)
        Relevance labels.
    scores : ndarray of float64, shape (n_items,)
        Scores; -inf for documents that were not retrieved.
    qid : ndarray of shape (n_items,)
        Query ids.
    docid : ndarray of object, shape (n_items,)
        Document ids.
    """

    y: NDArray[np.float64]
    scores: NDArray[np.float64]
    qid: NDArray[Any]
    docid: NDArray[np.object_]


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
    return _Columns(ids_from_text(ids), _as_objects(documents), values, first)


def _text(field: bytes) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError:
        raise _FieldError(field, "expected UTF-8 text") from None


def _as_objects(texts: list[str]) -> NDArray[np.object_]:
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def join(
    qrels: Qrels,
    run: Run,
    *,
    unretrieved: Literal["unranked", "drop"] = "unranked",
    queries: Literal["both", "judged"] = "both",
) -> JoinedRun:
    """Combine judgments and scores, so that metrics agree with TREC's tools.

    Documents without a judgment or with a negative one count as not relevant (y = 0).  The rows of
    a query are sorted by descending score, and ties, which metrics break by row order, by
    descending document id.  This matches trec_eval, except that trec_eval first rounds scores to
    single precision, which may create more ties.  trec_eval scores a query without relevant
    documents 0; our metrics leave it out unless ``empty="zero"``.

    Parameters
    ----------
    qrels : Qrels
        Relevance judgments.
    run : Run
        Ranking to evaluate.
    unretrieved : {"unranked", "drop"}, default="unranked"
        What to do with documents that are judged but not in the run.  "unranked" gives them a score
        of -inf: in :mod:`ranksvm.metrics` they count in the ideal ranking and in the number of
        relevant documents, but have no rank.  "drop" leaves them out, which flatters a run that
        misses relevant documents.
    queries : {"both", "judged"}, default="both"
        Which queries to keep: those in both files, as trec_eval does by default, or all judged
        ones, as trec_eval does with the option ``-c``.  A query that is missing from the run has
        only unretrieved documents and scores 0; with "drop" it disappears.  Queries without
        judgments are always left out.

    Returns
    -------
    JoinedRun
        Rows grouped by query: by rank, then unretrieved documents in the order of the qrels.

    Raises
    ------
    ValueError
        No query is left.
    """
    check_choice("unretrieved", unretrieved, ("unranked", "drop"))
    check_choice("queries", queries, ("both", "judged"))
    # Ids are compared as text: they may be all integers in one file and not in the other.
    judged = _by_query(qrels.qid, qrels.docid, qrels.relevance)
    ranked = _by_query(run.qid, run.docid, run.score)
    names = [name for name in ranked if name in judged]
    if queries == "judged":
        names += [name for name in judged if name not in ranked]
    ids: list[str] = []
    documents: list[str] = []
    y: list[int] = []
    scores: list[float] = []
    for name in names:
        found, grades = ranked.get(name, {}), judged[name]
        rows = sorted(found, key=lambda document: (found[document], document), reverse=True)
        if unretrieved == "unranked":
            rows += [document for document in grades if document not in found]
        ids += [name] * len(rows)
        documents += rows
        y += [max(0, grades.get(document, 0)) for document in rows]
        scores += [found.get(document, -math.inf) for document in rows]
    if not ids:
        raise ValueError(
            f"no query of the run is judged: the run has queries {_some(ranked)}; the qrels have "
            f"{_some(judged)}. Do the files belong together?"
        )
    return JoinedRun(
        np.array(y, dtype=np.float64),
        np.array(scores, dtype=np.float64),
        ids_from_text(ids),
        _as_objects(documents),
    )


def _by_query(
    qid: NDArray[Any], docid: NDArray[np.object_], values: NDArray[Any]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for query, document, value in zip(qid.tolist(), docid.tolist(), values.tolist(), strict=True):
        found.setdefault(str(query), {})[document] = value
    return found


def _some(names: dict[str, Any]) -> str:
    shown = printable(", ".join(list(names)[:3]))
    return shown + (", ..." if len(names) > 3 else "")
