"""Features of the query on a cluster: the bits of fits on files, and lazy scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sets
from clusters import local_cluster
from distributed import Client
from scipy import sparse
from test_other_engines import pickled

from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV
from ranksvm.dask import DaskKernelRankSVM, DaskLinearRankSVM, DaskLinearRankSVMCV
from ranksvm.dask.engine import Engine
from ranksvm.data import RankingData
from ranksvm.data.shard_files import open_files
from ranksvm.learners import make_problem
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.linear import LinearSettings

RANKS: dict[str, Any] = {"query_features": ("rank", "zscore")}


@pytest.fixture(scope="module")
def data() -> RankingData:
    return sets.ranking()


@pytest.fixture(scope="module")
def whole(data: RankingData) -> list[int]:
    """Cuts between queries; one partition is empty."""
    first, second = data.groups.offsets[[10, 25]].tolist()
    return [first, first, second]


@pytest.fixture(scope="module")
def threads() -> Any:
    with local_cluster(2, 2, processes=False) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(params=[True, False], ids=["kept", "made again"])
def kept(request: Any, monkeypatch: Any) -> bool:
    """Whether workers keep the columns, or make them in every round."""
    if not request.param:
        monkeypatch.setattr("ranksvm.dask.shards.FEATURES_SHARE", 0.0)
        monkeypatch.setattr(Engine, "memory", lambda self: 1.0)
    return bool(request.param)


@pytest.mark.parametrize("scaling", [None, "standard", "quantile"])
@pytest.mark.parametrize("memory", ["4MB", "40MB"])
def test_files_and_a_cluster_give_the_same_bits(threads, tmp_path, memory, scaling, kept) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    data = sets.ranking(300, seed=3)
    path = tmp_path / "train.parquet"
    sets.as_frame(data, []).compute().to_parquet(path, row_group_size=1000)
    files = {"y": "label", "qid": "query", "memory_budget": memory}
    expected = LinearRankSVM(**RANKS, scaling=scaling).fit_files(path, **files)
    chosen = LinearSettings(**RANKS, scaling=scaling)
    sizes = open_files(path, **files, fit=chosen).X.shards.sizes
    assert (len(sizes) > 1) == (memory == "4MB")
    cut = sets.as_frame(data, np.cumsum(sizes)[:-1].tolist())
    model = DaskLinearRankSVM(**RANKS, scaling=scaling, client=threads)
    model.fit(cut, "label", qid="query")
    assert np.array_equal(model.coef_, expected.coef_)
    assert (model.objective_, model.gap_) == (expected.objective_, expected.gap_)
    known = LinearRankSVM(**RANKS, scaling=scaling).fit(data.X, data.y, data.qid)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_queries_in_several_partitions(threads, data, shuffled, is_sparse, kept) -> None:
    if shuffled:
        data = data.take(np.random.default_rng(0).permutation(data.n_items))
    cuts = sets.even_cuts(data, 4)
    if is_sparse:
        X = sparse.csr_array(np.where(data.X > 0.5, data.X, 0.0))
        data = RankingData(X, data.y, data.qid)
    model = DaskLinearRankSVM(**RANKS, client=threads).fit(sets.as_tuples(data, cuts))
    assert np.array_equal(model.coef_, sets.local_fit(data, cuts, LinearSettings(**RANKS)).coef)
    known = LinearRankSVM(**RANKS).fit(data.X, data.y, data.qid)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-6, atol=1e-9)
    accuracy = model.score(sets.as_tuples(data, cuts))
    assert accuracy == pytest.approx(known.score(data.X, data.y, data.qid), abs=1e-3)


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
@pytest.mark.parametrize("scaling", [None, "robust"])
def test_kernels(threads, data, whole, approximation, scaling, kept) -> None:
    options: dict[str, Any] = {
        "gamma": 0.1, "approximation": approximation, "n_components": 20, "random_state": 0,
        "scaling": scaling, "query_features": ("rank",), "keep_features": False,
    }  # fmt: skip
    model = DaskKernelRankSVM(client=threads, **options).fit(sets.as_tuples(data, whole))
    fit = sets.local_fit(data, whole, KernelSettings(**options))
    assert model.objective_ == fit.objective
    memory = KernelRankSVM(**options).fit(data.X, data.y, data.qid)
    assert model.objective_ == pytest.approx(memory.objective_, rel=2e-4)


def test_another_engine(data) -> None:
    cuts, chosen = sets.even_cuts(data, 4), LinearSettings(**RANKS)
    problem: Any = make_problem(pickled(data, cuts), chosen)
    assert np.array_equal(
        problem.weights(problem.solve().coef), sets.local_fit(data, cuts, chosen).coef
    )


def test_a_search(threads, data, whole) -> None:
    chosen: dict[str, Any] = {**RANKS, "cv": 3, "metric": "pairwise_accuracy"}
    grid = [1e-3, 1e-1, 1e6]
    known = LinearRankSVMCV(grid, **chosen).fit(data.X, data.y, data.qid)
    model = DaskLinearRankSVMCV(grid, **chosen, client=threads).fit(sets.as_tuples(data, whole))
    assert model.C_ == known.C_
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-2, atol=1e-3)


def test_lazy_scores_of_frames(threads, data, whole) -> None:
    frame = sets.as_frame(data, whole)
    model = DaskLinearRankSVM(**RANKS, client=threads).fit(frame, "label", qid="query")
    expected = model.to_local().predict(frame.compute())
    bare = frame.drop(columns=["label", "query"])
    for scores in (
        model.predict(frame),
        model.predict(frame, "query"),
        model.predict(bare, frame["query"]),
    ):
        np.testing.assert_array_equal(np.asarray(scores.compute()), expected)
        assert (scores.name, scores.npartitions) == ("score", frame.npartitions)
    with pytest.raises(ValueError, match=r"got no qid\. Pass it, as in predict\(X, qid=qid\)"):
        model.predict(bare)


def test_lazy_scores_of_arrays_and_lists(threads, data, whole) -> None:
    lists = sets.as_tuples(data, whole)
    model = DaskLinearRankSVM(**RANKS, client=threads).fit(lists)
    expected = model.to_local().predict(data.X, data.qid)
    X, _, qid = sets.as_arrays(data, whole)
    for scores in (model.predict(X, qid), model.predict(X, data.qid)):
        assert scores.chunks == X.chunks[:1]
        np.testing.assert_array_equal(scores.compute(), expected)
    futures = threads.compute(lists)
    for found in (threads.compute(model.predict(lists)), model.predict(futures)):
        np.testing.assert_array_equal(np.concatenate(threads.gather(found)), expected)
    np.testing.assert_array_equal(model.predict(data.X, data.qid), expected)
    with pytest.raises(ValueError, match="got no qid"):
        model.predict(X)
    with pytest.raises(TypeError, match="qid must be the name of a column"):
        model.predict(lists, data.qid)


def test_scores_of_split_queries_are_refused(threads, data, whole) -> None:
    model = DaskLinearRankSVM(**RANKS, client=threads).fit(sets.as_tuples(data, whole))
    sizes = data.groups.sizes
    query = int(np.argmax(sizes))
    middle = int(data.groups.offsets[query]) + 1
    scores = model.predict(sets.as_arrays(data, [middle])[0], data.qid)
    message = f"query {data.groups.ids[query]} has items in partition 0 and in partition 1. Sort X"
    with pytest.raises(ValueError, match=message):
        scores.compute()


def test_too_many_rows_of_split_queries(threads, data, monkeypatch) -> None:
    monkeypatch.setattr("ranksvm.dask.shards.TAKEN_SHARE", 1e-12)
    qid = np.array([f"q{k % 3}" for k in range(data.n_items)])
    data = RankingData(data.X, data.y, qid)
    with pytest.raises(
        ValueError,
        match=r"query_features=\('rank', 'zscore'\) need all items of a query at a time, and "
        r"3 queries are in several places: query q0, for example, has items in partition 0, and "
        r"in partition 3\. To bring them together takes .* which is too much\. Sort the data by "
        r"query, and cut it where the query changes\.",
    ):
        DaskLinearRankSVM(**RANKS, client=threads).fit(
            sets.as_tuples(data, sets.even_cuts(data, 4))
        )


def test_a_value_that_is_not_finite(threads, data, whole) -> None:
    X = data.X.copy()
    X[whole[0] + 3, 2] = np.nan
    holes = RankingData(X, data.y, data.qid)
    model = DaskLinearRankSVM(**RANKS, client=threads)
    with pytest.raises(ValueError, match=r"nan in row 3, column 2\..*\(in partition 2\)"):
        model.fit(sets.as_tuples(holes, whole))
    begin = int(data.groups.offsets[data.groups.index[whole[0] + 3]])
    with pytest.raises(ValueError, match=r"nan in row \d+, column 2.* of partition 1"):
        model.fit(sets.as_tuples(holes, [begin + 1]))
