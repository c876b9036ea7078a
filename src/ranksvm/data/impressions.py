"""Impression tables: which documents were shown, at which position, and clicked.

    query   session   position   document   clicked
    jazz    17        1          D4         False
    jazz    17        2          D1         True
    jazz    18        1          D1         False

There is one row for every document on a page; the rows with the same query and session are an
*impression*.  Columns may have other names, rows may be in any order, and ids may be of any type.
This module numbers the impressions and replaces documents by rows of X:

    impression[r], position[r], row[r], clicked[r]        sorted by impression, then by position
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._checks import shown
from ranksvm._values import is_missing, refuse_masked

__all__ = ["Impressions", "Items", "Rows", "read_impressions"]

Rows = NDArray[np.int64]
# Query ids (None to ignore them) and document ids of the rows of X.
Items = tuple[ArrayLike | None, ArrayLike]

_LARGEST_WHOLE = 2**53  # float64 represents every integer up to here


class Impressions(NamedTuple):
    """A checked log, sorted by impression and position.

    Attributes
    ----------
    impression : ndarray of int64, shape (n_rows,)
        Number of the impression.
    position : ndarray of int64, shape (n_rows,)
        Position on the page, from 1.
    row : ndarray of int64, shape (n_rows,)
        Row of X of the document.
    clicked : ndarray of bool, shape (n_rows,)
        Whether the document was clicked.
    """

    impression: Rows
    position: Rows
    row: Rows
    clicked: NDArray[np.bool_]


def read_impressions(table: Any, names: Mapping[str, str], items: Items | None) -> Impressions:
    """Check a table of impressions and sort it.

    Parameters
    ----------
    table : frame, or mapping of str to array-like of shape (n_rows,)
        Impressions, one row per document shown.
    names : mapping
        Column names for ``query``, ``position``, ``document``, ``clicked`` and, if queries were
        shown several times, ``session``.
    items : (qid, docid) or None
        Ids of the rows of X; None if documents are row numbers.

    Returns
    -------
    Impressions

    Raises
    ------
    ValueError
        See :func:`ranksvm.data.clicks_to_pairs`.
    """
    columns = _columns(table, names)
    position = _whole_numbers(
        columns["position"], names["position"], 1, "integers from 1, the top of the page"
    )
    clicked = _clicks(columns["clicked"], names["clicked"])
    queries = _numbered(columns["query"], names["query"])
    rows = _row_numbers(columns, names, queries, items)
    impression = queries.code
    if "session" in names:
        sessions = _numbered(columns["session"], names["session"])
        impression = impression * max(1, len(sessions.ids)) + sessions.code
    order = np.lexsort((position, impression))
    _check_once("position", columns, names, impression, position, order)
    by_row = np.lexsort((rows, impression))
    _check_once("document", columns, names, impression, rows, by_row)
    return Impressions(impression[order], position[order], rows[order], clicked[order])


def _check_once(
    what: str,
    columns: Mapping[str, NDArray[Any]],
    names: Mapping[str, str],
    impression: Rows,
    values: Rows,
    order: Rows,
) -> None:
    """Raise if an impression has a value twice; ``order`` sorts by impression and value."""
    same = (np.diff(impression[order]) == 0) & (np.diff(values[order]) == 0)
    if not same.any():
        return
    first, second = sorted(order[int(np.argmax(same)) :][:2].tolist())
    where = f"{names['query']} {columns['query'][first]!s}"
    remedy = "pass the name of the column that distinguishes its impressions as session="
    if "session" in names:
        where += f", {names['session']} {columns['session'][first]!s}"
        remedy = f"give every impression its own {names['session']}"
    raise ValueError(
        f"{names[what]} {columns[what][first]!s} occurs twice in one impression ({where}): rows "
        f"{first} and {second}. If the query was shown several times, {remedy}; if not, keep one "
        "of the rows"
    )


# --- Columns ------------------------------------------------------------------------------------


class _Numbered(NamedTuple):
    """Numbered ids: ``ids`` maps ids to numbers, and row r has the number ``code[r]``."""

    code: Rows
    ids: dict[Any, int]


def _columns(impressions: Any, names: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Return the columns of a frame or mapping, keyed by the arguments that name them."""
    from ranksvm.data.frames import frame_columns, is_frame, split_frame

    is_mapping = isinstance(impressions, Mapping)
    try:
        if not is_mapping and not is_frame(impressions):
            raise TypeError(
                "impressions must be a frame (pandas, polars, Arrow) or a mapping of names to "
                f"arrays; got {type(impressions).__name__}"
            )
        there = list(impressions) if is_mapping else frame_columns(impressions)
    except ValueError as error:
        raise ValueError(
            f"impressions must have columns of different names ({' '.join(str(error).split())}). "
            "Drop or rename the duplicates"
        ) from None
    for argument, name in names.items():
        if there.count(name) != 1:
            raise ValueError(
                f"{argument}={name!r} must name one column of impressions; it has "
                f"{there.count(name) or 'none'} of that name. Columns: "
                f"{', '.join(map(repr, there))}"
            )
    if not is_mapping:
        return split_frame(impressions, **names)[1]
    columns = {argument: _as_array(name, impressions[name]) for argument, name in names.items()}
    n_rows = columns["query"].shape
    for argument, column in columns.items():
        if column.ndim != 1 or column.shape != n_rows:
            raise ValueError(
                f"columns of impressions must be one-dimensional and equally long; "
                f"{names[argument]!r} has shape {column.shape}, {names['query']!r} has {n_rows}"
            )
    return columns


def _as_array(name: str, values: Any) -> NDArray[Any]:
    """Return a column as an array; NumPy would turn the missing value in ["a", nan] into text."""
    refuse_masked(name, values)
    if isinstance(values, list | tuple) and len(set(map(type, values))) > 1:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return np.asarray(values)


def _as_numbers(column: NDArray[Any], *, booleans: bool) -> NDArray[Any]:
    """Return the column as numbers, with NaN for anything else."""
    if column.dtype.kind in ("biuf" if booleans else "iuf"):
        return column

    def number(value: Any) -> float:
        is_boolean = isinstance(value, bool | np.bool_)
        return float(value) if (booleans if is_boolean else isinstance(value, Real)) else np.nan

    return np.fromiter(map(number, column.tolist()), dtype=np.float64, count=len(column))


def _whole_numbers(column: NDArray[Any], name: str, smallest: int, what: str) -> Rows:
    numbers = _as_numbers(column, booleans=False)
    wrong = ~((numbers >= smallest) & (numbers <= _LARGEST_WHOLE))  # also NaN
    if numbers.dtype.kind == "f":
        wrong |= numbers != np.rint(numbers)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must hold {what}; got {shown(column[row])} in row {row} "
            f"({int(wrong.sum())} such rows)"
        )
    return numbers.astype(np.int64)


def _clicks(column: NDArray[Any], name: str) -> NDArray[np.bool_]:
    numbers = _as_numbers(column, booleans=True)
    wrong = (numbers != 0) & (numbers != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must hold booleans, or 0 and 1; got {shown(column[row])} in row {row} "
            f"({int(wrong.sum())} such rows). If these are counts, pass whether they are > 0"
        )
    return numbers.astype(bool)


def _numbered(column: NDArray[Any], name: str) -> _Numbered:
    """Assign numbers to ids; a missing id is an error."""
    if column.dtype.kind in "iub":
        distinct, code = np.unique(column, return_inverse=True)
        return _Numbered(code, {v: n for n, v in enumerate(distinct.tolist())})
    ids: dict[Any, int] = {}
    try:
        # A new id gets the next number.
        numbers = (ids.setdefault(value, len(ids)) for value in column.tolist())
        code = np.fromiter(numbers, dtype=np.int64, count=len(column))
    except TypeError as error:
        raise _not_ids(name, error) from None
    for value, number in ids.items():
        if is_missing(value):
            row = int(np.argmax(code == number))
            raise ValueError(
                f"{name} is missing in row {row}: got {value!r}. Drop such rows or fill them in"
            )
    return _Numbered(code, ids)


def _not_ids(name: str, error: TypeError) -> ValueError:
    return ValueError(f"{name} must hold ids such as integers or strings: {error}")


# --- Documents ----------------------------------------------------------------------------------


def _row_numbers(
    columns: Mapping[str, NDArray[Any]],
    names: Mapping[str, str],
    queries: _Numbered,
    items: Items | None,
) -> Rows:
    """Return the row of X for every row of the log."""
    column, name = columns["document"], names["document"]
    if items is None:
        return _whole_numbers(
            column,
            name,
            0,
            "row numbers of X, counted from 0 (for ids, pass items=(qid, docid) of the rows of X)",
        )
    documents = _numbered(column, name)
    code, key_of = _item_keys(items, queries, documents)
    known = np.flatnonzero(code >= 0)
    known = known[np.argsort(code[known], kind="stable")]
    twice = np.flatnonzero(np.diff(code[known]) == 0)
    if twice.size:
        first, second = known[twice[0]], known[twice[0] + 1]
        raise ValueError(
            f"items has the document {_as_array('docid', items[1])[first]!s} twice"
            f"{'' if items[0] is None else ' in one query'}: rows {first} and {second}. Keep one "
            "of them, or pass row numbers of X instead of ids"
        )
    at = np.searchsorted(code[known], key_of)
    found = np.append(code[known], -1)[at] == key_of
    if not found.all():
        row = int(np.argmin(found))
        of_query = "" if items[0] is None else f" of {names['query']} {columns['query'][row]!s}"
        raise ValueError(
            f"{name} {column[row]!s}{of_query} in row {row} is not among the items "
            f"({int((~found).sum())} of {len(found)} rows have such documents"
            f"{_other_types(columns, items)}). Drop these rows, or add the items"
        )
    return known[at]


def _item_keys(items: Items, queries: _Numbered, documents: _Numbered) -> tuple[Rows, Rows]:
    """Return keys of the items (-1 if the log lacks the document) and of the rows of the log."""
    try:
        qid, docid = items
    except (TypeError, ValueError):
        raise ValueError("items must be (qid, docid), the ids of the rows of X") from None
    ids = _as_array("docid", docid)
    if ids.ndim != 1:
        raise ValueError(f"docid of items must be one-dimensional; got shape {ids.shape}")
    code = _looked_up("docid of items", ids, documents.ids)
    if qid is None:
        return code, documents.code
    query = _as_array("qid", qid)
    if query.shape != ids.shape:
        raise ValueError(
            f"items must have one query and one document id per row of X; got shapes {query.shape} "
            f"and {ids.shape}"
        )
    query_code = _looked_up("qid of items", query, queries.ids)
    n_documents = max(1, len(documents.ids))
    keys = np.where((code < 0) | (query_code < 0), -1, query_code * n_documents + code)
    return keys, queries.code * n_documents + documents.code


def _looked_up(name: str, values: NDArray[Any], ids: dict[Any, int]) -> Rows:
    try:
        return np.fromiter((ids.get(v, -1) for v in values.tolist()), np.int64, len(values))
    except TypeError as error:
        raise _not_ids(name, error) from None


def _other_types(columns: Mapping[str, NDArray[Any]], items: Items) -> str:
    """Return a hint if ids cannot match because one side has strings and the other numbers."""
    for what, theirs in zip(("query", "document"), items, strict=True):
        here, there = _types(columns[what]), set() if theirs is None else _types(theirs)
        if here and there and ("str" in here) != ("str" in there):
            log_has, items_have = (", ".join(sorted(types)) for types in (here, there))
            return f"; {what} ids are {log_has} in the log and {items_have} in items"
    return ""


def _types(values: Any) -> set[str]:
    return {
        type(value).__name__ for value in _as_array("items", values).tolist() if value is not None
    }
