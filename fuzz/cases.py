"""What the parts share: cases one after the other for some time, and ways to spoil good input."""

from __future__ import annotations

import copy
import re
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

# How other kinds of files start; those are refused for another reason.
OTHER = re.compile(
    rb"\xff\xfe|\xfe\xff|\x1f[\x8b\x9d]|PAR1|PK|7z|Rar!|%PDF|BZh|ARROW1|SQLite|"
    rb"SVM-light Version |[\x04\x28\x7f\x80\x89\x93\xfd]"
)

ODD = (
    None, True, False, 0, -1, 1, 2, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400, 0.0, -0.0, 0.5,
    1e308, -1e308, 5e-324, "", "x", "nan", "inf", "\x1b[31m", "\ud800", "\u202e", "a\nb", [], {},
    [0], [[]], [None], {"a": 1}, {"$float": "inf"}, {"$float": "nan"}, {"$float": 1}, "linear",
    "rbf", "coef", "support", ["a", "b"], {"gamma": None},
)  # fmt: skip


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


def odd_value(draw: Random) -> Any:
    """Draw something that hardly any entry of a file should be."""
    return copy.deepcopy(draw.choice(ODD))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the containers in a value, with every key or index."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            yield from places(value[key])


def mutated(value: Any, draw: Random) -> Any:
    """Change a value made of lists and mappings in one to three places; returns it."""
    for _ in range(draw.randint(1, 3)):
        found = list(places(value))
        if not found:
            return value
        inside, key = draw.choice(found)
        match draw.randrange(5):
            case 0:
                del inside[key]
            case 1 if isinstance(inside, dict):
                inside[str(odd_value(draw))] = odd_value(draw)
            case 2:
                other, name = draw.choice(found)
                # One that lies around it would make a ring.
                taken = other[name] if not isinstance(other[name], dict | list) else None
                inside[key] = taken
            case 3 if isinstance(inside[key], int | float) and not isinstance(inside[key], bool):
                inside[key] = draw.choice([-inside[key], inside[key] + 1, 2 * inside[key], 0.5])
            case _:
                inside[key] = odd_value(draw)
    return value


def flipped(content: bytes, draw: Random) -> bytes:
    """Damage bytes: flip bits, cut, repeat or put in a piece."""
    data = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data) + 1)
        match draw.randrange(5):
            case 0 | 1 if at < len(data):
                data[at] ^= 1 << draw.randrange(8)
            case 2:
                del data[at : at + draw.randint(1, 20)]
            case 3:
                data[at:at] = data[at : at + draw.randint(1, 20)]
            case _:
                data[at:at] = draw.randbytes(draw.randint(1, 8))
    return bytes(data)
