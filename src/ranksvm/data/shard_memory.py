"""How a memory budget is divided among labels, blocks, a fit, and what shards keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ranksvm._memory import format_size
from ranksvm._messages import Param, TooLittleMemoryError
from ranksvm._text import counted
from ranksvm._vectors import Rows
from ranksvm.data.local_shards import AHEAD
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_view import QueryView
from ranksvm.data.row_sources import RowSource
from ranksvm.data.shards import KEEPS
from ranksvm.data.split_queries import SplitQueries

# Largest block of X, and the part of the memory budget that it takes at most.
BLOCK_BYTES = 16_000_000
BLOCK_SHARE = 24
# Bytes a row: labels, query ids and groups, of all rows and in the shards.
ROW_BYTES = 48
# Copies that exist for a moment of rows that are taken from shards.
TAKEN_TIMES = 3
# Bytes of a query id that is not an integer, while all of them are being collected, beside those of
# its text in an array.
TEXT_BYTES = 300


def block_size(budget: float) -> int:
    """Return the size of the blocks of X that a memory budget allows."""
    return max(1, int(min(BLOCK_BYTES, budget // BLOCK_SHARE)))


class FitMemory(Protocol):
    """What a fit needs beside the rows of X, in bytes.

    ``n_features`` are the columns that the model sees, and ``is_sparse`` says whether these are.
    """

    @property
    def view(self) -> QueryView:
        """What the columns that the model sees are made of."""
        ...

    def row_bytes(self, n_features: int, *, is_sparse: bool) -> int:
        """Return the bytes of a row in later steps, such as its kernel features.

        They limit the blocks.
        """
        ...

    @property
    def gathered_bytes(self) -> int:
        """Bytes of a row if the scores of all rows come together."""
        ...

    def working_bytes(
        self, n_items: int, n_features: int, itemsize: int, *, is_sparse: bool
    ) -> int:
        """Return the bytes of what is made once, such as landmarks and samples."""
        ...


@dataclass(frozen=True)
class ScoringMemory:
    """What it takes to score items with a model that sees features of the query: only these."""

    view: QueryView

    def row_bytes(self, n_features: int, *, is_sparse: bool) -> int:
        del n_features, is_sparse
        return 0

    @property
    def gathered_bytes(self) -> int:
        return 0

    def working_bytes(
        self, n_items: int, n_features: int, itemsize: int, *, is_sparse: bool
    ) -> int:
        del n_items, n_features, itemsize, is_sparse
        return 0


def scoring_memory(*views: QueryView) -> ScoringMemory | None:
    """Return what it takes to score items with models of these views; None for plain features."""
    most = max(views, key=lambda view: len(view.names), default=QueryView())
    return ScoringMemory(most) if most else None


class RowNeeds(NamedTuple):
    """Bytes of a row in a fit.

    Attributes
    ----------
    in_block : int
        In a block, if it is more than the row itself: with the columns that are made of it.
    copied : int
        If its query is copied, so that it is complete in one shard.
    split : int
        If its query is in several shards, for features of the query.
    """

    in_block: int
    copied: int
    split: int

    @classmethod
    def of(cls, fit: FitMemory, source: RowSource) -> RowNeeds:
        """Return the needs of the rows of a source."""
        view, n_features, itemsize = fit.view, source.n_features, source.dtype.itemsize
        if not view:
            row = 0 if source.is_sparse else n_features * itemsize
            later = fit.row_bytes(n_features, is_sparse=source.is_sparse)
            return cls(later, TAKEN_TIMES * row + ROW_BYTES, 0)
        columns = view.n_blocks * n_features
        later = fit.row_bytes(columns, is_sparse=False)
        return cls(
            (n_features + columns) * itemsize + later,
            TAKEN_TIMES * columns * itemsize + ROW_BYTES,
            taken_bytes(view, n_features, itemsize),
        )


def taken_bytes(view: QueryView, n_features: int, itemsize: int) -> int:
    """Return the bytes of a row of a query in several shards, while its features are made.

    The row is taken from its shard, and the new columns are there twice: of all rows, and by shard.
    """
    return (TAKEN_TIMES + 2 * len(view.names)) * n_features * itemsize


class MemoryPlan(NamedTuple):
    """What the memory is for: ``keeps`` of the shards, and bytes for blocks that stay in memory."""

    keeps: frozenset[str]
    for_blocks: float


def plan_memory(
    source: RowSource,
    budget: int,
    given: int | str,
    groups: QueryGroups,
    *,
    fit: FitMemory | None = None,
    n_copied: int | None = 0,
    for_ids: int = 0,
    sizes: Rows | None = None,
    split: SplitQueries | None = None,
    ids: NDArray[Any] | None = None,
) -> MemoryPlan:
    """Divide the memory budget; raise if it is too small.

    Labels, ids and groups of all rows come first, the blocks that are read ahead, and what a fit
    needs in any case.  Then shards keep what they can, each thing if there is enough for all rows.
    The rest is for blocks of X.

    Parameters
    ----------
    source : RowSource
    budget : int
        Bytes.
    given : int or str
        The budget as the user gave it, for messages.
    groups : QueryGroups
        Queries of all rows.
    fit : FitMemory or None
        What a fit needs; None if there is none.
    n_copied : int or None
        Rows of queries that several shards share, which are copied.  None if a fit brings the
        scores of all rows together instead; then shards keep nothing.
    for_ids : int
        Bytes of query ids that are not integers.
    sizes : ndarray of int64 or None
        Number of rows of each shard; with features of the query, these may be larger than blocks.
    split : SplitQueries or None
        Queries in several shards, for features of the query.
    ids : ndarray or None
        Ids of all queries, for messages; None if there are none.
    """
    n_items = source.n_items
    itemsize = source.dtype.itemsize
    one_row = 0 if source.is_sparse else source.n_features * itemsize
    for_rows = n_items * ROW_BYTES + for_ids
    for_fit = for_split = 0
    largest = np.zeros(AHEAD + 1, dtype=np.int64)  # bytes of the largest shards
    if fit is not None:
        needs, n_columns = RowNeeds.of(fit, source), fit.view.n_blocks * source.n_features
        for_fit += fit.working_bytes(
            n_items, n_columns, itemsize, is_sparse=source.is_sparse and not fit.view
        )
        if n_copied is None:
            for_fit += n_items * fit.gathered_bytes
        else:
            for_fit += n_copied * needs.copied
        if split is not None:
            for_split = split.rows.size * needs.split
            for_fit += for_split
        if fit.view and sizes is not None:
            some = np.sort(sizes)[-AHEAD - 1 :]
            largest[-some.size :] = some * needs.in_block

    def reading_with(budget: float) -> int:
        blocks = np.maximum(largest, max(one_row, block_size(budget)))
        return int(blocks.sum()) + source.reading_bytes(int(blocks[-1]))

    def needed_with(budget: float) -> int:
        return for_rows + for_fit + reading_with(budget)

    needed = needed_with(budget)
    if needed > budget:
        enough = 1.02 * needed
        task = "scoring" if isinstance(fit, ScoringMemory) else "the fit"
        while needed_with(enough) > enough:  # with larger blocks
            enough *= 1.02
        raise TooLittleMemoryError(
            "{budget} is too little for {rows}: labels and query ids take {for_rows}, blocks that "
            "are being read {reading}{for_fit}{for_split}. {remedy}",
            remedy="Raise {larger} to {enough} or more{or_sort}.",
            budget=Param("memory_budget", given),
            rows=counted(n_items, "row"),
            for_rows=format_size(for_rows),
            reading=format_size(reading_with(budget)),
            for_fit=f", and {task} {format_size(for_fit)}" if for_fit else "",
            for_split="" if split is None else _told(split, for_split, source, ids),
            or_sort="" if split is None else ", or sort the rows by query",
            larger=Param("memory_budget"),
            enough=format_size(1.01 * enough),  # it is rounded
        )
    left = budget - needed
    if fit is not None and n_copied is None:
        return MemoryPlan(frozenset(), left)
    return MemoryPlan(*choose_kept(left, groups))


def _told(split: SplitQueries, size: int, source: RowSource, ids: NDArray[Any] | None) -> str:
    """Return what features of the query take for queries in several shards."""
    return (
        f", of which {format_size(size)} are for features of {split} in several shards "
        f"({split.told(ids, source.where)})"
    )


def choose_kept(left: float, groups: QueryGroups) -> tuple[frozenset[str], float]:
    """Return what all shards together can keep in some memory, and how much of it is left then.

    Parameters
    ----------
    left : float
        Bytes.
    groups : QueryGroups
        Queries of all rows.
    """
    n_items = groups.n_items
    order = 12 * n_items + 120 * groups.n_queries
    if groups.sizes.max(initial=0) > 1000:
        order += 8 * n_items
    needs = {"scores": 32 * n_items, "order": order, "pairs": 120 * n_items}
    keeps = set()
    for what in KEEPS:
        if left < needs[what]:
            break
        keeps.add(what)
        left -= needs[what]
    return frozenset(keeps), left
