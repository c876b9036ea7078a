"""Tasks that fail in all ways that workers fail; workers import this module."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ranksvm._messages import Param, ParameterError
from ranksvm.dask import shards
from ranksvm.dask.shards import DaskShards

CLIENT: Any = None  # for workers in the process of the test


class OddError(ValueError):
    """An error that only the worker's program knows."""


def at_round(monkeypatch: Any, fault: Any, *arguments: Any, of: int = 4) -> None:
    """Let the tasks of one round of all shards, counted from 0, run ``fault`` first."""
    rounds = itertools.count()
    faulty = partial(run_with_fault, fault, arguments)

    def map_with_fault(self: DaskShards, tasks: Any) -> Any:
        function = faulty if next(rounds) == of else shards.run_task
        return self._engine.results(self._submitted(function, tasks), self._names)

    monkeypatch.setattr(DaskShards, "map", map_with_fault)


class Work(NamedTuple):
    """What faults know of a task: the size of its shard, and how to run it."""

    n_items: int
    run: Callable[[], Any]


def run_with_fault(fault: Any, arguments: Any, task: Any, state: Any, *rest: Any) -> Any:
    run = partial(shards.run_task, task, state, *rest)
    fault(Work(state.n_items, run), *arguments)
    return run()


def is_first(flag: str) -> bool:
    """Return True once, over all processes."""
    try:
        Path(flag).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def tells_where_it_runs(work: Work, path: str) -> None:
    """Once: write the number of this process to a file, and work until it is killed."""
    if is_first(f"{path}.first"):
        Path(f"{path}.new").write_text(str(os.getpid()))
        os.replace(f"{path}.new", path)
        while True:
            work.run()


def waits_for_a_failure() -> None:
    while all(one.status != "error" for one in list(CLIENT.futures.values())):
        time.sleep(0.01)


def is_always_killed(work: Work, n_items: int) -> None:
    if work.n_items == n_items:
        os.kill(os.getpid(), signal.SIGKILL)


def runs_out_of_memory_once(work: Work, flag: str, size: int) -> None:
    if is_first(flag):
        hoard = np.ones(size // 8)
        for _ in range(200):  # until the nanny ends it
            time.sleep(0.1)
            hoard += 1.0
        raise AssertionError("the nanny let it live")


def is_slow(work: Work, seconds: float) -> None:
    time.sleep(seconds)


def raises(work: Work, n_items: int, kind: str) -> None:
    if work.n_items != n_items:
        return
    if kind == "parameter":
        raise ParameterError("{C} is {odd} for this {{shard}}", C=Param("C", 3), odd="odd")
    if kind == "value":
        raise ValueError("row 7 is broken")
    if kind == "odd":
        raise OddError("row 7 is odd")
    if kind == "silent":
        raise OSError
    raise KeyError("lost key")


class Remembered:
    """Task: return what a shard remembers."""

    def needs_items(self, shard: Any) -> bool:
        return False

    def __call__(self, shard: Any) -> list[str]:
        return sorted(shard.memo)
