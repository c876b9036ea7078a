"""Kernel models: scores are sums over points, s(x) = sum_j coef_j k(x, z_j).

Formats of the arrays in a model file:

    kernel             exact: points (n_support, n_features), coef, support
    kernel_sparse      the same with the points as CSR: data, indices, indptr
    nystroem           points (n_components, n_features), coef
    nystroem_sparse    the same with the points as CSR
    fourier            points: the frequencies; shift; coef
    precomputed        coef, support

In CSR, the column indices of each row ascend; so does support.  The parameters of the kernel and
the number of columns (``n_features``) are stored as facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ranksvm._sparse import is_sparse
from ranksvm._text import counted
from ranksvm._vectors import Array
from ranksvm.maps.expansion import Expansion, GivenExpansion
from ranksvm.maps.kernels import KERNELS, Kernel, kernel_matrix
from ranksvm.models.formats import FEATURES, ArraySpec, Format
from ranksvm.models.model import Model

POINTS, VALUES = "points", "values"
FLOAT, INTEGER = np.dtype(np.float64), np.dtype(np.int64)
COEF = {"coef": ArraySpec(FLOAT, (POINTS,))}
SUPPORT = {"support": ArraySpec(INTEGER, (POINTS,))}
SHIFT = {"shift": ArraySpec(FLOAT, (POINTS,))}
DENSE = {"points": ArraySpec(FLOAT, (POINTS, FEATURES))}
SPARSE = {
    "data": ArraySpec(FLOAT, (VALUES,)),
    "indices": ArraySpec(INTEGER, (VALUES,)),
    "indptr": ArraySpec(INTEGER, ("row bounds",)),
}
COSINE = ("cosine",)


def _check_csr(arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
    """Raise unless indices and indptr describe a valid CSR matrix."""
    indices, indptr = arrays["indices"], arrays["indptr"]
    n_points, n_values = arrays["coef"].size, indices.size
    if indptr.size != n_points + 1:
        raise ValueError(f"array 'indptr' must have {n_points + 1} values; got {indptr.size}")
    if indptr[0] != 0 or indptr[-1] != n_values or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"array 'indptr' must ascend from 0 to {n_values}, the number of values")
    if n_values and not (indices.min() >= 0 and indices.max() < n_features):
        raise ValueError(
            f"array 'indices' must be from 0 to {n_features - 1}; got {int(indices.min())} to "
            f"{int(indices.max())}"
        )
    ascends = indices[1:] > indices[:-1]
    ascends[indptr[(indptr > 0) & (indptr < n_values)] - 1] = True  # from one row to the next
    if not ascends.all():
        raise ValueError(
            f"array 'indices' must ascend in every row; it does not after index "
            f"{int(np.argmin(ascends))}"
        )


def _check_support(arrays: Mapping[str, NDArray[Any]], n_items: int | None = None) -> None:
    """Raise unless the row numbers of the training set are valid and ascend."""
    support = arrays["support"]
    if not support.size:
        return
    low, high = int(support.min()), int(support.max())
    if low < 0 or (n_items is not None and high >= n_items):
        most = "" if n_items is None else f" and at most {n_items - 1}"
        raise ValueError(
            f"array 'support' must contain row numbers of at least 0{most}; got {low} to {high}"
        )
    ascends = support[1:] > support[:-1]
    if not ascends.all():
        raise ValueError(
            f"array 'support' must ascend; it does not after index {int(np.argmin(ascends))}"
        )


def _check_points(arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
    if "indptr" in arrays:
        _check_csr(arrays, n_features)
    if "support" in arrays:
        _check_support(arrays)


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelModel(Model):
    """A kernel model: scores are weighted sums of kernel values.

    Attributes
    ----------
    expansion : Expansion or GivenExpansion
        Points and their coefficients.
    support : ndarray of int64, shape (n_points,), or None
        Row numbers of the points in the training set; None for landmarks and random features.
    """

    expansion: Expansion | GivenExpansion
    support: NDArray[np.int64] | None

    FORMATS: ClassVar[Mapping[str, Format]] = {
        "kernel": Format({**COEF, **SUPPORT, **DENSE}, _check_points, KERNELS),
        "kernel_sparse": Format({**COEF, **SUPPORT, **SPARSE}, _check_points, KERNELS),
        "nystroem": Format({**COEF, **DENSE}, _check_points, KERNELS),
        "nystroem_sparse": Format({**COEF, **SPARSE}, _check_points, KERNELS),
        "fourier": Format({**COEF, **SHIFT, **DENSE}, _check_points, COSINE),
        "precomputed": Format({**COEF, **SUPPORT}, _check_support),
    }

    @property
    def kind(self) -> str:
        if isinstance(self.expansion, GivenExpansion):
            return "precomputed"
        if self.expansion.shift is not None:
            return "fourier"
        kind = "nystroem" if self.support is None else "kernel"
        return f"{kind}_sparse" if self.is_sparse else kind

    @property
    def n_columns(self) -> int:
        return self.expansion.n_features

    @property
    def coef(self) -> Array:
        """Coefficients of the points."""
        return self.expansion.coef

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.expansion, Expansion) and is_sparse(self.expansion.points)

    def scaled_scores(self, X: Any, *, n_threads: int = 1) -> Array:
        X = X.tocsr() if is_sparse(X) else X
        return self.expansion.scores(X, n_threads=n_threads)

    def contributions(self, rows: Any) -> tuple[str, NDArray[np.int64], Array]:
        expansion = self.expansion
        if isinstance(expansion, GivenExpansion):
            values = (rows.toarray() if is_sparse(rows) else rows)[:, expansion.items]
        else:
            values = kernel_matrix(expansion.kernel, rows, expansion.points, shift=expansion.shift)
        contributions = self.coef * (values[0] - values[1])
        if self.support is not None:
            return "support item", self.support, contributions
        part = "random feature" if self.kind == "fourier" else "landmark"
        return part, np.arange(self.coef.size), contributions

    def describe(self) -> dict[str, Any]:
        kernel = self.params.get("kernel")
        what = "components" if self.support is None else "support_items"
        return {
            "scaling": self.scaling_name,
            "kernel": kernel,
            "gamma": None if kernel == "linear" else self.facts.get("gamma"),
            "approximation": self.params.get("approximation"),
            what: int(self.coef.size),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"coef": self.coef}
        if self.support is not None:
            arrays["support"] = self.support
        if isinstance(self.expansion, GivenExpansion):
            return arrays
        if callable(self.expansion.kernel.function):
            raise ValueError(
                "a model with a callable kernel cannot be saved: a model file contains no code. "
                "Use a named kernel, or kernel='precomputed' with kernel values you compute."
            )
        points = self.expansion.points
        if self.expansion.shift is not None:
            arrays["shift"] = self.expansion.shift
        if is_sparse(points):
            arrays["data"] = np.asarray(points.data, dtype=np.float64)
            arrays["indices"] = np.asarray(points.indices, dtype=np.int64)
            arrays["indptr"] = np.asarray(points.indptr, dtype=np.int64)
        else:
            arrays["points"] = np.ascontiguousarray(points, dtype=np.float64)
        return arrays

    def __post_init__(self) -> None:
        """Record the kernel and the number of columns as facts, which is how files store them."""
        facts = {**self.facts, "n_features": self.n_columns}
        if isinstance(self.expansion, Expansion):
            kernel = self.expansion.kernel
            facts["kernel"] = {one.name: getattr(kernel, one.name) for one in fields(kernel)}
        object.__setattr__(self, "facts", facts)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], **about: Any) -> Self:
        coef, support, facts = arrays["coef"], arrays.get("support"), about["facts"]
        points: Any = arrays.get("points")
        if "indptr" in arrays:
            from scipy.sparse import csr_matrix

            parts = arrays["data"], arrays["indices"], arrays["indptr"]
            points = csr_matrix(parts, shape=(coef.size, facts["n_features"]))
        expansion: Expansion | GivenExpansion
        if points is not None:
            expansion = Expansion(Kernel(**facts["kernel"]), points, coef, arrays.get("shift"))
        else:
            expansion = GivenExpansion(arrays["support"], coef, facts["n_features"])
        return cls(expansion=expansion, support=support, **about)


COMPONENTS = {"nystroem": "Nystrom landmarks", "fourier": "random Fourier features"}


def summary(report: Mapping[str, Any]) -> str:
    """Return a line of text about a kernel model that was just trained."""
    settings = report["settings"]
    parts = [f"{settings['kernel']} kernel"]
    if report["gamma"] is not None:
        parts.append(f"gamma = {report['gamma']:.6g}")
    if "support_items" in report:
        parts.append(counted(report["support_items"], "support item"))
    else:
        name = settings["approximation"]
        parts.append(f"{report['components']:,} {COMPONENTS.get(name, name)}")
    return ", ".join([*parts, counted(report["products"], "product")])
