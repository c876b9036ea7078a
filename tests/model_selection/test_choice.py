"""The metric that a search maximizes if nobody has named one."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm import KernelRankSVMCV, LinearRankSVMCV
from ranksvm.data import save_letor
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.metrics import parse_metric
from ranksvm.model_selection.choice import choose_metric

GRADED = ("ndcg@10", "graded labels in queries")
NOT_GRADED = ("pairwise_accuracy", "labels that are not grades")


def items(y, qid=None):
    y = np.asarray(y)
    return RankingData(np.ones((len(y), 1)), y, qid)


def chosen(*arguments, **options):
    metric, default_for = choose_metric(*arguments, **options)
    return metric.name, default_for


@given(st.lists(st.integers(-1, 33), min_size=2, max_size=8), st.booleans())
def test_grades(y, as_integers):
    known = items(np.array(y, dtype=np.int64 if as_integers else np.float64), [1] * len(y))
    expected = GRADED if set(y) <= set(range(32)) and len(set(y)) > 1 else NOT_GRADED
    assert chosen("auto", known) == chosen(None, known) == expected


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0.5, 1.0], NOT_GRADED),
        ([0, 2**60], NOT_GRADED),
        ([1.0, 1.0], NOT_GRADED),
        (np.array([Decimal(0), Decimal(3)], dtype=object), GRADED),
        (np.array([Decimal("0.1"), Decimal(3)], dtype=object), NOT_GRADED),
        ([False, True], GRADED),
    ],
)
def test_labels_of_other_kinds(y, expected):
    assert chosen(None, items(y, ["a", "a"])) == expected


def test_without_queries():
    graded = items([0, 1, 2])
    assert chosen(None, graded) == ("pairwise_accuracy", "items without queries")


def test_a_validation_set_has_its_say():
    graded = items([0, 1], [1, 1])
    assert chosen(None, graded, items([0, 4], [1, 1])) == GRADED
    for labels in ([0, -1], [0.5, 1], [1, 1]):
        assert chosen(None, graded, items(labels, [1, 1])) == NOT_GRADED
        assert chosen(None, items(labels, [1, 1]), graded) == NOT_GRADED


def test_short_queries_under_the_conventions_of_letor():
    """Their NDCG@10 is 0 there, whatever the ranking."""
    short, long = items([0, 1] * 4, [1] * 8), items([0, 1] * 5, [1] * 10)
    assert chosen(None, short) == chosen(None, long, conventions="letor") == GRADED
    expected = ("pairwise_accuracy", "queries with fewer than 10 items")
    assert chosen(None, short, conventions="letor") == expected
    assert chosen(None, long, short, conventions="letor") == expected


def test_what_is_named_is_taken():
    real = items([0.5, -1.0])
    assert chosen("map", real) == ("map", "")
    assert chosen(parse_metric("recall@7"), real) == ("recall@7", "")
    with pytest.raises(ValueError, match="unknown metric 'ndgc'"):
        chosen("ndgc", real)
    with pytest.raises(ValueError, match="conventions must be one of"):
        chosen(None, real, conventions="trec")


@pytest.fixture(scope="module")
def sample():
    X, y, qid, _ = make_ranking(12, (4, 8), 3, random_state=0)
    return X, y, qid


@pytest.mark.filterwarnings("ignore:.*the best:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda **o: LinearRankSVMCV([1.0, 10.0], cv=2, **o),
        lambda **o: KernelRankSVMCV([1.0, 10.0], [0.5], cv=2, **o),
    ],
    ids=["linear", "kernel"],
)
def test_estimators(make, sample):
    X, y, qid = sample
    model = make().fit(X, y, qid)
    assert (model.metric, model.metric_) == ("auto", "ndcg@10")
    named = make(metric="ndcg@10").fit(X, y, qid)
    assert model.best_score_ == named.best_score_
    assert make(metric=None).fit(X, y, qid).metric_ == "ndcg@10"
    assert make().fit(X, y + 0.5, qid).metric_ == "pairwise_accuracy"
    assert make().fit(X, y).metric_ == "pairwise_accuracy"
    assert make().fit(X, y, qid, validation=(X, y, qid)).metric_ == "ndcg@10"
    assert make().fit(X, y, qid, validation=(X, y - 1.0, qid)).metric_ == "pairwise_accuracy"
    assert make(metric="recall@2").fit(X, y, qid).metric_ == "recall@2"
    assert model.fit(X, -y, qid).metric_ == "pairwise_accuracy"  # nothing is left of the first fit


@pytest.mark.filterwarnings("ignore:.*the best:UserWarning")
def test_files_in_shards(sample, tmp_path):
    X, y, qid = sample
    save_letor(tmp_path / "graded.txt", X, y, qid)
    save_letor(tmp_path / "real.txt", X, y / 4.0, qid)
    for train, valid, expected in (
        ("graded", None, "ndcg@10"),
        ("graded", "graded", "ndcg@10"),
        ("graded", "real", "pairwise_accuracy"),
        ("real", None, "pairwise_accuracy"),
    ):
        model = LinearRankSVMCV([1.0, 10.0], cv=2).fit_files(
            tmp_path / f"{train}.txt",
            memory_budget="100MB",
            validation=None if valid is None else tmp_path / f"{valid}.txt",
        )
        assert model.metric_ == expected
