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

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._messages import shown
from ranksvm._text import counted
from ranksvm._values import as_objects, is_missing, refuse_masked
from ranksvm._vectors import Rows

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
        columns["position"], names["position"], "integers from 1, the top of the page", 1
    )
    what = "booleans, or 0 and 1 (for counts, pass whether they are > 0)"
    clicked = _whole_numbers(columns["clicked"], names["clicked"], what, 0, 1).astype(bool)
    queries = _numbered(columns["query"], names["query"])
    rows = _row_numbers(columns, names, items)
    impression = queries
    if "session" in names:
        sessions = _numbered(columns["session"], names["session"])
        impression = queries * (1 + sessions.max(initial=0)) + sessions
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
        return as_objects(values)
    return np.asarray(values)


def _whole_numbers(
    column: NDArray[Any], name: str, what: str, smallest: int, largest: int = _LARGEST_WHOLE
) -> Rows:
    """Return a column of integers from ``smallest`` to ``largest``; booleans count as 0 and 1.

    Anything else is an error, and so are booleans if ``largest`` is not 1.
    """
    numbers, booleans = column, largest == 1
    if column.dtype.kind not in ("biuf" if booleans else "iuf"):
        known = (Real, np.bool_) if booleans else (Real,)
        refused = () if booleans else (bool,)
        values = (
            float(v) if isinstance(v, known) and not isinstance(v, refused) else np.nan
            for v in column.tolist()
        )
        numbers = np.fromiter(values, dtype=np.float64, count=len(column))
    wrong = ~((numbers >= smallest) & (numbers <= largest))  # also NaN
    if numbers.dtype.kind == "f":
        wrong |= numbers != np.rint(numbers)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must hold {what}; got {shown(column[row])} in row {row} "
            f"({counted(int(wrong.sum()), 'such row')})"
        )
    return numbers.astype(np.int64)


def _numbered(column: NDArray[Any], name: str) -> Rows:
    """Replace ids by numbers from 0; a missing id is an error."""
    if column.dtype.kind in "iub":
        return np.unique(column, return_inverse=True)[1]
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
            raise _is_missing(name, row, value)
    return code


def _is_missing(name: str, row: int, value: Any) -> ValueError:
    return ValueError(
        f"{name} is missing in row {row}: got {value!r}. Drop such rows or fill them in"
    )


def _not_ids(name: str, error: TypeError) -> ValueError:
    return ValueError(f"{name} must hold ids such as integers or strings: {error}")


# --- Documents ----------------------------------------------------------------------------------


def _row_numbers(
    columns: Mapping[str, NDArray[Any]],
    names: Mapping[str, str],
    items: Items | None,
) -> Rows:
    """Return the row of X for every row of the log."""
    column, name = columns["document"], names["document"]
    if items is None:
        what = "row numbers of X, from 0 (for ids, pass items=(qid, docid) of the rows of X)"
        return _whole_numbers(column, name, what, 0)
    try:
        qid, docid = items
    except (TypeError, ValueError):
        raise ValueError("items must be (qid, docid), the ids of the rows of X") from None
    ids = _as_array("docid", docid)
    queries = None if qid is None else _as_array("qid", qid)
    if ids.ndim != 1 or (queries is not None and queries.shape != ids.shape):
        shapes = " and ".join(str(one.shape) for one in (queries, ids) if one is not None)
        raise ValueError(
            f"items must have one query and one document id per row of X; got shapes {shapes}"
        )
    row_of: dict[Any, int] = {}
    second_row: dict[int, int] = {}  # of items that occur twice, by their first row
    try:
        for row, (key, document) in enumerate(zip(_keys(queries, ids), ids.tolist(), strict=True)):
            if not is_missing(document) and (first := row_of.setdefault(key, row)) != row:
                second_row.setdefault(first, row)
    except TypeError as error:
        raise _not_ids("items", error) from None
    keys = _keys(None if qid is None else columns["query"], column)
    try:
        rows = np.fromiter((row_of.get(key, -1) for key in keys), np.int64, len(column))
    except TypeError as error:
        raise _not_ids(name, error) from None
    twice = np.flatnonzero(np.isin(rows, list(second_row)))
    if twice.size:
        first = int(rows[twice[0]])
        raise ValueError(
            f"items has the document {ids[first]!s} twice{'' if qid is None else ' in one query'}: "
            f"rows {first} and {second_row[first]}. Keep one of them, or pass row numbers of X "
            "instead of ids"
        )
    unknown = rows < 0
    if unknown.any():
        row = int(np.argmax(unknown))
        for missing in np.flatnonzero(unknown).tolist():
            if is_missing(column[missing]):
                raise _is_missing(name, missing, column[missing])
        of_query = "" if qid is None else f" of {names['query']} {columns['query'][row]!s}"
        raise ValueError(
            f"{name} {column[row]!s}{of_query} in row {row} is not among the items "
            f"({int(unknown.sum())} of {len(rows)} rows have such documents"
            f"{_other_types(columns, items)}). Drop these rows, or add the items"
        )
    return rows


def _keys(queries: NDArray[Any] | None, documents: NDArray[Any]) -> Iterable[Any]:
    """Return what identifies items: document ids, or pairs of a query and a document id."""
    ids: list[Any] = documents.tolist()
    return ids if queries is None else zip(queries.tolist(), ids, strict=True)


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
