"""The formats of model files: which arrays a model has, and whether those of a file are valid.

A *format* names the arrays, their types, and their axes.  Axes with the same name have the same
length.  In formats without a feature axis, the fact "n_features" gives its length;
:mod:`ranksvm.models.facts` checks the other facts.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._text import listed
from ranksvm.data.query_view import QueryView
from ranksvm.data.scaling import PREFIX, scaling_from
from ranksvm.data.table_encoding import TableEncoding
from ranksvm.models.facts import check_facts

Arrays = Mapping[str, NDArray[Any]]
MOST_FEATURES = 2**31 - 1
FEATURES = "features"  # name of the feature axis, which is that of the columns


@dataclass(frozen=True)
class ArraySpec:
    """Type of an array and names of its axes; all values must be finite."""

    dtype: np.dtype[Any]
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Format:
    """The arrays of a model in a file.

    ``check`` is a further check of the arrays, given the number of columns.  ``functions`` are the
    kernel functions that the kind of model supports.  ``optional`` are arrays that a model may do
    without.
    """

    arrays: Mapping[str, ArraySpec]
    check: Callable[[Arrays, int], None] | None = None
    functions: Collection[str] = ()
    optional: Mapping[str, ArraySpec] = field(default_factory=dict)

    def n_columns(self, arrays: Arrays, facts: Mapping[str, Any]) -> int:
        """Return the length of the feature axis or, without one, the fact "n_features"."""
        stated = facts.get("n_features")
        for name, spec in self.arrays.items():
            if FEATURES in spec.axes:
                found = int(arrays[name].shape[spec.axes.index(FEATURES)])
                if stated is not None and stated != found:
                    raise ValueError(
                        f"n_features in the facts is {reprlib.repr(stated)}, but array {name!r} "
                        f"has {found}"
                    )
                return found
        if type(stated) is not int or not 0 <= stated <= MOST_FEATURES:
            raise ValueError(
                f"n_features in the facts must be an integer from 0 to {MOST_FEATURES}; got "
                f"{reprlib.repr(stated)}"
            )
        return stated

    def validate(self, kind: str, arrays: Arrays, facts: Mapping[str, Any]) -> int:
        """Check the arrays and facts of a model of this format.

        Parameters
        ----------
        kind : str
            Name of the format.
        arrays : mapping of str to ndarray
            Its arrays and those of its scaling.
        facts : mapping

        Returns
        -------
        int
            Number of features of the items.

        Raises
        ------
        ValueError
            If they are not valid.
        """
        arrays, of_scaling = own_arrays(arrays)
        if arrays.keys() - self.optional.keys() != self.arrays.keys():
            raise ValueError(
                f"a {kind} model has the arrays {sorted_names(self.arrays)}; got "
                f"{sorted_names(arrays) or 'none'}"
            )
        lengths: dict[str, tuple[int, str]] = {}
        for name, spec in {**self.arrays, **self.optional}.items():
            if name not in arrays:
                continue
            check_array(name, spec, arrays[name])
            for axis, length in zip(spec.axes, arrays[name].shape, strict=True):
                expected, other = lengths.setdefault(axis, (length, name))
                if length != expected:
                    raise ValueError(
                        f"array {name!r} has {length} {axis}, but array {other!r} has {expected}"
                    )
        n_columns = self.n_columns(arrays, facts)
        if n_columns == 0:
            raise ValueError("the model has no features")
        if n_columns > MOST_FEATURES:
            raise ValueError(f"the model has {n_columns} features; the limit is {MOST_FEATURES}")
        if self.check is not None:
            self.check(arrays, n_columns)
        scaling_from(of_scaling, n_columns)
        check_facts(facts, self.functions)
        return QueryView.of_facts(facts).n_features(n_columns)


def own_arrays(arrays: Arrays) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Split the arrays of a file into those of the model and those of its scaling."""
    of_scaling = {name: one for name, one in arrays.items() if name.startswith(PREFIX)}
    return {name: one for name, one in arrays.items() if name not in of_scaling}, of_scaling


def check_model(
    kind: str,
    formats: Mapping[str, Format],
    arrays: Arrays,
    feature_names: Any,
    facts: Mapping[str, Any],
) -> None:
    """Check that arrays, names and facts form a valid model.

    Parameters
    ----------
    kind : str
        Name of the format.
    formats : mapping of str to Format
        Formats of the model class, by name.
    arrays : mapping of str to ndarray
        Arrays, in any byte order.
    feature_names : list of str or None
        Names of the features.
    facts : mapping
        Facts about the training.

    Raises
    ------
    ValueError
        If they do not.
    """
    if kind not in formats:
        raise ValueError(f"kind must be one of {sorted_names(formats)}; got {kind!r}")
    n_features = formats[kind].validate(kind, arrays, facts)
    encoding = TableEncoding.of_facts(facts)
    if encoding is not None and encoding.n_features != n_features:
        raise ValueError(
            f"the encoding in the facts gives {encoding.n_features} features, but the model has "
            f"{n_features}"
        )
    if feature_names is None:
        return
    if not all(isinstance(name, str) for name in feature_names):
        raise ValueError(f"feature_names must be strings; got {reprlib.repr(feature_names)}")
    if len(feature_names) != n_features:
        raise ValueError(f"got {len(feature_names)} feature_names for {n_features} features")


def check_array(name: str, spec: ArraySpec, array: NDArray[Any]) -> None:
    """Raise a ValueError unless an array is of this type, and finite."""
    if array.dtype.newbyteorder("=") != spec.dtype or array.ndim != len(spec.axes):
        raise ValueError(
            f"array {name!r} must be {spec.dtype} with {len(spec.axes)} dimension(s); got "
            f"{array.dtype} of shape {array.shape}"
        )
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(
            f"array {name!r} must be finite; got NaN or infinity in {int(wrong.sum())} of "
            f"{array.size} entries, first at index {int(np.argmax(wrong))}"
        )


def sorted_names(names: Iterable[str]) -> str:
    """Return the first few names for a message, shortened."""
    return listed(map(reprlib.repr, sorted(names)))
