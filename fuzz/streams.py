"""Compressed text: all members of it are read, and damage is an error, or was none.

gzip, bzip2 and xz have checksums, so that data with changed bytes are refused or read as they were.
zstd has them if it is asked; without, other data may come out, but nothing worse happens.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from random import Random
from unittest.mock import patch

import numpy as np
import zstandard

from fuzz.cases import damaged, repeat
from ranksvm.data import FileFormatError, load_letor, svmlight

ANY = bytes(range(256))


def zstd(draw: Random, text: bytes, *, checksum: bool) -> bytes:
    level = draw.choice((1, 3, 19))
    sized = draw.random() < 0.5
    compressor = zstandard.ZstdCompressor(
        level=level, write_checksum=checksum, write_content_size=sized
    )
    return compressor.compress(text)


COMPRESS = {
    "gzip": lambda draw, text: gzip.compress(text, draw.randrange(10)),
    "bzip2": lambda draw, text: bz2.compress(text, draw.randrange(1, 10)),
    "xz": lambda draw, text: lzma.compress(text, preset=draw.randrange(2)),
    "zstd": lambda draw, text: zstd(draw, text, checksum=True),
    "unchecked": lambda draw, text: zstd(draw, text, checksum=False),
}


def random_lines(draw: Random) -> bytes:
    if draw.random() < 0.2:  # compresses to almost nothing
        return b"1 1:2\n" * draw.randrange(1, 60_000)
    count = 10 ** draw.randrange(4)
    return b"".join(b"%d 1:%d\n" % (draw.randrange(3), draw.randrange(10**6)) for _ in range(count))


def read(content: bytes, block_bytes: int) -> np.ndarray | None:
    """Return labels and values; None if the data are refused."""
    try:
        with patch.object(svmlight, "block_size", lambda _: block_bytes):
            data = load_letor(io.BytesIO(content), dense=True, n_jobs=1)
    except FileFormatError:
        return None
    return np.column_stack([data.y, data.X])


def case(draw: Random) -> None:
    """Check one file of some members, whole and damaged."""
    kind = draw.choice(list(COMPRESS))
    texts = [random_lines(draw) for _ in range(draw.choice((1, 1, 2, 5)))]
    content = b"".join(COMPRESS[kind](draw, text) for text in texts)
    if draw.random() < 0.2:
        content += b"\0" * draw.randrange(1, 9)
    block_bytes = draw.choice((1000, 1 << 16, 1 << 22))
    wanted = read(b"".join(texts), block_bytes)
    assert wanted is not None
    found = read(content, block_bytes)
    assert found is not None, f"{kind}: {content[:99]!r} is refused"
    assert np.array_equal(found, wanted), f"{kind}: {content[:99]!r} is read as something else"

    wrong = content[: draw.randrange(len(content))]
    if draw.random() < 0.7:
        wrong = damaged(draw, content, ANY)
    found = read(wrong, block_bytes)
    # Cut between two members, or behind the last one, nothing is missing that could be noticed.
    begins = found is None or np.array_equal(found, wanted[: len(found)])
    repeated = kind != "unchecked" and len(wrong) > len(content)
    assert begins or repeated or kind == "unchecked", f"{kind}: damage went unnoticed"


def run(seconds: float, seed: int) -> int:
    """Check files for so long; return how many."""
    return repeat("streams", case, seconds, seed)
