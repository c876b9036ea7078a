"""What the scores of held-out items are judged by: a metric of their labels, or their pairs.

A judge gives scores of held-out items a value, the larger the better, and knows before any fit
where its value is undefined.  That depends on labels and pairs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array, Rows, all_finite
from ranksvm.data.preferences import Preferences, positive_pairs
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.metrics.ranked import Truth
from ranksvm.metrics.registry import Metric, parse_metric
from ranksvm.pairs.accuracy import preference_accuracy

PAIR_ACCURACY = "pair_accuracy"
_ROUNDING = 1e-9  # rounding error of a weighted mean


class HeldOut(Protocol):
    """The held-out part of a split: ``test`` rows of the data, or another set."""

    @property
    def name(self) -> str: ...
    @property
    def test(self) -> Rows | None: ...
    @property
    def held_out(self) -> RankingData | None: ...


class Judge(Protocol):
    """What scores of held-out items are judged by."""

    @property
    def name(self) -> str:
        """Name of the metric."""
        ...

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest possible value, with room for rounding errors."""
        ...

    def reasons_against(
        self, data: RankingData, splits: Sequence[HeldOut], n_threads: int
    ) -> list[str | None]:
        """Return why each held-out part cannot be judged; None if it can.

        Raises
        ------
        ValueError
            If the whole data set cannot be judged.
        """
        ...

    def values(
        self, held_out: RankingData, found: Sequence[Array], n_threads: int
    ) -> tuple[float, ...]:
        """Return the value of each of several scores of the items; NaN if one is not finite."""
        ...


@dataclass(frozen=True)
class LabelJudge:
    """A metric of the labels, under some conventions."""

    metric: Metric
    conventions: str = "standard"

    @property
    def name(self) -> str:
        return self.metric.name

    @property
    def bounds(self) -> tuple[float, float]:
        return self.metric.bounds

    def reasons_against(
        self, data: RankingData, splits: Sequence[HeldOut], n_threads: int
    ) -> list[str | None]:
        is_defined = np.zeros(data.groups.n_queries, dtype=np.bool_)
        if data.y is not None:
            is_defined = ~np.isnan(self._by_query(data.truth, data.groups, n_threads))
        return [self._reason(data, split, is_defined, n_threads) for split in splits]

    def _reason(
        self, data: RankingData, split: HeldOut, is_defined: NDArray[np.bool_], n_threads: int
    ) -> str | None:
        """``is_defined`` says for which queries of the data the metric is defined."""
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
            self._by_query(labels, groups, n_threads)
        except ValueError as error:
            return f"{split.name}, held-out part: {error}"
        return None

    def _by_query(self, labels: NDArray[Any], groups: QueryGroups, n_threads: int) -> Array:
        """Return the value of each query for the labels themselves; raise if it is NaN for all."""
        truth = Truth(labels, None, groups=groups, n_jobs=n_threads)
        values = self.metric.by_query(truth.ranked(labels), self.conventions)
        self.metric.mean(values)
        return values

    def values(
        self, held_out: RankingData, found: Sequence[Array], n_threads: int
    ) -> tuple[float, ...]:
        truth = Truth(held_out.truth, None, groups=held_out.groups, n_jobs=n_threads)
        return tuple(
            self.metric.of(truth, scores, self.conventions) if all_finite(scores) else np.nan
            for scores in found
        )


@dataclass(frozen=True)
class PairJudge:
    """The weighted share of listed pairs that are ordered correctly; equal scores count half.

    Listed ties do not count.
    """

    name: str = PAIR_ACCURACY
    bounds: tuple[float, float] = (-_ROUNDING, 1.0 + _ROUNDING)

    def reasons_against(
        self, data: RankingData, splits: Sequence[HeldOut], n_threads: int
    ) -> list[str | None]:
        del n_threads
        return [self._reason(data, split) for split in splits]

    def _reason(self, data: RankingData, split: HeldOut) -> str | None:
        if split.held_out is not None:
            if len(positive_pairs(_pairs_of(split.held_out)).preferred):
                return None
            return f"{split.name}: it has only ties, and no pair of a better and a worse item."
        assert split.test is not None
        pairs = positive_pairs(_pairs_of(data)).preferred
        is_there = np.zeros(data.n_items, dtype=np.bool_)
        is_there[split.test] = True
        if bool((is_there[pairs.better] & is_there[pairs.worse]).any()):
            return None
        return f"{split.name}, held-out part: it has no pair of positive weight."

    def values(
        self, held_out: RankingData, found: Sequence[Array], n_threads: int
    ) -> tuple[float, ...]:
        del n_threads
        pairs = _pairs_of(held_out).preferred
        return tuple(
            preference_accuracy(pairs, scores) if all_finite(scores) else np.nan for scores in found
        )


def _pairs_of(data: RankingData) -> Preferences:
    assert data.preferences is not None
    return data.preferences


def judge_named(name: str | Metric, conventions: str = "standard") -> Judge:
    """Return the judge with this name; raise a ValueError if there is none."""
    if name == PAIR_ACCURACY:
        return PairJudge()
    return LabelJudge(parse_metric(name, others=(PAIR_ACCURACY,)), conventions)
