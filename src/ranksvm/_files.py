"""Atomic file replacement: a file is written completely or not at all.

Replacing a file takes four steps:

    clear     remove temporary files that killed writers of the same target left behind
    write     write everything to a new file in the same directory, under a unique name and with
              the permissions of the target from the start
    sync      flush its bytes to disk
    rename    move it over the target, which is atomic

A reader sees either the old file or the new one, never a part of it, even after a crash.

The temporary file is ``.NAME.HOST-RANDOM.tmp``.  Its writer holds a lock on it (flock), which the
system releases when the process ends for any reason, so a temporary file that can be locked has no
writer.  Some network drives do not share locks between hosts.  A temporary file of another host (or
of this one before its last boot) is therefore removed only if it has not been written to for a day.

System errors that name no file are given the file name and advice on what to do.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import platform
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

STDOUT = "standard output"  # its name in messages
# Names of open descriptors. One may refer to a regular file (a redirection), which must not be
# replaced.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_LONGEST_NAME = 255
_LONG_AGO = 86_400.0  # seconds
# Advice for system errors whose text only says what happened.
_REMEDIES = {
    errno.ENOSPC: "free some space, or use another disk",
    errno.EDQUOT: "free some of your space, or use another disk",
    errno.EFBIG: "the file system takes no larger files; use another one",
    errno.EROFS: "choose another directory",
    errno.EIO: "the disk, network drive or device failed; check it, or use another one",
    errno.ESTALE: "the network drive has changed; try again",
}


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file; it replaces the target when the block ends without an exception.

    The permission bits of an existing file are kept, and the new file has them from the start.  A
    symbolic link is kept, too: the file that it points to is replaced.  What cannot be replaced (a
    pipe, a terminal, ``/dev/null``, ``/dev/stdout``) is written to directly.

    Parameters
    ----------
    path : str or path-like
        File to write.

    Yields
    ------
    file object
        It must still be open at the end of the block.

    Raises
    ------
    OSError
        If the directory does not exist or is not writable, the file is write-protected, or the disk
        is full.  The error names the file.  An existing file is left unchanged.
    """
    name = os.fspath(path)
    descriptor = _descriptor(name)
    target = os.path.realpath(name)
    old = check_target(name) if descriptor is None else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        descriptor = os.open(target, os.O_WRONLY | _CLOSE_ON_EXEC)
    if descriptor is not None:
        with _opened(descriptor, name) as file:
            yield file
        return

    _clear(target)
    descriptor, temporary = _create(name, target, old)
    try:
        with _opened(descriptor, name) as file:
            yield file
            file.flush()
            with naming(name):
                os.fsync(file.fileno())
                # While the lock is still held: without it, the file would count as abandoned.
                os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(os.path.dirname(target))


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the file name and advice to system errors raised in this block."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise _named(error, name) from error


def _named(error: OSError, name: str) -> OSError:
    remedy = _REMEDIES.get(error.errno or 0)
    reason = error.strerror if remedy is None else f"{error.strerror}; {remedy}"
    if error.errno == errno.EBADF and name == STDOUT:
        reason = "closed; results cannot be written. Redirect it to a file"
    return OSError(error.errno, reason, name)


class _NamedFile(io.FileIO):
    """A file opened for writing by descriptor, whose errors carry the file name."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "wb")
        self._called = name

    def write(self, data: Any) -> int:
        with naming(self._called):
            return super().write(data)


def _opened(descriptor: int, name: str) -> BinaryIO:
    return io.BufferedWriter(_NamedFile(descriptor, name))


def _descriptor(name: str) -> int | None:
    """Return a duplicate of the open descriptor that a name refers to, or None."""
    match = _DESCRIPTOR.fullmatch(name)
    number = _STANDARD.get(name) if match is None else int(match[1])
    if number is None:
        return None
    for stream in (sys.stdout, sys.stderr):  # so that earlier output comes first
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    try:
        return os.dup(number)
    except OSError as error:
        raise OSError(error.errno, "cannot write: the descriptor is not open", name) from None


def check_target(name: str) -> os.stat_result | None:
    """Return the status of an existing file, or None; raise if it cannot be written or replaced.

    A pipe or a device is written to directly, and needs nothing of its directory.
    """
    try:
        status = os.stat(name or os.curdir)
    except (FileNotFoundError, NotADirectoryError):
        status = None
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "cannot write: this is a directory", name)
    if status is None or stat.S_ISREG(status.st_mode):
        directory = os.path.dirname(os.path.realpath(name))
        if os.path.exists(directory) and not os.path.isdir(directory):
            message = f"cannot write: {directory!r} is a file, not a directory"
            raise NotADirectoryError(errno.ENOTDIR, message, name)
        if not os.path.isdir(directory):
            message = f"cannot write: there is no directory {directory!r}; create it first"
            raise FileNotFoundError(errno.ENOENT, message, name)
        if not os.access(directory, os.W_OK | os.X_OK):
            message = (
                f"cannot write: new files are not allowed in {directory!r}; choose another "
                "directory or change its permissions"
            )
            raise PermissionError(errno.EACCES, message, name)
    if status is not None and not os.access(name, os.W_OK):
        raise PermissionError(errno.EACCES, "cannot write: the file is write-protected", name)
    return status


# --- Temporary files -----------------------------------------------------------------------------

_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _CLOSE_ON_EXEC


def _host() -> str:
    """Return an id of the running system, which holds the locks; containers may share it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            name = file.read()
    except OSError:
        name = platform.node().encode("utf-8", "surrogateescape")
    return hashlib.sha256(name).hexdigest()[:8]


_HOST = _host()
_ENDING = re.compile(r"\.(?P<host>[0-9a-f]{8})-[0-9a-f]{8}\.tmp")


def _parts(target: str) -> tuple[str, str]:
    """Return the directory of a target and the prefix of its temporary files' names."""
    directory, name = os.path.split(target)
    room = _LONGEST_NAME - len(f"..{_HOST}-{_HOST}.tmp")
    return directory, f".{os.fsdecode(os.fsencode(name)[:room])}"


def _create(name: str, target: str, old: os.stat_result | None) -> tuple[int, str]:
    """Create and lock a new file beside the target; return its descriptor and its name."""
    directory, beginning = _parts(target)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
    bits = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777
    while True:
        temporary = os.path.join(directory, f"{beginning}.{_HOST}-{secrets.token_hex(4)}.tmp")
        try:
            descriptor = os.open(temporary, flags, bits)
        except FileExistsError:
            continue
        except OSError as error:
            reason = f"cannot write in {directory!r}: {_named(error, name).strerror}"
            raise OSError(error.errno, reason, name) from None
        try:
            if try_lock(descriptor) is not False and _is_at(descriptor, temporary):
                if old is not None:
                    _adopt(descriptor, old)
                return descriptor, temporary
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        os.close(descriptor)  # another writer removed it before it was locked


def _adopt(descriptor: int, old: os.stat_result) -> None:
    """Copy owner, group and permissions; grant less where the group cannot be copied."""
    bits = stat.S_IMODE(old.st_mode) & 0o777
    mine = os.fstat(descriptor)
    if hasattr(os, "fchown"):
        if mine.st_uid != old.st_uid:
            with contextlib.suppress(OSError):
                os.fchown(descriptor, old.st_uid, -1)
        if mine.st_gid != old.st_gid:
            try:
                os.fchown(descriptor, -1, old.st_gid)
            except OSError:  # our group gets no more than everybody had
                bits &= ~0o070 | (bits & 0o007) << 3
    if hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, bits)


def _clear(target: str) -> None:
    """Remove temporary files that dead writers of a target left behind."""
    directory, beginning = _parts(target)
    left = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(beginning):
                match = _ENDING.fullmatch(entry.name, len(beginning))
                if match is not None:
                    left.append((entry.path, match["host"] == _HOST))
    for path, is_of_this_host in left:
        with contextlib.suppress(OSError):
            _remove_unused(path, is_of_this_host)


def _remove_unused(path: str, is_of_this_host: bool) -> None:
    """Remove a temporary file if no process is writing to it."""
    descriptor = os.open(path, os.O_RDWR | _NO_FOLLOW)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return
        fresh = abs(time.time() - status.st_mtime) < _LONG_AGO
        if fresh and not is_of_this_host:
            return
        if try_lock(descriptor) is True and _is_at(descriptor, path):
            os.unlink(path)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed; False if another process holds the lock, None if no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        taken = error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
        return False if taken else None
    return True


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether a path still refers to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _sync_directory(directory: str) -> None:
    """Flush a rename to disk, on systems where directories can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
