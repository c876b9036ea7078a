"""Find the rows of the items that a line of a pair file names.

A line names items by row number or by document id; :mod:`ranksvm.data.pair_files` describes the
format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ranksvm._messages import Message, Param
from ranksvm.data.pair_checks import ZERO_BASED
from ranksvm.data.preferences import MOST_ROWS
from ranksvm.data.sources import FieldError

# Returns the rows of the better and the worse item from the fields that name them.
ResolveRows = Callable[[list[bytes]], tuple[int, int]]

QID = b"qid:"
_USE_NUMBERS = "Name the items by row number instead"
_NAMED = 3  # queries named in a message


def comma_hint(text: bytes) -> str:
    """Return a hint for messages if somebody may have separated document ids by commas."""
    return ". Separate document ids by spaces, not by commas" if b"," in text else ""


def numbered_rows(n_items: int | None, first: int) -> ResolveRows:
    """Return a function that finds rows by number; the first item has the number ``first``."""
    largest = (MOST_ROWS if n_items is None else n_items) + first - 1

    def row(field: bytes) -> int:
        # Numbers with more digits exceed any number of rows and would be slow to convert.
        if not field.isdigit() or len(field) > 19:
            raise FieldError(
                field,
                Message(
                    "expected a row number, counted from {first}. For document ids, use {docids}",
                    first=first,
                    docids=Param("docids"),
                ),
            )
        found = int(field)
        if found < first:
            raise FieldError(
                field,
                Message(
                    "but rows are counted from 1. If the file counts from 0, use {zero_based}",
                    zero_based=ZERO_BASED,
                ),
            )
        if found > largest:
            raise FieldError(
                field, f"expected a row number up to {largest}; there are no more items"
            )
        return found - first

    def resolve(fields: list[bytes]) -> tuple[int, int]:
        if len(fields) == 3:
            raise FieldError(
                fields[0], "expected a row number; 'qid:' is only for pairs of document ids"
            )
        better, worse = row(fields[0]), row(fields[1])
        if better == worse:
            raise FieldError(fields[0] + b" " + fields[1], "expected two different items")
        return better, worse

    return resolve


def item_columns(n_items: int | None, *columns: Any) -> tuple[Any, ...]:
    """Check document ids, query ids and labels; return the number of items and the three arrays."""
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


class DocumentRows:
    """Finds rows by document id, and by query if a document has several rows.

    The rows of a document are grouped by query the first time they are needed, so that a line does
    not take longer if a document occurs in many queries.
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
            raise FieldError(better, "expected two different documents")
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
            raise FieldError(
                field,
                f"expected the document id of an item, such as {some or 'none'}{comma_hint(field)}",
            )
        return found

    def _queries(self, document: bytes) -> dict[str, list[int]]:
        """Return the rows of a document by query."""
        found = self._by_query.get(document)
        if found is None:
            found = self._by_query[document] = {}
            for row in self._rows[document]:
                found.setdefault(self._query_of[row], []).append(row)
        return found

    def _named(self, field: bytes) -> str:
        query = field[len(QID) :].decode("utf-8", "replace")
        if self._names is None:
            raise FieldError(field, "expected two documents, since the items have no query ids")
        if query not in self._names:
            raise FieldError(
                field, f"expected a query of the items, such as 'qid:{self._query_of[0]}'"
            )
        return query

    def _shared(self, better: bytes, worse: bytes) -> str:
        both = self._queries(better).keys() & self._queries(worse).keys()
        if len(both) != 1:
            what = "no query has both"
            if both:
                some = ", ".join(sorted(both)[:_NAMED])
                what = f"{len(both)} queries have both: {some}{', ...' * (len(both) > _NAMED)}"
            raise FieldError(
                better + b" " + worse,
                f"expected two documents that occur together in exactly one query; {what}. "
                + ("Start the line with 'qid:' and the query" if both else _USE_NUMBERS),
            )
        return both.pop()

    def _row(self, field: bytes, query: str) -> int:
        found = self._queries(field).get(query, [])
        if len(found) != 1:
            who = f"query {query} has" if query else "the items have"
            numbers = " and ".join(str(row + 1) for row in found[:2])
            what = f"it is in rows {numbers}. {_USE_NUMBERS}" if found else "it is not there"
            raise FieldError(field, f"expected a document that {who} exactly once; {what}")
        return found[0]
