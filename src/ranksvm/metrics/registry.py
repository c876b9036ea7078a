"""Metrics by name: ``ndcg@10``, ``map``, ``p@5``.

``@k`` cuts a metric off at rank k; without it, all ranks count.  To add a metric, add an entry to
``METRICS``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from ranksvm._vectors import Array
from ranksvm.metrics.cascade import EXPECTED_RECIPROCAL_RANK, RECIPROCAL_RANK
from ranksvm.metrics.dcg import MEAN_NDCG, MEAN_NDCG_LINEAR, NDCG, NDCG_LINEAR
from ranksvm.metrics.definition import Definition
from ranksvm.metrics.order import AUC, KENDALL_TAU, PAIRWISE_ACCURACY, RECIPROCAL_TRUE_RANK
from ranksvm.metrics.ranked import Ranked, Truth
from ranksvm.metrics.relevance import (
    AVERAGE_PRECISION,
    MEDIAN_LEVEL_AVERAGE_PRECISION,
    PRECISION,
    RECALL,
)
from ranksvm.metrics.rules import rules_of

METRICS: dict[str, Definition] = {
    "ndcg": NDCG,
    "mean_ndcg": MEAN_NDCG,
    "ndcg_linear": NDCG_LINEAR,
    "mean_ndcg_linear": MEAN_NDCG_LINEAR,
    "map": AVERAGE_PRECISION,
    "p": PRECISION,
    "recall": RECALL,
    "mrr": RECIPROCAL_RANK,
    "err": EXPECTED_RECIPROCAL_RANK,
    "pairwise_accuracy": PAIRWISE_ACCURACY,
    "kendall_tau": KENDALL_TAU,
    "auc": AUC,
    "median_level_map": MEDIAN_LEVEL_AVERAGE_PRECISION,
    "reciprocal_true_rank": RECIPROCAL_TRUE_RANK,
}

_ROUNDING = 1e-9  # rounding error of a mean over queries
_NAME = re.compile(r"(?P<base>[a-z_]+)(?:@(?P<k>0|[1-9][0-9]{0,17}))?")


@dataclass(frozen=True)
class Metric:
    """A metric and its cutoff; build it with :func:`parse_metric`.

    Attributes
    ----------
    base : str
        Name without the cutoff.
    k : int or None
        Number of top ranks to look at; None for all.
    """

    base: str
    k: int | None = None

    @property
    def name(self) -> str:
        """Name with the cutoff, such as ``ndcg@10``."""
        return self.base if self.k is None else f"{self.base}@{self.k}"

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest possible value, with room for rounding errors."""
        return METRICS[self.base].lowest - _ROUNDING, 1.0 + _ROUNDING

    def __str__(self) -> str:
        return self.name

    def __call__(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        conventions: str = "standard",
    ) -> float:
        """Score a ranking; see :func:`ranksvm.metrics.evaluate`."""
        return self.of(Truth(y, qid), scores, conventions)

    def of(self, truth: Truth, scores: ArrayLike, conventions: str) -> float:
        """Score a ranking of items whose labels and queries are known already."""
        return self.mean(self.by_query(truth.ranked(scores), conventions))

    def by_query(self, ranked: Ranked, conventions: str) -> Array:
        """Return one value per query; NaN for queries that are left out of the mean."""
        definition, rules = METRICS[self.base], rules_of(conventions, k=self.k)
        if definition.preset is not None:
            rules = replace(definition.preset, k=rules.k)
        return definition.by_query(ranked, rules)

    def mean(self, by_query: Array) -> float:
        """Average over the queries that count."""
        remedy = f"Leave out {self.name!r}, or check labels and query ids."
        return METRICS[self.base].mean(by_query, remedy)


def parse_metric(name: str | Metric, *, others: Sequence[str] = ()) -> Metric:
    """Parse the name of a metric.

    Parameters
    ----------
    name : str or Metric
        A name such as ``"ndcg@10"``; a Metric is returned unchanged.
    others : sequence of str, default=()
        Further names that the caller knows, for the message.

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        If there is no such metric; the message lists the valid names.

    Examples
    --------
    >>> from ranksvm.metrics import parse_metric
    >>> parse_metric("ndcg@10")
    Metric(base='ndcg', k=10)
    """
    if isinstance(name, Metric):
        return name
    if not isinstance(name, str):
        raise ValueError(f"the name of a metric must be a string such as 'ndcg@10'; got {name!r}.")
    match = _NAME.fullmatch(name)
    if match is None or match["base"] not in METRICS:
        raise ValueError(_unknown(name, others))
    base, k = match["base"], match["k"]
    cutoff = METRICS[base].cutoff
    if k is None:
        if cutoff == "required":
            raise ValueError(f"{base} needs a cutoff, for example {base}@10; got {name!r}.")
        return Metric(base)
    if cutoff == "none":
        raise ValueError(f"{base} uses all ranks and has no cutoff; got {name!r}. Use {base}.")
    if int(k) < 1:
        raise ValueError(f"the cutoff of a metric must be at least 1; got {name!r}.")
    return Metric(base, int(k))


def parse_metrics(names: str | Metric | Iterable[str | Metric]) -> tuple[Metric, ...]:
    """Parse one name or several, and drop repeated ones.

    Raises
    ------
    ValueError
        If there is no name, or an invalid one.
    """
    listed = [names] if isinstance(names, str | Metric) else list(names)
    metrics = tuple(dict.fromkeys(parse_metric(name) for name in listed))
    if not metrics:
        raise ValueError(f"metrics must name at least one metric; got {names!r}.")
    return metrics


def metric_names() -> list[str]:
    """List the metrics: ``p@k`` needs a cutoff, ``ndcg[@k]`` may have one, ``auc`` has none."""
    form = {"none": "{}", "optional": "{}[@k]", "required": "{}@k"}
    return [form[definition.cutoff].format(name) for name, definition in METRICS.items()]


def _unknown(name: str, others: Sequence[str]) -> str:
    base, _, k = name.strip().lower().replace("-", "_").partition("@")
    message = f"unknown metric {name!r}."
    close = difflib.get_close_matches(base, [*METRICS, *others], n=1)
    if close and close[0] in others:
        message += f" Did you mean {close[0]!r}?"
    elif close:
        cutoff = f"@{k.lstrip('0')}" if k.isdigit() and int(k) else ""
        suffix = {"none": "", "optional": cutoff, "required": cutoff or "@10"}
        message += f" Did you mean {close[0] + suffix[METRICS[close[0]].cutoff]!r}?"
    return f"{message} Valid: {', '.join([*metric_names(), *others])}."
