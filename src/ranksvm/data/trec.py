"""TREC's text files: who judged what (qrels), and who ranked what (runs).

    qrels    query  iteration  document  relevance
             301    0          FBIS3-10082  1

    run      query  Q0  document     rank  score     tag
             301    Q0  FBIS3-10082  1     8.342107  ranksvm

Columns are separated by blanks.  As in TREC's own tools, the iteration, the word ``Q0`` and the
rank are not looked at: a ranking is what the scores say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._messages import Message, ParameterError, Row
from ranksvm._text import printable
from ranksvm._values import as_float, exact_vector
from ranksvm.data.queries import QueryGroups, ids_from_text
from ranksvm.data.sources import (
    MAX_LINE_BYTES,
    FileFormatError,
    Source,
    Target,
    name_of,
    open_target,
    text_blocks,
)

__all__ = ["JoinedRun", "Qrels", "Run", "TrecError", "join", "read_qrels", "read_run", "write_run"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_GRADE = re.compile(rb"[+-]?[0-9]{1,18}")
_LARGEST_GRADE = 2**53
_SHOWN = 60
# Lines that are put together before they are written.
_LINES = 20_000


class TrecError(FileFormatError):
    """A TREC file has a line that cannot be read; see :class:`FileFormatError`."""


class Qrels(NamedTuple):
    """Relevance judgements.

    Attributes
    ----------
    qid : ndarray of shape (n_judgements,)
        int64 if every id is a whole number in its usual form, else strings.
    docid : ndarray of object, shape (n_judgements,)
        Strings.
    relevance : ndarray of int64, shape (n_judgements,)
    """

    qid: NDArray[Any]
    docid: NDArray[np.object_]
    relevance: NDArray[np.int64]


class Run(NamedTuple):
    """A ranking by scores.

    Attributes
    ----------
    qid : ndarray of shape (n_items,)
        int64 if every id is a whole number in its usual form, else strings.
    docid : ndarray of object, shape (n_items,)
        Strings.
    score : ndarray of float64, shape (n_items,)
    tag : str
        Name of the run, from the first line.
    """

    qid: NDArray[Any]
    docid: NDArray[np.object_]
    score: NDArray[np.float64]
    tag: str


class JoinedRun(NamedTuple):
    """A run with its judgements, ready for :mod:`ranksvm.metrics`.

    Attributes
    ----------
    y : ndarray of float64, shape (n_items,)
    scores : ndarray of float64, shape (n_items,)
        -inf for documents that were not retrieved.
    qid : ndarray of shape (n_items,)
    docid : ndarray of object, shape (n_items,)
    """

    y: NDArray[np.float64]
    scores: NDArray[np.float64]
    qid: NDArray[Any]
    docid: NDArray[np.object_]


def read_qrels(source: Source, *, max_line_bytes: int = MAX_LINE_BYTES) -> Qrels:
    """Read relevance judgements.

    Parameters
    ----------
    source : path, "-" or file object
        Compressed or not, as for :func:`load_letor`.
    max_line_bytes : int, default=16777216
        Longest line; a longer one is an error.

    Returns
    -------
    Qrels

    Raises
    ------
    TrecError
        A line without four columns, a relevance that is not a whole number or beyond 2^53, a
        document that is judged twice for one query, or a file without judgements.
    """
    known: dict[bytes, int] = {}

    def grade(fields: list[bytes]) -> int:
        found = known.get(fields[3])
        if found is None:
            if not _GRADE.fullmatch(fields[3]):
                raise _Unfit(fields[3], "expected a whole number: the relevance, the fourth column")
            found = int(fields[3])
            if abs(found) > _LARGEST_GRADE:
                raise _Unfit(
                    fields[3],
                    "expected a relevance within 2^53: metrics are computed in doubles, which "
                    "cannot tell larger ones apart",
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
        Compressed or not, as for :func:`load_letor`.
    max_line_bytes : int, default=16777216
        Longest line; a longer one is an error.

    Returns
    -------
    Run

    Raises
    ------
    TrecError
        A line without six columns, a score that is not a finite number, a document that is ranked
        twice for one query, or a file without items.
    """

    def score(fields: list[bytes]) -> float:
        try:
            found = float(fields[4])
        except ValueError:
            found = math.nan
        if not math.isfinite(found) or b"_" in fields[4]:
            raise _Unfit(fields[4], "expected a finite number: the score, the fifth column")
        return found

    columns = _read(source, 6, "query, Q0, document, rank, score, tag", score, max_line_bytes)
    scores = np.array(columns.values, dtype=np.float64)
    return Run(columns.qid, columns.docid, scores, columns.first[5].decode("utf-8", "replace"))


class _Unfit(Exception):
    """A field is not what it should be."""

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
                raise _Unfit(line, f"expected {n_columns} columns: {names}; got {len(fields)}")
            found = queries.get(fields[0])
            if found is None:
                found = queries[fields[0]] = (_text(fields[0]), {})
            query, lines = found
            document = _text(fields[2])
            before = lines.setdefault(document, number)
            if before != number:
                raise _Unfit(
                    fields[2],
                    f"expected every document once per query; query {query} has it in line "
                    f"{before}, too",
                )
            ids.append(query)
            documents.append(document)
            values.append(parse(fields))
            first = first or fields
    except _Unfit as unfit:
        raise TrecError(str(unfit), file, number) from None
    if not ids:
        raise TrecError(f"holds no lines of {n_columns} columns ({names})", file)
    return _Columns(ids_from_text(ids), _as_objects(documents), values, first)


def _text(field: bytes) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError:
        raise _Unfit(field, "expected UTF-8 text") from None


def _as_objects(texts: list[str]) -> NDArray[np.object_]:
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

    Queries come in order of their first appearance, the documents of a query by descending score
    with ranks from 1.  Documents with equal scores keep their order; TREC's tools do not: they sort
    by score and put equal ones by descending document id, whatever the ranks say (and so does
    :func:`join`).  Scores are written with all their digits, so that different scores stay
    different.

    Parameters
    ----------
    target : path, "-" or file object
        As for :func:`save_letor`.
    qid : array-like of shape (n_items,), or None
        None means one query, 0.
    docid : array-like of str, shape (n_items,)
    scores : array-like of shape (n_items,)
    tag : str, default="ranksvm"
        Name of the run.

    Raises
    ------
    ValueError
        Lengths that differ, scores that are not finite, ids or a tag with blanks in them, a
        document that occurs twice in one query.  Nothing has been written then.
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
            "{name} must be a word without blanks or control characters; got {word!r}",
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
                "docid {docid!r} of {row} occurs twice in query {query}; a run names a document "
                "once per query",
                docid=key[1],
                row=Row(row),
                query=names[key[0]],
            )
        seen.add(key)


def join(
    qrels: Qrels,
    run: Run,
    *,
    unretrieved: Literal["unranked", "drop"] = "unranked",
    queries: Literal["both", "judged"] = "both",
) -> JoinedRun:
    """Put judgements and scores side by side, so that metrics come out as in TREC's tools.

    Documents without a judgement count as not relevant (y = 0), and so do those with a negative
    one.  Rows of a query come by descending score; where scores are equal, which metrics leave to
    the order of the rows, by descending document id.  All this is what trec_eval does, except that
    it rounds scores to single precision first, so that more of them may be equal.  A query without
    any relevant document is 0 there; metrics leave it out unless told ``empty="zero"``.

    Parameters
    ----------
    qrels : Qrels
    run : Run
    unretrieved : {"unranked", "drop"}, default="unranked"
        What to do with documents that are judged but not in the run.  "unranked" gives them a score
        of -inf: for :mod:`ranksvm.metrics` they count in the ideal ranking and in the number of
        relevant documents, but have no rank.  "drop" leaves them out, which flatters a run that
        misses relevant documents.
    queries : {"both", "judged"}, default="both"
        Which queries to keep: those in both files, as trec_eval does, or all that are judged, as
        trec_eval does with its option ``-c``.  A query that the run lacks has unretrieved documents
        only and scores 0; under "drop" nothing is left of it.  Queries without judgements are
        always left out.

    Returns
    -------
    JoinedRun
        Rows query by query: by rank, then unretrieved documents in the order of the qrels.

    Raises
    ------
    ValueError
        No query is left.
    """
    if unretrieved not in ("unranked", "drop"):
        raise ValueError(f"unretrieved must be 'unranked' or 'drop'; got {unretrieved!r}")
    if queries not in ("both", "judged"):
        raise ValueError(f"queries must be 'both' or 'judged'; got {queries!r}")
    # Ids are compared as they are written: one file may have only whole numbers, the other not.
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
            f"no query of the run is judged: the run has {_some(ranked)}, the qrels have "
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
