"""Searches that go on where they were broken off.

What is finished stands in a text file, one JSON object a line:

    {"file": "ranksvm grid search", "search": {"items": "5f3a...", ...}, "random_state": 7}
    {"gamma": 0.5, "split": 0, "scores": [0.71, ...], "objectives": [...], ...}
    {"gamma": 0.5, "split": 1, ...}

The first line says which search it is, part by part (SHA-256 of what is long).  A further line is
one gamma on one split with all C.  Every line is appended by one write and synced, so that at any
moment all but the last are whole; a last line without its end was left by a process that was
killed, and is dropped.

One search at a time: the file is locked as long as it is open (where the system has locks), and the
lock ends with the process, however it ends.  A file made for a search that failed before anything
was finished is removed.

Numbers are written with the digits that give the same bits back, what is not finite as a text.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from ranksvm._vectors import Array
from ranksvm._version import library_version
from ranksvm.data.queries import QueryGroups
from ranksvm.model_selection.locked import LockedFile
from ranksvm.model_selection.runs import SplitResult
from ranksvm.model_selection.splits import Split, TrainingSet

__all__ = ["Cell", "Checkpoint", "identity"]

FILE = "ranksvm grid search"
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
    def from_entries(cls, entries: Mapping[str, Any], n_C: int) -> Cell:
        """Return the cell of a line; raise a ValueError or KeyError if it is none."""
        shortfalls = entries["shortfalls"]
        if not (isinstance(shortfalls, list) and all(isinstance(one, str) for one in shortfalls)):
            raise ValueError
        numbers: dict[str, Any] = {
            **{name: tuple(map(_real, _listed(entries[name], n_C))) for name in REALS},
            **{name: tuple(map(_count, _listed(entries[name], n_C))) for name in COUNTS},
        }
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
        random_state: int | None,
    ) -> None:
        self._cells: dict[tuple[float, int], Cell] = {}
        self.random_state = random_state
        self._file = LockedFile(path)
        self._path = self._file.path
        self._is_new = False
        try:
            content = self._file.read()
            # Of a first line that is half there, nothing has been done yet.
            self._is_new = not content or (b"\n" not in content and content.startswith(BEGINNING))
            self._file.truncate(0 if self._is_new else self._read(content, search, n_C))
            if self._is_new:
                head = {"file": FILE, "search": dict(search), "random_state": random_state}
                self._file.append(_line(head))
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
        self._file.append(_line({"gamma": gamma, "split": split, **cell.entries()}))
        self._cells[gamma, split] = cell

    def _read(self, content: bytes, search: Mapping[str, str], n_C: int) -> int:
        """Take over what is finished; return where the next line belongs."""
        head, *lines, rest = content.split(b"\n") if b"\n" in content else [b"", b""]
        self._check_head(head, search)
        for number, line in enumerate(lines, start=2):
            try:
                entries = json.loads(line)
                if not isinstance(entries, dict):
                    raise ValueError
                key = _real(entries["gamma"]), _count(entries["split"])
                self._cells[key] = Cell.from_entries(entries, n_C)
            except UNREADABLE:
                raise ValueError(
                    f"{self._path}, line {number}: damaged. Delete the file to begin the search "
                    "anew, or this line to repeat its part."
                ) from None
        return len(content) - len(rest)

    def _check_head(self, line: bytes, search: Mapping[str, str]) -> None:
        try:
            head = json.loads(line)
            there, random_state = head["search"], head["random_state"]
            fine = head["file"] == FILE and isinstance(there, dict)
            fine = fine and (random_state is None or type(random_state) is int)
        except (*UNREADABLE, TypeError):
            fine = False
        if not fine:
            raise ValueError(
                f"{self._path} is not the checkpoint of a search, and is left as it is. Give "
                "another name."
            )
        names = [*search, *(name for name in there if name not in search)]
        other = [name for name in names if search.get(name) != there.get(name)]
        if other:
            raise ValueError(
                f"{self._path} belongs to another search: not the same {', '.join(other)}. Delete "
                "it or give another name."
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


def _line(entries: Mapping[str, Any]) -> bytes:
    return json.dumps(entries, allow_nan=False).encode("ascii") + b"\n"
