"""Vectors from the outside: one-dimensional, real, finite, and in an exact order.

Most metrics look at the order of y, all of them at nothing but the order of the scores
(:mod:`ranksvm._values` keeps it); gains and relevance need the values of y.

A score of -inf belongs to an item that was not retrieved: it is below all others.  For the sort,
which wants finite numbers, it becomes a number below them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._values import as_float, as_levels, exact_vector, finite_values
from ranksvm._vectors import Array

__all__ = [
    "check_scores",
    "check_vector",
    "check_vectors",
    "check_weight",
    "split_scores",
]


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
    """One-dimensional and finite, in a type that keeps the values."""
    array = _real_vector(name, values)
    finite = finite_values(array)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"{name} must be finite; got {array[row]} in row {row}.")
    return array


def check_scores(name: str, values: ArrayLike) -> NDArray[Any]:
    """As :func:`check_vector`, but -inf is a score, too."""
    array = _real_vector(name, values)
    if array.dtype.kind == "O" and not finite_values(array).all():
        array = as_float(name, array)
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
    array = exact_vector(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {array.shape}.")
    return array
