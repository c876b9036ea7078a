"""Parquet files as partitions, read by the workers: some row groups of one file each.

Unlike ``dask.dataframe.read_parquet``, this knows which row groups a partition has, so that
messages can name them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# Row groups of a file are one partition together up to this size, uncompressed, because a task on
# less takes longer to send than to run.  A larger row group, as files usually have, is read alone.
PART_BYTES = 2_000_000


class RowGroupRange(NamedTuple):
    """Row groups of a file, from ``begin`` to ``end``, and the size of the file."""

    path: str
    begin: int
    end: int
    size: int

    def __str__(self) -> str:
        if self.end - self.begin == 1:
            return f"{self.path}, row group {self.begin}"
        return f"{self.path}, row groups {self.begin} to {self.end - 1}"


def parquet_parts(paths: Sequence[str], columns: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Return the partitions of Parquet files as delayed Arrow tables, and their names in messages.

    Parameters
    ----------
    paths : sequence of str
        Files that all workers can read.
    columns : sequence of str
        Columns to read.
    """
    import dask

    groups = [one for path in paths for one in _row_groups(path)]
    parts = [dask.delayed(read_row_groups, pure=False)(one, list(columns)) for one in groups]
    return parts, [f"partition {k}: {one}" for k, one in enumerate(groups)]


def _row_groups(path: str) -> Iterator[RowGroupRange]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        about = file.metadata
        sizes = [about.row_group(k).total_byte_size for k in range(about.num_row_groups)]
    begin, total = 0, 0
    for k, size in enumerate(sizes):
        if k > begin and total + size > PART_BYTES:
            yield RowGroupRange(path, begin, k, os.path.getsize(path))
            begin, total = k, 0
        total += size
    if sizes:
        yield RowGroupRange(path, begin, len(sizes), os.path.getsize(path))


# What the workers run.


def read_row_groups(groups: RowGroupRange, columns: list[str]) -> Any:
    """Return columns of some row groups as an Arrow table."""
    from pyarrow import parquet

    if os.path.getsize(groups.path) != groups.size:
        raise ValueError("the file has changed since the beginning of the fit; fit again")
    with parquet.ParquetFile(groups.path, page_checksum_verification=True) as file:
        table = file.read_row_groups(list(range(groups.begin, groups.end)), columns=columns)
    return table.select(columns)  # in this order
