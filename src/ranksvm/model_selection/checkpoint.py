"""Searches that go on where they were broken off.

What is finished is kept in an SQLite database: a table ``search`` that says which search it is,
part by part (SHA-256 of what is long), and a table ``cells`` with one row for every training part
on which all C are done.  A row is written in a transaction of its own, so that a process that is
killed at any moment loses at most the cell it was working on.

One search at a time: the file is locked as long as it is open, and the lock ends with the process,
however it ends.  The lock is ours (flock, see :mod:`ranksvm._files`), and SQLite's are switched
off: theirs are lost when anything else in the process has read the file, and not every network
drive has them.  Where a system has no locks at all, the search goes on without.

Only a file that begins as ours do is opened as a database at all, since SQLite may write even when
it reads.  The tables must be exactly those that are made here, and everything in them has a
checksum; that of a cell covers the identity of the search, too.  The numbers of a cell must be
possible ones: a metric within its bounds, objectives, gaps and seconds not negative.  What is not
as it was written is refused and left alone; rows of ``cells`` may be deleted.  A file made for a
search that failed before anything was finished is removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import sqlite3
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from ranksvm._files import naming, try_lock
from ranksvm._messages import Param, ParameterError
from ranksvm._text import printable
from ranksvm._vectors import Array
from ranksvm._version import library_version
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import Settings
from ranksvm.metrics.registry import parse_metric
from ranksvm.model_selection.splits import Split
from ranksvm.solvers.base import Status

__all__ = ["Cell", "Checkpoint", "identity"]

APPLICATION = 0x52535643  # marks the database as ours: "RSVC"
FORMAT = 3
# How a database begins: what it is, versions of its layout, its user's version and application.
HEAD = struct.Struct(">16s 2x 2s 40x i 4x i")
SQLITE, LAYOUT = b"SQLite format 3\0", b"\x01\x01"
OLD_FORMATS = b'{"file": "ranksvm grid search"'  # formats 1 and 2 were text
TABLES = (
    "CREATE TABLE cells (candidate TEXT, split INTEGER, content TEXT NOT NULL, "
    "sha256 TEXT NOT NULL, PRIMARY KEY (candidate, split)) WITHOUT ROWID",
    "CREATE TABLE search (part TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
SEED, CHECKSUM = "random state", "sha256"  # parts of ``search`` beside the identity
# Errors of SQLite that are those of the system; others mean that the file is damaged.
OF_THE_SYSTEM = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
}
# Of the settings: what the cells stand for themselves, and what changes no model.  A search that
# ran out of memory may go on with another budget.
NOT_PART = ("C", "memory_budget")
REALS = ("scores", "objectives", "gaps", "seconds")  # that a cell has for every C
COUNTS = ("n_iter", "n_products")
NOT_FINITE = ("nan", "inf", "-inf")
HASHED_VALUES = 1 << 22  # at a time
START_OVER = "Delete the file to start over."
# What a text can raise that is none of ours.
UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)


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
        entries = {name: _plain(value) for name, value in asdict(self).items()}
        return json.dumps(entries, allow_nan=False)

    @classmethod
    def from_text(cls, text: str, n_C: int, metric: str) -> Self:
        """Return the cell of a row; raise one of ``UNREADABLE`` if it is none."""
        entries = json.loads(text)
        if not isinstance(entries, dict) or entries.keys() != {one.name for one in fields(cls)}:
            raise ValueError
        statuses, solver = _listed(entries["statuses"], n_C), entries["solver"]
        if not isinstance(solver, str) or any(one not in Status.__members__ for one in statuses):
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
        self.random_state = None if random_state is None else int(random_state)
        self._search, self._n_C = dict(search), n_C
        self._cells: dict[tuple[str, int], Cell] = {}
        self._is_new = False
        self._path = _checked_path(path)
        self._file = os.path.realpath(self._path)
        self._journal = f"{self._file}-journal"  # where SQLite keeps what it may have to undo
        self._base: sqlite3.Connection | None = None
        self._descriptor = _open_locked(self._path)
        try:
            self._is_new = not os.fstat(self._descriptor).st_size
            if not self._is_new:
                _check_head(self._path, os.pread(self._descriptor, HEAD.size, 0))
            with self._errors():
                self._base = _connect(self._file)
                self._open(self._base)
        except BaseException:
            self._close(failed=True)
            raise

    def _open(self, base: sqlite3.Connection) -> None:
        found = base.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
        # By now SQLite has undone what a process had begun that was killed, which may be all.
        with suppress(OSError):  # a journal that was cut off itself has nothing to undo, and stays
            os.unlink(self._journal)
        self._is_new = not os.fstat(self._descriptor).st_size
        if self._is_new:
            self._make(base)
            return
        if found != [(table,) for table in TABLES]:
            raise self._damaged("its tables are not as they were made")
        (sound,) = base.execute("PRAGMA integrity_check(1)").fetchone()
        if sound != "ok":
            raise self._damaged(printable(sound.splitlines()[-1])[:200])
        self._read_search(base)
        self._read_cells(base)

    def _make(self, base: sqlite3.Connection) -> None:
        base.execute("BEGIN")
        base.execute(f"PRAGMA application_id = {APPLICATION}")
        base.execute(f"PRAGMA user_version = {FORMAT}")
        for table in TABLES:
            base.execute(table)
        parts = {**self._search, SEED: json.dumps(self.random_state)}
        parts[CHECKSUM] = _sha256(parts)
        base.executemany("INSERT INTO search VALUES (?, ?)", parts.items())
        base.execute("COMMIT")

    def _read_search(self, base: sqlite3.Connection) -> None:
        """Take over the random state, if this is the same search."""
        there = dict(base.execute("SELECT part, value FROM search"))
        try:
            if there.pop(CHECKSUM) != _sha256(there):
                raise ValueError
            random_state = json.loads(there.pop(SEED))
            if random_state is not None and (type(random_state) is not int or random_state < 0):
                raise ValueError
        except UNREADABLE:
            raise self._damaged("what it says about its search is not as it was written") from None
        names = [*self._search, *(name for name in there if name not in self._search)]
        other = [name for name in names if self._search.get(name) != there.get(name)]
        if other:
            raise ValueError(
                f"{self._path} is from a different search (different "
                f"{printable(', '.join(other))[:200]}). Delete it or choose another file."
            )
        self.random_state = random_state

    def _read_cells(self, base: sqlite3.Connection) -> None:
        """Take over what is finished."""
        for row in base.execute("SELECT candidate, split, content, sha256 FROM cells"):
            candidate, split, content, checksum = row
            try:
                if self._checksum(candidate, split, content) != checksum:
                    raise ValueError
                cell = Cell.from_text(content, self._n_C, self._search["metric"])
            except UNREADABLE:
                where = f"candidate {candidate!r}, split {split!r}"
                raise self._damaged(
                    f"the row of {printable(where)[:120]} is not as it was written",
                    "Delete this row of the table cells to redo its part, or the file to start "
                    "over.",
                ) from None
            self._cells[candidate, split] = cell

    def _checksum(self, candidate: str, split: int, content: str) -> str:
        return _sha256([self._search, self.random_state, candidate, split, content])

    def _damaged(self, why: str, remedy: str = START_OVER) -> ValueError:
        return ValueError(f"{self._path} is damaged: {why}. {remedy}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(failed=kind is not None and issubclass(kind, Exception))

    def _close(self, *, failed: bool) -> None:
        if self._base is not None:
            self._base.close()
        if failed and self._is_new and not self._cells:
            for path in (self._file, self._journal):
                with suppress(OSError):
                    os.unlink(path)
        os.close(self._descriptor)  # and only now may others have it

    def get(self, candidate: str, split: int) -> Cell | None:
        """Return a finished cell; None if it is still to do."""
        return self._cells.get((candidate, split))

    def add(self, candidate: str, split: int, cell: Cell) -> None:
        """Keep a finished cell."""
        assert self._base is not None
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
        except sqlite3.Error as error:
            kind = getattr(error, "sqlite_errorcode", 0) & 0xFF  # further bits tell more of it
            number = OF_THE_SYSTEM.get(kind)
            if number is None:
                raise self._damaged(printable(str(error))[:200]) from None
            if kind != sqlite3.SQLITE_FULL:  # SQLite does not say why; often it is the journal
                number = _why_not_opened(self._journal) or number
            with naming(self._path):
                raise OSError(number, os.strerror(number)) from error
        except UnicodeDecodeError:  # of a message that quotes what it could not read
            raise self._damaged("it cannot be read") from None


def _checked_path(path: Any) -> str:
    """Return the name of a file; raise if it can be no checkpoint."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(name, str):
        raise TypeError(f"the checkpoint must be a path as text; got {name!r}")
    if not name:
        raise ValueError("the name of the checkpoint is empty: give a file")
    directory = os.path.dirname(os.path.realpath(name))
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        if not os.path.isdir(directory):
            message = f"cannot write: there is no directory {directory!r}; create it first"
            raise FileNotFoundError(errno.ENOENT, message, name) from None
    else:
        if stat.S_ISDIR(mode):
            message = "cannot be a checkpoint: this is a directory"
            raise IsADirectoryError(errno.EISDIR, message, name)
        if not stat.S_ISREG(mode):
            raise ValueError(
                f"{name} cannot be a checkpoint: it is a device or a pipe, and keeps nothing. Give "
                "the name of a file."
            )
    if not os.access(directory, os.W_OK):  # SQLite has a journal beside the file at times
        message = (
            f"cannot write: new files are not allowed in {directory!r}; choose another directory "
            "or change its permissions"
        )
        raise PermissionError(errno.EACCES, message, name)
    return name


def _open_locked(path: str) -> int:
    """Open a file that nobody else has open here; make it if need be."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if try_lock(descriptor) is False:
                raise ValueError(
                    f"{path} is in use by another process, a search that keeps its results there. "
                    "Wait until it has ended, or give another name."
                )
            # Whoever had it before may have removed it.
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _check_head(path: str, head: bytes) -> None:
    """Raise unless a file begins like one of ours."""
    if head.startswith(OLD_FORMATS):
        raise _other_version(path, "1 or 2")
    what, layout, version, application = HEAD.unpack(head.ljust(HEAD.size, b"\0"))
    if what != SQLITE or application != APPLICATION:
        raise ValueError(
            f"{path} already exists and is not a checkpoint; not overwritten. Choose another file."
        )
    if version != FORMAT:
        raise _other_version(path, version)
    if layout != LAYOUT:
        raise ValueError(f"{path} is damaged: its layout was changed. {START_OVER}")


def _other_version(path: str, version: Any) -> ValueError:
    return ValueError(
        f"{path} is a checkpoint of another version of ranksvm (format {version}, expected "
        f"{FORMAT}). Delete it or choose another file."
    )


def _connect(path: str) -> sqlite3.Connection:
    """Open a database that we have locked ourselves."""
    # We begin and end transactions.
    uri = f"{Path(path).as_uri()}?mode=rw&vfs=unix-none"
    base = sqlite3.connect(uri, uri=True, isolation_level=None)
    base.text_factory = lambda text: text.decode("utf-8", "replace")  # its checksum is wrong then
    base.execute("PRAGMA synchronous = EXTRA")  # a cell that is there stays, also without power
    return base


def _why_not_opened(path: str) -> int | None:
    """Return the number of the error that opening or making a file meets; None if there is none."""
    is_there = os.path.lexists(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        return error.errno
    if not is_there:
        os.unlink(path)
    return None


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def identity(
    data: RankingData,
    settings: Settings,
    splits: Sequence[Split],
    Cs: Array,
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
        if array is None:
            digest.update(b"None")
            continue
        layout = getattr(array, "format", "dense")
        digest.update(repr((layout, array.shape)).encode())
        dense = layout == "dense"
        for part in [array] if dense else [array.data, array.indices, array.indptr]:
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
