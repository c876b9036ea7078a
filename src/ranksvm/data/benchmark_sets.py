"""Synthetic data sets that imitate well-known ones, for benchmarks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from ranksvm._checks import check_integer
from ranksvm._vectors import Array
from ranksvm.data.synthetic import Sample, Seed, counted_rows, standardize

# Size of the lookup table of the word distribution; the rarest of 50,000 words gets 3 or 4 entries.
_ZIPF_TABLE = 1 << 21
# Standard deviation of the logarithm of the document length in make_reuters_like.
_LENGTH_SPREAD = 0.4


def make_cadata_like(m: int, *, random_state: Seed = None) -> Sample:
    """Draw one global ranking that imitates the California housing data.

    There are eight dense features: a location in one of two clusters, age, income, and four
    correlated counts.  They are skewed and correlated, then standardized.  The utilities are
    real-valued and all different; they depend on the features in a noisy, non-linear way.

    Parameters
    ----------
    m : int
        Number of items.
    random_state : int, Generator or None, default=None
        Seed or random number generator.

    Returns
    -------
    X : ndarray of shape (m, 8)
        Features.
    y : ndarray of float64, shape (m,)
        Utilities.
    qid : None
    coef : None
    """
    check_integer("m", m)
    rng = np.random.default_rng(random_state)
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
    X = np.column_stack([standardize(column) for column in columns])

    coast = longitude + 0.8 * (latitude - 35.6) + 119.6  # distance from a diagonal coastline
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
    """Draw documents of Zipf-distributed words, ranked by similarity to a held-out document.

    Every row is a bag of words: word counts become ``(1 + log count) * idf`` and the row is
    scaled to length 1.  The utility of an item is its inner product with a held-out row from the
    same distribution.  It is real-valued, with ties at 0 if no word is shared.  Words are assigned
    to columns at random.

    Parameters
    ----------
    m : int
        Number of items.
    n_features : int, default=50_000
        Number of different words.
    nnz_per_row : float, default=75
        Mean number of different words per row.
    random_state : int, Generator or None, default=None
        Seed or random number generator.  The same seed gives the same vocabulary and the same
        held-out row for every ``m``.

    Returns
    -------
    X : csr_array of float64, shape (m, n_features)
        Documents, with sorted int32 indices (int64 from 2^31 non-zeros on).
    y : ndarray of float64, shape (m,)
        Utilities.
    qid : None
    coef : ndarray of float64, shape (n_features,)
        The held-out row.
    """
    check_integer("m", m)
    check_integer("n_features", n_features)
    if not 1.0 <= nnz_per_row <= 0.5 * n_features:
        raise ValueError(
            f"nnz_per_row must lie between 1 and n_features / 2; got {nnz_per_row!r} for "
            f"n_features={n_features}."
        )
    rng = np.random.default_rng(random_state)
    probability = 1.0 / np.arange(1, n_features + 1)
    probability /= probability.sum()
    column_of_word = rng.permutation(n_features).astype(np.int32)
    # The inverse distribution function as a table, so that a draw is one lookup.
    entries = np.diff(np.rint(_ZIPF_TABLE * np.cumsum(probability)), prepend=0.0)
    column_at = np.repeat(column_of_word, entries.astype(np.int64))
    length = _typical_length(probability, nnz_per_row)
    idf = np.empty(n_features)
    idf[column_of_word] = 1.0 - np.log(_chance_to_occur(probability, length))

    def draw(n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        spread = np.exp(_LENGTH_SPREAD * rng.standard_normal(n))
        lengths = np.maximum(1, np.rint(length * spread)).astype(np.int64)
        words = rng.integers(0, _ZIPF_TABLE, size=int(lengths.sum()), dtype=np.uint32)
        return lengths, column_at[words]

    def documents(n_rows: int) -> sparse.csr_array:
        chunks = []
        for chunk in counted_rows(draw, n_rows, n_features, 2.0 * length):
            values = (1.0 + np.log(chunk.data)) * idf[chunk.indices]
            norms = np.sqrt(np.add.reduceat(values * values, chunk.indptr[:-1]))
            chunk.data = values / np.repeat(norms, np.diff(chunk.indptr))
            chunks.append(chunk)
        return sparse.vstack(chunks, format="csr")

    held_out = documents(1).toarray()[0]
    X = documents(m)
    return X, X @ held_out, None, held_out


def _chance_to_occur(probability: Array, length: float) -> Array:
    """Return the share of documents that contain each word; lengths are log-normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    lengths = length * np.exp(_LENGTH_SPREAD * nodes)
    occurs = -np.expm1(-np.outer(probability, lengths))
    return np.asarray(occurs @ (weights / weights.sum()))


def _typical_length(probability: Array, nnz_per_row: float) -> float:
    """Return the document length that gives ``nnz_per_row`` different words on average."""

    def excess(length: float) -> float:
        return float(_chance_to_occur(probability, length).sum()) - nnz_per_row

    upper = nnz_per_row
    while excess(upper) < 0.0:
        upper *= 2.0
    return float(optimize.brentq(excess, 0.0, upper, rtol=1e-6))
