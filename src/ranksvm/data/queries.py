"""Group items by query id.

Every item (row of X) belongs to one query, and only items of the same query are compared.  Ids can
be of any type and in any row order.  All later layers use these arrays instead:

    ids[q]                                   the id of query q, queries in order of first appearance
    rows[offsets[q]:offsets[q + 1]]          the row numbers of its items, in ascending order
    index[i]                                 the query number of row i

``rows`` is a permutation of all rows: ``values[rows]`` arranges a per-item array query by query,
and ``out[rows] = values`` restores the order of the rows of X.

The grouping works on *runs* of equal adjacent ids rather than on rows, because the ids of most
files are sorted or at least grouped.  Then there are as many runs as queries, and the cost is one
comparison per row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._cached import cached_property
from ranksvm._messages import ParameterError, Row
from ranksvm._text import counted
from ranksvm._values import as_objects, is_missing, refuse_masked

# float64 represents every integer up to here; beyond it, neighboring ids would become equal.
_LARGEST_EXACT_FLOAT = 2.0**53
# Integers in their usual form, without leading zeros.
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_LARGEST_INT64 = 2**63 - 1


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """Items grouped by query; build it with :meth:`from_qid`.

    Attributes
    ----------
    ids : ndarray of shape (n_queries,)
        Distinct query ids in order of first appearance.
    offsets : ndarray of int64, shape (n_queries + 1,)
        Query q owns ``rows[offsets[q]:offsets[q + 1]]``.
    rows : ndarray of int64, shape (n_items,)
        Row numbers query by query, ascending within each query.
    contiguous : bool
        Whether ``rows`` is 0, 1, ..., n_items - 1, so that reordering by it can be skipped.
    numbers : ndarray of int64, shape (n_items,), or None
        ``index``, if it is known already.
    """

    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    contiguous: bool
    numbers: NDArray[np.int64] | None = None

    @classmethod
    def from_qid(cls, qid: ArrayLike | None, n_items: int, *, name: str = "qid") -> QueryGroups:
        """Group items by query id.

        Parameters
        ----------
        qid : array-like of shape (n_items,) or None
            One id per row, in any row order: integers, strings, dates, or hashable objects.
            Integer-valued floats count as integers.  Rows are matched by position (the index of a
            pandas Series is ignored).  None means one global ranking.
        n_items : int
            Number of rows of X.
        name : str, default="qid"
            Name of the ids in error messages.

        Returns
        -------
        QueryGroups

        Raises
        ------
        ValueError
            If ``qid`` is not one-dimensional, does not have ``n_items`` values, or holds missing,
            fractional or unhashable ids; the message names the first such row.
        """
        if qid is None:
            n_queries = min(1, n_items)
            offsets = np.array([0, n_items][: n_queries + 1], dtype=np.int64)
            one = np.zeros(n_queries, dtype=np.int64)
            return cls(one, offsets, np.arange(n_items, dtype=np.int64), True)
        array = as_id_array(qid, name)
        if array.ndim != 1:
            raise ValueError(
                f"{name} must be one-dimensional with one query id per row; got {array.ndim} "
                f"dimensions (shape {array.shape}). Pass a flat sequence of length {n_items}."
            )
        if array.shape[0] != n_items:
            raise ValueError(_wrong_length(array, n_items, name))
        if array.dtype.kind in "OT":  # variable-length strings can have missing values, too
            codes, ids = _factorize_objects(array.astype(object), name)
            return replace(cls._from_codes(codes), ids=ids)
        return cls._from_codes(exact_ids(array, name))

    @classmethod
    def _from_codes(cls, codes: NDArray[Any]) -> QueryGroups:
        """Group by sortable ids that have been checked."""
        n_items = codes.shape[0]
        changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        bounds = np.concatenate(([0], changes, [n_items]))  # of the runs
        starts = bounds[:-1][:n_items]  # none without items
        values = codes[starts]
        if n_items and (values[1:] > values[:-1]).all():  # the ids of most files ascend
            return cls(values, bounds, np.arange(n_items, dtype=np.int64), True)

        lengths = np.diff(starts, append=n_items)
        distinct, query_of_run = by_appearance(values)
        offsets = np.zeros(distinct.shape[0] + 1, dtype=np.int64)
        if distinct.shape[0] == starts.shape[0]:  # one run per query: rows are already grouped
            np.cumsum(lengths, out=offsets[1:])
            return cls(distinct, offsets, np.arange(n_items, dtype=np.int64), True)

        sizes = np.bincount(query_of_run, weights=lengths).astype(np.int64)
        np.cumsum(sizes, out=offsets[1:])
        # Lay the runs out query by query and count up from each run's first row.
        run_order = np.argsort(query_of_run, kind="stable")
        run_lengths = lengths[run_order]
        places = np.cumsum(run_lengths) - run_lengths
        rows = np.repeat(starts[run_order] - places, run_lengths)
        rows += np.arange(n_items, dtype=np.int64)
        return cls(distinct, offsets, rows, False)

    @classmethod
    def from_numbers(cls, numbers: NDArray[np.int64]) -> QueryGroups:
        """Group items whose queries are numbered in order of first appearance: 0, 1, 2, ...

        The array is kept as ``index``.
        """
        return replace(cls._from_codes(numbers), numbers=numbers)

    def ids_of_rows(self, qid: Any) -> NDArray[Any]:
        """Return the id of every row, for groups that were made from ``qid``."""
        if isinstance(qid, np.ndarray) and qid.dtype.kind in "iubUS":
            return qid
        return self.ids[self.index]

    @property
    def n_items(self) -> int:
        """Total number of items."""
        return int(self.rows.shape[0])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.ids.shape[0])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items of each query, shape (n_queries,)."""
        return np.diff(self.offsets)

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """Query number of every row of X, shape (n_items,)."""
        if self.numbers is not None:
            return self.numbers
        grouped = np.repeat(np.arange(self.n_queries, dtype=np.int64), self.sizes)
        if self.contiguous:
            return grouped
        index = np.empty_like(grouped)
        index[self.rows] = grouped
        return index

    def pieces(self, most: int) -> Iterator[tuple[Any, QueryGroups]]:
        """Yield whole queries, as many at a time as have at most this many items; at least one.

        Yields
        ------
        rows : slice or ndarray of int64
            The rows of their items.
        groups : QueryGroups
            The queries of these rows.
        """
        first = 0
        while first < self.n_queries:
            begin = self.offsets[first]
            last = int(np.searchsorted(self.offsets, begin + most, side="right")) - 1
            last = max(first + 1, last)
            end = self.offsets[last]
            ids, offsets = self.ids[first:last], self.offsets[first : last + 1] - begin
            rows = slice(int(begin), int(end)) if self.contiguous else self.rows[begin:end]
            yield rows, QueryGroups(ids, offsets, np.arange(end - begin, dtype=np.int64), True)
            first = last


def by_appearance(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values in order of first appearance, and the number of each value."""
    distinct, first, numbers = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.shape[0])
    return distinct[order], place[numbers].astype(np.int64, copy=False)


def ids_from_text(ids: Sequence[str]) -> NDArray[Any]:
    """Return ids from a file: int64 if all are integers in their usual form, else strings.

    Parameters
    ----------
    ids : sequence of str
        One id per row.

    Returns
    -------
    ndarray of shape (n_items,)
    """
    if all(_WHOLE.fullmatch(i) and abs(int(i)) <= _LARGEST_INT64 for i in set(ids)):
        return np.array(ids, dtype=np.int64)
    return np.array(ids)


def ids_of_groups(group: ArrayLike | None, n_items: int, name: str = "group") -> Any:
    """Return query ids that are given as such, or as the sizes of the queries.

    Values are sizes if there are not as many as rows, and they are whole numbers whose sum is the
    number of rows: LightGBM and XGBoost have them.  One value per row is always an id.

    Parameters
    ----------
    group : array-like of shape (n_items,) or (n_queries,), or None
        Ids in any row order; or sizes, if the rows are sorted by query.
    n_items : int
        Number of rows of X.
    name : str, default="group"
        Name of the values in error messages.

    Returns
    -------
    array-like of shape (n_items,) or None
        ``group`` itself, or the numbers 0, 1, 2, ... of the queries that sizes stand for.

    Raises
    ------
    ValueError
        If the values are neither ids nor sizes.
    """
    if group is None:
        return None
    array = as_id_array(group, name)
    if array.ndim != 1 or array.shape[0] == n_items or array.dtype.kind not in "iuf":
        return group  # ids, or an error that the check of ids describes
    is_size = (array >= 0) & (array <= n_items)
    if array.dtype.kind == "f":
        is_size &= np.rint(array) == array
    if is_size.all() and int(array.sum()) == n_items:
        return np.repeat(np.arange(array.shape[0]), array.astype(np.int64))
    values, rows = counted(array.shape[0], "value"), counted(n_items, "row")
    raise ValueError(
        f"{name} has {values} for {rows}. Query ids need one value per row; sizes of queries must "
        f"be whole numbers whose sum is {n_items:,}, and their sum is {array.sum():,}."
    )


def as_id_array(qid: ArrayLike, name: str) -> NDArray[Any]:
    """Return ids as an array, without converting missing ids to something else."""
    refuse_masked(name, qid)
    if isinstance(qid, list | tuple):
        try:
            array = np.asarray(qid)
        except ValueError:
            raise ValueError(
                f"{name} must be one-dimensional with one query id per row; got a nested sequence "
                "whose parts differ in length. Pass a flat sequence."
            ) from None
        # NumPy turns ["a", nan] and ["1", b"1"] into strings, which would hide the missing id and
        # make different ids equal.
        if array.ndim == 1 and array.dtype.kind in "US" and len(set(map(type, qid))) > 1:
            return as_objects(qid)
        return array
    return np.asarray(qid)


def exact_ids(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Check the ids of a typed array; return them in a type that is sorted exactly."""
    kind = array.dtype.kind
    if kind in "iubUS":
        return array
    if kind in "fmM":
        missing = np.isnan(array) if kind == "f" else np.isnat(array)
        if missing.any():
            row = int(np.argmax(missing))
            raise _missing(row, str(array[row]), name)
    if kind in "mM":
        return array
    if kind == "f":
        array = array.astype(np.float64, copy=False)
        inexact = (array != np.rint(array)) | (np.abs(array) > _LARGEST_EXACT_FLOAT)
        if inexact.any():
            row = int(np.argmax(inexact))
            raise _inexact(row, array[row], name)
        return array.astype(np.int64)
    raise ValueError(
        f"{name} must hold integers, strings or other exact ids; got an array of dtype "
        f"{array.dtype}. Pass the ids as integers or strings."
    )


def _factorize_objects(
    array: NDArray[np.object_], name: str
) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """Assign numbers to arbitrary hashable ids, in order of first appearance."""
    numbers: dict[Any, int] = {}
    codes = np.empty(array.shape[0], dtype=np.int64)
    for row, value in enumerate(array):
        try:
            code = numbers.get(value)
        except TypeError:
            raise ParameterError(
                "{name} must hold hashable ids such as integers or strings; got a {kind} in {row}.",
                name=name,
                kind=type(value).__name__,
                row=Row(row),
            ) from None
        if code is None:
            if is_missing(value):
                raise _missing(row, repr(value), name)
            if isinstance(value, float) and not value.is_integer():
                raise _inexact(row, value, name)
            code = numbers[value] = len(numbers)
        codes[row] = code
    return codes, as_objects(list(numbers))


def _missing(row: int, what: str, name: str) -> ParameterError:
    return ParameterError(
        "{name} has a missing id in {row}: got {what}. Drop the rows without an id, or fill in "
        "their query ids.",
        name=name,
        row=Row(row),
        what=what,
    )


def _inexact(row: int, value: Any, name: str) -> ParameterError:
    return ParameterError(
        "{name} must hold whole numbers, strings or other exact ids; got the float {value!s} in "
        "{row}. Pass the ids as integers or strings.",
        name=name,
        value=value,
        row=Row(row),
    )


def _wrong_length(array: NDArray[Any], n_items: int, name: str) -> str:
    message = f"{name} must have one query id per row; got {array.shape[0]} ids for {n_items} rows."
    integers = array.dtype.kind in "iu"
    sizes = name if name.isidentifier() else "sizes"
    if integers and (array >= 0).all() and int(array.sum()) == n_items:
        message += (
            f" These look like query sizes, since they sum to {n_items}. Pass them to fit as group "
            f"or eval_group, or convert them to ids: np.repeat(np.arange(len({sizes})), {sizes})."
        )
    return message
