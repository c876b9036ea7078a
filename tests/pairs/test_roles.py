"""Pairs weighted by role: every counting against the sum over pairs, and within its errors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import shard_sets
from hypothesis import given
from hypothesis import strategies as st

from ranksvm._vectors import Array
from ranksvm.backends.native import COUNTINGS, NativeBackend
from ranksvm.backends.reference import ReferenceBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.roles import RoleWeights
from ranksvm.learners import make_problem
from ranksvm.learners.linear import LinearSettings
from ranksvm.learners.participants import comparable_items, count_pairs
from ranksvm.learners.weights import total_pair_weight
from ranksvm.pairs.oracle import LOSSES, Hinge
from ranksvm.pairs.order import PairOrder

every_counting = pytest.mark.parametrize("counting", COUNTINGS)
SIZES = (1, 2, 3, 17, 63, 64, 65, 127, 128, 129, 200)
KINDS = ("events", "whole", "real", "better only", "worse only")


def draw_roles(kind: str, rng: np.random.Generator, n: int) -> RoleWeights:
    if kind == "events":  # sometimes there is none
        return RoleWeights(worse=(rng.random(n) < rng.choice([0.0, 0.3, 1.0])).astype(float))
    if kind == "whole":
        return RoleWeights(*(rng.integers(0, 4, n).astype(float) for _ in range(2)))
    better, worse = rng.random(n), rng.random(n) * (rng.random(n) < 0.7)
    if kind == "real":
        return RoleWeights(better, worse)
    return RoleWeights(better, None) if kind == "better only" else RoleWeights(None, worse)


def draw_weights(kind: str, rng: np.random.Generator, n: int) -> Array | None:
    if kind == "none":
        return None
    return rng.integers(0, 3, n).astype(float) if kind == "whole" else rng.random(n)


def draw(sizes, roles: str, weights: str, seed: int) -> tuple[PairOrder, Array, Array]:
    """Return an order, weights of its queries, and scores with ties."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    qid = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    utility = rng.integers(0, rng.choice([2, 5, 1000]), n).astype(float)
    order = PairOrder(
        utility,
        QueryGroups.from_qid(qid, n),
        draw_weights(weights, rng, n),
        roles=draw_roles(roles, rng, n),
    )
    scores = rng.normal(size=n) * float(rng.choice([0.1, 1.0, 10.0, 1e4]))
    scores[::3] = np.round(scores[::3], 1)
    return order, rng.choice([0.5, 1.0, 3.0], len(sizes)), scores


def both_roles(order: PairOrder) -> tuple[Array, Array]:
    ones = np.ones(len(order.utility))
    weights = (order.better_weight, order.worse_weight)
    better, worse = (ones if one is None else one for one in weights)
    return better, worse


@every_counting
@given(
    sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=3),
    roles=st.sampled_from(KINDS),
    weights=st.sampled_from(["none", "whole", "real"]),
    seed=st.integers(0, 2**32),
)
def test_counting_by_role_is_brute_force(counting: str, sizes, roles, weights, seed) -> None:
    order, query_weight, scores = draw(sizes, roles, weights, seed)
    reference = ReferenceBackend(order)
    reference.set_query_weight(query_weight)
    truth = reference.at(scores).plan(1.0, products=True)
    x = np.random.default_rng(seed).normal(size=len(scores)) + 3.0
    index = order.groups.index
    w = np.maximum(*both_roles(order))
    size = w * (query_weight * np.bincount(index, w, len(sizes)))[index]
    exact = roles in ("events", "whole") and weights != "real"
    bits = []
    for threads in (1, 2):
        backend = NativeBackend(order, counting=counting, n_threads=threads)
        assert list(backend.pairs) == list(reference.pairs)
        np.testing.assert_allclose(backend.pair_weights, reference.pair_weights, rtol=1e-12)
        backend.set_query_weight(query_weight)
        for products in (True, False):
            plan = backend.at(scores).plan(1.0, products=products)
            for got, right, spread in (
                (plan.counts()[0], truth.counts()[0], 1.0),
                (plan.counts()[1], truth.counts()[1], 1.0),
                (plan.imbalance, truth.imbalance, 1.0),
                (plan.sums(x)[0], truth.sums(x)[0], np.abs(x).max()),
                (plan.sums(x)[1], truth.sums(x)[1], np.abs(x).max()),
                (plan.laplacian(x), truth.laplacian(x), np.ptp(x)),
                (plan.score_laplacian(), truth.score_laplacian(), np.ptp(scores)),
            ):
                if exact and spread == 1.0:
                    np.testing.assert_array_equal(got, right)
                assert (np.abs(got - right) <= 1e-12 * size * spread + 1e-300).all()
            assert plan.total == pytest.approx(truth.total, rel=1e-9, abs=1e-12 * size.sum())
        bits.append(np.concatenate([plan.laplacian(x), *plan.counts(), *plan.sums(x)]).tobytes())
    assert bits[0] == bits[1]


def test_large_queries_and_many_threads_have_the_same_bits() -> None:
    """So large that a node of the tree is swept in chunks."""
    rng = np.random.default_rng(0)
    n = 70_000
    event = (rng.random(n) < 0.4).astype(float)
    time, scores, x = rng.integers(0, 30_000, n).astype(float), rng.normal(size=n), rng.random(n)
    order = PairOrder(time, QueryGroups.from_qid(None, n), roles=RoleWeights(worse=event))
    found = []
    for counting, threads in (("auto", 1), ("auto", 3), ("tree", 1)):
        backend = NativeBackend(order, counting=counting, n_threads=threads)
        plan = backend.at(scores).plan(1.0, products=True)
        found.append((plan.counts(), plan.laplacian(x), plan.total))
    (counts, product, total), threaded, tree = found
    np.testing.assert_array_equal(counts, threaded[0])
    np.testing.assert_array_equal(product, threaded[1])
    np.testing.assert_array_equal(counts, tree[0])
    np.testing.assert_allclose(product, tree[1], rtol=1e-9, atol=1e-7)
    assert total == threaded[2] == tree[2]
    below = np.searchsorted(np.sort(time[event > 0.0]), time)  # events before, in O(n log n)
    assert sum(backend.pairs) == backend.weight == below.sum()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weights", ["none", "whole", "real"])
@pytest.mark.parametrize("roles", KINDS)
@pytest.mark.parametrize(
    ("counting", "sizes"), [*((counting, [9, 3]) for counting in COUNTINGS), ("auto", [70])]
)
def test_errors_are_bounds(counting: str, loss: str, weights: str, roles: str, sizes) -> None:
    """The value, A1, A2 and the gradient, against rational arithmetic."""
    order, query_weight, scores = draw(sizes, roles, weights, 5)
    scores = np.round(scores / np.abs(scores).max() * 8.0, 7)
    backend = NativeBackend(order, counting=counting)
    backend.set_query_weight(query_weight)
    losses = [LOSSES[loss](backend)]
    if loss == "hinge":
        losses.append(Hinge(backend).smoothed(2.0**-4))
    index, utility = order.groups.index, order.utility
    # The weight of an item in a role is what float64 makes of the product.
    better, worse = ([Fraction(one) for one in part.tolist()] for part in both_roles(order))
    own = [Fraction(one) for one in query_weight.tolist()]
    mu = Fraction(1, 16)
    for made in losses:
        at = made.at(scores)
        moved = backend.at(scores, on_grid=True).centred if at.moved > 0.0 else scores
        s = [Fraction(one) for one in moved.tolist()]
        value, A1, A2, grad = Fraction(0), Fraction(0), Fraction(0), [Fraction(0)] * len(s)
        for b in range(len(s)):
            for w in range(len(s)):
                if index[b] != index[w] or not utility[b] > utility[w]:
                    continue
                if not moved[b] - moved[w] < 1.0:
                    continue
                slack = 1 - s[b] + s[w]
                weight = own[index[b]] * better[b] * worse[w]
                if loss == "squared_hinge":
                    alpha = 2 * weight * slack
                    value += weight * slack**2
                    A2 += weight * slack**2
                elif made is losses[0]:
                    alpha = weight
                    value += weight * slack
                else:
                    alpha = weight * min(Fraction(1), slack / mu)
                    value += weight * slack
                A1 += alpha
                grad[w] += alpha
                grad[b] -= alpha
        off = sum(abs(Fraction(g) - right) for g, right in zip(at.grad.tolist(), grad, strict=True))
        assert abs(Fraction(at.stated) - value) <= Fraction(at.errors.stated)
        assert abs(Fraction(at.dual_linear) - A1) <= Fraction(at.errors.linear)
        assert abs(Fraction(at.dual_quadratic) - A2) <= Fraction(at.errors.quadratic)
        assert off <= Fraction(at.errors.grad)


@given(
    sizes=st.lists(st.sampled_from((1, 2, 5, 20)), min_size=1, max_size=3),
    roles=st.sampled_from(KINDS),
    weights=st.sampled_from(["none", "whole"]),
    seed=st.integers(0, 2**32),
)
def test_items_in_pairs_are_found(sizes, roles, weights, seed) -> None:
    order, query_weight, _ = draw(sizes, roles, weights, seed)
    query_weight[0] = 0.0
    data = RankingData(
        np.zeros((len(order.utility), 1)),
        order.utility,
        item_weight=order.item_weight,
        roles=order.roles,
        query_weight=query_weight,
    ).with_groups(order.groups)
    reference = ReferenceBackend(order)
    reference.set_query_weight(query_weight)
    counts = reference._weight > 0.0
    found = np.flatnonzero(counts.any(axis=0) | counts.any(axis=1))
    np.testing.assert_array_equal(comparable_items(data), found)
    assert count_pairs(data, [NativeBackend(order)]) == counts.sum()
    assert total_pair_weight(data) == pytest.approx(reference.weight)
    rows = np.arange(0, len(order.utility), 2)
    part = data.take(rows).roles
    assert part is not None
    assert order.roles is not None
    for mine, whole in zip(part, order.roles, strict=True):
        assert mine is whole is None or (mine is not None and whole is not None)
        if mine is not None and whole is not None:
            np.testing.assert_array_equal(mine, whole[rows])


def test_gains_and_roles_exclude_each_other() -> None:
    groups = QueryGroups.from_qid(None, 2)
    order = PairOrder(np.array([0.0, 1.0]), groups, by_gain=True, roles=RoleWeights())
    with pytest.raises(ValueError, match="by role and by gain exclude each other"):
        NativeBackend(order)


def test_data_in_shards_has_the_same_loss() -> None:
    """Shards know no roles, so their scores are gathered."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 9, 60).astype(float)
    qid, roles = np.repeat(np.arange(4), 15), RoleWeights(worse=rng.integers(0, 2, 60) * 1.0)
    whole = RankingData(X, y, qid, roles=roles)
    sharded = shard_sets.cut(whole, [20, 40])
    found = [
        problem.solve().objective
        for problem in (make_problem(data, LinearSettings()) for data in (whole, sharded))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)
