"""Sizes of queries and weights of items beside LETOR text, against a slow reader."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path
from random import Random

import numpy as np

from fuzz.cases import repeat
from ranksvm.data.side_files import read_side_files

ALPHABET = b"0123456789 \t\r\n.eE-+x\x00\xff"
SIZE = re.compile(rb"[0-9]{1,15}")


def expected(text: bytes, suffix: str) -> list[float] | None:
    """Return the numbers of a file; None if it has to be refused."""
    found = []
    for line in text.split(b"\n"):
        field = line.strip()
        if b"\0" in line:
            return None
        if not field:
            continue
        try:
            value = float(field)
        except ValueError:
            return None
        if suffix == ".query" and not SIZE.fullmatch(field):
            return None
        if not math.isfinite(value) or value < 0.0:
            return None
        found.append(value)
    return found


def random_text(draw: Random) -> bytes:
    if draw.random() < 0.3:
        return bytes(draw.choices(ALPHABET, k=draw.randrange(30)))
    lines = [str(draw.choice((0, 1, 2, 7, 1.5, 1e-3))).encode() for _ in range(draw.randrange(6))]
    return draw.choice((b"\n", b"\r\n")).join(lines) + draw.choice((b"", b"\n"))


def case(draw: Random) -> None:
    suffix, text = draw.choice((".query", ".weight")), random_text(draw)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank.train"
        Path(f"{path}{suffix}").write_bytes(text)
        numbers = expected(text, suffix)
        right = 0 if numbers is None else int(sum(numbers)) if suffix == ".query" else len(numbers)
        n_items = draw.choice((right, right, right + 1))
        is_good = numbers is not None and n_items == right
        if suffix == ".weight":  # weights that are all zero, or none at all, are of no use
            is_good = is_good and bool(numbers) and max(numbers or [0.0]) > 0.0
        try:
            found = read_side_files([path], [n_items])
        except ValueError:
            assert not is_good, (suffix, text, n_items)
            return
        assert is_good, (suffix, text, n_items)
        assert numbers is not None
        if suffix == ".query":
            queries = [k for k, size in enumerate(numbers) for _ in range(int(size))]
            np.testing.assert_array_equal(found.qid, queries)
        else:
            np.testing.assert_array_equal(found.weight, numbers)


def run(seconds: float, seed: int) -> int:
    return repeat("sides", case, seconds, seed)
