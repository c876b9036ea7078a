"""Read LETOR / SVMlight text.

Each line is one item:

    label [qid:id] index:value index:value ... [# comment]

    2 qid:10 1:0.5 3:-1.25e-3 46:1 #docid = GX008-86-4444840 inc = 1

A file without ids may have the sizes of its queries in another file beside it, and the weights of
its items in a third one (:mod:`ranksvm.data.side_files`).

Labels and values are real numbers; features that are not listed are zero.  Indices start at 1, as
in SVMlight, or at 0 with ``zero_based``.  Tokens are separated by spaces and tabs, and lines end in
LF or CR LF.  Blank lines and lines with only a comment are skipped.

A file is read in blocks (:mod:`ranksvm.data.sources`).  Native code parses each block with several
threads and stores most indices in 1 or 2 bytes.  At the end of the text, when all sizes are known,
the arrays are filled and the parsed parts released one by one.  The memory needed is slightly more
than that of the arrays, plus a few megabytes of text.

Numbers are exact: each is the double (or float, for ``dtype=float32``) nearest to the decimal
number in the file.  :mod:`ranksvm.data.svmlight_writer` writes the format.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ranksvm import _core
from ranksvm._checks import check_choice
from ranksvm._messages import Message, Param
from ranksvm._text import listed
from ranksvm._threads import resolve_n_jobs
from ranksvm.data.ranking_data import Comments, RankingData
from ranksvm.data.side_files import QUERY, SideFiles, read_side_files, side_file
from ranksvm.data.sources import (
    MAX_LINE_BYTES,
    NOT_TEXT,
    Block,
    Source,
    block_size,
    excerpt,
    name_of,
    sources,
    text_blocks,
    total_size,
)
from ranksvm.data.streams import FileFormatError

READERS: dict[np.dtype[Any], Any] = {
    np.dtype(np.float64): _core.LetorReader64,
    np.dtype(np.float32): _core.LetorReader32,
}
logger = logging.getLogger("ranksvm")
_LARGEST_INT32 = 2**31 - 1
# Text that a thread parses at a time.
PIECE_BYTES = 1 << 17

LIKE_BEFORE = "as on the lines before"
# What was expected instead of what was found, or the whole message; and what to do.
_FAULTS = {
    "not_text": NOT_TEXT,
    "label": "expected a number, the label, at the start of the line",
    "label_range": "expected a label that fits into a double",
    "label_inexact": "label {found} is too large: float64 cannot store every integer above 2^53. "
    "Subtract an offset, or use ranks 0, 1, 2, ...",
    "qid_missing": "expected 'qid:', {reason}. Add the query id to every line, or use {ignore} for "
    "one global ranking",
    "qid_unexpected": "expected no 'qid:', since the lines before have none. Add the query id to "
    "every line, or use {ignore} for one global ranking",
    "qid_bad": "expected 'qid:' and an id: 1 to 1024 bytes of UTF-8 without ':' and control "
    "characters",
    "qid_late": "expected 'qid:' once, directly after the label",
    "extra": "expected index:value. Costs and slack ids of SVMlight are not supported: remove "
    "them, and pass weights to `fit` instead",
    "index": "expected index:value with an integer index",
    "index_zero": "expected indices from 1. Use {zero_based} if the file counts from 0",
    "index_negative": "expected an index that is not negative",
    "index_large": "expected an index below 2^31",
    "index_beyond": "expected an index within n_features={n_features}. Omit n_features, or set it "
    "to at least the number of features of both files",
    "value": "expected a number as the value of the feature",
    "value_empty": "expected a number after the colon",
    "value_missing": "found a missing value ({found}). Fill it in, or use {zero} to read it as "
    "0{keep}",
    "value_infinite": "expected a finite number",
    "value_range": "expected a number that fits into {dtype}",
    "unsorted": "expected ascending indices. Use {sort} to accept the line",
    "duplicate": "expected every index once per line. Use {duplicates} to accept duplicates",
    "sum_range": "expected a sum of duplicates that fits into {dtype}",
}


# Parameters that the messages name.
_PARAMETERS: dict[str, Any] = {
    "ignore": Param("qid", "ignore"),
    "zero_based": Param("zero_based", True),
    "zero": Param("missing", "zero"),
    "sort": Param("unsorted", "sort"),
    "duplicates": Param("duplicates", "last", "sum"),
}
_KEEP = Message(" or {nan} to keep it as NaN", nan=Param("missing", "nan"))


class LetorError(FileFormatError):
    """A LETOR / SVMlight file has a line that cannot be read; see :class:`FileFormatError`."""


def load_letor(
    source: Source | Sequence[Source],
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    dtype: DTypeLike = np.float64,
    dense: bool | Literal["auto"] = "auto",
    missing: Literal["error", "nan", "zero"] = "error",
    unsorted: Literal["sort", "error"] = "sort",
    duplicates: Literal["error", "last", "sum"] = "error",
    qid: Literal["auto", "required", "ignore"] = "auto",
    comments: bool = True,
    side_files: bool = True,
    max_line_bytes: int = MAX_LINE_BYTES,
    n_jobs: int | None = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> RankingData:
    r"""Read LETOR / SVMlight text.

    Parameters
    ----------
    source : path, "-", file object, or a sequence of these
        File or files to read; "-" is standard input.  Several files are concatenated in order.
        Text compressed with gzip, bzip2, xz or zstd (extra ``ranksvm[zstd]``) is recognized by its
        content.  Binary and text file objects are read from their current position and left open.
    n_features : int, optional
        Number of columns of X, to align a test set with a training set; a larger index is an error.
        By default it is the largest index in the file.
    zero_based : bool, default=False
        Whether feature indices start at 0 instead of 1.
    dtype : {float64, float32}, default=float64
        Type of X.
    dense : bool or "auto", default="auto"
        Whether X is an ndarray or a ``scipy.sparse.csr_array``.  "auto" chooses the ndarray, which
        is faster, unless it needs more than twice the memory; that is, unless fewer than about a
        third of the values (float32: a quarter) are non-zero.
    missing : {"error", "nan", "zero"}, default="error"
        What to do with the values ``NULL``, ``NaN`` and ``NA`` (in upper or lower case).
    unsorted : {"sort", "error"}, default="sort"
        What to do with a line whose indices are not in ascending order.
    duplicates : {"error", "last", "sum"}, default="error"
        What to do with an index that occurs more than once in a line.
    qid : {"auto", "required", "ignore"}, default="auto"
        Whether lines must have a query id.  "auto" requires it on all lines or on none.
    comments : bool, default=True
        Whether to keep the text after ``#``.
    side_files : bool, default=True
        Whether to look for LightGBM's files beside a file: ``rank.train.query`` with the sizes of
        the queries (if the lines of ``rank.train`` have no ids, and these are not ignored), and
        ``rank.train.weight`` with the weights of the items.  What was read is in
        ``data.origin.beside``, and in the log.
    max_line_bytes : int, default=16777216
        Maximum length of a line; a longer one is an error.  This keeps a file that is not text, or
        a small compressed file that expands to gigabytes, from using all memory.
    n_jobs : int, optional
        Number of threads for parsing (default: all cores).  With more than one, other threads read
        and decompress files meanwhile.  The result does not depend on the number of threads.
    progress : callable, optional
        Called after each block with the number of bytes read so far and the total size of all
        files, or None if it is unknown; both before decompression.  An exception that it raises
        stops reading.

    Returns
    -------
    RankingData
        With ``X``, ``y``, ``qid`` and ``comments``; with ``item_weight`` if there is a file with
        weights.

    Raises
    ------
    LetorError
        If a line is invalid; the message gives file, line and column, what was found, and what was
        expected.  Apart from what the parameters control, these are errors: infinite numbers or
        numbers that are too large, an empty value (``3:``), ``qid:`` on some lines only or not
        directly after the label, SVMlight's ``cost:`` and ``sid:``, a NUL byte, a line that is too
        long, and a file without items.  So are sizes of queries whose sum is not the number of
        items.
    FileFormatError
        If compressed data is damaged or truncated, or the file has another format.  LetorError is
        a subclass.
    OSError
        If the file cannot be read.

    Warns
    -----
    UserWarning
        If the last line has no line ending and fewer features than all other lines, which have the
        same number: the file may be truncated.

    Examples
    --------
    >>> import io
    >>> data = load_letor(io.StringIO("2 qid:7 1:0.5 2:1 # first\n0 qid:7 1:0.25 2:0.5\n"))
    >>> data.X
    array([[0.5 , 1.  ],
           [0.25, 0.5 ]])
    >>> data.y, data.qid, list(data.comments)
    (array([2., 0.]), array([7, 7]), [' first', None])
    """
    check_choice("missing", missing, ("error", "nan", "zero"))
    check_choice("unsorted", unsorted, ("sort", "error"))
    check_choice("duplicates", duplicates, ("error", "last", "sum"))
    check_choice("qid", qid, ("auto", "required", "ignore"))
    if dense != "auto" and not isinstance(dense, bool | np.bool_):
        raise ValueError(f"dense must be True, False or 'auto'; got {dense!r}")
    kind = np.dtype(dtype)
    if kind not in READERS:
        raise ValueError(f"dtype must be float64 or float32; got {dtype!r}")
    if n_features is not None and not 0 <= n_features <= _LARGEST_INT32:
        raise ValueError(f"n_features must be None or between 0 and 2^31 - 1; got {n_features!r}")
    threads = resolve_n_jobs(n_jobs)
    items = sources(source)
    if side_files and qid == "required" and any(side_file(one, QUERY) for one in items):
        qid = "auto"
    reader = READERS[kind](
        zero_based=bool(zero_based),
        n_features=-1 if n_features is None else int(n_features),
        missing=missing,
        sort=unsorted == "sort",
        duplicates=duplicates,
        qid=qid,
        comments=bool(comments),
        piece_bytes=PIECE_BYTES,
    )
    total = total_size(items) if progress is not None else None
    before = 0
    rows = []
    for item in items:
        reader.next_file()
        read = 0
        complete = True
        for block in text_blocks(
            item,
            max_line_bytes=max_line_bytes,
            error=LetorError,
            count=lambda: int(reader.lines),
            block_bytes=block_size(threads),
            n_threads=threads,
        ):
            text = np.frombuffer(block.text, np.uint8, block.size)
            fault = reader.feed(text, threads)
            if fault is not None:
                reason = "since qid='required'" if qid == "required" else LIKE_BEFORE
                values = {"n_features": n_features, "dtype": kind, "reason": reason, "keep": _KEEP}
                raise letor_error(item, block, fault, values)
            read, complete = block.bytes_read, block.complete
            if progress is not None:
                progress(before + read, total)
        del block, text
        before += read
        if reader.file_rows == 0:
            n = reader.lines
            got = f"has {n} lines, all of them blank or comments" if n else "is empty"
            raise LetorError(f"{got}; expected lines such as '2 qid:1 1:0.5 2:1'", name_of(item))
        rows.append(int(reader.file_rows))
        if not complete:
            warn_if_cut(item, reader.widths)
    beside = SideFiles()
    if side_files:
        beside = read_side_files(items, rows, queries=qid != "ignore" and not reader.has_qid)
    data = _assemble(reader, kind, dense, n_features, threads)
    return data if not beside.read else with_side_files(data, beside, items)


def with_side_files(data: RankingData, beside: SideFiles, texts: Sequence[Source]) -> RankingData:
    """Return the items of texts with what the files beside them have; a line in the log says so."""
    origin = replace(data.origin, beside=beside.read)
    logger.info("%s: %s", listed(map(name_of, texts), most=1), " and ".join(beside.read))
    qid = data.qid if beside.qid is None else beside.qid
    return replace(data, qid=qid, item_weight=beside.weight, origin=origin)


def letor_error(
    source: Source, block: Block, fault: tuple[str, int, int, int], values: Mapping[str, object]
) -> LetorError:
    """Return the error for a line of a block, from what the reader found there.

    ``values`` are for the messages: "n_features", "dtype", "reason" (why a query id is expected)
    and "keep" (how to keep missing values); parameters that have other names, such as "ignore".
    """
    name, line, offset, length = fault
    begin = block.text.rfind(b"\n", 0, offset) + 1
    column = len(block.text[begin:offset].decode("utf-8", "replace")) + 1
    token = bytes(memoryview(block.text)[offset : offset + length])
    found = excerpt(token)
    if not token:
        found = "the end of the line" if block.text[offset] in b"\r\n" else "nothing"
    text = _FAULTS[name]
    if text.startswith("expected"):
        text = f"found {{found}}, {text}"
    if b"\r" in token:
        text += ". A carriage return ends a line only before a line feed"
    if not block.complete and block.text.find(b"\n", offset) == block.size - 1:
        text += ". This last line has no line ending: the file may be truncated"
    message = Message(text, **{"found": found, **_PARAMETERS, **values})
    return LetorError(message, name_of(source), line, column)


def warn_if_cut(source: Source, widths: tuple[int, int, int]) -> None:
    """Warn if a last line without line ending is shorter than all others, which are alike.

    ``widths`` are the least and the largest number of features of the others, and its own.
    """
    least, most, last = widths
    if least == most and last < most:
        warnings.warn(
            f"{name_of(source)}: the last line has no line ending and {last} features, while all "
            f"others have {most}; the file may be truncated. If it is complete, end its last line "
            "with a line feed.",
            UserWarning,
            stacklevel=3,
        )


def is_dense_better(rows: int, cols: int, nonzeros: int, dtype: np.dtype[Any]) -> bool:
    """Return whether ``dense="auto"`` prefers an ndarray to CSR."""
    index = _index_type(cols, nonzeros).itemsize
    return rows * cols * dtype.itemsize <= 2 * (nonzeros * (dtype.itemsize + index) + rows * index)


def _index_type(cols: int, nonzeros: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if max(nonzeros, cols) <= _LARGEST_INT32 else np.int64)


def _assemble(
    reader: Any,
    dtype: np.dtype[Any],
    dense: bool | Literal["auto"],
    n_features: int | None,
    threads: int,
) -> RankingData:
    """Allocate the arrays, whose sizes are now known, and let the reader fill them."""
    rows, nonzeros = reader.rows, reader.nonzeros
    cols = reader.width if n_features is None else int(n_features)
    index = _index_type(cols, nonzeros)
    if dense == "auto":
        dense = is_dense_better(rows, cols, nonzeros, dtype)

    y = np.empty(rows)
    numbers: NDArray[np.int64] | None = None
    characters: NDArray[np.uint32] | None = None
    width = reader.qid_chars
    if reader.has_qid and width == 0:
        numbers = np.empty(rows, dtype=np.int64)
    elif reader.has_qid:
        characters = np.empty(rows * width, dtype=np.uint32)
    comments = None
    if reader.has_comments:
        text = np.empty(reader.comment_bytes, dtype=np.uint8)
        comments = Comments(text, np.empty(rows + 1, dtype=np.int64))
    text_arrays = (None, None) if comments is None else comments.arrays

    X: Any
    if dense:
        X = np.empty((rows, cols), dtype=dtype)
        reader.take_dense(X, y, numbers, characters, *text_arrays, threads)
    else:
        from scipy import sparse

        indptr = np.empty(rows + 1, dtype=index)
        indices = np.empty(nonzeros, dtype=index)
        values = np.empty(nonzeros, dtype=dtype)
        reader.take_sparse(indptr, indices, values, y, numbers, characters, *text_arrays, threads)
        X = sparse.csr_array((values, indices, indptr), shape=(rows, cols), copy=False)
        X.has_canonical_format = True
    qid = numbers if characters is None else characters.view(f"U{width}")
    return RankingData(X, y, qid, comments=comments)
