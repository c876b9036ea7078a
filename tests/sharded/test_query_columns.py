"""Features of the query of data in shards: the bits of a data set in memory, wherever it is cut."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import shard_sets
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_sets import cut

from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV
from ranksvm._memory import parse_memory
from ranksvm.data import RankingData, shard_files
from ranksvm.data.query_features import QUERY_FEATURES
from ranksvm.data.query_view import QueryView
from ranksvm.data.scaling import SCALINGS
from ranksvm.data.shard_files import open_files
from ranksvm.data.shards import ShardedMatrix
from ranksvm.data.svmlight_writer import save_letor
from ranksvm.datasets import make_ranking
from ranksvm.learners import make_problem
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.linear import LinearSettings
from ranksvm.learners.views import model_scores, with_view

VIEWS = [QueryView(("rank",)), QueryView(tuple(QUERY_FEATURES)), QueryView(("zscore",), keep=False)]


def ranking(n_queries: int = 40, seed: int = 0) -> RankingData:
    X, y, qid, _ = make_ranking(n_queries, (1, 20), 6, random_state=seed)
    return RankingData(X, y, qid)


def columns_of(data: RankingData) -> np.ndarray:
    return data.X[np.arange(data.n_items)]


@settings(max_examples=60, deadline=None)
@given(case=shard_sets.sets(), view=st.sampled_from(VIEWS))
def test_the_columns_are_those_in_memory(case, view) -> None:
    data, cuts = case
    known = with_view(data, view)
    found = with_view(cut(data, cuts), view)
    assert isinstance(found.X, ShardedMatrix)
    assert found.X.shape == known.X.shape
    assert found.X.dtype == known.X.dtype
    assert not found.X.shards.is_sparse
    assert np.array_equal(columns_of(found), known.X)
    assert with_view(found, view) is found


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("scaling", [None, *SCALINGS])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_linear_fit(scaling, is_sparse, shuffled) -> None:
    data = ranking()
    if shuffled:
        data = data.take(np.random.default_rng(0).permutation(data.n_items))
    if is_sparse:
        data = replace(data, X=sp.csr_array(np.where(data.X > 0.5, data.X, 0.0)))
    chosen = LinearSettings(scaling=scaling, query_features=("rank", "minmax"), tol=1e-9)
    known = make_problem(data, chosen)
    expected = known.model(known.solve())
    problem = make_problem(cut(data, range(25, data.n_items, 25)), chosen)
    model = problem.model(problem.solve())
    np.testing.assert_allclose(model.coef, expected.coef, rtol=1e-6, atol=1e-9)
    assert model.facts["query_features"] == ["rank", "minmax"]
    scores = model_scores(model, cut(data, range(30, data.n_items, 30)))
    groups = data.groups
    np.testing.assert_allclose(scores, model.scores(data.X, groups=groups), rtol=1e-12)


@pytest.mark.parametrize("scaling", [None, "standard", "quantile"])
@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_approximate_kernels(approximation, scaling) -> None:
    data = ranking()
    chosen = KernelSettings(
        approximation=approximation, n_components=20, gamma=0.1, scaling=scaling, random_state=0,
        query_features=("rank",), keep_features=False, tol=1e-6,
    )  # fmt: skip
    known = make_problem(data, chosen).solve()
    problem = make_problem(cut(data, range(25, data.n_items, 25)), chosen)
    fit = problem.solve()
    assert fit.objective == pytest.approx(known.objective, rel=1e-5)
    scores = model_scores(problem.model(fit), cut(data, [50]))
    np.testing.assert_allclose(scores, problem.score(with_view(data, chosen.view).X, [fit])[0])


def test_some_queries() -> None:
    data = ranking()
    there = cut(data, [50, 151])
    rows = np.flatnonzero(data.groups.index % 2)
    found = with_view(there.take(rows), VIEWS[0])
    assert np.array_equal(columns_of(found), with_view(data, VIEWS[0]).X[rows])
    with pytest.raises(ValueError, match="all items of a query, and some are left out"):
        with_view(there.take(rows[1:]), VIEWS[0])


# --- Files ---------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Save a data set, and make small blocks of it."""
    monkeypatch.setattr(shard_files, "block_size", lambda budget: 6_000)

    def save(data: RankingData):
        np.save(tmp_path / "X.npy", data.X)
        return tmp_path / "X.npy"

    return save


def test_files(saved) -> None:
    data = ranking(200)
    path = saved(data)
    for chosen in (
        {"query_features": ("rank", "zscore")},
        {"query_features": ("minmax",), "keep_features": False, "scaling": "quantile"},
    ):
        known = LinearRankSVM(**chosen).fit(data.X, data.y, data.qid)
        model = LinearRankSVM(**chosen).fit_files(path, y=data.y, qid=data.qid)
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9)
        assert model.n_features_in_ == 6
        np.testing.assert_allclose(
            model.predict(data.X, data.qid), known.predict(data.X, data.qid), rtol=1e-8
        )
    kernel = KernelRankSVM(
        query_features=("rank",), approximation="nystroem", n_components=30, random_state=0
    ).fit_files(path, y=data.y, qid=data.qid)
    assert kernel.status_ == "converged"


@pytest.mark.filterwarnings("ignore:.*is the largest of the grid")
def test_a_search_in_files(saved) -> None:
    data = ranking(100)
    chosen = {"Cs": [1e-3, 1.0, 1e4], "cv": 3, "query_features": ("rank",), "metric": "ndcg@5"}
    model = LinearRankSVMCV(**chosen).fit_files(saved(data), y=data.y, qid=data.qid)
    known = LinearRankSVMCV(**chosen).fit(data.X, data.y, data.qid)
    assert model.C_ == known.C_
    np.testing.assert_allclose(
        model.cv_results_["mean_test_score"], known.cv_results_["mean_test_score"], atol=1e-3
    )
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-6)


def test_the_digest_tells_columns_apart(saved) -> None:
    """Without a pass over files, whose columns follow from what is known about them."""
    data = ranking()
    path = saved(data)
    opened = open_files(path, y=data.y, qid=data.qid)
    seen = [opened, *(with_view(opened, view) for view in VIEWS)]
    assert len({one.X.digest() for one in seen}) == len(seen)
    again = with_view(open_files(path, y=data.y, qid=data.qid), VIEWS[0])
    assert again.X.shards.facts.identity is not None
    assert again.X.digest() == seen[1].X.digest()


def test_shards_are_whole_queries(saved) -> None:
    data = ranking(30)
    large = np.repeat(np.arange(3), [5, 200, 3])  # one query is larger than a block
    qid = np.concatenate([data.qid[: data.n_items - 208], 1000 + large])
    path = saved(data)
    chosen = LinearSettings(query_features=("rank",))
    for fit, is_whole in ((LinearSettings(), False), (chosen, True)):
        opened = open_files(path, y=None, qid=qid, fit=fit)
        starts = opened.X.shards.starts[1:-1]
        assert len(starts) > 1
        assert (qid[starts] != qid[starts - 1]).all() == is_whole
    known = LinearRankSVM(query_features=("rank",)).fit(data.X, data.y, qid)
    model = LinearRankSVM(query_features=("rank",)).fit_files(path, y=data.y, qid=qid)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9)


def test_scattered_queries_that_fit_into_memory(saved) -> None:
    data = ranking()
    data = data.take(np.random.default_rng(0).permutation(data.n_items))
    path = saved(data)
    for qid in (data.qid, None):
        known = LinearRankSVM(query_features=("rank",)).fit(data.X, data.y, qid)
        model = LinearRankSVM(query_features=("rank",)).fit_files(path, y=data.y, qid=qid)
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9)


def test_scattered_queries_that_do_not(tmp_path) -> None:
    data = ranking(400)
    np.save(tmp_path / "a.npy", data.X[:2000])
    np.save(tmp_path / "b.npy", data.X[2000:])
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    qid = np.arange(data.n_items) % 7
    model = LinearRankSVM(query_features=("rank",))
    with pytest.raises(
        MemoryError,
        match=r"of which .* are for features of 7 queries in several shards \(query 0, "
        r"for example, has items in .*a\.npy, row 0, and in .*b\.npy, row \d+\)\. "
        r"Raise memory_budget to .* or more, or sort the rows by query\.",
    ):
        model.fit_files(paths, y=data.y, qid=qid, memory_budget="2.5MB")
    with pytest.raises(MemoryError, match=r"\(without query ids, all items are one query, with"):
        model.fit_files(paths, y=data.y, qid=None, memory_budget="2.5MB")


def test_a_value_that_is_not_finite(saved) -> None:
    data = ranking()
    data.X[100, 2] = np.nan
    with pytest.raises(ValueError, match=r"X\.npy, row 100, column 2: found nan"):
        LinearRankSVM(query_features=("rank",)).fit_files(saved(data), y=data.y, qid=data.qid)
    for cuts in ([90], [100]):
        with pytest.raises(ValueError, match="X has a value that is not finite: nan in row"):
            make_problem(cut(data, cuts), LinearSettings(query_features=("rank",)))


def test_differences_that_overflow(saved) -> None:
    data = ranking()
    data.X[:, 0] = 1.7e308 * np.where(np.arange(data.n_items) % 2, 1.0, -1.0)
    with pytest.raises(OverflowError, match="overflows float64"):
        LinearRankSVM(query_features=("mean_diff",)).fit_files(saved(data), y=data.y, qid=data.qid)


QUERIES = {
    "small": lambda n: np.arange(n) // 20,
    "large": lambda n: np.arange(n) // 3000,
    "one is large": lambda n: np.where(np.arange(n) < n // 3, n, np.arange(n) // 20),
    "scattered": lambda n: np.arange(n) % 1000,
    "some are split": lambda n: np.where(np.arange(n) % 200 == 0, n, np.arange(n) // 20),
    "no ids": lambda n: None,
}


@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize(
    "model",
    [
        LinearRankSVM(query_features=("rank", "zscore"), max_iter=2, tol=0.5),
        LinearRankSVM(query_features=("minmax",), scaling="quantile", max_iter=2, tol=0.5),
        KernelRankSVM(
            query_features=("rank",), approximation="fourier", n_components=30, tol=0.5,
            random_state=0,
        ),
    ],
    ids=["linear", "quantile", "fourier"],
)  # fmt: skip
def test_what_is_said_to_be_enough_is_enough(model, queries, tmp_path) -> None:
    rng = np.random.default_rng(0)
    n = 12_000
    X, y = rng.normal(size=(n, 20)).astype(np.float32), rng.integers(0, 3, n).astype(float)
    np.save(tmp_path / "X.npy", X)
    small = np.arange(600) // 20
    model.fit(X[:600], y[:600], small)  # imports
    given = {"y": y, "qid": QUERIES[queries](n)}
    with pytest.raises(MemoryError) as found:
        model.fit_files(tmp_path / "X.npy", **given, memory_budget="0.5MB")
    enough = re.search(r"to ([\d.]+ .B) or more", str(found.value))[1]
    tracemalloc.start()
    model.fit_files(tmp_path / "X.npy", **given, memory_budget=enough)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= parse_memory("memory_budget", enough)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_letor_text(tmp_path, is_sparse, monkeypatch) -> None:
    monkeypatch.setattr(shard_files, "block_size", lambda budget: 20_000)
    data = ranking(60)
    X = data.X
    if is_sparse:
        X = np.zeros((data.n_items, 60))
        X[:, ::20] = data.X[:, :3]
    save_letor(tmp_path / "train.txt", X, data.y, data.qid)
    chosen = {"query_features": ("rank", "mean_diff"), "scaling": "standard"}
    known = LinearRankSVM(**chosen).fit(X, data.y, data.qid)
    model = LinearRankSVM(**chosen).fit_files(tmp_path / "train.txt")
    opened = open_files(tmp_path / "train.txt", fit=LinearSettings(**chosen))
    assert (opened.X.shards.is_sparse, len(opened.X.shards.sizes) > 1) == (is_sparse, True)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-7, atol=1e-12)
