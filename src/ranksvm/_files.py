"""Files that are written as a whole or not at all.

A file that is replaced goes through four steps:

    clear     what writers of this target left beside it that were killed
    write     everything into a new file beside the target, under a name that nobody else uses and
              with the permissions of the target from the beginning
    sync      its bytes to the disk
    rename    it over the target, which the system does in one step

A reader sees the old file or the new one, never half of one; so does whoever looks after a crash.

The temporary file is ``.NAME.HOST-RANDOM.tmp``.  Its writer holds a lock on it (flock), which ends
with the process, however that ends: a temporary file that can be locked has no writer.  Some
network drives keep locks to each host, so what another host has left (or this one, before it was
started) is removed only when nothing was written to it for a day.

Errors of the system that name no file get the name of theirs, and what to do.
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
from typing import IO, Any, BinaryIO, Literal, TextIO, overload

__all__ = ["STDOUT", "atomic_write", "naming", "sync_directory", "try_lock"]

STDOUT = "standard output"  # as messages call it
# Names of open descriptors. What they stand for may be a regular file (a redirection), which is
# then not ours to replace.
_DESCRIPTOR = re.compile(r"/dev/(?:(?P<name>stdout|stderr)|fd/(?P<a>\d+))|/proc/self/fd/(?P<b>\d+)")
_NAMED = {"stdout": 1, "stderr": 2}
_LONGEST_NAME = 255
_LONG_AGO = 86_400.0  # seconds
# Errors that say what happened and not what to do.
_REMEDIES = {
    errno.ENOSPC: "free some space, or use another disk",
    errno.EDQUOT: "free some of your space, or use another disk",
    errno.EFBIG: "the file system takes no larger files; use another one",
    errno.EROFS: "choose another directory",
    errno.EIO: "the disk, network drive or device failed; check it, or use another one",
    errno.ESTALE: "the network drive has changed; try again",
}


@overload
def atomic_write(
    path: str | os.PathLike[str], mode: Literal["wb"] = "wb"
) -> contextlib.AbstractContextManager[BinaryIO]: ...
@overload
def atomic_write(
    path: str | os.PathLike[str],
    mode: Literal["w"],
    *,
    encoding: str = "utf-8",
    newline: str | None = "",
) -> contextlib.AbstractContextManager[TextIO]: ...
def atomic_write(
    path: str | os.PathLike[str],
    mode: Literal["wb", "w"] = "wb",
    *,
    encoding: str = "utf-8",
    newline: str | None = "",
) -> contextlib.AbstractContextManager[Any]:
    """Open a file for writing; it takes its place only when the block ends without an exception.

    An existing file keeps its permission bits, which the new one has from the beginning, and a
    symbolic link stays: the file that it points to is replaced.  What cannot be replaced (a pipe, a
    terminal, ``/dev/null``, ``/dev/stdout``) is written directly.

    Parameters
    ----------
    path : str or path-like
        Where the file belongs.
    mode : {"wb", "w"}, default="wb"
        Bytes or text.
    encoding : str, default="utf-8"
        Of text.
    newline : str or None, default=""
        As for :func:`open`; the default writes line ends as they are.

    Returns
    -------
    context manager
        Gives the binary or text file object, which must still be open at the end of the block.

    Raises
    ------
    OSError
        If the directory does not exist or cannot be written to, if the file is write-protected, or
        if the disk is full; with the name of the file.  The old file, if there was one, is
        unchanged.
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"mode must be 'wb' or 'w'; got {mode!r}")
    text = {} if mode == "wb" else {"encoding": encoding, "newline": newline}
    return _writing(os.fspath(path), mode, text)


@contextlib.contextmanager
def _writing(name: str, mode: str, text: dict[str, Any]) -> Iterator[IO[Any]]:
    descriptor = _descriptor(name)
    if descriptor is not None:
        with _opened(descriptor, name, text) as file:
            yield file
        return
    target = os.path.realpath(name)
    old = _status(name, target)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with _opened(os.open(target, os.O_WRONLY | _CLOSE_ON_EXEC), name, text) as file:
            yield file
        return

    _clear(target)
    descriptor, temporary = _create(name, target, old)
    try:
        with _opened(descriptor, name, text) as file:
            yield file
            file.flush()
            with naming(name):
                os.fsync(file.fileno())
                # Before the lock is given up, after which it would count as left behind.
                os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(os.path.dirname(target))


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors of the system in this block say which file they are about, and what to do."""
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
    """A file open for writing, by its descriptor, whose errors carry a name."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "wb")
        self._called = name

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise _named(error, self._called) from error


def _opened(descriptor: int, name: str, text: dict[str, Any]) -> IO[Any]:
    """Return the file object of a descriptor; without words about text, one of bytes."""
    file = io.BufferedWriter(_NamedFile(descriptor, name))
    return io.TextIOWrapper(file, **text) if text else file


def _descriptor(name: str) -> int | None:
    """Return a copy of the open descriptor that a name stands for, if it stands for one."""
    match = _DESCRIPTOR.fullmatch(name)
    if match is None:
        return None
    number = _NAMED.get(match["name"] or "", int(match["a"] or match["b"] or -1))
    for stream in (sys.stdout, sys.stderr):  # what was printed before comes before
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    try:
        return os.dup(number)
    except OSError as error:
        raise OSError(error.errno, "cannot write: this is not open", name) from None


def _status(name: str, target: str) -> os.stat_result | None:
    """Return what is known of what is there, None if nothing is; refuse early."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "cannot write: this is a directory", name)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "cannot write: the file is write-protected", name)
    return status


# --- Temporary files -----------------------------------------------------------------------------

_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _CLOSE_ON_EXEC


def _host() -> str:
    """Return a name for the system that keeps the locks, which several containers may share."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            name = file.read()
    except OSError:
        name = platform.node().encode("utf-8", "surrogateescape")
    return hashlib.sha256(name).hexdigest()[:8]


_HOST = _host()
_ENDING = re.compile(r"\.(?P<host>[0-9a-f]{8})-[0-9a-f]{8}\.tmp")


def _parts(target: str) -> tuple[str, str]:
    """Return the directory of a target and what the names of its temporary files begin with."""
    directory, name = os.path.split(target)
    room = _LONGEST_NAME - len(f"..{_HOST}-{_HOST}.tmp")
    return directory, f".{os.fsdecode(os.fsencode(name)[:room])}"


def _create(name: str, target: str, old: os.stat_result | None) -> tuple[int, str]:
    """Make and lock a new file beside the target; return its descriptor and its name."""
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
            raise _cannot_create(error, name, directory) from None
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
        os.close(descriptor)  # somebody cleared it away before it was locked


def _adopt(descriptor: int, old: os.stat_result) -> None:
    """Give a file owner, group and permissions of another; where that is not allowed, fewer."""
    bits = stat.S_IMODE(old.st_mode) & 0o777
    mine = os.fstat(descriptor)
    if hasattr(os, "fchown"):
        if mine.st_uid != old.st_uid:
            with contextlib.suppress(OSError):
                os.fchown(descriptor, old.st_uid, -1)
        if mine.st_gid != old.st_gid:
            try:
                os.fchown(descriptor, -1, old.st_gid)
            except OSError:  # of another group: what all others may do, at most
                bits &= ~0o070 | (bits & 0o007) << 3
    if hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, bits)


def _clear(target: str) -> None:
    """Remove the temporary files of writers of a target that are no more."""
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
    """Remove a temporary file if nobody writes to it."""
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
    """Lock an open file until it is closed; False if another process has it, None without locks."""
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
    """Whether a name is still that of an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _cannot_create(error: OSError, name: str, directory: str) -> OSError:
    if error.errno == errno.ENOENT:
        message = f"cannot write: there is no directory {directory!r}; create it first"
    elif error.errno == errno.ENOTDIR:
        message = f"cannot write: {directory!r} is not a directory"
    elif error.errno in (errno.EACCES, errno.EPERM):
        message = (
            f"cannot write: new files are not allowed in {directory!r}; choose another directory "
            "or change its permissions"
        )
    else:
        message = f"cannot write in {directory!r}: {_named(error, name).strerror}"
    return OSError(error.errno, message, name)


def sync_directory(directory: str) -> None:
    """Make a new name last; where directories cannot be synced, the system does it in time."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
