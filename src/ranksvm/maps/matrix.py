"""Scores X w and pullbacks X' g for a feature matrix of any layout.

Every layout is used without conversion: dense in C or Fortran order, CSR or CSC, float32 or
float64.  A matrix stored by columns is the transpose of one stored by rows, so one pair of native
products handles all of them.  Sums are accumulated in float64.  The order of every sum depends only
on the shape of the matrix, so results are bitwise identical for any number of threads.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ranksvm import _core
from ranksvm._cached import cached_property
from ranksvm._rounding import SLACK, roundings
from ranksvm._sparse import check_structure, is_sparse
from ranksvm._vectors import Array, Rows, add, dot, dot_depth, length
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.sample import WeightedItems, by_whole_groups, scatter_step

# The scatter is a full matrix up to this many columns.
MOST_COLUMNS = 256
# The squares of norms below this, or above its inverse, may under- or overflow.
_LEAST_NORM = 1e-140


class ScoreMap(Protocol):
    """A linear map from a Hilbert space of weights to scores."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of items, and dimension of the weights."""
        ...

    @property
    def n_products(self) -> int:
        """Number of products so far, in either direction."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """Contains "euclidean" if the inner product is Euclidean and therefore needs no scores."""
        ...

    def zero_scores(self) -> Array:
        """Return the scores of w = 0, without a product."""
        ...

    def scores(self, w: Array) -> Array: ...
    def pullback(self, g: Array) -> Array: ...
    def inner(self, u: Array, v: Array, v_scores: Array) -> float:
        """Return the inner product; ``v_scores`` is not used if it is Euclidean."""
        ...

    def norm2(self, v: Array, v_scores: Array, v_error: float) -> float:
        """Return the squared norm of v, never negative; ``v_error`` bounds errors in the scores."""
        ...

    def reach(self, w: Array) -> float:
        """Bound the scores of w, and the sums of absolute values that they are computed from."""
        ...

    @property
    def score_rounding(self) -> float:
        """Bound on the error of a score of w, relative to ``reach(w)``."""
        ...

    def size(self, v: Array, norm2: float) -> float:
        """Bound the norm of every vector whose entries are no larger than those of v.

        Here and below, ``norm2`` is the squared norm of v, as computed.
        """
        ...

    def norm2_error(self, v: Array, v_error: float, norm2: float) -> float:
        """Bound the error of ``norm2``, for scores that are off by at most ``v_error``."""
        ...

    def pullback_error(self, size: float, error: float) -> float:
        """Bound the error of ``pullback(g)``, in the unit that ``widened`` expects.

        The absolute values of g sum to at most ``size``, and those of its errors to ``error``.
        """
        ...

    def widened(self, norm: float, v: Array, pullback_error: float) -> float:
        """Bound the norm of every vector that differs from v by the error of a pullback."""
        ...

    def sharpen(self) -> bool:
        """Make another pass over the items to get sharper bounds; False if there are none."""
        ...

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        """Return the weighted scatter of the items within their groups, in a space or subspace.

        It is the sum over the parts, each with its own weights and groups.  All calls must have the
        same groups; only weights may change.
        """
        ...

    def lift(self, inverse: Callable[[Array], Array]) -> Any:
        """Extend an inverse on the space of ``scatter`` to the whole space.

        The result acts on vectors or, unless the inner product is Euclidean, on points.
        """
        ...


class EuclideanMap(ABC):
    """What all maps with the Euclidean inner product share: inner products and rounding errors.

    A subclass has ``shape``, the products, and bounds that follow from one pass over the items.
    """

    capabilities = frozenset({"euclidean"})
    shape: tuple[int, int]
    n_products = 0
    # Whether ``scatter`` gets weights of a sample of items, which the map knows.
    has_own_sample = False
    # Largest absolute value of each feature; None until ``sharpen`` computes it.
    tallest: Array | None = None

    @abstractmethod
    def scores(self, w: Array) -> Array: ...
    @abstractmethod
    def pullback(self, g: Array) -> Array: ...
    @abstractmethod
    def sharpen(self) -> bool: ...
    @abstractmethod
    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None: ...

    @property
    @abstractmethod
    def longest_row(self) -> float:
        """Bound on the norm of an item."""

    @property
    @abstractmethod
    def score_depth(self) -> int:
        """Maximum number of roundings of a term of a score."""

    @property
    @abstractmethod
    def pullback_depth(self) -> int:
        """Maximum number of roundings of a term of a pullback."""

    def zero_scores(self) -> Array:
        return np.zeros(self.shape[0])

    def inner(self, u: Array, v: Array, v_scores: Array) -> float:
        del v_scores
        return dot(u, v)

    def norm2(self, v: Array, v_scores: Array, v_error: float) -> float:
        del v_scores, v_error
        return dot(v, v)

    def reach(self, w: Array) -> float:
        reach = self.longest_row * length(w)
        if self.tallest is None:
            return reach
        return min(reach, SLACK * float(np.einsum("j,j->", self.tallest, np.abs(w))))

    @property
    def score_rounding(self) -> float:
        return roundings(self.score_depth)

    def size(self, v: Array, norm2: float) -> float:
        return length(v, norm2)

    def norm2_error(self, v: Array, v_error: float, norm2: float) -> float:
        del v_error
        norm = length(v, norm2)
        return roundings(dot_depth(v.size)) * norm * norm

    def pullback_error(self, size: float, error: float) -> float:
        return error + roundings(self.pullback_depth) * size

    def widened(self, norm: float, v: Array, pullback_error: float) -> float:
        wide = norm + self.longest_row * pullback_error
        if self.tallest is None or not math.isfinite(pullback_error):
            return wide
        return min(wide, length(np.abs(v) + SLACK * pullback_error * self.tallest))

    def lift(self, inverse: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return inverse


class MatrixMap(EuclideanMap):
    """``scores(w) = X w`` and ``pullback(g) = X' g`` with the Euclidean inner product.

    Parameters
    ----------
    X : ndarray or SciPy CSR/CSC of shape (n_items, n_features), float32 or float64
        Features; used without a copy if the layout allows, otherwise converted once.
    n_threads : int
        Number of threads.
    rounded : int
        How often each value of X has been rounded already, for the bounds on rounding errors.
    """

    def __init__(self, X: Any, *, n_threads: int = 1, rounded: int = 0) -> None:
        self.shape: tuple[int, int] = X.shape
        self._rounded = rounded
        self._threads = n_threads
        self._diagonals: dict[int, Array] = {}  # for each part
        self._samples: dict[int, tuple[Rows, Rows]] = {}  # for each part
        if is_sparse(X):
            X = check_structure(X, n_threads)  # the native code trusts the indices
            by_rows = X.format == "csr"
            if not by_rows and X.format != "csc":
                X = X.tocsr()
                by_rows = True
            X = _without_repetitions(X)
            rows, cols = X.shape if by_rows else X.shape[::-1]
            # The matrix as it is stored, in the form that the native functions take.
            self._stored: tuple[Any, ...] = (
                np.ascontiguousarray(_as_float(X.data)),
                np.ascontiguousarray(X.indices),
                np.ascontiguousarray(X.indptr),
                cols,
            )
            self._fullest = int(np.max(np.diff(X.indptr), initial=0))  # entries of a stored row
        else:
            X = _as_float(np.asarray(X))
            by_rows = X.flags.c_contiguous or not X.flags.f_contiguous
            self._stored = (np.ascontiguousarray(X) if by_rows else X.T,)
            rows, cols = self._stored[0].shape
            self._fullest = cols
        self._by_rows = by_rows
        self._is_dense = len(self._stored) == 1
        self._stored_shape = rows, cols

    def scores(self, w: Array) -> Array:
        return self._product(w, transposed=not self._by_rows)

    def pullback(self, g: Array) -> Array:
        return self._product(g, transposed=self._by_rows)

    def sharpen(self) -> bool:
        """Compute the largest value of each feature: a few may be far larger than the others."""
        if self.tallest is not None:
            return False
        if self._is_dense:
            stored, items = self._stored[0], 0 if self._by_rows else 1
            highest = stored.max(axis=items, initial=0.0)
            lowest = stored.min(axis=items, initial=0.0)
            self.tallest = np.maximum(highest, -lowest).astype(np.float64)
            return True
        data, indices, indptr, _ = self._stored
        if not self._by_rows:
            indices = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        self.tallest = np.zeros(self.shape[1])
        end = int(indptr[-1])
        np.maximum.at(self.tallest, indices[:end], np.abs(data[:end]).astype(np.float64))
        return True

    @cached_property
    def longest_row(self) -> float:
        longest = self._row_norm(1.0)
        if not _LEAST_NORM < longest < 1.0 / _LEAST_NORM:  # squares may have over- or underflowed
            scale = max(1e-290, float(np.max(np.abs(self._stored[0]), initial=0.0)))
            longest = scale * self._row_norm(1.0 / scale)
        return SLACK * longest

    def _row_norm(self, scale: float) -> float:
        # SLACK covers rounding if X has at most 2^40 columns.
        compute: Any = _core.dense_squares if self._is_dense else _core.sparse_squares
        squares = compute(*self._stored, scale, not self._by_rows, self._threads)
        return float(np.sqrt(np.max(squares, initial=0.0)))

    @cached_property
    def score_depth(self) -> int:
        return self._depth(transposed=not self._by_rows)

    @cached_property
    def pullback_depth(self) -> int:
        return self._depth(transposed=self._by_rows)

    def _depth(self, *, transposed: bool) -> int:
        elements = self._stored[0].size
        return self._rounded + _core.depth_of_product(
            *self._stored_shape, elements, self._fullest, self._is_dense, transposed
        )

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        """Return the weighted scatter of the items within their groups, or roughly its diagonal.

        It is the sum over groups and their items of weight * (x - mean)(x - mean)', where mean is
        the weighted mean of the group, added up over the parts.  It need not be exact, since it is
        only used for scaling.  Large dense data is sampled, which makes it cheap compared with a
        product with X.  If X is sparse or has many columns, only the diagonal is computed, for the
        weights of the first call (counted as two products per part, which is its cost), and scaled
        to the total weight; or None if there are more than twice as many columns as items.

        Returns
        -------
        ndarray of shape (dim, dim) or (dim,), or None
        """
        n_items, dim = self.shape
        if not self._is_dense or dim > MOST_COLUMNS:
            if 2 * n_items < dim:
                return None
            return add(self._scaled_diagonal(k, *part) for k, part in enumerate(parts))
        return add(self._scatter_matrix(k, *part) for k, part in enumerate(parts))

    def _scatter_matrix(self, part: int, weight: Array, groups: QueryGroups) -> Array:
        X = self._stored[0] if self._by_rows else self._stored[0].T
        if part not in self._samples:
            step = scatter_step(*self.shape)
            self._samples[part] = _core.sample_rows(
                X, groups.rows, groups.offsets, step, by_whole_groups(groups, step), self._threads
            )
        flat = _core.scatter(X, weight, *self._samples[part], self._threads)
        return flat.reshape(self.shape[1], -1)

    def _scaled_diagonal(self, part: int, weight: Array, groups: QueryGroups) -> Array:
        total = float(weight.sum())
        if not total > 0.0:
            return np.zeros(self.shape[1])
        if part not in self._diagonals:
            self._diagonals[part] = self.scatter_diagonal(weight, groups) / total
        return self._diagonals[part] * total

    def scatter_diagonal(self, weight: Array, groups: QueryGroups) -> Array:
        """Return the diagonal of the weighted scatter of the items within their groups."""
        self.n_products += 2
        if not self._is_dense:
            data, indices, indptr, cols = self._stored
            diagonal: Array = _core.sparse_scatter_diagonal(
                data,
                indices,
                indptr,
                cols,
                self._by_rows,
                weight,
                groups.index,
                groups.rows,
                groups.offsets,
                self._threads,
            )
            return np.maximum(0.0, diagonal)
        X = self._stored[0] if self._by_rows else self._stored[0].T
        middle = X[:: max(1, self.shape[0] // 256)].mean(axis=0, dtype=np.float64)
        diagonal = np.zeros(self.shape[1])
        query = 0
        n_queries = len(groups.offsets) - 1
        while query < n_queries:  # complete queries, about 256 items at a time
            first = groups.offsets[query]
            last = int(np.searchsorted(groups.offsets, first + 256, side="right"))
            last = min(max(last - 1, query + 1), n_queries)
            rows = groups.rows[first : groups.offsets[last]]
            diagonal += _within(X, rows, weight, groups.offsets[query : last + 1] - first, middle)
            query = last
        return np.maximum(0.0, diagonal)

    def _product(self, x: Array, *, transposed: bool) -> Array:
        self.n_products += 1
        x = np.ascontiguousarray(x, dtype=np.float64)
        compute: Any = _core.dense_product if self._is_dense else _core.sparse_product
        product: Array = compute(*self._stored, x, transposed, self._threads)
        return product


def _within(X: Any, rows: Any, weight: Array, offsets: Any, middle: Array) -> Array:
    """Return the weighted squared deviations of rows from their group means, for each column."""
    squares = np.zeros(X.shape[1])
    sums = np.zeros((len(offsets) - 1, X.shape[1]))
    group = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    for begin in range(0, len(rows), 1024):
        some = rows[begin : begin + 1024]
        block = X[some] - middle
        weighted = block * weight[some][:, None]
        squares += np.einsum("ij,ij->j", weighted, block)
        here = group[begin : begin + 1024]  # ascending, so a group is a run of rows
        first = np.flatnonzero(np.diff(here, prepend=-1))
        sums[here[first]] += np.add.reduceat(weighted, first, axis=0)
    mass = np.bincount(group, weight[rows], len(offsets) - 1)
    inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0.0)
    within: Array = squares - np.einsum("gj,gj,g->j", sums, sums, inverse)
    return within


def _without_repetitions(X: Any) -> Any:
    """Add up duplicate entries, since the bounds on rounding errors assume that there are none."""
    if X.has_canonical_format:
        return X
    tidy = X.astype(np.float64)
    tidy.sum_duplicates()
    return X if tidy.nnz == X.nnz else tidy  # unsorted entries are fine


def _as_float(values: Any) -> Any:
    """Return float32 and float64 unchanged, and anything else as float64."""
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
