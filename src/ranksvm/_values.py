"""Vectors of numbers from the outside: none missing, and in their exact order.

Utilities are compared with each other, and often nothing else is done with them.  float64 makes
neighbouring integers beyond 2^53 equal, and with them the pairs are gone.  So a vector keeps the
type that holds its values: NumPy's numbers as they are, everything else (integers of any size,
Fraction, Decimal, columns of pandas, polars and Arrow) as Python's numbers in an array of objects.
:func:`as_levels` makes float64 of it without losing the order, :func:`as_float` with the values as
near as float64 has them.
"""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array

__all__ = [
    "as_float",
    "as_levels",
    "exact_vector",
    "finite_values",
    "is_exact",
    "is_missing",
    "merges_values",
    "refuse_masked",
]

_LARGEST_EXACT_FLOAT = 2**53


def refuse_masked(name: str, values: Any) -> None:
    """Raise when entries of a NumPy masked array, or of a list of such, are masked."""
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
    """Real numbers in a type that keeps their values; of any shape, missing ones as NaN.

    Parameters
    ----------
    name : str
        What error messages call the vector.
    values : array-like
        Numbers of NumPy or Python, Fraction or Decimal; a Series or column of them.
    remedy : str
        Ends the message about values that are no numbers.

    Returns
    -------
    ndarray
        Of booleans, integers or floats, or of objects: int, float, Fraction and finite Decimal,
        which Python compares exactly.
    """
    refuse_masked(name, values)
    array = _as_array(values)
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind != "O":
        raise ValueError(_no_numbers(name, f"dtype {array.dtype}", remedy))
    exact = np.empty(array.shape, dtype=object)
    for at, value in enumerate(array.flat):
        number = _exact_number(value)
        if number is None:
            got = f"a value of type {type(value).__name__} in row {at}"
            raise ValueError(_no_numbers(name, got, remedy))
        exact.flat[at] = number
    return exact


def finite_values(array: NDArray[Any]) -> NDArray[np.bool_]:
    """By value of an exact vector: whether it is neither NaN nor infinite."""
    if array.dtype.kind == "f":
        return np.asarray(np.isfinite(array))
    if array.dtype.kind != "O":
        return np.ones(array.shape, dtype=np.bool_)
    finite = (not isinstance(value, float) or math.isfinite(value) for value in array.flat)
    return np.fromiter(finite, np.bool_, array.size).reshape(array.shape)


def is_exact(array: NDArray[Any]) -> bool:
    """Whether float64 holds all values of an exact vector as they are."""
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
    """float64 numbers in the same order, equal where the values are equal: the values or ranks."""
    if is_exact(array):
        return np.ascontiguousarray(array, dtype=np.float64)
    return np.unique(array, return_inverse=True)[1].astype(np.float64)


def as_float(name: str, array: NDArray[Any]) -> Array:
    """Values as float64, rounded where they have to be."""
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
            f"Scale {name} down, or use a metric that looks at the order alone "
            "(pairwise_accuracy, kendall_tau)."
        ) from None
    return vector


def merges_values(array: NDArray[Any]) -> bool:
    """Whether float64 makes different values of an exact vector equal."""
    if is_exact(array):
        return False
    if array.dtype.kind == "O":
        rounded = np.array([_rounded(value) for value in array.flat])
    else:
        with np.errstate(over="ignore"):
            rounded = array.astype(np.float64)
    return bool(np.unique(rounded).size < np.unique(array).size)


def is_missing(value: Any) -> bool:
    """Whether an object stands for "no value": None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    try:
        return not bool(value == value)
    except TypeError:  # pandas' NA refuses to be true or false
        return True


def _as_array(values: Any) -> NDArray[Any]:
    """As np.asarray, but integers do not become floats that cannot hold them."""
    if isinstance(values, list | tuple):
        array = np.asarray(values)
        # A list of 2^63 and -1, or of 2^60 + 1 and 0.5, is rounded by NumPy.
        rounded = array.ndim == 1 and array.dtype.kind == "f"
        if rounded and not bool((np.abs(array) < _LARGEST_EXACT_FLOAT).all()):
            return _objects(values)
        return array
    try:
        return np.asarray(values)
    except Exception:
        if not hasattr(values, "to_list"):
            raise
        return _objects(values.to_list())  # a Series of a type that NumPy has not: 128 bits


def _objects(values: Any) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _exact_number(value: Any) -> Any:
    """Return a number of Python that compares exactly; NaN if missing, None if it is no number."""
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
    if isinstance(value, np.floating):  # no float of Python's: of another length
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


def _no_numbers(name: str, got: str, remedy: str) -> str:
    return f"{name} must hold real numbers; got {got}.{' ' if remedy else ''}{remedy}"
