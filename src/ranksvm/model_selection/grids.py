"""Grids of parameter values.

C.  If the loss is a *mean* over pairs, the same values of C are reasonable for very different data
sets.  Linear models of scaled features are best from 0.2 on, those of text up to the largest C, and
kernel models from 12.5 on: the default grid is log-spaced from 50 * 4^-5 to 50 * 4^5, in steps of 2
for 21 values, and from 50 / 4 on for kernels, in steps of 4 for 7 values.  The same holds for
"query_mean".  If the loss is a *sum* over pairs, the grid is divided by the total weight of the
pairs.  `make bench ARGS="--only scalings"` prints the best C for many data sets.

Other parameters.  Their default values belong to the parameter; see
:class:`ranksvm.learners.settings.Grid`.  A value is the same number in all splits.  Parameters with
names as values, such as the weights of pairs, are part of a grid only if values are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice, check_positive, is_integer
from ranksvm._messages import Param, ParameterError, Value
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import learner_of
from ranksvm.learners.settings import (
    C_RANGE,
    REDUCTIONS,
    Settings,
    check_grid_size,
    excluded_by,
    searched,
    searched_choices,
)
from ranksvm.learners.views import seen_data
from ranksvm.learners.weights import total_pair_weight

N_CS = 21  # if C is the only parameter
N_CS_OF_GRID = 7  # if there are others


def default_Cs(
    n: int, reduction: str, pair_weight: float, between: tuple[float, float] = C_RANGE
) -> Array:
    """Return a log-spaced grid of C that is equivalent for all reductions.

    Parameters
    ----------
    n : int
        At least 1.
    reduction : {"sum", "mean", "query_mean"}
    pair_weight : float
        Total weight of the pairs; see :func:`ranksvm.learners.total_pair_weight`.
    between : tuple of two floats
        The smallest and the largest C over the mean of the pairs.

    Returns
    -------
    ndarray of shape (n,), ascending; the middle one if n is 1
    """
    check_choice("reduction", reduction, REDUCTIONS)
    check_grid_size("C", n)
    low, high = between
    middle = np.sqrt(low * high)
    half = np.log2(high / middle)
    powers = np.linspace(-half, half, n) if n > 1 else np.zeros(1)
    Cs: Array = middle * 2.0**powers
    return Cs / pair_weight if reduction == "sum" else Cs


def make_grid(
    data: RankingData, settings: Settings, Cs: Any = None, others: Mapping[str, Any] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the values of every searched parameter, C last.

    Parameters
    ----------
    data : RankingData
    settings : Settings
    Cs : sequence of float, int or None
        Values of C, their number in the default grid, or None for the default number.
    others : mapping of str to such values, or None
        Values of other parameters.  If the settings have no such parameter (a kernel without
        gamma), a number is ignored, and a sequence is an error.  None for names: the parameter is
        not searched.
    """
    if learner_of(settings).search is None:
        raise ValueError("there is no search for this kind of model")
    defaults, choices = searched(type(settings)), searched_choices(type(settings))
    given = {**dict.fromkeys(defaults), **(others or {})}
    named = {name: given.pop(name, None) for name in choices}
    grid: dict[str, NDArray[Any]] = {
        name: check_names(name, values, choices[name])
        for name, values in named.items()
        if values is not None
    }
    for name, values in given.items():
        what = excluded_by(settings, name) if name in defaults else "this kind of model"
        if what is None:
            if values is None:
                values = defaults[name].n
            if is_integer(values):
                check_grid_size(name, values)
                values = defaults[name].values(seen_data(data, settings), int(values))
            grid[name] = check_grid(name, values)
        elif values is not None and not is_integer(values):
            raise ParameterError(
                "{what} has no {name} to choose: give no {grid}; got {value}",
                grid=Param(f"{name}s"),
                value=Value(values),
                what=what,
                name=name,
            )
    if Cs is None:
        Cs = N_CS_OF_GRID if defaults else N_CS
    if is_integer(Cs):
        _refuse_unequal_sums(settings, grid)
        Cs = default_Cs(
            int(Cs), settings.reduction, total_pair_weight(data, settings), settings.C_RANGE
        )
    return {**grid, "C": check_grid("C", Cs)}


def _refuse_unequal_sums(settings: Settings, grid: Mapping[str, NDArray[Any]]) -> None:
    """Raise if no grid of C suits all weights of pairs, because their sums differ."""
    weights = grid.get("pair_weight")
    if settings.reduction == "sum" and weights is not None and weights.size > 1:
        raise ParameterError(
            "{reduction} has no default grid of C for several weights of pairs, whose sums differ. "
            "Use {mean}, or give {grid}.",
            reduction=Param("reduction", "sum"),
            mean=Param("reduction", "mean"),
            grid=Param("Cs"),
        )


def check_names(name: str, given: Any, choices: Sequence[str]) -> NDArray[np.str_]:
    """Return the values of a parameter with names; raise unless they are choices, and distinct."""
    values = [given] if isinstance(given, str) else list(given)
    if not values or len(set(values)) < len(values):
        raise ParameterError(
            "{grid} must be a sequence of at least one name, each listed once; got {value}",
            grid=Param(f"{name}s"),
            value=Value(given),
        )
    for value in values:
        check_choice(f"{name}s", value, choices)
    return np.array(values)


def check_grid(name: str, given: Any) -> NDArray[np.float64]:
    """Return the values of a parameter; raise unless they are positive, finite and distinct."""
    grid, values = Param(f"{name}s"), np.asarray(given)
    if values.ndim != 1 or values.size == 0:
        raise ParameterError(
            "{grid} must be a sequence of at least one positive number; got {value}",
            grid=grid,
            value=Value(given),
        )
    for value in values.tolist():
        check_positive(grid.name, value, f"every {name} in {{name}}")
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < values.size:
        twice = distinct[counts > 1][0]
        raise ParameterError(
            "{grid} holds {twice:g} more than once; {remedy}",
            grid=grid,
            twice=twice,
            value=Value(given),
            remedy=f"list each {name} once",
        )
    return values.astype(np.float64)
