"""Match the columns of items with those of a model or a training set; score items.

Columns are matched by name if both sides have names, otherwise by position.  Features that one side
lacks are zero there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._sparse import is_sparse
from ranksvm._text import Advance, counted, listed, progress
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.cli.inputs import check_features, read_data
from ranksvm.cli.options import DataOptions
from ranksvm.cli.output import note
from ranksvm.data.query_view import PLAIN, QueryView
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shard_memory import scoring_memory
from ranksvm.data.shards import ShardedMatrix
from ranksvm.models.model import Model
from ranksvm.sharded.query_columns import scoring_tasks
from ranksvm.sharded.tasks import with_columns

# The result is sparse if columns of zeros would make it larger than this, in bytes, and this many
# times as large as the items.
_LARGE, _FACTOR = 64_000_000, 4


def score_items(model: Model, data: RankingData, jobs: int | None) -> Array:
    """Return the scores of items under a model."""
    return np.concatenate(list(score_blocks(model, data, jobs)))


def score_blocks(model: Model, data: RankingData, jobs: int | None) -> Iterator[Array]:
    """Yield the scores of items under a model: of all items at once, or shard by shard."""
    check_queries(model, data)
    X = aligned_columns(data, model.feature_names, model.n_features, "model", model.is_sparse)
    check_features(data)
    if not isinstance(X, ShardedMatrix):
        groups = data.groups if model.view else None
        scores = model.scores(X, groups=groups, n_threads=resolve_n_jobs(jobs))
        _check_scores(scores, 0, data.origin.name)
        yield scores
        return
    with progress(f"scoring {data.origin.name}") as advance:
        show_shards(X, advance)
        done = 0
        ids = None if data.qid is None else data.groups.ids
        for scores in X.shards.map(scoring_tasks(model, X, ids)):
            _check_scores(scores, done, data.origin.name)
            yield scores
            done += len(scores)


def check_queries(model: Model, data: RankingData) -> None:
    """Raise if a model needs the queries of the items, and the data do not have them."""
    if not model.view:
        return
    names, source = ", ".join(model.view.names), data.origin.name
    n_queries = model.facts.get("n_queries", 1)
    if data.qid is None and n_queries > 1:
        raise ValueError(
            f"the model was trained on {counted(n_queries, 'query')} with features of the query "
            f"({names}), and {source} has no query ids, or they are ignored. Give every item its "
            "query: 'qid:' fields in LETOR text, a column of a table (--qid-column)."
        )


def show_shards(X: Any, show: Advance) -> None:
    """Call ``show(done, total, text)`` after each shard of a pass, if X is in shards."""
    if isinstance(X, ShardedMatrix):
        X.shards.progress = lambda done, total: show(done, total, f"shard {done} of {total}")


def _check_scores(scores: Array, before: int, name: str) -> None:
    """Raise if a score is not finite; ``before`` items came before these."""
    wrong = ~np.isfinite(scores)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"the model gives {counted(int(wrong.sum()), 'item')} of {name} a score that is not "
            f"finite, the first of them item {before + row + 1} ({scores[row]}): its features are "
            "too large. Scale them like those of the training set."
        )


def read_held_out(
    path: str, data: RankingData, options: DataOptions, view: QueryView = PLAIN
) -> RankingData:
    """Read a validation file, and give it the columns of the training set.

    ``view`` are the columns that the model will see.
    """
    fit, encoding = scoring_memory(view), data.origin.encoding
    names = data.feature_names if encoding is None else encoding.columns
    # Weights and the choice of features are those of the training set.
    options = replace(
        options, weight_column=None, query_weight_column=None, features=None, drop=None
    )
    held_out = read_data([path], options, features=names, fit=fit, like=data.origin)
    if data.y is not None and (data.qid is None) != (held_out.qid is None):
        one = data if held_out.qid is None else held_out
        raise ValueError(
            "the training data and the validation data must both have query ids, or neither: only "
            f"{one.origin.name} has them. Add them, or use --ignore-qid."
        )
    sparse = is_sparse(data.X)
    X = aligned_columns(held_out, data.feature_names, data.n_features, "training set", sparse)
    check_features(held_out)
    return replace(held_out, X=X, feature_names=data.feature_names)


def aligned_columns(
    data: RankingData, names: Sequence[str] | None, n_features: int, whose: str, sparse: bool
) -> Any:
    """Return X of some items with the columns of a model or a training set, in their order.

    Parameters
    ----------
    data : RankingData
    names : sequence of str or None
        Names of the columns.
    n_features : int
        Number of columns.
    whose : str
        "model" or "training set", for messages.
    sparse : bool
        Whether its matrix is sparse.  Then the result is sparse, too, as it is if zeros would make
        it far larger than the items.

    Returns
    -------
    ndarray or csr_array of shape (n_items, n_features)
        X itself if it has these columns.
    """
    here, there = _matched(data, names, n_features, whose)
    X = data.X
    if X.shape[1] == n_features and np.array_equal(here, there):
        return X
    if isinstance(X, ShardedMatrix):
        return with_columns(X, here, there, n_features)
    size = X.shape[0] * n_features * 8
    if not (is_sparse(X) or sparse or size > max(_LARGE, _FACTOR * X.nbytes)):
        aligned = np.zeros((X.shape[0], n_features), dtype=X.dtype)
        aligned[:, there] = X[:, here]
        return aligned
    from scipy.sparse import csr_array

    chosen = csr_array((np.ones(len(here)), (here, there)), shape=(X.shape[1], n_features))
    aligned = (csr_array(X) @ chosen).tocsr()
    aligned.sort_indices()
    return aligned


def _matched(
    data: RankingData, names: Sequence[str] | None, n_features: int, whose: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the columns that both sides have: their positions in the items, and in the other."""
    mine, source = data.feature_names, data.origin.name
    if mine is not None and names is None:
        names = tuple(f"f{j + 1}" for j in range(n_features))  # as `ranksvm convert` calls them
        if not set(mine) <= set(names):
            strange = next(name for name in mine if name not in set(names))
            raise ValueError(
                f"the {whose} has {n_features} features without names, and {source} has "
                f"named columns, {strange!r} for example. Rename the feature columns to f1 ... "
                f"f{n_features}, as `ranksvm convert` writes them."
            )
        if len(mine) < n_features:
            note(f"{source} lacks {n_features - len(mine)} of {n_features} features: zero")
        here = np.arange(len(mine))
        return here, np.array([int(name[1:]) - 1 for name in mine], dtype=np.int64)
    if names is not None and mine == tuple(names):
        return np.arange(n_features), np.arange(n_features)
    if names is not None and mine is not None:
        columns = {name: j for j, name in enumerate(mine)}
        missing = [name for name in names if name not in columns]
        if missing:
            raise ValueError(
                f"{source} lacks {len(missing)} of the {n_features} features of the {whose}: "
                f"{listed(map(repr, missing), most=20)}."
            )
        here = np.array([columns[name] for name in names], dtype=np.int64)
        return here, np.arange(n_features)
    if names is not None and data.n_features != n_features:
        raise ValueError(
            f"the {whose} has {n_features} features with names, {names[0]!r} for example, and "
            f"{source} has {data.n_features} without. Use a table with these columns."
        )
    one_more = data.n_features == n_features + 1
    if data.origin.zero_based and data.origin.base_guessed and one_more and not _uses_first(data.X):
        raise ValueError(
            f"{source} seems to count features from 1, and the {whose} counts from 0. Say "
            "which the data do: --one-based or --zero-based."
        )
    if data.n_features > n_features:
        note(
            f"{source} has {data.n_features} features, the {whose} {n_features}: the others "
            "weigh nothing"
        )
    both = np.arange(min(data.n_features, n_features))
    return both, both


def _uses_first(X: Any) -> bool:
    if isinstance(X, ShardedMatrix):
        return True  # not worth a pass over the data
    return bool((X.indices == 0).any() if is_sparse(X) else X[:, 0].any())
