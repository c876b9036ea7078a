"""The metric for labeled items, if nobody has named one.

    labels are grades, in queries       ndcg@10: what is at the top counts, and 2^y - 1 makes sense
    other labels                        pairwise_accuracy, which is defined for all labels

Grades are integers from 0 to 31, at least two different ones.  Under LETOR's conventions NDCG@10 of
a query with fewer than ten items is 0 for every ranking; if all queries are that short, there is
nothing to choose by, and the metric is pairwise_accuracy as well.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ranksvm.data.ranking_data import RankingData
from ranksvm.metrics.registry import Metric
from ranksvm.metrics.rules import rules_of
from ranksvm.pairs.gains import is_graded

_TOP = 10
_FOR_GRADES = Metric("ndcg", _TOP)
_FOR_ALL_LABELS = Metric("pairwise_accuracy")


def default_metric(
    data: RankingData, judged: RankingData, conventions: str = "standard"
) -> tuple[Metric, str]:
    """Return the metric, and what it is the default for.

    Parameters
    ----------
    data : RankingData
        Items to train on.
    judged : RankingData
        Items to compute the metric on, with labels; may be the same.
    conventions : {"standard", "letor"}, default="standard"
    """
    rules = rules_of(conventions)
    parts = [part for part in (data, judged) if part.y is not None]
    if any(part.qid is None for part in parts):
        return _FOR_ALL_LABELS, "items without queries"
    if not all(_has_grades(part.truth) for part in parts):
        return _FOR_ALL_LABELS, "labels that are not grades"
    if rules.short == "zero" and int(judged.groups.sizes.max()) < _TOP:
        return _FOR_ALL_LABELS, f"queries with fewer than {_TOP} items"
    return _FOR_GRADES, "graded labels in queries"


def _has_grades(y: NDArray[Any]) -> bool:
    return is_graded(y) and bool((y != y[:1]).any())
