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
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ranksvm._messages import PYTHON, Door, Message, told
from ranksvm._waiting import check_text_file, patiently
from ranksvm.data.zstd_frame import ZstdFrame

__all__ = ["FileFormatError", "FileStream", "Stream", "text_stream"]

# Bytes read from a compressed file at a time, and bytes decompressed at a time.
_COMPRESSED_BYTES = 1 << 17
_DECOMPRESSED_BYTES = 1 << 20
# Memory limit for decompression; `xz -9` needs half of it, `zstd --ultra -22` all of it.
_WINDOW_LOG = 27
MOST_MEMORY = 1 << _WINDOW_LOG
_HEAD_BYTES = 16

_NOT_TEXT = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!": "a rar archive",
    b"\x1f\x9d": "data compressed by `compress`",
    b"\x04\x22\x4d\x18": "LZ4 data",
    b"%PDF-": "a PDF document",
    b"\x93NUMPY": "a NumPy array file",
    b"\x89HDF": "an HDF5 file",
    b"\x89PNG": "an image",
    b"\x7fELF": "a program",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


class FileFormatError(ValueError):
    """The content of a file is not what was expected.

    Attributes
    ----------
    message : str or Message
        What was found, what was expected, and what to do.
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
        return self.told(PYTHON)

    def told(self, door: Door) -> str:
        """Format the message for a door."""
        where = [
            self.file,
            None if self.line is None else f"line {self.line}",
            None if self.column is None else f"column {self.column}",
        ]
        prefix = ", ".join(part for part in where if part is not None)
        message = told(self.message, door)
        return f"{prefix}: {message}" if prefix else str(message)


class Stream(Protocol):
    """A source of bytes."""

    def readinto(self, view: memoryview) -> int:
        """Fill the view or a part of it; return the number of bytes, 0 at the end."""


class FileStream:
    """The bytes of a binary or text file object; waits for the data of a non-blocking file."""

    def __init__(self, file: Any) -> None:
        if isinstance(file, io.TextIOBase):
            check_text_file(file)
        self.bytes_read = 0
        self._file = file
        self._rest = b""

    def readinto(self, view: memoryview) -> int:
        file = self._file
        if isinstance(file, io.RawIOBase):
            count: int = patiently(file, lambda: file.readinto(view))
        else:
            data = self._rest or patiently(file, lambda: file.read(len(view)))
            if isinstance(data, str):
                data = data.encode("utf-8", "surrogateescape")
            count = min(len(data), len(view))
            view[:count] = data[:count]
            self._rest = data[count:]  # text may have more bytes than characters
        self.bytes_read += count
        return count


class _HeadStream:
    """A stream whose first bytes can be inspected before they are read."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.head = _read(stream, _HEAD_BYTES)

    def readinto(self, view: memoryview) -> int:
        if not self.head:
            return self._stream.readinto(view)
        count = min(len(self.head), len(view))
        view[:count] = self.head[:count]
        self.head = self.head[count:]
        return count


def _read(stream: Stream, size: int) -> bytes:
    """Read ``size`` bytes, or all that are left."""
    buffer = bytearray(size)
    view = memoryview(buffer)
    filled = 0
    while filled < size and (count := stream.readinto(view[filled:])):
        filled += count
    return bytes(view[:filled])


class _Decompressor(Protocol):
    """The interface of the decompressors in the modules bz2 and lzma."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


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


def _bzip2() -> _Decompressor:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> _Decompressor:
    import lzma

    return lzma.LZMADecompressor(memlimit=MOST_MEMORY)


def _zstd() -> _Decompressor:
    if sys.version_info >= (3, 14):
        from compression.zstd import DecompressionParameter, ZstdDecompressor

        return ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_LOG})
    return ZstdFrame(MOST_MEMORY)


class _Compression(NamedTuple):
    name: str
    start: Callable[[], _Decompressor]


_COMPRESSIONS = {
    b"\x1f\x8b": _Compression("gzip", _Gzip),
    b"BZh": _Compression("bzip2", _bzip2),
    b"\xfd7zXZ\x00": _Compression("xz", _xz),
    b"\x28\xb5\x2f\xfd": _Compression("zstd", _zstd),
}
# Parts of the modules' messages about data that needs more than MOST_MEMORY.
_TOO_LARGE = re.compile("memory usage limit|too much memory|window", re.IGNORECASE)


def _compression(head: bytes) -> _Compression | None:
    found = next((c for magic, c in _COMPRESSIONS.items() if head.startswith(magic)), None)
    if found is not None and found.name == "bzip2" and head[4:7] not in (b"1AY", b"\x17rE"):
        return None  # plain text that starts with "BZh"
    return found


class _DecompressedStream:
    """The decompressed content of a stream with one or more compressed members."""

    def __init__(self, stream: Stream, compression: _Compression, file: str) -> None:
        self._stream, self._compression, self._file = stream, compression, file
        self._member = compression.start()
        self._out = memoryview(b"")

    def readinto(self, view: memoryview) -> int:
        while not self._out:
            data = b""
            if self._member.eof:
                data = self._next_member()
                if not data:
                    return 0
                self._member = self._compression.start()
            elif self._member.needs_input:
                data = _read(self._stream, _COMPRESSED_BYTES)
                if not data:
                    raise FileFormatError(
                        f"is truncated: its {self._compression.name} data ends too early. Get "
                        "the complete file",
                        self._file,
                    )
            self._out = memoryview(self._decompress(data))
        count = min(len(self._out), len(view))
        view[:count] = self._out[:count]
        self._out = self._out[count:]
        return count

    def _next_member(self) -> bytes:
        """Return the first bytes after a member; zero bytes are padding."""
        data = self._member.unused_data.lstrip(b"\0")
        while not data:
            chunk = _read(self._stream, _COMPRESSED_BYTES)
            if not chunk:
                break
            data = chunk.lstrip(b"\0")
        return data

    def _decompress(self, data: bytes) -> bytes:
        try:
            return self._member.decompress(data, _DECOMPRESSED_BYTES)
        except MemoryError:
            raise
        except Exception as error:  # every module has its own exception types
            name = self._compression.name
            message = f"holds damaged {name} data ({error}). Get the file again"
            if _TOO_LARGE.search(str(error)):
                message = (
                    f"holds {name} data that needs more than {MOST_MEMORY >> 20} MiB of memory to "
                    "decompress. Compress it again with a smaller dictionary or window"
                )
            raise FileFormatError(message, self._file) from error


def text_stream(stream: Stream, file: str) -> Stream:
    """Return the text of a stream: decompressed, without byte order mark; refuse other formats."""
    peeked = _HeadStream(stream)
    compression = _compression(peeked.head)
    if compression is not None:
        peeked = _HeadStream(_DecompressedStream(peeked, compression, file))
        if _compression(peeked.head) is not None:
            raise FileFormatError(
                f"is compressed twice. Decompress it once with {compression.name}", file
            )
    for magic, what in _NOT_TEXT.items():
        if peeked.head.startswith(magic):
            raise FileFormatError(f"is {what}, expected plain text. Convert it first", file)
    peeked.head = peeked.head.removeprefix(codecs.BOM_UTF8)
    return peeked
