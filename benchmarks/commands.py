"""How long the command line takes from a cold shell: start, imports, reading, fitting, writing.

Every run is a process of its own, started as a user would.  The training file has the size of
MQ2008's first fold, and is that fold when the real data is there.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import SEED, Config
from benchmarks.report import Report
from benchmarks.sets import data_folder
from ranksvm.data import save_letor
from ranksvm.datasets import make_ranking

TITLE = "seconds of commands, from the shell and back"


def run(config: Config, report: Report) -> None:
    program = Path(sys.executable).with_name("ranksvm")
    rounds = config.size(9, 2)
    with tempfile.TemporaryDirectory() as folder:
        files, what = _training_files(Path(folder))
        model, scores = f"{folder}/model.safetensors", f"{folder}/scores.txt"
        commands = {
            "ranksvm --help": ["--help"],
            "ranksvm train": ["train", *files, "-o", model],
            "ranksvm train --loss hinge": ["train", *files, "--loss", "hinge", "-o", model],
            "ranksvm tune --folds 5": ["tune", *files, "--folds", "5", "-o", model],
            "ranksvm predict": ["predict", model, *files, "-o", scores],
            "ranksvm evaluate": ["evaluate", *files, "--scores", scores],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        imports = ("import numpy, scipy.sparse", "import sklearn.base")
        floor: dict[str, list[float]] = {f"python -c {one!r}": [] for one in imports}
        for _ in range(rounds):
            for times, one in zip(floor.values(), imports, strict=True):
                times.append(_seconds([sys.executable, "-c", one]))
            for name, arguments in commands.items():
                seconds[name].append(_seconds([str(program), *arguments]))
    rows = [
        {"command": name, "median, s": statistics.median(times), "slowest, s": max(times)}
        for name, times in {**floor, **seconds}.items()
    ]
    report.table(f"{what}, {rounds} runs each", rows)
    for key, name in {"help_seconds": "ranksvm --help", "train_seconds": "ranksvm train"}.items():
        report.reach(key, statistics.median(seconds[name]), f"median of {rounds} runs, {what}")


def _training_files(folder: Path) -> tuple[list[str], str]:
    parts = [data_folder() / "MQ2008" / f"S{part}.txt.gz" for part in (1, 2, 3)]
    if all(part.is_file() for part in parts):
        return [str(part) for part in parts], "MQ2008, first fold (9,630 items)"
    X, y, qid, _ = make_ranking(471, (8, 33), 46, random_state=SEED)
    save_letor(folder / "train.txt.gz", X, y, qid)
    return [str(folder / "train.txt.gz")], f"generated, {len(y):,} items"


def _seconds(command: Sequence[str]) -> float:
    before = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - before
