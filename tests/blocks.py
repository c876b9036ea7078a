"""Read LETOR text in blocks of other sizes than the library does."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from ranksvm.data import RankingData, load_letor, svmlight
from ranksvm.data.sources import BLOCK_BYTES


def load_in_blocks(
    source: Any,
    *,
    block_bytes: int = BLOCK_BYTES,
    piece_bytes: int = svmlight.PIECE_BYTES,
    **options: Any,
) -> RankingData:
    with patch.multiple(svmlight, block_size=lambda _: block_bytes, PIECE_BYTES=piece_bytes):
        return load_letor(source, **options)
