"""Metrics by name, several at once, by query; what a fast start must not import."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from ranksvm import metrics
from ranksvm.datasets import make_ranking
from ranksvm.metrics import (
    DEFAULT_METRICS,
    Metric,
    evaluate,
    evaluate_queries,
    metric_names,
    parse_metric,
)
from ranksvm.metrics.registry import METRICS

# Every name, and the function that it stands for.
FUNCTIONS = {
    "ndcg@3": lambda *a, **o: metrics.ndcg(*a, k=3, **o),
    "ndcg": lambda *a, **o: metrics.ndcg(*a, k=None, **o),
    "mean_ndcg": metrics.mean_ndcg,
    "ndcg_linear@3": lambda *a, **o: metrics.ndcg(*a, k=3, gain="linear", **o),
    "ndcg_linear": lambda *a, **o: metrics.ndcg(*a, k=None, gain="linear", **o),
    "mean_ndcg_linear": lambda *a, **o: metrics.mean_ndcg(*a, gain="linear", **o),
    "map": metrics.average_precision,
    "map@2": lambda *a, **o: metrics.average_precision(*a, k=2, **o),
    "p@4": lambda *a, **o: metrics.precision_at(*a, k=4, **o),
    "recall": lambda *a, **o: metrics.recall_at(*a, k=None, **o),
    "recall@3": lambda *a, **o: metrics.recall_at(*a, k=3, **o),
    "mrr": metrics.reciprocal_rank,
    "mrr@2": lambda *a, **o: metrics.reciprocal_rank(*a, k=2, **o),
    "err": metrics.expected_reciprocal_rank,
    "err@2": lambda *a, **o: metrics.expected_reciprocal_rank(*a, k=2, **o),
}
WITHOUT_CONVENTIONS = {
    "pairwise_accuracy": metrics.pairwise_accuracy,
    "kendall_tau": metrics.kendall_tau,
    "auc": metrics.auc,
    "median_level_map": metrics.median_level_average_precision,
    "reciprocal_true_rank": lambda *a, **o: metrics.reciprocal_true_rank(*a, k=None, **o),
    "reciprocal_true_rank@2": lambda *a, **o: metrics.reciprocal_true_rank(*a, k=2, **o),
}


@pytest.fixture(scope="module")
def data():
    _, y, qid, _ = make_ranking(25, (1, 12), 3, n_levels=4, shuffle=True, random_state=0)
    y = np.maximum(y - 1, 0)
    scores = np.random.default_rng(0).integers(0, 20, y.shape[0])
    return y, scores, np.array([f"q{q}" for q in qid])


def test_all_metrics_have_a_function_here():
    assert {parse_metric(name).base for name in (*FUNCTIONS, *WITHOUT_CONVENTIONS)} == set(METRICS)


@pytest.mark.parametrize("conventions", ["standard", "letor"])
def test_names_stand_for_functions(data, conventions):
    names = [*FUNCTIONS, *WITHOUT_CONVENTIONS]
    found = evaluate(*data, names, conventions=conventions)
    table = evaluate_queries(*data, names, conventions=conventions)
    assert list(found) == list(table.columns) == names
    assert found == table.means()
    for name in names:
        function = FUNCTIONS.get(name) or WITHOUT_CONVENTIONS[name]
        options = {"conventions": conventions} if name in FUNCTIONS else {}
        assert found[name] == function(*data, **options)
        by_query = function(*data, per_query=True, **options)
        np.testing.assert_array_equal(table.columns[name], by_query)
        assert found[name] == pytest.approx(np.nanmean(by_query))
        assert parse_metric(name)(*data, conventions=conventions) == found[name]
        assert evaluate(*data, name, conventions=conventions) == {name: found[name]}


def test_the_default_metrics(data):
    assert list(evaluate(*data)) == list(DEFAULT_METRICS)
    assert list(evaluate([-1.5, 2.5], [1, 2])) == ["pairwise_accuracy", "kendall_tau"]
    assert evaluate(data[0], data[1])["map"] == metrics.average_precision(data[0], data[1])


def test_the_frame_has_one_row_per_query(data):
    frame = evaluate(*data, ["map", "p@2"], per_query=True)
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.name == "qid"
    assert frame.index.tolist() == list(dict.fromkeys(data[2].tolist()))
    assert list(frame.columns) == ["map", "p@2"]
    assert frame["map"].mean() == pytest.approx(evaluate(*data, "map")["map"])


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_tables_become_frames_of_any_library(data, backend):
    table = evaluate_queries(*data, ["map", "err"])
    frame = table.to_frame(backend)
    if backend == "pandas":
        frame = frame.reset_index()
    assert type(frame).__module__.startswith(backend)
    columns = frame.to_pydict() if backend == "pyarrow" else frame
    assert list(columns["qid"]) == table.ids.tolist()
    np.testing.assert_array_equal(columns["err"], table.columns["err"])


def test_rows_are_plain(data):
    table = evaluate_queries(*data, ["map", "p@1"], conventions="letor")
    rows = list(table.rows())
    assert len(rows) == len(table) == 25
    assert table.sizes.sum() == data[0].shape[0]
    assert rows == json.loads(json.dumps(rows))
    assert set(rows[0]) == {"qid", "map", "p@1"}


def test_a_missing_library_is_named(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas.*pip install pandas.*evaluate_queries"):
        evaluate(*data, "map", per_query=True)
    assert len(evaluate_queries(*data, "map")) == 25


def test_a_metric_is_a_value():
    metric = parse_metric("ndcg@10")
    assert metric == Metric("ndcg", 10) == parse_metric(metric)
    assert (metric.name, str(metric)) == ("ndcg@10", "ndcg@10")
    assert pickle.loads(pickle.dumps(metric)) == metric
    assert len({metric, parse_metric("ndcg@10"), parse_metric("ndcg")}) == 2
    assert parse_metric("ndcg").name == "ndcg"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ndgc@10", r"unknown metric 'ndgc@10'. Did you mean 'ndcg@10'\? Valid: ndcg\[@k\], .*p@k"),
        ("NDCG@5", r"Did you mean 'ndcg@5'\?"),
        ("ndcg@05", r"Did you mean 'ndcg@5'\?"),
        ("mean-ndcg", r"Did you mean 'mean_ndcg'\?"),
        ("pairwise_acuracy@3", r"Did you mean 'pairwise_accuracy'\?"),
        ("ndcg@ten", r"Did you mean 'ndcg'\?"),
        ("sharpe", r"unknown metric 'sharpe'. Valid: "),
        ("", "unknown metric ''. Valid: "),
        ("p", "p needs a cutoff, for example p@10; got 'p'"),
        ("auc@5", "auc uses all ranks and has no cutoff; got 'auc@5'. Use auc"),
        ("map@0", "cutoff of a metric must be at least 1; got 'map@0'"),
        (10, "must be a string such as 'ndcg@10'; got 10"),
    ],
)
def test_bad_names(data, name, message):
    with pytest.raises(ValueError, match=message):
        parse_metric(name)
    with pytest.raises(ValueError, match=message):
        evaluate(*data, [name])


def test_bad_arguments(data):
    with pytest.raises(ValueError, match="at least one metric; got"):
        evaluate(*data, [])
    with pytest.raises(ValueError, match="conventions must be one of 'standard', 'letor'"):
        evaluate(*data, conventions="trec")
    with pytest.raises(ValueError, match=r"conventions must be one of"):
        evaluate(*data, "auc", conventions=None)
    with pytest.raises(ValueError, match=r"no query has .*Leave out 'ndcg@10'"):
        evaluate([0, 0], [1, 2], metrics="ndcg@10")


def test_names_are_listed_with_their_cutoffs():
    names = metric_names()
    assert {"ndcg[@k]", "p@k", "auc"} <= set(names)
    assert len(names) == len(METRICS)


def test_a_metric_named_twice_is_computed_once(data):
    assert list(evaluate(*data, ["map", "auc", "map"])) == ["map", "auc"]


def test_importing_metrics_is_light():
    """What the command line cannot wait for is not imported with the metrics."""
    code = """
import sys
from ranksvm.metrics import evaluate
evaluate([1, 0, 2], [1, 2, 3])
heavy = {"sklearn", "pandas", "polars", "pyarrow", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_of_the_package():
    assert set(metrics.__all__) <= set(dir(metrics))
    assert all(hasattr(metrics, name) for name in metrics.__all__)
    with pytest.raises(AttributeError, match="no attribute 'ndgc'"):
        _ = metrics.ndgc
