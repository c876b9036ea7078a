"""Lossless JSON for the description of a model, and its checksum.

    None, True, 3, "text"     as in JSON; strings in ASCII with escapes, which can also represent
                              what UTF-8 cannot: half a surrogate pair in a feature name
    0.1, -0.0, 1e-300         the shortest digits that give the same bits back
    inf, -inf, nan            {"$float": "inf"}, {"$float": "-inf"}, {"$float": "nan"}, because JSON
                              has no such numbers
    lists, tuples             lists
    mappings                  objects with sorted, unique keys

Nothing else is written or read.  The values in a text are counted before it is parsed, because they
take far more memory than their text.  The limit is 5,000,000 values (enough for the names of
millions of features), of which 100,000 may be lists and mappings.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEEPEST = 64  # nested lists and mappings
LONGEST_INTEGER = 2048  # bits; Python does not parse much longer ones
MOST_VALUES = 5_000_000  # in a text
MOST_CONTAINERS = 100_000  # lists and mappings among them
NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """Convert a value to types that JSON has.

    Parameters
    ----------
    value : object
        The value.
    where : str
        Its name in messages.
    depth : int
        Number of lists and mappings that contain it.

    Raises
    ------
    TypeError, ValueError
        If JSON cannot represent it, or it is nested too deeply or too large.
    """
    if depth > DEEPEST:
        raise ValueError(f"{where[:80]}... is nested more than {DEEPEST} levels deep")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if value.bit_length() > LONGEST_INTEGER:
            raise ValueError(
                f"{where} is an integer of {value.bit_length()} bits; the limit is "
                f"{LONGEST_INTEGER}"
            )
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == "$float":
                raise TypeError(f"{where} has the key {key!r}; keys must be strings, not '$float'")
        return {key: plain(value[key], f"{where}[{key!r}]", depth + 1) for key in value}
    raise TypeError(
        f"{where} is a {type(value).__name__}; a model file can only contain numbers, strings, and "
        "lists and mappings of these"
    )


def restored(value: Any, depth: int = 0) -> Any:
    """Undo :func:`plain`; raises a ValueError for a value that it cannot return."""
    if depth > DEEPEST:
        raise ValueError(f"values are nested more than {DEEPEST} levels deep")
    if isinstance(value, list):
        return [restored(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "$float" not in value:
        return {key: restored(item, depth + 1) for key, item in value.items()}
    name = value["$float"]
    if len(value) > 1 or not isinstance(name, str) or name not in NON_FINITE:
        raise ValueError(f"{reprlib.repr(value)} is not a number")
    return NON_FINITE[name]


def to_json(value: Any) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_extent(text: bytes) -> None:
    """Raise a ValueError if a JSON text contains too many values, without parsing it.

    The count is correct up to the first syntax error, where a parser stops as well.
    """
    values, containers = _extent(text)
    if values > MOST_VALUES or containers > MOST_CONTAINERS:
        # Strings may contain these characters, too: count again without strings.
        unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
        values, containers = _extent(re.sub(rb'"[^"]*"?', b"", unescaped))
    if values > MOST_VALUES:
        raise ValueError(f"too many values ({values:,}; the limit is {MOST_VALUES:,})")
    if containers > MOST_CONTAINERS:
        raise ValueError(
            f"too many lists and mappings ({containers:,}; the limit is {MOST_CONTAINERS:,})"
        )


def _extent(text: bytes) -> tuple[int, int]:
    """Count the values, and the lists and mappings among them."""
    containers = text.count(b"{") + text.count(b"[")
    return containers + text.count(b","), containers


def from_json(text: str) -> Any:
    """Parse strict JSON; raises a ValueError or RecursionError if it is invalid."""
    return json.loads(
        text, object_pairs_hook=_without_duplicates, parse_float=_finite, parse_constant=_finite
    )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise ValueError(f"duplicate entry {reprlib.repr(name)}")
        entries[name] = value
    return entries


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def checksum(entries: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of a description and arrays.

    The hash covers the JSON text of the description and then, for every array, sorted by name, a
    JSON text with its name, shape and type (in NumPy's notation, "<f8") and its bytes.

    Parameters
    ----------
    entries : mapping
        The description, in types that JSON has.
    arrays : mapping of str to ndarray
        Little-endian, in C order.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256(to_json(entries).encode("ascii"))
    for name, array in sorted(arrays.items()):
        frame = {"name": name, "type": array.dtype.str, "shape": array.shape}
        digest.update(to_json(frame).encode("ascii"))
        digest.update(array.data)
    return digest.hexdigest()
