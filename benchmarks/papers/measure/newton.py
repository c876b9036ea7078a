"""Measurements for Lee & Lin's supplement: convergence, zero dual variables, cost by levels.

Convergence.  All methods start at w = 0.  A callback of the solver watches the best point so far.
An iteration of the cutting planes is one new point with its value and subgradient; w = 0 itself is
iteration 0.  Newton's points are those after its outer steps, plotted at the number of CG
iterations done by then, so that Newton never looks faster than it is.  Products are those with X
and with X'; they include the gradient of an outer step and the second plane at a kink, which belong
to no iteration.

The optimum f* is a certified lower bound from a fit with a far smaller gap, so (f - f*) / f* is
never shown smaller than it is, and is exact to about that gap.

Dual variables.  That of a pair is zero if and only if its margin is at least 1: the pair is not
violated.  The native backend counts the violated pairs; NumPy looks at every pair of every query.

Levels.  One query, k levels of equally many items, scores with a correlation of 0.6 to the levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import StandardScaler

from benchmarks.common import SEED, Array, Call, interleave, profiled
from benchmarks.folds import letor_fold
from benchmarks.sets import FILES, data_folder
from ranksvm.backends.native import NativeBackend
from ranksvm.data import QueryGroups, RankingData
from ranksvm.learners import LinearProblem, LinearSettings
from ranksvm.metrics import mean_ndcg, ndcg, pairwise_accuracy
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.base import Solver, TraceRow
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import Newton

LETOR = ("MQ2008", "OHSUMED")
REDUCTION = {"MQ2008": "sum", "OHSUMED": "sum", "cadata": "mean"}
# Relative function values to reach, and the one at which a trace ends.
GOALS = (1e-1, 1e-2, 1e-3, 1e-4)
FINEST = 1e-6
# The gap of the fits that f* comes from, and of those that choose C.
OPTIMUM_TOL = {"squared_hinge": 1e-11, "hinge": 1e-8}
CHOICE_TOL = 1e-3
DEFAULT_TOL = LinearSettings().tol
# TRON solves its linear systems to this part of the gradient.
FORCING = 0.1
# A trace keeps every point up to this iteration, then points that are further and further apart.
ALL_POINTS = 10
SPARSER = 1.15
# One in so many training rows of cadata is held out to choose C; as many others are for testing.
CADATA_PART = 4
# NDCG of a ranking of thousands of houses: this cutoff, linear gain.
CADATA_NDCG = 100
# No new round of timings begins when it would end later than this.
MOST_SECONDS = 240.0


def _tron(**limits: Any) -> Solver:
    """Newton as in TRON: a trust region, no preconditioner, systems solved to ``FORCING``."""
    return Newton(globalization="trust_region", preconditioner="none", forcing=FORCING, **limits)


METHODS: Mapping[str, Callable[..., Solver]] = {
    "Newton": Newton,
    "Newton as TRON": _tron,
    "cutting planes": Bundle,
    "cutting planes, no line search": partial(Bundle, line_search=False),
}


# --- Sets -----------------------------------------------------------------------------------------


@lru_cache(maxsize=3)
def _sets(name: str, rows: int) -> tuple[RankingData, RankingData, RankingData, RankingData]:
    """To choose C: train, validate.  Then: train, test.

    ``rows`` is the number of training rows of cadata.
    """
    if name in LETOR:
        fold = letor_fold(name, 0)
        return fold.train, fold.valid, fold.train, fold.test
    X, y = load_svmlight_file(str(data_folder() / FILES["cadata"]))
    order = np.random.default_rng(SEED).permutation(len(y))
    train, test = order[:rows], order[rows : rows + rows // CADATA_PART]
    X = StandardScaler().fit(X[train].toarray()).transform(X.toarray())
    whole = RankingData(X, y)
    cut = rows - rows // CADATA_PART
    return whole.take(train[:cut]), whole.take(train[cut:]), whole.take(train), whole.take(test)


def _problem(name: str, data: RankingData, loss: str, tol: float = DEFAULT_TOL) -> LinearProblem:
    settings = LinearSettings(
        loss=loss, reduction=REDUCTION[name], scaling=None, tol=tol, max_iter=5000
    )
    return LinearProblem(data, settings)


def _accuracy(data: RankingData, coef: Array) -> float:
    """Share of all pairs of all queries in the right order."""
    return float(pairwise_accuracy(data.truth, data.X @ coef, data.qid, average="pairs"))


def _ndcg(name: str, data: RankingData, coef: Array) -> float:
    scores = data.X @ coef
    if name in LETOR:
        return float(mean_ndcg(data.truth, scores, data.qid, conventions="letor"))
    return float(ndcg(data.truth, scores, k=CADATA_NDCG, gain="linear"))


# --- Convergence ----------------------------------------------------------------------------------


def choose_C(name: str, rows: int, loss: str, Cs: list[float]) -> dict[str, Any]:
    """The C with the best pairwise accuracy on the validation part; the smallest of equals."""
    train, valid, whole, test = _sets(name, rows)
    problem = _problem(name, train, loss, CHOICE_TOL)
    fit, found = None, []
    for C in sorted(Cs):
        fit = problem.solve(C, after=fit)
        found.append(_accuracy(valid, fit.coef))
    best = int(np.argmax(found))
    return {
        "C": sorted(Cs)[best],
        "accuracies": found,
        "at_end": best in (0, len(Cs) - 1),
        "items": whole.n_items,
        "pairs": _problem(name, whole, loss).n_pairs,
        "tested": test.n_items,
    }


def optimum(name: str, rows: int, loss: str, C: float) -> dict[str, Any]:
    """A certified lower bound of the optimum."""
    fit = _problem(name, _sets(name, rows)[2], loss, OPTIMUM_TOL[loss]).solve(C)
    return {
        "lower": fit.objective - fit.gap,
        "gap": fit.gap / fit.objective,
        "status": fit.status.name,
    }


def trace(
    name: str, rows: int, loss: str, C: float, method: str, lower: float, most: int
) -> dict[str, Any]:
    """Value and quality by iteration, for at most ``most`` iterations.

    Returns
    -------
    dict
        ``iteration``, ``products``, ``value``, ``accuracy`` and ``ndcg`` of the points kept;
        ``goal_iterations`` and ``goal_products`` by goal, NaN where it was not reached; of the
        whole run ``iterations``, ``evaluations`` of the loss, ``samples`` of X that the
        preconditioner took, ``reached``, the last relative value, and ``arrived``, whether that is
        at most FINEST.
    """
    _, _, train, test = _sets(name, rows)
    objective = _problem(name, train, loss).objective(C)
    points: list[tuple[float, ...]] = []
    goals = np.full((2, len(GOALS)), np.nan)
    cg = iteration = 0
    due = 0.0
    last = np.inf

    def watch(row: TraceRow, coef: Array) -> bool:
        nonlocal cg, iteration, due, last
        cg += row.inner_iterations
        iteration = cg if method.startswith("Newton") else row.iteration - 1
        last = (row.objective - lower) / lower
        new = [k for k, goal in enumerate(GOALS) if last <= goal and np.isnan(goals[0, k])]
        for k in new:
            goals[:, k] = iteration, row.n_products
        stop = last <= FINEST or iteration >= most
        if new or stop or iteration >= due:
            due = max(iteration + 1.0, SPARSER * iteration if iteration >= ALL_POINTS else 0.0)
            quality = _accuracy(test, coef), _ndcg(name, test, coef)
            points.append((iteration, row.n_products, last, *quality))
        return stop

    # An outer step of Newton has at least one CG iteration; solvers count w = 0 as an iteration.
    solver = METHODS[method](tol=1e-12, max_iter=most + 1)
    start = objective.point(np.zeros(train.X.shape[1]))
    with profiled() as profile:
        solver.solve(objective, start, callback=watch)
    names = ("iteration", "products", "value", "accuracy", "ndcg")
    return {
        **dict(zip(names, np.array(points).T.copy(), strict=True)),
        "goal_iterations": goals[0],
        "goal_products": goals[1],
        "iterations": iteration,
        "evaluations": profile.evaluations,
        "samples": profile.calls["scatter"],
        "reached": last,
        "arrived": bool(last <= FINEST),
    }


def default_newton(name: str, rows: int, C: float, lower: float) -> dict[str, Any]:
    """Where Newton stops with the library's default tolerance."""
    _, _, train, test = _sets(name, rows)
    fit = _problem(name, train, "squared_hinge").solve(C)
    return {
        "value": (fit.objective - lower) / lower,
        "accuracy": _accuracy(test, fit.coef),
        "ndcg": _ndcg(name, test, fit.coef),
        "iterations": sum(row.inner_iterations for row in fit.history),
        "products": fit.n_products,
    }


# --- Zero dual variables --------------------------------------------------------------------------


def dual_zeros(name: str, fold: int | None, C: float, solver: str, tol: float) -> dict[str, Any]:
    """Numbers of pairs by their margin at the solution for the squared hinge.

    On the training part of a fold, counted from 0, or with None on the whole set.
    """
    data = _whole(name) if fold is None else letor_fold(name, fold).train
    settings = LinearSettings(
        C=C,
        reduction="sum",
        scaling=None,
        solver=solver,
        tol=tol,
        max_iter=5000,
        loss="squared_hinge",
    )
    problem = LinearProblem(data, settings)
    fit = problem.solve()
    backend = NativeBackend(PairOrder(data.truth, data.groups))
    violated = int(backend.at(fit.point.scores).plan(1.0, products=False).total)
    margins = margins_of(data, fit.point.scores)
    below = int((margins < 1.0).sum())
    # A margin within rounding of 1 may fall on either side.
    if len(margins) != problem.n_pairs or abs(below - violated) > _at_one(margins):
        raise RuntimeError(
            f"{len(margins):,} pairs and {below:,} with a margin below 1 by NumPy, "
            f"{problem.n_pairs:,} and {violated:,} by the native backend"
        )
    return {
        "pairs": problem.n_pairs,
        "violated": violated,
        "right": int((margins > 0.0).sum()),
        "within": int(((margins > 0.0) & (margins < 1.0)).sum()),
        "gap": fit.gap / fit.objective,
        "status": fit.status.name,
    }


def _whole(name: str) -> RankingData:
    parts = letor_fold(name, 0)
    X, y, qid = (np.concatenate([getattr(part, k) for part in parts]) for k in ("X", "y", "qid"))
    return RankingData(X, y, qid)


def margins_of(data: RankingData, scores: Array) -> Array:
    """w'(x_i - x_j) of all pairs with y_i > y_j in one query."""
    groups, y = data.groups, data.truth
    found = []
    for query in range(groups.n_queries):
        rows = groups.rows[groups.offsets[query] : groups.offsets[query + 1]]
        better, worse = np.nonzero(y[rows][:, None] > y[rows][None, :])
        found.append(scores[rows][better] - scores[rows][worse])
    return np.concatenate(found)


def _at_one(margins: Array) -> int:
    return int((np.abs(margins - 1.0) < 1e-9).sum())


# --- Cost by levels -------------------------------------------------------------------------------


def levels(n_items: int, countings: dict[str, list[int]], rounds: int) -> dict[str, Any]:
    """Milliseconds of one evaluation (value and gradient of the squared hinge), one thread.

    All countings and all k take turns, so that other work on the computer hits all of them alike.
    The time of the shortest round counts.

    Parameters
    ----------
    n_items : int
    countings : dict of str to list of int
        For each counting the k to measure.
    rounds : int

    Returns
    -------
    dict of str to ndarray
        For each counting the times in the order of its k.
    """
    calls = {}
    for k in sorted({k for ks in countings.values() for k in ks}):
        rng = np.random.default_rng(SEED)
        y = rng.permutation(np.arange(n_items) % k).astype(float)
        scores = 0.6 * (y - y.mean()) / y.std() + 0.8 * rng.standard_normal(n_items)
        order = PairOrder(y, QueryGroups.from_qid(None, n_items))
        for counting in (name for name, ks in countings.items() if k in ks):
            loss = LOSSES["squared_hinge"](NativeBackend(order, counting=counting))
            calls[f"{k} {counting}"] = Call(partial(_value, loss, scores))
    timings = interleave(calls, rounds=rounds, seconds=MOST_SECONDS)
    _check_equal({name: timing.result for name, timing in timings.items()})
    return {
        counting: np.array([1e3 * min(timings[f"{k} {counting}"].rounds) for k in ks])
        for counting, ks in countings.items()
    }


def _value(loss: Any, scores: Array) -> float:
    value: float = loss.at(scores).value
    return value


def _check_equal(values: Mapping[str, float]) -> None:
    """All countings have to find the same loss."""
    first: dict[str, float] = {}
    for name, value in values.items():
        k = name.split()[0]
        if abs(value - first.setdefault(k, value)) > 1e-9 * value:
            raise RuntimeError(f"the countings differ at k = {k}: {value} and {first[k]}")
