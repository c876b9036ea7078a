"""Columns with features of the query for data in shards, made where the rows are.

Features of the query compare all items of a query.  A query that is complete in one shard is
compared there, when the rows are needed: the columns are a pure function of the shard.  The rows of
a query that is in several shards come together once, and every shard keeps the features of its own
rows of them.  Both give the bits of a data set in memory.
"""

from __future__ import annotations

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
from ranksvm.data.shards import RowBlock, Shard, ShardedMatrix, Shards
from ranksvm.data.split_queries import SplitQueries, find_split
from ranksvm.sharded.tasks import ItemTask


@dataclass(frozen=True, eq=False)
class KnownFeatures:
    """Features of the query that a shard cannot compute alone.

    Attributes
    ----------
    rows : ndarray of int64
        Rows of the shard, whose queries have items in other shards.
    values : ndarray of shape (n_rows, n_names * n_features)
        Their features of the query.
    """

    rows: Rows
    values: NDArray[Any]


class QueryColumns:
    """Load the columns of a shard: its features, features of the query, or both."""

    def __init__(self, shard: Shard, view: QueryView, known: KnownFeatures | None) -> None:
        self._shard = shard
        self._view = view
        self._known = known

    def __call__(self) -> NDArray[Any]:
        shard, known = self._shard, self._known
        X = shard.X
        wrong = first_not_finite(X)
        if wrong is not None:
            row, column, value = wrong
            raise ValueError(
                f"X has a value that is not finite: {value} in row {row}, column {column}. Fill in "
                "missing values, or drop these rows."
            )
        groups = QueryGroups.from_qid(shard.query, shard.n_items)
        if known is None:
            return self._view.apply(X, groups, shard.n_threads)
        # Each of these rows is a query for the moment: a part of one says nothing.
        alone = groups.index.copy()
        alone[known.rows] = groups.n_queries + np.arange(known.rows.size)
        groups = QueryGroups.from_qid(alone, shard.n_items)
        columns = self._view.apply(X, groups, shard.n_threads)
        columns[known.rows, columns.shape[1] - known.values.shape[1] :] = known.values
        return columns


@dataclass(frozen=True)
class MakeQueryColumns:
    """Return a shard with the columns of a view instead of the rows."""

    view: QueryView
    known: KnownFeatures | None = None

    def needs_items(self, shard: Shard) -> bool:
        return False

    def __call__(self, shard: Shard) -> Shard:
        rows = RowBlock(QueryColumns(shard, self.view, self.known))
        return replace(shard, rows=rows, memo={})


@dataclass(frozen=True)
class ColumnScores(ItemTask):
    """Return the scores of rows that are the columns of a model."""

    model: Any

    def __call__(self, shard: Shard) -> Array:
        X, model = shard.X, self.model
        if model.scaling is not None:
            X = model.scaling.apply(X, shard.n_threads)
        scores: Array = model.scaled_scores(X, n_threads=shard.n_threads)
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
    groups = shards.facts.groups
    assert groups is not None  # whoever makes shards of rows knows their queries
    _check_whole(groups, X.rows)
    task = MakeQueryColumns(view)
    tasks = [task] * len(shards.sizes)
    split = find_split(groups, shards.starts)
    if split is not None:
        _check_room(split, shards, view, ids)
        known = _features_of(split, groups, shards, view)
        tasks = [replace(task, known=one) for one in known]
    made = shards.with_features(
        task if split is None else tasks, view.n_blocks * shards.shape[1], shards.dtype
    )
    if shards.facts.identity is not None:  # the columns follow from the rows and their queries
        made.facts.identity = f"{shards.facts.identity} {view}"
    return ShardedMatrix(made, X.rows)


def _check_whole(groups: QueryGroups, rows: Rows | None) -> None:
    if rows is None:
        return
    counts = np.bincount(groups.index[rows], minlength=groups.n_queries)
    if ((counts > 0) & (counts != groups.sizes)).any():
        raise ValueError("features of the query need all items of a query, and some are left out")


def _check_room(split: SplitQueries, shards: Shards, view: QueryView, ids: Any) -> None:
    size = split.rows.size * taken_bytes(view, shards.shape[1], shards.dtype.itemsize)
    if size <= shards.most_taken():
        return
    starts = shards.starts

    def where(row: int) -> str:
        return shards.name_of(int(np.searchsorted(starts, row, side="right")) - 1)

    raise ParameterError(
        "{names} need all items of a query at a time, and {queries} are in several places: "
        "{example}. To bring them together takes {size}, which is too much. Sort the data by "
        "query, and cut it where the query changes.",
        names=Param("query_features", view.names),
        queries=str(split),
        example=split.told(ids, where),
        size=format_size(size),
    )


def _features_of(
    split: SplitQueries, groups: QueryGroups, shards: Shards, view: QueryView
) -> list[KnownFeatures | None]:
    """Return the features of the query of rows in several shards, shard by shard."""
    rows = split.rows
    X = shards.items(rows)
    wrong = first_not_finite(X)
    if wrong is not None:
        row, column, value = wrong
        shard = int(np.searchsorted(shards.starts, rows[row], side="right")) - 1
        inside = int(rows[row] - shards.starts[shard])
        raise shards.not_finite(shard, inside, column, value)
    of_rows = QueryGroups.from_qid(groups.index[rows], rows.size)
    values = QueryView(view.names, keep=False).apply(X, of_rows)
    by_shard, _ = shards.places(rows)  # in the order of the rows, which ascend
    ends = np.cumsum([there.size for there in by_shard])[:-1]
    parts = np.split(values, ends)
    return [
        KnownFeatures(there, part.copy()) if there.size else None
        for there, part in zip(by_shard, parts, strict=True)
    ]
