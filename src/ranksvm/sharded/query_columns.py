"""Features of the query for data in shards, and scores of models that see them.

Features of the query compare all items of a query.  A query that is complete in one shard is
compared there, when the rows are needed: the columns are a pure function of the shard.  The rows of
a query that is in several shards come together once, and every shard keeps what was found for its
own rows of them.  Both give the bits of a data set in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._memory import format_size
from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array, Rows
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_view import QueryView
from ranksvm.data.row_sources import first_not_finite
from ranksvm.data.shard_memory import taken_bytes
from ranksvm.data.shards import RowBlock, Shard, ShardedMatrix, Shards, ShardTask
from ranksvm.data.split_queries import SplitQueries, find_split
from ranksvm.sharded.tasks import ItemTask, ModelScores


@dataclass(frozen=True, eq=False)
class Known:
    """What a shard cannot compute alone.

    Attributes
    ----------
    rows : ndarray of int64
        Rows of the shard, whose queries have items in other shards.
    values : ndarray of shape (n_rows,) or (n_rows, n_names * n_features)
        Their scores, or their features of the query.
    """

    rows: Rows
    values: NDArray[Any]


def groups_of(shard: Shard, known: Known | None) -> QueryGroups:
    """Return the queries of a shard; rows that something is known about are one query each.

    That is because a part of a query says nothing.
    """
    groups = QueryGroups.from_qid(shard.query, shard.n_items)
    if known is None:
        return groups
    numbers = groups.index.copy()
    numbers[known.rows] = groups.n_queries + np.arange(known.rows.size)
    return QueryGroups.from_qid(numbers, shard.n_items)


def finite_rows(shard: Shard) -> Any:
    """Return the rows of a shard; raise if a value is not finite, which cannot be compared."""
    X = shard.X
    wrong = first_not_finite(X)
    if wrong is not None:
        row, column, value = wrong
        raise ValueError(
            f"X has a value that is not finite: {value} in row {row}, column {column}. Fill in "
            "missing values, or drop these rows."
        )
    return X


class QueryColumns:
    """Load the columns of a shard: its features, features of the query, or both."""

    def __init__(self, shard: Shard, view: QueryView, known: Known | None) -> None:
        self._shard = shard
        self._view = view
        self._known = known

    def __call__(self) -> NDArray[Any]:
        shard, known = self._shard, self._known
        X = finite_rows(shard)
        columns = self._view.apply(X, groups_of(shard, known), shard.n_threads)
        if known is not None:
            columns[known.rows, columns.shape[1] - known.values.shape[1] :] = known.values
        return columns


@dataclass(frozen=True)
class MakeQueryColumns:
    """Return a shard with the columns of a view instead of the rows."""

    view: QueryView
    known: Known | None = None

    def needs_items(self, shard: Shard) -> bool:
        return False

    def __call__(self, shard: Shard) -> Shard:
        rows = RowBlock(QueryColumns(shard, self.view, self.known))
        return replace(shard, rows=rows, memo={})


@dataclass(frozen=True)
class QueryScores(ItemTask):
    """Return the scores of the rows under a model that sees features of the query."""

    model: Any
    known: Known | None = None

    def __call__(self, shard: Shard) -> Array:
        X, groups = finite_rows(shard), groups_of(shard, self.known)
        scores: Array = self.model.scores(X, groups=groups, n_threads=shard.n_threads)
        if self.known is not None:
            scores[self.known.rows] = self.known.values
        return scores


def with_query_columns(X: ShardedMatrix, view: QueryView, ids: Any) -> ShardedMatrix:
    """Return X with the columns of a view, which the shards compute from their rows.

    Parameters
    ----------
    X : ShardedMatrix
        Whole queries.
    view : QueryView
    ids : sequence or None
        The ids of the queries of all rows, for messages; None if there are none.

    Raises
    ------
    ParameterError
        If queries are in several shards, and their rows take too much memory.
    """
    shards = X.shards
    _check_whole(X)
    new = QueryView(view.names, keep=False)
    known = _known(shards, view, ids, new.apply)
    made = shards.with_features(
        [MakeQueryColumns(view, one) for one in known] if known else MakeQueryColumns(view),
        view.n_blocks * shards.shape[1],
        shards.dtype,
    )
    if shards.facts.identity is not None:  # the columns follow from the rows and their queries
        made.facts.identity = f"{shards.facts.identity} {view}"
    return ShardedMatrix(made, X.rows)


def scoring_tasks(model: Any, X: ShardedMatrix, ids: Any) -> ShardTask | list[QueryScores]:
    """Return the task of all shards that scores their rows under a model, or one for each shard.

    Parameters and errors are those of :func:`with_query_columns`.
    """
    if not model.view:
        return ModelScores(model)
    _check_whole(X)

    def scores(X: Any, groups: QueryGroups) -> Array:
        found: Array = model.scores(X, groups=groups)
        return found

    known = _known(X.shards, model.view, ids, scores)
    return [QueryScores(model, one) for one in known] if known else QueryScores(model)


def _check_whole(X: ShardedMatrix) -> None:
    """Raise if there are some items of a query, and others are left out."""
    if X.rows is None:
        return
    groups = _groups(X.shards)
    counts = np.bincount(groups.index[X.rows], minlength=groups.n_queries)
    if ((counts > 0) & (counts != groups.sizes)).any():
        raise ValueError("features of the query need all items of a query, and some are left out")


def _groups(shards: Shards) -> QueryGroups:
    assert shards.facts.groups is not None  # whoever makes shards of rows knows their queries
    return shards.facts.groups


def _known(
    shards: Shards, view: QueryView, ids: Any, find: Callable[[Any, QueryGroups], NDArray[Any]]
) -> list[Known | None]:
    """Return what is found for the rows of queries in several shards; empty if there are none."""
    groups, starts = _groups(shards), shards.starts
    split = find_split(groups, starts)
    if split is None:
        return []
    _check_room(split, shards, view, ids)
    rows = split.rows
    X = shards.items(rows)
    wrong = first_not_finite(X)
    if wrong is not None:
        row, column, value = wrong
        shard = _shard_of(rows[row], starts)
        raise shards.not_finite(shard, int(rows[row] - starts[shard]), column, value)
    values = find(X, QueryGroups.from_qid(groups.index[rows], rows.size))
    by_shard, _ = shards.places(rows)  # in the order of the rows, which ascend
    parts = np.split(values, np.cumsum([there.size for there in by_shard])[:-1])
    return [
        Known(there, part.copy()) if there.size else None
        for there, part in zip(by_shard, parts, strict=True)
    ]


def _shard_of(row: int, starts: Rows) -> int:
    return int(np.searchsorted(starts, row, side="right")) - 1


def _check_room(split: SplitQueries, shards: Shards, view: QueryView, ids: Any) -> None:
    """Raise if the rows of queries in several shards take too much memory."""
    size = split.rows.size * taken_bytes(view, shards.shape[1], shards.dtype.itemsize)
    if size <= shards.most_taken():
        return
    starts = shards.starts
    raise ParameterError(
        "{names} need all items of a query at a time, and {queries} are in several places: "
        "{example}. To bring them together takes {size}, which is too much. Sort the data by "
        "query, and cut it where the query changes.",
        names=Param("query_features", view.names),
        queries=str(split),
        example=split.told(ids, lambda row: shards.name_of(_shard_of(row, starts))),
        size=format_size(size),
    )
