"""RankingData: parts of it, its queries and what it says of itself."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ranksvm import LinearRankSVM
from ranksvm.data import Preferences, RankingData
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import Origin

LAYOUTS = {
    "dense": np.asarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
}


def whole(layout=np.asarray) -> RankingData:
    """Six items of three queries, with everything that a set can have."""
    return RankingData(
        layout(np.arange(12.0).reshape(6, 2)),
        np.array([2.0, 0.0, 1.0, 5.0, 3.0, 4.0]),
        np.array(["b", "a", "b", "c", "a", "c"]),
        labels=np.array([20, 0, 10, 50, 30, 40]),
        item_weight=np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        query_weight=np.array([0.5, 0.25, 0.125]),  # of b, a and c
        preferences=Preferences(
            np.array([0, 5, 3, 1]),
            np.array([2, 3, 4, 5]),
            np.array([1.0, 2.0, 0.0, 4.0]),
            np.array([0, 2, 3, 3]),  # b, c, and across queries
        ),
        feature_names=("left", "right"),
        comments=["docid = x", None, "docid=y", "no id", None, "docid = z"],
        document_ids=None,
        origin=Origin("a file"),
    )


def values_of(X) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_some_of_the_items(layout) -> None:
    data = whole(layout)
    rows = np.array([5, 1, 3])
    part = data.take(rows)
    assert (part.n_items, part.n_features) == (3, 2)
    np.testing.assert_array_equal(values_of(part.X), values_of(data.X)[rows])
    for name in ("y", "qid", "labels", "item_weight"):
        np.testing.assert_array_equal(getattr(part, name), getattr(data, name)[rows])
    # Queries in order of first appearance: c, then a.
    assert part.groups.ids.tolist() == ["c", "a"]
    assert part.groups.index.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(part.query_weight, [0.125, 0.25])
    # 5 over 3 and 1 over 5 are both here, the others are not; numbered by their places.
    assert part.preferences is not None
    assert part.preferences.better.tolist() == [0, 1]
    assert part.preferences.worse.tolist() == [2, 0]
    np.testing.assert_array_equal(part.preferences.weight, [2.0, 4.0])
    np.testing.assert_array_equal(part.preferences.query, [0, 2])  # c, and across queries
    assert part.comments == ["docid = z", None, "no id"]
    assert part.docids == ["z", None, None]
    assert (part.feature_names, part.origin) == (("left", "right"), Origin("a file"))


def test_all_of_the_items_are_the_set_itself() -> None:
    data = whole()
    assert data.take(np.arange(6)) is data
    assert data.take(np.arange(6), columns=np.arange(2)) is data
    assert data.take(np.arange(6)[::-1].copy()) is not data


def test_a_part_of_a_kernel_matrix() -> None:
    K = np.arange(16.0).reshape(4, 4)
    rows, columns = np.array([2, 0]), np.array([3, 1])
    part = RankingData(K, np.arange(4.0)).take(rows, columns=columns)
    np.testing.assert_array_equal(part.X, K[np.ix_(rows, columns)])
    assert part.qid is None
    assert part.groups.n_queries == 1


@given(
    qid=st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=12),
    data=st.data(),
)
def test_the_queries_of_a_part(qid, data) -> None:
    n = len(qid)
    chosen = data.draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1, max_size=n))
    names = list(dict.fromkeys(qid))
    given = RankingData(
        np.zeros((n, 1)),
        np.arange(float(n)),
        np.array(qid),
        query_weight=np.array([float(ord(name)) for name in names]),
    )
    part = given.take(np.array(chosen))
    expected = QueryGroups.from_qid([qid[i] for i in chosen], len(chosen))
    assert part.groups.ids.tolist() == expected.ids.tolist()
    np.testing.assert_array_equal(part.groups.index, expected.index)
    np.testing.assert_array_equal(part.groups.rows, expected.rows)
    np.testing.assert_array_equal(part.groups.offsets, expected.offsets)
    assert part.query_weight is not None
    assert [chr(int(weight)) for weight in part.query_weight] == part.groups.ids.tolist()


def test_parts_of_parts() -> None:
    data = whole()
    once = data.take(np.array([5, 1]))
    twice = data.take(np.array([5, 1, 3])).take(np.array([0, 1]))
    np.testing.assert_array_equal(once.X, twice.X)
    np.testing.assert_array_equal(once.query_weight, twice.query_weight)
    assert once.groups.ids.tolist() == twice.groups.ids.tolist() == ["c", "a"]
    assert [side.tolist() for side in once.preferences] == [
        side.tolist() for side in twice.preferences
    ]


def test_queries_are_numbered_and_items_without_ids_are_one_query() -> None:
    X = np.zeros((3, 1))
    assert RankingData(X).groups.index.tolist() == [0, 0, 0]
    assert RankingData(X, qid=np.array([7, 7, 7])).groups.index.tolist() == [0, 0, 0]
    assert RankingData(X, qid=np.array([7, 8, 7])).groups.index.tolist() == [0, 1, 0]


def test_the_truth_is_the_labels_as_they_were_given() -> None:
    data = whole()
    assert data.truth is data.labels
    assert replace(data, labels=None).truth is data.y
    with pytest.raises(ValueError, match="a file has no labels"):
        _ = replace(data, labels=None, y=None).truth


def test_a_set_goes_where_arrays_go() -> None:
    data = replace(whole(), item_weight=None, query_weight=None, preferences=None)
    X, y, qid = data
    assert (X is data.X, y is data.y, qid is data.qid) == (True, True, True)
    model = LinearRankSVM().fit(*data)
    np.testing.assert_array_equal(model.coef_, LinearRankSVM().fit(X, y, qid=qid).coef_)
    assert model.score(*data) == model.score(X, y, qid=qid)


def test_nothing_changes_it() -> None:
    data = whole()
    with pytest.raises(FrozenInstanceError):
        data.y = np.zeros(6)
    assert data.groups is data.groups


def test_it_says_what_it_is() -> None:
    assert repr(whole()) == "<RankingData: 6 items, 3 queries, 2 features, dense float64>"
    plain = RankingData(sp.csr_array(np.eye(3, dtype=np.float32)))
    assert repr(plain) == "<RankingData: 3 items, no query ids, 3 features, sparse float32>"


def test_document_ids_of_a_table_come_first() -> None:
    data = whole()
    assert data.docids == ["x", None, "y", None, None, "z"]
    assert replace(data, comments=None).docids is None
    assert replace(data, comments=["a", None, "b", "c", "d", "e"]).docids is None
    assert replace(data, document_ids=list("uvwxyz")).docids == list("uvwxyz")


def test_it_can_be_sent_to_another_process() -> None:
    data = whole()
    again = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(again.X, data.X)
    assert again.groups.ids.tolist() == data.groups.ids.tolist()
    assert (again.origin, again.comments) == (data.origin, data.comments)


def test_a_part_with_other_ids_is_grouped_again() -> None:
    data = RankingData(np.eye(6), np.arange(6.0), np.array([1, 1, 2, 2, 3, 3]))
    part = data.take(np.arange(4))
    assert part.groups.n_queries == 2
    assert replace(part, qid=np.full(4, 7)).groups.n_queries == 1
    assert replace(part, qid=None).groups.n_queries == 1
