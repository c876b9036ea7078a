"""A data set as a model sees it: with features of the query, and scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ranksvm._memory import check_memory
from ranksvm._messages import Message, Param, ParameterError
from ranksvm._text import counted
from ranksvm._vectors import Array
from ranksvm.data.query_view import QueryView
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners.scaled import scaled_data
from ranksvm.learners.settings import Settings
from ranksvm.models.model import Model
from ranksvm.sharded.query_columns import scoring_tasks, with_query_columns


def with_view(data: RankingData, view: QueryView, *, n_threads: int = 1) -> RankingData:
    """Return a data set with the columns of a view; ``data`` itself if it has them already.

    Folds of whole queries may be taken from the result: their columns do not depend on the rest.

    Parameters
    ----------
    data : RankingData
        Whole queries.
    view : QueryView
    n_threads : int

    Returns
    -------
    RankingData
        X is dense, unless there are no features of the query; in shards, if it was.

    Raises
    ------
    TooLittleMemoryError
        If the columns do not fit into memory.
    ParameterError
        If X is in shards, and the queries that several of them share take too much memory.
    """
    if data.view == view:
        return data
    if data.view:
        raise ValueError(f"the data have the columns of {data.view} already, not of {view}")
    if isinstance(data.X, ShardedMatrix):
        columns = with_query_columns(data.X, view, _ids_of_all(data))
        return replace(data, X=columns, view=view).with_groups(data.groups)
    n_columns = view.n_blocks * data.n_features
    check_memory(
        data.X.dtype.itemsize * data.n_items * n_columns,
        f"{n_columns:,} columns of {data.n_items:,} items with features of the query, which are "
        "dense",
        Message("Use fewer {names}, or fewer features.", names=Param("query_features")),
    )
    X = view.apply(data.X, data.groups, n_threads)
    return replace(data, X=X, view=view).with_groups(data.groups)


def _ids_of_all(data: RankingData) -> Any:
    """Return the ids of the queries of all rows of the shards; None if there are none."""
    if data.qid is None:
        return None
    return data.groups.ids if data.X.rows is None else data.X.shards.facts.groups.ids


def check_held_out(data: RankingData, held_out: RankingData, view: QueryView) -> None:
    """Raise if items without query ids would be compared like those of many queries.

    Parameters
    ----------
    data : RankingData
        Items to train on.
    held_out : RankingData
        Items that the model is chosen by.
    view : QueryView
        The columns that the model sees.
    """
    if view and held_out.qid is None and data.groups.n_queries > 1:
        raise ParameterError(
            "{names} compare the items of a query, and {name} has no query ids, while the training "
            "set has {queries}. Give every item of {name} its query id.",
            names=Param("query_features", view.names),
            name=held_out.origin.name,
            queries=counted(data.groups.n_queries, "query"),
        )


def seen_data(data: RankingData, settings: Settings, *, n_threads: int = 1) -> RankingData:
    """Return a data set with the columns that the kernel of a model sees."""
    data = with_view(data, settings.view, n_threads=n_threads)
    scaling = settings.scaling_for(data.X, encoded=data.is_encoded)
    return scaled_data(data, scaling, n_threads=n_threads)[0]


def model_scores(model: Model, data: RankingData) -> Array:
    """Return the scores of items in shards under a model, from one pass."""
    if model.view:  # raise if there are no query ids, but were at training
        model.needed_groups(None if data.qid is None else data.groups, data.n_items)
    X: ShardedMatrix = data.X
    scores = np.concatenate(list(X.shards.map(scoring_tasks(model, X, _ids_of_all(data)))))
    return scores if X.rows is None else scores[X.rows]
