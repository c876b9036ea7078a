"""Stochastic descent in factors: some queries at a time.

The queries are dealt into batches of similar size.  A step draws a batch B for the loss, whose
pairs stand for all,

    f_B(w) = 1/2 |w|^2 + C * (number of batches) * loss of the pairs of B,

and moves the factors of the items of another batch along the derivative of f_B(w(V)), whose mean
over B is that of F.  The weights w = sum of the batches' own parts are kept up to date, so a pass
over all batches costs as much as one derivative of F.  Every entry of V has a step of its own
(AdaGrad): ``rate`` over the root of the sum of its squared derivatives so far.

F does not fall with every step, and a set with a single query is one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.factorized import FactorMap
from ranksvm.maps.matrix import MatrixMap
from ranksvm.objective import RankObjective
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.descent import Descended, Function, Watch

__all__ = ["Batch", "make_batches", "sgd"]

MOST_BATCHES = 20
# The first step of an entry, in root mean squares of the entries at the start.
FIRST_STEP = 0.1
TINY = 1e-300


class Batch(NamedTuple):
    """Some queries: where their factors are in V, f_B, and their part of w(V)."""

    places: NDArray[np.int64]
    objective: RankObjective
    factor_map: FactorMap


def make_batches(
    X: Any,
    utility: Array,
    groups: QueryGroups,
    factor_rows: NDArray[np.int64],
    *,
    loss: str,
    C: float,
    item_weight: Array | None,
    query_weight: Array | None,
    seed: int,
    n_threads: int,
) -> list[Batch]:
    """Deal the queries into batches.

    Parameters
    ----------
    X, utility, groups, item_weight
        Of the whole set.
    factor_rows : ndarray of int64, shape (n_items,)
        Items to which the rows of V belong.
    loss : str
    C : float
        Factor of the sum over all pairs.
    query_weight : ndarray of shape (n_queries,) or None
        As it enters that sum.
    seed, n_threads : int
    """
    order = np.random.default_rng(seed).permutation(groups.n_queries)
    parts = np.array_split(order, min(MOST_BATCHES, groups.n_queries))
    place_of = np.empty_like(factor_rows)
    place_of[factor_rows] = np.arange(len(factor_rows))
    batches = []
    for part in parts:
        rows = np.concatenate(
            [groups.rows[groups.offsets[q] : groups.offsets[q + 1]] for q in part]
        )
        rows.sort()
        some = QueryGroups.from_qid(groups.index[rows], len(rows))
        weight = None if item_weight is None else item_weight[rows]
        backend = NativeBackend(PairOrder(utility[rows], some, weight), n_threads=n_threads)
        if query_weight is not None:
            backend.set_query_weight(query_weight[some.ids])
        score_map = MatrixMap(X[rows], n_threads=n_threads)
        objective = RankObjective(score_map, LOSSES[loss](backend), C * len(parts))
        factor_map = FactorMap(score_map, backend)
        batches.append(Batch(place_of[rows[factor_map.rows]], objective, factor_map))
    return batches


def sgd(
    batches: Sequence[Batch],
    function: Function,
    start: Array,
    *,
    idle: NDArray[np.int64] | None,
    max_iter: int,
    seed: int,
    watch: Watch,
) -> Descended:
    """Pass over the batches up to ``max_iter`` times, in a new order each time.

    Parameters
    ----------
    batches : sequence of Batch
    function : callable
        F, evaluated after every pass.
    start : ndarray of shape (n_items, n_factors)
    idle : ndarray of int64 or None
        Rows whose factors stay as they are.
    max_iter, seed : int
    watch : callable
    """
    rng = np.random.default_rng(seed)
    factors = start.copy()
    squares = np.zeros_like(factors)
    rate = FIRST_STEP * float(np.sqrt(np.mean(np.square(start)))) or 1.0
    parts = [batch.factor_map.weights(factors[batch.places]) for batch in batches]
    weights = np.sum(parts, axis=0)
    value = np.inf
    for n_iter in range(1, max_iter + 1):
        for b in rng.permutation(len(batches)):
            places, _, factor_map = batches[b]
            mine = factors[places]
            objective = batches[int(rng.integers(len(batches)))].objective
            gradient = objective.at(objective.point(weights)).grad
            step = factor_map.pullback(mine, gradient)
            squares[places] += step * step
            mine -= rate * step / np.sqrt(squares[places] + TINY)
            factors[places] = mine
            if idle is not None:
                factors[idle] = 0.0
                mine = factors[places]
            part = factor_map.weights(mine)
            weights = weights + (part - parts[b])
            parts[b] = part
        value, _ = function(factors.ravel())
        if watch(factors.ravel(), value):
            return Descended(factors.ravel(), value, n_iter, False)
    return Descended(factors.ravel(), value, max_iter, False)
