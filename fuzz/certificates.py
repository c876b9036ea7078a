"""Certificates against rational arithmetic: ``python -m fuzz.certificates --cases 100000``.

Random problems of many shapes, scales, scalings, weights, gains, losses, reductions, solvers,
starts, paths, listed pairs, kernels and shards.  Of every fit

- F(coef) lies between ``objective - gap`` and ``objective``, exactly;
- no point with a lower F than ``objective - gap`` is found (:mod:`fuzz.exact` looks for one);
- the status is "converged" just where the gap is within the tolerance;
- where nothing is extreme, it is "converged".

``python -m fuzz certificates`` is the same for some time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import secrets
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzz.cases import repeat
from fuzz.exact import ExactProblem, Vector, rational
from ranksvm import LinearRankSVM
from ranksvm.backends.labels import label_backend
from ranksvm.backends.native import COUNTINGS
from ranksvm.data.local_shards import LocalShards
from ranksvm.data.preferences import Preferences, pairs_by_query
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.scaling import SCALINGS
from ranksvm.data.shards import KEEPS, RowBlock, Shard, ShardedMatrix
from ranksvm.learners import (
    REDUCTIONS,
    FactorizedProblem,
    FactorizedSettings,
    Fit,
    KernelProblem,
    KernelSettings,
    LinearProblem,
    LinearSettings,
)
from ranksvm.learners.settings import AUTO
from ranksvm.maps.feature_map import NystroemMap
from ranksvm.model_selection.path import fit_path
from ranksvm.pairs.gains import above_lowest, is_graded, label_gains
from ranksvm.solvers.base import Status

Array = np.ndarray
SOLVERS = {"squared_hinge": ("newton", "bundle"), "hinge": ("bundle", "smoothed_newton")}
ROUNDING = 2.0**-53
WHOLE = 40  # more items than this are rare: every pair is a rational number


@dataclass(frozen=True)
class Case:
    """What is learned from, as drawn."""

    X: Array
    y: Array | None
    qid: Array
    item_weight: Array | None
    query_weight: Array | None
    preferences: Preferences | None
    settings: LinearSettings
    moderate: bool

    def data(self, X: Any) -> RankingData:
        """Return the set with its items in some layout, or with other items."""
        return RankingData(
            X,
            self.y,
            self.qid,
            item_weight=self.item_weight,
            query_weight=self.query_weight,
            preferences=self.preferences,
        )

    def exact(self, X: list[Vector], C: float) -> ExactProblem:
        better, worse, weight = self._pairs()
        scaled = [Fraction(C) * one for one in weight]
        power = 1 if self.settings.loss == "hinge" else 2
        return ExactProblem(X, better, worse, scaled, power)

    @property
    def is_easy(self) -> bool:
        """Whether a fit has to converge; weights and a large C limit how far smoothing goes."""
        return self.moderate and self.settings.solver != "smoothed_newton"

    @property
    def has_pairs(self) -> bool:
        return any(weight > 0 for weight in self._pairs()[2])

    def _pairs(self) -> tuple[list[int], list[int], Vector]:
        """Pairs with their weights in F for C = 1."""
        ids = list(dict.fromkeys(self.qid.tolist()))
        own = [Fraction(1)] * len(ids)
        if self.query_weight is not None:
            own = rational(self.query_weight)
        gains, groups = self.settings.gains, QueryGroups.from_qid(self.qid, len(self.qid))
        over_ideal = [Fraction(1)] * len(ids)  # what gains are divided by, in float64
        if gains is not None:
            assert self.y is not None
            made = label_backend(self.y, groups, self.item_weight, gains)
            over_ideal = rational(made._query_factor)  # type: ignore[arg-type]
        # By query, and one for the list, or for its pairs across queries.
        parts: list[list[tuple[int, int, Fraction]]] = [[] for _ in range(len(ids) + 1)]
        if self.y is not None:
            items = [Fraction(1)] * len(self.y)
            if self.item_weight is not None:
                items = rational(self.item_weight)
            gain = [Fraction(0)] * len(self.y)
            if gains is not None:
                gain = rational(above_lowest(label_gains(self.y, gains.gain), groups))
            for q, name in enumerate(ids):
                rows = np.flatnonzero(self.qid == name).tolist()
                parts[q] = [
                    (
                        b,
                        w,
                        items[b] * items[w] * ((gain[b] - gain[w]) * over_ideal[q] if gains else 1),
                    )
                    for b in rows
                    for w in rows
                    if self.y[b] > self.y[w]
                ]
        if self.preferences is not None:
            better, worse, given = self.preferences
            weight = [Fraction(1)] * len(better) if given is None else rational(given)
            numbers = [len(ids)] * len(better)
            if self.preferences.query is not None:
                numbers = self.preferences.query.tolist()
            for q, *pair in zip(numbers, better.tolist(), worse.tolist(), weight, strict=True):
                parts[q].append(tuple(pair))
        own.append(Fraction(1))
        mass = [sum((one[2] for one in part), Fraction(0)) for part in parts]
        if self.settings.reduction == "query_mean":
            all_of_it = sum(o for o, m in zip(own, mass, strict=True) if m > 0) or Fraction(1)
            own = [
                o / m / all_of_it if m > 0 else Fraction(0) for o, m in zip(own, mass, strict=True)
            ]
        elif self.settings.reduction == "mean":
            total = sum(o * m for o, m in zip(own, mass, strict=True)) or Fraction(1)
            own = [o / total for o in own]
        pairs = [(b, w, o * v) for o, part in zip(own, parts, strict=True) for b, w, v in part]
        return [p[0] for p in pairs], [p[1] for p in pairs], [p[2] for p in pairs]


# --- Drawing -------------------------------------------------------------------------------------


def draw_case(rng: np.random.Generator) -> Case:
    """Draw a problem that has at least one pair."""
    while True:
        moderate = bool(rng.random() < 0.4)
        n = int(rng.integers(2, 13))
        if rng.random() < 0.02:
            n = int(rng.integers(13, WHOLE))
        if rng.random() < 0.001:
            n = int(rng.integers(129, 160))
        dim = int(rng.integers(1, 5))
        y = _draw_labels(rng, n)
        X = _draw_items(rng, n, dim, y, moderate=moderate)
        n_queries = int(rng.integers(1, 4)) if rng.random() < 0.5 else 1
        qid = rng.integers(0, n_queries, n)
        item_weight = _draw_weights(rng, n, moderate=moderate) if rng.random() < 0.3 else None
        query_weight = None
        if rng.random() < 0.3:
            query_weight = _draw_weights(rng, len(np.unique(qid)), moderate=moderate)
        preferences = None
        if rng.random() < 0.25:
            preferences = _draw_pairs(rng, n)
        utility: Array | None = y
        if preferences is not None and rng.random() < 0.5:
            utility = item_weight = None
        if preferences is not None and rng.random() < 0.5:
            preferences = pairs_by_query(preferences, QueryGroups.from_qid(qid, n))
        elif utility is None:
            query_weight = None
            qid = np.zeros(n, dtype=np.int64)
        settings = _draw_settings(rng, moderate=moderate)
        if utility is not None and rng.random() < 0.35:
            settings = replace(settings, pair_weight="gain", **_draw_gain(rng, utility))
            if settings.gain == "linear" and rng.random() < 0.5:
                utility = utility * rng.random() + rng.random(n) * (utility > 0.0)
        case = Case(X, utility, qid, item_weight, query_weight, preferences, settings, moderate)
        if case.has_pairs:
            return case


def _draw_labels(rng: np.random.Generator, n: int) -> Array:
    if rng.random() < 0.5:
        return rng.integers(0, int(rng.integers(2, 5)), n).astype(float)
    return rng.permutation(n).astype(float)


def _draw_gain(rng: np.random.Generator, y: Array) -> dict[str, str]:
    gain = "linear" if rng.random() < 0.5 or not is_graded(y) else "exp2"
    return {"gain": gain, "discount": str(rng.choice(["log2", "letor"]))}


def _draw_items(rng: np.random.Generator, n: int, dim: int, y: Array, *, moderate: bool) -> Array:
    X = rng.normal(size=(n, dim))
    if rng.random() < 0.3:
        X = np.round(X * 2.0)
    if rng.random() < 0.3:  # nearly, or quite, separable
        X[:, 0] += y * float(rng.choice([0.1, 1.0, 10.0]))
    if rng.random() < 0.2:
        X[int(rng.integers(n))] = X[0]
    if not moderate:
        X = X * 10.0 ** rng.uniform(-9.0, 9.0)
        if rng.random() < 0.3:
            X = X * 10.0 ** rng.uniform(-3.0, 3.0, dim)
        if rng.random() < 0.4:
            X = X + np.std(X) * 10.0 ** rng.uniform(0.0, 9.0)
        if rng.random() < 0.02:
            X = X * 10.0 ** float(rng.choice([-120.0, -60.0, 60.0, 120.0]))
    return X


def _draw_weights(rng: np.random.Generator, n: int, *, moderate: bool) -> Array:
    if rng.random() < 0.3:
        return rng.integers(0, 4, n).astype(float)
    weight = rng.uniform(0.1, 3.0, n)
    return weight if moderate else weight * 10.0 ** rng.uniform(-8.0, 8.0, n)


def _draw_pairs(rng: np.random.Generator, n: int) -> Preferences:
    n_pairs = int(rng.integers(1, 12))
    better = rng.integers(0, n, n_pairs)
    worse = (better + rng.integers(1, n, n_pairs)) % n
    weight = _draw_weights(rng, n_pairs, moderate=True) if rng.random() < 0.5 else None
    return Preferences(better, worse, weight)


def _draw_settings(rng: np.random.Generator, *, moderate: bool) -> LinearSettings:
    loss = str(rng.choice(list(SOLVERS)))
    width = 1.5 if moderate else 8.0
    return LinearSettings(
        C=float(10.0 ** rng.uniform(-width, width)),
        loss=loss,
        reduction=str(rng.choice(list(REDUCTIONS))),
        scaling=None if rng.random() < 0.6 else str(rng.choice([AUTO, *SCALINGS])),
        solver=str(rng.choice(SOLVERS[loss])),
        counting="auto" if rng.random() < 0.6 else str(rng.choice(COUNTINGS)),
        tol=float(10.0 ** rng.uniform(-5.0 if moderate else -12.0, -1.0)),
        max_iter=(1000 if moderate else 100) if rng.random() < 0.8 else int(rng.integers(1, 6)),
    )


def _laid_out(rng: np.random.Generator, X: Array) -> tuple[Any, Array]:
    """Return X in some layout, and its values as they are then."""
    if rng.random() < 0.3 and 1e-30 < np.abs(X).max() < 1e30:
        X = X.astype(np.float32)
    values = np.asarray(X, dtype=np.float64)
    layouts: list[Callable[[Array], Any]] = [
        np.ascontiguousarray, np.asfortranarray, sp.csr_array, sp.csc_array, _repeated,
    ]  # fmt: skip
    return layouts[int(rng.integers(len(layouts)))](X), values


def _repeated(X: Array) -> Any:
    """Every entry stands for two halves: these are exact."""
    features = np.tile(np.arange(X.shape[1]), X.shape[0])
    halves = np.repeat(X.ravel() / 2, 2)
    start = np.arange(0, 2 * X.size + 1, 2 * X.shape[1])
    return sp.csr_array((halves, np.repeat(features, 2), start), shape=X.shape)


# --- Checking ------------------------------------------------------------------------------------


class Broken(AssertionError):
    """A certificate that does not hold."""


def check(
    fit: Fit, value: Fraction, exact: ExactProblem, starts: Sequence[Vector], case: Case
) -> None:
    """Check one fit; ``value`` is F at its coefficients."""
    objective, gap = Fraction(fit.objective), Fraction(fit.gap)
    lower = objective - gap
    if not value <= objective:
        raise Broken(f"F(coef) is {float(value / objective - 1):.3g} above the objective: {fit}")
    if not lower <= value:
        raise Broken(f"F(coef) is below objective - gap: {fit}")
    lowest = min(value, exact.lowest(starts))
    if lowest < lower:
        raise Broken(
            f"a lower point exists: {float(lowest)!r} < {fit.objective!r} - {fit.gap!r}, by "
            f"{float((lower - lowest) / objective):.3g} of the objective: {fit}"
        )
    within = fit.gap <= fit.tol * fit.objective * (1.0 + 1e-12)
    if (fit.status is Status.CONVERGED) > within:
        raise Broken(f"not converged: {fit}")
    if fit.status is Status.STALLED and fit.gap < 0.999 * fit.tol * fit.objective:
        raise Broken(f"not stalled: {fit}")
    if fit.status is Status.STALLED and case.is_easy and _can_certify(fit, exact):
        raise Broken(f"nothing is extreme, and it did not converge: {fit}")


def _can_certify(fit: Fit, exact: ExactProblem) -> bool:
    """Whether rounding is far below the tolerance.

    Sums over pairs cancel: what is left of them must not be small against their parts.
    """
    spread = 1.0 + float(np.ptp(fit.point.scores))
    parts = float(sum(exact.weight)) * spread**exact.power * len(fit.point.scores)
    return bool(ROUNDING * parts <= 1e-3 * fit.tol * fit.objective)


def linear_case(rng: np.random.Generator) -> None:
    """One fit, from zero or from somewhere."""
    case = draw_case(rng)
    X, values = _laid_out(rng, case.X)
    problem = LinearProblem(case.data(X), case.settings)
    start = None
    if rng.random() < 0.3:
        start = rng.normal(size=values.shape[1]) * 10.0 ** rng.uniform(-8.0, 8.0)
    check_linear(case, model_rows(problem, values), problem.solve(start=start), case.settings.C)


def warm_case(rng: np.random.Generator) -> None:
    """The estimator, from one C to another.

    Weights of features as they are are rounded: F is not exactly that of the scaled ones.
    """
    case = replace(draw_case(rng), preferences=None)
    if case.y is None:
        return
    case = replace(case, settings=replace(case.settings, scaling=None))
    params = {name: getattr(case.settings, name) for name in case.settings.__dataclass_fields__}
    model = LinearRankSVM(**params, warm_start=True)
    weights = {"sample_weight": case.item_weight, "query_weight": case.query_weight}
    if not case.has_pairs:
        return
    width = 2.0 if case.moderate else 10.0
    for _ in range(2):
        model.fit(case.X, case.y, case.qid, **weights)
        status = Status[model.status_.upper()]
        found = LinearProblem(case.data(case.X), case.settings)
        point = found.objective(model.C).point(model.coef_)
        fit = Fit(
            point, model.objective_, model.gap_, model.n_iter_, model.n_products_, model.n_pairs_,
            status, (), case.settings.solver, case.settings.tol,
        )  # fmt: skip
        check_linear(case, model_rows(found, case.X), fit, model.C)
        model.set_params(C=float(case.settings.C * 10.0 ** rng.uniform(-width, width)))


def path_case(rng: np.random.Generator) -> None:
    """A path over C, alone or guided by that of a larger set."""
    case = draw_case(rng)
    X, values = _laid_out(rng, case.X)
    width = 1.5 if case.moderate else 6.0
    Cs = case.settings.C * 10.0 ** rng.uniform(-width, width, int(rng.integers(2, 6)))
    Cs = np.unique(Cs)
    problem = LinearProblem(case.data(X), case.settings)
    guide = None
    if case.preferences is None and rng.random() < 0.3:
        more = np.vstack([values, rng.normal(size=(2, values.shape[1])) * np.std(values)])
        utility = np.concatenate([case.y, [0.0, 1.0]])  # type: ignore[list-item]
        larger = RankingData(more, utility, np.concatenate([case.qid, [0, 0]]))
        other = LinearProblem(larger, case.settings)
        others = [other.shared_point(fit.point) for fit in fit_path(other, Cs)]
        rows = np.arange(len(values))
        # Points of other quantiles are points of other features.
        if problem.settings.scaling != "quantile":
            guide = lambda k: problem.known_point(others[k], rows)  # noqa: E731
    items = model_rows(problem, values)
    for C, fit in zip(Cs.tolist(), fit_path(problem, Cs, guide=guide), strict=True):
        check_linear(case, items, fit, C)


def shard_case(rng: np.random.Generator) -> None:
    """A path over C on data in shards, whose pairs are local or gathered."""
    case = replace(draw_case(rng), preferences=None)
    if case.y is None or not case.has_pairs:
        return
    if rng.random() < 0.5:  # sorted queries are mostly complete in one shard
        order = np.argsort(case.qid, kind="stable")
        weight = None if case.item_weight is None else case.item_weight[order]
        own = None if case.query_weight is None else rng.permutation(case.query_weight)
        case = replace(
            case, X=case.X[order], y=case.y[order], qid=case.qid[order], item_weight=weight,
            query_weight=own,
        )  # fmt: skip
        if not case.has_pairs:
            return
    X, values = _laid_out(rng, case.X)
    data = case.data(X.tocsr() if sp.issparse(X) else X)
    cuts = rng.integers(0, data.n_items, int(rng.integers(0, 5))).tolist()
    problem = LinearProblem(_cut(data, cuts, rng), case.settings)
    width = 1.0 if case.moderate else 5.0
    Cs = case.settings.C * 10.0 ** rng.uniform(-width, width, int(rng.integers(1, 4)))
    Cs = np.unique(Cs)
    items = model_rows(problem, values)
    values = np.array(items, dtype=np.float64)
    for C, fit in zip(Cs.tolist(), fit_path(problem, Cs), strict=True):
        known = replace(fit, point=fit.point._replace(scores=values @ fit.coef))
        check_linear(case, items, known, C)


def _cut(data: RankingData, cuts: list[int], rng: np.random.Generator) -> RankingData:
    shards = []
    for begin, end in pairwise([0, *sorted(set(cuts) - {0}), data.n_items]):
        part = data.take(np.arange(begin, end))
        shards.append(
            Shard(
                RowBlock(lambda X=part.X: X),
                part.n_items,
                y=part.y,
                query=part.qid,
                item_weight=part.item_weight,
            )
        )
    made = LocalShards(shards, data.n_features, data.X.dtype, is_sparse=sp.issparse(data.X))
    made.facts.groups = data.groups
    made.keeps = frozenset(name for name in KEEPS if rng.random() < 0.7)
    return replace(data, X=ShardedMatrix(made))


def model_rows(problem: LinearProblem, values: Array) -> list[Vector]:
    """Return the items as the problem sees them: scaled, exactly or by the quantiles it found."""
    if problem._quantiles is not None:
        values = problem._quantiles.apply(values)
    rows = [rational(row) for row in values]
    if problem._units is None:
        return rows
    units = rational(problem._units)
    return [[x * unit for x, unit in zip(row, units, strict=True)] for row in rows]


def check_linear(case: Case, items: list[Vector], fit: Fit, C: float) -> None:
    exact = case.exact(items, C)
    w = rational(fit.coef)
    check(fit, exact.value(w), exact, [w], case)


def _without_removed_gains(case: Case) -> Case:
    """Return the case with positive item weights, if pairs are weighted by real-valued gains.

    Kernel problems leave out items of weight zero, and gains are taken from the lowest one left.
    """
    weight = case.item_weight
    if weight is None or case.settings.pair_weight == "uniform":
        return case
    return replace(case, item_weight=np.where(weight > 0.0, weight, 1.0))


def kernel_case(rng: np.random.Generator) -> None:
    """A kernel of whole vectors, whose values are exact; or one whose values are what it is."""
    case = _without_removed_gains(draw_case(rng))
    Z = rng.integers(-4, 5, case.X.shape).astype(float) * 2.0 ** rng.integers(-3, 4)
    kernel = str(rng.choice(["precomputed", "linear", "rbf"]))
    precise = kernel != "rbf"
    if precise:  # scaled vectors are not whole
        case = replace(case, settings=replace(case.settings, scaling=None))
    settings = KernelSettings(
        **{name: getattr(case.settings, name) for name in case.settings.__dataclass_fields__},
        kernel=kernel,
        gamma=0.5,
        dtype=str(rng.choice(["float64", "float32"])),
    )
    given = (Z @ Z.T).astype(settings.dtype) if settings.kernel == "precomputed" else Z
    problem = KernelProblem(case.data(given), settings)
    fit = problem.solve()
    items = problem.items.tolist()
    gram: Any = problem._map.gram  # type: ignore[attr-defined]
    places = np.arange(len(items))
    K = np.triu(gram.block(places, places).astype(np.float64))
    values = [rational(row) for row in (K + np.triu(K, 1).T)]
    beta = rational(fit.coef)
    scores = [sum((a * b for a, b in zip(row, beta, strict=True)), Fraction(0)) for row in values]
    norm2 = sum((a * b for a, b in zip(beta, scores, strict=True)), Fraction(0))
    full = [Fraction(0)] * len(case.qid)
    for place, score in zip(items, scores, strict=True):
        full[place] = score
    exact = case.exact([rational(row) for row in Z], settings.C)
    value = exact.value_of(norm2, full)
    if not precise:
        # Of a matrix of rounded values the minimum is not known; other points are.
        other = replace(settings, solver=SOLVERS[settings.loss][0], tol=1e-3)
        second = KernelProblem(case.data(given), other).solve()
        if second.objective < fit.objective - fit.gap:
            raise Broken(f"another solver is lower: {second} against {fit}")
        if not value <= Fraction(fit.objective):
            raise Broken(f"F(coef) is above the objective: {fit}")
        return
    w = [sum((b * z[j] for b, z in zip(beta, _rows(Z, items), strict=True)), Fraction(0))
         for j in range(Z.shape[1])]  # fmt: skip
    check(fit, value, exact, [w], replace(case, moderate=False))


def _rows(Z: Array, items: list[int]) -> list[Vector]:
    return [rational(Z[i]) for i in items]


def feature_case(rng: np.random.Generator) -> None:
    """Nystrom and random Fourier features: the problem is that of the features as they are."""
    case = _without_removed_gains(draw_case(rng))
    if len(case.qid) > WHOLE:
        return
    settings = KernelSettings(
        **{name: getattr(case.settings, name) for name in case.settings.__dataclass_fields__},
        kernel="rbf",
        gamma=0.5,
        approximation=str(rng.choice(["nystroem", "fourier"])),
        n_components=int(rng.integers(1, 4)),
        dtype=str(rng.choice(["float64", "float32"])),
        random_state=int(rng.integers(100)),
    )
    Z = rng.normal(size=case.X.shape)
    settings = replace(settings, n_components=min(settings.n_components, len(Z)))
    problem = KernelProblem(case.data(Z), settings)
    fit = problem.solve()
    score_map: Any = problem._map
    values = score_map._values(np.arange(score_map.shape[0]))
    A = [rational(row) for row in values.astype(np.float64)]
    if isinstance(score_map, NystroemMap):
        M = [rational(row) for row in score_map._whitening._stored[0]]
        A = [[sum((a * m[j] for a, m in zip(row, M, strict=True)), Fraction(0))
              for j in range(len(M[0]))] for row in A]  # fmt: skip
    rows = [[Fraction(0)] * len(A[0]) for _ in case.qid]
    for place, row in zip(problem.items.tolist(), A, strict=True):
        rows[place] = row
    exact = case.exact(rows, settings.C)
    w = rational(fit.coef)
    check(fit, exact.value(w), exact, [w], replace(case, moderate=False))


def factorized_case(rng: np.random.Generator) -> None:
    """Factorized multipliers: F at their weights, certified by the linear machine."""
    case = replace(draw_case(rng), preferences=None)
    if case.y is None or not case.has_pairs:
        return
    settings = FactorizedSettings(
        C=case.settings.C,
        loss=case.settings.loss,
        reduction=case.settings.reduction,
        pair_weight=case.settings.pair_weight,
        gain=case.settings.gain,
        discount=case.settings.discount,
        scaling=None if case.settings.scaling == "quantile" else case.settings.scaling,
        tol=case.settings.tol,
        max_iter=20,
        n_factors=2,
        random_state=int(rng.integers(100)),
    )
    problem = FactorizedProblem(case.data(case.X), settings)
    fit = problem.solve()
    exact = case.exact(model_rows(problem._linear, case.X), case.settings.C)
    w = rational(fit.coef)
    check(fit, exact.value(w), exact, [w], replace(case, moderate=False))


# How often, and what.
KINDS: dict[Callable[[np.random.Generator], None], float] = {
    linear_case: 0.35,
    warm_case: 0.15,
    path_case: 0.2,
    shard_case: 0.1,
    kernel_case: 0.1,
    feature_case: 0.05,
    factorized_case: 0.05,
}


def one(draw: random.Random) -> str:
    """Draw and check a case; return what kind it was."""
    rng = np.random.default_rng(draw.getrandbits(64))
    kinds = list(KINDS)
    kind = kinds[int(rng.choice(len(kinds), p=list(KINDS.values())))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that end early say so in their status, too
        try:
            kind(rng)
        except OverflowError as error:
            if "too large for float64" not in str(error):
                raise
            return "refused"
    return kind.__name__


def run(seconds: float, seed: int) -> int:
    """Run cases for some time; raise at the first that goes wrong."""
    return repeat("certificates", one, seconds, seed)


def _told(seed: int) -> tuple[int, str, str]:
    try:
        return seed, one(random.Random(seed)), ""
    except Exception as error:  # everything that goes wrong is a finding
        return seed, "broken", f"{type(error).__name__}: {error}"


def main() -> None:
    """Check many cases on all cores, and tell of every failure."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.certificates")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, help="of the first case; a new one by default")
    given = parser.parse_args()
    first = secrets.randbelow(10**9) if given.seed is None else given.seed
    print(f"certificates: {given.cases:,} cases, seeds from {first}", flush=True)
    kinds: Counter[str] = Counter()
    began = time.monotonic()
    seeds = range(first, first + given.cases)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for done, (seed, kind, error) in enumerate(pool.imap_unordered(_told, seeds, 50), 1):
            kinds[kind] += 1
            if error:
                print(f"broken: --seed {seed} --cases 1: {error[:600]}", flush=True)
            if done % 10_000 == 0:
                print(f"  {done:,} cases, {time.monotonic() - began:.0f} s", flush=True)
    found = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    print(f"certificates: {found}; {time.monotonic() - began:.0f} s")
    sys.exit(1 if kinds["broken"] else 0)


if __name__ == "__main__":
    main()
