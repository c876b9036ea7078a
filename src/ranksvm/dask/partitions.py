"""From the arguments of ``fit`` to a data set in shards.

A partition is read by the worker that has it.  Labels, numbers of queries and weights come to the
client, at most 24 bytes a row; features stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_item_weight
from ranksvm._messages import Param, ParameterError
from ranksvm._values import as_objects, exact_vector, refuse_masked
from ranksvm._vectors import Array, Rows
from ranksvm.dask.blocks import (
    Facts,
    Reading,
    check_unique,
    convert_block,
    facts_of,
    make_shard,
    read_partition,
)
from ranksvm.dask.engine import Engine
from ranksvm.dask.shards import DaskShards, Part, kept_in_memory
from ranksvm.data.frames import check_numeric, drop_columns, split_frame
from ranksvm.data.queries import QueryGroups, as_id_array
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.estimators.checks import check_labels
from ranksvm.learners.weights import check_query_weight


def is_dask(X: Any) -> bool:
    """Return whether X is a Dask collection, or a list of delayed objects or futures."""
    import dask.array
    import dask.dataframe
    from dask.delayed import Delayed
    from distributed import Future

    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(one, Delayed | Future) for one in X)
    return isinstance(X, dask.array.Array | dask.dataframe.DataFrame | dask.dataframe.Series)


def training_shards(
    engine: Engine,
    X: Any,
    y: Any,
    qid: Any,
    *,
    group: Any = None,
    sample_weight: Any = None,
    query_weight: Any = None,
    left_out: frozenset[str] = frozenset(),
    names: Sequence[str] | None = None,
    n_threads: int = 1,
) -> RankingData:
    """Check the arguments of ``fit``, and return them as one data set in shards.

    ``left_out`` are columns of frames that are not features; ``names`` are those of the partitions
    in messages.
    """
    if qid is not None and group is not None:
        raise ValueError("qid and group are two names for one thing: pass only one of them")
    name = "qid" if group is None else "group"
    given = {"y": y, name: qid if group is None else group, "sample_weight": sample_weight}
    columns = {key: value for key, value in given.items() if isinstance(value, str)}
    values = {key: None if key in columns else value for key, value in given.items()}
    reading = Reading(columns, name, left_out)
    raw = _raw_parts(engine, X, values, reading)
    names = [f"partition {k}" for k in range(len(raw))] if names is None else names
    how = engine.packed(reading, shared=True)
    blocks = [engine.submit(read_partition, how, *one) for one in raw]
    del raw  # partitions are released as soon as they have been read
    facts = list(engine.results([engine.submit(facts_of, one) for one in blocks], names))
    kept = [k for k, one in enumerate(facts) if one.n_items]
    if not kept:
        raise ValueError(f"X has no rows: all {len(facts)} partitions are empty")
    facts, names = [facts[k] for k in kept], [names[k] for k in kept]
    blocks = [blocks[k] for k in kept]
    _check_alike(facts, names)
    dtype = np.dtype(np.result_type(*(one.dtype for one in facts)))
    for k, one in enumerate(facts):
        if one.dtype != dtype:
            blocks[k] = engine.submit(convert_block, blocks[k], dtype.str)
    utility, labels = _labels(facts)
    sizes = [one.n_items for one in facts]
    groups, numbers = _queries(facts, name, names)
    numbered = replace(groups, ids=np.arange(groups.n_queries))
    weights = [one.item_weight for one in facts if one.item_weight is not None]
    item_weight = check_item_weight(np.concatenate(weights), sum(sizes)) if weights else None
    levels: Sequence[Array | None] = [None] * len(facts)
    if labels is not None:  # labels that float64 does not hold: their order is known here only
        levels = np.split(utility, np.cumsum(sizes)[:-1])
    parts = []
    for block, number, level in zip(blocks, numbers, levels, strict=True):
        about = engine.packed((number, level, n_threads))
        parts.append(Part(engine.submit(make_shard, block, about), block))
    feature_names = facts[0].feature_names
    if feature_names is not None and not all(isinstance(one, str) for one in feature_names):
        feature_names = None  # as scikit-learn has it
    shards = DaskShards(
        engine,
        parts,
        names,
        sizes,
        facts[0].n_features,
        dtype,
        is_sparse=facts[0].is_sparse,
        feature_names=feature_names,
        n_bytes=sum(one.n_bytes for one in facts),
    )
    shards.facts.groups = numbered
    shards.keeps = kept_in_memory(engine, numbered, shards.n_bytes)
    ids = groups.ids.astype(object) if groups.ids.dtype.kind in "US" else groups.ids
    data = RankingData(
        ShardedMatrix(shards),
        utility,
        None if facts[0].codes is None else ids[groups.index],  # 8 bytes a row, also for strings
        labels=labels,
        item_weight=item_weight,
        query_weight=check_query_weight(query_weight, groups),
        feature_names=feature_names,
        origin=Origin("X", frame_columns=tuple(columns.values()), qid_column=columns.get(name)),
    )
    return data.with_groups(groups)


# At the client: what the user passed, partition by partition.


def _raw_parts(
    engine: Engine, X: Any, values: dict[str, Any], reading: Reading
) -> list[tuple[Any, ...]]:
    """Return the arguments of ``read_partition`` for each partition: futures or values."""
    import dask.array
    import dask.dataframe

    if isinstance(X, list | tuple) and is_dask(X):
        return _of_list(engine, list(X), values)
    if isinstance(X, dask.dataframe.DataFrame):
        _check_columns(X, reading)
        delayed, lengths = X.to_delayed(), None
    elif isinstance(X, dask.array.Array):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions; got a Dask Array of shape {X.shape}")
        if reading.columns:
            key, column = next(iter(reading.columns.items()))
            raise ValueError(
                f"{key}={column!r} names a column, but X is a Dask Array without column names. "
                f"Pass a Dask DataFrame, or pass {key} as a Dask Array."
            )
        X = X.rechunk({1: -1})
        delayed, lengths = X.to_delayed().ravel().tolist(), X.chunks[0]
        if np.isnan(lengths).any():
            lengths = None
    else:
        raise TypeError(
            "X must be a Dask DataFrame, a Dask Array, or a list of delayed objects or futures; "
            f"got {type(X).__name__}. For data in memory use the classes of ranksvm itself, such "
            "as LinearRankSVM."
        )
    if not delayed:
        raise ValueError("X has no partitions")
    rows: list[list[Any]] = [delayed]
    for key, value in values.items():
        rows.append(aligned_parts(key, value, len(delayed), lengths))
    return _computed(engine, rows)


def _of_list(engine: Engine, parts: list[Any], values: dict[str, Any]) -> list[tuple[Any, ...]]:
    _check_owner(engine, parts)
    for key, value in values.items():
        if value is not None:
            raise TypeError(
                f"if X is a list of delayed objects or futures, {key} must be the name of a "
                f"column, or a part of each (X, y, qid, sample_weight); got {type(value).__name__}"
            )
    nothing: list[Any] = [None] * len(parts)
    return _computed(engine, [parts, nothing, nothing, nothing])


def _check_owner(engine: Engine, parts: Sequence[Any]) -> None:
    """Raise if futures belong to another client: this one would wait for them in vain."""
    from distributed import Future

    for k, one in enumerate(parts):
        if isinstance(one, Future) and one.client is not engine.client:
            raise ParameterError(
                "partition {k} of X is a future of another client ({other}) than that of the fit "
                "({this}). Pass the client that made the futures as {client}.",
                k=k,
                other=one.client,
                this=engine.client,
                client=Param("client"),
            )


def _computed(engine: Engine, rows: list[list[Any]]) -> list[tuple[Any, ...]]:
    """Start to compute delayed objects, all at once so that they share their work."""
    from dask.delayed import Delayed

    delayed = [one for row in rows for one in row if isinstance(one, Delayed)]
    futures = iter(engine.compute(delayed))
    done = [[next(futures) if isinstance(one, Delayed) else one for one in row] for row in rows]
    return list(zip(*done, strict=True))


def aligned_parts(
    name: str, values: Any, n_parts: int, lengths: tuple[int, ...] | None
) -> list[Any]:
    """Return the parts of y, qid or sample_weight that belong to the partitions of X."""
    import dask.array
    import dask.dataframe

    if values is None:
        return [None] * n_parts
    if isinstance(values, dask.dataframe.Series):
        parts = values.to_delayed()
    elif isinstance(values, dask.array.Array):
        if values.ndim != 1:
            raise ValueError(f"{name} must have one dimension; got shape {values.shape}")
        known = lengths is not None and not np.isnan(values.shape[0])
        if known and lengths is not None:
            if values.shape[0] != sum(lengths):
                raise ValueError(
                    f"X and {name} have inconsistent numbers of samples: X has {sum(lengths)} "
                    f"rows, {name} has {values.shape[0]} values"
                )
            values = values.rechunk((lengths,))
        parts = values.to_delayed().ravel().tolist()
    elif lengths is None or is_dask(values) or not hasattr(values, "__len__"):
        raise TypeError(
            f"{name} must be a Dask Series or Dask Array with the same partitions as X, or the "
            f"name of a column; got {type(values).__name__}"
        )
    else:
        refuse_masked(name, values)
        if name == "y":
            array = exact_vector(name, values)
        else:
            array = np.asarray(values) if name == "sample_weight" else as_id_array(values, name)
        if len(array) != sum(lengths):
            raise ValueError(
                f"X and {name} have inconsistent numbers of samples: X has {sum(lengths)} rows, "
                f"{name} has {len(array)} values"
            )
        return list(np.split(array, np.cumsum(lengths)[:-1]))
    if len(parts) != n_parts:
        raise ValueError(
            f"{name} must have the same partitions as X: X has {n_parts}, {name} has "
            f"{len(parts)}. Take {name} from the same collection as X, or repartition it."
        )
    return list(parts)


def _check_columns(X: Any, reading: Reading) -> None:
    """Check names and types of the columns of a Dask DataFrame before anything is computed."""
    import pandas

    check_unique(X)
    types = X.dtypes
    empty = pandas.concat(
        [pandas.Series(dtype=one, name=name) for name, one in types.items()], axis=1
    )
    features, _ = split_frame(empty, **reading.columns)
    check_numeric(drop_columns(features, reading.left_out), "sample_weight")


# At the client: what is known about all partitions.


def _check_alike(facts: Sequence[Facts], names: Sequence[str]) -> None:
    """Raise if a partition has other columns than the first one that has rows."""
    for one, name in zip(facts, names, strict=True):
        found = _difference(one, facts[0])
        if found is not None:
            raise ValueError(
                f"{name} differs from {names[0]}: {found}. All partitions must have the same "
                "columns, in the same order."
            )


def _difference(one: Facts, first: Facts) -> str | None:
    """Return the first difference between two partitions; None if they are alike."""
    if one.feature_names is not None and first.feature_names is not None:
        found = column_difference(one.feature_names, first.feature_names)
        if found is not None:
            return found
    tests: dict[str, Callable[[Facts], Any]] = {
        "names of columns": lambda part: "none" if part.feature_names is None else "given",
        "number of features": lambda part: part.n_features,
        "layout": lambda part: "sparse" if part.is_sparse else "dense",
        "query ids": lambda part: "none" if part.codes is None else "given",
        "sample_weight": lambda part: "none" if part.item_weight is None else "given",
    }
    for what, value_of in tests.items():
        if value_of(one) != value_of(first):
            return f"{what} {value_of(one)} instead of {value_of(first)}"
    return None


def column_difference(found: Sequence[Any], expected: Sequence[Any]) -> str | None:
    """Return the first difference between the names of columns; None if they are the same."""
    lacks = [name for name in expected if name not in set(found)]
    if lacks:
        return f"no column {lacks[0]!r}"
    more = [name for name in found if name not in set(expected)]
    if more:
        return f"one more column, {more[0]!r}"
    for k, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            return f"another order: column {k} is {one!r} instead of {other!r}"
    return None


def _labels(facts: Sequence[Facts]) -> tuple[Array, NDArray[Any] | None]:
    """Return labels to compute with; and the original ones if float64 does not hold them."""
    found = [one.y for one in facts if one.y is not None]
    if all(one.exact for one in facts):
        return np.concatenate(found), None
    every = as_objects([value for part in found for value in part.tolist()])
    utility, labels = check_labels(every, len(every))
    return utility, None if labels is utility else labels


def _queries(
    facts: Sequence[Facts], name: str, names: Sequence[str]
) -> tuple[QueryGroups, list[Rows | None]]:
    """Return the queries of all rows, and for each partition the numbers of its own queries."""
    if facts[0].codes is None:
        n_items = sum(one.n_items for one in facts)
        return QueryGroups.from_qid(None, n_items), [None] * len(facts)
    ids = [one.ids for one in facts if one.ids is not None]
    kinds = [{isinstance(id, str) for id in one.tolist()} for one in ids]
    is_text = [kind == {True} for kind in kinds]
    if any(is_text) and {False} in kinds:  # ids of both types in one partition are meant
        text, other = names[is_text.index(True)], names[kinds.index({False})]
        raise ValueError(
            f"{name} is text in {text} and not in {other}: the rows of one query would count as "
            "two queries. Give the ids one type."
        )
    if len({one.dtype.kind for one in ids}) > 1:  # NumPy would make 1 and "1" equal
        ids = [as_objects(one.tolist()) for one in ids]
    joined = np.concatenate(ids)
    # Queries are numbered by first appearance: in a partition, here, and so over all rows.
    distinct = QueryGroups.from_qid(joined, len(joined), name=name)
    numbers = np.split(distinct.index, np.cumsum([len(one) for one in ids])[:-1])
    codes = [one.codes for one in facts if one.codes is not None]
    index = np.concatenate([of[code] for of, code in zip(numbers, codes, strict=True)])
    return replace(QueryGroups.from_qid(index, len(index)), ids=distinct.ids), list(numbers)
