"""Rows of Parquet files, through pyarrow.

Labels, query ids and weights are read once, into vectors.  Features are read block by block, as
often as there are passes over the data.  Passes go through the files in order, so a cursor keeps
its place in the current row group: a row group of any size is decoded once a pass and never held as
a whole.

The files are read through small buffers, one per column, and not mapped: mapped pages would count
as memory of the process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._files import naming
from ranksvm._messages import Message, Param, ParameterError
from ranksvm._text import listed
from ranksvm._values import (
    as_float,
    as_levels,
    as_objects,
    exact_vector,
    float_type,
    is_exact,
    where_not_finite,
)
from ranksvm._vectors import Rows
from ranksvm.data.array_shards import FileStamp
from ranksvm.data.queries import exact_ids
from ranksvm.data.ranking_data import no_features
from ranksvm.data.shards import RowSource
from ranksvm.data.streams import FileFormatError

# Rows of labels and query ids that are read at a time.
_VECTOR_ROWS = 1 << 17
# Least number of rows that are decoded at a time; fewer would cost more calls than work.
_LEAST_BATCH = 8192
# Buffer of a column, in bytes, and the pages of it that pyarrow holds (an estimate).
_LEAST_BUFFER, _MOST_BUFFER = 1 << 14, 1 << 17
_PAGE_BYTES = 1 << 18
# Threads that decode, at most, and columns that are worth a thread.
_MOST_READERS = 8
_LEAST_SHARE = 8


class ParquetSource(RowSource):
    """The rows of Parquet files with the same columns.

    Parameters
    ----------
    paths : sequence of str
        Files, in the order of the rows.
    y, qid, sample_weight : str or None
        Columns that are not features.
    columns : sequence of str or None
        Features; None for all other columns.
    dtype : dtype or None
        Type of X; None for float32 if it represents all features exactly, else float64.
    n_threads : int
        Number of threads that share the columns of a block among them.

    Attributes
    ----------
    feature_names : tuple of str
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        y: str | None,
        qid: str | None,
        sample_weight: str | None,
        columns: Sequence[str] | None,
        dtype: np.dtype[Any] | None = None,
        n_threads: int = 1,
    ) -> None:
        super().__init__()
        import_pyarrow()
        self._stamps = [FileStamp.of(path) for path in paths]
        self._special = {
            key: name
            for key, name in (("y", y), ("qid", qid), ("sample_weight", sample_weight))
            if name is not None
        }
        first_rows, file_of, n_items = [0], list[int](), 0
        self._largest_group = 0  # bytes
        self.feature_names: tuple[str, ...] = ()
        first: dict[str, Any] = {}
        for k, stamp in enumerate(self._stamps):
            with _opened(stamp) as file:
                schema = file.schema_arrow
                types = dict(zip(schema.names, schema.types, strict=True))
                if k == 0:
                    _check_names(stamp.path, schema.names)
                    self.feature_names = _feature_names(
                        stamp.path, schema.names, self._special, columns
                    )
                    kinds = _feature_kinds(stamp.path, types, self.feature_names)
                    first = types
                else:
                    used = (*self._special.values(), *self.feature_names)
                    _check_same(stamp.path, types, self._stamps[0].path, first, used, columns)
                for group in range(file.metadata.num_row_groups):
                    about = file.metadata.row_group(group)
                    n_items += about.num_rows
                    self._largest_group = max(self._largest_group, about.total_byte_size)
                    first_rows.append(n_items)
                    file_of.append(k)
        # Row group g of all files has the rows from first[g] to first[g + 1].
        self._first: Rows = np.array(first_rows, dtype=np.int64)
        self._file_of: Rows = np.array(file_of, dtype=np.int64)
        self._types = first
        self.n_items = n_items
        self.n_features = len(self.feature_names)
        self.dtype = float_type(kinds) if dtype is None else dtype
        n_shares = max(1, min(n_threads, _MOST_READERS, self.n_features // _LEAST_SHARE))
        self._shares = [
            range(k * self.n_features // n_shares, (k + 1) * self.n_features // n_shares)
            for k in range(n_shares)
        ]
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._cursors: list[_Cursor] = []  # one for each share of the columns
        self._is_verified = False  # whether a pass has compared the checksums of pages

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _OF_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    # --- Blocks ----------------------------------------------------------------------------------

    def read(self, begin: int, end: int) -> NDArray[Any]:
        out: NDArray[Any] = self.pool.empty((end - begin, self.n_features), self.dtype, "F")
        with self._lock, contextlib.ExitStack() as failing:
            cursors, self._cursors = self._cursors, []
            for cursor in cursors:
                failing.callback(cursor.close)
            if not cursors or not cursors[0].can_reach(begin):
                failing.close()
                cursors = []
                for columns in self._shares:
                    cursors.append(_Cursor(self, columns, begin, end - begin))
                    failing.callback(cursors[-1].close)
            calls = [partial(self._read_columns, cursor, begin, end, out) for cursor in cursors]
            if len(calls) == 1:
                calls[0]()
            else:
                with ThreadPoolExecutor(len(calls), "ranksvm-decode") as pool:
                    for done in [pool.submit(call) for call in calls]:
                        done.result()
            if end < self.n_items:
                failing.pop_all()  # the next block goes on from here
                self._cursors = cursors
                return out
        self._is_verified = True
        _release_memory()
        return out

    def _read_columns(self, cursor: _Cursor, begin: int, end: int, out: NDArray[Any]) -> None:
        """Fill the columns of a cursor in a block."""
        cursor.skip_to(begin)
        for batch, at in cursor.batches_until(end):
            rows = out[at - begin : at - begin + batch.num_rows]
            place = {name: k for k, name in enumerate(batch.schema.names)}
            with np.errstate(over="ignore"):  # what overflows is found to be infinite
                for j in cursor.columns:
                    name = self.feature_names[j]
                    column = batch.column(place[name])
                    if column.null_count:
                        raise self._missing(name, at + _first_null(column))
                    rows[:, j] = column.to_numpy(zero_copy_only=False)

    def identity(self) -> str:
        stamps = [stamp.identity for stamp in self._stamps]
        return repr((stamps, self.feature_names, self.dtype.str))

    def reading_bytes(self, block_bytes: int) -> int:
        # One batch, the buffers of all columns, and the pages that are being decoded.
        buffers = max(
            min(block_bytes, self.n_features * _MOST_BUFFER), self.n_features * _LEAST_BUFFER
        )
        pages = self.n_features * _PAGE_BYTES
        return (
            block_bytes // 2 + min(buffers, self._largest_group) + min(pages, self._largest_group)
        )

    def where(self, row: int, column: int | None = None) -> str:
        group = self.group_of(row)
        k = int(self._file_of[group])
        in_file = group - int(np.searchsorted(self._file_of, k))
        place = (
            f"{self._stamps[k].path}, row group {in_file}, row {row - int(self._first[group])} "
            "(counted from 0)"
        )
        return place if column is None else f"{place}, column {self.feature_names[column]!r}"

    def group_of(self, row: int) -> int:
        """Return the row group of a row, counted over all files."""
        return int(np.searchsorted(self._first, row, side="right")) - 1

    def _missing(self, name: str, row: int) -> ValueError:
        return ValueError(
            f"{self.where(row)}, column {name!r}: the value is missing (null). Fill in missing "
            "values, or drop these rows."
        )

    # --- Vectors ---------------------------------------------------------------------------------

    def vectors(self) -> tuple[dict[str, NDArray[Any]], NDArray[Any] | None]:
        """Read labels, query ids and weights.

        Returns
        -------
        vectors : dict
            "y": float64, and "labels" if float64 cannot represent them; "sample_weight": float64;
            "qid": int64.
        ids : ndarray or None
            The ids that the numbers in "qid" stand for, in order of first appearance; None if the
            ids are integers themselves.
        """
        if not self._special:
            return {}, None
        readers: dict[str, Any] = {}
        for key, name in self._special.items():
            kind = self._types[name]
            reads: Any = _Ids if key == "qid" else _Numbers
            readers[key] = reads(self, name, kind, self.n_items)
        names = list(dict.fromkeys(self._special.values()))
        row = 0
        for stamp in self._stamps:
            with _reading(stamp), _opened(stamp, read_dictionary=names, verify=True) as file:
                for batch in file.iter_batches(
                    batch_size=_VECTOR_ROWS, columns=names, use_threads=False
                ):
                    for key, name in self._special.items():
                        column = batch.column(batch.schema.names.index(name))
                        if column.null_count:
                            raise self._missing(name, row + _first_null(column))
                        readers[key].add(column, row)
                    row += batch.num_rows
        _release_memory()
        found: dict[str, NDArray[Any]] = {}
        ids = None
        if "qid" in readers:
            found["qid"] = readers["qid"].codes
            ids = readers["qid"].distinct()
        if "sample_weight" in readers:
            weights = readers["sample_weight"].values
            found["sample_weight"] = as_float("sample_weight", weights)
        if "y" in readers:
            labels = readers["y"].values
            if not is_exact(labels):
                found["labels"] = labels
            found["y"] = as_levels(labels)
        return found, ids


_OF_PROCESS = ("_lock", "_cursors", "_is_verified")


class _Numbers:
    """Labels or weights."""

    def __init__(self, source: ParquetSource, name: str, kind: Any, n_items: int) -> None:
        import pyarrow.types as types

        self._source, self._name = source, name
        self._is_decimal = types.is_decimal(kind)
        if not (_is_number(kind) or self._is_decimal):
            raise ValueError(
                f"{source.where(0)}: column {name!r} must hold numbers; it holds {kind}. Name "
                "another column, or convert it."
            )
        dtype = np.float64 if self._is_decimal else kind.to_pandas_dtype()
        self.values: NDArray[Any] = np.empty(n_items, dtype=dtype)

    def add(self, column: Any, row: int) -> None:
        part: NDArray[Any]
        if self._is_decimal:
            part = exact_vector(self._name, as_objects(column.to_pylist()))
            if not is_exact(part):
                raise ValueError(
                    f"{self._source.where(row)}: column {self._name!r} holds decimal numbers that "
                    "float64 cannot represent, among this row and those after it. Convert them to "
                    "integers, such as ranks 0, 1, 2, ..."
                )
            part = part.astype(np.float64)
        else:
            part = column.to_numpy(zero_copy_only=False)
        at = where_not_finite(part)
        if at is not None:
            raise ValueError(
                f"{self._source.where(row + at)}, column {self._name!r}: found {part[at]}, "
                "expected a finite number. Drop these rows, or give them finite values."
            )
        self.values[row : row + part.size] = part


class _Ids:
    """Query ids: integers as they are, and numbers in place of all others."""

    def __init__(self, source: ParquetSource, name: str, kind: Any, n_items: int) -> None:
        import pyarrow.types as types

        self._source, self._name = source, name
        self._is_float = types.is_floating(kind)
        fits = types.is_integer(kind) and not types.is_uint64(kind)
        # Python's times have microseconds only.
        self._is_time = types.is_time64(kind)
        self._is_whole = fits or self._is_float or self._is_time
        if types.is_nested(kind):
            raise ValueError(
                f"{source.where(0)}: column {name!r} must hold query ids; it holds {kind}."
            )
        self._numbers: dict[Any, int] = {}
        self.codes: Rows = np.empty(n_items, dtype=np.int64)

    def add(self, column: Any, row: int) -> None:
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
                raise self._source._missing(self._name, row + _first_null(column))
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
                f"{self._source.where(row + at)}, {name}: found {values[at]}, expected a query "
                "id: a whole number or a text. Drop the rows without an id, or fill in their ids."
            ) from None

    def distinct(self) -> NDArray[Any] | None:
        """Return the ids that numbers stand for; None if the numbers are the ids."""
        if self._is_whole:
            return None
        ids = list(self._numbers)
        return np.array(ids) if all(isinstance(one, str) for one in ids) else as_objects(ids)


class _Cursor:
    """Decodes some columns of rows in order, from some row on.

    Parameters
    ----------
    source : ParquetSource
    columns : range
        Numbers of the features.
    row : int
        The first row that will be wanted.
    block_rows : int
        Number of rows of a block.
    """

    def __init__(self, source: ParquetSource, columns: range, row: int, block_rows: int) -> None:
        self._source = source
        self.columns = columns
        self._stack = contextlib.ExitStack()
        self._batch_rows = min(block_rows, max(_LEAST_BATCH, block_rows // 2))
        buffer = block_rows * source.dtype.itemsize
        self._buffer = min(_MOST_BUFFER, max(_LEAST_BUFFER, buffer))
        self._verify = not source._is_verified
        group = source.group_of(row)
        self._file = int(source._file_of[group])
        self._row = int(source._first[group])
        self._rest: Any = None  # rows of the last batch that were not wanted yet
        self._batches: Iterator[Any] = iter(())
        self._open(group - int(np.searchsorted(source._file_of, self._file)))

    def can_reach(self, row: int) -> bool:
        """Return whether a row lies ahead, and no later row group is a better place to start."""
        first = int(self._source._first[self._source.group_of(row)])
        return self._row <= row and (self._row == row or first <= self._row)

    def _open(self, group: int) -> None:
        self.close()
        stamp = self._source._stamps[self._file]
        file = self._stack.enter_context(
            _opened(stamp, verify=self._verify, buffer_size=self._buffer)
        )
        self._batches = file.iter_batches(
            batch_size=self._batch_rows,
            row_groups=range(group, file.metadata.num_row_groups),
            columns=[self._source.feature_names[j] for j in self.columns],
            use_threads=False,  # they would not help, and ours also copy
        )

    def close(self) -> None:
        """Close the file."""
        self._batches = iter(())
        self._stack.close()

    def skip_to(self, row: int) -> None:
        """Leave out all rows before a row."""
        for _ in self.batches_until(row):
            pass
        self._source._stamps[self._file].check()

    def batches_until(self, end: int) -> Iterator[tuple[Any, int]]:
        """Yield the batches before a row, each with its first row."""
        while self._row < end:
            batch = self._next()
            count = min(batch.num_rows, end - self._row)
            if count < batch.num_rows:
                self._rest = batch.slice(count)
                batch = batch.slice(0, count)
            yield batch, self._row
            self._row += count

    def _next(self) -> Any:
        if self._rest is not None:
            batch, self._rest = self._rest, None
            return batch
        while True:
            with _reading(self._source._stamps[self._file]):
                batch = next(self._batches, None)
            if batch is not None:
                return batch
            self._file += 1
            self._open(0)


# --- Files ---------------------------------------------------------------------------------------


def import_pyarrow() -> Any:
    """Return pyarrow; the error says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'ranksvm[tables]'") from None
    return pyarrow


def names_of_columns(path: str) -> list[str]:
    """Return the columns of a Parquet file."""
    import_pyarrow()
    with _opened(FileStamp.of(path)) as file:
        return list(file.schema_arrow.names)


@contextlib.contextmanager
def _opened(
    stamp: FileStamp,
    *,
    read_dictionary: list[str] | None = None,
    verify: bool = False,
    buffer_size: int = 1 << 18,
) -> Iterator[Any]:
    """Open a Parquet file that has not changed."""
    from pyarrow import parquet

    stamp.check()
    with _reading(stamp):
        file = parquet.ParquetFile(
            stamp.path,
            read_dictionary=read_dictionary,
            pre_buffer=False,
            buffer_size=buffer_size,
            page_checksum_verification=verify,
        )
    try:
        yield file
    finally:
        file.close()


@contextlib.contextmanager
def _reading(stamp: FileStamp) -> Iterator[None]:
    """Let the errors of pyarrow name the file and say what to do."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | FileFormatError):
            raise
        stamp.check()  # the reason may be that the file has changed
        if isinstance(error, OSError) and error.errno is not None:
            with naming(stamp.path):  # in the words of the system, not those of pyarrow
                raise OSError(error.errno, os.strerror(error.errno)) from error
        reason = " ".join(str(error).split()).rstrip(".")
        raise FileFormatError(
            f"cannot be read as Parquet: {reason}. Get or write the file again", stamp.path
        ) from None


def _release_memory() -> None:
    import pyarrow

    pyarrow.default_memory_pool().release_unused()


def _arrow(values: NDArray[Any]) -> Any:
    import pyarrow

    return pyarrow.array(values)


def _first_null(column: Any) -> int:
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


# --- Columns -------------------------------------------------------------------------------------


def _check_names(path: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"{path} has several columns called {twice[0]!r}; rename them.")


def _feature_names(
    path: str, names: Sequence[str], special: dict[str, str], columns: Sequence[str] | None
) -> tuple[str, ...]:
    for key, name in special.items():
        if name not in names:
            raise ParameterError(
                "{path} has no column {name!r}; it has {names}. Name the right one with "
                "{key}{none}.",
                path=path,
                name=name,
                names=listed(map(repr, names)),
                key=Param(key),
                none="" if key == "y" else Message(", or use {no}", no=Param(key, None)),
            )
    taken = list(special.values())
    if len(set(taken)) < len(taken):
        twice = next(name for name in taken if taken.count(name) > 1)
        keys = " and ".join(key for key, name in special.items() if name == twice)
        raise ValueError(f"{keys} name the same column, {twice!r}.")
    if columns is None:
        found = tuple(name for name in names if name not in taken)
        if not found:
            raise no_features(path, is_table=True)
        return found
    found = tuple(columns)
    for name in found:
        if name not in names or name in taken or found.count(name) > 1:
            trouble = "which the file does not have"
            if name in names:
                trouble = "twice" if found.count(name) > 1 else "which is not a feature"
            raise ParameterError(
                "{columns} lists {name!r}, {trouble}; {path} has {names}.",
                columns=Param("columns"),
                name=name,
                trouble=trouble,
                path=path,
                names=listed(map(repr, names)),
            )
    if not found:
        raise ParameterError("{columns} is empty: no features.", columns=Param("columns"))
    return found


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def _feature_kinds(
    path: str, types: dict[str, Any], features: Sequence[str]
) -> list[np.dtype[Any]]:
    wrong = [f"{name!r} ({types[name]})" for name in features if not _is_number(types[name])]
    if wrong:
        raise ParameterError(
            "{path}: {n} of {total} feature columns {are} not numeric: {wrong}. Encode or drop "
            "them; {columns} names the features, and {qid} and {y} columns that are none.",
            path=path,
            n=len(wrong),
            total=len(features),
            are="is" if len(wrong) == 1 else "are",
            wrong=listed(wrong),
            columns=Param("columns"),
            qid=Param("qid"),
            y=Param("y"),
        )
    return [np.dtype(types[name].to_pandas_dtype()) for name in features]


def _check_same(
    path: str,
    types: dict[str, Any],
    first_path: str,
    first: dict[str, Any],
    used: Sequence[str],
    columns: Sequence[str] | None,
) -> None:
    """Raise if a file has other columns than the first one, as far as they matter."""
    advice = "All files of one data set need the same columns; write them again, or leave one out."
    for name in used:
        if name not in types:
            raise ValueError(
                f"{path} has no column {name!r}, which is {first[name]} in {first_path}. {advice}"
            )
        if types[name] != first[name]:
            raise ValueError(
                f"{path}: column {name!r} is {types[name]}, and {first[name]} in {first_path}. "
                f"{advice}"
            )
    extra = [name for name in types if name not in first] if columns is None else []
    if extra:
        raise ValueError(
            f"{path} has a column {extra[0]!r} ({types[extra[0]]}), which {first_path} lacks. "
            f"{advice}"
        )
