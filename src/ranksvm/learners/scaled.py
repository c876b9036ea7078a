"""The scaling of a training set, in memory or in shards; see :mod:`ranksvm.data.scaling`."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.data.column_facts import Columns, find_columns
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.scaled_rows import scaled_rows
from ranksvm.data.scaling import (
    Affine,
    Scaling,
    find_scaling,
    sampled_rows,
    scaling_of,
)
from ranksvm.data.shards import ShardedMatrix
from ranksvm.sharded.tasks import FindColumns, find_bounds, row_hashes, with_scaling


class Units(NamedTuple):
    """What the weights of scaled features are multiplied by to be those of the features.

    Attributes
    ----------
    factor : ndarray of shape (n_features,)
        The factors.
    tallest : ndarray of shape (n_features,) or None
        Largest absolute value of each feature as it is, if that is known.
    """

    factor: Array
    tallest: Array | None


def about_scaling(name: str | None, constant: NDArray[Any]) -> dict[str, Any]:
    """Return the facts of a model about a scaling; ``constant``: which features it leaves out."""
    left_out = {} if name is None else {"constant_features": int(np.count_nonzero(constant))}
    return {"scaling": name, **left_out}


def training_units(data: RankingData, name: str, *, n_threads: int = 1) -> Units:
    """Return the factors of a scaling that has no others, for a linear model."""
    if isinstance(data.X, ShardedMatrix) or data.item_weight is not None:
        scaling, tallest = training_scaling(data, name, n_threads=n_threads), None
    else:
        columns = find_columns(data.X, None, n_threads)
        scaling = scaling_of(name, data.X, None, n_threads, lambda: columns)
        tallest = columns.tallest
    assert isinstance(scaling, Affine)
    return Units(scaling.factor, tallest)


def training_scaling(data: RankingData, name: str | None, *, n_threads: int = 1) -> Scaling | None:
    """Return the scaling of the features of a training set; None if they stay as they are.

    Parameters
    ----------
    data : RankingData
        All items count, by their item weights.
    name : str or None
        A key of ``SCALINGS``, or None.
    n_threads : int
    """
    if name is None:
        return None
    weight = data.item_weight
    if weight is not None and not weight.any():
        weight = None
    if isinstance(data.X, ShardedMatrix):
        return _in_shards(name, data.X, weight)
    return scaling_of(name, data.X, weight, n_threads)


def scaled_data(
    data: RankingData, name: str | None, *, n_threads: int = 1
) -> tuple[RankingData, Scaling | None]:
    """Return a training set with scaled features, and the scaling."""
    scaling = training_scaling(data, name, n_threads=n_threads)
    if scaling is None:
        return data, None
    made = replace(data, X=scaled(data.X, scaling, n_threads))
    return made.with_groups(data.groups), scaling


def scaled(X: Any, scaling: Scaling, n_threads: int = 1) -> Any:
    """Return scaled features, in memory or in shards like X; without a copy of X if possible."""
    if isinstance(X, ShardedMatrix):
        return with_scaling(X, scaling)
    return scaled_rows(X, scaling, n_threads)


def _in_shards(name: str, X: ShardedMatrix, weight: Array | None) -> Scaling:
    find_bounds(X.shards)  # raises if a value is not finite

    def columns() -> Columns:
        every: Any = None  # weights of all rows of the shards
        if X.rows is not None or weight is not None:
            every = np.zeros(X.shards.shape[0])
            every[slice(None) if X.rows is None else X.rows] = 1.0 if weight is None else weight
        parts = [None] * len(X.shards.sizes) if every is None else X.shards.split(every)
        found: Columns = reduce(Columns.joined, X.shards.map([FindColumns(part) for part in parts]))
        return found

    def sample() -> tuple[Any, Array]:
        weights = np.ones(X.shape[0]) if weight is None else weight

        def hashes() -> NDArray[np.uint64]:
            found = row_hashes(X.shards)
            return found if X.rows is None else found[X.rows]

        rows = sampled_rows(weights, None if X.shards.is_sparse else hashes)
        if rows is None:
            rows = np.arange(X.shape[0])
        return X[rows], weights[rows]

    return find_scaling(name, columns, sample, sparse=X.shards.is_sparse)
