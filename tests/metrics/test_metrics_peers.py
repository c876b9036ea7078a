"""Metrics against other people's programs: trec_eval, scikit-learn, SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from ranksvm.datasets import make_ranking
from ranksvm.metrics import (
    auc,
    average_precision,
    evaluate_queries,
    kendall_tau,
    mean_ndcg,
    ndcg,
    precision_at,
    recall_at,
    reciprocal_rank,
)

CUTOFFS = (1, 5, 10, 30)


@pytest.fixture(scope="module")
def data():
    """60 queries of 1 to 40 items, five grades, rows in any order, a third of the grades zero."""
    _, y, qid, _ = make_ranking(60, (1, 40), 3, n_levels=5, shuffle=True, random_state=0)
    y = np.maximum(y - 1, 0).astype(np.int64)
    scores = np.random.default_rng(0).permutation(y.shape[0]).astype(float)  # no ties
    return y, scores, np.asarray(qid)


def by_query(data):
    y, scores, qid = data
    for q in dict.fromkeys(qid.tolist()):
        yield y[qid == q], scores[qid == q]


@pytest.fixture(scope="module")
def trec(data):
    """Values of trec_eval by measure and query; only queries with a relevant item count there."""
    y, scores, qid = data
    qrels: dict = {}
    run: dict = {}
    for row, (grade, score, q) in enumerate(zip(y.tolist(), scores, qid.tolist(), strict=True)):
        qrels.setdefault(str(q), {})[f"d{row}"] = grade
        run.setdefault(str(q), {})[f"d{row}"] = float(score)
    cut, cutoffs = ("map_cut", "P", "recall", "ndcg_cut"), ",".join(map(str, CUTOFFS))
    found = pytrec_eval.RelevanceEvaluator(
        qrels, {"map", "recip_rank", "ndcg", *(f"{name}.{cutoffs}" for name in cut)}
    ).evaluate(run)
    has_relevant = {q for q, grades in qrels.items() if any(grades.values())}
    assert 0 < len(has_relevant) < len(qrels)
    order = list(dict.fromkeys(map(str, qid.tolist())))

    def values(measure):
        return [found[q][measure] if q in has_relevant else np.nan for q in order]

    return values


def same(values, expected):
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)


def test_trec_eval(data, trec):
    same(average_precision(*data, per_query=True), trec("map"))
    same(reciprocal_rank(*data, per_query=True), trec("recip_rank"))
    same(ndcg(*data, k=None, gain="linear", per_query=True), trec("ndcg"))
    for k in CUTOFFS:
        same(precision_at(*data, k=k, per_query=True), trec(f"P_{k}"))
        same(recall_at(*data, k=k, per_query=True), trec(f"recall_{k}"))
        same(average_precision(*data, k=k, per_query=True), trec(f"map_cut_{k}"))
        same(ndcg(*data, k=k, gain="linear", per_query=True), trec(f"ndcg_cut_{k}"))


def test_trec_eval_by_name(data, trec):
    names = {
        "map": "map",
        "mrr": "recip_rank",
        "p@5": "P_5",
        "recall@5": "recall_5",
        "map@10": "map_cut_10",
        "ndcg_linear": "ndcg",
        "ndcg_linear@10": "ndcg_cut_10",
    }
    table = evaluate_queries(*data, metrics=list(names))
    for ours, theirs in names.items():
        same(table.columns[ours], trec(theirs))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [1, 3, 10, None])
def test_ndcg_of_scikit_learn(data, k, ties):
    y, scores, qid = data
    scores = scores // 100 if ties else scores  # scikit-learn takes the mean over tied items
    expected = [
        ndcg_score(grades[None], found[None], k=k) if grades.any() and grades.size > 1 else np.nan
        for grades, found in by_query((y, scores, qid))
    ]
    values = ndcg(y, scores, qid, k=k, gain="linear", ties="average", per_query=True)
    values[[grades.size == 1 for grades, _ in by_query(data)]] = np.nan  # it refuses single items
    same(values, expected)


def test_mean_ndcg_is_the_mean_of_scikit_learns_ndcg(data):
    values = mean_ndcg(*data, gain="linear", per_query=True)
    for value, (grades, found) in zip(values, by_query(data), strict=True):
        if grades.any() and grades.size > 1:
            every = [ndcg_score(grades[None], found[None], k=k) for k in range(1, grades.size + 1)]
            assert value == pytest.approx(np.mean(every))


def test_average_precision_of_scikit_learn(data):
    expected = [
        average_precision_score(grades > 1, found) if (grades > 1).any() else np.nan
        for grades, found in by_query(data)
    ]
    same(average_precision(*data, relevant_above=1, per_query=True), expected)


@pytest.mark.parametrize("ties", [False, True])
def test_auc_of_scikit_learn(data, ties):
    y, scores, qid = data
    scores = scores // 300 if ties else scores
    expected = [
        roc_auc_score(grades > 0, found) if len(set((grades > 0).tolist())) == 2 else np.nan
        for grades, found in by_query((y, scores, qid))
    ]
    same(auc(y, scores, qid, per_query=True), expected)


@pytest.mark.parametrize("step", [1, 20, 300])
def test_kendall_tau_of_scipy(data, step):
    y, scores, qid = data
    scores = scores // step
    expected = []
    for grades, found in by_query((y, scores, qid)):
        if len(set(grades.tolist())) == 1:
            expected.append(np.nan)
        elif len(set(found.tolist())) == 1:
            expected.append(0.0)  # where SciPy has NaN
        else:
            expected.append(kendalltau(grades, found).statistic)
    same(kendall_tau(y, scores, qid, per_query=True), expected)


def test_kendall_tau_of_scipy_on_a_long_ranking():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 1_000, 200_000)
    scores = np.round(y + rng.standard_normal(y.shape[0]) * 300)
    assert kendall_tau(y, scores) == pytest.approx(kendalltau(y, scores).statistic, rel=1e-12)
