"""Linear models of pairs with items of their own: one row of differences instead of two items.

A linear score map sees a pair only as x_better - x_worse.  With one row per pair and an item whose
features are zero, which every pair is compared with, a product takes half of the time, and the two
matrices need not be joined.  The model is the same: the scaling is that of the items.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from ranksvm._rounding import SLACK
from ranksvm.data.column_facts import Columns, find_columns
from ranksvm.data.paired_rows import PairedRows
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.scaling import Affine, scaling_of
from ranksvm.learners.scaled import Units
from ranksvm.learners.settings import Settings

# Scalings that are found from facts about the columns, which can be joined.
SCALINGS = (None, "standard", "minmax")


def takes_differences(settings: Settings, X: Any) -> bool:
    """Return whether differences of such rows are enough for a linear model."""
    is_plain = isinstance(X, np.ndarray) and not settings.view
    return is_plain and settings.scaling_for(X) in SCALINGS


def with_differences(
    data: RankingData, scaling: str | None, n_threads: int
) -> tuple[RankingData, Units | None]:
    """Return the data set with differences as items, if they are finite, and its units.

    Parameters
    ----------
    data : RankingData
        X must be ``PairedRows``, and pair p that of the items p and n_pairs + p.
    scaling : str or None
        One of ``SCALINGS``.
    n_threads : int

    Returns
    -------
    data : RankingData
    units : Units or None
        None without a scaling.
    """
    paired = data.X
    assert isinstance(paired, PairedRows)
    assert data.preferences is not None
    units = None
    if scaling is not None:
        found = [find_columns(side, None, n_threads) for part in paired.parts for side in part]
        columns = reduce(Columns.joined, found)
        affine = scaling_of(scaling, paired.parts[0][0], columns=lambda: columns)
        assert isinstance(affine, Affine)
        units = Units(affine.factor, columns.tallest)
    differences = paired.differences()
    if differences is None:
        return replace(data, X=paired.matrix()).with_groups(data.groups), units
    if units is not None:
        with np.errstate(over="ignore"):
            span = SLACK * (columns.high - columns.low)  # no difference is larger
        units = Units(units.factor, span if np.isfinite(span).all() else None)
    n_pairs = paired.n_pairs
    pairs = replace(data.preferences, worse=np.full(n_pairs, n_pairs))
    return RankingData(differences, preferences=pairs), units
