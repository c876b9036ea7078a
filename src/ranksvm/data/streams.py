"""Byte streams of plain or compressed text.

gzip, bzip2, xz and zstd are recognized by their first bytes, whatever the file is called.  Several
compressed members in a row form one text, as in those programs.  Truncated data, trailing data of
another kind, and files that are not text are errors.

A few compressed bytes can expand to gigabytes.  Therefore only about a megabyte is decompressed at
a time, and data that needs more than :data:`MOST_MEMORY` to decompress is refused.  Only xz
dictionaries and zstd windows beyond the defaults of those programs need that much.  The standard
library's decompressor objects are used instead of its file classes, because ``lzma.LZMAFile`` has
no memory limit and both it and ``bz2.BZ2File`` ignore garbage after the compressed data.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ranksvm import _core
from ranksvm._contents import (
    COMPRESSIONS,
    OTHER_FILES,
    is_safetensors,
    is_svmrank,
    starts_with,
)
from ranksvm._messages import PYTHON, Formatter, Message, render
from ranksvm._waiting import check_text_file, patiently
from ranksvm.data.zstd_frame import ZstdFrame

# Bytes read from a compressed file at a time, and bytes decompressed at a time.
_COMPRESSED_BYTES = 1 << 17
_DECOMPRESSED_BYTES = 1 << 20
# From here on, several threads read a part of a file.
_SHARED_BYTES = 1 << 21
# Memory limit for decompression; `xz -9` needs half of it, `zstd --ultra -22` all of it.
_WINDOW_LOG = 27
MOST_MEMORY = 1 << _WINDOW_LOG
_HEAD_BYTES = 18  # the longest beginning that tells a kind of file


class FileFormatError(ValueError):
    """The content of a file is not what was expected.

    Attributes
    ----------
    message : str or Message
        What was found, what was expected, and what to do.  Without a line it is what to say of
        the file: "is empty".
    file : str or None
        Name of the file.
    line, column : int or None
        Position, counted from 1; None if the error does not concern a single place.
    """

    def __init__(
        self,
        message: str | Message,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, file, line, column)
        self.message, self.file, self.line, self.column = message, file, line, column

    def __str__(self) -> str:
        return self.render(PYTHON)

    def render(self, formatter: Formatter) -> str:
        """Format the message for one interface of the library."""
        where = [
            self.file,
            None if self.line is None else f"line {self.line}",
            None if self.column is None else f"column {self.column}",
        ]
        prefix = ", ".join(part for part in where if part is not None)
        message = render(self.message, formatter)
        if not prefix:
            return str(message)
        return f"{prefix} {message}" if self.line is None else f"{prefix}: {message}"


class Stream:
    """Bytes that arrive in pieces; the first ones can be inspected before they are read."""

    def __init__(self, pieces: Iterable[bytes] = ()) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")  # arrived, but not read yet

    def _more(self, size: int) -> bytes:
        """Return the next piece; ``size`` is the number of bytes wanted.  Empty at the end."""
        return next(self._pieces, b"")

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes, or all that are left, without reading them."""
        while len(self._rest) < size and (more := self._more(size)):
            self._rest = memoryview(bytes(self._rest) + more)
        return bytes(self._rest[:size])

    def read(self, size: int) -> memoryview:
        """Read the next piece, of about ``size`` bytes; empty at the end."""
        data = self._rest or memoryview(self._more(size))
        self._rest = memoryview(b"")
        return data

    def readinto(self, view: memoryview) -> int:
        """Fill the view or a part of it; return the number of bytes, 0 at the end."""
        data = self.read(len(view))
        count = min(len(data), len(view))
        view[:count] = data[:count]
        self._rest = data[count:]
        return count


class FileStream(Stream):
    """The bytes of a binary or text file object; waits for the data of a non-blocking file.

    Large parts of a regular file are read by ``n_threads`` threads.  It must be unbuffered.
    """

    def __init__(self, file: Any, n_threads: int = 1) -> None:
        super().__init__()
        if isinstance(file, io.TextIOBase):
            check_text_file(file)
        self._file = file
        self._threads = n_threads if _core.can_read_at and isinstance(file, io.FileIO) else 1
        self.bytes_read = 0

    def _more(self, size: int) -> bytes:
        data: str | bytes = patiently(self._file, lambda: self._file.read(size))
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogateescape")
        self.bytes_read += len(data)
        return data

    def readinto(self, view: memoryview) -> int:
        if self._rest or not isinstance(self._file, io.RawIOBase):
            return super().readinto(view)
        count: int
        if self._threads > 1 and len(view) >= _SHARED_BYTES and (count := self._read_at(view)):
            self.bytes_read += count
            return count
        count = patiently(self._file, lambda: self._file.readinto(view))  # without a copy
        self.bytes_read += count
        return count

    def _read_at(self, view: memoryview) -> int:
        """Fill the view with all threads; return the number of bytes, 0 at the end."""
        room = np.frombuffer(view, np.uint8)
        count = _core.read_at(self._file.fileno(), self._file.tell(), room, self._threads)
        if count < 0:
            raise OSError(-count, os.strerror(-count))
        self._file.seek(count, io.SEEK_CUR)
        return count


class _Gzip:
    def __init__(self) -> None:
        import zlib

        self._inflate = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        # If the output limit was reached, more output may be pending.
        self.needs_input = not self._inflate.unconsumed_tail and len(out) < max_length
        return out


def _bzip2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(memlimit=MOST_MEMORY)


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression.zstd import DecompressionParameter, ZstdDecompressor

        return ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_LOG})
    return ZstdFrame(MOST_MEMORY)


# Functions that return a decompressor for one member, with the interface of those in the modules
# bz2 and lzma.
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": _Gzip,
    "bzip2": _bzip2,
    "xz": _xz,
    "zstd": _zstd,
}
# Parts of the modules' messages about data that needs more than MOST_MEMORY.
_TOO_LARGE = re.compile("memory usage limit|too much memory|window", re.IGNORECASE)


def _compression(head: bytes) -> str | None:
    found = starts_with(head, COMPRESSIONS)
    if found == "bzip2" and head[4:7] not in (b"1AY", b"\x17rE"):
        return None  # plain text that starts with "BZh"
    return found


def _decompressed(stream: Stream, compression: str, file: str) -> Iterator[bytes]:
    """Yield the content of all members, about a megabyte at a time."""
    data: Any = stream.read(_COMPRESSED_BYTES)
    while data:
        member = _DECOMPRESSORS[compression]()
        while not member.eof:
            if member.needs_input and not (data := data or stream.read(_COMPRESSED_BYTES)):
                raise FileFormatError(
                    f"is truncated: its {compression} data ends too early. Get the complete file",
                    file,
                )
            try:
                out = member.decompress(data, _DECOMPRESSED_BYTES)
            except MemoryError:
                raise
            except Exception as error:  # every module has its own exception types
                message = f"holds damaged {compression} data ({error}). Get the file again"
                if _TOO_LARGE.search(str(error)):
                    message = (
                        f"holds {compression} data that needs more than {MOST_MEMORY >> 20} "
                        "MiB of memory to decompress. Compress it again with a smaller dictionary "
                        "or window"
                    )
                raise FileFormatError(message, file) from error
            data = b""
            if out:
                yield out
        data = member.unused_data.lstrip(b"\0")  # zero bytes between members are padding
        while not data and (more := stream.read(_COMPRESSED_BYTES)):
            data = bytes(more).lstrip(b"\0")


def text_stream(stream: Stream, file: str) -> Stream:
    """Return the text of a stream: decompressed, without byte order mark; refuse other formats."""
    compression = _compression(stream.peek(_HEAD_BYTES))
    if compression is not None:
        stream = Stream(_decompressed(stream, compression, file))
        if _compression(stream.peek(_HEAD_BYTES)) is not None:
            raise FileFormatError(
                f"is compressed twice. Decompress it once with {compression}", file
            )
    head = stream.peek(_HEAD_BYTES)
    if is_safetensors(head) or is_svmrank(head):
        raise FileFormatError("is a model, not data", file)
    what = starts_with(head, OTHER_FILES)
    if what is not None:
        raise FileFormatError(f"is {what}, expected plain text. Convert it first", file)
    if head.startswith(codecs.BOM_UTF8):
        stream.readinto(memoryview(bytearray(len(codecs.BOM_UTF8))))
    return stream
