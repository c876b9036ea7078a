"""The scatter of some of the items: it only scales, so a sample of thousands will do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups

__all__ = ["SampledScatter", "sample_rows"]


def sample_rows(groups: QueryGroups, most: int) -> NDArray[np.int64]:
    """About ``most`` of the items, at least; those of whole queries if there are many queries."""
    step = max(1, groups.n_items // most)
    if groups.n_queries >= 64 * step:
        return np.flatnonzero(groups.index % step == 0)
    return np.arange(0, groups.n_items, step)


class SampledScatter:
    """Weighted scatter of sampled items inside their queries, scaled to all items.

    Parameters
    ----------
    features : ndarray of float64, shape (n_rows, k)
        Of the sampled items.
    rows : ndarray of int64, shape (n_rows,)
        Which items they are.
    groups : QueryGroups
        Of all items.
    """

    def __init__(self, features: Array, rows: NDArray[np.int64], groups: QueryGroups) -> None:
        self._features = np.ascontiguousarray(features)
        self._rows = rows
        self._share = len(rows) / groups.n_items
        self._groups = QueryGroups.from_qid(groups.index[rows], len(rows))

    def at(self, weight: Array, n_threads: int) -> Array:
        """Scatter for weights of all items, shape (k, k)."""
        flat: Array = _core.scatter(
            self._features,
            weight[self._rows],
            self._groups.rows,
            self._groups.offsets,
            1,
            True,
            n_threads,
        )
        k = self._features.shape[1]
        scatter: Array = flat.reshape(k, k) / self._share
        return scatter
