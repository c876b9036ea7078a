"""What was learned: scores, explanations, a description, and the arrays that a file holds.

A :class:`Model` knows nothing of scikit-learn, files or commands; estimators, files, commands and
exports know models by this class alone.  Every kind of model is a subclass, beside its settings and
its problem in :mod:`ranksvm.learners`.

A file names the *format* of its arrays: which there are, of which type, and what their axes run
over.  Axes of one name have one length.  Formats without an axis of features have their number
among the facts, "n_features"; :mod:`ranksvm.models.facts` has the other facts that must be right.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.models.explain import Explanation
from ranksvm.models.facts import check_facts

__all__ = [
    "ArraySpec",
    "Format",
    "Model",
    "ModelFileError",
    "check_csr",
    "check_model",
    "check_support",
    "listed",
]

Arrays = Mapping[str, NDArray[Any]]


class ModelFileError(ValueError):
    """A file that cannot be read as a model: which one, what was found, what to do."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(ABC):
    """A learned function from items to scores.

    Attributes
    ----------
    params : mapping
        Parameters that it was fitted with, by name.
    facts : mapping
        What is known of the training: objective, gap, number of pairs, ...
    feature_names : tuple of str or None
        As many as there are features.

    Notes
    -----
    Values in ``params`` and ``facts`` are None, booleans, integers, floats, texts, and lists and
    mappings (with texts as keys) of these.  NumPy's scalars are saved as numbers and tuples as
    lists.
    """

    params: Mapping[str, Any]
    facts: Mapping[str, Any]
    feature_names: tuple[str, ...] | None = None

    # How its arrays may be saved.
    FORMATS: ClassVar[Mapping[str, Format]]

    @property
    @abstractmethod
    def kind(self) -> str:
        """Name of its format, one of ``FORMATS``."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Features of an item."""

    @property
    def weights(self) -> Array | None:
        """The weight of each feature, if scores are weighted sums of features; else None."""
        return None

    @property
    def is_sparse(self) -> bool:
        """Whether it scores sparse items faster than dense ones."""
        return False

    @abstractmethod
    def scores(self, X: Any, *, n_threads: int = 1) -> Array:
        """Score items.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_items, n_features), finite
        n_threads : int

        Returns
        -------
        ndarray of shape (n_items,)
        """

    @abstractmethod
    def explain(
        self, X: Any, i: int, j: int, *, items: tuple[str, str] | None = None, first: int = 0
    ) -> Explanation:
        """Tell what puts item i above item j, or below.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_items, n_features), finite
        i, j : int
            Rows of X.
        items : tuple of two str, or None
            What i and j are called; None for their row numbers.
        first : int
            What numbers begin at, in names that are made up.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what people want to know of it, by name; lists and mappings are fine."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file holds, as ``FORMATS[self.kind]`` has it."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, kind: str, arrays: Arrays, **about: Any) -> Self:
        """Return the model of a file.

        Parameters
        ----------
        kind : str
            One of ``FORMATS``.
        arrays : mapping of str to ndarray
            Checked by :func:`check_model`.
        **about
            ``params``, ``facts`` and ``feature_names``.
        """


@dataclass(frozen=True)
class ArraySpec:
    """Type of an array and what its axes run over; all its values must be finite."""

    dtype: np.dtype[Any]
    axes: tuple[str, ...]


MOST_FEATURES = 2**31 - 1
FEATURES = "features"  # the axis


@dataclass(frozen=True)
class Format:
    """Arrays of a model in a file, and what else must hold of them given the number of features.

    ``functions`` are the kernels that it can compute.
    """

    arrays: Mapping[str, ArraySpec]
    check: Callable[[Arrays, int], None] | None = None
    functions: Collection[str] = ()

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


def check_csr(arrays: Arrays, n_features: int) -> None:
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


def check_support(arrays: Arrays, n_items: int | None = None) -> None:
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


def check_model(
    kind: str,
    formats: Mapping[str, Format],
    arrays: Arrays,
    feature_names: Any,
    facts: Mapping[str, Any],
) -> None:
    """Check that arrays, names and facts make a model.

    Parameters
    ----------
    kind : str
    formats : mapping of str to Format
        Those of the model, by kind.
    arrays : mapping of str to ndarray
        In any byte order.
    feature_names : list of str or None
    facts : mapping

    Raises
    ------
    ValueError
        If they do not; the message says what was expected and what was got.
    """
    if kind not in formats:
        raise ValueError(f"kind must be one of {listed(formats)}; got {kind!r}")
    form = formats[kind]
    specs = form.arrays
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
    n_features = form.n_features(arrays, facts)
    if n_features == 0:
        raise ValueError("the model has no features")
    if n_features > MOST_FEATURES:
        raise ValueError(f"the model has {n_features} features, of {MOST_FEATURES} at most")
    further = form.check
    if further is not None:
        further(arrays, n_features)
    check_facts(facts, form.functions)
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
