"""The columns of Parquet files: which of them are features, and whether all files agree."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ranksvm._messages import Message, Param, ParameterError
from ranksvm._text import listed
from ranksvm.data.array_shards import FileStamp
from ranksvm.data.parquet.files import import_pyarrow, opened
from ranksvm.data.ranking_data import no_features


def read_schema(path: str) -> Any:
    """Return the Arrow schema of a Parquet file; an error names the file."""
    import_pyarrow()
    with opened(FileStamp.of(path)) as file:
        return file.schema_arrow


def index_columns(schema: Any) -> list[str]:
    """Return the columns of an Arrow schema that hold the index of a pandas frame."""
    # An index that is a plain range has no column, but a description.
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [name for name in schema.names if name in index]


def _without_index(schema: Any) -> list[str]:
    index = index_columns(schema)  # pandas reads them as an index again
    return [name for name in schema.names if name not in index]


def flat_columns(metadata: Any) -> dict[str, int]:
    """Return the places of the columns of a file that are not lists, structs or inside of them."""
    columns = (metadata.schema.column(j) for j in range(metadata.num_columns))
    return {
        one.name: j
        for j, one in enumerate(columns)
        if one.path == one.name and one.max_repetition_level == 0
    }


def check_names(path: str, names: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"{path} has several columns called {twice[0]!r}; rename them.")


def feature_names(
    path: str,
    schema: Any,
    special: dict[str, str],
    columns: Sequence[str] | None,
    drop: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the columns that are features.

    Parameters
    ----------
    path : str
        The file, for messages.
    schema : pyarrow.Schema
    special : dict
        Columns that are not features, by parameter.
    columns : sequence of str or None
        Features; None for all other columns.
    drop : collection of str
        More columns that are not features; there may be no such columns.
    """
    names = schema.names
    for key, name in special.items():
        if name not in names:
            raise ParameterError(
                "{path} has no column {name!r}; it has {names}. Name the right one with "
                "{key}.{none}",
                path=path,
                name=name,
                names=listed(map(repr, names)),
                key=Param(key),
                none=Message(" For one global ranking, use {no}.", no=Param(key, None))
                if key == "qid"
                else "",
            )
    taken = list(special.values())
    if len(set(taken)) < len(taken):
        twice = next(name for name in taken if taken.count(name) > 1)
        one, other = (key for key, name in special.items() if name == twice)
        raise ParameterError(
            "{one} and {other} name the same column, {twice!r}. Name a column for each.",
            one=Param(one),
            other=Param(other),
            twice=twice,
        )
    if columns is None:
        found = tuple(name for name in _without_index(schema) if name not in (*taken, *drop))
        if not found:
            raise no_features(path, is_table=True)
        return found
    found = tuple(columns)
    for name in found:
        if name not in names or name in taken or found.count(name) > 1:
            trouble = "which the file does not have"
            if name in names:
                trouble = "twice" if found.count(name) > 1 else "which is not a feature"
            raise ParameterError(
                "{columns} lists {name!r}, {trouble}; {path} has {names}.",
                columns=Param("columns"),
                name=name,
                trouble=trouble,
                path=path,
                names=listed(map(repr, names)),
            )
    if not found:
        raise ParameterError("{columns} is empty: no features.", columns=Param("columns"))
    return found


def is_number(kind: Any) -> bool:
    """Return whether a type of pyarrow is one of numbers, or of truth values."""
    import pyarrow.types as types

    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def feature_kinds(path: str, types: dict[str, Any], features: Sequence[str]) -> list[np.dtype[Any]]:
    """Return the types of the features; raise if some are not numbers."""
    wrong = [f"{name!r} ({types[name]})" for name in features if not is_number(types[name])]
    if wrong:
        raise ParameterError(
            "{path}: {n} of {total} feature columns {are} not numeric: {wrong}. Convert "
            "them to float64 or integers, or leave them out.",
            path=path,
            n=len(wrong),
            total=len(features),
            are="is" if len(wrong) == 1 else "are",
            wrong=listed(wrong),
        )
    return [np.dtype(types[name].to_pandas_dtype()) for name in features]


def check_same(
    path: str,
    types: dict[str, Any],
    first_path: str,
    first: dict[str, Any],
    used: Sequence[str],
    columns: Sequence[str] | None,
) -> None:
    """Raise if a file has other columns than the first one, as far as they matter."""
    advice = "All files of one data set need the same columns; write them again, or leave one out."
    for name in used:
        if name not in types:
            raise ValueError(
                f"{path} has no column {name!r}, which is {first[name]} in {first_path}. {advice}"
            )
        if types[name] != first[name]:
            raise ValueError(
                f"{path}: column {name!r} is {types[name]}, and {first[name]} in {first_path}. "
                f"{advice}"
            )
    extra = [name for name in types if name not in first] if columns is None else []
    if extra:
        raise ValueError(
            f"{path} has a column {extra[0]!r} ({types[extra[0]]}), which {first_path} lacks. "
            f"{advice}"
        )
