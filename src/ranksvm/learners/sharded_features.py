"""Kernel features of data in shards: landmarks from all shards, features made inside the shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array, Rows, total
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners.settings import Settings
from ranksvm.learners.sharded import find_layout, sharded_problem
from ranksvm.learners.training_pairs import TrainingPairs
from ranksvm.maps.feature_map import MOST_ITEMS, FeatureMap
from ranksvm.maps.sample import sample_rows
from ranksvm.sharded.local import LocalMap, ScatterSample
from ranksvm.sharded.tasks import KernelScores, MakeFeatures, SumMoments

# Rows whose mean is the middle of a variance.
SOME = 256


@dataclass(frozen=True)
class ShardedFeatures:
    """Explicit kernel features that the shards compute from their rows.

    Attributes
    ----------
    raw : callable
        ``raw(X, n_threads=)`` returns the features of items.
    n_features : int
        Number of features.
    dtype : str
        Their type.
    """

    raw: Callable[..., NDArray[Any]]
    n_features: int
    dtype: str

    def problem(
        self,
        data: RankingData,
        items: Rows,
        groups: QueryGroups,
        settings: Settings,
        make_map: Callable[..., FeatureMap],
        *,
        n_threads: int = 1,
    ) -> tuple[FeatureMap, TrainingPairs]:
        """Return the score map and the pairs of a data set.

        ``items`` are those that occur in pairs, and ``groups`` their queries: the preconditioner is
        computed from them alone, as in memory.
        """
        matrix: ShardedMatrix = data.X
        shards = matrix.shards.with_features(MakeFeatures(self.raw), self.n_features, self.dtype)
        made = replace(data, X=ShardedMatrix(shards, matrix.rows), feature_names=None)
        made = made.with_groups(data.groups)
        if find_layout(made) is None:
            made = made.take(items)
        inner, pairs = sharded_problem(made, settings, n_threads=n_threads)

        def values(rows: Rows) -> NDArray[Any]:
            return self.raw(matrix[items[rows]], n_threads=n_threads)

        score_map = make_map(inner, values, n_values=items.size, n_threads=n_threads)
        if isinstance(inner, LocalMap) and score_map.has_subspace:
            rows = sample_rows(groups, MOST_ITEMS)
            by_shard, order = inner.pairs.places(matrix.base_rows(items[rows]))
            rows = rows[order]
            inner.pairs.sample = ScatterSample(
                by_shard,
                score_map.coordinates(rows),
                QueryGroups.from_qid(groups.index[rows], rows.size),
                items.size / rows.size,
            )
        return score_map, pairs


def expansion_scores(expansion: Any, X: ShardedMatrix, coefs: Sequence[Array]) -> list[Array]:
    """Return the scores of items in shards for several coefficient vectors, from one pass."""
    found = np.concatenate(list(X.shards.map(KernelScores(expansion, coefs))), axis=1)
    return list(found if X.rows is None else found[:, X.rows])


def variance_of(X: ShardedMatrix, weight: Array | None) -> float:
    """Return the variance of all values of X, from one pass."""
    some = np.arange(0, X.shape[0], max(1, X.shape[0] // SOME))
    middle = float(X[some].mean())
    if X.rows is not None:
        every = np.zeros(X.shards.shape[0])
        every[X.rows] = 1.0 if weight is None else weight
        weight = every
    parts = [None] * len(X.shards.sizes) if weight is None else X.shards.split(weight)
    moments = total(X.shards.map([SumMoments(middle, part) for part in parts]))
    weighs, first, second = map(float, moments)
    return max(0.0, second / weighs - (first / weighs) ** 2)
