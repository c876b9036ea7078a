"""Input that needs no further checks, recognized without scikit-learn.

scikit-learn's checks of X take longer than the scores of a hundred items.  They are left out for
input that is plainly right: a dense float array of the right shape, or a pandas frame whose columns
are the features.  Everything else, and everything that is wrong, goes through all checks, so that
results, warnings and errors are the same either way.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm import _core
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import LONG

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# Types of frame columns for which pandas and NumPy agree about the common type.
PLAIN_KINDS = "fiu"


def plain_array(X: Any, n_jobs: int | None = 1) -> NDArray[Any] | None:
    """Return X if it is a plain array of finite floats with two dimensions, otherwise None."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype not in FLOATS or not X.size:
        return None
    return X if is_finite(X, n_jobs) else None


def plain_items(
    X: Any, n_features: Any, names: NDArray[np.object_] | None, n_jobs: int | None = 1
) -> NDArray[Any] | None:
    """Return items to score as an array, or None if only the full checks can tell.

    Parameters
    ----------
    X : object
        What the user passed.
    n_features : int or None
        Number of features of the model; None if it is not fitted.
    names : ndarray of str or None
        Names of the features, if the model knows any.
    n_jobs : int or None
        Number of threads, as in the estimators.
    """
    array = plain_array(X, n_jobs) if names is None else _plain_frame(X, names, n_jobs)
    return None if array is None or array.shape[1] != n_features else array


def is_finite(X: NDArray[Any], n_jobs: int | None = 1) -> bool:
    """Return whether all entries are finite, without a temporary array; False if unsure."""
    is_long = X.size >= LONG and X.dtype in FLOATS
    if is_long and (X.flags.c_contiguous or X.flags.f_contiguous):
        return _core.all_finite(X.ravel(order="K"), resolve_n_jobs(n_jobs))
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(X, axis=None, dtype=np.float64)))


def _plain_frame(X: Any, names: NDArray[np.object_], n_jobs: int | None) -> NDArray[Any] | None:
    """Return the values of a pandas frame that has the features, in order and as plain numbers."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(X) is not getattr(pandas, "DataFrame", None):
        return None
    if not X.columns.is_unique or X.columns.tolist() != names.tolist():
        return None
    types = set(X.dtypes.tolist())
    if not all(isinstance(one, np.dtype) and one.kind in PLAIN_KINDS for one in types):
        return None
    common = np.result_type(*types)
    # As scikit-learn's check_array has it: float32 stays, everything else becomes float64.
    array = np.asarray(X, dtype=common if common in FLOATS else np.float64)
    return plain_array(array, n_jobs)
