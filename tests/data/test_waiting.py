"""Files that have nothing to give yet: what comes late is waited for, never left out."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ranksvm
from ranksvm import LinearRankSVM
from ranksvm._waiting import blocking, patiently
from ranksvm.data import load_letor, read_pairs, read_qrels, save_letor
from ranksvm.datasets import make_ranking
from ranksvm.export import read_svmrank, write_svmrank
from ranksvm.learners import read_model

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes that do not block")

PROGRAM = Path(sys.executable).with_name("ranksvm")
ROWS = 1000
TEXT = "".join(
    f"{row % 3} qid:{row // 10} 1:{row % 7} 2:{row % 5}\n" for row in range(ROWS)
).encode()
PAIRS = "".join(f"{row + 1} {row}\n" for row in range(1, ROWS + 1)).encode()
QRELS = "".join(f"{row // 10} 0 d{row} {row % 3}\n" for row in range(ROWS)).encode()


@contextlib.contextmanager
def slow_pipe(content: bytes, delay: float = 0.03, *, buffered: bool = False) -> Iterator[Any]:
    """Give the reading end, which does not block, of a pipe that is filled in four parts."""
    end, other = os.pipe()
    os.set_blocking(end, False)

    def write() -> None:
        with os.fdopen(other, "wb", buffering=0) as file, contextlib.suppress(BrokenPipeError):
            step = len(content) // 4 + 1
            for begin in range(0, len(content), step):
                time.sleep(delay)
                file.write(content[begin : begin + step])

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(end, "rb", buffering=-1 if buffered else 0) as file:
        yield file
    writer.join()


def read_slowly(content: bytes, read: Callable[[Any], Any], buffered: bool) -> Any:
    with slow_pipe(content, buffered=buffered) as file:
        return read(file)


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize(
    ("content", "read"),
    [
        (TEXT, lambda file: load_letor(file).n_items),
        (PAIRS, lambda file: len(read_pairs(file).better)),
        (QRELS, lambda file: len(read_qrels(file).docid)),
    ],
    ids=["letor", "pairs", "qrels"],
)
def test_rows_of_a_slow_writer(content, read, buffered):
    assert read_slowly(content, read, buffered) == ROWS


@pytest.mark.parametrize("buffered", [False, True])
def test_models_of_a_slow_writer(tmp_path, buffered):
    X, y, qid, _ = make_ranking(10, 5, 300, random_state=0)
    model = LinearRankSVM().fit(X, y, qid=qid)
    model.save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    found = read_slowly(content, ranksvm.load, buffered)
    np.testing.assert_array_equal(found.coef_, model.coef_)
    write_svmrank(tmp_path / "m.dat", read_model(tmp_path / "m"))
    content = (tmp_path / "m.dat").read_bytes()
    found = read_slowly(content, read_svmrank, buffered)
    np.testing.assert_array_equal(found.coef, model.coef_)


def test_text_that_does_not_block_is_refused():
    with slow_pipe(TEXT, buffered=True) as file, io.TextIOWrapper(file) as text:
        with pytest.raises(BlockingIOError, match="binary mode"):
            load_letor(text)
        os.set_blocking(file.fileno(), True)
        assert load_letor(text).n_items == ROWS


class Hesitant(io.RawIOBase):
    """Has nothing to give, and no descriptor to wait for."""

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> None:
        return None


def test_what_cannot_be_waited_for_is_an_error():
    for file in (Hesitant(), io.BufferedReader(Hesitant())):
        with pytest.raises(BlockingIOError, match="no descriptor to wait for"):
            load_letor(file)


def test_patiently_and_blocking():
    answers = iter([None, BlockingIOError(), b"x"])

    def read() -> bytes | None:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with slow_pipe(b"x") as file:
        assert patiently(file, read) == b"x"
        assert blocking(file) is not file
    there = io.BytesIO(b"x")
    assert blocking(there) is there


# --- Commands ------------------------------------------------------------------------------------


@pytest.fixture
def slowly(good):
    """Run a command whose standard input comes slowly and does not block."""

    def run(content: bytes, *arguments: object) -> str:
        with slow_pipe(content, buffered=True) as file:
            return good(*arguments, stdin=file)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("waiting")
    (folder / "train.txt").write_bytes(TEXT)
    data = load_letor(folder / "train.txt")
    LinearRankSVM().fit(data.X, data.y, qid=data.qid).save(folder / "m")
    (folder / "scores").write_text("".join(f"{row}\n" for row in range(ROWS)))
    save_letor(folder / "more.txt", data.X, data.y, data.qid)
    return folder


def test_standard_input_of_the_commands(slowly, good, folder, tmp_path):
    train = folder / "train.txt"
    assert f"{ROWS:,} items" in slowly(TEXT, "train", "-")
    assert f"{ROWS:,}" in slowly(TEXT, "info", "-")
    pairs = PAIRS[: PAIRS.rindex(b"\n", 0, -1) + 1]
    assert f"{ROWS - 1} explicit pairs" in slowly(pairs, "train", train, "--pairs", "-")
    slowly((folder / "scores").read_bytes(), "evaluate", train, "--scores", "-")
    assert slowly((folder / "m").read_bytes(), "predict", "-", train).count("\n") == ROWS
    for form in ("csv", "parquet"):
        good("convert", train, tmp_path / f"t.{form}")
        content = (tmp_path / f"t.{form}").read_bytes()
        assert f"{ROWS:,} items" in slowly(content, "train", "-", "--format", form)
        assert f"{ROWS:,}" in slowly(content, "info", "-", "--format", form)


def test_standard_input_of_the_program():
    with slow_pipe(TEXT, delay=0.4) as file:  # the program takes a while to start
        done = subprocess.run(
            [PROGRAM, "train", "-"], stdin=file, capture_output=True, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{ROWS:,} items" in done.stdout
