"""Checks of labels and scores.

Metrics use scores, and many of them labels, only for their order, which is kept exactly
(:mod:`ranksvm._values`).

A score of -inf marks an item that was not retrieved.  Sorting needs finite numbers, so these scores
are replaced by a number below all others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._messages import ParameterError, Row
from ranksvm._values import as_float, as_levels, exact_vector, finite_values
from ranksvm._vectors import Array


def check_vector(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return a vector of finite numbers, in a type that keeps their values."""
    array = _real_vector(name, values)
    _refuse(~finite_values(array), array, f"{name} must be finite")
    return array


def check_scores(name: str, values: ArrayLike) -> tuple[Array, NDArray[np.bool_] | None]:
    """Check scores, and separate the items that were not retrieved.

    Returns
    -------
    levels : ndarray of shape (n_items,)
        Finite numbers in the order of the scores, equal where the scores are equal.
    unretrieved : ndarray of bool, shape (n_items,), or None
        Which scores are -inf; None if none is.
    """
    scores = _real_vector(name, values)
    if scores.dtype.kind == "O" and not finite_values(scores).all():
        scores = as_float(name, scores)
    levels = as_levels(scores)
    if scores.dtype.kind != "f":
        return levels, None
    allowed = scores < np.inf  # false for NaN
    _refuse(~allowed, scores, f"{name} must be finite, or -inf for items that were not retrieved")
    unretrieved = np.isneginf(scores)
    if not unretrieved.any():
        return levels, None
    lowest = float(levels.min(initial=0.0, where=~unretrieved))
    below = min(lowest - 1.0, math.nextafter(lowest, -math.inf))
    if math.isinf(below):  # there is no finite number below the lowest score
        return np.unique(levels, return_inverse=True)[1].astype(np.float64), unretrieved
    return np.where(unretrieved, below, levels), unretrieved


def _real_vector(name: str, values: ArrayLike) -> NDArray[Any]:
    array = exact_vector(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {array.shape}.")
    return array


def _refuse(wrong: NDArray[np.bool_], array: NDArray[Any], rule: str) -> None:
    """Raise if any value is wrong; the error shows the first one."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ParameterError(
            "{rule}; got {value} in {row}.", rule=rule, value=array[row], row=Row(row)
        )
