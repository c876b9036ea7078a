"""Frames of zstd, decompressed a few blocks at a time.

The package zstandard gives out all that its input holds, which may be 128 KiB for every four bytes.
So it gets no more than some blocks at a time, and for that their borders have to be known.  A frame
is a header, blocks of at most 128 KiB of data each, and perhaps a checksum:

    header    magic number (4 bytes), descriptor (1), window (0 or 1), dictionary (0 to 4), size of
              the content (0 to 8)
    block     last (1 bit), type (2 bits), size (21 bits); then so many bytes, or one byte that is
              repeated so often

Python has a decompressor that does this by itself from 3.14 on.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ZstdFrame"]


class ZstdFrame:
    """A decompressor as those of the modules bz2 and lzma, for one frame.

    Parameters
    ----------
    max_window : int
        Bytes that a frame may ask for; more is an error.
    """

    _MAGIC = b"\x28\xb5\x2f\xfd"
    _BLOCK_BYTES = 1 << 17

    def __init__(self, max_window: int) -> None:
        try:
            import zstandard
        except ImportError:
            raise ImportError(
                "zstd data need the package zstandard: pip install 'ranksvm[zstd]'"
            ) from None
        decompressor = zstandard.ZstdDecompressor(max_window_size=max_window)
        self._inflate = decompressor.decompressobj()
        self._data = b""  # not handed over yet
        self._known = 0  # bytes of it up to where the next block begins
        self._step: Callable[[], bool] = self._header
        self._checksum = 0
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data + self._data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._data += data
        steps = range(max(1, max_length // self._BLOCK_BYTES))
        self.needs_input = not all(self._step() for _ in steps)
        count = min(self._known, len(self._data))
        out = self._inflate.decompress(self._data[:count])
        self._data = self._data[count:]
        self._known -= count
        return out

    # One step each: past the header or past a block; False if the data do not reach so far.

    def _header(self) -> bool:
        if len(self._data) < 5:
            return False
        if not self._data.startswith(self._MAGIC):  # a frame without data, or something else
            self._step = self._rest
            return self._rest()
        descriptor = self._data[4]
        single = descriptor >> 5 & 1
        content = (single, 2, 4, 8)[descriptor >> 6]
        self._known = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content
        self._checksum = 4 * (descriptor >> 2 & 1)
        self._step = self._block
        return True

    def _block(self) -> bool:
        if len(self._data) < self._known + 3:
            return False
        header = int.from_bytes(self._data[self._known : self._known + 3], "little")
        self._known += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
        if header & 1:
            self._known += self._checksum
            self._step = self._end
        return True

    def _end(self) -> bool:
        return False

    def _rest(self) -> bool:
        self._known = len(self._data)
        return False
