"""Files and arrays that make up one data set: paths, folders and patterns, and their kind."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ranksvm._contents import TABLES
from ranksvm.data.array_shards import NPY
from ranksvm.data.letor_cache import SUFFIX
from ranksvm.data.side_files import is_side_file

Kind = Literal["parquet", "array", "letor"]
# What messages call a file of each kind.
CALLED: dict[Kind, str] = {
    "parquet": "a Parquet file",
    "array": "an array",
    "letor": "LETOR text",
}
_PARQUET = b"PAR1"


def find_files(paths: Any) -> tuple[Kind, list[Any]]:
    """Return the kind of some files or arrays, and all of them in order.

    Parameters
    ----------
    paths : path, array, or sequence of these
        As for :func:`ranksvm.data.shard_files.open_files`.
    """
    if isinstance(paths, str | os.PathLike | np.ndarray):
        paths = [paths]
    elif not isinstance(paths, Sequence):
        raise TypeError(f"paths must be a path, an array, or a sequence of these; got {paths!r}")
    found = list[Any]()
    for path in paths:
        if isinstance(path, np.ndarray):
            found.append(path)
        elif isinstance(path, str | os.PathLike):
            found += _expanded(os.fspath(path))
        else:
            raise TypeError(f"paths holds {path!r}, which is neither a path nor an array")
    if not found:
        raise ValueError("paths is an empty sequence; pass at least one file")
    seen = set[str]()
    for name in (os.path.realpath(one) for one in found if isinstance(one, str)):
        if name in seen:
            raise ValueError(f"{name} is given twice; its rows would count twice.")
        seen.add(name)
    kinds = [_kind_of(one) for one in found]
    for one, kind in zip(found, kinds, strict=True):
        if kind != kinds[0]:
            raise ValueError(
                f"{name_of_file(one)} is {CALLED[kind]}, and {name_of_file(found[0])} is "
                f"{CALLED[kinds[0]]}. All files of one data set must be of one kind."
            )
    return kinds[0], found


def _expanded(path: str) -> list[str]:
    """Return the files that a path stands for, sorted."""
    if os.path.isdir(path):
        return _files_in(path)
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(
        one
        for one in glob.glob(path, recursive=True)
        if os.path.isfile(one) and not _is_foreign(one)
    )
    if not found:
        raise FileNotFoundError(f"no file matches {path!r}. Check the pattern and the folder.")
    return found


def _is_foreign(path: str) -> bool:
    """Return whether a pattern has found what is not data: a cache, or the file of a program.

    Nor are files with queries or weights, which are read with the text that they belong to.
    """
    *folders, name = path.split(os.sep)
    if is_side_file(path):
        return True
    return name.startswith((".", "_")) or any(one.endswith(SUFFIX) for one in folders)


def _files_in(folder: str) -> list[str]:
    # Other programs put files such as _SUCCESS or .part-0.crc beside the data.
    names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))
    paths = {name: os.path.join(folder, name) for name in names}
    files = [
        name for name in names if os.path.isfile(paths[name]) and not is_side_file(paths[name])
    ]
    tables = [name for name in files if TABLES.get(os.path.splitext(name)[1]) == "parquet"]
    found = [os.path.join(folder, name) for name in tables or files]
    if not found:
        advice = ""
        if any(not name.endswith(SUFFIX) for name in names):
            advice = f" Folders inside it are not searched: use {os.path.join(folder, '**/*')!r}."
        raise FileNotFoundError(f"{folder} has no files.{advice}")
    return found


def _kind_of(one: Any) -> Kind:
    if isinstance(one, np.ndarray):
        return "array"
    suffix = os.path.splitext(one)[1].lower()
    if TABLES.get(suffix) in ("csv", "tsv"):
        raise ValueError(
            f"{one}: CSV and TSV files are read into memory only. Convert it to Parquet first: "
            "ranksvm convert data.csv data.parquet --memory 4GB"
        )
    with open(one, "rb") as file:
        head = file.read(max(len(NPY), len(_PARQUET)))
    if head.startswith(_PARQUET) or TABLES.get(suffix) == "parquet":
        return "parquet"
    return "array" if head.startswith(NPY) else "letor"


def name_of_file(one: Any) -> str:
    """Return the name of a file or array for messages."""
    return one if isinstance(one, str) else "the array"
