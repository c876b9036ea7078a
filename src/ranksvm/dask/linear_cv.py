"""Linear RankSVM on a Dask cluster, with C chosen by cross-validation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

from ranksvm.dask.clients import connected
from ranksvm.dask.engine import Engine
from ranksvm.dask.partitions import is_dask
from ranksvm.dask.ranker import DaskRanker
from ranksvm.data.ranking_data import RankingData
from ranksvm.estimators.checks import check_both_have_ids
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.inputs import fitting
from ranksvm.estimators.linear import LinearRankSVM
from ranksvm.model_selection.grids import N_CS
from ranksvm.model_selection.linear_cv import LinearRankSVMCV
from ranksvm.model_selection.search import Progress


class DaskLinearRankSVMCV(DaskRanker, LinearRankSVMCV):
    """Linear ranking SVM on a Dask cluster, with C chosen by cross-validation.

    Parameters
    ----------
    Cs, loss, reduction, pair_weight, pair_weights, gain, discount, truncation, n_reweight, \
scaling, solver, counting, tol, max_iter, cv, metric, conventions, refit, checkpoint, verbose
        As for :class:`ranksvm.LinearRankSVMCV`.
    query_features, keep_features
        As for :class:`DaskLinearRankSVM`.
    n_jobs : int or None, default=None
        Number of threads at the client, which run folds in parallel; None or -1 uses all cores.
    client, threads_per_task
        As for :class:`DaskLinearRankSVM`.

    Attributes
    ----------
    C_, pair_weight_, best_index_, best_score_, metric_, Cs_, cv_results_, n_splits_, \
best_estimator_, coef_, objective_, gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ranksvm.LinearRankSVMCV`.
    """

    _local = LinearRankSVM

    def __init__(
        self,
        Cs: Any = N_CS,
        *,
        loss: str = "squared_hinge",
        reduction: str = "mean",
        pair_weight: str = "uniform",
        pair_weights: Any = None,
        gain: str = "exp2",
        discount: str = "log2",
        truncation: int = 30,
        n_reweight: int = 1,
        scaling: str | None = "auto",
        query_features: Sequence[str] = (),
        keep_features: bool = True,
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        cv: Any = 5,
        metric: str | None = "auto",
        conventions: str = "standard",
        refit: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        client: Any = None,
        threads_per_task: int = 1,
    ) -> None:
        super().__init__(
            Cs,
            loss=loss,
            reduction=reduction,
            pair_weight=pair_weight,
            pair_weights=pair_weights,
            gain=gain,
            discount=discount,
            truncation=truncation,
            n_reweight=n_reweight,
            scaling=scaling,
            query_features=query_features,
            keep_features=keep_features,
            solver=solver,
            counting=counting,
            tol=tol,
            max_iter=max_iter,
            cv=cv,
            metric=metric,
            conventions=conventions,
            refit=refit,
            checkpoint=checkpoint,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.client = client
        self.threads_per_task = threads_per_task

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        validation: Any = None,
        progress: Progress | None = None,
        **unknown: Any,
    ) -> Self:
        """Choose C, then fit a model with it.

        Parameters
        ----------
        X, y, qid, group, sample_weight, query_weight
            As for :meth:`DaskLinearRankSVM.fit`.
        validation : tuple (X, y) or (X, y, qid), Dask DataFrame, list or None, default=None
            Validation set to compute the metric on, instead of folds.  If y and qid are names of
            columns, or X is a list, a frame or list of the same kind is enough.
        progress : callable or None, default=None
            Called as ``progress(done, total, message)`` after each fit.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit, unknown)
        with fitting(self), connected(self.client) as engine:
            settings = self._unfitted()._settings(self._settings_class)
            data = self._read(
                engine, X, y, qid, group=group, sample_weight=sample_weight,
                query_weight=query_weight,
            )  # fmt: skip
            held_out = None
            if validation is not None:
                ids = qid if group is None else group
                held_out = self._validation(engine, validation, y, ids)
                has_ids = held_out.qid is not None
                check_both_have_ids("validation", has_ids, data.qid is not None)
            found, fit = self._search(data, settings, held_out, progress)
        self._warn(found, fit)
        return self

    def _validation(self, engine: Engine, given: Any, y: Any, qid: Any) -> RankingData:
        parts: Any = given if isinstance(given, tuple) and not is_dask(given) else (given,)
        columns = [one if isinstance(one, str) else None for one in (y, qid)]
        parts = (*parts, *columns[len(parts) - 1 :])
        if len(parts) != 3:
            raise ValueError(
                "validation must be one tuple (X, y) or (X, y, qid), like the training set; got a "
                f"tuple of {len(given)}"
            )
        return self._known(engine, "validation", *parts)

    def to_local(self) -> LinearRankSVM:
        """Return the fitted model as a :class:`ranksvm.LinearRankSVM`, which needs no cluster."""
        found: LinearRankSVM = self._refitted()
        return found
