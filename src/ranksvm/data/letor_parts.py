"""LETOR text on its way into the parts of a cache (:mod:`ranksvm.data.letor_cache`).

A part holds dense rows or CSR, whichever is smaller by the rule of
:func:`ranksvm.data.svmlight.load_letor`.  Its header has the state of the conversion at its end, so
that another process can go on from there.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Param
from ranksvm.data.queries import by_appearance
from ranksvm.data.sources import (
    BLOCK_BYTES,
    MAX_LINE_BYTES,
    Block,
    block_size,
    name_of,
    text_blocks,
)
from ranksvm.data.streams import FileStream, Stream, text_stream
from ranksvm.data.svmlight import (
    LIKE_BEFORE,
    PIECE_BYTES,
    READERS,
    LetorError,
    is_dense_better,
    letor_error,
    warn_if_cut,
)

# How the text is read, as in `load_letor`. A conversion also has "qid": "auto" or "ignore".
OPTIONS: dict[str, Any] = {
    "zero_based": False,
    "missing": "error",
    "unsorted": "sort",
    "duplicates": "error",
    "max_line_bytes": MAX_LINE_BYTES,
}
INDEX = np.dtype(np.int32)
_LEAST_BLOCK = 1 << 16  # bytes of text that are parsed at a time

IGNORE = Param("qid", None)  # how ids are ignored, for messages

Progress = Callable[[int, int | None], Any]
# Header and arrays.
ParsedPart = tuple[dict[str, Any], dict[str, NDArray[Any]]]


class QueryIdError(LetorError):
    """A line lacks a query id, has one that the lines before lack, or has one that is wrong."""


class OtherTextError(Exception):
    """The beginning of a text is not what a conversion has read before."""


def text_checksum(path: str, options: Mapping[str, Any]) -> int:
    """Return the checksum of a text, as it is after decompression."""
    found = 0
    for block in text_blocks(
        path, max_line_bytes=options["max_line_bytes"], error=LetorError, n_threads=2
    ):
        found = _added(block, found)
    return found


def _added(block: Block, checksum: int) -> int:
    """Return the checksum of a text and a block that follows it."""
    return zlib.crc32(memoryview(block.text)[: block.size], checksum)


def parse(
    path: str,
    before: Mapping[str, Any] | None,
    *,
    dtype: np.dtype[Any],
    options: dict[str, Any],
    size: int,
    block_bytes: int,
    n_threads: int,
    progress: Progress,
) -> Iterator[ParsedPart]:
    """Yield the parts of a text: headers and arrays.

    Parameters
    ----------
    path : str
    before : mapping or None
        The "state" of the last part that exists; None to begin at the first line.
    dtype : dtype
    options : dict
        All of ``OPTIONS``, and "qid".
    size : int
        Size of the file.
    block_bytes : int
        About the size of a part.
    n_threads : int
    progress : callable
        Called as ``progress(done, total)`` with bytes of the file.

    Raises
    ------
    OtherTextError
        If the text up to ``before`` is not the one that was read then.
    """
    state: dict[str, Any] = {
        "text": 0,
        "checksum": 0,
        "lines": 0,
        "items": 0,
        "widths": [2**63 - 1, -1, -1],
        "ids": "",
    }
    if before is not None:
        state = {key: before[key] for key in state}
    complete = True
    reader = _Reader(dtype, options, state)
    with _blocks(path, state, block_bytes, n_threads, reader) as blocks:
        for block, bytes_read in blocks:
            reader.feed(block, n_threads, path)
            state["text"] += block.size
            state["checksum"] = _added(block, state["checksum"])
            progress(bytes_read, size)
            needed = min(
                reader.rows * reader.width * dtype.itemsize,
                2 * reader.nonzeros * (dtype.itemsize + INDEX.itemsize) + 24 * reader.rows,
            )
            if needed + 16 * reader.rows >= block_bytes:
                yield _part_of(reader, n_threads, bytes_read, is_last=False)
            complete = block.complete
    if not state["items"] and not reader.rows:
        n = reader.lines
        got = f"has {n} lines, all of them blank or comments" if n else "is empty"
        raise LetorError(f"{got}; expected lines such as '2 qid:1 1:0.5 2:1'", path)
    yield _part_of(reader, n_threads, size, is_last=True)
    if not complete:
        least, most, width = state["widths"]
        warn_if_cut(path, (least, most, width))


@contextlib.contextmanager
def _blocks(
    path: str, state: Mapping[str, Any], block_bytes: int, n_threads: int, reader: _Reader
) -> Iterator[Iterator[tuple[Block, int]]]:
    """Return the blocks of the text after what has been read, with the bytes read so far."""
    with contextlib.ExitStack() as stack:
        source: Any = path
        rest = None
        if state["text"]:
            file = stack.enter_context(open(path, "rb", buffering=0))
            rest = source = _Rest(file, path, state["text"], state["checksum"])
        blocks = text_blocks(
            source,
            max_line_bytes=reader.options["max_line_bytes"],
            error=LetorError,
            count=lambda: reader.lines,
            block_bytes=max(_LEAST_BLOCK, min(block_size(n_threads), block_bytes // 4)),
            n_threads=n_threads,
        )
        stack.callback(blocks.close)  # an error leaves the file open otherwise
        yield ((block, block.bytes_read if rest is None else rest.bytes_read) for block in blocks)


def _part_of(reader: _Reader, n_threads: int, bytes_read: int, *, is_last: bool) -> ParsedPart:
    header: dict[str, Any] = {
        "rows": reader.rows,
        "width": reader.width,
        "nonzeros": reader.nonzeros,
    }
    arrays = reader.take(n_threads)
    ids = None
    if "qid" in arrays:
        ids = "text" if "ids" in arrays else "numbers"
    state = dict(reader.state)
    header |= {"ids": ids, "is_last": is_last, "bytes_read": bytes_read, "state": state}
    return header, arrays


class _Rest:
    """The text of a file after some bytes, which a conversion has read before."""

    def __init__(self, file: Any, name: str, skipped: int, checksum: int) -> None:
        self.name = name
        self._raw = FileStream(file)
        self._text: Stream = text_stream(self._raw, name)
        self._left = memoryview(b"")
        found = 0
        while skipped:
            piece = self._text.read(min(skipped, BLOCK_BYTES))
            if not piece:
                raise OtherTextError
            used = min(skipped, len(piece))
            found = zlib.crc32(piece[:used], found)
            self._left = piece[used:]
            skipped -= used
        if found != checksum:
            raise OtherTextError

    @property
    def bytes_read(self) -> int:
        return self._raw.bytes_read

    def read(self, size: int) -> bytes:
        """Return some bytes; none at the end."""
        piece = self._left or self._text.read(size)
        self._left = piece[size:]
        return bytes(piece[:size])


class _Reader:
    """Lines on their way to the arrays of a part.

    Parameters
    ----------
    dtype : dtype
    options : dict
    state : dict
        What is known about the lines before: "lines", "items", "widths", and "ids": "yes", "no",
        or empty if there was none.  It is updated.
    """

    def __init__(
        self, dtype: np.dtype[Any], options: dict[str, Any], state: dict[str, Any]
    ) -> None:
        self.state = state
        self._dtype = dtype
        self.options = options
        self._start()

    def _start(self) -> None:
        qid = self.options["qid"]
        if qid == "auto" and self.state["ids"] == "yes":
            qid = "required"
        self._reader = READERS[self._dtype](
            zero_based=self.options["zero_based"],
            n_features=-1,
            missing=self.options["missing"],
            sort=self.options["unsorted"] == "sort",
            duplicates=self.options["duplicates"],
            qid=qid,
            comments=False,
            piece_bytes=PIECE_BYTES,
        )
        # An item without query id, which is left out: the lines that follow must have none.
        self._extra = int(qid == "auto" and self.state["ids"] == "no")
        if self._extra:
            self._reader.feed(np.frombuffer(b"0\n", np.uint8), 1)
            self._reader.next_file()

    @property
    def rows(self) -> int:
        return int(self._reader.rows) - self._extra

    @property
    def width(self) -> int:
        return int(self._reader.width)

    @property
    def nonzeros(self) -> int:
        return int(self._reader.nonzeros)

    @property
    def lines(self) -> int:
        """Lines of the text so far."""
        return int(self.state["lines"] + self._reader.lines)

    def feed(self, block: Any, n_threads: int, path: str) -> None:
        """Read the lines of a block."""
        text = np.frombuffer(block.text, np.uint8, block.size)
        fault = self._reader.feed(text, n_threads)
        if fault is not None:
            values = {"n_features": None, "dtype": self._dtype, "reason": LIKE_BEFORE, "keep": ""}
            error = letor_error(path, block, fault, {**values, "ignore": IGNORE})
            assert error.line is not None
            kind = QueryIdError if fault[0].startswith("qid_") else LetorError
            raise kind(error.message, name_of(path), error.line + self.state["lines"], error.column)

    def take(self, n_threads: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the lines so far, and begin another part."""
        reader, extra = self._reader, self._extra
        state = self.state
        state["lines"] += int(reader.lines)
        state["items"] += self.rows
        state["widths"] = _joint_widths(state["widths"], reader.widths)
        if self.rows:
            state["ids"] = "yes" if reader.has_qid else "no"
        rows, width, nonzeros = self.rows + extra, self.width, self.nonzeros
        y = np.empty(rows)
        numbers = characters = None
        chars = int(reader.qid_chars)
        if reader.has_qid and chars == 0:
            numbers = np.empty(rows, dtype=np.int64)
        elif reader.has_qid:
            characters = np.empty(rows * chars, dtype=np.uint32)
        row_arrays = (y, numbers, characters, None, None, n_threads)
        arrays: dict[str, NDArray[Any]] = {}
        if is_dense_better(rows, width, nonzeros, self._dtype):
            x = np.empty((rows, width), dtype=self._dtype)
            reader.take_dense(x, *row_arrays)
            arrays["x"] = x[extra:]
        else:
            indptr = np.empty(rows + 1, dtype=INDEX)
            indices = np.empty(nonzeros, dtype=INDEX)
            values = np.empty(nonzeros, dtype=self._dtype)
            reader.take_sparse(indptr, indices, values, *row_arrays)
            arrays |= {"indptr": indptr[extra:].astype(np.int64), "indices": indices}
            arrays["values"] = values
        arrays["y"] = y[extra:]
        if numbers is not None:
            arrays["qid"] = numbers
        elif characters is not None:
            distinct, arrays["qid"] = by_appearance(characters.view(f"U{chars}"))
            text = "\n".join(distinct.tolist()).encode()
            arrays["ids"] = np.frombuffer(text, dtype=np.uint8)
        self._start()
        return arrays


def _joint_widths(before: Sequence[int], later: tuple[int, int, int]) -> list[int]:
    """Return the least and the largest number of features of all lines but the last, and its."""
    least, most, last = before
    if later[2] < 0:
        return [least, most, last]
    if last >= 0:
        least, most = min(least, last), max(most, last)
    return [min(least, later[0]), max(most, later[1]), later[2]]
