"""LETOR text in and out: what is read, from where, what is refused and how the refusal reads."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import load_in_blocks
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_svmlight_file

from ranksvm.data import FileFormatError, LetorError, RankingData, load_letor, save_letor, targets

TEXT = (
    "2 qid:10 1:0.5 2:0 3:-1.25e-3 #docid = GX008-86-4444840 inc = 1 prob = 0.086622\n"
    "0 qid:10 1:1 2:7 3:.5\n"
    "1 qid:9 1:3 2:+2. 3:1e2 # docid=x7\n"
)
X = np.array([[0.5, 0.0, -1.25e-3], [1.0, 7.0, 0.5], [3.0, 2.0, 100.0]])


def load(text: str | bytes, **options) -> RankingData:
    return load_in_blocks(io.BytesIO(text.encode() if isinstance(text, str) else text), **options)


def fails(text: str | bytes, **options) -> LetorError:
    with pytest.raises(LetorError) as caught:
        load(text, **options)
    return caught.value


def check(data: RankingData) -> None:
    np.testing.assert_array_equal(data.X, X)
    assert (data.y.tolist(), data.qid.tolist()) == ([2.0, 0.0, 1.0], [10, 10, 9])
    assert data.docids == ["GX008-86-4444840", None, "x7"]


# --- What is read ---------------------------------------------------------------------------------


def test_fields():
    data = load(TEXT)
    check(data)
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert data.qid.dtype == np.int64
    assert data.n_features == 3
    assert data.n_items == 3
    features, labels, ids = data
    assert (features is data.X, labels is data.y, ids is data.qid) == (True, True, True)
    assert "3 items, 2 queries, 3 features, dense float64" in repr(data)


def test_comments_are_a_sequence():
    comments = load(TEXT).comments
    first = "docid = GX008-86-4444840 inc = 1 prob = 0.086622"
    assert list(comments) == [first, None, " docid=x7"]
    assert (comments[0], comments[-1], len(comments)) == (first, " docid=x7", 3)
    assert comments[1:] == [None, " docid=x7"]
    assert comments[np.array([2, 0])] == [" docid=x7", first]
    assert comments == [first, None, " docid=x7"]
    assert comments != [first, None, None]
    assert comments == load(TEXT).comments
    with pytest.raises(IndexError):
        comments[3]
    assert comments.nbytes == len("#" + first + "# docid=x7") + 4 * 8
    assert load(TEXT, comments=False).comments is None
    assert load("1 1:2\n").comments is None
    assert load("1 1:2\n").docids is None
    assert load("1 1:2 #\n").comments[0] == ""


def test_bytes_in_comments_survive():
    data = load(b"1 1:2 #\xff\xe9 \xc3\xa9\n")
    assert data.comments[0] == "\udcff\udce9 é"
    out = io.BytesIO()
    save_letor(out, data.X, data.y, comments=data.comments)
    assert out.getvalue() == b"1 1:2 #\xff\xe9 \xc3\xa9\n"


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["1", "-5", "9223372036854775807"], [1, -5, 2**63 - 1]),
        (["1", "007"], ["1", "007"]),
        (["0", "-0"], ["0", "-0"]),
        (["1", "+1"], ["1", "+1"]),
        (["1", "9223372036854775808"], ["1", "9223372036854775808"]),
        (["q1", "é", "1.0"], ["q1", "é", "1.0"]),
        (["1", "2", "x"], ["1", "2", "x"]),
    ],
)
def test_ids_stay_as_they_are(ids, expected):
    text = "".join(f"1 qid:{i} 1:1\n" for i in ids for _ in range(2))
    for piece_bytes in (1, 1 << 18):
        data = load(text, piece_bytes=piece_bytes)
        assert data.qid.tolist() == [i for i in expected for _ in range(2)]
        assert data.qid.dtype.kind == ("i" if isinstance(expected[0], int) else "U")


def test_ids_can_be_ignored_or_required():
    assert load("1 1:1\n1 1:2\n").qid is None
    assert load("1 qid:3 1:1\n1 1:2\n", qid="ignore").qid is None
    error = fails("1 1:1\n", qid="required")
    assert (error.line, error.column) == (1, 3)
    assert "expected 'qid:', since qid='required'. Add" in str(error)
    assert "qid='ignore'" in str(error)


def test_dense_or_sparse_by_density():
    assert isinstance(load("1 1:1 2:0 3:0\n").X, np.ndarray)  # a third
    sparse = load("1 1:1 4:0 5:-0\n2 2:5\n").X
    assert isinstance(sparse, sp.csr_array)
    assert sparse.shape == (2, 5)
    assert sparse.indices.dtype == sparse.indptr.dtype == np.int32
    assert (sparse.data.tolist(), sparse.indices.tolist()) == ([1.0, 5.0], [0, 1])
    assert sparse.has_canonical_format
    assert sparse.has_sorted_indices
    np.testing.assert_array_equal(load("1 9:1\n", dense=True).X, [[0] * 8 + [1]])
    assert isinstance(load("1 1:1\n", dense=False).X, sp.csr_array)
    assert isinstance(load("1 1:1 4:0\n", dtype=np.float32).X, np.ndarray)  # a quarter
    assert load("1\n2 qid\n".replace(" qid", "")).X.shape == (2, 0)


def test_number_of_features():
    assert load(TEXT, n_features=5, dense=True).X.shape == (3, 5)
    error = fails(TEXT, n_features=2)
    assert (error.line, error.column) == (1, 20)
    assert "n_features=2" in str(error)
    assert load("1 0:2 1:3\n", zero_based=True).X.tolist() == [[2.0, 3.0]]


def test_float32_is_rounded_once():
    # 7.038531e-26 and the one before: a rounding to double first ends at another float.
    texts = ["0.1", "16777217", "1.00000005960464477540", "7.038531e-26", "1e-46", "3.4028235e38"]
    data = load("".join(f"1 1:{t}\n" for t in texts), dtype=np.float32, dense=True)
    assert data.X.dtype == np.float32
    expected = [0.1, 16777216, 1.0000001192092896, 7.038530691851209e-26, 0, 3.4028235e38]
    np.testing.assert_array_equal(data.X[:, 0], np.array(expected, dtype=np.float32))
    assert "fits into float32" in str(fails("1 1:3.4028236e38\n", dtype=np.float32))


def test_missing_values():
    text = "1 1:NULL 2:nan 3:-NaN 4:na 5:2\n"
    error = fails(text)
    assert (error.line, error.column) == (1, 5)
    assert "missing='nan'" in str(error)
    np.testing.assert_array_equal(load(text, missing="nan").X, [[np.nan] * 4 + [2.0]])
    assert load(text, missing="zero", dense=True).X.tolist() == [[0, 0, 0, 0, 2.0]]
    assert load(text, missing="zero", dense=False).X.nnz == 1
    assert load(text, missing="nan", dense=False).X.nnz == 5
    assert "label" in str(fails("nan 1:2\n", missing="nan"))


def test_order_and_duplicates():
    assert load("1 3:3 1:1 2:2\n").X.tolist() == [[1, 2, 3]]
    error = fails("1 1:1 2:1\n1 3:3 1:1 2:2\n", unsorted="error")
    assert (error.line, error.column) == (2, 7)
    error = fails("1 1:1\n1 3:3 1:1 3:2 1:7\n")
    assert (error.line, error.column) == (2, 11)
    assert "duplicates='last'" in str(error)
    text = "1 2:3 1:1 2:0.5 2:-3 1:0\n"
    assert load(text, duplicates="last").X.tolist() == [[0, -3]]
    assert load(text, duplicates="last", dense=False).X.nnz == 1
    assert load(text, duplicates="sum").X.tolist() == [[1, 0.5]]
    assert "sum of duplicates" in str(fails("1 1:1e308 1:1e308\n", duplicates="sum"))


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        "\ufeff" + TEXT,
        "\n\n# about\n" + TEXT.replace("\n", "\n  \n\t# more\n"),
        TEXT.replace(" ", "\t \t").replace("\t \t#", "#").replace("docid\t", "docid "),
        TEXT.rstrip("\n"),
        TEXT.rstrip("\n") + "\r",
    ],
    ids=["crlf", "bom", "blank and comment lines", "tabs", "no last line end", "cr at the end"],
)
def test_forms_of_text(text):
    data = load(text)
    np.testing.assert_array_equal(data.X, X)
    assert data.qid.tolist() == [10, 10, 9]


def test_result_does_not_depend_on_threads_and_cuts():
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(3)} qid:{i // 7} "
        + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(rng.standard_normal(20).tolist()))
        + (f" # {i}" if i % 3 else "")
        for i in range(400)
    ]
    text = "\n".join(rows) + "\n"
    truth = load(text, n_jobs=1)
    for n_jobs, block, piece in [(2, 1 << 22, 1000), (5, 10_000, 100), (3, 1, 1), (2, 999, 5000)]:
        data = load(text, n_jobs=n_jobs, block_bytes=block, piece_bytes=piece)
        np.testing.assert_array_equal(data.X, truth.X)
        np.testing.assert_array_equal(data.y, truth.y)
        np.testing.assert_array_equal(data.qid, truth.qid)
        assert data.comments == truth.comments


# --- Where it comes from --------------------------------------------------------------------------


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


def unzstd(data: bytes) -> bytes:
    package = pytest.importorskip("zstandard")
    return package.ZstdDecompressor().decompressobj().decompress(data)


COMPRESS = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
COMPRESS["zstd"] = zstd


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_compression_is_recognised_by_content(tmp_path, kind, n_jobs):
    half = TEXT.index("\n") + 10
    whole = COMPRESS[kind](TEXT.encode())
    members = COMPRESS[kind](TEXT[:half].encode()) + COMPRESS[kind](TEXT[half:].encode())
    for number, content in enumerate(
        (whole, members, members + (b"" if kind == "plain" else b"\0" * 8))
    ):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(content)
        check(load_letor(path, n_jobs=n_jobs))
        check(load_in_blocks(str(path), n_jobs=n_jobs, block_bytes=5))
        with path.open("rb") as file:
            check(load_letor(file, n_jobs=n_jobs))
            assert not file.closed


@pytest.fixture(scope="module")
def long_text() -> bytes:
    """More than a block, of which several threads read a part each."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((30_000, 20)).round(6).tolist()
    lines = []
    for row, features in enumerate(values):
        named = " ".join(f"{k}:{value}" for k, value in enumerate(features, start=1))
        lines.append(f"{row % 3} qid:{row // 9} {named} # {row}\n")
    return "".join(lines).encode()


def test_every_number_of_threads_reads_the_same(tmp_path, long_text):
    assert len(long_text) > 6 << 20  # blocks grow up to their full size
    path = tmp_path / "long.txt"
    path.write_bytes(long_text)
    first = load_letor(path, n_jobs=1)
    for n_jobs in (2, 3, 5, 16):
        again = load_letor(path, n_jobs=n_jobs)
        np.testing.assert_array_equal(again.X, first.X)
        np.testing.assert_array_equal(again.y, first.y)
        np.testing.assert_array_equal(again.qid, first.qid)
        for one, other in zip(again.comments.arrays, first.comments.arrays, strict=True):
            np.testing.assert_array_equal(one, other)
        csr = load_letor(path, n_jobs=n_jobs, dense=False)
        np.testing.assert_array_equal(csr.X.toarray(), first.X)


@pytest.mark.parametrize("n_jobs", [1, 2, 16])
def test_a_nul_byte_is_found_by_every_number_of_threads(tmp_path, long_text, n_jobs):
    broken = bytearray(long_text)
    line = 25_000
    place = len(b"".join(long_text.splitlines(keepends=True)[: line - 1])) + 3
    broken[place] = broken[place + 400_000] = 0
    path = tmp_path / "broken.txt"
    path.write_bytes(broken)
    with pytest.raises(LetorError, match=f"line {line}, column 4: found a NUL byte"):
        load_letor(path, n_jobs=n_jobs)


def test_a_file_that_cannot_be_read_is_an_oserror(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    path.write_bytes(b"1 1:1\n" * 2_000_000)
    monkeypatch.setattr("ranksvm._core.read_at", lambda *_: -5)
    with pytest.raises(OSError, match=r"file\.txt"):
        load_letor(path, n_jobs=16)


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "zstd"])
def test_damaged_compressed_data(tmp_path, kind):
    rng = np.random.default_rng(0)
    text = "".join(f"1 1:{value}\n" for value in rng.standard_normal(20_000))
    content = COMPRESS[kind](text.encode())
    path = tmp_path / "file"
    for cut in (len(content) - 1, len(content) // 2, 12):
        path.write_bytes(content[:cut])
        with pytest.raises(FileFormatError, match=f"is truncated: its {kind} data ends") as e:
            load_letor(path)
        assert e.value.file == str(path)
    if kind != "zstd":  # which has no checksum unless asked for
        path.write_bytes(
            content[: len(content) // 2] + b"\x55" * 40 + content[len(content) // 2 + 40 :]
        )
        with pytest.raises(FileFormatError, match=f"damaged {kind} data|line"):
            load_letor(path)
    path.write_bytes(content + b"something else")
    with pytest.raises(FileFormatError, match=f"damaged {kind} data"):
        load_letor(path)
    path.write_bytes(gzip.compress(content))
    with pytest.raises(FileFormatError, match=r"compressed twice\. Decompress it once with gzip"):
        load_letor(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"%PDF-1.4\n", "a PDF document"),
        (b"PK\x03\x04\x14", "a zip archive"),
        (TEXT.encode("utf-16"), "UTF-16"),
    ],
)
def test_other_kinds_of_files(content, what):
    with pytest.raises(FileFormatError, match=what):
        load(content)
    with pytest.raises(FileFormatError, match=what):
        load(gzip.compress(content))


def test_zstd_without_its_package(monkeypatch):
    content = zstd(TEXT.encode())
    monkeypatch.setitem(sys.modules, "zstandard", None)
    if sys.version_info < (3, 14):
        with pytest.raises(ImportError, match=r"pip install 'ranksvm\[zstd\]'"):
            load(content)


def test_several_files_are_one_set(tmp_path):
    parts = [TEXT, "# nothing\n1 qid:x9 4:2\n", TEXT.rstrip("\n")]
    paths = []
    for number, part in enumerate(parts):
        paths.append(tmp_path / f"S{number}.txt")
        paths[-1].write_text(part)
    data = load_letor(paths, dense=True)
    assert data.X.shape == (7, 4)
    assert data.qid.tolist() == ["10", "10", "9", "x9", "10", "10", "9"]
    assert len(data.comments) == 7
    np.testing.assert_array_equal(data.X[4:, :3], X)
    paths[1].write_text("1 1:2\n0 1:x\n")
    with pytest.raises(LetorError) as caught:
        load_letor(paths)
    assert (caught.value.file, caught.value.line) == (str(paths[1]), 1)
    with pytest.raises(ValueError, match="empty sequence"):
        load_letor([])
    with pytest.raises(TypeError, match="neither a path nor a file"):
        load_letor([3])
    with pytest.raises(TypeError, match="BytesIO"):
        load_letor(b"1 1:2\n")
    with pytest.raises(TypeError, match="path"):
        load_letor(3)


def test_file_objects(tmp_path):
    check(load_in_blocks(io.StringIO(TEXT), block_bytes=3))
    path = tmp_path / "file"
    path.write_text("skipped\n" + TEXT)
    with path.open("r") as file:
        file.readline()
        check(load_letor(file))
    with path.open("rb", buffering=0) as file:
        file.seek(8)
        check(load_letor(file))

    class Slow:
        """Gives less than is asked for."""

        def __init__(self) -> None:
            self.rest = TEXT.encode()

        def read(self, _size: int) -> bytes:
            part, self.rest = self.rest[:3], self.rest[3:]
            return part

    check(load_letor(Slow()))


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_standard_input(compress):
    code = "from ranksvm.data import load_letor; d = load_letor('-'); print(d.X.tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code], input=compress(TEXT.encode()), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == str(X.tolist())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text(TEXT))
    writer.start()
    check(load_letor(path, n_jobs=2))
    writer.join()


def test_files_that_are_not_there(tmp_path):
    for n_jobs in (1, 2):
        with pytest.raises(FileNotFoundError):
            load_letor(tmp_path / "missing", n_jobs=n_jobs)
        with pytest.raises(IsADirectoryError):
            load_letor(tmp_path, n_jobs=n_jobs)


def test_progress(tmp_path):
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(TEXT.encode() * 1000))
    calls = []
    load_in_blocks([path, path], progress=lambda *call: calls.append(call), block_bytes=10_000)
    size = path.stat().st_size
    done = [call[0] for call in calls]
    assert done == sorted(done)
    assert done[-1] == 2 * size
    assert {call[1] for call in calls} == {2 * size}
    assert len(calls) > 4
    load_letor(io.StringIO(TEXT), progress=lambda *call: calls.append(call))
    assert calls[-1] == (len(TEXT), None)


def test_an_exception_in_progress_ends_the_reading(tmp_path):
    path = tmp_path / "file"
    path.write_text(TEXT * 1000)

    def stop(_done, _total):
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        load_in_blocks(path, n_jobs=2, progress=stop, block_bytes=1000)
    for _ in range(100):
        if threading.active_count() == before:
            break
        time.sleep(0.02)
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_an_interrupt_ends_the_waiting_for_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    held_open = os.open(path, os.O_RDWR)  # so that the reader waits for bytes
    code = (
        "import sys; from ranksvm.data import load_letor; print('ready', flush=True)\n"
        "try: load_letor(sys.argv[1], n_jobs=2)\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert child.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=60) == (b"interrupted\n", b"")
    finally:
        os.close(held_open)


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        ("x 1:1", 1, ["found 'x'", "label"]),
        ("1,0 1:1", 1, ["found '1,0'"]),
        ("1e999 1:1", 1, ["fits into a double"]),
        ("1 1:1 qid:2", 7, ["directly after the label"]),
        ("1 qid:1 qid:2", 9, ["once"]),
        ("1 qid: 1:2", 3, ["found 'qid:'", "1 to 1024 bytes"]),
        ("1 qid:a:b 1:2", 3, ["without ':'"]),
        ("1 cost:0.5 1:2", 3, ["not supported", "weights"]),
        ("1 foo:0.5", 3, ["found 'foo:0.5'", "index:value"]),
        ("1 1:2 0.5", 7, ["found '0.5'", "index:value"]),
        ("1 0:2", 3, ["found '0:2'", "zero_based=True"]),
        ("1 -3:2", 3, ["negative"]),
        ("1 2147483648:2", 3, ["below 2^31"]),
        ("1 é:2", 3, ["found 'é:2'"]),
        ("1 1:abc", 5, ["found 'abc'", "number"]),
        ("1 1:0x10", 5, ["found '0x10'"]),
        ("1 1: 2:3", 3, ["found '1:'", "after the colon"]),
        ("1 1:1 12:", 7, ["found '12:'"]),
        ("1 1:inf", 5, ["finite"]),
        ("1 1:1e309", 5, ["found '1e309'", "fits into float64"]),
        ("1 1:2\r3:4", 5, ["found '2\\r3:4'", "carriage return"]),
        ("1 1:" + "9" * 5000 + "x", 5, ["found '" + "9" * 60 + "'..."]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_name_the_place(line, column, words, n_jobs):
    before = "1 1:2 # fine\n# comment\n\n" * 30
    for cut in ({}, {"piece_bytes": 1}, {"block_bytes": 16, "piece_bytes": 64}):
        error = fails(f"{before}{line}\n1 1:y\n", n_jobs=n_jobs, qid="ignore", **cut)
        if "qid" in line:
            error = fails(before + line + "\n" if "1:1 qid" in line else line + "\n", n_jobs=n_jobs)
            assert error.column == column
        else:
            assert (error.line, error.column) == (91, column)
        for word in words:
            assert word in str(error)
        assert str(error).startswith(f"<BytesIO>, line {error.line}, column {column}: found ")


def test_ids_on_some_lines_only():
    for cut in ({}, {"piece_bytes": 1}, {"block_bytes": 1}):
        error = fails("1 qid:1 1:2\n" * 50 + "1 1:2\n1 x\n", **cut)
        assert (error.line, error.column) == (51, 3)
        assert "found '1:2', expected 'qid:', as on the lines before" in str(error)
        error = fails("1 1:2\n" * 50 + "1 qid:1 1:2\n1 x\n", **cut)
        assert (error.line, error.column) == (51, 3)
        assert "expected no 'qid:'" in str(error)


def test_the_first_bad_line_is_reported():
    lines = ["1 1:2"] * 10_000
    for bad in (9_999, 7_000, 250, 3):
        lines[bad - 1] = "1 1:x"
        for n_jobs in (1, 2, 5):
            error = fails("\n".join(lines), n_jobs=n_jobs, piece_bytes=700, block_bytes=9_000)
            assert error.line == bad


def test_files_without_items(tmp_path):
    assert "is empty" in str(fails(""))
    assert "is empty" in str(fails(gzip.compress(b"")))
    assert "2 lines, all of them blank or comments" in str(fails("# nothing\n\n"))
    (tmp_path / "a").write_text(TEXT)
    (tmp_path / "b").touch()
    with pytest.raises(LetorError, match="b is empty"):
        load_letor([tmp_path / "a", tmp_path / "b"])


def test_not_text():
    error = fails(b"1 1:2\n\0\0\0\x01\0\n")
    assert error.line == 2
    assert "not a text file" in str(error)
    assert fails(b"1 1:2 # a\0b\n").column == 10
    assert "UTF-8" in str(fails(b"1 qid:\xff 1:2\n"))


def test_a_last_line_that_was_cut():
    full = "1 qid:1 1:2 2:3\n" * 5
    for last, message in [
        ("1 qid:", "1 to 1024"),
        ("1 qid:1 1:", "after the colon"),
        ("1 q", "qid"),
    ]:
        error = fails(full + last)
        assert message in str(error)
        assert "may be truncated" in str(error)
        assert "truncated" not in str(fails(full + last + "\n"))
    with pytest.warns(UserWarning, match="1 features, while all others have 2; the file may"):
        assert load(full + "1 qid:1 1:2").n_items == 6
    load(full + "1 qid:1 1:2\n")  # its line end says that it is whole
    load(full + "1 qid:1 1:2 2:3")
    load(full + "1 qid:1 1:2\n" + "1 qid:1 1:2", dense=True)  # lines differ anyway


def test_errors_can_be_pickled():
    error = fails("1 1:x\n")
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error)
    assert (type(back), back.line, back.column) == (LetorError, 1, 5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"missing": "drop"}, "missing must be one of 'error', 'nan', 'zero'; got 'drop'"),
        ({"unsorted": "keep"}, "unsorted must be"),
        ({"duplicates": "first"}, "duplicates must be"),
        ({"qid": "none"}, "qid must be"),
        ({"dense": "yes"}, "dense must be"),
        ({"dtype": np.int32}, "dtype must be float64 or float32"),
        ({"n_features": -1}, "n_features must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        load(TEXT, **options)


def test_a_very_long_line():
    n = 300_000
    text = "1 " + " ".join(f"{i}:1" for i in range(1, n)) + "\n"
    data = load("0 1:1\n" + text + "2 1:1\n", block_bytes=1000)
    assert data.X.shape == (3, n - 1)
    assert data.X[1].sum() == n - 1
    error = fails("0 1:1\n" + text[:-1] + "x\n", block_bytes=1000)
    assert (error.line, error.column) == (2, len(text) - 1)
    assert "found 'y" in str(fails("y" * 3_000_000, block_bytes=1000))


# --- Real files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["MQ2008/S1", "OHSUMED/S3", "cadata/cadata"])
def test_real_files_as_scikit_learn_reads_them(data_directory, name):
    path = data_directory / f"{name}.txt.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    data = load_letor(path)
    expected = load_svmlight_file(path, query_id=data.qid is not None)
    assert isinstance(data.X, np.ndarray)
    np.testing.assert_array_equal(data.X, expected[0].toarray())
    np.testing.assert_array_equal(data.y, expected[1])
    if data.qid is not None:
        np.testing.assert_array_equal(data.qid, expected[2])
        assert all(isinstance(docid, str) for docid in data.docids)


# --- Writing --------------------------------------------------------------------------------------

FINITE = {"allow_nan": False, "allow_infinity": False}
ID_CHARACTERS = st.characters(exclude_characters=" #:\x7f", exclude_categories=("Cs", "Cc"))
IDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(ID_CHARACTERS, min_size=1))
COMMENTS = st.one_of(st.none(), st.text(st.characters(exclude_characters="\n\r\0")))


@st.composite
def sets(draw: st.DrawFn):
    shape = (draw(st.integers(1, 6)), draw(st.integers(0, 5)))
    dtype, width = draw(st.sampled_from([(np.float64, 64), (np.float32, 32)]))
    values = draw(hnp.arrays(dtype, shape, elements=st.floats(width=width, **FINITE)))
    y = draw(hnp.arrays(np.float64, shape[0], elements=st.floats(**FINITE)))
    kind = draw(st.sampled_from([None, int, str]))
    qid = None
    if kind is not None:
        ids = IDS.filter(lambda i: isinstance(i, kind))
        qid = draw(st.lists(ids, min_size=shape[0], max_size=shape[0]))
    comments = draw(st.none() | st.lists(COMMENTS, min_size=shape[0], max_size=shape[0]))
    return values, y, qid, comments


@given(sets(), st.booleans(), st.sampled_from(["auto", True, False]), st.booleans())
def test_what_is_written_reads_back_bit_for_bit(data, zero_based, zeros, sparse):
    values, y, qid, comments = data
    out = io.BytesIO()
    matrix = sp.csr_array(values) if sparse else values
    save_letor(out, matrix, y, qid, comments=comments, zero_based=zero_based, zeros=zeros)
    out.seek(0)
    back = load_letor(
        out,
        n_features=values.shape[1],
        zero_based=zero_based,
        dtype=values.dtype,
        dense=True,
    )
    if sparse:
        np.testing.assert_array_equal(back.X, values)  # without the sign of zeros
    else:
        assert back.X.tobytes() == values.tobytes()
    assert back.y.tobytes() == y.tobytes()
    if qid is None:
        assert back.qid is None
    else:
        assert [str(i) for i in back.qid.tolist()] == [str(i) for i in qid]
    if comments is None or set(comments) == {None}:
        assert back.comments is None
    else:
        assert list(back.comments) == comments


def saved(*args, **options) -> str:
    out = io.BytesIO()
    save_letor(out, *args, **options)
    return out.getvalue().decode()


def test_the_text_that_is_written():
    assert saved(X, [2, 0, 1], [10, 10, 9], comments=["a", None, ""]) == (
        "2 qid:10 1:0.5 2:0 3:-0.00125 #a\n0 qid:10 1:1 2:7 3:0.5\n1 qid:9 1:3 2:2 3:100 #\n"
    )
    assert saved([[0.0, 1.5]], [0.25], zeros=False) == "0.25 2:1.5\n"
    assert saved(sp.csr_array([[0.0, 1.5]]), [0.25]) == "0.25 2:1.5\n"
    assert saved(sp.coo_array([[0.0, 1.5]]), [0.25], zeros=True) == "0.25 1:0 2:1.5\n"
    assert saved([[0.0, 1.5]], [1], zero_based=True) == "1 0:0 1:1.5\n"
    assert saved(np.array([[0.1]], dtype=np.float32), [1]) == "1 1:0.1\n"
    assert saved(np.array([[True, False]]), [1]) == "1 1:1 2:0\n"
    assert saved(np.asfortranarray(X), [2, 0, 1]) == saved(X, [2, 0, 1])
    assert saved([[1.0]], [1], np.array([2**64 - 1], dtype=np.uint64)).startswith(
        "1 qid:18446744073709551615 "
    )
    assert saved([[1.0]], [1], [3.0]) == "1 qid:3 1:1\n"
    assert saved([[np.nan]], [1], missing="NULL") == "1 1:NULL\n"
    assert saved([[np.nan]], [1], missing="nan") == "1 1:nan\n"


def test_sparse_matrices_in_disorder():
    matrix = sp.csr_array(
        (np.array([1.0, 2.0, 3.0, 0.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    assert saved(matrix, [1, 2]) == "1 1:2 3:4\n2\n"
    assert matrix.indices.tolist() == [2, 0, 2, 1]  # the argument is left alone


def test_many_blocks_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr("ranksvm.data.svmlight_writer._BLOCK_ENTRIES", 50)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((300, 7)) * (rng.random((300, 7)) < 0.5)
    y, qid = np.arange(300.0), [f"q{i // 11}" for i in range(300)]
    comments = [None if i % 3 else str(i) for i in range(300)]
    for matrix in (values, sp.csr_array(values)):
        save_letor(tmp_path / "file", matrix, y, qid, comments=comments, n_jobs=2)
        back = load_letor(tmp_path / "file", dense=True)
        np.testing.assert_array_equal(back.X, values)
        np.testing.assert_array_equal(back.y, y)
        assert back.qid.tolist() == qid
        assert list(back.comments) == comments


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [
        ("", b"2 "),
        (".gz", b"\x1f\x8b"),
        (".bz2", b"BZh"),
        (".xz", b"\xfd7z"),
        (".zst", b"\x28\xb5"),
    ],
)
def test_targets(tmp_path, suffix, magic):
    path = tmp_path / f"file.txt{suffix}"
    data = load(TEXT)
    for _ in range(2):
        save_letor(path, data.X, data.y, data.qid, comments=data.comments)
        check(load_letor(path))
    assert path.read_bytes().startswith(magic)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if suffix == ".gz":
        again = tmp_path / "other.gz"
        save_letor(again, data.X, data.y, data.qid, comments=data.comments)
        assert again.read_bytes() == path.read_bytes()  # neither name nor time in it


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_targets_that_are_compressed_in_pieces(tmp_path, suffix):
    values = np.random.default_rng(0).standard_normal((1500, 20))
    text = io.BytesIO()
    save_letor(text, values, np.zeros(1500))
    pieces, rest = divmod(len(text.getvalue()), targets._PIECE_BYTES)
    assert pieces >= 2
    assert rest > 0
    path = tmp_path / f"file{suffix}"
    save_letor(path, values, np.zeros(1500))
    unpack = {
        "": bytes,
        ".gz": gzip.decompress,
        ".bz2": bz2.decompress,
        ".xz": lzma.decompress,
        ".zst": unzstd,
    }
    assert unpack[suffix](path.read_bytes()) == text.getvalue()
    np.testing.assert_array_equal(load_letor(path).X, values)


def test_file_objects_as_targets(tmp_path, capfd):
    out = io.StringIO()
    save_letor(out, [[1.0]], [2])
    assert out.getvalue() == "2 1:1\n"
    save_letor("-", [[1.0]], [3])
    assert capfd.readouterr().out == "3 1:1\n"
    with (tmp_path / "file").open("w", encoding="utf-8") as file:
        save_letor(file, [[1.0]], [2], comments=["é"])
    assert (tmp_path / "file").read_text(encoding="utf-8") == "2 1:1 #é\n"
    with pytest.raises(TypeError, match="target must be"):
        save_letor(3, [[1.0]], [2])


@pytest.mark.parametrize(
    ("args", "options", "match"),
    [
        (([[1.0]], [1, 2]), {}, "X must have one row per label; got 1 for 2"),
        ((sp.csr_array([[1.0]]), [1, 2]), {}, "X must have one row per label; got 1 for 2"),
        (([1.0], [1]), {}, "X must be two-dimensional"),
        (([[1.0]], [[1]]), {}, "y must be one-dimensional"),
        ((np.empty((0, 2)), []), {}, "no items"),
        (([["a"]], [1]), {}, "X must hold real numbers"),
        (([[1.0]], ["a"]), {}, "y must hold real numbers"),
        (([[2**53 + 1]], [1]), {}, "9007199254740993, which float64 cannot represent"),
        (([[1.0], [np.inf]], [1, 2]), {}, "infinite value in row 1, column 0"),
        (([[1.0, np.nan]], [1]), {}, "NaN in row 0, column 1. Use missing='nan'"),
        ((sp.csr_array([[0, 1.0], [0, np.nan]]), [1, 2]), {}, "NaN in row 1, column 1"),
        (([[1.0]], [np.nan]), {}, "y must be finite; got nan in row 0"),
        (([[1.0]], [1], [1, 2]), {}, "qid must have one row per label; got 2 for 1"),
        (
            ([[1.0]], [1], [1.5]),
            {},
            "qid must hold whole numbers, strings.*got the float 1.5 in row 0",
        ),
        (([[1.0]], [1], ["a b"]), {}, "got 'a b' in row 0"),
        (([[1.0]], [1], ["a#"]), {}, "got 'a#' in row 0"),
        (([[1.0]], [1], ["a:b"]), {}, "got 'a:b' in row 0"),
        (([[1.0]], [1], [""]), {}, "got '' in row 0"),
        (([[1.0]], [1], [None]), {}, "got None in row 0"),
        (([[1.0]], [1], ["x" * 1025]), {}, "1 to 1024 bytes"),
        (([[1.0]], [1]), {"comments": ["a\nb"]}, "contains a line ending"),
        (([[1.0]], [1]), {"comments": ["a\r"]}, "contains a line ending"),
        (([[1.0]], [1]), {"comments": [3]}, "strings or None; got 3 in row 0"),
        (([[1.0]], [1]), {"comments": ["a", "b"]}, "comments must have one row per label"),
        (([[1.0]], [1]), {"comments": "a"}, "got a string"),
        (([[1.0]], [1]), {"missing": "zero"}, "missing must be"),
        (([[1.0]], [1]), {"zeros": "no"}, "zeros must be"),
    ],
)
def test_what_cannot_be_written(tmp_path, args, options, match):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ValueError, match=match):
        save_letor(path, *args, **options)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
