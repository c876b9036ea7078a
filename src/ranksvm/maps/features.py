"""Explicit features whose inner products approximate a kernel: phi(x).phi(z) ~ k(x, z).

Both kinds consist of a matrix of kernel-like values, the *raw* features, and possibly a small
matrix that multiplies them:

    Nystrom    phi(x) = M' k(Z, x)                   landmarks Z, M whitens k(Z, Z)
    Fourier    phi(x) = sqrt(2/m) cos(Omega x + b)   no matrix

A linear model v on the features is a linear model M v on the raw features.  Training therefore
needs the n x m raw features and the m x r matrix, but never their product; prediction needs only
M v.  :mod:`ranksvm.maps.whitening` has the matrix M.

Fourier.  For kernels that depend on x - z (Rahimi & Recht 2007), with frequencies drawn from the
spectrum of the kernel:

    rbf         exp(-gamma |x - z|^2)     normal with variance 2 gamma
    laplacian   exp(-gamma |x - z|_1)     Cauchy with scale gamma, in each coordinate

Frequencies are used in pairs with phases 0 and -pi/2, a cosine and a sine.  For both kernels this
has less variance than the same number of cosines with their own frequencies and phases (Sutherland
& Schneider 2015), and phi(x).phi(x) = 1.  Normal frequencies can be drawn orthogonal in groups of
n_features, with unchanged lengths, which reduces the variance further (Yu et al. 2016).  The Cauchy
distribution is not rotation invariant, so its frequencies are always independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_integer
from ranksvm._messages import Param, ParameterError
from ranksvm._threads import one_blas_thread
from ranksvm._vectors import Array
from ranksvm.maps.gram_checks import check_symmetric
from ranksvm.maps.kernels import LINEAR, Kernel, kernel_matrix, row_blocks
from ranksvm.maps.landmarks import Seed, as_generator, choose_landmarks
from ranksvm.maps.whitening import THRESHOLD, Subspace, whitening

# Asymmetry up to this fraction of the largest value counts as rounding.
ASYMMETRY = 1e-6
# Rows of raw features that are converted to features at a time.
BLOCK_ROWS = 4_096


@dataclass(frozen=True)
class NystroemBasis:
    """Nystrom features: whitened kernel values at landmarks.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    landmarks : ndarray or CSR of shape (m, d), where d is the number of features of an item
        The landmarks.
    whitening : ndarray of shape (m, n_features)
        The whitening matrix M.
    leading : Subspace or None
        Leading directions of the features, if they were asked for.
    """

    kernel: Kernel
    landmarks: Any
    whitening: Array
    leading: Subspace | None = None

    @property
    def n_features(self) -> int:
        return int(self.whitening.shape[1])

    def raw(self, X: Any, dtype: Any = np.float64, n_threads: int = 1) -> NDArray[Any]:
        """Return the raw features of items: kernel values, shape (n_items, m)."""
        return kernel_matrix(self.kernel, X, self.landmarks, dtype=dtype, n_threads=n_threads)

    def features(self, X: Any, dtype: Any = np.float64, n_threads: int = 1) -> NDArray[Any]:
        """Return features (n_items, n_features) of items, rounded to ``dtype`` only at the end."""
        out = np.empty((X.shape[0], self.n_features), dtype=dtype)
        columns = np.ascontiguousarray(self.whitening.T)
        for part in row_blocks(len(out), BLOCK_ROWS):
            raw = self.raw(X[part], np.float64, n_threads)
            kernel_matrix(LINEAR, raw, columns, n_threads=n_threads, out=out[part])
        return out

    def coef_of(self, weights: Array) -> Array:
        """Convert weights of the features (n_features,) to weights of the raw features (m,)."""
        coef: Array = np.einsum("ij,j->i", self.whitening, weights)
        return coef


@dataclass(frozen=True)
class FourierBasis:
    """Random Fourier features: cosines of random projections.

    Attributes
    ----------
    kernel : Kernel
        The function "cosine", with scale sqrt(2 / n_features).
    frequencies : ndarray of shape (n_features, d), where d is the number of features of an item
        The frequencies Omega.
    shifts : ndarray of shape (n_features,)
        The phases b.
    """

    kernel: Kernel
    frequencies: Array
    shifts: Array

    @property
    def n_features(self) -> int:
        return len(self.shifts)

    def features(self, X: Any, dtype: Any = np.float64, n_threads: int = 1) -> NDArray[Any]:
        """Return features (n_items, n_features) of items, rounded to ``dtype`` only at the end."""
        return kernel_matrix(
            self.kernel, X, self.frequencies, dtype=dtype, n_threads=n_threads, shift=self.shifts
        )


@one_blas_thread()  # more threads would change the last bits
def make_nystroem(
    X: Any,
    kernel: Kernel,
    n_components: int,
    landmarks: str = "uniform",
    *,
    seed: Seed = None,
    dtype: Any = np.float64,
    n_directions: int = 0,
    n_threads: int = 1,
) -> NystroemBasis:
    """Choose landmarks among the items and compute the whitening matrix.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_items, n_features)
        Items.
    kernel : Kernel
        Positive semi-definite kernel.
    n_components : int
        Number of landmarks, at most n_items.  There are fewer features if W is nearly singular.
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        How landmarks are chosen; see :mod:`ranksvm.maps.landmarks`.
    seed : int, Generator, RandomState or None, default=None
        Seed or random number generator.
    dtype : float64 or float32
        Type in which the raw features will be stored; float32 needs a larger threshold.
    n_directions : int, default=0
        Maximum number of leading directions to find.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    NystroemBasis
    """
    chosen = choose_landmarks(X, kernel, n_components, landmarks, seed=seed, n_threads=n_threads)
    W = kernel_matrix(kernel, chosen, chosen, n_threads=n_threads)
    if kernel.called is not None:  # ours are symmetric to the last bit
        check_symmetric(W, ASYMMETRY, "the kernel must be symmetric at the landmarks")
    white = whitening(
        W,
        threshold=THRESHOLD[np.dtype(dtype).name],
        n_directions=n_directions,
        n_threads=n_threads,
    )
    return NystroemBasis(kernel, chosen, *white)


# Frequencies of random Fourier features, for each kernel that has them.
FREQUENCIES: dict[str, Callable[[float, tuple[int, int], bool, np.random.Generator], Array]] = {
    "rbf": lambda gamma, shape, orthogonal, rng: (
        np.sqrt(2.0 * gamma)
        * (_orthogonal_normal(*shape, rng) if orthogonal else rng.standard_normal(shape))
    ),
    "laplacian": lambda gamma, shape, orthogonal, rng: gamma * rng.standard_cauchy(shape),
}
FOURIER_KERNELS = tuple(FREQUENCIES)


@one_blas_thread()
def make_fourier(
    kernel: Kernel,
    n_features: int,
    n_components: int,
    *,
    orthogonal: bool = True,
    seed: Seed = None,
) -> FourierBasis:
    """Draw the frequencies and phases of random Fourier features.

    Frequencies come in pairs of equal ones, with phases 0 and -pi/2, so that each pair is a cosine
    and a sine.  With an odd number of components, the last phase is uniform.

    Parameters
    ----------
    kernel : Kernel
        Kernel "rbf" or "laplacian".
    n_features : int
        Number of features of the items.
    n_components : int
        Number of Fourier features to draw.
    orthogonal : bool, default=True
        Whether the frequencies for "rbf" are orthogonal in groups of n_features.  Those for
        "laplacian" are always independent.
    seed : int, Generator, RandomState or None, default=None
        Seed or random number generator.

    Returns
    -------
    FourierBasis
    """
    check_integer("n_components", n_components)
    rng = as_generator(seed)
    if kernel.function not in FOURIER_KERNELS:
        raise ParameterError(
            "random Fourier features exist for the kernels {kernels}; got {kernel!r}. Use "
            "{nystroem} (Nystroem), which works with any kernel.",
            kernels=" and ".join(map(repr, FOURIER_KERNELS)),
            kernel=kernel.name,
            nystroem=Param("approximation", "nystroem"),
        )
    draw = FREQUENCIES[kernel.function]
    different = draw(kernel.gamma, ((n_components + 1) // 2, n_features), orthogonal, rng)
    frequencies = np.repeat(different, 2, axis=0)[:n_components]
    shifts = np.where(np.arange(n_components) % 2 == 0, 0.0, -0.5 * np.pi)
    if n_components % 2:
        shifts[-1] = rng.uniform(0.0, 2.0 * np.pi)
    cosine = Kernel("cosine", scale=float(np.sqrt(2.0 / n_components)))
    return FourierBasis(cosine, frequencies, shifts)


def _orthogonal_normal(n_rows: int, n_columns: int, rng: np.random.Generator) -> Array:
    """Draw rows that are standard normal, and orthogonal in groups of n_columns."""
    rows = np.empty((n_rows, n_columns))
    for first in range(0, n_rows, n_columns):
        group = rows[first : first + n_columns]
        normal = rng.standard_normal((n_columns, len(group)))
        basis, triangle = np.linalg.qr(normal)
        basis *= np.sign(np.diagonal(triangle))  # makes the orthogonal matrix uniform
        length = np.sqrt(rng.chisquare(n_columns, len(group)))
        np.multiply(basis.T, length[:, None], out=group)
    return rows
