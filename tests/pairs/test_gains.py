"""Pairs weighted by gain: every counting against the sum over pairs, and within its errors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm._messages import ParameterError
from ranksvm._vectors import Array
from ranksvm.backends.native import COUNTINGS, NativeBackend
from ranksvm.backends.reference import ReferenceBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.gains import above_lowest, check_labels, discounts, is_graded, label_gains
from ranksvm.pairs.oracle import LOSSES, Hinge
from ranksvm.pairs.order import PairOrder

every_counting = pytest.mark.parametrize("counting", COUNTINGS)
SIZES = (1, 2, 3, 16, 17, 63, 64, 65, 127, 128, 129, 200)


def draw_gains(kind: str, rng: np.random.Generator, n: int) -> Array:
    if kind == "grades":
        return np.exp2(rng.integers(0, 5, n)) - 1.0
    if kind == "large grades":
        return np.exp2(rng.integers(0, 32, n)) - 1.0
    if kind == "distinct":
        return rng.permutation(n).astype(float)
    if kind == "equal":
        return np.zeros(n)
    return rng.gamma(0.3, size=n)  # real


def draw_weights(kind: str, rng: np.random.Generator, n: int) -> Array | None:
    if kind == "none":
        return None
    return rng.integers(0, 4, n).astype(float) if kind == "whole" else rng.random(n)


KINDS = ("grades", "large grades", "distinct", "equal", "real")


def draw(sizes, gains: str, weights: str, seed: int) -> tuple[PairOrder, Array, Array]:
    """Return an order, weights of its queries, and scores with ties."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    qid = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    gain = draw_gains(gains, rng, n)
    order = PairOrder(
        gain, QueryGroups.from_qid(qid, n), draw_weights(weights, rng, n), by_gain=True
    )
    scores = rng.normal(size=n) * float(rng.choice([0.1, 1.0, 10.0, 1e4]))
    scores[::3] = np.round(scores[::3], 1)
    return order, rng.choice([0.5, 1.0, 3.0], len(sizes)), scores


@every_counting
@given(
    sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=3),
    gains=st.sampled_from(KINDS),
    weights=st.sampled_from(["none", "whole", "real"]),
    seed=st.integers(0, 2**32),
)
def test_counting_by_gain_is_brute_force(counting: str, sizes, gains, weights, seed) -> None:
    order, query_weight, scores = draw(sizes, gains, weights, seed)
    reference = ReferenceBackend(order)
    reference.set_query_weight(query_weight)
    truth = reference.at(scores).plan(1.0, products=True)
    x = np.random.default_rng(seed).normal(size=len(scores)) + 3.0
    index = order.groups.index
    w = np.ones(len(scores)) if order.item_weight is None else order.item_weight
    largest = np.zeros(len(sizes))
    np.maximum.at(largest, index, order.utility)
    own = query_weight * np.bincount(index, w, len(sizes)) * largest  # of all partners, at most
    size = w * own[index]
    exact = gains != "real" and weights != "real"
    for threads in (1, 2):
        backend = NativeBackend(order, counting=counting, n_threads=threads)
        assert list(backend.pairs) == list(reference.pairs)
        np.testing.assert_allclose(backend.pair_weights, reference.pair_weights, rtol=1e-12)
        backend.set_query_weight(query_weight)
        for products in (True, False):
            snapshot = backend.at(scores)
            plan = snapshot.plan(1.0, products=products)
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
            assert (plan.counts()[0] >= 0.0).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weights", ["none", "whole", "real"])
@pytest.mark.parametrize("gains", KINDS)
@pytest.mark.parametrize(
    ("counting", "sizes"),
    [
        *((counting, [9, 3]) for counting in COUNTINGS),
        ("auto", [70]),
        ("auto", [140]),
        *(
            pytest.param(counting, [size], marks=pytest.mark.slow)
            for counting in COUNTINGS
            if counting != "auto"
            for size in (70, 140)
        ),
    ],
)
def test_errors_are_bounds(counting: str, loss: str, weights: str, gains: str, sizes) -> None:
    """The value, A1, A2 and the gradient, against rational arithmetic."""
    order, query_weight, scores = draw(sizes, gains, weights, len(sizes) + sizes[0])
    scores = np.round(scores / np.abs(scores).max() * 8.0, 7)
    backend = NativeBackend(order, counting=counting)
    backend.set_query_weight(query_weight)
    losses = [LOSSES[loss](backend)]
    if loss == "hinge":
        losses.append(Hinge(backend).smoothed(2.0**-4))
    index, utility = order.groups.index, order.utility
    w = np.ones(len(scores)) if order.item_weight is None else order.item_weight
    for made in losses:
        at = made.at(scores)
        if at.moved > 0.0:
            scores = backend.at(scores, on_grid=True).centred
        s = [Fraction(one) for one in scores.tolist()]
        power = 2 if loss == "squared_hinge" else 1
        value, grad = Fraction(0), [Fraction(0)] * len(s)
        mu = Fraction(1, 16)
        for b in range(len(s)):
            for c in range(len(s)):
                if index[b] != index[c] or not utility[b] > utility[c]:
                    continue
                if not scores[b] - scores[c] < 1.0:
                    continue
                weight = Fraction(query_weight[index[b]]) * Fraction(w[b]) * Fraction(w[c])
                weight *= Fraction(utility[b]) - Fraction(utility[c])
                slack = 1 - s[b] + s[c]
                value += weight * slack**power
                slope = weight * (2 * slack if power == 2 else 1)
                if made is not losses[0]:
                    slope = weight * min(Fraction(1), slack / mu)
                grad[c] += slope
                grad[b] -= slope
        assert abs(Fraction(at.stated) - value) <= at.errors.stated
        if power == 2:
            assert abs(Fraction(at.dual_quadratic) - value) <= at.errors.quadratic
        off = sum(abs(Fraction(g) - one) for g, one in zip(at.grad.tolist(), grad, strict=True))
        assert off <= at.errors.grad


@pytest.mark.parametrize("n", [1000, 200_000])
@pytest.mark.parametrize("levels", [4, None])
def test_same_bits_for_every_thread_count(n: int, levels: int | None) -> None:
    rng = np.random.default_rng(n)
    gain = rng.random(n) if levels is None else rng.random(levels)[rng.integers(0, levels, n)]
    order = PairOrder(gain, QueryGroups.from_qid(None, n), rng.random(n), by_gain=True)
    scores, x = rng.normal(size=n), rng.normal(size=n)

    def everything(n_threads: int) -> list[Array]:
        plan = NativeBackend(order, n_threads=n_threads).at(scores).plan(0.5, products=True)
        return [
            np.array([plan.total]), plan.imbalance, *plan.counts(), *plan.sums(x),
            plan.laplacian(x), plan.score_laplacian(),
        ]  # fmt: skip

    one = everything(1)
    for n_threads in (2, 3):
        for a, b in zip(one, everything(n_threads), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [40, 700])
def test_whole_gains_have_exact_sums_on_a_grid(n: int, weighted: bool) -> None:
    rng = np.random.default_rng(n)
    groups = QueryGroups.from_qid(rng.integers(0, 2, n), n)
    weight = rng.integers(0, 4, n).astype(float) if weighted else None
    order = PairOrder(np.exp2(rng.integers(0, 5, n)) - 1.0, groups, weight, by_gain=True)
    scores = rng.normal(size=n) * 3.0 + 1e4
    found = []
    for counting in COUNTINGS:
        at = Hinge(NativeBackend(order, counting=counting)).smoothed(2.0**-6).at(scores)
        assert at.errors.grad == 0.0
        assert at.moved < 1e-8
        found.append(at.grad)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_real_gains_have_no_grid() -> None:
    order = PairOrder(np.array([0.0, 0.5, 1.0]), QueryGroups.from_qid(None, 3), by_gain=True)
    assert Hinge(NativeBackend(order)).smoothed(0.25).at(np.zeros(3)).moved == 0.0


def test_gains_of_labels() -> None:
    y = np.array([2.0, 0.0, 1.0, 3.0])
    np.testing.assert_array_equal(label_gains(y, "exp2"), [3.0, 0.0, 1.0, 7.0])
    np.testing.assert_array_equal(label_gains(y, "linear"), y)
    groups = QueryGroups.from_qid(["a", "b", "a", "a"], 4)
    np.testing.assert_array_equal(
        above_lowest(label_gains(y, "exp2"), groups), [2.0, 0.0, 0.0, 6.0]
    )
    np.testing.assert_array_equal(above_lowest(y, groups), [1.0, 0.0, 0.0, 2.0])
    assert above_lowest(np.zeros(0), QueryGroups.from_qid(None, 0)).size == 0
    assert is_graded(y)
    assert not is_graded(y + 0.5)


@pytest.mark.parametrize("label", [0.5, 32.0, 1000.0])
def test_labels_that_are_no_grades_are_told_what_to_do(label: float) -> None:
    with pytest.raises(ParameterError, match=f"got the label {label:g}.*gain='linear'"):
        check_labels(np.array([0.0, label, 1.0]), "exp2")


@pytest.mark.parametrize("gain", ["exp2", "linear"])
def test_gains_need_labels_that_are_not_negative(gain: str) -> None:
    with pytest.raises(ParameterError, match=r"got the label -2\. Shift the labels"):
        check_labels(np.array([1.0, -2.0]), gain)
    check_labels(np.array([0.5, 1e300]), "linear")


def test_discounts_of_ranks() -> None:
    np.testing.assert_allclose(discounts("log2", 3), [1.0, 1.0 / np.log2(3.0), 0.5])
    np.testing.assert_allclose(discounts("letor", 4), [1.0, 1.0, 1.0 / np.log2(3.0), 0.5])
