"""Labels, weights and query ids of Parquet files, collected batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import ParameterError
from ranksvm._values import as_objects, exact_vector, finite_values, is_exact
from ranksvm._vectors import Rows
from ranksvm.data.parquet.columns import is_number
from ranksvm.data.parquet.files import RowGroups, first_null
from ranksvm.data.queries import exact_ids


class Numbers:
    """Labels or weights."""

    def __init__(self, groups: RowGroups, name: str, kind: Any, n_items: int) -> None:
        import pyarrow.types as types

        self._groups, self._name = groups, name
        self._is_decimal = types.is_decimal(kind)
        if not (is_number(kind) or self._is_decimal):
            raise ValueError(
                f"{groups.where(0)}: column {name!r} must hold numbers; it holds {kind}. Name "
                "another column, or convert it."
            )
        dtype = np.float64 if self._is_decimal else kind.to_pandas_dtype()
        self.values: NDArray[Any] = np.empty(n_items, dtype=dtype)

    def add(self, column: Any, row: int) -> None:
        """Add the values of the rows from one on."""
        part: NDArray[Any]
        if self._is_decimal:
            part = exact_vector(self._name, as_objects(column.to_pylist()))
            if not is_exact(part):
                raise ValueError(
                    f"{self._groups.where(row)}: column {self._name!r} holds decimal numbers that "
                    "float64 cannot represent, among this row and those after it. Convert them to "
                    "integers, such as ranks 0, 1, 2, ..."
                )
            part = part.astype(np.float64)
        else:
            part = column.to_numpy(zero_copy_only=False)
        finite = finite_values(part)
        if not finite.all():
            at = int(np.argmin(finite))
            raise ValueError(
                f"{self._groups.where(row + at)}, column {self._name!r}: found {part[at]}, "
                "expected a finite number. Drop these rows, or give them finite values."
            )
        self.values[row : row + part.size] = part


class Ids:
    """Query ids: integers as they are, and numbers in place of all others."""

    def __init__(self, groups: RowGroups, name: str, kind: Any, n_items: int) -> None:
        import pyarrow.types as types

        self._groups, self._name = groups, name
        self._is_float = types.is_floating(kind)
        fits = types.is_integer(kind) and not types.is_uint64(kind)
        # Python's times have microseconds only.
        self._is_time = types.is_time64(kind)
        self._is_whole = fits or self._is_float or self._is_time
        if types.is_nested(kind):
            raise ValueError(
                f"{groups.where(0)}: column {name!r} must hold query ids; it holds {kind}."
            )
        self._numbers: dict[Any, int] = {}
        self.codes: Rows = np.empty(n_items, dtype=np.int64)

    def add(self, column: Any, row: int) -> None:
        """Add the ids of the rows from one on."""
        codes = self.codes[row : row + len(column)]
        if self._is_whole:
            if self._is_time:
                column = column.cast("int64")
            values = column.to_numpy(zero_copy_only=False)
            codes[...] = self._exact(values, row) if self._is_float else values
            return
        if not hasattr(column, "indices"):
            column = column.dictionary_encode()
        if column.dictionary.null_count:
            column = column.dictionary_decode()
            if column.null_count:
                raise self._groups.missing(row + first_null(column), self._name)
            column = column.dictionary_encode()
        places = column.indices.to_numpy(zero_copy_only=False)
        used, first, back = np.unique(places, return_index=True, return_inverse=True)
        values = column.dictionary.take(_arrow(used)).to_pylist()
        numbers = np.empty(used.size, dtype=np.int64)
        for k in np.argsort(first).tolist():
            numbers[k] = self._numbers.setdefault(values[k], len(self._numbers))
        codes[...] = numbers[back]

    def _exact(self, values: NDArray[Any], row: int) -> NDArray[Any]:
        name = f"column {self._name!r}"
        try:
            return exact_ids(values, name)
        except ParameterError:
            whole = np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) <= 2.0**53)
            at = int(np.argmin(whole))
            raise ValueError(
                f"{self._groups.where(row + at)}, {name}: found {values[at]}, expected a query "
                "id: a whole number or a text. Drop the rows without an id, or fill in their ids."
            ) from None

    def distinct(self) -> NDArray[Any] | None:
        """Return the ids that numbers stand for; None if the numbers are the ids."""
        if self._is_whole:
            return None
        ids = list(self._numbers)
        return np.array(ids) if all(isinstance(one, str) for one in ids) else as_objects(ids)


def _arrow(values: NDArray[Any]) -> Any:
    import pyarrow

    return pyarrow.array(values)
