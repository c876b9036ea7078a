"""Splits of a data set into a part to train on and a held-out part.

Splits are checked before any fit: the rows exist, no query is on both sides, and the metric is
defined on the held-out part.  That depends on the labels alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array, Rows
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.metrics.ranked import Truth
from ranksvm.metrics.registry import Metric, parse_metric


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
        return [self.held_out.X, self.held_out.truth, self.held_out.groups.index]


def make_splits(
    data: RankingData,
    folds: Iterable[tuple[Any, Any]] | None,
    validation: RankingData | None,
    metric: str,
    conventions: str,
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
    score = _Score(parse_metric(metric), conventions, n_threads)
    # Raises if the metric does not suit the labels.
    is_defined = ~np.isnan(score.by_query(data.truth, data.groups))
    if validation is not None:
        splits = [Split("validation set", np.arange(data.n_items), held_out=validation)]
    else:
        splits = [_fold(data, k, *pair) for k, pair in enumerate(folds or (), start=1)]
    if not splits:
        raise ValueError("there is no fold: give at least one pair of (train, test)")
    splits = [replace(one, undefined=_why_not(data, one, score, is_defined)) for one in splits]
    reasons = [split.undefined for split in splits if split.undefined is not None]
    if len(reasons) == len(splits):
        raise ValueError(f"there is no split to compute {metric} on. {reasons[0]}")
    return splits


class _Score(NamedTuple):
    """The metric of the labels themselves, which says whether it is defined."""

    metric: Metric
    conventions: str
    n_threads: int

    def by_query(self, labels: NDArray[Any], groups: QueryGroups) -> Array:
        """Return the value of each query, NaN where it is undefined; raise if it is everywhere."""
        truth = Truth(labels, None, groups=groups, n_jobs=self.n_threads)
        values = self.metric.by_query(truth.ranked(labels), self.conventions)
        self.metric.mean(values)
        return values


def _why_not(
    data: RankingData, split: Split, score: _Score, is_defined: NDArray[np.bool_]
) -> str | None:
    """Return why the metric is undefined on the held-out part; None if it is defined.

    ``is_defined`` says for which queries of the data it is.
    """
    if split.held_out is not None:
        labels, groups = split.held_out.truth, split.held_out.groups
    else:
        assert split.test is not None
        queries = data.groups.index[split.test]
        n_held_out = np.bincount(queries, minlength=data.groups.n_queries)
        if bool((is_defined & (n_held_out == data.groups.sizes)).any()):  # for a whole query
            return None
        labels = data.truth[split.test]
        groups = QueryGroups.from_qid(queries, split.test.size)
    try:
        score.by_query(labels, groups)
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
