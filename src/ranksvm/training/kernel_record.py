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
    """Return the model of a file and its support.

    Parameters
    ----------
    kind, arrays, facts
        Of a record that :func:`ranksvm.model_io.read_model` returned, which has checked them.
    """
    coef, support = arrays["coef"], arrays.get("support")
    if kind == "precomputed":
        assert support is not None
        return GivenExpansion(support, coef, facts["n_features"]), support
    points: Any
    if "points" in arrays:
        points = arrays["points"]
    else:
        from scipy.sparse import csr_matrix

        parts = arrays["data"], arrays["indices"], arrays["indptr"]
        points = csr_matrix(parts, shape=(coef.size, facts["n_features"]))
    return Expansion(Kernel(**facts["kernel"]), points, coef, arrays.get("shift")), support
