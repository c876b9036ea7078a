"""What all parts share: cases one after the other for some time, and damage to good bytes."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from random import Random

__all__ = ["OTHER", "damaged", "repeat"]

# How other kinds of files start; those are refused for another reason.
OTHER = re.compile(
    rb"\xff\xfe|\xfe\xff|\x1f[\x8b\x9d]|PAR1|PK|7z|Rar!|%PDF|BZh|ARROW1|SQLite|[\x04\x28\x7f\x89\x93\xfd]"
)


def repeat(name: str, case: Callable[[Random], object], seconds: float, seed: int) -> int:
    """Call ``case`` with one generator after the other; return how often.

    Parameters
    ----------
    name : str
        Of the part.
    case : callable
        Draws something and checks it; raises what was found.
    seconds : float
        Time for all cases; there is at least one.
    seed : int
        Of the first case; that of the next is one more.
    """
    end = time.monotonic() + seconds
    n_cases = 0
    while n_cases == 0 or time.monotonic() < end:
        try:
            case(Random(seed + n_cases))
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):
                again = f"python -m fuzz {name} --seconds 0 --seed {seed + n_cases}"
                print(f"fuzz: {name}: case {n_cases} failed. Again: {again}", file=sys.stderr)
            raise
        n_cases += 1
    return n_cases


def damaged(draw: Random, good: bytes, alphabet: bytes) -> bytes:
    """Some bytes changed, dropped or inserted, or a stretch repeated."""
    text = bytearray(good)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(text) + 1)
        match draw.randrange(4):
            case 0:
                text[at : at + 1] = [draw.choice(alphabet)]
            case 1:
                del text[at : at + draw.randrange(1, 4)]
            case 2:
                text.insert(at, draw.choice(alphabet))
            case _:
                begin = draw.randrange(len(text) + 1)
                text[at:at] = text[begin : begin + draw.randrange(1, 40)]
    return bytes(text)
