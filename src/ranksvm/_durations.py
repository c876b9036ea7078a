"""Lengths of time: numbers of seconds, or text such as ``5m``."""

from __future__ import annotations

import math
import re
from typing import Any

from ranksvm._checks import finite_number
from ranksvm._messages import Param, ParameterError, Value

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TEXT = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+)\s*(?P<unit>[a-z]*)", re.IGNORECASE)


def parse_duration(name: str, value: Any) -> float:
    """Return a length of time in seconds.

    Parameters
    ----------
    name : str
        Name of the parameter in error messages.
    value : float or str
        Seconds; or text such as "90", "90s", "5m", "1.5h".
    """
    if isinstance(value, str):
        match = _TEXT.fullmatch(value.strip())
        unit = None if match is None else UNITS.get(match["unit"].lower())
        seconds = None if match is None or unit is None else float(match["number"]) * unit
    else:
        seconds = finite_number(value)
    if seconds is None or not 0.0 < seconds < math.inf:
        raise ParameterError(
            "{name} must be a positive number of seconds, or text such as 90s, 5m or 1.5h; got "
            "{value}",
            name=Param(name),
            value=Value(value),
        )
    return seconds
