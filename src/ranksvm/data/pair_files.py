"""Text files of preference pairs.

Each line is a pair, the better item first:

    better  worse  [weight]

    3 1          by row number: the third item of the feature file is better than the first
    3 2 0.5      with a weight (default: 1)

    GX029-35-5894638 GX008-86-4444840              by document id
    qid:10032 GX029-35-5894638 GX008-86-4444840    by document id, within this query

Fields are separated by spaces or tabs; row numbers may also be separated by commas, with no empty
fields between them.  A field that starts with ``#`` begins a comment; empty lines are skipped.
Document ids that contain spaces or start with ``#``, or with ``qid:`` at the beginning of a line,
can therefore not be used.

Rows are counted from 1 in the file, like its lines, unless the reader is told otherwise, and from 0
in :class:`Preferences`, like the rows of an array.  A document that occurs in several queries has
several rows.  It then means the row in the query that the line names or, without a query, in the
only query that has both documents.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._messages import MessageWarning
from ranksvm.data.pair_checks import doubt_about
from ranksvm.data.pair_items import (
    MOST_ROWS,
    QID,
    DocumentRows,
    FieldError,
    comma_hint,
    item_columns,
    numbered_rows,
)
from ranksvm.data.preferences import Preferences
from ranksvm.data.sources import (
    MAX_LINE_BYTES,
    FileFormatError,
    Source,
    name_of,
    text_blocks,
)
from ranksvm.data.targets import Target, open_target

__all__ = ["read_pairs", "write_pairs"]

# A comment begins where a field could: after whitespace or, between row numbers, after a comma.
_COMMENT = re.compile(rb"(?<!\S)#")
_COMMENT_OR_COMMA = re.compile(rb"(?<![^\s,])#")
_EMPTY_FIELD = re.compile(rb"(?:^|,)\s*(?=,|$)")
_COMMAS_TO_BLANKS = bytes.maketrans(b",", b" ")
# Lines that are formatted and written at a time.
_LINES = 20_000


def read_pairs(
    source: Source,
    *,
    n_items: int | None = None,
    docids: ArrayLike | Sequence[str | None] | None = None,
    qid: ArrayLike | None = None,
    y: ArrayLike | None = None,
    zero_based: bool = False,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Preferences:
    """Read preference pairs.

    Parameters
    ----------
    source : path, "-" or file object
        File to read, possibly compressed; see :func:`load_letor`.
    n_items : int or None, default=None
        Number of rows of X, which no row number may exceed; None skips this check.
    docids : array-like of shape (n_items,) or None, default=None
        Document ids of the rows of X, with None for a row without one; for example
        :attr:`RankingData.docids`.  If given, the file names items by document id instead of row
        number.
    qid : array-like of shape (n_items,) or None, default=None
        Query ids of the rows of X, for documents that occur in several rows.
    y : array-like of shape (n_items,) or None, default=None
        Labels of the rows of X.  Together with ``qid`` they are only used to detect pairs that do
        not match the items.
    zero_based : bool, default=False
        Whether row numbers start at 0 instead of 1.
    max_line_bytes : int, default=16777216
        Maximum length of a line; a longer one is an error.

    Returns
    -------
    Preferences
        Pairs in the order of the file; ``weight`` is None if no line has a weight.

    Raises
    ------
    FileFormatError
        If a line has too few or too many fields, names an item that does not exist or is ambiguous,
        pairs an item with itself, or has a weight that is negative or not finite; or if the file
        has no pairs.

    Warns
    -----
    UserWarning
        If most pairs contradict the labels, or the labels or queries match far better when rows are
        counted from 0 (with ``zero_based``: from 1).
    """
    file = name_of(source)
    if zero_based and docids is not None:
        raise ValueError("zero_based applies to row numbers; with docids, items are named by id")
    n_items, documents, queries, labels = item_columns(n_items, docids, qid, y)
    split, resolve = _split_numbers, numbered_rows(n_items, 0 if zero_based else 1)
    if documents is not None:
        names = [one if one is None else str(one) for one in documents.tolist()]
        of_queries = None if queries is None else [str(one) for one in queries.tolist()]
        split, resolve = _split_ids, DocumentRows(names, of_queries)
    better: list[int] = []
    worse: list[int] = []
    weights: list[float] = []
    weighted = False
    number = 0
    try:
        for block in text_blocks(source, max_line_bytes=max_line_bytes, background=True):
            text = bytes(memoryview(block.text)[: block.size])
            for line in text.split(b"\n")[:-1]:
                number += 1
                fields = split(line)
                if not fields:
                    continue
                n_names = 3 if fields[0].startswith(QID) else 2
                weight = 1.0
                if len(fields) == n_names + 1:
                    weight, weighted = _weight(fields.pop()), True
                elif len(fields) != n_names:
                    n, hint = len(fields), "" if docids is None else comma_hint(line)
                    got = f"{n} field{'s' * (n != 1)}"
                    raise FieldError(line, f"expected 'better worse [weight]'; got {got}{hint}")
                i, j = resolve(fields)
                better.append(i)
                worse.append(j)
                weights.append(weight)
    except FieldError as error:
        raise FileFormatError(error.message, file, number) from None
    if not better:
        raise FileFormatError("holds no pairs; expected lines of 'better worse [weight]'", file)
    preferences = Preferences(
        np.array(better, dtype=np.int64),
        np.array(worse, dtype=np.int64),
        np.array(weights) if weighted else None,
    )
    counted = None if docids is not None else bool(zero_based)
    doubt = doubt_about(preferences, labels, queries, zero_based=counted)
    if doubt is not None:
        warnings.warn(MessageWarning("{file} {doubt}", file=file, doubt=doubt), stacklevel=2)
    return preferences


def write_pairs(target: Target, preferences: Preferences) -> None:
    """Write preference pairs by row number, so that :func:`read_pairs` restores them exactly.

    Parameters
    ----------
    target : path, "-" or file object
        File to write; see :func:`save_letor`.
    preferences : Preferences
        Pairs of row numbers from 0; the file counts from 1.  Weights are written with all digits.

    Raises
    ------
    ValueError
        If arrays have different lengths, a row number is negative or at least 2^53, an item is
        paired with itself, a weight is negative or not finite, or there are no pairs.  Nothing is
        written in that case.
    """
    better, worse = (np.asarray(rows) for rows in preferences[:2])
    weight = None if preferences.weight is None else np.asarray(preferences.weight, np.float64)
    _check_writable(better, worse, weight)
    columns = [(rows.astype(np.int64) + 1).tolist() for rows in (better, worse)]
    if weight is not None:
        columns.append(weight.tolist())
    lines = (" ".join(map(repr, values)) for values in zip(*columns, strict=True))
    with open_target(target) as write:
        while part := list(islice(lines, _LINES)):
            write(("\n".join(part) + "\n").encode())


def _check_writable(
    better: NDArray[Any], worse: NDArray[Any], weight: NDArray[np.float64] | None
) -> None:
    whole = better.dtype.kind in "iu" and worse.dtype.kind in "iu"
    if better.ndim != 1 or better.shape != worse.shape or not whole:
        raise ValueError(
            "better and worse must be one-dimensional integer arrays of the same length; got "
            f"shapes {better.shape} and {worse.shape}, types {better.dtype} and {worse.dtype}"
        )
    if not len(better):
        raise ValueError("there are no pairs to write")
    for name, rows in (("better", better), ("worse", worse)):
        at = int(np.argmax(rows))
        if int(rows[at]) >= MOST_ROWS:
            raise ValueError(
                f"{name} must hold row numbers below 2^53; got {rows[at]} in pair {at}"
            )
    wrong = (better < 0) | (worse < 0) | (better == worse)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"a pair must join two different rows, counted from 0; got {better[at]} over "
            f"{worse[at]} in pair {at}"
        )
    if weight is None:
        return
    if weight.shape != better.shape:
        raise ValueError(
            f"weight has shape {weight.shape} for {len(better)} pairs; give one weight per pair"
        )
    wrong = ~((weight >= 0.0) & (weight < np.inf))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"weight must be finite and not negative; got {weight[at]} in pair {at}")


# --- Fields --------------------------------------------------------------------------------------


def _split_ids(line: bytes) -> list[bytes]:
    if b"#" in line:
        line = _COMMENT.split(line, 1)[0]
    return line.split()


def _split_numbers(line: bytes) -> list[bytes]:
    if b"#" in line:
        line = _COMMENT_OR_COMMA.split(line, 1)[0]
    if b"," in line:
        if _EMPTY_FIELD.search(line):
            raise FieldError(line, "expected a number before and after every comma")
        line = line.translate(_COMMAS_TO_BLANKS)
    return line.split()


def _weight(field: bytes) -> float:
    try:
        weight = float(field)
    except ValueError:
        weight = math.nan
    if not 0.0 <= weight < math.inf or b"_" in field:
        raise FieldError(field, "expected a finite weight >= 0 in the last field")
    return weight
