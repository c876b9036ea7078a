"""Several metrics of one ranking, which is sorted only once: means, or a table by query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._checks import check_choice
from ranksvm._vectors import Array
from ranksvm.metrics.ranked import Truth
from ranksvm.metrics.registry import Metric, parse_metric, parse_metrics
from ranksvm.pairs.gains import is_graded

DEFAULT_METRICS = ("ndcg@10", "map", "mrr", "pairwise_accuracy")  # for graded labels


def default_metrics(y: NDArray[Any]) -> tuple[str, ...]:
    """Return metrics that make sense for the labels: for grades, or for any real numbers."""
    return DEFAULT_METRICS if is_graded(y) else ("pairwise_accuracy", "kendall_tau")


@dataclass(frozen=True, eq=False)
class QueryTable:
    """Metrics of a ranking by query.

    Attributes
    ----------
    ids : ndarray of shape (n_queries,)
        Query ids in order of first appearance.
    sizes : ndarray of int64, shape (n_queries,)
        Number of items of each query.
    columns : mapping of str to ndarray of shape (n_queries,)
        Values by name of the metric; NaN for queries that are left out of the mean.
    """

    ids: NDArray[Any]
    sizes: NDArray[np.int64]
    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    def means(self) -> dict[str, float]:
        """Average each metric over the queries that count.

        Raises
        ------
        ValueError
            If a metric is undefined for all queries.
        """
        return {name: parse_metric(name).mean(values) for name, values in self.columns.items()}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield ``{"qid": id, metric: value, ...}`` for each query, as plain Python values."""
        columns = [column.tolist() for column in (self.ids, *self.columns.values())]
        for cells in zip(*columns, strict=True):
            yield dict(zip(("qid", *self.columns), cells, strict=True))

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Convert to a data frame or an Arrow table.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The query ids are the index of a pandas frame, and else the first column, named "qid".
        """
        made = frame({"qid": self.ids, **self.columns}, backend, "evaluate_queries")
        return made.set_index("qid") if backend == "pandas" else made


def frame(columns: Mapping[str, Any], backend: str, instead: str) -> Any:
    """Make a data frame with a library that may not be installed.

    Parameters
    ----------
    columns : mapping of str to ndarray or list
    backend : {"pandas", "polars", "pyarrow"}
    instead : str
        Name of the function or method that returns the same data without the library.
    """
    check_choice("backend", backend, ("pandas", "polars", "pyarrow"))
    try:
        library: Any = import_module(backend)
    except ImportError as error:
        raise ImportError(
            f"this frame needs {backend}, which cannot be imported ({error}): pip install "
            f"{backend}, or use {instead}, which works without it."
        ) from error
    make = library.table if backend == "pyarrow" else library.DataFrame
    return make(dict(columns))


def evaluate(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    *,
    conventions: str = "standard",
    per_query: bool = False,
) -> dict[str, float] | Any:
    """Score a ranking by several metrics.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels; larger is better.  Metrics with gains (ndcg, mean_ndcg, err) need y >= 0.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher, -inf marks items that were not retrieved.
    qid : array-like of shape (n_items,) or None, default=None
        Query id of each item, in any row order; None ranks all items together.
    metrics : str, sequence of str or None, default=None
        Names of metrics; see :mod:`ranksvm.metrics`.  None stands for "ndcg@10", "map", "mrr" and
        "pairwise_accuracy" if all labels are integers from 0 to 31, and for "pairwise_accuracy" and
        "kendall_tau" otherwise.
    conventions : {"standard", "letor"}, default="standard"
        Definitions to use; see :mod:`ranksvm.metrics`.
    per_query : bool, default=False
        Return ``evaluate_queries(...).to_frame()``: a pandas DataFrame with one row per query.

    Returns
    -------
    dict of str to float, or pandas.DataFrame
        Values by name of the metric, in the order requested.

    Raises
    ------
    ValueError
        If a metric is unknown or undefined for all queries, or an argument is invalid.

    See Also
    --------
    evaluate_queries : The values by query, without pandas.

    Examples
    --------
    >>> from ranksvm.metrics import evaluate
    >>> evaluate([2, 0, 1, 0, 1], [5, 4, 3, 2, 1], ["a", "a", "a", "b", "b"], ["map", "p@1"])
    {'map': 0.6666666666666666, 'p@1': 0.5}
    """
    table = evaluate_queries(y, scores, qid, metrics, conventions=conventions)
    return table.to_frame("pandas") if per_query else table.means()


def evaluate_queries(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    *,
    conventions: str = "standard",
) -> QueryTable:
    """Score a ranking by several metrics, query by query.

    Parameters
    ----------
    y, scores, qid, metrics, conventions
        As in :func:`evaluate`.

    Returns
    -------
    QueryTable
    """
    parsed = None if metrics is None else parse_metrics(metrics)
    truth = Truth(y, qid)
    ranked, groups = truth.ranked(scores), truth.groups
    if parsed is None:
        parsed = parse_metrics(default_metrics(truth.y))
    columns = {metric.name: metric.by_query(ranked, conventions) for metric in parsed}
    return QueryTable(groups.ids, groups.sizes, columns)
