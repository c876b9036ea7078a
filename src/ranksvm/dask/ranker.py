"""What the estimators for data on a Dask cluster share.

They have the parameters and attributes of the classes for data in memory, which they derive from.
The client runs the solver; the workers make the products with their rows.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ranksvm._checks import check_integer
from ranksvm._threads import resolve_n_jobs
from ranksvm.dask.clients import connected
from ranksvm.dask.engine import Engine, WorkersLostError
from ranksvm.dask.partitions import column_difference, is_dask, training_shards
from ranksvm.dask.scoring import lazy_scores
from ranksvm.data.ranking_data import RankingData
from ranksvm.estimators.base import Ranker
from ranksvm.estimators.checks import check_overflow
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.inputs import FEATURE_FACTS, fitting
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.learners import make_problem
from ranksvm.learners.fit import Fit
from ranksvm.learners.resume import FitState
from ranksvm.learners.settings import Settings
from ranksvm.learners.views import model_scores
from ranksvm.metrics.order import mean_accuracy
from ranksvm.metrics.ranked import Truth
from ranksvm.solvers.base import Callback


class DaskRanker(Ranker):
    """What the estimators of this package share."""

    client: Any
    threads_per_task: int
    _local: ClassVar[type[Ranker]]

    def __sklearn_clone__(self) -> Self:
        # A client cannot be copied; the clone uses the same one.
        params = {
            name: value if name == "client" else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        made = type(self)(**params)
        if hasattr(self, "_metadata_request"):
            made._metadata_request = clone(self._metadata_request, safe=False)
        return made

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "client": None}

    def _read(self, engine: Engine, X: Any, y: Any, qid: Any, **options: Any) -> RankingData:
        """Return the training set, and set what is known about its features."""
        check_integer("threads_per_task", self.threads_per_task)
        data = training_shards(engine, X, y, qid, n_threads=self.threads_per_task, **options)
        self._frame_columns = frozenset(data.origin.frame_columns)
        self._qid_column = data.origin.qid_column
        self.n_features_in_ = data.n_features
        self.__dict__.pop("feature_names_in_", None)
        if data.feature_names is not None:
            self.feature_names_in_ = np.asarray(data.feature_names, dtype=object)
        return data

    def predict(self, X: Any, qid: Any = None) -> Any:
        """Score items; larger is ranked higher.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array, or list of delayed objects or futures
            A frame may still contain the columns that ``fit`` used for labels, query ids and
            weights.  Data in memory works, too.
        qid : str, Dask Series, Dask Array, array or None, default=None
            Query ids, which only ``query_features`` need: the name of a column of X, or ids with
            the partitions of X.  None: the column that was used in ``fit``.  Tuples in a list have
            their own, as in ``fit``.  Every query has to be in one partition, which is checked when
            the scores are computed.

        Returns
        -------
        Dask Series, Dask Array, or list of delayed objects or futures
            Scores with the partitions of X, not computed yet; an ndarray for data in memory.
        """
        check_is_fitted(self)
        return lazy_scores(self.to_local(), X, qid) if is_dask(X) else super().predict(X, qid)

    def score(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        **unknown: Any,
    ) -> float:
        """Pairwise accuracy, averaged over queries.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in ``fit``, or data in memory.  Query ids are those of the column that was used in
            ``fit``, if there is one and ``qid`` is None.

        Returns
        -------
        float
            As for :meth:`ranksvm.LinearRankSVM.score`.
        """
        if not is_dask(X):
            return super().score(X, y, qid, sample_weight, **unknown)
        refuse_unknown(self, self.score, unknown)
        check_is_fitted(self)
        if qid is None and self._qid_column in getattr(X, "columns", ()):
            qid = self._qid_column
        with connected(self.client) as engine:
            data = self._known(engine, "X", X, y, qid, sample_weight=sample_weight)
            scores = model_scores(self._get_model(), data)
        truth = Truth(data.truth, data.qid, n_jobs=self.n_jobs)
        return mean_accuracy(truth.ranked(check_overflow(scores)), data.item_weight)

    def _known(
        self, engine: Engine, name: str, X: Any, y: Any, qid: Any, **options: Any
    ) -> RankingData:
        """Return a data set whose features must be those of the training set."""
        data = training_shards(
            engine, X, y, qid, left_out=self._frame_columns, n_threads=self.threads_per_task,
            **options,
        )  # fmt: skip
        names, expected = data.feature_names, getattr(self, "feature_names_in_", None)
        if names is not None and expected is not None:
            what = column_difference(names, expected.tolist())
        elif data.n_features != self.n_features_in_:
            what = f"{data.n_features} features instead of {self.n_features_in_}"
        else:
            what = None
        if what is not None:
            raise ValueError(
                f"{name} must have the features of the training set, in the same order. It has "
                f"{what}."
            )
        return data

    def rank(self, X: Any, qid: Any = None, **unknown: Any) -> NDArray[np.int64]:
        """Rank the items of each query; X in memory, as for :meth:`ranksvm.LinearRankSVM.rank`."""
        _refuse_dask(X, "rank", "sort the scores that predict returns by query")
        return super().rank(X, qid, **unknown)

    def explain(self, X: Any, i: int, j: int, qid: Any = None) -> Any:
        """Explain a difference of scores; X in memory, as for :meth:`ranksvm.LinearRankSVM`."""
        _refuse_dask(X, "explain", "compute the rows to explain")
        return super().explain(X, i, j, qid)

    def score_pairs(
        self,
        X: Any = None,
        better: ArrayLike | None = None,
        worse: ArrayLike | None = None,
        weight: Any = None,
        qid: Any = None,
        *,
        chosen: Any = None,
        rejected: Any = None,
    ) -> float:
        """As for :meth:`ranksvm.LinearRankSVM.score_pairs`; X in memory."""
        for one in (X, chosen, rejected):
            _refuse_dask(one, "score_pairs", "compute the items of the pairs")
        return super().score_pairs(X, better, worse, weight, qid, chosen=chosen, rejected=rejected)

    def fit_files(self, paths: Any, *arguments: Any, **options: Any) -> Self:
        """Raise a TypeError: Dask reads files, too."""
        raise TypeError(
            f"{type(self).__name__} has no fit_files: read the files with Dask "
            "(dask.dataframe.read_parquet) and pass the frame to fit, or train on this machine "
            f"with {self._local.__name__}.fit_files."
        )

    @abstractmethod
    def to_local(self) -> Any:
        """Return the fitted model as an ordinary estimator, which needs no cluster."""


class DaskModelRanker(DaskRanker, ModelRanker):
    """An estimator of this package that fits one model."""

    checkpoint: str | os.PathLike[str] | None
    _settings_class: ClassVar[type[Settings]]
    _local: ClassVar[type[ModelRanker]]

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        callback: Callback | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model to labeled items.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array, or list of delayed objects or futures
            Features.  A Dask Array may have dense or sparse (SciPy) blocks.  The elements of a list
            are tuples (X, y), (X, y, qid) or (X, y, qid, sample_weight), or frames.
        y : str, Dask Series, Dask Array or None
            Labels: the name of a column of X, or a collection with the same partitions.  With a
            Dask Array whose chunk sizes are known, also an array in memory.  None if X is a list of
            tuples.
        qid, group : str, Dask Series, Dask Array or None, default=None
            Query ids, likewise; integers, strings or categories, in any order.  ``group`` is an
            alias.  None: all items belong to one ranking.
        sample_weight : str, Dask Series, Dask Array or None, default=None
            Weights of the items, likewise.
        query_weight : array-like of shape (n_queries,), mapping or None, default=None
            Weight of each query, in order of first appearance, or as a mapping from query id.
        callback : callable or None, default=None
            As for :meth:`ranksvm.LinearRankSVM.fit`.

        Returns
        -------
        self

        Raises
        ------
        WorkersLostError
            If there has been no worker for half a minute, or a partition cannot be computed again.
        ValueError
            If the data is not as it should be; the message names the partition.
        """
        refuse_unknown(self, self.fit, unknown)
        with fitting(self), connected(self.client) as engine:
            settings = self._settings(self._settings_class)
            self._check_settings(settings)
            data = self._read(
                engine, X, y, qid, group=group, sample_weight=sample_weight,
                query_weight=query_weight,
            )  # fmt: skip
            state = None
            if self.checkpoint is not None:
                state = FitState.of(self.checkpoint, data, settings)
            problem = make_problem(data, settings, n_threads=resolve_n_jobs(self.n_jobs))
            try:
                fit: Fit = self._solve(problem, callback, state=state, **self._start_options())
            except WorkersLostError as error:
                if state is None or not state.n_iter:
                    raise
                raise WorkersLostError(
                    f"{error} The state after iteration {state.n_iter} is in {state.path}: a fit "
                    "with the same checkpoint continues from there."
                ) from error
            self._keep(problem.model(fit), fit.history)
            if state is not None:
                state.finish(fit)
        self._warn_if_early(fit)
        return self

    def _check_settings(self, settings: Any) -> None:
        """Raise if a fit with these parameters does not work on a cluster."""

    def _start_options(self) -> dict[str, Any]:
        """Return where the fit starts, as arguments of ``solve``."""
        return {}

    def _about(self) -> dict[str, Any]:
        about = super()._about()
        known = self._local._get_param_names()
        params = {name: value for name, value in about["params"].items() if name in known}
        return {**about, "params": params}

    def fit_pairs(self, X: Any = None, *arguments: Any, **options: Any) -> Self:
        """Raise a TypeError: pairs of rows are for data in memory."""
        raise TypeError(
            f"{type(self).__name__} learns from labels; for explicit pairs use "
            f"{self._local.__name__}.fit_pairs with data in memory."
        )

    def to_local(self) -> Any:
        check_is_fitted(self)
        params = self.get_params(deep=False)
        known = self._local._get_param_names()
        local = self._local(**{name: value for name, value in params.items() if name in known})
        facts = {name: self.__dict__[name] for name in FEATURE_FACTS if name in self.__dict__}
        local.__dict__.update(facts)
        local._keep(self._get_model(), self.history_)
        return local


def _refuse_dask(X: Any, method: str, instead: str) -> None:
    if is_dask(X):
        raise TypeError(
            f"{method}() works on data in memory; got a Dask collection. Call X.compute(), or "
            f"{instead}."
        )
