"""Estimators for data on a Dask cluster.

They have the parameters and attributes of the classes for data in memory, which they derive from.
The client runs the solver; the workers make the products with their rows.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ranksvm._checks import check_integer
from ranksvm._messages import Param, ParameterError
from ranksvm._threads import resolve_n_jobs
from ranksvm.dask.engine import Engine, WorkersLostError
from ranksvm.dask.partitions import is_dask, training_shards
from ranksvm.dask.scoring import lazy_scores
from ranksvm.data.ranking_data import RankingData
from ranksvm.estimators.base import Ranker
from ranksvm.estimators.checks import check_both_have_ids, check_overflow
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.inputs import FEATURE_FACTS, fitting
from ranksvm.estimators.kernel import KernelRankSVM
from ranksvm.estimators.linear import LinearRankSVM
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.learners import make_problem
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.linear import LinearSettings
from ranksvm.learners.problem import Fit
from ranksvm.learners.resume import FitState
from ranksvm.learners.settings import Settings
from ranksvm.learners.sharded import model_scores
from ranksvm.metrics.order import mean_accuracy
from ranksvm.metrics.ranked import Truth
from ranksvm.model_selection.grids import N_CS
from ranksvm.model_selection.linear_cv import LinearRankSVMCV
from ranksvm.model_selection.search import Progress
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

    @contextmanager
    def _engine(self) -> Iterator[Engine]:
        """Yield the engine of one fit, and release everything that it holds afterwards."""
        engine = Engine(find_client(self.client))
        try:
            yield engine
        finally:
            engine.close()

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

    def predict(self, X: Any) -> Any:
        """Score items; larger is ranked higher.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array, or list of delayed objects or futures
            A frame may still contain the columns that ``fit`` used for labels, query ids and
            weights.  Data in memory works, too.

        Returns
        -------
        Dask Series, Dask Array, or list of delayed objects or futures
            Scores with the partitions of X, not computed yet; an ndarray for data in memory.
        """
        check_is_fitted(self)
        return lazy_scores(self.to_local(), X) if is_dask(X) else super().predict(X)

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
        with self._engine() as engine:
            data = self._known(engine, "X", X, y, qid, sample_weight=sample_weight)
            scores = model_scores(self._get_model(), data.X)
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
        names = getattr(self, "feature_names_in_", None)
        expected = None if names is None else tuple(names)
        if data.n_features != self.n_features_in_ or (
            None not in (data.feature_names, expected) and data.feature_names != expected
        ):
            raise ValueError(
                f"{name} must have the features of the training set, in the same order; got "
                f"{data.n_features} features, expected {self.n_features_in_}"
            )
        return data

    def rank(self, X: Any, qid: Any = None, **unknown: Any) -> NDArray[np.int64]:
        """Rank the items of each query; X in memory, as for :meth:`ranksvm.LinearRankSVM.rank`."""
        _refuse_dask(X, "rank", "sort the scores that predict returns by query")
        return super().rank(X, qid, **unknown)

    def explain(self, X: Any, i: int, j: int) -> Any:
        """Explain a difference of scores; X in memory, as for :meth:`ranksvm.LinearRankSVM`."""
        _refuse_dask(X, "explain", "compute the rows to explain")
        return super().explain(X, i, j)

    def score_pairs(self, X: Any, better: ArrayLike, worse: ArrayLike, weight: Any = None) -> float:
        """As for :meth:`ranksvm.LinearRankSVM.score_pairs`; X in memory."""
        _refuse_dask(X, "score_pairs", "compute the items of the pairs")
        return super().score_pairs(X, better, worse, weight)

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


def find_client(client: Any) -> Any:
    """Return the client to use: the given one, or the current one."""
    from distributed import get_client

    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ParameterError(
                "there is no Dask client. Create one first (dask.distributed.Client()), or pass "
                "{client}.",
                client=Param("client"),
            ) from None
    if getattr(client, "asynchronous", False):
        raise ParameterError(
            "{client} is asynchronous, and fit is not: use Client() without asynchronous=True, or "
            "run fit in a thread with a client of its own.",
            client=Param("client"),
        )
    return client


def _refuse_dask(X: Any, method: str, instead: str) -> None:
    if is_dask(X):
        raise TypeError(
            f"{method}() works on data in memory; got a Dask collection. Call X.compute(), or "
            f"{instead}."
        )


class DaskModelRanker(DaskRanker, ModelRanker):
    """An estimator of this package that fits one model."""

    _settings_class: ClassVar[type[Settings]]
    _local: ClassVar[type[ModelRanker]]

    def _fit(
        self,
        X: Any,
        y: Any,
        qid: Any,
        callback: Callback | None,
        checkpoint: Any = None,
        **options: Any,
    ) -> Self:
        with fitting(self), self._engine() as engine:
            settings = self._settings(self._settings_class)
            data = self._read(engine, X, y, qid, **options)
            problem = make_problem(data, settings, n_threads=resolve_n_jobs(self.n_jobs))
            state = None if checkpoint is None else FitState.of(checkpoint, data, settings)
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
        self._warn_if_early(fit)
        return self

    def _start_options(self) -> dict[str, Any]:
        return {}

    def _about(self) -> dict[str, Any]:
        about = super()._about()
        known = self._local._get_param_names()
        params = {name: value for name, value in about["params"].items() if name in known}
        return {**about, "params": params}

    def fit_pairs(self, X: Any, *arguments: Any, **options: Any) -> Self:
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


class DaskLinearRankSVM(DaskModelRanker, LinearRankSVM):
    """Linear ranking SVM on a Dask cluster.

    The result does not depend on the number of workers, on which of them has which partition, or on
    workers that come and go; it has the same bits each time.  How the rows are cut into partitions
    changes it by rounding errors only.  Queries may be split over partitions.

    Parameters
    ----------
    C, loss, reduction, solver, counting, tol, max_iter, warm_start, verbose
        As for :class:`ranksvm.LinearRankSVM`.
    n_jobs : int or None, default=None
        Number of threads at the client; None or -1 uses all cores.
    client : distributed.Client or None, default=None
        None uses the current client.
    threads_per_task : int, default=1
        Number of threads of one task on a worker.  A worker runs as many tasks at a time as Dask
        has given it threads.
    checkpoint : path-like or None, default=None
        File on the machine of the client that keeps the coefficients after every iteration (.npz).
        If a fit ends early, because the workers were lost or the client was killed, the next one
        with the same data and parameters continues from it.  It is removed after a complete fit.

    Attributes
    ----------
    coef_, objective_, gap_, n_iter_, n_products_, n_pairs_, status_, history_, n_features_in_, \
feature_names_in_
        As for :class:`ranksvm.LinearRankSVM`.  ``n_iter_`` includes the iterations before a
        continuation, ``history_`` does not.

    Examples
    --------
    >>> import dask.array
    >>> from dask.distributed import Client
    >>> from ranksvm.dask import DaskLinearRankSVM
    >>> from ranksvm.datasets import make_ranking
    >>> X, y, qid, _ = make_ranking(n_queries=30, random_state=0)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     items = dask.array.from_array(X, chunks=(100, -1))
    ...     model = DaskLinearRankSVM().fit(items, y, qid=qid)
    >>> model.coef_.shape == (X.shape[1],)
    True
    """

    _local = LinearRankSVM
    _settings_class = LinearSettings

    def __init__(
        self,
        C: float = 50.0,
        *,
        loss: str = "squared_hinge",
        reduction: str = "mean",
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        client: Any = None,
        threads_per_task: int = 1,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            C,
            loss=loss,
            reduction=reduction,
            solver=solver,
            counting=counting,
            tol=tol,
            max_iter=max_iter,
            warm_start=warm_start,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.client = client
        self.threads_per_task = threads_per_task
        self.checkpoint = checkpoint

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
        return self._fit(
            X,
            y,
            qid,
            callback,
            self.checkpoint,
            group=group,
            sample_weight=sample_weight,
            query_weight=query_weight,
        )

    def _start_options(self) -> dict[str, Any]:
        return {"start": self._start()}


class DaskKernelRankSVM(DaskModelRanker, KernelRankSVM):
    """Ranking SVM with an approximate kernel on a Dask cluster.

    Landmarks are drawn from all partitions; the features of a partition are made by the worker that
    has it.

    Parameters
    ----------
    C, kernel, gamma, degree, coef0, n_components, landmarks, loss, reduction, solver, counting, \
tol, max_iter, memory_budget, dtype, random_state, verbose
        As for :class:`ranksvm.KernelRankSVM`.
    approximation : {"nystroem", "fourier"}, default="nystroem"
        Approximate kernel features.  An exact kernel needs all items in one place.
    n_jobs : int or None, default=None
        Number of threads at the client; None or -1 uses all cores.
    client : distributed.Client or None, default=None
        None uses the current client.
    threads_per_task : int, default=1
        Number of threads of one task on a worker.

    Attributes
    ----------
    components_, coef_, random_offset_, gamma_, objective_, gap_, n_iter_, n_products_, n_pairs_, \
status_, history_, n_features_in_, feature_names_in_
        As for :class:`ranksvm.KernelRankSVM`.
    """

    _local = KernelRankSVM
    _settings_class = KernelSettings

    def __init__(
        self,
        C: float = 50.0,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str | None = "nystroem",
        n_components: int = 500,
        landmarks: str = "uniform",
        loss: str = "squared_hinge",
        reduction: str = "mean",
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        memory_budget: int | str = "4GB",
        dtype: str = "float64",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        client: Any = None,
        threads_per_task: int = 1,
    ) -> None:
        super().__init__(
            C,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            n_components=n_components,
            landmarks=landmarks,
            loss=loss,
            reduction=reduction,
            solver=solver,
            counting=counting,
            tol=tol,
            max_iter=max_iter,
            memory_budget=memory_budget,
            dtype=dtype,
            random_state=random_state,
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
        callback: Callback | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model to labeled items.

        Parameters
        ----------
        X, y, qid, group, sample_weight, query_weight, callback
            As for :meth:`DaskLinearRankSVM.fit`.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit, unknown)
        if self.approximation is None or self.kernel == "precomputed":
            raise ParameterError(
                "an exact kernel needs all items in one place, and does not work on a cluster. Use "
                "{choices}, or KernelRankSVM with data in memory.",
                choices=Param("approximation", "nystroem", "fourier"),
            )
        return self._fit(
            X,
            y,
            qid,
            callback,
            group=group,
            sample_weight=sample_weight,
            query_weight=query_weight,
        )


class DaskLinearRankSVMCV(DaskRanker, LinearRankSVMCV):
    """Linear ranking SVM on a Dask cluster, with C chosen by cross-validation.

    Parameters
    ----------
    Cs, loss, reduction, solver, counting, tol, max_iter, cv, metric, conventions, refit, \
checkpoint, verbose
        As for :class:`ranksvm.LinearRankSVMCV`.
    n_jobs : int or None, default=None
        Number of threads at the client, which run folds in parallel; None or -1 uses all cores.
    client : distributed.Client or None, default=None
        None uses the current client.
    threads_per_task : int, default=1
        Number of threads of one task on a worker.

    Attributes
    ----------
    C_, best_index_, best_score_, Cs_, cv_results_, n_splits_, best_estimator_, coef_, objective_, \
gap_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`ranksvm.LinearRankSVMCV`.
    """

    _local = LinearRankSVM

    def __init__(
        self,
        Cs: Any = N_CS,
        *,
        loss: str = "squared_hinge",
        reduction: str = "mean",
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        cv: Any = 5,
        metric: str = "pairwise_accuracy",
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
        with fitting(self), self._engine() as engine:
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
