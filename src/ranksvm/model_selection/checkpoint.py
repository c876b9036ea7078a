"""Searches that go on where they were broken off.

What is finished is kept in an SQLite database: a table ``search`` that says which search it is,
part by part (SHA-256 of what is long), and a table ``cells`` with one row for every training part
on which all C are done.  A row is written in a transaction of its own, so that a process that is
killed at any moment loses at most the cell it was working on.

One search at a time: the database is locked as long as it is open, and the lock ends with the
process, however it ends.  Every row has a checksum, which covers the identity of the search, too;
and its numbers must be possible ones: a metric within its bounds, objectives, gaps and seconds not
negative.  What is not exactly as it was written is refused.  A file made for a search that failed
before anything was finished is removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np

from ranksvm._messages import Param, ParameterError
from ranksvm._text import printable
from ranksvm._version import library_version
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import Settings
from ranksvm.metrics.registry import parse_metric

__all__ = ["Cell", "Checkpoint", "identity"]

APPLICATION = 0x52535643  # marks the database as ours: "RSVC"
FORMAT = 3
SQLITE = b"SQLite format 3\0"
OLD_FORMATS = b'{"file": "ranksvm grid search"'
# Of the settings: what the cells stand for themselves, and what changes no model.  A search that
# ran out of memory may go on with another budget.
NOT_PART = ("C", "memory_budget")
REALS = ("scores", "objectives", "gaps", "seconds")  # that a cell has for every C
COUNTS = ("n_iter", "n_products")
NOT_FINITE = ("nan", "inf", "-inf")
HASHED_VALUES = 1 << 22  # at a time
REDO = "Delete the file to start over."


@dataclass(frozen=True)
class Cell:
    """Fits for all C on one training part: metric, certificate and effort by C.

    ``statuses`` are names of :class:`ranksvm.solvers.base.Status`.
    """

    scores: tuple[float, ...]
    objectives: tuple[float, ...]
    gaps: tuple[float, ...]
    seconds: tuple[float, ...]
    n_iter: tuple[int, ...]
    n_products: tuple[int, ...]
    statuses: tuple[str, ...]
    solver: str

    def to_text(self) -> str:
        """Return the cell as JSON; numbers with the digits that give the same bits back."""
        return json.dumps({name: _plain(value) for name, value in asdict(self).items()})

    @classmethod
    def from_text(cls, text: str, n_C: int, metric: str) -> Self:
        """Return the cell of a row; raise a ValueError, KeyError or TypeError if it is none."""
        entries = json.loads(text)
        if entries.keys() != {one.name for one in fields(cls)}:
            raise ValueError
        statuses, solver = entries["statuses"], entries["solver"]
        if not all(isinstance(one, str) for one in [*_listed(statuses, n_C), solver]):
            raise ValueError
        numbers: dict[str, Any] = {
            **{name: tuple(map(_real, _listed(entries[name], n_C))) for name in REALS},
            **{name: tuple(map(_count, _listed(entries[name], n_C))) for name in COUNTS},
        }
        low, high = parse_metric(metric).bounds
        within = all(math.isnan(score) or low <= score <= high for score in numbers["scores"])
        if not within or any(value < 0.0 for name in REALS[1:] for value in numbers[name]):
            raise ValueError
        return cls(**numbers, statuses=tuple(statuses), solver=solver)


def _listed(values: Any, n: int) -> list[Any]:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError
    return values


def _real(value: Any) -> float:
    if type(value) not in (float, int) and value not in NOT_FINITE:
        raise ValueError
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # which float() reads
    return value


class Checkpoint:
    """The file of a search, which nobody else may use meanwhile.

    Parameters
    ----------
    path : path-like
        Of a regular file; read if it is there, and made if not.
    search : mapping of str to str
        See :func:`identity`.
    n_C : int
        Values in a cell.
    random_state : int or None
        What a new file is to keep.

    Attributes
    ----------
    random_state : int or None
        The one that the search began with.

    Raises
    ------
    ValueError
        If the file belongs to another search, or is in use, or is none of ours, or is damaged.
    OSError
        If it cannot be read or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        search: Mapping[str, str],
        n_C: int,
        random_state: int | None,
    ) -> None:
        self.random_state = random_state
        self._search, self._n_C = dict(search), n_C
        self._path = _checked_path(path)
        self._is_new = not os.path.exists(self._path) or not os.path.getsize(self._path)
        self._cells: dict[tuple[str, int], Cell] = {}
        with self._errors():
            # Transactions are told by us.  Nobody waits for a lock.
            self._base = sqlite3.connect(self._path, isolation_level=None, timeout=0.0)
        try:
            with self._errors():
                self._open()
        except BaseException:
            self._close(failed=True)
            raise

    def _open(self) -> None:
        base = self._base
        base.execute("PRAGMA locking_mode = EXCLUSIVE")
        base.execute("PRAGMA synchronous = FULL")
        base.execute("BEGIN EXCLUSIVE")  # and the lock stays until the file is closed
        (tables,) = base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        self._is_new = not tables  # another process may have made it meanwhile
        if self._is_new:
            base.execute(f"PRAGMA application_id = {APPLICATION}")
            base.execute(f"PRAGMA user_version = {FORMAT}")
            base.execute("CREATE TABLE search (part TEXT PRIMARY KEY, value TEXT NOT NULL)")
            base.execute(
                "CREATE TABLE cells (candidate TEXT, split INTEGER, content TEXT NOT NULL, "
                "sha256 TEXT NOT NULL, PRIMARY KEY (candidate, split))"
            )
            told = {**self._search, "random state": json.dumps(self.random_state)}
            base.executemany("INSERT INTO search VALUES (?, ?)", told.items())
        else:
            self._check_file()
            self._read()
        base.execute("COMMIT")

    def _check_file(self) -> None:
        (application,) = self._base.execute("PRAGMA application_id").fetchone()
        (version,) = self._base.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise _not_ours(self._path)
        if version != FORMAT:
            raise _other_version(self._path, version)
        (sound,) = self._base.execute("PRAGMA quick_check(1)").fetchone()
        if sound != "ok":
            raise sqlite3.DatabaseError(sound)

    def _read(self) -> None:
        """Take over what is finished."""
        there = dict(self._base.execute("SELECT part, value FROM search"))
        try:
            random_state = json.loads(there.pop("random state"))
            if random_state is not None:
                _count(random_state)
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{self._path} is damaged. {REDO}") from None
        names = [*self._search, *(name for name in there if name not in self._search)]
        other = [name for name in names if self._search.get(name) != there.get(name)]
        if other:
            raise ValueError(
                f"{self._path} is from a different search (different "
                f"{printable(', '.join(map(str, other)))[:200]}). Delete it or choose another file."
            )
        self.random_state = random_state
        rows = self._base.execute("SELECT candidate, split, content, sha256 FROM cells")
        for candidate, split, content, checksum in rows:
            try:
                if self._checksum(candidate, split, content) != checksum:
                    raise ValueError
                cell = Cell.from_text(content, self._n_C, self._search["metric"])
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                raise ValueError(
                    f"{self._path} is damaged: the results of {printable(str(candidate))[:80]}, "
                    f"split {printable(str(split))[:20]}, are not as they were written. {REDO}"
                ) from None
            self._cells[candidate, split] = cell

    def _checksum(self, candidate: str, split: int, content: str) -> str:
        parts = [self._search, self.random_state, candidate, split, content]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(failed=kind is not None and issubclass(kind, Exception))

    def _close(self, *, failed: bool) -> None:
        if failed and self._is_new and not self._cells:
            with suppress(OSError):
                os.unlink(os.path.realpath(self._path))  # while it is still locked
        self._base.close()

    def get(self, candidate: str, split: int) -> Cell | None:
        """Return a finished cell; None if it is still to do."""
        return self._cells.get((candidate, split))

    def add(self, candidate: str, split: int, cell: Cell) -> None:
        """Keep a finished cell."""
        content = cell.to_text()
        row = (candidate, split, content, self._checksum(candidate, split, content))
        with self._errors():
            self._base.execute("INSERT INTO cells VALUES (?, ?, ?, ?)", row)
        self._cells[candidate, split] = cell

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's errors into ours, which name the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise ValueError(
                    f"{self._path} is in use by another process, a search that keeps its results "
                    "there. Wait until it has ended, or give another name."
                ) from None
            full = "full" in str(error)
            code = errno.ENOSPC if full else errno.EIO
            what = os.strerror(errno.ENOSPC) if full else f"cannot be used: {error}"
            raise OSError(code, what, self._path) from None
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self._path} is damaged ({error}). {REDO}") from None


def _checked_path(path: Any) -> str:
    """Return the name of a file; raise if it can be no checkpoint."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(name, str):
        raise TypeError(f"the checkpoint must be a path as text; got {name!r}")
    if not name:
        raise ValueError("the name of the checkpoint is empty: give a file")
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        directory = os.path.dirname(os.path.realpath(name))
        if not os.path.isdir(directory):
            message = f"cannot write: there is no directory {directory!r}; create it first"
            raise FileNotFoundError(errno.ENOENT, message, name) from None
        return name
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "cannot be a checkpoint: this is a directory", name)
    if not stat.S_ISREG(mode):
        raise ValueError(
            f"{name} cannot be a checkpoint: it is a device or a pipe, and keeps nothing. Give the "
            "name of a file."
        )
    with open(name, "rb") as file:
        head = file.read(len(OLD_FORMATS))
    if head.startswith(OLD_FORMATS):
        raise _other_version(name, "1 or 2")
    if head and not head.startswith(SQLITE):
        raise _not_ours(name)
    return name


def _not_ours(path: str) -> ValueError:
    return ValueError(
        f"{path} already exists and is not a checkpoint; not overwritten. Choose another file."
    )


def _other_version(path: str, version: Any) -> ValueError:
    return ValueError(
        f"{path} is a checkpoint of another version of ranksvm (format {version}, expected "
        f"{FORMAT}). Delete it or choose another file."
    )


def identity(
    data: RankingData,
    settings: Settings,
    splits: Sequence[Any],
    Cs: Any,
    metric: str,
    conventions: str,
    searched: Sequence[str],
) -> dict[str, str]:
    """Return what a search is, part by part; equal texts mean that cells can be taken over.

    The values of the parameters that are ``searched`` beside C are no part: a grid may grow.

    Raises
    ------
    ValueError
        If the kernel is code, which cannot be compared.
    """
    left_out = (*NOT_PART, *searched)
    part = {name: value for name, value in asdict(settings).items() if name not in left_out}
    if any(callable(value) for value in part.values()):
        raise ParameterError(
            "a search with a callable kernel cannot be kept in a file and resumed: use a named or "
            "a precomputed kernel, or no {checkpoint}",
            checkpoint=Param("checkpoint"),
        )
    return {
        "items": _digest(data.X, data.truth, data.groups.index),
        "weights": _digest(data.item_weight, data.query_weight),
        "splits": _digest(*(array for split in splits for array in split.parts())),
        "Cs": _digest(Cs),
        "settings": json.dumps(part, sort_keys=True, default=_as_python),
        "metric": metric,
        "conventions": conventions,
        "version of ranksvm": library_version(),
    }


def _as_python(value: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    return value.item()


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        parts = (
            [array] if not hasattr(array, "indptr") else [array.data, array.indices, array.indptr]
        )
        shape = None if array is None else array.shape
        digest.update(repr(shape).encode())
        for part in parts:
            if part is not None:
                _update(digest, np.asarray(part))
    return digest.hexdigest()


def _update(digest: Any, array: Any) -> None:
    """Add type and values, in C order, without a copy of the whole."""
    digest.update(array.dtype.str.encode())
    if array.dtype.kind == "O" or array.dtype == np.longdouble:  # their bytes are not their values
        digest.update(repr(array.tolist()).encode())
        return
    rows = max(1, HASHED_VALUES // max(1, math.prod(array.shape[1:])))
    for first in range(0, array.shape[0], rows):
        digest.update(array[first : first + rows].tobytes())
