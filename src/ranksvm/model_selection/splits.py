"""Parts to train on and parts to take a metric on.

A split is checked before any work: rows are there, no query is on both sides, and the metric can be
taken on what is held out, which depends on the utilities alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.metrics import evaluate
from ranksvm.model_selection.splitters import Rows
from ranksvm.training import KernelProblem, LinearProblem, Settings, make_problem

__all__ = ["HeldOut", "Split", "TrainingSet", "make_splits", "rows_of", "take_metric"]


class HeldOut(NamedTuple):
    """Items to take the metric on.

    ``X`` of shape (n_items, n_features), ``utility`` of shape (n_items,), ``qid`` of shape
    (n_items,) or None for one global ranking.
    """

    X: Any
    utility: NDArray[Any]
    qid: Any


class Split(NamedTuple):
    """A training part and ``test`` rows of the same set, or else items that were ``held_out``.

    ``undefined`` says why the metric cannot be taken on the held-out part, if it cannot.
    """

    name: str
    train: Rows
    test: Rows | None
    held_out: HeldOut | None
    undefined: str | None = None


class TrainingSet(NamedTuple):
    """All items, what is minimised over some of them, and their weights.

    The metric looks at ``labels``; None: the utilities.
    """

    X: Any
    utility: Array
    groups: QueryGroups
    settings: Settings
    item_weight: Array | None = None
    query_weight: Array | None = None
    labels: NDArray[Any] | None = None

    @property
    def truth(self) -> NDArray[Any]:
        """What the metric looks at."""
        return self.utility if self.labels is None else self.labels

    @property
    def ids(self) -> Rows | None:
        """Query number of every item; None when there is one global ranking."""
        return None if self.groups.n_queries == 1 else self.groups.index

    def problem(self, rows: Rows, n_threads: int) -> LinearProblem | KernelProblem:
        """Make the problem of some items."""
        if self._is_all(rows):
            groups, query_weight = self.groups, self.query_weight
        else:
            groups = QueryGroups.from_qid(self.groups.index[rows], rows.size)
            query_weight = None if self.query_weight is None else self.query_weight[groups.ids]
        return make_problem(
            self.features(rows, rows),
            self.utility[rows],
            groups,
            self.settings,
            item_weight=None if self.item_weight is None else self.item_weight[rows],
            query_weight=query_weight,
            n_threads=n_threads,
        )

    def held_out(self, rows: Rows, train: Rows) -> HeldOut:
        """Items to take the metric on, for a model of others."""
        ids = self.ids
        return HeldOut(
            self.features(rows, train), self.truth[rows], None if ids is None else ids[rows]
        )

    def held_out_of(self, split: Split) -> HeldOut:
        """Items to take the metric on, of a split."""
        if split.held_out is not None:
            return split.held_out
        assert split.test is not None
        return self.held_out(split.test, split.train)

    def features(self, rows: Rows, train: Rows) -> Any:
        """X of some items, as a model of the items ``train`` takes it."""
        if self.settings.is_pairwise and not self._is_all(train):
            return self.X[np.ix_(rows, train)]
        return self.X if self._is_all(rows) else rows_of(self.X, rows)

    def _is_all(self, rows: Rows) -> bool:
        return rows.size == len(self.utility) and bool((np.diff(rows) == 1).all())


def make_splits(
    items: TrainingSet,
    folds: Iterable[tuple[Any, Any]] | None,
    validation: HeldOut | None,
    metric: str,
    conventions: str,
) -> list[Split]:
    """Check folds, or make one split of a validation set; see where the metric is defined.

    That depends on the utilities alone, so that it is known before any work.

    Raises
    ------
    ValueError
        If a split cannot be used, or the metric can be taken on none of them.
    """
    if (folds is None) == (validation is None):
        raise ValueError("give either folds or a validation set")
    take_metric(items.truth, items.truth, items.ids, metric, conventions)
    if validation is not None:
        splits = [Split("validation set", np.arange(len(items.utility)), None, validation)]
    else:
        pairs = enumerate(folds or (), start=1)
        splits = [fold_split(items, k, *pair) for k, pair in pairs]
    if not splits:
        raise ValueError("there is no fold: give at least one pair of (train, test)")
    splits = [
        split._replace(undefined=_why_not(items, split, metric, conventions)) for split in splits
    ]
    reasons = [split.undefined for split in splits if split.undefined is not None]
    if len(reasons) == len(splits):
        raise ValueError(f"there is no split to take {metric} on. {reasons[0]}")
    return splits


def _why_not(items: TrainingSet, split: Split, metric: str, conventions: str) -> str | None:
    """Say why the metric cannot be taken on the held-out part; None if it can."""
    if split.held_out is not None:
        labels, qid = split.held_out.utility, split.held_out.qid
    else:
        assert split.test is not None
        labels = items.truth[split.test]
        qid = None if items.ids is None else items.ids[split.test]
    try:
        take_metric(labels, labels, qid, metric, conventions)
    except ValueError as error:
        return f"{split.name}, held-out part: {error}"
    return None


def fold_split(items: TrainingSet, number: int, train: Any, test: Any) -> Split:
    """Check one (train, test) of row numbers or masks."""
    name = f"fold {number}"
    groups = items.groups
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
                f"{name} splits {both.size} queries, {example!r} for example: some of its items "
                "are to train on and some to score. Use QueryKFold, or another splitter that "
                "keeps groups together."
            )
    return Split(name, train, test, None)


def take_metric(
    labels: NDArray[Any], scores: NDArray[Any], qid: Any, metric: str, conventions: str
) -> float:
    """Value of one metric by name."""
    chosen: Any = conventions
    (value,) = evaluate(labels, scores, qid, [metric], conventions=chosen).values()
    return value


def _in_both(some: Rows, others: Rows, n: int) -> Rows:
    """Numbers below n that are on both sides, ascending."""
    there = np.zeros((2, n), dtype=np.bool_)
    there[0, some] = there[1, others] = True
    return np.flatnonzero(there.all(axis=0))


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


def rows_of(X: Any, rows: Rows) -> Any:
    """Rows of a dense or sparse matrix."""
    return X[rows] if hasattr(X, "tocsr") else np.take(X, rows, axis=0)
