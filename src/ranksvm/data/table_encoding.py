"""How the columns of a table become features: numbers, truth values, categories, missing values.

    column                      features
    price   3.5, missing        price     3.5, 7.0 (the median)    price=missing   0, 1
    colour  red, blue, green    colour=blue  0, 1, 0               colour=red      1, 0, 0

A *category* has one feature for each value that was kept, which is 1 where the item has this value
(one-hot).  All other values, rare and unknown ones, are zero in all of them.  A feature
``column=missing`` says which items lacked a value; there is one if the training set had such items.

An encoding is learned by :mod:`ranksvm.estimators.encodings`, with scikit-learn's transformers.  It
is part of the facts of a model, as plain numbers and names, and is applied without them
(:mod:`ranksvm.data.table_features`):

    columns     names of the columns, or null
    n_columns   their number
    values      kept values of the categories, by the number of the column, from 0
    medians     what stands for a missing number, by column (0 for categories); null if missing
                values are an error
    marked      numbers of the columns with a feature ``column=missing``
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._cached import cached_property

FACT = "encoding"
ENTRIES = {"columns", "n_columns", "values", "medians", "marked"}
MISSING = "missing"
# One-hot columns are sparse if there are this many features, and at most this share of their values
# is not zero.
WIDE, DENSITY = 200, 0.3
LARGEST = 2**31 - 1  # features


@dataclass(frozen=True, eq=False)
class TableEncoding:
    """The features that the columns of a table become.

    Attributes
    ----------
    n_columns : int
        Number of columns.
    columns : tuple of str or None
        Their names; None for an array.
    values : mapping of int to tuple of str
        Kept values of the categories, by the number of the column.  Other columns are numbers.
    medians : tuple of float or None
        What stands for a missing number, by column; None if missing values are an error.
    marked : frozenset of int
        Columns with a feature for missing values.
    """

    n_columns: int
    columns: tuple[str, ...] | None
    values: Mapping[int, tuple[str, ...]]
    medians: tuple[float, ...] | None
    marked: frozenset[int]

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> TableEncoding | None:
        """Return the encoding in the facts of a model, if there is one.

        Raises
        ------
        ValueError
            If it is not valid.
        """
        found = facts.get(FACT)
        if found is None:
            return None
        if not isinstance(found, Mapping) or found.keys() != ENTRIES:
            raise _wrong(f"a mapping with {', '.join(sorted(ENTRIES))}", found)
        n, columns, medians = found["n_columns"], found["columns"], found["medians"]
        if not _is_count(n) or n == 0:
            raise _wrong("made of at least one column", n)
        if columns is not None and not (_is_list(columns, str) and len(columns) == n):
            raise _wrong(f"made of {n} columns with names, or without", columns)
        if medians is not None and not (
            _is_list(medians, float) and len(medians) == n and all(map(math.isfinite, medians))
        ):
            raise _wrong(f"made of {n} finite medians, or of none", medians)
        marked, values = found["marked"], found["values"]
        if not _is_list(marked, int) or not all(_is_count(j) and j < n for j in marked):
            raise _wrong("made of numbers of columns", marked)
        if not isinstance(values, Mapping) or not all(
            one.isascii() and one.isdecimal() and len(one) < 11 and int(one) < n for one in values
        ):
            raise _wrong("made of values by the number of a column", values)
        for one in values.values():
            if not _is_list(one, str) or not one or len(set(one)) < len(one):
                raise _wrong("made of different values of each category", one)
        return cls(
            n,
            None if columns is None else tuple(columns),
            {int(j): tuple(one) for j, one in values.items()},
            None if medians is None else tuple(medians),
            frozenset(marked),
        )

    def facts(self) -> dict[str, Any]:
        """Return the facts of a model with this encoding."""
        return {
            FACT: {
                "columns": None if self.columns is None else list(self.columns),
                "n_columns": self.n_columns,
                "values": {str(j): list(one) for j, one in sorted(self.values.items())},
                "medians": None if self.medians is None else list(self.medians),
                "marked": sorted(self.marked),
            }
        }

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first feature of each column, and the number of features."""
        sizes = np.ones(self.n_columns, dtype=np.int64)
        for j, values in self.values.items():
            sizes[j] = len(values)
        sizes[sorted(self.marked)] += 1
        return np.concatenate([[0], np.cumsum(sizes)])

    @property
    def n_features(self) -> int:
        """Number of features."""
        # Not from `starts`: a file may claim any number of columns.
        more = sum(len(values) - 1 for values in self.values.values())
        return self.n_columns + more + len(self.marked)

    @property
    def is_sparse(self) -> bool:
        """Whether the features are a sparse matrix: many of them, and most of them zero."""
        filled = self.n_columns + len(self.marked)
        return self.n_features >= WIDE and filled <= DENSITY * self.n_features

    def column_name(self, j: int, first: int = 0, called: str = "") -> str:
        """Return the name of a column, or a number that begins with ``first``."""
        return f"{called}{j + first}" if self.columns is None else self.columns[j]

    def feature_name(self, k: int, first: int = 0, called: str = "") -> str:
        """Return the name of a feature, such as ``colour=red``; see :meth:`column_name`."""
        j = int(np.searchsorted(self.starts, k, side="right")) - 1
        name, at = self.column_name(j, first, called), k - int(self.starts[j])
        values = self.values.get(j)
        if at == (1 if values is None else len(values)):
            return f"{name}={MISSING}"
        return name if values is None else f"{name}={values[at]}"

    @cached_property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None if the columns have no names."""
        if self.columns is None:
            return None
        return tuple(self.feature_name(k) for k in range(self.n_features))

    def describe(self) -> dict[str, Any]:
        """Return a summary for display."""
        return {
            "columns": self.n_columns,
            "categories": {self.column_name(j): len(one) for j, one in self.values.items()} or None,
            "missing_values": None if self.medians is None else "median",
        }


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, kind) for one in value)


def _wrong(expected: str, got: Any) -> ValueError:
    return ValueError(f"{FACT} in the facts must be {expected}; got {reprlib.repr(got)}")
