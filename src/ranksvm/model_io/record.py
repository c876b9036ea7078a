"""What a saved model is, whatever holds it: a kind, arrays, names, parameters and facts.

A kind says which arrays there are, of which type and shape, and what their last axis runs over.  A
new kind of model is one entry in ``KINDS``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "ArraySpec", "Kind", "ModelFileError", "ModelRecord", "check_model", "listed"]


class ModelFileError(ValueError):
    """A file that cannot be read as a model: which one, what was found, what to do."""


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """What a saved model is.

    Attributes
    ----------
    kind : str
        "linear".
    params : mapping
        Parameters of the estimator by name.
    arrays : mapping of str to ndarray
        For "linear": "coef", float64 of shape (n_features,).
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


@dataclass(frozen=True)
class ArraySpec:
    """Type and number of dimensions of an array; all its values must be finite."""

    dtype: np.dtype[Any]
    ndim: int


@dataclass(frozen=True)
class Kind:
    """Arrays of a kind of model, and the one whose last axis runs over the features."""

    arrays: Mapping[str, ArraySpec]
    features: str


KINDS = {"linear": Kind({"coef": ArraySpec(np.dtype(np.float64), 1)}, features="coef")}


def check_model(kind: str, arrays: Mapping[str, NDArray[Any]], feature_names: Any) -> None:
    """Check that arrays and names make a model of a kind.

    Parameters
    ----------
    kind : str
    arrays : mapping of str to ndarray
        In any byte order.
    feature_names : list of str or None

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
    for name, spec in specs.items():
        _check_array(name, spec, arrays[name])
    n_features = arrays[KINDS[kind].features].shape[-1]
    if n_features == 0:
        raise ValueError("the model has no features")
    if feature_names is None:
        return
    if not all(isinstance(name, str) for name in feature_names):
        raise ValueError(f"feature_names must be texts; got {reprlib.repr(feature_names)}")
    if len(feature_names) != n_features:
        raise ValueError(f"got {len(feature_names)} feature_names for {n_features} features")


def _check_array(name: str, spec: ArraySpec, array: NDArray[Any]) -> None:
    if array.dtype.newbyteorder("=") != spec.dtype or array.ndim != spec.ndim:
        raise ValueError(
            f"array {name!r} must be {spec.dtype} with {spec.ndim} dimension(s); got {array.dtype} "
            f"of shape {array.shape}"
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
