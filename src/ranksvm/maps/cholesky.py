"""Randomly pivoted Cholesky: landmarks L and features F with F F' near a kernel matrix K.

Items come in one after the other.  With F of those that are in, K - F F' is what is not explained
yet, positive semi-definite, and its diagonal d says how much of every item; the next one is drawn
with probability d / sum(d) (Chen, Epperly, Tropp & Webber 2025).  Items unlike the others come in,
and none comes twice.  All that is needed of K is its diagonal and the columns of L.

Many draws at a time (Epperly, Tropp & Webber 2024): a batch is drawn by the d at hand, and a draw
is kept with the probability that its d has left after the draws before it, so that the landmarks
are distributed as if drawn singly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array

__all__ = ["pivoted_cholesky"]

BATCH = 64
# Nothing more comes in when this part of the diagonal is left.
LITTLE_LEFT = 1e-6
# Least part of an item that must be left for it to come in.
LEAST = 1e-6


def pivoted_cholesky(
    diagonal: Array, columns: Callable[[NDArray[np.int64]], NDArray[Any]], rank: int, noise: float
) -> tuple[NDArray[np.int64], Array]:
    """Draw landmarks, always the same ones.

    Parameters
    ----------
    diagonal : ndarray of shape (n_items,)
        That of K.
    columns : callable
        ``columns(items)`` is K[:, items], of shape (n_items, len(items)).
    rank : int
        Landmarks at most.
    noise : float
        Rounding errors of the values of K.

    Returns
    -------
    items : ndarray of int64, shape (k,)
        The landmarks, in the order in which they came in.
    features : ndarray of float64, shape (n_items, k)
        F; its rows of the landmarks are a lower triangular matrix.
    """
    # Imported here because it takes long, and reading a model does without.
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
        rest -= known @ known[drawn].T
        kept = _kept(rest[drawn], left[drawn], rng.random(BATCH), noise)[: rank - len(items)]
        if not kept:
            break
        new, rest = drawn[kept], rest[:, kept]
        root = np.linalg.cholesky(rest[new])
        found = solve_triangular(root, rest.T, lower=True, check_finite=False).T
        found[new] = root  # exactly zero above the diagonal
        found[items] = 0.0
        features[:, len(items) : len(items) + len(new)] = found
        left = np.maximum(0.0, left - np.einsum("ij,ij->i", found, found))
        left[new] = 0.0
        items = np.concatenate([items, new])
    return items, features[:, : len(items)]


def _kept(small: Array, left: Array, chances: Array, noise: float) -> list[int]:
    """Places of the draws that come in: those of which the draws before leave enough."""
    kept = []
    small = small.copy()
    for k, chance in enumerate(chances.tolist()):
        rest = float(small[k, k])
        if rest > max(max(chance, LEAST) * float(left[k]), noise):
            kept.append(k)
            column = small[:, k] / np.sqrt(rest)
            small -= np.outer(column, column)
    return kept
