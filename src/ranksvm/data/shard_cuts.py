"""Where the rows of files are cut into shards: at the ends of queries, if that is possible."""

from __future__ import annotations

import numpy as np

from ranksvm._vectors import Rows
from ranksvm.data.row_sources import RowSource


def find_cuts(
    source: RowSource,
    qid: Rows | None,
    block_bytes: int,
    row_bytes: int = 0,
    *,
    whole: bool = False,
) -> list[int]:
    """Return the first row of each shard, and the number of rows.

    A shard takes at most ``block_bytes``, unless it has a single row; ``row_bytes`` counts if it is
    more than a row of X takes.  It ends where the query changes, if it does within the shard; if it
    does not, a shard of ``whole`` queries goes on until then.
    """
    n_items = source.n_items
    before = source.row_bytes()
    most = n_items
    if before is None:
        most = block_bytes // max(1, source.n_features * source.dtype.itemsize)
    if row_bytes:
        most = min(most, block_bytes // row_bytes)
    cuts = [0]
    while cuts[-1] < n_items:
        begin = cuts[-1]
        end = begin + most
        if before is not None:
            last = int(np.searchsorted(before, before[begin] + block_bytes, side="right")) - 1
            end = min(end, last)
        end = max(end, begin + 1)
        if end < n_items and qid is not None:
            changes = np.flatnonzero(qid[begin + 1 : end + 1] != qid[begin:end])
            if changes.size:
                end = begin + 1 + int(changes[-1])
            elif whole:
                end = _end_of_query(qid, begin, end)
        cuts.append(min(end, n_items))
    return cuts


def _end_of_query(qid: Rows, begin: int, end: int) -> int:
    """Return the first row from ``end`` on that has another query than ``begin``."""
    step = max(end - begin, 1024)
    while end < qid.size:
        is_other = qid[end : end + step] != qid[begin]
        if is_other.any():
            return end + int(np.argmax(is_other))
        end += is_other.size
    return end
