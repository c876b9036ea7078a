"""Explicit preferences: the list, its statistics and losses, and models that learn from it.

Statistics are compared exactly: the weights drawn are multiples of 1/4, so their sums are exact in
any order.  The optimum is unique, and F is strongly convex: two solutions of one problem with gaps
g and h are at most sqrt(2 g) + sqrt(2 h) apart.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

import ranksvm.maps.kernel as kernel_module
from ranksvm import KernelRankSVM, LinearRankSVM, load
from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.backends.reference import ReferencePairList
from ranksvm.data.preferences import (
    Preferences,
    check_preferences,
    connected_items,
    count_contradictions,
    paired_items,
    positive_pairs,
)
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import LinearProblem, LinearSettings, read_model
from ranksvm.pairs.oracle import LOSSES, Hinge, PairLoss, SmoothedHinge, SumLoss
from ranksvm.pairs.order import PairOrder

MODERATE = st.floats(-4, 4).map(lambda v: round(v, 3))
ANY_SCORES = st.one_of(
    MODERATE,
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),  # ties and exact margins
    st.sampled_from([1e304, -1e304, 1e16, 1e16 + 2, 5e-324, -5e-324]),
)
SOLVERS = [
    ("squared_hinge", "newton"),
    ("squared_hinge", "bundle"),
    ("hinge", "bundle"),
    ("hinge", "smoothed_newton"),
]


@st.composite
def lists(draw: st.DrawFn) -> tuple[Preferences, int]:
    """Few items, so that pairs come twice and both ways; items without a pair at the end."""
    n = draw(st.integers(2, 7))
    one = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1))
    pairs = draw(st.lists(one, min_size=1, max_size=15))
    better = np.array([b for b, _ in pairs])
    worse = np.array([(b + step) % n for b, step in pairs])
    weight = None
    if draw(st.booleans()):
        values = draw(st.lists(st.integers(0, 9), min_size=len(pairs), max_size=len(pairs)))
        weight = np.array(values) / 4.0
    return Preferences(better, worse, weight), n + draw(st.integers(0, 2))


def vectors(draw: st.DrawFn, values: st.SearchStrategy[float], n: int) -> Array:
    return np.array(draw(st.lists(values, min_size=n, max_size=n)))


def weights_of(preferences: Preferences) -> Array:
    if preferences.weight is None:
        return np.ones(len(preferences.better))
    return preferences.weight


def pairs_of(y: Array, qid: np.ndarray, item_weight: Array | None = None) -> Preferences:
    """All comparable pairs."""
    better, worse = np.nonzero((qid[:, None] == qid[None, :]) & (y[:, None] > y[None, :]))
    weight = None if item_weight is None else item_weight[better] * item_weight[worse]
    return Preferences(better, worse, weight)


# --- The list ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse", "weight", "message"),
    [
        ([], [], None, "are empty. Give at least one pair"),
        ([0, 1], [1], None, "got 2 and 1"),
        ([[0, 1]], [1], None, r"better must be one-dimensional.* got shape \(1, 2\)"),
        ([0], [[1], [1, 2]], None, "worse must be one-dimensional; got a ragged"),
        ("better", [1], None, r"better must be one-dimensional.* got shape \(\)"),
        (["0"], [1], None, "better must hold row numbers; got values of type <U1"),
        ([True], [1], None, "better must hold row numbers; got values of type bool"),
        ([None], [1], None, "better must hold row numbers; got values of type object"),
        ([0, 0.5, np.nan], [1] * 3, None, r"whole numbers; got 0.5 in pair 1 \(2 of 3 pairs\)"),
        ([0, np.inf], [1, 1], None, "whole numbers; got inf in pair 1"),
        ([0, 1], [1, -1], None, r"worse has row numbers .* got -1 in pair 1.* rows 0 to 4 \(1 of"),
        ([0, 5, 9], [1, 1, 1], None, r"better has row .* got 5 in pair 1.* \(2 of 3 pairs\)"),
        ([1e300], [1], None, "got 1e\\+300 in pair 0"),
        (np.array([2**64 - 1], np.uint64), [1], None, f"got {2**64 - 1} in pair 0"),
        ([0, 1, 3], [1, 1, 3], None, "2 of 3 pairs prefer an item to itself, first pair 1: row 1"),
        ([0, 1], [1, 2], [1.0], "weight has 1 values for 2 pairs"),
        ([0, 1], [1, 2], [[1.0, 1.0]], "weight must be one-dimensional"),
        ([0, 1], [1, 2], ["a", "b"], "weight must be numbers"),
        ([0, 1], [1, 2], [1.0, -1.0], "not negative; got -1.0 in pair 1"),
        ([0, 1], [1, 2], [np.nan, np.inf], r"finite .* got nan in pair 0 \(2 such values\)"),
        ([0, 1], [1, 2], [0.0, 0.0], "weight is zero everywhere"),
    ],
)
def test_what_is_no_list_of_pairs(better, worse, weight, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_preferences(better, worse, weight, 5)


@pytest.mark.parametrize(
    "rows",
    [
        [0, 4],
        (0.0, 4.0),
        np.array([0, 4], np.uint8),
        np.array([0, 9, 4])[::2],
        pd.Series([0, 4], index=[7, 3]),
    ],
)
def test_row_numbers_of_any_kind(rows) -> None:
    found = check_preferences(rows, [1, 2], pd.Series([0, 2]), 5)
    for got, expected in zip(found, ([0, 4], [1, 2], [0.0, 2.0]), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.flags.c_contiguous
    assert [part.dtype for part in found] == [np.int64, np.int64, np.float64]


@given(case=lists())
def test_contradictions_and_components(case: tuple[Preferences, int]) -> None:
    preferences, n = case
    edges = {
        (b, w)
        for b, w, weight in zip(
            preferences.better.tolist(),
            preferences.worse.tolist(),
            weights_of(preferences),
            strict=True,
        )
        if weight > 0.0
    }
    assert count_contradictions(preferences) == sum((w, b) in edges for b, w in edges) // 2
    label = list(range(n))
    for b, w in edges:
        label = [label[b] if x == label[w] else x for x in label]
    index = connected_items(preferences, n).index
    paired = {i for edge in edges for i in edge}
    assert set(np.flatnonzero(paired_items(preferences, n))) == paired
    for i in range(n):
        for j in range(n):
            together = label[i] == label[j] if i in paired and j in paired else True
            if (i in paired) == (j in paired):
                assert (index[i] == index[j]) == together
            else:
                assert index[i] != index[j]


def test_many_duplicates_are_no_contradiction_and_one_component() -> None:
    preferences = Preferences(np.zeros(1000, np.int64), np.ones(1000, np.int64))
    assert count_contradictions(preferences) == 0
    assert connected_items(preferences, 3).sizes.tolist() == [2, 1]


# --- Statistics ----------------------------------------------------------------------------------


@given(
    case=lists(),
    data=st.data(),
    factor=st.sampled_from([1.0, 0.5]),
    margin=st.sampled_from([1.0, 0.5]),
)
def test_statistics(case, data, factor: float, margin: float) -> None:
    preferences, n = case
    scores = vectors(data.draw, ANY_SCORES, n)
    x = vectors(data.draw, MODERATE, n)
    truth = ReferencePairList(preferences, n)
    truth.set_query_weight(np.array([factor]))
    expected = truth.at(scores).plan(margin, products=True)
    for n_threads in (1, 2):
        backend = PairListBackend(preferences, n, n_threads=n_threads)
        assert list(backend.pairs) == truth.pairs
        np.testing.assert_array_equal(backend.pair_weights, truth.pair_weights)
        np.testing.assert_array_equal(backend.groups.index, truth.groups.index)
        backend.set_query_weight(np.array([factor]))
        snapshot = backend.at(scores)
        plan = snapshot.plan(margin, products=True)
        assert plan.total == expected.total
        np.testing.assert_array_equal(plan.imbalance, expected.imbalance)
        for got, right in zip(plan.counts(), expected.counts(), strict=True):
            np.testing.assert_array_equal(got, right)
        np.testing.assert_allclose(plan.laplacian(x), expected.laplacian(x), atol=1e-11)
        for got, right in zip(plan.sums(x), expected.sums(x), strict=True):
            np.testing.assert_allclose(got, right, atol=1e-11)
        spread = float(np.abs(snapshot.centred).max())
        np.testing.assert_allclose(
            plan.score_laplacian(), expected.score_laplacian(), rtol=0, atol=1e-12 * spread
        )


def test_scores_are_centred_inside_components() -> None:
    backend = PairListBackend(Preferences(np.array([0, 2]), np.array([1, 3])), 5)
    centred = backend.at(np.array([1e9, 1e9 + 2, -5.0, -4.0, 7.0])).centred
    np.testing.assert_array_equal(centred, [-1.0, 1.0, -0.5, 0.5, 0.0])
    huge = backend.at(np.array([1.7e308, 1.7e308, 0.0, 0.0, 0.0])).centred
    np.testing.assert_array_equal(huge, np.zeros(5))


def test_a_plan_refuses_scores_without_an_order() -> None:
    backend = PairListBackend(Preferences(np.array([0]), np.array([1])), 2)
    with pytest.raises(OverflowError, match="infinite or NaN and have no order"):
        backend.at(np.array([0.0, np.nan])).plan(1.0, products=True)


# --- Losses --------------------------------------------------------------------------------------


def power(preferences: Preferences, scores: Array, exponent: int) -> Fraction:
    """Sum of weight * max(0, 1 - s_b + s_w)^exponent, without rounding."""
    total = Fraction(0)
    for b, w, weight in zip(
        preferences.better, preferences.worse, weights_of(preferences), strict=True
    ):
        slack = 1 - Fraction(float(scores[b])) + Fraction(float(scores[w]))
        total += Fraction(float(weight)) * max(Fraction(0), slack) ** exponent
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.1, 1.0, 1e3, 1e7])
def test_rounding_is_bounded(spread: float, weighted: bool) -> None:
    """Also where the scores of a component lie far from zero, and slacks are small differences."""
    rng = np.random.default_rng(int(spread) + weighted)
    n, n_pairs = 60, 4000
    for offset in (0.0, 1e6):
        half = rng.integers(0, 2, n_pairs) * (n // 2)  # two components
        better = rng.integers(0, n // 2, n_pairs)
        worse = (better + rng.integers(1, n // 2, n_pairs)) % (n // 2)
        weight = rng.random(n_pairs) if weighted else None
        preferences = Preferences(better + half, worse + half, weight)
        scores = spread * rng.normal(size=n) + offset * (np.arange(n) < n // 2)
        backend = PairListBackend(preferences, n)
        hinge, square = (power(preferences, scores, k) for k in (1, 2))
        for loss, truth in (
            (Hinge(backend), hinge),
            (LOSSES["squared_hinge"](backend), square),
            (SmoothedHinge(backend, 0.01), hinge),
        ):
            at = loss.at(scores)
            bound = at.errors.stated + at.blurred(0.0)
            assert abs(Fraction(at.stated) - truth) <= Fraction(bound)
            assert bound <= 1e-10 * max(float(truth), spread**2 * n_pairs) / 0.01


def tolerance(solver: str) -> float:
    """As small as one may ask for: rounding of weighted sums lets smoothing go only so far."""
    return 1e-6 if solver == "smoothed_newton" else 1e-7


def kinds(preferences: Preferences, n: int, name: str) -> list[PairLoss]:
    """A loss of a list, one of utilities, and their sum."""
    rng = np.random.default_rng(n)
    order = PairOrder(
        np.round(rng.normal(size=n)), QueryGroups.from_qid(np.arange(n) % 3, n), rng.random(n)
    )
    utilities = NativeBackend(order)
    utilities.set_query_weight(np.array([0.5, 1.0, 2.0]))
    listed = PairListBackend(preferences, n)
    listed.set_query_weight(np.array([0.75]))
    base = "squared_hinge" if name == "squared_hinge" else "hinge"
    parts = [LOSSES[base](backend) for backend in (utilities, listed)]
    total = SumLoss(parts)
    if name == "smoothed":
        return [part.smoothed(0.3) for part in (*parts, total)]
    return [*parts, total]


def random_list(seed: int, n: int, n_pairs: int) -> Preferences:
    rng = np.random.default_rng(seed)
    better = rng.integers(0, n, n_pairs)
    worse = (better + rng.integers(1, n, n_pairs)) % n
    return Preferences(better, worse, rng.random(n_pairs))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "smoothed"])
def test_numeric_derivatives(name: str, seed: int) -> None:
    n, step = 21, 1e-6
    preferences = random_list(seed, n, 50)
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    for loss in kinds(preferences, n, name):
        at = loss.at(scores)
        for d in [*np.eye(n)[::6], rng.normal(size=n)]:
            ahead, behind = loss.at(scores + step * d), loss.at(scores - step * d)
            slope = (ahead.value - behind.value) / (2 * step)
            assert float(at.grad @ d) == pytest.approx(slope, rel=1e-5, abs=1e-5)
            if at.hessp is not None:
                change = (ahead.grad - behind.grad) / (2 * step)
                np.testing.assert_allclose(at.hessp(d), change, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "smoothed"])
def test_a_sum_of_losses(name: str) -> None:
    n = 21
    utilities, listed, total = kinds(random_list(0, n, 50), n, name)
    scores, d = np.random.default_rng(1).normal(size=(2, n))
    parts, at = [loss.at(scores) for loss in (utilities, listed)], total.at(scores)
    assert total.capabilities == listed.capabilities
    for field in ("value", "stated", "dual_linear", "dual_quadratic", "steepness"):
        assert getattr(at, field) == pytest.approx(sum(getattr(part, field) for part in parts))
    assert at.dual_scale == parts[0].dual_scale == parts[1].dual_scale
    np.testing.assert_allclose(at.grad, parts[0].grad + parts[1].grad)
    if name == "hinge":
        assert at.hessp is None
        assert at.degrees is None
        return
    np.testing.assert_allclose(at.hessp(d), parts[0].hessp(d) + parts[1].hessp(d))
    hessian = np.array([at.hessp(unit) for unit in np.eye(n)])
    (first, queries), (second, components) = at.degrees()
    np.testing.assert_allclose(first + second, np.diag(hessian), atol=1e-12)
    assert queries.n_queries == 3
    np.testing.assert_array_equal(components.index, 0)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "smoothed"])
@given(data=st.data(), share=st.floats(0.0, 1.0))
def test_multipliers_of_a_sum_are_feasible(name: str, data, share: float) -> None:
    """Fenchel and Young: theta <g, s'> + theta A1 - theta^2 A2 is below the loss at every s'."""
    n = 9
    preferences = random_list(2, n, 12)
    loss = kinds(preferences, n, name)[2]
    stated = kinds(preferences, n, "hinge" if name == "smoothed" else name)[2]
    at = loss.at(vectors(data.draw, MODERATE, n))
    theta = share * min(at.dual_scale, 3.0)
    elsewhere = vectors(data.draw, MODERATE, n)
    bound = theta * float(at.grad @ elsewhere) + theta * at.dual_linear
    bound -= theta**2 * at.dual_quadratic
    assert bound <= stated.at(elsewhere).value + 1e-9


# --- Models --------------------------------------------------------------------------------------


class Data:
    """A small noisy set in queries."""

    def __init__(self, n: int = 60, dim: int = 4, n_queries: int = 5, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, dim))
        self.y = np.round(self.X @ rng.normal(size=dim) + rng.normal(size=n))
        self.qid = rng.integers(0, n_queries, n)
        self.item_weight = rng.random(n)
        self.across = random_list(seed, n, 2 * n)


def fit_list(model, X, preferences: Preferences, **options):
    """Fit pairs; contradictions, and pairs that the labels imply, are expected."""
    better, worse, weight = preferences
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* preferred both ways")
        warnings.filterwarnings("ignore", message=".* from the labels as well")
        return model.fit_pairs(X, better, worse, weight=weight, **options)


def check_same_model(one, other, X) -> None:
    """Two solutions of one problem: equal as far as their gaps tell."""
    assert one.status_ == other.status_ == "converged"
    assert one.n_pairs_ == other.n_pairs_
    assert one.objective_ == pytest.approx(other.objective_, abs=one.gap_ + other.gap_ + 1e-9)
    apart = np.sqrt(2 * one.gap_) + np.sqrt(2 * other.gap_) + 1e-7
    if hasattr(one, "kernel"):  # scores are at most |phi| = 1 times as far apart
        assert np.abs(one.predict(X) - other.predict(X)).max() <= 1.5 * apart
    else:
        assert np.linalg.norm(one.coef_ - other.coef_) <= apart


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_pairs_of_utilities_give_the_same_model(
    layout, loss: str, solver: str, reduction: str, weighted: bool
) -> None:
    data = Data()
    X = layout(data.X)
    weight = data.item_weight if weighted else None
    C = 10.0 if reduction == "mean" else 0.1
    tol = tolerance(solver)
    model = LinearRankSVM(C, loss=loss, solver=solver, reduction=reduction, tol=tol, scaling=None)
    fitted = model.fit(X, data.y, qid=data.qid, sample_weight=weight)
    listed = LinearRankSVM(**model.get_params())
    fit_list(listed, X, pairs_of(data.y, data.qid, weight))
    check_same_model(fitted, listed, X)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"approximation": "nystroem", "n_components": 20},
        {"approximation": "fourier", "n_components": 80},
    ],
)
def test_pairs_of_utilities_give_the_same_kernel_model(
    options, loss: str, solver: str, weighted: bool
) -> None:
    data = Data()
    weight = data.item_weight if weighted else None
    model = KernelRankSVM(
        5.0, gamma=0.3, loss=loss, solver=solver, tol=1e-6, random_state=0, **options, scaling=None
    )
    fitted = model.fit(data.X, data.y, qid=data.qid, sample_weight=weight)
    listed = KernelRankSVM(**model.get_params())
    fit_list(listed, data.X, pairs_of(data.y, data.qid, weight))
    check_same_model(fitted, listed, data.X)


@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
def test_pairs_across_queries_against_liblinear(loss: str, solver: str) -> None:
    data = Data()
    C = 0.2
    better, worse, weight = data.across
    model = LinearRankSVM(
        C, loss=loss, solver=solver, reduction="sum", tol=1e-8, max_iter=5000, scaling=None
    )
    fit_list(model, data.X, data.across)
    rows = data.X[better] - data.X[worse]
    side = np.where(np.arange(len(rows)) % 2, 1.0, -1.0)  # it wants two classes
    svc = LinearSVC(loss=loss, C=C, fit_intercept=False, dual=True, tol=1e-10, max_iter=10**6)
    svc.fit(rows * side[:, None], side, sample_weight=weight)
    w = svc.coef_[0]
    slack = np.maximum(0.0, 1.0 - rows @ w)
    theirs = 0.5 * w @ w + C * weight @ slack ** (1 if loss == "hinge" else 2)
    assert model.objective_ - model.gap_ <= theirs * (1.0 + 1e-12)
    assert model.objective_ == pytest.approx(theirs, rel=1e-6)
    np.testing.assert_allclose(model.coef_, w, atol=1e-3)


@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
@pytest.mark.parametrize("mixed", [False, True])
def test_the_certificate_is_true(mixed: bool, loss: str, solver: str, tol: float) -> None:
    data = Data(seed=3)
    options = {"y": data.y, "qid": data.qid} if mixed else {}
    model = LinearRankSVM(30.0, loss=loss, solver=solver, scaling=None)
    near = tolerance(solver)
    best = fit_list(model.set_params(tol=near), data.X, data.across, **options).objective_
    rough = fit_list(model.set_params(tol=tol), data.X, data.across, **options)
    assert rough.gap_ <= tol * rough.objective_
    assert -near * best <= rough.objective_ - best <= rough.gap_
    slack = np.maximum(
        0.0,
        1.0 - data.X[data.across.better] @ rough.coef_ + data.X[data.across.worse] @ rough.coef_,
    )
    if not mixed:  # and the objective is what it is said to be
        value = np.average(slack ** (1 if loss == "hinge" else 2), weights=data.across.weight)
        expected = 0.5 * rough.coef_ @ rough.coef_ + 30.0 * value
        assert rough.objective_ == pytest.approx(expected, rel=1e-10)


def together(data: Data, reduction: str) -> Preferences:
    """All pairs of a mix in one list, with the weights that they have in a plain sum."""
    of_utilities = pairs_of(data.y, data.qid, data.item_weight)
    first, second = of_utilities.weight, data.across.weight
    assert first is not None
    assert second is not None
    if reduction == "query_mean":
        query = data.qid[of_utilities.better]
        other = data.qid[data.across.better]
        other = np.where(other == data.qid[data.across.worse], other, 5)  # one more query
        mass = np.bincount(query, first, 6) + np.bincount(other, second, 6)
        parts = np.sum(mass > 0.0)
        first, second = first / mass[query] / parts, second / mass[other] / parts
    elif reduction == "mean":
        total = first.sum() + second.sum()
        first, second = first / total, second / total
    sides = ((list_.better, list_.worse) for list_ in (of_utilities, data.across))
    joined = (np.concatenate(both) for both in zip(*sides, strict=True))
    return Preferences(*joined, np.concatenate([first, second]))


@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
def test_a_mix_is_the_sum_of_both(loss: str, solver: str, reduction: str) -> None:
    data = Data(seed=1)
    C = 0.1 if reduction == "sum" else 10.0
    tol = tolerance(solver)
    mixed = LinearRankSVM(C, loss=loss, solver=solver, reduction=reduction, tol=tol, scaling=None)
    fit_list(mixed, data.X, data.across, y=data.y, qid=data.qid, sample_weight=data.item_weight)
    listed = LinearRankSVM(C, loss=loss, solver=solver, reduction="sum", tol=tol, scaling=None)
    fit_list(listed, data.X, together(data, reduction))
    check_same_model(mixed, listed, data.X)


@pytest.mark.parametrize("options", [{}, {"approximation": "nystroem", "n_components": 100}])
def test_a_mix_with_kernels_and_their_preconditioners(
    options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_module, "STEP_TIME", 0.0)  # the preconditioner comes at once
    monkeypatch.setattr(kernel_module, "VALUE_TIME", 0.0)
    data = Data(n=400, n_queries=40)
    shared = {"gamma": 0.3, "random_state": 0, "tol": 1e-6, **options}
    mixed = KernelRankSVM(50.0, **shared, scaling=None)
    fit_list(mixed, data.X, data.across, y=data.y, qid=data.qid, sample_weight=data.item_weight)
    listed = KernelRankSVM(50.0, reduction="sum", **shared, scaling=None)
    fit_list(listed, data.X, together(data, "mean"))
    check_same_model(mixed, listed, data.X)


@pytest.mark.parametrize("X", [np.asarray, sp.csr_array])
def test_a_mix_along_a_path(X) -> None:
    """The scatter of two parts is kept from one C to the next."""
    data = Data(n=300, seed=2)
    items = RankingData(X(data.X), data.y, data.qid, preferences=data.across)
    problem = LinearProblem(items, LinearSettings(tol=1e-6, scaling=None))
    fit = None
    for C in (0.1, 1.0, 10.0, 100.0):
        fit = problem.solve(C, after=fit)
        alone = problem.solve(C)
        assert fit.objective == pytest.approx(alone.objective, abs=fit.gap + alone.gap)


def test_weights_of_queries() -> None:
    """Those of pairs of both kinds; pairs across queries have none."""
    data = Data(seed=4)
    weights = {q: float(q % 2) for q in range(5)}
    of_query = np.array([*weights.values(), 1.0])
    of_utilities, across = pairs_of(data.y, data.qid), data.across
    first = of_query[data.qid[of_utilities.better]]
    same = data.qid[across.better] == data.qid[across.worse]
    second = across.weight * of_query[np.where(same, data.qid[across.better], 5)]
    assert 0 < np.count_nonzero(second == 0.0) < np.count_nonzero(same)
    for y, listed in (
        (data.y, [replace(of_utilities, weight=first), replace(across, weight=second)]),
        (None, [replace(across, weight=second)]),
    ):
        mixed = LinearRankSVM(0.1, reduction="sum", tol=1e-7, scaling=None)
        fit_list(mixed, data.X, across, y=y, qid=data.qid, query_weight=weights)
        joined = [np.concatenate(parts) for parts in zip(*listed, strict=True)]
        plain = LinearRankSVM(0.1, reduction="sum", tol=1e-7, scaling=None)
        fit_list(plain, data.X, Preferences(*joined))
        check_same_model(mixed, plain, data.X)


def test_the_mean_of_one_list_is_that_of_one_query() -> None:
    data = Data()
    models = [
        fit_list(LinearRankSVM(reduction=name, tol=1e-7, scaling=None), data.X, data.across)
        for name in ("mean", "query_mean")
    ]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-9)


@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
@pytest.mark.parametrize("mixed", [False, True])
def test_every_number_of_threads_gives_the_same_bits(mixed, loss: str, solver: str) -> None:
    data = Data(n=20_000, n_queries=500)
    preferences = random_list(5, 20_000, 60_000)
    options = {"y": data.y, "qid": data.qid} if mixed else {}
    models = [
        fit_list(
            LinearRankSVM(loss=loss, solver=solver, n_jobs=k, scaling=None),
            data.X,
            preferences,
            **options,
        )
        for k in (1, 2, 3)
    ]
    for one, other in pairwise(models):
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert (one.objective_, one.gap_) == (other.objective_, other.gap_)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_million_pairs(loss: str) -> None:
    rng = np.random.default_rng(0)
    n, n_pairs = 100_000, 1_000_000
    X = rng.normal(size=(n, 5)).astype(np.float32)
    w = rng.normal(size=5)
    i = rng.integers(0, n, n_pairs)
    j = (i + rng.integers(1, n, n_pairs)) % n
    first = X[i] @ w > X[j] @ w
    model = LinearRankSVM(loss=loss, scaling=None)
    model.fit_pairs(X, np.where(first, i, j), np.where(first, j, i))
    assert model.status_ == "converged"
    assert model.n_pairs_ == n_pairs
    assert w @ model.coef_ > 0.99 * np.linalg.norm(w) * np.linalg.norm(model.coef_)


def test_pairs_of_weight_zero_count_for_nothing() -> None:
    data = Data()
    better, worse, weight = data.across
    some = np.where(np.arange(len(better)) % 3 == 0, 0.0, weight)
    kept = positive_pairs(Preferences(better, worse, some))
    for make in (LinearRankSVM, KernelRankSVM):
        one = fit_list(make(), data.X, Preferences(better, worse, some))
        other = fit_list(make(), data.X, kept)
        np.testing.assert_array_equal(one.predict(data.X), other.predict(data.X))
        assert one.n_pairs_ == len(kept.better) < len(better)


def test_only_items_of_pairs_get_coefficients() -> None:
    data = Data()
    better, worse = [10, 20, 30], [20, 40, 41]
    model = KernelRankSVM(gamma=0.5, scaling=None).fit_pairs(data.X, better, worse)
    assert set(model.support_) <= {10, 20, 30, 40, 41}
    np.testing.assert_array_equal(model.support_vectors_, data.X[model.support_])
    assert model.score_pairs(data.X, better, worse) == 1.0
    K = np.exp(-0.5 * ((data.X[:, None] - data.X[None]) ** 2).sum(axis=2))
    given = KernelRankSVM(kernel="precomputed", scaling=None).fit_pairs(K, better, worse)
    np.testing.assert_array_equal(given.support_, model.support_)
    np.testing.assert_allclose(given.dual_coef_, model.dual_coef_, rtol=1e-6)
    constant = KernelRankSVM(gamma=0.5, scaling=None).fit_pairs(
        data.X, better, worse, y=np.zeros(60)
    )
    np.testing.assert_allclose(constant.dual_coef_, model.dual_coef_, rtol=1e-6)


# --- What users do -------------------------------------------------------------------------------


def test_contradictions_are_counted_in_a_warning() -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    better, worse = [0, 1, 1, 2, 3, 4, 5, 4], [1, 0, 0, 3, 2, 5, 4, 0]
    with pytest.warns(UserWarning, match="3 pairs of items are preferred both ways") as found:
        LinearRankSVM(scaling=None).fit_pairs(X, better, worse)
    assert [w.filename for w in found] == [__file__]
    with pytest.warns(UserWarning, match="1 pair of items is preferred both ways"):
        LinearRankSVM(scaling=None).fit_pairs(X, [0, 1], [1, 0])
    LinearRankSVM(scaling=None).fit_pairs(X, [0, 1], [1, 0], weight=[1.0, 0.0])


@pytest.mark.parametrize(("loss", "solver"), SOLVERS)
def test_nothing_but_contradictions(loss: str, solver: str) -> None:
    X = np.random.default_rng(0).normal(size=(4, 2))
    model = LinearRankSVM(loss=loss, solver=solver, scaling=None)
    fit_list(model, X, Preferences(np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2])))
    assert model.status_ == "converged"
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-2)
    fit_list(model, X, Preferences(np.array([0, 1]), np.array([1, 0]), np.array([5.0, 1.0])))
    assert model.score_pairs(X, [0], [1]) == 1.0


def test_score_of_pairs_is_the_weighted_share() -> None:
    model = LinearRankSVM(scaling=None).fit([[0.0], [1.0]], [0, 1])
    X = [[3.0], [1.0], [1.0], [2.0]]
    better, worse = [0, 1, 1, 2], [1, 2, 3, 0]  # right, tied, wrong, wrong
    assert model.score_pairs(X, better, worse) == pytest.approx(1.5 / 4)
    assert model.score_pairs(X, better, worse, [4.0, 2.0, 1.0, 0.0]) == pytest.approx(5.0 / 7)
    assert model.score_pairs(X, better, worse, [1e308, 1e308, 0, 0]) == pytest.approx(0.75)
    with pytest.raises(ValueError, match=r"worse has row numbers .* got 4 in pair 0"):
        model.score_pairs(X, [0], [4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": [1] * 6}, "sample_weight can only be used with labels, but there is no"),
        ({"query_weight": [1]}, "query_weight needs query ids, but there is no qid"),
        ({"qid": [1] * 6, "query_weight": [1, 2]}, "query_weight has 2 values for 1 "),
        ({"qid": [1] * 5}, "got 5 ids for 6 rows"),
        ({"y": [1, 2]}, "y has 2 values"),
        ({"y": [1] * 6, "qid": [1, 2]}, "got 2 ids for 6 rows"),
        ({"better": [0, 6]}, r"got 6 in pair 1, but X has rows 0 to 5"),
        ({"worse": [0, 1]}, "2 of 2 pairs prefer an item to itself"),
        ({"weight": [0.0, 0.0]}, "zero everywhere"),
        ({"worse": [1, 3], "weight": [1e308, 1e308]}, "pair weights are too large"),
        ({"y": "label"}, "y='label' names a column, but X is a ndarray"),
        ({"X": np.full((6, 2), np.nan)}, "NaN"),
        ({"callback": lambda row, coef: 1 / 0}, "division by zero"),
    ],
)
@pytest.mark.parametrize("make", [LinearRankSVM, KernelRankSVM])
def test_a_fit_that_fails_leaves_the_old_model(make, options, message: str) -> None:
    rng = np.random.default_rng(0)
    old = make().fit(rng.normal(size=(20, 3)), np.arange(20))
    X = rng.normal(size=(5, 3))
    before = old.predict(X)
    arguments = {"X": rng.normal(size=(6, 2)), "better": [0, 1], "worse": [2, 3], **options}
    with pytest.raises((ValueError, ArithmeticError), match=message):
        old.fit_pairs(**arguments)
    np.testing.assert_array_equal(old.predict(X), before)
    assert old.n_features_in_ == 3


def test_an_interrupted_fit_leaves_the_old_model() -> None:
    data = Data()
    model = LinearRankSVM(scaling=None).fit(data.X[:, :2], data.y)
    before = model.coef_.copy()

    def interrupt(row, coef) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_list(model, data.X, data.across, callback=interrupt)
    np.testing.assert_array_equal(model.coef_, before)
    assert model.predict(data.X[:, :2]).shape == (60,)


def test_frames_name_their_columns() -> None:
    data = Data()
    frame = pd.DataFrame(data.X, columns=list("abcd")).assign(label=data.y, query=data.qid)
    model = LinearRankSVM(scaling=None)
    fit_list(model, frame, data.across, y="label", qid="query")
    plain = fit_list(LinearRankSVM(scaling=None), data.X, data.across, y=data.y, qid=data.qid)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-12)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(model.predict(frame), plain.predict(data.X), rtol=1e-9)
    better, worse, weight = data.across
    assert model.score_pairs(frame, better, worse, weight) == plain.score_pairs(
        data.X, better, worse, weight
    )
    fit_list(model, frame[list("abcd")], data.across)
    with pytest.warns(UserWarning, match="'label', 'query'"):  # which this fit has not seen
        scores = model.predict(frame)
    np.testing.assert_array_equal(scores, model.predict(frame[list("abcd")]))


@pytest.mark.parametrize("make", [LinearRankSVM, KernelRankSVM])
def test_a_saved_model_scores_the_same(make, tmp_path) -> None:
    data = Data()
    model = fit_list(make(), data.X, data.across)
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    assert (again.n_pairs_, again.gap_) == (model.n_pairs_, model.gap_)


def test_warm_start_and_callback() -> None:
    data = Data()
    model = fit_list(LinearRankSVM(warm_start=True, tol=1e-8, scaling=None), data.X, data.across)
    products = model.n_products_
    rows = []
    fit_list(model, data.X, data.across, callback=lambda row, coef: rows.append(row))
    assert model.n_products_ < products
    assert [row.iteration for row in rows] == list(range(model.n_iter_ + 1))
    stopped = fit_list(
        LinearRankSVM(tol=1e-12, scaling=None), data.X, data.across, callback=lambda *_: True
    )
    assert stopped.status_ == "stopped"


def test_a_problem_without_any_pairs_is_refused() -> None:
    X = np.zeros((3, 2))
    with pytest.raises(ValueError, match="neither labels nor preferences"):
        LinearProblem(RankingData(X), LinearSettings(scaling=None))
    message = re.escape("no comparable pair to learn from (3 samples, 1 query)")
    with pytest.raises(ValueError, match=message):
        LinearProblem(RankingData(X, np.zeros(3)), LinearSettings(scaling=None))


# --- Costs, rounding, odd input ------------------------------------------------------------------


def test_few_pairs_among_many_items_cost_what_few_items_cost():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 30)) * 10.0 ** rng.uniform(-2, 2, 30)
    value = X @ (rng.standard_normal(30) / X.std(axis=0)) + rng.standard_normal(len(X))
    first, second = rng.choice(len(X), size=(2, 200), replace=False)
    better = np.where(value[first] > value[second], first, second)
    worse = np.where(value[first] > value[second], second, first)
    for layout in (np.asarray, sp.csr_array, sp.csc_array):
        model = LinearRankSVM(1e3, tol=1e-6, scaling=None).fit_pairs(layout(X), better, worse)
        rows = np.concatenate([better, worse])
        few = LinearRankSVM(1e3, tol=1e-6, scaling=None)
        few.fit_pairs(layout(X[rows]), np.arange(200), np.arange(200, 400))
        np.testing.assert_allclose(model.objective_, few.objective_, rtol=3e-6)
        assert model.n_products_ <= 1.5 * few.n_products_


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
@pytest.mark.parametrize("make", [LinearRankSVM, KernelRankSVM])
def test_items_that_are_left_out_change_nothing(make, reduction: str, layout, tmp_path) -> None:
    """Items and queries of weight zero, and items that no pair names: most of the set."""
    rng = np.random.default_rng(0)
    n = 120
    X = rng.standard_normal((n, 4))
    y, qid = rng.integers(0, 3, n).astype(float), rng.permutation(np.arange(n) % 6)
    of_query = {0: 0.0, 1: 0.0, 2: 0.5, 3: 0.0, 4: 2.0, 5: 1.0}
    weight = np.where(rng.random(n) < 0.5, 0.0, rng.random(n))
    better, worse = np.flatnonzero(qid == 0)[:4], np.flatnonzero(qid == 2)[:4]
    options = {"reduction": reduction, "tol": 1e-7, "C": 0.1 if reduction == "sum" else 10.0}
    options["scaling"] = None  # which sees all items
    if make is KernelRankSVM:
        options["gamma"] = 0.3
    all_of_it = make(**options).fit_pairs(
        layout(X), better, worse, y=y, qid=qid, sample_weight=weight, query_weight=of_query
    )
    takes_part = (weight > 0.0) & np.isin(qid, [2, 4, 5])
    takes_part[better] = takes_part[worse] = True
    rows = np.flatnonzero(takes_part)
    assert len(rows) <= n // 2
    places = np.cumsum(takes_part) - 1
    kept = make(**options).fit_pairs(
        layout(X[rows]), places[better], places[worse], y=y[rows], qid=qid[rows],
        sample_weight=weight[rows], query_weight={q: of_query[q] for q in set(qid[rows].tolist())},
    )  # fmt: skip
    check_same_model(all_of_it, kept, X)
    # The file tells of the whole set.
    all_of_it.save(tmp_path / "model.safetensors")
    facts = read_model(tmp_path / "model.safetensors").facts
    assert (facts["n_items"], facts["n_queries"], facts["explicit_pairs"]) == (n, 6, 4)
    if make is KernelRankSVM:
        assert set(all_of_it.support_) <= set(rows.tolist())
        return
    again = LinearRankSVM(**options, warm_start=True)
    arguments = {"y": y, "qid": qid, "sample_weight": weight, "query_weight": of_query}
    first = again.fit_pairs(layout(X), better, worse, **arguments).n_products_
    assert again.fit_pairs(layout(X), better, worse, **arguments).n_products_ < first


def test_points_have_scores_for_the_rows_that_take_part() -> None:
    data = Data(n=100)
    preferences = Preferences(np.array([3, 7]), np.array([50, 3]))
    items = RankingData(data.X, preferences=preferences)
    problem = LinearProblem(items, LinearSettings(scaling=None))
    fit = problem.solve()
    assert problem.data.n_items == 3
    np.testing.assert_allclose(fit.point.scores, data.X[[3, 7, 50]] @ fit.coef, rtol=1e-12)
    assert problem.model(fit).facts["n_items"] == 100
    many = LinearProblem(replace(items, preferences=data.across), LinearSettings(scaling=None))
    assert many.data.n_items == 100
    assert many.solve().point.scores.shape == (100,)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_the_smoothed_hinge_certifies_features_with_an_offset(offset):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((30, 4))
        y, qid = X[:, 0] + rng.standard_normal(30), np.repeat([0, 1, 2], 10)
        optimum = LinearRankSVM(10.0, loss="hinge", tol=1e-10, scaling=None).fit(X, y, qid)
        model = LinearRankSVM(10.0, loss="hinge", solver="smoothed_newton", tol=1e-6, scaling=None)
        model.fit(X + offset, y, qid)
        s = X @ model.coef_
        pair = (qid[:, None] == qid[None, :]) & (y[:, None] > y[None, :])
        loss = np.maximum(0.0, 1.0 - s[:, None] + s[None, :])[pair].mean()
        reached = 0.5 * model.coef_ @ model.coef_ + 10.0 * loss
        assert reached - optimum.objective_ <= model.gap_ + 1e-9 * reached


@pytest.mark.parametrize("weight", [1e-100, 1e160])
def test_weights_of_any_size_keep_the_certificate(weight):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    better, worse = np.arange(15), np.arange(15, 30)
    model = LinearRankSVM(loss="hinge", scaling=None).fit_pairs(
        X, better, worse, weight=np.full(15, weight)
    )
    plain = LinearRankSVM(loss="hinge", scaling=None).fit_pairs(X, better, worse)
    assert model.status_ == "converged"
    np.testing.assert_allclose(model.objective_, plain.objective_, rtol=1e-3)


def test_pairs_as_objects_and_as_masked_arrays():
    X = np.eye(3)
    plain = LinearRankSVM(scaling=None).fit_pairs(X, [0, 1], [1, 2])
    objects = LinearRankSVM(scaling=None).fit_pairs(
        X, np.array([0, 1], dtype=object), np.array([1, 2], dtype=object)
    )
    assert np.array_equal(plain.coef_, objects.coef_)
    with pytest.raises(ValueError, match="masked"):
        LinearRankSVM(scaling=None).fit_pairs(X, np.ma.array([0, 1], mask=[False, True]), [1, 2])


def test_group_is_another_name_and_the_file_tells_of_the_pairs(tmp_path):
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((12, 3)), rng.integers(0, 3, 12), np.repeat([0, 1], 6)
    weight = [1.0, 0.0, 2.0]
    models = [
        LinearRankSVM(scaling=None).fit_pairs(
            X, [0, 1, 2], [7, 8, 9], weight=weight, y=y, **{name: qid}
        )
        for name in ("qid", "group")
    ]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    models[0].save(tmp_path / "m.safetensors")
    assert read_model(tmp_path / "m.safetensors").facts["explicit_pairs"] == 2
    with pytest.raises(ValueError, match="two names for one thing"):
        LinearRankSVM(scaling=None).fit_pairs(X, [0], [1], group=qid, qid=qid)


@pytest.mark.parametrize("n_items", [7, 8, 60])
def test_pairs_of_weight_zero_are_not_counted(n_items):
    y = np.zeros(n_items)
    y[:3] = [2, 1, 0]
    qid = np.ones(n_items, dtype=int)
    qid[:3] = 0
    weight = np.ones(n_items)
    weight[2] = 0.0
    X = np.random.default_rng(0).standard_normal((n_items, 2))
    for machine in (LinearRankSVM, KernelRankSVM):
        model = machine().fit_pairs(X, [3], [4], y=y, qid=qid, sample_weight=weight)
        assert model.n_pairs_ == 2
        assert machine().fit(X, y, qid, sample_weight=weight).n_pairs_ == 1
