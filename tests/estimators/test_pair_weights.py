"""Fits with weights of pairs from gains, against the sum over all pairs with these weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose, assert_array_equal
from shard_sets import cut
from sklearn.base import clone

from ranksvm import FactorizedRankSVM, KernelRankSVM, LinearRankSVM
from ranksvm._messages import ParameterError
from ranksvm.backends.native import COUNTINGS
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import LinearSettings, make_problem, total_pair_weight
from ranksvm.learners.kernel import KernelSettings
from ranksvm.metrics import ndcg
from ranksvm.model_selection import LinearRankSVMCV
from ranksvm.model_selection.grids import N_CS, default_Cs, make_grid

GAINS = {"exp2": lambda y: 2.0**y - 1.0, "linear": lambda y: y}
DISCOUNTS = {
    "log2": lambda r: 1.0 / np.log2(1.0 + r),
    "letor": lambda r: 1.0 if r <= 2 else 1.0 / np.log2(r),
}


def small(seed: int = 0, n: int = 60) -> RankingData:
    """Items in five unsorted queries, with item and query weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=n) + 1.0), 0, 4)
    qid = rng.integers(0, 5, n)
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n)
    return RankingData(X, y, qid, item_weight=weight, query_weight=rng.random(5) + 0.5)


def listed(data: RankingData, gain: str = "exp2", discount: str = "log2") -> Any:
    """Return better, worse, weight and query of all pairs, by the definition."""
    G, D = GAINS[gain](data.y), DISCOUNTS[discount]
    index = data.groups.index
    item = np.ones(data.n_items) if data.item_weight is None else data.item_weight
    query = np.ones(data.groups.n_queries) if data.query_weight is None else data.query_weight
    ideal = np.zeros(len(query))
    for q in range(len(query)):
        best_first = np.sort(G[(index == q) & (item > 0.0)])[::-1]
        ideal[q] = sum(g * D(r) for r, g in enumerate(best_first, start=1))
    pairs = [
        (b, w, query[index[b]] * item[b] * item[w] * (G[b] - G[w]) / ideal[index[b]], index[b])
        for b in range(data.n_items)
        for w in range(data.n_items)
        if index[b] == index[w] and data.y[b] > data.y[w]
    ]
    better, worse, weight, of = (np.array(column) for column in zip(*pairs, strict=True))
    return better, worse, weight, of


def reduced(weight, of, data: RankingData, reduction: str):
    """Return the weights of pairs in F for C = 1."""
    if reduction == "sum":
        return weight
    if reduction == "mean":
        return weight / weight.sum()
    query = np.ones(data.groups.n_queries) if data.query_weight is None else data.query_weight
    plain = weight / query[of]
    mass = np.bincount(of, plain, len(query))
    share = np.where(mass > 0.0, query, 0.0) / query[mass > 0.0].sum()
    return plain / mass[of] * share[of]


def fitted(data: RankingData, model: Any) -> Any:
    return model.fit(
        data.X, data.y, qid=data.qid, sample_weight=data.item_weight, query_weight=data.query_weight
    )


@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("discount", DISCOUNTS)
def test_the_optimum_is_that_of_the_sum_over_pairs(gain, discount, reduction) -> None:
    """An independent solver minimizes the explicit sum, and gets no lower and no higher."""
    data = small()
    if gain == "linear":
        data = replace(data, y=np.abs(np.random.default_rng(1).normal(size=data.n_items)))
    better, worse, weight, of = listed(data, gain, discount)
    weight = reduced(weight, of, data, reduction)
    Z, C = data.X[better] - data.X[worse], 3.0

    def F(w):
        slack = np.maximum(0.0, 1.0 - Z @ w)
        value = 0.5 * w @ w + C * weight @ slack**2
        return value, w - 2.0 * C * Z.T @ (weight * slack)

    best = scipy.optimize.minimize(F, np.zeros(4), jac=True, options={"gtol": 1e-9}).fun
    model = fitted(
        data,
        LinearRankSVM(
            C,
            pair_weight="gain",
            gain=gain,
            discount=discount,
            reduction=reduction,
            tol=1e-9,
            scaling=None,
        ),
    )
    assert model.status_ == "converged"
    assert_allclose(model.objective_, best, rtol=1e-8)
    assert_allclose(F(model.coef_)[0], model.objective_, rtol=1e-8)
    has_weight = data.item_weight[better] * data.item_weight[worse] > 0.0
    assert model.n_pairs_ == has_weight.sum()


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize(
    "model",
    [
        LinearRankSVM(scaling=None),
        KernelRankSVM(gamma=0.3, scaling=None),
        KernelRankSVM(kernel="laplacian", gamma=0.5, scaling=None),
    ],
)
def test_labels_with_gains_are_listed_pairs_with_weights(model, loss) -> None:
    data = small(2)
    model = clone(model).set_params(C=2.0, loss=loss, tol=1e-7)
    better, worse, weight, _ = listed(data)
    alike = model.fit_pairs(data.X, better, worse, weight=weight)
    objective, scores = alike.objective_, alike.predict(data.X)
    found = fitted(data, model.set_params(pair_weight="gain"))
    assert_allclose(found.objective_, objective, rtol=1e-6)
    assert_allclose(found.predict(data.X), scores, atol=2e-2)
    other = fitted(data, model.set_params(solver="bundle"))
    assert_allclose(other.objective_, objective, rtol=1e-6)
    uniform = fitted(data, model.set_params(pair_weight="uniform")).objective_
    assert abs(uniform - objective) > 1e-3 * objective


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_approximate_kernels(approximation) -> None:
    data = replace(small(3), item_weight=None)
    better, worse, weight, _ = listed(data)
    model = KernelRankSVM(
        5.0, approximation=approximation, n_components=20, random_state=0, tol=1e-7, scaling=None
    )
    objective = model.fit_pairs(data.X, better, worse, weight=weight).objective_
    found = fitted(data, model.set_params(pair_weight="gain"))
    assert_allclose(found.objective_, objective, rtol=1e-6)


@pytest.mark.parametrize("init", ["random", "linear"])
def test_factorized_models(init) -> None:
    data = small(4)
    linear = fitted(
        data, LinearRankSVM(2.0, loss="hinge", pair_weight="gain", tol=1e-7, scaling=None)
    )
    model = FactorizedRankSVM(
        4, 2.0, init=init, pair_weight="gain", tol=1e-2, random_state=0, scaling=None
    )
    found = fitted(data, model)
    assert found.objective_ - found.gap_ <= linear.objective_ <= found.objective_
    assert_allclose(found.objective_, linear.objective_, rtol=2e-2)


@pytest.mark.parametrize("counting", COUNTINGS)
def test_every_counting_gives_the_same_model(counting) -> None:
    data = small(5)
    known = fitted(data, LinearRankSVM(pair_weight="gain", tol=1e-9, scaling=None))
    found = fitted(
        data, LinearRankSVM(pair_weight="gain", tol=1e-9, counting=counting, scaling=None)
    )
    assert_allclose(found.objective_, known.objective_, rtol=1e-9)


def test_threads_do_not_change_a_bit() -> None:
    X, y, qid, _ = make_ranking(n_queries=50, items_per_query=(1, 300), random_state=0)
    models = [
        LinearRankSVM(pair_weight="gain", n_jobs=n, scaling=None).fit(X, y, qid=qid) for n in (1, 2)
    ]
    assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].objective_ == models[1].objective_


def test_an_item_of_weight_zero_is_not_there() -> None:
    """Not even in the ideal DCG of its query; for kernels, which leave such items out, as well."""
    data = small(6)
    data = replace(data, y=data.y + (data.item_weight == 0.0) * 4.0)  # they would be the best
    present = np.flatnonzero(data.item_weight > 0.0)
    without = data.take(present)
    for model in (
        LinearRankSVM(tol=1e-7, scaling=None),
        KernelRankSVM(gamma=0.5, tol=1e-7, scaling=None),
    ):
        model.set_params(pair_weight="gain", reduction="sum")
        objective = fitted(data, model).objective_
        assert_allclose(fitted(without, model).objective_, objective, rtol=1e-6)


@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("kernel", [False, True])
def test_data_in_shards(kernel, shuffled, loss, reduction) -> None:
    """Local where queries are sorted, gathered where they are not."""
    data = small(7)
    if not shuffled:
        data = data.take(np.argsort(data.qid, kind="stable"))
    settings: Any = LinearSettings(
        C=2.0, pair_weight="gain", loss=loss, reduction=reduction, tol=1e-7, scaling=None
    )
    if kernel:
        settings = KernelSettings(
            C=2.0, pair_weight="gain", loss=loss, reduction=reduction, tol=1e-7,
            approximation="fourier", n_components=20, random_state=0, gamma=0.5, scaling=None,
        )  # fmt: skip
    known = make_problem(data, settings).solve()
    fit = make_problem(cut(data, [11, 25, 26, 40]), settings).solve()
    assert_allclose(fit.objective, known.objective, rtol=1e-6)
    assert fit.n_pairs == known.n_pairs


def test_total_weight_and_default_grid() -> None:
    data = small(8)
    weight = listed(data)[2].sum()
    settings = LinearSettings(pair_weight="gain", reduction="sum", scaling=None)
    assert_allclose(total_pair_weight(data, settings), weight)
    assert_allclose(make_grid(data, settings)["C"], default_Cs(N_CS, "sum", weight))
    assert total_pair_weight(data) > 2.0 * weight


def test_better_ndcg_where_few_items_are_very_good() -> None:
    """What it is for: the top grades of a set where a compromise is needed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    grade = np.where(X[:, 0] > 1.2, 4.0, np.where(X[:, 1] > 0.0, 1.0, 0.0))
    qid = np.repeat(np.arange(200), 30)
    scores = {
        weight: LinearRankSVM(pair_weight=weight, scaling=None).fit(X, grade, qid=qid).predict(X)
        for weight in ("uniform", "gain")
    }
    assert ndcg(grade, scores["gain"], qid) > ndcg(grade, scores["uniform"], qid) + 0.05


def test_in_a_search() -> None:
    X, y, qid, _ = make_ranking(n_queries=30, random_state=0)
    model = LinearRankSVMCV([1.0, 100.0, 1e5], cv=3, pair_weight="gain", scaling=None).fit(
        X, y, qid=qid
    )
    alone = LinearRankSVM(model.C_, pair_weight="gain", scaling=None).fit(X, y, qid=qid)
    assert_allclose(model.objective_, alone.objective_, rtol=1e-3)
    assert model.best_estimator_.pair_weight == "gain"


def test_labels_without_gains_are_refused() -> None:
    X = np.arange(8.0).reshape(4, 2)
    model = LinearRankSVM(pair_weight="gain", scaling=None)
    with pytest.raises(ParameterError, match=r"got the label 0\.5\. Use gain='linear'"):
        model.fit(X, [0.5, 1.0, 2.0, 3.0])
    with pytest.raises(ParameterError, match=r"got the label -1\. Shift the labels"):
        model.set_params(gain="linear").fit(X, [-1.0, 1.0, 2.0, 3.0])
    with pytest.raises(ParameterError, match="pairs that are listed have weights of their own"):
        model.fit_pairs(X, [0], [1])
    with pytest.raises(ParameterError, match="float64 does not represent"):
        model.fit(X, np.array([2**60, 2**60 + 1, 0, 1]))
    with pytest.raises(ParameterError, match="pair_weight must be one of 'uniform', 'gain'"):
        model.set_params(pair_weight="ndcg").fit(X, [0, 1, 2, 3])


def test_gains_that_overflow_are_refused() -> None:
    model = LinearRankSVM(pair_weight="gain", gain="linear", scaling=None)
    with pytest.raises(OverflowError, match="the labels are too large"):
        model.fit(np.arange(4.0)[:, None], [0.0, 1.7e308, 1.7e308, 1.0])
