"""Linear RankSVM on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ranksvm.dask.ranker import DaskModelRanker
from ranksvm.estimators.linear import LinearRankSVM
from ranksvm.learners.linear import LinearSettings


class DaskLinearRankSVM(DaskModelRanker, LinearRankSVM):
    """Linear ranking SVM on a Dask cluster.

    The result does not depend on the number of workers, on which of them has which partition, or on
    workers that come and go; it has the same bits each time.  How the rows are cut into partitions
    changes it by rounding errors only.  Queries may be split over partitions.

    Parameters
    ----------
    C, loss, reduction, pair_weight, gain, discount, truncation, n_reweight, scaling, solver, \
counting, tol, max_iter, warm_start, verbose
        As for :class:`ranksvm.LinearRankSVM`.
    query_features : list or tuple of str, default=()
        As for :class:`ranksvm.LinearRankSVM`.  Workers make them from their rows.  The rows of
        queries that are split over partitions come to the client once, and have to take no more
        than a quarter of its memory.
    keep_features : bool, default=True
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
        C: float = 5.0,
        *,
        loss: str = "squared_hinge",
        reduction: str = "mean",
        pair_weight: str = "uniform",
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
            pair_weight=pair_weight,
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
            warm_start=warm_start,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.client = client
        self.threads_per_task = threads_per_task
        self.checkpoint = checkpoint

    def _start_options(self) -> dict[str, Any]:
        return {"start": self._start()}
