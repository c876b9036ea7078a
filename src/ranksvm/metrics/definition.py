"""What a metric is: a value for every query, and their mean.

A metric is undefined for some queries, NDCG for one without a relevant item, for example.  Which
ones depends only on the labels, never on the scores, so that all rankings of the same items are
averaged over the same queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._vectors import Array
from ranksvm.metrics.ranked import Ranked, Truth
from ranksvm.metrics.rules import Empty, Rules

Cutoff = Literal["none", "optional", "required"]

# What metric functions return: the mean, or an array if ``per_query=True``.  With ``Any`` in place
# of the array, typed code can use the mean as a float; it gets the array by ``np.asarray``.
MeanOrArray = float | Any

_EMPTY = {"skip": np.nan, "zero": 0.0, "one": 1.0}


def divide(found: Array, total: Array) -> Array:
    """Divide; NaN, which means undefined, where the total is 0."""
    return np.divide(found, total, out=np.full_like(total, np.nan), where=total > 0.0)


def fill_empty(by_query: Array, empty: Empty) -> Array:
    """Replace NaN, the value of queries for which a metric is undefined."""
    return np.where(np.isnan(by_query), _EMPTY[empty], by_query)


@dataclass(frozen=True)
class Definition:
    """Definition of a metric.

    Attributes
    ----------
    name : str
        Name for error messages.
    values : callable
        ``values(ranked, rules)`` returns one value per query, in order of first appearance; NaN
        where the metric is undefined.
    needs : str
        What a query needs for the metric to be defined; completes "no query has ...".
    cutoff : {"none", "optional", "required"}
        Whether the metric can be cut off at a rank k.
    preset : Rules or None
        Fixed rules, for metrics that do not depend on conventions.
    lowest : float
        Smallest possible value; the largest is 1.
    """

    name: str
    values: Callable[[Ranked, Rules], Array]
    needs: str
    cutoff: Cutoff = "none"
    preset: Rules | None = None
    lowest: float = 0.0

    def by_query(self, ranked: Ranked, rules: Rules) -> Array:
        """Return one value per query; NaN for those left out of the mean."""
        return fill_empty(self.values(ranked, rules), rules.empty)

    def mean(self, by_query: Array, remedy: str) -> float:
        """Average over the queries that count; if none does, raise an error ending in remedy."""
        counted = by_query[~np.isnan(by_query)]
        if counted.shape[0] == 0:
            raise ValueError(
                f"{self.name} is not defined here: no query has {self.needs}. {remedy}"
            )
        return float(counted.mean())

    def score(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        qid: ArrayLike | None,
        rules: Rules,
        per_query: bool,
    ) -> MeanOrArray:
        """Score a ranking: the mean over queries, or one value per query."""
        values = self.by_query(Truth(y, qid).ranked(scores), rules)
        if per_query:
            return values
        return self.mean(values, "Use empty='zero' or empty='one' to score such queries.")
