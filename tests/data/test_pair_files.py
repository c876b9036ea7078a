"""Files of preferences: by number and by document, read back as written, errors with their line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ranksvm.data import FileFormatError, Preferences, load_letor, read_pairs, write_pairs
from ranksvm.data.pair_items import DocumentRows

# Two queries share D2 and D3; D4 is twice in query 2; row 8 has no document.
DOCIDS = ["D1", "D2", "D3", "D2", "D3", "D4", "D4", None, "D5"]
QID = [1, 1, 1, 2, 2, 2, 2, 2, 3]


def by_number(text: str, **options) -> Preferences:
    return read_pairs(io.StringIO(text), **options)


def by_document(text: str) -> Preferences:
    return read_pairs(io.StringIO(text), docids=np.array(DOCIDS, dtype=object), qid=QID)


def listed(pairs: Preferences) -> list[tuple[int, int]]:
    return list(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True))


def test_by_number():
    found = by_number("# better worse\n3 1\n\n  2\t3  \n1 2 # why\r\n3 1", n_items=3)
    assert listed(found) == [(2, 0), (1, 2), (0, 1), (2, 0)]
    assert found.better.dtype == found.worse.dtype == np.int64
    assert found.weight is None


def test_weights_are_one_where_a_line_has_none():
    found = by_number("1,2,0.5\n2 1\n3, 1, 0\n1 3 2e3 #x\n")
    assert listed(found) == [(0, 1), (1, 0), (2, 0), (0, 2)]
    assert found.weight.tolist() == [0.5, 1.0, 0.0, 2000.0]


def test_by_document():
    found = by_document("D1 D2\nqid:2 D2 D3 0.5\nD5 D1\n")
    # D1 is in query 1 alone, which settles D2; a query that is named settles both; documents that
    # are there once need not share a query.
    assert listed(found) == [(0, 1), (3, 4), (8, 0)]
    assert found.weight.tolist() == [1.0, 0.5, 1.0]


def test_ids_may_hold_what_separates_numbers():
    docids = ["a,b", "http://x/#top", "qid", "7"]
    text = "a,b http://x/#top\n7 qid # a comment\n"
    assert listed(read_pairs(io.StringIO(text), docids=docids)) == [(0, 1), (3, 2)]


def test_ids_of_a_feature_file(tmp_path):
    (tmp_path / "items").write_text(
        "1 qid:a 1:1 #docid = G1 inc = 1\n0 qid:a 1:2 #docid = G2\n0 qid:b 1:3 #docid = G1\n"
    )
    data = load_letor(tmp_path / "items")
    text = "G2 G1\n"
    found = read_pairs(io.StringIO(text), n_items=3, docids=data.docids, qid=data.qid)
    assert listed(found) == [(1, 0)]


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.compress]
)
def test_compressed_files(tmp_path, compress):
    path = tmp_path / "pairs"
    path.write_bytes(compress(b"2 1\n1 3 4\n"))
    assert listed(read_pairs(path)) == [(1, 0), (0, 2)]


NUMBER = "expected a row number, counted from 1. For document ids, use docids"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 1", "found '0', but rows are counted from 1"),
        ("1 5", "found '5', expected a row number up to 4; there are no more items"),
        ("3 3", "found '3 3', expected two different items"),
        ("3 03", "found '3 03', expected two different items"),
        ("-1 2", f"found '-1', {NUMBER}"),
        ("1.0 2", f"found '1.0', {NUMBER}"),
        ("1_0 2", f"found '1_0', {NUMBER}"),
        ("better worse weight", "found 'weight', expected a finite weight >= 0"),
        ("better worse", f"found 'better', {NUMBER}"),
        ("1 " + "9" * 5000, f"found '{'9' * 60}'..., {NUMBER}"),
        ("1", "found '1', expected 'better worse [weight]'; got 1 field"),
        ("1,2,3,4", "found '1,2,3,4', expected 'better worse [weight]'; got 4 fields"),
        ("1,,2", "found '1,,2', expected a number before and after every comma"),
        (",1,2", "found ',1,2', expected a number before and after every comma"),
        ("1, ,2", "found '1, ,2', expected a number before and after every comma"),
        ("1,2,", "found '1,2,', expected a number before and after every comma"),
        ("1,2, # x", "found '1,2,', expected a number before and after every comma"),
        (",", "found ',', expected a number before and after every comma"),
        ("1 2 3 4", "found '1 2 3 4', expected 'better worse [weight]'; got 4 fields"),
        ("1 2 -0.5", "found '-0.5', expected a finite weight >= 0 in the last field"),
        ("1 2 nan", "found 'nan', expected a finite weight >= 0"),
        ("1 2 inf", "found 'inf', expected a finite weight >= 0"),
        ("1 2 1_0", "found '1_0', expected a finite weight >= 0"),
        ("qid:1 1 2", "found 'qid:1', expected a row number; 'qid:' is only for pairs of document"),
    ],
)
def test_bad_lines_by_number(line, message):
    with pytest.raises(FileFormatError) as caught:
        by_number(f"1 2\n# x\n{line}\n2 1\n", n_items=4)
    assert caught.value.line == 3
    assert caught.value.file == "<StringIO>"
    assert str(caught.value).startswith(f"<StringIO>, line 3: {message}")
    if "got" in message or "comma" in message:
        assert str(caught.value) == f"<StringIO>, line 3: {message}"


def test_commas_in_comments_separate_nothing():
    found = by_number("1 2 # a,, b\n#,\n3,1 #,\n")
    assert listed(found) == [(0, 1), (2, 0)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("D2 D3", "found 'D2 D3', expected two documents that occur together in exactly one "
         "query; 2 queries have both: 1, 2. Start the line with 'qid:' and the query"),
        ("D2 D5", "found 'D2 D5', expected two documents that occur together in exactly one "
         "query; no query has both. Name the items by row number instead"),
        ("D9 D1", "found 'D9', expected the document id of an item, such as 'D1', 'D2'"),
        ("D2 D2", "found 'D2', expected two different documents"),
        ("D4 D2", "found 'D4', expected a document that query 2 has exactly once; it is in rows "
         "6 and 7. Name the items by row number instead"),
        ("qid:2 D1 D2", "found 'D1', expected a document that query 2 has exactly once; it is "
         "not there"),
        ("qid:9 D1 D2", "found 'qid:9', expected a query of the items, such as 'qid:1'"),
        ("qid:1 D1", "found 'qid:1 D1', expected 'better worse [weight]'; got 2 fields"),
        ("None D1", "found 'None', expected the document id of an item, such as 'D1', 'D2'"),
        ("D1,D2", "found 'D1,D2', expected 'better worse [weight]'; got 1 field. Separate "
         "document ids by spaces, not by commas"),
        ("D1, D2", "found 'D1,', expected the document id of an item, such as 'D1', 'D2'. "
         "Separate document ids by spaces, not by commas"),
    ],
)  # fmt: skip
def test_bad_lines_by_document(line, message):
    with pytest.raises(FileFormatError) as caught:
        by_document(f"D1 D2\n{line}\n")
    assert caught.value.line == 2
    assert str(caught.value) == f"<StringIO>, line 2: {message}"


def test_without_query_ids():
    with pytest.raises(
        FileFormatError, match=r"line 1: found 'D2', .* the items have exactly once; .* 2 and 4"
    ):
        read_pairs(io.StringIO("D1 D2\n"), docids=DOCIDS)
    with pytest.raises(FileFormatError, match=r"line 1: found 'qid:1', .* have no query ids"):
        read_pairs(io.StringIO("qid:1 D1 D2\n"), docids=DOCIDS)


def test_files_without_pairs_and_other_files(tmp_path):
    for text in ("", "\n \n", "# nothing\n"):
        with pytest.raises(FileFormatError, match="<StringIO> holds no pairs; expected lines of"):
            by_number(text)
    (tmp_path / "zip").write_bytes(b"PK\x03\x04" + bytes(30))
    with pytest.raises(FileFormatError, match="zip archive"):
        read_pairs(tmp_path / "zip")
    with pytest.raises(FileFormatError, match=r"line 1: found '\ufffd', expected a row number"):
        read_pairs(io.BytesIO(b"\xff 1\n"))


def test_ids_and_items_have_to_match():
    with pytest.raises(
        ValueError, match=r"docids must have one value for each of the 3 items; got"
    ):
        by_number("a b\n", docids=["a", "b"], n_items=3)
    with pytest.raises(ValueError, match=r"qid must have one value for each of the 2 items; got"):
        by_number("a b\n", docids=["a", "b"], qid=[1])


def test_a_line_takes_no_longer_where_a_document_is_in_many_queries():
    class Counted(list):
        n_reads = 0

        def __getitem__(self, at):
            type(self).n_reads += 1
            return super().__getitem__(at)

    n = 300
    queries = Counted(str(row // 2) for row in range(2 * n))
    resolve = DocumentRows(["X", "Y"] * n, queries)
    for query in range(n):
        found = resolve([f"qid:{query}".encode(), b"Y", b"X"])
        assert found == (2 * query + 1, 2 * query)
    assert Counted.n_reads <= 2 * n  # every row once, however many lines there are


ROWS = st.integers(0, 50)


@given(
    st.lists(st.tuples(ROWS, ROWS).filter(lambda pair: pair[0] != pair[1]), min_size=1),
    st.booleans(),
    st.data(),
)
def test_written_pairs_read_back(rows, weighted, data):
    better, worse = np.array(rows).T
    numbers = st.floats(0, allow_infinity=False, allow_nan=False)
    size = len(rows)
    weight = None
    if weighted:
        weight = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size)))
    out = io.BytesIO()
    write_pairs(out, Preferences(better, worse, weight))
    out.seek(0)
    found = read_pairs(out, n_items=51)
    np.testing.assert_array_equal(found.better, better)
    np.testing.assert_array_equal(found.worse, worse)
    assert (found.weight is None) == (weight is None)
    if weight is not None:
        np.testing.assert_array_equal(found.weight, weight)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.uint64])
def test_the_largest_number_of_a_type_is_counted_from_1(kind):
    largest = min(int(np.iinfo(kind).max), 2**53 - 1)
    out = io.BytesIO()
    write_pairs(out, Preferences(np.array([largest], kind), np.array([0], kind)))
    assert out.getvalue() == f"{largest + 1} 1\n".encode()
    out.seek(0)
    assert listed(read_pairs(out)) == [(largest, 0)]


def test_many_written_lines_keep_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr("ranksvm.data.targets._LINES", 3)
    path = tmp_path / "pairs.gz"
    write_pairs(path, Preferences(np.arange(10), np.arange(10) + 1, np.arange(10) / 3))
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert lines == [f"{row + 1} {row + 2} {row / 3!r}" for row in range(10)]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (([1, 2], [3], None), "one row number per pair each; got 2 and 1"),
        (([1.5], [2.5], None), "better must hold whole numbers; got 1.5 in pair 0"),
        ((np.empty(0, int), np.empty(0, int), None), "better and worse are empty"),
        (([1, 0], [2, -1], None), "worse must hold row.*got -1 in pair 1"),
        (([1, 4], [2, 4], None), "pair 1: row 4 is both better and worse"),
        (([1, 2**63 - 1], [2, 0], None), "better must hold row.*got 9223372036854775807 in pair 1"),
        (([0], np.array([2**64 - 1], np.uint64), None), "worse .*got 18446744073709551615 in pair"),
        (([0], [2**53], None), "worse must hold row.*got 9007199254740992 in pair 0"),
        (([1, 2], [2, 1], [1.0]), "weight has 1 values for 2 pairs"),
        (([1, 2], [2, 1], [1.0, -1.0]), "weight must be finite and not neg.*got -1.0 in pair 1"),
        (([1, 2], [2, 1], [np.nan, 1.0]), "got nan in pair 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_written(tmp_path, pairs, message):
    path = tmp_path / "pairs"
    path.write_text("old")
    with pytest.raises(ValueError, match=message):
        write_pairs(path, Preferences(*pairs))
    assert path.read_text() == "old"


def test_blocks_are_joined(tmp_path):
    """Line numbers go on from block to block."""
    path = tmp_path / "pairs"
    path.write_bytes(b"1 2 0.25\n" * 100_000 + b"1 1\n")
    with pytest.raises(FileFormatError, match="line 100001: found '1 1'"):
        read_pairs(path)


# --- Pairs that do not fit the items -------------------------------------------------------------


def judged_pairs(n_queries: int, noise: float) -> tuple[Preferences, np.ndarray, np.ndarray]:
    """Pairs of a set of labels, a share of them turned round; labels, and query ids."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(n_queries), 6)
    y = rng.integers(0, 4, len(qid))
    better, worse = np.nonzero((qid[:, None] == qid) & (y[:, None] > y))
    turned = rng.random(len(better)) < noise
    pairs = Preferences(np.where(turned, worse, better), np.where(turned, better, worse))
    return pairs, y, qid


def shifted(pairs: Preferences, by: int) -> str:
    """Text whose numbers are those of ``write_pairs`` and ``by`` more."""
    rows = zip(pairs.better + 1 + by, pairs.worse + 1 + by, strict=True)
    return "".join(f"{i} {j}\n" for i, j in rows if min(i, j) >= 1)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_row_numbers_that_are_off_by_one_are_told(noise):
    pairs, y, qid = judged_pairs(40, noise)
    known = {"n_items": len(y), "y": y, "qid": qid}
    by_number(shifted(pairs, 0), **known)  # no warning
    by_number(shifted(pairs, -1), zero_based=True, **known)
    with pytest.warns(
        UserWarning, match="may count rows from 0: .* If so, use zero_based=True"
    ) as w:
        by_number(shifted(pairs, -1), **known)
    assert len(w) == 1
    for only in ({"y": y}, {"qid": qid}):
        by_number(shifted(pairs, 0), **only)
        with pytest.warns(UserWarning, match="from 0"):
            by_number(shifted(pairs, -1), **only)
    inner = shifted(pairs, 0).splitlines(keepends=True)
    inner = [line for line in inner if str(len(y)) not in line.split()]
    with pytest.warns(
        UserWarning, match="may count rows from 1: .* If so, leave zero_based=True out"
    ):
        by_number("".join(inner), zero_based=True, **known)


def test_what_is_said_about_row_numbers():
    pairs, y, qid = judged_pairs(40, 0.0)
    n = sum(1 for _ in shifted(pairs, -1).splitlines())
    with pytest.warns(UserWarning, match=rf"StringIO> may .*; counted from 0, {n} of {n}\. If so"):
        by_number(shifted(pairs, -1), y=y)
    across = rf"\d+ of {n} pairs join items of different queries; counted from 0, none\."
    with pytest.warns(UserWarning, match=across):
        by_number(shifted(pairs, -1), qid=qid)


def test_pairs_that_contradict_the_labels_are_told():
    pairs, y, qid = judged_pairs(40, 0.0)
    turned = Preferences(pairs.worse, pairs.better)
    message = f"only 0 of {len(pairs.better)} pairs agree with them"
    with pytest.warns(UserWarning, match=message + ".*Is the better item first"):
        by_number(shifted(turned, 0), y=y, qid=qid)
    names = [f"d{row}" for row in range(len(y))]
    text = "".join(f"d{i} d{j}\n" for i, j in listed(turned))
    with pytest.warns(UserWarning, match="Is the better item first"):
        by_number(text, docids=names, y=y)


def test_few_pairs_prove_nothing():
    y, qid = np.array([2, 1, 0, 2, 1, 0]), np.array([1, 1, 1, 2, 2, 2])
    by_number("3 1\n5 4\n6 4\n", y=y, qid=qid)
    by_number("1 4\n2 5\n3 6\n6 1\n", y=y, qid=qid)  # across queries, on purpose
    by_number("1 2 0\n" * 50 + "1 3\n", y=-y)  # pairs that weigh nothing


def test_the_first_row_is_1_unless_told():
    with pytest.raises(FileFormatError, match=r"from 1\. If .* counts from 0, use zero_based=True"):
        by_number("2 1\n1 0\n")
    assert listed(by_number("2 1\n1 0\n", zero_based=True)) == [(2, 1), (1, 0)]
    with pytest.raises(FileFormatError, match="up to 2"):
        by_number("3 1\n", zero_based=True, n_items=3)
    with pytest.raises(ValueError, match="zero_based applies to row numbers"):
        by_number("a b\n", zero_based=True, docids=["a", "b"])
    for wrong in ({"y": [1, 2]}, {"qid": [[1, 2, 3]]}):
        with pytest.raises(ValueError, match="must have one value for each of the 3 items"):
            by_number("2 1\n", n_items=3, **wrong)


def test_a_file_that_names_the_worse_item_first_is_not_blamed_on_the_count(tmp_path):
    """The other count agrees a little more than never; the other order agrees always."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 60).astype(float)
    rows = rng.integers(1, 59, (300, 2))
    rows = rows[y[rows[:, 0] - 1] < y[rows[:, 1] - 1]]
    path = tmp_path / "pairs.txt"
    path.write_text("".join(f"{worse} {better}\n" for worse, better in rows))
    with pytest.warns(UserWarning, match="Is the better item first"):
        read_pairs(path, n_items=60, y=y)
