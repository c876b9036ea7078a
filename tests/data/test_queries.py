"""Query ids of every kind, in every order, end as the same three arrays."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm.data import QueryGroups

IDS = st.one_of(
    st.lists(st.integers(-3, 3)),
    st.lists(st.sampled_from(["a", "b", "long name", ""])),
    st.lists(st.sampled_from([-(2**62), 2**62, 0])),
    st.lists(st.booleans()),
    st.lists(st.sampled_from([1.0, -2.0, 2.0**53])),
    st.lists(st.one_of(st.integers(0, 2), st.sampled_from(["0", "1", b"1"]), st.dates())),
)


def check(groups: QueryGroups, qid: list) -> None:
    """Compare with the definition: queries by first appearance, rows ascending in each."""
    expected: dict = {}
    for row, value in enumerate(qid):
        expected.setdefault(value, []).append(row)
    assert groups.ids.tolist() == list(expected)
    assert groups.offsets[0] == 0
    assert np.diff(groups.offsets).tolist() == [len(rows) for rows in expected.values()]
    assert groups.rows.tolist() == [row for rows in expected.values() for row in rows]
    assert [groups.ids.tolist()[q] for q in groups.index] == qid
    assert groups.contiguous == (groups.rows.tolist() == sorted(groups.rows.tolist()))
    assert groups.sizes.tolist() == np.diff(groups.offsets).tolist()
    assert (groups.n_items, groups.n_queries) == (len(qid), len(expected))
    for array in (groups.offsets, groups.rows, groups.index):
        assert array.dtype == np.int64


@given(IDS)
def test_ids_of_any_type_in_any_order(qid):
    check(QueryGroups.from_qid(qid, len(qid)), qid)


@given(IDS)
def test_sorted_ids_are_contiguous(qid):
    qid = sorted(qid, key=lambda value: (type(value).__name__, value))
    groups = QueryGroups.from_qid(qid, len(qid))
    check(groups, qid)
    assert groups.contiguous


def test_no_ids_mean_one_global_ranking():
    groups = QueryGroups.from_qid(None, 3)
    assert (groups.n_queries, groups.contiguous) == (1, True)
    assert groups.offsets.tolist() == [0, 3]
    assert groups.rows.tolist() == [0, 1, 2]
    assert groups.index.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "qid",
    [
        np.array([7, 3, 7], dtype=np.int8),
        np.array([2**64 - 1, 2**63, 2**64 - 1], dtype=np.uint64),
        np.array([7.0, 3.0, 7.0], dtype=np.float16),
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        np.array([b"b", b"a", b"b"]),
        np.array(["2024-05-02", "2024-05-01", "2024-05-02"], dtype="datetime64[D]"),
        np.ma.array([7, 3, 7], mask=[False, False, False]),
        np.array([7, 0, 3, 0, 7])[::2],
        (7, 3, 7),
        [2**70, 3, 2**70],
    ],
    ids=lambda qid: str(getattr(qid, "dtype", type(qid).__name__)),
)
def test_array_types(qid):
    check(QueryGroups.from_qid(qid, 3), list(np.asarray(qid).tolist()))


@pytest.mark.parametrize("kind", ["int64", "Int64", "str", "category", "object"])
def test_pandas_columns_are_matched_by_position(kind):
    pandas = pytest.importorskip("pandas", reason="pandas is not a dependency")
    values = [3, 1, 3, 2] if "int" in kind.lower() else ["c", "a", "c", "b"]
    column = pandas.Series(values, index=[9, 8, 8, 0], dtype=kind)
    check(QueryGroups.from_qid(column, 4), values)


def test_missing_ids_in_pandas_columns_are_named():
    pandas = pytest.importorskip("pandas", reason="pandas is not a dependency")
    for column in (
        pandas.Series([1, pandas.NA, 2], dtype="Int64"),
        pandas.Series(["a", None, "b"]),
        pandas.Series(["a", None, "b"], dtype="category"),
        pandas.Series([1, pandas.NA, 2], dtype=object),
        pandas.Series(pandas.to_datetime(["2024-05-01", None, "2024-05-01"])),
    ):
        with pytest.raises(ValueError, match="qid has a missing id in row 1"):
            QueryGroups.from_qid(column, 3)


@pytest.mark.parametrize(
    ("qid", "message"),
    [
        ([1, 2, np.nan], "missing id in row 2: got nan"),
        (["a", np.nan, "b"], "missing id in row 1: got nan"),
        (["a", "a", None], "missing id in row 2: got None"),
        (np.array(["2024-05-01", "NaT", "NaT"], dtype="datetime64[D]"), "row 1: got NaT"),
        (
            np.ma.array([1, 2, 3], mask=[False, False, True]),
            "qid has 1 masked value, the first in row 2",
        ),
        ([1, 2, 2.5], "got the float 2.5 in row 2. Pass the ids as integers or strings"),
        (np.array([1, 2.5, "a"], dtype=object), "got the float 2.5 in row 1"),
        ([1.0, np.inf, 2.0], "got the float inf in row 1"),
        ([1.0, 2.0, 2.0**60], "in row 2"),
        ([1j, 2, 3], "got an array of dtype complex128"),
        ([[1], [2], [3]], r"one-dimensional .* got 2 dimensions \(shape \(3, 1\)\)"),
        ([[1], [2, 3], [4]], "one-dimensional .* differ in length"),
        (5, "one-dimensional"),
        ({1, 2, 3}, "one-dimensional"),
        (np.array([{1}, 2, 3], dtype=object), "hashable .* got a set in row 0"),
        ([1, 1], "got 2 ids for 3 rows.$"),
        ([1, 1, 1, 1], "got 4 ids for 3 rows.$"),
        ([], "got 0 ids for 3 rows.$"),
    ],
)
def test_bad_ids(qid, message):
    with pytest.raises(ValueError, match=message):
        QueryGroups.from_qid(qid, 3)


def test_sizes_in_place_of_ids_are_recognised():
    sizes = np.array([2, 0, 3])
    hint = r"group .* got 3 ids for 5 rows.* sizes.* np.repeat\(np.arange\(len\(group\)\), group\)"
    with pytest.raises(ValueError, match=hint):
        QueryGroups.from_qid(sizes, 5, name="group")
    check(QueryGroups.from_qid(np.repeat(np.arange(3), sizes), 5), [0, 0, 2, 2, 2])


@pytest.mark.parametrize("numbers", [[0, 0, 1, 2, 2], [0, 1, 0, 2, 1], [0], []])
def test_queries_that_are_numbered_already(numbers):
    numbers = np.array(numbers, dtype=np.int64)
    groups = QueryGroups.from_numbers(numbers)
    assert groups.index is numbers
    known = QueryGroups.from_qid(numbers, numbers.size)
    for name in ("ids", "offsets", "rows", "index"):
        assert getattr(groups, name).tolist() == getattr(known, name).tolist()
    ids = np.array([f"q{i}" for i in groups.ids])
    other = replace(groups, ids=ids)
    assert other.index is numbers
    assert other.ids is ids


def test_the_ids_are_not_changed_and_groups_survive_pickling():
    qid = np.array([4, 1, 4, 2])
    groups = QueryGroups.from_qid(qid, 4)
    assert qid.tolist() == [4, 1, 4, 2]
    check(pickle.loads(pickle.dumps(groups)), qid.tolist())
