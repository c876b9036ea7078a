"""Write LETOR / SVMlight text; :mod:`ranksvm.data.svmlight` describes the format.

Everything is checked before the first byte is written.  Native code then formats the rows, a few
megabytes of text at a time.  Every number is written as the shortest decimal that is read back as
the same number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm import _core
from ranksvm._checks import check_choice
from ranksvm._messages import Param, ParameterError, Row
from ranksvm._sparse import check_structure, is_sparse
from ranksvm._threads import resolve_n_jobs
from ranksvm._values import as_levels, exact_vector, finite_values, is_exact, refuse_masked
from ranksvm.data.queries import exact_ids
from ranksvm.data.ranking_data import Comments
from ranksvm.data.targets import Target, open_target

# Entries that are formatted at a time, about 10 MB of text.
_BLOCK_ENTRIES = 1 << 19
_ID = re.compile(r"[^\x00-\x20\x7f#:]+")
_LONGEST_ID = 1024

# Concatenated texts, and their offsets.
Texts = tuple[NDArray[np.uint8], NDArray[np.int64]]
# Formats the rows between two row numbers; the other arguments are those of the native functions.
Format = Callable[..., bytes]


def save_letor(
    target: Target,
    X: Any,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    comments: Sequence[str | None] | None = None,
    zero_based: bool = False,
    zeros: bool | Literal["auto"] = "auto",
    missing: Literal["error", "nan", "NULL"] = "error",
    n_jobs: int | None = None,
) -> None:
    """Write LETOR / SVMlight text, which :func:`load_letor` reads back bit for bit.

    Parameters
    ----------
    target : path, "-" or file object
        File to write; "-" is standard output.  A path is written completely or not at all, and
        compressed if it ends in .gz, .bz2, .xz or .zst (extra ``ranksvm[zstd]``).
    X : array-like or sparse matrix of shape (n_items, n_features)
        Features.  float32 is written with the digits that float32 needs (read it back with
        ``dtype=float32``), everything else as float64.
    y : array-like of shape (n_items,)
        Labels.
    qid : array-like of shape (n_items,), optional
        Query ids: integers, or strings without whitespace, control characters, ``#`` and ``:``.  If
        all strings look like integers, they are read back as integers.
    comments : sequence of str or None, of length n_items, optional
        Comments, written after ``#``; None for a row without comment.
    zero_based : bool, default=False
        Whether feature indices start at 0 instead of 1.
    zeros : bool or "auto", default="auto"
        Whether to write features with the value 0.  "auto" writes them for a dense X, as in LETOR
        files, and omits them for a sparse X.  If they are omitted, and the last features are zero
        everywhere, a reader must be given ``n_features``.
    missing : {"error", "nan", "NULL"}, default="error"
        What to do with NaN in X: raise an error, or write this word.
    n_jobs : int, optional
        Number of threads (default: all cores).

    Raises
    ------
    ValueError
        If lengths differ, values are infinite, NaN (see ``missing``) or integers beyond 2^53, or
        ids or comments would break the format.  Nothing is written in that case.
    OSError
        If the target cannot be written to.  An existing file is left unchanged.
    """
    check_choice("missing", missing, ("error", "nan", "NULL"))
    if zeros not in (True, False, "auto"):
        raise ValueError(f"zeros must be True, False or 'auto'; got {zeros!r}")
    labels = _as_labels(y)
    n_items = labels.shape[0]
    numbers, words = _as_ids(qid, n_items)
    remarks = _as_comments(comments, n_items)
    if not is_sparse(X):
        refuse_masked("X", X)
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional; got shape {X.shape}")
    _check_rows("X", X.shape[0], n_items)
    if is_sparse(X):
        entries, formatted = _sparse_rows(X, missing, every=zeros is True)
    else:
        entries, formatted = _dense_rows(X, missing, zeros=zeros is not False)
    threads = resolve_n_jobs(n_jobs)
    with open_target(target) as write:
        for begin, end in _cuts(entries):
            text = formatted(
                begin,
                end,
                y=labels[begin:end],
                qid=None if numbers is None else numbers[begin:end],
                qid_text=None if words is None else (words[0], words[1][begin : end + 1]),
                comments=None if remarks is None else (remarks[0], remarks[1][begin : end + 1]),
                zero_based=bool(zero_based),
                missing="nan" if missing == "error" else missing,
                threads=threads,
            )
            write(text)


def _dense_rows(X: NDArray[Any], missing: str, *, zeros: bool) -> tuple[NDArray[np.int64], Format]:
    """Return the number of entries before each row, and a function that formats rows."""
    _check_real("X", X)
    kind = np.float32 if X.dtype == np.float32 else np.float64
    entries = X.shape[1] * np.arange(X.shape[0] + 1, dtype=np.int64)
    for begin, end in _cuts(entries):
        wrong = _not_writable(X[begin:end], missing)
        if wrong is not None:
            row, column = divmod(wrong, X.shape[1])
            raise _value_error(X[begin + row, column], Row(begin + row, column))

    def formatted(begin: int, end: int, **options: Any) -> bytes:
        block: Any = np.ascontiguousarray(X[begin:end], dtype=kind)
        return _core.format_dense(x=block, zeros=zeros, **options)

    return entries, formatted


def _sparse_rows(X: Any, missing: str, *, every: bool) -> tuple[NDArray[np.int64], Format]:
    """Do the same for a sparse matrix; ``every`` writes all features of all rows."""
    rows = check_structure(X).tocsr()
    _check_real("X", rows.data)
    if rows.data.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    wrong = _not_writable(rows.data, missing)
    if wrong is not None:
        row = int(np.searchsorted(rows.indptr, wrong, side="right")) - 1
        raise _value_error(rows.data[wrong], Row(row, rows.indices[wrong]))

    def all_features(begin: int, end: int, **options: Any) -> bytes:
        block = np.ascontiguousarray(rows[begin:end].toarray())
        return _core.format_dense(x=block, zeros=True, **options)

    def formatted(begin: int, end: int, **options: Any) -> bytes:
        indptr = rows.indptr[begin : end + 1]
        return _core.format_sparse(
            indptr=indptr, indices=rows.indices, data=rows.data, zeros=False, **options
        )

    if every:
        return rows.shape[1] * np.arange(rows.shape[0] + 1, dtype=np.int64), all_features
    return rows.indptr, formatted


def _cuts(entries: NDArray[Any]) -> list[tuple[int, int]]:
    """Divide the rows into blocks; ``entries[i]`` is the number of entries before row i."""
    n_rows = entries.shape[0] - 1
    cuts = []
    begin = 0
    while begin < n_rows:
        most = int(entries[begin]) + _BLOCK_ENTRIES
        end = int(np.searchsorted(entries, most, side="right")) - 1
        end = min(max(end, begin + 1), begin + _BLOCK_ENTRIES)  # empty rows take space, too
        cuts.append((begin, end))
        begin = end
    return cuts


def _as_labels(y: ArrayLike) -> NDArray[np.float64]:
    labels = exact_vector("y", y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one-dimensional; got shape {labels.shape}")
    if labels.shape[0] == 0:
        raise ValueError("there are no items to write: y is empty")
    bad = np.flatnonzero(~finite_values(labels))
    if bad.size:
        raise ParameterError(
            "y must be finite; got {value} in {row}", value=labels[bad[0]], row=Row(bad[0])
        )
    _check_held("y", labels)
    return as_levels(labels)


def _check_real(name: str, array: NDArray[Any]) -> None:
    """Raise unless the values are real numbers that float64 can represent."""
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers; got an array of dtype {array.dtype}")
    _check_held(name, array)


def _check_held(name: str, array: NDArray[Any]) -> None:
    if not is_exact(array):
        low, high = array.min(), array.max()
        raise ValueError(
            f"{name} holds the number {high if high > -low else low}, which float64 cannot "
            "represent exactly. Convert it to float64 if it may be rounded"
        )


def _check_rows(name: str, n_rows: int, n_items: int) -> None:
    if n_rows != n_items:
        raise ValueError(f"{name} must have one row per label; got {n_rows} for {n_items} labels")


def _not_writable(values: NDArray[Any], missing: str) -> int | None:
    """Return the flat index of the first value that cannot be written, or None."""
    wrong = ~np.isfinite(values) if missing == "error" else np.isinf(values)
    return int(np.argmax(wrong)) if wrong.any() else None


def _value_error(value: Any, row: Row) -> ParameterError:
    if np.isinf(value):
        return ParameterError("X must be finite; got an infinite value in {row}", row=row)
    return ParameterError(
        "X has a NaN in {row}. {remedy}",
        row=row,
        missing=Param("missing", "nan"),
        remedy="Use {missing} to write it as the word nan",
    )


def _as_ids(qid: ArrayLike | None, n_items: int) -> tuple[NDArray[np.int64] | None, Texts | None]:
    """Return ids as integers or as texts."""
    if qid is None:
        return None, None
    refuse_masked("qid", qid)
    ids = np.asarray(qid)
    if ids.ndim != 1:
        raise ValueError(f"qid must be one-dimensional; got shape {ids.shape}")
    _check_rows("qid", ids.shape[0], n_items)
    if ids.dtype.kind == "f":
        ids = exact_ids(ids, "qid")
    if ids.dtype.kind in "bi" or (ids.dtype.kind == "u" and int(ids.max()) < 2**63):
        return np.ascontiguousarray(ids, dtype=np.int64), None
    return None, _join(_encoded_ids(ids))


def _encoded_ids(ids: NDArray[Any]) -> Iterator[bytes]:
    known: dict[Any, bytes] = {}
    for row, value in enumerate(ids.tolist()):
        encoded = known.get(value)
        if encoded is None:
            encoded = known[value] = _encoded_id(value, row)
        yield encoded


def _encoded_id(value: object, row: int) -> bytes:
    if isinstance(value, int | str) and _ID.fullmatch(str(value)):
        try:
            encoded = str(value).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            encoded = b""
        if 0 < len(encoded) <= _LONGEST_ID:
            return encoded
    raise ParameterError(
        "qid must hold integers or strings of 1 to {longest} bytes without whitespace, control "
        "characters, '#' and ':'; got {value!r} in {row}",
        longest=_LONGEST_ID,
        value=value,
        row=Row(row),
    )


def _as_comments(comments: Sequence[str | None] | None, n_items: int) -> Texts | None:
    if comments is None:
        return None
    if isinstance(comments, str):
        raise ValueError("comments must be a sequence with one text per row; got a string")
    _check_rows("comments", len(comments), n_items)
    if isinstance(comments, Comments):
        text, ends = comments.arrays
        if not (text == ord("\n")).any():
            return text, ends
    return _join(_encoded_comments(comments))


def _encoded_comments(comments: Sequence[str | None]) -> Iterator[bytes]:
    for row, comment in enumerate(comments):
        if comment is None:
            yield b""
            continue
        if not isinstance(comment, str):
            raise ParameterError(
                "comments must hold strings or None; got {comment!r} in {row}",
                comment=comment,
                row=Row(row),
            )
        if "\n" in comment or "\0" in comment or comment.endswith("\r"):
            raise ParameterError(
                "comments must be single lines of text; got {comment!r} in {row}, which contains "
                "a line ending or NUL",
                comment=comment,
                row=Row(row),
            )
        yield b"#" + comment.encode("utf-8", "surrogateescape")


def _join(texts: Iterator[bytes]) -> Texts:
    parts = list(texts)
    ends = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    return np.frombuffer(b"".join(parts), dtype=np.uint8), ends
