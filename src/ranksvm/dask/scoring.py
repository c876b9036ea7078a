"""Lazy scores: the same partitions as X, computed where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ranksvm._vectors import Array
from ranksvm.dask.partitions import column_difference
from ranksvm.dask.query_scoring import lazy_query_scores


def lazy_scores(ranker: Any, X: Any, qid: Any = None) -> Any:
    """Return the scores of a Dask collection, not yet computed.

    Parameters
    ----------
    ranker : ModelRanker
        A fitted ranker for data in memory.
    X : Dask DataFrame, Dask Array, or list of delayed objects or futures
    qid : str, Dask Series, Dask Array, array or None
        Query ids, if the model needs them.

    Returns
    -------
    Dask Series, Dask Array, or list of delayed objects or futures
        With the partitions of X.
    """
    import dask
    import dask.array
    import dask.dataframe
    from distributed import Future

    if isinstance(X, dask.dataframe.DataFrame):
        _check_names(ranker, X.columns)
    elif not isinstance(X, list | tuple):
        _check_array(ranker, X)
        X = X.rechunk({1: -1})
    if ranker._get_model().view:
        return lazy_query_scores(ranker, X, qid)
    # Once in the graph, not once per partition; kernel models may be large.
    model = dask.delayed(ranker, pure=False)
    if isinstance(X, list | tuple):
        return [
            one.client.submit(score_part, ranker, one, pure=False)
            if isinstance(one, Future)
            else dask.delayed(score_part)(model, one)
            for one in X
        ]
    if isinstance(X, dask.dataframe.DataFrame):
        import pandas

        meta = pandas.Series([], dtype=np.float64, name="score")
        return X.map_partitions(score_frame, model, meta=meta)
    return X.map_blocks(score_block, model, dtype=np.float64, drop_axis=1, meta=np.empty(0))


def _check_names(ranker: Any, columns: Any) -> None:
    """Raise if a frame does not have the features of the training set, in their order."""
    named = list(getattr(ranker, "feature_names_in_", ()))
    missing = [name for name in named if name not in columns]
    if missing:
        raise ValueError(
            f"X lacks {len(missing)} of the {len(named)} features that the model was fitted "
            f"with, for example {missing[0]!r}"
        )
    there = [name for name in columns if name in set(named)]
    if there != named:
        raise ValueError(
            "X must have the features in the order of the training set; it has "
            f"{column_difference(there, named)}"
        )


def _check_array(ranker: Any, X: Any) -> None:
    """Raise if X is not a Dask Array with the features of the training set."""
    import dask.array

    if not isinstance(X, dask.array.Array) or X.ndim != 2:
        raise ValueError("X must be a Dask DataFrame, or a Dask Array with two dimensions")
    if X.shape[1] != ranker.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(ranker).__name__} is expecting "
            f"{ranker.n_features_in_} features as input"
        )


# What the workers run.


def score_block(X: Any, ranker: Any) -> Array:
    """Return the scores of a block."""
    return _scores(ranker, X)


def score_frame(frame: Any, ranker: Any) -> Any:
    """Return the scores of a partition, with its index."""
    import pandas

    return pandas.Series(_scores(ranker, frame), index=frame.index, name="score")


def score_part(ranker: Any, part: Any) -> Array:
    """Return the scores of a part: a matrix, a frame, or a tuple that begins with one."""
    return _scores(ranker, part[0] if isinstance(part, tuple | list) else part)


def _scores(ranker: Any, X: Any) -> Array:
    if not X.shape[0]:
        return np.empty(0)
    scores: Array = ranker.predict(X)
    return scores
