"""The interface of models: scores, explanations, a description, and the arrays in a file.

A :class:`Model` does not depend on scikit-learn, files or commands; estimators, model files,
commands and exports use models only through this class.  The subclasses are in
:mod:`ranksvm.learners`, next to their settings and problems.

The *format* of a model file says which arrays it contains, their types, and the names of their
axes.  Axes with the same name have the same length.  In formats without a feature axis, the fact
"n_features" gives the number of features; :mod:`ranksvm.models.facts` checks the other facts.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ranksvm._sparse import is_sparse
from ranksvm._text import listed
from ranksvm._vectors import Array
from ranksvm.data.scaling import PREFIX, Scaling, scaling_from
from ranksvm.models.explain import Explanation
from ranksvm.models.facts import check_facts

Arrays = Mapping[str, NDArray[Any]]
# Scaled features that are held at a time.
SCALED_VALUES = 1 << 22


class ModelFileError(ValueError):
    """A file cannot be read as a model; the message says why, and what to do."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(ABC):
    """A trained model, which computes the scores of items.

    Attributes
    ----------
    params : mapping
        Parameters of the fit, by name.
    facts : mapping
        Facts about the training: objective, gap, number of pairs, ...
    feature_names : tuple of str or None
        One name per feature.
    scaling : Scaling or None
        How features are scaled before anything else; None if they are used as they are.

    Notes
    -----
    Values in ``params`` and ``facts`` are None, booleans, integers, floats, strings, and lists and
    mappings (with string keys) of these.  NumPy scalars are saved as numbers, and tuples as lists.
    """

    params: Mapping[str, Any]
    facts: Mapping[str, Any]
    feature_names: tuple[str, ...] | None = None
    scaling: Scaling | None = None

    # The formats in which its arrays can be saved, by name.
    FORMATS: ClassVar[Mapping[str, Format]]

    @property
    def kind(self) -> str:
        """Name of its format, a key of ``FORMATS``; the only one by default."""
        (kind,) = self.FORMATS
        return kind

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features."""

    @property
    def weights(self) -> Array | None:
        """Weights of the features, if scores are weighted sums of features; otherwise None."""
        return None

    @property
    def is_sparse(self) -> bool:
        """Whether it scores sparse X faster than dense X."""
        return False

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
        if self.scaling is None:
            return self.scaled_scores(X, n_threads=n_threads)
        rows = X.tocsr() if is_sparse(X) else X
        scores = np.empty(X.shape[0])
        step = max(1, SCALED_VALUES // max(1, self.n_features))
        for begin in range(0, X.shape[0], step):  # a copy of some rows at a time
            some = self.scaling.apply(rows[begin : begin + step], n_threads)
            scores[begin : begin + step] = self.scaled_scores(some, n_threads=n_threads)
        return scores

    @abstractmethod
    def scaled_scores(self, X: Any, *, n_threads: int = 1) -> Array:
        """Score items from their scaled features; those as they are, without a scaling."""

    @abstractmethod
    def contributions(self, rows: Any) -> tuple[str, NDArray[np.int64], Array]:
        """Split the difference of the scores of two items into a sum.

        Parameters
        ----------
        rows : ndarray or CSR matrix of shape (2, n_features), float64
            Scaled features of the two items.

        Returns
        -------
        part, index, contributions
            As in :class:`ranksvm.models.Explanation`, in any order and with zeros.
        """

    def explain(
        self, X: Any, i: int, j: int, *, items: tuple[str, str] | None = None, first: int = 0
    ) -> Explanation:
        """Explain why item i is ranked above or below item j.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_items, n_features), finite
            Features.
        i, j : int
            Rows of X, from 0.
        items : tuple of two str, or None
            Names of i and j; None for their row numbers.
        first : int
            Number of the first row or feature in generated names: 0 or 1.

        Returns
        -------
        Explanation
        """
        rows = X[[i, j]]
        rows = (rows.tocsr() if is_sparse(rows) else rows).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = rows if self.scaling is None else self.scaling.apply(rows)
            part, index, contributions = self.contributions(scaled)
        one, other = self.scores(rows).tolist()
        if not (np.isfinite(one - other) and np.isfinite(contributions).all()):
            raise OverflowError(
                f"the scores {one:g} and {other:g}, or parts of their difference, overflow float64 "
                "and cannot be explained. Scale the features down."
            )
        kept = np.flatnonzero(contributions)
        kept = kept[np.lexsort((index[kept], -np.abs(contributions[kept])))]
        names = self.feature_names if part == "feature" else None
        called = "training item" if part == "support item" else part  # i and j are items as well
        return Explanation(
            part=part,
            names=tuple(
                f"{called} {k + first}" if names is None else names[k] for k in index[kept].tolist()
            ),
            index=index[kept],
            contributions=contributions[kept],
            difference=one - other,
            scores=(one, other),
            items=items or (f"row {i + first}", f"row {j + first}"),
        )

    @property
    def scaling_name(self) -> str | None:
        """Name of the scaling of the features; None if they are taken as they are."""
        found: str | None = self.facts.get("scaling", self.params.get("scaling"))
        return found

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return a summary for display, by name; values may be lists and mappings."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save; by default the attributes with the names in its format."""
        return {name: getattr(self, name) for name in self.FORMATS[self.kind].arrays}

    @classmethod
    def from_arrays(cls, arrays: Arrays, **about: Any) -> Self:
        """Return the model for the contents of a file.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            The arrays, already checked by :func:`check_model`.
        **about
            ``params``, ``facts`` and ``feature_names``.
        """
        parts: dict[str, Any] = {**arrays, **about}
        return cls(**parts)


@dataclass(frozen=True)
class ArraySpec:
    """Type of an array and names of its axes; all values must be finite."""

    dtype: np.dtype[Any]
    axes: tuple[str, ...]


MOST_FEATURES = 2**31 - 1
FEATURES = "features"  # name of the feature axis


@dataclass(frozen=True)
class Format:
    """The arrays of a model in a file.

    ``check`` is a further check of the arrays, given the number of features.  ``functions`` are the
    kernel functions that the kind of model supports.
    """

    arrays: Mapping[str, ArraySpec]
    check: Callable[[Arrays, int], None] | None = None
    functions: Collection[str] = ()

    def n_features(self, arrays: Arrays, facts: Mapping[str, Any]) -> int:
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
    form = formats[kind]
    specs = form.arrays
    arrays, of_scaling = own_arrays(arrays)
    if arrays.keys() != specs.keys():
        raise ValueError(
            f"a {kind} model has the arrays {sorted_names(specs)}; got "
            f"{sorted_names(arrays) or 'none'}"
        )
    lengths: dict[str, tuple[int, str]] = {}
    for name, spec in specs.items():
        _check_array(name, spec, arrays[name])
        for axis, length in zip(spec.axes, arrays[name].shape, strict=True):
            expected, other = lengths.setdefault(axis, (length, name))
            if length != expected:
                raise ValueError(
                    f"array {name!r} has {length} {axis}, but array {other!r} has {expected}"
                )
    n_features = form.n_features(arrays, facts)
    if n_features == 0:
        raise ValueError("the model has no features")
    if n_features > MOST_FEATURES:
        raise ValueError(f"the model has {n_features} features; the limit is {MOST_FEATURES}")
    if form.check is not None:
        form.check(arrays, n_features)
    scaling_from(of_scaling, n_features)
    check_facts(facts, form.functions)
    if feature_names is None:
        return
    if not all(isinstance(name, str) for name in feature_names):
        raise ValueError(f"feature_names must be strings; got {reprlib.repr(feature_names)}")
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
            f"{array.size} entries, first at index {int(np.argmax(wrong))}"
        )


def sorted_names(names: Iterable[str]) -> str:
    """Return the first few names for a message, shortened."""
    return listed(map(reprlib.repr, sorted(names)))
