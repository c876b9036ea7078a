"""Rankers with a linear model: the weights of the features as fitted attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ranksvm._vectors import Array
from ranksvm.estimators.importances import LinearImportances
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.learners.linear_model import LinearModel


class LinearRanker(LinearImportances, ModelRanker):
    """Base class of estimators with a :class:`LinearModel`."""

    query_features: Sequence[str]
    keep_features: bool
    warm_start: bool
    coef_: Array
    _deviation: Array | None = None

    def _start(self) -> Array | None:
        """Return the weights to start from; None for zero."""
        coef: Array = getattr(self, "coef_", np.empty(0))
        n_features = self.n_features_in_ if self._encoding is None else self._encoding.n_features
        n_columns = (len(self.query_features) + bool(self.keep_features)) * n_features
        return coef.copy() if self.warm_start and coef.shape == (n_columns,) else None

    def _set_model(self, model: LinearModel) -> None:
        self.coef_, self._deviation = model.coef, model.deviation

    def _get_model(self) -> LinearModel:
        return LinearModel(coef=self.coef_, deviation=self._deviation, **self._about())
