"""The sample of rows that the scatter of a preconditioner is computed from.

It consists of the same rows as that of :class:`ranksvm.maps.matrix.MatrixMap`: a hash of its
features decides whether a row belongs to it, wherever the row is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Rows
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.matrix import SCATTER_ITEMS
from ranksvm.maps.sample import by_whole_groups


def scatter_step(n_items: int, n_features: int) -> int:
    """Return the number of items of which one is in the sample."""
    return max(1, n_items // max(SCATTER_ITEMS, 64 * n_features))


def choose_rows(hashes: NDArray[np.uint64], groups: QueryGroups, step: int) -> Rows:
    """Return the rows in the sample, group by group.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (n_items,)
        Hashes of the rows.
    groups : QueryGroups
        Groups of the rows.
    step : int
        About one in ``step`` rows is chosen: whole groups if there are many.
    """
    whole = by_whole_groups(groups, step)
    chosen = chosen_rows(hashes, groups, step, whole)
    expected = groups.n_items // step
    if expected // 4 <= chosen.size <= 4 * expected:
        return chosen
    return every_row(groups, step, by_group=whole)


def every_row(groups: QueryGroups, step: int, *, by_group: bool) -> Rows:
    """Return every step-th row or group: for rows that are mostly alike, with few hashes."""
    rows: Rows = groups.rows
    return rows[groups.index[rows] % step == 0] if by_group else rows[::step]


def chosen_rows(hashes: NDArray[np.uint64], groups: QueryGroups, step: int, by_group: bool) -> Rows:
    """Return the rows that their hashes choose, group by group."""
    ordered = hashes[groups.rows]
    if by_group:
        largest = np.maximum.reduceat(ordered, groups.offsets[:-1])
        ordered = np.repeat(_mixed(largest), groups.sizes)
    chosen: Rows = groups.rows[ordered % np.uint64(step) == 0]
    return chosen


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """``mix_hash`` of the native scatter."""
    shift = np.uint64(33)
    x = x ^ (x >> shift)
    x = x * np.uint64(0xFF51AFD7ED558CCD)
    x = x ^ (x >> shift)
    x = x * np.uint64(0xC4CEB9FE1A85EC53)
    mixed: NDArray[np.uint64] = x ^ (x >> shift)
    return mixed
