"""Checks of splits, against the metric of every held-out part by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm.data.ranking_data import RankingData
from ranksvm.metrics import evaluate
from ranksvm.model_selection.judges import judge_named
from ranksvm.model_selection.splits import _in_both, make_splits

METRICS = ["ndcg@3", "map", "pairwise_accuracy", "auc", "kendall_tau", "median_level_map", "err"]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=4, max_size=20),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.sampled_from(METRICS),
    st.sampled_from(["standard", "letor"]),
    st.booleans(),
)
def test_a_metric_is_undefined_where_it_cannot_be_computed(
    items, is_held_out, metric, conventions, with_queries
):
    y, qid = (np.array(column) for column in zip(*items, strict=True))
    data = RankingData(np.zeros((len(y), 1)), y.astype(float), qid if with_queries else None)
    # Some queries have items in the held-out part and others in neither part.
    test = np.flatnonzero(np.array(is_held_out[: len(y)]))
    train = np.flatnonzero(~np.isin(qid, qid[test]) if with_queries else ~np.isin(qid, [-1]))
    train = np.setdiff1d(train, test)
    everything = np.arange(len(y))
    if not test.size or not train.size:
        return

    def value(rows):
        ids = qid[rows] if with_queries else None
        return evaluate(y[rows], y[rows], ids, metric, conventions=conventions)

    try:
        value(everything)
    except ValueError:
        with pytest.raises(ValueError, match="not defined"):
            make_splits(data, [(train, test)], None, judge_named(metric, conventions))
        return
    try:
        value(test)
    except ValueError:
        with pytest.raises(ValueError, match="no split to compute"):
            make_splits(data, [(train, test)], None, judge_named(metric, conventions))
        return
    (split,) = make_splits(data, [(train, test)], None, judge_named(metric, conventions))
    assert split.undefined is None


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_numbers_in_both_arrays(one, other):
    found = _in_both(np.array(one, dtype=np.int64), np.array(other, dtype=np.int64), 10)
    assert found.tolist() == sorted(set(one) & set(other))
