"""Features that say where an item stands among the items of its query.

The scale of many features depends on the query: a BM25 score of 12 is high for one query and low
for another.  Relative to the other items of the query, it means the same everywhere.  For a feature
x and an item of a query of n items:

    rank       (number of items with less + (number with as much + 1) / 2) / n, in (0, 1]
    minmax     (x - min) / (max - min)
    zscore     (x - mean) / standard deviation, with the mean of the squares over n
    mean_diff  x - mean

The last three are 0 where all items of the query are equal, as in a query of one item; the rank is
then (n + 1) / (2 n).  -0.0 equals 0.0.  Values may be as large or small as floats can be: a result
is infinite only if it is too large for its type (which "mean_diff" alone can be).

The columns of the result are those of X for the first name, then those for the second one, and so
on.  They are called ``rank(bm25)``, ``rank(length)``, ..., ``zscore(bm25)``, ...

The result is dense, also for sparse X: the zeros of a column share one rank, but it is not zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ranksvm import _core
from ranksvm._checks import check_choice
from ranksvm._messages import Param, ParameterError, Value
from ranksvm._sparse import canonical_csr, is_sparse
from ranksvm.data.queries import QueryGroups

# By name: what it is, for people.
QUERY_FEATURES: dict[str, str] = {
    "rank": "rank within the query, ascending, divided by the number of items",
    "minmax": "position between the smallest (0) and the largest value (1) of the query",
    "zscore": "difference from the mean of the query in standard deviations",
    "mean_diff": "difference from the mean of the query",
}
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def check_query_features(parameter: str, names: Any) -> tuple[str, ...]:
    """Return names of query features as a tuple; raise if one is unknown or occurs twice.

    Parameters
    ----------
    parameter : str
        Name of the parameter in error messages.
    names : list or tuple of str
        Keys of ``QUERY_FEATURES``, in any order; possibly none.
    """
    if not isinstance(names, list | tuple):
        raise ParameterError(
            '{name} must be a list or tuple of names, such as ("rank",); got {value}',
            name=Param(parameter),
            value=Value(names),
        )
    for position, name in enumerate(names):
        check_choice(parameter, name, QUERY_FEATURES)
        if name in names[:position]:
            raise ParameterError(
                "{name} has {value} twice; leave one of them out",
                name=Param(parameter),
                value=Value(name),
            )
    return tuple(names)


def query_feature_names(names: Sequence[str], feature_names: Iterable[str]) -> list[str]:
    """Return the names of the columns of :func:`query_features`: ``rank(bm25)``, ..."""
    columns = list(feature_names)
    return [f"{name}({column})" for name in names for column in columns]


def query_features(
    X: Any,
    groups: QueryGroups,
    names: Sequence[str],
    *,
    n_threads: int = 1,
    dtype: DTypeLike | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Compute features of items relative to the other items of their query.

    Time is O(m n log s) for queries of s items, and for sparse X that of filling the result plus
    O(e log e) for e stored elements.  Beside the result, a thread needs about 0.2 MB, and for
    queries of some hundred items or more about 70 bytes per item of the query; for sparse X
    16 + 8 len(names) bytes per stored element of the query.  A CSC matrix is converted to CSR.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (m, n), float32 or float64
        Items, dense in any order, CSR or CSC.  They must be finite, which callers check: with NaN
        the result is undefined.
    groups : QueryGroups
        The query of each item.
    names : sequence of str
        Names in ``QUERY_FEATURES``, checked by :func:`check_query_features`.
    n_threads : int, default=1
        Number of threads; it does not change the result.
    dtype : {float32, float64} or None, default=None
        Type of the result; None means that of ``out``, or else of X.
    out : ndarray of shape (m, n * len(names)) or None, default=None
        Where to write the result.  The rows must be contiguous, but may be parts of longer ones:
        ``whole[:, n:]`` appends features to those in ``whole[:, :n]``, without a copy.

    Returns
    -------
    ndarray of shape (m, n * len(names))
        ``out``, if it was given.
    """
    n_items, n_features = X.shape
    shape = (n_items, n_features * len(names))
    if out is None:
        out = np.empty(shape, dtype=X.dtype if dtype is None else dtype)
    elif out.shape != shape or (dtype is not None and out.dtype != dtype):
        raise ValueError(
            f"out must have shape {shape} and dtype {np.dtype(dtype or out.dtype)}; got "
            f"{out.shape} and {out.dtype}"
        )
    if out.dtype not in _FLOATS or X.dtype not in _FLOATS:
        raise ValueError(
            f"X and the result must be float32 or float64; got {X.dtype} and {out.dtype}"
        )
    if groups.n_items != n_items:
        raise ValueError(f"groups has {groups.n_items} items, but X has {n_items}")
    if out.size == 0:
        return out
    if out.shape[1] > 1 and out.strides[1] != out.itemsize:
        raise ValueError("the rows of out must be contiguous")
    where = (groups.rows, groups.offsets, list(names), out, n_threads)
    if is_sparse(X):
        X = canonical_csr(X)
        _core.sparse_query_features(X.data, X.indices, X.indptr, n_features, *where)
    else:
        _core.dense_query_features(X, *where)
    return out


def append_query_features(
    X: Any,
    groups: QueryGroups,
    names: Sequence[str],
    *,
    n_threads: int = 1,
    dtype: DTypeLike | None = None,
) -> NDArray[Any]:
    """Return the features of X and, after them, those of :func:`query_features`.

    Parameters
    ----------
    X, groups, names, n_threads, dtype
        As in :func:`query_features`.

    Returns
    -------
    ndarray of shape (m, n * (1 + len(names)))
        A new array in C order.
    """
    n_items, n_features = X.shape
    whole = np.empty(
        (n_items, n_features * (1 + len(names))), dtype=X.dtype if dtype is None else dtype
    )
    if is_sparse(X):
        X = canonical_csr(X)
        whole[:, :n_features] = 0.0
        rows = np.repeat(np.arange(n_items), np.diff(X.indptr))
        whole[rows, X.indices] = X.data
    else:
        whole[:, :n_features] = X
    query_features(X, groups, names, n_threads=n_threads, out=whole[:, n_features:])
    return whole
