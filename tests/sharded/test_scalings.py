"""Badly scaled columns: a fit on shards reaches the certified gap of a fit in memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_sets import cut

from ranksvm._vectors import total, total_depth
from ranksvm.data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import make_problem
from ranksvm.learners.linear import LinearSettings

# The bounds on rounding errors depend on the cuts; gaps may differ by this factor.
AS_SMALL = 3.0


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    powers=st.lists(st.integers(-6, 6), min_size=5, max_size=5),
    C=st.sampled_from([1.0, 1e3, 1e5]),
    n_shards=st.integers(2, 60),
    shuffle=st.booleans(),
)
def test_any_scaling(seed, powers, C, n_shards, shuffle) -> None:
    X, y, qid, _ = make_ranking(
        n_queries=30, items_per_query=(1, 30), n_features=5, random_state=seed
    )
    data = RankingData(X * 10.0 ** np.array(powers), y, qid)
    if shuffle:
        data = data.take(np.random.default_rng(seed).permutation(data.n_items))
    chosen = LinearSettings(C=C, tol=1e-9, max_iter=300)
    known = make_problem(data, chosen).solve()
    cuts = np.linspace(0, data.n_items, n_shards + 1).astype(int)[1:-1].tolist()
    fit = make_problem(cut(data, cuts), chosen).solve()
    assert fit.relative_gap <= max(chosen.tol, AS_SMALL * known.relative_gap)
    assert fit.lower <= known.objective
    assert known.lower <= fit.objective


def test_a_decrease_that_cannot_be_seen() -> None:
    """F is at its last digit some steps before the gap is small: the slopes lead there."""
    rng = np.random.default_rng(13)
    n_queries = int(rng.integers(10, 120))
    X, y, qid, _ = make_ranking(n_queries, (1, 40), 8, random_state=13)
    data = RankingData(X * np.array([1e6, 1e-6, *10.0 ** rng.uniform(-6, 6, 8)[2:]]), y, qid)
    chosen = LinearSettings(C=1000.0, tol=1e-9)
    gaps = [
        make_problem(cut(data, range(n, data.n_items, n)), chosen).solve().relative_gap
        for n in range(40, 120, 10)
    ]
    assert max(gaps) <= AS_SMALL * make_problem(data, chosen).solve().relative_gap


def test_parts_are_added_in_pairs() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 8, 1000):
        parts = 2.0 ** rng.integers(-40, 40, (n, 3)) * rng.uniform(1.0, 2.0, (n, 3))
        exact = [sum(map(int, one)) for one in (parts * 2.0**200).T]
        found = [int(one) for one in total(iter(parts)) * 2.0**200]
        off = [abs(a - b) / b for a, b in zip(found, exact, strict=True)]
        assert max(off) <= total_depth(n) * 2.0**-53
    assert total_depth(1000) == 10
    first = np.ones(3)
    assert total([first]) is not first
