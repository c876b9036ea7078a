"""Facts about the columns of X: means, deviations and ranges, weighted by items.

Dense columns take one pass of the native code, sparse ones a few of NumPy.  Facts of parts can
be joined to those of the whole (:meth:`Columns.joined`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._rounding import TINY
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array

# Values that differ by no more than this, relative to their size, differ by rounding errors: on one
# scale with other features, these would be as large, and products with X would have no digit left.
SAME = 1e-14


def is_one_value(low: Array, high: Array) -> NDArray[np.bool_]:
    """Return whether values between ``low`` and ``high`` differ by rounding errors at most."""
    size = np.maximum(np.abs(low), np.abs(high))
    return ~(0.5 * high - 0.5 * low > 0.5 * SAME * size)  # differences may overflow


@dataclass(frozen=True, eq=False)
class Columns:
    """Facts about the columns of X, over the items of positive weight.

    Attributes
    ----------
    weight : float
        Total weight of the items.
    mean, deviation, low, high : ndarray of shape (n_features,)
        Weighted mean and standard deviation, lowest and highest value.
    """

    weight: float
    mean: Array
    deviation: Array
    low: Array
    high: Array

    @property
    def is_constant(self) -> NDArray[np.bool_]:
        """Whether a column has one value only, up to rounding errors."""
        return is_one_value(self.low, self.high)

    @property
    def tallest(self) -> Array:
        """Largest absolute value of each column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def joined(self, other: Columns) -> Columns:
        """Return the facts about the items of both."""
        if not (self.weight > 0.0 and other.weight > 0.0):
            return self if self.weight > 0.0 else other
        weight = self.weight + other.weight
        share = other.weight / weight
        # In other units where differences may overflow.
        unit = np.where(np.maximum(self.tallest, other.tallest) > 1e300, 2.0**-4, 1.0)
        mean = unit * self.mean
        apart = unit * other.mean - mean
        between = np.sqrt(share * (1.0 - share)) * np.abs(apart)
        within = unit * np.hypot(
            np.sqrt(1.0 - share) * self.deviation, np.sqrt(share) * other.deviation
        )
        return Columns(
            weight,
            (mean + share * apart) / unit,
            np.hypot(within, between) / unit,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def find_columns(X: Any, weight: Array | None = None, n_threads: int = 1) -> Columns:
    """Return facts about the columns of X, dense or sparse; without a weight, all count alike."""
    if is_sparse(X):
        return _sparse_columns(X, weight)
    weights = np.empty(0) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    factor = np.ones(X.shape[1])
    total, flat = _core.column_moments(X, weights, factor, n_threads)
    mean, squares, low, high = flat.reshape(4, -1)
    factor = _units(low, high)
    if (factor != 1.0).any():
        total, flat = _core.column_moments(X, weights, factor, n_threads)
        mean, squares = flat.reshape(4, -1)[:2]
    deviation = np.sqrt(squares / max(total, TINY)) / factor
    return Columns(total, mean / factor, deviation, low, high)


def _units(low: Array, high: Array) -> Array:
    """Return factors, powers of two: without these, squares of values may over- or underflow."""
    factor = np.ones(low.size)
    size = np.maximum(np.abs(low), np.abs(high))
    is_odd = (low < high) & ~((size > 1e-130) & (size < 1e130))
    factor[is_odd] = np.exp2(-np.frexp(size[is_odd])[1].clip(-1020, 1020).astype(np.float64))
    return factor


def _sparse_columns(X: Any, weight: Array | None) -> Columns:
    n_items, n_features = X.shape
    X = canonical_csc(X)
    weights = np.ones(n_items) if weight is None else weight
    total = float(weights.sum())
    column = np.repeat(np.arange(n_features), np.diff(X.indptr))
    values, of_value = X.data.astype(np.float64), weights[X.indices]
    is_used = of_value > 0.0
    if not is_used.all():
        column, values, of_value = column[is_used], values[is_used], of_value[is_used]
    # Zero is a value of the column unless all items that count have an entry there.
    has_zero = np.bincount(column, minlength=n_features) < np.count_nonzero(weights)
    low = np.where(has_zero, 0.0, np.inf)
    high = -low
    np.minimum.at(low, column, values)
    np.maximum.at(high, column, values)
    factor = _units(low, high)
    if (factor != 1.0).any():
        values = values * factor[column]
    mean = np.bincount(column, of_value * values, n_features) / max(total, TINY)
    off = values - mean[column]
    squares = np.bincount(column, of_value * off * off, n_features).astype(np.float64)
    there = np.bincount(column, of_value, n_features)
    squares += np.where(has_zero, np.maximum(0.0, total - there), 0.0) * mean * mean
    deviation = np.sqrt(squares / max(total, TINY)) / factor
    return Columns(total, mean / factor, deviation, low, high)


def canonical_csc(X: Any) -> Any:
    """Return X as CSC in which no place has two entries, which would stand for their sum."""
    X = X.tocsc()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
