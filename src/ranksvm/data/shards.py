"""Data sets cut into shards: blocks of rows that need not be in memory together.

:class:`Shards` stands in for the matrix X of a :class:`ranksvm.data.ranking_data.RankingData`.  It
runs *tasks* on the shards, which are pure functions of a shard and their arguments, and returns the
results in the order of the shards.  A sum over shards therefore has the same bits wherever the
shards are, in whatever order they finish, and however often a task is repeated after a failure.

Engines subclass :class:`Shards`: :mod:`ranksvm.data.local_shards` runs tasks in this process, and
:mod:`ranksvm.dask.shards` on a cluster.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array, Rows
from ranksvm.data.queries import QueryGroups

# What shards may keep from one task to the next, the most useful first: scores (which save passes),
# the items of each query in the order of their labels, and what is known about pairs at a point.
KEEPS = ("scores", "order", "pairs")


class RowBlock:
    """The rows of a shard: loaded when they are needed, or held in memory."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load = load
        self._X: Any = None

    @property
    def X(self) -> Any:
        """The rows, loaded if they are not in memory."""
        return self.load() if self._X is None else self._X

    @property
    def is_loaded(self) -> bool:
        return self._X is not None

    def hold(self, X: Any) -> None:
        """Keep the rows in memory until ``hold(None)``."""
        self._X = X


@dataclass(eq=False)
class Shard:
    """A block of rows, and what tasks keep about it.

    Attributes
    ----------
    rows : RowBlock
        The rows of X; shards with the same rows share it.
    n_items : int
        Number of rows.
    y : ndarray of float64, shape (n_items,), or None
        Labels.
    query : ndarray of shape (n_items,), or None
        Query ids, or numbers that stand for them.
    item_weight : ndarray of shape (n_items,) or None
        Weights of the items.
    n_threads : int
        Number of threads that a task may use.
    memo : dict
        What tasks have computed before.  Tasks give the same results without it, so it is not
        copied to other processes.
    """

    rows: RowBlock
    n_items: int
    y: Array | None = None
    query: NDArray[Any] | None = None
    item_weight: Array | None = None
    n_threads: int = 1
    memo: dict[Any, Any] = field(default_factory=dict)

    @property
    def X(self) -> Any:
        """The rows, loaded if they are not in memory."""
        return self.rows.X

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "memo": {}}


class ShardTask(Protocol):
    """A pure function of a shard."""

    def __call__(self, shard: Any) -> Any: ...

    def needs_items(self, shard: Any) -> bool:
        """Return whether the rows have to be loaded; False if the memo has what is needed."""
        ...


@dataclass
class RowFacts:
    """What is known about all rows of some shards; shards with the same rows share it.

    Attributes
    ----------
    groups : QueryGroups or None
        The queries, with the ids that the shards have.
    identity : str or None
        What tells files apart from others and from changed ones; None if only their values do.
    found : dict
        What passes over the rows have found out.
    """

    groups: QueryGroups | None = None
    identity: str | None = None
    found: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """Return what was found under a name; look for it if it was not."""
        if name not in self.found:
            self.found[name] = find()
        return self.found[name]


class Shards(ABC):
    """A matrix in shards.

    Attributes
    ----------
    sizes : tuple of int
        Number of rows of each shard.
    shape : tuple (n_items, n_features)
    dtype : dtype
    is_sparse : bool
        Whether the shards are CSR matrices.
    facts : RowFacts
        What is known about all rows.
    progress : callable or None
        Called as ``progress(done, total)`` after each shard of a pass.
    keeps : frozenset of str
        What shards may keep in memory from one task to the next, of ``KEEPS``.
    """

    sizes: tuple[int, ...]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_sparse: bool
    facts: RowFacts
    progress: Callable[[int, int], Any] | None = None
    keeps: frozenset[str] = frozenset(KEEPS)

    def inherit(self, other: Shards, *, same_columns: bool = True) -> None:
        """Take over what is known about the rows of other shards, which are the same."""
        facts = other.facts
        # Copies of rows change nothing of it, but other columns do.
        self.facts = facts if same_columns else RowFacts(facts.groups)
        self.progress = other.progress
        self.keeps = other.keeps

    @property
    def starts(self) -> Rows:
        """The first row of each shard, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @abstractmethod
    def map(self, tasks: ShardTask | Sequence[ShardTask]) -> Iterator[Any]:
        """Run one task on all shards, or one task on each; yield results in shard order."""

    @abstractmethod
    def replaced(self, tasks: ShardTask | Sequence[ShardTask]) -> Shards:
        """Return the shards that the tasks return, with the same rows."""

    @abstractmethod
    def with_features(
        self,
        tasks: ShardTask | Sequence[ShardTask],
        n_features: int,
        dtype: Any,
        *,
        is_sparse: bool = False,
    ) -> Shards:
        """Return the shards that the tasks return: other columns for the same rows."""

    @abstractmethod
    def with_copies(self, rows: Rows) -> Shards:
        """Return the shards with one more, which holds copies of the given rows."""

    def items(self, rows: Rows) -> Any:
        """Return some rows in memory, in the given order."""
        by_shard, place = self.places(rows)
        tasks = [TakeRows(one) for one in by_shard]
        if not rows.size:
            tasks[0] = TakeRows(rows, always=True)
        parts = [part for part in self.map(tasks) if part is not None]
        return stacked(parts)[place]

    def places(self, rows: Rows) -> tuple[list[Rows], Rows]:
        """Find rows in the shards.

        Returns
        -------
        by_shard : list of ndarray of int64
            The rows of each shard, counted from its first row.
        place : ndarray of int64
            Where each of ``rows`` is when those of all shards are listed one after the other.
        """
        starts = self.starts
        shard_of = np.searchsorted(starts, rows, side="right") - 1
        order = np.argsort(shard_of, kind="stable")
        ends = np.searchsorted(shard_of[order], np.arange(1, len(self.sizes)))
        place = np.empty(rows.size, dtype=np.int64)
        place[order] = np.arange(rows.size)
        return np.split((rows - starts[shard_of])[order], ends), place

    def most_taken(self) -> float:
        """Return the bytes that rows of queries in several shards may take in this process.

        They come together for features of the query; unlimited unless an engine says otherwise.
        """
        return np.inf

    def name_of(self, shard: int) -> str:
        """Return what a shard is called in messages."""
        return f"shard {shard}"

    def not_finite(self, shard: int, row: int, column: int, value: float) -> ValueError:
        """Return the error for a value of X that is NaN or infinite."""
        row += int(self.starts[shard])
        return ValueError(
            f"X has a value that is not finite: {value} in row {row}, column {column}. Fill in "
            "missing values, or drop these rows."
        )

    def split(self, arguments: Any) -> list[Any]:
        """Cut a vector with one entry per row into the parts of the shards."""
        return np.split(arguments, self.starts[1:-1])


class TakeRows:
    """Task: return some rows of the shard; None for no rows, unless ``always``."""

    def __init__(self, rows: Rows, *, always: bool = False) -> None:
        self._rows = rows
        self._always = always

    def needs_items(self, shard: Shard) -> bool:
        return bool(self._rows.size) or self._always

    def __call__(self, shard: Shard) -> Any:
        if not self.needs_items(shard):
            return None
        X = shard.X
        return X[self._rows] if X.shape[0] else X


class DigestRows:
    """Task: return a hash of the rows."""

    def needs_items(self, shard: Shard) -> bool:
        return True

    def __call__(self, shard: Shard) -> bytes:
        X = shard.X
        found = hashlib.sha256(repr((X.shape, X.dtype.str)).encode())
        for part in [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]:
            found.update(np.ascontiguousarray(part).data)
        return found.digest()


def stacked(parts: Sequence[Any]) -> Any:
    """Return matrices on top of each other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def one_each(tasks: ShardTask | Sequence[ShardTask], n_shards: int) -> Sequence[ShardTask]:
    """Return one task per shard."""
    return tasks if isinstance(tasks, Sequence) else [tasks] * n_shards


def nbytes(X: Any) -> int:
    """Return the memory that a matrix takes."""
    if isinstance(X, np.ndarray):
        return X.nbytes
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def shared_queries(groups: QueryGroups, starts: Sequence[int] | Rows) -> NDArray[np.bool_]:
    """Return which queries have rows in several shards; ``starts`` as in :attr:`Shards.starts`."""
    first, last = groups.rows[groups.offsets[:-1]], groups.rows[groups.offsets[1:] - 1]
    return np.asarray(
        np.searchsorted(starts, first, "right") != np.searchsorted(starts, last, "right")
    )


def copied_queries(
    groups: QueryGroups, starts: Sequence[int] | Rows, active: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_] | None:
    """Return which queries have to be copied, so that every query is complete in one shard.

    These are the queries that several shards share.  Their rows make up one more shard: None if it
    would be larger than the largest one, because the scores of all rows are then gathered instead.

    Parameters
    ----------
    groups : QueryGroups
        Queries of all rows.
    starts : sequence of int
        The first row of each shard, and the number of rows.
    active : ndarray of bool, shape (n_queries,), or None
        Queries that take part; None for all.
    """
    shared = shared_queries(groups, starts)
    if active is not None:
        shared &= active
    n_rows = int(groups.sizes[shared].sum())
    return None if n_rows > int(np.max(np.diff(starts))) else shared


@dataclass(frozen=True, eq=False)
class ShardedMatrix:
    """The rows of shards, or some of them, in place of the matrix X of a data set.

    Attributes
    ----------
    shards : Shards
    rows : ndarray of int64 or None
        Row numbers; None for all rows.
    """

    shards: Shards
    rows: Rows | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n_items, n_features = self.shards.shape
        return n_items if self.rows is None else self.rows.size, n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.shards.dtype

    def digest(self) -> bytes:
        """Return a hash of the rows: of their files, if these are known, or of all values.

        The values are read in one pass, and where they are cut counts as well.
        """
        identity = self.shards.facts.identity
        if identity is not None:
            found = hashlib.sha256(identity.encode())
        else:
            found = hashlib.sha256(repr((self.shards.sizes, self.shape)).encode())
            for part in self.shards.map(DigestRows()):
                found.update(part)
        if self.rows is not None:
            found.update(self.rows.tobytes())
        return found.digest()

    def base_rows(self, rows: Rows) -> Rows:
        """Return the numbers that some of these rows have among all rows of the shards."""
        return rows if self.rows is None else self.rows[rows]

    def take(self, rows: Rows) -> ShardedMatrix:
        """Return some of the rows; they are not loaded."""
        return ShardedMatrix(self.shards, self.base_rows(rows))

    def __getitem__(self, rows: Rows) -> Any:
        """Load some of the rows."""
        return self.shards.items(self.base_rows(rows))
