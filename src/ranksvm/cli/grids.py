"""Numbers and grids of numbers, as options take them.

2^-5, 0.1                  numbers
0.1,1,10 or 2^-5,2^0       values
0.01:100:5                 from:to:how_many, evenly in the logarithm
"""

from __future__ import annotations

import math

from ranksvm.cli.output import UsageProblem
from ranksvm.learners.settings import parse_number

__all__ = ["parse_grid"]

_MOST = 1000


def parse_grid(text: str, option: str) -> list[float]:
    """Read positive and different values, or a range of such.

    Parameters
    ----------
    text : str
    option : str
        Whose value it is, for messages.
    """
    try:
        values = _range(text) if ":" in text else [parse_number(part) for part in text.split(",")]
        if not all(0.0 < value < math.inf for value in values) or len(values) > _MOST:
            raise ValueError
    except (ValueError, OverflowError, ZeroDivisionError):
        raise UsageProblem(
            f"{option} {text!r}: expected positive numbers such as 0.1,1,10 or 2^-5,2^0, or a "
            f"range from:to:how_many such as 0.01:100:5; at most {_MOST}"
        ) from None
    if len(set(values)) < len(values):
        raise UsageProblem(f"{option} {text!r} has a value twice")
    return values


def _range(text: str) -> list[float]:
    first, last, count = text.split(":")
    low, high, n = parse_number(first), parse_number(last), int(count)
    if not 1 <= n <= _MOST or not (0.0 < low < math.inf and 0.0 < high < math.inf):
        raise ValueError
    step = (math.log(high) - math.log(low)) / max(1, n - 1)
    between = (low * math.exp(step * k) for k in range(1, n - 1))
    # Twelve digits, so that a grid of powers of ten is one.
    return [low, *(float(f"{value:.12g}") for value in between), high][:n]
