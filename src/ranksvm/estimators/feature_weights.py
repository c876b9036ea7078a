"""Rankers whose scores are sums of weighted features: predictions and explanations."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.estimators.base import BaseRanker
from ranksvm.maps.matrix import MatrixMap
from ranksvm.training.explain import Explanation, check_rows, explain_linear

__all__ = ["FeatureWeightRanker"]


class FeatureWeightRanker(BaseRanker):
    """Gives a ranker with ``coef_`` of shape (n_features,) its ``predict`` and ``explain``."""

    coef_: Array

    def predict(self, X: Any) -> Array:
        """Score items; larger is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            A frame may still hold the columns that ``fit`` was told are no features.

        Returns
        -------
        ndarray of shape (n_items,)
        """
        check_is_fitted(self)
        X = self._check_features(X, reset=False)
        return MatrixMap(X, n_threads=resolve_n_jobs(self.n_jobs)).scores(self.coef_)

    def explain(self, X: Any, i: int, j: int) -> Explanation:
        """Tell which features put item i above item j, or below.

        The difference of the scores is the sum over the features k of
        ``coef_[k] * (X[i, k] - X[j, k])``; these are the contributions, exact and largest first.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            As in ``predict``.
        i, j : int
            Two rows of X, from 0.

        Returns
        -------
        Explanation
            With ``contributions``, ``names``, ``top(n)`` and more; printed, it is a picture with a
            bar for every feature.  Features have the names of the training frame, or numbers.
        """
        check_is_fitted(self)
        X = self._check_features(X, reset=False)
        i, j = check_rows(i, j, X.shape[0])
        return explain_linear(self.coef_, X, i, j, names=self._feature_names())
