"""Lazy scores of models that see features of the query, which need all items of a query at a time.

A partition is scored where it is, so every query has to be in one partition.  That is known only
when the ids are computed: one task looks at the distinct ids of all partitions, and all scores wait
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.dask.partitions import aligned_parts
from ranksvm.data.frames import is_frame
from ranksvm.data.queries import QueryGroups


def lazy_query_scores(ranker: Any, X: Any, qid: Any) -> Any:
    """Return the scores of a Dask collection, not yet computed.

    Parameters
    ----------
    ranker : ModelRanker
        A fitted ranker for data in memory.
    X : Dask DataFrame, Dask Array, or list of delayed objects or futures
        Checked; a Dask Array has its columns in one chunk.
    qid : str, Dask Series, Dask Array, array or None
        Query ids: the name of a column, or ids with the partitions of X.  None: the column that was
        used in ``fit``.  The elements of a list have their own.

    Returns
    -------
    Dask Series, Dask Array, or list of delayed objects or futures
        With the partitions of X.
    """
    import dask
    import dask.array
    import dask.dataframe
    from dask.highlevelgraph import HighLevelGraph

    if isinstance(X, list | tuple):
        return _of_list(ranker, list(X), ranker._qid_column if qid is None else qid)
    model, lengths = dask.delayed(ranker, pure=False), None
    if isinstance(X, dask.dataframe.DataFrame):
        parts = X.to_delayed()
        if qid is None and ranker._qid_column in X.columns:
            qid = ranker._qid_column
    else:
        parts, lengths = X.to_delayed().ravel().tolist(), X.chunks[0]
    ids = [qid] * len(parts)
    if qid is None:
        ranker._get_model().needed_groups(None, 0)  # raises if there were several queries
    elif not isinstance(qid, str):
        is_known = lengths is not None and not np.isnan(lengths).any()
        ids = aligned_parts("qid", qid, len(parts), lengths if is_known else None)
    scores = _scored(partial(dask.delayed, pure=False), model, parts, ids)
    if lengths is None:
        import pandas

        meta = pandas.Series([], dtype=np.float64, name="score")
        return dask.dataframe.from_delayed(
            scores, meta=meta, divisions=X.divisions, verify_meta=False
        )
    name = f"scores-{scores[0].key}"
    # Not a concatenation, which would leave out empty chunks.
    chunks = {(name, k): one.key for k, one in enumerate(scores)}
    graph = HighLevelGraph.from_collections(name, chunks, dependencies=scores)
    return dask.array.Array(graph, name, chunks=(lengths,), dtype=np.float64)


def _of_list(ranker: Any, parts: list[Any], qid: Any) -> list[Any]:
    import dask
    from distributed import Future

    if qid is not None and not isinstance(qid, str):
        raise TypeError(
            "if X is a list of delayed objects or futures, qid must be the name of a column, or a "
            f"part of each (X, y, qid); got {type(qid).__name__}"
        )
    ids = [qid] * len(parts)
    clients = [one.client for one in parts if isinstance(one, Future)]
    if not clients:
        model = dask.delayed(ranker, pure=False)
        return _scored(partial(dask.delayed, pure=False), model, parts, ids)
    client = clients[0]
    futures = [one if isinstance(one, Future) else client.compute(one) for one in parts]

    def submit(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: client.submit(function, *arguments, pure=False)

    return _scored(submit, client.scatter(ranker, hash=False), futures, ids)


def _scored(
    lazy: Callable[[Callable[..., Any]], Callable[..., Any]],
    ranker: Any,
    parts: Sequence[Any],
    ids: Sequence[Any],
) -> list[Any]:
    """Return the scores of parts; ``lazy(function)`` is a function that is called on a worker."""
    pairs = list(zip(parts, ids, strict=True))
    whole = lazy(check_whole)([lazy(distinct_ids)(part, one) for part, one in pairs])
    return [lazy(score_queries)(ranker, part, one, whole) for part, one in pairs]


# What the workers run.


def distinct_ids(part: Any, qid: Any) -> NDArray[Any] | None:
    """Return the queries of a part: none without items, and 0 if they have no ids."""
    X, ids = _split(part, qid)
    if not X.shape[0]:
        return np.empty(0, dtype=np.int64)
    return QueryGroups.from_qid(ids, X.shape[0]).ids


def check_whole(ids: Sequence[NDArray[Any]]) -> bool:
    """Raise if a query is in several parts."""
    first: dict[Any, int] = {}
    for k, some in enumerate(ids):
        for one in some.tolist():
            if first.setdefault(one, k) != k:
                raise ValueError(
                    "the model has features of the query, which need all items of a query at a "
                    f"time, and query {one} has items in partition {first[one]} and in partition "
                    f"{k}. Sort X by query, and make partitions of whole queries (X.repartition, "
                    "X.rechunk); or predict on data in memory."
                )
    return True


def score_queries(ranker: Any, part: Any, qid: Any, whole: bool) -> Any:
    """Return the scores of a part, once it is known that its queries are whole."""
    del whole
    X, ids = _split(part, qid)
    scores: Array = np.empty(0)
    if X.shape[0]:
        name = qid if isinstance(qid, str) and is_frame(X) else ids
        scores = ranker.predict(X, name)
    if part is X and is_frame(X) and hasattr(X, "index"):
        import pandas

        return pandas.Series(scores, index=X.index, name="score")
    return scores


def _split(part: Any, qid: Any) -> tuple[Any, Any]:
    """Return the items of a part, and their query ids."""
    if isinstance(part, tuple | list):
        return part[0], part[2] if len(part) > 2 else None
    if isinstance(qid, str):
        return part, part[qid]
    return part, qid
