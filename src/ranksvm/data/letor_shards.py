"""Rows of LETOR text, which is converted once into a cache of binary parts.

The cache of a text is a folder:

    part-000000.bin ...    blocks of rows: a header, then arrays
    manifest.json          written last: the cache is complete

Every file is written as a whole or not at all (:mod:`ranksvm._files`).  The header of a part says
how much of the text it covers, so a conversion that was interrupted goes on after the last part.
Parts and manifest also record size and time of the text, its options and the version of the
format: a part of another text is never used.

A part holds dense rows or CSR, whichever is smaller by the rule of
:func:`ranksvm.data.svmlight.load_letor`.  That rule, for all rows together, also decides what X is.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._files import atomic_write, naming, try_lock
from ranksvm._memory import format_size
from ranksvm._messages import Message, Param, ParameterError
from ranksvm._vectors import Array, Rows
from ranksvm.data.array_shards import FileStamp, as_bytes, read_exactly
from ranksvm.data.shards import RowSource
from ranksvm.data.sources import BLOCK_BYTES, MAX_LINE_BYTES, name_of, text_blocks
from ranksvm.data.streams import FileFormatError, FileStream, Stream, text_stream
from ranksvm.data.svmlight import (
    _LIKE_BEFORE,
    _READERS,
    PIECE_BYTES,
    LetorError,
    _letor_error,
    _warn_if_cut,
)

VERSION = 1
SUFFIX = ".ranksvm-cache"
MANIFEST = "manifest.json"
# The first bytes of a part; then the length of the header in eight bytes, and the header.
MAGIC = b"RSVMPART"
_ALIGNMENT = 64
_PART = re.compile(r"part-\d{6}\.bin")
_TEMPORARY = re.compile(r"\.(?:part-\d{6}\.bin|manifest\.json)\..*\.tmp")
_LEAST_BLOCK = 1 << 16  # bytes of text that are parsed at a time
_INDEX = np.dtype(np.int32)
# How the text is read, as in `load_letor`.
OPTIONS: dict[str, Any] = {
    "zero_based": False,
    "missing": "error",
    "unsorted": "sort",
    "duplicates": "error",
    "max_line_bytes": MAX_LINE_BYTES,
}

Progress = Callable[[int, int | None], Any]


class _Piece(NamedTuple):
    """A part of a cache, as its header has it."""

    path: str
    header: dict[str, Any]

    @property
    def rows(self) -> int:
        return int(self.header["rows"])

    @property
    def width(self) -> int:
        return int(self.header["width"])


def is_dense_better(rows: int, cols: int, nonzeros: int, itemsize: int) -> bool:
    """Return whether an ndarray is preferred to CSR, by the rule of ``load_letor``."""
    sparse = nonzeros * (itemsize + _INDEX.itemsize) + rows * _INDEX.itemsize
    return rows * cols * itemsize <= 2 * sparse


def cache_folder(path: str, cache: str | None) -> str:
    """Return the folder for the cache of a text: beside it, or inside ``cache``."""
    folder, name = os.path.split(os.path.realpath(path))
    if cache is None:
        return os.path.join(folder, name + SUFFIX)
    # Texts of several folders may have the same name.
    mark = hashlib.sha256(os.fsencode(os.path.join(folder, name))).hexdigest()[:8]
    return os.path.join(cache, f"{name}-{mark}{SUFFIX}")


# --- Reading a cache -----------------------------------------------------------------------------


class LetorSource(RowSource):
    """The rows of LETOR text, from its cache; the cache is made if there is none.

    Parameters
    ----------
    paths : sequence of str
        Texts, plain or compressed, in the order of the rows.
    cache : str or None
        Folder for the caches; None: beside each text.
    dtype : dtype
        Type of X.
    block_bytes : int
        About the size of a part; the conversion needs a few times this memory.
    n_features : int or None
        Number of columns; None for the largest index.
    options : mapping
        How to read the text; see ``OPTIONS``.
    n_threads : int
        Number of threads for the conversion.
    progress : callable or None
        Called as ``progress(done, total)`` with bytes of text while a cache is made.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        cache: str | None = None,
        dtype: np.dtype[Any],
        block_bytes: int,
        n_features: int | None = None,
        options: Mapping[str, Any] | None = None,
        n_threads: int = 1,
        progress: Progress | None = None,
    ) -> None:
        super().__init__()
        unknown = sorted(set(options or ()) - set(OPTIONS))
        if unknown:
            raise TypeError(f"LETOR text has no option {unknown[0]!r}; it has {', '.join(OPTIONS)}")
        self._pieces = list[_Piece]()
        total = sum(os.path.getsize(path) for path in paths)
        before = 0
        has_qid: bool | None = None
        for path in paths:

            def advance(done: int, _: int | None, before: int = before) -> None:
                if progress is not None:
                    progress(before + done, total)

            made = _Cache(path, cache, dtype, {**OPTIONS, **(options or {})})
            found = made.open(block_bytes, n_threads, advance)
            before += os.path.getsize(path)
            ids = found[0].header["ids"] is not None
            if has_qid is not None and ids != has_qid:
                raise LetorError(
                    f"has {'' if ids else 'no '}query ids, unlike {paths[0]}. Add the query id to "
                    "every line of all files",
                    path,
                )
            has_qid = ids
            self._pieces += [piece for piece in found if piece.rows]
        self.has_qid = bool(has_qid)
        self.dtype = dtype
        self._starts: Rows = np.cumsum([0] + [piece.rows for piece in self._pieces])
        self.n_items = int(self._starts[-1])
        width = max(piece.width for piece in self._pieces)
        if n_features is not None and n_features < width:
            raise ParameterError(
                "{path} has {width} features, more than {n_features}. Leave {n_features} out, or "
                "give the number of features of the training set.",
                path=paths[0] if len(paths) == 1 else "the text",
                width=width,
                n_features=Param("n_features", n_features),
            )
        self.n_features = width if n_features is None else n_features
        nonzeros = sum(int(piece.header["nonzeros"]) for piece in self._pieces)
        self.is_sparse = not is_dense_better(self.n_items, width, nonzeros, dtype.itemsize)
        self._stamps = {
            piece.path: FileStamp(piece.path, piece.header["bytes"], piece.header["mtime_ns"])
            for piece in self._pieces
        }

    def vectors(self) -> tuple[Array, Rows | None, NDArray[Any] | None]:
        """Return labels, query ids, and the texts that the ids stand for.

        The ids are numbers, and the texts None, if all ids are integers in their usual form.
        """
        y = np.empty(self.n_items)
        for piece, start in zip(self._pieces, self._starts.tolist(), strict=False):
            y[start : start + piece.rows] = self._array(piece, "y")
        if not self.has_qid:
            return y, None, None
        qid = np.empty(self.n_items, dtype=np.int64)
        as_text = any(piece.header["ids"] == "text" for piece in self._pieces)
        numbers: dict[str, int] = {}
        for piece, start in zip(self._pieces, self._starts.tolist(), strict=False):
            codes = self._array(piece, "qid")
            if as_text:
                if piece.header["ids"] == "text":
                    texts = self._array(piece, "ids").tobytes().decode("utf-8").split("\n")
                else:  # integers in their usual form
                    distinct, first, codes = np.unique(
                        codes, return_index=True, return_inverse=True
                    )
                    order = np.argsort(first)
                    place = np.empty_like(order)
                    place[order] = np.arange(order.size)
                    codes = place[codes]
                    texts = list(map(str, distinct[order].tolist()))
                known = [numbers.setdefault(text, len(numbers)) for text in texts]
                codes = np.array(known, dtype=np.int64)[codes]
            qid[start : start + piece.rows] = codes
        return y, qid, np.array(list(numbers)) if as_text else None

    def read(self, begin: int, end: int) -> Any:
        parts = list[Any]()
        out: Any = None
        if not self.is_sparse:
            out = self.pool.empty((end - begin, self.n_features), self.dtype)
        first = int(np.searchsorted(self._starts, begin, side="right")) - 1
        for k in range(first, len(self._pieces)):
            piece, start = self._pieces[k], int(self._starts[k])
            if start >= end:
                break
            rows = max(begin, start) - start, min(end, start + piece.rows) - start
            with self._opened(piece) as file:
                if self.is_sparse:
                    parts.append(self._read_sparse(file, piece, *rows))
                else:
                    inside = out[start + rows[0] - begin : start + rows[1] - begin]
                    self._read_dense(file, piece, *rows, inside)
        return _stacked(parts, self.n_features) if self.is_sparse else out

    def _read_dense(
        self, file: Any, piece: _Piece, begin: int, end: int, out: NDArray[Any]
    ) -> None:
        width = piece.width
        if "x" not in piece.header["arrays"]:
            values, indices, indptr = self._read_csr(file, piece, begin, end)
            out[...] = 0.0
            out[np.repeat(np.arange(end - begin), np.diff(indptr)), indices] = values
        elif width == self.n_features:
            _read_rows(file, piece, "x", begin, out)
        else:
            inside = np.empty((end - begin, width), dtype=self.dtype)
            _read_rows(file, piece, "x", begin, inside)
            out[:, :width] = inside
            out[:, width:] = 0.0

    def _read_sparse(self, file: Any, piece: _Piece, begin: int, end: int) -> Any:
        if "x" not in piece.header["arrays"]:
            return self._read_csr(file, piece, begin, end)
        dense = np.empty((end - begin, piece.width), dtype=self.dtype)
        _read_rows(file, piece, "x", begin, dense)
        rows, indices = np.nonzero(dense)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=end - begin))])
        return dense[rows, indices], indices.astype(_INDEX), indptr

    def _read_csr(self, file: Any, piece: _Piece, begin: int, end: int) -> Any:
        indptr = np.empty(end - begin + 1, dtype=np.int64)
        _read_rows(file, piece, "indptr", begin, indptr)
        first, last = int(indptr[0]), int(indptr[-1])
        indices = np.empty(last - first, dtype=_INDEX)
        values = np.empty(last - first, dtype=self.dtype)
        _read_rows(file, piece, "indices", first, indices)
        _read_rows(file, piece, "values", first, values)
        return values, indices, indptr - first

    def identity(self) -> str:
        stamps = [stamp.identity for stamp in self._stamps.values()]
        return repr((stamps, self.n_features, self.dtype.str))

    def row_bytes(self) -> Rows | None:
        if not self.is_sparse:
            return None
        each = self.dtype.itemsize + _INDEX.itemsize
        found = np.zeros(self.n_items + 1, dtype=np.int64)
        for piece, start in zip(self._pieces, self._starts.tolist(), strict=False):
            with self._opened(piece) as file:
                _, _, indptr = self._read_sparse(file, piece, 0, piece.rows)
            ends = found[start] + indptr[1:] * each
            found[start + 1 : start + piece.rows + 1] = ends + _INDEX.itemsize * np.arange(
                1, piece.rows + 1
            )
        return found

    def where(self, row: int, column: int | None = None) -> str:
        k = int(np.searchsorted(self._starts, row, side="right")) - 1
        piece = self._pieces[k]
        first = k
        while first and self._pieces[first - 1].header["source"] == piece.header["source"]:
            first -= 1
        item = row - int(self._starts[first]) + 1
        place = f"{piece.header['source']}, item {item}"
        if column is None:
            return place
        return f"{place}, feature {column + (0 if piece.header['options']['zero_based'] else 1)}"

    def _array(self, piece: _Piece, name: str) -> NDArray[Any]:
        dtype, size, _ = piece.header["arrays"][name]
        out = np.empty(size, dtype=dtype)
        with self._opened(piece) as file:
            _read_rows(file, piece, name, 0, out)
        return out

    @contextlib.contextmanager
    def _opened(self, piece: _Piece) -> Iterator[Any]:
        self._stamps[piece.path].check()
        with naming(piece.path), open(piece.path, "rb", buffering=0) as file:
            yield file


def _read_rows(file: Any, piece: _Piece, name: str, begin: int, out: NDArray[Any]) -> None:
    """Read an array of a part, from some row on, as many rows as fit."""
    item = out.dtype.itemsize * (out.shape[1] if out.ndim == 2 else 1)
    read_exactly(file, piece.header["arrays"][name][2] + begin * item, out)


def _stacked(parts: Sequence[Any], n_features: int) -> Any:
    from scipy import sparse

    before = np.cumsum([0] + [int(indptr[-1]) for _, _, indptr in parts]).tolist()
    indptr = [part[2][:-1] + shift for part, shift in zip(parts, before, strict=False)]
    whole = np.concatenate([*indptr, before[-1:]]).astype(_INDEX)
    values = np.concatenate([part[0] for part in parts])
    indices = np.concatenate([part[1] for part in parts])
    X = sparse.csr_array((values, indices, whole), shape=(whole.size - 1, n_features), copy=False)
    X.has_canonical_format = True
    return X


# --- Making a cache ------------------------------------------------------------------------------


class _Cache:
    """The cache of one text.

    Parameters
    ----------
    path : str
        LETOR text.
    cache : str or None
        As for :class:`LetorSource`.
    dtype : dtype
    options : dict
        How to read the text.
    """

    def __init__(
        self, path: str, cache: str | None, dtype: np.dtype[Any], options: dict[str, Any]
    ) -> None:
        self._path = path
        self._folder = cache_folder(path, cache)
        self._dtype = dtype
        self._options = options
        stamp = FileStamp.of(path)
        self._stamp = stamp
        # What the cache must be made from.
        self._identity = {
            "version": VERSION,
            "size": stamp.size,
            "mtime_ns": stamp.mtime_ns,
            "dtype": dtype.name,
            "options": options,
        }

    def open(self, block_bytes: int, n_threads: int, progress: Progress) -> list[_Piece]:
        """Return the parts; convert the text if the cache is not complete."""
        if os.path.exists(os.path.join(self._folder, MANIFEST)):
            return self._complete()
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            reason = f"no cache can be made here ({error.strerror}); choose another place for it"
            raise OSError(error.errno, reason, self._folder) from None
        with self._locked():
            if os.path.exists(os.path.join(self._folder, MANIFEST)):
                return self._complete()  # another process has made it
            try:
                self._convert(block_bytes, n_threads, progress)
            except BaseException as error:
                if isinstance(error, FileFormatError):
                    self._clear()  # the text will have to change
                with contextlib.suppress(OSError):
                    os.rmdir(self._folder)  # if it is empty
                raise
        return self._complete()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time make this cache; the lock ends with the process."""
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            if try_lock(descriptor) is False:
                raise BlockingIOError(
                    errno.EAGAIN,
                    "another process is making this cache; wait until it is complete",
                    self._folder,
                )
            yield
        finally:
            os.close(descriptor)

    def _complete(self) -> list[_Piece]:
        """Return the parts of a complete cache; raise if it is not one of this text."""
        name = os.path.join(self._folder, MANIFEST)
        try:
            with naming(name), open(name, encoding="utf-8") as file:
                manifest = json.load(file)
            sizes = manifest["parts"]
            identity = {key: manifest[key] for key in self._identity}
        except (ValueError, KeyError, TypeError):
            raise self._useless("is damaged") from None
        for key, is_now in self._identity.items():
            if identity[key] != is_now:
                raise self._useless(_difference(key, identity[key], is_now, self._path))
        pieces = []
        for number, size in enumerate(sizes):
            piece = self._piece(number)
            if piece is None or piece.header["bytes"] != size:
                raise self._useless(f"is damaged: {_part_name(number)} is missing or incomplete")
            pieces.append(piece)
        return pieces

    def _useless(self, why: str) -> FileFormatError:
        return FileFormatError(
            Message(
                "{why}. Delete this folder to have the cache made again, or choose another place "
                "for it with {cache}",
                why=why,
                cache=Param("cache"),
            ),
            self._folder,
        )

    def _piece(self, number: int) -> _Piece | None:
        """Return a part of this text; None if it does not exist or belongs to another text."""
        path = os.path.join(self._folder, _part_name(number))
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if file.read(len(MAGIC)) != MAGIC:
                    return None
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        except (OSError, ValueError, MemoryError, OverflowError):
            return None
        if any(header.get(key) != value for key, value in self._identity.items()):
            return None
        if header.get("end") != status.st_size:
            return None
        header |= {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "source": self._path}
        return _Piece(path, header)

    def _clear(self, keep: int = 0) -> None:
        """Remove the files of a cache that is not complete, except for its first parts."""
        kept = {_part_name(number) for number in range(keep)}
        for name in os.listdir(self._folder):
            if (_PART.fullmatch(name) and name not in kept) or _TEMPORARY.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._folder, name))

    def _convert(self, block_bytes: int, n_threads: int, progress: Progress) -> None:
        done = list[_Piece]()
        while (piece := self._piece(len(done))) is not None:
            done.append(piece)
        self._clear(keep=len(done))
        parts = [piece.header["end"] for piece in done]
        last = done[-1].header if done else None
        if last is None or not last["is_last"]:
            for header, arrays in self._parsed(last, block_bytes, n_threads, progress):
                parts.append(self._write_part(len(parts), header, arrays, parts))
        self._stamp.check()  # or else the parts are of two texts
        manifest = {**self._identity, "source": os.path.realpath(self._path), "parts": parts}
        with atomic_write(os.path.join(self._folder, MANIFEST)) as file:
            file.write(json.dumps(manifest, indent=1).encode())

    def _parsed(
        self, last: dict[str, Any] | None, block_bytes: int, n_threads: int, progress: Progress
    ) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
        """Yield the parts after the last one that exists: headers and arrays."""
        state: dict[str, Any] = {
            "text": 0,
            "lines": 0,
            "items": 0,
            "widths": [2**63 - 1, -1, -1],
            "ids": "",
        }
        if last is not None:
            state = {key: last["state"][key] for key in state}
        itemsize = self._dtype.itemsize
        complete = True
        reader = _Reader(self._dtype, self._options, state)
        with self._blocks(state["text"], block_bytes, n_threads, reader) as blocks:
            for block, bytes_read in blocks:
                reader.feed(block, n_threads, self._path)
                state["text"] += block.size
                progress(bytes_read, self._stamp.size)
                size = min(
                    reader.rows * reader.width * itemsize,
                    2 * reader.nonzeros * (itemsize + _INDEX.itemsize) + 24 * reader.rows,
                )
                if size + 16 * reader.rows >= block_bytes:
                    yield self._part_of(reader, n_threads, bytes_read, is_last=False)
                complete = block.complete
        if not state["items"] and not reader.rows:
            n = reader.lines
            got = f"has {n} lines, all of them blank or comments" if n else "is empty"
            raise LetorError(f"{got}; expected lines such as '2 qid:1 1:0.5 2:1'", self._path)
        yield self._part_of(reader, n_threads, self._stamp.size, is_last=True)
        if not complete:
            least, most, width = state["widths"]
            _warn_if_cut(self._path, (least, most, width))

    @contextlib.contextmanager
    def _blocks(
        self, skipped: int, block_bytes: int, n_threads: int, reader: _Reader
    ) -> Iterator[Iterator[tuple[Any, int]]]:
        """Return the blocks of the text after ``skipped`` bytes, with the bytes read so far."""
        with contextlib.ExitStack() as stack:
            source: Any = self._path
            rest = None
            if skipped:
                file = stack.enter_context(open(self._path, "rb", buffering=0))
                rest = source = _Rest(file, self._path, skipped)
            blocks = text_blocks(
                source,
                max_line_bytes=self._options["max_line_bytes"],
                error=LetorError,
                count=lambda: reader.lines,
                block_bytes=max(_LEAST_BLOCK, min(BLOCK_BYTES, block_bytes // 4)),
                background=n_threads > 1,
            )
            stack.callback(blocks.close)  # an error leaves the file open otherwise
            yield (
                (block, block.bytes_read if rest is None else rest.bytes_read) for block in blocks
            )

    def _part_of(
        self, reader: _Reader, n_threads: int, bytes_read: int, *, is_last: bool
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
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

    def _write_part(
        self,
        number: int,
        header: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
        before: Sequence[int],
    ) -> int:
        """Write a part; return its size."""
        size = sum(array.nbytes + _ALIGNMENT for array in arrays.values())
        self._check_room(size, sum(before), header["bytes_read"])
        # Offsets depend on the length of the header, which is padded to a round length.
        room = 4096
        while True:
            layout, at = {}, room
            for name, array in arrays.items():
                layout[name] = (array.dtype.str, array.size, at)
                at += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
            text = json.dumps({**self._identity, **header, "arrays": layout, "end": at}).encode()
            if len(MAGIC) + 8 + len(text) <= room:
                break
            room *= 2
        text = text.ljust(room - len(MAGIC) - 8)
        with atomic_write(os.path.join(self._folder, _part_name(number))) as file:
            file.write(MAGIC + len(text).to_bytes(8, "little") + text)
            for array in arrays.values():
                file.write(as_bytes(np.ascontiguousarray(array)))
                file.write(bytes(-array.nbytes % _ALIGNMENT))
        return at

    def _check_room(self, size: int, before: int, bytes_read: int) -> None:
        """Raise if the rest of the cache will not fit on the disk, judged by the text so far."""
        expected = (before + size) * self._stamp.size / max(1, bytes_read)
        needed = max(size, expected - before)
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise OSError(
                errno.ENOSPC,
                f"no room for the cache of {self._path}: it needs about {format_size(needed)}, and "
                f"{format_size(free)} are free; free some space, or use another disk",
                self._folder,
            )


def _part_name(number: int) -> str:
    return f"part-{number:06d}.bin"


def _difference(key: str, before: Any, now: Any, path: str) -> str:
    if key in ("size", "mtime_ns"):
        return f"was made from another version of {path}, which has changed since"
    if key == "version":
        return f"has the format {before}, and this version of ranksvm writes {now}"
    if key == "dtype":
        return f"holds {before}, not {now}"
    return "was made with other options for the text"


class _Rest:
    """The text of a file after some bytes, which a conversion has read before."""

    def __init__(self, file: Any, name: str, skipped: int) -> None:
        self.name = name
        self._raw = FileStream(file)
        self._text: Stream = text_stream(self._raw, name)
        self._left = memoryview(b"")
        while skipped:
            piece = self._text.read(min(skipped, BLOCK_BYTES))
            if not piece:
                raise FileFormatError("is shorter than before. Start again", name)
            used = min(skipped, len(piece))
            self._left = piece[used:]
            skipped -= used

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
        self._options = options
        self._start()

    def _start(self) -> None:
        self._reader = _READERS[self._dtype](
            zero_based=self._options["zero_based"],
            n_features=-1,
            missing=self._options["missing"],
            sort=self._options["unsorted"] == "sort",
            duplicates=self._options["duplicates"],
            qid="required" if self.state["ids"] == "yes" else "auto",
            comments=False,
            piece_bytes=PIECE_BYTES,
        )
        # An item without query id, which is left out: the lines that follow must have none.
        self._extra = int(self.state["ids"] == "no")
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
            values = {"n_features": None, "dtype": self._dtype, "reason": _LIKE_BEFORE}
            error = _letor_error(path, block, fault, {**values, "keep": ""})
            assert error.line is not None
            raise LetorError(
                error.message, name_of(path), error.line + self.state["lines"], error.column
            )

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
        if is_dense_better(rows, width, nonzeros, self._dtype.itemsize):
            x = np.empty((rows, width), dtype=self._dtype)
            reader.take_dense(x, *row_arrays)
            arrays["x"] = x[extra:]
        else:
            indptr = np.empty(rows + 1, dtype=_INDEX)
            indices = np.empty(nonzeros, dtype=_INDEX)
            values = np.empty(nonzeros, dtype=self._dtype)
            reader.take_sparse(indptr, indices, values, *row_arrays)
            arrays |= {"indptr": indptr[extra:].astype(np.int64), "indices": indices}
            arrays["values"] = values
        arrays["y"] = y[extra:]
        if numbers is not None:
            arrays["qid"] = numbers
        elif characters is not None:
            distinct, first, codes = np.unique(
                characters.view(f"U{chars}"), return_index=True, return_inverse=True
            )
            order = np.argsort(first)  # in order of first appearance
            place = np.empty_like(order)
            place[order] = np.arange(order.size)
            arrays["qid"] = place[codes].astype(np.int64)
            text = "\n".join(distinct[order].tolist()).encode()
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
