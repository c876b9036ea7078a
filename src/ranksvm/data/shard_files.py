"""Data sets in files that are larger than memory.

:func:`open_files` returns a :class:`RankingData` whose X is a
:class:`ranksvm.data.shards.ShardedMatrix`.  Labels, query ids and weights are in memory, and blocks
of X are read when a task needs them.

    Parquet files                 :mod:`ranksvm.data.parquet`
    ``.npy`` files, np.memmap     :mod:`ranksvm.data.array_shards`
    LETOR text                    :mod:`ranksvm.data.letor_shards`, by way of a cache

Where the rows are cut (:mod:`ranksvm.data.shard_cuts`) depends on the files, the parameters and the
memory budget alone, and so do the bits of a fit.  A cut is at the end of a query, unless a query
has more rows than a shard; features of the query make room for such a query in one shard.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ranksvm._checks import check_item_weight
from ranksvm._memory import parse_memory
from ranksvm._messages import Param, ParameterError, Value
from ranksvm._text import counted
from ranksvm._values import as_levels, exact_vector, is_exact, where_not_finite
from ranksvm._vectors import Array, Rows
from ranksvm.data.array_shards import ArraySource, load_vector
from ranksvm.data.file_sets import CALLED, find_files, name_of_file
from ranksvm.data.letor_shards import LetorSource
from ranksvm.data.local_shards import LocalShards
from ranksvm.data.parquet.source import ParquetSource
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import Origin, RankingData, no_features
from ranksvm.data.row_sources import ReadBlock, RowSource
from ranksvm.data.shard_cuts import find_cuts
from ranksvm.data.shard_memory import TEXT_BYTES, FitMemory, RowNeeds, block_size, plan_memory
from ranksvm.data.shards import RowBlock, RowFacts, Shard, ShardedMatrix, copied_queries
from ranksvm.data.side_files import read_side_files
from ranksvm.data.split_queries import find_split


def open_files(
    paths: Any,
    *,
    y: Any = "label",
    qid: Any = "qid",
    sample_weight: Any = None,
    columns: Sequence[str] | None = None,
    drop: Collection[str] = (),
    memory_budget: int | str = "4GB",
    cache: str | os.PathLike[str] | None = None,
    dtype: DTypeLike | None = None,
    n_features: int | None = None,
    letor_options: Mapping[str, Any] | None = None,
    fit: FitMemory | None = None,
    n_threads: int = 1,
    cache_progress: Callable[[int, int | None], Any] | None = None,
) -> RankingData:
    """Open data sets in files without reading all of X into memory.

    Parameters
    ----------
    paths : path, array, or sequence of these
        Parquet files, LETOR text (plain or compressed), ``.npy`` files, or two-dimensional arrays
        such as ``np.memmap``; all of one kind.  A folder stands for its ``*.parquet`` files, or for
        all of its files if it has none of these; a pattern such as ``"train/*.parquet"`` for the
        files that match.  Both are sorted by name.  Several files are one data set.
    y : str, array, path or None
        Labels: a column of Parquet files; for arrays, an array or a ``.npy`` file (or a list of
        them, one for each part).  LETOR text has its own.  None: no labels.
    qid : str, array, path or None
        Query ids, as for ``y``.  None: one global ranking; ids of LETOR text are ignored, and lines
        may lack them.
    sample_weight : str, array, path or None
        Weights of the items, as for ``y``; an array or a ``.npy`` file for LETOR text.
    columns : sequence of str, optional
        Features of Parquet files; by default all columns that are not named otherwise.
    drop : collection of str, default=()
        Columns of Parquet files that are not features, if they are there.
    memory_budget : int or str, default="4GB"
        Memory for everything together: labels and ids, blocks of X, what shards keep.  What is left
        keeps the first blocks of X in memory.
    cache : path, optional
        Folder for what LETOR text is converted to, once.  By default a folder beside each text.
    dtype : {"float32", "float64"} or dtype, optional
        Type of X.  By default float32 if it represents all values of Parquet files and arrays
        exactly, else float64; float64 for LETOR text.
    n_features : int, optional
        Number of features of LETOR text, to align it with a training set.
    letor_options : mapping, optional
        How to read LETOR text: ``zero_based``, ``missing``, ``unsorted``, ``duplicates`` and
        ``max_line_bytes`` of :func:`ranksvm.data.svmlight.load_letor`.
    fit : FitMemory, optional
        What a fit on these files needs; by default they are only scored.
    n_threads : int, default=1
        Number of threads of a task.
    cache_progress : callable, optional
        Called as ``cache_progress(done, total)`` with bytes of text while it is converted.

    Returns
    -------
    RankingData
        Its X is a :class:`ranksvm.data.shards.ShardedMatrix`.  Ids that are not integers are
        replaced by numbers in ``qid``; ``groups.ids`` has the original ids.

    Raises
    ------
    ValueError
        If files do not fit together or hold values that cannot be used: the message names file,
        row group, row and column.  Values of X are checked when they are read for the first time.
    TooLittleMemoryError
        If labels, ids and buffers alone do not fit into the budget.
    OSError
        If a file cannot be read, or the disk has no room for the cache.
    """
    budget = parse_memory("memory_budget", memory_budget)
    block_bytes = block_size(budget)
    wanted = _float_type(dtype)
    kind, files = find_files(paths)
    if kind != "parquet" and columns is not None:
        raise ParameterError(
            "{columns} names columns of Parquet files, and {file} is {what}. Leave {columns} out.",
            columns=Param("columns"),
            file=name_of_file(files[0]),
            what=CALLED[kind],
        )
    name = ", ".join(map(name_of_file, files)) if len(files) < 4 else f"{len(files)} files"
    opened: _Opened
    if kind == "parquet":
        opened = _open_parquet(
            files, y, qid, sample_weight, columns, drop, wanted, n_threads, name=name
        )
    elif kind == "array":
        opened = _open_arrays(files, y, qid, sample_weight, wanted, name=name)
    else:
        opened = _open_letor(
            files,
            y,
            qid,
            sample_weight,
            name=name,
            cache=None if cache is None else os.fspath(cache),
            dtype=np.dtype(np.float64) if wanted is None else wanted,
            block_bytes=block_bytes,
            n_features=n_features,
            options=letor_options or {},
            n_threads=n_threads,
            progress=cache_progress,
        )
    if opened.source.n_features == 0:
        raise no_features(name, is_table=kind != "letor")
    return _in_shards(opened, budget, memory_budget, block_bytes, fit, n_threads)


def _float_type(dtype: Any) -> np.dtype[Any] | None:
    """Return a type that was asked for, checked."""
    if dtype is None:
        return None
    with contextlib.suppress(TypeError):
        found: np.dtype[Any] = np.dtype(dtype)
        if found in (np.float32, np.float64):
            return found
    raise ParameterError(
        "{dtype} must be 'float32', 'float64' or None; got {value}",
        dtype=Param("dtype"),
        value=Value(dtype),
    )


class _Opened(NamedTuple):
    """A source of rows, and the vectors that belong to it.

    ``ids`` are what the numbers in ``qid`` stand for, in order of first appearance.
    """

    source: RowSource
    origin: Origin
    y: Array | None
    qid: Rows | None
    labels: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None
    weight: Array | None = None
    feature_names: tuple[str, ...] | None = None


def _open_parquet(
    files: Sequence[str],
    y: Any,
    qid: Any,
    sample_weight: Any,
    columns: Sequence[str] | None,
    drop: Collection[str],
    dtype: np.dtype[Any] | None,
    n_threads: int,
    *,
    name: str,
) -> _Opened:
    named = {"y": y, "qid": qid, "sample_weight": sample_weight}
    for key, value in named.items():
        if value is not None and not isinstance(value, str):
            raise ParameterError(
                "{key} must be the name of a column of the Parquet files, or None; got {value}",
                key=Param(key),
                value=Value(value),
            )
    if isinstance(columns, str):
        raise ParameterError(
            "{columns} must be a sequence of names; got {value}",
            columns=Param("columns"),
            value=Value(columns),
        )
    source = ParquetSource(
        files, **named, columns=columns, drop=drop, dtype=dtype, n_threads=n_threads
    )
    _check_rows(source, name)
    vectors, ids = source.vectors()
    return _Opened(
        source,
        Origin(
            name,
            frame_columns=tuple(one for one in named.values() if one is not None),
            qid_column=qid,
        ),
        vectors.get("y"),
        vectors.get("qid"),
        vectors.get("labels"),
        ids,
        check_item_weight(vectors.get("sample_weight"), source.n_items),
        source.feature_names,
    )


def _open_arrays(
    arrays: Sequence[Any],
    y: Any,
    qid: Any,
    sample_weight: Any,
    dtype: np.dtype[Any] | None,
    *,
    name: str,
) -> _Opened:
    source = ArraySource(arrays, dtype)
    _check_rows(source, name)
    n_items = source.n_items
    labels, utility = None, None
    y = load_vector("y", y)
    if y is not None:
        labels = exact_vector("y", y)
        if labels.shape != (n_items,):
            raise ValueError(
                f"y must have one label for each of the {counted(n_items, 'row')}; got shape "
                f"{labels.shape}."
            )
        row = where_not_finite(labels)
        if row is not None:
            raise ValueError(
                f"y has a value that is not finite: {labels[row]} in row {row}. Drop these rows, "
                "or give them a finite label."
            )
        utility = as_levels(labels)
        labels = None if is_exact(labels) else labels
    ids, codes = None, None
    qid = load_vector("qid", qid)
    if qid is not None:
        groups = QueryGroups.from_qid(qid, n_items)
        codes = np.asarray(qid)
        if codes.dtype.kind in "iu" and codes.dtype != np.uint64:
            codes = codes.astype(np.int64, copy=False)
        else:
            codes, ids = groups.index, groups.ids
    weight = check_item_weight(load_vector("sample_weight", sample_weight), n_items)
    return _Opened(source, Origin(name), utility, codes, labels, ids, weight)


def _open_letor(
    files: Sequence[str],
    y: Any,
    qid: Any,
    sample_weight: Any,
    *,
    name: str,
    options: Mapping[str, Any],
    **how: Any,
) -> _Opened:
    for key, value in (("y", y), ("qid", qid)):
        if value is not None and not isinstance(value, str):
            raise ParameterError(
                "{key} cannot be given for LETOR text, which has its own; got {value}",
                key=Param(key),
                value=Value(value),
            )
    source = LetorSource(files, options=options, ignore_qid=qid is None, **how)
    utility, codes, ids = source.vectors()
    wants_queries = qid is not None and codes is None
    beside = read_side_files(files, source.file_rows, queries=wants_queries)
    if beside.qid is not None:
        codes = beside.qid
    weight = check_item_weight(load_vector("sample_weight", sample_weight), source.n_items)
    if weight is None:
        weight = beside.weight
    based = bool(options.get("zero_based", False))
    origin = Origin(name, zero_based=based, beside=beside.read)
    return _Opened(source, origin, None if y is None else utility, codes, ids=ids, weight=weight)


def _check_rows(source: RowSource, name: str) -> None:
    if source.n_items == 0:
        raise ValueError(f"{name} has no rows.")


# --- Shards --------------------------------------------------------------------------------------


def _in_shards(
    opened: _Opened,
    budget: int,
    given: int | str,
    block_bytes: int,
    fit: FitMemory | None,
    n_threads: int,
) -> RankingData:
    source, qid = opened.source, opened.qid
    if qid is not None and opened.ids is not None:
        groups = QueryGroups.from_numbers(qid)
    else:
        groups = QueryGroups.from_qid(qid, source.n_items)
    needs = None if fit is None else RowNeeds.of(fit, source)
    row_bytes = 0 if needs is None else needs.in_block
    has_view = fit is not None and bool(fit.view)
    cuts = find_cuts(source, qid, block_bytes, row_bytes, whole=has_view)
    copied = None if qid is None else copied_queries(groups, cuts)
    split = find_split(groups, cuts) if has_view else None
    for_ids = 0
    if opened.ids is not None:
        for_ids = groups.n_queries * (TEXT_BYTES + 2 * opened.ids.dtype.itemsize)
    memory = plan_memory(
        source,
        budget,
        given,
        groups,
        fit=fit,
        n_copied=None if copied is None else int(groups.sizes[copied].sum()),
        for_ids=for_ids,
        sizes=np.diff(cuts),
        split=split,
        ids=None if qid is None else (groups.ids if opened.ids is None else opened.ids),
    )

    def rows(values: NDArray[Any] | None, begin: int, end: int) -> Any:
        return None if values is None else values[begin:end]

    shards = [
        Shard(
            RowBlock(ReadBlock(source, begin, end)),
            end - begin,
            y=rows(opened.y, begin, end),
            query=rows(qid, begin, end),
            item_weight=rows(opened.weight, begin, end),
            n_threads=n_threads,
        )
        for begin, end in pairwise(cuts)
    ]
    if not source.is_sparse:
        dense = source.n_features * source.dtype.itemsize
        source.pool.least = dense * max(shard.n_items for shard in shards)
    made = LocalShards(
        shards,
        source.n_features,
        source.dtype,
        is_sparse=source.is_sparse,
        memory=memory.for_blocks,
    )
    made.keeps = memory.keeps
    made.facts = RowFacts(groups, source.identity())
    if opened.ids is not None:
        groups = replace(groups, ids=opened.ids)
    data = RankingData(
        ShardedMatrix(made),
        opened.y,
        qid,
        labels=opened.labels,
        item_weight=opened.weight,
        feature_names=opened.feature_names,
        origin=opened.origin,
    )
    return data.with_groups(groups)
