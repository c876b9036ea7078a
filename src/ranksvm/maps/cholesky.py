"""Randomly pivoted Cholesky: landmarks L and features F with F F' close to a kernel matrix K.

Landmarks are drawn one after the other.  With F from the current landmarks, the residual K - F F'
is positive semi-definite, and its diagonal d says how much of each item is not yet explained.  The
next item is drawn with probability d / sum(d) (Chen, Epperly, Tropp & Webber 2025).  This prefers
items that are unlike the current landmarks, and draws none twice.  Of K, only the diagonal and the
columns of L are needed.

Landmarks are drawn in batches (Epperly, Tropp & Webber 2024): a batch is drawn with the current d,
and each draw is accepted with the probability given by the share of its d that is left after the
previous draws.  The landmarks then have the same distribution as if drawn one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.maps.kernels import LINEAR, kernel_matrix

BATCH = 64
# Stop when only this fraction of the diagonal is left.
LITTLE_LEFT = 1e-6
# An item needs at least this fraction of its diagonal entry left to be accepted.
LEAST = 1e-6


def pivoted_cholesky(
    diagonal: Array,
    columns: Callable[[NDArray[np.int64]], NDArray[Any]],
    rank: int,
    noise: float,
    *,
    n_threads: int = 1,
) -> tuple[NDArray[np.int64], Array]:
    """Draw landmarks, with a fixed seed.

    Parameters
    ----------
    diagonal : ndarray of shape (n_items,)
        Diagonal of K.
    columns : callable
        ``columns(items)`` is K[:, items], of shape (n_items, len(items)).
    rank : int
        Maximum number of landmarks.
    noise : float
        Rounding errors of the values of K.
    n_threads : int
        Number of threads of the products, which are most of the work.

    Returns
    -------
    items : ndarray of int64, shape (k,)
        The landmarks, in the order in which they were drawn.
    features : ndarray of float64, shape (n_items, k)
        F; the rows of the landmarks form a lower triangular matrix.
    """
    # Imported here because the import is slow and not needed to read a model.
    from scipy.linalg import solve_triangular

    rng = np.random.default_rng(0)
    n_items = len(diagonal)
    left = np.maximum(0.0, diagonal)
    enough = LITTLE_LEFT * float(left.sum())
    features = np.zeros((n_items, rank))
    items = np.empty(0, dtype=np.int64)
    while len(items) < rank and float(left.sum()) > enough:
        known = features[:, : len(items)]
        drawn = rng.choice(n_items, BATCH, p=left / left.sum())
        rest = columns(drawn).astype(np.float64, copy=False)
        if len(items):
            rest -= kernel_matrix(LINEAR, known, known[drawn], n_threads=n_threads)
        kept = _kept(rest[drawn], left[drawn], rng.random(BATCH), noise)[: rank - len(items)]
        if not kept:
            break
        new, rest = drawn[kept], rest[:, kept]
        root = np.linalg.cholesky(rest[new])
        inverse = solve_triangular(root, np.eye(len(new)), lower=True, check_finite=False)
        found = kernel_matrix(LINEAR, rest, inverse, n_threads=n_threads)
        found[new] = root  # exactly zero above the diagonal
        found[items] = 0.0
        features[:, len(items) : len(items) + len(new)] = found
        left = np.maximum(0.0, left - np.einsum("ij,ij->i", found, found))
        left[new] = 0.0
        items = np.concatenate([items, new])
    return items, features[:, : len(items)]


def _kept(small: Array, left: Array, chances: Array, noise: float) -> list[int]:
    """Return the indices of the accepted draws: those of which the earlier draws leave enough."""
    kept = []
    small = small.copy()
    for k, chance in enumerate(chances.tolist()):
        rest = float(small[k, k])
        if rest > max(max(chance, LEAST) * float(left[k]), noise):
            kept.append(k)
            column = small[:, k] / np.sqrt(rest)
            small -= np.outer(column, column)
    return kept
