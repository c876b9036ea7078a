"""Write text to files, compressed if the name says so, standard output, or file objects.

An existing file is only replaced by one of the same kind: a model by a model, scores by scores,
data by data of the same format.  A new name, an empty file, or anything that is not a regular file
(a pipe, a device) can always be written to.  ``force`` overrides the rule.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import IO, Any

from ranksvm._contents import HEAD_BYTES, FileKind
from ranksvm._files import STDOUT, atomic_write, naming
from ranksvm._messages import PYTHON, Formatter, Param
from ranksvm.data.sources import name_of
from ranksvm.data.streams import FileFormatError, FileStream, text_stream

Target = str | os.PathLike[str] | IO[bytes] | IO[str]

# Text that is compressed at a time, about 0.1 s of work for xz; interrupts are seen in between.
_PIECE_BYTES = 1 << 17
# Lines that are formatted and written at a time.
_LINES = 20_000


class NotReplacedError(FileExistsError):
    """The file exists and holds something else.  The message omits the error number."""

    def __str__(self) -> str:
        return self.render(PYTHON)

    def render(self, formatter: Formatter) -> str:
        """Format the message for one interface of the library."""
        return f"{self.strerror}, or use {Param('force', True).render(formatter)} to replace it"


def check_replaces(path: str, kind: FileKind) -> None:
    """Raise a NotReplacedError if the file exists and is of another kind."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
        if os.path.splitext(path)[1].lower() in _COMPRESSORS:
            file.seek(0)
            with contextlib.suppress(FileFormatError):
                head = text_stream(FileStream(file), path).peek(HEAD_BYTES)
    if head and not kind.is_it(head):
        message = (
            f"{path} already exists and is not {kind.name}; not overwritten. Choose another name"
        )
        raise NotReplacedError(errno.EEXIST, message, path)


@contextlib.contextmanager
def open_target(target: Target) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes bytes of UTF-8 text to a target.

    A path is written completely or not at all, and compressed if it ends in .gz, .bz2, .xz or .zst.
    "-" is standard output.  Binary and text file objects are left open.
    """
    if isinstance(target, str | os.PathLike) and target != "-":
        compressor = _COMPRESSORS.get(os.path.splitext(os.fspath(target))[1].lower())
        with atomic_write(target) as file:
            if compressor is None:
                yield file.write
            else:
                with compressor(file) as compressed:
                    yield partial(_write_in_pieces, compressed.write)
        return
    out: Any = sys.stdout if isinstance(target, str | os.PathLike) else target
    if not hasattr(out, "write"):
        raise TypeError(f"target must be a path, '-' or a file object; got {target!r}")
    if out is sys.stdout and hasattr(out, "buffer"):
        out.flush()
        out = out.buffer
    name = STDOUT if isinstance(target, str | os.PathLike) else name_of(target)
    as_text = hasattr(out, "encoding")

    def write(data: bytes) -> object:
        with naming(name):
            return out.write(data.decode("utf-8", "surrogateescape") if as_text else data)

    yield write
    if hasattr(out, "flush"):
        with naming(name):
            out.flush()


def write_lines(target: Target, lines: Iterable[str]) -> None:
    """Write lines of text, given without their line feeds, to a target."""
    remaining = iter(lines)
    with open_target(target) as write:
        while part := list(islice(remaining, _LINES)):
            write(("\n".join(part) + "\n").encode("utf-8", "surrogateescape"))


def _write_in_pieces(write: Callable[[memoryview], object], data: bytes) -> None:
    view = memoryview(data)
    for begin in range(0, len(view), _PIECE_BYTES):
        write(view[begin : begin + _PIECE_BYTES])


def _gzip(file: IO[bytes]) -> Any:
    import gzip

    # Without name and time in the header, the same data gives the same file.
    return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)


def _bzip2(file: IO[bytes]) -> Any:
    import bz2

    return bz2.BZ2File(file, "wb")


def _xz(file: IO[bytes]) -> Any:
    import lzma

    return lzma.LZMAFile(file, "wb")


def _zstd(file: IO[bytes]) -> Any:
    # With a checksum of the content, which gzip, bzip2 and xz always have and zstd does not by
    # default.
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


_COMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": _gzip,
    ".bz2": _bzip2,
    ".xz": _xz,
    ".zst": _zstd,
}
