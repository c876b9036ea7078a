"""A full disk: every writer says which file, keeps the old one, and leaves nothing behind.

The disk is a small file system in memory, mounted where only the process of the test sees it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow

# Room for some files of every writer, which the script then takes up.
MOUNT = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'

SCRIPT = """
import errno, json, os, subprocess, sys
from pathlib import Path

folder = Path(sys.argv[1])
from fuzz.kills import CELL, WRITERS, _checkpoint
from ranksvm.data import save_letor
from ranksvm.datasets import make_ranking


def fill(rest):
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC
    os.truncate(folder / "filler", (folder / "filler").stat().st_size - rest)


def names():
    return sorted(path.name for path in folder.iterdir())


def refused(path, call):
    try:
        call()
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        assert error.filename == str(path), error
        assert "No space left on device; free some space" in str(error), error
    else:
        raise AssertionError(f"{path} was written")


for name, write in WRITERS.items():
    for rest in (0, 4096):
        path = folder / name
        write(path, 0)
        old = path.read_bytes()
        fill(rest)
        before = names()
        refused(path, lambda: write(path, 1))
        assert path.read_bytes() == old, name
        refused(folder / ("new-" + name), lambda: write(folder / ("new-" + name), 1))
        assert names() == before, names()
        (folder / "filler").unlink()
        write(path, 1)  # once there is room again
        assert path.read_bytes() != old
        path.unlink()
    print(name)

path = folder / "search.db"
# So many pages are left of those of the database and of its journal.
for rest in range(0, 12 * 4096, 4096):
    added = []

    def add_many():
        with _checkpoint(path) as kept:
            for k in range(400):
                if len(added) == 1 and not (folder / "filler").exists():
                    fill(rest)
                kept.add(str(k), 0, CELL)
                added.append(str(k))

    refused(path, add_many)
    assert added
    assert names() == ["filler", "search.db"], names()
    with _checkpoint(path) as kept:  # which takes no room, and all cells are there
        assert all(kept.get(one, 0) == CELL for one in added)
        assert kept.get(str(len(added)), 0) is None
    (folder / "filler").unlink()
    with _checkpoint(path) as kept:  # once there is room again
        for k in range(len(added), 400):
            kept.add(str(k), 0, CELL)
    with _checkpoint(path) as kept:
        assert all(kept.get(str(k), 0) == CELL for k in range(400))
    path.unlink()
for rest in range(0, 3 * 4096, 4096):  # no room for the first tables
    fill(rest)
    refused(path, lambda: _checkpoint(path))
    assert names() == ["filler"], names()
    (folder / "filler").unlink()
print("search.db")

elsewhere = Path(os.environ["ELSEWHERE"])
X, y, qid, _ = make_ranking(30, (9, 12), 40, random_state=0)
save_letor(elsewhere / "d.txt", X, y, qid)
for output, command in {
    "m.safetensors": ["train", "d.txt", "-o"],
    "t.safetensors": ["tune", "d.txt", "--C-grid", "1", "-o"],
    "s.txt": ["predict", "m.safetensors", "d.txt", "-o"],
    "r.txt": ["predict", "m.safetensors", "d.txt", "--trec-run", "-o"],
    "d.csv": ["convert", "d.txt"],
    "d.parquet": ["convert", "d.txt"],
    "d.txt.gz": ["convert", "d.txt"],
    "m.dat": ["convert", "m.safetensors"],
}.items():
    run = lambda target: subprocess.run(
        [sys.executable, "-m", "ranksvm", *command, str(target)],
        cwd=elsewhere, capture_output=True, text=True,
    )
    done = run(elsewhere / output)
    assert done.returncode == 0, done.stderr
    done = run(folder / output)
    assert done.returncode == 0, done.stderr
    old = (folder / output).read_bytes()
    fill(0)
    before = names()
    done = run(folder / output)
    assert done.returncode == 3, (command, done)
    assert f"ranksvm: error: {folder / output}: " in done.stderr, done.stderr
    assert "No space left on device; free some space" in done.stderr, done.stderr
    assert (folder / output).read_bytes() == old
    assert names() == before
    for name in ("filler", output):
        (folder / name).unlink()
    print(*command, output)

tune = ["tune", "d.txt", "--kernel", "rbf", "--C-grid", "1:2:40", "--gamma-grid", "1:2:50"]
tune += ["--folds", "2", "--resume"]
fill(12 * 4096)
path = folder / "search.db"
tuned = subprocess.run(
    [sys.executable, "-m", "ranksvm", *tune, path], cwd=elsewhere, capture_output=True, text=True
)
assert tuned.returncode == 3, tuned
assert f"ranksvm: error: {path}: No space left on device; free some space" in tuned.stderr, tuned
assert names() == ["filler", "search.db"], names()
(folder / "filler").unlink()
tuned = subprocess.run(
    [sys.executable, "-m", "ranksvm", *tune, path, "--json"],
    cwd=elsewhere, capture_output=True, text=True,
)
assert tuned.returncode == 0, tuned
assert json.loads(tuned.stdout)["resumed"] > 0, tuned.stdout
assert names() == ["search.db"], names()

# A disk that is for reading only keeps what it has.
old = path.read_bytes()
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
for one in (path, folder / "new.db"):
    tuned = subprocess.run(
        [sys.executable, "-m", "ranksvm", *tune, one], cwd=elsewhere, capture_output=True, text=True
    )
    assert tuned.returncode == 3, tuned
    assert f"ranksvm: error: {one}: cannot write: new files are not allowed" in tuned.stderr, tuned
    try:
        _checkpoint(one)
    except PermissionError as error:
        assert error.filename == str(one), error
        assert "cannot write: new files are not allowed in" in str(error), error
    else:
        raise AssertionError(f"{one} was opened")
assert path.read_bytes() == old
assert names() == ["search.db"], names()
print("tune --resume")
print("all")
"""


def test_every_writer_on_a_full_disk(tmp_path):
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("needs unshare of Linux")
    disk, elsewhere = tmp_path / "disk", tmp_path / "elsewhere"
    disk.mkdir()
    elsewhere.mkdir()
    apart = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    tried = subprocess.run(
        [*apart, 'mount -t tmpfs -o size=1m none "$1"', "sh", disk], capture_output=True, text=True
    )
    if tried.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {tried.stderr.strip()}")
    done = subprocess.run(
        [*apart, MOUNT, "sh", disk, sys.executable, SCRIPT],
        cwd=ROOT,
        env={**os.environ, "ELSEWHERE": str(elsewhere), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all\n")
    assert list(disk.iterdir()) == []  # the mount went with the process
