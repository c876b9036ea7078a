"""Data sets in files against the same data in memory: values, cuts, fits, memory, errors."""

from __future__ import annotations

import decimal
import os
import pickle
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranksvm._messages import TooLittleMemoryError
from ranksvm._text import listed
from ranksvm._values import float_type
from ranksvm.data import RankingData
from ranksvm.data.file_sets import find_files
from ranksvm.data.local_shards import AHEAD
from ranksvm.data.parquet.source import ParquetSource
from ranksvm.data.row_sources import BlockPool
from ranksvm.data.shard_files import open_files
from ranksvm.data.shard_memory import block_size
from ranksvm.data.streams import FileFormatError
from ranksvm.datasets import make_ranking
from ranksvm.learners.linear import LinearProblem, LinearSettings
from ranksvm.sharded.gathered import GatheredMap
from ranksvm.sharded.local import LocalMap
from ranksvm.sharded.tasks import Scores

SETTINGS = LinearSettings(C=20.0, tol=1e-9, scaling=None)


def same_fit(data: RankingData, memory: RankingData, chosen: LinearSettings = SETTINGS) -> None:
    """Assert that the fit on files is that on the data in memory."""
    fit, expected = LinearProblem(data, chosen).solve(), LinearProblem(memory, chosen).solve()
    assert fit.objective == pytest.approx(expected.objective, rel=1e-11)
    exact = objective_at(expected.coef, memory, chosen)
    assert objective_at(fit.coef, memory, chosen) == pytest.approx(exact, rel=1e-12)
    largest = np.abs(expected.coef).max(initial=0.0)
    np.testing.assert_allclose(fit.coef, expected.coef, rtol=0.0, atol=1e-10 * largest)


def objective_at(coef: np.ndarray, data: RankingData, chosen: LinearSettings) -> float:
    """Sum the objective over all pairs one by one."""
    scores = data.X.astype(np.float64) @ coef
    weight = np.ones(data.n_items) if data.item_weight is None else data.item_weight
    total = mass = 0.0
    for q in range(data.groups.n_queries):
        rows = data.groups.rows[data.groups.offsets[q] : data.groups.offsets[q + 1]]
        better, worse = np.nonzero(data.y[rows][:, None] > data.y[rows][None, :])
        pair = weight[rows[better]] * weight[rows[worse]]
        slack = np.maximum(0.0, 1.0 - scores[rows[better]] + scores[rows[worse]])
        total += float((pair * (slack if chosen.loss == "hinge" else slack**2)).sum())
        mass += float(pair.sum())
    return 0.5 * float(coef @ coef) + chosen.C * total / mass


def every_row(data: RankingData) -> np.ndarray:
    found = data.X[np.arange(data.n_items)]
    return found if isinstance(found, np.ndarray) else found.toarray()


def write(
    folder: Path, columns: dict, cuts: tuple[int, ...] = (), group: int = 50, **options
) -> list[Path]:
    """Write a table as one or several Parquet files."""
    table = pa.table(columns)
    bounds = [0, *cuts, table.num_rows]
    paths = []
    for k, (begin, end) in enumerate(pairwise(bounds)):
        paths.append(folder / f"part-{k:02d}.parquet")
        pq.write_table(table.slice(begin, end - begin), paths[-1], row_group_size=group, **options)
    return paths


def columns_of(X: np.ndarray, y, qid) -> dict:
    columns = {"label": y, "query": qid}
    return columns | {f"f{j}": X[:, j] for j in range(X.shape[1])}


@pytest.fixture
def ranking() -> RankingData:
    X, y, qid, _ = make_ranking(60, (1, 20), 6, random_state=0)
    return RankingData(X.astype(np.float32), y, qid)


@pytest.fixture
def files(tmp_path, ranking) -> list[Path]:
    return write(tmp_path, columns_of(ranking.X, ranking.y, ranking.qid), (100, 317))


# --- The same as in memory -----------------------------------------------------------------------

KINDS = [np.float32, np.float64, np.float16, np.int8, np.uint16, np.int32, np.int64, np.bool_]


def _as_kind(values: np.ndarray, kind: type) -> np.ndarray:
    if kind is np.bool_:
        return values > 0.0
    return (np.abs(values) if kind is np.uint16 else values).astype(kind)


@st.composite
def tables(draw) -> tuple[RankingData, dict, tuple[int, ...], int, int]:
    """A small data set, its columns, its files and row groups, and a budget."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(8, 200))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    features = [_as_kind(3.0 * rng.normal(size=n).astype(np.float32), kind) for kind in kinds]
    features.append(rng.normal(size=n).astype(np.float32))
    y = rng.integers(0, 4, n)
    n_queries = draw(st.sampled_from([1, 3, 20]))
    numbers = rng.integers(0, n_queries, n)
    if draw(st.booleans()):
        numbers.sort()
    y[:2], numbers[:2] = [0, 1], numbers[0]  # at least one pair
    ids: dict = {
        "int64": numbers - 2**40,
        "int32": numbers.astype(np.int32),
        "float64": numbers.astype(np.float64),
        "text": [f"q{i}é" for i in numbers],
        "dictionary": pa.array([f"q{i}" for i in numbers]).dictionary_encode(),
        "uint64": numbers.astype(np.uint64) + np.uint64(2**63),
    }
    kind = draw(st.sampled_from(sorted(ids)))
    columns = {f"f{j}": one for j, one in enumerate(features)}
    columns["label"] = y.astype(draw(st.sampled_from([np.int8, np.int64, np.float32, np.bool_])))
    columns["query"] = ids[kind]
    memory = RankingData(
        np.column_stack([one.astype(np.float64) for one in features]),
        columns["label"].astype(np.float64),
        numbers,
    )
    cuts = draw(st.lists(st.integers(1, n - 1), max_size=3, unique=True))
    group = draw(st.sampled_from([1, 7, 64, 1000]))
    budget = 4000 + 800 * n + draw(st.sampled_from([0, 20_000, 200_000, 10**8]))
    budget += 6 * sum(one.nbytes for one in features)
    return memory, columns, tuple(sorted(cuts)), group, budget


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=tables())
def test_random_tables_are_as_in_memory(case, tmp_path_factory):
    memory, columns, cuts, group, budget = case
    paths = write(tmp_path_factory.mktemp("set"), columns, cuts, group)
    data = open_files(paths, y="label", qid="query", memory_budget=budget)
    features = [name for name in columns if name.startswith("f")]
    exact = all(np.can_cast(columns[name].dtype, np.float32) for name in features)
    assert data.X.dtype == (np.float32 if exact else np.float64)
    assert data.feature_names == tuple(features)
    np.testing.assert_array_equal(every_row(data), memory.X)
    np.testing.assert_array_equal(data.y, memory.y)
    ids = columns["query"]
    ids = ids.to_pylist() if isinstance(ids, pa.Array) else list(ids)
    found = data.groups.ids[data.groups.index]
    assert found.tolist() == ids
    np.testing.assert_array_equal(data.groups.rows, memory.groups.rows)
    if np.unique(memory.y).size > 1:
        same_fit(data, memory)


def test_weights_and_every_loss_are_as_in_memory(tmp_path, ranking):
    weight = np.random.default_rng(0).integers(1, 4, ranking.n_items)
    columns = columns_of(ranking.X, ranking.y, ranking.qid) | {"w": weight}
    write(tmp_path, columns, (100,))
    data = open_files(tmp_path, y="label", qid="query", sample_weight="w", memory_budget=100_000)
    assert len(data.X.shards.sizes) > 1
    assert "w" not in data.feature_names
    memory = RankingData(ranking.X, ranking.y, ranking.qid, item_weight=weight.astype(float))
    for loss in ("squared_hinge", "hinge"):
        same_fit(data, memory, LinearSettings(C=20.0, loss=loss, tol=1e-9, scaling=None))


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_and_passes_change_no_bit(tmp_path, ranking, n_threads):
    X = widened(ranking.X)
    files = write(tmp_path, columns_of(X, ranking.y, ranking.qid), (100, 317))

    def coefficients(threads: int, keep: bool) -> np.ndarray:
        data = open_files(files, y="label", qid="query", memory_budget=250_000, n_threads=threads)
        shards = data.X.shards
        assert len(shards.sizes) > 3
        assert len(shards._shards[0].rows.load._source._shares) == threads
        np.testing.assert_array_equal(every_row(data), X)
        shards._allowance.left = 1e9 if keep else 0.0
        if not keep:
            shards.keeps = frozenset()
        return LinearProblem(data, SETTINGS, n_threads=threads).solve().coef

    expected = coefficients(1, keep=True)
    for keep in (True, False):
        np.testing.assert_array_equal(coefficients(n_threads, keep), expected)


def test_subsets_and_parts_of_queries(files, ranking):
    data = open_files(files, y="label", qid="query", memory_budget=100_000)
    rows = np.flatnonzero(ranking.groups.index % 3 == 0)
    same_fit(data.take(rows), ranking.take(rows))
    some = np.arange(3, ranking.n_items, 2)
    np.testing.assert_array_equal(data.X[some[::-1]], ranking.X[some[::-1]])
    same_fit(data.take(some), ranking.take(some))
    assert data.X[some[:0]].shape == (0, ranking.n_features)


def widened(X: np.ndarray) -> np.ndarray:
    """Return X with more columns: fewer rows fit into a block."""
    more = np.random.default_rng(0).normal(size=(len(X), 24))
    return np.hstack([X, more.astype(np.float32)])


def test_a_global_ranking(tmp_path, ranking):
    X, y = widened(ranking.X), ranking.y
    write(tmp_path, columns_of(X, y, ranking.qid), (200,))
    names = [f"f{j}" for j in range(X.shape[1])]
    data = open_files(tmp_path, y="label", qid=None, columns=names, memory_budget=500_000)
    assert data.qid is None
    assert len(data.X.shards.sizes) > 2
    assert isinstance(LinearProblem(data, SETTINGS)._map, GatheredMap)
    same_fit(data, RankingData(X, y))


def test_columns_choose_features_and_their_order(files, ranking):
    data = open_files(files, y="label", qid="query", columns=["f4", "f1"])
    assert data.feature_names == ("f4", "f1")
    np.testing.assert_array_equal(every_row(data), ranking.X[:, [4, 1]])


def test_files_may_order_their_columns_differently(tmp_path, ranking):
    first, second = write(tmp_path, columns_of(ranking.X, ranking.y, ranking.qid), (200,))
    table = pq.read_table(second)
    pq.write_table(table.select(table.column_names[::-1]), second)
    data = open_files([first, second], y="label", qid="query")
    np.testing.assert_array_equal(every_row(data), ranking.X)
    np.testing.assert_array_equal(data.qid, ranking.qid)


def test_names_with_dots_and_empty_files(tmp_path, ranking):
    columns = columns_of(ranking.X, ranking.y, ranking.qid)
    columns = {{"f1": "f0.x", "f2": "f"}.get(name, name): one for name, one in columns.items()}
    paths = write(tmp_path, columns, (0, 200, 200, ranking.n_items))
    assert len(paths) == 5
    data = open_files(paths, y="label", qid="query", memory_budget=100_000)
    np.testing.assert_array_equal(every_row(data), ranking.X)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_is_obeyed(files, ranking, dtype):
    data = open_files(files, y="label", qid="query", dtype=dtype)
    assert every_row(data).dtype == data.X.dtype == dtype
    np.testing.assert_array_equal(every_row(data), ranking.X)


def test_labels_beyond_float64_keep_their_order(tmp_path):
    labels = np.array([2**53, 2**53 + 1, 2**53 + 2, 0])
    write(tmp_path, {"label": labels, "f": np.arange(4.0)})
    data = open_files(tmp_path, qid=None)
    assert data.y.tolist() == [1.0, 2.0, 3.0, 0.0]
    assert data.labels.tolist() == labels.tolist()


def test_decimal_labels(tmp_path):
    labels = [decimal.Decimal("1.50"), decimal.Decimal("0.25")]
    write(tmp_path, {"label": labels, "f": [1.0, 2.0]})
    assert open_files(tmp_path, qid=None).y.tolist() == [1.5, 0.25]
    write(tmp_path, {"label": [decimal.Decimal("0.1"), decimal.Decimal("0.2")], "f": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"row 0 .*'label' holds decimal numbers that float64"):
        open_files(tmp_path, qid=None)


def test_a_set_without_labels(files, ranking):
    names = [f"f{j}" for j in range(ranking.n_features)]
    data = open_files(files, y=None, qid="query", columns=names)
    assert data.y is None
    found = np.concatenate(list(data.X.shards.map(Scores(np.ones(6)))))
    np.testing.assert_allclose(found, ranking.X.astype(float).sum(axis=1))


# --- Arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f4", "<f8", ">f4", "i1", "<i8", "?", "<f2"])
def test_npy_files(tmp_path, ranking, order, kind):
    X = np.asarray((4 * ranking.X).astype(kind), order=order)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", ranking.y)
    np.save(tmp_path / "qid.npy", ranking.qid)
    data = open_files(
        tmp_path / "x.npy",
        y=tmp_path / "y.npy",
        qid=tmp_path / "qid.npy",
        memory_budget=150_000,
    )
    assert len(data.X.shards.sizes) > 1
    exact = np.can_cast(X.dtype, np.float32)
    assert data.X.dtype == (np.float32 if exact else np.float64)
    np.testing.assert_array_equal(every_row(data), X.astype(np.float64))
    same_fit(data, RankingData(X.astype(np.float64), ranking.y, ranking.qid))


@pytest.mark.parametrize("order", ["C", "F"])
def test_mapped_arrays_and_slices_of_them(tmp_path, ranking, order):
    np.save(tmp_path / "x.npy", np.asarray(ranking.X, order=order))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[0] = 7.0
    changed = ranking.X.copy()
    changed[0] = 7.0
    many = [mapped[:100], np.array(mapped[100:250]), mapped[250:, :]]
    for X, expected in (
        (mapped, ranking.X),
        (mapped[5:], ranking.X[5:]),
        (mapped[::2], ranking.X[::2]),
        (mapped[:, 1:4], ranking.X[:, 1:4]),
        (private, changed),
        (many, ranking.X),
        (ranking.X, ranking.X),
    ):
        n = len(expected)
        y, qid = ranking.y[:n], [f"q{i}" for i in ranking.qid[:n]]
        data = open_files(X, y=y, qid=qid, memory_budget=100_000)
        np.testing.assert_array_equal(every_row(data), expected)
        assert data.groups.ids.tolist() == list(dict.fromkeys(qid))
        same_fit(data, RankingData(expected, y, ranking.qid[:n]))


def test_arrays_that_do_not_fit_together(tmp_path, ranking):
    X, y, qid = ranking.X, ranking.y, ranking.qid
    with pytest.raises(ValueError, match="array 1 of X differs from array 0 of X: columns 5 inst"):
        open_files([X, X[:, :5]], y=y, qid=qid)
    with pytest.raises(ValueError, match=r"differs .*: dtype float64 instead of float32"):
        open_files([X, X.astype(float)], y=y, qid=qid)
    with pytest.raises(ValueError, match="must have two dimensions; it has 1"):
        open_files(X[0], y=y, qid=qid)
    with pytest.raises(ValueError, match="must hold real numbers of at most 64 bits; got dtype co"):
        open_files(X.astype(complex), y=y, qid=qid)
    with pytest.raises(ValueError, match=r"y must have one label for each of the .* rows; got sha"):
        open_files(X, y=y[1:], qid=qid)
    with pytest.raises(ValueError, match=r"y must be an array or the path of a \.npy file"):
        open_files(X, qid=qid)
    with pytest.raises(ValueError, match=r"y has a value that is not finite: nan in row 3"):
        open_files(X, y=np.where(np.arange(len(y)) == 3, np.nan, y), qid=qid)
    with pytest.raises(ValueError, match="columns names columns of Parquet files"):
        open_files(X, y=y, qid=qid, columns=["a"])
    bad = X.copy()
    bad[17, 2] = np.inf
    np.save(tmp_path / "bad.npy", bad)
    data = open_files(tmp_path / "bad.npy", y=y, qid=qid, memory_budget=100_000)
    with pytest.raises(ValueError, match=r"bad.npy, row 17, column 2: found inf, expected a fini"):
        LinearProblem(data, SETTINGS).solve()


def test_an_array_file_that_changes(tmp_path, ranking):
    path = tmp_path / "x.npy"
    np.save(path, ranking.X)
    data = open_files(np.load(path, mmap_mode="r"), y=ranking.y, qid=ranking.qid)
    os.truncate(path, 1000)
    with pytest.raises(FileFormatError, match=r"x.npy has changed since .*to 1,000 bytes"):
        every_row(data)


# --- Cuts ----------------------------------------------------------------------------------------


def test_cuts_are_between_queries_and_blocks_fit(files, ranking):
    budget = 100_000
    data = open_files(files, y="label", qid="query", memory_budget=budget)
    starts = data.X.shards.starts
    sizes = np.diff(starts)
    assert sizes.sum() == ranking.n_items
    assert sizes.max() * 6 * 4 <= block_size(budget)
    inner = starts[1:-1]
    assert (ranking.qid[inner] != ranking.qid[inner - 1]).all()
    # No shard could have taken the next query as well.
    grown = sizes[:-1] + ranking.groups.sizes[ranking.groups.index[inner]]
    assert (grown * 6 * 4 > block_size(budget)).all()
    assert isinstance(LinearProblem(data, SETTINGS)._map, LocalMap)


def test_a_query_larger_than_a_shard_is_cut(tmp_path, ranking):
    X, y = widened(ranking.X), ranking.y
    qid = np.minimum(ranking.qid, np.unique(ranking.qid)[5])
    X, y, qid = np.tile(X, (4, 1)), np.tile(y, 4), np.tile(qid, 4)
    write(tmp_path, columns_of(X, y, qid))
    chosen = {"y": "label", "qid": "query", "memory_budget": "3.4MB"}
    assert open_files(tmp_path, **chosen).X.shards.keeps  # for scores alone
    data = open_files(tmp_path, **chosen, fit=SETTINGS)
    assert len(data.X.shards.sizes) > 1
    assert data.X.shards.keeps == frozenset()  # all scores and pairs come together
    assert isinstance(LinearProblem(data, SETTINGS)._map, GatheredMap)
    same_fit(data, RankingData(X, y, qid))


def test_a_query_goes_on_in_the_next_file(tmp_path, ranking):
    query = [f"q{i}" for i in ranking.qid]
    at = int(ranking.groups.offsets[10]) + 1
    write(tmp_path, columns_of(ranking.X, ranking.y, query), (at,))
    data = open_files(tmp_path, y="label", qid="query")
    assert data.groups.n_queries == ranking.groups.n_queries
    same_fit(data, ranking)


def test_a_row_may_be_larger_than_a_block(tmp_path):
    X = np.random.default_rng(0).normal(size=(12, 500))
    np.save(tmp_path / "x.npy", X)
    y, qid = np.arange(12) % 3, np.arange(12) // 4
    data = open_files(tmp_path / "x.npy", y=y, qid=qid, memory_budget=30_000)
    assert data.X.shards.sizes == (1,) * 12
    assert block_size(30_000) < X[0].nbytes
    same_fit(data, RankingData(X, y.astype(float), qid))


def test_a_large_row_group_is_decoded_once_a_pass(tmp_path, ranking, monkeypatch):
    X, y = np.tile(ranking.X, (4, 1)), np.tile(ranking.y, 4)
    qid = np.concatenate([ranking.qid + 1000 * k for k in range(4)])
    paths = write(tmp_path, columns_of(X, y, qid), group=10**6)
    data = open_files(paths, y="label", qid="query", memory_budget=400_000)
    shards = data.X.shards
    shards._allowance.left = 0.0
    assert len(shards.sizes) > 2
    decoded = []
    usual = pq.ParquetFile.iter_batches

    def counted(self, *args, **options):
        for batch in usual(self, *args, **options):
            decoded.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    list(shards.map(Scores(np.ones(6))))
    assert sum(decoded) == y.size
    list(shards.map(Scores(np.ones(6))))
    assert sum(decoded) == 2 * y.size
    decoded.clear()
    # One row of the last shard: what lies before it in the row group is passed over once.
    np.testing.assert_array_equal(data.X[np.array([y.size - 1])], X[-1:])
    assert sum(decoded) == y.size
    decoded.clear()
    for k in (0, 2, 1):
        shards._shards[k].rows.load()
    assert sum(decoded) < 3 * y.size


# --- Memory --------------------------------------------------------------------------------------


def test_what_is_kept_follows_from_the_budget(files, ranking):
    n = ranking.n_items
    assert n * 48 < 100_000
    kept = {
        budget: open_files(files, y="label", qid="query", memory_budget=budget).X.shards
        for budget in (60_000, 85_000, 100_000, 250_000, "1MB")
    }
    assert kept[60_000].keeps == frozenset()
    assert kept[85_000].keeps == {"scores"}
    assert kept[100_000].keeps == {"scores", "order"}
    assert kept[250_000].keeps == {"scores", "order", "pairs"}
    shards = kept["1MB"]
    assert shards._allowance.left > ranking.X.nbytes
    list(shards.map(Scores(np.ones(6))))
    assert all(shard.rows.is_loaded for shard in shards._shards)
    few = kept[100_000]
    before = few._allowance.left
    list(few.map(Scores(np.ones(6))))
    loaded = [shard.X.nbytes for shard in few._shards if shard.rows.is_loaded]
    assert sum(loaded) == before - few._allowance.left <= before


def test_shards_made_from_others_share_what_stays_in_memory(files):
    data = open_files(files, y="label", qid="query", memory_budget="1MB")
    shards = data.X.shards
    for chosen in (SETTINGS, LinearSettings(C=1.0, scaling=None)):
        LinearProblem(data, chosen).solve()
    used = sum(shard.X.nbytes for shard in shards._shards if shard.rows.is_loaded)
    assert used == data.n_items * 6 * 4
    fresh = open_files(files, y="label", qid="query", memory_budget="1MB").X.shards
    assert fresh._allowance.left - shards._allowance.left == used  # counted once


def test_a_budget_that_is_too_small(files, ranking):
    with pytest.raises(
        TooLittleMemoryError, match=r"labels and query ids take 30\.4 KB, blocks that"
    ) as info:
        open_files(files, y="label", qid="query", memory_budget="30KB")
    enough = str(info.value).rpartition(" to ")[2].removesuffix(" or more.")
    data = open_files(files, y="label", qid="query", memory_budget=enough)
    same_fit(data, ranking)
    with pytest.raises(ValueError, match="memory_budget must be a positive number of bytes"):
        open_files(files, y="label", qid="query", memory_budget="much")


def test_memory_of_blocks_is_used_again_but_never_under_a_view():
    pool = BlockPool()
    first = pool.empty((10, 4), np.float32, "F")
    assert first.flags.f_contiguous
    first[...] = 1.0
    address = first.__array_interface__["data"][0]
    view = first.T[2]
    del first
    other = pool.empty((5, 8), np.float32)
    other[...] = 2.0
    assert (view == 1.0).all()
    del view
    again = pool.empty((5, 7), np.float32)
    assert again.__array_interface__["data"][0] == address
    assert again.shape == (5, 7)
    larger = pool.empty((100, 7), np.float64)
    assert larger.nbytes == 5600


# Not from `getrusage`, whose maximum a process inherits from the one that started it.
MEASURE = """
import re, sys
from pathlib import Path
from ranksvm.data.shard_files import open_files
from ranksvm.learners.linear import LinearProblem, LinearSettings
import pyarrow.parquet, scipy.sparse
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
data = open_files(sys.argv[1], y="label", qid="query", memory_budget=sys.argv[2])
LinearProblem(data, LinearSettings(C=1.0)).solve()
print(before, peak(), len(data.X.shards.sizes))
"""


def measured(folder: Path, budget: str) -> tuple[int, int, int]:
    """Return the memory of a process before a fit on files and at most, and the shards."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, folder, budget], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    before, peak, n_shards = map(int, done.stdout.split())
    return before, peak, n_shards


def write_large(folder: Path, n_files: int, rows: int, n_features: int) -> int:
    rng = np.random.default_rng(0)
    w = rng.normal(size=n_features)
    for k in range(n_files):
        X = rng.normal(size=(rows, n_features)).astype(np.float32)
        y = np.digitize(X @ w + rng.normal(size=rows), [-5.0, 0.0, 5.0])
        qid = (np.arange(rows) + k * rows) // 40
        table = pa.table(columns_of(X, y.astype(np.int8), qid))
        path = folder / f"part-{k:02d}.parquet"
        pq.write_table(table, path, compression="none", use_dictionary=False)
    return n_files * rows * n_features * 4


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_peak_memory(tmp_path):
    size = write_large(tmp_path, 4, 50_000, 100)
    assert size == 80_000_000
    before, peak, n_shards = measured(tmp_path, "50MB")
    assert n_shards > 20
    assert peak < before + 150_000_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_peak_memory_of_a_larger_set(tmp_path):
    size = write_large(tmp_path, 8, 250_000, 100)
    assert size == 800_000_000
    _, peak, n_shards = measured(tmp_path, "200MB")
    assert n_shards > 60
    assert peak < 500_000_000


# --- Progress, other processes -------------------------------------------------------------------


def test_progress_by_shard(files):
    told = []
    data = open_files(
        files,
        y="label",
        qid="query",
        memory_budget=60_000,
    )
    data.X.shards.progress = lambda done, total: told.append((done, total))
    data.X.shards._allowance.left = 0.0
    assert told == []
    list(data.X.shards.map(Scores(np.ones(6))))
    n_shards = len(data.X.shards.sizes)
    assert told == [(k, n_shards) for k in range(1, n_shards + 1)]


def test_shards_can_be_sent_to_other_processes(files, ranking, tmp_path):
    np.save(tmp_path / "x.npy", ranking.X)
    for data in (
        open_files(files, y="label", qid="query", memory_budget=60_000),
        open_files(tmp_path / "x.npy", y=ranking.y, qid=ranking.qid, memory_budget=60_000),
    ):
        starts = data.X.shards.starts
        for k in (2, 0):
            shard = pickle.loads(pickle.dumps(data.X.shards._shards[k]))
            np.testing.assert_array_equal(shard.X, ranking.X[starts[k] : starts[k + 1]])


def test_a_task_that_fails_leaves_everything_usable(files, ranking):
    data = open_files(files, y="label", qid="query", memory_budget=60_000)

    class Fails(Scores):
        def __call__(self, shard):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(data.X.shards.map(Fails(np.ones(6))))
    passing = data.X.shards.map(Scores(np.ones(6)))
    next(passing)
    passing.close()
    np.testing.assert_array_equal(every_row(data), ranking.X)


def test_at_most_so_many_blocks_are_in_memory(files, monkeypatch):
    data = open_files(files, y="label", qid="query", memory_budget=60_000)
    shards = data.X.shards
    shards._allowance.left = 0.0
    pool = shards._shards[0].rows.load._source.pool
    taken = []
    usual = BlockPool.empty

    def counted(self, *args):
        fresh = not self._free
        taken.append(fresh)
        return usual(self, *args)

    monkeypatch.setattr(BlockPool, "empty", counted)
    for _ in range(3):
        list(shards.map(Scores(np.ones(6))))
    assert len(taken) == 3 * len(shards.sizes)
    assert sum(taken) <= AHEAD + 2
    assert len(pool._free) <= AHEAD + 2


# --- Bad input -----------------------------------------------------------------------------------


def _with(ranking: RankingData, **changes) -> dict:
    return columns_of(ranking.X, ranking.y, ranking.qid) | changes


def _nullable(values: np.ndarray, row: int) -> pa.Array:
    mask = np.zeros(len(values), dtype=bool)
    mask[row] = True
    return pa.array(values, mask=mask)


def _replaced(values, row: int, value):
    values = np.array(values, dtype=np.float64)
    values[row] = value
    return values


@pytest.mark.parametrize(
    ("column", "make", "message"),
    [
        ("label", lambda v: _nullable(v, 60), "column 'label': the value is missing (null)"),
        ("label", lambda v: _replaced(v, 60, np.nan), "column 'label': found nan, expected a fin"),
        ("label", lambda v: _replaced(v, 60, -np.inf), "column 'label': found -inf, expected"),
        ("query", lambda v: _nullable(v, 60), "column 'query': the value is missing (null)"),
        ("query", lambda v: _replaced(v, 60, np.nan), "column 'query': found nan, expected a que"),
        ("query", lambda v: _replaced(v, 60, 0.5), "column 'query': found 0.5, expected a query"),
        (
            "query",
            lambda v: pa.array([None if k == 60 else f"q{i}" for k, i in enumerate(v)]),
            "column 'query': the value is missing (null)",
        ),
        (
            "query",
            lambda v: pa.array(
                [None if k == 60 else f"q{i}" for k, i in enumerate(v)]
            ).dictionary_encode(),
            "column 'query': the value is missing (null)",
        ),
        ("f2", lambda v: _nullable(v, 60), "column 'f2': the value is missing (null)"),
        ("f2", lambda v: _replaced(v, 60, np.nan), "column 'f2': found nan, expected a finite"),
        ("f2", lambda v: _replaced(v, 60, np.inf), "column 'f2': found inf, expected a finite"),
    ],
)
def test_bad_values_are_found_where_they_are(tmp_path, ranking, column, make, message):
    columns = columns_of(ranking.X, ranking.y, ranking.qid)
    bad = make(np.asarray(columns[column])[-100:])
    table = pa.table({**{name: one[-100:] for name, one in columns.items()}, column: bad})
    first = table.slice(0, 50)
    pq.write_table(first, tmp_path / "a.parquet")
    pq.write_table(table, tmp_path / "b.parquet", row_group_size=25)

    def read():
        data = open_files(tmp_path, y="label", qid="query", memory_budget=130_000)
        LinearProblem(data, SETTINGS).solve()

    with pytest.raises(ValueError, match=r"Fill in|Drop|fill in") as info:
        read()
    place = f"{tmp_path / 'b.parquet'}, row group 2, row 10 (counted from 0), "
    assert str(info.value).startswith(place + message)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_reading_goes_on_after_an_error(tmp_path, ranking, n_threads):
    X = widened(ranking.X)
    columns = columns_of(X, ranking.y, ranking.qid)
    columns["f20"] = _nullable(X[:, 20], 500)
    write(tmp_path, columns)
    data = open_files(tmp_path, y="label", qid="query", memory_budget=250_000, n_threads=n_threads)
    shards = data.X.shards
    shards._allowance.left = 0.0
    for _ in range(2):
        with pytest.raises(ValueError, match=r"row group 10, row 0 .* column 'f20': the value is"):
            list(shards.map(Scores(np.ones(30))))
    rows = np.arange(int(shards.starts[1]))
    np.testing.assert_array_equal(data.X[rows], X[rows])


def test_values_beyond_float32(tmp_path, ranking):
    write(tmp_path, _with(ranking, f3=_replaced(ranking.X[:, 3], 7, 1e300)))
    data = open_files(tmp_path, y="label", qid="query", dtype="float32")
    with pytest.raises(ValueError, match=r"row 7 .*column 'f3': found inf, expected a finite"):
        every_row(data)
    assert every_row(open_files(tmp_path, y="label", qid="query"))[7, 3] == 1e300


def test_no_pairs_at_all(tmp_path, ranking):
    write(tmp_path, _with(ranking, label=np.ones(ranking.n_items)))
    data = open_files(tmp_path, y="label", qid="query", memory_budget=100_000)
    with pytest.raises(ValueError, match="pair") as expected:
        LinearProblem(RankingData(ranking.X, np.ones(ranking.n_items), ranking.qid), SETTINGS)
    with pytest.raises(ValueError, match="pair") as info:
        LinearProblem(data, SETTINGS)
    assert str(info.value) == str(expected.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["f2"]), "has no column 'f2', which is float in {first}"),
        (lambda t: t.drop_columns(["query"]), "has no column 'query', which is int64 in {first}"),
        (
            lambda t: t.append_column("g", [np.arange(t.num_rows)]),
            "has a column 'g' (int64), which {first} lacks",
        ),
        (
            lambda t: t.set_column(4, "f2", t["f2"].cast(pa.float64())),
            "column 'f2' is double, and float in {first}",
        ),
        (
            lambda t: t.set_column(1, "query", t["query"].cast(pa.string())),
            "column 'query' is string, and int64 in {first}",
        ),
    ],
)
def test_files_with_other_columns(files, change, message):
    pq.write_table(change(pq.read_table(files[2])), files[2])
    with pytest.raises(ValueError, match="All files of one data set need the same col") as info:
        open_files(files, y="label", qid="query")
    assert str(info.value).startswith(str(files[2]))
    assert message.format(first=files[0]) in str(info.value)


def test_other_columns_do_not_matter_if_columns_are_listed(files, ranking):
    table = pq.read_table(files[2])
    pq.write_table(table.append_column("g", [np.arange(table.num_rows)]), files[2])
    data = open_files(files, y="label", qid="query", columns=["f0"])
    np.testing.assert_array_equal(every_row(data), ranking.X[:, :1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": "rank"}, "has no column 'rank'; it has 'label', 'query', 'f0', 'f1', 'f2' and 3 mo"),
        ({"qid": "rank"}, "Name the right one with qid. For one global ranking, use qid=None."),
        ({"qid": "label"}, "y and qid name the same column, 'label'"),
        ({"columns": ["f0", "h"]}, "columns lists 'h', which the file does not have"),
        ({"columns": ["f0", "query"]}, "columns lists 'query', which is not a feature"),
        ({"columns": ["f0", "f0"]}, "columns lists 'f0', twice"),
        ({"columns": []}, "columns is empty"),
        ({"columns": "f0"}, "columns must be a sequence of names"),
        ({"qid": np.arange(3)}, "qid must be the name of a column of the Parquet files"),
        ({"dtype": "float16"}, "dtype must be 'float32', 'float64' or None; got 'float16'"),
        ({"dtype": "no"}, "dtype must be 'float32', 'float64' or None; got 'no'"),
        ({"dtype": np.int64}, "dtype must be 'float32', 'float64' or None; got <class"),
    ],
)
def test_wrong_parameters(files, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        open_files(files, **({"y": "label", "qid": "query"} | options))


def test_columns_that_are_not_numbers(tmp_path, ranking):
    paths = write(tmp_path, _with(ranking, f3=[f"v{i}" for i in ranking.qid]))
    with pytest.raises(ValueError, match=r"1 of 6 feature columns is not numeric: 'f3' \(string\)"):
        open_files(paths, y="label", qid="query")
    with pytest.raises(ValueError, match="column 'f3' must hold numbers; it holds string"):
        open_files(paths, y="f3", qid="query")
    names = ["f0", "f1"]
    assert open_files(paths, y="label", qid="f3", columns=names).feature_names == ("f0", "f1")


@pytest.mark.parametrize("n", [1, 5, 6, 9])
def test_lists_of_names(n):
    names = [f"f{k}" for k in range(n)]
    rest = {6: " and 1 more", 9: " and 4 more"}.get(n, "")
    assert listed(names) == ", ".join(names[:5]) + rest
    assert listed(iter(names), most=1) == ("f0" if n == 1 else f"f0 and {n - 1} more")


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["?", "i1", "u1", "i2", "u2", "f2", "f4", ">f4"], np.float32),
        (["i4", "u4", "i8", "u8", "f8", ">f8", "O", "M8[s]", "U1"], np.float64),
    ],
)
def test_type_of_features(kinds, expected):
    for kind in kinds:
        assert float_type([np.dtype("f4"), np.dtype(kind), np.dtype("f4")]) == expected


def test_sets_without_rows_or_features(tmp_path):
    pq.write_table(pa.table({"label": [1.0], "f": [1.0]}).slice(1), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet has no rows"):
        open_files(tmp_path, qid=None)
    pq.write_table(pa.table({"label": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="has labels and ids but no feature columns"):
        open_files(tmp_path, qid=None)
    with pytest.raises(ValueError, match="the array has labels and ids but no feature columns"):
        open_files(np.empty((3, 0)), y=np.arange(3), qid=None)


@pytest.mark.parametrize("harm", ["delete", "shrink", "grow", "touch", "replace"])
def test_a_file_that_changes_between_passes(files, ranking, harm):
    data = open_files(files, y="label", qid="query", memory_budget=60_000)
    data.X.shards._allowance.left = 0.0
    np.testing.assert_array_equal(every_row(data), ranking.X)
    path = files[1]
    if harm == "delete":
        path.unlink()
    elif harm == "shrink":
        os.truncate(path, path.stat().st_size // 2)
    elif harm == "grow":
        with open(path, "ab") as file:
            file.write(b"more")
    elif harm == "touch":
        os.utime(path, ns=(1, 1))
    else:
        pq.write_table(pq.read_table(files[0]), path)
    expected = FileNotFoundError if harm == "delete" else FileFormatError
    with pytest.raises(expected, match="start again") as info:
        every_row(data)
    assert str(path) in str(info.value)


def test_a_file_that_is_damaged(files, ranking):
    content = bytearray(files[1].read_bytes())
    begin = pq.read_metadata(files[1]).row_group(0).column(2).data_page_offset
    content[begin : begin + 20] = bytes(20)
    files[1].write_bytes(content)
    data = open_files(files, y="label", qid="query", memory_budget=60_000)
    with pytest.raises(FileFormatError, match=r"cannot be read as Parquet: .*file again") as info:
        every_row(data)
    assert info.value.file == str(files[1])


def test_files_that_are_not_what_they_seem(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 and then something else, PAR1")
    with pytest.raises(FileFormatError, match=r"x.parquet cannot be read as Parquet"):
        open_files(path)
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY and more")
    with pytest.raises(FileFormatError, match=r"x.npy cannot be read as a .npy file"):
        open_files(tmp_path / "x.npy")


def test_without_pyarrow(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'ranksvm\[tables\]'"):
        open_files(files, y="label", qid="query")


# --- Paths ---------------------------------------------------------------------------------------


def test_folders_and_patterns(files, tmp_path):
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-00.parquet.crc").touch()
    (tmp_path / "notes.txt").write_text("notes")
    names = [str(path) for path in files]
    assert find_files(tmp_path) == ("parquet", names)
    assert find_files(str(tmp_path / "*.parquet")) == ("parquet", names)
    assert find_files(str(tmp_path / "**" / "part-0[12].parquet"))[1] == names[1:]
    assert find_files([files[2], tmp_path / "part-00.parquet"])[1] == [names[2], names[0]]
    odd = tmp_path / "odd[1].parquet"
    odd.write_bytes(files[0].read_bytes())
    assert find_files(odd) == ("parquet", [str(odd)])


def test_paths_that_cannot_be_used(files, tmp_path, ranking):
    with pytest.raises(FileNotFoundError, match="no file matches"):
        find_files(str(tmp_path / "*.nothing"))
    with pytest.raises(FileNotFoundError):
        find_files(tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="is given twice"):
        find_files([tmp_path, files[0]])
    text = tmp_path / "t.txt"
    text.write_text("1 qid:1 1:0.5\n")
    with pytest.raises(ValueError, match=r"t.txt is LETOR text, and .* is a Parquet file"):
        find_files([*files, text])
    with pytest.raises(ValueError, match=r"parquet is a Parquet file, and the array is an array"):
        find_files([ranking.X, files[0]])
    with pytest.raises(ValueError, match="Convert it to Parquet first"):
        find_files(tmp_path / "x.csv")
    with pytest.raises(ValueError, match="paths is an empty sequence"):
        find_files([])
    with pytest.raises(TypeError, match="paths must be a path, an array"):
        find_files(3)
    with pytest.raises(TypeError, match="neither a path nor an array"):
        find_files([3])
    empty = tmp_path / "empty"
    (empty / "inner").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"has no files. Folders inside it are not search"):
        find_files(empty)


def test_a_source_names_its_rows(files):
    source = ParquetSource(
        [str(path) for path in files], y="label", qid="query", sample_weight=None, columns=None
    )
    assert source.where(0, 0) == f"{files[0]}, row group 0, row 0 (counted from 0), column 'f0'"
    assert source.where(99) == f"{files[0]}, row group 1, row 49 (counted from 0)"
    assert source.where(100) == f"{files[1]}, row group 0, row 0 (counted from 0)"


def test_masked_items_are_refused(ranking):
    masked = np.ma.masked_array(ranking.X, mask=ranking.X > 0.5)
    with pytest.raises(ValueError, match="mask"):
        open_files(masked, y=ranking.y, qid=ranking.qid)


def test_ids_that_are_times_of_nanoseconds(tmp_path, ranking):
    table = pa.table(columns_of(ranking.X, ranking.y, ranking.qid))
    place = table.column_names.index("query")
    times = pa.array(np.asarray(ranking.qid), type=pa.int64()).cast(pa.time64("ns"))
    pq.write_table(table.set_column(place, "query", times), tmp_path / "t.parquet")
    same_fit(open_files(tmp_path / "t.parquet", y="label", qid="query"), ranking)


def test_patterns_do_not_find_caches_and_files_of_programs(tmp_path):
    inner = tmp_path / "inner"
    (inner / "a.txt.ranksvm-cache").mkdir(parents=True)
    (inner / "a.txt.ranksvm-cache" / "manifest.json").write_text("{}")
    (inner / "_SUCCESS").touch()
    (inner / "a.txt").write_text("1 qid:1 1:0.5\n")
    assert find_files(f"{tmp_path}/**/*")[1] == [str(inner / "a.txt")]
