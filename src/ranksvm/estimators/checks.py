"""Checks of items, labels and scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from ranksvm._sparse import check_structure, is_sparse
from ranksvm._threads import resolve_n_jobs
from ranksvm._values import as_levels, exact_vector, finite_values, is_exact, refuse_masked
from ranksvm._vectors import Array
from ranksvm.estimators.plain import is_finite

# Kinds of arrays that scikit-learn's check of a column would leave as they are.
PLAIN_LABELS = "biuf"


def check_overflow(scores: Array) -> Array:
    """Raise if scores overflowed, because they cannot be ranked."""
    infinite = int(np.sum(~np.isfinite(scores)))
    if infinite:
        raise OverflowError(
            f"{infinite} of {len(scores)} scores overflow float64 and cannot be ranked. Scale the "
            "features down."
        )
    return scores


def check_items(X: Any, n_jobs: int | None = 1) -> Any:
    """Reject input that scikit-learn's checks would accept or crash on.

    These are masked entries, which NumPy would use as values; sparse matrices with inconsistent
    arrays; and complex sparse matrices.
    """
    refuse_masked("X", X)
    if is_sparse(X):
        X = check_structure(X, resolve_n_jobs(n_jobs))
        if X.dtype.kind == "c":
            raise ValueError(f"X must hold real numbers; got a sparse matrix of dtype {X.dtype}")
    return X


def check_finite_columns(
    X: Any, names: Any, *, n_jobs: int | None = 1, can_fill: bool = False
) -> None:
    """Raise if X has NaN or infinite entries; the message says in which columns and how many.

    ``can_fill``: whether the estimator can fill in missing values.
    """
    if is_finite(X.data if is_sparse(X) else X, n_jobs):
        return
    missing, infinite = _count(X, np.isnan), _count(X, np.isinf)
    bad = np.flatnonzero(missing + infinite).tolist()
    if not bad:
        return  # the entries are finite, but their sum is not
    shown = []
    for j in bad[:5]:
        name = f"{j}" if names is None else f"{j} ({names[j]!r})"
        counts = ((missing[j], "NaN"), (infinite[j], "infinite"))
        what = " and ".join(f"{count} {kind}" for count, kind in counts if count)
        shown.append(f"column {name}: {what}")
    more = f", and {len(bad) - 5} more columns" if len(bad) > 5 else ""
    remedy = "Impute or drop these values, for example with sklearn.impute.SimpleImputer."
    if can_fill and missing.any() and not is_sparse(X):
        remedy = (
            'Impute or drop these values, for example with missing="impute" of the ranker, or with '
            "sklearn.impute.SimpleImputer."
        )
    raise ValueError(
        f"X contains NaN or infinity in {len(bad)} of {X.shape[1]} columns ({'; '.join(shown)}"
        f"{more}). {remedy}"
    )


def _count(X: Any, test: Callable[[Any], NDArray[np.bool_]]) -> NDArray[np.int64]:
    """Count the entries of each column that pass a test."""
    if not is_sparse(X):
        counts: NDArray[np.int64] = np.count_nonzero(test(X), axis=0)
        return counts
    entries = X.tocoo()
    return np.bincount(entries.col[test(entries.data)], minlength=X.shape[1])


def check_both_have_ids(name: str, has_ids: bool, training_has: bool) -> None:
    """Raise if only one of training set and validation set has query ids."""
    if has_ids != training_has:
        raise ValueError(
            f"the training set and {name} must both have query ids, or neither: only the "
            f"{'training set' if training_has else 'validation set'} has them. Pass (X, y, qid)"
        )


def check_labels(
    y: Any, n_items: int, name: str = "y", what: str = "label", note: str = "larger is better"
) -> tuple[Array, NDArray[Any]]:
    """Return the labels as float64 in their exact order, and with their original values.

    Both are the same array if float64 can represent the values.  Messages call the argument
    ``name`` and one of its values ``what``.
    """
    if y is None:
        raise ValueError(
            f"This estimator requires y to be passed, but the target y is None: pass one {what} "
            "per item."
        )
    labels = exact_vector(name, y, f"Pass one numeric {what} per item; {note}.")
    if type(labels) is np.ndarray and labels.ndim == 1 and labels.dtype.kind in PLAIN_LABELS:
        labels = np.ascontiguousarray(labels)
    else:
        labels = column_or_1d(labels, warn=True)
    if len(labels) != n_items:
        raise ValueError(
            f"X and {name} have inconsistent numbers of samples: X has {n_items} rows, {name} has "
            f"{len(labels)} values; every item needs one {what}"
        )
    finite = finite_values(labels)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"{name} contains NaN or infinity in {int((~finite).sum())} of {n_items} rows, first "
            f"in row {row}: drop these items or give them a finite {what}"
        )
    utility = as_levels(labels)
    return utility, utility if is_exact(labels) else labels
