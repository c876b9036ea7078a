"""Every metric against its definition, written down as plainly as possible.

One query is a list of (y, score) in row order.  The mean over the orders of tied items is taken
over all permutations that the scores allow.  Items with a score of -inf were not retrieved: they
are in no ranking.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm.metrics import (
    auc,
    average_precision,
    expected_reciprocal_rank,
    kendall_tau,
    mean_ndcg,
    median_level_average_precision,
    ndcg,
    pairwise_accuracy,
    precision_at,
    recall_at,
    reciprocal_rank,
    reciprocal_true_rank,
)

# --- One ranking of one query --------------------------------------------------------------------
#
# ranked: the labels of the retrieved items, best score first; rest: those of the others.


def dcg(ranked, k, gain, discount):
    def one(y, r):
        gained = 2.0**y - 1.0 if gain == "exp2" else float(y)
        divisor = math.log2(1 + r) if discount == "log2" else 1.0 if r <= 2 else math.log2(r)
        return gained / divisor

    return sum(one(y, r) for r, y in enumerate(ranked[:k], start=1))


def ndcg_at(ranked, rest, k, gain="exp2", discount="log2", short="as_is"):
    ideal = dcg(sorted(ranked + rest, reverse=True), k, gain, discount)
    if ideal == 0.0:
        return None
    if short == "zero" and k is not None and len(ranked + rest) < k:
        return 0.0
    return dcg(ranked, k, gain, discount) / ideal


def mean_ndcg_of(ranked, rest, gain="exp2", discount="log2"):
    n_items = len(ranked + rest)
    values = [ndcg_at(ranked, rest, k, gain, discount) for k in range(1, n_items + 1)]
    return None if None in values else sum(values) / len(values)


def ap_at(ranked, rest, k, above):
    hits = [y > above for y in ranked]
    total = sum(y > above for y in ranked + rest)
    if total == 0:
        return None
    k = len(ranked) if k is None else k
    return sum(sum(hits[:r]) / r for r in range(1, len(hits[:k]) + 1) if hits[r - 1]) / total


def p_at(ranked, rest, k, above):
    return sum(y > above for y in ranked[:k]) / k if max(ranked + rest) > above else None


def recall_of(ranked, rest, k, above):
    total = sum(y > above for y in ranked + rest)
    return sum(y > above for y in ranked[:k]) / total if total else None


def rr_at(ranked, rest, k, above):
    if not max(ranked + rest) > above:
        return None
    return next((1.0 / r for r, y in enumerate(ranked[:k], start=1) if y > above), 0.0)


def err_at(ranked, rest, k, max_grade):
    if not any(ranked + rest):
        return None
    value, alive = 0.0, 1.0
    for r, y in enumerate(ranked[:k], start=1):
        stop = (2.0**y - 1.0) / 2.0**max_grade
        value += alive * stop / r
        alive *= 1.0 - stop
    return value


def true_rank_at(ranked, rest, k):
    everything = ranked + rest
    reciprocal = [1.0 / (1 + sum(other > y for other in everything)) for y in ranked[:k]]
    return sum(reciprocal) / len(everything[:k])


# --- Metrics of pairs ----------------------------------------------------------------------------


def accuracy(items):
    pairs = [(s, t) for y, s in items for z, t in items if y > z]
    return sum((s > t) + 0.5 * (s == t) for s, t in pairs) / len(pairs) if pairs else None


def auc_of(items, above):
    return accuracy([(y > above, s) for y, s in items])


def tau_b(items):
    def sign(x):
        return (x > 0) - (x < 0)

    pairs = [
        (sign(items[i][0] - items[j][0]), sign(items[i][1] - items[j][1]))
        for i in range(len(items))
        for j in range(i)
    ]
    different_y, different_s = sum(a != 0 for a, _ in pairs), sum(b != 0 for _, b in pairs)
    if different_y == 0:
        return None
    if different_s == 0:
        return 0.0
    return sum(a * b for a, b in pairs) / math.sqrt(different_y * different_s)


# --- Queries, ties, means ------------------------------------------------------------------------


def over_orders(items, ties, value):
    """The value of the ranking, or its mean over all orders of tied items; None if undefined."""
    rest = [y for y, score in items if score == -math.inf]
    items = [item for item in items if item[1] > -math.inf]
    in_order = sorted(items, key=lambda item: -item[1])  # stable
    if ties == "row_order":
        return value([y for y, _ in in_order], rest)
    orders = [
        [items[i][0] for i in order]
        for order in permutations(range(len(items)))
        if all(items[a][1] >= items[b][1] for a, b in pairwise(order))
    ]
    values = [value(order, rest) for order in orders]
    return None if None in values else sum(values) / len(values)


def queries_of(rows):
    queries: dict = {}
    for y, score, q in rows:
        queries.setdefault(q, []).append((y, score))
    return queries


def columns_of(rows):
    y, scores, qid = map(list, zip(*rows, strict=True))
    return y, scores, qid


def agree(function, rows, value, **options):
    """By query and on average; ``value(items)`` is the truth, None where it is not defined."""
    columns = columns_of(rows)
    expected = [value(items) for items in queries_of(rows).values()]
    filled = {"skip": None, "zero": 0.0, "one": 1.0}[options.get("empty", "skip")]
    expected = [filled if x is None else x for x in expected]
    by_query = function(*columns, per_query=True, **options)
    assert by_query.dtype == np.float64
    np.testing.assert_allclose(
        by_query, [np.nan if x is None else x for x in expected], rtol=1e-12, atol=1e-14
    )
    counted = [x for x in expected if x is not None]
    if counted:
        mean = function(*columns, **options)
        assert isinstance(mean, float)
        assert mean == pytest.approx(sum(counted) / len(counted), rel=1e-12, abs=1e-14)
    else:
        with pytest.raises(ValueError, match=r"is not defined here: no query has"):
            function(*columns, **options)


# Few scores make ties, few items a query make all of their orders countable.
SCORES = st.sampled_from([0, 1, 2, 3, -math.inf])
ROWS = st.lists(
    st.tuples(st.integers(0, 3), SCORES, st.sampled_from("abc")), min_size=1, max_size=11
).filter(lambda rows: max(map(len, queries_of(rows).values())) <= 6)
CUTOFFS = st.sampled_from([1, 2, 3, 4, 10])
TIES = st.sampled_from(["row_order", "average"])
EMPTY = st.sampled_from(["skip", "zero", "one"])
ABOVE = st.sampled_from([0.0, 1, 2.5, -1.0])


@given(
    ROWS, CUTOFFS | st.none(), st.sampled_from(["exp2", "linear"]),
    st.sampled_from(["log2", "letor"]), st.sampled_from(["as_is", "zero"]), TIES, EMPTY,
)  # fmt: skip
def test_ndcg(rows, k, gain, discount, short, ties, empty):
    agree(
        ndcg, rows,
        lambda items: over_orders(items, ties, lambda *r: ndcg_at(*r, k, gain, discount, short)),
        k=k, gain=gain, discount=discount, short=short, ties=ties, empty=empty,
    )  # fmt: skip


@given(
    ROWS, st.sampled_from(["exp2", "linear"]), st.sampled_from(["log2", "letor"]), TIES, EMPTY
)  # fmt: skip
def test_mean_ndcg(rows, gain, discount, ties, empty):
    agree(
        mean_ndcg, rows,
        lambda items: over_orders(items, ties, lambda *r: mean_ndcg_of(*r, gain, discount)),
        gain=gain, discount=discount, ties=ties, empty=empty,
    )  # fmt: skip


@given(ROWS, CUTOFFS | st.none(), ABOVE, TIES, EMPTY)
def test_average_precision(rows, k, above, ties, empty):
    agree(
        average_precision, rows,
        lambda items: over_orders(items, ties, lambda *r: ap_at(*r, k, above)),
        k=k, relevant_above=above, ties=ties, empty=empty,
    )  # fmt: skip


@given(ROWS, CUTOFFS | st.none(), TIES, EMPTY)
def test_median_level_average_precision(rows, k, ties, empty):
    levels = sorted({y for y, _, _ in rows})
    middle = Fraction(levels[(len(levels) - 1) // 2] + levels[len(levels) // 2], 2)
    above = middle - Fraction(1, 100)  # at least the median: above anything less
    agree(
        median_level_average_precision, rows,
        lambda items: over_orders(items, ties, lambda *r: ap_at(*r, k, above)),
        k=k, ties=ties, empty=empty,
    )  # fmt: skip


@given(ROWS, CUTOFFS, ABOVE, TIES, EMPTY)
def test_precision_at(rows, k, above, ties, empty):
    agree(
        precision_at, rows,
        lambda items: over_orders(items, ties, lambda *r: p_at(*r, k, above)),
        k=k, relevant_above=above, ties=ties, empty=empty,
    )  # fmt: skip


@given(ROWS, CUTOFFS | st.none(), ABOVE, TIES, EMPTY)
def test_recall_at(rows, k, above, ties, empty):
    agree(
        recall_at, rows,
        lambda items: over_orders(items, ties, lambda *r: recall_of(*r, k, above)),
        k=k, relevant_above=above, ties=ties, empty=empty,
    )  # fmt: skip


@given(ROWS, CUTOFFS | st.none(), ABOVE, TIES, EMPTY)
def test_reciprocal_rank(rows, k, above, ties, empty):
    agree(
        reciprocal_rank, rows,
        lambda items: over_orders(items, ties, lambda *r: rr_at(*r, k, above)),
        k=k, relevant_above=above, ties=ties, empty=empty,
    )  # fmt: skip


@given(ROWS, CUTOFFS | st.none(), st.sampled_from([None, 3, 5.5]), TIES, EMPTY)
def test_expected_reciprocal_rank(rows, k, max_grade, ties, empty):
    highest = max(y for y, _, _ in rows) if max_grade is None else max_grade
    agree(
        expected_reciprocal_rank, rows,
        lambda items: over_orders(items, ties, lambda *r: err_at(*r, k, highest)),
        k=k, max_grade=max_grade, ties=ties, empty=empty,
    )  # fmt: skip


@given(ROWS, CUTOFFS | st.none(), TIES)
def test_reciprocal_true_rank(rows, k, ties):
    agree(
        reciprocal_true_rank, rows,
        lambda items: over_orders(items, ties, lambda *r: true_rank_at(*r, k)),
        k=k, ties=ties,
    )  # fmt: skip


MANY_ROWS = st.lists(
    st.tuples(st.integers(-2, 3), st.integers(0, 5) | SCORES, st.sampled_from("abc")),
    min_size=1,
    max_size=40,
)


@given(MANY_ROWS, EMPTY)
def test_pairwise_accuracy(rows, empty):
    agree(pairwise_accuracy, rows, accuracy, empty=empty)


@given(MANY_ROWS, EMPTY)
def test_kendall_tau(rows, empty):
    agree(kendall_tau, rows, tau_b, empty=empty)


@given(MANY_ROWS, ABOVE, EMPTY)
def test_auc(rows, above, empty):
    agree(auc, rows, lambda items: auc_of(items, above), relevant_above=above, empty=empty)


@given(MANY_ROWS)
def test_the_printed_mean_over_all_ranks_does_not_depend_on_the_scores(rows):
    y, scores, qid = columns_of(rows)
    scores = np.maximum(scores, -1.0)
    value = reciprocal_true_rank(y, scores, qid, k=None)
    assert reciprocal_true_rank(y, -scores, qid, k=None) == pytest.approx(value)
