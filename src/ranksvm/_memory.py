"""Memory sizes: parse them, print them, and compare them with the available memory."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ranksvm._checks import finite_number
from ranksvm._messages import Param, ParameterError, TooLittleMemoryError, Value

# Where Linux states the memory limit of a container (cgroup v2 and v1).
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

# Bytes that are not worth a look at the limits.
ALWAYS_THERE = 10**6

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([KMGT]?)(I?)B?\s*", re.IGNORECASE)


def parse_memory(name: str, value: Any) -> int:
    """Return the bytes meant by a number or a string such as "4GB", "512 MB" or "1.5GiB"."""
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
        raise ParameterError(
            "{name} must be a positive number of bytes or a string such as '4GB' or '512MB'; got "
            "{value}",
            name=Param(name),
            value=Value(value),
        )
    return int(size)


def format_size(size: float) -> str:
    """Return a size in readable units, such as "1.5 GB"."""
    for unit in ("T", "G", "M", "K"):
        if size >= UNITS[unit]:
            return f"{size / UNITS[unit]:.3g} {unit}B"
    return f"{size:.0f} bytes"


def available_memory() -> int | None:
    """Return the memory of the machine or container in bytes; None if unknown."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):  # not available on this system
        found = []
    for path in CGROUP_LIMITS:
        try:
            found.append(int(Path(path).read_text()))  # "max" means no limit
        except (OSError, ValueError):
            continue
    return min(found, default=None)


def check_memory(needed: int, what: str, remedy: Any) -> None:
    """Raise if ``needed`` bytes do not fit into memory; ``remedy`` is a str or a Message."""
    if needed <= ALWAYS_THERE:  # asking the system takes longer than a small fit
        return
    memory = available_memory()
    if memory is not None and needed > 0.8 * memory:
        raise TooLittleMemoryError(
            "fitting needs about {needed:.0f} GB for {what}, but only {memory:.0f} GB are "
            "available. {remedy}",
            needed=needed / 1e9,
            what=what,
            memory=memory / 1e9,
            remedy=remedy,
        )
