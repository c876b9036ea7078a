"""Checks of parameters and weights: what was wrong, what was got, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from ranksvm._vectors import Array

__all__ = [
    "as_weights",
    "check_choice",
    "check_item_weight",
    "check_positive",
    "check_seed",
    "check_weights",
]


def check_positive(name: str, value: Any, *, integer: bool = False) -> None:
    """Raise unless ``value`` is a positive finite number (a positive integer)."""
    kind = Integral if integer else Real
    fine = isinstance(value, kind) and not isinstance(value, bool)
    if not fine or not 0 < value < np.inf:
        what = "a positive integer" if integer else "a positive finite number"
        raise ValueError(f"{name} must be {what}; got {value!r}")


def check_seed(name: str, value: Any) -> None:
    """Raise unless ``value`` is None or an integer from 0 on."""
    if value is not None and (not isinstance(value, Integral) or value < 0):
        raise ValueError(f"{name} must be None or an integer from 0 on; got {value!r}")


def check_choice(name: str, value: Any, valid: Iterable[str]) -> None:
    """Raise unless ``value`` is one of ``valid``; the error lists them."""
    valid = list(valid)
    if not isinstance(value, str) or value not in valid:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, valid))}; got {value!r}")


def check_item_weight(weight: Any, n_items: int) -> Array | None:
    """Item weights as float64, or None."""
    if weight is None:
        return None
    if np.isscalar(weight):
        weight = np.full(n_items, weight)
    weights = as_weights("sample_weight", weight)
    if len(weights) != n_items:
        raise ValueError(
            f"sample_weight has {len(weights)} values for {n_items} items; give one weight per item"
        )
    check_weights("sample_weight", weights, "row")
    return weights


def as_weights(name: str, weight: Any) -> Array:
    """One-dimensional float64."""
    try:
        weights: Array = np.ascontiguousarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if np.asarray(weight).ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional; got an array of {np.asarray(weight).ndim} dimensions"
        )
    return weights


def check_weights(name: str, weight: Array, unit: str) -> None:
    """Finite, not negative, and not all zero."""
    wrong = ~np.isfinite(weight) | (weight < 0.0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must be finite and not negative; got {weight[at]} in {unit} {at} "
            f"({int(wrong.sum())} such values)"
        )
    if not weight.any():
        raise ValueError(f"{name} is zero everywhere: there is nothing to learn from")
