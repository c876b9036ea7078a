"""Bytes of text, compressed or not.

gzip, bzip2, xz and zstd are recognised by their first bytes, whatever a file is called.  Several
compressed members after each other are one text, as those programs have it.  Data that end too
early, or go on with something else, are an error, and so are other kinds of files.

A few bytes can stand for gigabytes, so no more than about a megabyte is decompressed at a time, and
no data are taken that need more than :data:`MOST_MEMORY` for it: larger dictionaries of xz and
windows of zstd than their programs use unless told to.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Protocol

from ranksvm._messages import PYTHON, Door, Message, told
from ranksvm._waiting import check_text_file, patiently
from ranksvm.data.zstd_frame import ZstdFrame

__all__ = ["COMPRESSORS", "FileFormatError", "FileStream", "Stream", "text_stream"]

# Taken from a compressed file at a time, and decompressed at a time.
_COMPRESSED_BYTES = 1 << 17
_DECOMPRESSED_BYTES = 1 << 20
# What decompressing may take; `xz -9` asks for half of it, `zstd --ultra -22` for all.
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
    """A file does not hold what it should.

    Attributes
    ----------
    message : str or Message
        What was found, what was expected, what to do.
    file : str or None
        Name of the file.
    line, column : int or None
        Where, counted from 1; None if it is not about a certain place.
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
        """Return the message in the words of a door."""
        where = [
            self.file,
            None if self.line is None else f"line {self.line}",
            None if self.column is None else f"column {self.column}",
        ]
        prefix = ", ".join(part for part in where if part is not None)
        message = told(self.message, door)
        return f"{prefix}: {message}" if prefix else str(message)


class Stream(Protocol):
    """Where bytes come from."""

    def readinto(self, view: memoryview) -> int:
        """Fill the view or a part of it; 0 means that the stream is over."""


class FileStream:
    """The bytes of a file object, which may also give text.

    Where it has nothing yet, because it is non-blocking, it is waited for.
    """

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
            self._rest = data[count:]  # text may take more bytes than it has characters
        self.bytes_read += count
        return count


class _HeadStream:
    """A stream whose first bytes can be looked at."""

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
    """Read so many bytes, or all that are left."""
    buffer = bytearray(size)
    view = memoryview(buffer)
    filled = 0
    while filled < size and (count := stream.readinto(view[filled:])):
        filled += count
    return bytes(view[:filled])


class _Decompressor(Protocol):
    """As in the modules bz2 and lzma."""

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
        # Nothing is left to come out only when less came out than was allowed.
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
# What the modules say of data that need more than MOST_MEMORY.
_TOO_LARGE = re.compile("memory usage limit|too much memory|window", re.IGNORECASE)


def _compression(head: bytes) -> _Compression | None:
    found = next((c for magic, c in _COMPRESSIONS.items() if head.startswith(magic)), None)
    if found is not None and found.name == "bzip2" and head[4:7] not in (b"1AY", b"\x17rE"):
        return None  # some text
    return found


class _DecompressedStream:
    """What a compressed stream of one or more members holds."""

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
                        f"ends in the middle of its {self._compression.name} data; it is "
                        "truncated. Get the whole file",
                        self._file,
                    )
            self._out = memoryview(self._decompress(data))
        count = min(len(self._out), len(view))
        view[:count] = self._out[:count]
        self._out = self._out[count:]
        return count

    def _next_member(self) -> bytes:
        """Return the first bytes after a member; zeros are padding."""
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
        except Exception as error:  # every module has its own
            name = self._compression.name
            message = f"holds damaged {name} data ({error}). Get the file again"
            if _TOO_LARGE.search(str(error)):
                message = (
                    f"holds {name} data that need more than {MOST_MEMORY >> 20} MiB of memory to "
                    "decompress. Compress it again without a larger dictionary or window"
                )
            raise FileFormatError(message, self._file) from error


def text_stream(stream: Stream, file: str) -> Stream:
    """Decompress if necessary, refuse what is no text, and skip a byte order mark."""
    peeked = _HeadStream(stream)
    compression = _compression(peeked.head)
    if compression is not None:
        peeked = _HeadStream(_DecompressedStream(peeked, compression, file))
        if _compression(peeked.head) is not None:
            raise FileFormatError(
                f"is compressed twice; decompress it once with {compression.name}", file
            )
    for magic, what in _NOT_TEXT.items():
        if peeked.head.startswith(magic):
            raise FileFormatError(f"is {what}, expected plain text. Convert it first", file)
    peeked.head = peeked.head.removeprefix(codecs.BOM_UTF8)
    return peeked


# --- Writing -------------------------------------------------------------------------------------


def _gzip_writer(file: IO[bytes]) -> Any:
    import gzip

    # Neither name nor time in the header: the same data give the same file.
    return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)


def _bzip2_writer(file: IO[bytes]) -> Any:
    import bz2

    return bz2.BZ2File(file, "wb")


def _xz_writer(file: IO[bytes]) -> Any:
    import lzma

    return lzma.LZMAFile(file, "wb")


def _zstd_writer(file: IO[bytes]) -> Any:
    # With a checksum of the content, which zstd leaves out unless asked; gzip, bzip2 and xz always
    # have one.
    if sys.version_info >= (3, 14):
        from compression.zstd import CompressionParameter, ZstdFile

        return ZstdFile(file, "wb", options={CompressionParameter.checksum_flag: 1})
    try:
        import zstandard
    except ImportError:
        raise ImportError(
            "writing .zst files needs the package zstandard: pip install 'ranksvm[zstd]'"
        ) from None
    return zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False)


COMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": _gzip_writer,
    ".bz2": _bzip2_writer,
    ".xz": _xz_writer,
    ".zst": _zstd_writer,
}
