"""The features of a frame or an array: what a :class:`TableEncoding` makes of its columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Param, ParameterError, Row
from ranksvm.data.table_encoding import TableEncoding


def encode(encoding: TableEncoding, table: Any, *, zero: bool = False) -> Any:
    """Return the features of some items.

    Parameters
    ----------
    encoding : TableEncoding
    table : frame, or ndarray of shape (n_items, n_columns)
        The columns, in order.
    zero : bool
        Whether all features of a missing value are 0, if they are not filled in.

    Returns
    -------
    ndarray in Fortran order, or csr_array, of shape (n_items, n_features)
        float32 if all numbers are, otherwise float64.  Missing numbers that are not filled in are
        NaN.

    Raises
    ------
    ParameterError
        If a number is something else, or a category lacks a value that is not filled in.
    """
    found = list(_read(encoding, table, zero))
    types = [one.values.dtype for one in found if one.codes is None]
    common = np.result_type(*types) if types else np.dtype(np.float64)
    dtype = np.float32 if common in (np.float16, np.float32) else np.float64
    make = _sparse if encoding.is_sparse else _dense
    return make(found, int(table.shape[0]), encoding.n_features, dtype)


def _read(encoding: TableEncoding, table: Any, zero: bool) -> Iterator[_Encoded]:
    medians = encoding.medians
    fills = medians is not None or zero
    for j, start in enumerate(encoding.starts[:-1].tolist()):
        column, name = column_of(table, j), encoding.column_name(j)
        is_marked = j in encoding.marked
        if j not in encoding.values:
            numbers, mark = numbers_of(column, name), None
            absent = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(0, dtype=bool)
            if fills and absent.any():
                numbers = numbers.copy()
                numbers[absent] = 0.0 if medians is None else medians[j]
                mark = np.flatnonzero(absent) if is_marked else None
            yield _Encoded(start, numbers, None, mark, start + 1)
            continue
        values, texts = encoding.values[j], texts_of(column)
        if not fills and None in texts:
            raise ParameterError(
                "column {name!r} has no value in {row}. Fill it in, drop the row, or train with "
                "{impute}.",
                impute=Param("missing", "impute"),
                name=name,
                row=Row(texts.index(None)),
            )
        place: dict[str | None, int] = {value: k for k, value in enumerate(values)}
        place[None] = len(values) if is_marked else -1
        codes = np.fromiter((place.get(one, -1) for one in texts), dtype=np.int64, count=len(texts))
        yield _Encoded(start, np.empty(0), codes, None, start + len(values))


@dataclass(frozen=True)
class _Encoded:
    """A column: its numbers, or the places of the values of its category (-1 for none).

    ``mark`` are the items whose number is missing, and ``marks_at`` the feature for them.
    """

    start: int
    values: NDArray[Any]
    codes: NDArray[np.int64] | None
    mark: NDArray[np.int64] | None
    marks_at: int


def _dense(found: Sequence[_Encoded], n_items: int, n_features: int, dtype: Any) -> NDArray[Any]:
    X = np.zeros((n_items, n_features), dtype=dtype, order="F")
    for one in found:
        if one.codes is None:
            X[:, one.start] = one.values
            if one.mark is not None:
                X[one.mark, one.marks_at] = 1.0
            continue
        rows = np.flatnonzero(one.codes >= 0)
        X[rows, one.start + one.codes[rows]] = 1.0
    return X


def _sparse(found: Sequence[_Encoded], n_items: int, n_features: int, dtype: Any) -> Any:
    """Return a CSR matrix; entries are sorted by row, with columns in order."""
    from scipy.sparse import coo_array

    every = np.arange(n_items)
    rows, columns, values = [], [], []
    for one in found:
        if one.codes is None:
            rows.append(every)
            columns.append(np.full(n_items, one.start))
            values.append(one.values.astype(dtype))
            if one.mark is not None:
                rows.append(one.mark)
                columns.append(np.full(one.mark.size, one.marks_at))
                values.append(np.ones(one.mark.size, dtype=dtype))
            continue
        known = np.flatnonzero(one.codes >= 0)
        rows.append(known)
        columns.append(one.start + one.codes[known])
        values.append(np.ones(known.size, dtype=dtype))
    parts = tuple(np.concatenate(part) for part in (values, rows, columns))
    X = coo_array((parts[0], (parts[1], parts[2])), shape=(n_items, n_features)).tocsr()
    X.sort_indices()
    return X


def column_of(table: Any, j: int) -> Any:
    """Return a column of a frame as a series of narwhals, or of an array as an array."""
    if isinstance(table, np.ndarray):
        return table[:, j]
    return nw.from_native(table, eager_only=True)[:, j]


def numbers_of(column: Any, name: str) -> NDArray[Any]:
    """Return a column as numbers; missing ones are NaN.

    Raises
    ------
    ParameterError
        If it holds something else.
    """
    if isinstance(column, np.ndarray):
        return column
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        values = np.asarray(column.to_numpy())
        if values.dtype.kind not in "fiub":  # nullable types, decimals
            values = np.asarray(column.cast(nw.Float64).to_numpy())
        return values
    if dtype in (nw.Object, nw.Unknown):
        absent = np.asarray(column.is_null().to_numpy(), dtype=bool)
        numbers = np.full(absent.size, np.nan)
        try:
            there = [one for one, none in zip(column.to_list(), absent, strict=True) if not none]
            if not any(isinstance(one, str) for one in there):
                numbers[~absent] = np.array(there, dtype=np.float64)
                return numbers
        except (TypeError, ValueError):
            pass
    raise ParameterError(
        "column {name!r} must hold numbers, as in training; it holds {dtype}.",
        name=name,
        dtype=dtype,
    )


def texts_of(column: Any) -> list[str | None]:
    """Return a column as texts; None where there is no value."""
    values = column.tolist() if isinstance(column, np.ndarray) else column.to_list()
    absent = [False] * len(values)
    if not isinstance(column, np.ndarray) and column.null_count():
        absent = column.is_null().to_list()
    return [
        one if type(one) is str else None if none else _as_text(one)
        for one, none in zip(values, absent, strict=True)
    ]


def _as_text(value: Any) -> str | None:
    """Return a value of a category that is not a text; 1.0, which pandas makes of 1, is 1 again."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)
