"""The Lagrange multipliers of a linear ranking SVM, and their approximation by low-rank factors.

At the optimum, w = sum over pairs of alpha_bw (x_b - x_w).  For the squared hinge,
alpha_bw = 2 C weight xi with xi = max(0, 1 - s_b + s_w).  For the hinge, the multipliers are not
unique when many pairs lie on the margin.  Those of the hinge with its corner rounded over a width
mu are unique, and feasible for the hinge itself:

    alpha_bw = C weight (max(0, xi) - max(0, xi - mu)) / mu.

Both are sums of terms  factor * weight * max(0, M - s_b + s_w).  Products with the symmetric matrix
S, S_bw = S_wb = alpha_bw, therefore need only sums over violated pairs (``PairPlan.sums``), and
pairs are never enumerated.

Factors.  Within a query, S is zero between items with the same label; the values of <v_i, v_j>
there do not matter, nor does the diagonal.  With two distinct labels, S = [[0, A], [A', 0]] has the
eigenvalues +-sigma for the singular values sigma of A, and V = sqrt(2) U sqrt(lambda) over the K
largest positive ones gives exactly the best approximation of A of rank K.  With more labels, the
same V is a good starting point.  The eigenvectors come from subspace iteration on all queries at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_integer
from ranksvm._points import Point
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.objective import RankObjective
from ranksvm.pairs.order import PairBackend, PairPlan
from ranksvm.solvers.base import Eval
from ranksvm.solvers.newton import Newton, Stepper

CORNER = 0.1  # width of the rounded corner of the hinge
NEWTON_STEPS = 100  # maximum number of steps to the minimizer of the rounded hinge
NEWTON_GAP = 1e-9
# Subspace iteration.
EXTRA_DIRECTIONS = 8
ITERATIONS = 6


class Term(NamedTuple):
    """``factor * weight * max(0, margin - s_b + s_w)``."""

    margin: float
    factor: float


MULTIPLIER_TERMS: dict[str, tuple[Term, ...]] = {
    "squared_hinge": (Term(1.0, 2.0),),
    "hinge": (Term(1.0, 1.0 / CORNER), Term(1.0 - CORNER, -1.0 / CORNER)),
}
"""Terms of the multipliers of each loss, for C = 1."""


def multiplier_terms(loss: str, C: float) -> tuple[Term, ...]:
    """Return the terms of the multipliers of a loss."""
    return tuple(Term(margin, C * factor) for margin, factor in MULTIPLIER_TERMS[loss])


class Multipliers:
    """The matrix S at given scores, as an operator.

    Parameters
    ----------
    backend : PairBackend
        The pairs.
    scores : ndarray of shape (n_items,)
        Scores of the items.
    terms : sequence of Term
        Terms of the multipliers.
    """

    def __init__(self, backend: PairBackend, scores: Array, terms: Sequence[Term]) -> None:
        snapshot = backend.at(scores)
        self._scores = snapshot.centred
        self._plans: list[tuple[PairPlan, Term]] = [
            (snapshot.plan(term.margin, products=True), term) for term in terms
        ]

    def product(self, V: Array) -> Array:
        """Return S V, for V of shape (n_items, k)."""
        return np.stack([self._column(np.ascontiguousarray(x)) for x in V.T], axis=1)

    def _column(self, x: Array) -> Array:
        s = self._scores
        total = np.zeros_like(x)
        for plan, (margin, factor) in self._plans:
            above, below = plan.sums(x)
            above_s, below_s = plan.sums(s * x)
            total += factor * ((margin + s) * above - above_s + (margin - s) * below + below_s)
        return total


def multiplier_point(objective: RankObjective, optimum: Point, loss: str) -> Point:
    """Return the point whose scores define the multipliers, given the optimum of a linear model.

    For the squared hinge this is the optimum, for the hinge the minimizer with the rounded corner.
    In both cases, w is the sum over pairs of alpha (x_b - x_w).
    """
    if loss == "squared_hinge":
        return optimum
    smooth = objective.smoothed(CORNER)
    stepper = Stepper(Newton(), smooth)
    evaluation: Eval = smooth.at(optimum)
    for _ in range(NEWTON_STEPS):
        goal = NEWTON_GAP * abs(evaluation.value)
        # Half the squared norm of the gradient bounds the distance of the value from its minimum.
        if 0.5 * smooth.inner(evaluation.grad, evaluation.slope) <= goal:
            break
        moved = stepper.step(evaluation, gap_goal=goal)
        if moved is None:
            break
        evaluation, _ = moved
    return evaluation.point


def factorize(
    multipliers: Multipliers, groups: QueryGroups, n_factors: int, seed: int = 0
) -> Array:
    """Return V of shape (n_items, n_factors) such that <v_b, v_w> approximates alpha_bw."""
    rng = np.random.default_rng(seed)
    # The rank of a query is at most its number of items.
    width = min(2 * n_factors + EXTRA_DIRECTIONS, int(groups.sizes.max()))
    basis = rng.standard_normal((groups.n_items, width))
    for _ in range(ITERATIONS):
        basis = _orthonormal(multipliers.product(basis), groups)
    image = multipliers.product(basis)
    factors = np.zeros((groups.n_items, n_factors))
    for rows in _rows_of(groups):
        Q = basis[rows, : len(rows)]
        small = Q.T @ image[rows, : len(rows)]
        values, vectors = np.linalg.eigh(0.5 * (small + small.T))
        first = slice(None, -n_factors - 1, -1)
        scale = np.sqrt(2.0 * np.maximum(values[first], 0.0))
        found = (Q @ vectors[:, first]) * scale
        factors[rows, : found.shape[1]] = found
    return factors


def _orthonormal(Y: Array, groups: QueryGroups) -> Array:
    """Orthonormalize the columns within each query; excess columns of small queries are zero."""
    out = np.zeros_like(Y)
    for rows in _rows_of(groups):
        Q, _ = np.linalg.qr(Y[rows])
        out[rows, : Q.shape[1]] = Q
    return out


def _rows_of(groups: QueryGroups) -> list[NDArray[np.int64]]:
    return np.split(groups.rows, groups.offsets[1:-1])


def query_multipliers(labels: Array, scores: Array, terms: Sequence[Term]) -> Array:
    """Return the multipliers of all pairs of one query, in O(n^2).

    Returns
    -------
    ndarray of shape (n, n)
        Entry (b, w) belongs to the pair of better item b and worse item w, with the items sorted
        from best to worst; zero where there is no pair.
    """
    best_first = np.argsort(-labels, kind="stable")
    u, s = labels[best_first], scores[best_first]
    slack = s[None, :] - s[:, None]
    alpha = np.zeros_like(slack)
    for margin, factor in terms:
        alpha += factor * np.maximum(0.0, margin + slack)
    return np.where(u[:, None] > u[None, :], alpha, 0.0)


@dataclass(frozen=True, eq=False)
class MultiplierSpectrum:
    """The spectrum of the multipliers of each query.

    Attributes
    ----------
    energy : list of ndarray
        One array per query of ``queries``: ``energy[q][k]`` is the fraction of the sum of squared
        multipliers that the best approximation of rank k + 1 captures.  Its length is the highest
        possible rank: the number of items without those of the most frequent label.
    shuffled : list of ndarray
        The same after randomly permuting the multipliers of each query among its pairs.
    queries : ndarray
        Ids of the queries with a positive multiplier; the others are omitted.
    n_pairs, n_violated : ndarray of int64, shape (len(queries),)
        Number of pairs, and of pairs with a positive multiplier.
    """

    energy: list[Array]
    shuffled: list[Array]
    queries: NDArray[Any]
    n_pairs: NDArray[np.int64]
    n_violated: NDArray[np.int64]

    def rank(self, share: float = 0.99, *, shuffled: bool = False) -> NDArray[np.int64]:
        """Return, for each query, the rank that captures this share of the squared multipliers."""
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share must lie in (0, 1]; got {share!r}")
        curves = self.shuffled if shuffled else self.energy
        last = [len(curve) - 1 for curve in curves]  # rounding may leave the last share below 1
        places = [int(np.searchsorted(curve, share)) for curve in curves]
        return np.minimum(places, last) + 1

    @property
    def full_rank(self) -> NDArray[np.int64]:
        """Highest possible rank of the multipliers of each query."""
        return np.array([len(curve) for curve in self.energy])

    def mean_energy(self, most: int, *, shuffled: bool = False) -> Array:
        """Return the share that ranks 1, ..., ``most`` capture, averaged over queries."""
        check_integer("most", most)
        curves = self.shuffled if shuffled else self.energy
        padded = [np.pad(curve[:most], (0, max(0, most - len(curve))), constant_values=1.0)
                  for curve in curves]  # fmt: skip
        mean: Array = np.mean(padded, axis=0)
        return mean


def spectrum_of(
    labels: Array, scores: Array, groups: QueryGroups, terms: Sequence[Term], seed: int
) -> MultiplierSpectrum:
    """Compute the spectrum of the multipliers of every query."""
    rng = np.random.default_rng(seed)
    energy, shuffled, queries, n_pairs, n_violated = [], [], [], [], []
    for query, rows in enumerate(_rows_of(groups)):
        alpha = query_multipliers(labels[rows], scores[rows], terms)
        u = np.sort(labels[rows])[::-1]
        is_pair = u[:, None] > u[None, :]
        if not (alpha > 0.0).any():
            continue
        queries.append(query)
        n_pairs.append(int(is_pair.sum()))
        n_violated.append(int((alpha > 0.0).sum()))
        permuted = np.zeros_like(alpha)
        permuted[is_pair] = rng.permutation(alpha[is_pair])
        # The highest rank of a matrix with these pairs.  With m items of the most frequent label,
        # item i of the sorted items is better than item i + m, so n - m diagonal entries can be
        # nonzero; and a cover of all pairs needs no more rows and columns.
        full = len(rows) - int(np.unique(u, return_counts=True)[1].max())
        energy.append(_shares(alpha, full))
        shuffled.append(_shares(permuted, full))
    return MultiplierSpectrum(
        energy, shuffled, groups.ids[queries], np.array(n_pairs), np.array(n_violated)
    )


def _shares(alpha: Array, full: int) -> Array:
    squares = np.square(np.linalg.svd(alpha, compute_uv=False)[:full])
    shares: Array = np.minimum(1.0, np.cumsum(squares) / squares.sum())
    return shares
