"""Text files of preference pairs.

Each line is a pair, the better item first:

    better  worse  [weight]

    3 1          by row number: the third item of the feature file is better than the first
    3 2 0.5      with a weight (default: 1)
    3 = 4        a tie: both items should score alike; it may have a weight as well

    GX029-35-5894638 GX008-86-4444840              by document id
    qid:10032 GX029-35-5894638 GX008-86-4444840    by document id, within this query

Fields are separated by spaces or tabs; row numbers may also be separated by commas, with no empty
fields between them.  A field that starts with ``#`` begins a comment; empty lines are skipped.
Document ids that contain spaces or start with ``#``, or with ``qid:`` at the beginning of a line,
or that are ``=``, can therefore not be used.

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

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._checks import check_weights
from ranksvm._messages import MessageWarning
from ranksvm.data.pair_checks import doubt_about
from ranksvm.data.pair_items import (
    QID,
    DocumentRows,
    comma_hint,
    item_columns,
    numbered_rows,
)
from ranksvm.data.preferences import Preferences, check_preferences
from ranksvm.data.sources import MAX_LINE_BYTES, FieldError, Source, name_of, text_lines
from ranksvm.data.streams import FileFormatError
from ranksvm.data.targets import Target, write_lines

# A comment begins where a field could: after whitespace or, between row numbers, after a comma.
_COMMENT = re.compile(rb"(?<!\S)#")
_COMMENT_OR_COMMA = re.compile(rb"(?<![^\s,])#")
_EMPTY_FIELD = re.compile(rb"(?:^|,)\s*(?=,|$)")
_COMMAS_TO_BLANKS = bytes.maketrans(b",", b" ")


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
        Pairs and ties in the order of the file; ``weight`` is None if no line has a weight, and
        ``tie`` if no line is a tie.

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
    ties: list[bool] = []
    weighted = False
    number = 0
    try:
        for line in text_lines(source, max_line_bytes=max_line_bytes):
            number += 1
            fields = split(line)
            if not fields:
                continue
            n_names = 3 if fields[0].startswith(QID) else 2
            is_tie = len(fields) > n_names and fields[n_names - 1] == b"="
            if is_tie:
                del fields[n_names - 1]
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
            ties.append(is_tie)
    except FieldError as error:
        raise FileFormatError(error.message, file, number) from None
    if not better:
        raise FileFormatError("holds no pairs; expected lines of 'better worse [weight]'", file)
    preferences = Preferences(
        np.array(better, dtype=np.int64),
        np.array(worse, dtype=np.int64),
        np.array(weights) if weighted else None,
        tie=np.array(ties) if any(ties) else None,
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
        Pairs of row numbers from 0, and ties; the file counts from 1.  Weights are written with all
        digits.

    Raises
    ------
    ValueError
        If arrays have different lengths, a row number is negative or at least 2^53, an item is
        paired with itself, a weight is negative or not finite, or there are no pairs.  Nothing is
        written in that case.
    """
    better, worse, _ = check_preferences(preferences.better, preferences.worse, None, None)
    tie = preferences.tie
    columns = [(rows + 1).tolist() for rows in (better, worse)]
    if tie is not None:
        columns.insert(1, ["=" if one else "" for one in tie.tolist()])
    if preferences.weight is not None:
        n_pairs = len(better)
        weight = check_weights("weight", preferences.weight, n_pairs, "pair", may_be_zero=True)
        columns.append(weight.tolist())
    lines = zip(*columns, strict=True)
    write_lines(target, (" ".join(str(one) for one in line if one != "") for line in lines))


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
