"""Searches that go on where they were broken off.

What is finished stands in a text file, one JSON object a line:

    {"file": "ranksvm grid search", "format": 2, "search": {"items": "5f3a...", ...}, ...}
    {"gamma": 0.5, "split": 0, "scores": [0.71, ...], "objectives": [...], ..., "sha256": "09c1..."}
    {"gamma": 0.5, "split": 1, ...}

The first line says which search it is, part by part (SHA-256 of what is long).  A further line is
one gamma on one split with all C.  Every line is appended by one write and synced, so that at any
moment all but the last are whole; a last line without its end was left by a process that was
killed, and is dropped.

Every line ends in a checksum, of the first line and of the rest of its own, so that a line that was
changed, or comes from another file, is found; whole lines may be deleted.  The numbers must also be
possible ones: a metric within its bounds, objectives, gaps and seconds not negative, a split that
the search has.  Files of format 1, which had no checksums, are refused.

One search at a time: the file is locked as long as it is open (where the system has locks), and the
lock ends with the process, however it ends.  A file made for a search that failed before anything
was finished is removed.

Numbers are written with the digits that give the same bits back, what is not finite as a text.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, BinaryIO, NoReturn, Self

import numpy as np

from ranksvm._text import printable
from ranksvm._vectors import Array
from ranksvm._version import library_version
from ranksvm.data.queries import QueryGroups
from ranksvm.metrics.registry import parse_metric
from ranksvm.model_selection.locked import LockedFile
from ranksvm.model_selection.runs import SplitResult
from ranksvm.model_selection.splits import Split, TrainingSet

__all__ = ["Cell", "Checkpoint", "identity"]

FILE = "ranksvm grid search"
FORMAT = 2
CHECKSUM = "sha256"
# Bytes of a line, at most: of the first one, and of others beside what they hold for every C.
LONGEST_HEAD = 1 << 16
LONGEST_REST = 4096
LONGEST_OF_C = 4096
BEGINNING = b'{"file": "ranksvm grid search"'
# Of the settings: what the cells stand for themselves, and what changes no model.  A search that
# ran out of memory may go on with another budget.
NOT_PART = ("C", "gamma", "memory_budget")
REALS = ("scores", "objectives", "gaps", "seconds")  # that a cell has for every C
COUNTS = ("n_iter", "n_products")
NOT_FINITE = ("nan", "inf", "-inf")
HASHED_VALUES = 1 << 22  # at a time
# What a text can raise that is no line of ours.
UNREADABLE = (ValueError, KeyError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Cell:
    """One gamma on one split: metric, certificate and effort by C, and what is to be said."""

    scores: tuple[float, ...]
    objectives: tuple[float, ...]
    gaps: tuple[float, ...]
    seconds: tuple[float, ...]
    n_iter: tuple[int, ...]
    n_products: tuple[int, ...]
    shortfalls: tuple[str, ...]

    @classmethod
    def of(cls, result: SplitResult) -> Cell:
        """Take what is kept of a split."""
        fits = result.fits
        return cls(
            scores=tuple(map(float, result.scores)),
            objectives=tuple(fit.objective for fit in fits),
            gaps=tuple(fit.gap for fit in fits),
            seconds=tuple(result.seconds),
            n_iter=tuple(fit.n_iter for fit in fits),
            n_products=tuple(fit.n_products for fit in fits),
            shortfalls=tuple(fit.shortfall for fit in fits if fit.shortfall is not None),
        )

    def entries(self) -> dict[str, Any]:
        """Return the cell in terms of JSON."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any], n_C: int, metric: str) -> Cell:
        """Return the cell of a line; raise a ValueError or KeyError if it is none."""
        shortfalls = entries["shortfalls"]
        if not (isinstance(shortfalls, list) and all(isinstance(one, str) for one in shortfalls)):
            raise ValueError
        numbers: dict[str, Any] = {
            **{name: tuple(map(_real, _listed(entries[name], n_C))) for name in REALS},
            **{name: tuple(map(_count, _listed(entries[name], n_C))) for name in COUNTS},
        }
        low, high = parse_metric(metric).bounds
        within = all(math.isnan(score) or low <= score <= high for score in numbers["scores"])
        if not within or any(value < 0.0 for name in REALS[1:] for value in numbers[name]):
            raise ValueError
        return cls(**numbers, shortfalls=tuple(shortfalls))


def _listed(values: Any, n: int) -> list[Any]:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError
    return values


def _real(value: Any) -> float:
    if type(value) not in (float, int) and value not in NOT_FINITE:
        raise ValueError
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # which float() reads
    return value


class Checkpoint:
    """The file of a search, which nobody else may use meanwhile.

    Parameters
    ----------
    path : path-like
        Of a regular file; read if it is there, and made if not.
    search : mapping of str to str
        See :func:`identity`.
    n_C : int
        Values in a cell.
    n_splits : int
        Cells of a gamma.
    random_state : int or None
        What a new file is to keep.

    Attributes
    ----------
    random_state : int or None
        The one that the search began with.

    Raises
    ------
    ValueError
        If the file belongs to another search, or is in use, or is none of ours, or is damaged.
    OSError
        If it cannot be read or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        search: Mapping[str, str],
        n_C: int,
        n_splits: int,
        random_state: int | None,
    ) -> None:
        self._search, self._n_C, self._n_splits = search, n_C, n_splits
        self._cells: dict[tuple[float, int], Cell] = {}
        self.random_state = random_state
        self._file = LockedFile(path)
        self._path = self._file.path
        self._is_new = False
        try:
            with self._file.reader() as file:
                kept = self._read(file)
            self._is_new = not kept
            self._file.truncate(kept)
            if self._is_new:
                head = {"file": FILE, "format": FORMAT, "search": dict(search)}
                line = _line({**head, "random_state": random_state}, b"")
                self._file.append(line)
                self._head = line
        except BaseException:
            self._close(failed=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(failed=kind is not None and issubclass(kind, Exception))

    def _close(self, *, failed: bool) -> None:
        self._file.close(remove=failed and self._is_new and not self._cells)

    def get(self, gamma: float, split: int) -> Cell | None:
        """Return a finished cell; None if it is still to do."""
        return self._cells.get((gamma, split))

    def add(self, gamma: float, split: int, cell: Cell) -> None:
        """Keep a finished cell."""
        self._file.append(_line({"gamma": gamma, "split": split, **cell.entries()}, self._head))
        self._cells[gamma, split] = cell

    def _read(self, file: BinaryIO) -> int:
        """Take over what is finished; return where the next line belongs."""
        head = file.readline(LONGEST_HEAD)
        if not head.endswith(b"\n"):
            # Of a first line that is half there, nothing has been done yet.
            if not head or (head.startswith(BEGINNING) and len(head) < LONGEST_HEAD):
                return 0
            self._refuse_file()
        self._check_head(head)
        self._head, end = head, len(head)
        longest = LONGEST_REST + LONGEST_OF_C * self._n_C
        for number in itertools.count(2):
            line = file.readline(longest)
            if not line.endswith(b"\n") and len(line) < longest:
                return end
            try:
                self._take(_entries(line, head))
            except UNREADABLE:
                raise ValueError(
                    f"{self._path}, line {number}: damaged. Delete this line to redo its part, "
                    "or the file to start over."
                ) from None
            end += len(line)
        raise AssertionError  # the count never ends

    def _take(self, entries: Mapping[str, Any]) -> None:
        """Keep the cell of a line; raise one of ``UNREADABLE`` if it cannot be one."""
        if entries.keys() != {"gamma", "split", *(field.name for field in fields(Cell))}:
            raise ValueError
        gamma, split = _real(entries["gamma"]), _count(entries["split"])
        if not (0.0 < gamma < math.inf and split < self._n_splits) or (gamma, split) in self._cells:
            raise ValueError
        cell = Cell.from_entries(entries, self._n_C, self._search["metric"])
        self._cells[gamma, split] = cell

    def _refuse_file(self) -> NoReturn:
        raise ValueError(
            f"{self._path} already exists and is not a checkpoint; not overwritten. Choose another "
            "file."
        ) from None

    def _check_head(self, line: bytes) -> None:
        search = self._search
        try:
            head = json.loads(line)
            fine = head["file"] == FILE
        except (*UNREADABLE, TypeError):
            fine = False
        if not fine:
            self._refuse_file()
        if head.get("format") != FORMAT:
            raise ValueError(
                f"{self._path} is a checkpoint of another version of ranksvm (format "
                f"{reprlib.repr(head.get('format', 1))}, expected {FORMAT}). Delete it or choose "
                "another file."
            )
        try:
            head = _entries(line, b"")
            there, random_state = head["search"], head["random_state"]
            if not isinstance(there, dict) or (
                random_state is not None and _count(random_state) < 0
            ):
                raise ValueError
        except UNREADABLE:
            raise ValueError(
                f"{self._path}, line 1: damaged. Delete the file to start over."
            ) from None
        names = [*search, *(name for name in there if name not in search)]
        other = [name for name in names if search.get(name) != there.get(name)]
        if other:
            raise ValueError(
                f"{self._path} is from a different search (different "
                f"{printable(', '.join(other))[:200]}). Delete it or choose another file."
            )
        self.random_state = random_state


def identity(
    items: TrainingSet, splits: Sequence[Split], Cs: Array, metric: str, conventions: str
) -> dict[str, str]:
    """Return what a search is, part by part; equal texts mean that cells can be taken over.

    The gammas are no part: a grid may grow.

    Raises
    ------
    ValueError
        If the kernel is code, which cannot be compared.
    """
    settings = {
        name: value for name, value in asdict(items.settings).items() if name not in NOT_PART
    }
    if any(callable(value) for value in settings.values()):
        raise ValueError(
            "a search with a callable kernel cannot be kept in a file and resumed: use a named or "
            "a precomputed kernel, or no checkpoint"
        )
    return {
        "items": _digest(items.X, items.truth, items.groups.index),
        "weights": _digest(items.item_weight, items.query_weight),
        "splits": _digest(*(part for split in splits for part in _parts(split))),
        "Cs": _digest(Cs),
        "settings": json.dumps(settings, sort_keys=True, default=_as_python),
        "metric": metric,
        "conventions": conventions,
        "version of ranksvm": library_version(),
    }


def _parts(split: Split) -> list[Any]:
    if split.held_out is None:
        return [split.train, split.test]
    X, labels, qid = split.held_out
    return [X, labels, None if qid is None else QueryGroups.from_qid(qid, len(labels)).index]


def _as_python(value: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    return value.item()


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        parts = (
            [array] if not hasattr(array, "indptr") else [array.data, array.indices, array.indptr]
        )
        shape = None if array is None else array.shape
        digest.update(repr(shape).encode())
        for part in parts:
            if part is not None:
                _update(digest, np.asarray(part))
    return digest.hexdigest()


def _update(digest: Any, array: Any) -> None:
    """Add type and values, in C order, without a copy of the whole."""
    digest.update(array.dtype.str.encode())
    if array.dtype.kind == "O" or array.dtype == np.longdouble:  # their bytes are not their values
        digest.update(repr(array.tolist()).encode())
        return
    rows = max(1, HASHED_VALUES // max(1, math.prod(array.shape[1:])))
    for first in range(0, array.shape[0], rows):
        digest.update(array[first : first + rows].tobytes())


def _line(entries: Mapping[str, Any], head: bytes) -> bytes:
    """Return a line with its checksum, which is that of the first line of the file, too."""
    text = json.dumps(entries, allow_nan=False).encode("ascii")
    digest = hashlib.sha256(head + text).hexdigest()
    return text[:-1] + f', "{CHECKSUM}": "{digest}"}}\n'.encode("ascii")


def _entries(line: bytes, head: bytes) -> dict[str, Any]:
    """Return what a line holds; raise one of ``UNREADABLE`` unless it is just as it was written."""
    entries = json.loads(line)
    if not isinstance(entries, dict):
        raise ValueError
    del entries[CHECKSUM]
    if _line(entries, head) != line:
        raise ValueError
    return entries
