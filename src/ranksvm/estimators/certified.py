"""Rankers that minimise an objective and say how near they came: fit, certificate, facts."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ranksvm.data.queries import QueryGroups
from ranksvm.estimators.base import BaseRanker, PairData, TrainingData, logged
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.model_io import ModelRecord
from ranksvm.solvers.base import Array, TraceRow
from ranksvm.training import Fit, Settings, fit_facts

__all__ = ["CertifiedRanker"]


class CertifiedRanker(BaseRanker):
    """A ranker whose ``fit`` solves a problem of :mod:`ranksvm.training`."""

    objective_: float
    gap_: float
    n_iter_: int
    n_products_: int
    n_pairs_: int
    status_: str
    history_: list[TraceRow]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    verbose: int
    _facts: dict[str, Any]

    @abstractmethod
    def _settings(self) -> Settings:
        """Return the parameters, checked."""

    @abstractmethod
    def _problem(self, data: Any, settings: Any) -> Any:
        """Make the problem of a training set."""

    @abstractmethod
    def _keep_model(self, problem: Any, fit: Fit) -> None:
        """Set the fitted attributes that predict needs."""

    def _start(self, problem: Any) -> Array | None:
        """Coefficients to begin with."""
        del problem
        return None

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        callback: Callable[[TraceRow, Array], Any] | None = None,
        **unknown: Any,
    ) -> Self:
        """Learn to rank the items of every query by their utility.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            Dense (C or Fortran order), CSR or CSC, float32 or float64.  A frame (pandas, polars,
            Arrow) may hold the next four arguments too: a string names a column, which is then no
            feature.
        y : array-like of shape (n_items,) or str
            Utilities: any real numbers, larger is better.
        qid : array-like of shape (n_items,), str or None, default=None
            Query of each item: integers or strings, in any row order.  None: one global ranking.
        group : array-like of shape (n_items,), str or None, default=None
            Another name for ``qid``.
        sample_weight : array-like of shape (n_items,), str or None, default=None
            Weight of each item; a pair weighs the product of both times its query's weight.
        query_weight : array-like of shape (n_queries,), mapping or None, default=None
            Weight of each query, in the order in which the queries first appear, or by query id.
        callback : callable or None, default=None
            Called as ``callback(row, coef)`` after every iteration with a ``TraceRow`` and the best
            coefficients so far; a true result stops the fit there.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit, unknown)
        with self._fitting():
            settings = self._settings()
            data = self._check_training(X, y, qid, group, sample_weight, query_weight)
            self._solve(data, settings, callback)
        return self

    def _solve(
        self,
        data: TrainingData | PairData,
        settings: Settings,
        callback: Callable[[Any, Array], Any] | None,
        **options: Any,
    ) -> None:
        problem = self._problem(data, settings)
        with logged(self.verbose) as logger:

            def report(row: Any, coef: Array) -> Any:
                logger.info(
                    "%s %d: objective %.8g, gap %.2e, %d products, %.2f s", problem.solver.name,
                    row.iteration, row.objective, row.gap, row.n_products, row.seconds,
                )  # fmt: skip
                return callback is not None and callback(row, coef.copy())

            fit = problem.solve(start=self._start(problem), callback=report, **options)
        self._keep(problem, fit, data.groups)
        if fit.shortfall is not None:
            name = type(self).__name__
            warnings.warn(f"{name}: {fit.shortfall}", ConvergenceWarning, stacklevel=3)

    def _keep(self, problem: Any, fit: Fit, groups: QueryGroups) -> None:
        self._keep_model(problem, fit)
        self._facts = fit_facts(fit, groups)
        self._keep_certificate(self._facts)
        self.history_ = list(fit.history)

    def _keep_certificate(self, facts: Mapping[str, Any]) -> None:
        self.objective_ = float(facts.get("objective", np.nan))
        self.gap_ = float(facts.get("gap", np.nan))
        self.n_iter_ = int(facts.get("n_iter", 0))
        self.n_products_ = int(facts.get("n_products", 0))
        self.n_pairs_ = int(facts.get("n_pairs", 0))
        self.status_ = str(facts.get("status", "unknown"))

    def _restore(self, record: ModelRecord, n_features: int) -> Self:
        """Take names and facts from a record; the model itself is there already."""
        self.n_features_in_ = n_features
        if record.feature_names is not None:
            self.feature_names_in_ = np.asarray(record.feature_names, dtype=object)
        facts = self._facts = dict(record.facts)
        self._frame_columns = frozenset(map(str, facts.pop("frame_columns", ())))
        self._qid_column = facts.pop("qid_column", None)
        self._keep_certificate(facts)
        self.history_ = []
        return self
