"""The sample of rows that the scatter of a preconditioner is computed from.

It consists of the same rows as that of :class:`ranksvm.maps.matrix.MatrixMap`: a hash of its
features decides whether a row belongs to it, wherever the row is.  If rows are so alike that this
gives far too few or too many, their numbers decide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._vectors import Rows
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.sample import MOST_TIMES, by_whole_groups, scatter_step


class Sampling(NamedTuple):
    """A way to choose about one in ``step`` rows.

    ``by_group``: whole groups instead of single rows.  ``by_hash``: by hashes of the features, else
    by number.
    """

    step: int
    by_group: bool
    by_hash: bool = True

    def is_good(self, size: int, n_items: int) -> bool:
        """Return whether a sample of all items has about as many rows as expected."""
        expected = n_items // self.step
        return self.step == 1 or expected // MOST_TIMES <= size <= MOST_TIMES * expected

    @property
    def otherwise(self) -> Sampling | None:
        """What to do if a sample has far too few or too many rows; None if there is no more."""
        if self.by_hash:
            return self._replace(by_hash=False)
        return self._replace(by_group=False) if self.by_group else None


def choose_rows(hashes: NDArray[np.uint64] | None, groups: QueryGroups, how: Sampling) -> Rows:
    """Return the rows in the sample, group by group.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (n_items,), or None
        Hashes of the rows; None unless they choose.
    groups : QueryGroups
        Groups of the rows.
    how : Sampling
        How to choose.
    """
    rows: Rows = groups.rows
    step = how.step
    if step == 1:
        return rows
    if hashes is None:
        return rows[groups.index[rows] % step == 0] if how.by_group else rows[::step]
    ordered = hashes[rows]
    if how.by_group:
        largest = np.maximum.reduceat(ordered, groups.offsets[:-1])
        ordered = np.repeat(_core.mix_hashes(largest), groups.sizes)
    chosen: Rows = rows[ordered % np.uint64(step) == 0]
    return chosen


def sampling_of(n_items: int, n_features: int, groups: QueryGroups) -> Sampling:
    """Return how to choose the sample of a data set."""
    step = scatter_step(n_items, n_features)
    return Sampling(step, by_whole_groups(groups, step), by_hash=step > 1)
