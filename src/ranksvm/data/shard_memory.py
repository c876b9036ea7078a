"""How a memory budget is divided among labels, blocks, a fit, and what shards keep."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ranksvm._memory import format_size
from ranksvm._messages import Param, TooLittleMemoryError
from ranksvm._text import counted
from ranksvm.data.local_shards import AHEAD
from ranksvm.data.queries import QueryGroups
from ranksvm.data.row_sources import RowSource
from ranksvm.data.shards import KEEPS

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
    """What a fit needs beside the rows of X, in bytes."""

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
    """
    n_items = source.n_items
    itemsize = source.dtype.itemsize
    one_row = 0 if source.is_sparse else source.n_features * itemsize
    for_rows = n_items * ROW_BYTES + for_ids
    for_fit = 0
    if fit is not None:
        for_fit += fit.working_bytes(
            n_items, source.n_features, itemsize, is_sparse=source.is_sparse
        )
        if n_copied is None:
            for_fit += n_items * fit.gathered_bytes
        else:
            for_fit += n_copied * (TAKEN_TIMES * one_row + ROW_BYTES)

    def reading_with(budget: float) -> int:
        block = max(one_row, block_size(budget))
        return (AHEAD + 1) * block + source.reading_bytes(block)

    def needed_with(budget: float) -> int:
        return for_rows + for_fit + reading_with(budget)

    needed = needed_with(budget)
    if needed > budget:
        enough = 1.02 * needed
        while needed_with(enough) > enough:  # with larger blocks
            enough *= 1.02
        raise TooLittleMemoryError(
            "{budget} is too little for {rows}: labels and query ids take {for_rows}, blocks that "
            "are being read {reading}{for_fit}. {remedy}",
            remedy="Raise {larger} to {enough} or more.",
            budget=Param("memory_budget", given),
            rows=counted(n_items, "row"),
            for_rows=format_size(for_rows),
            reading=format_size(reading_with(budget)),
            for_fit=f", and the fit {format_size(for_fit)}" if for_fit else "",
            larger=Param("memory_budget"),
            enough=format_size(1.01 * enough),  # it is rounded
        )
    left = budget - needed
    if fit is not None and n_copied is None:
        return MemoryPlan(frozenset(), left)
    return MemoryPlan(*choose_kept(left, groups))


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
