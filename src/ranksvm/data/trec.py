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
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice
from ranksvm._text import printable
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
        as_objects(documents),
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
