"""Rows of arrays: ``.npy`` files, ``np.memmap`` and arrays in memory.

Blocks of a file are read, not mapped.  Pages of a mapping would count as memory of the process, and
a file that shrinks while it is mapped would end the process.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._files import naming
from ranksvm._messages import Param, ParameterError
from ranksvm._values import float_type, refuse_masked
from ranksvm._vectors import Rows
from ranksvm.data.row_sources import RowSource
from ranksvm.data.streams import FileFormatError

NPY = b"\x93NUMPY"  # the first bytes of a .npy file


@dataclass(frozen=True)
class FileStamp:
    """Size and times of a file, which must not change while its rows are in use.

    The time of the last change of any kind (``ctime``) cannot be set, unlike that of the content.
    """

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, path: str) -> FileStamp:
        """Return the stamp of a file as it is now."""
        return cls.from_status(path, os.stat(path))

    @classmethod
    def from_status(cls, path: str, status: os.stat_result) -> FileStamp:
        """Return the stamp that follows from what the system says about a file."""
        times = status.st_mtime_ns, status.st_ctime_ns
        return cls(path, status.st_size, *times, status.st_ino)

    @property
    def identity(self) -> tuple[str, int, int]:
        """What tells the file apart from others, whatever name it was opened by."""
        return os.path.realpath(self.path), self.size, self.mtime_ns

    def check(self) -> None:
        """Raise if the file is gone or has changed."""
        try:
            now = FileStamp.of(self.path)
        except FileNotFoundError as error:
            reason = "the file was there at the start and is gone now; restore it, and start again"
            raise FileNotFoundError(error.errno, reason, self.path) from None
        if now != self:
            change = f"from {self.size:,} to {now.size:,} bytes"
            if now.size == self.size:
                change = "it was written again, or replaced"
            raise FileFormatError(
                f"has changed since it was opened ({change}). Leave the file alone while it is in "
                "use, and start again",
                self.path,
            )


def is_npy(path: str) -> bool:
    """Return whether a file is an array of NumPy's format."""
    with open(path, "rb") as file:
        return file.read(len(NPY)) == NPY


def load_vector(name: str, value: Any) -> Any:
    """Return a vector that is given as such, as the path of a ``.npy`` file, or as several paths.

    Several files hold the values of the rows in order.
    """
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        return np.array(_open(os.fspath(value), name))
    if isinstance(value, list | tuple) and value and all(map(_is_npy_name, value)):
        return np.concatenate([np.array(_open(os.fspath(one), name)) for one in value])
    return value


def _is_npy_name(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and os.fspath(value).endswith(".npy")


def _open(path: str, name: str) -> NDArray[Any]:
    """Map a ``.npy`` file; ``name`` is the parameter that it was given for."""
    with naming(path):
        if not os.path.isfile(path) and not path.endswith(".npy"):
            raise ParameterError(
                "{name} must be an array or the path of a .npy file, because arrays have no "
                "columns with names; got {path!r}",
                name=Param(name),
                path=path,
            )
        if not is_npy(path):
            raise FileFormatError("is not a .npy file. Write one with np.save", path)
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise FileFormatError(f"cannot be read as a .npy file: {error}", path) from None
    return np.asarray(found)


class _Part(NamedTuple):
    """Some rows: an array in memory, or where it lies in a file."""

    name: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    by_rows: bool
    array: NDArray[Any] | None
    stamp: FileStamp | None = None
    offset: int = 0


class ArraySource(RowSource):
    """The rows of one or several arrays.

    Parameters
    ----------
    arrays : sequence of path, np.memmap or ndarray
        Two-dimensional, with the same number of columns and the same type.
    dtype : dtype or None
        Type of X; None for float32 if it represents all values exactly, else float64.
    """

    def __init__(self, arrays: Sequence[Any], dtype: np.dtype[Any] | None = None) -> None:
        super().__init__()
        many = len(arrays) > 1
        self._parts = [
            _part(one, f"array {k} of X" if many else "X") for k, one in enumerate(arrays)
        ]
        first = self._parts[0]
        for part in self._parts[1:]:
            for what, own, other in (
                ("columns", part.shape[1], first.shape[1]),
                ("dtype", part.dtype, first.dtype),
            ):
                if own != other:
                    raise ValueError(
                        f"{part.name} differs from {first.name}: {what} {own} instead of {other}. "
                        "All arrays of one data set need the same columns and the same type."
                    )
        self.n_features = first.shape[1]
        self.dtype = float_type([first.dtype]) if dtype is None else dtype
        self._starts: Rows = np.cumsum([0] + [part.shape[0] for part in self._parts])
        self.n_items = int(self._starts[-1])

    def read(self, begin: int, end: int) -> NDArray[Any]:
        order: Literal["C", "F"] = "C" if all(part.by_rows for part in self._parts) else "F"
        shape = end - begin, self.n_features
        out: NDArray[Any] = self.pool.empty(shape, self.dtype, order)
        for part, start in zip(self._parts, self._starts.tolist(), strict=False):
            first, last = max(begin, start), min(end, start + part.shape[0])
            if first < last:
                _read(part, first - start, last - start, out[first - begin : last - begin])
        return out

    def where(self, row: int, column: int | None = None) -> str:
        k = int(np.searchsorted(self._starts, row, side="right")) - 1
        place = f"{self._parts[k].name}, row {row - int(self._starts[k])}"
        return place if column is None else f"{place}, column {column}"

    def identity(self) -> str | None:
        stamps = [part.stamp for part in self._parts]
        if any(stamp is None for stamp in stamps):  # an array in memory
            return None
        return repr(([one.identity for one in stamps if one is not None], self.dtype.str))

    def reading_bytes(self, block_bytes: int) -> int:
        return 0 if self._parts[0].dtype == self.dtype else 2 * block_bytes


def _part(given: Any, name: str) -> _Part:
    refuse_masked(name, given)
    array: Any = given
    stamp = None
    if isinstance(given, str | os.PathLike):
        name = os.fspath(given)
        stamp = FileStamp.of(name)
        array = _open(name, "paths")
    elif isinstance(given, np.memmap) and _is_shared(given):
        name = os.fspath(array.filename)
        stamp = FileStamp.of(name)
    if array.ndim != 2:
        raise ValueError(f"{name} must have two dimensions; it has {array.ndim}.")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(
            f"{name} must hold real numbers of at most 64 bits; got dtype {array.dtype}."
        )
    by_rows = array.flags.c_contiguous
    if stamp is None or not (by_rows or array.flags.f_contiguous):
        return _Part(name, array.shape, array.dtype, by_rows, array)
    return _Part(name, array.shape, array.dtype, by_rows, None, stamp, _file_offset(array))


def _is_shared(array: Any) -> bool:
    """Return whether the file of a mapping has the same values; a private copy may have others."""
    named = isinstance(array.filename, str | os.PathLike)
    return named and array.mode in ("r", "r+", "w+") and isinstance(array._mmap, mmap.mmap)


def _file_offset(array: NDArray[Any]) -> int:
    """Return the position of the first value of a mapped array in its file."""
    base: Any = array
    while not hasattr(base, "_mmap"):
        base = base.base
    whole = np.frombuffer(base._mmap, dtype=np.uint8)
    ahead = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
    inside = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return int(ahead + inside)


def _read(part: _Part, begin: int, end: int, out: NDArray[Any]) -> None:
    """Read rows of a part into a block."""
    if part.array is not None:
        with np.errstate(over="ignore"):
            out[...] = part.array[begin:end]
        return
    assert part.stamp is not None
    part.stamp.check()
    rows, columns = part.shape
    item = part.dtype.itemsize
    # Rows, or columns if these are stored one by one: read in place if nothing is converted.
    stored = out if part.by_rows else out.T
    raw = stored
    if part.dtype != out.dtype or not raw.flags.c_contiguous:
        raw = np.empty(stored.shape, dtype=part.dtype)
    with naming(part.name), open(part.name, "rb", buffering=0) as file:
        if part.by_rows:
            read_exactly(file, part.offset + begin * columns * item, raw)
        else:
            for column in range(columns):
                read_exactly(file, part.offset + (column * rows + begin) * item, raw[column])
    if raw is not stored:
        with np.errstate(over="ignore"):
            stored[...] = raw


def read_exactly(file: Any, offset: int, out: NDArray[Any]) -> None:
    """Fill a contiguous array with the bytes of a file from some position on."""
    if not out.size:
        return
    file.seek(offset)
    with as_bytes(out) as view:
        done = 0
        while done < len(view):
            count = file.readinto(view[done:])
            if not count:
                raise FileFormatError(
                    "ends too early: it was cut off while it was read. Restore the file, and "
                    "start again",
                    file.name,
                )
            done += count


def as_bytes(array: NDArray[Any]) -> memoryview:
    """Return the bytes of a contiguous array, whatever its type."""
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)
