"""Pairs whose items are the rows of two matrices: row p of one is compared with row p of the other.

Item p is row p of the first matrix, and item n_pairs + p is row p of the second.  Equal rows are
the same item (:func:`equal_rows`), so that folds can keep pairs together that share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array, Rows

_AT_A_TIME = 4096  # rows that are compared


@dataclass(frozen=True, eq=False)
class PairedRows:
    """The items of pairs that share none, without a copy: a stand-in for their matrix.

    Attributes
    ----------
    parts : sequence of (ndarray, ndarray)
        Two matrices of the same shape each; the pairs of the first part come first.
    """

    parts: Sequence[tuple[NDArray[Any], NDArray[Any]]]

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return sum(len(first) for first, _ in self.parts)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of items, and of features."""
        return 2 * self.n_pairs, self.parts[0][0].shape[1]

    @property
    def dtype(self) -> Any:
        """Type of the values."""
        return self.parts[0][0].dtype

    def matrix(self) -> NDArray[Any]:
        """Return the matrix of all items, a copy."""
        return np.concatenate([part[side] for side in (0, 1) for part in self.parts])

    def differences(self) -> Array | None:
        """Return first minus second for every pair, then a row of zeros; None if one overflows.

        Each difference is rounded once.
        """
        found = np.zeros((self.n_pairs + 1, self.shape[1]))
        begin = 0
        with np.errstate(over="ignore"):
            for first, second in self.parts:
                end = begin + len(first)
                np.subtract(first, second, out=found[begin:end], dtype=np.float64)
                begin = end
        return found if _core.all_finite(found.ravel(), 1) else None


def stacked(blocks: Sequence[Any]) -> Any:
    """Return the rows of several matrices as one, in CSR if one of them is sparse."""
    if not any(is_sparse(block) for block in blocks):
        return np.concatenate(blocks)
    from scipy import sparse

    return sparse.vstack([sparse.csr_matrix(block) for block in blocks], format="csr")


def equal_rows(blocks: Sequence[Any], n_threads: int = 1) -> Rows | None:
    """Return for each row of several matrices the first one that is equal; None if all differ.

    Parameters
    ----------
    blocks : sequence of ndarray or CSR of shape (n, n_features), finite
        The rows of all of them are numbered one after the other.
    n_threads : int
    """
    codes = np.concatenate([_codes(block, n_threads) for block in blocks])
    order = np.argsort(codes, kind="stable")
    is_new = np.diff(codes[order], prepend=~codes[order[:1]]) != 0
    if is_new.all():
        return None
    first = np.empty(codes.size, dtype=np.int64)
    first[order] = order[is_new][np.cumsum(is_new) - 1]
    starts = np.cumsum([0, *(block.shape[0] for block in blocks)])
    alike = np.flatnonzero(first != np.arange(codes.size))
    for begin in range(0, alike.size, _AT_A_TIME):
        rows = alike[begin : begin + _AT_A_TIME]
        differ = _differ(_taken(blocks, starts, rows), _taken(blocks, starts, first[rows]))
        first[rows[differ]] = rows[differ]  # different rows with one code
    return None if (first == np.arange(codes.size)).all() else first


def _codes(block: Any, n_threads: int) -> NDArray[np.uint64]:
    """Return a number for each row: equal rows have equal numbers."""
    if not is_sparse(block):
        return _core.hash_rows(block, n_threads)
    values = np.random.default_rng(0).standard_normal(block.shape[1])
    found: Array = block @ values
    return np.ascontiguousarray(found, dtype=np.float64).view(np.uint64)


def _taken(blocks: Sequence[Any], starts: Rows, rows: Rows) -> Any:
    block = np.searchsorted(starts, rows, side="right") - 1
    order = np.argsort(block, kind="stable")
    parts = []
    for k, matrix in enumerate(blocks):
        here = order[block[order] == k]
        if here.size:
            parts.append(matrix[rows[here] - starts[k]])
    back = np.empty_like(order)
    back[order] = np.arange(order.size)
    return stacked(parts)[back]


def _differ(one: Any, other: Any) -> NDArray[np.bool_]:
    if not is_sparse(one):
        found: NDArray[np.bool_] = (one != other).any(axis=1)
        return found
    return np.asarray((one != other).sum(axis=1)).ravel() > 0
