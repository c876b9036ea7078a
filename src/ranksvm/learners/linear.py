"""The training problem of linear models: one weight per feature.

F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - w.x_better + w.x_worse)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners.linear_model import LinearModel
from ranksvm.learners.participants import participants
from ranksvm.learners.problem import Fit, RankProblem, about_fit, check_room, training_pairs
from ranksvm.learners.settings import Settings
from ranksvm.learners.sharded import scores_of, sharded_problem
from ranksvm.maps.matrix import MatrixMap, ScoreMap

# If at most this fraction of the rows of X occurs in pairs, the problem uses a copy of these rows.
COPY_BELOW = 0.5


@dataclass(frozen=True)
class LinearSettings(Settings):
    """The parameters of ``LinearRankSVM`` that determine the model."""

    @property
    def shares_coefficients(self) -> bool:
        return True

    @property
    def works_in_shards(self) -> bool:
        return True

    @property
    def is_linear_svm(self) -> bool:
        return True


class LinearProblem(RankProblem):
    """The training problem of a linear model.

    If most items occur in no pair, only the others are used: products with X are then products with
    these rows, and points have scores for these items only.

    Parameters
    ----------
    data : RankingData
        X dense, CSR or CSC, float32 or float64, finite.
    settings : Settings
        Parameters.
    n_threads : int
        Number of threads.
    """

    def __init__(self, data: RankingData, settings: Settings, *, n_threads: int = 1) -> None:
        check_room(data.n_features)
        self._given = data
        if isinstance(data.X, ShardedMatrix):
            score_map: ScoreMap
            score_map, pairs = sharded_problem(data, settings, n_threads=n_threads)
        else:
            data = self._compared(data)
            score_map = MatrixMap(data.X, n_threads=n_threads)
            pairs = training_pairs(data, settings, n_threads=n_threads)
        self.data = data
        super().__init__(score_map, pairs, settings, n_threads=n_threads)

    def _compared(self, data: RankingData) -> RankingData:
        """Return the items that occur in pairs if most do not, otherwise all items."""
        if data.preferences is None:
            return data
        items = participants(data)
        if items.size > COPY_BELOW * data.n_items:
            return data
        if is_sparse(data.X):  # a few rows with many columns are faster in CSR
            data = replace(data, X=data.X.tocsr())
        return data.take(items)

    def score(self, X: Any, fits: Sequence[Fit]) -> list[Array]:
        """Return the scores of items for each of several fits of this problem."""
        return scores_of(X, [fit.coef for fit in fits], n_threads=self.n_threads)

    def model(self, fit: Fit) -> LinearModel:
        """Return the model of a fit."""
        return LinearModel(coef=fit.coef, **about_fit(fit, self._given, self.settings))
