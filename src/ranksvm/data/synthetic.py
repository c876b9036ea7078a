"""Synthetic ranking sets, from a few queries for a test to a million rows for a benchmark.

:func:`make_ranking` draws items query by query.  With z(.) for "scaled to mean 0, variance 1 over
all items" and eps standard normal noise, the latent utility of item i is

    signal="linear"       u_i = z(x_i . coef) + noise * eps_i
    signal="nonlinear"    u_i = z( z(x_i . coef) + z(z(x_i . a) * z(x_i . b)) ) + noise * eps_i

where a and b are two further random directions: the product has no linear part to speak of, so
a linear model can learn about half of that signal.  Grades are cut from u at thresholds that
every query shifts by its own amount, so some queries have many relevant items and some none.

The other functions imitate one well-known kind of set each and are meant for benchmarks.
All draws come from ``numpy.random.default_rng(random_state)``: the same seed gives the same set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import optimize, sparse

__all__ = [
    "make_cadata_like",
    "make_letor_like",
    "make_ranking",
    "make_reuters_like",
]

Array = NDArray[np.float64]
Seed = int | np.random.Generator | None

# Cells drawn at a time while a sparse matrix is built; bounds the scratch memory to some 100 MB.
_CHUNK_CELLS = 4_000_000
# Entries of the tabulated word distribution; the rarest of 50,000 words gets 3 or 4 of them.
_ZIPF_TABLE = 1 << 21
# Spread of the logarithm of document lengths in make_reuters_like.
_LENGTH_SPREAD = 0.4
# Spread of the level of utilities from query to query, in units of that of the utilities.
_QUERY_SPREAD = 0.8
_SIGNALS = ("linear", "nonlinear")


# X, y, query ids (None for one global ranking) and the direction of the linear part of the signal
# (None where there is no such direction).
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
    """Draw queries with items, features and utilities, in the manner of the LETOR sets.

    Dense features are skewed and correlated, and scaled to [0, 1] inside every query (LETOR's
    ``QueryLevelNorm``); a feature that is constant in a query is 0 there.  Sparse features are
    uniform on (0, 1] where they are not zero.

    Parameters
    ----------
    n_queries : int or None, default=100
        Number of queries.  None draws one global ranking and returns ``qid=None``.
    items_per_query : int or (int, int), default=40
        Items of each query, or the inclusive range from which they are drawn uniformly.
    n_features : int, default=46
    n_levels : int or None, default=3
        Grades 0 to ``n_levels - 1``, or None for the real-valued latent utilities themselves.
    n_informative : int or None, default=None
        Number of features that carry signal; half of them (rounded up) when None.
    signal : {"linear", "nonlinear"}, default="linear"
        See the head of this module.
    noise : float, default=0.5
        Standard deviation of the noise, in units of that of the signal.
    density : float, default=1.0
        Probability that a feature is not zero.  Below 1, X is a CSR array.
    level_shares : sequence of float or None, default=None
        Share of the items at each grade, lowest grade first.  By default each grade is four
        times as rare as the one below it.
    dtype : {float64, float32}, default=float64
        Type of X.
    shuffle : bool, default=False
        Put the rows in random order, so that the items of a query are no longer neighbours.
    random_state : int, Generator or None, default=None

    Returns
    -------
    X : ndarray or csr_array of shape (n_items, n_features)
    y : ndarray of float64, shape (n_items,)
        Utilities; larger is better.
    qid : ndarray of int64, shape (n_items,), or None
        Query of each item; None for one global ranking.
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
    _check_count("n_features", n_features)
    if n_queries is not None:
        _check_count("n_queries", n_queries)
    if n_informative is None:
        n_informative = (n_features + 1) // 2
    _check_count("n_informative", n_informative)
    if n_informative > n_features:
        raise ValueError(
            f"n_informative must not exceed n_features; got {n_informative} and {n_features}."
        )
    if signal not in _SIGNALS:
        raise ValueError(f"signal must be one of {list(_SIGNALS)}; got {signal!r}.")
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
    clean = _standardise(X @ coef)
    if signal == "nonlinear":
        product = _standardise(X @ direction()) * _standardise(X @ direction())
        clean = _standardise(clean + _standardise(product))
    y = clean + noise * rng.standard_normal(query.shape[0])
    if shares is not None:
        y = _grades(rng, y, query, sizes, shares)

    qid = None if n_queries is None else query
    if shuffle:
        order = rng.permutation(query.shape[0])
        X, y, qid = X[order], y[order], None if qid is None else qid[order]
    return X, y, qid, coef


def make_letor_like(n_queries: int = 1700, *, random_state: Seed = None) -> Sample:
    """Draw a set of the size and shape of LETOR's MQ2007: about 41 items a query.

    46 dense features in [0, 1], grades 0, 1 and 2, a signal that is half non-linear.

    Parameters
    ----------
    n_queries : int, default=1700
    random_state : int, Generator or None, default=None

    Returns
    -------
    RankingSample
    """
    return make_ranking(
        n_queries, (8, 74), 46, n_levels=3, signal="nonlinear", random_state=random_state
    )


def make_cadata_like(m: int, *, random_state: Seed = None) -> Sample:
    """Draw one global ranking in the manner of the California housing data.

    Eight dense features (a place in two clusters, age, income, and four counts that grow
    together), skewed and correlated, then standardised.  The utilities are real-valued and all
    different; their relation to the features is noisy and not linear.

    Parameters
    ----------
    m : int
        Number of items.
    random_state : int, Generator or None, default=None

    Returns
    -------
    RankingSample
        With ``qid=None`` and ``coef=None``.
    """
    _check_count("m", m)
    rng = np.random.default_rng(random_state)
    X = np.empty((m, 8))
    north = rng.random(m) < 0.4
    latitude = np.where(north, 37.8, 34.0) + 0.9 * rng.standard_normal(m)
    longitude = -119.6 - 0.8 * (latitude - 35.6) + 0.8 * rng.standard_normal(m)
    income = np.exp(1.25 + 0.45 * rng.standard_normal(m))
    age = 52.0 * rng.beta(1.6, 1.3, m)
    households = np.exp(6.0 - 0.012 * age + 0.7 * rng.standard_normal(m))
    rooms = households * (3.2 + 0.55 * income) * np.exp(0.2 * rng.standard_normal(m))
    bedrooms = households * np.exp(0.07 + 0.1 * rng.standard_normal(m))
    population = households * np.exp(1.05 + 0.3 * rng.standard_normal(m))
    columns = (income, age, rooms, bedrooms, population, households, latitude, longitude)
    for j, column in enumerate(columns):
        X[:, j] = _standardise(column)

    coast = longitude + 0.8 * (latitude - 35.6) + 119.6  # distance from the diagonal coast line
    y = (
        np.log(income)
        - 0.45 * np.log(population / households)
        + 0.35 * np.exp(-((coast + 0.8) ** 2))
        + 0.15 * (age / 25.0 - 1.0) ** 2
        + 0.3 * rng.standard_normal(m)
    )
    return X, np.exp(y), None, None


def make_reuters_like(
    m: int,
    *,
    n_features: int = 50_000,
    nnz_per_row: float = 75,
    random_state: Seed = None,
) -> Sample:
    """Draw documents of Zipf-distributed words, ranked by likeness to one more document.

    Every row is a bag of words: word counts become ``(1 + log count) * idf`` and the row is
    scaled to length 1.  The utility of an item is its product with one held-out row of the
    same distribution: real-valued, with ties at 0 where no word is shared.  Words have random
    column numbers.

    Parameters
    ----------
    m : int
        Number of items.
    n_features : int, default=50_000
        Number of different words.
    nnz_per_row : float, default=75
        Mean number of different words in a row.
    random_state : int, Generator or None, default=None
        One seed gives the same vocabulary and the same held-out row for every ``m``.

    Returns
    -------
    RankingSample
        X is a CSR array of float64 with sorted int32 indices (int64 from 2^31 non-zeros on);
        ``qid`` is None; ``coef`` is the held-out row.
    """
    _check_count("m", m)
    _check_count("n_features", n_features)
    if not 1.0 <= nnz_per_row <= 0.5 * n_features:
        raise ValueError(
            f"nnz_per_row must lie between 1 and n_features / 2; got {nnz_per_row!r} for "
            f"n_features={n_features}."
        )
    rng = np.random.default_rng(random_state)
    probability = 1.0 / np.arange(1, n_features + 1)
    probability /= probability.sum()
    column_of_word = rng.permutation(n_features).astype(np.int32)
    # The inverse distribution function as a table: a draw is one look-up.
    entries = np.diff(np.rint(_ZIPF_TABLE * np.cumsum(probability)), prepend=0.0)
    column_at = np.repeat(column_of_word, entries.astype(np.int64))
    length = _typical_length(probability, nnz_per_row)
    idf = np.empty(n_features)
    idf[column_of_word] = 1.0 - np.log(_chance_to_occur(probability, length))

    def documents(n_rows: int) -> Iterator[_Rows]:
        for n in _chunks(n_rows, 2.0 * length):
            spread = np.exp(_LENGTH_SPREAD * rng.standard_normal(n))
            lengths = np.maximum(1, np.rint(length * spread)).astype(np.int64)
            words = rng.integers(0, _ZIPF_TABLE, size=int(lengths.sum()), dtype=np.uint32)
            row_nnz, columns, counts = _count_repeats(lengths, column_at[words], n_features)
            values = (1.0 + np.log(counts)) * idf[columns]
            starts = np.cumsum(row_nnz) - row_nnz
            norms = np.sqrt(np.add.reduceat(values * values, starts))
            values /= np.repeat(norms, row_nnz)
            yield _Rows(row_nnz, columns, values)

    held_out = _stack(documents(1), n_features).toarray()[0]
    X = _stack(documents(m), n_features)
    return X, X @ held_out, None, held_out


def _dense_features(
    rng: np.random.Generator, sizes: NDArray[np.int64], n_features: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Skewed, correlated features, scaled to [0, 1] inside each query."""
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
    """Features that are not zero with probability ``density``, independently of each other.

    A Poisson number of uniform draws per row leaves each cell empty with probability
    exp(-draws / n_features), independently, which is set to 1 - density.
    """
    draws = -np.log1p(-density) * n_features

    def rows() -> Iterator[_Rows]:
        for n in _chunks(n_rows, draws):
            lengths = rng.poisson(draws, size=n).astype(np.int64)
            columns = rng.integers(0, n_features, size=int(lengths.sum()), dtype=np.int32)
            row_nnz, columns, _ = _count_repeats(lengths, columns, n_features)
            yield _Rows(row_nnz, columns, 1.0 - rng.random(columns.shape[0], dtype=dtype))

    return _stack(rows(), n_features)


def _grades(
    rng: np.random.Generator,
    utility: Array,
    query: NDArray[np.int64],
    sizes: NDArray[np.int64],
    shares: Array,
) -> Array:
    """Cut utilities into grades with the given shares overall, each query at its own level."""
    mean = np.bincount(query, weights=utility) / sizes
    shift = _QUERY_SPREAD * utility.std() * rng.standard_normal(sizes.shape[0])
    level = utility + (shift - mean)[query]
    thresholds = np.quantile(level, np.minimum(1.0, np.cumsum(shares)[:-1]))
    return np.asarray(np.searchsorted(thresholds, level, side="right"), dtype=np.float64)


def _standardise(values: Array) -> Array:
    """Scale to mean 0 and variance 1; a constant becomes 0."""
    centred = values - values.mean()
    return np.asarray(centred / (centred.std() or 1.0))


def _chance_to_occur(probability: Array, length: float) -> Array:
    """Share of the documents that hold each word, when lengths are log-normal around ``length``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    lengths = length * np.exp(_LENGTH_SPREAD * nodes)
    occurs = -np.expm1(-np.outer(probability, lengths))
    return np.asarray(occurs @ (weights / weights.sum()))


def _typical_length(probability: Array, nnz_per_row: float) -> float:
    """Document length at which documents have ``nnz_per_row`` different words on average."""

    def excess(length: float) -> float:
        return float(_chance_to_occur(probability, length).sum()) - nnz_per_row

    upper = nnz_per_row
    while excess(upper) < 0.0:
        upper *= 2.0
    return float(optimize.brentq(excess, 0.0, upper, rtol=1e-6))


class _Rows(NamedTuple):
    """Some rows of a CSR matrix: non-zeros per row, and columns and values of them all."""

    row_nnz: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[Any]


def _chunks(n_rows: int, cells_per_row: float) -> Iterator[int]:
    """Split rows into chunks of bounded size."""
    step = max(1, int(_CHUNK_CELLS / max(1.0, cells_per_row)))
    for first in range(0, n_rows, step):
        yield min(step, n_rows - first)


def _count_repeats(
    lengths: NDArray[np.int64], columns: NDArray[np.int32], n_columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Turn columns drawn row by row into distinct sorted columns and how often each was drawn."""
    n_rows = lengths.shape[0]
    cells = np.repeat(np.arange(n_rows, dtype=np.int64) * n_columns, lengths)
    cells += columns
    cells.sort()
    new = np.ones(cells.shape[0], dtype=bool)
    np.not_equal(cells[1:], cells[:-1], out=new[1:])
    first = np.flatnonzero(new)
    counts = np.diff(first, append=cells.shape[0])
    rows, distinct = np.divmod(cells[first], n_columns)
    return np.bincount(rows, minlength=n_rows), distinct.astype(np.int32), counts


def _stack(parts: Iterable[_Rows], n_columns: int) -> sparse.csr_array:
    """Join rows into one CSR array in canonical form."""
    row_nnz, columns, values = (list(column) for column in zip(*parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(row_nnz))])
    index_dtype = np.int32 if indptr[-1] < 2**31 else np.int64
    indices = np.concatenate(columns).astype(index_dtype, copy=False)
    columns.clear()
    data = np.concatenate(values)
    values.clear()
    X = sparse.csr_array(
        (data, indices, indptr.astype(index_dtype)), shape=(indptr.shape[0] - 1, n_columns)
    )
    X.has_canonical_format = True  # sorted and distinct by construction: spares SciPy the check
    return X


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1; got {value!r}.")


def _check_range(name: str, value: int | tuple[int, int]) -> tuple[int, int]:
    low, high = value if isinstance(value, Sequence) and len(value) == 2 else (value, value)
    _check_count(name, low)
    _check_count(name, high)
    if low > high:
        raise ValueError(f"{name} must be given as (low, high) with low <= high; got {value!r}.")
    return low, high


def _check_shares(n_levels: int | None, level_shares: Sequence[float] | None) -> Array | None:
    """Share of each grade, or None for real-valued utilities."""
    if n_levels is None:
        if level_shares is not None:
            raise ValueError(
                "level_shares is for graded utilities; got it with n_levels=None. Leave one out."
            )
        return None
    _check_count("n_levels", n_levels)
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
