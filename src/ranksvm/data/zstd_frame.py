"""Decompress zstd frames a few blocks at a time.

The package zstandard decompresses its whole input at once, up to 128 KiB for every four bytes.  To
limit the output, it is given only a few blocks at a time, which requires finding the boundaries of
the blocks.  A frame consists of a header, blocks of at most 128 KiB of data each, and possibly a
checksum:

    header    magic number (4 bytes), descriptor (1), window (0 or 1), dictionary (0 to 4), size of
              the content (0 to 8)
    block     last (1 bit), type (2 bits), size (21 bits); then that many bytes, or a single byte
              that is repeated that many times

From Python 3.14 on, the standard library has a decompressor with an output limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice


class ZstdFrame:
    """A decompressor for one frame, with the interface of those in the modules bz2 and lzma.

    Parameters
    ----------
    max_window : int
        Maximum window size of a frame in bytes; a larger one is an error.
    """

    _MAGIC = b"\x28\xb5\x2f\xfd"
    _BLOCK_BYTES = 1 << 17

    def __init__(self, max_window: int) -> None:
        try:
            import zstandard
        except ImportError:
            raise ImportError(
                "reading zstd data needs the package zstandard: pip install 'ranksvm[zstd]'"
            ) from None
        decompressor = zstandard.ZstdDecompressor(max_window_size=max_window)
        self._inflate = decompressor.decompressobj()
        self._data = b""  # not yet passed to zstandard
        self._known = 0  # offset of the next block in it
        self._steps = self._walk()
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data + self._data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._data += data
        n_blocks = max(1, max_length // self._BLOCK_BYTES)
        self.needs_input = not all(islice(self._steps, n_blocks))
        count = min(self._known, len(self._data))
        out = self._inflate.decompress(self._data[:count])
        self._data = self._data[count:]
        self._known -= count
        return out

    def _walk(self) -> Iterator[bool]:
        """Move past the header and block after block; yield False whenever more data is needed."""
        while len(self._data) < 5:
            yield False
        if not self._data.startswith(self._MAGIC):  # a skippable frame, or something else
            while True:
                self._known = len(self._data)
                yield False
        descriptor = self._data[4]
        single = descriptor >> 5 & 1
        content = (single, 2, 4, 8)[descriptor >> 6]
        self._known = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content
        yield True
        last = 0
        while not last:
            while len(self._data) < self._known + 3:
                yield False
            header = int.from_bytes(self._data[self._known : self._known + 3], "little")
            last = header & 1
            self._known += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
            if last:
                self._known += 4 * (descriptor >> 2 & 1)  # the checksum
            yield True
        while True:
            yield False
