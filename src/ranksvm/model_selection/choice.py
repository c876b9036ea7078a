"""The metric that a search maximizes, if nobody has named one.

With labels, it is the default of :mod:`ranksvm.metrics.defaults`: ndcg@10 or pairwise_accuracy.
Without labels, it is pair_accuracy, the share of listed pairs in the right order.
"""

from __future__ import annotations

from typing import NamedTuple

from ranksvm._messages import Param, ParameterError
from ranksvm.data.ranking_data import RankingData
from ranksvm.metrics.defaults import default_metric
from ranksvm.metrics.registry import Metric
from ranksvm.model_selection.judges import (
    PAIR_ACCURACY,
    Judge,
    LabelJudge,
    PairJudge,
    judge_named,
)


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
    metric, default_for = default_metric(data, judged, conventions)
    return ChosenMetric(LabelJudge(metric, conventions), default_for)


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
