"""Text files of preferences.

One line per pair, the better item first:

    better  worse  [weight]

    3 1          by row number: the third item of the feature file over the first
    3 2 0.5      with a weight; 1 where there is none

    GX029-35-5894638 GX008-86-4444840              by document id
    qid:10032 GX029-35-5894638 GX008-86-4444840    of this query

Fields are separated by blanks or tabs, row numbers by commas as well; between two commas there has
to be something.  A field that starts with ``#`` begins a comment; empty lines are skipped.  So an
id that starts with ``#`` or holds blanks cannot be named, nor one that starts with ``qid:`` at the
beginning of a line.

Rows are counted from 1 here, as lines of a file are, unless the reader is told that they begin at
0; and from 0 in :class:`Preferences`, as rows of an array are.  A document that is in several rows,
because several queries have it, stands for the row of the query that the line names, or else of the
one query that has both documents.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._messages import Message, MessageWarning, Param
from ranksvm.data.pair_checks import ZERO_BASED, doubt_about
from ranksvm.data.preferences import Preferences
from ranksvm.data.sources import (
    MAX_LINE_BYTES,
    FileFormatError,
    Source,
    name_of,
    text_blocks,
)
from ranksvm.data.targets import Target, open_target

__all__ = ["read_pairs", "write_pairs"]

# Rows of the better and the worse item; a function of the fields of a line that name them.
_Resolve = Callable[[list[bytes]], tuple[int, int]]

# A comment begins where a field could: after a blank, or, among row numbers, after a comma.
_COMMENT = re.compile(rb"(?<!\S)#")
_COMMENT_OR_COMMA = re.compile(rb"(?<![^\s,])#")
_EMPTY_FIELD = re.compile(rb"(?:^|,)\s*(?=,|$)")
_COMMAS_TO_BLANKS = bytes.maketrans(b",", b" ")
_QID = b"qid:"
_USE_NUMBERS = "Name the items by row number instead"
# Rows beyond this are no rows of an array.
_MOST_ROWS = 2**53
_SHOWN = 60
_NAMED = 3
# Lines that are put together before they are written.
_LINES = 20_000


def read_pairs(
    source: Source,
    *,
    n_items: int | None = None,
    docids: ArrayLike | Sequence[str | None] | None = None,
    qid: ArrayLike | None = None,
    y: ArrayLike | None = None,
    zero_based: bool = False,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Preferences:
    """Read preferences.

    Parameters
    ----------
    source : path, "-" or file object
        Compressed or not, as for :func:`load_letor`.
    n_items : int or None, default=None
        Number of rows of X, which no row number may exceed; None: not checked here.
    docids : array-like of shape (n_items,) or None, default=None
        Document ids of the rows of X, None for a row without, such as
        :attr:`RankingData.docids`.  Items are named by these ids then, instead of row numbers.
    qid : array-like of shape (n_items,) or None, default=None
        Query ids of the rows of X, for documents that occur in several rows.
    y : array-like of shape (n_items,) or None, default=None
        Labels of the rows of X.  They are not learnt from; with them, and with ``qid``, pairs that
        do not fit the items are noticed.
    zero_based : bool, default=False
        Whether the first item has row number 0 and not 1.
    max_line_bytes : int, default=16777216
        Longest line; a longer one is an error.

    Returns
    -------
    Preferences
        Pairs in the order of the file; ``weight`` is None if no line has one.

    Raises
    ------
    FileFormatError
        A line with too few or too many fields, an item that is not there or not certain, a pair of
        an item with itself, a weight that is negative or not finite, or a file without pairs.

    Warns
    -----
    UserWarning
        Most pairs contradict the labels, or labels or queries fit far better if rows are counted
        from 0 (with ``zero_based``: from 1).
    """
    file = name_of(source)
    if zero_based and docids is not None:
        raise ValueError("zero_based is about row numbers; items are named by docids here")
    n_items, documents, queries, labels = _of_items(n_items, docids, qid, y)
    split, resolve = _split_numbers, _by_number(n_items, 0 if zero_based else 1)
    if documents is not None:
        names = [one if one is None else str(one) for one in documents.tolist()]
        of_queries = None if queries is None else [str(one) for one in queries.tolist()]
        split, resolve = _split_ids, _ByDocument(names, of_queries)
    better: list[int] = []
    worse: list[int] = []
    weights: list[float] = []
    weighted = False
    number = 0
    try:
        for block in text_blocks(source, max_line_bytes=max_line_bytes, background=True):
            text = bytes(memoryview(block.text)[: block.size])
            for line in text.split(b"\n")[:-1]:
                number += 1
                fields = split(line)
                if not fields:
                    continue
                n_names = 3 if fields[0].startswith(_QID) else 2
                weight = 1.0
                if len(fields) == n_names + 1:
                    weight, weighted = _weight(fields.pop()), True
                elif len(fields) != n_names:
                    n, hint = len(fields), "" if docids is None else _about_commas(line)
                    got = f"{n} field{'s' * (n != 1)}"
                    raise _Unfit(line, f"expected 'better worse [weight]'; got {got}{hint}")
                i, j = resolve(fields)
                better.append(i)
                worse.append(j)
                weights.append(weight)
    except _Unfit as unfit:
        raise FileFormatError(unfit.message, file, number) from None
    if not better:
        raise FileFormatError("holds no pairs; expected lines of 'better worse [weight]'", file)
    preferences = Preferences(
        np.array(better, dtype=np.int64),
        np.array(worse, dtype=np.int64),
        np.array(weights) if weighted else None,
    )
    counted = None if docids is not None else bool(zero_based)
    doubt = doubt_about(preferences, labels, queries, zero_based=counted)
    if doubt is not None:
        warnings.warn(MessageWarning("{file} {doubt}", file=file, doubt=doubt), stacklevel=2)
    return preferences


def write_pairs(target: Target, preferences: Preferences) -> None:
    """Write preferences by row number, so that :func:`read_pairs` gives the same ones back.

    Parameters
    ----------
    target : path, "-" or file object
        As for :func:`save_letor`.
    preferences : Preferences
        Row numbers from 0; they are counted from 1 in the file.  Weights are written with all
        their digits.

    Raises
    ------
    ValueError
        Arrays of different lengths, row numbers below 0 or from 2^53 on, a pair of an item with
        itself, weights that are negative or not finite, or no pairs.  Nothing has been written
        then.
    """
    better, worse = (np.asarray(rows) for rows in preferences[:2])
    weight = None if preferences.weight is None else np.asarray(preferences.weight, np.float64)
    _check_writable(better, worse, weight)
    columns = [(rows.astype(np.int64) + 1).tolist() for rows in (better, worse)]
    if weight is not None:
        columns.append(weight.tolist())
    lines = (" ".join(map(repr, values)) for values in zip(*columns, strict=True))
    with open_target(target) as write:
        while part := list(islice(lines, _LINES)):
            write(("\n".join(part) + "\n").encode())


def _check_writable(
    better: NDArray[Any], worse: NDArray[Any], weight: NDArray[np.float64] | None
) -> None:
    whole = better.dtype.kind in "iu" and worse.dtype.kind in "iu"
    if better.ndim != 1 or better.shape != worse.shape or not whole:
        raise ValueError(
            "better and worse must be row numbers in one dimension, as many of one as of the "
            f"other; got shapes {better.shape} and {worse.shape}, types {better.dtype} and "
            f"{worse.dtype}"
        )
    if not len(better):
        raise ValueError("there are no pairs to write")
    for name, rows in (("better", better), ("worse", worse)):
        at = int(np.argmax(rows))
        if int(rows[at]) >= _MOST_ROWS:
            raise ValueError(
                f"{name} must hold row numbers below 2^53, as those of arrays are; got {rows[at]} "
                f"in pair {at}"
            )
    wrong = (better < 0) | (worse < 0) | (better == worse)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"a pair must join two different rows, counted from 0; got {better[at]} over "
            f"{worse[at]} in pair {at}"
        )
    if weight is None:
        return
    if weight.shape != better.shape:
        raise ValueError(f"weight has shape {weight.shape} for {len(better)} pairs; give one each")
    wrong = ~((weight >= 0.0) & (weight < np.inf))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"weight must be finite and not negative; got {weight[at]} in pair {at}")


# --- Fields --------------------------------------------------------------------------------------


class _Unfit(Exception):
    """A field is not what it should be."""

    def __init__(self, field: bytes, expected: str | Message) -> None:
        super().__init__()
        self.message = Message("found {field}, {expected}", field=_shown(field), expected=expected)


def _shown(field: bytes) -> str:
    text = field[: 4 * _SHOWN].strip().decode("utf-8", "replace")
    return repr(text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")


def _split_ids(line: bytes) -> list[bytes]:
    if b"#" in line:
        line = _COMMENT.split(line, 1)[0]
    return line.split()


def _split_numbers(line: bytes) -> list[bytes]:
    if b"#" in line:
        line = _COMMENT_OR_COMMA.split(line, 1)[0]
    if b"," in line:
        if _EMPTY_FIELD.search(line):
            raise _Unfit(line, "expected a number before and after every comma")
        line = line.translate(_COMMAS_TO_BLANKS)
    return line.split()


def _about_commas(text: bytes) -> str:
    return ". Commas do not separate document ids, blanks do" if b"," in text else ""


def _weight(field: bytes) -> float:
    try:
        weight = float(field)
    except ValueError:
        weight = math.nan
    if not 0.0 <= weight < math.inf or b"_" in field:
        raise _Unfit(field, "expected a finite number >= 0: the weight, the last field")
    return weight


# --- Items ---------------------------------------------------------------------------------------


def _by_number(n_items: int | None, first: int) -> _Resolve:
    largest = (_MOST_ROWS if n_items is None else n_items) + first - 1

    def row(field: bytes) -> int:
        # Nineteen digits are beyond any number of rows; more would only take long to convert.
        if not field.isdigit() or len(field) > 19:
            raise _Unfit(
                field,
                Message(
                    "expected a row number, counted from {first}. For document ids, use {docids}",
                    first=first,
                    docids=Param("docids", option="--pairs-by docid"),
                ),
            )
        found = int(field)
        if found < first:
            raise _Unfit(
                field,
                Message(
                    "but rows are counted from 1. If this file counts from 0, use {zero_based}",
                    zero_based=ZERO_BASED,
                ),
            )
        if found > largest:
            raise _Unfit(field, f"expected a row number up to {largest}; there are no more items")
        return found - first

    def resolve(fields: list[bytes]) -> tuple[int, int]:
        if len(fields) == 3:
            raise _Unfit(fields[0], "expected a row number; 'qid:' is for pairs by document id")
        better, worse = row(fields[0]), row(fields[1])
        if better == worse:
            raise _Unfit(fields[0] + b" " + fields[1], "expected two different items")
        return better, worse

    return resolve


def _of_items(n_items: int | None, *columns: Any) -> tuple[Any, ...]:
    """Return the number of items and what is known of each: ids, queries, labels, or None."""
    found: list[Any] = []
    for name, values in zip(("docids", "qid", "y"), columns, strict=True):
        if values is None:
            found.append(None)
            continue
        array = np.asarray(values, object if name == "docids" else None)
        n_items = array.size if n_items is None else n_items
        if array.shape != (n_items,):
            raise ValueError(
                f"{name} must have one value for each of the {n_items} items; got shape "
                f"{array.shape}"
            )
        found.append(array)
    return n_items, *found


class _ByDocument:
    """Find rows by document id, and by query where a document is in several rows.

    The rows of a document are sorted by query when the first line asks for it: a line takes no
    longer where a document is in many queries.
    """

    def __init__(self, documents: Sequence[str | None], queries: Sequence[str] | None) -> None:
        self._query_of = [""] * len(documents) if queries is None else queries
        self._names = None if queries is None else frozenset(queries)
        self._rows: dict[bytes, list[int]] = {}
        self._by_query: dict[bytes, dict[str, list[int]]] = {}
        for row, document in enumerate(documents):
            if document is not None:
                key = document.encode("utf-8", "surrogateescape")
                self._rows.setdefault(key, []).append(row)

    def __call__(self, fields: list[bytes]) -> tuple[int, int]:
        better, worse = fields[-2:]
        if better == worse:
            raise _Unfit(better, "expected two different documents")
        candidates = self._candidates(better), self._candidates(worse)
        if len(fields) == 3:
            query = self._named(fields[0])
        elif len(candidates[0]) == len(candidates[1]) == 1:
            return candidates[0][0], candidates[1][0]
        else:
            query = self._shared(better, worse)
        return self._row(better, query), self._row(worse, query)

    def _candidates(self, field: bytes) -> list[int]:
        found = self._rows.get(field)
        if found is None:
            some = ", ".join(repr(key.decode("utf-8", "replace")) for key in islice(self._rows, 2))
            raise _Unfit(
                field,
                f"expected a document id of the items, such as {some or 'none'}"
                f"{_about_commas(field)}",
            )
        return found

    def _queries(self, document: bytes) -> dict[str, list[int]]:
        """Rows of a document by their query."""
        found = self._by_query.get(document)
        if found is None:
            found = self._by_query[document] = {}
            for row in self._rows[document]:
                found.setdefault(self._query_of[row], []).append(row)
        return found

    def _named(self, field: bytes) -> str:
        query = field[len(_QID) :].decode("utf-8", "replace")
        if self._names is None:
            raise _Unfit(field, "expected two documents: the items have no query ids")
        if query not in self._names:
            raise _Unfit(field, f"expected a query of the items, such as 'qid:{self._query_of[0]}'")
        return query

    def _shared(self, better: bytes, worse: bytes) -> str:
        both = self._queries(better).keys() & self._queries(worse).keys()
        if len(both) != 1:
            what = "no query has both"
            if both:
                some = ", ".join(sorted(both)[:_NAMED])
                what = f"{len(both)} queries have both: {some}{', ...' * (len(both) > _NAMED)}"
            raise _Unfit(
                better + b" " + worse,
                f"expected documents that exactly one query has; {what}. "
                + ("Start the line with 'qid:' and the query" if both else _USE_NUMBERS),
            )
        return both.pop()

    def _row(self, field: bytes, query: str) -> int:
        found = self._queries(field).get(query, [])
        if len(found) != 1:
            who = f"query {query} has" if query else "the items have"
            numbers = " and ".join(str(row + 1) for row in found[:2])
            what = f"it is in rows {numbers}. {_USE_NUMBERS}" if found else "it is not there"
            raise _Unfit(field, f"expected a document that {who} once; {what}")
        return found[0]
