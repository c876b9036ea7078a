"""What a fit on shards takes is what is said before."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from shard_sets import cut

from ranksvm.data import RankingData
from ranksvm.data.shard_memory import TAKEN_TIMES
from ranksvm.datasets import make_ranking
from ranksvm.learners import make_problem
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.linear import LinearSettings
from ranksvm.sharded.memory import kernel_bytes, sample_bytes

# Labels, groups, scores and pairs, which take memory whether or not there is a sample.
ROW_BYTES = 450


def peak_of(data: RankingData, chosen) -> int:
    """Bytes that are allocated at most until the first preconditioner, beyond those before."""
    small = data.take(np.arange(600))
    make_problem(cut(small, [300]), chosen).solve()  # imports
    there = cut(data, range(2000, data.n_items, 2000))
    tracemalloc.start()
    problem = make_problem(there, replace(chosen, max_iter=1))
    problem.solve()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def ranking(n_queries: int, n_features: int) -> RankingData:
    X, y, qid, _ = make_ranking(n_queries, 20, n_features, random_state=0)
    return RankingData(X, y, qid)


@pytest.mark.parametrize("gathers", [False, True])
@pytest.mark.parametrize("shape", [(500, 40), (2500, 100), (2500, 256)])
def test_the_sample_of_the_preconditioner(shape, gathers) -> None:
    data = ranking(*shape)
    if gathers:
        data = replace(data, qid=None)
    said = sample_bytes(data.n_items, data.n_features, 8)
    block = 3 * 2000 * data.n_features * 8  # blocks that are read ahead
    assert peak_of(data, LinearSettings(scaling=None)) <= said + block + ROW_BYTES * data.n_items


def test_the_sample_does_not_grow_with_the_data() -> None:
    assert sample_bytes(10**9, 100, 4) <= 100e6
    assert sample_bytes(10**9, 257, 8) == sample_bytes(10**9, 10, 8, is_sparse=True) == 0


def test_one_huge_query_does_not_make_a_huge_sample() -> None:
    """A quarter of the rows in one query that every sample of whole queries has."""
    rng = np.random.default_rng(0)
    qid = np.concatenate([np.zeros(50_000, dtype=int), np.repeat(np.arange(1, 37_501), 4)])
    X = np.ones((qid.size, 3))  # alike, so that numbers choose
    X[:, 0] = rng.integers(0, 2, qid.size)
    data = RankingData(X, rng.integers(0, 2, qid.size).astype(float), qid)
    for gathers in (False, True):
        one = data.take(rng.permutation(data.n_items)) if gathers else data
        problem = make_problem(
            cut(one, range(50_000, data.n_items, 10_000)), LinearSettings(C=50.0, scaling=None)
        )
        problem.solve()
        sample = problem._map._samples[0][1] if gathers else problem._map.pairs.sample.features
        assert 3 * sample.nbytes <= sample_bytes(data.n_items, 3, 8)
        assert len(sample) < 50_000


def test_copies_of_split_queries() -> None:
    data = ranking(300, 50)
    there = cut(data, [2005, 4011])
    rows = np.arange(2000, 2020)
    tracemalloc.start()
    there.X.shards.with_copies(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    block = 3 * 2006 * 50 * 8
    assert peak <= rows.size * (TAKEN_TIMES * 50 * 8 + ROW_BYTES) + block + 50_000


@pytest.mark.parametrize(
    ("approximation", "landmarks", "m"),
    [
        ("nystroem", "uniform", 100),
        ("nystroem", "kmeans", 100),
        ("nystroem", "leverage", 300),
        ("fourier", "uniform", 40),
        ("fourier", "uniform", 300),
    ],
)
def test_kernel_features(approximation, landmarks, m) -> None:
    data = ranking(1500, 30)
    chosen = KernelSettings(
        approximation=approximation,
        landmarks=landmarks,
        n_components=m,
        random_state=0,
        gamma=0.1,
        scaling=None,
    )
    said = kernel_bytes(data.n_items, 30, 8, m, approximation=approximation, landmarks=landmarks)
    block = 4 * 2000 * (m + 30) * 8
    assert peak_of(data, chosen) <= said + block + ROW_BYTES * data.n_items
