"""The metric that a search maximizes, if nobody has named one.

    labels are grades, in queries       ndcg@10: what is at the top counts, and 2^y - 1 makes sense
    other labels                        pairwise_accuracy, which is defined for all labels
    no labels                           pair_accuracy, the share of listed pairs in the right order

Grades are integers from 0 to 31, at least two different ones.  Under LETOR's conventions NDCG@10 of
a query with fewer than ten items is 0 for every ranking; if all queries are that short, there is
nothing to choose by, and the metric is pairwise_accuracy as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from ranksvm._messages import Param, ParameterError
from ranksvm.data.ranking_data import RankingData
from ranksvm.metrics.registry import Metric
from ranksvm.metrics.rules import rules_of
from ranksvm.model_selection.judges import (
    PAIR_ACCURACY,
    Judge,
    LabelJudge,
    PairJudge,
    judge_named,
)
from ranksvm.pairs.gains import is_graded

_TOP = 10
_FOR_GRADES = Metric("ndcg", _TOP)
_FOR_ALL_LABELS = Metric("pairwise_accuracy")


class ChosenMetric(NamedTuple):
    """A metric, and what it is the default for; empty if somebody has named the metric."""

    metric: Judge
    default_for: str = ""


def choose_metric(
    metric: str | Metric | None,
    data: RankingData,
    validation: RankingData | None = None,
    conventions: str = "standard",
) -> ChosenMetric:
    """Return the metric of a search.

    Parameters
    ----------
    metric : str, Metric or None
        Its name; None or "auto" to choose one.
    data : RankingData
        Items to train on, in memory or in shards.
    validation : RankingData or None, default=None
        Items to compute the metric on, if these are others.
    conventions : {"standard", "letor"}, default="standard"

    Raises
    ------
    ValueError
        If there is no such metric.
    """
    judged = data if validation is None else validation
    if metric is not None and metric != "auto":
        judge = judge_named(metric, conventions)
        _check_suits(judge, judged)
        return ChosenMetric(judge)
    if judged.y is None:
        return ChosenMetric(PairJudge(), "pairs without labels")
    metric, default_for = _for_labels(data, judged, conventions)
    return ChosenMetric(LabelJudge(metric, conventions), default_for)


def _for_labels(data: RankingData, judged: RankingData, conventions: str) -> tuple[Metric, str]:
    rules = rules_of(conventions)
    parts = [part for part in (data, judged) if part.y is not None]
    if any(part.qid is None for part in parts):
        return _FOR_ALL_LABELS, "items without queries"
    if not all(_has_grades(part.truth) for part in parts):
        return _FOR_ALL_LABELS, "labels that are not grades"
    if rules.short == "zero" and int(judged.groups.sizes.max()) < _TOP:
        return _FOR_ALL_LABELS, f"queries with fewer than {_TOP} items"
    return _FOR_GRADES, "graded labels in queries"


def _check_suits(judge: Judge, judged: RankingData) -> None:
    """Raise unless the held-out items have what the metric needs."""
    if isinstance(judge, PairJudge) and judged.preferences is None:
        raise ParameterError(
            "{metric} needs explicit pairs of the held-out items, and there are none. Name a "
            "metric of labels, such as pairwise_accuracy.",
            metric=Param("metric", judge.name),
        )
    if isinstance(judge, LabelJudge) and judged.y is None:
        raise ParameterError(
            "{metric} needs labels of the held-out items, and there are none. Use {pairs}.",
            metric=Param("metric", judge.name),
            pairs=Param("metric", PAIR_ACCURACY),
        )


def _has_grades(y: NDArray[Any]) -> bool:
    return is_graded(y) and bool((y != y[:1]).any())
