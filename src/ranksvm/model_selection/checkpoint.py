"""Checkpoints: finished parts of a search in a file, so that an interrupted search can continue.

A checkpoint is an SQLite database with two tables.  ``search`` identifies the search, part by part
(long parts by their SHA-256).  ``cells`` has one row for each finished cell, such as all values of
C on one training part.  Each row is written in its own transaction, so a process that is killed at
any moment loses at most the cell it was working on.

Only one process at a time can use a checkpoint.  The file is locked with flock while it is open,
and the system releases the lock when the process ends for any reason.  SQLite's own locks are
switched off: they are POSIX locks, which a process loses as soon as any other code in it opens and
closes the same file, and which some network drives do not support.  On systems without flock there
is no lock.

A file is opened as a database only if its header says that it is a checkpoint, because SQLite may
write to a database even when it is only read.  The tables must be exactly those created here, and
all content has checksums; the checksum of a cell also covers the identity of the search.  The
numbers in a cell must be possible: the metric within its bounds, and objectives, gaps and seconds
not negative.  Anything else is refused, and the file is left as it is.  Rows of ``cells`` may be
deleted.  If a search fails before its first cell is finished, a newly created file is removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from ranksvm._files import check_target, naming, try_lock
from ranksvm._messages import Param, ParameterError
from ranksvm._text import printable
from ranksvm._vectors import Array
from ranksvm._version import library_version
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners.settings import Settings
from ranksvm.model_selection.cell import UNREADABLE
from ranksvm.model_selection.splits import Split

APPLICATION = 0x52535643  # SQLite's application id of checkpoints: "RSVC"
FORMAT = 3
# The header of a database: magic string, file format versions, user version, application id.
HEAD = struct.Struct(">16s 2x 2s 40x i 4x i")
SQLITE, LAYOUT = b"SQLite format 3\0", b"\x01\x01"
TABLES = (
    "CREATE TABLE cells (candidate TEXT, split INTEGER, content TEXT NOT NULL, "
    "sha256 TEXT NOT NULL, PRIMARY KEY (candidate, split)) WITHOUT ROWID",
    "CREATE TABLE search (part TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
SEED, CHECKSUM = "random state", "sha256"  # rows of ``search`` beside the identity
# SQLite errors caused by the system.  All others mean that the file is damaged.
SYSTEM_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
}
# Settings that do not identify a search: C belongs to the cells, and the memory budget does not
# change a model.  A search that ran out of memory may continue with another budget.
NOT_PART = ("C", "memory_budget")
HASHED_VALUES = 1 << 22  # values hashed at a time
START_OVER = "Delete the file to start over."


class Stored(Protocol):
    """A finished part of a search."""

    def to_text(self) -> str:
        """Return it as text."""
        ...


Part = TypeVar("Part", bound=Stored)


class Checkpoint(Generic[Part]):
    """The checkpoint of a search, locked while it is open.

    Parameters
    ----------
    path : path-like
        A regular file.  It is read if it exists and created otherwise.
    search : mapping of str to str
        The identity of the search; see :func:`identity`.
    read : callable
        ``read(text)`` returns a cell; raises one of ``UNREADABLE`` if the text is not valid.
    random_state : int or None
        Seed to store in a new file.

    Attributes
    ----------
    random_state : int or None
        Seed that the search started with.

    Raises
    ------
    ValueError
        If the file belongs to another search, is in use, is not a checkpoint, or is damaged.
    OSError
        If the file cannot be read or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        search: Mapping[str, str],
        read: Callable[[str], Part],
        random_state: int | None,
    ) -> None:
        self.random_state = random_state
        self._search, self._read = dict(search), read
        self._cells: dict[tuple[str, int], Part] = {}
        self._path = _checked_path(path)
        self._file = os.path.realpath(self._path)
        self._journal = f"{self._file}-journal"  # SQLite's rollback journal
        self._base: sqlite3.Connection | None = None
        self._descriptor = _open_locked(self._path)
        self._is_new = not os.fstat(self._descriptor).st_size
        try:
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
        # SQLite has now rolled back the transaction of a killed process, which may have been the
        # one that created the tables.  It leaves a journal alone that was not yet complete.
        with suppress(OSError):
            os.unlink(self._journal)
        self._is_new = not os.fstat(self._descriptor).st_size
        if self._is_new:
            self._create(base)
            return
        if found != [(table,) for table in TABLES]:
            raise self._damaged("its tables are not as they were created")
        (sound,) = base.execute("PRAGMA integrity_check(1)").fetchone()
        if sound != "ok":
            raise self._damaged(printable(sound.splitlines()[-1])[:200])
        self._read_search(base)
        self._read_cells(base)

    def _create(self, base: sqlite3.Connection) -> None:
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
        """Check that the file belongs to this search, and take its random state."""
        there = dict(base.execute("SELECT part, value FROM search"))
        try:
            if there.pop(CHECKSUM) != _sha256(there):
                raise ValueError
            random_state = json.loads(there.pop(SEED))
            if random_state is not None and (type(random_state) is not int or random_state < 0):
                raise ValueError
        except UNREADABLE:
            raise self._damaged("the description of its search has been changed") from None
        names = {**self._search, **there}
        other = [name for name in names if self._search.get(name) != there.get(name)]
        if other:
            raise ValueError(
                f"{self._path} is from a different search (different "
                f"{printable(', '.join(other))[:200]}). Delete it or choose another file."
            )
        self.random_state = random_state

    def _read_cells(self, base: sqlite3.Connection) -> None:
        """Load the finished cells."""
        for row in base.execute("SELECT candidate, split, content, sha256 FROM cells"):
            candidate, split, content, checksum = row
            try:
                if self._checksum(candidate, split, content) != checksum:
                    raise ValueError
                cell = self._read(content)
            except UNREADABLE:
                where = f"candidate {candidate!r}, split {split!r}"
                raise self._damaged(
                    f"the row of {printable(where)[:120]} has been changed",
                    "Delete this row from the table cells to repeat its part, or the file to start "
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
        os.close(self._descriptor)  # releases the lock

    def get(self, candidate: str, split: int) -> Part | None:
        """Return a cell, or None if it is not finished."""
        return self._cells.get((candidate, split))

    def add(self, candidate: str, split: int, cell: Part) -> None:
        """Store a finished cell."""
        assert self._base is not None
        content = cell.to_text()
        row = (candidate, split, content, self._checksum(candidate, split, content))
        with self._errors():
            self._base.execute("INSERT INTO cells VALUES (?, ?, ?, ?)", row)
        self._cells[candidate, split] = cell

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of SQLite to errors that name the file."""
        try:
            yield
        except sqlite3.Error as error:
            kind = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the details
            number = SYSTEM_ERRORS.get(kind)
            if number is None:
                raise self._damaged(printable(str(error))[:200]) from None
            if kind != sqlite3.SQLITE_FULL:  # the reason is often that the journal cannot be opened
                number = _error_of_opening(self._journal) or number
            with naming(self._path):
                raise OSError(number, os.strerror(number)) from error
        except UnicodeDecodeError:  # an error message that quotes invalid text
            raise self._damaged("it cannot be read") from None


def _checked_path(path: Any) -> str:
    """Return the path as text; raise if it cannot be a checkpoint."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(name, str):
        raise TypeError(f"the checkpoint must be a path as text; got {name!r}")
    if not name:
        raise ValueError("the name of the checkpoint is empty: give a file")
    if os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)):
        raise ValueError(
            f"{name} cannot be a checkpoint: it is a device or a pipe, and keeps nothing. Give the "
            "name of a file."
        )
    check_target(name)  # SQLite creates its journal in the same directory
    return name


def _open_locked(path: str) -> int:
    """Open and lock a file; create it if it does not exist."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if try_lock(descriptor) is False:
                raise ValueError(
                    f"{path} is in use by another process, a search that keeps its results there. "
                    "Wait until it has ended, or give another name."
                )
            # The process that held the lock before may have removed the file.
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _check_head(path: str, head: bytes) -> None:
    """Raise unless this is the header of a checkpoint."""
    what, layout, version, application = HEAD.unpack(head.ljust(HEAD.size, b"\0"))
    if what != SQLITE or application != APPLICATION:
        raise ValueError(
            f"{path} already exists and is not a checkpoint; not overwritten. Choose another file."
        )
    if version != FORMAT:
        raise ValueError(
            f"{path} is a checkpoint of another version of ranksvm (format {version}, expected "
            f"{FORMAT}). Delete it or choose another file."
        )
    if layout != LAYOUT:
        raise ValueError(f"{path} is damaged: its layout was changed. {START_OVER}")


def _connect(path: str) -> sqlite3.Connection:
    """Open a database without SQLite's locks, and without automatic transactions."""
    uri = f"{Path(path).as_uri()}?mode=rw&vfs=unix-none"
    base = sqlite3.connect(uri, uri=True, isolation_level=None)
    base.text_factory = lambda text: text.decode("utf-8", "replace")  # the checksums find it
    base.execute("PRAGMA synchronous = EXTRA")  # a stored cell survives a power failure
    return base


def _error_of_opening(path: str) -> int | None:
    """Return the errno of opening or creating a file; None if that works."""
    exists = os.path.lexists(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        return error.errno
    if not exists:
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
    """Return the identity of a search, part by part: cells are reused if all parts are equal.

    The values of the parameters ``searched`` beside C are not included, so that a grid can grow.

    Raises
    ------
    ValueError
        If the kernel is a callable, which cannot be compared.
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
        **data_identity(data, splits, metric, conventions),
        "Cs": _digest(Cs),
        # A parameter may be a NumPy number.
        "settings": json.dumps(part, sort_keys=True, default=lambda value: value.item()),
    }


def data_identity(
    data: RankingData, splits: Sequence[Split], metric: str, conventions: str
) -> dict[str, str]:
    """Return the parts of the identity of a search that every search has."""
    listed = data.preferences
    pairs = {} if listed is None else {"pairs": _digest(*listed.arrays)}
    return {
        "items": _digest(data.X, None if data.y is None else data.truth, data.groups.index),
        "weights": _digest(data.item_weight, data.query_weight),
        **pairs,
        "splits": _digest(*(array for split in splits for array in split.parts())),
        "metric": metric,
        "conventions": conventions,
        "version of ranksvm": library_version(),
    }


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"None")
            continue
        if isinstance(array, ShardedMatrix):
            digest.update(array.digest())
            continue
        layout = getattr(array, "format", "dense")
        digest.update(repr((layout, array.shape)).encode())
        for part in [array] if layout == "dense" else [array.data, array.indices, array.indptr]:
            _update(digest, np.asarray(part))
    return digest.hexdigest()


def _update(digest: Any, array: Any) -> None:
    """Hash dtype and values, in C order, without copying the whole array."""
    digest.update(array.dtype.str.encode())
    if array.dtype.kind == "O" or array.dtype == np.longdouble:  # equal values, different bytes
        digest.update(repr(array.tolist()).encode())
        return
    rows = max(1, HASHED_VALUES // max(1, math.prod(array.shape[1:])))
    for first in range(0, array.shape[0], rows):
        digest.update(array[first : first + rows].tobytes())
