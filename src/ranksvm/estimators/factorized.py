"""Factorized RankSVM (Zhang, Xu, Lan, Guo, Xie, Huang & Cheng).

    F(V) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - w.x_better + w.x_worse)
    w    = sum over comparable pairs of <v_better, v_worse> (x_better - x_worse)

Every item has a vector of ``n_factors`` numbers, and the Lagrange multiplier of a pair is the inner
product of the vectors of its two items.  F is minimized over these vectors.  It is not convex, but
it is the objective of :class:`ranksvm.LinearRankSVM` at w, and nearly every w can be written this
way: minimized to the end, it gives the linear model.  With a validation set it stops early.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from ranksvm._vectors import Array
from ranksvm.estimators.callbacks import joined
from ranksvm.estimators.evaluation import EvalMetric, evaluation
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.importances import LinearImportances
from ranksvm.estimators.inputs import fitting, training_data
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.learners.factor_descent import Restart
from ranksvm.learners.factorized_model import FactorizedModel
from ranksvm.learners.factors import REMOVED, FactorizedSettings
from ranksvm.solvers.base import Callback


class FactorizedRankSVM(LinearImportances, ModelRanker):
    """Ranking SVM whose Lagrange multipliers are inner products of low-dimensional vectors.

    Parameters
    ----------
    n_factors : int, default=10
        Length of the vector of each item.
    C : float, default=5.0
        Weight of the loss relative to the regularizer; a larger C fits the training data more
        closely.  Its scale depends on ``reduction``.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a pair.
    reduction : {"sum", "mean", "query_mean"}, default="mean"
        How the losses of all pairs are combined; as for :class:`ranksvm.LinearRankSVM`.
    max_iter : int, default=500
        Maximum number of iterations of a restart.
    tol : float, default=1e-3
        Stop when the objective is certified to be within ``tol`` (relative) of the global optimum.
    n_restarts : int, default=1
        Number of random starts (with ``init="random"``).  They run in parallel, and the best one is
        kept: the highest score on ``eval_set`` or, without one, the lowest objective.
    init : {"random", "linear"}, default="random"
        Start from random factors, or from factors of the multipliers of the linear model.
    init_scale : float, default=0.1
        Standard deviation of the scores at a random start, within queries; the margin is 1.
    pair_weight : {"uniform", "gain"}, default="uniform"
    gain : {"exp2", "linear"}, default="exp2"
    discount : {"log2", "letor"}, default="log2"
        What multiplies the weights of pairs; as for :class:`ranksvm.LinearRankSVM`.
    scaling : {"auto", "standard", "minmax", "robust"} or None, default="auto"
        As for :class:`ranksvm.LinearRankSVM`.
    missing : {"error", "impute"}, default="error"
    min_frequency : int, float or None, default=None
        How columns of a frame become features; as for :class:`ranksvm.LinearRankSVM`.
    query_features : list or tuple of str, default=()
        Features of the query; as for :class:`ranksvm.LinearRankSVM`.
    keep_features : bool, default=True
        Whether the features themselves are used beside their ``query_features``.
    optimizer : {"auto", "lbfgs"}, default="auto"
        Deprecated: there is one optimizer, SciPy's L-BFGS.
    patience : int, default=20
        With an ``eval_set``: stop after this many iterations without a better score.
    random_state : int, RandomState or None, default=None
        Seed of the random starts.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.  The result does
        not depend on it.
    verbose : int, default=0
        1 logs every iteration (logger "ranksvm") and prints it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features, w; with ``query_features`` as for :class:`ranksvm.LinearRankSVM`.
    factors_ : ndarray of shape (n_items, n_factors)
        Factors of the training items, V.
    objective_ : float
        Value of the objective.
    gap_ : float
        Certified bound on ``objective_`` minus the global optimum.
    n_iter_ : int
        Number of iterations of the restart that was kept.
    n_products_ : int
        Number of products with X or its transpose: of all restarts, and of the linear fit that
        gives the bound.
    n_pairs_ : int
        Number of comparable pairs of positive weight.
    status_ : str
        "converged", "early" (the score on ``eval_set`` stopped improving), "exhausted" (no step
        lowers the objective), "max_iter" or "stopped" (by the callback).
    history_ : list of TraceRow
        One row per iteration of the restart that was kept, starting with the initial point:
        iteration, objective, gap, n_products, seconds, metric.  Empty in a model that was loaded
        from a file.
    eval_metric_ : str or None
        Name of the metric on ``eval_set``.
    feature_importances_ : ndarray of shape (n_features_in_,)
        As for :class:`ranksvm.LinearRankSVM`.
    restarts_ : list of Restart
        Seed, objective, validation score, iterations, status and history of every restart.
    best_iteration_ : int
        The iteration that was kept.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Examples
    --------
    >>> from ranksvm import FactorizedRankSVM
    >>> X = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0], [1.0, 2.0]]
    >>> y = [2, 0, 1, 0, 1]
    >>> qid = ["a", "a", "a", "b", "b"]
    >>> model = FactorizedRankSVM(n_factors=2, random_state=0).fit(X, y, qid=qid)
    >>> model.rank(X, qid=qid)
    array([1, 3, 2, 2, 1])
    >>> model.gap_ <= 1e-3 * model.objective_
    True
    """

    coef_: Array
    _deviation: Array | None = None
    factors_: Array
    restarts_: list[Restart]
    best_iteration_: int

    def __init__(
        self,
        n_factors: int = 10,
        C: float = 5.0,
        *,
        loss: str = "hinge",
        reduction: str = "mean",
        pair_weight: str = "uniform",
        gain: str = "exp2",
        discount: str = "log2",
        scaling: str | None = "auto",
        missing: str = "error",
        min_frequency: float | None = None,
        query_features: Sequence[str] = (),
        keep_features: bool = True,
        max_iter: int = 500,
        tol: float = 1e-3,
        n_restarts: int = 1,
        init: str = "random",
        init_scale: float = 0.1,
        optimizer: str = "auto",
        patience: int = 20,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.C = C
        self.loss = loss
        self.reduction = reduction
        self.pair_weight = pair_weight
        self.gain = gain
        self.discount = discount
        self.scaling = scaling
        self.missing = missing
        self.min_frequency = min_frequency
        self.query_features = query_features
        self.keep_features = keep_features
        self.max_iter = max_iter
        self.tol = tol
        self.n_restarts = n_restarts
        self.init = init
        self.init_scale = init_scale
        self.optimizer = optimizer
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        eval_set: Any = None,
        eval_qid: ArrayLike | str | None = None,
        eval_group: ArrayLike | str | None = None,
        eval_metric: EvalMetric | None = None,
        callback: Callback | None = None,
        callbacks: Sequence[Callback] | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model to labeled items.

        Parameters
        ----------
        X, y, qid, group, sample_weight, query_weight
            As for :meth:`ranksvm.LinearRankSVM.fit`.
        eval_set, eval_qid, eval_group, eval_metric
            As for :meth:`ranksvm.LinearRankSVM.fit`; and the fit stops early: the model of the
            iteration with the best value of the metric is kept.
        callback, callbacks
            As for :meth:`ranksvm.LinearRankSVM.fit`, after every iteration of every restart.  A
            true return value stops all restarts.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit, unknown)
        with fitting(self):
            settings = self._settings(FactorizedSettings)
            if settings.optimizer in REMOVED:
                warnings.warn(
                    f"optimizer={settings.optimizer!r} was removed: it needed many more products "
                    "with X for the same objective. L-BFGS is used instead; drop the parameter.",
                    FutureWarning,
                    stacklevel=2,
                )
            data = training_data(
                self, X, y, qid, group=group, sample_weight=sample_weight, query_weight=query_weight
            )
            evaluated = evaluation(
                self, data, settings, y, qid if group is None else group, eval_set=eval_set,
                eval_qid=eval_qid, eval_group=eval_group, eval_metric=eval_metric,
            )  # fmt: skip
            told = joined(callback, callbacks)
            fit: Any = self._fit_data(data, settings, told, evaluated=evaluated)
            self.restarts_ = list(fit.restarts)
        self._warn_if_early(fit)
        return self

    def _set_model(self, model: FactorizedModel) -> None:
        self.coef_, self._deviation = model.coef, model.deviation
        self.factors_ = model.factors
        self.restarts_ = []
        self.best_iteration_ = int(model.facts.get("best_iteration", 0))

    def _get_model(self) -> FactorizedModel:
        return FactorizedModel(
            coef=self.coef_, deviation=self._deviation, factors=self.factors_, **self._about()
        )
