"""Splits by query: folds, train and test parts, and the folds of LETOR.

Only items of the same query are compared with each other, so a query is never divided, whatever the
order of its rows.  Parts are arrays of row numbers in ascending order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._checks import check_integer, is_integer
from ranksvm._sparse import check_structure, is_sparse
from ranksvm._text import counted
from ranksvm._vectors import Rows
from ranksvm.data.pair_groups import connected_groups
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.model_selection.pair_folds import pair_folds

LETOR_PARTS = 5


class QueryKFold:
    """K folds of whole queries with about the same number of items.

    Queries are assigned one after the other to the fold with the fewest items: the largest query
    first, or in random order with ``shuffle``.  The sizes of the folds differ by the size of the
    largest query at most.

    This is a splitter for scikit-learn.  In ``GridSearchCV`` and ``cross_val_score``, pass the
    query ids as ``groups``; with metadata routing, ``qid=`` is passed on automatically.

    Parameters
    ----------
    n_splits : int, default=5
        At least 2.
    shuffle : bool, default=False
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Used only with ``shuffle``.

    Examples
    --------
    >>> from ranksvm.model_selection import QueryKFold
    >>> qid = ["a", "b", "a", "c", "b", "a"]
    >>> for train, test in QueryKFold(3).split(qid=qid):
    ...     print(train, test)
    [1 3 4] [0 2 5]
    [0 2 3 5] [1 4]
    [0 1 2 4 5] [3]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None
    ) -> None:
        check_integer("n_splits", n_splits)
        if n_splits < 2:
            raise ValueError(f"n_splits must be at least 2; got {n_splits!r}")
        self.n_splits = int(n_splits)
        self.shuffle = bool(shuffle)
        self.random_state = random_state

    def __repr__(self) -> str:
        rest = f", shuffle=True, random_state={self.random_state!r}" if self.shuffle else ""
        return f"QueryKFold(n_splits={self.n_splits}{rest})"

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, qid: Any = None
    ) -> int:
        """Return the number of folds; the arguments are ignored."""
        del X, y, groups, qid
        return self.n_splits

    def split(
        self,
        X: Any = None,
        y: Any = None,
        groups: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
    ) -> Iterator[tuple[Rows, Rows]]:
        """Yield ``(train, test)`` row numbers; every query is in one test part.

        Parameters
        ----------
        X, y : optional
            Only the number of rows of X is used.
        groups, qid : array-like of shape (n_items,)
            Query of each item, under one of the two names.
        """
        del y
        fold = self._fold_of_items(_query_ids(X, groups, qid))
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn that ``split`` takes query ids under either name."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        for name in ("groups", "qid"):
            request.split.add_request(param=name, alias=True)
        return request

    def _fold_of_items(self, groups: QueryGroups) -> Rows:
        if groups.n_queries < self.n_splits:
            remedy = "Use fewer folds."
            if groups.n_queries == 1:
                remedy = "Use a validation set, or leave out the query ids to split the items."
            raise ValueError(
                f"cannot make {self.n_splits} folds of {counted(groups.n_queries, 'query')} "
                f"({counted(groups.n_items, 'item')}): a query is never split. {remedy}"
            )
        sizes = groups.sizes
        if self.shuffle:
            order = _generator(self.random_state).permutation(groups.n_queries)
        else:
            order = np.argsort(-sizes, kind="stable")
        fold = np.empty(groups.n_queries, dtype=np.int64)
        if (sizes == sizes[0]).all():
            fold[order] = np.arange(groups.n_queries) % self.n_splits
        else:
            filled = [(0, k) for k in range(self.n_splits)]
            chosen = []
            for size in sizes[order].tolist():
                items, k = filled[0]
                chosen.append(k)
                heapq.heapreplace(filled, (items + size, k))
            fold[order] = chosen
        return fold[groups.index]


def item_folds(labels: Any, n_splits: int) -> list[tuple[Rows, Rows]]:
    """Return folds of single items, for data without queries.

    Items are dealt to the folds in the order of their labels, so that all folds have similar
    labels.

    Parameters
    ----------
    labels : array-like of shape (n_items,)
    n_splits : int
        At least 2.

    Returns
    -------
    list of (train, test), row numbers
    """
    order = np.argsort(np.asarray(labels), kind="stable")
    if not 2 <= n_splits <= order.size:
        raise ValueError(  # scikit-learn's checks look for "1 sample"
            f"cannot make {n_splits} folds of {counted(order.size, 'sample')}; give at least 2 "
            "folds, and no more than there are items"
        )
    fold = np.empty(order.size, dtype=np.int64)
    fold[order] = np.arange(order.size) % n_splits
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_splits)]


def folds_of(data: RankingData, cv: Any) -> list[tuple[Rows, Rows]]:
    """Return the folds of ``cv``; without queries and pairs, folds consist of single items.

    No fold separates items that preferences connect, unless ``cv`` is an iterable of folds.

    Parameters
    ----------
    data : RankingData
    cv : int, splitter or iterable of (train, test)
    """
    if is_integer(cv):
        if data.qid is None and data.preferences is None:
            return item_folds(data.y, int(cv))
        cv = QueryKFold(int(cv))
        if data.preferences is not None:
            return pair_folds(data, cv.n_splits)
    if isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise ValueError(
            "cv must be a number of folds, a splitter, or an iterable of (train, test) row "
            f"numbers; got {cv!r}"
        )
    if not hasattr(cv, "split"):
        return list(cv)
    qid: Any = data.qid
    if data.preferences is not None:
        qid = connected_groups(data).index
    elif qid is None and isinstance(cv, QueryKFold):
        qid = np.arange(data.n_items)
    return list(cv.split(data.X, data.y, groups=qid))


def query_train_test_split(
    *arrays: Any,
    qid: ArrayLike | str,
    test_size: float | int = 0.25,
    random_state: Any = None,
    shuffle: bool = True,
) -> list[Any]:
    """Split arrays in two by whole queries.

    Parameters
    ----------
    *arrays : array-like, sparse matrix or frame, each with n_items rows
        None stays None in both parts.
    qid : array-like of shape (n_items,) or str
        Query of each item, in any row order; a string names a column of the first array, a frame.
    test_size : float or int, default=0.25
        Share of the queries (between 0 and 1, rounded up), or their number.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
    shuffle : bool, default=True
        Draw the queries of the test part at random.  Otherwise they are the last ones, in order of
        first appearance.

    Returns
    -------
    list
        ``train, test`` of each array in turn, with the same type and the rows in the same order;
        then of ``qid``, unless it is a column.

    Examples
    --------
    >>> from ranksvm.model_selection import query_train_test_split
    >>> y = [1, 0, 2, 1, 0]
    >>> query_train_test_split(y, qid=[7, 7, 8, 9, 9], test_size=1, shuffle=False)
    [[1, 0, 2], [1, 0], [7, 7, 8], [9, 9]]
    """
    if not arrays:
        raise ValueError("query_train_test_split needs at least one array to split")
    if isinstance(qid, str):
        from ranksvm.data.frames import split_frame

        ids: Any = split_frame(arrays[0], qid=qid)[1]["qid"]
        parts = list(arrays)
    else:
        ids = qid
        parts = [*arrays, qid]
    groups = QueryGroups.from_qid(ids, len(ids))
    for place, array in enumerate(arrays):
        if array is not None and _n_rows(array) != groups.n_items:
            raise ValueError(
                f"array {place} has {_n_rows(array)} rows, but qid has {groups.n_items} ids; give "
                "one id per row"
            )
    n_test = _test_queries(test_size, groups.n_queries)
    order = np.arange(groups.n_queries)
    if shuffle:
        order = _generator(random_state).permutation(groups.n_queries)
    in_test = np.zeros(groups.n_queries, dtype=np.bool_)
    in_test[order[groups.n_queries - n_test :]] = True
    test = in_test[groups.index]
    rows = np.flatnonzero(~test), np.flatnonzero(test)
    return [take_rows(part, some) for part in parts for some in rows]


class LetorFold(NamedTuple):
    """Row numbers of the three parts of a fold."""

    train: Rows
    validation: Rows
    test: Rows


def letor_folds(parts: ArrayLike | Sequence[ArrayLike]) -> Iterator[LetorFold]:
    """Yield the five folds of LETOR from the parts S1 to S5 of a set.

    ======  =============  ==========  ====
    fold    train          validation  test
    ======  =============  ==========  ====
    Fold1   S1, S2, S3     S4          S5
    Fold2   S2, S3, S4     S5          S1
    Fold3   S3, S4, S5     S1          S2
    Fold4   S4, S5, S1     S2          S3
    Fold5   S5, S1, S2     S3          S4
    ======  =============  ==========  ====

    Parameters
    ----------
    parts : array-like of shape (n_items,), or sequence of five arrays of row numbers
        The part of each item (five different numbers, the smallest for S1), or the rows of each
        part.

    Yields
    ------
    LetorFold
        ``train, validation, test``; the training rows are in the order of the table.
    """
    rows = _part_rows(parts)
    for k in range(LETOR_PARTS):
        turned = rows[k:] + rows[:k]
        yield LetorFold(np.concatenate(turned[:3]), turned[3], turned[4])


def take_rows(array: Any, rows: Rows) -> Any:
    """Return rows of an array, sparse matrix, frame, series or list, with the same type."""
    if array is None:
        return None
    if isinstance(array, np.ndarray):
        return array[rows]
    if isinstance(array, list | tuple):
        return type(array)([array[i] for i in rows.tolist()])
    if is_sparse(array):
        array = check_structure(array)
        if array.format not in ("csr", "csc"):
            array = array.tocsr()
        return array[rows]
    import narwhals as nw

    frame = nw.from_native(array, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame | nw.Series):
        return nw.to_native(frame[rows])
    return np.asarray(array)[rows]


def _query_ids(X: Any, groups: Any, qid: Any) -> QueryGroups:
    if groups is not None and qid is not None:
        raise ValueError("groups and qid are two names for one thing: give only one of them")
    ids = groups if qid is None else qid
    if ids is None:
        raise ValueError(
            "QueryKFold needs the query of each item: pass qid=... or groups=... to split. In "
            "searches of scikit-learn, pass groups=..., or qid=... with "
            "sklearn.set_config(enable_metadata_routing=True)"
        )
    n_items = len(ids) if X is None else _n_rows(X)
    return QueryGroups.from_qid(ids, n_items, name="groups" if qid is None else "qid")


def _n_rows(array: Any) -> int:
    shape = getattr(array, "shape", None)
    return int(shape[0]) if shape else len(array)


def _generator(random_state: Any) -> Any:
    """Return ``random_state`` if it is a generator of NumPy, and otherwise a new generator."""
    if hasattr(random_state, "permutation"):
        return random_state
    return np.random.default_rng(random_state)


def _test_queries(test_size: Any, n_queries: int) -> int:
    whole = is_integer(test_size)
    share = isinstance(test_size, Real) and not whole and not isinstance(test_size, bool)
    if whole and 0 < test_size < n_queries:
        return int(test_size)
    if share and 0.0 < test_size < 1.0:
        # A product such as 0.1 * 30 must not be rounded up for its last bit.
        n_test = int(np.ceil(round(float(test_size) * n_queries, 9)))
        if 0 < n_test < n_queries:
            return n_test
    raise ValueError(
        "test_size must be a share between 0 and 1, or a number of queries, that leaves both parts "
        f"at least one query; got {test_size!r} of {n_queries} queries"
    )


def _part_rows(parts: Any) -> list[Rows]:
    if isinstance(parts, list | tuple) and any(np.ndim(part) for part in parts):
        rows = [np.asarray(part) for part in parts]
        if len(rows) != LETOR_PARTS:
            raise ValueError(f"LETOR's folds need five parts; got {len(rows)} arrays of rows")
        for number, part in enumerate(rows, start=1):
            if part.ndim != 1 or part.dtype.kind not in "iu":
                raise ValueError(
                    f"part {number} must be a one-dimensional array of row numbers; got "
                    f"{part.ndim} dimensions of dtype {part.dtype}"
                )
        together = np.concatenate(rows)
        if np.unique(together).size < together.size:
            raise ValueError("parts must not share rows: some row number is there more than once")
        return [part.astype(np.int64) for part in rows]
    numbers = np.asarray(parts)
    if numbers.ndim != 1:
        raise ValueError(f"parts must have one part number per item; got {numbers.ndim} dimensions")
    distinct = np.unique(numbers)
    if distinct.size != LETOR_PARTS:
        shown = ", ".join(map(str, distinct[:8].tolist()))
        raise ValueError(
            f"LETOR's folds need five parts; got {distinct.size} different part numbers ({shown})"
        )
    return [np.flatnonzero(numbers == number) for number in distinct]
