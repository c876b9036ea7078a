"""Features on one scale: every column of X is shifted and multiplied, or mapped to quantiles.

    "standard"   (x - mean) / standard deviation
    "minmax"     (x - minimum) / (maximum - minimum)
    "robust"     (x - median) / (third quartile - first quartile), or / standard deviation if both
                 quartiles are (nearly) equal
    "quantile"   the quantile of x in the column, as that of a normal distribution

All of them are found from the training items, weighted by their item weights.  A column with one
value only carries no information: it becomes zero.  So does one whose values differ by rounding
errors alone (``SAME`` in :mod:`ranksvm.data.column_facts`).

A pair sees differences of scores, so offsets change nothing in a linear model, and the factors d
are only another inner product: with w = d v the scores X w are those of the scaled features with
weights v, and |v|^2 takes the place of |w|^2 (:class:`ranksvm.maps.scaled.ScaledMap`).  X is never
copied, sparse X stays sparse, and the weights w are for features as they are.  Kernels and
quantiles need the scaled features themselves.  Offsets would make sparse features dense, and are
left out for them.

Quantiles.  Let F(x) be the weight of the smaller values of a column plus half the weight of the
equal ones, divided by the total weight.  Ties share a quantile, and repeating an item is the same
as doubling its weight.  x becomes the value at which a standard normal distribution has F(x), and
new values are interpolated between those of up to ``MOST_KNOTS`` training values.  Values that
differ only by a few roundings count as equal: the last bits of computed features, such as zscores
within queries of two items, would become whole quantiles otherwise.

Quartiles and quantiles of many items are those of about ``SAMPLE`` of them, which a hash of their
features chooses, whatever their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._rounding import TINY
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.data.column_facts import Columns, canonical_csc, find_columns, is_one_value

SAMPLE = 100_000
MOST_KNOTS = 1_000
# A smaller distance of the quartiles, relative to the standard deviation, counts as zero.
LEAST_SPREAD = 1e-6
# A little less, because sums of shares are rounded: a quarter of the items may be 0.24999.
QUARTILES = 0.25 - 1e-9, 0.5 - 1e-9, 0.75 - 1e-9
# Values with a smaller relative difference have the same quantile.
NOISE = 1e-15
# A smaller difference of sums of weights, relative to them, is mostly rounding errors.
CANCELED = 1e-6
Arrays = dict[str, NDArray[Any]]


class Scaling(ABC):
    """A change of the features, the same one for all items."""

    # Names of its arrays in a model file, with their number of dimensions; the first axis is that
    # of the features.
    ARRAYS: ClassVar[Mapping[str, int]]

    @abstractmethod
    def apply(self, X: Any, n_threads: int = 1) -> Any:
        """Return the scaled features of items: float64, dense or CSR."""

    @property
    def keeps_zeros(self) -> bool:
        """Whether sparse features stay sparse."""
        return False

    @property
    @abstractmethod
    def constant(self) -> NDArray[np.bool_]:
        """Which columns are left out, because they have one value only."""

    def arrays(self) -> Arrays:
        """Return the arrays for a model file."""
        return {name: getattr(self, name) for name in self.ARRAYS}


@dataclass(frozen=True, eq=False)
class Affine(Scaling):
    """(x - offset) * factor.

    Attributes
    ----------
    offset, factor : ndarray of shape (n_features,)
        The factor of a constant column is 0.  All offsets are 0 if the training items were sparse.
    """

    offset: Array
    factor: Array

    ARRAYS: ClassVar[Mapping[str, int]] = {"offset": 1, "factor": 1}

    @property
    def keeps_zeros(self) -> bool:
        return not self.offset.any()

    @property
    def constant(self) -> NDArray[np.bool_]:
        return np.equal(self.factor, 0.0)

    def apply(self, X: Any, n_threads: int = 1, *, out: Array | None = None) -> Any:
        """Return scaled features; those of dense items in ``out``, which may be X, if given."""
        if is_sparse(X) and self.keeps_zeros:
            X = X.tocsr().astype(np.float64)
            X.data *= self.factor[X.indices]
            return X
        if is_sparse(X):
            X = X.toarray()
        scaled = np.empty(X.shape) if out is None else out
        _core.scale_columns(X, self.offset, self.factor, scaled, n_threads)
        return scaled


@dataclass(frozen=True, eq=False)
class Quantiles(Scaling):
    """Levels at knots, linear in between.

    Attributes
    ----------
    knots, levels : ndarray of shape (n_features, n_knots)
        Knots ascend.  A column with fewer of them repeats its last one.
    """

    knots: Array
    levels: Array

    ARRAYS: ClassVar[Mapping[str, int]] = {"knots": 2, "levels": 2}

    @property
    def constant(self) -> NDArray[np.bool_]:
        return np.equal(self.knots[:, 0], self.knots[:, -1])

    def apply(self, X: Any, n_threads: int = 1) -> Any:
        if is_sparse(X):
            X = X.toarray()
        scaled = np.empty(X.shape)
        _core.map_columns(X, self.knots, self.levels, scaled, n_threads)
        return scaled


def find_scaling(
    name: str,
    columns: Callable[[], Columns],
    sample: Callable[[], tuple[Any, Array]],
    *,
    sparse: bool = False,
) -> Scaling:
    """Find the scaling of a data set.

    Parameters
    ----------
    name : str
        A key of ``SCALINGS``.
    columns : callable
        ``columns()`` returns facts about the columns (:func:`find_columns`).
    sample : callable
        ``sample()`` returns a sample of the items, chosen by :func:`sampled_rows`: their features,
        dense or sparse, and their weights.
    sparse : bool, default=False
        Whether the items are sparse, and have to stay so: without offsets.

    Returns
    -------
    Scaling
    """
    found = SCALINGS[name](columns, sample)
    if sparse and isinstance(found, Affine):
        return Affine(np.zeros_like(found.offset), found.factor)
    return found


def scaling_of(
    name: str,
    X: Any,
    weight: Array | None = None,
    n_threads: int = 1,
    columns: Callable[[], Columns] | None = None,
) -> Scaling:
    """Find the scaling of items in memory.

    Parameters
    ----------
    name : str
        A key of ``SCALINGS``.
    X : ndarray or sparse matrix of shape (n_items, n_features), float32 or float64, finite
    weight : ndarray of shape (n_items,) or None
        Weights of the items, not all zero; None for equal ones.
    n_threads : int
    columns : callable or None
        As for :func:`find_scaling`, if the facts are needed elsewhere as well.

    Returns
    -------
    Scaling
    """

    def sample() -> tuple[Any, Array]:
        weights = np.ones(X.shape[0]) if weight is None else weight
        hashes = None if is_sparse(X) else lambda: _core.hash_rows(X, n_threads)
        rows = sampled_rows(weights, hashes)
        return (X, weights) if rows is None else (_rows_of(X, rows), weights[rows])

    columns = columns or (lambda: find_columns(X, weight, n_threads))
    return find_scaling(name, columns, sample, sparse=is_sparse(X))


def _rows_of(X: Any, rows: NDArray[np.int64]) -> Any:
    return (X.tocsr() if is_sparse(X) else X)[rows]


def sampled_rows(
    weight: Array, hashes: Callable[[], NDArray[np.uint64]] | None
) -> NDArray[np.int64] | None:
    """Return the rows of a sample, ascending; None for all rows.

    Parameters
    ----------
    weight : ndarray of shape (n_items,)
        Weights of the items; those of weight zero are not in the sample.
    hashes : callable or None
        ``hashes()`` returns a hash of each row; None if there are none.
    """
    used = np.flatnonzero(weight)
    step = used.size // SAMPLE
    if step <= 1:
        return None if used.size == weight.size else used
    rows = used[::step]
    if hashes is not None:
        chosen = used[hashes()[used] % np.uint64(step) == 0]
        # Otherwise the rows are mostly alike, and the hash cannot tell them apart.
        if SAMPLE // 4 <= chosen.size <= 4 * SAMPLE:
            rows = chosen
    return rows


def _affine(columns: Columns, offset: Array, spread: Array) -> Affine:
    """Return the scaling that divides by ``spread``; a constant column becomes zero."""
    usable = ~columns.is_constant & (spread > 0.0)
    with np.errstate(over="ignore"):
        factor = np.divide(1.0, spread, out=np.zeros_like(spread), where=usable)
    return Affine(offset, np.minimum(factor, np.finfo(np.float64).max))


def _standard(columns: Callable[[], Columns], sample: Any) -> Scaling:
    del sample
    found = columns()
    return _affine(found, found.mean, found.deviation)


def _minmax(columns: Callable[[], Columns], sample: Any) -> Scaling:
    del sample
    found = columns()
    half = 0.5 * found.high - 0.5 * found.low  # the difference itself may overflow
    scaled = _affine(found, found.low, half)
    return Affine(scaled.offset, 0.5 * scaled.factor)


def _robust(columns: Callable[[], Columns], sample: Callable[[], tuple[Any, Array]]) -> Scaling:
    found = columns()
    median, spread = found.mean.copy(), found.deviation.copy()
    doubled = np.ones_like(spread)
    for k, (values, share) in enumerate(_distributions(*sample())):
        places = np.searchsorted(np.cumsum(share), QUARTILES).clip(max=values.size - 1)
        first, median[k], third = values[places]
        half = 0.5 * third - 0.5 * first  # the difference itself may overflow
        if half > LEAST_SPREAD * spread[k]:
            spread[k] = half
            doubled[k] = 2.0
    scaled = _affine(found, median, spread)
    return Affine(median, scaled.factor / doubled)


def _without_noise(values: Array, share: Array) -> tuple[Array, Array]:
    """Join values that differ only by a few roundings, and their shares."""
    with np.errstate(over="ignore"):
        gap = np.diff(values)
    largest = np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    first = np.flatnonzero(np.append(True, gap > NOISE * largest))
    if is_one_value(values[:1], values[-1:])[0]:
        first = first[:1]
    return values[first], np.add.reduceat(share, first)


def _quantile(columns: Any, sample: Callable[[], tuple[Any, Array]]) -> Scaling:
    # Imported here because the import is slow and not needed to read a model.
    from scipy.special import ndtri

    del columns
    found = list[tuple[Array, Array]]()
    for values, share in _distributions(*sample()):
        values, share = _without_noise(values, share)
        below = np.cumsum(share) - 0.5 * share
        # 1 - below, without the rounding that would make an item of tiny weight infinite.
        above = np.cumsum(share[::-1])[::-1] - 0.5 * share
        if values.size > MOST_KNOTS:  # about evenly spaced in their quantiles, with both ends
            wanted = np.linspace(below[0], below[-1], MOST_KNOTS)
            kept = np.unique(np.searchsorted(below, wanted).clip(max=values.size - 1))
            values, below, above = values[kept], below[kept], above[kept]
        level = ndtri(np.minimum(below, above).clip(min=TINY))
        level = np.where(below <= above, level, -level)
        found.append((values, level if values.size > 1 else np.zeros(1)))
    most = max((values.size for values, _ in found), default=1)
    knots, levels = np.empty((len(found), most)), np.empty((len(found), most))
    for k, (values, of_values) in enumerate(found):
        knots[k, : values.size], knots[k, values.size :] = values, values[-1]
        levels[k, : values.size], levels[k, values.size :] = of_values, of_values[-1]
    return Quantiles(knots, levels)


def _distributions(X: Any, weight: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the distinct values of every column, ascending, and their shares of the weight."""
    for column, of_value in _entries(X, weight):
        values, place = np.unique(column.astype(np.float64), return_inverse=True)
        share = np.bincount(place, of_value, values.size)
        yield values, share / share.sum()


def _entries(X: Any, weight: Array) -> Iterator[tuple[Array, Array]]:
    """Yield values of every column and their weights; zeros that are not stored as one value."""
    if not is_sparse(X):
        for k in range(X.shape[1]):
            yield X[:, k], weight
        return
    X = canonical_csc(X)
    total = weight.sum()
    for begin, end in pairwise(X.indptr.tolist()):
        values, of_value = X.data[begin:end], weight[X.indices[begin:end]]
        if end - begin < X.shape[0]:
            rest = total - of_value.sum()
            if not rest > CANCELED * total:
                rest = np.delete(weight, X.indices[begin:end]).sum()
            values, of_value = np.append(values, 0.0), np.append(of_value, rest)
        yield values, of_value


SCALINGS: dict[str, Callable[..., Scaling]] = {
    "standard": _standard,
    "minmax": _minmax,
    "robust": _robust,
    "quantile": _quantile,
}
# Arrays of a scaling in a model file begin with this.
PREFIX = "scaling."


def scaling_arrays(scaling: Scaling | None) -> Arrays:
    """Return the arrays of a scaling, by their names in a model file."""
    found = {} if scaling is None else scaling.arrays()
    return {PREFIX + name: array for name, array in found.items()}


def scaling_from(arrays: Mapping[str, NDArray[Any]], n_features: int) -> Scaling | None:
    """Return the scaling in a model file; raise a ValueError if it is not a valid one."""
    found = {name.removeprefix(PREFIX): one for name, one in arrays.items()}
    if not found:
        return None
    for kind in (Affine, Quantiles):
        if found.keys() == kind.ARRAYS.keys():
            break
    else:
        raise ValueError(f"unknown arrays of a scaling: {', '.join(sorted(arrays))}")
    shapes = {array.shape for array in found.values()}
    for name, array in found.items():
        is_right = array.dtype == np.float64 and array.ndim == kind.ARRAYS[name]
        if not is_right or array.shape[0] != n_features or 0 in array.shape or len(shapes) > 1:
            raise ValueError(
                f"array {PREFIX + name!r} must be float64, with {kind.ARRAYS[name]} dimension(s) "
                f"and {n_features} features; got {array.dtype} of shape {array.shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"array {PREFIX + name!r} must be finite")
    if kind is Affine and (found["factor"] < 0.0).any():
        raise ValueError(f"array '{PREFIX}factor' must not be negative")
    if kind is Quantiles and (np.diff(found["knots"], axis=1) < 0.0).any():
        raise ValueError(f"array '{PREFIX}knots' must ascend in every row")
    return kind(**found)
