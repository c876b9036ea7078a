"""Metrics against cases worked out by hand, brute force over pairs, and scikit-learn.

More on all of them in ``test_metrics_brute_force.py`` and ``test_metrics_peers.py``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from ranksvm.datasets import make_ranking
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

WITH_CONVENTIONS = (
    ndcg,
    mean_ndcg,
    average_precision,
    precision_at,
    recall_at,
    reciprocal_rank,
    expected_reciprocal_rank,
)
ALL = (
    *WITH_CONVENTIONS,
    pairwise_accuracy,
    kendall_tau,
    auc,
    median_level_average_precision,
    reciprocal_true_rank,
)


def brute_force_accuracy(y, scores, qid, weight, average):
    """Pairwise accuracy by its definition, or None without a comparable pair of positive weight."""
    hits: dict = {}
    total: dict = {}
    for i in range(len(y)):
        for j in range(len(y)):
            if qid[i] == qid[j] and y[i] > y[j]:
                pair = weight[i] * weight[j]
                hit = 1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0
                hits[qid[i]] = hits.get(qid[i], 0.0) + pair * hit
                total[qid[i]] = total.get(qid[i], 0.0) + pair
    judged = [q for q in total if total[q] > 0.0]
    if not judged:
        return None
    if average == "pairs":
        return sum(hits[q] for q in judged) / sum(total[q] for q in judged)
    return sum(hits[q] / total[q] for q in judged) / len(judged)


def brute_force_ndcg(y, scores, qid, k, gain, empty):
    """NDCG by its definition, or None when all queries are skipped."""
    values = []
    for q in dict.fromkeys(qid):
        rows = [i for i in range(len(y)) if qid[i] == q]
        gains = {i: 2.0 ** y[i] - 1.0 if gain == "exp2" else float(y[i]) for i in rows}

        def dcg(order, gains=gains):
            top = order[: len(order) if k is None else k]
            return sum(gains[i] / math.log2(1 + rank) for rank, i in enumerate(top, start=1))

        ideal = dcg(sorted(rows, key=lambda i: -y[i]))
        if ideal > 0.0:
            values.append(dcg(sorted(rows, key=lambda i: -scores[i])) / ideal)
        elif empty != "skip":
            values.append({"zero": 0.0, "one": 1.0}[empty])
    return sum(values) / len(values) if values else None


# Few different values make many ties; columns are y, score, query and weight.
ITEMS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(st.integers(-2, 2).map(float), st.floats(-1e6, 1e6)),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=25,
)


@given(ITEMS, st.booleans(), st.booleans(), st.sampled_from(["query", "pairs"]))
def test_pairwise_accuracy_equals_brute_force(items, grouped, weighted, average):
    y, scores, qid, weight = map(list, zip(*items, strict=True))
    expected = brute_force_accuracy(
        y,
        scores,
        qid if grouped else [0] * len(y),
        weight if weighted else [1.0] * len(y),
        average,
    )

    def compute():
        return pairwise_accuracy(
            y,
            scores,
            qid if grouped else None,
            sample_weight=weight if weighted else None,
            average=average,
        )

    if expected is None:
        with pytest.raises(ValueError, match="comparable"):
            compute()
    else:
        assert compute() == pytest.approx(expected, rel=1e-12)


@given(
    ITEMS,
    st.booleans(),
    st.sampled_from([1, 2, 3, 10, None]),
    st.sampled_from(["exp2", "linear"]),
    st.sampled_from(["skip", "zero", "one"]),
)
def test_ndcg_equals_brute_force(items, grouped, k, gain, empty):
    y, scores, qid, _ = map(list, zip(*items, strict=True))
    expected = brute_force_ndcg(y, scores, qid if grouped else [0] * len(y), k, gain, empty)
    assume(expected is not None)
    value = ndcg(y, scores, qid if grouped else None, k=k, gain=gain, empty=empty)
    assert value == pytest.approx(expected, rel=1e-12)


def test_pairwise_accuracy_by_hand():
    # Query a: pairs (2, 1), (2, 0) right, (1, 0) tied.  Query b: its one pair is wrong.
    y = [2, 1, 0, 5, 3]
    scores = [0.9, 0.1, 0.1, -1.0, 1.0]
    qid = ["a", "a", "a", "b", "b"]
    assert pairwise_accuracy(y, scores, qid) == pytest.approx((2.5 / 3 + 0.0) / 2)
    assert pairwise_accuracy(y, scores, qid, average="pairs") == pytest.approx(2.5 / 4)
    # Weights: a's pairs weigh 2, 2 and 1 (of which half), b's weighs 0 and b is left out.
    weight = [2, 1, 1, 0, 7]
    assert pairwise_accuracy(y, scores, qid, sample_weight=weight) == pytest.approx(4.5 / 5)


def test_pairwise_accuracy_by_query():
    y, scores, qid = [5, 2, 1, 0, 3, 7], [0, 9, 1, 1, 1, 0], ["b", "a", "a", "a", "b", "c"]
    by_query = pairwise_accuracy(y, scores, qid, per_query=True)
    np.testing.assert_allclose(by_query, [0.0, 2.5 / 3, np.nan])
    weighted = pairwise_accuracy(y, scores, qid, sample_weight=[1, 2, 1, 1, 1, 1], per_query=True)
    np.testing.assert_allclose(weighted, [0.0, 4.5 / 5, np.nan])
    filled = pairwise_accuracy(y, scores, qid, average="pairs", empty="one", per_query=True)
    np.testing.assert_allclose(filled, [0.0, 2.5 / 3, 1.0])
    assert pairwise_accuracy(y, scores, qid, empty="one") == pytest.approx(filled.mean())
    assert pairwise_accuracy(y, scores, qid, average="pairs", empty="one") == 2.5 / 4
    with pytest.raises(ValueError, match=r"no query has a comparable pair"):
        pairwise_accuracy([1, 1], [0, 1], ["a", "b"], average="pairs", empty="one")


def test_queries_without_a_comparable_pair_are_left_out():
    assert pairwise_accuracy([1, 0, 4, 4, 9], [1, 0, 0, 1, 0], [0, 0, 1, 1, 2]) == 1.0
    with pytest.raises(ValueError, match="comparable"):
        pairwise_accuracy([4, 4, 9], [0, 1, 0], [1, 1, 2])


def test_ndcg_by_hand():
    # Ranked by score: grades 0, 2, 1; ideal: 2, 1, 0.
    y, scores = [2, 0, 1], [0.5, 0.9, 0.1]
    dcg = 0.0 + 3.0 / math.log2(3) + 1.0 / 2.0
    ideal = 3.0 + 1.0 / math.log2(3)
    assert ndcg(y, scores) == pytest.approx(dcg / ideal)
    assert ndcg(y, scores, k=1) == 0.0
    assert ndcg(y, scores, k=2) == pytest.approx(3.0 / math.log2(3) / ideal)
    linear = (2.0 / math.log2(3) + 0.5) / (2.0 + 1.0 / math.log2(3))
    assert ndcg(y, scores, gain="linear") == pytest.approx(linear)


def test_equal_scores_keep_the_order_of_the_rows():
    assert ndcg([1, 0], [0.0, 0.0], k=1) == 1.0
    assert ndcg([0, 1], [0.0, -0.0], k=1) == 0.0
    # Also where the items of a query are not neighbours.
    assert ndcg([1, 0, 0, 1], [0.0] * 4, ["a", "b", "a", "b"], k=1) == 0.5


@pytest.mark.parametrize("k", [1, 3, 10, None])
def test_ndcg_agrees_with_scikit_learn(k):
    _, y, qid, _ = make_ranking(30, (2, 40), 3, n_levels=5, shuffle=True, random_state=0)
    scores = np.random.default_rng(0).permutation(y.shape[0]).astype(float)
    expected = [
        ndcg_score(y[None, qid == q], scores[None, qid == q], k=k)
        for q in range(30)
        if y[qid == q].any()
    ]
    assert ndcg(y, scores, qid, k=k, gain="linear") == pytest.approx(np.mean(expected))


def test_the_order_of_rows_does_not_matter_without_ties():
    _, y, qid, _ = make_ranking(20, (2, 30), 3, random_state=0)
    rng = np.random.default_rng(0)
    scores, order = rng.standard_normal(y.shape[0]), rng.permutation(y.shape[0])
    for metric in ALL:
        value = metric(y, scores, qid)
        assert metric(y[order], scores[order], qid[order]) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("empty", "expected"), [("skip", 1.0), ("zero", 0.5), ("one", 1.0)])
def test_queries_without_a_relevant_item(empty, expected):
    assert ndcg([1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1], empty=empty) == expected


def test_ndcg_of_nothing_relevant():
    with pytest.raises(ValueError, match=r"no query has .* empty='zero'"):
        ndcg([0, 0], [1, 2], [0, 1])
    assert ndcg([0, 0], [1, 2], [0, 1], empty="zero") == 0.0


def test_ndcg_stays_finite_for_huge_grades():
    # 2^5000 is out of range; the item above it in the ideal order has half its gain.
    value = ndcg([5000, 4999, 0], [1, 2, 3])
    expected = (0.5 / math.log2(3) + 1.0 / 2.0) / (1.0 + 0.5 / math.log2(3))
    assert value == pytest.approx(expected)
    assert ndcg([1e308] * 50, range(50), gain="linear") == pytest.approx(1.0)
    # A huge query leaves the others as they are.
    both = ndcg([5000, 0, 2, 1], [1, 0, 0, 1], ["huge", "huge", "small", "small"])
    assert both == pytest.approx((1.0 + ndcg([2, 1], [0, 1])) / 2.0)


def test_ndcg_of_tiny_labels_does_not_cancel():
    tiny = ndcg([1e-15, 3e-15, 0.0], [3, 2, 1])
    assert tiny == pytest.approx(ndcg([1, 3, 0], [3, 2, 1], gain="linear"))


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    ("y", "scores", "qid", "message"),
    [
        ([1, 0], [1, 0, 2], None, "y and scores .* got 2 and 3 values"),
        ([1, np.nan], [1, 0], None, "y must be finite; got nan in row 1"),
        ([1, 0], [np.inf, 0], None, "scores must be finite, or -inf for items .* got inf in row 0"),
        ([1, 0], [-np.inf, np.nan], None, "scores must be finite, .* got nan in row 1"),
        ([1, -np.inf], [1, 0], None, "y must be finite; got -inf in row 1"),
        (["1", "0"], [1, 0], None, "y must hold real numbers; got dtype <U1"),
        ([1, None], [1, 0], None, "y must (hold real numbers|be finite)"),
        (np.array([1, {}], dtype=object), [1, 0], None, "y must hold real numbers"),
        ([1, 0], [1j, 0], None, "scores must hold real numbers; got dtype complex128"),
        ([[1], [0]], [1, 0], None, r"y must be one-dimensional; got shape \(2, 1\)"),
        ([], [], None, "at least one item"),
        (
            np.ma.masked_array([1, 0], [False, True]),
            [1, 0],
            None,
            "y has 1 masked value, the first in row 1",
        ),
        ([1, 0], [1, 0], [0], "qid must have one query id per row; got 1 ids for 2 rows"),
    ],
)
def test_bad_input(metric, y, scores, qid, message):
    with pytest.raises(ValueError, match=message):
        metric(y, scores, qid)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be a positive integer, or None for all ranks; got 0"),
        ({"k": 2.5}, "k must be a positive integer"),
        ({"gain": "cubic"}, "gain must be one of 'exp2', 'linear'; got 'cubic'"),
        ({"empty": 0.0}, "empty must be one of 'skip', 'zero', 'one'; got 0.0"),
    ],
)
def test_bad_options_of_ndcg(options, message):
    with pytest.raises(ValueError, match=message):
        ndcg([1, 0], [1, 0], **options)


@pytest.mark.parametrize("gain", ["exp2", "linear"])
def test_ndcg_refuses_negative_labels(gain):
    with pytest.raises(ValueError, match=r"labels >= 0; got -1.0 in row 1. Shift"):
        ndcg([1, -1], [1, 0], gain=gain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"average": "macro"}, "average must be one of 'query', 'pairs'; got 'macro'"),
        (
            {"sample_weight": [1, -2]},
            "sample_weight must be finite and not negative; got -2.0 in row 1",
        ),
        (
            {"sample_weight": [1]},
            "sample_weight has 1 values for 2 items; pass one weight per item",
        ),
        (
            {"sample_weight": [1, np.nan]},
            "sample_weight must be finite and not negative; got nan in row 1",
        ),
        ({"sample_weight": [0, 0]}, "comparable"),
    ],
)
def test_bad_options_of_pairwise_accuracy(options, message):
    with pytest.raises(ValueError, match=message):
        pairwise_accuracy([1, 0], [1, 0], **options)


# --- Items that were not retrieved: more in test_metrics_brute_force.py ---------------------------


def test_unretrieved_items_by_hand():
    y, scores = [0, 2, 1], [2.0, -np.inf, 1.0]  # the best item is missing
    assert average_precision(y, scores) == pytest.approx((1 / 2) / 2)
    assert precision_at(y, scores, k=3) == pytest.approx(1 / 3)
    assert recall_at(y, scores, k=1) == 0.0
    assert recall_at(y, scores, k=3) == recall_at(y, scores, k=None) == 0.5
    assert reciprocal_rank(y, scores) == 0.5
    assert expected_reciprocal_rank(y, scores) == pytest.approx(1 / 4 / 2)
    ideal = 3 + 1 / math.log2(3)
    assert ndcg(y, scores) == pytest.approx(1 / math.log2(3) / ideal)
    assert ndcg(y, scores, k=3, short="zero") > 0.0  # a query of three items
    assert pairwise_accuracy(y, scores) == 0.0
    assert reciprocal_true_rank(y, scores, k=3) == pytest.approx((1 / 3 + 1 / 2) / 3)


@pytest.mark.parametrize("metric", ALL)
def test_a_query_of_which_nothing_was_retrieved_counts(metric):
    y, qid = [1, 0, 1, 0], [0, 0, 1, 1]
    expected = {pairwise_accuracy: 0.5, auc: 0.5}.get(metric, 0.0)
    by_query = metric(y, [1, 0, -np.inf, -np.inf], qid, per_query=True)
    assert by_query[0] > 0.0
    assert by_query[1] == expected
    assert metric(y, [-np.inf] * 4, qid) == expected


@pytest.mark.parametrize("metric", [pairwise_accuracy, kendall_tau, auc])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_unretrieved_items_are_below_all_others(metric, kind):
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 3, 3000), rng.integers(-9, 9, 3000).astype(kind)
    missed = rng.random(3000) < 0.3
    expected = metric(y, np.where(missed, -100.0, scores.astype(float)))
    for lowest in (-9, np.finfo(kind).min):  # there may be no number in between
        found = np.where(scores == -9, lowest, scores)
        found[missed] = -np.inf
        assert found.dtype == kind
        assert metric(y, found) == expected
        if metric is pairwise_accuracy:
            weighted = metric(y, found, sample_weight=np.ones(3000))
            assert weighted == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_items", [400, 3000, 70_000])
def test_unretrieved_items_of_long_queries(n_items):
    """Whatever sorts the query."""
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 2, n_items), rng.permutation(n_items).astype(float)
    missed = rng.random(n_items) < 0.5
    ranked = y[~missed][np.argsort(-scores[~missed])]
    scores[missed] = -np.inf
    hits, ranks = np.cumsum(ranked), np.arange(1, ranked.size + 1)
    assert average_precision(y, scores) == pytest.approx((ranked * hits / ranks).sum() / y.sum())
    discounts = 1 / np.log2(np.arange(2, n_items + 2))
    expected = ranked @ discounts[: ranked.size] / discounts[: y.sum()].sum()
    assert ndcg(y, scores, k=None) == pytest.approx(expected)


# --- Conventions ---------------------------------------------------------------------------------

# Query a: grades by score 0, 2, 1; b: two items, neither relevant; c: one relevant item.
LETOR_Y = [0, 2, 1, 0, 0, 1]
LETOR_SCORES = [3, 2, 1, 2, 1, 0]
LETOR_QID = ["a", "a", "a", "b", "b", "c"]


def letor(metric, **options):
    return metric(LETOR_Y, LETOR_SCORES, LETOR_QID, conventions="letor", per_query=True, **options)


def test_letor_by_hand():
    log3 = math.log2(3)
    # Discounts 1, 1, 1 / log2(3); the gains of a are 0, 3, 1 and ideally 3, 1, 0.
    at_2, at_3 = 3 / 4, (3 + 1 / log3) / 4
    np.testing.assert_allclose(letor(ndcg, k=1), [0.0, 0.0, 1.0])
    np.testing.assert_allclose(letor(ndcg, k=2), [at_2, 0.0, 0.0])  # c has fewer than two items
    np.testing.assert_allclose(letor(ndcg, k=3), [at_3, 0.0, 0.0])
    np.testing.assert_allclose(letor(ndcg, k=4), [0.0, 0.0, 0.0])
    np.testing.assert_allclose(letor(mean_ndcg), [(0.0 + at_2 + at_3) / 3, 0.0, 1.0])
    np.testing.assert_allclose(letor(average_precision), [(1 / 2 + 2 / 3) / 2, 0.0, 1.0])
    np.testing.assert_allclose(letor(precision_at, k=2), [1 / 2, 0.0, 1 / 2])
    np.testing.assert_allclose(letor(recall_at, k=2), [1 / 2, 0.0, 1.0])
    np.testing.assert_allclose(letor(reciprocal_rank), [1 / 2, 0.0, 1.0])
    np.testing.assert_allclose(
        letor(expected_reciprocal_rank), [0.75 / 2 + 0.25 * 0.25 / 3, 0.0, 0.25]
    )


@pytest.mark.parametrize("metric", WITH_CONVENTIONS)
def test_letor_counts_all_queries(metric):
    columns = LETOR_Y, LETOR_SCORES, LETOR_QID
    by_query = metric(*columns, conventions="letor", per_query=True)
    assert metric(*columns, conventions="letor") == pytest.approx(by_query.mean())
    standard = metric(*columns, per_query=True)
    assert np.isnan(standard).tolist() == [False, True, False]
    assert metric(*columns) == pytest.approx(np.nanmean(standard))


def test_what_is_given_wins_over_the_conventions():
    assert np.isnan(letor(ndcg, k=2, empty="skip")[1])
    assert letor(ndcg, k=2, short="as_is")[2] == 1.0
    standard = ndcg(LETOR_Y, LETOR_SCORES, LETOR_QID, k=3, per_query=True)
    assert letor(ndcg, k=3, discount="log2")[0] == standard[0]
    assert letor(average_precision, relevant_above=1)[0] == 0.5


@pytest.mark.parametrize("metric", WITH_CONVENTIONS)
def test_unknown_conventions(metric):
    with pytest.raises(ValueError, match=r"conventions must be one of .*; got 'trec'"):
        metric([1, 0], [1, 0], conventions="trec")


# --- What all metrics share ----------------------------------------------------------------------


@pytest.mark.parametrize("metric", ALL)
def test_queries_come_in_order_of_first_appearance(metric):
    # z ranks its items perfectly, a the other way round.
    value = metric([1, 0, 0, 1], [1, 1, 0, 0], ["z", "a", "z", "a"], per_query=True)
    assert value.shape == (2,)
    alone = [metric([1, 0], [1, 0]), metric([0, 1], [1, 0])]
    if metric is expected_reciprocal_rank:
        assert alone == [0.5, 0.25]
    assert value.tolist() == alone


@pytest.mark.parametrize("metric", ALL)
def test_scores_matter_by_their_order_alone(metric):
    _, y, qid, _ = make_ranking(12, (1, 30), 3, n_levels=4, shuffle=True, random_state=1)
    scores = np.random.default_rng(1).integers(-9, 9, y.shape[0])
    value = metric(y, scores, qid)
    assert metric(y, np.exp(scores * 50.0), qid) == value
    assert metric(y, scores.astype(np.float32), qid) == value
    assert metric(y, 2**62 + scores, qid) == value  # float64 would make all of them equal
    assert metric(y, scores.astype(object) + 2**80, qid) == value


@pytest.mark.parametrize("metric", ALL)
def test_arguments_are_not_changed(metric):
    y, scores, qid = np.array([0.0, 2, 1, 0]), np.array([1.0, 1, 2, 3]), np.array([1, 0, 1, 0])
    for array in (y, scores, qid):
        array.setflags(write=False)
    by_query = metric(y, scores, qid, per_query=True)
    by_query[:] = -1.0
    assert metric(y, scores, qid) >= 0.0 or metric is kendall_tau


@pytest.mark.parametrize("metric", [pairwise_accuracy, kendall_tau])
@pytest.mark.parametrize(
    "huge",
    [2**53, 2**62, -(2**62), 2**64 - 3, 2**80, 2**2000],
    ids=["2^53", "2^62", "-2^62", "2^64", "2^80", "2^2000"],
)
def test_huge_integers_are_told_apart(metric, huge):
    y = [huge, huge + 1, huge + 2]
    assert metric(y, [1, 2, 3]) == 1.0
    assert metric(y, [1, 3, 2]) == metric([0, 1, 2], [1, 3, 2])
    if metric is pairwise_accuracy:
        assert metric(y, [1, 3, 2], sample_weight=[1, 1, 1]) == pytest.approx(2 / 3)


def test_values_beyond_float64_are_refused_where_they_count():
    for metric in (ndcg, average_precision, auc, expected_reciprocal_rank):
        with pytest.raises(ValueError, match="y holds a number that is too large for float64"):
            metric([2**2000, 0], [1, 0])


def test_tied_scores_do_not_take_a_query_out_of_kendall_tau():
    assert kendall_tau([1, 0, 1, 0], [5, 5, 2, 1], [0, 0, 1, 1]) == 0.5
    assert kendall_tau([1, 0], [5, 5]) == 0.0


def test_expected_reciprocal_rank_stays_finite_for_huge_grades():
    # The first item stops half of the readers, the second nearly all of the rest.
    value = expected_reciprocal_rank([5000, 4999], [0, 1])
    assert value == pytest.approx(0.5 + 0.5 / 2)
    # Next to grade 5000 a grade of 3 is nothing, but its query is not empty.
    values = expected_reciprocal_rank([5000, 3], [0, 0], ["a", "b"], per_query=True)
    assert values.tolist() == [1.0, 0.0]


def test_max_grade_must_cover_the_grades():
    with pytest.raises(ValueError, match=r"max_grade must be at least .* got 2.0, but y is 3.0 in"):
        expected_reciprocal_rank([0, 3], [1, 0], max_grade=2)


def test_levels_that_are_missing_from_y():
    y, scores = [0, 1, 1, 0], [4, 3, 2, 1]
    assert median_level_average_precision(y, scores) == pytest.approx((1 / 2 + 2 / 3) / 2)
    # Of the levels 0, 1, 2, 3, 4 the median is 2: nothing here is relevant.
    assert median_level_average_precision(y, scores, levels=range(5)) == 0.0
    with pytest.raises(ValueError, match="levels must hold at least one label"):
        median_level_average_precision(y, scores, levels=[])


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        (precision_at, {"k": None}, "precision_at needs a number k"),
        (precision_at, {"k": True}, "k must be a positive integer"),
        (recall_at, {"k": 0}, "k must be a positive integer"),
        (average_precision, {"relevant_above": "0"}, "relevant_above must be a finite number"),
        (auc, {"relevant_above": np.nan}, "relevant_above must be a finite number; got nan"),
        (expected_reciprocal_rank, {"max_grade": np.inf}, "max_grade must be a finite number"),
        (ndcg, {"discount": "none"}, "discount must be one of 'log2', 'letor'"),
        (ndcg, {"ties": "worst"}, "ties must be one of 'row_order', 'average'"),
        (ndcg, {"short": "skip"}, "short must be one of 'as_is', 'zero'"),
        (kendall_tau, {"empty": "nan"}, "empty must be one of"),
    ],
)
def test_bad_options(metric, options, message):
    with pytest.raises(ValueError, match=message):
        metric([1, 0], [1, 0], **options)


@pytest.mark.parametrize("metric", [mean_ndcg, expected_reciprocal_rank])
def test_gains_refuse_negative_labels(metric):
    with pytest.raises(ValueError, match=r"needs labels >= 0; got -1.0 in row 1. Shift"):
        metric([1, -1], [1, 0])


@pytest.mark.parametrize("metric", ALL)
def test_cutoffs_beyond_any_query(metric):
    if metric in (mean_ndcg, pairwise_accuracy, kendall_tau, auc, precision_at):
        return
    y, scores = [2, 0, 1], [1, 2, 3]
    assert metric(y, scores, k=10**30) == metric(y, scores, k=3) == metric(y, scores, k=None)


@pytest.mark.parametrize("metric", ALL)
def test_a_long_query_and_many_short_ones(metric):
    """Sizes at which the native code sorts, counts and shares its work differently."""
    rng = np.random.default_rng(2)
    sizes = np.concatenate([[70_000, 513, 512, 511], rng.integers(1, 40, 2_000)])
    qid = np.repeat(np.arange(sizes.shape[0]), sizes)
    y = rng.integers(0, 4, qid.shape[0])
    scores = rng.integers(0, 2_000, qid.shape[0])
    whole = metric(y, scores, qid, per_query=True)
    ends = np.cumsum(sizes)
    extra = {"max_grade": 3} if metric is expected_reciprocal_rank else {}
    if metric is median_level_average_precision:
        extra = {"levels": [0, 1, 2, 3]}
    for q in (0, 1, 2, 3, 4, 999, 2_003):
        rows = slice(ends[q] - sizes[q], ends[q])
        alone = metric(y[rows], scores[rows], per_query=True, **extra)
        np.testing.assert_array_equal(whole[q], alone[0])
