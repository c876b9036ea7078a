"""The evaluation set of a fit: the arguments ``eval_set``, ``eval_qid`` and ``eval_metric``.

LightGBM and XGBoost take a list of sets; one set in a list is understood.  Query ids are the third
element of the set or ``eval_qid``; ``eval_group`` may also be sizes of queries, like ``group``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ranksvm._checks import finite_number
from ranksvm._messages import Param, ParameterError, Value
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.estimators.inputs import validation_data
from ranksvm.learners.problem import WatchedProblem
from ranksvm.learners.settings import Settings
from ranksvm.learners.views import with_view
from ranksvm.learners.watching import Validate
from ranksvm.metrics.defaults import default_metric
from ranksvm.metrics.ranked import Truth
from ranksvm.metrics.registry import Metric, parse_metric

EvalMetric = str | Callable[[Any, Array, Any], float]


@dataclass(frozen=True)
class Evaluation:
    """Labeled items, and the metric of their scores.

    Attributes
    ----------
    name : str
        Name of the metric.
    X : ndarray or sparse matrix
        The columns of the items that the model sees.
    of_scores : callable
        Returns the value of the metric for the scores of the items.
    """

    name: str
    X: Any
    of_scores: Callable[[Array], float]

    def of(self, problem: WatchedProblem) -> Validate:
        """Return the value of the metric for coefficients of a problem."""
        scores = problem.scorer(self.X)
        return lambda coef: self.of_scores(scores(coef))


def evaluation(
    ranker: Any,
    data: RankingData,
    settings: Settings,
    y: Any,
    qid: Any,
    *,
    eval_set: Any,
    eval_qid: Any,
    eval_group: Any,
    eval_metric: EvalMetric | None,
) -> Evaluation | None:
    """Check the evaluation set of a fit; None if there is none.

    ``data`` is the training set; ``y`` and ``qid`` (or ``group``) are as they were passed to
    ``fit``, because names of columns apply to both sets.
    """
    if eval_set is None:
        given = {"eval_qid": eval_qid, "eval_group": eval_group, "eval_metric": eval_metric}
        for name, value in given.items():
            if value is not None:
                raise ParameterError("{name} needs {set}", name=Param(name), set=Param("eval_set"))
        return None
    threads = resolve_n_jobs(ranker.n_jobs)
    held_out = validation_data(
        ranker, "eval_set", _only_set(eval_set), y, qid,
        own_qid=_only_ids(eval_qid), own_group=_only_ids(eval_group),
    )  # fmt: skip
    metric = _only_metric(eval_metric)
    if metric is None:
        metric, _ = default_metric(data, held_out)
    columns = with_view(held_out, settings.view, n_threads=threads).X
    if not isinstance(metric, Metric):
        name = getattr(metric, "__name__", type(metric).__name__)
        return Evaluation(name, columns, partial(_called, metric, held_out))
    truth = Truth(held_out.truth, None, groups=held_out.groups, n_jobs=threads)

    def of_scores(scores: Array) -> float:
        return metric.of(truth, scores, "standard")

    of_scores(np.zeros(held_out.n_items))  # a metric that is not defined is an error before the fit
    return Evaluation(metric.name, columns, of_scores)


def _called(metric: Callable[[Any, Array, Any], float], data: RankingData, scores: Array) -> float:
    """Call a metric of the user."""
    value = metric(data.truth, scores, data.qid)
    if finite_number(value) is None:
        raise ParameterError(
            "{metric} returned {value} on {set}; it must return a finite number: is there a "
            "comparable pair?",
            metric=Param("eval_metric"),
            value=Value(value),
            set=Param("eval_set"),
        )
    return float(value)


def _only_set(given: Any) -> Any:
    """Return the only evaluation set of a list, or what is not such a list."""
    if not isinstance(given, list) or not given or not all(isinstance(p, tuple) for p in given):
        return given
    if len(given) > 1:
        raise ParameterError(
            "{set} must be one tuple (X, y) or (X, y, qid); got a list of {n}. {remedy}",
            remedy="Pass the set to watch, and evaluate the others after the fit.",
            set=Param("eval_set"),
            n=len(given),
        )
    return given[0]


def _only_ids(given: Any) -> Any:
    """Return the only element of a list, if it has more than one id or size."""
    if isinstance(given, list | tuple) and len(given) == 1 and np.ndim(given[0]) == 1:
        return given[0]
    return given


def _only_metric(given: Any) -> Any:
    """Return the metric, parsed if it has a name."""
    if isinstance(given, list | tuple):
        if len(given) != 1:
            raise ParameterError(
                "{metric} must be one metric; got {value}. {remedy}",
                remedy="Pass the one to watch, and compute others with ranksvm.metrics.evaluate.",
                metric=Param("eval_metric"),
                value=Value(given),
            )
        (given,) = given
    if given is None or (callable(given) and not isinstance(given, Metric)):
        return given
    try:
        return parse_metric(given)
    except ValueError as error:
        raise ParameterError(
            "{metric} must be the name of a metric, or be callable as "
            "eval_metric(y, scores, qid): {error}",
            metric=Param("eval_metric"),
            error=error,
        ) from None
