"""Pairwise accuracy: the share of comparable pairs that are ordered correctly; ties count half.

Replace the scores by their ranks r (equal scores share a rank).  A pair is swapped or tied if
r_b - r_w < 1/2, that is, if it is violated with margin 1/2.  With the ranks reversed, the violated
pairs are the correct or tied ones, so

    right + tied / 2 = (N - violated(r) + violated(-r)) / 2.

Listed pairs are compared one by one.
"""

from __future__ import annotations

import numpy as np

from ranksvm._vectors import Array, dot
from ranksvm.data.preferences import Preferences
from ranksvm.pairs.order import PairBackend


def right_and_total(backend: PairBackend, scores: Array) -> tuple[Array, Array]:
    """Return for each query the weight of the correctly ordered pairs and of all pairs.

    Parameters
    ----------
    backend : PairBackend
        Backend of the true order; its query weights must be unset.
    scores : ndarray of shape (n_items,)
        Scores to evaluate.

    Returns
    -------
    right : ndarray of shape (n_queries,)
        Weight of the correct pairs plus half of that of the tied pairs.
    total : ndarray of shape (n_queries,)
        Weight of all pairs.
    """
    total = backend.pair_weights
    if not np.isfinite(total.sum()):
        raise OverflowError(
            "the pair weights are too large for float64: the weight of a pair is the product of "
            "the sample weights of its items. Scale sample_weight down."
        )
    ranks: Array = np.unique(scores, return_inverse=True)[1].astype(np.float64)

    def violated(r: Array) -> Array:
        above, _ = backend.at(r).plan(0.5, products=False).counts()
        return np.bincount(backend.groups.index, above, len(total)).astype(np.float64)

    return 0.5 * (total - violated(ranks) + violated(-ranks)), total


def preference_accuracy(preferences: Preferences, scores: Array) -> float:
    """Return the weighted share of listed pairs that are ordered correctly.

    Parameters
    ----------
    preferences : Preferences
        Checked preferences; at least one weight is positive.
    scores : ndarray of shape (n_items,)
        Scores to evaluate.
    """
    above, below = scores[preferences.better], scores[preferences.worse]
    right = 0.5 * ((above > below).astype(np.float64) + (above >= below))
    if preferences.weight is None:
        return float(right.mean())
    weight = preferences.weight / preferences.weight.max()  # so that the sum cannot overflow
    return float(dot(weight, right) / weight.sum())
