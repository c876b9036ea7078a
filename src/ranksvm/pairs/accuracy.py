"""Share of the comparable pairs that scores put in the right order; ties count half.

Replace the scores by their ranks r (equal scores share one).  A pair is swapped or tied when
r_b - r_w < 1/2: exactly the violated pairs of margin 1/2.  With the ranks reversed the violated
pairs are the right or tied ones, so

    right + tied / 2 = (N - violated(r) + violated(-r)) / 2.

Listed pairs are looked at one by one.
"""

from __future__ import annotations

import numpy as np

from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array, dot
from ranksvm.data.preferences import Preferences
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairBackend

__all__ = ["pairwise_accuracy", "preference_accuracy", "right_and_total"]


def pairwise_accuracy(backend: PairBackend, groups: QueryGroups, scores: Array) -> float:
    """Accuracy per query, averaged over the queries whose pairs have weight.

    Parameters
    ----------
    backend : PairBackend
        Of the order to compare with; its query weights must be unset.
    groups : QueryGroups
        Of the same order.
    scores : ndarray of shape (n_items,)
    """
    right, total = right_and_total(backend, groups, scores)
    if not total.sum() > 0.0:
        raise ParameterError(
            "no comparable pair: a pair needs two items of one query with different utilities "
            "and positive weights ({n_samples}, queries={n_queries})",
            n_samples=Param("n_samples", len(scores), option=f"items={len(scores)}"),
            n_queries=len(total),
        )
    there = total > 0.0
    return float(np.mean(right[there] / total[there]))


def right_and_total(
    backend: PairBackend, groups: QueryGroups, scores: Array
) -> tuple[Array, Array]:
    """By query: weight of the pairs in the right order, half of the tied ones with it, and of all.

    Parameters
    ----------
    backend, groups, scores
        As in :func:`pairwise_accuracy`.

    Returns
    -------
    right, total : ndarray of shape (n_queries,)
    """
    total = backend.pair_weights
    if not np.isfinite(total.sum()):
        raise OverflowError(
            "the pair weights are too large for float64: a pair weighs the sample_weight of both "
            "items. Scale the weights down."
        )
    ranks: Array = np.unique(scores, return_inverse=True)[1].astype(np.float64)

    def violated(r: Array) -> Array:
        above, _ = backend.at(r).plan(0.5, products=False).counts()
        return np.bincount(groups.index, above, len(total)).astype(np.float64)

    return 0.5 * (total - violated(ranks) + violated(-ranks)), total


def preference_accuracy(preferences: Preferences, scores: Array) -> float:
    """Weighted share of listed pairs in the right order.

    Parameters
    ----------
    preferences : Preferences
        Checked: they have weight.
    scores : ndarray of shape (n_items,)
    """
    above, below = scores[preferences.better], scores[preferences.worse]
    right = 0.5 * ((above > below).astype(np.float64) + (above >= below))
    if preferences.weight is None:
        return float(right.mean())
    weight = preferences.weight / preferences.weight.max()  # their sum does not overflow then
    return float(dot(weight, right) / weight.sum())
