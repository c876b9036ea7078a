"""Parquet files and their row groups: opening them, errors that name them, numbers of rows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ranksvm._files import naming
from ranksvm._vectors import Rows
from ranksvm.data.array_shards import FileStamp
from ranksvm.data.streams import FileFormatError


def import_pyarrow() -> Any:
    """Return pyarrow; the error says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'ranksvm[tables]'") from None
    return pyarrow


@contextlib.contextmanager
def opened(
    stamp: FileStamp,
    *,
    read_dictionary: list[str] | None = None,
    verify: bool = False,
    buffer_size: int = 1 << 18,
) -> Iterator[Any]:
    """Open a Parquet file that has not changed.

    It is read through small buffers, one per column, and not mapped: mapped pages would count as
    memory of the process.
    """
    from pyarrow import parquet

    stamp.check()
    with reading(stamp):
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
def reading(stamp: FileStamp) -> Iterator[None]:
    """Let the errors of pyarrow and of the system name the file and say what to do."""
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


def release_memory() -> None:
    """Give back to the system what pyarrow has freed."""
    import pyarrow

    pyarrow.default_memory_pool().release_unused()


class RowGroups:
    """The row groups of several files, numbered from 0 over all of them.

    Parameters
    ----------
    stamps : sequence of FileStamp
        The files.
    sizes : sequence of sequence of int
        Rows of each row group, for each file.

    Attributes
    ----------
    stamps : list of FileStamp
    first : ndarray of int64, shape (n_groups + 1,)
        The first row of each row group, and the number of rows.
    file_of : ndarray of int64, shape (n_groups,)
        The file of each row group.
    """

    def __init__(self, stamps: Sequence[FileStamp], sizes: Sequence[Sequence[int]]) -> None:
        self.stamps = list(stamps)
        rows = [size for of_file in sizes for size in of_file]
        self.first: Rows = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self.file_of: Rows = np.repeat(
            np.arange(len(stamps)), [len(of_file) for of_file in sizes]
        ).astype(np.int64)

    @property
    def n_rows(self) -> int:
        return int(self.first[-1])

    def group_of(self, row: int) -> int:
        """Return the row group of a row."""
        return int(np.searchsorted(self.first, row, side="right")) - 1

    def in_file(self, group: int) -> int:
        """Return the number that a row group has in its file."""
        return group - int(np.searchsorted(self.file_of, self.file_of[group]))

    def end_of_file(self, file: int) -> int:
        """Return the number of rows in a file and all files before it."""
        return int(self.first[np.searchsorted(self.file_of, file, side="right")])

    def where(self, row: int) -> str:
        """Return where a row is, for messages."""
        group = self.group_of(row)
        return (
            f"{self.stamps[self.file_of[group]].path}, row group {self.in_file(group)}, row "
            f"{row - int(self.first[group])} (counted from 0)"
        )

    def missing(self, row: int, column: str) -> ValueError:
        """Return the error for a value that is null."""
        return ValueError(
            f"{self.where(row)}, column {column!r}: the value is missing (null). Fill in missing "
            "values, or drop these rows."
        )


def first_null(column: Any) -> int:
    """Return the first place of a column that is null."""
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
