"""Gains of labels and discounts of ranks, the parts of discounted cumulative gain.

    gain        gain of an item with label y: "exp2" is 2^y - 1, "linear" is y
    discount    discount of rank r: "log2" is 1 / log2(1 + r); "letor" is 1 at ranks 1 and 2 and
                1 / log2(r) below

Gains 2^y - 1 are meant for grades.  Where labels are real-valued or large, an item that is better
by 10 has a thousand times the gain, and little else counts; gains y suit these.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups

Gain = Literal["exp2", "linear"]
Discount = Literal["log2", "letor"]
# More grades than this are taken for real-valued labels.
MOST_GRADES = 32


def is_graded(y: NDArray[Any]) -> bool:
    """Return whether labels are grades, for which gains 2^y - 1 are meant: 0, 1, ... up to 31."""
    return bool((y >= 0.0).all() and (y < MOST_GRADES).all() and (y % 1 == 0).all())


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


def label_gains(y: Array, name: str) -> Array:
    """Return the gains of labels, for weights of pairs.

    Raises
    ------
    ParameterError
        If these labels have no gains of this name.
    """
    if y.size and y.min() < 0.0:
        raise ParameterError(
            "{gain} needs labels >= 0, as NDCG does; got the label {value:g}. {remedy}",
            remedy="Shift the labels, or use {uniform}.",
            gain=Param("gain", name),
            value=y.min(),
            uniform=Param("pair_weight", "uniform"),
        )
    if name == "exp2" and not is_graded(y):
        bad = (y >= MOST_GRADES) | (y % 1 != 0)
        raise ParameterError(
            "{gain}, 2^y - 1, is for grades: whole numbers from 0 to {most}; got the label "
            "{value:g}. {remedy}",
            remedy="Use {linear}.",
            gain=Param("gain", name),
            most=MOST_GRADES - 1,
            value=y[bad][0],
            linear=Param("gain", "linear"),
        )
    # 2^y of a grade is exact.
    return np.exp2(y) - 1.0 if name == "exp2" else y


def gain_utility(y: Array, groups: QueryGroups, name: str) -> Array:
    """Return the gain of each item minus the lowest gain of its query.

    Differences are what counts in the weights of pairs, and rounding errors go with the gains.
    """
    gain = label_gains(y, name)
    if not gain.size:
        return gain
    lowest = np.minimum.reduceat(gain[groups.rows], groups.offsets[:-1])
    utility: Array = gain - lowest[groups.index]
    return utility
