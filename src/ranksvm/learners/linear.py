"""The training problem of linear models: one weight per feature.

F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - w.x_better + w.x_worse)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._points import Combination, Point
from ranksvm._rounding import roundings
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.data.column_facts import find_columns
from ranksvm.data.paired_rows import PairedRows
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.scaling import Scaling
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners.differences import with_differences
from ranksvm.learners.fit import Fit, about_fit
from ranksvm.learners.gains import check_gains
from ranksvm.learners.linear_model import LinearModel
from ranksvm.learners.participants import participants
from ranksvm.learners.problem import RankProblem, check_room
from ranksvm.learners.scaled import Units, about_scaling, scaled, scaled_data, training_units
from ranksvm.learners.settings import Settings
from ranksvm.learners.sharded import scores_of, sharded_problem
from ranksvm.learners.training_pairs import weighted_pairs
from ranksvm.learners.watching import Scorer, Validate
from ranksvm.maps.matrix import EuclideanMap, MatrixMap
from ranksvm.maps.scaled import ScaledMap
from ranksvm.solvers.base import Callback

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

    With a scaling, points have the weights v of the scaled features.  Everything that goes in and
    out has weights of the features as they are (:meth:`weights`).

    Parameters
    ----------
    data : RankingData
        X dense, CSR or CSC, float32 or float64, finite; or ``PairedRows``, whose differences are
        used then.
    settings : Settings
        Parameters.
    n_threads : int
        Number of threads.
    """

    def __init__(self, data: RankingData, settings: Settings, *, n_threads: int = 1) -> None:
        check_room(data.n_features)
        check_gains(data, settings)
        self._given = data
        self._quantiles: Scaling | None = None
        self._items: NDArray[np.int64] | None = None  # those that are used, if not all are
        units: Units | None = None
        self._scaling = settings.scaling_for(data.X, encoded=data.is_encoded)
        rounded = 0
        if isinstance(data.X, PairedRows):
            data, units = with_differences(data, self._scaling, n_threads)
            rounded = 1
        elif self._scaling == "quantile":
            data, self._quantiles = scaled_data(data, self._scaling, n_threads=n_threads)
        elif self._scaling is not None:
            units = training_units(data, self._scaling, n_threads=n_threads)
        self._seen = data  # whose columns the weights are for
        score_map: EuclideanMap
        if isinstance(data.X, ShardedMatrix):
            score_map, pairs = sharded_problem(data, settings, n_threads=n_threads)
        else:
            data = self._compared(data)
            score_map = MatrixMap(data.X, n_threads=n_threads, rounded=rounded)
            pairs = weighted_pairs(data, settings, n_threads=n_threads)
        self.data = data
        self._units = None if units is None else units.factor
        if units is not None:
            score_map = ScaledMap(score_map, *units)
        super().__init__(score_map, pairs, settings, labeled=data, n_threads=n_threads)

    def _compared(self, data: RankingData) -> RankingData:
        """Return the items that occur in pairs if most do not, otherwise all items."""
        if data.preferences is None:
            return data
        items = participants(data)
        if items.size > COPY_BELOW * data.n_items:
            return data
        self._items = items
        if is_sparse(data.X):  # a few rows with many columns are faster in CSR
            data = replace(data, X=data.X.tocsr())
        return data.take(items)

    def weights(self, coef: Array) -> Array:
        """Return the weights of the features as they are, for the coefficients of a point."""
        return coef if self._units is None else self._units * coef

    def solve(
        self,
        C: float | None = None,
        *,
        start: Array | Point | Combination | None = None,
        after: Fit | None = None,
        callback: Callback | None = None,
        validate: Validate | None = None,
    ) -> Fit:
        """Minimize F; as for :class:`ranksvm.learners.problem.RankProblem`.

        Arrays, those that the callback gets as well, are weights of the features as they are.
        """
        if isinstance(start, np.ndarray):
            start = self._coefficients(start)
        if self._units is not None:
            callback = None if callback is None else with_weights(callback, self.weights)
            validate = None if validate is None else of_weights(validate, self.weights)
        return super().solve(C, start=start, after=after, callback=callback, validate=validate)

    def _coefficients(self, weights: Array) -> Array:
        """Return the coefficients of a point with these weights of the features as they are."""
        if self._units is None:
            return weights
        return np.divide(weights, self._units, out=np.zeros_like(weights), where=self._units > 0.0)

    def shared_point(self, point: Point) -> Point:
        # Quantiles of another training part give the same weights other scores.
        is_known = self._items is None and self._quantiles is None
        scores = point.scores if is_known else None
        return point._replace(w=self.weights(point.w), scores=scores)

    def known_point(self, point: Point, items: NDArray[np.int64]) -> Point:
        if self._items is not None:
            items = items[self._items]
        if self._units is not None and point.w[self._units == 0.0].any():
            point = point._replace(scores=None)  # these have a feature that is left out here
        known = super().known_point(point._replace(w=self._coefficients(point.w)), items)
        if self._units is None:
            return known
        return known._replace(error=known.error + roundings(4) * known.reach)

    def score(self, X: Any, fits: Sequence[Fit]) -> list[Array]:
        """Return the scores of items for each of several fits of this problem."""
        if self._quantiles is not None:
            X = scaled(X, self._quantiles, self.n_threads)
        return scores_of(X, [self.weights(fit.coef) for fit in fits], n_threads=self.n_threads)

    def scorer(self, X: Any) -> Scorer:
        """Return the function from weights of the features as they are to the scores of items."""
        if self._quantiles is not None:
            X = scaled(X, self._quantiles, self.n_threads)
        return MatrixMap(X, n_threads=self.n_threads).scores

    def model(self, fit: Fit) -> LinearModel:
        """Return the model of a fit."""
        return LinearModel(coef=self.weights(fit.coef), **self.about(fit))

    def about(self, fit: Any, settings: Settings | None = None) -> dict[str, Any]:
        """Return what a model of a fit records beside its weights."""
        about = about_fit(fit, self._given, settings or self.settings)
        constant = np.zeros(0) if self._units is None else self._units == 0.0
        if self._quantiles is not None:
            constant = self._quantiles.constant
        about["facts"] |= about_scaling(self._scaling, constant)
        return {**about, "scaling": self._quantiles, "deviation": self._deviation()}

    def _deviation(self) -> Array | None:
        """Return the standard deviations of the columns; None if that takes a pass over shards."""
        if self._scaling == "standard":
            assert self._units is not None
            largest = np.finfo(np.float64).max
            with np.errstate(over="ignore"):
                found = np.divide(
                    1.0, self._units, out=np.zeros_like(self._units), where=self._units > 0.0
                )
            return np.minimum(found, largest)
        if isinstance(self._seen.X, ShardedMatrix):
            return None
        weight = self._seen.item_weight
        if weight is not None and not weight.any():
            weight = None
        return find_columns(self._seen.X, weight, self.n_threads).deviation


def with_weights(callback: Callback, weights: Callable[[Array], Array]) -> Callback:
    """Return a callback that gets the weights of the features instead of coefficients."""
    return lambda row, coef: callback(row, weights(coef))


def of_weights(validate: Validate, weights: Callable[[Array], Array]) -> Validate:
    """Return a metric of the weights of the features as one of coefficients."""
    return lambda coef: validate(weights(coef))
