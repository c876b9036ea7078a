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

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ranksvm._threads import resolve_n_jobs
from ranksvm.backends.native import COUNTINGS, NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.estimators.base import (
    BaseRanker,
    check_choice,
    check_item_weight,
    check_positive,
    check_query_weight,
    check_utility,
    logged,
)
from ranksvm.maps.matrix import MatrixMap
from ranksvm.objective import RankObjective
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.base import (
    Array,
    Point,
    Solver,
    SolverResult,
    Status,
    TraceRow,
    dot,
    missing_capabilities,
)
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import Newton
from ranksvm.solvers.smoothing import SmoothedNewton

__all__ = ["LinearRankSVM"]

SOLVERS: dict[str, Callable[..., Solver]] = {
    "newton": Newton,
    "smoothed_newton": SmoothedNewton,
    "bundle": Bundle,
}
# The fastest at the same certified gap: for the hinge also the one with the fewest products with
# X; for the squared hinge Hessian products are cheaper than the evaluations of the bundle method.
AUTO_SOLVER = {"squared_hinge": "newton", "hinge": "bundle"}
# What to do about a solver that asks for more than the loss has.
REMEDY = {
    "hessian": "the hinge has no second derivatives: use solver='smoothed_newton' or 'bundle', "
    "or loss='squared_hinge'",
    "smoothing": "the squared hinge is smooth already: use solver='newton' or 'bundle', or "
    "loss='hinge'",
}
REDUCTIONS = ("sum", "mean", "query_mean")
# What scikit-learn notes of X as soon as it sees it.
FEATURE_FACTS = ("n_features_in_", "feature_names_in_")


class LinearRankSVM(BaseRanker):
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
        Value of the stated objective at ``coef_``.
    gap_ : float
        Certified: ``objective_`` minus the optimum is at most this.
    n_iter_ : int
    n_products_ : int
        Products with X or its transpose that the fit made.
    n_pairs_ : int
        Comparable pairs.
    status_ : str
        "converged", "max_iter", "stalled" or "stopped" (by the callback).
    history_ : list of TraceRow
        iteration, objective, gap, n_products, inner_iterations, seconds of every iteration.
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
    objective_: float
    gap_: float
    n_iter_: int
    n_products_: int
    n_pairs_: int
    status_: str
    history_: list[TraceRow]

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
    ) -> LinearRankSVM:
        """Learn to rank the items of every query by their utility.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_items, n_features)
            Dense (C or Fortran order), CSR or CSC, float32 or float64: used as it is.
        y : array-like of shape (n_items,)
            Utilities: any real numbers, larger is better.
        qid : array-like of shape (n_items,) or None, default=None
            Query of each item: integers or strings, in any row order.  None: one global ranking.
        group : array-like of shape (n_items,) or None, default=None
            Another name for ``qid``.
        sample_weight : array-like of shape (n_items,) or None, default=None
            Weight of each item; a pair weighs the product of both times its query's weight.
        query_weight : array-like of shape (n_queries,), mapping or None, default=None
            Weight of each query, in the order in which the queries first appear, or by query id.
        callback : callable or None, default=None
            Called as ``callback(row, coef)`` after every iteration with a ``TraceRow`` and the best
            coefficients so far; a true result stops the fit there.

        Returns
        -------
        self : LinearRankSVM
        """
        before = {name: getattr(self, name) for name in FEATURE_FACTS if hasattr(self, name)}
        try:
            return self._fit(X, y, qid, group, sample_weight, query_weight, callback)
        except BaseException:  # an interrupt too: what was fitted before still predicts
            for name in FEATURE_FACTS:
                if hasattr(self, name):
                    delattr(self, name)
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def _fit(
        self,
        X: Any,
        y: Any,
        qid: Any,
        group: Any,
        sample_weight: Any,
        query_weight: Any,
        callback: Callable[[TraceRow, Array], Any] | None,
    ) -> LinearRankSVM:
        self._check_parameters()
        threads = resolve_n_jobs(self.n_jobs)
        X = self._check_features(X, reset=True)
        n_items = X.shape[0]
        utility = check_utility(y, n_items)
        if qid is not None and group is not None:
            raise ValueError("qid and group are two names for one thing: give only one of them")
        groups = (
            QueryGroups.from_qid(qid, n_items)
            if group is None
            else QueryGroups.from_qid(group, n_items, name="group")
        )
        item_weight = check_item_weight(sample_weight, n_items)
        backend = NativeBackend(
            PairOrder(utility, groups, item_weight), counting=self.counting, n_threads=threads
        )
        factor = reduce_weights(
            backend, self.reduction, check_query_weight(query_weight, groups), n_items
        )
        objective = RankObjective(
            MatrixMap(X, n_threads=threads), LOSSES[self.loss](backend), self.C * factor, groups
        )
        solver = self._make_solver(objective)
        start = objective.point(self._start(X.shape[1]))
        with logged(self.verbose) as logger:

            def report(row: TraceRow, coef: Array) -> Any:
                logger.info(
                    "%s %d: objective %.8g, gap %.2e, %d products, %.2f s", solver.name,
                    row.iteration, row.objective, row.gap, row.n_products, row.seconds,
                )  # fmt: skip
                return callback is not None and callback(row, coef.copy())

            result = solver.solve(objective, start, callback=report)
        self._keep(result, objective, sum(backend.pairs))
        if result.status in (Status.MAX_ITER, Status.STALLED):
            self._warn(solver, result)
        return self

    def predict(self, X: Any) -> Array:
        """Score items; larger is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_items, n_features)

        Returns
        -------
        ndarray of shape (n_items,)
        """
        check_is_fitted(self)
        X = self._check_features(X, reset=False)
        scores: NDArray[np.float64] = MatrixMap(X, n_threads=resolve_n_jobs(self.n_jobs)).scores(
            self.coef_
        )
        return scores

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_positive("max_iter", self.max_iter, integer=True)
        check_choice("loss", self.loss, LOSSES)
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("counting", self.counting, COUNTINGS)
        check_choice("solver", self.solver, ("auto", *SOLVERS))

    def _make_solver(self, objective: RankObjective) -> Solver:
        name = AUTO_SOLVER[self.loss] if self.solver == "auto" else self.solver
        solver = SOLVERS[name](tol=self.tol, max_iter=self.max_iter)
        for capability in sorted(missing_capabilities(solver, objective)):
            raise ValueError(
                f"solver={self.solver!r} does not work with loss={self.loss!r}: "
                f"{REMEDY[capability]}"
            )
        return solver

    def _start(self, n_features: int) -> Array:
        if self.warm_start and getattr(self, "coef_", np.empty(0)).shape == (n_features,):
            return self.coef_.copy()
        return np.zeros(n_features)

    def _keep(self, result: SolverResult, objective: RankObjective, n_pairs: int) -> None:
        """Store the result, with the objective taken at exact scores.

        Solvers carry scores along by vector updates; the certificate must not rest on those.
        """
        point: Point = result.point
        exact = objective.point(point.w)
        value = result.objective
        drift = float(np.max(np.abs(exact.scores - point.scores), initial=0.0))
        if drift > 1e-12 * (1.0 + float(np.max(np.abs(exact.scores), initial=0.0))):
            value = 0.5 * objective.inner(exact.w, exact) + objective.C * (
                objective.loss.at(exact.scores).stated
            )
        self.coef_ = point.w
        self.objective_ = float(value)
        self.gap_ = float(result.gap + abs(value - result.objective))
        self.n_iter_ = result.n_iter
        self.n_products_ = objective.n_products
        self.n_pairs_ = int(n_pairs)
        self.status_ = result.status.name.lower()
        self.history_ = list(result.trace)

    def _warn(self, solver: Solver, result: SolverResult) -> None:
        reached = result.gap / max(abs(result.objective), np.finfo(float).tiny)
        remedy = (
            "raise max_iter, scale the features, or lower C"
            if result.status is Status.MAX_ITER
            else "scale the features, lower C, or raise tol"
        )
        warnings.warn(
            f"LinearRankSVM: solver {solver.name!r} stopped after {result.n_iter} iterations with "
            f"a relative gap of {reached:.2e}, tol={self.tol:g} was asked for "
            f"({result.status.value}); {remedy}.",
            ConvergenceWarning,
            stacklevel=4,
        )


def reduce_weights(
    backend: NativeBackend, reduction: str, query_weight: Array | None, n_items: int
) -> float:
    """Give the backend its query weights; return the factor that goes with C."""
    mass = backend.pair_weights
    weight = np.ones(len(mass)) if query_weight is None else query_weight
    with np.errstate(over="ignore", invalid="ignore"):
        total = dot(weight, mass)
    if not np.isfinite(total):
        raise OverflowError(
            "the pair weights are too large for float64: a pair weighs query_weight times the "
            "sample_weight of both items. Scale the weights down."
        )
    if not total > 0.0:
        pairs = sum(backend.pairs)
        why = (
            "every query has only one distinct utility in y"
            if pairs == 0
            else f"all {pairs} comparable pairs have weight zero"
        )
        raise ValueError(
            f"no comparable pair to learn from (n_samples={n_items}, queries={len(mass)}): {why}. "
            "A pair needs two items of one query with different utilities and positive weights; "
            "check qid and y."
        )
    if reduction == "query_mean":
        there = mass > 0.0
        scaled = np.zeros(len(mass))
        scaled[there] = weight[there] / mass[there] / weight[there].sum()
        backend.set_query_weight(scaled)
        return 1.0
    if query_weight is not None:
        backend.set_query_weight(weight)
    return 1.0 / total if reduction == "mean" else 1.0
