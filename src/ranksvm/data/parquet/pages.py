"""Pages of Parquet files that hold the values as they are, read straight into blocks.

A column without compression and encoding is a sequence of pages, each a header and an array of
values.  Headers are read once.  After that, reading a block is one call of the system for each page
and no decoding: this takes a fifth of pyarrow's time for the same pages, and no memory of its own.
All other files are read through pyarrow (:mod:`ranksvm.data.parquet.batches`).
"""

from __future__ import annotations

import contextlib
import os
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Rows
from ranksvm.data.parquet.columns import flat_columns
from ranksvm.data.parquet.files import RowGroups, reading

# Types of values as they are stored.
_STORED = {
    "float": "<f4",
    "double": "<f8",
    "int8": "<i4",
    "int16": "<i4",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "<u4",
    "uint16": "<u4",
    "uint32": "<u4",
    "uint64": "<u8",
}
# Encodings of columns without a dictionary; those other than PLAIN are of null flags.
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED"}
# Bytes in which the header of a page must end; more is a sign of texts in it.
HEADER_BYTES = 512
# Bytes of a page that are worth a call of the system.
_LEAST_PAGE = 4096
# Bytes of a page that are read at a time to compare its checksum.
_CHECKED_BYTES = 1 << 20
# Numbers of the file format: kinds of pages, encodings.
_DATA_PAGE, _DATA_PAGE_V2 = 0, 3
_PLAIN, _RLE = 0, 3


class NotPlainError(Exception):
    """A page is not what the metadata promise; pyarrow knows what to do or to say."""


class Chunk(NamedTuple):
    """A column of a row group: where its pages begin and end in the file."""

    begin: int
    end: int
    may_be_null: bool


class PlainLayout:
    """Where the features lie in files that hold plain values.

    Files are added in order; it ends with ``is_plain`` False if one of them has other columns.
    """

    def __init__(self, features: Sequence[str], types: Mapping[str, Any]) -> None:
        stored = [_STORED.get(str(types[name])) for name in features]
        self._features = features
        self.is_plain = all(kind is not None for kind in stored)
        self.kinds = [np.dtype(kind) for kind in stored if kind is not None]
        self._groups: list[tuple[Rows, Rows]] = []
        self._file_of: list[int] = []
        self._may_be_null: list[list[bool]] = []

    def add(self, metadata: Any) -> None:
        """Add the row groups of the next file."""
        if not self.is_plain:
            return
        place = flat_columns(metadata)
        chosen = [place[name] for name in self._features]
        self._may_be_null.append(
            [metadata.schema.column(j).max_definition_level > 0 for j in chosen]
        )
        for group in range(metadata.num_row_groups):
            begin, end = array("q"), array("q")
            of_group = metadata.row_group(group)
            for j in chosen:
                chunk = of_group.column(j)
                self.is_plain = (
                    chunk.compression == "UNCOMPRESSED"
                    and not chunk.has_dictionary_page
                    and not chunk.file_path
                    and _ENCODINGS.issuperset(chunk.encodings)
                )
                if not self.is_plain:
                    return
                begin.append(chunk.data_page_offset)
                end.append(chunk.data_page_offset + chunk.total_compressed_size)
            self._groups.append((np.array(begin), np.array(end)))
            self._file_of.append(len(self._may_be_null) - 1)

    def chunk(self, group: int, feature: int) -> Chunk:
        """Return the column of a feature in a row group."""
        begin, end = self._groups[group]
        may_be_null = self._may_be_null[self._file_of[group]][feature]
        return Chunk(int(begin[feature]), int(end[feature]), may_be_null)


class Pages(NamedTuple):
    """The pages of a column in a row group.

    ``rows`` has the first row of each page, counted in the row group, and the number of rows;
    ``places`` where the values of each page begin in the file.
    """

    rows: array[int]
    places: array[int]


class PlainReader:
    """Reads some columns of blocks from plain pages.

    Parameters
    ----------
    groups : RowGroups
    layout : PlainLayout
    columns : range
        Numbers of the features.
    known : dict
        Pages of (row group, feature) that were found before; those found here are added.
    """

    def __init__(
        self,
        groups: RowGroups,
        layout: PlainLayout,
        columns: range,
        known: dict[tuple[int, int], Pages],
    ) -> None:
        self._groups = groups
        self._layout = layout
        self._columns = columns
        self._known = known
        self._file = -1
        self._handle = contextlib.ExitStack()
        self._descriptor = -1

    def can_reach(self, row: int) -> bool:
        """Return whether this reader can go on from a row."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file = -1
        self._handle.close()

    def read(self, begin: int, end: int, out: NDArray[Any]) -> None:
        """Fill the columns of a block, an array by columns.

        Raises
        ------
        NotPlainError
            If pages are not as expected: damaged, or with missing values.
        """
        groups = self._groups
        row = begin
        while row < end:
            group = groups.group_of(row)
            self._open(int(groups.file_of[group]))
            first, last = int(groups.first[group]), min(end, int(groups.first[group + 1]))
            with reading(groups.stamps[self._file]):
                for j in self._columns:
                    rows = out[row - begin : last - begin, j]
                    self._read_column(group, j, row - first, rows)
            row = last

    def _open(self, file: int) -> None:
        stamp = self._groups.stamps[file]
        if file != self._file:
            self.close()
            stamp.check()
            with reading(stamp):
                self._descriptor = os.open(stamp.path, os.O_RDONLY)
            self._handle.callback(os.close, self._descriptor)
            self._file = file
        else:
            stamp.check()

    def _read_column(self, group: int, feature: int, row: int, out: NDArray[Any]) -> None:
        """Read values of a row group, from a row on, counted in the row group."""
        pages = self._known.get((group, feature))
        if pages is None:
            pages = self._known[group, feature] = self._find_pages(group, feature)
        kind = self._layout.kinds[feature]
        done = 0
        page = bisect_right(pages.rows, row) - 1
        while done < out.size:
            in_page = row + done - pages.rows[page]
            count = min(out.size - done, pages.rows[page + 1] - row - done)
            place = pages.places[page] + in_page * kind.itemsize
            if kind == out.dtype:
                self._fill(out[done : done + count], place)
            else:
                values: NDArray[Any] = np.empty(count, dtype=kind)
                self._fill(values, place)
                with np.errstate(over="ignore"):  # what overflows is found to be infinite
                    out[done : done + count] = values
            done += count
            page += 1

    def _fill(self, out: NDArray[Any], place: int) -> None:
        rest = out.data.cast("B")
        while rest:
            count = os.preadv(self._descriptor, [rest], place)
            if not count:
                raise NotPlainError("the file ends before its last page")
            rest, place = rest[count:], place + count

    def _find_pages(self, group: int, feature: int) -> Pages:
        """Read the headers of all pages of a column, and compare checksums."""
        groups, chunk = self._groups, self._layout.chunk(group, feature)
        n_rows = int(groups.first[group + 1] - groups.first[group])
        size = self._layout.kinds[feature].itemsize
        rows, places = array("q", [0]), array("q")
        place = chunk.begin
        while rows[-1] < n_rows:
            data = os.pread(self._descriptor, min(HEADER_BYTES, chunk.end - place), place)
            page = parse_header(data, chunk.may_be_null)
            begin = place + page.begin
            place = begin + page.size
            # Values that are null would take no room.
            if page.flags + page.n_values * size != page.size or place > chunk.end:
                raise NotPlainError("a page is not as long as its values")
            if page.checksum is not None:
                self._compare(begin, place, page.checksum)
            rows.append(rows[-1] + page.n_values)
            places.append(begin + page.flags)
        if rows[-1] != n_rows:
            raise NotPlainError("a column has more values than rows")
        if len(places) > 1 and n_rows * size < _LEAST_PAGE * len(places):
            raise NotPlainError("pages are too small for a call each")
        return Pages(rows, places)

    def _compare(self, begin: int, end: int, checksum: int) -> None:
        found = 0
        while begin < end:
            data = os.pread(self._descriptor, min(_CHECKED_BYTES, end - begin), begin)
            if not data:
                break
            found, begin = zlib.crc32(data, found), begin + len(data)
        if found != checksum & 0xFFFFFFFF:
            raise NotPlainError("a page has another checksum")


# --- Headers of pages ----------------------------------------------------------------------------
# They are structures of Thrift's compact protocol: fields with a number and a value each.

# Numbers of fields in the header of a page, ...
_TYPE, _UNPACKED_SIZE, _SIZE, _CHECKSUM, _HEADER_1, _HEADER_2 = 1, 2, 3, 4, 5, 8
# ... in that of a data page (number of values, encodings), ...
_N_VALUES, _ENCODING, _FLAGS_ENCODING = 1, 2, 3
# ... and in that of a data page of version 2.
_N_NULLS, _ENCODING_2, _FLAGS_BYTES, _REPETITIONS = 2, 4, 5, 6


class PageHeader(NamedTuple):
    """What the header of a page says.

    ``begin`` is the length of the header, ``size`` that of the page after it, which starts with
    ``flags`` bytes of null flags.
    """

    begin: int
    size: int
    flags: int
    n_values: int
    checksum: int | None


def parse_header(data: bytes, may_be_null: bool) -> PageHeader:
    """Parse the header of a page at the start of some bytes.

    Raises
    ------
    NotPlainError
        If this is not the header of a page with plain values.
    """
    try:
        header, begin = _parse_struct(data, 0)
        if header[_TYPE] == _DATA_PAGE:
            about = header[_HEADER_1]
            is_plain = (about[_ENCODING], about[_FLAGS_ENCODING]) == (_PLAIN, _RLE)
            flags = 4 + int.from_bytes(data[begin : begin + 4], "little") if may_be_null else 0
        elif header[_TYPE] == _DATA_PAGE_V2:
            about = header[_HEADER_2]
            is_plain = (about[_ENCODING_2], about[_N_NULLS], about[_REPETITIONS]) == (_PLAIN, 0, 0)
            flags = about[_FLAGS_BYTES]
        else:
            raise NotPlainError("a page holds no values")
        found = PageHeader(begin, header[_SIZE], flags, about[_N_VALUES], header.get(_CHECKSUM))
    except (IndexError, KeyError, TypeError, RecursionError):
        raise NotPlainError("a page has a header that cannot be read") from None
    numbers = [number for number in found if number is not None]
    if not all(type(number) is int for number in numbers):
        raise NotPlainError("a page has a header that cannot be read")
    if not is_plain or found.n_values <= 0:
        raise NotPlainError("a page has encoded or missing values")
    return found


def page_bytes(data: bytes) -> int:
    """Return the bytes of a page before and after decompression together; 0 if they are unknown."""
    try:
        header, _ = _parse_struct(data, 0)
        return int(header[_UNPACKED_SIZE]) + int(header[_SIZE])
    except (IndexError, KeyError, TypeError, RecursionError, NotPlainError):
        return 0


def _parse_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head, at = data[at], at + 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _parse_signed(data, at)
        fields[number], at = _parse_value(data, at, head & 15)


def _parse_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2:
            return kind == 1, at
        case 3:
            return data[at], at + 1
        case 4 | 5 | 6:
            return _parse_signed(data, at)
        case 7:
            return None, at + 8  # float64
        case 8:
            length, at = _parse_unsigned(data, at)
            return None, at + length  # bytes
        case 12:
            return _parse_struct(data, at)
    raise NotPlainError("a page has a header with unknown fields")


def _parse_unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _parse_signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _parse_unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at
