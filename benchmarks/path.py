"""Choosing C on five folds: along paths of warm starts, against the same fits from scratch.

Both sides fit the same training parts with the same grid of C to the same certified gap, one
thread, and take the same metric on what was held out; neither refits at the end.  The plain side is
the loop that a user would write around ``LinearRankSVM``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import LOSSES, Array, Call, Config, interleave, ratio
from benchmarks.report import Report, Row
from benchmarks.sets import Task, cadata_like, letor_like, real_tasks, reuters_like
from ranksvm import LinearRankSVM
from ranksvm.metrics import evaluate
from ranksvm.model_selection import LinearRankSVMCV, QueryKFold, default_Cs

TITLE = "the choice of C on five folds, along a path and from scratch"
METRIC = "pairwise_accuracy"
# The default of the estimators: a choice of C is about models as they will be used.
TOL = 1e-4
FOLDS = 5
FINE, COARSE = 19, 10
BETWEEN = 50.0 * 4.0**-3, 50.0 * 4.0**6  # that of features as they are

Rows = np.ndarray


@dataclass(frozen=True)
class Outcome:
    """Scores by fold and C, and the products with X of all fits."""

    scores: Array
    products: int


def run(config: Config, report: Report) -> None:
    sets: tuple[Callable[[], Task], ...] = (
        partial(letor_like, config.size(1_017, 40)),
        partial(cadata_like, config.size(16_000, 500)),
        partial(reuters_like, config.size(16_000, 500)),
    )
    tasks = [*(make() for make in sets), *real_tasks(report.note, only="MQ2008")]

    def table(n: int) -> list[Row]:
        return [
            compare(task, loss, default_Cs(n, task.reduction, task.n_pairs, BETWEEN), config)
            for task in tasks
            for loss in LOSSES
        ]

    rows = table(config.size(FINE, 5))
    report.table(f"{FOLDS} folds, {FINE} values, each twice the last", rows)
    report.table(
        f"{FOLDS} folds, the same range with {COARSE} values, each four times the last",
        table(config.size(COARSE, 3)),
    )
    report.note(f"certified relative gap {TOL:g} everywhere; scored by {METRIC}; 1 thread")
    worst = max(rows, key=lambda row: row["ratio"])
    detail = f"{worst['set']}, {worst['loss']}: the worst on the finer grid"
    report.reach("path", worst["ratio"], detail)


def compare(task: Task, loss: str, Cs: Array, config: Config) -> Row:
    """Time both ways on one set."""
    ids = np.arange(task.n_items) if task.qid is None else task.qid
    folds = list(QueryKFold(FOLDS).split(qid=ids))
    calls = {
        "path": Call(partial(along_the_path, task, loss, Cs, folds)),
        "cold": Call(partial(from_scratch, task, loss, Cs, folds)),
    }
    timings = interleave(calls, rounds=config.size(5, 1), seconds=config.size(20.0, 1.0))
    path, cold = timings["path"], timings["cold"]
    return {
        "set": task.name,
        "loss": loss,
        "C": f"{Cs[0]:.2g} to {Cs[-1]:.2g}",
        "path, s": path.seconds,
        "cold, s": cold.seconds,
        "ratio": ratio(path, cold),
        "path, products": path.result.products,
        "cold, products": cold.result.products,
        "products, ratio": path.result.products / cold.result.products,
        "best C, path": Cs[path.result.scores.mean(axis=0).argmax()],
        "best C, cold": Cs[cold.result.scores.mean(axis=0).argmax()],
    }


def along_the_path(task: Task, loss: str, Cs: Array, folds: list[tuple[Rows, Rows]]) -> Outcome:
    settings = {"loss": loss, "reduction": task.reduction, "tol": TOL, "metric": METRIC}
    model = LinearRankSVMCV(Cs, cv=folds, refit=False, scaling=None, n_jobs=1, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a best C at the edge of the grid is no news here
        table = model.fit(task.X, task.y, task.qid).cv_results_
    return Outcome(
        np.array([table[f"split{k}_test_score"] for k in range(FOLDS)]),
        int(sum(table[f"split{k}_n_products"].sum() for k in range(FOLDS))),
    )


def from_scratch(task: Task, loss: str, Cs: Array, folds: list[tuple[Rows, Rows]]) -> Outcome:
    settings = {"loss": loss, "reduction": task.reduction, "tol": TOL}
    scores = np.zeros((len(folds), len(Cs)))
    products = 0
    for k, (train, test) in enumerate(folds):
        X, y = task.X[train], task.y[train]
        X_test, y_test = task.X[test], task.y[test]
        qid, qid_test = (None if task.qid is None else task.qid[part] for part in (train, test))
        for j, C in enumerate(Cs):
            model = LinearRankSVM(C, scaling=None, n_jobs=1, **settings)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X, y, qid)
            products += model.n_products_
            scores[k, j] = evaluate(y_test, model.predict(X_test), qid_test, [METRIC])[METRIC]
    return Outcome(scores, products)
