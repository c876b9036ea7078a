"""Checks of parameters and weights; the errors say what is wrong, what was given, what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np

from ranksvm._messages import Param, ParameterError
from ranksvm._values import refuse_masked
from ranksvm._vectors import Array

__all__ = [
    "SMALLEST_PAIR_WEIGHT",
    "as_weights",
    "check_choice",
    "check_integer",
    "check_item_weight",
    "check_positive",
    "check_seed",
    "check_weights",
    "finite_number",
    "shown",
]


# Maximum number of characters of a value that an error message shows.
_MOST_SHOWN = 60
_LARGEST_INTEGER = 2**63 - 1
# Pair weights are products of item weights; below this they lose digits or become zero.
SMALLEST_PAIR_WEIGHT = 1e-280


def check_positive(name: str, value: Any, *, integer: bool = False) -> None:
    """Raise unless ``value`` is a positive finite number (or a positive 64-bit integer)."""
    number = finite_number(value)
    if integer:
        fine = isinstance(value, Integral) and not isinstance(value, bool)
        fine = fine and 0 < value <= _LARGEST_INTEGER
    else:
        fine = number is not None and number > 0.0
    if not fine:
        what = "a positive finite number"
        if isinstance(value, int | Fraction) and value > 1 and number is None:
            what = "a positive number below 1.8e308"
        if integer:
            what = "a positive integer"
            if isinstance(value, Integral) and int(value) > _LARGEST_INTEGER:
                what += " below 2^63"
        raise ParameterError(
            "{name} must be {what}; got {value}", name=Param(name), what=what, value=shown(value)
        )


def check_integer(name: str, value: Any, least: int, also: str = "") -> int:
    """Return an integer of any type as an int; raise if it is smaller than ``least``.

    ``also`` is added to the message, to name other values that are allowed.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(
            "{name} must be an integer >= {least}{also}; got {value}",
            name=Param(name),
            least=least,
            also=also,
            value=shown(value),
        )
    return int(value)


def finite_number(value: Any) -> float | None:
    """Return a real number as a finite float; None if it is not a number or too large."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer or a fraction with hundreds of digits
        return None
    return number if math.isfinite(number) else None


def shown(value: Any) -> str:
    """Return the ``repr`` of a value, shortened if it is long."""
    if isinstance(value, int) and abs(value) >= 10**_MOST_SHOWN:
        sign = "an" if value > 0 else "a negative"
        return f"{sign} integer of {_digits(abs(value)):,} digits"
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # Python refuses to print integers with thousands of digits
        text = f"a {type(value).__name__} of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _digits(value: int) -> int:
    """Return the number of decimal digits of a positive integer that Python may not print."""
    count = max(1, int(math.log10(value)) - 1)  # the logarithm is rounded
    while 10**count <= value:
        count += 1
    return count


def check_seed(name: str, value: Any) -> None:
    """Raise unless ``value`` is None or a non-negative integer."""
    if value is not None and (not isinstance(value, Integral) or value < 0):
        raise ParameterError(
            "{name} must be None or a non-negative integer; got {value}",
            name=Param(name),
            value=shown(value),
        )


def check_choice(name: str, value: Any, valid: Iterable[str]) -> None:
    """Raise unless ``value`` is one of ``valid``; the error lists the valid values."""
    valid = list(valid)
    if not isinstance(value, str) or value not in valid:
        raise ParameterError(
            "{name} must be one of {valid}; got {value}",
            name=Param(name),
            valid=", ".join(map(repr, valid)),
            value=shown(value),
        )


def check_item_weight(weight: Any, n_items: int) -> Array | None:
    """Check item weights; return them as float64, or None if there are none."""
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
    largest = float(weights.max(initial=0.0))
    if largest * largest < SMALLEST_PAIR_WEIGHT:
        raise ValueError(
            f"sample_weight is too small (largest {largest:g}): pair weights are products of item "
            "weights and underflow. Divide by sample_weight.max()."
        )
    return weights


def as_weights(name: str, weight: Any) -> Array:
    """Return weights as a one-dimensional float64 array."""
    refuse_masked(name, weight)
    given = np.asarray(weight)
    if given.dtype.kind in "cmM":
        raise ValueError(f"{name} must be real numbers; got dtype {given.dtype}")
    try:
        weights: Array = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if given.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got an array of {given.ndim} dimensions")
    return weights


def check_weights(name: str, weight: Array, unit: str) -> None:
    """Raise unless all weights are finite and nonnegative, and at least one is positive."""
    wrong = ~np.isfinite(weight) | (weight < 0.0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must be finite and not negative; got {weight[at]} in {unit} {at} "
            f"({int(wrong.sum())} such values)"
        )
    if not weight.any():
        raise ValueError(f"{name} is zero everywhere: there is nothing to learn from")
