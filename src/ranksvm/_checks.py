"""Checks of parameters and weights; the errors say what is wrong, what was given, what to do."""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np

from ranksvm._messages import Param, ParameterError, Value
from ranksvm._text import counted
from ranksvm._values import refuse_masked
from ranksvm._vectors import Array

_LARGEST_INTEGER = 2**63 - 1
# Pair weights are products of item weights; below this they lose digits or become zero.
SMALLEST_PAIR_WEIGHT = 1e-280


def check_positive(name: str, value: Any, subject: str = "{name}") -> None:
    """Raise unless ``value`` is a positive finite number; ``subject`` begins the message."""
    number = finite_number(value)
    if number is None or number <= 0.0:
        too_large = number is None and isinstance(value, int | Fraction) and value > 1
        raise ParameterError(
            subject + " must be a positive {what}; got {value}",
            name=Param(name),
            what="number below 1.8e308" if too_large else "finite number",
            value=Value(value),
        )


def check_integer(
    name: str, value: Any, least: int = 1, most: float = _LARGEST_INTEGER, also: str = ""
) -> int:
    """Return an integer of any type as an int; raise if it is too small or too large.

    ``least`` is 0 or 1.  ``also`` is added to the message, to name other values that are allowed.
    """
    if not is_integer(value) or not least <= value <= most:
        limit = " below 2^63" if most == _LARGEST_INTEGER else f" up to {most:,}"
        raise ParameterError(
            "{name} must be a {sign} integer{limit}{also}; got {value}",
            name=Param(name),
            sign="positive" if least else "non-negative",
            limit=limit if is_integer(value) and value > 0 else "",
            also=also,
            value=Value(value),
        )
    return int(value)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer of any type; True and False are not."""
    return isinstance(value, (int, Integral)) and not isinstance(value, bool)  # int is found sooner


def finite_number(value: Any) -> float | None:
    """Return a real number as a finite float; None if it is not a number or too large."""
    if isinstance(value, bool) or not isinstance(value, (float, Real)):  # float is found sooner
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer or a fraction with hundreds of digits
        return None
    return number if math.isfinite(number) else None


def check_seed(name: str, value: Any) -> None:
    """Raise unless ``value`` is None or a non-negative integer."""
    if value is not None and (not is_integer(value) or value < 0):
        raise ParameterError(
            "{name} must be None or a non-negative integer; got {value}",
            name=Param(name),
            value=Value(value),
        )


def check_choice(name: str, value: Any, valid: Collection[str | None], also: str = "") -> None:
    """Raise unless ``value`` is one of ``valid``; the error lists the valid values.

    ``also`` is added to the message, to name other values that are allowed.
    """
    is_name = value is None or isinstance(value, str)
    if not is_name or value not in valid:
        raise ParameterError(
            "{name} must be one of {valid}{also}; got {value}",
            name=Param(name),
            valid=", ".join(map(repr, valid)),
            also=also,
            value=Value(value),
        )


def check_flag(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(
            "{name} must be True or False; got {value}", name=Param(name), value=Value(value)
        )


def check_item_weight(weight: Any, n_items: int) -> Array | None:
    """Check item weights; return them as float64, or None if there are none."""
    if weight is None:
        return None
    if np.isscalar(weight):
        weight = np.full(n_items, weight)
    weights = check_weights("sample_weight", weight, n_items, "item")
    largest = float(weights.max(initial=0.0))
    if largest * largest < SMALLEST_PAIR_WEIGHT:
        raise ValueError(
            f"sample_weight is too small (largest {largest:g}): pair weights are products of item "
            "weights and underflow. Divide by sample_weight.max()."
        )
    return weights


def check_weights(
    name: str, weight: Any, n: int, unit: str, how: str = "", *, may_be_zero: bool = False
) -> Array:
    """Return weights as float64: finite, nonnegative, and at least one of them positive.

    Parameters
    ----------
    name : str
        Name of the weights in error messages.
    weight : array-like of shape (n,)
    n : int
        Number of items, queries or pairs.
    unit : str
        What they are, in the singular.
    how : str
        End of the error message about a wrong number of weights.
    may_be_zero : bool
        Whether all of them may be zero.
    """
    refuse_masked(name, weight)
    given = np.asarray(weight)
    if given.dtype.kind in "US" or (
        given.dtype == object and any(isinstance(one, str | bytes) for one in given.flat)
    ):
        raise ValueError(f"{name} must be numbers; got strings")
    if given.dtype.kind in "cmM":
        raise ValueError(f"{name} must be real numbers; got dtype {given.dtype}")
    try:
        weights: Array = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if given.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got an array of {given.ndim} dimensions")
    if len(weights) != n:
        raise ValueError(
            f"{name} has {len(weights)} values for {counted(n, unit)}; pass one weight per "
            f"{unit}{how}"
        )
    wrong = ~np.isfinite(weights) | (weights < 0.0)
    if wrong.any():
        at, place = int(np.argmax(wrong)), "row" if unit == "item" else unit
        raise ValueError(
            f"{name} must be finite and not negative; got {weights[at]} in {place} {at} "
            f"({int(wrong.sum())} such values)"
        )
    if not (may_be_zero or weights.any()):
        raise ValueError(f"{name} is zero everywhere: there is nothing to learn from")
    return weights
