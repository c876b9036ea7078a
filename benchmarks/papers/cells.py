"""Cells: the pieces of work that a run consists of, and the folder that keeps finished ones.

A cell is a function of a module and its arguments, which are JSON.  What it returns, numbers, texts
and arrays by name, is kept in one file:

    cells/<name of the function>/<key>.npz

The key is a hash of everything that the result depends on: the function and its arguments, the
sources of its module and of what that imports from the benchmarks, the sources of ranksvm with its
native part, the files of the real sets that the cell reads, the processor, the versions of Python
and of the packages that compute.  A run that is broken off goes on where it was: cells that are
there are read, not computed, and when any of those things has changed they are computed anew.  A
file is written beside and renamed, so a cell is there as a whole or not at all.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import ranksvm
from benchmarks.report import describe_machine
from benchmarks.sets import data_folder
from ranksvm._files import atomic_write

__all__ = ["Cell", "Lab", "Result", "fix_sources", "in_child"]

Result = Mapping[str, Any]
PACKAGE = "benchmarks"

# Names of entries that the laboratory itself adds to a result.
SECONDS = "cell_seconds"
_PLAIN = "__plain__"  # the entry of the file that has all but the arrays, as JSON
# Packages whose version may change a result.
_VERSIONS = ("python", "numpy", "scipy", "scikit-learn", "lightgbm")
# What reading a damaged file can raise.
_DAMAGED = (
    OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A piece of work.

    Attributes
    ----------
    label : str
        What it is, for the progress bar.
    compute : callable
        A function at the top level of a module; returns numbers, texts and arrays by name.
    arguments : mapping of str to JSON
    reads : tuple of str
        Folders of real sets whose files the cell reads.
    """

    label: str
    compute: Callable[..., Mapping[str, Any]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        about = {
            "function": f"{self.compute.__module__}.{self.compute.__qualname__}",
            "arguments": self.arguments,
            "module": _module_digest(self.compute.__module__),
            "ranksvm": _library_digest(),
            "sets": {name: _set_digest(str(data_folder() / name)) for name in self.reads},
            "machine": _machine(),
        }
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]


class Lab:
    """Computes cells, or finds them in its folder.

    Parameters
    ----------
    folder : Path
        Where finished cells are kept.
    quick : bool
        Small sizes, to see that everything works.
    threads : int
        Threads of everything that takes a number of threads.
    progress : callable
        ``progress(title, labels)`` gives a context whose value is called as ``tell(label, known)``
        before each cell; see :mod:`benchmarks.papers.progress`.
    """

    def __init__(
        self, folder: Path, *, quick: bool = False, threads: int = 2, progress: Any = None
    ) -> None:
        self.folder = folder
        self.quick = quick
        self.threads = threads
        self.computed = 0
        self.found = 0
        self.seconds = 0.0  # of all cells, also of those that were found
        self._progress = progress or _silent
        self._counted: set[str] = set()

    def size(self, full: Any, quick: Any) -> Any:
        """The first of the two, or in a quick run the second."""
        return quick if self.quick else full

    def run(self, title: str, cells: Sequence[Cell]) -> list[Result]:
        """Results of cells, in their order."""
        with self._progress(title, len(cells)) as tell:
            return [self._one(cell, tell) for cell in cells]

    def _one(self, cell: Cell, tell: Callable[[str, bool], None]) -> Result:
        key = cell.key
        path = self.folder / cell.compute.__name__ / f"{key}.npz"
        result = _read(path)
        known = result is not None
        tell(cell.label, known)
        if result is None:
            start = time.perf_counter()
            made = dict(cell.compute(**cell.arguments))
            _write(path, made | {SECONDS: time.perf_counter() - start})
            result = _read(path)  # as a later run finds it
            if result is None:
                raise OSError(f"{path} was written and cannot be read: is the disk full?")
        if key not in self._counted:  # two papers may ask for the same cell
            self._counted.add(key)
            self.seconds += result[SECONDS]
            self.found += known
            self.computed += not known
        return result


@contextmanager
def _silent(title: str, total: int) -> Iterator[Callable[[str, bool], None]]:
    del title, total
    yield lambda label, known: None


# --- Files ----------------------------------------------------------------------------------------


def _write(path: Path, result: Result) -> None:
    arrays = {name: value for name, value in result.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in result.items() if name not in arrays}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(f"a cell cannot keep {name!r}, an array of Python objects")
    text = json.dumps(plain, default=_as_python)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays, **{_PLAIN: np.array(text)})


def _read(path: Path) -> Result | None:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return {**json.loads(str(arrays.pop(_PLAIN))), **arrays}
    except FileNotFoundError:
        return None
    except _DAMAGED:
        return None  # computed anew


def _as_python(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a cell cannot keep a {type(value).__name__}")


# --- What a result depends on ---------------------------------------------------------------------


@cache
def _machine() -> dict[str, Any]:
    found = describe_machine()
    return {"cpu": found["cpu"]} | {name: found["versions"][name] for name in _VERSIONS}


def fix_sources() -> None:
    """Read all sources that keys depend on now, so that edits during a long run do no harm."""
    _library_digest()
    for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]:
        if name != __name__ and getattr(sys.modules[name], "__file__", None):
            _module_digest(name)


@cache
def _module_digest(name: str) -> str:
    """Of the source of a module and of the modules of the benchmarks that it imports, and so on.

    This module is left out: how results are kept is no part of them.
    """
    digest = hashlib.sha256()
    seen, left = {__name__}, [name]
    while left:
        current = left.pop()
        if current in seen:
            continue
        seen.add(current)
        source = inspect.getsource(importlib.import_module(current))
        digest.update(f"{current}\0{source}\0".encode())
        left += sorted(_imported(ast.parse(source)))
    return digest.hexdigest()


def _imported(tree: ast.AST) -> set[str]:
    """Modules of the benchmarks that are named by the imports of a source."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    ours = {name for name in names if name.split(".")[0] == PACKAGE}
    return {name for name in ours if name != PACKAGE and _is_module(name)}


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False


@cache
def _library_digest() -> str:
    """Of all Python files of ranksvm, and its native module."""
    digest = hashlib.sha256()
    for path in sorted(Path(ranksvm.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    from ranksvm import _core

    digest.update(Path(_core.__file__).read_bytes())
    return digest.hexdigest()


@cache
def _set_digest(folder: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in Path(folder).glob("*") if path.is_file()):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


# --- Cells that measure the memory of a process ---------------------------------------------------


def in_child(function: Callable[..., Mapping[str, Any]], **arguments: Any) -> dict[str, Any]:
    """Call a function of a module in a new process with one thread; what it returns is JSON."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    program = (
        "import importlib, json, sys\n"
        "function = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])\n"
        "print(json.dumps(function(**json.loads(sys.argv[3]))))\n"
    )
    names = [function.__module__, function.__name__]
    done = subprocess.run(
        [sys.executable, "-c", program, *names, json.dumps(arguments)],
        env=os.environ | one,
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
