"""Kernel functions: k(x, z) for many x and z, as a matrix or as a weighted sum over z.

    linear      <x, z>
    rbf         exp(-gamma |x - z|^2)
    laplacian   exp(-gamma |x - z|_1)
    poly        (gamma <x, z> + coef0)^degree
    sigmoid     tanh(gamma <x, z> + coef0)          not positive semi-definite for most parameters
    cosine      scale cos(gamma <x, z> + shift_z)   not a kernel: random Fourier features of x
    a callable  f(X, Z) of shape (n_X, n_Z)

The native kernels are computed in float64 for any type of X, in tiles that stay in the cache, from
dense and sparse items in any combination.  The squared distance is |x|^2 + |z|^2 - 2 <x, z>.  Dense
items are centered at the median of Z first, so that a common offset does not cost precision.

Items are read where they are: numbers are converted, scaled (:class:`ScaledRows`) and centered on
their way into a tile, and there is no copy of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._checks import finite_number
from ranksvm._messages import Param, ParameterError, Value
from ranksvm._sparse import canonical_csr, is_sparse
from ranksvm._vectors import Array, dot
from ranksvm.data.scaled_rows import without_scaling

DTYPES = ("float64", "float32")
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# Sparse items that are made dense at a time, or values if that is more.
BLOCK_ROWS = 4_096
BLOCK_VALUES = 1 << 22
# Sparse matrices with at most this many columns are centered like dense ones; and the approximate
# number of items from which the center is computed.
FEW_COLUMNS = 4_096
CENTRE_ROWS = 256
# Approximate number of values requested from a callable at a time.
CALLED_VALUES = 1 << 22


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters.

    Attributes
    ----------
    function : str or callable
        One of ``KERNELS``, "cosine", or a function ``f(X, Z)`` that returns an array of shape
        (n_X, n_Z).
    gamma, coef0, scale : float
        Parameters; see the module docstring.
    degree : int
        Degree of the polynomial kernel.
    """

    function: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    coef0: float = 0.0
    degree: int = 3
    scale: float = 1.0

    @property
    def native(self) -> Any:
        """The kernel as an object of the native code."""
        return _core.KernelFunction(
            str(self.function), self.gamma, self.coef0, self.degree, self.scale
        )

    @property
    def called(self) -> Callable[[Any, Any], Any] | None:
        """The Python function ``f(X, Z)`` that computes the values; None for a native kernel."""
        if callable(self.function):
            return self.function
        values = None if self.entry is None else self.entry.values
        return None if values is None else partial(values, self)

    @property
    def entry(self) -> KernelFunction | None:
        """Its entry in ``KERNELS``; None for "cosine" and for callables."""
        return KERNELS.get(self.function) if isinstance(self.function, str) else None

    @property
    def name(self) -> str:
        """Name of the kernel in messages."""
        if isinstance(self.function, str):
            return self.function
        return getattr(self.function, "__name__", type(self.function).__name__)


@dataclass(frozen=True)
class KernelFunction:
    """The properties of a named kernel.

    Attributes
    ----------
    parameters : tuple of str
        Its parameters: some of "gamma", "degree" and "coef0".
    diagonal : callable, float or None
        ``diagonal(kernel, squares)`` computes k(x, x) from the squared norms of items.  A number
        means that k(x, x) is constant; None computes it with ``values``.
    definite : callable
        ``definite(kernel)`` returns whether it is known to be positive semi-definite.
    values : callable or None
        ``values(kernel, X, Z)`` returns the values, of shape (n_X, n_Z); None for a native kernel.
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
# For multithreaded matrix products: kernel_matrix(LINEAR, A, B) = A B'.
LINEAR = Kernel("linear")


def kernels_with(parameter: str) -> list[str]:
    """Return the names of the kernels that have a parameter."""
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
            value=Value(gamma),
        )


def resolve_gamma(gamma: Any, X: Any, weight: Array | None = None) -> float:
    """Return gamma as a number.

    Parameters
    ----------
    gamma : float, "scale" or "auto"
        "scale" means 1 / (n_features * variance of X), "auto" means 1 / n_features.
    X : ndarray or CSR of shape (n_items, n_features)
        Items.
    weight : ndarray of shape (n_items,) or None
        Weights of the items in the variance.
    """
    check_gamma(gamma)
    if gamma == "auto":
        return 1.0 / int(X.shape[1])
    if gamma != "scale":
        return float(gamma)
    variance = _variance(X, weight)
    if variance == 0.0 and _has_one_value(X):
        return 1.0
    return gamma_scale(X.shape[1], variance)


def gamma_scale(n_features: int, variance: float) -> float:
    """Return the number that "scale" stands for."""
    with np.errstate(divide="ignore"):
        scaled = float(1.0 / np.float64(n_features * variance))
    if not 0.0 < scaled < np.inf:
        raise ParameterError(
            "{scale} does not work here: the variance of X is {variance:.3g}. {remedy}",
            remedy="Scale the features, or set {gamma} to a number.",
            scale=Param("gamma", "scale"),
            gamma=Param("gamma"),
            variance=variance,
        )
    return scaled


def kernel_matrix(
    kernel: Kernel,
    X: Any,
    Z: Any,
    *,
    dtype: Any = np.float64,
    n_threads: int = 1,
    shift: Array | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return the matrix of all values k(x, z).

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X, Z : ndarray, CSR or ScaledRows of shape (n_X, n_features) and (n_Z, n_features)
        Items.
    dtype : float64 or float32
        Type of the result; values are computed in float64.
    n_threads : int
        Number of threads.
    shift : ndarray of shape (n_Z,) or None
        Phases, for "cosine".
    out : ndarray of shape (n_X, n_Z) or None
        Array for the result, with contiguous rows; its type takes the place of ``dtype``.

    Returns
    -------
    ndarray of shape (n_X, n_Z)
        Bitwise identical for any number of threads.
    """
    if out is None:
        out = np.empty((X.shape[0], Z.shape[0]), dtype=dtype)
    if kernel.called is not None:
        for part in value_blocks(X.shape[0], Z.shape[0], CALLED_VALUES):
            out[part] = called(kernel, X[part], Z)
        return out
    function = kernel.native
    for part, rows, columns in _native_blocks(kernel, X, Z, shift, n_threads):
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
    ready: ReadyItems | None = None,
) -> Array:
    """Return the sum over z of coef_z k(x, z) for every x, with only a few tiles in memory.

    Parameters
    ----------
    kernel, X, Z, n_threads, shift
        See :func:`kernel_matrix`.
    coef : ndarray of shape (n_Z,)
        Coefficients.
    ready : ReadyItems or None
        Z and the shift, made ready for dense X by :func:`ready_items`.

    Returns
    -------
    ndarray of shape (n_X,)
    """
    scores = np.zeros(X.shape[0])
    if kernel.called is not None:
        for part in value_blocks(X.shape[0], Z.shape[0], CALLED_VALUES):
            scores[part] = np.einsum("ij,j->i", called(kernel, X[part], Z), coef)
        return scores
    coef = np.ascontiguousarray(coef, dtype=np.float64)
    function = kernel.native
    for part, rows, columns in _native_blocks(kernel, X, Z, shift, n_threads, ready):
        scores[part] = _core.kernel_cross(function, rows, columns, coef, n_threads)
    return scores


def kernel_diagonal(kernel: Kernel, X: Any, centre: Array | None = None) -> Array:
    """Return k(x, x) for every x, shape (n_X,); ``centre`` is subtracted from dense items."""
    n = X.shape[0]
    diagonal = None if kernel.entry is None else kernel.entry.diagonal
    if diagonal is None:
        blocks = [called(kernel, X[part], X[part]).diagonal() for part in row_blocks(n, 64)]
        return np.concatenate(blocks) if blocks else np.empty(0)
    if isinstance(diagonal, float):
        return np.full(n, diagonal)
    squares = np.empty(n)
    for part in row_blocks(n, BLOCK_ROWS):
        rows = X[part]
        if is_sparse(rows):
            rows = rows.astype(np.float64)
            squares[part] = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
            continue
        if centre is not None:
            rows = rows - centre
        squares[part] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return diagonal(kernel, squares)


def kernel_rows(
    X: Any,
    centre: Array | None = None,
    shift: Array | None = None,
    *,
    n_threads: int = 1,
    is_packed: bool = False,
) -> _core.KernelRows:
    """Return items as an object of the native code: dense or CSR, minus ``centre``.

    Items are not copied, except dense ones that are packed: these take as much memory in float64,
    and less time as the Z of several calls.
    """
    X, scaling = without_scaling(X)
    offset, factor = (None, None) if scaling is None else (scaling.offset, scaling.factor)
    if X.dtype not in FLOATS:
        X = X.astype(np.float64)
    if is_sparse(X):
        X = canonical_csr(X)
        data, indices = np.ascontiguousarray(X.data), np.ascontiguousarray(X.indices)
        indptr = np.ascontiguousarray(X.indptr)
        return _core.KernelRows.sparse(data, indices, indptr, X.shape[1], factor, shift, n_threads)
    return _core.KernelRows.dense(X, offset, factor, centre, shift, n_threads, is_packed)


def called(kernel: Kernel, X: Any, Z: Any) -> Array:
    """Return the values of a callable kernel, after checking them."""
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
    """Yield blocks of at most ``size`` of n rows."""
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def value_blocks(n_rows: int, n_columns: int, most: int) -> Iterator[slice]:
    """Yield blocks of rows with at most about ``most`` values each."""
    return row_blocks(n_rows, max(1, most // max(1, n_columns)))


def centre_of(Z: Any) -> Array:
    """Return the center that is subtracted from dense items before distances are computed.

    It is the median of a sample of items in each column, which is robust against outliers.
    """
    some = Z[:: max(1, Z.shape[0] // CENTRE_ROWS)]
    centre: Array = np.median(some.astype(np.float64), axis=0)
    return centre


class ReadyItems(NamedTuple):
    """Items on one side of a kernel matrix, in the form that the native code takes.

    Attributes
    ----------
    rows : KernelRows
        The items, minus ``centre``.
    centre : ndarray of shape (n_features,) or None
        What is subtracted from the items of both sides; None if nothing is.
    """

    rows: _core.KernelRows
    centre: Array | None


def ready_items(
    kernel: Kernel,
    Z: Any,
    shift: Array | None,
    *,
    against_dense: bool = True,
    n_threads: int = 1,
    is_kept: bool = False,
) -> ReadyItems:
    """Make the items Z of a native kernel ready, for X that are dense or few enough columns.

    ``is_kept`` says that they are for several calls, and not for one.
    """
    is_centred = kernel.function == "rbf" and against_dense and Z.shape[0] and not is_sparse(Z)
    centre = centre_of(Z) if is_centred else None
    rows = kernel_rows(Z, centre, shift, n_threads=n_threads, is_packed=is_kept)
    return ReadyItems(rows, centre)


def _native_blocks(
    kernel: Kernel,
    X: Any,
    Z: Any,
    shift: Array | None,
    n_threads: int,
    ready: ReadyItems | None = None,
) -> Iterator[tuple[slice, _core.KernelRows, _core.KernelRows]]:
    """Yield blocks of X: their rows, and these rows and Z as objects of the native code."""
    can_be_dense = not is_sparse(X) or X.shape[1] <= FEW_COLUMNS
    if ready is None or not can_be_dense:
        ready = ready_items(kernel, Z, shift, against_dense=can_be_dense, n_threads=n_threads)
    columns, centre = ready
    if not is_sparse(X) or centre is None:
        yield slice(None), kernel_rows(X, centre, n_threads=n_threads), columns
        return
    # As many rows as threads can share.
    most = max(BLOCK_ROWS, BLOCK_VALUES // max(1, X.shape[1]))
    for part in row_blocks(X.shape[0], most):
        yield part, kernel_rows(X[part].toarray(), centre, n_threads=n_threads), columns


def _has_one_value(X: Any) -> bool:
    values = X[:]  # scaled, if they are to be
    return bool(values.min() == values.max())


def _variance(X: Any, weight: Array | None) -> float:
    """Return the variance of all values of X, which is dense or CSR."""
    share = np.ones(X.shape[0]) if weight is None else weight
    share = share / (share.sum() * X.shape[1])
    if is_sparse(X):
        X = canonical_csr(X)
        values = X.data.astype(np.float64)
        share = np.repeat(share, np.diff(X.indptr))
        mean = dot(share, values)
        return dot(share, (values - mean) ** 2) + (1.0 - float(share.sum())) * mean * mean
    sums, squares = np.empty(X.shape[0]), np.empty(X.shape[0])
    for part in row_blocks(X.shape[0], BLOCK_ROWS):
        sums[part] = X[part].sum(axis=1, dtype=np.float64)
    mean = dot(share, sums)
    for part in row_blocks(X.shape[0], BLOCK_ROWS):
        squares[part] = ((X[part].astype(np.float64) - mean) ** 2).sum(axis=1)
    return dot(share, squares)
