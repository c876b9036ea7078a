"""Files beside LETOR text with the queries and the weights of its items, as LightGBM has them.

    rank.train            one item per line: label index:value ..., without 'qid:'
    rank.train.query      sizes of the queries, one per line, in the order of the items
    rank.train.weight     weights of the items, one per line

All may be compressed; ``rank.train.gz`` has the same names beside it.  Blank lines are skipped.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_item_weight
from ranksvm._contents import COMPRESSED
from ranksvm._messages import Message, Param
from ranksvm._text import counted
from ranksvm._vectors import Array, Rows
from ranksvm.data.sources import Source, excerpt, name_of, text_lines
from ranksvm.data.streams import FileFormatError

QUERY, WEIGHT = ".query", ".weight"
_CALLED = {QUERY: "sizes of queries", WEIGHT: "weights of items"}


class SideFiles(NamedTuple):
    """What files beside text have.

    Attributes
    ----------
    qid : ndarray of int64, shape (n_items,), or None
        Numbers of the queries: 0, 1, 2, ...
    weight : ndarray of shape (n_items,), or None
        Weights of the items.
    read : tuple of str
        What was read from which file, for people.
    """

    qid: Rows | None = None
    weight: Array | None = None
    read: tuple[str, ...] = ()


def side_file(source: Source, suffix: str) -> str | None:
    """Return the file with this suffix beside a text; None if there is none."""
    if not isinstance(source, str | os.PathLike) or source == "-":
        return None
    path = os.fspath(source)
    plain = path[: -len(Path(path).suffix)] if path.lower().endswith(COMPRESSED) else path
    names = (f"{stem}{suffix}{end}" for stem in {path: 0, plain: 0} for end in ("", *COMPRESSED))
    return next((name for name in names if os.path.isfile(name)), None)


def is_side_file(path: str) -> bool:
    """Return whether a file has queries or weights of a text beside it."""
    plain = path[: -len(Path(path).suffix)] if path.lower().endswith(COMPRESSED) else path
    for suffix in (QUERY, WEIGHT):
        if plain.endswith(suffix):
            text = plain[: -len(suffix)]
            return any(os.path.isfile(text + end) for end in ("", *COMPRESSED))
    return False


def read_side_files(
    texts: Sequence[Source], rows: Sequence[int], *, queries: bool = True
) -> SideFiles:
    """Read the files beside texts that are one data set.

    Parameters
    ----------
    texts : sequence of paths or file objects
        Only paths have files beside them.
    rows : sequence of int
        Number of items of each text.
    queries : bool, default=True
        Whether the queries are wanted: not if the lines have ids, or ids are to be ignored.

    Returns
    -------
    SideFiles

    Raises
    ------
    FileFormatError
        If a file has a line that is no size or weight, or not as many of them as the text has
        items; or if only some of the texts have such a file.
    """
    sizes = _read_all(texts, QUERY, _size) if queries else None
    weights = _read_all(texts, WEIGHT, _weight)
    qid, weight = None, None
    if sizes is not None:
        for text, (name, values), n_items in zip(texts, sizes, rows, strict=True):
            if values.sum() != n_items:
                raise _wrong_count(
                    name,
                    f"has {counted(len(values), 'size')} with the sum {int(values.sum()):,}",
                    text,
                    n_items,
                    QUERY,
                )
        every = np.concatenate([values for _, values in sizes]).astype(np.int64)
        qid = np.repeat(np.arange(every.size), every)
    if weights is not None:
        for text, (name, values), n_items in zip(texts, weights, rows, strict=True):
            if values.size != n_items:
                found = f"has {counted(values.size, 'weight')}"
                raise _wrong_count(name, found, text, n_items, WEIGHT)
        weight = check_item_weight(np.concatenate([values for _, values in weights]), sum(rows))
    read = [
        f"{_CALLED[suffix]} from {', '.join(name for name, _ in found)}"
        for suffix, found in ((QUERY, sizes), (WEIGHT, weights))
        if found is not None
    ]
    return SideFiles(qid, weight, tuple(read))


def _read_all(
    texts: Sequence[Source], suffix: str, parse: Callable[[bytes], float | None]
) -> list[tuple[str, NDArray[Any]]] | None:
    """Return the names and the numbers of the files beside all texts; None if there are none."""
    names = [side_file(text, suffix) for text in texts]
    paths = {os.fspath(one): one for one in texts if isinstance(one, str | os.PathLike)}
    for text, name in zip(texts, names, strict=True):
        if name in paths:
            raise FileFormatError(
                f"has the {_CALLED[suffix]} of {name_of(text)}, and is read with it. Leave it out",
                name,
            )
    there = [name for name in names if name is not None]
    if not there:
        return None
    if len(there) < len(names):
        lacking = name_of(texts[names.index(None)])
        raise FileFormatError(
            f"has {_CALLED[suffix]}, and {lacking} has no such file beside it. Add one with the "
            f"ending {suffix}, or move this one away",
            there[0],
        )
    return [(name, _numbers(name, suffix, parse)) for name in there]


def _numbers(name: str, suffix: str, parse: Callable[[bytes], float | None]) -> NDArray[Any]:
    found = []
    for number, line in enumerate(text_lines(name), start=1):
        text = line.strip()
        if not text:
            continue
        value = parse(text)
        if value is None:
            what = "the size of a query: a whole" if suffix == QUERY else "the weight of an item: a"
            message = f"found {excerpt(text)}, expected {what} number that is not negative"
            raise FileFormatError(message, name, number)
        found.append(value)
    return np.array(found, dtype=np.float64)


def _size(text: bytes) -> float | None:
    return float(int(text)) if text.isdigit() and len(text) <= 15 else None


def _weight(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0.0 else None


def _wrong_count(name: str, found: str, text: Source, n_items: int, suffix: str) -> FileFormatError:
    remedy: Any = "Use the files of one data set, or move this one away"
    if suffix == QUERY:
        remedy = Message(
            "Use the files of one data set, or {ignore} for one global ranking",
            ignore=Param("qid", "ignore"),
        )
    message = Message(
        "{found}, and {items} has {rows}. {remedy}",
        found=found,
        items=name_of(text),
        rows=counted(n_items, "item"),
        remedy=remedy,
    )
    return FileFormatError(message, name)
