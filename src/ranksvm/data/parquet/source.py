"""Rows of Parquet files.

Labels, query ids and weights are read once, into vectors.  Features are read block by block, as
often as there are passes over the data: plain pages straight into the block
(:mod:`ranksvm.data.parquet.pages`), all others through pyarrow
(:mod:`ranksvm.data.parquet.batches`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._values import as_float, as_levels, float_type, is_exact
from ranksvm.data.array_shards import FileStamp
from ranksvm.data.parquet.batches import BatchReader, buffer_size, decoding_bytes
from ranksvm.data.parquet.columns import (
    check_names,
    check_same,
    feature_kinds,
    feature_names,
)
from ranksvm.data.parquet.files import (
    RowGroups,
    first_null,
    import_pyarrow,
    opened,
    reading,
    release_memory,
)
from ranksvm.data.parquet.pages import NotPlainError, Pages, PlainLayout, PlainReader
from ranksvm.data.parquet.vectors import Ids, Numbers
from ranksvm.data.row_sources import RowSource

# Rows of labels and query ids that are read at a time.
_VECTOR_ROWS = 1 << 17
# Threads that read, at most, and columns that are worth a thread.
_MOST_READERS = 8
_LEAST_SHARE = 8


class ParquetSource(RowSource):
    """The rows of Parquet files with the same columns.

    Parameters
    ----------
    paths : sequence of str
        Files, in the order of the rows.
    y, qid, sample_weight : str or None
        Columns of labels, query ids and weights.
    columns : sequence of str or None
        Features; None for all other columns.
    drop : collection of str
        Columns that are not used, if they are there.
    dtype : dtype or None
        Type of X; None for float32 if it represents all features exactly, else float64.
    n_threads : int
        Number of threads that share the columns of a block among them.

    Attributes
    ----------
    feature_names : tuple of str
    is_plain : bool
        Whether features are read without decoding.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        y: str | None = None,
        qid: str | None = None,
        sample_weight: str | None = None,
        columns: Sequence[str] | None = None,
        drop: Collection[str] = (),
        dtype: np.dtype[Any] | None = None,
        n_threads: int = 1,
    ) -> None:
        super().__init__()
        import_pyarrow()
        stamps = [FileStamp.of(path) for path in paths]
        self._special = {
            key: name
            for key, name in (("y", y), ("qid", qid), ("sample_weight", sample_weight))
            if name is not None
        }
        sizes = list[list[int]]()
        self.feature_names: tuple[str, ...] = ()
        self._decoding_bytes = 0
        first: dict[str, Any] = {}
        for k, stamp in enumerate(stamps):
            with opened(stamp) as file:
                schema, metadata = file.schema_arrow, file.metadata
                types = dict(zip(schema.names, schema.types, strict=True))
                check_names(stamp.path, schema.names)
                if k == 0:
                    self.feature_names = feature_names(
                        stamp.path, schema, self._special, columns, drop
                    )
                    kinds = feature_kinds(stamp.path, types, self.feature_names)
                    first = types
                    self._layout = PlainLayout(self.feature_names, types)
                else:
                    used = (*self._special.values(), *self.feature_names)
                    check_same(stamp.path, types, stamps[0].path, first, used, columns)
                self._layout.add(metadata)
                self._decoding_bytes = max(
                    self._decoding_bytes, decoding_bytes(stamp.path, metadata, self.feature_names)
                )
                groups = range(metadata.num_row_groups)
                sizes.append([metadata.row_group(group).num_rows for group in groups])
        self._groups = RowGroups(stamps, sizes)
        self._types = first
        self.n_items = self._groups.n_rows
        self.n_features = len(self.feature_names)
        self.dtype = float_type(kinds) if dtype is None else dtype
        # Plain pages take little time, and the tasks on earlier blocks need the other threads.
        n_readers = n_threads // 2 if self.is_plain else n_threads
        n_shares = max(1, min(n_readers, _MOST_READERS, self.n_features // _LEAST_SHARE))
        self._shares = [
            range(k * self.n_features // n_shares, (k + 1) * self.n_features // n_shares)
            for k in range(n_shares)
        ]
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._readers: list[PlainReader | BatchReader] = []  # one for each share of the columns
        self._pages: dict[tuple[int, int], Pages] = {}
        self._verified = 0  # rows from the first on whose checksums have been compared

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _OF_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def is_plain(self) -> bool:
        return self._layout.is_plain

    # --- Blocks ----------------------------------------------------------------------------------

    def read(self, begin: int, end: int) -> NDArray[Any]:
        out: NDArray[Any] = self.pool.empty((end - begin, self.n_features), self.dtype, "F")
        with self._lock:
            try:
                self._fill(begin, end, out)
            except NotPlainError:
                self._layout.is_plain = False
                self._fill(begin, end, out)
        return out

    def _fill(self, begin: int, end: int, out: NDArray[Any]) -> None:
        with contextlib.ExitStack() as failing:
            readers, self._readers = self._readers, []
            for reader in readers:
                failing.callback(reader.close)
            if not readers or not readers[0].can_reach(begin):
                failing.close()
                readers = []
                for columns in self._shares:
                    readers.append(self._reader(columns, begin, end - begin))
                    failing.callback(readers[-1].close)
            calls = [partial(reader.read, begin, end, out) for reader in readers]
            if len(calls) == 1:
                calls[0]()
            else:
                with ThreadPoolExecutor(len(calls), "ranksvm-decode") as pool:
                    for done in [pool.submit(call) for call in calls]:
                        done.result()
            if begin <= self._verified:
                self._verified = max(self._verified, end)
            if end < self.n_items:
                failing.pop_all()  # the next block goes on from here
                self._readers = readers
                return
        release_memory()

    def _reader(self, columns: range, row: int, block_rows: int) -> PlainReader | BatchReader:
        if self.is_plain:
            return PlainReader(self._groups, self._layout, columns, self._pages)
        return BatchReader(
            self._groups,
            [self.feature_names[j] for j in columns],
            columns,
            row,
            block_rows,
            self.dtype.itemsize,
            verify=self._verified < self.n_items,
        )

    def identity(self) -> str:
        stamps = [stamp.identity for stamp in self._groups.stamps]
        return repr((stamps, self.feature_names, self.dtype.str))

    def reading_bytes(self, block_bytes: int) -> int:
        block_rows = max(1, block_bytes // (self.n_features * self.dtype.itemsize))
        if self.is_plain:  # a column before conversion, for each thread
            return len(self._shares) * block_rows * 8
        # One batch, and for all columns a buffer, a page and a dictionary.
        buffers = self.n_features * buffer_size(block_rows, self.dtype.itemsize)
        return block_bytes // 2 + min(buffers, self._decoding_bytes) + self._decoding_bytes

    def where(self, row: int, column: int | None = None) -> str:
        place = self._groups.where(row)
        return place if column is None else f"{place}, column {self.feature_names[column]!r}"

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
        columns: dict[str, Any] = {}
        for key, name in self._special.items():
            collects: Any = Ids if key == "qid" else Numbers
            columns[key] = collects(self._groups, name, self._types[name], self.n_items)
        names = list(dict.fromkeys(self._special.values()))
        row = 0
        for stamp in self._groups.stamps:
            with reading(stamp), opened(stamp, read_dictionary=names, verify=True) as file:
                for batch in file.iter_batches(
                    batch_size=_VECTOR_ROWS, columns=names, use_threads=False
                ):
                    for key, name in self._special.items():
                        column = batch.column(batch.schema.names.index(name))
                        if column.null_count:
                            raise self._groups.missing(row + first_null(column), name)
                        columns[key].add(column, row)
                    row += batch.num_rows
        release_memory()
        found: dict[str, NDArray[Any]] = {}
        ids = None
        if "qid" in columns:
            found["qid"] = columns["qid"].codes
            ids = columns["qid"].distinct()
        if "sample_weight" in columns:
            found["sample_weight"] = as_float("sample_weight", columns["sample_weight"].values)
        if "y" in columns:
            labels = columns["y"].values
            if not is_exact(labels):
                found["labels"] = labels
            found["y"] = as_levels(labels)
        return found, ids


_OF_PROCESS = ("_lock", "_readers", "_pages", "_verified")
