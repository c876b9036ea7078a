"""Data sets cut into shards, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

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
    order: Literal["C", "F"] = "C",
    n_threads: int = 1,
) -> RankingData:
    """Return the same data in shards that end before the rows ``cuts``.

    A cut that occurs twice, or at either end, makes an empty shard.
    """
    X = data.X.tocsr() if is_sparse(data.X) else data.X

    def load(begin, end):
        return X[begin:end].copy() if is_sparse(X) else np.array(X[begin:end], order=order)

    def rows(values, begin, end):
        return None if values is None else values[begin:end]

    shards = [
        Shard(
            partial(load, begin, end),
            end - begin,
            y=rows(data.y, begin, end),
            query=rows(data.qid, begin, end),
            item_weight=rows(data.item_weight, begin, end),
            n_threads=n_threads,
        )
        for begin, end in pairwise([0, *sorted(cuts), data.n_items])
    ]
    made = LocalShards(shards, X.shape[1], X.dtype, is_sparse=is_sparse(X), memory=memory)
    made.known["groups"] = data.groups
    made.keeps = keeps
    return replace(data, X=ShardedMatrix(made)).with_groups(data.groups)
