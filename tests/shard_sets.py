"""Data sets cut into shards, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from ranksvm._sparse import is_sparse
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import LocalShards, Shard, ShardedMatrix

EVERYTHING = frozenset({"scores", "pairs"})


def cut(
    data: RankingData,
    cuts: Iterable[int],
    *,
    memory: float = 0.0,
    keeps: frozenset[str] = EVERYTHING,
) -> RankingData:
    """Return the same data in shards that end before the rows ``cuts``."""
    X = data.X.tocsr() if is_sparse(data.X) else data.X

    def rows(values, begin, end):
        return None if values is None else values[begin:end]

    shards = [
        Shard(
            lambda begin=begin, end=end: X[begin:end].copy(),
            end - begin,
            y=rows(data.y, begin, end),
            query=rows(data.qid, begin, end),
            item_weight=rows(data.item_weight, begin, end),
        )
        for begin, end in pairwise([0, *sorted(set(cuts) - {0, data.n_items}), data.n_items])
    ]
    made = LocalShards(shards, X.shape[1], X.dtype, is_sparse=is_sparse(X), memory=memory)
    made.known["groups"] = data.groups
    made.keeps = keeps
    return replace(data, X=ShardedMatrix(made)).with_groups(data.groups)
