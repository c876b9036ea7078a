"""Sizes of memory: read, and told."""

from __future__ import annotations

import re
from typing import Any

from ranksvm._checks import finite_number, shown

__all__ = ["parse_memory", "told"]

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([KMGT]?)(I?)B?\s*", re.IGNORECASE)


def parse_memory(name: str, value: Any) -> int:
    """Bytes from a number or a text such as "4GB", "512 MB" or "1.5GiB"."""
    size = -1.0
    if isinstance(value, str):
        match = SIZE.fullmatch(value)
        if match is not None:
            number, unit, binary = match.groups()
            factor = UNITS[unit.upper()]
            if binary:
                factor = 1024 ** (len(str(factor)) // 3)
            size = float(number) * factor
    else:
        size = finite_number(value) or size
    if not 0.0 < size < 2.0**63:
        raise ValueError(
            f"{name} must be a positive number of bytes or a text such as '4GB' or '512MB'; got "
            f"{shown(value)}"
        )
    return int(size)


def told(size: float) -> str:
    """Return a size as a person would say it."""
    for unit in ("T", "G", "M", "K"):
        if size >= UNITS[unit]:
            return f"{size / UNITS[unit]:.3g} {unit}B"
    return f"{size:.0f} bytes"
