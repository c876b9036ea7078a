"""What the maps of data in shards have in common: bounds on the rows, for certificates."""

from __future__ import annotations

from ranksvm._vectors import total_depth
from ranksvm.data.shards import Shards
from ranksvm.maps.matrix import EuclideanMap
from ranksvm.sharded.tasks import find_bounds, find_largest


class ShardedMap(EuclideanMap):
    """A map whose rows are in shards.

    Parameters
    ----------
    shards : Shards
    n_items : int
        Number of rows that take part.
    n_threads : int
        Number of threads for the work that is not done by the shards.
    """

    def __init__(self, shards: Shards, n_items: int, n_threads: int) -> None:
        self.shape = n_items, shards.shape[1]
        self._shards = shards
        self._threads = n_threads

    @property
    def longest_row(self) -> float:
        return find_bounds(self._shards).longest_row

    @property
    def score_depth(self) -> int:
        return find_bounds(self._shards).score_depth

    @property
    def pullback_depth(self) -> int:
        return find_bounds(self._shards).pullback_depth + total_depth(len(self._shards.sizes))

    def sharpen(self) -> bool:
        if self.tallest is not None:
            return False
        self.tallest = find_largest(self._shards)
        return True
