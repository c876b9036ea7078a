"""What a file of items holds, as arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Comments", "RankingData"]

_DOCID = re.compile(r"(?:^|\s)docid\s*=\s*(\S+)")


class Comments(Sequence[str | None]):
    """The comments of the rows, kept as one piece of text.

    Indexing gives the text after the ``#``, or None for a row without; strings are made when they
    are asked for.  A slice or an array of row numbers gives a list.

    Parameters
    ----------
    text : ndarray of uint8
        All comments, one after the other, each with its ``#``.
    ends : ndarray of int64, shape (n_rows + 1,)
        Row i owns ``text[ends[i]:ends[i + 1]]``; nothing means no comment.
    """

    __slots__ = ("_ends", "_text")

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._text, self._ends = text, ends

    @property
    def nbytes(self) -> int:
        """Memory that the comments take."""
        return int(self._text.nbytes + self._ends.nbytes)

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The text and where the comment of each row ends in it."""
        return self._text, self._ends

    def __len__(self) -> int:
        return int(self._ends.shape[0]) - 1

    @overload
    def __getitem__(self, key: int) -> str | None: ...
    @overload
    def __getitem__(self, key: slice | NDArray[Any] | list[int]) -> list[str | None]: ...
    def __getitem__(self, key: Any) -> str | list[str | None] | None:
        rows = np.arange(len(self))[key]
        if isinstance(rows, np.ndarray):
            return [self._get(row) for row in rows.tolist()]
        return self._get(int(rows))

    def _get(self, row: int) -> str | None:
        begin, end = int(self._ends[row]), int(self._ends[row + 1])
        if begin == end:
            return None
        # Bytes that are no UTF-8 survive as lone surrogates, and are written back as they were.
        return self._text[begin + 1 : end].tobytes().decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str | None]:
        text = self._text.tobytes()
        ends = self._ends.tolist()
        for begin, end in pairwise(ends):
            if begin == end:
                yield None
            else:
                yield text[begin + 1 : end].decode("utf-8", "surrogateescape")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<comments of {len(self)} rows>"


class RankingData(NamedTuple):
    """Items with their relevance labels and queries.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_items, n_features)
        In C order, or with sorted indices and without explicit zeros.
    y : ndarray of float64, shape (n_items,)
        Labels; larger is better.
    qid : ndarray of shape (n_items,), or None
        Query ids: int64 if every id is a whole number in its usual form, else strings as they are
        in the file.  None if the lines have none.
    comments : sequence of str or None, or None
        What follows ``#`` on each line, None for a line without; None altogether if there is no
        comment, or if comments were not asked for.
    n_features : int
        Columns of X.
    """

    X: Any
    y: NDArray[np.float64]
    qid: NDArray[Any] | None
    comments: Comments | None
    n_features: int

    @property
    def n_items(self) -> int:
        """Rows of X."""
        return int(self.y.shape[0])

    @property
    def docids(self) -> NDArray[np.object_] | None:
        """Document ids from comments such as ``docid = GX008-86-4444840 inc = 1``.

        One string per row, None for a row whose comment names no document; None altogether
        without comments.  Parsed anew at each access.
        """
        if self.comments is None:
            return None
        found = np.empty(self.n_items, dtype=object)
        for row, comment in enumerate(self.comments):
            match = None if comment is None else _DOCID.search(comment)
            found[row] = None if match is None else match[1]
        return found

    def __repr__(self) -> str:
        layout = "dense" if isinstance(self.X, np.ndarray) else "sparse"
        queries = "no query ids"
        if self.qid is not None:
            queries = f"{len(np.unique(self.qid))} queries"
        return (
            f"<RankingData: {self.n_items} items, {queries}, {self.n_features} features, "
            f"{layout} {self.X.dtype}>"
        )
