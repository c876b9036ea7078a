"""What a worker makes of a partition: a block of rows, and what the client learns about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ranksvm._checks import check_weights
from ranksvm._sparse import canonical_csr, check_structure, is_sparse
from ranksvm._values import float_type, refuse_masked
from ranksvm._vectors import Array
from ranksvm.dask.engine import unpacked
from ranksvm.dask.shards import Block, rows_elsewhere
from ranksvm.data.frames import check_numeric, drop_columns, frame_columns, is_frame, split_frame
from ranksvm.data.queries import QueryGroups
from ranksvm.data.shards import Shard, nbytes
from ranksvm.estimators.checks import check_labels


@dataclass(frozen=True)
class Reading:
    """How a partition is read.

    Attributes
    ----------
    columns : dict of str to str
        Arguments of ``fit`` that name columns, by their names there: y, qid or group,
        sample_weight.
    qid : str
        Name of the query ids in messages: qid or group.
    left_out : frozenset of str
        More columns that are not features.
    """

    columns: dict[str, str]
    qid: str
    left_out: frozenset[str] = frozenset()


class Facts(NamedTuple):
    """What the client learns about a partition: everything but its rows.

    ``exact`` says whether float64 holds the labels, so that ``y`` are numbers to compute with;
    ``n_bytes`` is the memory of the rows.
    """

    n_items: int
    n_features: int
    dtype: np.dtype[Any]
    is_sparse: bool
    feature_names: tuple[Any, ...] | None
    y: NDArray[Any] | None
    exact: bool
    codes: NDArray[np.int32] | None
    ids: NDArray[Any] | None
    item_weight: Array | None
    n_bytes: int


def read_partition(how: Any, data: Any, y: Any, qid: Any, weight: Any) -> Block:
    """Check a partition, and return its rows and other columns."""
    reading: Reading = unpacked(how)
    if isinstance(data, tuple | list):
        if not 2 <= len(data) <= 4:
            raise ValueError(
                "a part must be a tuple (X, y), (X, y, qid) or (X, y, qid, sample_weight), or a "
                f"frame; got {len(data)} elements"
            )
        if reading.columns:
            raise ValueError("parts that are tuples have their own y, qid and sample_weight")
        data, y, qid, weight = (*data, None, None)[:4]
    check_unique(data)
    given = {"y": y, reading.qid: qid, "sample_weight": weight}
    X, values = split_frame(data, **{**given, **reading.columns})
    X = drop_columns(X, reading.left_out)
    n_items = X.shape[0] if hasattr(X, "shape") else len(X)
    names = tuple(frame_columns(X)) if is_frame(X) else None
    if not n_items:
        return PartitionBlock(np.empty((0, 0)), feature_names=names)
    utility, labels = check_labels(values["y"], n_items)
    codes = ids = None
    if values[reading.qid] is not None:
        groups = QueryGroups.from_qid(values[reading.qid], n_items, name=reading.qid)
        codes, ids = groups.index.astype(np.int32), groups.ids
    item_weight = values["sample_weight"]
    if item_weight is not None:
        item_weight = check_weights("sample_weight", item_weight, n_items, "item", may_be_zero=True)
    return PartitionBlock(
        _as_items(X), labels, codes, ids, item_weight, names, exact=labels is utility
    )


@dataclass
class PartitionBlock(Block):
    """A block as it was read from a partition."""

    feature_names: tuple[Any, ...] | None = None
    exact: bool = True

    __sizeof__ = Block.__sizeof__


def facts_of(block: PartitionBlock) -> Facts:
    """Return everything but the rows of a block."""
    X = block.X
    return Facts(
        X.shape[0],
        X.shape[1],
        X.dtype,
        is_sparse(X),
        block.feature_names,
        block.y,
        block.exact,
        block.codes,
        block.ids,
        block.item_weight,
        nbytes(X),
    )


def check_unique(X: Any) -> None:
    """Raise if a frame has two columns of the same name."""
    names = list(getattr(X, "columns" if hasattr(X, "dtypes") else "column_names", ()))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has several columns called {twice!r}; rename them")


def convert_block(block: PartitionBlock, dtype: str) -> PartitionBlock:
    """Return the block with rows of another type."""
    return replace(block, X=block.X.astype(dtype))


def make_shard(block: PartitionBlock, about: Any) -> Shard:
    """Return the shard of a block, without its rows."""
    numbers, levels, n_threads = unpacked(about)
    return Shard(
        rows_elsewhere(),
        block.X.shape[0],
        y=np.asarray(block.y if levels is None else levels, dtype=np.float64),
        query=None if numbers is None else numbers[block.codes],
        item_weight=block.item_weight,
        n_threads=n_threads,
    )


def _as_items(X: Any) -> Any:
    """Return features as float32 if it holds their values exactly, and float64 otherwise.

    Columns of frames are stored one after the other, rows of arrays likewise; the bits of a product
    depend on that.
    """
    refuse_masked("X", X)
    if is_frame(X):
        return _from_frame(X)
    if not is_sparse(X):
        X = np.asarray(X)
    elif issparse(X):
        X = canonical_csr(check_structure(X))
    else:  # of another library
        X = canonical_csr(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions; got shape {X.shape}")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold real numbers; got dtype {X.dtype}. Encode the features.")
    dtype = float_type([X.dtype])
    if is_sparse(X):
        return X if X.dtype == dtype else X.astype(dtype)
    return np.ascontiguousarray(X, dtype=dtype)


def _from_frame(X: Any) -> NDArray[Any]:
    check_numeric(X, "sample_weight")
    frame = nw.from_native(X, eager_only=True)
    columns = [np.asarray(frame[name].to_numpy()) for name in frame.columns]
    made = np.empty((len(frame), len(columns)), float_type([c.dtype for c in columns]), order="F")
    for k, (name, values) in enumerate(zip(frame.columns, columns, strict=True)):
        try:
            made[:, k] = values
        except (TypeError, ValueError) as error:
            raise ValueError(f"column {name!r} of X must hold numbers: {error}") from None
    return made
