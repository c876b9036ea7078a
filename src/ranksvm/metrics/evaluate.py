"""Several metrics of one ranking, sorted once: as means, or one row per query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._vectors import Array
from ranksvm.metrics.ranked import Ranked
from ranksvm.metrics.registry import Metric, parse_metrics
from ranksvm.metrics.rules import CONVENTIONS, check_choice

__all__ = ["DEFAULT_METRICS", "QueryTable", "evaluate", "evaluate_queries", "frame"]

DEFAULT_METRICS = ("ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr", "pairwise_accuracy")

_FRAMES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True, eq=False)
class QueryTable:
    """One row per query.

    Attributes
    ----------
    ids : ndarray of shape (n_queries,)
        Query ids in order of first appearance.
    sizes : ndarray of int64, shape (n_queries,)
        Items of each query.
    columns : mapping of str to ndarray of shape (n_queries,)
        Values by metric; NaN where a query is left out of the mean.
    """

    ids: NDArray[Any]
    sizes: NDArray[np.int64]
    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield ``{"qid": id, metric: value, ...}`` for each query, in plain Python numbers."""
        columns = [column.tolist() for column in (self.ids, *self.columns.values())]
        for cells in zip(*columns, strict=True):
            yield dict(zip(("qid", *self.columns), cells, strict=True))

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Make a data frame, or an Arrow table.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            pandas gets the query ids as the index, the others as the first column; its name is
            "qid".
        """
        columns = {"qid": self.ids, **self.columns}
        return frame(columns, backend, "evaluate_queries", index="qid")


def frame(
    columns: Mapping[str, Any], backend: str, instead: str, *, index: str | None = None
) -> Any:
    """Columns as a frame of a library that may have to be installed first.

    Parameters
    ----------
    columns : mapping of str to ndarray or list
    backend : {"pandas", "polars", "pyarrow"}
    instead : str
        What gives the same without the library.
    index : str or None
        The column that pandas is to use as the index.
    """
    check_choice("backend", backend, _FRAMES)
    try:
        library: Any = import_module(backend)
    except ImportError as error:
        raise ImportError(
            f"this frame needs {backend}, which cannot be imported ({error}): pip install "
            f"{backend}, or use {instead}, which does without."
        ) from error
    make = library.table if backend == "pyarrow" else library.DataFrame
    made = make(dict(columns))
    return made.set_index(index) if backend == "pandas" and index is not None else made


@overload
def evaluate(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    metrics: str | Metric | Iterable[str | Metric] = ...,
    *,
    conventions: str = ...,
    per_query: Literal[False] = False,
) -> dict[str, float]: ...


@overload
def evaluate(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    metrics: str | Metric | Iterable[str | Metric] = ...,
    *,
    conventions: str = ...,
    per_query: Literal[True],
) -> Any: ...


def evaluate(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    conventions: str = "standard",
    per_query: bool = False,
) -> dict[str, float] | Any:
    """Score a ranking by several metrics.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Utilities; larger is better.  Metrics with gains (ndcg, mean_ndcg, err) need y >= 0.
    scores : array-like of shape (n_items,)
        Scores; larger is ranked higher, and -inf means that the item was not retrieved.
    qid : array-like of shape (n_items,) or None, default=None
        Query of each item, in any row order; None means one global ranking.
    metrics : str or sequence of str, default=("ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr", \
"pairwise_accuracy")
        Names; :mod:`ranksvm.metrics` lists them.
    conventions : {"standard", "letor"}, default="standard"
        Whose definitions to follow where they differ; see :mod:`ranksvm.metrics`.
    per_query : bool, default=False
        Return a pandas DataFrame with one row per query, indexed by query id, in order of first
        appearance; NaN where a query is left out of the mean.

    Returns
    -------
    dict of str to float, or pandas.DataFrame
        By name of the metric, in the order asked for.

    Raises
    ------
    ValueError
        If a metric is unknown, or is defined for no query, or an argument is not as described.

    See Also
    --------
    evaluate_queries : The table by query, without pandas.

    Examples
    --------
    >>> from ranksvm.metrics import evaluate
    >>> evaluate([2, 0, 1, 0, 1], [5, 4, 3, 2, 1], ["a", "a", "a", "b", "b"], ["map", "p@1"])
    {'map': 0.6666666666666666, 'p@1': 0.5}
    """
    if per_query:
        table = evaluate_queries(y, scores, qid, metrics, conventions=conventions)
        return table.to_frame("pandas")
    parsed = _parsed(metrics, conventions)
    ranked = Ranked.of(y, scores, qid)
    return {metric.name: metric.mean(metric.by_query(ranked, conventions)) for metric in parsed}


def evaluate_queries(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
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
    parsed = _parsed(metrics, conventions)
    ranked = Ranked.of(y, scores, qid)
    groups = ranked.truth.groups
    columns = {metric.name: metric.by_query(ranked, conventions) for metric in parsed}
    return QueryTable(groups.ids, groups.sizes, columns)


def _parsed(metrics: str | Metric | Iterable[str | Metric], conventions: str) -> tuple[Metric, ...]:
    """Names and conventions are looked at before any work is done."""
    check_choice("conventions", conventions, CONVENTIONS)
    return parse_metrics(metrics)
