"""Ranking metrics.

Every metric is a function ``f(y, scores, qid=None, *, ..., per_query=False)`` that returns the mean
over queries, and has a name for :func:`evaluate`, :func:`compare` and :func:`ranking_scorer`, with
``@k`` for the number of top ranks to look at.

============================  ======================================  =========================
name                          function                                a query is left out if
============================  ======================================  =========================
``ndcg``, ``ndcg@k``          :func:`ndcg`                            no label is positive
``mean_ndcg``                 :func:`mean_ndcg`                       no label is positive
``ndcg_linear[@k]``           :func:`ndcg` with gain="linear"         no label is positive
``mean_ndcg_linear``          :func:`mean_ndcg` with gain="linear"    no label is positive
``map``, ``map@k``            :func:`average_precision`               no item is relevant
``p@k``                       :func:`precision_at`                    no item is relevant
``recall``, ``recall@k``      :func:`recall_at`                       no item is relevant
``mrr``, ``mrr@k``            :func:`reciprocal_rank`                 no item is relevant
``err``, ``err@k``            :func:`expected_reciprocal_rank`        no label is positive
``pairwise_accuracy``         :func:`pairwise_accuracy`               all labels are equal
``kendall_tau``               :func:`kendall_tau`                     all labels are equal
``auc``                       :func:`auc`                             all are relevant, or none
``median_level_map[@k]``      :func:`median_level_average_precision`  (none relevant scores 0)
``reciprocal_true_rank[@k]``  :func:`reciprocal_true_rank`            (never)
============================  ======================================  =========================

These are the definitions of ``conventions="standard"``: the gain is 2^y - 1 and the discount
1 / log2(1 + rank); an item is relevant if y > 0; items with equal scores are ranked in row order; a
query with fewer than k items is scored on the items it has (P@k still divides by k).  Which queries
are left out depends only on the labels, never on the scores.

Gains 2^y - 1 are meant for grades.  For labels that are real-valued or large (more than about 31),
where the best item would outweigh all others, use ``ndcg_linear``, with the gain y.

Labels and scores are finite, with one exception: a score of -inf marks an item that was *not
retrieved*, such as a document that a search engine did not return.  It counts in the ideal ranking,
in the numbers of items and of relevant items, and in deciding which queries are left out.  But it
has no rank, and adds nothing to a metric.  For ``pairwise_accuracy``, ``kendall_tau`` and ``auc``
such items are ranked below all others and tied with each other.

``conventions="letor"`` reproduces LETOR 4.0's evaluation scripts: the discount is 1 at ranks 1 and
2 and 1 / log2(rank) below, NDCG@k is 0 for a query with fewer than k items, and the first nine
metrics of the table score 0 instead of leaving a query out.  The other five do not change.

All metrics of a ranking share one sort, in O(n log n).

:func:`concordance_index` is for survival times, which may be censored; it takes events beside the
times, and has no name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranksvm.metrics.cascade import expected_reciprocal_rank, reciprocal_rank
from ranksvm.metrics.compare import Comparison, ComparisonRow, compare
from ranksvm.metrics.dcg import mean_ndcg, ndcg
from ranksvm.metrics.evaluate import DEFAULT_METRICS, QueryTable, evaluate, evaluate_queries
from ranksvm.metrics.order import auc, kendall_tau, pairwise_accuracy, reciprocal_true_rank
from ranksvm.metrics.registry import Metric, metric_names, parse_metric
from ranksvm.metrics.relevance import (
    average_precision,
    median_level_average_precision,
    precision_at,
    recall_at,
)
from ranksvm.metrics.survival import concordance_index

if TYPE_CHECKING:
    from ranksvm.metrics.scorers import ranking_scorer

__all__ = [
    "DEFAULT_METRICS",
    "Comparison",
    "ComparisonRow",
    "Metric",
    "QueryTable",
    "auc",
    "average_precision",
    "compare",
    "concordance_index",
    "evaluate",
    "evaluate_queries",
    "expected_reciprocal_rank",
    "kendall_tau",
    "mean_ndcg",
    "median_level_average_precision",
    "metric_names",
    "ndcg",
    "pairwise_accuracy",
    "parse_metric",
    "precision_at",
    "ranking_scorer",
    "recall_at",
    "reciprocal_rank",
    "reciprocal_true_rank",
]


def __getattr__(name: str) -> Any:
    if name == "ranking_scorer":  # needs scikit-learn, which is slow to import
        from ranksvm.metrics.scorers import ranking_scorer

        return ranking_scorer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "ranking_scorer"})
