"""Probabilities of pairs: how sure a model is that one item is better than another.

    P(A is better than B) = 1 / (1 + exp(-a (s_A - s_B)))

There is one number to find, the slope a >= 0, so P(A, B) = 1 - P(B, A), and equal scores have 1/2.
(Platt's method for classes has an intercept, too, and isotonic regression any increasing function;
both would have to be made symmetric, and the second needs far more pairs.)

The slope has the largest likelihood on pairs that were held out of a fit, because a model is too
sure about pairs that it has seen.  For that, groups of pairs are dealt to folds; pairs that share
an item or a query are in one group.  The fits of the folds share everything that the fit on all
pairs has computed from X (scaling, landmarks, features, kernel values), and need not be as exact.
They begin at zero: the solution for all pairs would tell them about the pairs that they hold out.
Folds are held out one after the other until there are ``ENOUGH`` pairs, since one number needs no
more.

As in Platt's method, the N held-out pairs have (N + 1) / (N + 2) as their target instead of 1, so
that the slope is finite even if all of them are in the right order.  A tie is half a pair in each
direction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ranksvm._text import counted
from ranksvm._vectors import Array, Rows
from ranksvm.data.pair_groups import connected_groups, dealt
from ranksvm.data.preferences import Preferences, positive_pairs
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.fit import Fit
from ranksvm.learners.problem import RankProblem
from ranksvm.learners.settings import Settings
from ranksvm.learners.training_pairs import weighted_pairs
from ranksvm.models.model import Model
from ranksvm.models.pair_probability import FACT, log_loss, probability
from ranksvm.solvers.base import Status

N_FOLDS = 5
LEAST_GROUPS = 10  # with fewer groups of pairs, there is no calibration
ENOUGH = 4000  # held-out pairs
TOL = 1e-2  # of the fits of the folds
_MOST_DOUBLINGS = 500

AnyModel = TypeVar("AnyModel", bound=Model)


def with_probability(
    model: AnyModel, data: RankingData, problem: RankProblem, fit: Fit, *, calibrate: bool
) -> AnyModel:
    """Return the model with the fact that probabilities need, or with why they are not known.

    Parameters
    ----------
    model : Model
        The model of the fit.
    data : RankingData
        The data set that the problem was made of, with preferences.
    problem : RankProblem
    fit : Fit
        The fit on all pairs.
    calibrate : bool
        Whether probabilities are wanted; they take some more fits.
    """
    found = {"reason": "it was fitted with calibrate=False"}
    if calibrate:
        found = pair_facts(data, problem, fit)
    return replace(model, facts={**model.facts, FACT: found})


def pair_facts(data: RankingData, problem: RankProblem, fit: Fit) -> dict[str, Any]:
    """Return the slope, and which pairs it was found on; or the reason why there is none."""
    if fit.status is Status.STOPPED:
        return {"reason": "the callback stopped the fit before its end"}
    labeled = problem.labeled
    assert labeled is not None
    assert labeled.preferences is not None
    pairs = positive_pairs(labeled.preferences, labeled.query_weight)
    of_pair, of_item = _groups(data, labeled)
    n_all = 0 if of_item is None else int(of_item.max()) + 1
    sizes = np.bincount(of_pair, minlength=n_all)
    n_groups = int(np.count_nonzero(sizes))
    if n_groups < LEAST_GROUPS:
        return {
            "reason": f"its pairs form {counted(n_groups, 'group')} that share no item and no "
            f"query with each other, and folds to hold out need at least {LEAST_GROUPS}"
        }
    fold = dealt(sizes, N_FOLDS)
    settings = replace(problem.settings, tol=max(TOL, problem.settings.tol))
    differences, weights, n_folds = list[Array](), list[Array](), 0
    for k in range(N_FOLDS):
        is_held_out = fold[of_pair] == k
        part = replace(labeled, preferences=pairs.take(~is_held_out))
        if of_item is not None:
            own = labeled.item_weight
            is_trained = fold[of_item] != k
            part = replace(part, item_weight=is_trained * (1.0 if own is None else own))
        scores = _scores(problem, part.with_groups(labeled.groups), settings)
        held_out = pairs.take(is_held_out)
        differences.append(scores[held_out.better] - scores[held_out.worse])
        weights.append(_weight(held_out, labeled))
        if held_out.n_ties:
            assert held_out.tie is not None
            weights[-1][held_out.tie] *= 0.5
            differences.append(-differences[-1][held_out.tie])
            weights.append(weights[-1][held_out.tie])
        n_folds += 1
        if sum(map(len, differences)) >= ENOUGH:
            break
    difference, weight = np.concatenate(differences), np.concatenate(weights)
    if not np.isfinite(difference).all():
        return {"reason": "the scores of held-out pairs are not finite"}
    slope = slope_of(difference, weight)
    return {
        "slope": slope,
        "folds": n_folds,
        "pairs": int(np.count_nonzero(fold[of_pair] < n_folds)),
        "log_loss": log_loss(probability(slope, difference), weight),
    }


def slope_of(difference: Array, weight: Array | None = None) -> float:
    """Return the slope with the largest likelihood; 0 if higher scores are not better.

    Parameters
    ----------
    difference : ndarray of shape (n_pairs,)
        Score of the better item minus that of the worse, finite.
    weight : ndarray of shape (n_pairs,) or None
        Weights of the pairs, not negative and not all zero; None means 1.
    """
    weight = np.ones(difference.size) if weight is None else weight / weight.max()
    size = float(np.max(np.abs(difference), initial=0.0))
    if not size > 0.0 or not np.einsum("p,p->", weight, difference / size) > 0.0:
        return 0.0
    difference = difference / size
    n = float(weight.sum()) ** 2 / float(np.einsum("p,p->", weight, weight))
    target = (n + 1.0) / (n + 2.0)

    def rise(slope: float) -> float:
        """Return the derivative of the negative log likelihood, an increasing function."""
        off = probability(slope, difference) - target
        return float(np.einsum("p,p,p->", weight, difference, off))

    high = 1.0
    for _ in range(_MOST_DOUBLINGS):
        if rise(high) >= 0.0:
            break
        high *= 2.0
    from scipy.optimize import brentq

    found = float(brentq(rise, 0.0, high, xtol=1e-12, rtol=1e-10)) / size
    return found if np.isfinite(found) else 0.0


def _groups(data: RankingData, labeled: RankingData) -> tuple[Rows, Rows | None]:
    """Return the group of each pair of positive weight and, if there are labels, of each item."""
    if labeled.y is not None:
        assert labeled.preferences is not None
        groups = connected_groups(labeled).index
        return groups[positive_pairs(labeled.preferences, labeled.query_weight).better], groups
    # Of differences of items, only the data set as given knows which items and queries they share.
    assert data.preferences is not None
    groups = connected_groups(data).index
    return groups[positive_pairs(data.preferences, data.query_weight).better], None


def _scores(problem: RankProblem, part: RankingData, settings: Settings) -> Array:
    """Return the scores of all items of the problem, after a fit to the pairs of a part."""
    pairs = weighted_pairs(part, settings, n_threads=problem.n_threads)
    fit = problem.with_pairs(pairs, settings).solve()
    assert fit.point.scores is not None
    scores: Array = fit.point.scores
    return scores


def _weight(pairs: Preferences, data: RankingData) -> Array:
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight.copy()
    if pairs.query is not None and data.query_weight is not None:
        weight *= np.append(data.query_weight, 1.0)[pairs.query]
    return weight
