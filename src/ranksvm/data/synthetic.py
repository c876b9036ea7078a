"""Synthetic ranking data, from a few queries for a test to a million rows for a benchmark.

:func:`make_ranking` draws items query by query.  Let z(.) denote scaling to mean 0 and variance 1
over all items, and eps standard normal noise.  The latent utility of item i is

    signal="linear"       u_i = z(x_i . coef) + noise * eps_i
    signal="nonlinear"    u_i = z( z(x_i . coef) + z(z(x_i . a) * z(x_i . b)) ) + noise * eps_i

where a and b are two more random directions.  The product has almost no linear part, so a linear
model can learn about half of the signal.  Grades are obtained by cutting u at thresholds, which
every query shifts by a random amount: some queries have many relevant items and some have none.

:mod:`ranksvm.data.benchmark_sets` imitates well-known data sets for benchmarks.  All random numbers
come from ``numpy.random.default_rng(random_state)``, so the same seed gives the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from ranksvm._checks import check_choice, check_integer
from ranksvm._vectors import Array

Seed = int | np.random.Generator | None

# Standard deviation of the shift of a query's utilities, relative to that of the utilities.
_QUERY_SPREAD = 0.8
_SIGNALS = ("linear", "nonlinear")
# Cells of a sparse matrix that are drawn at a time.
_CHUNK_CELLS = 4_000_000


# X, y, query ids (None for one global ranking) and the direction of the linear part of the signal
# (None if there is no such direction).
Sample = tuple[Any, Array, NDArray[np.int64] | None, Array | None]


def make_ranking(
    n_queries: int | None = 100,
    items_per_query: int | tuple[int, int] = 40,
    n_features: int = 46,
    *,
    n_levels: int | None = 3,
    n_informative: int | None = None,
    signal: Literal["linear", "nonlinear"] = "linear",
    noise: float = 0.5,
    density: float = 1.0,
    level_shares: Sequence[float] | None = None,
    dtype: DTypeLike = np.float64,
    shuffle: bool = False,
    random_state: Seed = None,
) -> Sample:
    """Draw queries with items, features and labels, similar to the LETOR data sets.

    Dense features are skewed and correlated, and scaled to [0, 1] within every query (LETOR's
    ``QueryLevelNorm``); a feature that is constant in a query is 0 there.  The non-zero values of
    sparse features are uniform on (0, 1].

    Parameters
    ----------
    n_queries : int or None, default=100
        Number of queries.  None draws one global ranking and returns ``qid=None``.
    items_per_query : int or (int, int), default=40
        Number of items per query, or an inclusive range from which it is drawn uniformly.
    n_features : int, default=46
        Number of features.
    n_levels : int or None, default=3
        Number of grades, which are 0 to ``n_levels - 1``.  None returns the real-valued latent
        utilities.
    n_informative : int or None, default=None
        Number of features that carry signal.  None means half of them, rounded up.
    signal : {"linear", "nonlinear"}, default="linear"
        "linear": a linear function of the features.  "nonlinear": adds a product of two linear
        functions, so that a linear model learns about half of the signal.
    noise : float, default=0.5
        Standard deviation of the noise, relative to that of the signal.
    density : float, default=1.0
        Probability that a feature is not zero.  Below 1, X is a CSR array.
    level_shares : sequence of float or None, default=None
        Share of the items with each grade, lowest grade first.  By default each grade is four
        times as rare as the one below it.
    dtype : {float64, float32}, default=float64
        Type of X.
    shuffle : bool, default=False
        Put the rows in random order, so that the items of a query are not contiguous.
    random_state : int, Generator or None, default=None
        Seed or random number generator.

    Returns
    -------
    X : ndarray or csr_array of shape (n_items, n_features)
        Features.
    y : ndarray of float64, shape (n_items,)
        Labels; larger is better.
    qid : ndarray of int64, shape (n_items,), or None
        Query id of each item; None for one global ranking.
    coef : ndarray of float64, shape (n_features,)
        Direction of the linear part of the signal.

    Examples
    --------
    >>> from ranksvm.datasets import make_ranking
    >>> X, y, qid, coef = make_ranking(n_queries=5, items_per_query=(3, 8), random_state=0)
    >>> X.shape == (len(qid), 46)
    True
    """
    sizes_range = _check_range("items_per_query", items_per_query)
    check_integer("n_features", n_features)
    if n_queries is not None:
        check_integer("n_queries", n_queries)
    if n_informative is None:
        n_informative = (n_features + 1) // 2
    check_integer("n_informative", n_informative)
    if n_informative > n_features:
        raise ValueError(
            f"n_informative must not exceed n_features; got {n_informative} and {n_features}."
        )
    check_choice("signal", signal, _SIGNALS)
    if not 0.0 <= noise < np.inf:
        raise ValueError(f"noise must be a finite number >= 0; got {noise!r}.")
    if not 0.0 < density <= 1.0:
        raise ValueError(f"density must lie in (0, 1]; got {density!r}. Use 1.0 for a dense X.")
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {dtype}.")
    shares = _check_shares(n_levels, level_shares)

    rng = np.random.default_rng(random_state)
    sizes = rng.integers(sizes_range[0], sizes_range[1] + 1, size=n_queries or 1)
    query = np.repeat(np.arange(sizes.shape[0], dtype=np.int64), sizes)

    X: NDArray[Any] | sparse.csr_array
    if density < 1.0:
        X = _sparse_features(rng, query.shape[0], n_features, density, dtype)
    else:
        X = _dense_features(rng, sizes, n_features, dtype)
    informative = rng.permutation(n_features)[:n_informative]

    def direction() -> Array:
        vector = np.zeros(n_features)
        vector[informative] = rng.standard_normal(n_informative)
        return vector

    coef = direction()
    clean = standardize(X @ coef)
    if signal == "nonlinear":
        product = standardize(X @ direction()) * standardize(X @ direction())
        clean = standardize(clean + standardize(product))
    y = clean + noise * rng.standard_normal(query.shape[0])
    if shares is not None:
        y = _grades(rng, y, query, sizes, shares)

    qid = None if n_queries is None else query
    if shuffle:
        order = rng.permutation(query.shape[0])
        X, y, qid = X[order], y[order], None if qid is None else qid[order]
    return X, y, qid, coef


def make_letor_like(n_queries: int = 1700, *, random_state: Seed = None) -> Sample:
    """Draw data of the size and shape of LETOR's MQ2007: about 41 items per query.

    There are 46 dense features in [0, 1] and grades 0, 1 and 2; half of the signal is non-linear.

    Parameters
    ----------
    n_queries : int, default=1700
        Number of queries.
    random_state : int, Generator or None, default=None
        Seed or random number generator.

    Returns
    -------
    X, y, qid, coef
        As returned by :func:`make_ranking`.
    """
    return make_ranking(
        n_queries, (8, 74), 46, n_levels=3, signal="nonlinear", random_state=random_state
    )


def _dense_features(
    rng: np.random.Generator, sizes: NDArray[np.int64], n_features: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Draw skewed, correlated features, scaled to [0, 1] within each query."""
    n_items = int(sizes.sum())
    n_factors = 1 + n_features // 6
    loadings = rng.standard_normal((n_factors, n_features)) / np.sqrt(n_factors)
    factors = rng.standard_normal((n_items, n_factors))
    X: NDArray[Any] = (factors @ loadings).astype(dtype)
    X += rng.standard_normal(X.shape, dtype=dtype)
    X *= 0.6
    np.exp(X, out=X)
    starts = np.cumsum(sizes) - sizes
    low = np.minimum.reduceat(X, starts, axis=0)
    width = np.maximum.reduceat(X, starts, axis=0) - low
    width[width == 0.0] = 1.0
    X -= np.repeat(low, sizes, axis=0)
    X /= np.repeat(width, sizes, axis=0)
    return X


def _sparse_features(
    rng: np.random.Generator, n_rows: int, n_features: int, density: float, dtype: np.dtype[Any]
) -> sparse.csr_array:
    """Draw features that are non-zero with probability ``density``, independently of each other.

    With a Poisson number of uniform draws per row, each cell independently stays empty with
    probability exp(-draws / n_features), which is set to 1 - density.
    """
    draws = -np.log1p(-density) * n_features

    def draw(n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        lengths = rng.poisson(draws, size=n).astype(np.int64)
        return lengths, rng.integers(0, n_features, size=int(lengths.sum()), dtype=np.int32)

    chunks = []
    for chunk in counted_rows(draw, n_rows, n_features, draws):
        chunk.data = 1.0 - rng.random(chunk.nnz, dtype=dtype)
        chunks.append(chunk)
    return sparse.vstack(chunks, format="csr")


def counted_rows(
    draw: Callable[[int], tuple[NDArray[np.int64], NDArray[np.int32]]],
    n_rows: int,
    n_columns: int,
    draws_per_row: float,
) -> Iterator[sparse.csr_array]:
    """Yield random sparse rows in chunks that limit the temporary memory to about 100 MB.

    Parameters
    ----------
    draw : callable
        Takes a number of rows; returns how many columns each row draws, and the columns.
    n_rows, n_columns : int
        Shape of all chunks together.
    draws_per_row : float
        Mean number of columns that a row draws.

    Yields
    ------
    csr_array of float64
        How often each column was drawn.
    """
    step = max(1, int(_CHUNK_CELLS / max(1.0, draws_per_row)))
    for first in range(0, n_rows, step):
        n = min(step, n_rows - first)
        lengths, columns = draw(n)
        indptr = np.append(0, np.cumsum(lengths)).astype(np.int32)
        chunk = sparse.csr_array((np.ones(len(columns)), columns, indptr), shape=(n, n_columns))
        chunk.sum_duplicates()
        yield chunk


def _grades(
    rng: np.random.Generator,
    utility: Array,
    query: NDArray[np.int64],
    sizes: NDArray[np.int64],
    shares: Array,
) -> Array:
    """Cut utilities into grades with the given overall shares, after shifting every query."""
    mean = np.bincount(query, weights=utility) / sizes
    shift = _QUERY_SPREAD * utility.std() * rng.standard_normal(sizes.shape[0])
    level = utility + (shift - mean)[query]
    thresholds = np.quantile(level, np.minimum(1.0, np.cumsum(shares)[:-1]))
    return np.asarray(np.searchsorted(thresholds, level, side="right"), dtype=np.float64)


def standardize(values: Array) -> Array:
    """Scale to mean 0 and variance 1; a constant becomes 0."""
    centred = values - values.mean()
    return np.asarray(centred / (centred.std() or 1.0))


def _check_range(name: str, value: int | tuple[int, int]) -> tuple[int, int]:
    low, high = value if isinstance(value, Sequence) and len(value) == 2 else (value, value)
    check_integer(name, low)
    check_integer(name, high)
    if low > high:
        raise ValueError(f"{name} must be given as (low, high) with low <= high; got {value!r}.")
    return low, high


def _check_shares(n_levels: int | None, level_shares: Sequence[float] | None) -> Array | None:
    """Return the share of each grade, or None for real-valued utilities."""
    if n_levels is None:
        if level_shares is not None:
            raise ValueError(
                "level_shares needs graded labels, but n_levels is None. Omit one of the two."
            )
        return None
    check_integer("n_levels", n_levels)
    if level_shares is None:
        rarity = 0.25 ** np.arange(n_levels, dtype=np.float64)
        return np.asarray(rarity / rarity.sum(), dtype=np.float64)
    shares = np.asarray(level_shares, dtype=np.float64)
    if shares.shape != (n_levels,) or not (shares >= 0.0).all() or abs(shares.sum() - 1.0) > 1e-8:
        raise ValueError(
            f"level_shares must hold {n_levels} shares >= 0 (one per level) that sum to 1; got "
            f"{level_shares!r}."
        )
    return shares
