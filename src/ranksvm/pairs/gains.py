"""Gains of labels and discounts of ranks, the parts of discounted cumulative gain.

    gain        gain of an item with label y: "exp2" is 2^y - 1, "linear" is y
    discount    discount of rank r: "log2" is 1 / log2(1 + r); "letor" is 1 at ranks 1 and 2 and
                1 / log2(r) below

Gains 2^y - 1 are meant for grades.  Where labels are real-valued or large, an item that is better
by 10 has a thousand times the gain, and little else counts; gains y suit these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array, Rows
from ranksvm.data.queries import QueryGroups

Gain = Literal["exp2", "linear"]
Discount = Literal["log2", "letor"]
# More grades than this are taken for real-valued labels.
MOST_GRADES = 32


def is_graded(y: NDArray[Any]) -> bool:
    """Return whether labels are grades, for which gains 2^y - 1 are meant: 0, 1, ... up to 31."""
    return bool((y >= 0.0).all() and (y < MOST_GRADES).all() and (np.floor(y) == y).all())


def exp2_gain(y: Array, shift: Array | float) -> Array:
    """Compute (2^y - 1) / 2^shift, without cancellation for small y."""
    scale = np.exp2(-shift)
    small = np.expm1(np.log(2.0) * np.minimum(y, 1.0)) * scale
    return np.where(y < 1.0, small, np.exp2(y - shift) - scale)


def discounts(name: str, n_ranks: int) -> Array:
    """Return the discounts of the ranks 1, 2, ..., n_ranks."""
    table = np.arange(1.0, n_ranks + 1.0)
    if name == "log2":
        table = 1.0 / np.log2(1.0 + table)
    else:
        table[:2] = 1.0
        table[2:] = 1.0 / np.log2(table[2:])
    return table


@dataclass(frozen=True)
class Gains:
    """How labels make weights of pairs: the names of a gain and a discount."""

    gain: str
    discount: str


def check_labels(y: Array, gain: str) -> None:
    """Raise a ParameterError if these labels cannot have gains of this name, for weights."""
    if y.size and y.min() < 0.0:
        raise ParameterError(
            "{gain} needs labels >= 0, as NDCG does; got the label {value:g}. {remedy}",
            remedy="Shift the labels, or use {uniform}.",
            gain=Param("gain", gain),
            value=y.min(),
            uniform=Param("pair_weight", "uniform"),
        )
    if gain == "exp2" and not is_graded(y):
        bad = (y >= MOST_GRADES) | (np.floor(y) != y)
        raise ParameterError(
            "{gain}, 2^y - 1, is for grades: whole numbers from 0 to {most}; got the label "
            "{value:g}. {remedy}",
            remedy="Use {linear}.",
            gain=Param("gain", gain),
            most=MOST_GRADES - 1,
            value=y[bad][0],
            linear=Param("gain", "linear"),
        )


def label_gains(y: Array, gain: str) -> Array:
    """Return the gains of labels that :func:`check_labels` lets pass; those of grades are exact."""
    return np.exp2(y) - 1.0 if gain == "exp2" else y


def above_lowest(gain: Array, groups: QueryGroups) -> Array:
    """Return the gain of each item minus the lowest gain of its query.

    Differences are what counts in the weights of pairs, and rounding errors go with the gains.
    """
    if not gain.size:
        return gain
    grouped = gain if groups.contiguous else gain[groups.rows]
    lowest = np.minimum.reduceat(grouped, groups.offsets[:-1])
    above: Array = gain - lowest[groups.index] if lowest.any() else gain
    return above


def ideal_dcg(
    gain: Array,
    groups: QueryGroups,
    by_relevance: Rows,
    discount: str,
    item_weight: Array | None = None,
    most: int | None = None,
) -> Array:
    """Return the ideal DCG of each query, over its items of positive weight.

    Parameters
    ----------
    gain : ndarray of shape (n_items,)
        Gains >= 0.
    groups : QueryGroups
    by_relevance : ndarray of int64, shape (n_items,)
        Rows query by query, each from its worst to its best item.
    discount : {"log2", "letor"}
    item_weight : ndarray of shape (n_items,) or None
    most : int or None
        Number of ranks that count; None for all.

    Returns
    -------
    ndarray of shape (n_queries,)
    """
    if not gain.size:
        return np.zeros(0)
    ends, sizes = groups.offsets[1:], groups.sizes
    gained = gain[by_relevance]
    before = np.arange(1, len(gain) + 1)  # items up to this one
    if item_weight is not None:
        there = item_weight[by_relevance] > 0.0
        gained = np.where(there, gained, 0.0)
        before = np.cumsum(there)
    rank = np.repeat(before[ends - 1], sizes) - before  # 0 for the best item
    table = discounts(discount, int(sizes.max()))
    if most is not None:
        table[most:] = 0.0
    with np.errstate(over="ignore"):  # such gains are refused later
        gained *= table[np.minimum(rank, len(table) - 1)]
        ideal: Array = np.add.reduceat(gained, groups.offsets[:-1])
    return ideal


def query_factors(ideal: Array) -> Array:
    """Return 1 / ideal DCG of each query, and 1 for a query without gains, which has no pairs."""
    with np.errstate(over="ignore"):
        factor: Array = np.divide(1.0, ideal, out=np.ones(len(ideal)), where=ideal > 0.0)
    wrong = ~((factor > 0.0) & np.isfinite(factor))
    if wrong.any():
        size = "small" if ideal[wrong][0] < 1.0 else "large"
        raise OverflowError(
            f"the labels are too {size}: 1 / ideal DCG of a query leaves the range of float64. "
            "Multiply all labels by the same number. Linear gains have the same weights then."
        )
    return factor
