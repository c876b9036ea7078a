"""The pieces of work of a run, and their results, which joblib keeps on disk.

A run that was interrupted continues where it was: finished jobs are read, not computed.  Results
are kept in a folder named after what they depend on: the sources of ranksvm, of the benchmarks and
of ``papers/measure``, the data files, the processor, the versions of Python and the packages.  When
one of these changes, a new folder is started.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import joblib
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import ranksvm
from benchmarks.report import describe_machine
from benchmarks.sets import data_folder
from ranksvm import _core

Result = Mapping[str, Any]
Choice = TypeVar("Choice")

SETS = ("MQ2008", "OHSUMED", "cadata", "reuters21578")


@dataclass(frozen=True)
class Job:
    """A call of a function of :mod:`benchmarks.papers.measure`; ``label`` is for people."""

    label: str
    function: Callable[..., dict[str, Any]]
    arguments: Mapping[str, Any]


class Runner:
    """Runs jobs, or reads their results if they have been run before.

    Parameters
    ----------
    folder : Path
        Where results are kept.
    quick : bool
        Small sizes, to see that everything works.
    threads : int
        Threads of everything that takes a number of threads.
    """

    def __init__(self, folder: Path, *, quick: bool = False, threads: int = 2) -> None:
        self.quick = quick
        self.threads = threads
        self.computed = 0
        self.reused = 0
        self.seconds = 0.0  # that all jobs took, in this run or an earlier one
        self._memory = joblib.Memory(folder / fingerprint(), verbose=0)
        self._counted: set[tuple[str, str]] = set()

    def size(self, full: Choice, quick: Choice) -> Choice:
        """Return the first, or in a quick run the second."""
        return quick if self.quick else full

    def run(self, title: str, jobs: Sequence[Job]) -> list[Result]:
        """Return the results of jobs, in their order."""
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[job]}"),
        )  # fmt: skip
        results = []
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task(title, total=len(jobs), job="")
            for job in jobs:
                progress.update(bar, job=job.label)
                results.append(self._result(job))
                progress.update(bar, advance=1, job="")
        return results

    def _result(self, job: Job) -> Result:
        cached = self._memory.cache(job.function)
        known = cached.check_call_in_cache(**job.arguments)
        result: Result = cached(**job.arguments)
        key = job.function.__qualname__, joblib.hash(dict(job.arguments))
        if key not in self._counted:  # several sections may ask for the same job
            self._counted.add(key)
            self.seconds += cached.call_and_shelve(**job.arguments).duration
            self.reused += known
            self.computed += not known
        return result


def fingerprint() -> str:
    """Return a hash of everything that results depend on."""
    machine = describe_machine()
    digest = hashlib.sha256(json.dumps([machine["cpu"], machine["versions"]]).encode())
    here = Path(__file__).parent
    folders = [Path(ranksvm.__file__).parent, here / "measure"]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    paths += [Path(_core.__file__), *here.parent.glob("*.py")]
    paths += [path for name in SETS for path in (data_folder() / name).glob("*") if path.is_file()]
    for path in sorted(paths, key=lambda path: path.parts[-2:]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
