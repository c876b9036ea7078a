"""What all tests share: how hypothesis draws, and where the real data lies."""

from __future__ import annotations

import io
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_svmlight_file

from ranksvm.data import RankingData, save_letor
from ranksvm.data.synthetic import make_ranking

# The same examples in every run; no time limits, as machines differ.
settings.register_profile("ranksvm", max_examples=75, deadline=None, derandomize=True)
settings.load_profile("ranksvm")


@pytest.fixture(scope="session", autouse=True)
def _interrupts_arrive() -> None:
    """A shell without job control starts what runs in the background with interrupts ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def untouched() -> Callable[[int, type], np.ndarray]:
    """Return ``make(n, dtype)``: zeros that take addresses but no memory until they are written."""

    def make(n: int, dtype: type) -> np.ndarray:
        if sys.platform != "linux":
            pytest.skip("this system does not hand out addresses without memory")
        no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python has the name from 3.13 on
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
        try:
            block = mmap.mmap(-1, n * np.dtype(dtype).itemsize, flags=flags)
        except OSError as error:
            pytest.skip(f"cannot reserve the addresses: {error}")
        return np.frombuffer(block, dtype=dtype)

    return make


@pytest.fixture(scope="session")
def samples() -> dict[str, Any]:
    """Small sets to train, choose and test on; some files have their own."""
    return {
        name: make_ranking(n, (3, 9), 5, random_state=seed)
        for seed, (name, n) in enumerate({"train": 18, "valid": 10, "test": 10}.items())
    }


@pytest.fixture(scope="module")
def folder(samples: dict[str, Any], tmp_path_factory: Any) -> Path:
    """These sets as text, as tables, and as tables with their columns turned round."""
    pandas = pytest.importorskip("pandas")
    folder: Path = tmp_path_factory.mktemp("samples")
    names = [f"n{j}" for j in range(5)]
    for name, (X, y, qid, _) in samples.items():
        save_letor(folder / f"{name}.txt", X, y, qid)
        frame = pandas.DataFrame(X, columns=names).assign(label=y, qid=qid)
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame[["qid", *names[::-1], "label"]].to_csv(folder / f"{name}-turned.csv", index=False)
    return folder


@pytest.fixture
def run(capsysbinary: Any, monkeypatch: Any) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process; gives exit code, stdout and stderr."""
    from ranksvm.cli import main

    def run(*arguments: object, stdin: Any = b"") -> tuple[int, str, str]:
        """``stdin``: bytes, or a binary file."""
        buffer = io.BufferedReader(io.BytesIO(stdin)) if isinstance(stdin, bytes) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return ended.value.code or 0, out.decode(), err.decode()

    return run


@pytest.fixture
def good(run: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Return the same for commands that have to go well and say nothing on stderr; gives stdout."""

    def good(*arguments: object, stdin: Any = b"") -> str:
        code, out, err = run(*arguments, stdin=stdin)
        assert (code, err) == (0, "")
        return out

    return good


@pytest.fixture(scope="session")
def on_a_terminal() -> Callable[..., tuple[int, str]]:
    """Run a command with stdout and stderr on a terminal; gives exit code and what it showed."""
    pty = pytest.importorskip("pty", reason="terminals of a POSIX system")

    def run(*arguments: object) -> tuple[int, str]:
        master, slave = pty.openpty()
        command = [sys.executable, "-m", "ranksvm", *map(str, arguments)]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
        with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment) as process:
            os.close(slave)
            shown = b""
            while True:
                try:
                    part = os.read(master, 65536)
                except OSError:  # how Linux tells that the other side is closed
                    break
                if not part:
                    break
                shown += part
        os.close(master)
        return process.returncode, shown.decode()

    return run


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The real sets: in $RANKSVM_DATA, or beside the repository; they are not part of it."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    directory = Path(os.environ.get("RANKSVM_DATA", beside))
    if not directory.is_dir():
        pytest.skip("no real data; set RANKSVM_DATA to the directory with MQ2008, OHSUMED, cadata")
    return directory


def load_letor(directory: Path, name: str, parts: str) -> RankingData:
    """Parts of a LETOR set, one after the other; ``parts`` as in "123"."""
    paths = [directory / name / f"S{part}.txt.gz" for part in parts]
    for path in paths:
        if not path.is_file():
            pytest.skip(f"no file {path.name} of {name} in the data directory")
    blocks = [load_svmlight_file(path, query_id=True) for path in paths]
    n_features = max(block[0].shape[1] for block in blocks)
    X = np.zeros((sum(block[0].shape[0] for block in blocks), n_features))
    row = 0
    for block in blocks:
        X[row : row + block[0].shape[0], : block[0].shape[1]] = block[0].toarray()
        row += block[0].shape[0]
    y = np.concatenate([block[1] for block in blocks])
    qid = np.concatenate([block[2] for block in blocks])
    return RankingData(X, y, qid)


def load_cadata(directory: Path) -> tuple[RankingData, RankingData]:
    """The first 16,000 items of a seeded permutation, standardised, and the rest on their scale."""
    path = directory / "cadata" / "cadata.txt.gz"
    if not path.is_file():
        pytest.skip("no cadata/cadata.txt.gz in the data directory")
    X, y = load_svmlight_file(path)
    X = X.toarray()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:16_000], order[16_000:]
    return RankingData(X[train], y[train], None), RankingData(X[test], y[test], None)
