"""Fits on data in shards against fits on the same data in memory."""

from __future__ import annotations

import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_sets import cut, sets

from ranksvm.data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.datasets import make_ranking
from ranksvm.learners import REDUCTIONS, make_problem, sharded
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.linear import LinearSettings
from ranksvm.learners.sharded import find_layout
from ranksvm.model_selection import search
from ranksvm.model_selection.path import fit_path
from ranksvm.model_selection.splitters import folds_of
from ranksvm.pairs.oracle import LOSSES
from ranksvm.sharded.gathered import GatheredMap
from ranksvm.sharded.local import LocalMap

NOTHING = frozenset[str]()


def brute_force_objective(data: RankingData, fit, chosen) -> float:
    """F at the coefficients of a linear fit, summed over all pairs one by one."""
    X = data.X.toarray() if sp.issparse(data.X) else data.X.astype(np.float64)
    scores = X @ fit.coef
    weight = np.ones(data.n_items) if data.item_weight is None else data.item_weight
    own = np.ones(data.groups.n_queries) if data.query_weight is None else data.query_weight
    total = mass = queries = 0.0
    for q in range(data.groups.n_queries):
        rows = data.groups.rows[data.groups.offsets[q] : data.groups.offsets[q + 1]]
        better, worse = np.nonzero(data.y[rows][:, None] > data.y[rows][None, :])
        pair = weight[rows[better]] * weight[rows[worse]]
        slack = np.maximum(0.0, 1.0 - scores[rows[better]] + scores[rows[worse]])
        loss = float((pair * (slack if chosen.loss == "hinge" else slack**2)).sum())
        if chosen.reduction == "query_mean":
            if pair.sum() > 0.0:
                total += own[q] * loss / pair.sum()
                queries += own[q]
            continue
        total += own[q] * loss
        mass += own[q] * float(pair.sum())
    divisor = {"sum": 1.0, "mean": mass, "query_mean": queries}[chosen.reduction]
    return 0.5 * float(fit.coef @ fit.coef) + chosen.C * total / divisor


@settings(max_examples=150, deadline=None)
@given(
    case=sets(),
    loss=st.sampled_from(sorted(LOSSES)),
    reduction=st.sampled_from(sorted(REDUCTIONS)),
    C=st.sampled_from([0.01, 1.0, 30.0]),
)
def test_any_cut_gives_the_fit_in_memory(case, loss, reduction, C) -> None:
    data, cuts = case
    chosen = LinearSettings(
        C=C, loss=loss, reduction=reduction, tol=1e-6, max_iter=300, scaling=None
    )
    here = make_problem(data, chosen)
    there = make_problem(cut(data, cuts), chosen)
    assert there.n_pairs == here.n_pairs
    fit, known = there.solve(), here.solve()
    exact = brute_force_objective(data, known, chosen)
    assert brute_force_objective(data, fit, chosen) == pytest.approx(exact, rel=1e-12)
    scale = max(np.abs(known.coef).max(), 1e-300)
    assert np.abs(fit.coef - known.coef).max() <= 1e-10 * scale
    assert (fit.n_iter, fit.n_products) == (known.n_iter, known.n_products)
    # The certificate is valid: the optimum of either is above the lower bound of the other.
    assert fit.lower <= known.objective
    assert known.lower <= fit.objective


@settings(max_examples=40, deadline=None)
@given(case=sets(), solver=st.sampled_from(["bundle", "smoothed_newton"]))
def test_the_solvers_of_the_hinge(case, solver) -> None:
    data, cuts = case
    chosen = LinearSettings(C=1.0, loss="hinge", solver=solver, tol=1e-4, scaling=None)
    fit, known = make_problem(cut(data, cuts), chosen).solve(), make_problem(data, chosen).solve()
    assert fit.objective == pytest.approx(known.objective, rel=1e-8)
    assert np.abs(fit.coef - known.coef).max() <= 1e-6 * max(np.abs(known.coef).max(), 1e-300)


@settings(max_examples=40, deadline=None)
@given(case=sets(), loss=st.sampled_from(["squared_hinge", "hinge"]))
def test_the_bits_do_not_depend_on_what_is_remembered(case, loss) -> None:
    data, cuts = case
    chosen = LinearSettings(C=3.0, loss=loss, scaling=None)
    first = make_problem(cut(data, cuts, memory=1e9), chosen).solve()
    for keeps in (frozenset({"scores", "order"}), frozenset({"scores"}), NOTHING):
        other = make_problem(cut(data, cuts, keeps=keeps), chosen).solve()
        assert np.array_equal(other.coef, first.coef)
        assert (other.objective, other.gap) == (first.objective, first.gap)


@settings(max_examples=20, deadline=None)
@given(case=sets(), loss=st.sampled_from(sorted(LOSSES)))
def test_the_bits_do_not_depend_on_threads(case, loss) -> None:
    data, cuts = case
    chosen = LinearSettings(C=3.0, loss=loss, scaling=None)
    first, *others = (
        make_problem(cut(data, cuts, n_threads=n), chosen, n_threads=n).solve() for n in (1, 2)
    )
    for other in others:
        assert np.array_equal(other.coef, first.coef)
        assert (other.objective, other.gap) == (first.objective, first.gap)


@settings(max_examples=40, deadline=None)
@given(
    case=sets(), loss=st.sampled_from(sorted(LOSSES)), reduction=st.sampled_from(sorted(REDUCTIONS))
)
def test_local_and_gathered_have_the_same_objective(case, loss, reduction) -> None:
    data, cuts = case
    chosen = LinearSettings(loss=loss, reduction=reduction, scaling=None)
    there = cut(data, cuts)
    w = np.random.default_rng(0).normal(size=data.n_features)
    found = []
    for find in (find_layout, lambda data: None):
        with patch.object(sharded, "find_layout", find):
            objective = make_problem(there, chosen).objective(2.0)
        at = objective.at(objective.point(w))
        found.append([at.value, *at.grad])
        # Bounds hold for the other way of computing, too.
        assert at.dual <= at.value <= at.primal
    scale = max(map(abs, found[0]))
    assert np.allclose(*found, rtol=1e-12, atol=1e-12 * scale)


@settings(max_examples=15, deadline=None)
@given(case=sets(), loss=st.sampled_from(sorted(LOSSES)), n_folds=st.integers(2, 3))
def test_paths_over_C_and_folds(case, loss, n_folds) -> None:
    data, cuts = case
    there, Cs = cut(data, cuts), np.array([0.1, 1.0, 10.0])
    chosen = LinearSettings(loss=loss, tol=1e-6, max_iter=300, scaling=None)
    parts = [(data, there)]
    if data.qid is not None and data.groups.n_queries >= n_folds:
        for fold in range(n_folds):
            rows = np.flatnonzero(data.groups.index % n_folds != fold)
            parts.append((data.take(rows), there.take(rows)))
    for here, shards in parts:
        try:
            problem = make_problem(here, chosen)
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                make_problem(shards, chosen)
            continue
        known = fit_path(problem, Cs)
        found = fit_path(make_problem(shards, chosen), Cs)
        for C, fit, other in zip(Cs.tolist(), found, known, strict=True):
            # The hinge has many ways to the same gap, of which rounding chooses one.
            smooth = loss == "squared_hinge"
            exact = brute_force_objective(here, other, replace(chosen, C=C))
            mine = brute_force_objective(here, fit, replace(chosen, C=C))
            assert mine == pytest.approx(exact, rel=1e-12 if smooth else 2 * chosen.tol)
            assert fit.lower <= other.objective
            assert other.lower <= fit.objective
            scale = max(np.abs(other.coef).max(), 1e-300)
            assert not smooth or np.abs(fit.coef - other.coef).max() <= 1e-10 * scale


@settings(max_examples=40, deadline=None)
@given(
    case=sets(),
    loss=st.sampled_from(sorted(LOSSES)),
    reduction=st.sampled_from(sorted(REDUCTIONS)),
    approximation=st.sampled_from(["nystroem", "fourier"]),
    n_components=st.sampled_from([3, 70]),
)
def test_kernel_features_of_any_cut(case, loss, reduction, approximation, n_components) -> None:
    data, cuts = case
    chosen = KernelSettings(
        C=5.0, loss=loss, reduction=reduction, gamma=0.3, approximation=approximation,
        n_components=min(n_components, data.n_items), random_state=1, tol=1e-6, scaling=None,
)  # fmt: skip
    known, fit = make_problem(data, chosen).solve(), make_problem(cut(data, cuts), chosen).solve()
    assert fit.objective == pytest.approx(known.objective, rel=1e-9)
    assert fit.lower <= known.objective
    assert known.lower <= fit.objective


@pytest.fixture(scope="module")
def data() -> RankingData:
    X, y, qid, _ = make_ranking(n_queries=60, items_per_query=(1, 40), n_features=8, random_state=3)
    return RankingData(X, y, qid)


def test_the_rule(data: RankingData) -> None:
    """Few rows of shared queries are copied; otherwise the scores are gathered."""
    chosen, n = LinearSettings(scaling=None), data.n_items
    whole = data.groups.offsets[[10, 30]].tolist()
    layout = find_layout(cut(data, whole))
    assert layout is not None
    assert layout.copied.size == 0
    assert layout.inactive is None
    inside = [whole[0] + 1, whole[1] + 1]
    layout = find_layout(cut(data, inside))
    assert layout is not None
    shared = data.groups.index[np.array(inside)]
    assert np.array_equal(np.unique(data.groups.index[layout.copied]), shared)
    unsorted = data.take(np.random.default_rng(0).permutation(n))
    assert find_layout(cut(unsorted, inside)) is None
    assert find_layout(cut(replace(data, qid=None), inside)) is None
    for one, kind in ((data, LocalMap), (unsorted, GatheredMap)):
        assert isinstance(make_problem(cut(one, inside), chosen)._map, kind)


def test_sampled_rows_are_those_of_a_fit_in_memory() -> None:
    """With many rows the preconditioner comes from a sample; the way of the fit shows which."""
    X, y, qid, _ = make_ranking(
        n_queries=3000, items_per_query=(1, 20), n_features=6, random_state=1
    )
    data = RankingData(X, y, qid)
    chosen = LinearSettings(C=500.0, scaling=None)
    known = make_problem(data, chosen).solve()
    order = np.random.default_rng(2).permutation(data.n_items)
    for one in (data, data.take(order)):
        fit = make_problem(cut(one, [1000, 7777, 20_000]), chosen).solve()
        assert np.abs(fit.coef - known.coef).max() <= 1e-10 * np.abs(known.coef).max()


def test_rows_that_are_alike_have_another_sample() -> None:
    X = np.tile([[0.0, 1.0], [1.0, 0.0]], (20_000, 1))
    data = RankingData(X, np.tile([0.0, 1.0], 20_000), np.repeat(np.arange(20_000), 2))
    chosen = LinearSettings(C=1.0, scaling=None)
    known = make_problem(data, chosen).solve()
    for one in (data, data.take(np.random.default_rng(0).permutation(40_000))):
        fit = make_problem(cut(one, [11_111, 30_000]), chosen).solve()
        assert fit.objective == pytest.approx(known.objective, rel=1e-10)


@pytest.mark.parametrize("unsorted", [False, True])
@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
@pytest.mark.parametrize("n_components", [30, 100])
def test_kernel_features(data: RankingData, approximation, n_components, unsorted) -> None:
    if unsorted:
        data = data.take(np.random.default_rng(1).permutation(data.n_items))
    chosen = KernelSettings(
        C=20.0, approximation=approximation, n_components=n_components, random_state=5, scaling=None
    )
    here = make_problem(data, chosen)
    there = make_problem(cut(data, [100, 101, 400]), chosen)
    fit, known = there.solve(), here.solve()
    assert fit.objective == pytest.approx(known.objective, rel=1e-11)
    assert np.abs(fit.coef - known.coef).max() <= 1e-10 * np.abs(known.coef).max()
    scores = there.score(cut(data, [50]).X, [fit])[0]
    assert np.allclose(scores, here.score(data.X, [known])[0], rtol=0, atol=1e-10)
    model = there.model(fit)
    assert np.allclose(model.scores(data.X), scores, rtol=0, atol=1e-10)


@pytest.mark.parametrize("landmarks", ["kmeans", "leverage"])
def test_landmarks_come_from_all_shards(data: RankingData, landmarks) -> None:
    chosen = KernelSettings(
        C=20.0,
        approximation="nystroem",
        n_components=20,
        landmarks=landmarks,
        random_state=5,
        scaling=None,
    )
    fit = make_problem(cut(data, [100, 300]), chosen).solve()
    known = make_problem(data, chosen).solve()
    assert np.abs(fit.coef - known.coef).max() <= 1e-8 * np.abs(known.coef).max()


def test_exact_kernels_are_refused(data: RankingData) -> None:
    with pytest.raises(ValueError, match=r"needs all items in memory.*approximation"):
        make_problem(cut(data, [100]), KernelSettings(scaling=None))


@pytest.mark.parametrize("kind", ["queries", "unsorted", "one query"])
def test_a_search_over_shards(data: RankingData, kind) -> None:
    if kind == "unsorted":
        data = data.take(np.random.default_rng(1).permutation(data.n_items))
    if kind == "one query":
        data = RankingData(data.X, data.y)
    shards = cut(data, [100, 101, 400])
    for chosen, others in (
        (LinearSettings(scaling=None), None),
        (
            KernelSettings(approximation="nystroem", n_components=20, random_state=0, scaling=None),
            {"gamma": [0.1, 1.0]},
        ),
    ):
        asked = {"Cs": 4, "others": others, "metric": "ndcg@5", "n_threads": 2}
        known = search(data, chosen, folds=folds_of(data, 3), **asked)
        found = search(shards, chosen, folds=folds_of(shards, 3), **asked)
        assert np.allclose(found.scores, known.scores, rtol=0, atol=1e-12)
        assert np.allclose(found.objectives, known.objectives, rtol=1e-10)
        assert found.best == known.best


def test_rows_in_any_order(data: RankingData) -> None:
    X = cut(data, [3, 50, 51, 200]).X
    rows = np.random.default_rng(0).permutation(data.n_items)[:90]
    assert np.array_equal(X[rows], data.X[rows])
    assert np.array_equal(X.take(rows)[np.arange(0, 90, 7)], data.X[rows[::7]])


def test_a_value_that_is_not_finite(data: RankingData) -> None:
    for value in (np.nan, np.inf):
        X = data.X.copy()
        X[123, 4] = value
        broken = replace(data, X=X)
        for one in (broken, replace(broken, qid=None)):
            with pytest.raises(ValueError, match=f"{value} in row 123, column 4"):
                make_problem(cut(one, [100]), LinearSettings(scaling=None)).solve()


def test_no_pair_to_learn_from(data: RankingData) -> None:
    alike = replace(data, y=np.ones(data.n_items))
    with pytest.raises(ValueError, match="no comparable pair"):
        make_problem(cut(alike, [100]), LinearSettings(scaling=None))


def test_the_digest_tells_data_apart(data: RankingData) -> None:
    first = cut(data, [100]).X
    assert first.digest() == cut(data, [100]).X.digest()
    X = data.X.copy()
    X[5, 5] += 1e-9
    others = [cut(replace(data, X=X), [100]).X, cut(data, [101]).X, first.take(np.arange(9))]
    assert len({first.digest(), *(other.digest() for other in others)}) == 4
    assert isinstance(first.take(np.arange(9)), ShardedMatrix)
