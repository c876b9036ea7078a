"""The metric that a search maximizes, if nobody has named one.

    labels are grades, in queries       ndcg@10: what is at the top counts, and 2^y - 1 makes sense
    anything else                       pairwise_accuracy, which is defined for all labels

Grades are integers from 0 to 31, at least two different ones.  Under LETOR's conventions NDCG@10 of
a query with fewer than ten items is 0 for every ranking; if all queries are that short, there is
nothing to choose by, and the metric is pairwise_accuracy as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from ranksvm.data.ranking_data import RankingData
from ranksvm.metrics.registry import Metric, parse_metric
from ranksvm.metrics.rules import rules_of
from ranksvm.pairs.gains import is_graded

_TOP = 10
_FOR_GRADES = Metric("ndcg", _TOP)
_FOR_ALL_LABELS = Metric("pairwise_accuracy")


class ChosenMetric(NamedTuple):
    """A metric, and what it is the default for; empty if somebody has named the metric."""

    metric: Metric
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
    if metric is not None and metric != "auto":
        return ChosenMetric(parse_metric(metric))
    rules = rules_of(conventions)
    parts = [data] if validation is None else [data, validation]
    if any(part.qid is None for part in parts):
        return ChosenMetric(_FOR_ALL_LABELS, "items without queries")
    if not all(_has_grades(part.truth) for part in parts):
        return ChosenMetric(_FOR_ALL_LABELS, "labels that are not grades")
    if rules.short == "zero" and int(parts[-1].groups.sizes.max()) < _TOP:
        return ChosenMetric(_FOR_ALL_LABELS, f"queries with fewer than {_TOP} items")
    return ChosenMetric(_FOR_GRADES, "graded labels in queries")


def _has_grades(y: NDArray[Any]) -> bool:
    return is_graded(y) and bool((y != y[:1]).any())
