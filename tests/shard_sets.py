"""Data sets cut into shards, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from ranksvm._sparse import is_sparse
from ranksvm.data.local_shards import LocalShards
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import KEEPS, RowBlock, Shard, ShardedMatrix

EVERYTHING = frozenset(KEEPS)


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
            RowBlock(partial(load, begin, end)),
            end - begin,
            y=rows(data.y, begin, end),
            query=rows(data.qid, begin, end),
            item_weight=rows(data.item_weight, begin, end),
            n_threads=n_threads,
        )
        for begin, end in pairwise([0, *sorted(cuts), data.n_items])
    ]
    made = LocalShards(shards, X.shape[1], X.dtype, is_sparse=is_sparse(X), memory=memory)
    made.facts.groups = data.groups
    made.keeps = keeps
    return replace(data, X=ShardedMatrix(made)).with_groups(data.groups)


@st.composite
def sets(draw) -> tuple[RankingData, list[int]]:
    """A small data set, and where to cut it; some shards are empty or have one row."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(4, 60))
    X = rng.normal(size=(n, draw(st.integers(1, 5)))) + draw(st.sampled_from([0.0, 10.0]))
    X = X.astype(draw(st.sampled_from([np.float64, np.float32])))
    y = rng.integers(0, draw(st.integers(2, 6)), n).astype(np.float64)
    y[:2] = 0.0, 1.0
    kind = draw(st.sampled_from(["sorted", "unsorted", "strings", "one query"]))
    qid = None
    if kind != "one query":
        qid = rng.integers(0, draw(st.integers(1, 12)), n)
        qid = np.sort(qid) if kind == "sorted" else qid
        qid[:2] = qid[0]
        if kind == "strings":
            qid = np.array([f"q{one}" for one in qid])
    data = RankingData(X, y, qid)
    if draw(st.booleans()):
        weight = rng.integers(0, 3, n).astype(np.float64) + draw(st.sampled_from([0.0, 0.5]))
        weight[:2] = 1.0
        data = replace(data, item_weight=weight)
    if draw(st.booleans()):
        data = replace(data, query_weight=rng.uniform(0.1, 2.0, data.groups.n_queries))
    if draw(st.booleans()):
        data = replace(data, X=sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0)))
    cuts = draw(st.lists(st.integers(0, n), max_size=6))
    if draw(st.integers(0, 9)) == 0:
        cuts = list(range(1, n))
    return data, cuts
