"""Data sets cut into blocks, and the reference: the same cuts in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ranksvm.data import RankingData
from ranksvm.data.local_shards import LocalShards
from ranksvm.data.shards import RowBlock, Shard, ShardedMatrix
from ranksvm.data.synthetic import make_ranking
from ranksvm.learners import make_problem
from ranksvm.learners.fit import Fit
from ranksvm.learners.settings import Settings


def ranking(n_queries: int = 40, seed: int = 0, **options: Any) -> RankingData:
    X, y, qid, _ = make_ranking(n_queries, (1, 20), 6, random_state=seed, **options)
    return RankingData(X, y, qid)


def even_cuts(data: RankingData, n: int) -> list[int]:
    return np.linspace(0, data.n_items, n + 1).astype(int)[1:-1].tolist()


def bounds(data: RankingData, cuts: list[int]) -> list[tuple[int, int]]:
    return list(zip([0, *cuts], [*cuts, data.n_items], strict=True))


def local_data(data: RankingData, cuts: list[int], *, order: str = "C") -> RankingData:
    """The same cuts in this process; empty shards are left out, as on a cluster."""
    index, shards = data.groups.index, []
    for begin, end in bounds(data, cuts):
        if begin < end:
            block = data.X[begin:end]
            if not sparse.issparse(block):
                block = np.array(block, order=order)
            shard = Shard(
                RowBlock(lambda block=block: block),
                end - begin,
                y=data.y[begin:end],
                query=None if data.qid is None else index[begin:end],
                item_weight=None if data.item_weight is None else data.item_weight[begin:end],
            )
            shards.append(shard)
    is_sparse = sparse.issparse(data.X)
    matrix = LocalShards(shards, data.n_features, data.X.dtype, is_sparse=is_sparse, memory=np.inf)
    matrix.facts.groups = replace(data.groups, ids=np.arange(data.groups.n_queries))
    return replace(data, X=ShardedMatrix(matrix)).with_groups(data.groups)


def local_fit(data: RankingData, cuts: list[int], settings: Settings, *, order: str = "C") -> Fit:
    """The fit of a linear model has weights of the features as they are."""
    problem: Any = make_problem(local_data(data, cuts, order=order), settings)
    fit: Fit = problem.solve()
    return replace(fit, point=problem.shared_point(fit.point))


def exact_objective(data: RankingData, coef: Any, C: float) -> float:
    """The objective of a squared hinge with the mean over pairs, summed pair by pair."""
    scores = data.X @ coef
    weight = np.ones(data.n_items) if data.item_weight is None else data.item_weight
    loss = mass = 0.0
    for rows in np.split(data.groups.rows, data.groups.offsets[1:-1]):
        better, worse = np.nonzero(data.y[rows][:, None] > data.y[rows][None, :])
        pair = weight[rows[better]] * weight[rows[worse]]
        slack = np.maximum(0.0, 1.0 - scores[rows[better]] + scores[rows[worse]])
        loss += float(pair @ slack**2)
        mass += float(pair.sum())
    return 0.5 * float(coef @ coef) + C * loss / mass


def as_tuples(data: RankingData, cuts: list[int]) -> list[Any]:
    """Delayed tuples (X, y, qid, weight)."""
    import dask

    return [
        dask.delayed(tuple)(
            [
                data.X[begin:end],
                data.y[begin:end],
                None if data.qid is None else data.qid[begin:end],
                None if data.item_weight is None else data.item_weight[begin:end],
            ]
        )
        for begin, end in bounds(data, cuts)
    ]


def as_frame(data: RankingData, cuts: list[int]) -> Any:
    """A Dask DataFrame with unknown divisions."""
    import dask
    import dask.dataframe
    import pandas

    names = [f"f{k}" for k in range(data.n_features)]
    frame = pandas.DataFrame(data.X, columns=names).assign(label=data.y)
    if data.qid is not None:
        frame["query"] = data.qid
    if data.item_weight is not None:
        frame["weight"] = data.item_weight
    parts = [dask.delayed(frame.iloc[begin:end]) for begin, end in bounds(data, cuts)]
    return dask.dataframe.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)


def as_arrays(data: RankingData, cuts: list[int]) -> tuple[Any, Any, Any]:
    """X, y and query ids as Dask Arrays."""
    import dask.array

    chunks = tuple(end - begin for begin, end in bounds(data, cuts))
    X = dask.array.from_array(data.X, chunks=(chunks, (data.n_features,)))
    y, qid = (dask.array.from_array(one, chunks=(chunks,)) for one in (data.y, data.qid))
    return X, y, qid
