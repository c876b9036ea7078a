"""Check that kernels are symmetric and positive semi-definite.

A precomputed matrix is checked completely.  The smallest eigenvalue of a large matrix is estimated
by some steps of the Lanczos method, which gives an upper bound: if it is negative, the eigenvalue
is negative.  A kernel function that may be indefinite (sigmoid, a callable, poly with coef0 < 0) is
checked on a sample of the items.  Only differences of scores within a query matter, and
coefficients sum to zero there, so it is enough that v'Kv >= 0 for all v that sum to zero; tanh with
a negative coef0 is such a kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._sparse import is_sparse
from ranksvm._threads import one_blas_thread
from ranksvm._vectors import dot
from ranksvm.maps.kernels import Kernel, kernel_matrix
from ranksvm.maps.matrix import MatrixMap

# Up to this size all eigenvalues are computed.
DENSE = 1_000
LANCZOS_STEPS = 40
# Fraction of the largest value or eigenvalue that counts as rounding.
ROUNDING = {"float64": 1e-7, "float32": 1e-4}
BLOCK = 1_024
# Number of items on which a kernel is checked that may be indefinite.
SAMPLE = 400
ADVICE = (
    "Use rbf, laplacian or poly with coef0 >= 0; for sigmoid a smaller gamma and a negative coef0 "
    "may help."
)


def check_gram(given: Any, *, n_threads: int = 1) -> NDArray[Any]:
    """Raise unless a matrix is a valid kernel matrix; return it dense.

    Parameters
    ----------
    given : ndarray or sparse matrix of shape (n_items, n_items), float32 or float64
        Matrix with finite values.
    n_threads : int
        Number of threads.
    """
    if given.shape[0] != given.shape[1]:
        raise ValueError(
            "a precomputed kernel matrix must be square, with one row and one column per item; got "
            f"shape {given.shape}"
        )
    K: NDArray[Any] = given.toarray() if is_sparse(given) else np.asarray(given)
    rounding = ROUNDING[K.dtype.name]
    check_symmetric(
        K,
        rounding,
        "a precomputed kernel matrix must be symmetric",
        " If that is rounding, use (K + K.T) / 2.",
    )
    lowest, highest = smallest_eigenvalue(K, n_threads=n_threads)
    if lowest < -rounding * max(highest, 0.0):
        raise ValueError(
            "a precomputed kernel matrix must be positive semi-definite; its smallest eigenvalue "
            f"is {lowest:.3g}, its largest {highest:.3g}. Use a positive definite kernel, or add "
            f"{abs(lowest):.3g} to the diagonal."
        )
    return K


def is_definite(kernel: Kernel) -> bool:
    """Return whether a kernel is known to be positive semi-definite."""
    return kernel.entry is not None and kernel.entry.definite(kernel)


def check_kernel(kernel: Kernel, X: Any, *, n_threads: int = 1) -> bool:
    """Raise if a kernel function is not symmetric or positive semi-definite on a sample of X.

    Definiteness is only required for vectors that sum to zero.

    Returns
    -------
    bool
        Whether the sample shows it to be positive semi-definite for all vectors.
    """
    if is_definite(kernel):
        return True
    some = X[:: max(1, X.shape[0] // SAMPLE)]
    K = kernel_matrix(kernel, some, some, n_threads=n_threads)
    check_symmetric(K, ROUNDING["float64"], f"the kernel {kernel.name} must be symmetric")
    moved = K - K.mean(axis=0)
    moved -= moved.mean(axis=1)[:, None]
    with one_blas_thread():
        centred = np.linalg.eigvalsh(moved)
        values = np.linalg.eigvalsh(K)
    highest = max(float(centred[-1]), 0.0)
    if centred[0] < -ROUNDING["float64"] * highest:
        raise ValueError(
            f"the kernel {kernel.name} is not positive semi-definite on these items: the smallest "
            f"eigenvalue of its centered matrix is {centred[0]:.3g}, the largest {highest:.3g}, so "
            f"the objective has no minimum. {ADVICE}"
        )
    return bool(values[0] >= -ROUNDING["float64"] * max(float(values[-1]), 0.0))


def smallest_eigenvalue(K: NDArray[Any], *, n_threads: int = 1) -> tuple[float, float]:
    """Return the smallest and largest eigenvalues; for a large matrix, estimates between them."""
    n = K.shape[0]
    if n <= DENSE:
        values = np.linalg.eigvalsh(K.astype(np.float64, copy=False))
        return float(values[0]), float(values[-1])
    score_map = MatrixMap(K, n_threads=n_threads)
    rng = np.random.default_rng(0)
    basis = np.empty((LANCZOS_STEPS, n))
    images = np.empty((LANCZOS_STEPS, n))
    vector: Any = rng.standard_normal(n)
    for step in range(LANCZOS_STEPS):
        for _ in range(2):  # the first orthogonalization leaves rounding errors
            known = basis[:step]
            vector = vector - np.einsum("k,kj->j", np.einsum("kj,j->k", known, vector), known)
        length = float(np.sqrt(dot(vector, vector)))
        if length == 0.0:  # the basis spans an invariant subspace
            basis, images = basis[:step], images[:step]
            break
        vector = vector / length
        basis[step] = vector
        images[step] = score_map.scores(vector)
        vector = images[step]
    small = np.einsum("kj,lj->kl", basis, images)
    values = np.linalg.eigvalsh(0.5 * (small + small.T))
    return float(values[0]), float(values[-1])


def check_symmetric(K: NDArray[Any], slack: float, rule: str, advice: str = "") -> None:
    """Raise unless K is symmetric up to ``slack`` times its largest value; ``rule`` says of what.

    It works in blocks, so that it needs little memory.
    """
    worst, where = 0.0, (0, 0)
    scale = 0.0
    n = K.shape[0]
    for first in range(0, n, BLOCK):
        rows = slice(first, first + BLOCK)
        for begin in range(first, n, BLOCK):
            columns = slice(begin, begin + BLOCK)
            block = K[rows, columns]
            scale = max(scale, float(np.max(np.abs(block), initial=0.0)))
            difference = np.abs(block - K[columns, rows].T)
            largest = float(difference.max(initial=0.0))
            if largest > worst:
                worst = largest
                at = np.unravel_index(int(np.argmax(difference)), difference.shape)
                where = first + int(at[0]), begin + int(at[1])
    if worst > slack * scale:
        i, j = where
        raise ValueError(
            f"{rule}; K[{i}, {j}] = {K[i, j]:.6g} and "
            f"K[{j}, {i}] = {K[j, i]:.6g} differ by {worst:.3g}.{advice}"
        )
