"""Splits of a data set into a part to train on and a held-out part.

Splits are checked before any fit: the rows exist, no query is on both sides, and the metric is
defined on the held-out part.  That depends on the labels alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ranksvm._vectors import Rows
from ranksvm.data.ranking_data import RankingData
from ranksvm.metrics.registry import parse_metric


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

    def training_part(self, data: RankingData, *, pairwise: bool) -> RankingData:
        """Return the items to train on.

        ``pairwise`` means that X is a kernel matrix, with one column per training item.
        """
        return data.take(self.train, columns=self.train if pairwise else None)

    def held_out_part(self, data: RankingData, *, pairwise: bool) -> RankingData:
        """Return the items to compute the metric on."""
        if self.held_out is not None:
            return self.held_out
        assert self.test is not None
        return data.take(self.test, columns=self.train if pairwise else None)

    def parts(self) -> list[Any]:
        """Return the arrays that identify this split."""
        if self.held_out is None:
            return [self.train, self.test]
        return [self.held_out.X, self.held_out.truth, self.held_out.groups.index]


def make_splits(
    data: RankingData,
    folds: Iterable[tuple[Any, Any]] | None,
    validation: RankingData | None,
    metric: str,
    conventions: str,
) -> list[Split]:
    """Return the splits of folds, or the one split with a validation set, after checking them.

    Raises
    ------
    ValueError
        If a split cannot be used, or the metric is undefined on all of them.
    """
    if (folds is None) == (validation is None):
        raise ValueError("give either folds or a validation set")
    score = partial(parse_metric(metric), conventions=conventions)
    score(data.truth, data.truth, data.groups.index)  # raises if it does not suit the labels
    if validation is not None:
        splits = [Split("validation set", np.arange(data.n_items), held_out=validation)]
    else:
        splits = [_fold(data, k, *pair) for k, pair in enumerate(folds or (), start=1)]
    if not splits:
        raise ValueError("there is no fold: give at least one pair of (train, test)")
    splits = [replace(one, undefined=_why_not(data, one, score)) for one in splits]
    reasons = [split.undefined for split in splits if split.undefined is not None]
    if len(reasons) == len(splits):
        raise ValueError(f"there is no split to compute {metric} on. {reasons[0]}")
    return splits


def _why_not(data: RankingData, split: Split, score: Callable[..., float]) -> str | None:
    """Return why the metric is undefined on the held-out part; None if it is defined."""
    if split.held_out is not None:
        labels, query = split.held_out.truth, split.held_out.groups.index
    else:
        labels, query = data.truth[split.test], data.groups.index[split.test]
    try:
        score(labels, labels, query)
    except ValueError as error:
        return f"{split.name}, held-out part: {error}"
    return None


def _fold(data: RankingData, number: int, train: Any, test: Any) -> Split:
    """Return the split of a pair (train, test) of row numbers or masks, after checking it."""
    name = f"fold {number}"
    groups = data.groups
    train = _row_numbers(train, groups.n_items, name)
    test = _row_numbers(test, groups.n_items, name)
    if groups.n_queries == 1:
        both = np.intersect1d(train, test)
        if both.size:
            raise ValueError(
                f"{name}: {both.size} items are in the training and in the held-out part, row "
                f"{both[0]} for example; the parts of a fold must not share items"
            )
    else:
        both = np.intersect1d(groups.index[train], groups.index[test])
        if both.size:
            (example,) = groups.ids[both[:1]].tolist()
            raise ValueError(
                f"{name} splits {both.size} queries, {example!r} for example: it has items in the "
                "training part and in the held-out part. Use QueryKFold, or another splitter that "
                "keeps groups together."
            )
    return Split(name, train, test)


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
