"""Comparisons of rankings: tests against SciPy and full enumeration, degenerate cases."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ranksvm._text import format_table
from ranksvm.datasets import make_ranking
from ranksvm.metrics import compare, evaluate, evaluate_queries
from ranksvm.metrics.significance import holm, randomization_test, t_test


@pytest.fixture(scope="module")
def data():
    """Three rankings, the later the better; some queries without a relevant item."""
    _, y, qid, _ = make_ranking(120, (1, 20), 3, n_levels=3, shuffle=True, random_state=0)
    y = np.maximum(y - 1, 0)
    noise = np.random.default_rng(0).standard_normal((3, y.shape[0]))
    return y, {f"noise {s}": y + s * noise[i] for i, s in enumerate((2, 1, 0.5))}, qid


def test_rows_agree_with_evaluate_and_scipy(data):
    y, scores, qid = data
    names = ["ndcg@5", "map"]
    found = compare(y, scores, qid, metrics=names, n_permutations=2000)
    pairs = [("noise 2", "noise 1"), ("noise 2", "noise 0.5"), ("noise 1", "noise 0.5")]
    expected = [(name, second, first) for name in names for first, second in pairs]
    assert [(row.metric, row.ranking, row.baseline) for row in found.rows] == expected
    tables = {name: evaluate_queries(y, values, qid, names) for name, values in scores.items()}
    for row in found.rows:
        a, b = (tables[name].columns[row.metric] for name in (row.ranking, row.baseline))
        np.testing.assert_array_equal(found.differences(row), a - b)
        counted = ~np.isnan(a)
        assert 0 < counted.sum() < len(a)
        a, b = a[counted], b[counted]
        assert row.mean == evaluate(y, scores[row.ranking], qid, row.metric)[row.metric]
        assert row.difference == pytest.approx(row.mean - row.baseline_mean)
        assert (row.wins, row.losses) == ((a > b).sum(), (a < b).sum())
        assert row.wins + row.losses + row.ties == counted.sum()
        peer = stats.ttest_rel(a, b)
        assert row.t_test == pytest.approx(peer.pvalue)
        assert (row.low, row.high) == pytest.approx(tuple(peer.confidence_interval(0.95)))
        assert row.randomization == pytest.approx(row.t_test, abs=0.05)
    np.testing.assert_array_equal(found.ids, tables["noise 1"].ids)


def test_a_baseline_is_compared_with_all_others(data):
    y, scores, qid = data
    rows = compare(y, scores, qid, baseline="noise 1").rows
    found = [(row.ranking, row.baseline, row.difference > 0.0) for row in rows]
    assert found == [("noise 2", "noise 1", False), ("noise 0.5", "noise 1", True)]
    assert rows[0].metric == "ndcg@10"


def test_rankings_without_names(data):
    y, scores, qid = data
    (row,) = compare(y, list(scores.values())[:2], qid).rows
    assert (row.ranking, row.baseline) == ("ranking 2", "ranking 1")


def test_conventions_decide_which_queries_count(data):
    y, scores, qid = data
    standard, letor = (
        compare(y, scores, qid, conventions=conventions).rows[0]
        for conventions in ("standard", "letor")
    )
    assert letor.wins + letor.losses + letor.ties == 120 > standard.wins + standard.losses
    assert letor.ties > standard.ties


def test_the_seed_decides(data):
    y, scores, qid = data

    def p_values(seed):
        return [row.randomization for row in compare(y, scores, qid, random_state=seed).rows]

    assert p_values(1) == p_values(1)
    assert p_values(1) != p_values(2)


def test_the_same_ranking_twice(data):
    y, scores, qid = data
    values = scores["noise 1"]
    (row,) = compare(y, {"a": values, "b": 2 * values}, qid).rows
    assert (row.t_test, row.t_test_holm, row.randomization, row.randomization_holm) == (1, 1, 1, 1)
    assert (row.difference, row.low, row.high, row.wins, row.losses) == (0, 0, 0, 0, 0)
    assert "same in every query" in row.note


def test_a_single_query_has_no_t_test():
    found = compare([1, 0, 0], {"bad": [0, 1, 2], "good": [2, 1, 0]}, metrics=["map", "auc"])
    for row in found.rows:
        assert np.isnan([row.t_test, row.t_test_holm, row.low, row.high]).all()
        assert row.note == "a t-test needs at least two queries"
        assert row.randomization == 1.0  # of one sign, both choices are as extreme
    assert "a t-test needs at least two queries" in str(found)


def test_equal_differences_have_no_spread():
    y, qid = [1, 0] * 5, np.repeat(range(5), 2)
    found = compare(y, [[0, 1] * 5, [1, 0] * 5], qid, metrics="auc")
    (row,) = found.rows
    assert (row.difference, row.t_test) == (1.0, 0.0)
    assert str(found).splitlines()[2].split()[-4:] == ["<0.0001", "<0.0001", "0.0625", "0.0625"]
    assert f"auc, ranking 2 - ranking 1: {row.note}" in str(found)
    assert row.randomization == 2 / 2**5
    assert (row.low, row.high) == (1.0, 1.0)
    assert "same in every query: without any spread" in row.note


def test_differences_that_are_equal_but_for_rounding():
    d = 0.1 + np.array([0.0, 1.0, -1.0]) * 2**-56
    assert len(set(d)) > 1
    assert t_test(d) == t_test(np.full(3, d.mean()))
    assert "spread" in t_test(d).note


def test_it_prints_a_table(data):
    y, scores, qid = data
    text = str(compare(y, scores, qid, metrics=["ndcg@5", "map"]))
    lines = text.splitlines()
    assert lines[0].split()[:3] == ["metric", "ranking", "baseline"]
    assert len({len(line) for line in lines[:8]}) == 1
    assert lines[2].startswith("ndcg@5  noise 1")
    counted = np.unique(qid[y > 0]).size
    assert f"120 queries, of which {counted} count for ndcg@5, map." in text


def test_columns_of_tables_are_aligned():
    found = format_table(["name", "n"], [["a", "1"], ["bcdef", "10,000"]], [False, True])
    assert found.split("\n") == ["name        n", "-----  ------", "a           1", "bcdef  10,000"]
    assert format_table(["n", "name"], [], [True, False]) == "n  name\n-  ----"
    found = format_table(["x", "name"], [["1", "a"]], [True, False])
    assert found == "x  name\n-  ----\n1  a"  # no spaces at the ends of lines


def test_the_queries_that_count_are_shown_by_metric(data):
    y, scores, qid = data
    relevant = np.unique(qid[y > 0]).size
    assert 0 < relevant < 120
    found = compare(y, scores, qid, metrics=["map", "reciprocal_true_rank@1", "mrr"])
    assert found.n_counted == {"map": relevant, "reciprocal_true_rank@1": 120, "mrr": relevant}
    expected = f"{relevant} count for map, mrr; 120 count for reciprocal_true_rank@1."
    assert f"120 queries, of which {expected}" in str(found)
    assert "\n120 queries.\n" in str(compare(y, scores, qid, conventions="letor"))


def test_rankings_of_different_items():
    y, qid = [1, 0, 1, 0], [0, 0, 1, 1]
    scores = {"all": [1, 0, 1, 0], "half": [-np.inf, 1, 1, 0]}
    (row,) = compare(y, scores, qid, metrics="map").rows
    assert (row.mean, row.baseline_mean) == (0.5, 1.0)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(data, backend):
    y, scores, qid = data
    found = compare(y, scores, qid)
    frame = found.to_frame(backend)
    column = frame.column("t_test").to_pylist() if backend == "pyarrow" else frame["t_test"]
    assert list(column) == [row.t_test for row in found.rows]


def test_plain_data(data):
    y, scores, qid = data
    content = json.loads(json.dumps(compare(y, scores, qid).to_dict()))
    assert content["n_queries"] == 120
    assert content["n_counted"] == {"ndcg@10": np.unique(qid[y > 0]).size}
    assert content["rows"][0]["ranking"] == "noise 1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": {"a": [1, 0]}}, "at least two rankings; got 1"),
        ({"scores": {1: [1, 0], "1": [0, 1]}}, "two rankings have the same name"),
        ({"scores": {"a": [1, 0], "b": [1, 0, 2]}}, "scores of 'b' must have one value per item"),
        ({"scores": {"a": [1, np.nan], "b": [1, 0]}}, "scores of 'a' must be finite"),
        ({"scores": {"a": [1, 0], "b": [1, np.inf]}}, "scores of 'b' must be finite"),
        ({"baseline": "c"}, "baseline must be one of 'a', 'b'; got 'c'"),
        ({"metrics": "ndgc"}, "unknown metric"),
        ({"metrics": []}, "at least one metric"),
        ({"conventions": "trec"}, "conventions must be one of"),
        ({"n_permutations": 0}, "n_permutations must be a positive integer; got 0"),
        ({"random_state": None}, "random_state must be a non-negative integer; got None"),
        ({"y": [0, 0]}, "no query has"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"y": [1, 0], "scores": {"a": [1, 0], "b": [0, 1]}, **change}
    with pytest.raises(ValueError, match=message):
        compare(**arguments)


# --- The tests themselves ------------------------------------------------------------------------

DIFFERENCES = st.lists(st.integers(-3, 3).map(lambda x: x / 10), min_size=1, max_size=9)


@given(DIFFERENCES)
def test_randomization_looks_at_all_signs(d):
    sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in
            product((-1, 1), repeat=len(d))]  # fmt: skip
    expected = np.mean([s >= abs(sum(d)) - 1e-9 for s in sums])
    assert randomization_test(np.array(d), 10, 0) == pytest.approx(expected)


def test_randomization_by_sampling_comes_near_the_truth():
    d = np.random.default_rng(0).standard_normal(17) + 0.5  # one more than are enumerated
    signs = (np.arange(2**17)[:, None] >> np.arange(17) & 1) * 2 - 1
    exact = np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-12)
    estimate = randomization_test(d, 50_000, 0)
    assert estimate == pytest.approx(exact, abs=4 * np.sqrt(exact / 50_000))
    assert randomization_test(d, 50_000, 0) == estimate


def test_randomization_is_never_zero_and_needs_little_memory():
    d = np.ones(3_000_000)
    assert randomization_test(d, 3, 0) == 1 / 4


@given(st.lists(st.floats(-1, 1).filter(lambda x: abs(x) > 1e-6), min_size=3, max_size=20))
def test_t_test_equals_scipy(d):
    if max(d) - min(d) < 1e-6:
        return
    expected = stats.ttest_1samp(d, 0.0)
    found = t_test(np.array(d))
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9, abs=1e-300)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_by_its_definition(p):
    ordered = sorted(p)
    found = holm(p)
    for value, adjusted in zip(p, found, strict=True):
        i = ordered.index(value)
        i = max(j for j, other in enumerate(ordered) if other == value)
        steps = [(len(p) - j) * ordered[j] for j in range(i + 1)]
        assert adjusted == pytest.approx(min(1.0, max(steps)))


def test_holm_leaves_out_what_is_not_there():
    np.testing.assert_array_equal(holm([0.03, np.nan, 0.02]), [0.04, np.nan, 0.04])
