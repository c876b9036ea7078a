"""Reading from files that may have nothing to give yet.

A blocking file gives bytes, or none at its end.  A non-blocking one (a pipe or a terminal that
another program has set so, a socket) has a third answer, None: nothing there *yet*.  Who takes that
for the end loses what a slow writer still has to say.  Here the answer is waited for.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["blocking", "check_text_file", "patiently"]

Found = TypeVar("Found")


def patiently(file: Any, read: Callable[[], Found | None]) -> Found:
    """Call ``read``, and again when the file has more to give, until it returns something.

    Parameters
    ----------
    file : file object
        Where ``read`` reads from.
    read : callable
        Returns None, or raises BlockingIOError, where there is nothing yet.

    Raises
    ------
    BlockingIOError
        There is nothing yet, and the file has no descriptor that can be waited for.
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
            "has nothing to read yet, and no descriptor to wait for: it is non-blocking. Read it "
            "into memory first, or pass a blocking file",
            _name(file),
        ) from None
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
    else:
        select.select([descriptor], [], [])


def blocking(file: Any) -> Any:
    """Return a binary file that waits where the given one would say that there is nothing yet.

    That is the file itself unless its descriptor is non-blocking.  The new one reads ahead.
    """
    return io.BufferedReader(_Waiting(file)) if _is_non_blocking(file) else file


def check_text_file(file: Any) -> None:
    """Refuse a text file over a non-blocking descriptor: Python takes "nothing yet" for its end."""
    if _is_non_blocking(file):
        raise BlockingIOError(
            errno.EAGAIN,
            "is open as text and non-blocking, and what comes late would be lost. Open it in "
            "binary mode, which waits",
            _name(file),
        )


def _is_non_blocking(file: Any) -> bool:
    try:
        descriptor = file.fileno()
        return not (os.get_blocking(descriptor) or stat.S_ISREG(os.fstat(descriptor).st_mode))
    except (AttributeError, OSError, TypeError):
        return False  # no descriptor


def _name(file: Any) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else f"<{type(file).__name__}>"


class _Waiting(io.RawIOBase):
    def __init__(self, file: Any) -> None:
        self._file = file
        self.name = _name(file)

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        data = patiently(self._file, lambda: self._file.read(len(view)))
        view[: len(data)] = data
        return len(data)
