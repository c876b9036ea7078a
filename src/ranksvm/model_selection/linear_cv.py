"""Linear RankSVM that chooses its C.

For every C of a grid and every split into a training and a held-out part, F is minimised on the
first and a ranking metric taken on the second; the C with the best mean is the choice, of equal
ones the smallest, which regularises most.  :mod:`ranksvm.model_selection.search` does the work,
along paths of warm starts.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.data.frames import split_frame
from ranksvm.data.queries import QueryGroups
from ranksvm.estimators.base import FEATURE_FACTS, BaseRanker, TrainingData, check_utility
from ranksvm.estimators.linear import LinearRankSVM
from ranksvm.model_selection.progress import shown
from ranksvm.model_selection.search import HeldOut, PathSearch, Progress, default_Cs, search_path
from ranksvm.model_selection.splitters import QueryKFold, item_folds
from ranksvm.training import LinearProblem, LinearSettings, total_pair_weight

__all__ = ["LinearRankSVMCV"]


class LinearRankSVMCV(BaseRanker):
    """Linear ranking SVM with C chosen by cross-validation, or on a validation set.

    Parameters
    ----------
    Cs : int or sequence of float, default=19
        Values of C to try, or how many: log-spaced around what is right for most sets, with
        ``reduction="sum"`` scaled by the number of pairs.
    loss, reduction, solver, counting, tol, max_iter
        As for :class:`ranksvm.LinearRankSVM`.  Every fit is certified to ``tol``.
    cv : int, splitter or iterable of (train, test), default=5
        Number of folds, each of whole queries (without queries, of items dealt out in the order
        of their utilities); a splitter such as :class:`QueryKFold`, which is given qid as
        ``groups``; or row numbers.
    metric : str, default="pairwise_accuracy"
        What is to be as large as possible: any name that :func:`ranksvm.metrics.evaluate` knows,
        for example "ndcg@10" or "map".  The default is defined for all utilities; gains are not
        for negative ones.
    conventions : {"standard", "letor"}, default="standard"
        Whose definition of the metric.
    refit : bool, default=True
        Fit on everything with the chosen C.  Without, there is no model to predict with.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.  Folds run side by side.  Nothing depends on it.
    verbose : int, default=0
        1 shows a progress bar on a terminal (with rich installed), or else logs every fit (logger
        "ranksvm").

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_index_, best_score_ : int, float
        Its place in the grid, and its mean score.
    Cs_ : ndarray of shape (n_C,)
        The grid.
    cv_results_ : dict of str to ndarray of shape (n_C,)
        ``param_C``; ``split{k}_test_score`` and their ``mean_``, ``std_`` and ``rank_test_score``
        (a split where the metric is not defined is NaN and does not count); ``mean_fit_time`` in
        seconds; of every fit ``split{k}_objective``, ``split{k}_gap``,
        ``split{k}_n_iter`` and ``split{k}_n_products``.  ``params`` is a list of dict.
    n_splits_ : int
    best_estimator_ : LinearRankSVM
        Fitted on everything; like the rest below only with ``refit``.
    coef_ : ndarray of shape (n_features,)
    objective_, gap_ : float
        Of ``best_estimator_``; ``objective_`` minus the optimum is at most ``gap_``.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Examples
    --------
    >>> from ranksvm.datasets import make_ranking
    >>> from ranksvm.model_selection import LinearRankSVMCV
    >>> X, y, qid, _ = make_ranking(n_queries=30, random_state=0)
    >>> model = LinearRankSVMCV([5.0, 50.0, 500.0, 5000.0, 50000.0], cv=3).fit(X, y, qid=qid)
    >>> model.C_
    5000.0
    >>> model.cv_results_["mean_test_score"].shape
    (5,)
    """

    C_: float
    Cs_: Array
    best_index_: int
    best_score_: float
    best_estimator_: LinearRankSVM
    cv_results_: dict[str, Any]
    n_splits_: int
    coef_: Array
    objective_: float
    gap_: float
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(
        self,
        Cs: Any = 19,
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
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.loss = loss
        self.reduction = reduction
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.metric = metric
        self.conventions = conventions
        self.refit = refit
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
        validation: tuple[Any, ...] | None = None,
        progress: Progress | None = None,
    ) -> LinearRankSVMCV:
        """Choose C, then learn with it.

        Parameters
        ----------
        X, y, qid, group, sample_weight, query_weight
            As for :meth:`ranksvm.LinearRankSVM.fit`.  Weights are for the fits; the metric counts
            held-out items and queries the same.
        validation : tuple (X, y) or (X, y, qid), or None, default=None
            Items to take the metric on, instead of folds; ``cv`` is then not used.  Where y or qid
            of the training set are columns, they are here too, and a frame alone will do.
        progress : callable or None, default=None
            Called as ``progress(done, total, message)`` after every fit.

        Returns
        -------
        self : LinearRankSVMCV
        """
        with self._fitting():
            settings = self._settings()
            data = self._check_training(X, y, qid, group, sample_weight, query_weight)
            held_out, folds = None, None
            if validation is not None:
                held_out = self._check_validation(validation, y, qid if group is None else group)
            else:
                folds = self._folds(data.X, data.utility, data.qid)
            self._search(data, settings, folds, held_out, progress)
        return self

    def _search(
        self,
        data: TrainingData,
        settings: LinearSettings,
        folds: Any,
        held_out: HeldOut | None,
        progress: Progress | None,
    ) -> None:
        threads = resolve_n_jobs(self.n_jobs)
        X, utility, groups = data.X, data.utility, data.groups
        weights = {"item_weight": data.item_weight, "query_weight": data.query_weight}
        Cs = self.Cs
        if isinstance(Cs, Integral) and not isinstance(Cs, bool):
            Cs = default_Cs(
                int(Cs), settings.reduction, total_pair_weight(utility, groups, **weights)
            )
        with shown(self.verbose, progress) as tell:
            search = search_path(
                X,
                utility,
                groups,
                settings,
                Cs,
                folds=folds,
                validation=held_out,
                metric=self.metric,
                conventions=self.conventions,
                n_threads=threads,
                progress=tell,
                **weights,
            )
        short = list(search.shortfalls)
        if self.refit:
            best = replace(settings, C=search.best_C)
            problem = LinearProblem(X, utility, groups, best, n_threads=threads, **weights)
            fit = problem.solve(start=search.mean_coef[search.best_index])
            model = self._unfitted(search.best_C)
            model.__dict__.update({k: v for k, v in self.__dict__.items() if k in FEATURE_FACTS})
            model._keep(problem, fit, groups)
            short += [] if fit.shortfall is None else [fit.shortfall]
        else:
            model = None
        self._keep(search, model)
        if short:
            warnings.warn(
                f"LinearRankSVMCV: {len(short)} of {search.scores.size + bool(self.refit)} fits "
                f"ended early, the first of them: {short[0]}",
                ConvergenceWarning,
                stacklevel=3,
            )
        if search.undefined:
            warnings.warn(
                f"LinearRankSVMCV: {len(search.undefined)} of {len(search.scores)} splits do not "
                f"count, the first of them: {search.undefined[0]}",
                UserWarning,
                stacklevel=3,
            )
        if search.edge is not None:
            warnings.warn(f"LinearRankSVMCV: {search.edge}", UserWarning, stacklevel=3)

    def predict(self, X: Any) -> Array:
        """Score items with the refitted model; larger is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)

        Returns
        -------
        ndarray of shape (n_items,)
        """
        return self._model().predict(X)

    def _model(self) -> LinearRankSVM:
        check_is_fitted(self)
        if not hasattr(self, "best_estimator_"):
            raise NotFittedError(
                "this LinearRankSVMCV was fitted with refit=False: it has chosen C_ and has no "
                "model. Fit with refit=True, or LinearRankSVM(model.C_)."
            )
        return self.best_estimator_

    def _settings(self) -> LinearSettings:
        return LinearSettings(
            loss=self.loss,
            reduction=self.reduction,
            solver=self.solver,
            counting=self.counting,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _unfitted(self, C: float) -> LinearRankSVM:
        return LinearRankSVM(
            C,
            loss=self.loss,
            reduction=self.reduction,
            solver=self.solver,
            counting=self.counting,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )

    def _folds(self, X: Any, utility: Array, qid: Any) -> Any:
        """Return (train, test) pairs; without queries, every item is one of its own."""
        cv = self.cv
        if isinstance(cv, Integral) and not isinstance(cv, bool):
            if qid is None:
                return item_folds(utility, int(cv))
            cv = QueryKFold(int(cv))
        if hasattr(cv, "split") and not isinstance(cv, str):
            if qid is None and isinstance(cv, QueryKFold):
                qid = np.arange(len(utility))
            return list(cv.split(X, utility, groups=qid))
        if hasattr(cv, "__iter__") and not isinstance(cv, str):
            return list(cv)
        raise ValueError(
            "cv must be a number of folds, a splitter, or an iterable of (train, test) row "
            f"numbers; got {self.cv!r}"
        )

    def _check_validation(self, validation: Any, y: Any, qid: Any) -> HeldOut:
        """Check the validation set like the training set, and take what is in its columns."""
        parts = validation if isinstance(validation, tuple | list) else (validation,)
        # A name of a column stands for both sets.
        parts = [*parts, *[v if isinstance(v, str) else None for v in (y, qid)][len(parts) - 1 :]]
        if len(parts) != 3 or parts[1] is None:
            raise ValueError(
                "validation must be (X, y) or (X, y, qid), like the training set; got "
                f"{len(validation) if isinstance(validation, tuple | list) else 1} parts"
            )
        X, values = split_frame(parts[0], y=parts[1], qid=parts[2])
        X = self._check_features(X, reset=False)
        if (values["qid"] is None) != (qid is None):
            raise ValueError(
                "the training set and the validation set must both have query ids, or neither"
            )
        utility = check_utility(values["y"], X.shape[0])
        groups = QueryGroups.from_qid(values["qid"], X.shape[0], name="qid of validation")
        return HeldOut(X, utility, None if values["qid"] is None else groups.index)

    def _keep(self, search: PathSearch, model: LinearRankSVM | None) -> None:
        self.C_ = search.best_C
        self.Cs_ = search.Cs
        self.best_index_ = search.best_index
        self.best_score_ = search.best_score
        self.cv_results_ = _table(search)
        self.n_splits_ = len(search.scores)
        for name in ("best_estimator_", "coef_", "objective_", "gap_", "n_iter_"):
            self.__dict__.pop(name, None)
        if model is not None:
            self.best_estimator_ = model
            self.coef_ = model.coef_
            self.objective_ = model.objective_
            self.gap_ = model.gap_
            self.n_iter_ = model.n_iter_

    def _record(self) -> Any:
        record = self._model()._record()
        selection = {
            "metric": self.metric,
            "conventions": self.conventions,
            "splits": self.n_splits_,
            "Cs": self.Cs_.tolist(),
            "mean_scores": self.cv_results_["mean_test_score"].tolist(),
        }
        return replace(record, facts={**record.facts, "selection": selection})


def _table(search: PathSearch) -> dict[str, Any]:
    """Return the search in the shape of scikit-learn's ``cv_results_``."""
    mean = search.mean_scores
    splits: dict[str, Any] = {}
    for k in range(len(search.scores)):
        splits[f"split{k}_test_score"] = search.scores[k]
        splits[f"split{k}_objective"] = search.objectives[k]
        splits[f"split{k}_gap"] = search.gaps[k]
        splits[f"split{k}_n_iter"] = search.n_iter[k]
        splits[f"split{k}_n_products"] = search.n_products[k]
    return {
        "param_C": search.Cs,
        "params": [{"C": C} for C in search.Cs.tolist()],
        **splits,
        "mean_test_score": mean,
        "std_test_score": np.nanstd(search.scores, axis=0),
        "rank_test_score": 1 + (mean[None, :] > mean[:, None]).sum(axis=1),
        "mean_fit_time": search.seconds.mean(axis=0),
        "std_fit_time": search.seconds.std(axis=0),
    }
