"""A kernel model as named arrays, and back: what a model file holds.

    kernel             exact: points (n_support, n_features), coef, support
    kernel_sparse      the same with the points as CSR: data, indices, indptr
    nystroem           points (n_components, n_features), coef
    nystroem_sparse    the same with the points as CSR
    fourier            points: the frequencies; shift; coef
    precomputed        coef, support

The numbers of the kernel and the number of features stand beside the arrays, as facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm.maps.expansion import Expansion, GivenExpansion
from ranksvm.maps.kernels import Kernel, is_sparse

__all__ = ["KERNEL_KINDS", "kernel_arrays", "kernel_facts", "kernel_params", "read_expansion"]

KERNEL_KINDS = (
    "kernel", "kernel_sparse", "nystroem", "nystroem_sparse", "fourier", "precomputed",
)  # fmt: skip


def kernel_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as a file holds them; raise for a kernel that is code."""
    if callable(params["kernel"]):
        raise ValueError(
            "a model with a callable kernel cannot be saved: a model file holds no code. Use a "
            "named kernel, or kernel='precomputed' and compute the kernel values yourself."
        )
    plain = {}
    for name, value in params.items():
        if isinstance(value, np.generic):
            value = value.item()
        fine = value is None or isinstance(value, bool | int | float | str)
        plain[name] = value if fine else None  # a random state
    return plain


def kernel_facts(expansion: Expansion | GivenExpansion) -> dict[str, Any]:
    """Return what must be known of the kernel beside the arrays."""
    facts: dict[str, Any] = {"n_features": expansion.n_features}
    if isinstance(expansion, Expansion):
        kernel = expansion.kernel
        facts["kernel"] = {
            "function": kernel.function,
            "gamma": kernel.gamma,
            "coef0": kernel.coef0,
            "degree": kernel.degree,
            "scale": kernel.scale,
        }
    return facts


def kernel_arrays(
    expansion: Expansion | GivenExpansion, support: NDArray[np.int64] | None
) -> tuple[str, dict[str, NDArray[Any]]]:
    """Return kind and arrays of a model."""
    arrays: dict[str, NDArray[Any]] = {"coef": expansion.coef}
    if support is not None:
        arrays["support"] = support
    if isinstance(expansion, GivenExpansion):
        return "precomputed", arrays
    kind = "nystroem" if support is None else "kernel"
    points = expansion.points
    if expansion.shift is not None:
        kind = "fourier"
        arrays["shift"] = expansion.shift
    if is_sparse(points):
        arrays["data"] = np.asarray(points.data, dtype=np.float64)
        arrays["indices"] = np.asarray(points.indices, dtype=np.int64)
        arrays["indptr"] = np.asarray(points.indptr, dtype=np.int64)
        return f"{kind}_sparse", arrays
    arrays["points"] = np.ascontiguousarray(points, dtype=np.float64)
    return kind, arrays


def read_expansion(
    kind: str, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
) -> tuple[Expansion | GivenExpansion, NDArray[np.int64] | None]:
    """Return the model of a file and its support; ValueError if the parts do not fit."""
    coef = np.array(arrays["coef"], dtype=np.float64)
    support = None
    if "support" in arrays:
        support = np.array(arrays["support"], dtype=np.int64)
        if support.shape != coef.shape or (support.size and int(support.min()) < 0):
            raise ValueError("support and coef do not fit together")
    n_features = facts.get("n_features")
    if not isinstance(n_features, int) or isinstance(n_features, bool) or n_features < 1:
        raise ValueError(f"n_features must be a positive integer; got {n_features!r}")
    if kind == "precomputed":
        assert support is not None
        if support.size and int(support.max()) >= n_features:
            raise ValueError(f"support reaches beyond the {n_features} training items")
        return GivenExpansion(support, coef, n_features), support
    points: Any
    if kind.endswith("_sparse"):
        points = _read_csr(arrays, (coef.size, n_features))
    else:
        points = np.array(arrays["points"], dtype=np.float64)
    if points.shape != (coef.size, n_features):
        raise ValueError(f"points must have shape ({coef.size}, {n_features}); got {points.shape}")
    shift = None
    if "shift" in arrays:
        shift = np.array(arrays["shift"], dtype=np.float64)
        if shift.shape != coef.shape:
            raise ValueError("shift and coef do not fit together")
    return Expansion(_read_kernel(facts), points, coef, shift), support


def _read_kernel(facts: Mapping[str, Any]) -> Kernel:
    told = facts.get("kernel")
    names = {"function": str, "gamma": float, "coef0": float, "degree": int, "scale": float}
    if not isinstance(told, Mapping) or not all(
        isinstance(told.get(name), kind) for name, kind in names.items()
    ):
        raise ValueError(f"the kernel must be told as {', '.join(names)}; got {told!r}")
    kernel = Kernel(**{name: told[name] for name in names})
    _ = kernel.native  # knows the names and the range of the numbers
    return kernel


def _read_csr(arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_matrix

    data, indices, indptr = (np.array(arrays[name]) for name in ("data", "indices", "indptr"))
    fine = (
        len(indptr) == shape[0] + 1
        and indptr[0] == 0
        and indptr[-1] == len(data) == len(indices)
        and bool((indptr[1:] >= indptr[:-1]).all())
        and (not indices.size or (int(indices.min()) >= 0 and int(indices.max()) < shape[1]))
    )
    if not fine:
        raise ValueError("the points are no sparse matrix: data, indices and indptr do not fit")
    return csr_matrix((data, indices, indptr), shape=shape)
