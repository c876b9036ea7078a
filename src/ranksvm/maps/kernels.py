"""Kernels: k(x, z) for many x and z at once, as a matrix or summed up against coefficients.

    linear      <x, z>
    rbf         exp(-gamma |x - z|^2)
    laplacian   exp(-gamma |x - z|_1)
    poly        (gamma <x, z> + coef0)^degree
    sigmoid     tanh(gamma <x, z> + coef0)          not positive semi-definite for most parameters
    cosine      scale cos(gamma <x, z> + shift_z)   no kernel: the random Fourier features of x
    a callable  f(X, Z) of shape (n_X, n_Z)

The native ones are computed in float64 whatever X is, in tiles that never leave the cache, from
dense and sparse items in any combination.  The squared distance is |x|^2 + |z|^2 - 2 <x, z>; dense
items are moved to a middle of Z first, so that an offset which all items share costs no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._checks import finite_number, shown
from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array, dot

__all__ = [
    "DTYPES",
    "KERNELS",
    "LINEAR",
    "Kernel",
    "KernelFunction",
    "called",
    "centre_of",
    "check_gamma",
    "is_sparse",
    "kernel_diagonal",
    "kernel_matrix",
    "kernel_rows",
    "kernel_scores",
    "kernels_with",
    "resolve_gamma",
    "row_blocks",
]

DTYPES = ("float64", "float32")
# Items that are made float64 at a time.
BLOCK_ROWS = 4_096
# A wide sparse matrix has more columns than this; items that tell where the middle is.
FEW_COLUMNS = 4_096
CENTRE_ROWS = 256
# Values that a callable is asked for at a time, about.
CALLED_VALUES = 1 << 22


@dataclass(frozen=True)
class Kernel:
    """A kernel with all its numbers.

    Attributes
    ----------
    function : str or callable
        One of ``KERNELS``, "cosine", or ``f(X, Z)`` that returns an array of shape (n_X, n_Z).
    gamma, coef0, scale : float
    degree : int
    """

    function: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    coef0: float = 0.0
    degree: int = 3
    scale: float = 1.0

    @property
    def native(self) -> Any:
        """The function as the native code takes it."""
        return _core.KernelFunction(
            str(self.function), self.gamma, self.coef0, self.degree, self.scale
        )

    @property
    def called(self) -> Callable[[Any, Any], Any] | None:
        """What gives the values ``f(X, Z)`` in Python; None for a kernel of the native code."""
        if callable(self.function):
            return self.function
        values = None if self.entry is None else self.entry.values
        return None if values is None else partial(values, self)

    @property
    def entry(self) -> KernelFunction | None:
        """Its entry in ``KERNELS``; None for "cosine" and for callables, which may have no hash."""
        return KERNELS.get(self.function) if isinstance(self.function, str) else None

    @property
    def name(self) -> str:
        """For messages."""
        if isinstance(self.function, str):
            return self.function
        return getattr(self.function, "__name__", type(self.function).__name__)


@dataclass(frozen=True)
class KernelFunction:
    """What there is to know of a named kernel.

    Attributes
    ----------
    parameters : tuple of str
        Which of "gamma", "degree" and "coef0" it has.
    diagonal : callable, float or None
        ``diagonal(kernel, squares)`` are the values k(x, x) from the squared norms of items, or
        they are all one number; None asks ``values`` for them.
    definite : callable
        ``definite(kernel)`` tells whether it is known to be positive semi-definite.
    values : callable or None
        ``values(kernel, X, Z)`` of shape (n_X, n_Z); None for a kernel of the native code.
    """

    parameters: tuple[str, ...] = ()
    diagonal: Callable[[Kernel, Array], Array] | float | None = None
    definite: Callable[[Kernel], bool] = lambda kernel: False
    values: Callable[[Kernel, Any, Any], Any] | None = None


def _always(kernel: Kernel) -> bool:
    return True


KERNELS: dict[str, KernelFunction] = {
    "rbf": KernelFunction(("gamma",), 1.0, _always),
    "laplacian": KernelFunction(("gamma",), 1.0, _always),
    "poly": KernelFunction(
        ("gamma", "degree", "coef0"),
        lambda kernel, squares: (kernel.gamma * squares + kernel.coef0) ** kernel.degree,
        lambda kernel: kernel.coef0 >= 0.0,
    ),
    "sigmoid": KernelFunction(
        ("gamma", "coef0"),
        lambda kernel, squares: np.tanh(kernel.gamma * squares + kernel.coef0),
    ),
    "linear": KernelFunction((), lambda kernel, squares: squares, _always),
}
# Products of two matrices, threaded: kernel_matrix(LINEAR, A, B) = A B'.
LINEAR = Kernel("linear")


def kernels_with(parameter: str) -> list[str]:
    """Names of the kernels that have a parameter."""
    return [name for name, one in KERNELS.items() if parameter in one.parameters]


def check_gamma(gamma: Any) -> None:
    """Raise unless gamma is "scale", "auto" or a positive number."""
    if isinstance(gamma, str) and gamma in ("scale", "auto"):
        return
    number = finite_number(gamma)
    if number is None or not number > 0.0:
        raise ParameterError(
            "{gamma} must be a positive finite number, 'scale' or 'auto'; got {value}",
            gamma=Param("gamma"),
            value=shown(gamma),
        )


def resolve_gamma(gamma: Any, X: Any, weight: Array | None = None) -> float:
    """Return gamma as a number.

    Parameters
    ----------
    gamma : float, "scale" or "auto"
        "scale" is 1 / (n_features * variance of X), "auto" 1 / n_features.
    X : ndarray or CSR of shape (n_items, n_features)
    weight : ndarray of shape (n_items,) or None
        Weights of the items in the variance.
    """
    check_gamma(gamma)
    if gamma == "auto":
        return 1.0 / int(X.shape[1])
    if gamma == "scale":
        variance = _variance(X, weight)
        if variance == 0.0 and X.min() == X.max():
            return 1.0
        with np.errstate(divide="ignore"):
            scaled = float(1.0 / np.float64(X.shape[1] * variance))
        if not 0.0 < scaled < np.inf:
            raise ParameterError(
                "{scale} does not work here: the variance of X is {variance:.3g}. Scale the "
                "features, or give a number.",
                scale=Param("gamma", "scale"),
                variance=variance,
            )
        return scaled
    return float(gamma)


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy sparse matrix or array."""
    return hasattr(X, "tocsr")


def kernel_matrix(
    kernel: Kernel,
    X: Any,
    Z: Any,
    *,
    dtype: Any = np.float64,
    n_threads: int = 1,
    shift: Array | None = None,
) -> NDArray[Any]:
    """All values k(x, z).

    Parameters
    ----------
    kernel : Kernel
    X, Z : ndarray or CSR of shape (n_X, n_features) and (n_Z, n_features)
    dtype : float64 or float32
        Of the result; values are computed in float64.
    n_threads : int
    shift : ndarray of shape (n_Z,) or None
        For "cosine".

    Returns
    -------
    ndarray of shape (n_X, n_Z)
        The same bits for every number of threads.
    """
    out = np.empty((X.shape[0], Z.shape[0]), dtype=dtype)
    if kernel.called is not None:
        for part in row_blocks(X.shape[0], max(1, CALLED_VALUES // max(1, Z.shape[0]))):
            out[part] = called(kernel, X[part], Z)
        return out
    centre = centre_of(kernel, X, Z)
    columns = kernel_rows(Z, centre, shift)
    function = kernel.native
    for part in row_blocks(X.shape[0], BLOCK_ROWS):
        rows = _block_of(X, part, centre)
        _core.kernel_block(
            function, rows, 0, rows.shape[0], columns, 0, columns.shape[0], out[part], n_threads
        )
    return out


def kernel_scores(
    kernel: Kernel,
    X: Any,
    Z: Any,
    coef: Array,
    *,
    n_threads: int = 1,
    shift: Array | None = None,
) -> Array:
    """Sum over z of coef_z k(x, z) for every x; at no time more than a few tiles of values.

    Parameters
    ----------
    kernel, X, Z, n_threads, shift
        As for :func:`kernel_matrix`.
    coef : ndarray of shape (n_Z,)

    Returns
    -------
    ndarray of shape (n_X,)
    """
    scores = np.zeros(X.shape[0])
    if kernel.called is not None:
        for part in row_blocks(X.shape[0], max(1, CALLED_VALUES // max(1, Z.shape[0]))):
            scores[part] = np.einsum("ij,j->i", called(kernel, X[part], Z), coef)
        return scores
    centre = centre_of(kernel, X, Z)
    columns = kernel_rows(Z, centre, shift)
    coef = np.ascontiguousarray(coef, dtype=np.float64)
    function = kernel.native
    for part in row_blocks(X.shape[0], BLOCK_ROWS):
        rows = _block_of(X, part, centre)
        scores[part] = _core.kernel_cross(function, rows, columns, coef, n_threads)
    return scores


def kernel_diagonal(kernel: Kernel, X: Any) -> Array:
    """k(x, x) for every x, shape (n_X,)."""
    n = X.shape[0]
    diagonal = None if kernel.entry is None else kernel.entry.diagonal
    if diagonal is None:
        blocks = [called(kernel, X[part], X[part]).diagonal() for part in row_blocks(n, 64)]
        return np.concatenate(blocks) if blocks else np.empty(0)
    if isinstance(diagonal, float):
        return np.full(n, kernel.scale * diagonal)
    squares = np.empty(n)
    for part in row_blocks(n, BLOCK_ROWS):
        rows = X[part]
        if is_sparse(rows):
            rows = rows.astype(np.float64)
            squares[part] = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        else:
            squares[part] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return kernel.scale * diagonal(kernel, squares)


def kernel_rows(
    X: Any, centre: Array | None = None, shift: Array | None = None
) -> _core.KernelRows:
    """Items as the native code takes them: float64, dense or CSR, moved by ``-centre``."""
    if is_sparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:  # columns in disorder, or twice
            X = X.copy()
            X.sum_duplicates()
        wide = max(X.indices.dtype.itemsize, X.indptr.dtype.itemsize) > 4
        index = np.int64 if wide else np.int32
        return _core.KernelRows.sparse(
            np.ascontiguousarray(X.data, dtype=np.float64),
            np.ascontiguousarray(X.indices, dtype=index),
            np.ascontiguousarray(X.indptr, dtype=index),
            X.shape[1],
            shift,
        )
    moved = np.asarray(X, dtype=np.float64) if centre is None else X - centre
    return _core.KernelRows.dense(np.ascontiguousarray(moved), shift)


def called(kernel: Kernel, X: Any, Z: Any) -> Array:
    """Values of a callable kernel, checked."""
    function = kernel.called
    assert function is not None
    values = np.asarray(function(X, Z))
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"the kernel {kernel.name} must return real numbers; got values of type {values.dtype}"
        )
    if values.shape != (X.shape[0], Z.shape[0]):
        raise ValueError(
            f"the kernel {kernel.name} must return an array of shape (n_X, n_Z) = "
            f"({X.shape[0]}, {Z.shape[0]}); got {values.shape}"
        )
    values = values.astype(np.float64, copy=False)
    wrong = ~np.isfinite(values)
    if wrong.any():
        i, j = (int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(
            f"the kernel {kernel.name} returned {values[i, j]} for a pair of items "
            f"({int(wrong.sum())} of {values.size} values are not finite); it must return finite "
            "numbers for all pairs"
        )
    return values


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into blocks of at most ``size``."""
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def centre_of(kernel: Kernel, X: Any, Z: Any) -> Array | None:
    """Return what to move dense items by before their distances are taken.

    A middle of some items, by column: unlike the mean it does not go after an item far away.
    """
    if kernel.function != "rbf" or is_sparse(Z) or not Z.shape[0] or not _dense_enough(X):
        return None
    some = Z[:: max(1, Z.shape[0] // CENTRE_ROWS)]
    centre: Array = np.median(some.astype(np.float64), axis=0)
    return centre


def _dense_enough(X: Any) -> bool:
    """Whether the items are dense, or so few columns wide that blocks of them can be."""
    return not is_sparse(X) or X.shape[1] <= FEW_COLUMNS


def _block_of(X: Any, part: slice, centre: Array | None) -> _core.KernelRows:
    rows = X[part]
    if centre is not None and is_sparse(rows):
        rows = rows.toarray()
    return kernel_rows(rows, centre)


def _variance(X: Any, weight: Array | None) -> float:
    """Variance of all values of X, which is dense or CSR."""
    if weight is None and not is_sparse(X):
        return float(X.var(dtype=np.float64))
    share = np.ones(X.shape[0]) if weight is None else weight
    share = share / (share.sum() * X.shape[1])
    if is_sparse(X):
        values = X.data.astype(np.float64)
        share = np.repeat(share, np.diff(X.indptr))
        mean = dot(share, values)
        return dot(share, (values - mean) ** 2) + (1.0 - float(share.sum())) * mean * mean
    mean = float(np.einsum("i,ij->", share, X, dtype=np.float64))
    squares = np.empty(X.shape[0])
    for part in row_blocks(X.shape[0], BLOCK_ROWS):
        squares[part] = ((X[part].astype(np.float64) - mean) ** 2).sum(axis=1)
    return dot(share, squares)
