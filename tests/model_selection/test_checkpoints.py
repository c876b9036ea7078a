"""Searches that are broken off and go on, and files that are not what they should be."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from searches import CS, GAMMAS, by_gamma, count_fits, same, searched, small_set
from sklearn.metrics.pairwise import rbf_kernel

from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import KernelSettings, LinearSettings
from ranksvm.model_selection import QueryKFold, checkpoint
from ranksvm.model_selection.cell import Cell
from ranksvm.model_selection.checkpoint import Checkpoint

TESTS = Path(__file__).resolve().parents[1]
SETTINGS = KernelSettings(approximation="nystroem", n_components=10)


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    return small_set()


@pytest.fixture
def fits(monkeypatch) -> list[float]:
    """Every C that is fitted from now on."""
    return count_fits(monkeypatch)


def query(path: Path, sql: str, *values: Any) -> list[Any]:
    """Read or change a database from outside."""
    base = sqlite3.connect(path)
    try:
        with base:
            return base.execute(sql, values).fetchall()
    finally:
        base.close()


def n_cells(path: Path) -> int:
    return query(path, "SELECT count(*) FROM cells")[0][0]


def said(path: Path) -> dict[str, str]:
    """What a file says about its search."""
    return dict(query(path, "SELECT part, value FROM search"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(path: Path, message: str, call: Any, *args: Any, **options: Any) -> str:
    """A ValueError that names the file, which stays as it is and alone."""
    content = path.read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        call(*args, **options)
    assert str(path) in str(caught.value)
    assert str(caught.value).isprintable()
    assert path.read_bytes() == content
    assert names(path.parent) == [path.name]
    return str(caught.value)


# --- Broken off -----------------------------------------------------------------------------------


def interrupt_after(n: int) -> Any:
    def progress(done: int, total: int, message: str) -> None:
        assert total == 18
        if done == n:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("after", [1, 3, 4, 11, 18])
def test_an_interrupted_search_goes_on(tmp_path, data, fits, after):
    path = tmp_path / "search.db"
    with pytest.raises(KeyboardInterrupt):
        searched(data, SETTINGS, checkpoint=path, progress=interrupt_after(after))
    finished = (after - 1) // 3  # the last cell was not scored yet
    assert n_cells(path) == finished
    seed = json.loads(said(path)["random state"])
    fits.clear()
    told: list[tuple[int, int, str]] = []
    found = searched(data, SETTINGS, checkpoint=path, progress=lambda *row: told.append(row))
    assert len(fits) == 18 - 3 * finished
    assert found.n_resumed == finished
    assert [row[:2] for row in told] == [(k, 18) for k in range(1, 19)]
    assert sum("done before" in row[2] for row in told) == 3 * finished
    # The seed was drawn by the first run.
    assert found.settings.random_state == seed
    assert same(found, searched(data, replace(SETTINGS, random_state=seed)))
    fits.clear()
    again = searched(data, SETTINGS, checkpoint=path)
    assert same(found, again)
    assert np.array_equal(found.seconds, again.seconds)
    assert fits == []
    assert names(tmp_path) == ["search.db"]


def test_early_ends_are_told_after_a_resumption_too(tmp_path, data):
    path = tmp_path / "search.db"
    settings = KernelSettings(tol=1e-14, max_iter=1)
    first, again = (searched(data, settings, checkpoint=path) for _ in range(2))
    assert again.n_resumed == 6
    assert first.shortfalls
    assert list(map(str, first.shortfalls)) == list(map(str, again.shortfalls))


def test_a_linear_search_goes_on(tmp_path, data, fits):
    path = tmp_path / "search.db"
    settings = LinearSettings(tol=1e-8)
    with pytest.raises(KeyboardInterrupt):
        searched(data, settings, gammas=None, checkpoint=path, progress=stop_after(4))
    fits.clear()
    found = searched(data, settings, gammas=None, checkpoint=path, n_threads=2)
    assert (found.n_resumed, len(fits)) == (1, 6)
    alone = searched(data, settings, gammas=None, checkpoint=tmp_path / "other.db")
    for name in ("scores", "objectives", "gaps", "n_iter"):
        assert np.array_equal(getattr(found, name), getattr(alone, name))
    # Without a file the first path guides the others, which changes nothing beyond the tolerance.
    guided = searched(data, settings, gammas=None)
    assert np.allclose(found.objectives, guided.objectives, rtol=1e-7)
    assert found.best == guided.best


def stop_after(n: int) -> Any:
    def progress(done: int, *_: Any) -> None:
        if done == n:
            raise KeyboardInterrupt

    return progress


KILLED = """
import os, signal, sys
from searches import searched, small_set

def progress(done, total, message):
    if done == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

searched(small_set(), checkpoint=sys.argv[1], progress=progress)
"""


def test_a_search_that_is_killed_several_times_goes_on(tmp_path, data):
    """SIGKILL in the middle of a cell, again and again: only that cell is done again."""
    path = tmp_path / "search.db"
    for after, kept in ((2, 0), (6, 1), (18, 5)):
        done = subprocess.run([sys.executable, "-c", KILLED, path, str(after)], cwd=TESTS)
        assert done.returncode == -signal.SIGKILL
        assert n_cells(path) == kept
    found = searched(data, checkpoint=path)
    assert found.n_resumed == 5
    assert same(found, searched(data))
    assert names(tmp_path) == ["search.db"]


def test_what_a_killed_process_left_half_written_is_undone(tmp_path, data, fits):
    path, work = tmp_path / "search.db", tmp_path / "work.db"
    with pytest.raises(KeyboardInterrupt):
        searched(data, checkpoint=path, progress=interrupt_after(10))
    content = path.read_bytes()
    whole = searched(data)
    # Pages of a transaction that never ended, and the journal to undo it.
    shutil.copy(path, work)
    base = sqlite3.connect(work, isolation_level=None)
    base.execute("PRAGMA cache_size = 1")  # so that pages are written before the end
    base.execute("BEGIN")
    for k in range(400):
        base.execute("INSERT INTO cells VALUES (?, ?, ?, '')", (str(k), k, "x" * 99))
    for name in ("", "-journal"):
        shutil.copy(f"{work}{name}", f"{path}{name}")
    base.close()
    work.unlink()
    assert names(tmp_path) == ["search.db", "search.db-journal"]
    assert path.read_bytes() != content
    fits.clear()
    found = searched(data, checkpoint=path)
    assert same(found, whole)
    assert found.n_resumed == 3
    assert len(fits) == 9
    assert names(tmp_path) == ["search.db"]


def test_a_file_that_was_half_made_is_made_anew(tmp_path):
    path = tmp_path / "search.db"
    small_checkpoint(path)._close(failed=False)
    made = path.read_bytes()
    # A journal that says that the file was empty before.
    head = struct.pack(">8s5I", bytes.fromhex("d9d505f920a163d7"), 0, 1, 0, 512, 4096)
    for n_pages in range(len(made) // 4096 + 1):
        path.write_bytes(made[: 4096 * n_pages])
        Path(f"{path}-journal").write_bytes(head.ljust(512, b"\0"))
        with small_checkpoint(path, seed=8) as kept:
            assert kept.random_state == 8  # nothing was kept
            kept.add(*KEYS[0], CELL)
        assert names(tmp_path) == ["search.db"]
        with small_checkpoint(path) as kept:
            assert kept.random_state == 8
            assert kept.get(*KEYS[0]) == CELL


@pytest.mark.parametrize("left", [b"", b"\0" * 512, b"\xd9\xd5\x05\xf9"])
def test_a_journal_that_was_hardly_begun_undoes_nothing(tmp_path, data, left):
    path, journal = tmp_path / "search.db", tmp_path / "search.db-journal"
    with pytest.raises(KeyboardInterrupt):
        searched(data, checkpoint=path, progress=interrupt_after(10))
    journal.write_bytes(left)
    assert searched(data, checkpoint=path).n_resumed == 3
    assert names(tmp_path) == ["search.db"]
    # That of a file that was deleted says nothing about the next one.
    path.unlink()
    journal.write_bytes(left)
    assert searched(data, checkpoint=path).n_resumed == 0
    assert names(tmp_path) == ["search.db"]


# --- Damage ---------------------------------------------------------------------------------------


def signed(path: Path, candidate: Any, split: Any, content: str) -> str:
    """The checksum of a row that belongs to a file."""
    parts = said(path)
    del parts["sha256"]
    seed = json.loads(parts.pop("random state"))
    return checkpoint._sha256([parts, seed, candidate, split, content])


def test_rows_that_are_not_as_they_were_written_are_found(tmp_path, data):
    path, good, other = (tmp_path / name / "search.db" for name in ("a", "b", "c"))
    for one in (path, good, other):
        one.parent.mkdir()
    searched(data, checkpoint=good)
    searched(data, checkpoint=other, metric="map", conventions="letor")
    (candidate, split, content, checksum), second, *_ = query(good, "SELECT * FROM cells")
    entries = json.loads(content)

    def with_entries(**changed: Any) -> str:
        return json.dumps({**entries, **changed})

    texts = [
        "{}", content[:-9], "", "[1]", "7", "null", "\ufffd", "[" * 100_000, "1" * 5000,
        content.replace('"scores"', '"scares"'), with_entries(more=1),
        with_entries(scores="123"), with_entries(scores=[0.5, 0.5]),
        with_entries(scores=[None] * 3), with_entries(scores=["0.5"] * 3),
        with_entries(scores=[True] * 3), with_entries(scores=[10**400] * 3),
        with_entries(scores={"0.5": 1, "1": 2, "2": 3}), with_entries(scores=[[]] * 3),
        with_entries(n_iter=[1.5, 2, 3]), with_entries(n_iter=[2**63, 2, 3]),
        with_entries(n_iter=[math.inf, 2, 3]), with_entries(n_iter=[-1, 2, 3]),
        with_entries(statuses="none"), with_entries(statuses=[1, 2, 3]),
        with_entries(statuses=[[], {}, None]), with_entries(statuses=["CONVERGED"]),
        with_entries(statuses=["FINE"] * 3), with_entries(solver=1),
        with_entries(scores=[0.5, 0.5, 1e9]), with_entries(scores=[0.5, -0.1, 0.5]),
        with_entries(scores=["inf", 0.5, 0.5]), with_entries(gaps=[-1.0, 0.0, 0.0]),
        with_entries(objectives=[-1.0, 0.0, 0.0]), with_entries(seconds=["-inf", 0.0, 0.0]),
    ]  # fmt: skip
    changes: list[tuple[str, tuple[Any, ...]]] = [
        ("content = ?, sha256 = ?", (text, signed(good, candidate, split, text))) for text in texts
    ]
    changes += [
        ("content = ?", (content.replace("0", "1", 1),)),
        ("content = ?", (content + " ",)),
        ("content = ?", (content.encode(),)),
        ("content = CAST(x'ff22' AS TEXT)", ()),
        ("content = ?, sha256 = ?", second[2:]),  # of another row
        ("candidate = 'gamma=0.25'", ()),
        ("split = 7", ()),
        ("split = 'x'", ()),
        ("candidate = CAST(x'ff1b' AS TEXT)", ()),
        ("candidate = x'00'", ()),
        ("sha256 = ?", ("0" * 64,)),
        ("sha256 = ?", (bytes.fromhex(checksum),)),
    ]  # fmt: skip
    place = "candidate = ? AND split = ?"
    alike = f"SELECT content, sha256 FROM cells WHERE {place}"
    (stranger,) = query(other, alike, candidate, split)
    changes.append(("content = ?, sha256 = ?", stranger))
    for change, values in changes:
        shutil.copy(good, path)
        query(path, f"UPDATE cells SET {change} WHERE {place}", *values, candidate, split)
        text = refused(path, r"is damaged: the row of candidate", searched, data, checkpoint=path)
        assert "has been changed. Delete this row from the table cells to repeat" in text
    # As the message says.
    query(path, f"DELETE FROM cells WHERE {place}", candidate, split)
    again = searched(data, checkpoint=path)
    assert again.n_resumed == 5
    assert same(again, searched(data))


def test_what_a_file_says_about_its_search_is_found_changed(tmp_path, data):
    path, good = tmp_path / "a" / "search.db", tmp_path / "b" / "search.db"
    for one in (path, good):
        one.parent.mkdir()
    with pytest.raises(KeyboardInterrupt):  # a file without any cell
        searched(data, SETTINGS, checkpoint=good, progress=interrupt_after(1))
    for change in (
        "UPDATE search SET value = '3' WHERE part = 'random state'",
        "UPDATE search SET value = 'x' WHERE part = 'random state'",
        "DELETE FROM search WHERE part = 'random state'",
        "UPDATE search SET value = 'x' WHERE part = 'items'",
        "UPDATE search SET value = x'ff' WHERE part = 'items'",
        "UPDATE search SET value = 'x' WHERE part = 'sha256'",
        "DELETE FROM search WHERE part = 'sha256'",
        "DELETE FROM search",
        "INSERT INTO search VALUES ('more', '')",
        "INSERT INTO search VALUES (x'ff', '')",
    ):
        shutil.copy(good, path)
        query(path, change)
        refused(path, "the description of its search has been changed. Delete the file to",
                searched, data, SETTINGS, checkpoint=path)  # fmt: skip
    # Signed again: another search, or no seed.
    for change, message in {
        ("more\x1b[31m", "1"): "a different search .different more",
        ("metric", "\x1b"): "a different search .different metric",
        ("random state", '"7"'): "is damaged",
        ("random state", "-1"): "is damaged",
        ("random state", "true"): "is damaged",
    }.items():
        shutil.copy(good, path)
        parts = {**said(path), change[0]: change[1]}
        del parts["sha256"]
        parts["sha256"] = checkpoint._sha256(parts)
        query(path, "DELETE FROM search")
        for row in parts.items():
            query(path, "INSERT INTO search VALUES (?, ?)", *row)
        refused(path, message, searched, data, SETTINGS, checkpoint=path)


def test_tables_that_are_not_ours_are_found(tmp_path, data):
    path, good = tmp_path / "a" / "search.db", tmp_path / "b" / "search.db"
    for one in (path, good):
        one.parent.mkdir()
    searched(data, checkpoint=good)
    endless = "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n)"
    for change in (
        ["DROP TABLE cells"],
        ["DROP TABLE cells", "DROP TABLE search"],
        ["CREATE TABLE more (a)"],
        ["ALTER TABLE cells ADD COLUMN more"],
        ["CREATE INDEX more ON cells (split)"],
        ["CREATE TRIGGER more AFTER INSERT ON cells BEGIN DELETE FROM search; END"],
        ["DROP TABLE cells", f"CREATE VIEW cells AS {endless} SELECT k, k, k, k FROM n"],
    ):
        shutil.copy(good, path)
        for sql in change:
            query(path, sql)
        refused(path, "is damaged: its tables are not as they were created",
                searched, data, checkpoint=path)  # fmt: skip
    shutil.copy(good, path)
    query(path, "PRAGMA journal_mode = WAL")
    refused(path, "is damaged: its layout was changed", searched, data, checkpoint=path)


CELL = Cell((0.5,), (1.0,), (0.0,), (0.1,), (3,), (9,), ("CONVERGED",), "newton")
KEYS = [(f"gamma={k}.5", split) for k in range(8) for split in range(4)]


def small_checkpoint(path: Path, seed: int = 7) -> Checkpoint[Cell]:
    read = partial(Cell.from_text, n_C=1, metric="pairwise_accuracy")
    return Checkpoint(path, {"metric": "pairwise_accuracy", "items": "5f3a"}, read, seed)


@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_found_or_does_no_harm(tmp_path, some):
    path = tmp_path / "search.db"
    with small_checkpoint(path) as kept:
        for key in KEYS:
            kept.add(*key, CELL)
    good = path.read_bytes()
    draw = random.Random(0)
    head = range(120)  # of the file and of its first page
    places = [*head, *draw.sample(range(len(good)), 200)] if some else range(len(good))
    found = 0
    for at in places:
        content = bytearray(good)
        content[at] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        trouble = ""
        try:
            with small_checkpoint(path) as kept:
                assert kept.random_state == 7
                assert all(kept.get(*key) == CELL for key in KEYS)
                if at in head:
                    kept.add("more", 0, CELL)
            if at in head:
                with small_checkpoint(path) as kept:
                    assert all(kept.get(*key) == CELL for key in [*KEYS, ("more", 0)])
        except ValueError as error:
            trouble = str(error)
        if trouble:
            found += 1
            assert str(path) in trouble
            assert trouble.isprintable()
            assert path.read_bytes() == content
        assert names(tmp_path) == ["search.db"]
    assert found > 0.3 * len(places)


def test_a_file_that_was_cut_off_is_found(tmp_path):
    path = tmp_path / "search.db"
    with small_checkpoint(path) as kept:
        for key in KEYS:
            kept.add(*key, CELL)
    good = path.read_bytes()
    for size in (1, 15, 16, 71, 72, 99, 100, 511, 512, 4095, 4096, 8192, len(good) - 1):
        path.write_bytes(good[:size])
        refused(path, "is damaged" if size >= 72 else "is not a checkpoint; not overwritten",
                small_checkpoint, path)  # fmt: skip
    path.write_bytes(good + bytes(4096))
    with small_checkpoint(path) as kept:
        assert all(kept.get(*key) == CELL for key in KEYS)


def test_scores_made_nan_by_hand_are_not_chosen(tmp_path, data):
    path = tmp_path / "search.db"
    whole = searched(data, checkpoint=path)
    best = whole.best["gamma"]
    ((content,),) = query(path, "SELECT content FROM cells WHERE candidate = ? AND split = 0",
                          f"gamma={best!r}")  # fmt: skip
    text = json.dumps({**json.loads(content), "scores": ["nan"] * 3})
    query(path, "UPDATE cells SET content = ?, sha256 = ? WHERE candidate = ? AND split = 0",
          text, signed(path, f"gamma={best!r}", 0, text), f"gamma={best!r}")  # fmt: skip
    found = searched(data, checkpoint=path)
    assert found.n_resumed == 6
    row = GAMMAS.index(best)
    assert np.isnan(by_gamma(found, "scores")[row, 0]).all()
    assert np.isnan(found.means.reshape(2, 3)[row]).all()
    assert found.best["gamma"] == GAMMAS[1 - row]
    assert len(found.unscored) == 3


def test_cells_survive_text():
    scores = (0.1, math.nan, 1.0, 0.0, 5e-324, -0.0)
    values = (0.1, math.nan, math.inf, 1e300, 5e-324, -0.0)
    cell = Cell(scores, values, values, values, (1,) * 6, (2**60,) * 6,
                ("STALLED", *["CONVERGED"] * 5), "“newton”")  # fmt: skip
    again = Cell.from_text(cell.to_text(), 6, "pairwise_accuracy")
    assert repr(again) == repr(cell)
    numpy_cell = replace(cell, gaps=tuple(map(np.float64, values)))
    assert numpy_cell.to_text() == cell.to_text()
    with pytest.raises(ValueError, match=r"^$"):
        Cell.from_text(cell.to_text(), 5, "pairwise_accuracy")
    lower = replace(cell, scores=(-0.5,) * 6).to_text()
    assert Cell.from_text(lower, 6, "kendall_tau").scores == (-0.5,) * 6
    with pytest.raises(ValueError, match=r"^$"):
        Cell.from_text(lower, 6, "ndcg@10")


# --- Other searches, other files ------------------------------------------------------------------


def test_the_file_of_another_search_is_refused(tmp_path, data):
    X, y, qid = data
    path = tmp_path / "search.db"
    seeded = replace(SETTINGS, random_state=np.int64(1))
    searched(data, seeded, checkpoint=path)
    content = path.read_bytes()
    weight = np.ones(len(y))
    held_out = RankingData(X, y.astype(float), qid)
    others: list[tuple[Any, Any, dict[str, Any], str]] = [
        ((X + 1e-12, y, qid), seeded, {}, "items"),
        ((sp.csr_array(X), y, qid), seeded, {}, "items"),
        ((X.astype(np.float32), y, qid), seeded, {}, "items"),
        ((X, y[::-1], qid), seeded, {}, "items"),
        ((X, y, np.where(qid == "q1", "q0", qid)), seeded, {}, "items"),
        (data, seeded, {"item_weight": weight}, "weights"),
        (data, seeded, {"query_weight": np.ones(len(set(qid)))}, "weights"),
        (data, replace(seeded, tol=1e-5), {}, "settings"),
        (data, replace(seeded, random_state=2), {}, "settings"),
        (data, replace(seeded, random_state=None), {}, "settings"),
        (data, replace(seeded, kernel="laplacian"), {}, "settings"),
        (data, seeded, {"Cs": CS[:2]}, "Cs"),
        (data, seeded, {"Cs": CS[::-1]}, "Cs"),
        (data, seeded, {"metric": "map"}, "metric"),
        (data, seeded, {"conventions": "letor"}, "conventions"),
        (data, seeded, {"folds": list(QueryKFold(4).split(qid=qid))}, "splits"),
        (data, seeded, {"validation": held_out}, "splits"),
    ]
    for items, settings, options, part in others:
        text = refused(path, rf"a different search \(different .*{part}",
                       searched, items, settings, checkpoint=path, **options)  # fmt: skip
        assert "Delete it or choose another file" in text
    # What changes no model may change.
    searched(data, replace(seeded, memory_budget="1GB"), checkpoint=path, n_threads=2)
    assert path.read_bytes() == content


def test_squares_by_rows_and_by_columns_are_different_items(tmp_path, data):
    """Their three arrays may be the same, and mean each other's transpose."""
    _, y, qid = data
    rows = sp.csr_array(np.triu(np.ones((len(y), len(y)))))
    columns = sp.csc_array((rows.data, rows.indices, rows.indptr), rows.shape)
    path = tmp_path / "search.db"
    searched((rows, y, qid), checkpoint=path)
    refused(path, "different items", searched, (columns, y, qid), checkpoint=path)


def test_another_version_does_not_go_on(tmp_path, data, monkeypatch):
    path = tmp_path / "search.db"
    searched(data, checkpoint=path)
    monkeypatch.setattr("ranksvm.model_selection.checkpoint.library_version", lambda: "99.0")
    refused(path, "different version of ranksvm", searched, data, checkpoint=path)


def test_a_grid_may_grow(tmp_path, data, fits):
    path = tmp_path / "search.db"
    searched(data, checkpoint=path)
    fits.clear()
    more = searched(data, checkpoint=path, gammas=[0.005, *GAMMAS])
    assert len(fits) == 3 * len(CS)
    assert more.n_resumed == 6
    assert same(more, searched(data, gammas=[0.005, *GAMMAS]))


@pytest.mark.parametrize(
    "content",
    [
        b"0.5\n0.25\n", b"x", b"\x00\xff", b"{}\n", b"[]\n", b"null\n", b"SQLite format 3\0",
        b"SQLite format 3\0" + bytes(84), b"[" * 100_000 + b"\n", bytes(5000),
        b'{"file": "ranksvm grid search", "format": 2, "search": {}, "random_state": null}\n',
    ],
)  # fmt: skip
def test_other_files_are_left_alone(tmp_path, data, content):
    path = tmp_path / "scores.txt"
    path.write_bytes(content)
    refused(path, "is not a checkpoint; not overwritten", searched, data, checkpoint=path)


@pytest.mark.parametrize("version", [0, 2, 4, -1])
def test_checkpoints_of_other_formats_are_left_alone(tmp_path, data, version):
    path = tmp_path / "search.db"
    searched(data, checkpoint=path)
    query(path, f"PRAGMA user_version = {version}")
    refused(path, rf"of another version of ranksvm .format {version}, expected 3",
            searched, data, checkpoint=path)  # fmt: skip


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_databases_of_other_programs_are_left_alone(tmp_path, data, mode):
    """Not even opened: SQLite would undo what they had begun, or take over their log."""
    path = tmp_path / "other.db"
    base = sqlite3.connect(path, isolation_level=None)
    base.execute(f"PRAGMA journal_mode = {mode}")
    base.execute("PRAGMA cache_size = 1")
    base.execute("CREATE TABLE search (part TEXT PRIMARY KEY, value TEXT)")
    base.execute("BEGIN")
    for k in range(50):
        base.execute("INSERT INTO search VALUES (?, ?)", (str(k), "x" * 500))
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    assert len(before) > 1
    with pytest.raises(ValueError, match=r"other.db already exists and is not a checkpoint"):
        searched(data, checkpoint=path)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before
    base.execute("COMMIT")
    base.close()
    assert query(path, "SELECT count(*) FROM search") == [(50,)]


# --- Where files go -------------------------------------------------------------------------------


def test_where_checkpoints_go(tmp_path, data):
    empty = tmp_path / "empty"
    empty.touch()
    searched(data, checkpoint=empty)
    assert n_cells(empty) == 6
    with pytest.raises(FileNotFoundError, match="no directory"):
        searched(data, checkpoint=tmp_path / "nowhere" / "file")
    with pytest.raises(IsADirectoryError):
        searched(data, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="name of the checkpoint is empty"):
        searched(data, checkpoint="")
    for path in (b"bytes", 3):
        with pytest.raises(TypeError, match=f"must be a path as text; got {path!r}"):
            searched(data, checkpoint=path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/full", "/dev/zero", "/dev/null", str(tmp_path / "pipe")):
        with pytest.raises(ValueError, match=f"^{name} cannot be a checkpoint: it is a device or"):
            searched(data, checkpoint=name)
    with pytest.raises(ValueError, match="callable kernel cannot be kept in a file"):
        searched(data, KernelSettings(kernel=rbf_kernel), gammas=None, checkpoint=tmp_path / "c")
    # Errors of the search come before there is a file.
    with pytest.raises(ValueError, match="gammas"):
        searched(data, gammas=[-1.0], checkpoint=tmp_path / "c")
    # And those of the first cell leave none behind, nor a journal.
    with pytest.raises(ValueError, match="more than memory_budget"):
        searched(data, replace(SETTINGS, memory_budget="1KB"), checkpoint=tmp_path / "c")
    assert names(tmp_path) == ["empty", "pipe"]


@pytest.mark.parametrize(
    "name", [":memory:", "file:x?mode=memory", "a b%20c?d#e", "50%.db", "ä\udcff.db", "'; --"]
)
def test_any_name_is_that_of_a_file(tmp_path, data, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    try:
        Path(name).touch()
    except (OSError, UnicodeEncodeError):
        pytest.skip("not a name of a file here")
    found = searched(data, checkpoint=name)
    assert os.listdir() == [name]
    again = searched(data, checkpoint=name)
    assert again.n_resumed == 6
    assert same(found, again)


def test_a_link_stays_a_link(tmp_path, data):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "search.db", tmp_path / "link"
    link.symlink_to(target)
    searched(data, checkpoint=link)
    assert link.is_symlink()
    assert n_cells(target) == 6
    assert names(tmp_path) == ["link", "there"]
    assert names(target.parent) == ["search.db"]


def test_permissions_are_those_of_new_files(tmp_path, data):
    path, plain = tmp_path / "search.db", tmp_path / "plain"
    plain.touch()
    searched(data, checkpoint=path)
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_directory_for_reading_only(tmp_path, data, fits, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    searched(data, checkpoint=folder / "there.db")
    fits.clear()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):  # everything is allowed to root
        allowed = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: path != str(folder) and allowed(path, mode)
        )
    for name in ("new.db", "there.db"):
        with pytest.raises(PermissionError, match="new files are not allowed in") as caught:
            searched(data, checkpoint=folder / name)
        assert caught.value.filename == str(folder / name)
    folder.chmod(0o700)
    assert fits == []
    assert names(folder) == ["there.db"]


def test_a_journal_that_cannot_be_made(tmp_path, data):
    """Why SQLite cannot write is told by the system, and the file is named."""
    path = tmp_path / "search.db"
    with small_checkpoint(path) as kept:
        kept.add(*KEYS[0], CELL)
        (tmp_path / "search.db-journal").mkdir()
        with pytest.raises(IsADirectoryError) as caught:
            kept.add(*KEYS[1], CELL)
        assert caught.value.filename == str(path)
    (tmp_path / "search.db-journal").rmdir()
    with small_checkpoint(path) as kept:
        assert kept.get(*KEYS[0]) == CELL
        assert kept.get(*KEYS[1]) is None


def test_a_full_disk_keeps_what_is_done(tmp_path, data, monkeypatch):
    """Here a database that may not grow; test_disk_full.py has a disk."""
    path = tmp_path / "search.db"
    connect = checkpoint._connect
    Cs = np.geomspace(1.0, 9.0, 20)
    whole = searched(data, Cs=Cs, checkpoint=path)
    ((n_pages,),) = query(path, "PRAGMA page_count")
    for most in (1, n_pages - 2, n_pages - 1):
        path.unlink()

        def short(name: str, most: int = most) -> sqlite3.Connection:
            base = connect(name)
            base.execute(f"PRAGMA max_page_count = {most}")
            return base

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "_connect", short)
            with pytest.raises(OSError, match="No space left on device; free some space") as caught:
                searched(data, Cs=Cs, checkpoint=path)
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(path)
        assert names(tmp_path) == (["search.db"] if most > 1 else [])
        kept = n_cells(path) if most > 1 else 0
        assert (0 < kept < 6) == (most > 1)
        found = searched(data, Cs=Cs, checkpoint=path)
        assert found.n_resumed == kept
        assert same(found, whole)


# --- One search at a time -------------------------------------------------------------------------


SECOND = """
import sys
from searches import searched, small_set

try:
    searched(small_set(), checkpoint=sys.argv[1], gammas=[0.7])
except ValueError as error:
    sys.exit(str(error))
"""


def test_one_search_at_a_time(tmp_path, data):
    """A second search on the file, begun in the middle of the first, is refused."""
    path = tmp_path / "search.db"
    tries = []

    def meanwhile(done: int, total: int, message: str) -> None:
        if done in (1, 10):
            content = path.read_bytes()  # which would cost the process a lock of SQLite
            with pytest.raises(ValueError, match=r"search.db is in use by another process"):
                searched(data, checkpoint=path, gammas=[0.7])
            second = subprocess.run([sys.executable, "-c", SECOND, path], cwd=TESTS,
                                    capture_output=True, text=True)  # fmt: skip
            assert second.returncode == 1
            assert f"{path} is in use by another process, a search that keeps" in second.stderr
            assert path.read_bytes() == content
            assert names(tmp_path) == ["search.db"]
            tries.append(done)

    found = searched(data, checkpoint=path, progress=meanwhile)
    assert tries == [1, 10]
    assert same(found, searched(data))
    assert searched(data, checkpoint=path).n_resumed == 6


def test_a_file_that_another_process_just_makes_is_not_removed(tmp_path, data):
    """It is empty for a moment, as one is that a failed search would remove."""
    path = tmp_path / "search.db"
    descriptor = checkpoint._open_locked(str(path))
    try:
        refused(path, "is in use by another process", searched, data, checkpoint=path)
        assert path.stat().st_size == 0
    finally:
        os.close(descriptor)
    assert searched(data, checkpoint=path).n_resumed == 0


def test_a_file_that_is_removed_before_it_is_locked_is_made_anew(tmp_path, data, monkeypatch):
    """A search that failed removes its file, which another may have opened already."""
    path = tmp_path / "search.db"
    lock = checkpoint.try_lock
    locked = []

    def late(descriptor: int) -> bool | None:
        locked.append(descriptor)
        if len(locked) == 1:
            path.unlink()
        return lock(descriptor)

    monkeypatch.setattr(checkpoint, "try_lock", late)
    searched(data, checkpoint=path)
    assert len(locked) == 2
    assert n_cells(path) == 6


def test_where_there_are_no_locks(tmp_path, data, monkeypatch):
    path = tmp_path / "search.db"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fcntl", None)
        whole = searched(data, checkpoint=path)
    assert searched(data, checkpoint=path).n_resumed == 6

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert same(searched(data, checkpoint=path), whole)
