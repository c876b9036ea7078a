"""The Lagrange multipliers of a linear ranking machine, and how well few factors stand for them.

At the optimum w = sum over pairs of alpha_bw (x_b - x_w) with, for the squared hinge,
alpha_bw = 2 C weight xi, xi = max(0, 1 - s_b + s_w).  The hinge has no unique multipliers when many
pairs lie on the margin.  Those of the hinge with its corner rounded over a width mu are unique, and
feasible for the hinge itself:

    alpha_bw = C weight (max(0, xi) - max(0, xi - mu)) / mu.

Both are sums of terms  factor * weight * max(0, M - s_b + s_w),  and products of the symmetric
matrix S with S_bw = S_wb = alpha_bw need sums over violated pairs alone (``PairPlan.sums``): no
pair is ever written down.

Factors.  S of a query is zero between items of one level; what <v_i, v_j> says there is free, as is
the diagonal.  With two levels, S = [[0, A], [A', 0]] has the eigenvalues +-sigma of the singular
values of A, and V = sqrt(2) U sqrt(lambda) over the K largest positive ones gives exactly the best
approximation of A of rank K.  With more levels the same V is a good start.  The eigenvectors come
from subspace iteration, all queries at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_positive
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.objective import RankObjective
from ranksvm.pairs.order import PairBackend, PairPlan
from ranksvm.solvers.base import Eval, Point, gradient_norm2
from ranksvm.solvers.newton import Newton, Stepper

__all__ = [
    "MultiplierSpectrum",
    "Multipliers",
    "factorise",
    "multiplier_point",
    "multiplier_terms",
    "query_multipliers",
    "spectrum_of",
]

# Width of the rounded corner of the hinge, and Newton steps to its minimiser at most.
CORNER = 0.1
NEWTON_STEPS = 100
NEWTON_GAP = 1e-9
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
"""Terms of the multipliers of a loss, for C = 1."""


def multiplier_terms(loss: str, C: float) -> tuple[Term, ...]:
    """Terms of the multipliers of a loss."""
    return tuple(Term(margin, C * factor) for margin, factor in MULTIPLIER_TERMS[loss])


class Multipliers:
    """The matrix S at some scores, by its products.

    Parameters
    ----------
    backend : PairBackend
    scores : ndarray of shape (n_items,)
    terms : sequence of Term
    """

    def __init__(self, backend: PairBackend, scores: Array, terms: Sequence[Term]) -> None:
        snapshot = backend.at(scores)
        self._scores = snapshot.centred
        self._plans: list[tuple[PairPlan, Term]] = [
            (snapshot.plan(term.margin, products=True), term) for term in terms
        ]

    def product(self, V: Array, check: Callable[[], None] = lambda: None) -> Array:
        """S V, for V of shape (n_items, k)."""
        out = np.empty_like(V)
        for k in range(V.shape[1]):
            check()
            out[:, k] = self._column(np.ascontiguousarray(V[:, k]))
        return out

    def _column(self, x: Array) -> Array:
        s = self._scores
        total = np.zeros_like(x)
        for plan, (margin, factor) in self._plans:
            above, below = plan.sums(x)
            above_s, below_s = plan.sums(s * x)
            total += factor * ((margin + s) * above - above_s + (margin - s) * below + below_s)
        return total


def multiplier_point(objective: RankObjective, optimum: Point, loss: str) -> Point:
    """Where the multipliers of a loss are read, from the optimum of a linear machine.

    For the hinge that is the minimiser with the rounded corner: there, as at the optimum of the
    squared hinge, w is the sum over pairs of alpha (x_b - x_w).
    """
    if loss == "squared_hinge":
        return optimum
    smooth = objective.smoothed(CORNER)
    stepper = Stepper(Newton(), smooth)
    evaluation: Eval = smooth.at(optimum)
    for _ in range(NEWTON_STEPS):
        goal = NEWTON_GAP * abs(evaluation.value)
        # Half the squared gradient bounds the distance of the value from its minimum.
        if 0.5 * gradient_norm2(smooth, evaluation) <= goal:
            break
        moved = stepper.step(evaluation, gap_goal=goal)
        if moved is None:
            break
        evaluation, _ = moved
    return evaluation.point


def factorise(
    multipliers: Multipliers,
    groups: QueryGroups,
    n_factors: int,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> Array:
    """Return V of shape (n_items, n_factors) with <v_b, v_w> near alpha_bw.

    ``check`` is called now and then, and may raise.
    """
    rng = np.random.default_rng(seed)
    # A query has no more directions than items.
    width = min(2 * n_factors + EXTRA_DIRECTIONS, int(groups.sizes.max()))
    basis = rng.standard_normal((groups.n_items, width))
    for _ in range(ITERATIONS):
        basis = _orthonormal(multipliers.product(basis, check), groups)
    image = multipliers.product(basis, check)
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
    """Orthonormal columns for the items of every query; zeros where there are not so many."""
    out = np.zeros_like(Y)
    for rows in _rows_of(groups):
        Q, _ = np.linalg.qr(Y[rows])
        out[rows, : Q.shape[1]] = Q
    return out


def _rows_of(groups: QueryGroups) -> list[NDArray[np.int64]]:
    return np.split(groups.rows, groups.offsets[1:-1])


def query_multipliers(utility: Array, scores: Array, terms: Sequence[Term]) -> Array:
    """Write the multipliers of one query down, pair by pair: O(n^2).

    Returns
    -------
    ndarray of shape (n, n)
        Row: the better item, column: the worse; items from the best to the worst, zero where there
        is no pair.
    """
    best_first = np.argsort(-utility, kind="stable")
    u, s = utility[best_first], scores[best_first]
    slack = s[None, :] - s[:, None]
    alpha = np.zeros_like(slack)
    for margin, factor in terms:
        alpha += factor * np.maximum(0.0, margin + slack)
    return np.where(u[:, None] > u[None, :], alpha, 0.0)


@dataclass(frozen=True, eq=False)
class MultiplierSpectrum:
    """How low the rank of the multipliers is, query by query.

    Attributes
    ----------
    energy : list of ndarray
        Of every query of ``queries``: ``energy[q][k]`` is the share of the sum of squared
        multipliers that the best matrix of rank k + 1 has.  As long as the rank could be: the
        number of items outside the largest level.
    shuffled : list of ndarray
        The same after the multipliers of each query were dealt anew to its pairs.
    queries : ndarray
        Ids of the queries that have a multiplier above zero; the others are left out.
    n_pairs, n_violated : ndarray of int64, shape (len(queries),)
        Pairs, and those with a multiplier above zero.
    """

    energy: list[Array]
    shuffled: list[Array]
    queries: NDArray[Any]
    n_pairs: NDArray[np.int64]
    n_violated: NDArray[np.int64]

    def rank(self, share: float = 0.99, *, shuffled: bool = False) -> NDArray[np.int64]:
        """Return the rank that holds this share of the squared multipliers, by query."""
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share must lie in (0, 1]; got {share!r}")
        curves = self.shuffled if shuffled else self.energy
        last = [len(curve) - 1 for curve in curves]  # the sum of all shares may round below 1
        places = [int(np.searchsorted(curve, share)) for curve in curves]
        return np.minimum(places, last) + 1

    @property
    def full_rank(self) -> NDArray[np.int64]:
        """Largest rank that the multipliers of each query could have."""
        return np.array([len(curve) for curve in self.energy])

    def mean_energy(self, most: int, *, shuffled: bool = False) -> Array:
        """Return the share that rank 1, ..., ``most`` holds, averaged over queries."""
        check_positive("most", most, integer=True)
        curves = self.shuffled if shuffled else self.energy
        padded = [np.pad(curve[:most], (0, max(0, most - len(curve))), constant_values=1.0)
                  for curve in curves]  # fmt: skip
        mean: Array = np.mean(padded, axis=0)
        return mean


def spectrum_of(
    utility: Array, scores: Array, groups: QueryGroups, terms: Sequence[Term], seed: int
) -> MultiplierSpectrum:
    """Look at the singular values of the multipliers of every query."""
    rng = np.random.default_rng(seed)
    energy, shuffled, queries, n_pairs, n_violated = [], [], [], [], []
    for query, rows in enumerate(_rows_of(groups)):
        alpha = query_multipliers(utility[rows], scores[rows], terms)
        u = np.sort(utility[rows])[::-1]
        is_pair = u[:, None] > u[None, :]
        if not (alpha > 0.0).any():
            continue
        queries.append(query)
        n_pairs.append(int(is_pair.sum()))
        n_violated.append(int((alpha > 0.0).sum()))
        dealt = np.zeros_like(alpha)
        dealt[is_pair] = rng.permutation(alpha[is_pair])
        # No entry of a matrix with these pairs is on more than so many rows and columns: from the
        # best to the worst, each item is better than the one as many places on as the largest
        # level has items.
        full = len(rows) - int(np.unique(u, return_counts=True)[1].max())
        energy.append(_shares(alpha, full))
        shuffled.append(_shares(dealt, full))
    return MultiplierSpectrum(
        energy, shuffled, groups.ids[queries], np.array(n_pairs), np.array(n_violated)
    )


def _shares(alpha: Array, full: int) -> Array:
    squares = np.square(np.linalg.svd(alpha, compute_uv=False)[:full])
    shares: Array = np.minimum(1.0, np.cumsum(squares) / squares.sum())
    return shares
