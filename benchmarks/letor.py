"""Reading LETOR / SVMlight text, against scikit-learn's reader, and the memory that it takes.

Both read the same files, made here: dense ones as LETOR's sets are (46 features with six decimals,
query ids, document ids in comments), and sparse ones (text features with all their digits).  The
arrays have to be equal, bit for bit.  Memory is the rise of the resident memory of a new process
while it reads, over the arrays that come out; see :mod:`benchmarks.memory`.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.common import SEED, Call, Config, interleave, ratio, thread_counts
from benchmarks.memory import peak, reset_peak
from benchmarks.report import Report, Row
from benchmarks.sets import matrix_bytes
from ranksvm.data import RankingData, load_letor, save_letor
from ranksvm.datasets import make_letor_like, make_reuters_like

TITLE = "reading LETOR text, ranksvm and scikit-learn"


class File(NamedTuple):
    """A file to read; ``plain`` is its text."""

    name: str
    path: Path
    plain: Path
    has_qid: bool


def run(config: Config, report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows: list[Row] = []
        memory: list[Row] = []
        for file in _files(config, Path(folder)):
            rows += _compare(file, config)
            memory.append(_memory(file, config.threads))
            os.unlink(file.path)
    report.table("seconds for a file, and MB of plain text per second", rows)
    report.note("the arrays are equal, bit for bit")
    report.table("peak memory while reading", memory)
    report.note("arrays: X, y, query ids and comments; the comments are one text, not yet strings")
    reads = [
        row for row in rows if row["threads"] == config.threads and not row["file"].endswith(".gz")
    ]
    worst = max((row for row in reads if row["by"] == "ranksvm"), key=_ratio)
    report.reach("letor_read", _ratio(worst), f"{worst['file']}, {worst['MB / s']:.0f} MB / s")
    most = max(memory, key=lambda row: float(row["peak / arrays"]))
    report.reach("letor_memory", most["peak / arrays"], f"{most['file']}, {most['MB']:.0f} MB")


def _ratio(row: Row) -> float:
    return float(row["/ scikit-learn"])


# --- Files ----------------------------------------------------------------------------------------


def _files(config: Config, folder: Path) -> Iterator[File]:
    """Make the files, one when the one before has been dealt with."""
    dense = folder / "LETOR-like"
    X, y, qid, _ = make_letor_like(config.size(4_000, 40), random_state=SEED)
    assert qid is not None
    comments = [
        f"docid = GX{i % 273:03d}-{i % 97:02d}-{i} inc = 1 prob = 0.5" for i in range(len(y))
    ]
    with dense.open("wb") as out:
        for begin in range(0, len(y), 10_000):
            rows = slice(begin, begin + 10_000)
            out.write(_six_decimals(X[rows], y[rows], qid[rows], comments[rows]))
    compressed = folder / "LETOR-like.gz"
    with dense.open("rb") as plain, gzip.open(compressed, "wb", compresslevel=6) as out:
        shutil.copyfileobj(plain, out)
    yield File("LETOR-like.gz", compressed, dense, True)
    yield File("LETOR-like", dense, dense, True)

    sparse = folder / "reuters-like"
    X, y, _, _ = make_reuters_like(config.size(50_000, 500), random_state=SEED)
    save_letor(sparse, X, y)
    yield File("reuters-like", sparse, sparse, False)


def _six_decimals(X: Any, y: Any, qid: Any, comments: list[str]) -> bytes:
    """Text as in LETOR's files."""
    names = [f" {column + 1}:" for column in range(X.shape[1])]
    lines = []
    for values, label, query, comment in zip(X.tolist(), y, qid, comments, strict=True):
        features = "".join(
            [name + format(value, ".6f") for name, value in zip(names, values, strict=True)]
        )
        lines.append(f"{label:.0f} qid:{query}{features} #{comment}\n")
    return "".join(lines).encode()


# --- Speed ----------------------------------------------------------------------------------------


def _compare(file: File, config: Config) -> list[Row]:
    megabytes = file.plain.stat().st_size / 1e6
    calls = {"scikit-learn": Call(partial(_scikit_learn, file))}
    for threads in thread_counts(config):
        calls[f"ranksvm {threads}"] = Call(partial(_ours, file.path, threads), threads)
    timings = interleave(calls, rounds=config.size(5, 1), seconds=config.size(25.0, 1.0))
    theirs = timings["scikit-learn"]
    rows = []
    for name, timing in timings.items():
        if name != "scikit-learn":
            _check_equal(timing.result, theirs.result, name)
        rows.append(
            {
                "file": file.name,
                "MB": megabytes,
                "by": name.split()[0],
                "threads": calls[name].threads,
                "seconds": timing.seconds,
                "MB / s": megabytes / timing.seconds,
                "/ scikit-learn": ratio(timing, theirs),
            }
        )
    return rows


def _scikit_learn(file: File) -> tuple[Any, ...]:
    found: tuple[Any, ...] = load_svmlight_file(str(file.path), query_id=file.has_qid)
    return found


def _ours(path: Path, threads: int) -> RankingData:
    return load_letor(path, n_jobs=threads)


def _check_equal(ours: RankingData, theirs: tuple[Any, ...], name: str) -> None:
    X = theirs[0]
    if isinstance(ours.X, np.ndarray):
        same = np.array_equal(ours.X, X.toarray())
    else:
        X.eliminate_zeros()
        same = all(
            np.array_equal(getattr(ours.X, part), getattr(X, part))
            for part in ("indptr", "indices", "data")
        )
    same = same and np.array_equal(ours.y, theirs[1])
    if len(theirs) > 2:
        same = same and np.array_equal(ours.qid, theirs[2])
    if not same:
        raise RuntimeError(f"{name} and scikit-learn read different numbers")


# --- Memory ---------------------------------------------------------------------------------------


def _memory(file: File, threads: int) -> Row:
    """Read the file in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.letor", str(file.path), str(threads)],
        cwd=Path(__file__).resolve().parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    return {
        "file": file.name,
        "MB": file.plain.stat().st_size / 1e6,
        "threads": threads,
        "X": found["kind"],
        "arrays, MB": found["arrays"] / 1e6,
        "of these comments": found["comments"] / 1e6,
        "peak, MB": found["peak"] / 1e6,
        "peak / arrays": found["peak"] / found["arrays"],
        "exact": found["exact"],
    }


def _measure(path: str, threads: int) -> dict[str, Any]:
    """In the child: read, and see how far the memory rose."""
    # A little text first, so that loaded libraries and the like do not count.
    load_letor(io.StringIO("1 qid:1 1:2 # a\n" * 1000), n_jobs=threads, dense=False)
    exact = reset_peak()
    before = peak()
    data = load_letor(path, n_jobs=threads)
    risen = peak() - before
    comments = 0 if data.comments is None else data.comments.nbytes
    ids = 0 if data.qid is None else data.qid.nbytes
    return {
        "kind": "dense" if isinstance(data.X, np.ndarray) else "CSR",
        "arrays": matrix_bytes(data.X) + data.y.nbytes + ids + comments,
        "comments": comments,
        "peak": risen,
        "exact": exact,
    }


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
