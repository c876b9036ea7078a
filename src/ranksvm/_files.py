"""Files that are written as a whole or not at all.

A file that is replaced goes through three steps:

    write     everything into a new file beside the target, under a name that nobody else uses
    sync      its bytes to the disk
    rename    it over the target, which the system does in one step

A reader sees the old file or the new one, never half of one; so does whoever looks after a crash.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from typing import IO, Any, BinaryIO, Literal, TextIO, overload

__all__ = ["atomic_write"]

# Names of open descriptors. What they stand for may be a regular file (a redirection), which is
# then not ours to replace.
_DESCRIPTOR = re.compile(r"/dev/(?:(?P<name>stdout|stderr)|fd/(?P<a>\d+))|/proc/self/fd/(?P<b>\d+)")
_NAMED = {"stdout": 1, "stderr": 2}
_LONGEST_NAME = 255


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

    An existing file keeps its permission bits, and a symbolic link stays: the file that it points
    to is replaced.  What cannot be replaced (a pipe, a terminal, ``/dev/null``, ``/dev/stdout``) is
    written directly.

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
        if the disk is full.  The old file, if there was one, is unchanged.
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"mode must be 'wb' or 'w'; got {mode!r}")
    text = {} if mode == "wb" else {"encoding": encoding, "newline": newline}
    return _writing(os.fspath(path), mode, text)


@contextlib.contextmanager
def _writing(name: str, mode: str, text: dict[str, Any]) -> Iterator[IO[Any]]:
    descriptor = _descriptor(name)
    if descriptor is not None:
        with open(descriptor, mode, **text) as file:
            yield file
        return
    target = os.path.realpath(name)
    permissions = _permissions(name, target)
    if permissions is not None and not stat.S_ISREG(permissions):
        with open(target, mode, **text) as file:
            yield file
        return

    temporary = _beside(target)
    file = _create(name, target, temporary, mode.replace("w", "x"), text)
    try:
        with file:
            yield file
            file.flush()
            if permissions is not None:
                os.chmod(temporary, stat.S_IMODE(permissions) & 0o777)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(os.path.dirname(target))


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


def _permissions(name: str, target: str) -> int | None:
    """Return type and permission bits of what is there, None if nothing is; refuse early."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "cannot write: this is a directory", name)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "cannot write: the file is write-protected", name)
    return mode


def _beside(target: str) -> str:
    """Return a new name in the directory of the target."""
    directory, name = os.path.split(target)
    suffix = f".{secrets.token_hex(4)}.tmp"
    room = _LONGEST_NAME - 1 - len(suffix)
    short = os.fsdecode(os.fsencode(name)[:room])
    return os.path.join(directory, f".{short}{suffix}")


def _create(name: str, target: str, temporary: str, mode: str, text: dict[str, Any]) -> IO[Any]:
    directory = os.path.dirname(target)
    try:
        return open(temporary, mode, **text)
    except FileNotFoundError:
        message = f"cannot write: there is no directory {directory!r}; create it first"
        raise FileNotFoundError(errno.ENOENT, message, name) from None
    except NotADirectoryError:
        message = f"cannot write: {directory!r} is not a directory"
        raise NotADirectoryError(errno.ENOTDIR, message, name) from None
    except PermissionError:
        message = (
            f"cannot write: new files are not allowed in {directory!r}; choose another directory "
            "or change its permissions"
        )
        raise PermissionError(errno.EACCES, message, name) from None
    except OSError as error:
        message = f"cannot write in {directory!r}: {error.strerror}"
        raise OSError(error.errno, message, name) from None


def _sync_directory(directory: str) -> None:
    """Make the renaming last; where directories cannot be synced, the system does it in time."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
