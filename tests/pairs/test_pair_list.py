"""Lists of pairs with several queries: weights, statistics, bounds and reductions.

Weights are multiples of 1/4 and powers of two, so their sums and products are exact in any order.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.backends.reference import ReferencePairList
from ranksvm.data.preferences import Preferences, pairs_by_query, positive_pairs
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import LinearProblem, LinearSettings
from ranksvm.learners.participants import count_pairs, participants
from ranksvm.learners.weights import reduce_weights
from ranksvm.pairs.oracle import LOSSES, Hinge, SmoothedHinge
from ranksvm.pairs.order import PairOrder

MODERATE = st.floats(-4, 4).map(lambda v: round(v, 3))
SCORES = st.one_of(MODERATE, st.sampled_from([0.0, 0.5, 1.0, 1e304, -1e304, 1e16, 5e-324]))
FACTORS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])


@st.composite
def lists(draw: st.DrawFn) -> tuple[Preferences, QueryGroups]:
    """Few items in few queries, some of one item; pairs come twice, both ways and across."""
    n = draw(st.integers(2, 8))
    qid = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    one = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1))
    pairs = draw(st.lists(one, min_size=1, max_size=15))
    better = np.array([b for b, _ in pairs])
    worse = np.array([(b + step) % n for b, step in pairs])
    weight = None
    if draw(st.booleans()):
        values = draw(st.lists(st.integers(0, 9), min_size=len(pairs), max_size=len(pairs)))
        weight = np.array(values) / 4.0
    groups = QueryGroups.from_qid(qid, n)
    return pairs_by_query(Preferences(better, worse, weight), groups), groups


def vectors(draw: st.DrawFn, values: st.SearchStrategy[float], n: int) -> Array:
    return np.array(draw(st.lists(values, min_size=n, max_size=n)))


@given(case=lists())
def test_queries_of_pairs(case: tuple[Preferences, QueryGroups]) -> None:
    preferences, groups = case
    assert preferences.query is not None
    for b, w, query in zip(preferences.better, preferences.worse, preferences.query, strict=True):
        same = groups.index[b] == groups.index[w]
        assert query == (groups.index[b] if same else groups.n_queries)
    assert preferences.n_queries == max(preferences.query) + 1
    better, worse, weight = preferences
    assert (better is preferences.better, worse is preferences.worse) == (True, True)
    assert weight is preferences.weight


@given(case=lists(), data=st.data(), margin=st.sampled_from([1.0, 0.5]), is_set=st.booleans())
def test_statistics(case, data, margin: float, is_set: bool) -> None:
    preferences, groups = case
    n = groups.n_items
    scores, x = vectors(data.draw, SCORES, n), vectors(data.draw, MODERATE, n)
    truth = ReferencePairList(preferences, n)
    own = vectors(data.draw, FACTORS, preferences.n_queries)
    if is_set:
        truth.set_query_weight(own)
    expected = truth.at(scores).plan(margin, products=True)
    for n_threads in (1, 2):
        backend = PairListBackend(preferences, n, n_threads=n_threads)
        assert list(backend.pairs) == truth.pairs
        np.testing.assert_array_equal(backend.pair_weights, truth.pair_weights)
        if is_set:
            backend.set_query_weight(own)
        np.testing.assert_array_equal(backend.groups.index, truth.groups.index)
        assert backend.weight == truth.weight
        snapshot = backend.at(scores)
        plan = snapshot.plan(margin, products=True)
        assert plan.total == expected.total
        np.testing.assert_array_equal(plan.imbalance, expected.imbalance)
        for got, right in zip(plan.counts(), expected.counts(), strict=True):
            np.testing.assert_array_equal(got, right)
        np.testing.assert_allclose(plan.laplacian(x), expected.laplacian(x), atol=1e-11)
        for got, right in zip(plan.sums(x), expected.sums(x), strict=True):
            np.testing.assert_allclose(got, right, atol=1e-11)
        spread = float(np.abs(snapshot.centred).max())
        np.testing.assert_allclose(
            plan.score_laplacian(), expected.score_laplacian(), rtol=0, atol=1e-11 * spread
        )


def large_list(n: int, n_pairs: int, n_queries: int, *, weighted: bool) -> Preferences:
    """Queries that have nothing to do with the items: an item is in pairs of several."""
    rng = np.random.default_rng(n_pairs + weighted)
    better = rng.integers(0, n, n_pairs)
    worse = (better + rng.integers(1, n, n_pairs)) % n
    weight = rng.random(n_pairs) if weighted else None
    return Preferences(better, worse, weight, rng.integers(0, n_queries, n_pairs))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_list_is_the_sum_of_its_queries(weighted: bool) -> None:
    n, n_queries = 30, 5
    preferences = large_list(n, 400, n_queries, weighted=weighted)
    own = np.random.default_rng(0).random(n_queries)
    backend = PairListBackend(preferences, n)
    backend.set_query_weight(own)
    scores, x = np.random.default_rng(1).normal(size=(2, n))
    plan = backend.at(scores).plan(1.0, products=True)
    total, imbalance, product = 0.0, np.zeros(n), np.zeros(n)
    for q in range(n_queries):
        alone = PairListBackend(replace(preferences.take(preferences.query == q), query=None), n)
        assert backend.pairs[q] == alone.pairs[0]
        assert backend.pair_weights[q] == pytest.approx(alone.pair_weights[0], rel=1e-14)
        part = alone.at(scores).plan(1.0, products=True)
        total += own[q] * part.total
        imbalance += own[q] * part.imbalance
        product += own[q] * part.laplacian(x)
    assert plan.total == pytest.approx(total, rel=1e-13)
    np.testing.assert_allclose(plan.imbalance, imbalance, atol=1e-12)
    np.testing.assert_allclose(plan.laplacian(x), product, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_any_number_of_threads_gives_the_same_bits(weighted: bool) -> None:
    n, n_queries = 3000, 40
    preferences = large_list(n, 60_000, n_queries, weighted=weighted)
    own = np.random.default_rng(0).random(n_queries)
    scores = np.random.default_rng(1).normal(size=n)
    found = []
    for n_threads in (1, 2, 5):
        backend = PairListBackend(preferences, n, n_threads=n_threads)
        backend.set_query_weight(own)
        plan = backend.at(scores).plan(1.0, products=True)
        found.append((plan.total, plan.imbalance.tobytes(), plan.laplacian(scores).tobytes()))
    assert found[0] == found[1] == found[2]


def test_query_weights_can_be_set_again() -> None:
    preferences = large_list(9, 40, 3, weighted=True)
    scores = np.random.default_rng(1).normal(size=9)
    again, once = (PairListBackend(preferences, 9) for _ in range(2))
    again.set_query_weight(np.array([3.0, 0.0, 1.0]))
    again.at(scores).plan(1.0, products=True)
    for backend in (again, once):
        backend.set_query_weight(np.array([0.5, 2.0, 0.3]))
    plans = [backend.at(scores).plan(1.0, products=True) for backend in (again, once)]
    assert plans[0].total == plans[1].total
    assert again.weight == once.weight


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.1, 1.0, 1e3, 1e7])
def test_rounding_is_bounded(spread: float, weighted: bool) -> None:
    """The exact weight of a pair is the product of its weight and that of its query."""
    rng = np.random.default_rng(int(spread) + weighted)
    n, n_queries = 60, 7
    preferences = large_list(n, 4000, n_queries, weighted=weighted)
    scores = spread * rng.normal(size=n)
    own = rng.random(n_queries)
    weight = np.ones(4000) if preferences.weight is None else preferences.weight
    exact = [
        Fraction(v) * Fraction(q)
        for v, q in zip(weight.tolist(), own[preferences.query].tolist(), strict=True)
    ]
    slack = [
        max(Fraction(0), 1 - Fraction(b) + Fraction(w))
        for b, w in zip(
            scores[preferences.better].tolist(), scores[preferences.worse].tolist(), strict=True
        )
    ]
    hinge = sum(v * s for v, s in zip(exact, slack, strict=True))
    square = sum(v * s * s for v, s in zip(exact, slack, strict=True))
    backend = PairListBackend(preferences, n)
    backend.set_query_weight(own)
    for loss, truth in (
        (Hinge(backend), hinge),
        (LOSSES["squared_hinge"](backend), square),
        (SmoothedHinge(backend, 0.01), hinge),
    ):
        at = loss.at(scores)
        bound = at.errors.stated + at.blurred(0.0)
        assert abs(Fraction(at.stated) - truth) <= Fraction(bound)
        assert bound <= 1e-10 * max(float(truth), spread**2 * 4000) / 0.01


def test_weights_that_are_rounded_to_integers_are_not_exact() -> None:
    preferences = Preferences(np.array([0]), np.array([1]), np.array([3.0]), np.array([0]))
    backend = PairListBackend(preferences, 2)
    backend.set_query_weight(np.array([1.0 / 3.0]))
    snapshot = backend.at(np.zeros(2), on_grid=True)
    off = Fraction(snapshot.plan(1.0, products=True).total) - 3 * Fraction(1.0 / 3.0)
    assert 0 < off <= Fraction(snapshot.errors.total)


# --- Reductions ----------------------------------------------------------------------------------


def exact_weights(data: RankingData, reduction: str) -> list[tuple[int, int, Fraction]]:
    """All pairs with their weights in F for C = 1."""
    groups = data.groups
    own = [Fraction(1)] * groups.n_queries
    if data.query_weight is not None:
        own = [Fraction(float(v)) for v in data.query_weight]
    own.append(Fraction(1))
    parts: list[list[tuple[int, int, Fraction]]] = [[] for _ in own]
    if data.y is not None:
        for b in range(data.n_items):
            for w in range(data.n_items):
                if groups.index[b] == groups.index[w] and data.y[b] > data.y[w]:
                    parts[groups.index[b]].append((b, w, Fraction(1)))
    listed = data.preferences
    assert listed is not None
    assert listed.query is not None
    weight = np.ones(len(listed)) if listed.weight is None else listed.weight
    for b, w, v, q in zip(listed.better, listed.worse, weight, listed.query, strict=True):
        parts[q].append((int(b), int(w), Fraction(float(v))))
    mass = [sum((v for _, _, v in part), Fraction(0)) for part in parts]
    if reduction == "query_mean":
        whole = sum(o for o, m in zip(own, mass, strict=True) if m > 0)
        own = [
            o / m / whole if m > 0 and whole else Fraction(0)
            for o, m in zip(own, mass, strict=True)
        ]
    elif reduction == "mean":
        whole = sum(o * m for o, m in zip(own, mass, strict=True))
        own = [o / whole if whole else o for o in own]
    return [(b, w, o * v) for o, part in zip(own, parts, strict=True) for b, w, v in part]


@given(case=lists(), data=st.data(), reduction=st.sampled_from(["sum", "mean", "query_mean"]))
def test_reductions(case, data, reduction: str) -> None:
    """The loss of a data set at some scores is the exact sum, as far as the bounds tell."""
    preferences, groups = case
    n = groups.n_items
    y = None
    if data.draw(st.booleans()):
        y = vectors(data.draw, st.sampled_from([0.0, 1.0, 2.0]), n)
    query_weight = None
    if data.draw(st.booleans()):
        query_weight = vectors(data.draw, st.sampled_from([0.0, 0.3, 1.0, 7.0]), groups.n_queries)
    items = RankingData(
        np.zeros((n, 1)), y, groups.index, query_weight=query_weight, preferences=preferences
    )
    pairs = exact_weights(items, reduction)
    backends = [] if y is None else [NativeBackend(PairOrder(y, groups))]
    backends.append(PairListBackend(preferences, n))
    if not any(weight > 0 for *_, weight in pairs):
        with pytest.raises(ValueError, match=r"no comparable pair|no pair to learn from"):
            reduce_weights(backends, reduction, items)
        return
    factor, rounding = reduce_weights(backends, reduction, items)
    scores = vectors(data.draw, MODERATE, n)
    truth = sum(
        (v * max(Fraction(0), 1 - Fraction(scores[b]) + Fraction(scores[w])) for b, w, v in pairs),
        Fraction(0),
    )
    at = [Hinge(backend).at(scores) for backend in backends]
    value = factor * sum(one.value for one in at)
    assert value == pytest.approx(float(truth), rel=1e-12, abs=1e-12)
    assert 0.0 <= rounding < 1e-13
    counting = [(b, w) for b, w, v in pairs if v > 0]
    assert count_pairs(items, backends) == len(counting)
    assert participants(items).tolist() == sorted({i for pair in counting for i in pair})


def test_items_in_no_pair_are_left_out_with_their_queries() -> None:
    """A fit on the few rows that are in pairs has the same objective as one on their copy."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(40, 3)), np.arange(40) // 4
    better, worse = np.array([9, 17, 18, 17]), np.array([8, 19, 16, 9])
    groups = QueryGroups.from_qid(qid, 40)
    own = rng.random(10)
    preferences = pairs_by_query(Preferences(better, worse), groups)
    data = RankingData(X, None, qid, query_weight=own, preferences=preferences)
    settings = LinearSettings(reduction="query_mean", tol=1e-7, scaling=None)
    rows = participants(data)
    assert rows.tolist() == [8, 9, 16, 17, 18, 19]
    part = data.take(rows)
    assert part.preferences.query.tolist() == [0, 1, 1, 2]
    whole, some = (LinearProblem(each, settings).solve() for each in (data, part))
    assert whole.objective == some.objective
    plain = LinearProblem(
        replace(
            data,
            qid=None,
            query_weight=None,
            preferences=Preferences(
                better,
                worse,
                np.array([own[2], own[4] / 2, own[4] / 2, 1.0]) / (own[2] + own[4] + 1.0),
            ),
        ),
        replace(settings, reduction="sum"),
    ).solve()
    assert whole.objective == pytest.approx(plain.objective, rel=1e-6)


def test_pairs_of_weight_zero() -> None:
    preferences = Preferences(
        np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([1.0, 0.0, 2.0]), np.array([0, 0, 1])
    )
    kept = positive_pairs(preferences, np.array([1.0, 0.0]))
    assert [side.tolist() for side in kept] == [[0], [1], [1.0]]
    assert kept.query.tolist() == [0]
    assert positive_pairs(kept, np.array([1.0, 0.0])) is kept
