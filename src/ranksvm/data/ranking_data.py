"""The container for ranking data that is used throughout the library.

Readers, estimators and commands create a :class:`RankingData`; problems, searches and metrics take
one.  Folds and held-out parts are created by ``data.take(rows)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from ranksvm._cached import cached_property
from ranksvm._rows import take_rows
from ranksvm._text import counted
from ranksvm._vectors import Array, Rows
from ranksvm.data.preferences import Preferences, preferences_among
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_view import PLAIN, QueryView
from ranksvm.data.roles import RoleWeights
from ranksvm.data.shards import ShardedMatrix
from ranksvm.data.table_encoding import TableEncoding

SPECIAL = ("label", "qid", "docid")  # columns with a meaning of their own, which a model knows
_DOCID = re.compile(r"(?:^|\s)docid\s*=\s*(\S+)")


class Comments(Sequence[str | None]):
    """The comments of all rows, stored as one text.

    Indexing returns the text after the ``#``, or None for a row without comment.  A slice or an
    array of row numbers returns a list.  Strings are created on demand.

    Parameters
    ----------
    text : ndarray of uint8
        All comments concatenated, each with its ``#``.
    ends : ndarray of int64, shape (n_rows + 1,)
        The comment of row i is ``text[ends[i]:ends[i + 1]]``; empty means no comment.
    """

    __slots__ = ("_ends", "_text")

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._text, self._ends = text, ends

    @property
    def nbytes(self) -> int:
        """Memory used by the comments, in bytes."""
        return int(self._text.nbytes + self._ends.nbytes)

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The text, and the offsets of the comments in it."""
        return self._text, self._ends

    def __len__(self) -> int:
        return int(self._ends.shape[0]) - 1

    @overload
    def __getitem__(self, key: int) -> str | None: ...
    @overload
    def __getitem__(self, key: slice | NDArray[Any] | list[int]) -> list[str | None]: ...
    def __getitem__(self, key: Any) -> str | list[str | None] | None:
        if isinstance(key, slice | np.ndarray | list):
            return [self[row] for row in np.arange(len(self))[key].tolist()]
        row = range(len(self))[key]
        return _decoded(self._text[self._ends[row] : self._ends[row + 1]].tobytes())

    def __iter__(self) -> Iterator[str | None]:
        text = self._text.tobytes()
        for begin, end in pairwise(self._ends.tolist()):
            yield _decoded(text[begin:end])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<comments of {len(self)} rows>"


def _decoded(comment: bytes) -> str | None:
    # Invalid UTF-8 is kept as lone surrogates, so that it can be written back unchanged.
    return comment[1:].decode("utf-8", "surrogateescape") if comment else None


@dataclass(frozen=True)
class Origin:
    """The source of a data set, and what a model must remember about its columns.

    Attributes
    ----------
    name : str
        Name of the file or files, for messages.
    zero_based : bool or None
        Whether the feature indices of LETOR text start at 0; None for tables and arrays.
    base_guessed : bool
        Whether ``zero_based`` is only an assumption.
    frame_columns : tuple of str
        Columns of the table that are not features.
    label_column, qid_column, docid_column : str or None
        The columns with labels, query ids and document ids.
    encoding : TableEncoding or None
        What the columns of the table became, if X has not just their numbers.
    beside : tuple of str
        What was read from files beside LETOR text; see :mod:`ranksvm.data.side_files`.
    target : str or None
        What the labels are, if not grades or other utilities: "survival".
    """

    name: str = "the data"
    zero_based: bool | None = None
    base_guessed: bool = False
    frame_columns: tuple[str, ...] = ()
    label_column: str | None = None
    qid_column: str | None = None
    docid_column: str | None = None
    encoding: TableEncoding | None = None
    beside: tuple[str, ...] = ()
    target: str | None = None

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Origin:
        """Return what the facts of a model tell about the columns of its training set."""
        return cls(
            frame_columns=tuple(map(str, facts.get("frame_columns", ()))),
            label_column=facts.get("label_column"),
            qid_column=facts.get("qid_column"),
            docid_column=facts.get("docid_column"),
            encoding=TableEncoding.of_facts(facts),
            target=facts.get("target"),
        )

    def facts(self) -> dict[str, Any]:
        """Return the facts that a model file records."""
        facts: dict[str, Any] = {}
        if self.zero_based is not None:
            facts["zero_based"] = self.zero_based
        if self.frame_columns:
            facts["frame_columns"] = sorted(self.frame_columns)
        for key in SPECIAL:
            if getattr(self, f"{key}_column") is not None:
                facts[f"{key}_column"] = getattr(self, f"{key}_column")
        if self.encoding is not None:
            facts |= self.encoding.facts()
        if self.target is not None:
            facts["target"] = self.target
        return facts


@dataclass(frozen=True, eq=False, repr=False)
class RankingData:
    """Items with features, labels, query ids, weights and preferences.

    Iterating gives ``X, y, qid``, so that ``model.fit(*data)`` works.

    Attributes
    ----------
    X : ndarray, SciPy sparse matrix or ShardedMatrix, of shape (n_items, n_features)
        Features.
    y : ndarray of float64, shape (n_items,), or None
        Labels; larger is better.  None if the items have no labels.
    qid : ndarray of shape (n_items,), or None
        Query ids: int64 if every id of a file is an integer in its usual form, else strings.  None
        means one global ranking.
    labels : ndarray of shape (n_items,), or None
        The original labels, if float64 cannot represent them and ``y`` only has their order.
    item_weight : ndarray of shape (n_items,), or None
        Weights of the items.
    roles : RoleWeights or None
        Weights of the items as the better and as the worse one of a pair that follows from labels,
        beside ``item_weight``.
    query_weight : ndarray of shape (n_queries,), or None
        Weights of the queries, in order of first appearance.
    preferences : Preferences or None
        Pairs of rows, in addition to those that the labels imply.
    feature_names : tuple of str, or None
        Names of the features.
    comments : sequence of str or None, or None
        The text after ``#`` on each line of LETOR text, None for a line without comment.  None if
        there are no comments, or they were not requested.
    document_ids : sequence of str or None, or None
        Document ids from a column of a table; ``docids`` also finds those of LETOR text.
    view : QueryView
        What the columns of X are made of.  Usually X has the features as they are; problems get it
        with features of the query (:mod:`ranksvm.learners.views`).  ``feature_names`` are always
        those of the features, and not of the columns made of them.
    origin : Origin
        The source of the data.
    """

    X: Any
    y: Array | None = None
    qid: NDArray[Any] | None = None
    _: KW_ONLY
    labels: NDArray[Any] | None = None
    item_weight: Array | None = None
    roles: RoleWeights | None = None
    query_weight: Array | None = None
    preferences: Preferences | None = None
    feature_names: tuple[str, ...] | None = None
    comments: Sequence[str | None] | None = None
    document_ids: Sequence[str | None] | None = None
    view: QueryView = PLAIN
    origin: Origin = Origin()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.qid))

    @property
    def n_items(self) -> int:
        """Number of items, the rows of X."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features, the columns of X."""
        return int(self.X.shape[1])

    @property
    def is_encoded(self) -> bool:
        """Whether the features are what became of the columns of a table."""
        return self.origin.encoding is not None

    @cached_property
    def groups(self) -> QueryGroups:
        """The items grouped by query."""
        return QueryGroups.from_qid(self.qid, self.n_items)

    def with_groups(self, groups: QueryGroups) -> Self:
        """Return the same data, with the items grouped already; ``groups`` must be those of qid."""
        data = object.__new__(type(self))
        data.__dict__.update(self.__dict__, groups=groups)  # where the cached property keeps them
        return data

    @property
    def truth(self) -> NDArray[Any]:
        """The labels that metrics use: ``labels`` if present, else ``y``."""
        values = self.y if self.labels is None else self.labels
        if values is None:
            raise ValueError(f"{self.origin.name} has no labels")
        return values

    @cached_property
    def docids(self) -> Sequence[str | None] | None:
        """Document ids, from a table or from comments such as ``docid = GX008-86 inc = 1``.

        There is one entry per row, None for a row without id; None if no row has an id.
        """
        if self.document_ids is not None:
            return self.document_ids
        if self.comments is None:
            return None
        matches = (None if text is None else _DOCID.search(text) for text in self.comments)
        found = [None if match is None else match[1] for match in matches]
        return None if all(one is None for one in found) else found

    def take(self, rows: Rows, *, columns: Rows | None = None, n_threads: int = 1) -> Self:
        """Return a subset of the items.

        Parameters
        ----------
        rows : ndarray of int64
            Row numbers.  Preferences are kept if both items are among them.
        columns : ndarray of int64, or None
            Columns of X to keep; None for all.  A kernel matrix has one per training item.
        n_threads : int
            Number of threads that copy X.

        Returns
        -------
        RankingData
        """
        if _is_all(rows, self.n_items) and (columns is None or _is_all(columns, self.n_features)):
            return self
        part = QueryGroups.from_qid(self.groups.index[rows], rows.size)
        kept = part.ids  # query numbers in this data set
        taken = replace(
            self,
            X=_rows_of(self.X, rows, n_threads)
            if columns is None
            else self.X[np.ix_(rows, columns)],
            y=None if self.y is None else self.y[rows],
            qid=None if self.qid is None else self.qid[rows],
            labels=None if self.labels is None else self.labels[rows],
            item_weight=None if self.item_weight is None else self.item_weight[rows],
            roles=None if self.roles is None else self.roles.take(rows),
            query_weight=None if self.query_weight is None else self.query_weight[kept],
            preferences=preferences_among(
                self.preferences, rows, self.n_items, kept, self.groups.n_queries
            ),
            feature_names=self.feature_names if columns is None else None,
            comments=_listed(self.comments, rows),
            document_ids=_listed(self.document_ids, rows),
        )
        return taken.with_groups(replace(part, ids=self.groups.ids[kept]))

    def __repr__(self) -> str:
        layout = "dense" if isinstance(self.X, np.ndarray) else "sparse"
        if isinstance(self.X, ShardedMatrix):
            layout = counted(len(self.X.shards.sizes), "shard")
        queries = "no query ids"
        if self.qid is not None:
            queries = counted(self.groups.n_queries, "query")
        return (
            f"<RankingData: {counted(self.n_items, 'item')}, {queries}, "
            f"{counted(self.n_features, 'feature')}, {layout} {self.X.dtype}>"
        )


def _is_all(rows: Rows, n: int) -> bool:
    return rows.size == n and bool((np.diff(rows) == 1).all())


def _rows_of(X: Any, rows: Rows, n_threads: int) -> Any:
    if isinstance(X, np.ndarray):
        return take_rows(X, rows, n_threads)
    if isinstance(X, ShardedMatrix):
        return X.take(rows)
    if X.format == "csc":
        return X[rows]
    return take_rows(X.tocsr(), rows, n_threads)


def no_features(name: str, *, is_table: bool) -> ValueError:
    """Return the error for items without features, in a table or array or in LETOR text."""
    what, zeros = "feature columns", ""
    if not is_table:
        what = "features (index:value)"
        zeros = " If every feature is 0, write 1:0 on the first line."
    return ValueError(
        f"{name} has labels and ids but no {what}. Pass the file with the features.{zeros}"
    )


def _listed(values: Sequence[Any] | None, rows: Rows) -> list[Any] | None:
    return None if values is None else [values[i] for i in rows.tolist()]
