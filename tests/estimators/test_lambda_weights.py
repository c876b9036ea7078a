"""``pair_weight="lambda"``: rounds of fits against a loop over listed pairs with their weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from shard_sets import cut
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ranksvm import FactorizedRankSVM, KernelRankSVM, LinearRankSVM
from ranksvm import _memory as memory
from ranksvm._messages import ParameterError, TooLittleMemoryError
from ranksvm.backends.lambda_pairs import lambda_pairs
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import KernelProblem, KernelSettings, LinearProblem, LinearSettings
from ranksvm.learners.training_pairs import weighted_pairs
from ranksvm.model_selection import KernelRankSVMCV, LinearRankSVMCV
from ranksvm.model_selection.path import fit_path
from ranksvm.pairs.gains import Gains

GAINS = {"exp2": lambda y: 2.0**y - 1.0, "linear": lambda y: y}
DISCOUNTS = {
    "log2": lambda r: 1.0 / np.log2(1.0 + r),
    "letor": lambda r: 1.0 if r <= 2 else 1.0 / np.log2(r),
}


def small(seed: int = 0, n: int = 60) -> RankingData:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=n) + 1.0), 0, 4)
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n)
    qid = rng.integers(0, 5, n)
    return RankingData(X, y, qid, item_weight=weight, query_weight=rng.random(5) + 0.5)


def listed(data: RankingData, scores, gain="exp2", discount="log2", truncation=30) -> Any:
    """Return better, worse and weight of all pairs, by the definition, without query weights."""
    G, D = GAINS[gain](data.y), DISCOUNTS[discount]
    item = np.ones(data.n_items) if data.item_weight is None else data.item_weight
    pairs = []
    for q in range(data.groups.n_queries):
        rows = np.flatnonzero((data.groups.index == q) & (item > 0.0))
        best_first = np.sort(G[rows])[::-1][:truncation]
        ideal = sum(g * D(r) for r, g in enumerate(best_first, start=1))
        ranked = rows[np.argsort(-scores[rows], kind="stable")]
        rank = {row: r for r, row in enumerate(ranked.tolist(), start=1)}
        for b in rows.tolist():
            for w in rows.tolist():
                if not G[b] > G[w] or min(rank[b], rank[w]) > truncation:
                    continue
                change = (G[b] - G[w]) * abs(D(rank[b]) - D(rank[w])) / ideal
                pairs.append((b, w, item[b] * item[w] * change))
    better, worse, weight = (np.array(column) for column in zip(*pairs, strict=True))
    return better, worse, weight


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("discount", DISCOUNTS)
@pytest.mark.parametrize("truncation", [1, 3, 30])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_list_is_that_of_the_definition(gain, discount, truncation, weighted) -> None:
    data = small(1)
    if not weighted:
        data = replace(data, item_weight=None)
    scores = np.round(np.random.default_rng(0).normal(size=data.n_items), 1)  # ties
    found = {}
    for n_threads in (1, 2):
        pairs = lambda_pairs(
            data.y, data.groups, data.item_weight, scores, Gains(gain, discount), truncation,
            n_threads=n_threads,
        )  # fmt: skip
        found = dict(zip(zip(pairs.better, pairs.worse, strict=True), pairs.weight, strict=True))
        assert_array_equal(pairs.query, data.groups.index[pairs.better])
    right = listed(data, scores, gain, discount, truncation)
    assert len(found) == len(right[0])
    assert_allclose([found[b, w] for b, w, _ in zip(*right, strict=True)], right[2], rtol=1e-12)


@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize(
    "model",
    [
        LinearRankSVM(scaling=None),
        LinearRankSVM(scaling="standard"),
        KernelRankSVM(gamma=0.3, scaling=None),
    ],
)
def test_rounds_are_a_loop_over_listed_pairs(model, loss, reduction) -> None:
    data = small(2)
    model = clone(model).set_params(C=3.0, loss=loss, reduction=reduction, tol=1e-8)
    weights = {"qid": data.qid, "query_weight": data.query_weight}
    scores = model.fit(data.X, data.y, sample_weight=data.item_weight, **weights).predict(data.X)
    plain = model.objective_
    for rounds in (1, 2):
        better, worse, weight = listed(data, scores)
        if model.scaling is None:  # a list has no item weights, which scaling uses
            by_hand = clone(model).fit_pairs(data.X, better, worse, weight=weight, **weights)
        found = clone(model).set_params(pair_weight="lambda", n_reweight=rounds)
        found.fit(data.X, data.y, sample_weight=data.item_weight, **weights)
        if model.scaling is None:
            assert_allclose(found.objective_, by_hand.objective_, rtol=1e-6)
            assert_allclose(found.predict(data.X), by_hand.predict(data.X), atol=1e-2)
            assert found.n_pairs_ == by_hand.n_pairs_
        # Those that the next round starts from: at another optimum, near ties may change places.
        scores = found.predict(data.X)
        assert abs(found.objective_ - plain) > 1e-3 * plain
        assert found.status_ == "converged"
        assert found.gap_ <= 1e-8 * found.objective_ * (1 + 1e-9)
        rows = found.history_
        assert sorted({row.round for row in rows}) == list(range(rounds + 1))
        assert [row.round for row in rows] == sorted(row.round for row in rows)
        assert_allclose(rows[-1].objective, found.objective_)
        last = [max(row.iteration for row in rows if row.round == r) for r in range(rounds + 1)]
        assert found.n_iter_ == sum(last)


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_approximate_kernels_and_sparse_items(approximation) -> None:
    data = replace(small(3), item_weight=None, query_weight=None)
    options = {"approximation": approximation, "n_components": 20, "random_state": 0, "gamma": 0.3}
    model = KernelRankSVM(5.0, tol=1e-8, **options, scaling=None)
    scores = model.fit(data.X, data.y, qid=data.qid).predict(data.X)
    better, worse, weight = listed(data, scores)
    by_hand = clone(model).fit_pairs(data.X, better, worse, weight=weight)
    found = clone(model).set_params(pair_weight="lambda").fit(data.X, data.y, qid=data.qid)
    assert_allclose(found.objective_, by_hand.objective_, rtol=1e-6)
    linear = LinearRankSVM(pair_weight="lambda", tol=1e-8, scaling=None)
    dense = linear.fit(data.X, data.y, qid=data.qid).objective_
    sparse = linear.fit(sp.csr_array(data.X), data.y, qid=data.qid).objective_
    assert_allclose(sparse, dense, rtol=1e-7)


def test_one_ranking_without_queries() -> None:
    data = RankingData(small(4).X, small(4).y)
    model = LinearRankSVM(pair_weight="lambda", truncation=5, tol=1e-8, scaling=None).fit(
        data.X, data.y
    )
    plain = LinearRankSVM(tol=1e-8, scaling=None).fit(data.X, data.y)
    better, worse, weight = listed(data, plain.predict(data.X), truncation=5)
    by_hand = LinearRankSVM(tol=1e-8, scaling=None).fit_pairs(data.X, better, worse, weight=weight)
    assert_allclose(model.objective_, by_hand.objective_, rtol=1e-7)


def test_threads_do_not_change_a_bit() -> None:
    X, y, qid, _ = make_ranking(n_queries=50, items_per_query=(1, 100), random_state=0)
    models = [
        LinearRankSVM(pair_weight="lambda", n_jobs=n, scaling=None).fit(X, y, qid=qid)
        for n in (1, 2)
    ]
    assert_array_equal(models[0].coef_, models[1].coef_)


def test_a_path_over_C_has_rounds_of_its_own_for_each() -> None:
    data = small(5)
    for make, settings in (
        (LinearProblem, LinearSettings(pair_weight="lambda", tol=1e-7, scaling=None)),
        (KernelProblem, KernelSettings(pair_weight="lambda", tol=1e-7, gamma=0.3, scaling=None)),
    ):
        Cs = np.array([0.3, 3.0, 30.0])
        fits = fit_path(make(data, settings), Cs)
        for C, fit in zip(Cs.tolist(), fits, strict=True):
            alone = make(data, replace(settings, C=C)).solve()
            assert_allclose(fit.objective, alone.objective, rtol=1e-5)
            assert fit.evaluation is None
            assert fit.first is not None
            assert fit.first.evaluation is None
            plain = make(data, replace(settings, C=C, pair_weight="uniform")).solve()
            assert_allclose(fit.on_path.objective, plain.objective, rtol=1e-6)


def test_a_problem_with_other_pairs_shares_the_map() -> None:
    data = small(6)
    uniform = KernelSettings(C=2.0, tol=1e-7, gamma=0.3, scaling=None)
    problem = KernelProblem(data, uniform)
    before = problem.solve().objective
    for weight in ("gain", "lambda"):
        settings = replace(uniform, pair_weight=weight)
        other = problem.with_pairs(weighted_pairs(problem.labeled, settings), settings)
        assert other._map is problem._map
        fit = other.solve()
        assert_allclose(fit.objective, KernelProblem(data, settings).solve().objective, rtol=1e-6)
        assert other.model(fit).params["pair_weight"] == weight
    assert_allclose(problem.solve().objective, before, rtol=1e-7)


def test_stopped_in_a_round() -> None:
    data = small(7)
    rounds = []

    def stop(row, coef) -> bool:
        rounds.append(row.round)
        return row.round == 1

    options = {"sample_weight": data.item_weight, "callback": stop}
    model = LinearRankSVM(1000.0, pair_weight="lambda", n_reweight=3, tol=1e-9, scaling=None)
    model.fit(data.X, data.y, qid=data.qid, **options)
    assert model.status_ == "stopped"
    assert rounds[-1] == 1
    assert set(rounds) == {0, 1}


def test_a_round_that_did_not_converge_is_told() -> None:
    X, y, qid, _ = make_ranking(60, n_features=10, random_state=0, noise=0.5)
    model = LinearRankSVM(500.0, pair_weight="lambda", n_reweight=2, max_iter=4)
    with pytest.warns(ConvergenceWarning, match=r"last round, but not in .*raise max_iter"):
        model.fit(X, y, qid)
    last = {row.round: row.gap / row.objective for row in model.history_}
    assert last[0] > 1e-4
    assert last[2] <= 1e-4
    assert model.gap_ <= 1e-4 * model.objective_  # that of the last round
    assert model.status_ == "max_iter"
    search = LinearRankSVMCV([500.0], pair_weight="lambda", n_reweight=2, max_iter=4, cv=2)
    with pytest.warns(ConvergenceWarning, match="fits ended early.*but not in an earlier one"):
        search.fit(X, y, qid)
    model.set_params(max_iter=100).fit(X, y, qid)
    assert model.status_ == "converged"


@pytest.mark.filterwarnings("ignore:.*the best:UserWarning")
def test_in_searches() -> None:
    X, y, qid, _ = make_ranking(n_queries=30, random_state=0)
    options = {"cv": 3, "pair_weight": "lambda", "refit": True}
    linear = LinearRankSVMCV([1.0, 100.0, 1e5], n_jobs=1, **options, scaling=None).fit(
        X, y, qid=qid
    )
    parallel = LinearRankSVMCV([1.0, 100.0, 1e5], n_jobs=2, **options, scaling=None).fit(
        X, y, qid=qid
    )
    assert_array_equal(
        linear.cv_results_["mean_test_score"], parallel.cv_results_["mean_test_score"]
    )
    alone = LinearRankSVM(linear.C_, pair_weight="lambda", scaling=None).fit(X, y, qid=qid)
    assert_allclose(linear.objective_, alone.objective_, rtol=1e-3)
    KernelRankSVMCV([1.0, 100.0, 1e5], [0.01, 0.1, 1.0], **options, scaling=None).fit(X, y, qid=qid)


def test_what_is_refused() -> None:
    data = small(8)
    with pytest.raises(ParameterError, match=r"have to be in memory\. Use pair_weight='gain'"):
        LinearProblem(cut(data, [20]), LinearSettings(pair_weight="lambda", scaling=None))
    with pytest.raises(ParameterError, match=r"have to be in memory\. Use pair_weight='gain'"):
        KernelProblem(
            cut(data, [20]),
            KernelSettings(pair_weight="lambda", approximation="fourier", scaling=None),
        )
    model = LinearRankSVM(pair_weight="lambda", scaling=None)
    with pytest.raises(ParameterError, match="with explicit pairs"):
        model.fit_pairs(data.X, [0], [1], y=data.y)
    with pytest.raises(ParameterError, match="are fitted once"):
        FactorizedRankSVM(pair_weight="lambda", scaling=None).fit(data.X, data.y)
    with pytest.raises(ParameterError, match="ranks 1 and 2, and discount='letor' is the same"):
        clone(model).set_params(discount="letor").fit(data.X[:2], [0, 1])
    # Three items: those of ranks 1 and 3 have the same label, and rank 1 alone counts.
    cut_off = clone(model).set_params(discount="letor", truncation=1)
    with pytest.raises(ParameterError, match="all pairs that count have the ranks 1 and 2"):
        cut_off.fit([[3.0], [2.0], [1.0]], [1, 0, 1])
    # The other pair is in a query of weight zero.
    with pytest.raises(ParameterError, match="all pairs that count have the ranks 1 and 2"):
        clone(model).set_params(discount="letor").fit(
            data.X[:5], [1, 0, 2, 1, 0], [0, 0, 0, 1, 1], query_weight=[0.0, 1.0]
        )
    with pytest.raises(OverflowError, match="the labels are too small"):
        clone(model).set_params(gain="linear").fit(data.X[:2], [0.0, 1e-310])
    with pytest.raises(OverflowError, match="the labels are too large"):
        clone(model).set_params(gain="linear").fit(data.X[:4], [0.0, 1e308, 1e308, 1e308])
    with pytest.raises(ParameterError, match="n_reweight must be a positive integer up to 1,000"):
        clone(model).set_params(n_reweight=1001).fit(data.X, data.y)
    for name in ("truncation", "n_reweight"):
        with pytest.raises(ParameterError, match=f"{name} must be a positive integer"):
            clone(model).set_params(**{name: 0}).fit(data.X, data.y)


def test_lists_that_do_not_fit_are_refused_before_they_are_made(monkeypatch) -> None:
    n = 200_000  # 2e10 pairs
    y = np.arange(n) % 2.0
    X = np.random.default_rng(0).normal(size=(n, 1))
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * 10**9)
    model = LinearRankSVM(pair_weight="lambda", truncation=n, scaling=None)
    with pytest.raises(TooLittleMemoryError, match=r"10,000,000,000 pairs.*Lower truncation"):
        model.fit(X, y)
