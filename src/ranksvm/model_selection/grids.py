"""Grids of parameter values.

C.  If the loss is a *mean* over pairs, C = 50 is a reasonable value for very different data sets,
more often too small than too large: text data needs much larger values.  The default grid is
log-spaced from 50 * 4^-3 to 50 * 4^6, which are steps of 2 for 19 values.  The same holds for
"query_mean".  If the loss is a *sum* over pairs, the grid is divided by the total weight of the
pairs.  `make bench ARGS="--only path"` prints the best C for several data sets.

gamma.  The value "scale", 1 / (n_features * variance of X), makes the squared distances in the
exponent about 2.  Good values are usually within a few powers of 4 of it, so the default grid has
five of them around "scale".  A value of gamma is the same number in all splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice, check_positive, shown
from ranksvm._messages import Param, ParameterError
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import REDUCTIONS, Settings, learner_of, total_pair_weight
from ranksvm.learners.settings import excluded_by
from ranksvm.maps.kernels import resolve_gamma
from ranksvm.model_selection.splitters import is_count

MIDDLE_C = 50.0
SMALLEST, LARGEST = -3.0, 6.0  # as powers of 4, relative to MIDDLE_C
MOST_VALUES = 1_000_000  # in a grid
N_CS = 19  # if C is the only parameter
N_CS_OF_GRID = 10  # if there are others
N_GAMMAS = 5
FACTOR = 4.0  # from one gamma to the next


def default_Cs(n: int, reduction: str, pair_weight: float) -> Array:
    """Return a log-spaced grid of C that is equivalent for all reductions.

    Parameters
    ----------
    n : int
        At least 1.
    reduction : {"sum", "mean", "query_mean"}
    pair_weight : float
        Total weight of the pairs; see :func:`ranksvm.learners.total_pair_weight`.

    Returns
    -------
    ndarray of shape (n,), ascending
    """
    check_choice("reduction", reduction, REDUCTIONS)
    _check_count("C", n)
    powers = np.linspace(SMALLEST, LARGEST, n) if n > 1 else np.zeros(1)
    Cs: Array = MIDDLE_C * 4.0**powers
    return Cs / pair_weight if reduction == "sum" else Cs


def default_gammas(X: Any, n: int = N_GAMMAS, item_weight: Array | None = None) -> Array:
    """Return a log-spaced grid around ``gamma="scale"``.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_items, n_features)
    n : int, default=5
        At least 1.
    item_weight : ndarray of shape (n_items,) or None
        Weights for the variance.

    Returns
    -------
    ndarray of shape (n,), ascending by factors of 4
    """
    _check_count("gamma", n)
    powers = np.arange(n, dtype=np.float64) - 0.5 * (n - 1)
    if is_sparse(X):
        X = X.tocsr()
    return np.asarray(resolve_gamma("scale", X, item_weight) * FACTOR**powers, dtype=np.float64)


# Default grids of parameters other than C, of a default or a given size.
DEFAULTS: dict[str, Callable[..., Array]] = {
    "gamma": lambda data, n=N_GAMMAS: default_gammas(data.X, n, data.item_weight),
}


def make_grid(
    data: RankingData, settings: Settings, Cs: Any = None, others: Mapping[str, Any] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return the values of every searched parameter, C last.

    Parameters
    ----------
    data : RankingData
    settings : Settings
    Cs : sequence of float, int or None
        Values of C, their number in the default grid, or None for the default number.
    others : mapping of str to such values, or None
        Values of other parameters.  If the settings have no such parameter (a kernel without
        gamma), a number is ignored, and a sequence is an error.
    """
    names = learner_of(settings).searched
    if names is None:
        raise ValueError("there is no search for this kind of model")
    given = {**dict.fromkeys(names), **(others or {})}
    grid = {}
    for name, values in given.items():
        what = excluded_by(settings, name) if name in names else "this kind of model"
        if what is None and values is None:
            grid[name] = DEFAULTS[name](data)
        elif what is None:
            count = is_count(values)
            grid[name] = DEFAULTS[name](data, int(values)) if count else check_grid(name, values)
        elif values is not None and not is_count(values):
            raise ParameterError(
                "{what} has no {name} to choose: give no {grid}; got {values}",
                what=what,
                name=name,
                grid=Param(f"{name}s"),
                values=shown(values),
            )
    if Cs is None:
        Cs = N_CS_OF_GRID if names else N_CS
    if is_count(Cs):
        Cs = default_Cs(int(Cs), settings.reduction, total_pair_weight(data))
    return {**grid, "C": check_grid("C", Cs)}


def check_grid(name: str, given: Any) -> NDArray[np.float64]:
    """Return the values of a parameter; raise unless they are positive, finite and distinct."""
    values = np.asarray(given)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"{name}s must be a sequence of at least one positive number; got {given!r}"
        )
    for value in values.tolist():
        check_positive(f"every {name} in {name}s", value)
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < values.size:
        twice = distinct[counts > 1][0]
        raise ValueError(f"{name}s holds {twice:g} more than once; list each {name} once")
    return values.astype(np.float64)


def _check_count(name: str, n: int) -> None:
    """Raise unless n is a valid size of a grid."""
    if not 1 <= n <= MOST_VALUES:
        raise ValueError(
            f"{name}s must be a sequence, or how many values to try (at least 1); got {shown(n)}"
        )
