"""What the parts share: time, seeds, and values that readers do not expect."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["cases", "flipped", "mutated", "odd_value"]

ODD = (
    None, True, False, 0, -1, 1, 2, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400, 0.0, -0.0, 0.5,
    1e308, -1e308, 5e-324, "", "x", "nan", "inf", "\x1b[31m", "\ud800", "\u202e", "a\nb", [], {},
    [0], [[]], [None], {"a": 1}, {"$float": "inf"}, {"$float": "nan"}, {"$float": 1}, "linear",
    "rbf", "coef", "support", ["a", "b"], {"gamma": None},
)  # fmt: skip


def cases(seconds: float, seed: int, run_one: Callable[[random.Random], None], part: str) -> int:
    """Run cases until the time is over; every one has a seed of its own, told if it fails."""
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        try:
            run_one(random.Random(f"{seed} {number}"))
        except BaseException:
            print(f"{part}: case {number} of seed {seed} failed", flush=True)
            raise
        number += 1
    return number


def odd_value(draw: random.Random) -> Any:
    """Draw something that hardly any entry of a file should be."""
    return copy.deepcopy(draw.choice(ODD))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the containers in a value, with every key or index."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            yield from places(value[key])


def mutated(value: Any, draw: random.Random) -> Any:
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


def flipped(content: bytes, draw: random.Random) -> bytes:
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
