"""What rankers share that choose their parameters.

For every candidate of a grid and every split into a training and a held-out part, F is minimised on
the first and a ranking metric taken on the second; the candidate with the best mean is the choice,
and a model is fitted with it on everything.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.data.frames import split_frame
from ranksvm.data.queries import QueryGroups
from ranksvm.estimators.base import FEATURE_FACTS, BaseRanker, TrainingData
from ranksvm.estimators.certified import CertifiedRanker
from ranksvm.estimators.checks import check_both_have_ids, check_labels
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.model_selection.progress import shown
from ranksvm.model_selection.search import HeldOut, Progress, Search, default_Cs
from ranksvm.model_selection.splitters import QueryKFold, item_folds
from ranksvm.training import Settings, total_pair_weight

__all__ = ["SearchCV", "is_count", "shared_params"]


class SearchCV(BaseRanker):
    """A ranker with parameters chosen by cross-validation, or on a validation set."""

    C_: float
    Cs_: Array
    best_index_: int
    best_score_: float
    best_estimator_: Any
    cv_results_: dict[str, Any]
    n_splits_: int
    objective_: float
    gap_: float
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    Cs: Any
    cv: Any
    metric: str
    conventions: str
    refit: bool
    verbose: int
    # Attributes that are those of the refitted model.
    _of_model: ClassVar[tuple[str, ...]] = ("objective_", "gap_", "n_iter_")
    _selection: dict[str, Any]

    @abstractmethod
    def _unfitted(self, search: Any = None) -> CertifiedRanker:
        """Return the ranker with the choice of a search; before there is one, with any C."""

    @abstractmethod
    def _by_hand(self) -> str:
        """Tell how to make what refit=True would have made."""

    @abstractmethod
    def _run(
        self, data: TrainingData, settings: Any, Cs: Any, n_threads: int, **options: Any
    ) -> Any:
        """Search; ``options`` are folds or validation, metric, conventions, progress, weights."""

    def _start(self, search: Any) -> Array | None:
        """Coefficients for the fit on everything to begin with."""
        del search
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
        validation: tuple[Any, ...] | None = None,
        progress: Progress | None = None,
        **unknown: Any,
    ) -> Self:
        """Choose the parameters, then learn with them.

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
        self
        """
        refuse_unknown(self, self.fit, unknown)
        with self._fitting():
            settings = self._unfitted()._settings()
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
        settings: Settings,
        folds: Any,
        held_out: HeldOut | None,
        progress: Progress | None,
    ) -> None:
        weights = {"item_weight": data.item_weight, "query_weight": data.query_weight}
        Cs = self.Cs
        if is_count(Cs):
            weight = total_pair_weight(data.utility, data.groups, **weights)
            Cs = default_Cs(int(Cs), settings.reduction, weight)
        with shown(self.verbose, progress) as tell:
            search = self._run(
                data,
                settings,
                Cs,
                resolve_n_jobs(self.n_jobs),
                folds=folds,
                validation=held_out,
                metric=self.metric,
                conventions=self.conventions,
                progress=tell,
                labels=data.labels,
                **weights,
            )
        model, short = None, list(search.shortfalls)
        if self.refit:
            model = self._unfitted(search)
            model.__dict__.update({k: v for k, v in self.__dict__.items() if k in FEATURE_FACTS})
            problem = model._problem(data, model._settings())
            fit = problem.solve(start=self._start(search))
            model._keep(problem, fit, data.groups)
            short += [] if fit.shortfall is None else [fit.shortfall]
        self._keep(search, model)
        self._warn(search, short)

    def _warn(self, search: Search, short: list[str]) -> None:
        name = type(self).__name__
        n_splits, n_candidates = search.flat("scores").shape
        if short:
            n_fits = n_splits * n_candidates + bool(self.refit)
            warnings.warn(
                f"{name}: {len(short)} of {n_fits} fits ended early, the first of them: {short[0]}",
                ConvergenceWarning,
                stacklevel=4,
            )
        if search.undefined:
            warnings.warn(
                f"{name}: {len(search.undefined)} of {n_splits} splits do not count, the first of "
                f"them: {search.undefined[0]}",
                UserWarning,
                stacklevel=4,
            )
        if search.unscored:
            warnings.warn(
                f"{name}: {len(search.unscored)} of {n_splits * n_candidates} fits have no score, "
                f"the first of them: {search.unscored[0]}",
                UserWarning,
                stacklevel=4,
            )
        for edge in search.edges:
            warnings.warn(f"{name}: {edge}", UserWarning, stacklevel=4)

    def predict(self, X: Any) -> Array:
        """Score items with the refitted model; larger is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)

        Returns
        -------
        ndarray of shape (n_items,)
        """
        scores: Array = self._model().predict(X)
        return scores

    def _n_queries(self) -> int:
        return int(self._model()._n_queries())

    def _model(self) -> Any:
        check_is_fitted(self)
        if not hasattr(self, "best_estimator_"):
            raise NotFittedError(
                f"this {type(self).__name__} was fitted with refit=False: it has chosen C_ and has "
                f"no model. Fit with refit=True, or {self._by_hand()}."
            )
        return self.best_estimator_

    def _folds(self, X: Any, utility: Array, qid: Any) -> Any:
        """Return (train, test) pairs; without queries, every item is one of its own."""
        cv = self.cv
        if is_count(cv):
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
        check_both_have_ids("validation", values["qid"] is not None, qid is not None)
        _, labels = check_labels(values["y"], X.shape[0])
        groups = QueryGroups.from_qid(values["qid"], X.shape[0], name="qid of validation")
        return HeldOut(X, labels, None if values["qid"] is None else groups.index)

    def _keep(self, search: Any, model: Any) -> None:
        self.C_ = search.best_C
        self.Cs_ = search.Cs
        self.best_index_ = search.best_index
        self.best_score_ = search.best_score
        self.cv_results_ = results_table(search)
        self.n_splits_ = len(search.flat("scores"))
        self._selection = {**search.facts(), "splits": self.n_splits_}
        for name in ("best_estimator_", *self._of_model):
            self.__dict__.pop(name, None)
        if model is not None:
            self.best_estimator_ = model
            for name in self._of_model:
                setattr(self, name, getattr(model, name))

    def _record(self) -> Any:
        record = self._model()._record()
        return replace(record, facts={**record.facts, "selection": self._selection})


def is_count(value: Any) -> bool:
    """Whether a parameter says how many rather than which."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def results_table(search: Search) -> dict[str, Any]:
    """Return a search in the shape of scikit-learn's ``cv_results_``."""
    scores, seconds = search.flat("scores"), search.flat("seconds")
    mean = search.means
    known = np.where(np.isnan(mean), -np.inf, mean)  # what cannot be chosen comes last
    quantities = {
        "test_score": scores,
        **{name: search.flat(of) for name, of in _QUANTITIES.items()},
    }
    params = search.params
    return {
        **{f"param_{name}": values for name, values in params.items()},
        "params": [
            dict(zip(params, values, strict=True))
            for values in zip(*(column.tolist() for column in params.values()), strict=True)
        ],
        **{
            f"split{k}_{name}": values[k]
            for k in range(len(scores))
            for name, values in quantities.items()
        },
        "mean_test_score": mean,
        "std_test_score": search.deviations,
        "rank_test_score": 1 + (known[None, :] > known[:, None]).sum(axis=1),
        "mean_fit_time": seconds.mean(axis=0),
        "std_fit_time": seconds.std(axis=0),
    }


_QUANTITIES = {
    "objective": "objectives",
    "gap": "gaps",
    "n_iter": "n_iter",
    "n_products": "n_products",
}


def shared_params(search: BaseRanker, ranker: type[BaseRanker]) -> dict[str, Any]:
    """Parameters of a search that are parameters of its ranker too, but for verbosity."""
    names = set(ranker._get_param_names()) - {"verbose"}
    params = search.get_params(deep=False)
    return {name: value for name, value in params.items() if name in names}
