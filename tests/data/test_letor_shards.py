"""LETOR text by way of a cache: the same as in memory, killed, full, changed, damaged."""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import lzma
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksvm.data import LetorError, RankingData, letor_cache, letor_parts, load_letor, save_letor
from ranksvm.data.letor_cache import MANIFEST, SUFFIX, cache_folder
from ranksvm.data.shard_files import open_files
from ranksvm.data.streams import FileFormatError
from ranksvm.datasets import make_ranking
from ranksvm.learners.linear import LinearProblem, LinearSettings

SETTINGS = LinearSettings(C=20.0, tol=1e-9)
# Small enough for several parts and shards of the texts here.
BUDGET = 1_500_000
GATHERED = 2_100_000  # without query ids


def rows_of(data: RankingData) -> np.ndarray:
    found = data.X[np.arange(data.n_items)]
    return found.toarray() if sp.issparse(found) else found


def same(data: RankingData, memory: RankingData, *, is_random: bool = False) -> None:
    """Assert that the data from the cache is the data in memory, and so is the fit.

    On random data, a fit may need a smaller tolerance than here for equal coefficients: then their
    distance is only bounded by the gaps.
    """
    X = memory.X.toarray() if sp.issparse(memory.X) else memory.X
    np.testing.assert_array_equal(rows_of(data), X)
    assert data.X.dtype == X.dtype
    assert data.X.shards.is_sparse == sp.issparse(memory.X)
    np.testing.assert_array_equal(data.y, memory.y)
    if memory.qid is None:
        assert data.qid is None
    else:
        assert data.groups.ids[data.groups.index].tolist() == memory.qid.tolist()
    fit, expected = LinearProblem(data, SETTINGS).solve(), LinearProblem(memory, SETTINGS).solve()
    assert fit.objective == pytest.approx(expected.objective, rel=1e-11)
    off = 1e-10 * np.abs(expected.coef).max(initial=0.0)
    if is_random:  # F(w) - F(optimum) is at least half of the squared distance
        off += np.sqrt(2.0 * fit.gap) + np.sqrt(2.0 * expected.gap)
    np.testing.assert_allclose(fit.coef, expected.coef, rtol=0.0, atol=off)


def parts_of(path: Path) -> list[Path]:
    return sorted(Path(cache_folder(str(path), None)).glob("part-*.bin"))


@pytest.fixture(scope="module")
def ranking() -> RankingData:
    X, y, qid, _ = make_ranking(150, (5, 40), 20, random_state=0)
    return RankingData(X, y, qid)


@pytest.fixture
def text(tmp_path, ranking) -> Path:
    path = tmp_path / "train.txt"
    save_letor(path, *ranking)
    return path


# --- The same as in memory -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_text_is_as_in_memory(text, dtype):
    memory = load_letor(text, dtype=dtype)
    data = open_files(text, memory_budget=BUDGET, dtype=dtype)
    assert len(parts_of(text)) > 2
    assert len(data.X.shards.sizes) > 2
    same(data, memory)
    same(open_files(text, memory_budget="20MB", dtype=dtype), memory)  # other cuts, same cache
    assert data.origin.zero_based is False


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_compressed_text(tmp_path, ranking, suffix):
    path = tmp_path / f"train.txt{suffix}"
    some = ranking.take(np.arange(1000))
    save_letor(path, some.X, some.y, [f"q{i}" for i in some.qid])
    told = []
    data = open_files(path, memory_budget=500_000, cache_progress=lambda *args: told.append(args))
    assert len(parts_of(path)) > 1
    same(data, load_letor(path))
    assert told[-1] == (path.stat().st_size,) * 2
    assert told == sorted(told)


@st.composite
def texts(draw) -> tuple[str, bool]:
    """LETOR text, and whether its lines have query ids."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(3, 60))
    has_ids = draw(st.booleans())
    width = draw(st.sampled_from([1, 3, 400]))
    density = draw(st.sampled_from([0.02, 0.5, 1.0]))
    as_text = draw(st.booleans())
    lines = []
    for row in range(n):
        columns = np.flatnonzero(rng.random(width) < density)
        words = [str(rng.integers(0, 3) if row > 1 else row)]
        if has_ids:
            number = 7 if row < 2 else int(rng.integers(7, 12))
            # Some parts have only whole numbers as ids, others do not.
            words.append(f"qid:{'é' if as_text and row > n // 2 else ''}{number}")
        words += [f"{j + 1}:{rng.normal():.5g}" for j in columns]
        words += ["1:0"] if not columns.size and rng.random() < 0.5 else []
        lines.append(" ".join(words) + (" # note" if rng.random() < 0.1 else ""))
        lines += [""] if rng.random() < 0.1 else []
    return "\n".join(lines) + "\n", has_ids


@settings(max_examples=20)
@given(case=texts(), budget=st.sampled_from([200_000, 10**6]), files=st.integers(1, 3))
def test_random_texts_are_as_in_memory(case, budget, files, tmp_path_factory):
    content, _ = case
    folder = tmp_path_factory.mktemp("set")
    whole = folder / "whole.txt"
    whole.write_text(content, encoding="utf-8")
    memory = load_letor(whole)
    lines = content.splitlines(keepends=True)
    paths = []
    for k in range(files):
        some = lines[k * len(lines) // files : (k + 1) * len(lines) // files]
        if any(line.strip() for line in some):
            paths.append(folder / f"{k}.txt")
            paths[-1].write_text("".join(some), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor_parts, "_LEAST_BLOCK", 300)
        patch.setattr(letor_parts, "block_size", lambda _: 300)
        data = open_files(paths, memory_budget=budget)
    assert data.n_features == memory.n_features
    same(data, memory, is_random=True)


def test_sparse_text(tmp_path):
    X, y, qid, _ = make_ranking(200, (5, 40), 400, density=0.05, random_state=0)
    path = tmp_path / "sparse.txt"
    save_letor(path, X, y, qid)
    memory = load_letor(path)
    assert sp.issparse(memory.X)
    data = open_files(path, memory_budget=BUDGET)
    shards = data.X.shards
    assert len(shards.sizes) > 3
    for shard in shards._shards:
        X = shard.X
        assert X.data.nbytes + X.indices.nbytes + X.indptr.nbytes <= BUDGET / 16 + 8
    inner = shards.starts[1:-1]
    assert (memory.qid[inner] != memory.qid[inner - 1]).all()
    same(data, memory)


def test_parts_of_both_kinds_in_one_set(tmp_path):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(300, 30))
    thin = np.where(rng.random((2000, 30)) < 0.02, rng.normal(size=(2000, 30)), 0.0)
    for name, X in (
        ("sparse", np.vstack([thin, dense[:150]])),
        ("dense", np.vstack([dense, thin[:300]])),
    ):
        y, qid = rng.integers(0, 3, len(X)), np.arange(len(X)) // 10
        path = tmp_path / f"{name}.txt"
        save_letor(path, sp.csr_array(X), y, qid)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor_parts, "_LEAST_BLOCK", 4000)
            data = open_files(path, memory_budget=250_000)
        kinds = {"x" in part.header["arrays"] for part in _source(data)._parts}
        assert kinds == {True, False}
        memory = load_letor(path)
        assert sp.issparse(memory.X) == (name == "sparse")
        same(data, memory)


def _source(data: RankingData):
    return data.X.shards._shards[0].rows.load._source


def test_several_texts_and_a_folder(tmp_path, ranking):
    for k, rows in enumerate(np.array_split(np.arange(ranking.n_items), 3)):
        save_letor(tmp_path / f"part{k}.txt", *ranking.take(rows))
    data = open_files(tmp_path, memory_budget=BUDGET)
    same(data, ranking)
    assert sum(one.name.endswith(SUFFIX) for one in tmp_path.iterdir()) == 3
    again = open_files(tmp_path, memory_budget=BUDGET)  # caches are not taken for data
    assert again.n_items == data.n_items


def test_weights_ids_and_labels_can_be_left_out(text, ranking, tmp_path):
    weight = np.arange(ranking.n_items) % 3 + 1.0
    np.save(tmp_path / "w.npy", weight)
    data = open_files(text, y=None, qid=None, sample_weight=tmp_path / "w.npy")
    assert data.y is None
    assert data.qid is None
    np.testing.assert_array_equal(data.item_weight, weight)
    with pytest.raises(ValueError, match="qid cannot be given for LETOR text, which has its own"):
        open_files(text, qid=ranking.qid)


def some_ids(lines: list[str]) -> list[str]:
    """Remove the query ids of some lines."""
    return [re.sub(r" qid:\S+", "", line) if k % 3 else line for k, line in enumerate(lines)]


@pytest.mark.parametrize("files", [1, 2])
def test_ids_of_some_lines_can_be_ignored(text, files, tmp_path):
    """As ``qid="ignore"`` in memory."""
    lines = text.read_text().splitlines(keepends=True)
    lines[6] = lines[6].replace("qid:", "qid::")
    paths = [tmp_path / f"some{k}.txt" for k in range(files)]
    for k, path in enumerate(paths):
        part = lines[k * 1000 :] if k == files - 1 else lines[:1000]
        path.write_text("".join(some_ids(part) if k == 0 else part))
    with pytest.raises(LetorError, match=r"line 2, .*expected 'qid:', as .*, or use qid=None for"):
        open_files(paths, memory_budget=GATHERED)
    interrupted(paths[0], 1, memory_budget=GATHERED, qid=None)
    data = open_files(paths, memory_budget=GATHERED, qid=None)
    assert len(parts_of(paths[0])) > 1
    same(data, load_letor(paths, qid="ignore"))
    with pytest.raises(FileFormatError, match=r"without query ids, because some lines of .*some"):
        open_files(paths, memory_budget=GATHERED)


@pytest.mark.parametrize("first", [None, "qid"])
def test_ids_that_are_ignored_are_kept(text, ranking, monkeypatch, first):
    """One cache serves fits with and without ids, whichever comes first."""
    interrupted(text, 1, memory_budget=GATHERED, qid=first)
    open_files(text, memory_budget=GATHERED, qid=first)
    monkeypatch.setattr(letor_cache, "parse", None)
    same(open_files(text, memory_budget=GATHERED), ranking)
    same(open_files(text, memory_budget=GATHERED, qid=None), RankingData(ranking.X, ranking.y))


def test_types(text, ranking):
    data = open_files(text, memory_budget=BUDGET, dtype=np.float32)
    assert data.X.dtype == np.float32
    same(data, load_letor(text, dtype=np.float32))
    same(
        open_files(text, memory_budget=BUDGET, dtype=np.dtype("float32")),
        load_letor(text, dtype="f4"),
    )


def test_text_without_features(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("1 qid:1\n0 qid:1\n")
    with pytest.raises(ValueError, match=r"t.txt has labels and ids but no features \(index:value"):
        open_files(path)
    assert open_files(path, n_features=3).n_features == 3


def test_number_of_features(text, ranking):
    data = open_files(text, memory_budget=BUDGET, n_features=25)
    assert data.n_features == 25
    np.testing.assert_array_equal(rows_of(data)[:, :20], ranking.X)
    assert not rows_of(data)[:, 20:].any()
    with pytest.raises(ValueError, match=r"has 20 features, more than n_features=19"):
        open_files(text, n_features=19)


def test_options_of_the_text(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("1 qid:1 0:1 2:NaN\n0 qid:1 0:2 2:4\n")
    with pytest.raises(LetorError, match=r"t.txt, line 1, column 9: found '0:1', expected indices"):
        open_files(path)
    assert not Path(cache_folder(str(path), None)).exists()
    options = {"zero_based": True, "missing": "zero"}
    data = open_files(path, letor_options=options)
    assert rows_of(data).tolist() == [[1.0, 0.0, 0.0], [2.0, 0.0, 4.0]]
    assert data.origin.zero_based
    with pytest.raises(FileFormatError, match=r"was made with other options for the text\. Delete"):
        open_files(path, letor_options={"zero_based": True})
    for name in ("comments", "qid"):
        with pytest.raises(TypeError, match=f"LETOR text has no option '{name}'"):
            open_files(path, letor_options={name: "ignore"})
    with pytest.raises(ValueError, match=r"t.txt, item 1, feature 2: found nan"):
        rows_of(
            open_files(
                path,
                cache=tmp_path / "other",
                letor_options={"zero_based": True, "missing": "nan"},
            )
        )


def test_where_the_cache_is(text, tmp_path, ranking):
    other = tmp_path / "a" / "b"
    same(open_files(text, cache=other, memory_budget=BUDGET), ranking)
    assert not Path(cache_folder(str(text), None)).exists()
    (folder,) = other.iterdir()
    assert re.fullmatch(rf"train\.txt-[0-9a-f]{{8}}{re.escape(SUFFIX)}", folder.name)
    moved = tmp_path / "moved" / "train.txt"
    moved.parent.mkdir()
    shutil.copy(text, moved)
    open_files(moved, cache=other, memory_budget=BUDGET)
    assert len(list(other.iterdir())) == 2  # the same name, but another text


def test_the_text_is_read_once(text, ranking, monkeypatch):
    open_files(text, memory_budget=BUDGET)
    monkeypatch.setattr(letor_parts, "text_blocks", None)
    same(open_files(text, memory_budget=BUDGET), ranking)


# --- Bad text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 qid:3 1:x", "line 2001, column 11: found 'x', expected a number as the value"),
        ("1 1:3", "line 2001, column 3: found '1:3', expected 'qid:', as on the lines before"),
        ("1 qid:3 1:\x00", "line 2001, column 11: found a NUL byte"),
    ],
)
def test_errors_name_the_line_of_the_file(tmp_path, line, message):
    path = tmp_path / "t.txt"
    good = ["0 qid:1 1:0.123456789 2:0.1"] * 2000
    path.write_text("\n".join([*good, line, *good]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor_parts, "_LEAST_BLOCK", 5000)
        with pytest.raises(LetorError) as info:
            open_files(path, memory_budget=100_000)
    assert message in str(info.value)
    assert str(info.value).startswith(f"{path}, line 2001")
    assert [one.name for one in tmp_path.iterdir()] == ["t.txt"]  # no cache of a bad text


def test_ids_that_appear_late(tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    lines = ["0 1:0.123456789 2:0.1"] * 3000 + ["0 qid:1 1:1"]
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(letor_parts, "_LEAST_BLOCK", 5000)
    with pytest.raises(LetorError, match=r"line 3001, column 3: found 'qid:1', expected no 'qid:'"):
        open_files(path, memory_budget=1_000_000)
    (tmp_path / "u.txt").write_text("0 qid:1 1:1\n1 qid:1 1:2\n")
    path.write_text("0 1:1\n")
    with pytest.raises(
        LetorError, match=r"u.txt has query ids, unlike .*t.txt.* or use qid=None for"
    ):
        open_files([path, tmp_path / "u.txt"])


@pytest.mark.parametrize("content", ["", "# only a comment\n\n"])
def test_text_without_items(tmp_path, content):
    path = tmp_path / "t.txt"
    path.write_text(content)
    with pytest.raises(LetorError, match=r"is empty|has 2 lines, all of them blank or comments"):
        open_files(path)
    assert [one.name for one in tmp_path.iterdir()] == ["t.txt"]


def test_a_last_line_that_may_be_cut(tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    path.write_text("\n".join(["0 qid:1 1:1 2:3"] * 2000 + ["1 qid:1 1:1"]))
    monkeypatch.setattr(letor_parts, "_LEAST_BLOCK", 5000)
    with pytest.warns(UserWarning, match="has no line ending and 1 features, while all others"):
        data = open_files(path, memory_budget=1_000_000)
    assert len(parts_of(path)) > 1
    assert data.n_items == 2001


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_truncated_archives(tmp_path, pack):
    path = tmp_path / "t.txt.z"
    content = pack("".join(f"0 qid:1 1:{k}\n" for k in range(20_000)).encode())
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(FileFormatError, match=r"t.txt.z is truncated"):
        open_files(path)
    assert [one.name for one in tmp_path.iterdir()] == ["t.txt.z"]


# --- Caches that cannot be trusted ---------------------------------------------------------------


@pytest.mark.parametrize("harm", ["grow", "touch"])
def test_a_changed_text_is_refused(text, ranking, harm):
    open_files(text, memory_budget=BUDGET)
    if harm == "grow":
        with open(text, "a") as file:
            file.write("1 qid:1 1:2\n")
    else:
        os.utime(text, ns=(1, 1))
    folder = cache_folder(str(text), None)
    with pytest.raises(FileFormatError, match="was made from another version of ") as info:
        open_files(text, memory_budget=BUDGET)
    assert str(info.value).startswith(folder)
    assert "Delete this folder" in str(info.value)
    assert "with cache" in str(info.value)
    shutil.rmtree(folder)
    data = open_files(text, memory_budget=BUDGET)
    assert data.n_items == ranking.n_items + (harm == "grow")


def test_another_type_or_version_is_refused(text, monkeypatch):
    open_files(text, memory_budget=BUDGET)
    with pytest.raises(FileFormatError, match=r"holds float64, not float32\. Delete this folder"):
        open_files(text, memory_budget=BUDGET, dtype="float32")
    monkeypatch.setattr(letor_cache, "VERSION", 3)
    with pytest.raises(FileFormatError, match="has the format 2, and this version of ranksvm wr"):
        open_files(text, memory_budget=BUDGET)


@pytest.mark.parametrize(
    "harm", ["shorten", "remove", "overwrite", "header", "manifest", "parts", "not json"]
)
def test_damage_is_found(text, harm):
    open_files(text, memory_budget=BUDGET)
    part = parts_of(text)[1]
    manifest = part.with_name(MANIFEST)
    if harm == "shorten":
        os.truncate(part, part.stat().st_size - 64)
    elif harm == "remove":
        part.unlink()
    elif harm == "overwrite":
        part.write_bytes(bytes(part.stat().st_size))
    elif harm == "header":
        part.write_bytes(part.read_bytes().replace(b'"width": 20', b'"width": 19', 1))
    elif harm in ("manifest", "parts"):
        content = json.loads(manifest.read_text())
        if harm == "manifest":
            del content["size"]
        else:
            content["parts"] = None
        manifest.write_text(json.dumps(content))
    else:
        manifest.write_text("{")
    with pytest.raises(FileFormatError, match=r"is damaged.* Delete this folder"):
        open_files(text, memory_budget=BUDGET)


# Arrays of the parts of a dense and of a sparse text; which of them are read when it is opened.
ARRAYS = [("dense", name) for name in ("x", "y", "qid", "ids")] + [
    ("sparse", name) for name in ("values", "indices", "indptr")
]
READ_AT_ONCE = {"y", "qid", "ids", "indptr"}


@pytest.mark.parametrize(("kind", "name"), ARRAYS)
def test_damaged_values_are_refused(tmp_path, ranking, kind, name):
    """A single bit, in a file whose size and time are as before."""
    path = tmp_path / "t.txt"
    X = ranking.X if kind == "dense" else sp.csr_array(np.where(ranking.X > 0.9, ranking.X, 0.0))
    save_letor(path, X, ranking.y, [f"q{i}" for i in ranking.qid])
    data = open_files(path, memory_budget=BUDGET)
    assert data.X.shards.is_sparse == (kind == "sparse")
    known = rows_of(data)
    part = _source(data)._parts[-1]
    dtype, size, offset, _ = part.header["arrays"][name]
    content = bytearray(Path(part.path).read_bytes())
    content[offset + np.dtype(dtype).itemsize * size - 1] ^= 1
    Path(part.path).write_bytes(content)
    os.utime(part.path, ns=(1, part.stamp.mtime_ns))
    if name in READ_AT_ONCE:
        with pytest.raises(FileFormatError) as info:
            open_files(path, memory_budget=BUDGET)
    else:
        damaged = open_files(path, memory_budget=BUDGET)
        with pytest.raises(FileFormatError) as info:
            rows_of(damaged)
    folder = cache_folder(str(path), None)
    assert str(info.value) == (
        f"{part.path} is damaged: its checksum is wrong. Check the disk, and delete the folder "
        f"{folder} to have the cache made again"
    )
    shutil.rmtree(folder)
    np.testing.assert_array_equal(rows_of(open_files(path, memory_budget=BUDGET)), known)


def test_values_are_compared_once_in_a_process(text, ranking, monkeypatch):
    data = open_files(text, memory_budget=BUDGET)
    data.X.shards._allowance.left = 0.0
    compared = []
    usual = letor_cache.Part._compare

    def compare(self, name, *checksums):
        compared.append((self.path, name))
        usual(self, name, *checksums)

    monkeypatch.setattr(letor_cache.Part, "_compare", compare)
    for _ in range(2):
        np.testing.assert_array_equal(rows_of(data), ranking.X)
        assert sorted(compared) == [(str(part), "x") for part in parts_of(text)]
    there = pickle.loads(pickle.dumps(_source(data)))  # as another process has it
    np.testing.assert_array_equal(there.read(0, ranking.n_items), ranking.X)
    assert len(compared) == 2 * len(parts_of(text))


def test_parts_in_another_order_are_refused(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("".join(f"{k % 3} qid:{k // 5} 1:0.{k:06d}\n" for k in range(20_000)))
    open_files(path, memory_budget=1_500_000)
    first, second = parts_of(path)[:2]
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    with pytest.raises(FileFormatError, match=r"is damaged: part-000000.bin is missing or has cha"):
        open_files(path, memory_budget=1_500_000)


def replaced(path: Path, *, by_rename: bool = True) -> None:
    """Replace a text by another one of the same size and time of modification."""
    time = path.stat().st_mtime_ns
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    other = b"".join([lines[1], lines[0], *lines[2:]])
    assert len(other) == len(content)
    assert other != content
    new = path.with_name("new") if by_rename else path
    new.write_bytes(other)
    os.utime(new, ns=(time, time))
    os.replace(new, path)


@pytest.mark.parametrize("by_rename", [True, False])
def test_another_text_of_the_same_size_and_time_is_refused(text, by_rename):
    open_files(text, memory_budget=BUDGET)
    replaced(text, by_rename=by_rename)
    with pytest.raises(FileFormatError, match=r"was made from another version of .*Delete this"):
        open_files(text, memory_budget=BUDGET)


@pytest.mark.parametrize("parts", [2, "all"])
def test_parts_of_another_text_of_the_same_size_and_time_are_not_used(text, monkeypatch, parts):
    if parts == "all":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor_cache.LetorCache, "_write_manifest", lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                open_files(text, memory_budget=BUDGET)
    else:
        interrupted(text, parts, memory_budget=BUDGET)
    assert parts_of(text)
    replaced(text)
    same(open_files(text, memory_budget=BUDGET), load_letor(text))


def test_all_parts_without_a_manifest_are_used(text, ranking, monkeypatch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor_cache.LetorCache, "_write_manifest", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            open_files(text, memory_budget=BUDGET)
    monkeypatch.setattr(letor_cache, "parse", None)
    same(open_files(text, memory_budget=BUDGET), ranking)


def test_a_copy_of_the_text_is_as_good(text, ranking, monkeypatch):
    open_files(text, memory_budget=BUDGET)
    copy = text.with_name("copy")
    shutil.copy2(text, copy)
    os.replace(copy, text)
    monkeypatch.setattr(letor_cache, "parse", None)
    same(open_files(text, memory_budget=BUDGET), ranking)
    monkeypatch.setattr(letor_cache, "text_checksum", None)  # once
    same(open_files(text, memory_budget=BUDGET), ranking)


def test_a_part_that_changes_between_passes(text):
    data = open_files(text, memory_budget=BUDGET)
    os.truncate(parts_of(text)[1], 5000)
    with pytest.raises(FileFormatError, match=r"part-000001\.bin has changed since it was opened"):
        rows_of(data)
    parts_of(text)[1].unlink()
    with pytest.raises(FileNotFoundError, match=r"part-000001\.bin"):
        rows_of(data)


def test_a_text_that_changes_during_the_conversion(text, tmp_path):
    def change(done, total):
        os.utime(text, ns=(1, 1))

    with pytest.raises(FileFormatError, match=r"train.txt has changed since it was opened"):
        open_files(text, memory_budget=BUDGET, cache_progress=change)
    assert [one.name for one in tmp_path.iterdir()] == ["train.txt"]


def test_one_process_at_a_time(text, ranking):
    folder = Path(cache_folder(str(text), None))
    folder.mkdir()
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="another process is making this cache"):
            open_files(text, memory_budget=BUDGET)
    finally:
        os.close(descriptor)
    same(open_files(text, memory_budget=BUDGET), ranking)


@pytest.mark.parametrize("when", ["opened", "locked"])
def test_a_folder_that_another_process_removes(text, ranking, monkeypatch, when):
    """Another conversion fails and removes its folder, just when this one begins."""
    folder = Path(cache_folder(str(text), None))
    usual = letor_cache.try_lock
    tries = []

    def remove():
        if not tries:
            folder.rmdir()
        tries.append(when)

    def lock(descriptor):
        remove()
        return usual(descriptor)

    if when == "locked":
        monkeypatch.setattr(letor_cache, "try_lock", lock)
    else:
        makedirs = os.makedirs

        def make(path, **options):
            makedirs(path, **options)
            remove()

        monkeypatch.setattr(letor_cache.os, "makedirs", make)
    same(open_files(text, memory_budget=BUDGET), ranking)
    assert len(tries) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_several_processes_at_once(text, ranking):
    """Each of them has the right data, or is told to wait."""
    for _ in range(3):
        start, go = os.pipe()
        children = []
        for k in range(4):
            child = os.fork()
            if child == 0:
                status = 3
                try:
                    os.close(go)
                    os.read(start, 1)  # until the parent closes its end
                    data = open_files(text, memory_budget=BUDGET + 100_000 * k)  # other parts
                    status = 0 if (rows_of(data) == ranking.X).all() else 2
                except BlockingIOError:
                    status = 1
                finally:
                    os._exit(status)
            children.append(child)
        os.close(start)
        os.close(go)
        found = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert set(found) <= {0, 1}
        assert 0 in found
        same(open_files(text, memory_budget=BUDGET), ranking)
        shutil.rmtree(cache_folder(str(text), None))


# --- Interrupted conversions ---------------------------------------------------------------------


class Stop(Exception):
    pass


def interrupted(path: Path, after: int, **options) -> list[Path]:
    """Begin to make a cache, and stop after some parts."""
    usual = letor_cache._write_part
    written = []

    def write(*args):
        if len(written) == after:
            raise Stop
        written.append(usual(*args))
        return written[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor_cache, "_write_part", write)
        with pytest.raises(Stop):
            open_files(path, **options)
    return parts_of(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("ids", ["whole", "text", None])
def test_a_conversion_goes_on_where_it_stopped(tmp_path, ranking, suffix, ids):
    path = tmp_path / f"train.txt{suffix}"
    qid = {"whole": ranking.qid, "text": [f"q{i}" for i in ranking.qid], None: None}[ids]
    save_letor(path, ranking.X, ranking.y, qid)
    kept = interrupted(path, 2, memory_budget=BUDGET)
    assert [one.name for one in kept] == ["part-000000.bin", "part-000001.bin"]
    times = [one.stat().st_mtime_ns for one in kept]
    data = open_files(path, memory_budget=BUDGET, y=None)
    assert [one.stat().st_mtime_ns for one in kept] == times  # they were not written again
    names = ("x", "y", "qid")[: 2 if ids is None else 3]
    memory = load_letor(path)
    np.testing.assert_array_equal(rows_of(data), memory.X)
    np.testing.assert_array_equal(_source(data).vectors()[0], memory.y)
    assert set(names) <= set(_source(data)._parts[-1].header["arrays"])
    if ids is not None:
        assert data.groups.ids[data.groups.index].tolist() == memory.qid.tolist()


def test_errors_after_going_on_name_the_right_line(tmp_path):
    path = tmp_path / "t.txt"
    lines = ["0 qid:1 1:0.123456789 2:0.1"] * 6000
    path.write_text("\n".join([*lines, "0 1:1"]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor_parts, "_LEAST_BLOCK", 5000)
        assert len(interrupted(path, 2, memory_budget=800_000)) == 2
        with pytest.raises(LetorError, match=r"line 6001, column 3: found '1:1', expected 'qid:'"):
            open_files(path, memory_budget=800_000)


def test_parts_of_an_older_text_are_not_used(text, ranking):
    interrupted(text, 2, memory_budget=BUDGET)
    changed = RankingData(ranking.X + 1.0, ranking.y, ranking.qid)
    save_letor(text, *changed)
    same(open_files(text, memory_budget=BUDGET), changed)


def test_half_written_parts_are_not_used(text, ranking):
    first, second = interrupted(text, 2, memory_budget=BUDGET)
    content = second.read_bytes()
    second.write_bytes(content[: len(content) // 2])
    left = second.with_name(".part-000002.bin.00000000-00000000.tmp")
    left.write_bytes(content[:1000])
    same(open_files(text, memory_budget=BUDGET), ranking)
    assert second.read_bytes() == content
    assert not left.exists()
    assert first.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_any_moment(tmp_path, ranking):
    draw = random.Random(0)
    path = tmp_path / "train.txt"
    save_letor(path, *ranking)
    folder = Path(cache_folder(str(path), None))
    killed_midway = 0
    for _ in range(12):
        for _ in range(draw.randint(1, 3)):
            process = os.fork()
            if process == 0:
                try:
                    open_files(path, memory_budget=BUDGET)
                finally:
                    os._exit(0)
            time.sleep(draw.uniform(0.0, 0.04))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        killed_midway += folder.exists() and not (folder / MANIFEST).exists()
        data = open_files(path, memory_budget=BUDGET)
        np.testing.assert_array_equal(rows_of(data), ranking.X)
        np.testing.assert_array_equal(data.qid, ranking.qid)
        names = {one.name for one in folder.iterdir()}
        assert names == {MANIFEST, *(one.name for one in parts_of(path))}
        shutil.rmtree(folder)
    assert killed_midway > 0


# --- Room on the disk ----------------------------------------------------------------------------


def test_room_is_checked_first(text, monkeypatch, tmp_path):
    needed = text.stat().st_size * 0.5  # numbers of the text take more characters than bytes
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        letor_cache.shutil, "disk_usage", lambda folder: usage._replace(free=int(needed * 0.3))
    )
    with pytest.raises(
        OSError, match=r"no room for the cache of .*it needs about .* KB, and "
    ) as e:
        open_files(text, memory_budget=BUDGET)
    assert e.value.errno == errno.ENOSPC
    assert e.value.filename == cache_folder(str(text), None)
    assert [one.name for one in tmp_path.iterdir()] == ["train.txt"]


def test_the_estimate_of_the_room(text, monkeypatch, tmp_path):
    """The room that is asked for first is about that of the whole cache."""
    asked = []
    usual = letor_cache.LetorCache._check_room

    def check(self, size, before, bytes_read):
        asked.append((before + size) * self._stamp.size / bytes_read)
        usual(self, size, before, bytes_read)

    monkeypatch.setattr(letor_cache.LetorCache, "_check_room", check)
    open_files(text, memory_budget=BUDGET)
    size = sum(part.stat().st_size for part in parts_of(text))
    assert 0.7 * size < asked[0] < 1.5 * size


def test_a_disk_that_fills_up(text, monkeypatch, ranking):
    usual = letor_cache.atomic_write
    room = [3]

    def write(path):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device; free some space", path)
        room[0] -= 1
        return usual(path)

    monkeypatch.setattr(letor_cache, "atomic_write", write)
    with pytest.raises(OSError, match="No space left on device") as info:
        open_files(text, memory_budget=BUDGET)
    assert info.value.filename.endswith("part-000003.bin")
    folder = Path(cache_folder(str(text), None))
    assert sorted(one.name for one in folder.iterdir()) == [f"part-{k:06d}.bin" for k in range(3)]
    room[0] = 1000
    same(open_files(text, memory_budget=BUDGET), ranking)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and limits of a process")
def test_no_room_in_the_middle_of_a_part(text, ranking):
    import resource

    child = os.fork()
    if child == 0:
        status = 2
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            open_files(text, memory_budget=BUDGET)
        except OSError as error:
            status = int(error.errno != errno.EFBIG or "part-000000" not in str(error.filename))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not Path(cache_folder(str(text), None)).exists()  # nothing of it is left
    same(open_files(text, memory_budget=BUDGET), ranking)
    assert parts_of(text)[0].stat().st_size > 50_000


MOUNT = 'mount -t tmpfs -o size=600k none "$1" && exec "$2" -c "$3" "$1" "$4"'
FULL = """
import errno, sys
from pathlib import Path
from ranksvm.data import letor_cache
from ranksvm.data.shard_files import open_files

disk, text = Path(sys.argv[1]), sys.argv[2]
for check in (True, False):
    if not check:
        letor_cache.LetorCache._check_room = lambda *args: None
    try:
        open_files(text, cache=disk, memory_budget=1_500_000)
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        assert error.filename.startswith(str(disk)), error
        assert "free some space" in str(error), error
    else:
        raise AssertionError("there was room")
    left = [one.name for one in disk.rglob("*") if one.is_file()]
    assert all(one.startswith("part-") for one in left), left
    assert bool(left) != check, left
print("done")
"""


@pytest.mark.slow
def test_a_disk_that_is_full(text, tmp_path):
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("needs unshare of Linux")
    disk = tmp_path / "disk"
    disk.mkdir()
    apart = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=1m none "$1"'
    tried = subprocess.run([*apart, mount, "sh", disk], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {tried.stderr.strip()}")
    many = tmp_path / "many.txt"
    many.write_text(text.read_text() * 5)
    done = subprocess.run(
        [*apart, MOUNT, "sh", disk, sys.executable, FULL, many], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_a_folder_that_cannot_be_written(text, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="no cache can be made here") as info:
        open_files(text, cache=tmp_path / "file")
    assert info.value.filename.startswith(str(tmp_path / "file"))


# --- Memory --------------------------------------------------------------------------------------

MEASURE = """
import re, sys
from pathlib import Path
from ranksvm.data.shard_files import open_files
import scipy.sparse
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
data = open_files(sys.argv[1], y=None, memory_budget=sys.argv[2])
print(before, peak(), data.n_items)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_peak_memory_of_a_conversion(tmp_path):
    X, y, qid, _ = make_ranking(1000, (30, 50), 100, random_state=0)
    save_letor(tmp_path / "t.txt", X, y, qid)
    with open(tmp_path / "t.txt.gz", "wb") as file:
        file.write(gzip.compress((tmp_path / "t.txt").read_bytes(), 1) * 8)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path / "t.txt.gz", "100MB"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    before, peak, n_items = map(int, done.stdout.split())
    assert n_items == 8 * len(y)
    assert n_items * 800 > 200_000_000
    assert peak < before + 100_000_000
