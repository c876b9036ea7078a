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
of the landmarks, F = W M.  Eigenvectors are sorted.  For Cholesky, where F = L, two steps of
subspace iteration with L'L find the directions well enough, from those of the first landmarks.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array, dot
from ranksvm.maps.gram_checks import check_symmetric
from ranksvm.maps.kernels import LINEAR, kernel_matrix
from ranksvm.maps.matrix import MatrixMap

# Eigenvalues below this fraction of the largest are dropped, by type of the raw features.
THRESHOLD = {"float64": 1e-12, "float32": 1e-7}
# Negative eigenvalues and asymmetry up to this fraction of the largest value count as rounding.
ROUNDING = 1e-6
# Matrices up to this size do not benefit from more threads of LAPACK.
SMALL = 1_000
# Columns of L that are computed at a time.
BLOCK = 128
# Steps of the power method for the smallest eigenvalue, and how far it may be below the estimate.
POWER_STEPS, POWER_SLACK = 8, 4.0
# Steps of subspace iteration.
SUBSPACE_STEPS = 2


class Whitening(NamedTuple):
    """A whitening matrix.

    Attributes
    ----------
    matrix : ndarray of shape (m, r)
        The matrix M.
    features : ndarray of shape (m, r) or None
        Features W M of the landmarks themselves; None if the columns of M are sorted by descending
        eigenvalue.
    """

    matrix: Array
    features: Array | None


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


def whitening(
    W: Array, *, threshold: float = THRESHOLD["float64"], n_threads: int = 1
) -> Whitening:
    """Whiten a kernel matrix.

    Parameters
    ----------
    W : ndarray of shape (m, m)
        Kernel matrix, symmetric and positive semi-definite up to rounding.
    threshold : float, default=1e-12
        Eigenvalues up to this fraction of the largest are dropped, and so are those that can be
        explained by rounding errors of W; see the module docstring.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    Whitening
        The same for any number of threads.
    """
    _check_kernel_values(W)
    found = _by_cholesky(W, threshold, n_threads)
    if found is None:
        found = Whitening(eigenvector_whitening(W, threshold=threshold), None)
    return found


def eigenvector_whitening(W: Array, *, threshold: float) -> Array:
    """Return M from the eigenvectors of W with large enough eigenvalues, the largest first."""
    with one_blas_thread() if len(W) <= SMALL else nullcontext():
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


def leading_subspace(white: Whitening, most: int, n_threads: int = 1) -> Subspace:
    """Return the leading directions of the features of the landmarks, at most ``most``."""
    matrix, features = white
    k = min(most, matrix.shape[1])
    basis = np.eye(matrix.shape[1], k)
    if features is None or k == matrix.shape[1]:
        return Subspace(basis, matrix[:, :k])
    across = np.ascontiguousarray(features.T)
    image = features[:, :k]  # of the first directions
    for step in range(SUBSPACE_STEPS):
        if step > 0:
            image = kernel_matrix(LINEAR, features, basis.T, n_threads=n_threads)
        basis = kernel_matrix(LINEAR, across, image.T, n_threads=n_threads)
        basis = _orthonormal(basis, n_threads)
    return Subspace(basis, kernel_matrix(LINEAR, matrix, basis.T, n_threads=n_threads))


def _threshold(W: Array, threshold: float) -> float:
    return max(threshold, len(W) * float(np.finfo(np.float64).eps))


def _by_cholesky(W: Array, threshold: float, n_threads: int) -> Whitening | None:
    """Return M from the Cholesky factor of W; None if eigenvalues may have to be dropped."""
    largest = min(float(np.trace(W)), float(np.max(np.sum(np.abs(W), axis=1))))  # or less
    floor = _threshold(W, threshold) * largest
    factors = _cholesky(W, floor, n_threads)
    if factors is None:
        return None
    inverse = MatrixMap(factors[1], n_threads=n_threads)
    guess = np.random.default_rng(0).standard_normal(len(W))
    grown = 1.0
    for _ in range(POWER_STEPS):  # with M M', the inverse of W
        guess = inverse.scores(inverse.pullback(guess / np.sqrt(dot(guess, guess))))
        grown = np.sqrt(dot(guess, guess))
    is_safe = POWER_SLACK * grown * floor < 1.0
    return Whitening(factors[1], factors[0]) if is_safe else None


def _cholesky(W: Array, floor: float, n_threads: int) -> tuple[Array, Array] | None:
    """Return L and the transpose of its inverse; None if a squared pivot is at most ``floor``.

    Only the lower triangle of W is used.  Long products are left to the native core, which gives
    the same bits for any number of threads.
    """
    # Imported here because the import is slow and not needed to read a model.
    from scipy.linalg.lapack import dtrtri

    n = len(W)
    lower, inverse = np.zeros((n, n)), np.zeros((n, n))

    def times(left: Array, right: Array) -> Array:
        """Return the product of a matrix with the transpose of another one."""
        return kernel_matrix(LINEAR, left, right, n_threads=n_threads)

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
            own = dtrtri(root, lower=1)[0]
            lower[here, here] = root
            inverse[here, here] = own.T
            if end < n:
                lower[end:, here] = times(rest[end - begin :], own)
            if begin > 0:
                inverse[before, here] = times(
                    -times(inverse[before, before], lower[here, before]), own
                )
    return lower, inverse


def _orthonormal(matrix: Array, n_threads: int) -> Array:
    """Return an orthonormal basis of the columns, by Cholesky factors of their inner products.

    A second round removes the rounding errors of the first (Yamamoto et al. 2015).
    """
    from scipy.linalg.lapack import dtrtri

    found = matrix / np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    with one_blas_thread():
        for _ in range(2):
            across = np.ascontiguousarray(found.T)
            products = kernel_matrix(LINEAR, across, across, n_threads=n_threads)
            try:
                root = np.linalg.cholesky(products)
            except np.linalg.LinAlgError:  # nearly dependent columns
                return np.linalg.qr(matrix)[0]
            inverse = dtrtri(root, lower=1)[0]
            found = kernel_matrix(LINEAR, found, inverse, n_threads=n_threads)
    return found


def _check_kernel_values(W: Array) -> None:
    wrong = ~np.isfinite(W)
    if wrong.any():
        i, j = (int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(
            f"the kernel is not finite at the landmarks: {W[i, j]} for landmarks {i} and {j} "
            f"({int(wrong.sum())} of {W.size} values). Scale the features, or use smaller kernel "
            "parameters."
        )
    check_symmetric(W, ROUNDING, "the kernel must be symmetric at the landmarks")
