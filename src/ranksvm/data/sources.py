"""Read text from files, standard input or file objects, in blocks of whole lines.

    source      path, "-" for standard input, or an open binary or text file
    stream      its bytes, decompressed (:mod:`ranksvm.data.streams`)
    block       a few megabytes of them, up to the end of a line

The whole text is never in memory at once.  The next block of a regular file can be read and
decompressed by another thread while the current one is processed.

A NUL byte is an error, and so is a line of more than ``max_line_bytes``, which is detected before
more of the line is read.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, NamedTuple

import numpy as np

from ranksvm import _core
from ranksvm._checks import check_integer
from ranksvm._files import naming
from ranksvm._messages import Message, Param
from ranksvm._waiting import file_name
from ranksvm.data.streams import FileFormatError, FileStream, text_stream

Source = str | os.PathLike[str] | IO[bytes] | IO[str]

BLOCK_BYTES = 4 << 20
# Several threads share a block: this much for each, but not more than MOST_BLOCK_BYTES.
BLOCK_BYTES_PER_THREAD = 1 << 20
MOST_BLOCK_BYTES = 32 << 20
# Reading takes far less time than parsing: one thread in so many reads the next block.
THREADS_PER_HELPER = 4
# Enough for a line of about a million features.
MAX_LINE_BYTES = 16 << 20
NOT_TEXT = "found a NUL byte: this is not a text file, or it is UTF-16. Convert it to UTF-8"
_FIRST_BLOCK_BYTES = 1 << 16
_SHOWN = 60  # characters of a field in a message


def block_size(n_threads: int) -> int:
    """Return a good size of blocks for so many threads."""
    return min(max(BLOCK_BYTES, n_threads * BLOCK_BYTES_PER_THREAD), MOST_BLOCK_BYTES)


class Block(NamedTuple):
    """Whole lines: ``text[:size]``, which ends in a line feed unless it is empty.

    The text is valid until the next block is requested.

    Attributes
    ----------
    text : bytearray
    size : int
    complete : bool
        False if the last line of the file had no line ending; one has been added.
    bytes_read : int
        Bytes of the source read so far, before decompression.
    """

    text: bytearray
    size: int
    complete: bool
    bytes_read: int


class FieldError(Exception):
    """A field of a line is not what was expected; readers turn it into a FileFormatError."""

    def __init__(self, field: bytes, expected: str | Message) -> None:
        super().__init__()
        self.message = Message(
            "found {field}, {expected}", field=excerpt(field.strip()), expected=expected
        )


def excerpt(text: bytes) -> str:
    """Return the beginning of a text in quotes, for messages."""
    shown = text[: 4 * _SHOWN].decode("utf-8", "replace")
    return repr(shown[:_SHOWN]) + ("..." if len(shown) > _SHOWN else "")


# --- Names ---------------------------------------------------------------------------------------


def sources(source: Source | Sequence[Source]) -> list[Source]:
    """Return one source, or a sequence of sources, as a list."""
    single: Any = source
    if isinstance(source, str | os.PathLike) or hasattr(source, "read"):
        return [single]
    if isinstance(source, bytes | bytearray | memoryview):
        raise TypeError("got bytes instead of a file; pass io.BytesIO(...) to read from memory")
    try:
        found = list(source)
    except TypeError:
        raise TypeError(
            f"source must be a path, '-', a file object or a sequence of these; got {source!r}"
        ) from None
    if not found:
        raise ValueError("source is an empty sequence; pass at least one file")
    for item in found:
        if not isinstance(item, str | os.PathLike) and not hasattr(item, "read"):
            raise TypeError(f"source holds {item!r}, which is neither a path nor a file object")
    return found


def name_of(source: Source) -> str:
    """Return the name of a source for messages."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else os.fspath(source)
    return file_name(source)


def total_size(items: Sequence[Source]) -> int | None:
    """Return the total size of all sources in bytes; None if one is not a regular file."""
    if any(not isinstance(item, str | os.PathLike) or item == "-" for item in items):
        return None
    paths: Any = items
    return sum(map(os.path.getsize, paths)) if all(map(os.path.isfile, paths)) else None


# --- Blocks --------------------------------------------------------------------------------------


def text_blocks(
    source: Source,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    error: type[FileFormatError] = FileFormatError,
    count: Callable[[], int] | None = None,
    block_bytes: int = BLOCK_BYTES,
    n_threads: int = 1,
) -> Generator[Block, None, None]:
    """Yield the lines of a source in blocks.

    Parameters
    ----------
    source : path, "-" or file object
        File objects are left open.
    max_line_bytes : int
        Maximum length of a line, without its line feed; a longer one is an error.
    error : type
        Exception type for a line that is too long or has a NUL byte.
    count : callable, optional
        Returns the number of lines of all blocks so far, if the caller counts them anyway.
    block_bytes : int
        Size of a block; a longer line makes its block longer.
    n_threads : int
        Number of threads of the reader of the blocks.  With more than one, another thread reads
        regular files, one block ahead, with some helpers for large blocks.  Pipes, standard input
        and file objects are always read by the calling thread: a thread that waits for them could
        not be stopped.
    """
    check_integer("max_line_bytes", max_line_bytes)
    name = name_of(source)
    path = source if isinstance(source, str | os.PathLike) and source != "-" else None
    with naming(name), contextlib.ExitStack() as stack:
        file: Any = standard_input() if source == "-" else source
        if path is not None:
            file = stack.enter_context(open(path, "rb", buffering=0))
        ahead = n_threads > 1 and path is not None and os.path.isfile(path)
        helpers = max(1, n_threads // THREADS_PER_HELPER) if ahead else 1
        stream = FileStream(file, helpers)
        blocks = _blocks(stream, name, int(max_line_bytes), block_bytes, error, helpers)
        if ahead:
            blocks = _read_ahead(blocks)
        stack.enter_context(contextlib.closing(blocks))
        lines = 0
        try:
            for block in blocks:
                yield block
                if count is None:
                    lines += block.text.count(b"\n", 0, block.size)
        except FileFormatError as failure:
            if failure.line is not None:
                failure.line += lines if count is None else count()
            raise


def text_lines(source: Source, **options: Any) -> Iterator[bytes]:
    """Yield the lines of a source without their line feeds; ``options`` as for text_blocks."""
    for block in text_blocks(source, n_threads=2, **options):
        yield from bytes(memoryview(block.text)[: block.size]).split(b"\n")[:-1]


def standard_input() -> Any:
    """Return the file that "-" stands for, in binary mode if possible."""
    if sys.stdin is None:
        raise OSError("there is no standard input to read '-' from")
    return getattr(sys.stdin, "buffer", sys.stdin)


def _blocks(
    file: FileStream,
    name: str,
    max_line_bytes: int,
    block_bytes: int,
    error: type[FileFormatError],
    n_threads: int = 1,
) -> Generator[Block, None, None]:
    """Yield blocks; line numbers in errors count from the end of the last block."""
    stream = text_stream(file, name)
    tail = bytearray()  # the beginning of an incomplete line
    # Two buffers alternate: one may be filled in the background while the other is in use. They
    # start small, since many files are small. For a line longer than the block the buffer doubles,
    # so that every byte is copied only a few times, but it never exceeds the longest line allowed.
    # One extra byte leaves room for the line ending that the last line may lack.
    buffer, other = bytearray(), bytearray()
    wanted = min(block_bytes, _FIRST_BLOCK_BYTES)
    while True:
        buffer, other = other, buffer
        room = min(max(wanted, 2 * len(tail)), max_line_bytes + 1)
        if len(buffer) <= room:
            buffer = bytearray(room + 1)
        room = len(buffer) - 1
        wanted = min(block_bytes, 2 * wanted)
        buffer[: len(tail)] = tail
        filled = len(tail)
        with memoryview(buffer) as view:
            while filled < room and (count := stream.readinto(view[filled:room])):
                filled += count
        nul = _find_nul(buffer, len(tail), filled, n_threads)
        if nul >= 0:
            size = buffer.rfind(b"\n", 0, nul) + 1
            column = len(buffer[size:nul].decode("utf-8", "replace")) + 1
            if size:  # errors in the lines before come first
                yield Block(buffer, size, True, file.bytes_read)
            raise error(NOT_TEXT, name, 1, column)
        if filled < room:
            break
        size = buffer.rfind(b"\n", len(tail), filled) + 1
        tail = buffer[size:filled]
        if len(tail) > max_line_bytes:
            raise error(
                Message(
                    "the line is longer than {bytes} bytes. If that is intended, raise {limit}",
                    bytes=max_line_bytes,
                    limit=Param("max_line_bytes"),
                ),
                name,
                1,
            )
        if size:
            yield Block(buffer, size, True, file.bytes_read)
    complete = filled == 0 or buffer[filled - 1] == ord("\n")
    if not complete:
        buffer[filled] = ord("\n")
        filled += 1
    yield Block(buffer, filled, complete, file.bytes_read)


def _find_nul(buffer: bytearray, begin: int, end: int, n_threads: int) -> int:
    """Return the place of the first NUL byte; -1 if there is none."""
    text = np.frombuffer(buffer, np.uint8, end - begin, begin)
    found = _core.find_nul(text, n_threads)
    return found if found < 0 else begin + found


def _read_ahead(blocks: Generator[Block, None, None]) -> Generator[Block, None, None]:
    """Yield the same blocks; a thread prepares the next one while the current one is in use."""
    with contextlib.closing(blocks), ThreadPoolExecutor(1, "ranksvm-read-ahead") as thread:
        following = thread.submit(next, blocks, None)
        try:
            while (block := following.result()) is not None:
                following = thread.submit(next, blocks, None)
                yield block
                del block
        finally:
            del following  # its exception refers to this frame: a reference cycle
