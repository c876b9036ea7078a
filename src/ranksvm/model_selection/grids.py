"""Values of parameters to try.

The useful C.  Over the *mean* of the pairs C = 50 is a fair start on sets of very different kinds,
and more often too small than too large: texts want far more.  So the default grid is log-spaced
from 50 * 4^-3 to 50 * 4^6, in steps of 2 when it has 19 values, and the same for "query_mean".
Over the *sum* of the pairs the same strengths are smaller by the weight N of all pairs of the set.
`make bench ARGS="--only path"` prints the best C of several sets.

The useful gamma.  1 / (n_features * variance of X), "scale", makes the squared distances in the
exponent about 2; good ones lie within a few powers of 4 of it, and the default grid has five of
them, "scale" in the middle.  One gamma is one number for all splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice, check_positive, shown
from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import REDUCTIONS, Settings, learner_of, total_pair_weight
from ranksvm.learners.settings import option_of
from ranksvm.maps.kernels import resolve_gamma
from ranksvm.model_selection.splitters import is_count

__all__ = ["check_grid", "default_Cs", "default_gammas", "make_grid", "searched"]

MIDDLE_C = 50.0
SMALLEST, LARGEST = -3.0, 6.0  # powers of 4 away from it
MOST_VALUES = 1_000_000  # of a grid
N_CS = 19  # of one path; with other parameters beside C, fewer
N_CS_OF_GRID = 10
N_GAMMAS = 5
FACTOR = 4.0  # from one gamma to the next


def default_Cs(n: int, reduction: str, pair_weight: float) -> Array:
    """Return a log-spaced grid of n values that means the same for every reduction.

    Parameters
    ----------
    n : int
        At least 1.
    reduction : {"sum", "mean", "query_mean"}
    pair_weight : float
        Weight of all pairs, see :func:`ranksvm.learners.total_pair_weight`.

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
        Weights of the items in the variance.

    Returns
    -------
    ndarray of shape (n,), ascending by factors of 4
    """
    _check_count("gamma", n)
    powers = np.arange(n, dtype=np.float64) - 0.5 * (n - 1)
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    return np.asarray(resolve_gamma("scale", X, item_weight) * FACTOR**powers, dtype=np.float64)


# Default grids of parameters beside C.
DEFAULTS: dict[str, Callable[[RankingData, int], Array]] = {
    "gamma": lambda data, n: default_gammas(data.X, n, data.item_weight),
}
COUNTS = {"gamma": N_GAMMAS}


def searched(settings: Settings) -> list[str]:
    """Names of the parameters beside C that there are to choose, with these settings."""
    found = []
    for name in learner_of(settings).searched or ():
        option = option_of(type(settings), name)
        only = None if option is None else option.only
        if only is None or getattr(settings, only[0]) in only[1]():
            found.append(name)
    return found


def make_grid(
    data: RankingData, settings: Settings, Cs: Any = None, others: Mapping[str, Any] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return the values to try of every parameter, C last.

    Parameters
    ----------
    data : RankingData
    settings : Settings
    Cs : sequence of float, int or None
        Values, how many of a default grid, or None for all of it.
    others : mapping of str to the same, or None
        Of parameters beside C.  A number counts for nothing if there is no such parameter to
        choose; values are an error then.
    """
    if learner_of(settings).searched is None:
        raise ValueError("there is no search for this kind of model")
    names = searched(settings)
    grid = {}
    for name in {**dict.fromkeys(names), **(others or {})}:
        values = (others or {}).get(name)
        if name not in names:
            if values is None or is_count(values):
                continue
            raise _not_searched(settings, name, values)
        values = COUNTS[name] if values is None else values
        grid[name] = (
            DEFAULTS[name](data, int(values)) if is_count(values) else check_grid(name, values)
        )
    if Cs is None:
        Cs = N_CS_OF_GRID if learner_of(settings).searched else N_CS
    if is_count(Cs):
        Cs = default_Cs(int(Cs), settings.reduction, total_pair_weight(data))
    return {**grid, "C": check_grid("C", Cs)}


def _not_searched(settings: Settings, name: str, values: Any) -> ParameterError:
    """Return what to say about values of a parameter that there is not to choose."""
    what: Any = "this kind of model"
    if name in (learner_of(settings).searched or ()):
        option = option_of(type(settings), name)
        if option is not None and option.only is not None:
            what = Param(option.only[0], getattr(settings, option.only[0]))
    return ParameterError(
        "{what} has no {name} to choose: give no {grid}; got {values}",
        what=what,
        name=name,
        grid=Param(f"{name}s"),
        values=shown(values),
    )


def check_grid(name: str, given: Any) -> NDArray[np.float64]:
    """Raise unless the values of a parameter are positive, finite and different; return them."""
    values = np.asarray(list(given) if isinstance(given, range | tuple) else given)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"{name}s must be a sequence of at least one positive number; got {given!r}"
        )
    for value in values.tolist():
        check_positive(f"every {name} of {name}s", value)
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < values.size:
        twice = distinct[counts > 1][0]
        raise ValueError(f"{name}s holds {twice:g} more than once; give every {name} one time")
    return values.astype(np.float64)


def _check_count(name: str, n: int) -> None:
    """Raise unless a grid can have so many values."""
    if not 1 <= n <= MOST_VALUES:
        raise ValueError(
            f"{name}s must be a sequence, or how many values to try (at least 1); got {shown(n)}"
        )
