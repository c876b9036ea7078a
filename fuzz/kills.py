"""Writers that are killed at any moment: the old file or the new one, and nothing else for long.

A process that writes the same file again and again, in two versions, is killed after a random time.
Then the file must be one of the two, byte for byte, and the next write must leave nothing beside
it.  A checkpoint has every cell that was added before, and at most one more.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from fuzz.cases import repeat
from ranksvm.cli.tables import write_table
from ranksvm.data import save_letor, write_pairs
from ranksvm.data.preferences import Preferences
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.trec_writer import write_run
from ranksvm.export import write_svmrank
from ranksvm.learners import LinearModel
from ranksvm.learners.resume import FitState
from ranksvm.model_selection.cell import Cell
from ranksvm.model_selection.checkpoint import Checkpoint
from ranksvm.models import write_model

ROWS = 2000
SEARCH = {"metric": "pairwise_accuracy"}
CELL = Cell((0.5,), (1.0,), (0.0,), (0.1,), (3,), (9,), ("CONVERGED",), "newton")

Write = Callable[[Path, int], object]


def run(seconds: float, seed: int) -> int:
    """Kill writers for some time; raise at the first file that is not whole."""
    if not hasattr(os, "fork"):
        print("kills: nothing to do on a system without fork")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return repeat("kills", functools.partial(_one, Path(folder)), seconds, seed)


def _model(version: int) -> LinearModel:
    coef = np.arange(ROWS, dtype=np.float64) + version
    return LinearModel(coef=coef, params={"C": 1.0}, facts={"version": version})


def _data(version: int) -> RankingData:
    X = np.arange(2.0 * ROWS).reshape(-1, 2) + version
    return RankingData(X, X[:, 0] % 3, np.arange(ROWS) // 9)


def _letor(path: Path, version: int) -> None:
    save_letor(path, *_data(version), n_jobs=1)


def _run_file(path: Path, version: int) -> None:
    X, _, qid = _data(version)
    write_run(path, qid, [f"d{k}" for k in range(ROWS)], X[:, 0])


def _pairs(path: Path, version: int) -> None:
    better = np.arange(ROWS)
    write_pairs(path, Preferences(better, better + 1 + version))


def _fit_state(path: Path, version: int) -> None:
    FitState(path, {"data": "some"}).save(np.arange(20_000.0) + version, 1 + version)


WRITERS: dict[str, Write] = {
    "m.safetensors": lambda path, version: write_model(path, _model(version)),
    "m.dat": lambda path, version: write_svmrank(path, replace(_model(version), facts={})),
    "t.txt": _letor,
    "t.txt.gz": _letor,
    "t.txt.bz2": _letor,
    "t.txt.xz": _letor,
    "t.txt.zst": _letor,
    "t.csv": lambda path, version: write_table(_data(version), str(path), "csv"),
    "t.parquet": lambda path, version: write_table(_data(version), str(path), "parquet"),
    "run": _run_file,
    "pairs": _pairs,
    "state.npz": _fit_state,
}


@functools.cache
def _versions(name: str) -> tuple[bytes, ...]:
    """Return what a writer writes, in both versions."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        found = []
        for version in (0, 1):
            WRITERS[name](path, version)
            found.append(path.read_bytes())
    return tuple(found)


def _one(folder: Path, draw: random.Random) -> None:
    if draw.random() < 0.1:
        _kill_search(folder, draw)
        return
    name = draw.choice(sorted(WRITERS))
    versions = _versions(name)
    path = folder / name
    write = WRITERS[name]
    bits = draw.choice([0o600, 0o640, 0o644])
    write(path, 0)
    path.chmod(bits)
    for _ in range(draw.randint(1, 4)):
        _kill(lambda k: write(path, k % 2), draw)
        assert path.read_bytes() in versions, f"{name} is neither of the two"
        for left in folder.iterdir():
            assert left.stat().st_mode & 0o777 & ~bits == 0, f"{left.name} is too open"
    last = draw.randrange(2)
    write(path, last)
    assert path.read_bytes() == versions[last]
    assert [one.name for one in folder.iterdir()] == [name], list(folder.iterdir())
    assert path.stat().st_mode & 0o777 == bits
    path.unlink()


def _kill_search(folder: Path, draw: random.Random) -> None:
    path = folder / "search.db"
    there = 0
    for _ in range(draw.randint(1, 6)):
        reader, writer = os.pipe()
        _kill(_Search(path, there, writer).add, draw)
        os.close(writer)
        with open(reader, "rb") as told:
            done = there + len(told.read())
        if not path.exists():
            assert done == 0
            continue
        with _checkpoint(path) as kept:
            there = 0
            while kept.get(_name(there), 0) is not None:
                there += 1
        assert done <= there <= done + 1, f"{done} cells were added, and {there} are there"
        assert [one.name for one in folder.iterdir()] == [path.name], list(folder.iterdir())
    path.unlink(missing_ok=True)


class _Search:
    """Adds cells to a file, which it opens for the first; writes a byte for each."""

    def __init__(self, path: Path, n_done: int, writer: int) -> None:
        self.path, self.n_done, self.writer = path, n_done, writer
        self.file: Checkpoint[Cell] | None = None

    def add(self, k: int) -> None:
        self.file = self.file or _checkpoint(self.path)
        self.file.add(_name(self.n_done + k), 0, CELL)
        os.write(self.writer, b".")


def _name(k: int) -> str:
    return f"gamma={1.0 + k}"


def _checkpoint(path: Path) -> Checkpoint[Cell]:
    read = functools.partial(Cell.from_text, n_C=1, metric=SEARCH["metric"])
    return Checkpoint(path, SEARCH, read, random_state=None)


def _kill(work: Callable[[int], object], draw: random.Random) -> None:
    """Do something again and again in another process, and kill that soon."""
    process = os.fork()
    if process == 0:
        try:
            k = 0
            while True:
                work(k)
                k += 1
        finally:
            os._exit(1)  # the work failed
    time.sleep(draw.uniform(0.0, 0.03))
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status), "the writer failed"
