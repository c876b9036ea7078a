"""Folds of data with explicit pairs: no fold separates the items of a pair.

The units are queries, or single items if there are none.  Pairs of positive weight connect units,
directly or through others, and connected units go to the same fold.

    with labels      folds have about the same number of items
    without          folds have about the same number of pairs; units that no pair names are in no
                     fold
"""

from __future__ import annotations

import numpy as np

from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Rows
from ranksvm.data.pair_groups import connected_groups, dealt
from ranksvm.data.preferences import positive_pairs
from ranksvm.data.ranking_data import RankingData


def pair_folds(data: RankingData, n_splits: int) -> list[tuple[Rows, Rows]]:
    """Return folds as (train, test) row numbers.

    Parameters
    ----------
    data : RankingData
        Items with preferences.
    n_splits : int
        At least 2.

    Raises
    ------
    ParameterError
        If the pairs connect too much.
    """
    groups = connected_groups(data)
    sizes = groups.sizes
    if data.y is None:
        assert data.preferences is not None
        pairs = positive_pairs(data.preferences, data.query_weight)
        sizes = np.bincount(groups.index[pairs.better], minlength=groups.n_queries)
    n_groups = int(np.count_nonzero(sizes))
    if n_groups < n_splits:
        raise _too_connected(data, n_groups, n_splits)
    fold = dealt(sizes, n_splits)[groups.index]
    return [
        (np.flatnonzero((fold >= 0) & (fold != k)), np.flatnonzero(fold == k))
        for k in range(n_splits)
    ]


def _too_connected(data: RankingData, n_groups: int, n_splits: int) -> ParameterError:
    what = "items" if data.qid is None else "queries"
    if data.y is None:
        what += " that they name"  # the others are in no fold
    found = (
        f"the pairs connect all {what} with each other, directly or through others, and a fold "
        "must not separate the items of a pair"
    )
    choose = "Choose"
    if n_groups > 1:
        found = (
            f"the pairs connect the {what}, and leave only {n_groups} groups of them apart; a fold "
            "must not separate the items of a pair"
        )
        choose = f"Use at most {n_groups} folds, or choose"
        if n_groups == _n_queries(data):  # that no pairs connect
            named = " with pairs" if data.y is None else ""
            found = f"there are only {n_groups} queries{named}, and a fold has whole queries"
    elif _n_queries(data) == 1:
        found = "all pairs are of one query, and a fold has whole queries"
    return ParameterError(
        "cannot make {n_splits} folds: {found}. {choose} {remedy}",
        n_splits=n_splits,
        found=found,
        choose=choose,
        validation=Param("validation"),
        remedy="on a validation set ({validation}). In Python, cv can also be a list of row "
        "numbers to train and to test on; pairs between the two then count in neither.",
    )


def _n_queries(data: RankingData) -> int | None:
    """Return the number of queries that count, without labels those of pairs; None without ids."""
    if data.qid is None:
        return None
    if data.y is not None:
        return data.groups.n_queries
    assert data.preferences is not None
    pairs = positive_pairs(data.preferences, data.query_weight)
    query = data.groups.index
    return int(np.unique(query[np.append(pairs.better, pairs.worse)]).size)
