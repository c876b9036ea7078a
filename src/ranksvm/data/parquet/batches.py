"""Columns of Parquet files, decoded by pyarrow.

Blocks are read in order, so a reader keeps its place in the current row group: a row group of any
size is decoded once a pass and never held as a whole.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm.data.parquet.columns import flat_columns
from ranksvm.data.parquet.files import RowGroups, first_null, opened, reading
from ranksvm.data.parquet.pages import HEADER_BYTES, page_bytes
from ranksvm.data.streams import FileFormatError

# Least number of rows that are decoded at a time; fewer would cost more calls than work.
_LEAST_BATCH = 8192
# Buffer of a column, in bytes.
_LEAST_BUFFER, _MOST_BUFFER = 1 << 14, 1 << 17
# Size of a page that writers aim at, unless they are told otherwise.
_PAGE_BYTES = 1 << 20


def decoding_bytes(path: str, metadata: Any, names: Sequence[str]) -> int:
    """Return the memory that pyarrow holds while it decodes some columns of a file.

    For each column, that is its dictionary and a page, before and after decompression.  Some
    writers make one page of a whole column, so the first page of each is looked at, in the largest
    row group.
    """
    place = flat_columns(metadata)
    columns = [place[name] for name in names]
    most = 0
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    largest = max(groups, key=lambda one: one.num_rows, default=None)
    with open(path, "rb", buffering=0) as file:
        pages = [0] * len(columns)
        for k, j in enumerate(columns):
            if largest is not None:
                place = largest.column(j).data_page_offset
                pages[k] = page_bytes(os.pread(file.fileno(), HEADER_BYTES, place))
    for of_group in groups:
        total = 0
        for k, j in enumerate(columns):
            chunk = of_group.column(j)
            size, compressed = chunk.total_uncompressed_size, chunk.total_compressed_size
            usual = min(_PAGE_BYTES, size) + min(_PAGE_BYTES, compressed)
            total += max(usual, min(pages[k], size + compressed))
            if chunk.has_dictionary_page:
                stored = chunk.data_page_offset - chunk.dictionary_page_offset
                total += min(size, stored * max(1, size // max(1, compressed)))
        most = max(most, total)
    return most


def buffer_size(block_rows: int, itemsize: int) -> int:
    """Return the size of the buffer of a column, in bytes."""
    return min(_MOST_BUFFER, max(_LEAST_BUFFER, block_rows * itemsize))


class BatchReader:
    """Reads some columns of blocks through pyarrow, from some row on.

    Parameters
    ----------
    groups : RowGroups
    names : sequence of str
        The columns.
    columns : range
        Their numbers in a block.
    row : int
        The first row that will be wanted.
    block_rows : int
        Number of rows of a block.
    itemsize : int
        Bytes of a value in a block.
    verify : bool
        Whether to compare the checksums of pages.
    """

    def __init__(
        self,
        groups: RowGroups,
        names: Sequence[str],
        columns: range,
        row: int,
        block_rows: int,
        itemsize: int,
        *,
        verify: bool,
    ) -> None:
        self._groups = groups
        self._names = list(names)
        self._columns = columns
        self._stack = contextlib.ExitStack()
        self._batch_rows = min(block_rows, max(_LEAST_BATCH, block_rows // 2))
        self._buffer = buffer_size(block_rows, itemsize)
        self._verify = verify
        group = groups.group_of(row)
        self._file = int(groups.file_of[group])
        self._row = int(groups.first[group])
        self._rest: Any = None  # rows of the last batch that were not wanted yet
        self._batches: Iterator[Any] = iter(())
        self._open(groups.in_file(group))

    def can_reach(self, row: int) -> bool:
        """Return whether a row lies ahead, and no later row group is a better place to start."""
        first = int(self._groups.first[self._groups.group_of(row)])
        return self._row <= row and (self._row == row or first <= self._row)

    def close(self) -> None:
        """Close the file."""
        self._batches = iter(())
        self._stack.close()

    def read(self, begin: int, end: int, out: NDArray[Any]) -> None:
        """Fill the columns of a block."""
        for _ in self._batches_until(begin):  # rows that nobody wants
            pass
        self._groups.stamps[self._file].check()
        for batch, at in self._batches_until(end):
            rows = out[at - begin : at - begin + batch.num_rows]
            place = {name: k for k, name in enumerate(batch.schema.names)}
            with np.errstate(over="ignore"):  # what overflows is found to be infinite
                for j, name in zip(self._columns, self._names, strict=True):
                    column = batch.column(place[name])
                    if column.null_count:
                        raise self._groups.missing(at + first_null(column), name)
                    rows[:, j] = column.to_numpy(zero_copy_only=False)

    def _open(self, group: int) -> None:
        self.close()
        file = self._stack.enter_context(
            opened(self._groups.stamps[self._file], verify=self._verify, buffer_size=self._buffer)
        )
        self._batches = file.iter_batches(
            batch_size=self._batch_rows,
            row_groups=range(group, file.metadata.num_row_groups),
            columns=self._names,
            use_threads=False,  # they would not help, and ours also copy
        )

    def _batches_until(self, end: int) -> Iterator[tuple[Any, int]]:
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
            with reading(self._groups.stamps[self._file]):
                batch = next(self._batches, None)
            if batch is not None:
                return batch
            if self._row != self._groups.end_of_file(self._file):
                raise FileFormatError(
                    "cannot be read as Parquet: columns have fewer values than rows. Get or write "
                    "the file again",
                    self._groups.stamps[self._file].path,
                )
            self._file += 1
            self._open(0)
