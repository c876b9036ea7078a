"""Queries whose items lie in several shards, for what needs all items of a query together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._text import counted
from ranksvm._vectors import Rows
from ranksvm.data.queries import QueryGroups
from ranksvm.data.shards import shared_queries


@dataclass(frozen=True, eq=False)
class SplitQueries:
    """The queries that have items in several shards; there is at least one.

    Attributes
    ----------
    rows : ndarray of int64
        The rows of their items, in ascending order.
    numbers : ndarray of int64
        Their numbers among the queries of all rows.
    first, last : int
        The first and the last row of the first of them, which are in two shards.
    """

    rows: Rows
    numbers: Rows
    first: int
    last: int

    def told(self, ids: NDArray[Any] | None, where: Callable[[int], str]) -> str:
        """Return a text about the first of them.

        Parameters
        ----------
        ids : ndarray or None
            The ids of all queries; None if there are none, and all rows are one query.
        where : callable
            Returns the place of a row, such as its file.
        """
        places = f"items in {where(self.first)}, and in {where(self.last)}"
        if ids is None:
            return f"without query ids, all items are one query, with {places}"
        example = ", for example," if self.numbers.size > 1 else ""
        return f"query {ids[self.numbers[0]]}{example} has {places}"

    def __str__(self) -> str:
        return counted(self.numbers.size, "query")


def find_split(groups: QueryGroups, starts: Sequence[int] | Rows) -> SplitQueries | None:
    """Return the queries that are in several shards; None if every query is in one.

    Parameters
    ----------
    groups : QueryGroups
        Queries of all rows.
    starts : sequence of int
        The first row of each shard, and the number of rows.
    """
    is_split = shared_queries(groups, starts)
    numbers = np.flatnonzero(is_split)
    if not numbers.size:
        return None
    begin, end = groups.offsets[numbers[0] : numbers[0] + 2].tolist()
    return SplitQueries(
        np.flatnonzero(is_split[groups.index]),
        numbers,
        int(groups.rows[begin]),
        int(groups.rows[end - 1]),
    )
