"""Sums and counts over the ranks of queries, against the plainest code that could do the same."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm import _core
from ranksvm.metrics import ndcg
from ranksvm.metrics.ranked import Truth
from ranksvm.pairs.gains import exp2_gain

# A query is a list of (label, score); long ones are sorted in another way than short ones.
LABELS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 40.0, 0.5, -1.0, 2.0**53])
SCORES = st.one_of(
    st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1e-300, 1e300, -1e308, 1e308]),
    st.floats(-10.0, 10.0),
)
QUERIES = st.lists(
    st.lists(st.tuples(LABELS, SCORES), min_size=1, max_size=40), min_size=1, max_size=8
)


class Items:
    """Queries in shuffled rows, with their rankings by a stable sort."""

    def __init__(self, queries, seed=0):
        self.sizes = np.array([len(query) for query in queries])
        n_items = int(self.sizes.sum())
        self.offsets = np.concatenate(([0], np.cumsum(self.sizes)))
        self.rows = np.random.default_rng(seed).permutation(n_items)
        self.y, self.scores = np.empty(n_items), np.empty(n_items)
        flat = [item for query in queries for item in query]
        self.y[self.rows] = [y for y, _ in flat]
        self.scores[self.rows] = [score for _, score in flat]
        self.ranked = [
            sorted(self.rows[begin:end].tolist(), key=lambda row: -self.scores[row])
            for begin, end in zip(self.offsets[:-1], self.offsets[1:], strict=True)
        ]

    @property
    def order(self):
        return np.array([row for query in self.ranked for row in query])


@given(QUERIES, st.integers(1, 50))
def test_first_ranks_are_those_of_the_whole_ranking(queries, k):
    items = Items(queries)
    top = np.concatenate(([0], np.cumsum(np.minimum(items.sizes, k))))
    found = _core.rank_first(items.scores, items.rows, items.offsets, top, 2)
    assert found.tolist() == [row for query in items.ranked for row in query[:k]]
    whole = _core.rank_items(items.scores, items.rows, items.offsets, 2)
    np.testing.assert_array_equal(whole, items.order)


@given(st.integers(0, 10_000), st.sampled_from([13, 300, 511, 512, 2_000]), st.integers(1, 300))
def test_first_ranks_of_long_queries(seed, size, k):
    rng = np.random.default_rng(seed)
    kind = seed % 4
    scores = rng.standard_normal(size)
    if kind == 1:
        scores = rng.integers(0, 6, size).astype(float)
    elif kind == 2:  # nearly all of them in one bucket
        scores = np.where(rng.random(size) < 0.02, 1e9 * scores, scores)
    elif kind == 3:
        scores = np.exp(30.0 * scores)
    k = min(k, size)
    expected = np.argsort(-scores, kind="stable")
    rows, offsets = np.arange(size), np.array([0, size])
    found = _core.rank_first(scores, rows, offsets, np.array([0, k]), 1)
    np.testing.assert_array_equal(found, expected[:k])
    np.testing.assert_array_equal(_core.rank_items(scores, rows, offsets, 1), expected)


@given(QUERIES, st.integers(0, 50), st.integers(0, 1_000))
def test_weighted_sums(queries, limit, seed):
    items = Items(queries)
    rng = np.random.default_rng(seed)
    values, weights = rng.standard_normal(items.y.size), rng.standard_normal(items.sizes.max())
    limits = np.minimum(items.sizes, limit)
    found = _core.weighted_sums(values, items.order, items.offsets, limits, weights, 2)
    for q, rows in enumerate(items.ranked):
        terms = [values[row] * weights[r] for r, row in enumerate(rows[:limit])]
        assert found[q] == pytest.approx(math.fsum(terms), rel=1e-13, abs=1e-13)


@given(QUERIES, st.integers(0, 50), st.sampled_from([0.0, 1.0, 100.0, -2.0]))
def test_relevant_items(queries, limit, above):
    items = Items(queries)
    limits = np.minimum(items.sizes, limit)
    sums, relevant = _core.precision_sums(items.y, above, items.order, items.offsets, limits, 2)
    ranks = _core.first_relevant(items.y, above, items.scores, items.rows, items.offsets, limits, 2)
    for q, rows in enumerate(items.ranked):
        hits = [r for r, row in enumerate(rows, start=1) if items.y[row] > above]
        shares = [h / r for h, r in enumerate(hits, start=1) if r <= limit]
        assert relevant[q] == len(hits)
        assert sums[q] == pytest.approx(math.fsum(shares), rel=1e-14)
        assert ranks[q] == (-1 if not hits else hits[0] if hits[0] <= limit else 0)


@given(QUERIES)
def test_pairs(queries):
    items = Items(queries)
    counts = _core.count_ranked_pairs(items.y, items.scores, items.order, items.offsets, 2)
    for q, query in enumerate(queries):
        pairs = list(combinations(query, 2))
        comparable = [(a, b) if a[0] > b[0] else (b, a) for a, b in pairs if a[0] != b[0]]
        assert [int(kind[q]) for kind in counts] == [
            len(comparable),
            sum(better[1] < worse[1] for better, worse in comparable),
            sum(better[1] == worse[1] for better, worse in comparable),
            sum(a[1] == b[1] for a, b in pairs),
        ]


@pytest.mark.parametrize("n_levels", [4, 30, 1_000])
def test_any_number_of_threads_gives_the_same_bits(n_levels):
    rng = np.random.default_rng(7)
    n_items = 200_000
    sizes = np.array([70_000, 1, 500, 60_000, 3_000])
    sizes = np.append(sizes, n_items - sizes.sum())
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    y = rng.integers(0, n_levels, n_items).astype(float)
    scores = np.round(y + rng.standard_normal(n_items), 3)
    rows, weights = rng.permutation(n_items), 1.0 / np.arange(1.0, n_items + 1.0)

    def everything(threads):
        order = _core.rank_items(scores, rows, offsets, threads)
        return [
            order,
            _core.weighted_sums(y, order, offsets, sizes, weights, threads),
            *_core.precision_sums(y, 1.0, order, offsets, sizes, threads),
            _core.first_relevant(y, 1.0, scores, rows, offsets, sizes, threads),
            *_core.count_ranked_pairs(y, scores, order, offsets, threads),
        ]

    expected = everything(1)
    for threads in (2, 3, 16):
        for one, same in zip(everything(threads), expected, strict=True):
            assert one.tobytes() == same.tobytes()


@given(st.lists(LABELS.filter(lambda y: 0.0 <= y < 100.0), min_size=1, max_size=30))
def test_what_depends_on_a_label_is_the_same_with_and_without_a_table(labels):
    truth = Truth(labels, None)
    found = truth.by_label(lambda y: exp2_gain(y, 50.0))
    expected = exp2_gain(np.array(labels), 50.0)
    assert found.tobytes() == expected.tobytes()
    assert (truth.grades is None) == any(y not in range(512) for y in labels)


def test_a_whole_ranking_that_is_there_already_gives_the_same_bits():
    rng = np.random.default_rng(3)
    y, scores, qid = rng.integers(0, 5, 900), rng.standard_normal(900), np.arange(900) // 45
    truth = Truth(y, qid)
    values, weights = rng.standard_normal(900), rng.standard_normal(10)
    first, again = truth.ranked(scores), truth.ranked(scores)
    assert again.order.size == 900
    expected = first.top_sums(values, 10, weights)
    assert "order" not in vars(first)
    assert again.top_sums(values, 10, weights).tobytes() == expected.tobytes()


def test_unretrieved_items_gain_nothing_at_any_cutoff():
    y, scores = [1, 2, 3, 0], [0.5, -np.inf, -np.inf, 0.7]
    best = 7.0 + 3.0 / math.log2(3) + 1.0 / math.log2(4)
    assert ndcg(y, scores, k=3) == pytest.approx(1.0 / math.log2(3) / best)


@pytest.mark.parametrize(
    ("top", "message"),
    [([0, 3], "fewer items"), ([0, 1, 2], "top_offsets"), ([1, 2], "start at 0")],
)
def test_first_ranks_that_there_are_not(top, message):
    rows = np.arange(2)
    with pytest.raises(ValueError, match=message):
        _core.rank_first(np.zeros(2), rows, np.array([0, 2]), np.array(top), 1)


def test_sums_refuse_what_would_be_read_out_of_bounds():
    order, offsets, limits, values = np.arange(3), np.array([0, 3]), np.array([3]), np.ones(3)
    with pytest.raises(ValueError, match="more ranks than there are weights"):
        _core.weighted_sums(values, order, offsets, limits, np.ones(2), 1)
    with pytest.raises(ValueError, match="no row"):
        _core.weighted_sums(values, order + 1, offsets, limits, values, 1)
    with pytest.raises(ValueError, match="limits"):
        _core.precision_sums(values, 0.0, order, offsets, np.array([3, 3]), 1)
    with pytest.raises(ValueError, match="scores"):
        _core.first_relevant(values, 0.0, np.ones(2), order, offsets, limits, 1)
    with pytest.raises(ValueError, match="no row"):
        _core.count_ranked_pairs(values, values, order - 1, offsets, 1)
