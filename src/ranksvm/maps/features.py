"""Explicit features whose inner products approximate a kernel: phi(x).phi(z) ~ k(x, z).

Both kinds consist of a matrix of kernel-like values, the *raw* features, and possibly a small
matrix that multiplies them:

    Nystrom    phi(x) = M' k(Z, x)                   landmarks Z, k(Z, Z) = U S U', M = U S^-1/2
    Fourier    phi(x) = sqrt(2/m) cos(Omega x + b)   no matrix

A linear model v on the features is a linear model M v on the raw features.  Training therefore
needs the n x m raw features and the m x r matrix, but never their product; prediction needs only
M v.

Nystrom.  W = k(Z, Z) may be singular (if a landmark occurs twice) or nearly singular, and M divides
by the square roots of its eigenvalues s.  Only those with s > t s_1 are kept, where s_1 is the
largest.  For kernel values of about 1 with errors of about u, the effects of the threshold t are:

    dropped     an eigenvalue t s_1 <= t m changes a kernel value by at most t m
    kept        errors of k(Z, x) are amplified to u sqrt(m / s) <= u / sqrt(t) if s_1 is about m

so t must be far above u^2 and far below 1 / m.  For float32 (u = 6e-8), t = 1e-7, which makes both
effects 2e-4 for m = 2,000.  For float64 (u = 1e-16, and some rounding before), t = 1e-12, but never
less than m times the precision of float64, below which the eigenvalues of W are noise.  Errors in W
itself show up as negative eigenvalues: eigenvalues up to twice the size of the most negative one
are dropped, too, which also handles kernels of low precision.

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
from contextlib import nullcontext
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

# Eigenvalues below this fraction of the largest are dropped, by type of the raw features.
THRESHOLD = {"float64": 1e-12, "float32": 1e-7}
# Negative eigenvalues and asymmetry up to this fraction of the largest value count as rounding.
ROUNDING = 1e-6
# Matrices up to this size do not benefit from more threads.
SMALL = 1_000
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
    """

    kernel: Kernel
    landmarks: Any
    whitening: Array

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


def make_nystroem(
    X: Any,
    kernel: Kernel,
    n_components: int,
    landmarks: str = "uniform",
    *,
    seed: Seed = None,
    dtype: Any = np.float64,
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
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    NystroemBasis
    """
    chosen = choose_landmarks(X, kernel, n_components, landmarks, seed=seed, n_threads=n_threads)
    W = kernel_matrix(kernel, chosen, chosen, n_threads=n_threads)
    return NystroemBasis(kernel, chosen, whitening(W, threshold=THRESHOLD[np.dtype(dtype).name]))


def whitening(W: Array, *, threshold: float = THRESHOLD["float64"]) -> Array:
    """Return M with M' W M = I, from the eigenvectors of W with large enough eigenvalues.

    Parameters
    ----------
    W : ndarray of shape (m, m)
        Kernel matrix, symmetric and positive semi-definite up to rounding.
    threshold : float, default=1e-12
        Eigenvalues up to this fraction of the largest are dropped, and so are those that can be
        explained by rounding errors of W; see the module docstring.

    Returns
    -------
    ndarray of shape (m, r)
        The columns are sorted by descending eigenvalue.
    """
    _check_kernel_values(W)
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
    unresolved = len(W) * np.finfo(np.float64).eps
    floor = max(max(threshold, unresolved) * largest, -2.0 * smallest)
    first = int(np.searchsorted(eigenvalues, floor, side="right"))
    matrix = np.empty((len(W), len(W) - first))
    np.divide(vectors[:, first:][:, ::-1], np.sqrt(eigenvalues[first:])[::-1], out=matrix)
    return matrix


# Frequencies of random Fourier features, for each kernel that has them.
FREQUENCIES: dict[str, Callable[[float, tuple[int, int], bool, np.random.Generator], Array]] = {
    "rbf": lambda gamma, shape, orthogonal, rng: (
        np.sqrt(2.0 * gamma)
        * (_orthogonal_normal(*shape, rng) if orthogonal else rng.standard_normal(shape))
    ),
    "laplacian": lambda gamma, shape, orthogonal, rng: gamma * rng.standard_cauchy(shape),
}
FOURIER_KERNELS = tuple(FREQUENCIES)


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
