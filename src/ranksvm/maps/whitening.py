"""Whitening of a kernel matrix W of landmarks: M with M' W M = I.

W may be singular (if a landmark occurs twice) or nearly singular, and M divides by the square roots
of its eigenvalues s.  Only those with s > t s_1 are kept, where s_1 is the largest.  For kernel
values of about 1 with errors of about u, the effects of the threshold t are:

    dropped     an eigenvalue t s_1 <= t m changes a kernel value by at most t m
    kept        errors of k(Z, x) are amplified to u sqrt(m / s) <= u / sqrt(t) if s_1 is about m

so t must be far above u^2 and far below 1 / m.  For float32 (u = 6e-8), t = 1e-7, which makes both
effects 2e-4 for m = 2,000.  For float64 (u = 1e-16, and some rounding before), t = 1e-12, but never
less than m times the precision of float64, below which the eigenvalues of W are noise.  Errors in W
itself show up as negative eigenvalues: eigenvalues up to twice the size of the most negative one
are dropped, too, which also handles kernels of low precision.

Usually nothing has to be dropped.  Then W = L L' (Cholesky) gives M = L'^-1, in a fifth of the time
of the eigenvectors, by products of blocks that all threads share, and with smaller errors.  A pivot
of L that is too small, or an estimate of the smallest eigenvalue, says that something must be
dropped; then W = U S U' gives M = U S^-1/2.  Both give the same model: the features differ by a
rotation.

The leading directions of the features, on which a preconditioner works, are those of the features
of the landmarks.  Eigenvectors are sorted.  For Cholesky factors, the features of the landmarks are
the rows of L, and two steps of subspace iteration with W find the directions V = L'D well enough,
from those of the first landmarks.  Kernel values at the landmarks times M V = D are coordinates in
the subspace.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ranksvm import _core
from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array, dot
from ranksvm.maps.kernels import LINEAR, kernel_matrix
from ranksvm.maps.matrix import MatrixMap

# Eigenvalues below this fraction of the largest are dropped, by type of the raw features.
THRESHOLD = {"float64": 1e-12, "float32": 1e-7}
# Negative eigenvalues up to this fraction of the largest value count as rounding.
ROUNDING = 1e-6
# Columns of L that are computed at a time.
BLOCK = 192
# Added to the diagonal of the inner products of nearly dependent unit vectors, for each of them.
SHIFT = 1e-12
# Rounds of orthonormalization at most; and inner products that are so near to those of an
# orthonormal basis need no further round.
MOST_ROUNDS, NEAR = 4, 1e-4
# Steps of the power method for the smallest eigenvalue, and how far it may be below the estimate.
POWER_STEPS, POWER_SLACK = 8, 4.0


class Subspace(NamedTuple):
    """A subspace of kernel features.

    Attributes
    ----------
    basis : ndarray of shape (r, k)
        Orthonormal columns V.
    directions : ndarray of shape (m, k)
        M V, which turns raw features into coordinates in the subspace.
    """

    basis: Array
    directions: Array


class Whitening(NamedTuple):
    """A whitening matrix.

    Attributes
    ----------
    matrix : ndarray of shape (m, r)
        The matrix M.
    leading : Subspace or None
        The leading directions of the features, if they were asked for.
    """

    matrix: Array
    leading: Subspace | None = None


def whitening(
    W: Array,
    *,
    threshold: float = THRESHOLD["float64"],
    n_directions: int = 0,
    n_threads: int = 1,
) -> Whitening:
    """Whiten a kernel matrix.

    Parameters
    ----------
    W : ndarray of shape (m, m)
        Kernel matrix, symmetric, and positive semi-definite up to rounding.
    threshold : float, default=1e-12
        Eigenvalues up to this fraction of the largest are dropped, and so are those that can be
        explained by rounding errors of W; see the module docstring.
    n_directions : int, default=0
        Maximum number of leading directions to find.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    Whitening
        The same for any number of threads.
    """
    if not _core.all_finite(np.ravel(W), n_threads):
        raise _not_finite(W)
    factors = _safe_factors(W, threshold, n_threads)
    matrix = eigenvector_whitening(W, threshold=threshold) if factors is None else factors[1]
    r = matrix.shape[1]
    k = min(n_directions, r)
    if k == 0:
        return Whitening(matrix)
    if factors is None or k == r:
        return Whitening(matrix, Subspace(np.eye(r, k), matrix[:, :k]))
    return Whitening(matrix, _leading(W, factors[0], k, n_threads))


def eigenvector_whitening(W: Array, *, threshold: float) -> Array:
    """Return M from the eigenvectors of W with large enough eigenvalues, the largest first."""
    with one_blas_thread():  # more threads would change the last bits
        eigenvalues, vectors = np.linalg.eigh(W)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if not largest > 0.0:
        raise ValueError(
            "the kernel has no positive eigenvalue at the landmarks (largest "
            f"{largest:.2g}, of {len(W)}), so it does not distinguish items. Check the items and "
            "the kernel parameters."
        )
    if smallest < -ROUNDING * largest:
        raise ValueError(
            "the kernel is not positive semi-definite: at the landmarks its smallest eigenvalue is "
            f"{smallest:.2g}, its largest {largest:.2g}. Use another kernel or other parameters "
            "(the sigmoid kernel is indefinite for most)."
        )
    floor = max(_threshold(W, threshold) * largest, -2.0 * smallest)
    first = int(np.searchsorted(eigenvalues, floor, side="right"))
    matrix = np.empty((len(W), len(W) - first))
    np.divide(vectors[:, first:][:, ::-1], np.sqrt(eigenvalues[first:])[::-1], out=matrix)
    return matrix


def _threshold(W: Array, threshold: float) -> float:
    return max(threshold, len(W) * float(np.finfo(np.float64).eps))


def _safe_factors(W: Array, threshold: float, n_threads: int) -> tuple[Array, Array] | None:
    """Return L' and M from the Cholesky factor of W; None if eigenvalues may have to be dropped."""
    floor = _threshold(W, threshold) * float(np.trace(W))  # the largest eigenvalue is no larger
    factors = _cholesky(W, floor, n_threads)
    if factors is None:
        return None
    inverse = MatrixMap(factors[1], n_threads=n_threads)
    guess = np.random.default_rng(0).standard_normal(len(W))
    grown = 1.0
    for _ in range(POWER_STEPS):  # with M M', the inverse of W
        guess = inverse.scores(inverse.pullback(guess / np.sqrt(dot(guess, guess))))
        grown = np.sqrt(dot(guess, guess))
    return factors if POWER_SLACK * grown * floor < 1.0 else None


def _cholesky(W: Array, floor: float, n_threads: int) -> tuple[Array, Array] | None:
    """Return L' and its inverse; None if a squared pivot is at most ``floor``.

    Only the lower triangle of W is used.  Long products are left to the native core, which gives
    the same bits for any number of threads.
    """
    # Imported here because the import is slow and not needed to read a model.
    from scipy.linalg.lapack import dtrtri

    n = len(W)
    lower, upper, inverse = np.empty((n, n)), np.zeros((n, n)), np.zeros((n, n))
    times = partial(_times, n_threads)
    with one_blas_thread():
        for begin in range(0, n, BLOCK):
            end = min(n, begin + BLOCK)
            here, before = slice(begin, end), slice(0, begin)
            rest = W[begin:, here]
            if begin > 0:
                rest = rest - times(lower[begin:, before], lower[here, before])
            try:
                root = np.linalg.cholesky(rest[: end - begin])
            except np.linalg.LinAlgError:
                return None
            if not np.square(root.diagonal()).min() > floor:
                return None
            own = np.ascontiguousarray(dtrtri(root, lower=1)[0])
            lower[here, here] = root
            upper[here, here] = root.T
            inverse[here, here] = own.T
            if end < n:
                times(rest[end - begin :], own, out=lower[end:, here])
                times(own, rest[end - begin :], out=upper[here, end:])
            if begin > 0:
                across = times(inverse[before, before], lower[here, before])
                times(across, -own, out=inverse[before, here])
    return upper, inverse


def _leading(W: Array, across: Array, k: int, n_threads: int) -> Subspace:
    """Return k leading directions of the features, the columns of ``across``."""
    times = partial(_times, n_threads)
    start = W[:, :k]  # the first step, from the first landmarks
    points = times(W, times(_orthonormalizer(start, n_threads)[0], start))
    basis = times(across, points.T)
    for _ in range(MOST_ROUNDS):  # later rounds remove the rounding errors of earlier ones
        change, is_near = _orthonormalizer(basis, n_threads)
        basis, points = times(basis, change), times(points, change)
        if is_near:
            break
    return Subspace(basis, points)


def _orthonormalizer(matrix: Array, n_threads: int) -> tuple[Array, bool]:
    """Return T such that ``matrix @ T.T`` has orthonormal columns, up to rounding.

    It is the inverse of a Cholesky factor of their inner products.  Also returns whether the
    columns were nearly orthonormal before, in which case there are hardly any rounding errors.
    """
    from scipy.linalg.lapack import dtrtri

    size = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    across = np.multiply(matrix.T, (1.0 / size)[:, None], order="C")
    products = _times(n_threads, across, across)
    identity = np.eye(len(products))
    off = max(float(np.abs(products - identity).max()), float(np.abs(size - 1.0).max()))
    with one_blas_thread():
        try:
            root = np.linalg.cholesky(products)
        except np.linalg.LinAlgError:  # nearly dependent columns: only less so, then
            root = np.linalg.cholesky(products + SHIFT * len(products) * identity)
        inverse: Array = dtrtri(root, lower=1)[0]
    inverse /= size
    return inverse, off < NEAR


def _times(n_threads: int, left: Array, right: Array, out: Array | None = None) -> Array:
    """Return the product of a matrix with the transpose of another one."""
    return kernel_matrix(LINEAR, left, right, n_threads=n_threads, out=out)


def _not_finite(W: Array) -> ValueError:
    wrong = ~np.isfinite(W)
    i, j = (int(k) for k in np.argwhere(wrong)[0])
    return ValueError(
        f"the kernel is not finite at the landmarks: {W[i, j]} for landmarks {i} and {j} "
        f"({int(wrong.sum())} of {W.size} values). Scale the features, or use smaller kernel "
        "parameters."
    )
