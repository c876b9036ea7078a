"""Data frames of pandas, polars, Arrow and other libraries that narwhals supports.

A frame holds features, and often query ids, labels and weights as well.  Arguments such as
``qid="query"`` name columns of X; :func:`split_frame` extracts them and leaves the features:

    X, columns = split_frame(frame, y="label", qid="query")

Columns are matched by name and rows by position.  Only the named columns are copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import PYTHON, Formatter, Message, Param, ParameterError
from ranksvm._text import listed
from ranksvm._values import as_objects


@dataclass(frozen=True)
class LeftOut:
    """How to leave a column out, in a message."""

    name: Any

    def render(self, formatter: Formatter) -> str:
        if formatter is PYTHON:
            return f"X.drop(columns={self.name!r})"
        return formatter.parameter(Param("drop", self.name))


def is_frame(X: Any) -> bool:
    """Return whether X is a frame with named columns; raise if it is lazy, without rows yet."""
    if isinstance(X, np.ndarray | list | tuple):
        return False
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(
            f"X is a lazy frame ({type(X).__module__.partition('.')[0]}), which has no rows yet. "
            "Pass X.collect()."
        )
    return isinstance(frame, nw.DataFrame)


def frame_columns(X: Any) -> list[Any]:
    """Return the column names, in order."""
    return list(nw.from_native(X, eager_only=True).columns)


def split_frame(X: Any, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """Extract the columns of X that arguments name.

    Parameters
    ----------
    X : frame or anything else
        Features, and possibly other columns.
    **arguments : str or values
        Strings name columns of X; other values are returned unchanged.

    Returns
    -------
    X : frame without the named columns, or X itself
    values : dict of str to ndarray or the argument as given

    Raises
    ------
    ValueError
        If a name is given and X is not a frame, or does not have exactly one column of that name.
    """
    named = {key: name for key, name in arguments.items() if isinstance(name, str)}
    if not named:
        return X, arguments
    if not is_frame(X):
        key, name = next(iter(named.items()))
        raise ValueError(
            f"{key}={name!r} names a column, but X is a {type(X).__name__} without column names. "
            f"Pass a frame (pandas, polars, Arrow), or pass the values of {key} themselves (always "
            "in a pipeline whose first steps turn a frame into an array)."
        )
    frame = nw.from_native(X, eager_only=True)
    names = list(frame.columns)
    for key, name in named.items():
        if names.count(name) != 1:
            trouble = "no column" if name not in names else f"{names.count(name)} columns"
            raise ValueError(
                f"{key}={name!r} must name one column of X; it has {trouble} of that name. "
                f"Columns: {listed(map(repr, names))}."
            )
    taken = list(named.values())
    for key, name in named.items():
        if taken.count(name) > 1:
            raise ValueError(f"{key} names the column {name!r}, which another argument names, too.")
    values = {key: _values(frame[name]) for key, name in named.items()}
    return nw.to_native(frame.drop(taken)), {**arguments, **values}


def drop_columns(X: Any, names: Iterable[str]) -> Any:
    """Return a frame without the given columns, if it has them; anything else unchanged."""
    names = set(names)
    if not names or not is_frame(X):
        return X
    frame = nw.from_native(X, eager_only=True)
    there = [name for name in frame.columns if name in names]
    return nw.to_native(frame.drop(there)) if there else X


def check_numeric(X: Any, other: str | None) -> None:
    """Raise if a frame has columns that are not numeric; the error names them.

    The error also says which arguments name columns that are not features: ``qid``, ``y`` and
    ``other``.  None if there are no such arguments.
    """
    schema = nw.from_native(X, eager_only=True).schema
    wrong = {
        name: f"{name!r} ({dtype})"
        for name, dtype in schema.items()
        # Whether columns of arbitrary objects are numeric is left to the conversion.
        if not (dtype.is_numeric() or dtype in (nw.Boolean, nw.Object, nw.Unknown))
    }
    if wrong:
        advice: Message | str = ""
        if other is not None:
            advice = Message(
                "; name columns that are not features with {qid}, {y} and {other}",
                qid=Param("qid"),
                y=Param("y"),
                other=Param(other),
            )
        raise ParameterError(
            "{n} of {total} feature columns {are} not numeric: {wrong}. Encode them "
            "as numbers, or leave them out: {drop}{advice}.",
            drop=LeftOut(next(iter(wrong))),
            n=len(wrong),
            are="is" if len(wrong) == 1 else "are",
            total=len(schema),
            wrong=listed(wrong.values()),
            advice=advice,
        )


def _values(column: nw.Series[Any]) -> NDArray[Any]:
    """Return a column as an array that keeps missing values and exact integers."""
    missing = column.null_count() and not column.dtype.is_numeric()
    if missing or column.dtype in (nw.Int128, nw.UInt128):  # NumPy lacks 128-bit integers
        return as_objects(column.to_list())
    return np.asarray(column.to_numpy())
