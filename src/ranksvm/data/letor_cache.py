"""The cache of a LETOR text: a folder of binary parts.

    part-000000.bin ...    blocks of rows: a header, then arrays
    manifest.json          written last: the cache is complete

Every file is written as a whole or not at all (:mod:`ranksvm._files`).  The header of a part says
how much of the text it covers, so a conversion that was interrupted goes on after the last part.

What a cache is compared with before it is used:

    its files    The header of a part has a checksum of every array, and the manifest has one of
                 every header.  An array is compared with its checksum when it is read for the first
                 time in a process: 0.7 s per gigabyte, in that pass alone.
    the text     Size and time of modification, the options, and the version of the format must be
                 the same.  If only the inode or its time of change differs, the text may have been
                 copied or replaced: then it is read again and compared with its checksum.  A part
                 of an interrupted conversion is used only if the text before its end has the same
                 checksum.

So a text that was replaced by another one is noticed, also if the size and the time of modification
are the same.  Only a change that leaves all times and the inode as they were goes unnoticed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ranksvm._files import atomic_write, naming, try_lock
from ranksvm._memory import format_size
from ranksvm._messages import Message, Param
from ranksvm.data.array_shards import FileStamp, as_bytes, read_exactly
from ranksvm.data.letor_parts import (
    OtherTextError,
    Progress,
    QueryIdError,
    parse,
    text_checksum,
)
from ranksvm.data.streams import FileFormatError

VERSION = 2
SUFFIX = ".ranksvm-cache"
MANIFEST = "manifest.json"
# The first bytes of a part; then length and checksum of the header in 8 bytes each, and the header.
MAGIC = b"RSVMPART"
_BEFORE_HEADER = len(MAGIC) + 16
_ALIGNMENT = 64
_CHECKED_BYTES = 1 << 20  # that are compared with a checksum at a time
_PART = re.compile(r"part-\d{6}\.bin")
_TEMPORARY = re.compile(r"\.(?:part-\d{6}\.bin|manifest\.json)\..*\.tmp")


def cache_folder(path: str, cache: str | None) -> str:
    """Return the folder for the cache of a text: beside it, or inside ``cache``."""
    folder, name = os.path.split(os.path.realpath(path))
    if cache is None:
        return os.path.join(folder, name + SUFFIX)
    # Texts of several folders may have the same name.
    mark = hashlib.sha256(os.fsencode(os.path.join(folder, name))).hexdigest()[:8]
    return os.path.join(cache, f"{name}-{mark}{SUFFIX}")


# --- Parts ---------------------------------------------------------------------------------------


class Part:
    """A part of a cache: a header and arrays.

    Attributes
    ----------
    path : str
    source : str
        The text.
    header : dict
        With "arrays": type, number of values, place in the file and checksum of each.
    checksum : int
        Checksum of the header.
    stamp : FileStamp
    rows, width : int
        Number of rows, and the largest number of features so far.
    """

    def __init__(
        self, path: str, source: str, header: dict[str, Any], checksum: int, stamp: FileStamp
    ) -> None:
        self.path, self.source, self.header = path, source, header
        self.checksum, self.stamp = checksum, stamp
        self.rows, self.width = int(header["rows"]), int(header["width"])
        self._unverified = set(header["arrays"])

    def __reduce__(self) -> Any:  # another process compares the checksums again
        return Part, (self.path, self.source, self.header, self.checksum, self.stamp)

    @classmethod
    def load(cls, path: str, source: str) -> Self | None:
        """Read the header of a part; return None if there is none, or it is damaged."""
        try:
            with naming(path), open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if file.read(len(MAGIC)) != MAGIC:
                    return None
                length, checksum = (int.from_bytes(file.read(8), "little") for _ in range(2))
                text = file.read(length)
            if zlib.crc32(text) != checksum:
                return None
            header = json.loads(text)
        except (FileNotFoundError, ValueError, MemoryError, OverflowError):
            return None
        if header["end"] != status.st_size:
            return None
        stamp = FileStamp.from_status(path, status)
        return cls(path, source, header, checksum, stamp)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the file; raise if it has changed since its header was read."""
        self.stamp.check()
        with naming(self.path), open(self.path, "rb", buffering=0) as file:
            yield file

    def array(self, name: str) -> NDArray[Any]:
        """Return one of the arrays."""
        dtype, size, _, _ = self.header["arrays"][name]
        out = np.empty(size, dtype=dtype)
        with self.opened() as file:
            self.read(file, name, 0, out)
        return out

    def read(self, file: Any, name: str, begin: int, out: NDArray[Any]) -> None:
        """Read an array from some row on, as many rows as ``out`` has."""
        dtype, size, offset, checksum = self.header["arrays"][name]
        item = out.dtype.itemsize * (out.shape[1] if out.ndim == 2 else 1)
        is_whole = out.nbytes == size * np.dtype(dtype).itemsize
        if name in self._unverified and not is_whole:
            self._verify(file, name)
        read_exactly(file, offset + begin * item, out)
        if name in self._unverified:
            self._compare(name, zlib.crc32(as_bytes(out)), checksum)

    def _verify(self, file: Any, name: str) -> None:
        """Compare an array with its checksum; it is read in pieces."""
        dtype, size, offset, checksum = self.header["arrays"][name]
        end = offset + size * np.dtype(dtype).itemsize
        found = 0
        buffer = np.empty(_CHECKED_BYTES, dtype=np.uint8)
        for at in range(offset, end, _CHECKED_BYTES):
            piece = buffer[: end - at]
            read_exactly(file, at, piece)
            found = zlib.crc32(as_bytes(piece), found)
        self._compare(name, found, checksum)

    def _compare(self, name: str, found: int, expected: int) -> None:
        if found != expected:
            raise FileFormatError(
                "is damaged: its checksum is wrong. Check the disk, and delete the folder "
                f"{os.path.dirname(self.path)} to have the cache made again",
                self.path,
            )
        self._unverified.discard(name)


def _write_part(path: str, header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[int]:
    """Write a part; return its size and the checksum of its header."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    checksums = {name: zlib.crc32(as_bytes(array)) for name, array in arrays.items()}
    # Offsets depend on the length of the header, which is padded to a round length.
    room = 4096
    while True:
        layout, at = {}, room
        for name, array in arrays.items():
            layout[name] = (array.dtype.str, array.size, at, checksums[name])
            at += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        text = json.dumps({**header, "arrays": layout, "end": at}).encode()
        if _BEFORE_HEADER + len(text) <= room:
            break
        room *= 2
    text = text.ljust(room - _BEFORE_HEADER)
    checksum = zlib.crc32(text)
    with atomic_write(path) as file:
        file.write(MAGIC + len(text).to_bytes(8, "little") + checksum.to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(as_bytes(array))
            file.write(bytes(-array.nbytes % _ALIGNMENT))
    return [at, checksum]


def _part_name(number: int) -> str:
    return f"part-{number:06d}.bin"


# --- Caches --------------------------------------------------------------------------------------


class LetorCache:
    """The cache of one text.

    Parameters
    ----------
    path : str
        LETOR text.
    cache : str or None
        Folder for the cache; None: beside the text.
    dtype : dtype
        Type of X.
    options : dict
        How to read the text: all of ``OPTIONS`` of :mod:`ranksvm.data.letor_parts`, and "qid".
    """

    def __init__(
        self, path: str, cache: str | None, dtype: np.dtype[Any], options: dict[str, Any]
    ) -> None:
        self._path = path
        self._folder = cache_folder(path, cache)
        self._dtype = dtype
        self._options = options
        self._stamp, self._inode = FileStamp.of(path), _inode(path)

    def _identity(self, qid: str) -> dict[str, Any]:
        """Return what the cache must be made from; ``qid`` as in the options."""
        return {
            "version": VERSION,
            "size": self._stamp.size,
            "mtime_ns": self._stamp.mtime_ns,
            "dtype": self._dtype.name,
            "options": {**self._options, "qid": qid},
        }

    def open(self, block_bytes: int, n_threads: int, progress: Progress) -> list[Part]:
        """Return the parts; convert the text if the cache is not complete."""
        if self._has_manifest():
            return self._complete()
        with self._locked():
            if self._has_manifest():
                return self._complete()  # another process has made it
            try:
                self._convert(block_bytes, n_threads, progress)
            except BaseException as error:
                if isinstance(error, FileFormatError):
                    self._clear()  # the text will have to change
                with contextlib.suppress(OSError):
                    os.rmdir(self._folder)  # if it is empty
                raise
        return self._complete()

    def _has_manifest(self) -> bool:
        return os.path.exists(os.path.join(self._folder, MANIFEST))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time make this cache; the lock ends with the process."""
        while True:
            try:
                os.makedirs(self._folder, exist_ok=True)
            except OSError as error:
                reason = (
                    f"no cache can be made here ({error.strerror}); choose another place for it"
                )
                raise OSError(error.errno, reason, self._folder) from None
            # Another process removes the folder if it fails, perhaps before it is locked here.
            try:
                descriptor = os.open(self._folder, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                if try_lock(descriptor) is False:
                    raise BlockingIOError(
                        errno.EAGAIN,
                        "another process is making this cache; wait until it is complete",
                        self._folder,
                    )
                if not _is_at(descriptor, self._folder):
                    continue
                yield
                return
            finally:
                os.close(descriptor)

    def _complete(self) -> list[Part]:
        """Return the parts of a complete cache; raise if it is not one of this text."""
        manifest = self._manifest()
        found = [_difference(manifest, self._identity(qid), self._path) for qid in self._uses()]
        if all(found):
            raise self._useless(found[0])
        parts = []
        for number, expected in enumerate(manifest["parts"]):
            part = self._part(number)
            if part is None or [part.stamp.size, part.checksum] != expected:
                raise self._useless(f"is damaged: {_part_name(number)} is missing or has changed")
            parts.append(part)
        now = _inode(self._path)
        if manifest["inode"] != now:  # probably a copy, as size and time are the same
            if text_checksum(self._path, self._options) != manifest["checksum"]:
                raise self._useless(_changed(self._path))
            with contextlib.suppress(OSError):  # the folder may be read-only
                self._write_manifest({**manifest, "inode": now})
        return parts

    def _manifest(self) -> dict[str, Any]:
        """Read the manifest."""
        name = os.path.join(self._folder, MANIFEST)
        try:
            with naming(name), open(name, encoding="utf-8") as file:
                manifest = json.load(file)
            expected = {*self._identity("auto"), "inode", "checksum", "parts"}
            if manifest["version"] == VERSION and not (
                expected <= manifest.keys() and isinstance(manifest["parts"], list)
            ):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise self._useless("is damaged") from None
        return dict(manifest)

    def _useless(self, why: str) -> FileFormatError:
        return FileFormatError(
            Message(
                "{why}. Delete this folder to have the cache made again, or choose another place "
                "for it with {cache}",
                why=why,
                cache=Param("cache"),
            ),
            self._folder,
        )

    def _part(self, number: int) -> Part | None:
        return Part.load(os.path.join(self._folder, _part_name(number)), self._path)

    def _clear(self, keep: int = 0) -> None:
        """Remove the files of a cache that is not complete, except for its first parts."""
        kept = {_part_name(number) for number in range(keep)}
        for name in os.listdir(self._folder):
            if (_PART.fullmatch(name) and name not in kept) or _TEMPORARY.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._folder, name))

    def _uses(self) -> list[str]:
        """Return what a conversion may do with query ids, the best first.

        Ids are kept if all lines have them, also if they are to be ignored now: the next one who
        opens the text may need them.
        """
        return ["auto", "ignore"] if self._options["qid"] == "ignore" else ["auto"]

    def _convert(self, block_bytes: int, n_threads: int, progress: Progress) -> None:
        uses = self._uses()
        if len(uses) > 1 and self._done("ignore"):
            uses = uses[1:]
        for qid in uses:
            try:
                try:
                    self._convert_after(self._done(qid), qid, block_bytes, n_threads, progress)
                except OtherTextError:
                    self._convert_after([], qid, block_bytes, n_threads, progress)
                return
            except QueryIdError:
                if qid == uses[-1]:
                    raise

    def _done(self, qid: str) -> list[Part]:
        """Return the first parts, as far as their headers are those of this text."""
        identity = self._identity(qid)
        done = list[Part]()
        while (
            part := self._part(len(done))
        ) is not None and identity.items() <= part.header.items():
            done.append(part)
        return done

    def _convert_after(
        self,
        done: Sequence[Part],
        qid: str,
        block_bytes: int,
        n_threads: int,
        progress: Progress,
    ) -> None:
        """Convert the text that follows some parts, and write the manifest."""
        identity = self._identity(qid)
        self._clear(keep=len(done))
        parts = [[part.stamp.size, part.checksum] for part in done]
        state = done[-1].header["state"] if done else None
        if done and done[-1].header["is_last"]:
            if text_checksum(self._path, self._options) != done[-1].header["state"]["checksum"]:
                raise OtherTextError
        else:
            for header, arrays in parse(
                self._path,
                state,
                dtype=self._dtype,
                options=identity["options"],
                size=self._stamp.size,
                block_bytes=block_bytes,
                n_threads=n_threads,
                progress=progress,
            ):
                room = sum(array.nbytes + _ALIGNMENT for array in arrays.values())
                self._check_room(room, sum(size for size, _ in parts), header["bytes_read"])
                path = os.path.join(self._folder, _part_name(len(parts)))
                parts.append(_write_part(path, {**identity, **header}, arrays))
                state = header["state"]
        assert state is not None
        self._stamp.check()  # or else the parts are of two texts
        self._write_manifest(
            {
                **identity,
                "source": os.path.realpath(self._path),
                "inode": self._inode,
                "checksum": state["checksum"],
                "parts": parts,
            }
        )

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        with atomic_write(os.path.join(self._folder, MANIFEST)) as file:
            file.write(json.dumps(manifest, indent=1).encode())

    def _check_room(self, size: int, before: int, bytes_read: int) -> None:
        """Raise if the rest of the cache will not fit on the disk, judged by the text so far."""
        expected = (before + size) * self._stamp.size / max(1, bytes_read)
        needed = max(size, expected - before)
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise OSError(
                errno.ENOSPC,
                f"no room for the cache of {self._path}: it needs about {format_size(needed)}, and "
                f"{format_size(free)} are free; free some space, or use another disk",
                self._folder,
            )


def _inode(path: str) -> list[int]:
    """Return what differs between a file and one that has replaced it: inode, time of change."""
    status = os.stat(path)
    return [status.st_ino, status.st_ctime_ns]


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether a path still refers to an open folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _difference(manifest: Mapping[str, Any], identity: Mapping[str, Any], path: str) -> str:
    """Return why a cache is not what it must be; empty if it is."""
    key = next((key for key in identity if manifest.get(key) != identity[key]), None)
    if key is None:
        return ""
    made, now = manifest.get(key), identity[key]
    if key in ("size", "mtime_ns"):
        return _changed(path)
    if key == "version":
        return f"has the format {made}, and this version of ranksvm writes {now}"
    if key == "dtype":
        return f"holds {made}, not {now}"
    if made == {**now, "qid": "ignore"}:
        return f"was made without query ids, because some lines of {path} have none, or a wrong one"
    return "was made with other options for the text"


def _changed(path: str) -> str:
    return f"was made from another version of {path}, which has changed since"
