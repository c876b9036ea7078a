"""Reading from non-blocking files.

A blocking file returns bytes, or no bytes at its end.  A non-blocking one (a socket, or a pipe or
terminal that another program has configured that way) can also return None: no data *yet*.  Code
that takes None for the end of the file loses what a slow writer has yet to send.  The functions
here wait for the data instead.
"""

from __future__ import annotations

import errno
import io
import os
import selectors
import stat
from collections.abc import Callable
from typing import Any, TypeVar

Found = TypeVar("Found")


def patiently(file: Any, read: Callable[[], Found | None]) -> Found:
    """Call ``read`` until it returns something, waiting for data in between.

    Parameters
    ----------
    file : file object
        The file that ``read`` reads from.
    read : callable
        Returns None, or raises BlockingIOError, if there is no data yet.

    Raises
    ------
    BlockingIOError
        There is no data yet, and the file has no descriptor to wait for.
    """
    while True:
        try:
            found = read()
        except BlockingIOError:
            found = None
        if found is not None:
            return found
        _wait(file)


def _wait(file: Any) -> None:
    try:
        descriptor = file.fileno()
    except (AttributeError, OSError):
        raise BlockingIOError(
            errno.EAGAIN,
            "is non-blocking, has no data yet, and has no descriptor to wait for. Read it into "
            "memory first, or pass a blocking file",
            file_name(file),
        ) from None
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        selector.select()


def blocking(file: Any) -> Any:
    """Return a binary file that waits for data.

    This is the file itself unless its descriptor is non-blocking.  A new file object reads ahead.
    """
    return io.BufferedReader(_Waiting(file)) if _is_non_blocking(file) else file


def check_text_file(file: Any) -> None:
    """Refuse a non-blocking text file: Python takes "no data yet" for the end of the file."""
    if _is_non_blocking(file):
        raise BlockingIOError(
            errno.EAGAIN,
            "is a non-blocking text file; data that arrives late would be lost. Open it in binary "
            "mode, which waits for the data",
            file_name(file),
        )


def _is_non_blocking(file: Any) -> bool:
    try:
        descriptor = file.fileno()
        return not (os.get_blocking(descriptor) or stat.S_ISREG(os.fstat(descriptor).st_mode))
    except (AttributeError, OSError, TypeError):
        return False  # no descriptor


def file_name(file: Any) -> str:
    """Return the name of a file object, for messages."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else f"<{type(file).__name__}>"


class _Waiting(io.RawIOBase):
    def __init__(self, file: Any) -> None:
        self._file = file
        self.name = file_name(file)

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        data = patiently(self._file, lambda: self._file.read(len(view)))
        view[: len(data)] = data
        return len(data)
