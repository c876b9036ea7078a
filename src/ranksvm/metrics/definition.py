"""A metric as a value: a score for every query, and what to do with those that have none.

A metric is not defined for some queries (NDCG for one without a relevant item, say).  Which ones
these are depends on the utilities alone, never on the scores: all rankings of the same items are
averaged over the same queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._vectors import Array
from ranksvm.metrics.ranked import Ranked
from ranksvm.metrics.rules import Empty, Rules

__all__ = ["Cutoff", "Definition", "fill_empty"]

Cutoff = Literal["none", "optional", "required"]

_EMPTY = {"skip": np.nan, "zero": 0.0, "one": 1.0}


def fill_empty(by_query: Array, empty: Empty) -> Array:
    """Score the queries for which a metric is not defined (NaN)."""
    return np.where(np.isnan(by_query), _EMPTY[empty], by_query)


@dataclass(frozen=True)
class Definition:
    """What a metric is.

    Attributes
    ----------
    name : str
        In error messages.
    values : callable
        ``values(ranked, rules)``: one number per query, in the order in which the queries first
        appear; NaN where the metric is not defined.
    needs : str
        What a query needs for the metric to be defined, as in "none of the queries has ...".
    cutoff : {"none", "optional", "required"}
        Whether the metric can be cut off at a rank k.
    preset : Rules or None
        Rules of a metric that is defined by one source, and takes no other conventions.
    lowest : float
        Smallest value there is; the largest is 1.
    """

    name: str
    values: Callable[[Ranked, Rules], Array]
    needs: str
    cutoff: Cutoff = "none"
    preset: Rules | None = None
    lowest: float = 0.0

    def by_query(self, ranked: Ranked, rules: Rules) -> Array:
        """One number per query; NaN for those that are left out of the mean."""
        return fill_empty(self.values(ranked, rules), rules.empty)

    def mean(self, by_query: Array, remedy: str) -> float:
        """Average over the queries that count; with none, an error that ends in the remedy."""
        counted = by_query[~np.isnan(by_query)]
        if counted.shape[0] == 0:
            raise ValueError(
                f"{self.name} is not defined here: none of the {by_query.shape[0]} queries has "
                f"{self.needs}. {remedy}"
            )
        return float(counted.mean())

    def judge(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        qid: ArrayLike | None,
        rules: Rules,
        per_query: bool,
    ) -> float | Array:
        """Score a ranking: on average, or by query."""
        values = self.by_query(Ranked.of(y, scores, qid), rules)
        if per_query:
            return values
        return self.mean(values, "Pass empty='zero' or empty='one' to score such queries.")
