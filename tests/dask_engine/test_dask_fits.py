"""Fits on a cluster: the same bits as the same cuts in one process, from all kinds of input."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from typing import Any

import pytest

pytest.importorskip("distributed", reason="ranksvm.dask needs Dask")
pytest.importorskip("dask.dataframe", reason="ranksvm.dask needs Dask DataFrames")

import dask
import dask.array
import dask.dataframe
import faults
import numpy as np
import sets
from clusters import local_cluster
from distributed import Client
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import ranksvm
from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV
from ranksvm.dask import DaskKernelRankSVM, DaskLinearRankSVM, DaskLinearRankSVMCV
from ranksvm.dask.engine import Engine
from ranksvm.dask.partitions import training_shards
from ranksvm.dask.shards import KEPT_SHARE
from ranksvm.data import RankingData
from ranksvm.data.scaling import SCALINGS
from ranksvm.data.shard_files import open_files
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.linear import LinearProblem, LinearSettings


def same_bits(model: Any, fit: Any) -> None:
    assert np.array_equal(model.coef_, fit.coef)
    assert (model.objective_, model.gap_) == (fit.objective, fit.gap)
    assert (model.n_iter_, model.n_products_) == (fit.n_iter, fit.n_products)


@pytest.fixture(scope="module")
def data() -> RankingData:
    return sets.ranking()


@pytest.fixture(scope="module")
def cuts(data: RankingData) -> list[int]:
    """Most queries are whole; one partition is empty, and one has one row."""
    first, second = even_cuts = sets.even_cuts(data, 3)
    assert len(even_cuts) == 2
    return [first, first, second, second + 1]


@pytest.mark.parametrize(
    ("n_workers", "threads", "per_task"),
    [(1, 1, 1), (2, 2, 1), pytest.param(3, 1, 2, marks=pytest.mark.slow)],
)
def test_the_number_of_workers_does_not_matter(data, cuts, n_workers, threads, per_task) -> None:
    with (
        local_cluster(n_workers, threads, processes=False) as cluster,
        Client(cluster) as client,
    ):
        model = DaskLinearRankSVM(C=500.0, client=client, threads_per_task=per_task)
        model.fit(sets.as_tuples(data, cuts))
        for loss, reduction in (("hinge", "query_mean"), ("squared_hinge", "sum")):
            other = clone(model).set_params(loss=loss, reduction=reduction, C=5.0)
            other.fit(sets.as_tuples(data, cuts))
            chosen = LinearSettings(C=5.0, loss=loss, reduction=reduction)
            same_bits(other, sets.local_fit(data, cuts, chosen))
    same_bits(model, sets.local_fit(data, cuts, LinearSettings(C=500.0)))


def test_weights_of_pairs(threads, data, cuts) -> None:
    model = DaskLinearRankSVM(C=5.0, pair_weight="gain", client=threads)
    model.fit(sets.as_tuples(data, cuts))
    same_bits(model, sets.local_fit(data, cuts, LinearSettings(C=5.0, pair_weight="gain")))
    known = LinearRankSVM(5.0, pair_weight="gain").fit(data.X, data.y, qid=data.qid)
    assert abs(model.objective_ - known.objective_) <= 1e-3 * known.objective_
    with pytest.raises(ValueError, match="pair_weight='lambda' is not available"):
        clone(model).set_params(pair_weight="lambda").fit(sets.as_tuples(data, cuts))


def as_strings(qid: Any) -> Any:
    return np.array([f"query {one}" for one in qid.tolist()], dtype=object)


@pytest.fixture(scope="module")
def threads() -> Any:
    """Two workers in this process, for many small fits."""
    with local_cluster(2, 2, processes=False) as cluster, Client(cluster) as client:
        yield client


@st.composite
def cut_sets(draw: Any) -> tuple[RankingData, list[int]]:
    """Rows sorted or not, with or without ids, numbers or strings, weights; and where to cut."""
    data = sets.ranking(12, seed=draw(st.integers(0, 20)))
    rng = np.random.default_rng(draw(st.integers(0, 100)))
    kind = draw(st.sampled_from(["sorted", "unsorted", "strings", "one ranking"]))
    if kind != "sorted":
        data = data.take(rng.permutation(data.n_items))
    qid = {"strings": as_strings(data.qid), "one ranking": None}.get(kind, data.qid)
    weight = rng.integers(0, 3, data.n_items).astype(float) + 0.5 * draw(st.booleans())
    if not draw(st.booleans()):
        weight = None
    data = RankingData(data.X, data.y, qid, item_weight=weight)
    return data, sorted(draw(st.lists(st.integers(0, data.n_items), max_size=5)))


@settings(max_examples=15, phases=[Phase.explicit, Phase.generate])
@given(cut_sets(), st.sampled_from([0.5, 30.0]))
def test_any_cuts_of_any_rows(threads, case, C) -> None:
    data, cuts = case
    model = DaskLinearRankSVM(C, tol=1e-6, client=threads, scaling=None).fit(
        sets.as_tuples(data, cuts)
    )
    same_bits(model, sets.local_fit(data, cuts, LinearSettings(C=C, tol=1e-6, scaling=None)))
    memory = LinearRankSVM(C, tol=1e-6, scaling=None)
    memory.fit(data.X, data.y, data.qid, sample_weight=data.item_weight)
    exact = sets.exact_objective(data, memory.coef_, C)
    assert sets.exact_objective(data, model.coef_, C) == pytest.approx(exact, rel=1e-12)
    assert np.abs(model.coef_ - memory.coef_).max() <= 1e-10 * np.abs(memory.coef_).max()
    assert model.n_pairs_ == memory.n_pairs_
    # The objective includes a bound on rounding errors, which depends on the cuts.
    assert model.objective_ - model.gap_ <= exact <= model.objective_ * (1 + 1e-12)


def test_frames(threads, data, cuts) -> None:
    weighted = RankingData(data.X, data.y, as_strings(data.qid), item_weight=1.0 + data.y)
    frame = sets.as_frame(weighted, cuts)
    assert not frame.known_divisions
    model = DaskLinearRankSVM(C=500.0, client=threads)
    model.fit(frame, "label", qid="query", sample_weight="weight")
    same_bits(model, sets.local_fit(weighted, cuts, LinearSettings(C=500.0), order="F"))
    assert model.feature_names_in_.tolist() == [f"f{k}" for k in range(6)]
    # Scores are lazy, have the partitions of the frame, and need only the features.
    local = model.to_local()
    expected = local.predict(frame.compute())
    scores = model.predict(frame)
    assert isinstance(scores, dask.dataframe.Series)
    assert scores.npartitions == frame.npartitions
    np.testing.assert_allclose(scores.compute(), expected)
    features = frame.drop(columns=["label", "query", "weight"])
    np.testing.assert_allclose(model.predict(features).compute(), expected)
    accuracy = local.score(frame.compute(), "label", "query")
    assert model.score(frame, "label") == pytest.approx(accuracy)
    # Categories are fine as ids. Other columns may come as Series.
    categories = frame.assign(query=frame["query"].astype("category"))
    again = clone(model).fit(categories, "label", qid="query", sample_weight="weight")
    assert np.array_equal(again.coef_, model.coef_)
    bare = frame.drop(columns=["label", "query", "weight"])
    again.fit(bare, frame["label"], frame["query"], sample_weight=frame["weight"])
    assert np.array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize("scaling", [None, *SCALINGS])
@pytest.mark.parametrize("memory", ["4MB", "20MB"])
def test_files_and_a_cluster_give_the_same_bits(threads, tmp_path, memory, scaling) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    data = sets.ranking(600, seed=3)
    frame = sets.as_frame(data, [])
    frame.compute().to_parquet(tmp_path / "train.parquet", row_group_size=1000)
    files = {"y": "label", "qid": "query", "memory_budget": memory}
    sizes = open_files(tmp_path / "train.parquet", **files).X.shards.sizes
    assert (len(sizes) > 1) == (memory == "4MB")
    expected = LinearRankSVM(C=500.0, scaling=scaling)
    # The budget of a fit decides where the files are cut.
    expected.fit_files(tmp_path / "train.parquet", **files)
    chosen = LinearSettings(scaling=scaling)
    sizes = open_files(tmp_path / "train.parquet", **files, fit=chosen).X.shards.sizes
    cut = sets.as_frame(data, np.cumsum(sizes)[:-1].tolist())
    model = DaskLinearRankSVM(C=500.0, scaling=scaling, client=threads)
    model.fit(cut, "label", qid="query")
    assert np.array_equal(model.coef_, expected.coef_)
    assert (model.objective_, model.gap_) == (expected.objective_, expected.gap_)


def test_narrow_types_stay_narrow(threads, data, cuts) -> None:
    narrow = RankingData(data.X.astype(np.float32), data.y, data.qid)
    model = DaskLinearRankSVM(client=threads).fit(sets.as_frame(narrow, cuts), "label", "query")
    same_bits(model, sets.local_fit(narrow, cuts, LinearSettings(), order="F"))
    # One partition in float64 is enough for float64 everywhere.
    mixed = sets.as_tuples(narrow, cuts)
    mixed[2] = dask.delayed(lambda part: (part[0].astype(np.float64), *part[1:]))(mixed[2])
    model.fit(mixed)
    wide = RankingData(narrow.X.astype(np.float64), data.y, data.qid)
    same_bits(model, sets.local_fit(wide, cuts, LinearSettings()))


@pytest.mark.parametrize("gathered", [False, True])
def test_sparse_blocks(threads, gathered) -> None:
    data = sets.ranking(60, density=0.3)
    if gathered:
        data = data.take(np.random.default_rng(0).permutation(data.n_items))
    data = RankingData(sparse.csr_matrix(data.X), data.y, data.qid)
    cuts = sets.even_cuts(data, 4)
    dense = RankingData(data.X.toarray(), data.y, data.qid)
    X, y, qid = sets.as_arrays(dense, cuts)
    model = DaskLinearRankSVM(client=threads).fit(X.map_blocks(sparse.csr_matrix), y, qid)
    same_bits(model, sets.local_fit(data, cuts, LinearSettings()))


def test_arrays_of_unknown_lengths_and_columns_in_several_chunks(threads, data) -> None:
    cuts = sets.even_cuts(data, 3)
    X, y, qid = sets.as_arrays(data, cuts)
    expected = sets.local_fit(data, cuts, LinearSettings())
    every = y > -np.inf
    features = X[every]
    assert np.isnan(features.shape[0])
    model = DaskLinearRankSVM(client=threads)
    same_bits(model.fit(features, y[every], qid[every]), expected)
    same_bits(model.fit(X.rechunk({1: 4}), y.rechunk(50), data.qid), expected)
    scores = model.predict(X.rechunk({1: 4}))
    assert scores.chunks == (X.chunks[0],)
    np.testing.assert_allclose(scores.compute(), model.to_local().predict(data.X))
    np.testing.assert_allclose(model.predict(features).compute(), model.to_local().predict(data.X))


def test_lists_of_futures_and_of_frames(threads, data, cuts) -> None:
    expected = sets.local_fit(data, cuts, LinearSettings())
    model = DaskLinearRankSVM()  # the current client
    futures = threads.compute(sets.as_tuples(data, cuts))
    same_bits(model.fit(futures), expected)
    scores = threads.gather(model.predict(futures))
    np.testing.assert_allclose(np.concatenate(scores), model.to_local().predict(data.X))
    assert all(one.status == "finished" for one in futures)  # still the user's
    frames = sets.as_frame(data, cuts).to_delayed()
    model.fit(frames, "label", qid="query")
    same_bits(model, sets.local_fit(data, cuts, LinearSettings(), order="F"))
    (first, *_) = dask.compute(*model.predict(frames))
    np.testing.assert_allclose(first, scores[0])


def test_labels_that_float64_does_not_hold(threads, data, cuts) -> None:
    exact = [2**60 + int(level) for level in data.y.astype(int)]
    labels = np.array(exact, dtype=np.int64)
    X, _, qid = sets.as_arrays(data, cuts)
    model = DaskLinearRankSVM(client=threads).fit(X, labels, qid)
    memory = LinearRankSVM().fit(data.X, labels, data.qid)
    assert model.n_pairs_ == memory.n_pairs_
    np.testing.assert_allclose(model.coef_, memory.coef_, rtol=1e-8)


def test_weights_of_queries(threads, data, cuts) -> None:
    ids = as_strings(data.qid)
    weight = {one: 1.0 + k % 3 for k, one in enumerate(dict.fromkeys(ids))}
    named = RankingData(data.X, data.y, ids)
    model = DaskLinearRankSVM(client=threads).fit(sets.as_tuples(named, cuts), query_weight=weight)
    memory = LinearRankSVM().fit(data.X, data.y, ids, query_weight=weight)
    np.testing.assert_allclose(model.coef_, memory.coef_, rtol=1e-8)


def test_everything_is_released(threads, data, cuts) -> None:
    DaskLinearRankSVM(client=threads).fit(sets.as_tuples(data, cuts))
    assert are_released(threads)
    with pytest.raises(RuntimeError, match="stop here"):
        DaskLinearRankSVM(client=threads).fit(
            sets.as_tuples(data, cuts), callback=lambda row, coef: stop()
        )
    assert are_released(threads)


def are_released(client: Any) -> bool:
    """Return whether no futures are left; Dask counts them in a thread of its own."""
    for _ in range(100):
        if not client.futures:
            return True
        time.sleep(0.05)
    return False


def stop() -> None:
    raise RuntimeError("stop here")


def test_large_arguments_travel_in_pieces(threads, monkeypatch, data, cuts) -> None:
    expected = sets.local_fit(data, cuts, LinearSettings())
    monkeypatch.setattr("ranksvm.dask.engine.SMALL", 100)
    monkeypatch.setattr("ranksvm.dask.engine.PIECE", 200)
    monkeypatch.setattr("ranksvm.dask.engine.BATCH", 2)
    monkeypatch.setattr("ranksvm.dask.engine.POLL", 0.01)
    model = DaskLinearRankSVM(client=threads).fit(sets.as_tuples(data, cuts))
    same_bits(model, expected)
    accuracy = model.to_local().score(data.X, data.y, data.qid)
    assert model.score(sets.as_tuples(data, cuts)) == pytest.approx(accuracy)


def test_it_is_an_estimator(threads, data, cuts, tmp_path) -> None:
    model = DaskLinearRankSVM(7.0, client=threads, max_iter=50)
    params = model.get_params()
    of_tables = {"missing", "min_frequency"}  # partitions have numbers only
    assert params.keys() >= LinearRankSVM().get_params().keys() - of_tables
    assert params["client"] is threads
    copied = clone(model)
    assert copied.get_params() == params
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(data.X)
    model.fit(sets.as_tuples(data, cuts), warm := None)
    assert warm is None
    local = model.to_local()
    assert type(local) is LinearRankSVM
    assert local.get_params() == {**LinearRankSVM().get_params(), "C": 7.0, "max_iter": 50}
    assert np.array_equal(local.coef_, model.coef_)
    assert local.history_ == model.history_
    assert (local.gap_, local.n_features_in_) == (model.gap_, 6)
    model.save(tmp_path / "model.safetensors")
    loaded = ranksvm.load(tmp_path / "model.safetensors")
    assert type(loaded) is LinearRankSVM
    assert np.array_equal(loaded.coef_, model.coef_)
    assert loaded.C == 7.0
    restored = pickle.loads(pickle.dumps(model))
    assert restored.client is None
    assert np.array_equal(restored.predict(data.X), local.predict(data.X))
    assert np.array_equal(model.rank(data.X, data.qid), local.rank(data.X, data.qid))
    again = model.set_params(warm_start=True).fit(sets.as_tuples(data, cuts))
    assert again.n_iter_ <= local.n_iter_


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("scaling", [None, *SCALINGS])
def test_kernels(threads, monkeypatch, data, cuts, approximation, kept, scaling) -> None:
    if not kept:
        monkeypatch.setattr("ranksvm.dask.shards.FEATURES_SHARE", 0.0)
        monkeypatch.setattr(Engine, "memory", lambda self: 1.0)
    options = {"gamma": 0.1, "approximation": approximation, "n_components": 20, "random_state": 0}
    options["scaling"] = scaling
    model = DaskKernelRankSVM(client=threads, **options).fit(sets.as_tuples(data, cuts))
    same_kernel = sets.local_fit(data, cuts, KernelSettings(**options))
    assert model.objective_ == same_kernel.objective
    local = model.to_local()
    assert type(local) is KernelRankSVM
    scores = model.predict(sets.as_arrays(data, cuts)[0])
    np.testing.assert_allclose(scores.compute(), local.predict(data.X), rtol=1e-10)
    memory = KernelRankSVM(**options).fit(data.X, data.y, data.qid)
    assert model.objective_ == pytest.approx(memory.objective_, rel=2e-4)


def test_exact_kernels_are_refused(threads, data, cuts) -> None:
    with pytest.raises(ValueError, match="approximation='nystroem' or 'fourier'"):
        DaskKernelRankSVM(approximation=None).fit(sets.as_tuples(data, cuts))


def test_a_search(threads, data, cuts) -> None:
    grid, settings = [0.01, 1.0, 100.0, 10_000.0], {"cv": 3, "metric": "pairwise_accuracy"}
    model = DaskLinearRankSVMCV(grid, **settings, client=threads).fit(sets.as_tuples(data, cuts))
    memory = LinearRankSVMCV(grid, **settings).fit(data.X, data.y, data.qid)
    assert model.C_ == memory.C_
    for name in ("mean_test_score", "split1_test_score"):
        np.testing.assert_allclose(model.cv_results_[name], memory.cv_results_[name], atol=1e-3)
    assert type(model.to_local()) is LinearRankSVM
    np.testing.assert_allclose(model.coef_, memory.coef_, rtol=1e-2, atol=1e-3)
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_allclose(
        model.predict(sets.as_arrays(data, cuts)[0]).compute(), model.to_local().predict(data.X)
    )


def test_a_search_on_a_validation_set(threads, data, cuts) -> None:
    other = sets.ranking(20, seed=5)
    grid = [1.0, 100.0, 10_000.0, 1e6]
    frame, held_out = sets.as_frame(data, cuts), sets.as_frame(other, [30])
    seen: list[int] = []
    model = DaskLinearRankSVMCV(grid, metric="pairwise_accuracy", client=threads)
    model.fit(
        frame, "label", "query", validation=held_out, progress=lambda done, *_: seen.append(done)
    )
    memory = LinearRankSVMCV(grid, metric="pairwise_accuracy").fit(
        data.X, data.y, data.qid, validation=(other.X, other.y, other.qid)
    )
    assert model.C_ == memory.C_
    assert model.n_splits_ == 1
    assert seen
    np.testing.assert_allclose(model.best_score_, memory.best_score_, atol=1e-3)


def test_the_metric_of_a_search(threads, data, cuts) -> None:
    """The same as in memory, if nobody has named one."""
    model = DaskLinearRankSVMCV([100.0], cv=3, client=threads).fit(sets.as_tuples(data, cuts))
    memory = LinearRankSVMCV([100.0], cv=3).fit(data.X, data.y, data.qid)
    assert model.metric_ == memory.metric_ == "ndcg@10"
    np.testing.assert_allclose(model.best_score_, memory.best_score_, atol=1e-3)


def test_shards_give_rows_back_in_any_order(threads, data, cuts) -> None:
    engine = Engine(threads)
    made = training_shards(engine, sets.as_tuples(data, cuts), None, None)
    rows = np.random.default_rng(0).permutation(data.n_items)[:50]
    assert np.array_equal(made.X[rows], data.X[rows])
    more = made.X.shards.with_copies(rows)
    assert more.sizes == (*made.X.shards.sizes, 50)
    assert np.array_equal(more.items(np.arange(50) + data.n_items), data.X[rows])
    assert np.array_equal(made.qid, data.qid)
    engine.close()


@pytest.mark.parametrize(
    ("bytes_a_row", "kept"),
    [
        (np.inf, ["backend", "evaluation", "scores"]),
        (8 * 6 + 32 + 150, ["backend", "evaluation", "scores"]),
        (8 * 6 + 32, ["scores"]),
        (8 * 6, []),
    ],
)
def test_workers_keep_what_there_is_memory_for(
    threads, monkeypatch, data, bytes_a_row, kept
) -> None:
    memory = bytes_a_row * data.n_items / KEPT_SHARE
    monkeypatch.setattr(Engine, "memory", lambda self: memory)
    engine = Engine(threads)
    cuts = sets.even_cuts(data, 3)
    made = training_shards(engine, sets.as_tuples(data, cuts), None, None)
    plain = LinearSettings(scaling=None)
    problem = LinearProblem(made, plain)
    fit = problem.solve()
    assert np.array_equal(fit.coef, sets.local_fit(data, cuts, plain).coef)
    known = list(problem._map._shards.map(faults.Remembered()))
    assert known == [kept] * len(known)
    engine.close()


def test_a_kernel_fit_continues(threads, data, cuts, tmp_path) -> None:
    state = tmp_path / "state.npz"
    options = {"n_components": 20, "random_state": 0, "client": threads}
    model = DaskKernelRankSVM(500.0, checkpoint=state, max_iter=2, **options)
    with pytest.warns(ConvergenceWarning):
        model.fit(sets.as_tuples(data, cuts))
    assert state.exists()
    model.set_params(max_iter=1000).fit(sets.as_tuples(data, cuts))
    assert not state.exists()
    known = DaskKernelRankSVM(500.0, **options).fit(sets.as_tuples(data, cuts))
    assert len(model.history_) < len(known.history_)
    assert model.objective_ == pytest.approx(known.objective_, rel=1e-4)
    assert model.to_local().get_params()["random_state"] == 0
    model.set_params(random_state=None)
    with pytest.raises(ValueError, match="checkpoint needs random_state, an integer"):
        model.fit(sets.as_tuples(data, cuts))


def test_without_dask_the_import_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name: None if name == 'distributed' else find(name)\n"
        "import ranksvm.dask"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: ranksvm.dask needs Dask: pip install 'ranksvm[dask]'" in done.stderr
