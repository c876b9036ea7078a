"""What a saved model is, whatever holds it: a kind, arrays, names, parameters and facts.

A kind says which arrays there are, of which type, and what their axes run over: axes of one name
have one length.  A new kind of model is one entry in ``KINDS``.

    linear             coef (features)
    factorized         coef (features), factors (items, factors)
    kernel             coef (points), support (points), points (points, features)
    kernel_sparse      coef (points), support (points), and the points as CSR
    nystroem           coef (points), points (points, features)
    nystroem_sparse    coef (points), and the points as CSR
    fourier            coef (points), shift (points), points (points, features)
    precomputed        coef (points), support (points)

CSR is data (values), indices (values) and indptr (one more than points), columns ascending in every
row; support ascends.  Kinds without an axis of features have their number among the facts,
"n_features"; :mod:`ranksvm.model_io.facts` has the other facts that must be right.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm.model_io.facts import COSINE, FUNCTIONS, check_facts

__all__ = ["KINDS", "ArraySpec", "Kind", "ModelFileError", "ModelRecord", "check_model", "listed"]


class ModelFileError(ValueError):
    """A file that cannot be read as a model: which one, what was found, what to do."""


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """What a saved model is.

    Attributes
    ----------
    kind : str
        One of ``KINDS``.
    params : mapping
        Parameters of the estimator by name.
    arrays : mapping of str to ndarray
        Those of the kind, for "linear": "coef", float64 of shape (n_features,).
    feature_names : tuple of str or None
        As many as there are features.
    facts : mapping
        What is known of the training.

    Notes
    -----
    Values in ``params`` and ``facts`` are None, booleans, integers, floats, texts, and lists and
    mappings (with texts as keys) of these.  NumPy's scalars are saved as numbers and tuples as
    lists.
    """

    kind: str
    params: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    feature_names: tuple[str, ...] | None
    facts: Mapping[str, Any]

    @property
    def n_features(self) -> int:
        """Number of features of an item."""
        return KINDS[self.kind].n_features(self.arrays, self.facts)


@dataclass(frozen=True)
class ArraySpec:
    """Type of an array and what its axes run over; all its values must be finite."""

    dtype: np.dtype[Any]
    axes: tuple[str, ...]


Arrays = Mapping[str, NDArray[Any]]
MOST_FEATURES = 2**31 - 1


@dataclass(frozen=True)
class Kind:
    """Arrays of a kind of model, and what else must hold of them given the number of features.

    ``functions`` are the kernels that it can compute.
    """

    arrays: Mapping[str, ArraySpec]
    check: Callable[[Arrays, int], None] | None = None
    functions: tuple[str, ...] = ()

    def n_features(self, arrays: Arrays, facts: Mapping[str, Any]) -> int:
        """Return the length of the axis of features, or what the facts tell; ValueError if none."""
        told = facts.get("n_features")
        for name, spec in self.arrays.items():
            if FEATURES in spec.axes:
                found = int(arrays[name].shape[spec.axes.index(FEATURES)])
                if told is not None and told != found:
                    raise ValueError(
                        f"n_features among the facts is {reprlib.repr(told)}, and array {name!r} "
                        f"has {found}"
                    )
                return found
        if type(told) is not int or not 0 <= told <= MOST_FEATURES:
            raise ValueError(
                "n_features among the facts must be a number of features, at most "
                f"{MOST_FEATURES}; got {reprlib.repr(told)}"
            )
        return told


def _check_csr(arrays: Arrays, n_features: int) -> None:
    """Raise unless indices and indptr are those of a sparse matrix in compressed rows."""
    indices, indptr = arrays["indices"], arrays["indptr"]
    n_points, n_values = arrays["coef"].size, indices.size
    if indptr.size != n_points + 1:
        raise ValueError(f"array 'indptr' must have {n_points + 1} values; got {indptr.size}")
    if indptr[0] != 0 or indptr[-1] != n_values or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"array 'indptr' must ascend from 0 to {n_values}, the number of values")
    if n_values and not (indices.min() >= 0 and indices.max() < n_features):
        raise ValueError(
            f"array 'indices' must lie in 0 to {n_features - 1}; got {int(indices.min())} to "
            f"{int(indices.max())}"
        )
    ascends = indices[1:] > indices[:-1]
    ascends[indptr[(indptr > 0) & (indptr < n_values)] - 1] = True  # from one row to the next
    if not ascends.all():
        raise ValueError(
            f"array 'indices' must ascend in every row; it does not after place "
            f"{int(np.argmin(ascends))}"
        )


def _check_support(arrays: Arrays, n_items: int | None = None) -> None:
    """Raise unless the rows of the training set are such."""
    support = arrays["support"]
    if not support.size:
        return
    low, high = int(support.min()), int(support.max())
    if low < 0 or (n_items is not None and high >= n_items):
        most = "" if n_items is None else f" and at most {n_items - 1}"
        raise ValueError(
            f"array 'support' must be row numbers, at least 0{most}; got {low} to {high}"
        )
    ascends = support[1:] > support[:-1]
    if not ascends.all():
        raise ValueError(
            f"array 'support' must ascend; it does not after place {int(np.argmin(ascends))}"
        )


def _check_dense_support(arrays: Arrays, n_features: int) -> None:
    del n_features
    _check_support(arrays)


def _check_sparse_support(arrays: Arrays, n_features: int) -> None:
    _check_csr(arrays, n_features)
    _check_support(arrays)


def _check_factors(arrays: Arrays, n_features: int) -> None:
    """Raise unless there are factors."""
    del n_features
    if not arrays["factors"].size:
        raise ValueError(
            f"array 'factors' must have items and factors; got shape {arrays['factors'].shape}"
        )


FEATURES, POINTS, VALUES = "features", "points", "values"
_FLOAT, _INTEGER = np.dtype(np.float64), np.dtype(np.int64)
_COEF = {"coef": ArraySpec(_FLOAT, (POINTS,))}
_SUPPORT = {"support": ArraySpec(_INTEGER, (POINTS,))}
_SHIFT = {"shift": ArraySpec(_FLOAT, (POINTS,))}
_DENSE = {"points": ArraySpec(_FLOAT, (POINTS, FEATURES))}
_SPARSE = {
    "data": ArraySpec(_FLOAT, (VALUES,)),
    "indices": ArraySpec(_INTEGER, (VALUES,)),
    "indptr": ArraySpec(_INTEGER, ("row bounds",)),
}

KINDS = {
    "linear": Kind({"coef": ArraySpec(_FLOAT, (FEATURES,))}),
    "factorized": Kind(
        {
            "coef": ArraySpec(_FLOAT, (FEATURES,)),
            "factors": ArraySpec(_FLOAT, ("items", "factors")),
        },
        _check_factors,
    ),
    "kernel": Kind({**_COEF, **_SUPPORT, **_DENSE}, _check_dense_support, FUNCTIONS),
    "kernel_sparse": Kind({**_COEF, **_SUPPORT, **_SPARSE}, _check_sparse_support, FUNCTIONS),
    "nystroem": Kind({**_COEF, **_DENSE}, None, FUNCTIONS),
    "nystroem_sparse": Kind({**_COEF, **_SPARSE}, _check_csr, FUNCTIONS),
    "fourier": Kind({**_COEF, **_SHIFT, **_DENSE}, None, COSINE),
    "precomputed": Kind({**_COEF, **_SUPPORT}, _check_support),
}


def check_model(kind: str, arrays: Arrays, feature_names: Any, facts: Mapping[str, Any]) -> None:
    """Check that arrays, names and facts make a model of a kind.

    Parameters
    ----------
    kind : str
    arrays : mapping of str to ndarray
        In any byte order.
    feature_names : list of str or None
    facts : mapping

    Raises
    ------
    ValueError
        If they do not; the message says what was expected and what was got.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {listed(KINDS)}; got {kind!r}")
    specs = KINDS[kind].arrays
    if arrays.keys() != specs.keys():
        raise ValueError(
            f"a {kind} model has the arrays {listed(specs)}; got {listed(arrays) or 'none'}"
        )
    lengths: dict[str, tuple[int, str]] = {}
    for name, spec in specs.items():
        _check_array(name, spec, arrays[name])
        for axis, length in zip(spec.axes, arrays[name].shape, strict=True):
            expected, other = lengths.setdefault(axis, (length, name))
            if length != expected:
                raise ValueError(
                    f"array {name!r} has {length} {axis}, and array {other!r} has {expected}"
                )
    n_features = KINDS[kind].n_features(arrays, facts)
    if n_features == 0:
        raise ValueError("the model has no features")
    if n_features > MOST_FEATURES:
        raise ValueError(f"the model has {n_features} features, of {MOST_FEATURES} at most")
    further = KINDS[kind].check
    if further is not None:
        further(arrays, n_features)
    check_facts(facts, KINDS[kind].functions)
    if feature_names is None:
        return
    if not all(isinstance(name, str) for name in feature_names):
        raise ValueError(f"feature_names must be texts; got {reprlib.repr(feature_names)}")
    if len(feature_names) != n_features:
        raise ValueError(f"got {len(feature_names)} feature_names for {n_features} features")


def _check_array(name: str, spec: ArraySpec, array: NDArray[Any]) -> None:
    if array.dtype.newbyteorder("=") != spec.dtype or array.ndim != len(spec.axes):
        raise ValueError(
            f"array {name!r} must be {spec.dtype} with {len(spec.axes)} dimension(s); got "
            f"{array.dtype} of shape {array.shape}"
        )
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(
            f"array {name!r} must be finite; got NaN or infinity in {int(wrong.sum())} of "
            f"{array.size} places, first in {int(np.argmax(wrong))}"
        )


def listed(names: Iterable[str]) -> str:
    """Return the first of some names, for a message; they may be of any length and number."""
    shown = sorted(names)
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return ", ".join(reprlib.repr(name) for name in shown[:5]) + more
