"""Scores of items under a model of any kind.

The columns of the items are matched with those of the model, by name if both sides have names and
by place if not.  A linear model sums weights, a kernel model kernels,

    s(x) = sum_j coef_j k(x, z_j),

and features that one side lacks are zero there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.cli.inputs import Items, check_features, read_items
from ranksvm.cli.options import DataOptions
from ranksvm.cli.output import counted, note
from ranksvm.model_io import ModelRecord
from ranksvm.training.kernel_record import KERNEL_KINDS

__all__ = ["aligned_columns", "read_held_out", "score_items"]

# Columns of zeros are not stored when they make a matrix larger than this, in bytes, and so many
# times as large as it was.
_LARGE, _FACTOR = 64_000_000, 4


def score_items(record: ModelRecord, items: Items, jobs: int | None) -> Array:
    """Scores of items under a model.

    With feature names on both sides, columns are matched by name.  Without, features that the
    training set did not have weigh nothing.
    """
    from ranksvm._threads import resolve_n_jobs

    check_features(items)
    scores = SCORES[record.kind](record, items, resolve_n_jobs(jobs))
    wrong = ~np.isfinite(scores)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"the model gives {counted(int(wrong.sum()), 'item')} of {items.source} a score that "
            f"is not finite, the first of them item {row + 1} ({scores[row]}): its features are "
            "too large. Scale them like those of the training set."
        )
    return scores


def _linear_scores(record: ModelRecord, items: Items, n_threads: int) -> Array:
    from ranksvm.maps.matrix import MatrixMap

    coef = record.arrays["coef"]
    weights = np.zeros(items.X.shape[1])
    here, there = _matched(items, record.feature_names, len(coef), "model")
    weights[here] = coef[there]
    return MatrixMap(items.X, n_threads=n_threads).scores(weights)


def _kernel_scores(record: ModelRecord, items: Items, n_threads: int) -> Array:
    from ranksvm.training.kernel_record import read_expansion

    expansion, _ = read_expansion(record.kind, record.arrays, record.facts)
    sparse = "indptr" in record.arrays
    X = aligned_columns(items, record.feature_names, record.n_features, "model", sparse=sparse)
    return expansion.scores(X, n_threads=n_threads)


SCORES: dict[str, Callable[[ModelRecord, Items, int], Array]] = {
    "linear": _linear_scores,
    "factorized": _linear_scores,
    **dict.fromkeys(KERNEL_KINDS, _kernel_scores),
}


def read_held_out(path: str, items: Items, options: DataOptions) -> Items:
    """Read a validation file, and give it the columns of the training set."""
    held_out = read_items([path], options, features=items.feature_names)
    check_features(held_out)
    sparse = hasattr(items.X, "indptr")
    n_features = int(items.X.shape[1])
    X = aligned_columns(held_out, items.feature_names, n_features, "training set", sparse=sparse)
    return replace(held_out, X=X, feature_names=items.feature_names)


def aligned_columns(
    items: Items, names: Sequence[str] | None, n_features: int, whose: str, *, sparse: bool
) -> Any:
    """X of some items with the columns of a model or another set, in their order.

    Parameters
    ----------
    items : Items
    names : sequence of str or None
        Of the columns wanted.
    n_features : int
        Their number.
    whose : str
        Whose columns they are, for messages.
    sparse : bool
        Whether theirs is a sparse matrix.  Then the result is one, too, as it is when zeros would
        make it far larger than the items are.

    Returns
    -------
    ndarray or csr_array of shape (n_items, n_features)
        X itself if its columns are those wanted.
    """
    here, there = _matched(items, names, n_features, whose)
    X = items.X
    if X.shape[1] == n_features and np.array_equal(here, there):
        return X
    is_sparse = hasattr(X, "indptr")
    size = X.shape[0] * n_features * 8
    if not (is_sparse or sparse or size > max(_LARGE, _FACTOR * X.nbytes)):
        aligned = np.zeros((X.shape[0], n_features))
        aligned[:, there] = X[:, here]
        return aligned
    from scipy.sparse import csr_array

    chosen = csr_array((np.ones(len(here)), (here, there)), shape=(X.shape[1], n_features))
    aligned = (csr_array(X) @ chosen).tocsr()
    aligned.sort_indices()
    return aligned


def _matched(
    items: Items, names: Sequence[str] | None, n_features: int, whose: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Columns of the items that somebody else has too, and where they are there."""
    mine = items.feature_names
    if mine is not None and names is None:
        names = tuple(f"f{j + 1}" for j in range(n_features))  # as `ranksvm convert` calls them
        if not set(mine) <= set(names):
            strange = next(name for name in mine if name not in set(names))
            raise ValueError(
                f"the {whose} has {n_features} features without names, and {items.source} has "
                f"named columns, {strange!r} for example. Columns f1 to f{n_features} would be "
                "matched; `ranksvm convert` writes such tables."
            )
        if len(mine) < n_features:
            note(f"{items.source} lacks {n_features - len(mine)} of {n_features} features: zero")
        here = np.arange(len(mine))
        return here, np.array([int(name[1:]) - 1 for name in mine], dtype=np.int64)
    if names is not None and mine is not None:
        columns = {name: j for j, name in enumerate(mine)}
        missing = [name for name in names if name not in columns]
        if missing:
            raise ValueError(
                f"{items.source} lacks {len(missing)} of the {n_features} features of the {whose}, "
                f"among them {missing[0]!r}."
            )
        here = np.array([columns[name] for name in names], dtype=np.int64)
        return here, np.arange(n_features)
    if names is not None and items.X.shape[1] != n_features:
        raise ValueError(
            f"the {whose} has {n_features} features with names, {names[0]!r} for example, and "
            f"{items.source} has {items.X.shape[1]} without. Use a table with these columns."
        )
    one_more = items.X.shape[1] == n_features + 1
    if items.zero_based and items.base_guessed and one_more and not _uses_first(items.X):
        raise ValueError(
            f"{items.source} seems to count features from 1, and the {whose} counts from 0. Say "
            "what holds for the data: --one-based or --zero-based."
        )
    if items.X.shape[1] > n_features:
        note(
            f"{items.source} has {items.X.shape[1]} features, the {whose} {n_features}: the others "
            "weigh nothing"
        )
    both = np.arange(min(items.X.shape[1], n_features))
    return both, both


def _uses_first(X: Any) -> bool:
    return bool((X.indices == 0).any() if hasattr(X, "indptr") else X[:, 0].any())
