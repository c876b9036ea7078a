"""Vectors from the outside: one-dimensional, real, finite, and in an exact order.

Most metrics look at the order of y, all of them at nothing but the order of the scores.  float64
makes neighbouring integers beyond 2^53 equal; where it would, the values are replaced by their
ranks.

A score of -inf belongs to an item that was not retrieved: it is below all others.  For the sort,
which wants finite numbers, it becomes a number below them.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._vectors import Array

__all__ = [
    "as_float",
    "as_levels",
    "check_scores",
    "check_vector",
    "check_vectors",
    "check_weight",
    "split_scores",
]

_LARGEST_EXACT_FLOAT = 2**53


def check_vectors(y: ArrayLike, scores: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check y and scores; both in a type that keeps their values."""
    truth, scored = check_vector("y", y), check_scores("scores", scores)
    if truth.shape != scored.shape:
        raise ValueError(
            f"y and scores must have one value per item each; got {truth.shape[0]} and "
            f"{scored.shape[0]} values."
        )
    if truth.shape[0] == 0:
        raise ValueError("y and scores must hold at least one item; got none.")
    return truth, scored


def check_weight(weight: ArrayLike, n_items: int) -> Array:
    """Weights of the items as float64, each >= 0."""
    weights = as_float("sample_weight", check_vector("sample_weight", weight))
    if weights.shape[0] != n_items:
        raise ValueError(
            f"sample_weight must have one weight per item; got {weights.shape[0]} weights for "
            f"{n_items} items."
        )
    if (weights < 0.0).any():
        row = int(np.argmax(weights < 0.0))
        raise ValueError(f"sample_weight must be >= 0; got {weights[row]} in row {row}.")
    return weights


def check_vector(name: str, values: ArrayLike) -> NDArray[Any]:
    """One-dimensional and finite: of a NumPy number type, or integers too large for any."""
    array = _real_vector(name, values)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name} must be finite; got {array[row]} in row {row}.")
    return array


def check_scores(name: str, values: ArrayLike) -> NDArray[Any]:
    """As :func:`check_vector`, but -inf is a score, too."""
    array = _real_vector(name, values)
    if array.dtype.kind == "f" and not (array < np.inf).all():  # NaN is not, either
        row = int(np.argmin(array < np.inf))
        raise ValueError(
            f"{name} must be finite, or -inf for items that were not retrieved; got {array[row]} "
            f"in row {row}."
        )
    return array


def split_scores(scores: NDArray[Any]) -> tuple[Array, NDArray[np.bool_] | None]:
    """Tell retrieved items from others.

    Parameters
    ----------
    scores : ndarray of shape (n_items,)
        Checked.

    Returns
    -------
    levels : ndarray of shape (n_items,)
        Finite numbers in the order of the scores, equal where these are equal.
    unretrieved : ndarray of bool, shape (n_items,), or None
        Which scores are -inf; None if no one is.
    """
    levels = as_levels(scores)
    if scores.dtype.kind != "f" or scores.min() > -np.inf:
        return levels, None
    unretrieved = np.isneginf(scores)
    lowest = float(levels.min(initial=0.0, where=~unretrieved))
    below = min(lowest - 1.0, math.nextafter(lowest, -math.inf))
    if math.isinf(below):  # there is no number in between
        return np.unique(levels, return_inverse=True)[1].astype(np.float64), unretrieved
    return np.where(unretrieved, below, levels), unretrieved


def _real_vector(name: str, values: ArrayLike) -> NDArray[Any]:
    """One-dimensional, of real numbers."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.argmax(np.ma.getmaskarray(values)))
        raise ValueError(f"{name} must be finite; got a masked value in row {row}.")
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {array.shape}.")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must hold real numbers; got dtype {array.dtype}.")
    if array.dtype.kind == "O":
        if all(isinstance(value, Integral) for value in array):
            return array
        array = as_float(name, array)
    return array


def as_float(name: str, array: NDArray[Any]) -> Array:
    """As float64, rounded where it has to be."""
    try:
        with np.errstate(over="ignore"):
            vector = np.ascontiguousarray(array, dtype=np.float64)
        if array.dtype.itemsize > vector.dtype.itemsize and not np.isfinite(vector).all():
            raise OverflowError
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers; {error}.") from None
    except OverflowError:
        raise ValueError(
            f"{name} holds a number that is too large for float64, and this metric needs its "
            f"value. Scale {name} down, or use a metric that looks at the order alone "
            "(pairwise_accuracy, kendall_tau)."
        ) from None
    return vector


def as_levels(array: NDArray[Any]) -> Array:
    """float64 numbers in the same order, equal where the values are equal."""
    if _is_exact(array):
        return np.ascontiguousarray(array, dtype=np.float64)
    return np.unique(array, return_inverse=True)[1].astype(np.float64)


def _is_exact(array: NDArray[Any]) -> bool:
    """Whether float64 tells all values of a checked vector apart."""
    kind = array.dtype.kind
    if kind == "f":
        return array.dtype.itemsize <= 8
    if kind in "iuO" and array.size:
        largest = max(abs(int(array.min())), abs(int(array.max())))
        return largest <= _LARGEST_EXACT_FLOAT
    return True
