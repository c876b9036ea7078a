"""RankSVM with kernel features on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ranksvm._messages import Param, ParameterError
from ranksvm.dask.ranker import DaskModelRanker
from ranksvm.estimators.kernel import KernelRankSVM
from ranksvm.learners.kernel import KernelSettings


class DaskKernelRankSVM(DaskModelRanker, KernelRankSVM):
    """Ranking SVM with an approximate kernel on a Dask cluster.

    Landmarks are drawn from all partitions; the features of a partition are made by the worker that
    has it.

    Parameters
    ----------
    C, kernel, gamma, degree, coef0, n_components, landmarks, loss, reduction, pair_weight, gain, \
discount, truncation, n_reweight, scaling, solver, counting, tol, max_iter, memory_budget, dtype, \
random_state, verbose
        As for :class:`ranksvm.KernelRankSVM`.
    query_features, keep_features
        As for :class:`DaskLinearRankSVM`.
    approximation : {"nystroem", "fourier"}, default="nystroem"
        Approximate kernel features.  An exact kernel needs all items in one place.
    n_jobs, client, threads_per_task
        As for :class:`DaskLinearRankSVM`.
    checkpoint : path-like or None, default=None
        As for :class:`DaskLinearRankSVM`; it needs an integer as ``random_state``.

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
        C: float = 1000.0,
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
        memory_budget: int | str = "4GB",
        dtype: str = "float64",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        client: Any = None,
        threads_per_task: int = 1,
        checkpoint: str | os.PathLike[str] | None = None,
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
            memory_budget=memory_budget,
            dtype=dtype,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.client = client
        self.threads_per_task = threads_per_task
        self.checkpoint = checkpoint

    def _check_settings(self, settings: KernelSettings) -> None:
        if settings.approximation is None or settings.kernel == "precomputed":
            raise ParameterError(
                "an exact kernel needs all items in one place, and does not work on a cluster. Use "
                "{choices}, or KernelRankSVM with data in memory.",
                choices=Param("approximation", "nystroem", "fourier"),
            )
