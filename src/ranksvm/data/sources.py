"""Where text comes from and where it goes: files, standard streams, file objects.

What arrives is cut into blocks of whole lines:

    source      path, "-" for standard input, or an open binary or text file
    stream      its bytes, decompressed (:mod:`ranksvm.data.streams`)
    block       some megabytes of them, up to the end of a line

so that the text is never in memory as a whole.  The blocks of a path can be read, and decompressed,
by a thread of their own while the ones before are worked on.

Text has no NUL in it, and its lines end: the first NUL is an error, and so is a line of more than
``max_line_bytes``, before more of it is read.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from numbers import Integral
from typing import IO, Any, NamedTuple, TypeVar

from ranksvm._files import STDOUT, atomic_write, naming
from ranksvm._messages import Message, Param, ParameterError
from ranksvm.data.streams import COMPRESSORS, FileFormatError, FileStream, text_stream

__all__ = [
    "MAX_LINE_BYTES",
    "NOT_TEXT",
    "Block",
    "FileFormatError",
    "Source",
    "Target",
    "name_of",
    "open_target",
    "sources",
    "standard_input",
    "text_blocks",
    "total_size",
]

Item = TypeVar("Item")
Source = str | os.PathLike[str] | IO[bytes] | IO[str]
Target = str | os.PathLike[str] | IO[bytes] | IO[str]

BLOCK_BYTES = 4 << 20
# A line of a million features or so.
MAX_LINE_BYTES = 16 << 20
NOT_TEXT = "found a NUL byte: this is not a text file, or it is UTF-16. Convert it to UTF-8"
_FIRST_BLOCK_BYTES = 1 << 16
# Text that is compressed at a time: in between an interrupt is seen. xz takes some 0.1 s for it.
_PIECE_BYTES = 1 << 17


class Block(NamedTuple):
    """Whole lines: ``text[:size]``, which ends in a line feed unless it is empty.

    The text is that of this block until the next one is asked for.

    Attributes
    ----------
    text : bytearray
    size : int
    complete : bool
        False if the last line of the file had no line end; it has been given one.
    bytes_read : int
        Bytes of the source up to here, before decompression.
    """

    text: bytearray
    size: int
    complete: bool
    bytes_read: int


# --- Names ---------------------------------------------------------------------------------------


def sources(source: Source | Sequence[Source]) -> list[Source]:
    """Return the one source, or the several, as a list."""
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
    """Return what messages call a source."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else f"<{type(source).__name__}>"


def total_size(items: Sequence[Source]) -> int | None:
    """Return the bytes of all sources together; None if some are no regular files."""
    total = 0
    for item in items:
        if not isinstance(item, str | os.PathLike) or item == "-":
            return None
        try:
            status = os.stat(item)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total


# --- Blocks --------------------------------------------------------------------------------------


def text_blocks(
    source: Source,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    error: type[FileFormatError] = FileFormatError,
    count: Callable[[], int] | None = None,
    block_bytes: int = BLOCK_BYTES,
    background: bool = False,
) -> Iterator[Block]:
    """Yield the lines of a source in blocks.

    Parameters
    ----------
    source : path, "-" or file object
        File objects stay open.
    max_line_bytes : int
        Longest line, without its line feed; a longer one is an error.
    error : type
        Of the error that a bad line is: a NUL in it, or too long.
    count : callable, optional
        Returns the lines of all blocks so far.  Who counts them anyway saves the time here.
    block_bytes : int
        Size of a block; a longer line makes its block longer.
    background : bool
        Whether to read paths in a thread of its own, one block ahead.  Standard input and file
        objects are read by the thread that asks: a thread that waits for them could not be stopped.
    """
    if not isinstance(max_line_bytes, Integral) or max_line_bytes < 1:
        raise ParameterError(
            "{limit} must be a positive integer; got {value!r}",
            limit=Param("max_line_bytes"),
            value=max_line_bytes,
        )
    limits = _Limits(name_of(source), block_bytes, int(max_line_bytes), error)
    blocks: Iterator[Block]
    if isinstance(source, str | os.PathLike) and source != "-":
        blocks = _file_blocks(source, limits)
        blocks = _read_ahead(blocks) if background else blocks
    else:
        file = standard_input() if isinstance(source, str | os.PathLike) else source
        blocks = _named_blocks(FileStream(file), limits)
    return _numbered(blocks, count)


def _numbered(blocks: Iterator[Block], count: Callable[[], int] | None) -> Iterator[Block]:
    """Yield the same blocks; an error gets the number of its line in the file."""
    lines = 0
    try:
        for block in blocks:
            yield block
            if count is None:
                lines += block.text.count(b"\n", 0, block.size)
            del block
    except FileFormatError as error:
        if error.line is not None:
            error.line += lines if count is None else count()
        raise


def standard_input() -> Any:
    """Return the file that "-" stands for, binary if it has bytes to give."""
    if sys.stdin is None:
        raise OSError("there is no standard input to read '-' from")
    return getattr(sys.stdin, "buffer", sys.stdin)


class _Limits(NamedTuple):
    """Of the blocks of a file, and what errors need to know."""

    name: str
    block: int
    line: int
    error: type[FileFormatError]


def _file_blocks(path: str | os.PathLike[str], limits: _Limits) -> Generator[Block, None, None]:
    with naming(os.fspath(path)), open(path, "rb", buffering=0) as file:
        yield from _blocks(FileStream(file), limits)


def _named_blocks(file: FileStream, limits: _Limits) -> Generator[Block, None, None]:
    with naming(limits.name):
        yield from _blocks(file, limits)


def _blocks(file: FileStream, limits: _Limits) -> Generator[Block, None, None]:
    """Yield blocks; the lines of errors are counted from the end of the last one."""
    stream = text_stream(file, limits.name)
    tail = bytearray()  # the beginning of a line
    # Two buffers in turn: one may be filled in the background while the other is in use. They start
    # small, as many files are. Where a line is longer than the block there is twice the room, so
    # that every byte is copied a few times at most, but none for a line that is too long: it does
    # not fit. One more byte is for the line end that the last line may lack.
    buffer, other = bytearray(), bytearray()
    wanted = min(limits.block, _FIRST_BLOCK_BYTES)
    while True:
        buffer, other = other, buffer
        room = min(max(wanted, 2 * len(tail)), limits.line + 1)
        if len(buffer) <= room:
            buffer = bytearray(room + 1)
        room = len(buffer) - 1
        wanted = min(limits.block, 2 * wanted)
        buffer[: len(tail)] = tail
        filled = len(tail)
        with memoryview(buffer) as view:
            while filled < room and (count := stream.readinto(view[filled:room])):
                filled += count
        nul = buffer.find(0, len(tail), filled)
        if nul >= 0:
            size = buffer.rfind(b"\n", 0, nul) + 1
            column = len(buffer[size:nul].decode("utf-8", "replace")) + 1
            if size:  # what is wrong with these comes first
                yield Block(buffer, size, True, file.bytes_read)
            raise limits.error(NOT_TEXT, limits.name, 1, column)
        if filled < room:
            break
        size = buffer.rfind(b"\n", len(tail), filled) + 1
        tail = buffer[size:filled]
        if len(tail) > limits.line:
            raise limits.error(
                Message(
                    "the line is longer than {bytes} bytes. If that is intended, raise {limit}",
                    bytes=limits.line,
                    limit=Param("max_line_bytes"),
                ),
                limits.name,
                1,
            )
        if size:
            yield Block(buffer, size, True, file.bytes_read)
    complete = filled == 0 or buffer[filled - 1] == ord("\n")
    if not complete:
        buffer[filled] = ord("\n")
        filled += 1
    yield Block(buffer, filled, complete, file.bytes_read)


def _read_ahead(items: Generator[Item, None, None]) -> Iterator[Item]:
    """Run a generator in a thread, which makes the next item while this one is in use."""
    results: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    wanted = threading.Semaphore(0)
    stop = threading.Event()

    def work() -> None:
        try:
            with contextlib.closing(items):
                for item in items:
                    results.put((True, item))
                    del item
                    wanted.acquire()
                    if stop.is_set():
                        return
            results.put((False, None))
        except BaseException as error:  # raised again where the items are asked for
            results.put((False, error))

    thread = threading.Thread(target=work, name="ranksvm-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            more, item = results.get()
            if not more:
                break
            wanted.release()
            yield item
            del item
        if item is not None:
            raise item
    finally:
        item = None  # an error that holds this frame, which holds the error, would stay for long
        stop.set()
        wanted.release()
        # A pipe may keep it waiting; it is then left behind.
        thread.join(timeout=0.2)


# --- Targets -------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_target(target: Target) -> Iterator[Callable[[bytes], object]]:
    """Give a function that writes bytes of UTF-8 text to a target.

    A path is written as a whole or not at all, compressed if it ends in .gz, .bz2, .xz or .zst;
    "-" is standard output.  File objects, binary or text, stay open.
    """
    if isinstance(target, str | os.PathLike) and target != "-":
        writer = COMPRESSORS.get(os.path.splitext(os.fspath(target))[1].lower())
        with atomic_write(target) as file:
            if writer is None:
                yield file.write
            else:
                with writer(file) as compressed:
                    yield partial(_write_in_pieces, compressed.write)
        return
    out: Any = sys.stdout if isinstance(target, str | os.PathLike) else target
    if not hasattr(out, "write"):
        raise TypeError(f"target must be a path, '-' or a file object; got {target!r}")
    if out is sys.stdout and hasattr(out, "buffer"):
        out.flush()
        out = out.buffer
    name = STDOUT if isinstance(target, str | os.PathLike) else name_of(target)
    as_text = isinstance(out, io.TextIOBase) or hasattr(out, "encoding")

    def write(data: bytes) -> object:
        with naming(name):
            return out.write(data.decode("utf-8", "surrogateescape") if as_text else data)

    yield write
    if hasattr(out, "flush"):
        with naming(name):
            out.flush()


def _write_in_pieces(write: Callable[[memoryview], object], data: bytes) -> None:
    view = memoryview(data)
    for begin in range(0, len(view), _PIECE_BYTES):
        write(view[begin : begin + _PIECE_BYTES])
