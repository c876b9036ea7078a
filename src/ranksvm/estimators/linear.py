"""Linear RankSVM.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - w.x_better + w.x_worse)

with loss(t) = max(0, t) ("hinge") or max(0, t)^2 ("squared_hinge").  ``reduction`` says what the
sum means:

    "sum"         the plain sum over pairs (Lee & Lin)
    "mean"        divided by the total weight N of all pairs (Airola, Pahikkala & Salakoski)
    "query_mean"  the mean over the pairs of each query, then over queries

so C of "sum" equals C of "mean" divided by N.  In the notation
J(w) = (1/N) sum loss + lambda |w|^2 the same problem has C = 1 / (2 lambda) with "mean", and
C = 1 / (2 lambda N) with "sum".  (Airola, Pahikkala & Salakoski print C = 1 / (lambda N); that is
right for lambda / 2 |w|^2.)
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.estimators.base import PairData, TrainingData, plain_params
from ranksvm.estimators.feature_weights import FeatureWeightRanker
from ranksvm.estimators.preferences import PreferenceRanker
from ranksvm.model_io import ModelRecord
from ranksvm.training import Fit, LinearProblem, LinearSettings

__all__ = ["LinearRankSVM"]


class LinearRankSVM(FeatureWeightRanker, PreferenceRanker):
    """Linear ranking SVM with an optimality certificate.

    Parameters
    ----------
    C : float, default=50.0
        Weight of the loss against the regulariser; its scale depends on ``reduction``.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    reduction : {"sum", "mean", "query_mean"}, default="mean"
        What the sum over pairs is divided by; see the module's text for the conversions.
    solver : {"auto", "newton", "smoothed_newton", "bundle"}, default="auto"
        "newton" is for the squared hinge, "smoothed_newton" for the hinge, "bundle" (BMRM with
        line search) for both; "auto" takes "newton" or "bundle".
    counting : {"auto", "tree", "direct", "joachims", "pairs"}, default="auto"
        How the violated pairs are found; all give the same model.
    tol : float, default=1e-4
        Stop when the certified gap is at most ``tol`` times the objective.
    max_iter : int, default=1000
        Iterations of the solver at most.
    warm_start : bool, default=False
        Start at the ``coef_`` of the last fit.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.  The model does not depend on it.
    verbose : int, default=0
        1 logs every iteration (logger "ranksvm") and shows it on the screen.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    objective_ : float
        Value of the stated objective at ``coef_``, with what rounding may have hidden of it.
    gap_ : float
        Certified: that value and the optimum both lie between ``objective_ - gap_`` and
        ``objective_``.
    n_iter_ : int
    n_products_ : int
        Products with X or its transpose that the fit made.
    n_pairs_ : int
        Comparable pairs of positive weight.
    status_ : str
        "converged", "max_iter", "stalled" or "stopped" (by the callback).
    history_ : list of TraceRow
        iteration, objective, gap, n_products, inner_iterations, seconds of every iteration; empty
        in a model that was loaded.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Examples
    --------
    >>> from ranksvm import LinearRankSVM
    >>> X = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0], [1.0, 2.0]]
    >>> y = [2, 0, 1, 0, 1]
    >>> qid = ["a", "a", "a", "b", "b"]
    >>> model = LinearRankSVM().fit(X, y, qid=qid)
    >>> model.rank(X, qid=qid)
    array([1, 3, 2, 2, 1])
    >>> model.gap_ <= 1e-4 * model.objective_
    True
    """

    coef_: Array

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
    ) -> None:
        self.C = C
        self.loss = loss
        self.reduction = reduction
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _settings(self) -> LinearSettings:
        return LinearSettings(**{f.name: getattr(self, f.name) for f in fields(LinearSettings)})

    def _problem(self, data: TrainingData | PairData, settings: LinearSettings) -> LinearProblem:
        return LinearProblem(
            data.X,
            data.utility,
            data.groups,
            settings,
            preferences=data.preferences,
            item_weight=data.item_weight,
            query_weight=data.query_weight,
            n_threads=resolve_n_jobs(self.n_jobs),
        )

    def _start(self, problem: LinearProblem) -> Array | None:
        fitting = getattr(self, "coef_", np.empty(0)).shape == (problem.n_coefficients,)
        return self.coef_.copy() if self.warm_start and fitting else None

    def _keep_model(self, problem: LinearProblem, fit: Fit) -> None:
        del problem
        self.coef_ = fit.coef

    def _record(self) -> ModelRecord:
        return ModelRecord(
            kind="linear",
            params=plain_params(self),
            arrays={"coef": self.coef_},
            feature_names=self._feature_names(),
            facts={**self._facts, **self._frame_facts()},
        )

    @classmethod
    def _from_record(cls, record: ModelRecord) -> LinearRankSVM:
        model = cls(**cls._known_params(record))
        model.coef_ = np.array(record.arrays["coef"], dtype=np.float64)
        return model._restore(record, len(model.coef_))
