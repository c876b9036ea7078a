"""A file that one process at a time reads and appends to.

open      regular files only, or names that do not exist yet
lock      the whole file, until it is closed or the process ends, however it ends; a second
          process is refused at once (systems without locks go on without)
append    one write, synced: the file has all of it, or, if the disk is full, nothing
close     and remove it, if there is nothing to keep; before the lock is given up

Errors of the system carry the name of the file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from ranksvm._files import naming, sync_directory, try_lock

__all__ = ["LockedFile"]


class LockedFile:
    """A locked file, open for reading and appending.

    Parameters
    ----------
    path : path-like
        Made if it is not there.

    Attributes
    ----------
    path : str

    Raises
    ------
    TypeError, ValueError
        If this is no name of a file, or another process has it.
    OSError
        If it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _checked(path)
        self._descriptor = _open_locked(self.path)

    @contextmanager
    def reader(self) -> Iterator[BinaryIO]:
        """Give what is there as a file to read from its beginning."""
        with naming(self.path), open(self._descriptor, "rb", closefd=False) as file:
            yield file

    def truncate(self, size: int) -> None:
        """Drop what is beyond a size."""
        with naming(self.path):
            os.ftruncate(self._descriptor, size)

    def append(self, line: bytes) -> None:
        """Write a line to the disk, as a whole or not at all."""
        before = os.fstat(self._descriptor).st_size
        try:
            with naming(self.path):
                while line:  # in one piece, unless the disk is full
                    line = line[os.write(self._descriptor, line) :]
                os.fsync(self._descriptor)
                if not before:
                    sync_directory(os.path.dirname(os.path.realpath(self.path)))
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._descriptor, before)
            raise

    def close(self, *, remove: bool = False) -> None:
        """Give up the file, and the lock with it."""
        if remove:
            with suppress(OSError):
                os.unlink(os.path.realpath(self.path))
        os.close(self._descriptor)


def _checked(path: Any) -> str:
    """Return the name of a file; raise if it can be no checkpoint."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(name, str):
        raise TypeError(f"the checkpoint must be a path as text; got {name!r}")
    if not name:
        raise ValueError("the name of the checkpoint is empty: give a file")
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        _check_directory(name)
        return name
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "cannot be a checkpoint: this is a directory", name)
    if not stat.S_ISREG(mode):
        raise ValueError(
            f"{name} cannot be a checkpoint: it is a device or a pipe, and keeps nothing. Give the "
            "name of a file."
        )
    return name


def _check_directory(name: str) -> None:
    directory = os.path.dirname(os.path.realpath(name))
    if not os.path.isdir(directory):
        message = f"cannot write: there is no directory {directory!r}; create it first"
        raise FileNotFoundError(errno.ENOENT, message, name)


def _open_locked(path: str) -> int:
    """Open a file for reading and appending that nobody else has open here; make it if need be."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            if try_lock(descriptor) is False:  # systems without locks go on without
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
