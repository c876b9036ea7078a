"""Folds and held-out parts: no query is ever split, nothing is lost."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from ranksvm import LinearRankSVM
from ranksvm.datasets import make_ranking
from ranksvm.model_selection import QueryKFold, letor_folds, query_train_test_split
from ranksvm.model_selection.splitters import item_folds, take_rows

query_ids = st.lists(st.integers(0, 12), min_size=2, max_size=60)


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@given(query_ids, st.integers(2, 6), st.booleans(), st.booleans())
def test_folds_hold_whole_queries_and_cover_every_item_once(qid, n_splits, shuffle, strings):
    if len(set(qid)) < n_splits:
        return
    ids = np.array([f"q{q}" for q in qid]) if strings else np.array(qid)
    splitter = QueryKFold(n_splits, shuffle=shuffle, random_state=0 if shuffle else None)
    seen = []
    for train, test in splitter.split(np.zeros((len(qid), 1)), groups=ids):
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(qid)))
        assert not set(ids[train]) & set(ids[test])
        assert test.size
        assert train.size
        assert (np.diff(train) > 0).all()
        seen.append(test)
    assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(len(qid)))
    assert len(seen) == splitter.get_n_splits()


@given(query_ids, st.integers(2, 5))
def test_folds_are_as_even_as_the_largest_query_allows(qid, n_splits):
    if len(set(qid)) < n_splits:
        return
    sizes = [test.size for _, test in QueryKFold(n_splits).split(qid=qid)]
    assert max(sizes) - min(sizes) <= max(np.bincount(qid))


def test_shuffled_folds_depend_on_the_seed_alone():
    qid = np.repeat(np.arange(40), np.arange(1, 41))

    def folds(seed):
        return [
            test.tolist()
            for _, test in QueryKFold(4, shuffle=True, random_state=seed).split(qid=qid)
        ]

    assert folds(0) == folds(0) == folds(np.random.default_rng(0))
    assert folds(0) != folds(1)
    assert folds(np.random.RandomState(3)) == folds(np.random.RandomState(3))
    sizes = [len(test) for test in folds(0)]
    assert max(sizes) - min(sizes) <= 40


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QueryKFold(1), "n_splits must be at least 2; got 1"),
        (lambda: QueryKFold(2.5), "n_splits must be a positive integer"),
        (lambda: list(QueryKFold(3).split(qid=[1, 1, 2])), "cannot make 3 folds of 2 queries"),
        (lambda: list(QueryKFold(2).split(qid=[1, 1])), "cannot make 2 folds of 1 query "),
        (lambda: list(QueryKFold(2).split(np.zeros((3, 1)))), "needs the query of each item"),
        (lambda: list(QueryKFold(2).split(np.zeros((3, 1)), qid=[1, 2])), "2 ids for 3 rows"),
        (lambda: list(QueryKFold(2).split(groups=[1], qid=[1])), "two names for one thing"),
    ],
)
def test_bad_folds_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_splitter_is_copied_printed_and_pickled():
    splitter = QueryKFold(3, shuffle=True, random_state=4)
    assert repr(splitter) == "QueryKFold(n_splits=3, shuffle=True, random_state=4)"
    assert repr(QueryKFold()) == "QueryKFold(n_splits=5)"
    qid = np.arange(12)
    for other in (pickle.loads(pickle.dumps(splitter)), clone(splitter, safe=False)):
        for a, b in zip(splitter.split(qid=qid), other.split(qid=qid), strict=True):
            assert np.array_equal(a[1], b[1])


def test_grid_search_with_routing_needs_nothing_but_qid(routing):
    X, y, qid, _ = make_ranking(n_queries=20, random_state=0)
    qid = np.array([f"q{q}" for q in qid])
    search = GridSearchCV(LinearRankSVM(), {"C": [0.1, 10.0]}, cv=QueryKFold(3)).fit(X, y, qid=qid)
    for k, (train, test) in enumerate(QueryKFold(3).split(X, qid=qid)):
        for place, C in enumerate([0.1, 10.0]):
            model = LinearRankSVM(C).fit(X[train], y[train], qid[train])
            assert search.cv_results_[f"split{k}_test_score"][place] == model.score(
                X[test], y[test], qid[test]
            )


def test_cross_val_score_without_routing_takes_groups():
    X, y, qid, _ = make_ranking(n_queries=12, random_state=0)
    y = y + np.arange(len(y)) * 1e-9  # without qid there is one ranking in every fold
    found = cross_val_score(LinearRankSVM(), X, y, groups=qid, cv=QueryKFold(3))
    parts = QueryKFold(3).split(X, groups=qid)
    expected = [LinearRankSVM().fit(X[a], y[a]).score(X[b], y[b]) for a, b in parts]
    assert np.array_equal(found, expected)


def test_item_folds_spread_the_labels():
    utility = np.random.default_rng(0).permutation(np.repeat([0.0, 1.0], [30, 10]))
    folds = item_folds(utility, 5)
    assert np.array_equal(np.sort(np.concatenate([b for _, b in folds])), np.arange(40))
    for train, test in folds:
        assert utility[test].sum() == 2
        assert np.array_equal(np.union1d(train, test), np.arange(40))
    with pytest.raises(ValueError, match="cannot make 3 folds of 2 samples"):
        item_folds([1.0, 2.0], 3)


@given(query_ids, st.floats(0.05, 0.95), st.booleans())
def test_train_and_test_share_no_query(qid, test_size, shuffle):
    n_queries = len(set(qid))
    y = np.arange(len(qid))
    if not 1 <= np.ceil(round(test_size * n_queries, 9)) < n_queries:
        return
    y_train, y_test, train, test = query_train_test_split(
        y, qid=np.array(qid), test_size=test_size, shuffle=shuffle, random_state=1
    )
    assert not set(train) & set(test)
    assert np.array_equal(np.sort(np.concatenate([y_train, y_test])), y)
    assert np.array_equal(np.array(qid)[y_train], train)
    assert np.array_equal(np.array(qid)[y_test], test)
    assert len(set(test)) == np.ceil(round(test_size * n_queries, 9))


def test_split_keeps_types():
    qid = [3, 1, 3, 2, 1]
    dense = np.arange(10.0).reshape(5, 2)
    frame = pd.DataFrame(dense, columns=["a", "b"], index=list("vwxyz"))
    arrays = {
        "csr": sp.csr_array(dense),
        "coo": sp.coo_array(dense),
        "pandas": frame,
        "series": frame["a"],
        "polars": pl.DataFrame({"a": dense[:, 0], "b": dense[:, 1]}),
        "arrow": pa.table({"a": dense[:, 0], "b": dense[:, 1]}),
        "list": list(range(5)),
        "none": None,
    }
    parts = query_train_test_split(*arrays.values(), qid=qid, test_size=1, shuffle=False)
    train, test = dict(zip(arrays, parts[:-2:2], strict=True)), parts[1:-2:2]
    rows = [0, 1, 2, 4]  # query 2 appears last
    assert parts[-2:] == [[3, 1, 3, 1], [2]]
    assert np.array_equal(train["csr"].toarray(), dense[rows])
    assert np.array_equal(train["coo"].toarray(), dense[rows])
    pd.testing.assert_frame_equal(train["pandas"], frame.iloc[rows])
    pd.testing.assert_series_equal(train["series"], frame["a"].iloc[rows])
    assert train["polars"].equals(arrays["polars"][rows])
    assert train["arrow"].equals(arrays["arrow"].take(rows))
    assert train["list"] == rows
    assert train["none"] is None
    assert test[-2] == [3]
    assert take_rows((1, 2, 3), np.array([2, 0])) == (3, 1)


def test_split_by_a_column_of_the_frame():
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "query": ["a", "b", "b", "a"]})
    train, test = query_train_test_split(frame, qid="query", test_size=0.5, random_state=0)
    assert {*train["query"]} ^ {*test["query"]} == {"a", "b"}
    assert len(train) == len(test) == 2


@pytest.mark.parametrize("test_size", [0, 3, -1, 0.0, 1.0, 1.5, True, "a", None, np.nan])
def test_bad_test_sizes_are_refused(test_size):
    with pytest.raises(ValueError, match="test_size must be"):
        query_train_test_split([1, 2, 3], qid=[1, 2, 3], test_size=test_size)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="array 1 has 2 rows, but qid has 3 ids"):
        query_train_test_split([1, 2, 3], [1, 2], qid=[1, 2, 3])
    with pytest.raises(ValueError, match="at least one array"):
        query_train_test_split(qid=[1, 2, 3])


def test_letor_rotations():
    parts = np.array([2, 1, 3, 5, 4, 1])
    rows = {1: [1, 5], 2: [0], 3: [2], 4: [4], 5: [3]}
    table = [((1, 2, 3), 4, 5), ((2, 3, 4), 5, 1), ((3, 4, 5), 1, 2), ((4, 5, 1), 2, 3)]
    table.append(((5, 1, 2), 3, 4))
    for given_parts in (parts, parts.tolist(), [np.array(rows[k]) for k in range(1, 6)]):
        for fold, (train, validation, test) in zip(letor_folds(given_parts), table, strict=True):
            assert fold.train.tolist() == [row for k in train for row in rows[k]]
            assert fold.validation.tolist() == rows[validation]
            assert fold.test.tolist() == rows[test]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([1, 2, 3, 4, 4], "got 4 different part numbers"),
        ([[0], [1], [2]], "got 3 arrays"),
        ([[0], [1], [2], [3], [0]], "must not share rows"),
        ([[0], [1], [2], [3], [0.5]], "part 5 must be a one-dimensional array of row numbers"),
        (np.zeros((5, 5)), "one part number per item"),
    ],
)
def test_bad_letor_parts_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        list(letor_folds(parts))


def test_neither_splitters_nor_searches_import_scikit_learn_or_sqlite():
    code = (
        "import sys, ranksvm.model_selection.search, ranksvm.model_selection.splitters\n"
        "from ranksvm.model_selection import QueryKFold, fit_path, search\n"
        "assert callable(search), search\n"
        "next(QueryKFold(2).split(qid=[1, 2]))\n"
        "sys.exit('sklearn' in sys.modules or 'sqlite3' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
