"""Rankers that learn from explicit preferences, too: which of two items is the better one.

    F(w) = 1/2 |w|^2 + C * sum over preferences of  weight * loss(1 - s_better + s_worse)

Utilities say the same of all items of a query at once; where there are both, the two sums add up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

from numpy.typing import ArrayLike

from ranksvm.data.preferences import (
    check_preferences,
    count_contradictions,
    positive_pairs,
)
from ranksvm.data.queries import QueryGroups
from ranksvm.estimators.base import PairData
from ranksvm.estimators.certified import CertifiedRanker
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.solvers.base import Array, TraceRow

__all__ = ["PreferenceRanker"]


class PreferenceRanker(CertifiedRanker):
    """A ranker whose problems take preferences."""

    def fit_pairs(
        self,
        X: Any,
        better: ArrayLike,
        worse: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        callback: Callable[[TraceRow, Array], Any] | None = None,
        **unknown: Any,
    ) -> Self:
        """Learn from pairs of items, of which one is the better; alone, or beside utilities.

        An evaluation costs O(n_pairs) and two products with X (with the rows that are in a pair,
        if these are half of X at most), beside what the utilities cost.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            As in ``fit``.
        better, worse : array-like of shape (n_pairs,)
            Row numbers of X, from 0: ``better[p]`` should be ranked above ``worse[p]``.  Any two
            rows, inside a query or across.  A pair may come several times, and pairs may
            contradict each other: then there is a warning that counts them (among the given pairs;
            what utilities say is not looked at).
        weight : array-like of shape (n_pairs,) or None, default=None
            Weight of each pair; None: 1.
        y : array-like of shape (n_items,), str or None, default=None
            Utilities: then all pairs of items of a query with different utilities count too, as in
            ``fit``.  None: there are the given pairs only.
        qid : array-like of shape (n_items,), str or None, default=None
            Query of each item, for the pairs of the utilities.
        group : array-like of shape (n_items,), str or None, default=None
            Another name for ``qid``.
        sample_weight : array-like of shape (n_items,), str or None, default=None
            Weight of each item in the pairs of the utilities; the given pairs have their own.
        query_weight : array-like of shape (n_queries,), mapping or None, default=None
            Weight of each query.
        callback : callable or None, default=None
            As in ``fit``.

        Returns
        -------
        self

        Notes
        -----
        ``reduction="mean"`` divides by the total weight of the pairs of both kinds;
        ``"query_mean"`` takes all given pairs together for one more query, of weight 1.
        ``counting`` is about the pairs of the utilities; given pairs are always looked at one by
        one.

        Examples
        --------
        >>> from ranksvm import LinearRankSVM
        >>> X = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0]]
        >>> model = LinearRankSVM().fit_pairs(X, better=[0, 2, 0], worse=[1, 1, 3])
        >>> model.score_pairs(X, better=[0, 2, 0], worse=[1, 1, 3])
        1.0
        >>> model.n_pairs_
        3
        """
        refuse_unknown(self, self.fit_pairs, unknown)
        with self._fitting():
            settings = self._settings()
            data = self._check_pairs(
                X, better, worse, weight, y, qid, group, sample_weight, query_weight
            )
            both_ways = count_contradictions(data.preferences)
            if both_ways:
                warnings.warn(
                    f"{both_ways} {'pairs' if both_ways > 1 else 'pair'} of items "
                    f"{'are' if both_ways > 1 else 'is'} preferred both ways: no ranking follows "
                    "both preferences, and the one with more weight has more say.",
                    UserWarning,
                    stacklevel=2,
                )
            self._solve(data, settings, callback)
            self._facts["explicit_pairs"] = len(positive_pairs(data.preferences).better)
        return self

    def _check_pairs(
        self,
        X: Any,
        better: Any,
        worse: Any,
        weight: Any,
        y: Any,
        qid: Any,
        group: Any,
        sample_weight: Any,
        query_weight: Any,
    ) -> PairData:
        """Check everything that ``fit_pairs`` is given."""
        if y is not None:
            data = self._check_training(X, y, qid, group, sample_weight, query_weight)
            return PairData(
                data.X,
                data.utility,
                data.groups,
                data.item_weight,
                data.query_weight,
                check_preferences(better, worse, weight, data.X.shape[0]),
            )
        without_y = {
            "qid": qid, "group": group, "sample_weight": sample_weight,
            "query_weight": query_weight,
        }  # fmt: skip
        given = [name for name, value in without_y.items() if value is not None]
        if given:
            raise ValueError(
                f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} about the pairs of "
                "utilities, and there is no y. Give y, or leave them out: listed pairs have their "
                "own weight, and need no query."
            )
        self._frame_columns, self._qid_column = frozenset(), None
        X = self._check_features(X, reset=True)
        n_items = X.shape[0]
        preferences = check_preferences(better, worse, weight, n_items)
        groups = QueryGroups.from_qid(None, n_items)
        return PairData(X, None, groups, None, None, preferences)
