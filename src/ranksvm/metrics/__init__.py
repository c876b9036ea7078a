"""How good a ranking is.

Every metric is a function ``f(y, scores, qid=None, *, ..., per_query=False)`` and has a name for
:func:`evaluate`, :func:`compare` and :func:`ranking_scorer`; ``@k`` is a number of ranks.

============================  ======================================  =========================
name                          function                                a query is left out when
============================  ======================================  =========================
``ndcg``, ``ndcg@k``          :func:`ndcg`                            no utility is positive
``mean_ndcg``                 :func:`mean_ndcg`                       no utility is positive
``map``, ``map@k``            :func:`average_precision`               no item is relevant
``p@k``                       :func:`precision_at`                    no item is relevant
``mrr``, ``mrr@k``            :func:`reciprocal_rank`                 no item is relevant
``err``, ``err@k``            :func:`expected_reciprocal_rank`        no utility is positive
``pairwise_accuracy``         :func:`pairwise_accuracy`               no two utilities differ
``kendall_tau``               :func:`kendall_tau`                     no two utilities differ
``auc``                       :func:`auc`                             all are relevant, or none
``median_level_map[@k]``      :func:`median_level_average_precision`  (none relevant scores 0)
``reciprocal_true_rank[@k]``  :func:`reciprocal_true_rank`            (never)
============================  ======================================  =========================

That is ``conventions="standard"``: gain 2^y - 1, discount 1 / log2(1 + rank), an item is relevant
when y > 0, items with equal scores in the order of their rows, queries with fewer than k items
judged on those they have (P@k still divides by k).  Which queries are left out depends on the
utilities alone, never on the scores.

Utilities and scores are finite, but for one score: -inf belongs to an item that was *not
retrieved*, as a search engine shows a few documents of many.  Such an item counts in the ideal
ranking, in the number of relevant items and of items, and for which queries are left out.  It has
no rank: no gain, no precision, no reciprocal rank.  For ``pairwise_accuracy``, ``kendall_tau`` and
``auc`` such items are below all others, and tied.

``conventions="letor"`` gives the numbers of LETOR 4.0's evaluation scripts: discount 1 at ranks 1
and 2 and 1 / log2(rank) after, NDCG@k of a query with fewer than k items is 0, and the queries that
the first six rows of the table leave out score 0 and count.  The last five rows are no part of
LETOR and stay as they are.

Everything is computed on one structure that sorts each ranking once, in O(n log n).
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
)

if TYPE_CHECKING:
    from ranksvm.metrics.scorers import ranking_scorer, register_scorers

__all__ = [
    "DEFAULT_METRICS",
    "Comparison",
    "ComparisonRow",
    "Metric",
    "QueryTable",
    "auc",
    "average_precision",
    "compare",
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
    "reciprocal_rank",
    "reciprocal_true_rank",
    "register_scorers",
]

# These need scikit-learn, which takes long to import.
_LAZY = ("ranking_scorer", "register_scorers")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from ranksvm.metrics import scorers

        return getattr(scorers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
