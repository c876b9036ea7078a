"""Splits of a data set into a part to train on and a held-out part.

Splits are checked before any fit: the rows exist, no query is on both sides, and the metric is
defined on the held-out part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ranksvm._vectors import Rows
from ranksvm.data.preferences import positive_pairs
from ranksvm.data.ranking_data import RankingData
from ranksvm.model_selection.judges import Judge


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on, and a held-out part: ``test`` rows of the same set, or another set.

    ``undefined`` says why the metric is undefined on the held-out part; None if it is defined.
    """

    name: str
    train: Rows
    test: Rows | None = None
    held_out: RankingData | None = None
    undefined: str | None = None

    def training_part(
        self, data: RankingData, *, pairwise: bool, n_threads: int = 1
    ) -> RankingData:
        """Return the items to train on.

        ``pairwise`` means that X is a kernel matrix, with one column per training item.
        """
        columns = self.train if pairwise else None
        return data.take(self.train, columns=columns, n_threads=n_threads)

    def held_out_part(
        self, data: RankingData, *, pairwise: bool, n_threads: int = 1
    ) -> RankingData:
        """Return the items to compute the metric on."""
        if self.held_out is not None:
            return self.held_out
        assert self.test is not None
        columns = self.train if pairwise else None
        return data.take(self.test, columns=columns, n_threads=n_threads)

    def separated(self, data: RankingData) -> int:
        """Return the number of pairs with one item in the training part and one in the other."""
        if data.preferences is None or self.test is None:
            return 0
        part = np.zeros(data.n_items, dtype=np.int8)
        part[self.train], part[self.test] = 1, 2
        pairs = positive_pairs(data.preferences, data.query_weight)
        return int(np.count_nonzero(part[pairs.better] + part[pairs.worse] == 3))

    def left_out(self, n_items: int) -> Rows:
        """Return the rows that are in neither part."""
        is_left = np.ones(n_items, dtype=bool)
        is_left[self.train] = False
        if self.test is not None:
            is_left[self.test] = False
        return np.flatnonzero(is_left)

    def parts(self) -> list[Any]:
        """Return the arrays that identify this split."""
        if self.held_out is None:
            return [self.train, self.test]
        known = self.held_out
        listed = [] if known.preferences is None else [*known.preferences.arrays]
        return [known.X, None if known.y is None else known.truth, known.groups.index, *listed]


def make_splits(
    data: RankingData,
    folds: Iterable[tuple[Any, Any]] | None,
    validation: RankingData | None,
    judge: Judge,
    *,
    n_threads: int = 1,
) -> list[Split]:
    """Return the splits of folds, or the one split with a validation set, after checking them.

    Raises
    ------
    ValueError
        If a split cannot be used, or the metric is undefined on all of them.
    """
    if (folds is None) == (validation is None):
        raise ValueError("give either folds or a validation set")
    if validation is not None:
        splits = [Split("validation set", np.arange(data.n_items), held_out=validation)]
    else:
        splits = [_fold(data, k, *pair) for k, pair in enumerate(folds or (), start=1)]
    if not splits:
        raise ValueError("there is no fold: give at least one pair of (train, test)")
    found = judge.reasons_against(data, splits, n_threads)
    reasons = [reason for reason in found if reason is not None]
    if len(reasons) == len(splits):
        raise ValueError(f"there is no split to compute {judge.name} on. {reasons[0]}")
    return [replace(one, undefined=why) for one, why in zip(splits, found, strict=True)]


def _fold(data: RankingData, number: int, train: Any, test: Any) -> Split:
    """Return the split of a pair (train, test) of row numbers or masks, after checking it."""
    name = f"fold {number}"
    groups = data.groups
    train = _row_numbers(train, groups.n_items, name)
    test = _row_numbers(test, groups.n_items, name)
    if groups.n_queries == 1:
        both = _in_both(train, test, groups.n_items)
        if both.size:
            raise ValueError(
                f"{name}: {both.size} items are in the training and in the held-out part, row "
                f"{both[0]} for example; the parts of a fold must not share items"
            )
    else:
        both = _in_both(groups.index[train], groups.index[test], groups.n_queries)
        if both.size:
            (example,) = groups.ids[both[:1]].tolist()
            raise ValueError(
                f"{name} splits {both.size} queries, {example!r} for example: it has items in the "
                "training part and in the held-out part. Use QueryKFold, or another splitter that "
                "keeps groups together."
            )
    return Split(name, train, test)


def _in_both(one: Rows, other: Rows, n: int) -> Rows:
    """Return the numbers below n that are in both arrays, in ascending order."""
    is_other = np.zeros(n, dtype=bool)
    is_other[other] = True
    return np.unique(one[is_other[one]])


def _row_numbers(part: Any, n_items: int, name: str) -> Rows:
    rows = np.asarray(part)
    if rows.dtype == np.bool_ and rows.shape == (n_items,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.size == 0:
        raise ValueError(
            f"{name}: each part must be a one-dimensional array of row numbers, at least one; got "
            f"shape {rows.shape} of dtype {rows.dtype}"
        )
    if int(rows.min()) < 0 or int(rows.max()) >= n_items:
        raise ValueError(
            f"{name}: row numbers must lie in 0 to {n_items - 1}; got {int(rows.min())} to "
            f"{int(rows.max())}"
        )
    return rows.astype(np.int64, copy=False)
