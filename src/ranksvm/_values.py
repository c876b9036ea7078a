"""Vectors of user-supplied numbers, with their exact order preserved.

Labels are often only compared with each other.  float64 makes neighboring integers beyond 2^53
equal, which would lose pairs.  A vector therefore keeps a type that holds its values exactly: NumPy
numbers as they are, everything else (integers of any size, Fraction, Decimal, columns of pandas,
polars and Arrow) as Python numbers in an object array.  :func:`as_levels` converts it to float64
and preserves the order; :func:`as_float` converts it to the nearest float64 values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array

_LARGEST_EXACT_FLOAT = 2**53


def refuse_masked(name: str, values: Any) -> None:
    """Raise if a NumPy masked array, or one in a list of arrays, has masked entries."""
    if isinstance(values, list | tuple):
        parts = [part for part in values if isinstance(part, np.ma.MaskedArray)]
        n_masked = int(sum(np.ma.getmaskarray(part).sum() for part in parts))
        place, fill = "", f"[np.ma.filled(part, value) for part in {name}]"
    elif isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        n_masked = int(mask.sum())
        row = int(np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1))[0]) if n_masked else 0
        place, fill = f", the first in row {row}", f"{name}.filled(value)"
    else:
        return
    if n_masked:
        raise ValueError(
            f"{name} has {n_masked} masked {'value' if n_masked == 1 else 'values'}{place}: masked "
            f"values count as missing. Drop these rows, or fill the values in with {fill}."
        )


def exact_vector(name: str, values: Any, remedy: str = "") -> NDArray[Any]:
    """Return real numbers in a type that keeps their exact values.

    Parameters
    ----------
    name : str
        Name of the vector in error messages.
    values : array-like of any shape
        NumPy or Python numbers, Fraction or Decimal; or a Series or column of them.
    remedy : str
        Advice at the end of the message about values that are not numbers.

    Returns
    -------
    ndarray
        Booleans, integers or floats, or objects: int, float, Fraction and finite Decimal, which
        Python compares exactly.  Missing values are NaN.
    """
    refuse_masked(name, values)
    array = _as_array(values)
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind != "O":
        raise ValueError(_not_numbers(name, f"dtype {array.dtype}", remedy))
    exact = np.empty(array.shape, dtype=object)
    for at, value in enumerate(array.flat):
        number = _exact_number(value)
        if number is None:
            got = f"a value of type {type(value).__name__} in row {at}"
            raise ValueError(_not_numbers(name, got, remedy))
        exact.flat[at] = number
    return exact


def finite_values(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each value of an exact vector is neither NaN nor infinite."""
    if array.dtype.kind == "f":
        return np.asarray(np.isfinite(array))
    if array.dtype.kind != "O":
        return np.ones(array.shape, dtype=np.bool_)
    finite = (not isinstance(value, float) or math.isfinite(value) for value in array.flat)
    return np.fromiter(finite, np.bool_, array.size).reshape(array.shape)


def where_not_finite(array: NDArray[Any]) -> int | None:
    """Return the index of the first NaN or infinite value of an exact vector, or None."""
    finite = finite_values(array)
    return None if finite.all() else int(np.argmin(finite))


def float_type(types: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return float32 if it represents all values of some types exactly, else float64."""
    exact = all(np.can_cast(one, np.float32, "safe") for one in types)
    return np.dtype(np.float32 if exact else np.float64)


def is_exact(array: NDArray[Any]) -> bool:
    """Return whether float64 represents all values of an exact vector exactly."""
    kind = array.dtype.kind
    if kind == "f":
        if array.dtype.itemsize <= 8:
            return True
        with np.errstate(over="ignore"):
            return bool(np.all(array.astype(np.float64) == array))
    if kind in "iu" and array.size:
        return max(abs(int(array.min())), abs(int(array.max()))) <= _LARGEST_EXACT_FLOAT
    return kind != "O" or all(map(_float_holds, array.flat))


def as_levels(array: NDArray[Any]) -> Array:
    """Return float64 numbers with the same order and ties: the values, or else their ranks."""
    if is_exact(array):
        return np.ascontiguousarray(array, dtype=np.float64)
    return np.unique(array, return_inverse=True)[1].astype(np.float64)


def as_float(name: str, array: NDArray[Any]) -> Array:
    """Return the values as float64, rounded if necessary."""
    try:
        with np.errstate(over="ignore"):
            vector = np.ascontiguousarray(array, dtype=np.float64)
        longer = array.dtype.kind == "O" or array.dtype.itemsize > vector.dtype.itemsize
        if longer and bool((~np.isfinite(vector) & finite_values(array)).any()):
            raise OverflowError
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers; {error}.") from None
    except OverflowError:
        raise ValueError(
            f"{name} holds a number that is too large for float64, and its value is needed here. "
            f"Scale {name} down, or use a metric that depends only on the order "
            "(pairwise_accuracy, kendall_tau)."
        ) from None
    return vector


def merges_values(array: NDArray[Any]) -> bool:
    """Return whether rounding to float64 makes different values of an exact vector equal."""
    if is_exact(array):
        return False
    if array.dtype.kind == "O":
        rounded = np.array([_rounded(value) for value in array.flat])
    else:
        with np.errstate(over="ignore"):
            rounded = array.astype(np.float64)
    return bool(np.unique(rounded).size < np.unique(array).size)


def is_missing(value: Any) -> bool:
    """Return whether an object is a missing value: None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    try:
        return not bool(value == value)
    except TypeError:  # pandas' NA has no truth value
        return True


def _as_array(values: Any) -> NDArray[Any]:
    """Convert like np.asarray, but without rounding integers to floats."""
    if isinstance(values, list | tuple):
        array = np.asarray(values)
        # NumPy rounds a list such as [2^63, -1] or [2^60 + 1, 0.5].
        rounded = array.ndim == 1 and array.dtype.kind == "f"
        if rounded and not bool((np.abs(array) < _LARGEST_EXACT_FLOAT).all()):
            return as_objects(values)
        return array
    try:
        return np.asarray(values)
    except Exception:
        if not hasattr(values, "to_list"):
            raise
        return as_objects(values.to_list())  # a Series of a type that NumPy lacks: 128-bit integers


def as_objects(values: Any) -> NDArray[np.object_]:
    """Return an object array of a sequence, whose items NumPy leaves as they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _exact_number(value: Any) -> Any:
    """Return a Python number that compares exactly; NaN if missing, None if not a number."""
    if is_missing(value):
        return math.nan
    if isinstance(value, str | bytes | complex):
        return None
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Decimal):
        return value if value.is_finite() else float(value)
    if isinstance(value, Rational) and not isinstance(value, Integral):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, np.floating):  # float64 is a Python float; this is another precision
        return Fraction(*value.as_integer_ratio()) if np.isfinite(value) else float(value)
    for convert in (operator.index, float):
        try:
            return convert(value)
        except (TypeError, ValueError):
            pass
    return None


def _float_holds(value: Any) -> bool:
    rounded = _rounded(value)
    return bool(rounded == value) or math.isnan(rounded)


def _rounded(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _not_numbers(name: str, got: str, remedy: str) -> str:
    return f"{name} must hold real numbers; got {got}.{' ' if remedy else ''}{remedy}"
