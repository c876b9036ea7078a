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

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow

# Room for some files of every writer, which the script then takes up.
MOUNT = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'

SCRIPT = """
import errno, os, subprocess, sys
from pathlib import Path

folder = Path(sys.argv[1])
from fuzz.kills import SEARCH, CELL, WRITERS, _checkpoint, _record
from ranksvm.data import save_letor
from ranksvm.datasets import make_ranking
from ranksvm.models import write_model


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

path = folder / "search.jsonl"
with _checkpoint(path) as kept:
    kept.add(1.0, 0, CELL)
    fill(0)
    old = path.read_bytes()

    def add_many():
        for k in range(2, 200):
            kept.add(float(k), 0, CELL)

    refused(path, add_many)
(folder / "filler").unlink()
with _checkpoint(path) as kept:  # whole lines
    assert kept.get(1.0, 0) == CELL
path.unlink()
print("search.jsonl")

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
