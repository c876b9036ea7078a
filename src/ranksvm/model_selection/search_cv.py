"""Base class of the estimators that choose their parameters.

Every candidate of a grid is fitted on the training part of every split, and a ranking metric is
computed on the held-out part.  The candidate with the best mean is chosen, and a model is fitted
with it on all items.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from ranksvm import _text
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.estimators.base import Ranker
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.inputs import (
    FEATURE_FACTS,
    file_data,
    fitting,
    training_data,
    validation_data,
    validation_files,
)
from ranksvm.estimators.logs import logged
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.estimators.pair_inputs import pair_data, validation_pairs
from ranksvm.learners.fit import Fit
from ranksvm.learners.settings import Settings, searched, searched_choices
from ranksvm.learners.views import with_view
from ranksvm.model_selection.search import Progress, Search, search
from ranksvm.model_selection.splitters import folds_of
from ranksvm.models.model import Model


class SearchCV(Ranker):
    """A ranker whose parameters are chosen by cross-validation or on a validation set."""

    C_: float
    Cs_: Array
    best_index_: int
    best_score_: float
    metric_: str
    best_estimator_: Any
    cv_results_: dict[str, Any]
    n_splits_: int
    objective_: float
    gap_: float
    n_iter_: int
    verbose: int
    Cs: Any
    cv: Any
    metric: str | None
    conventions: str
    refit: bool
    checkpoint: Any
    # The estimator to refit, its settings, and the attributes copied from it.
    _ranker: ClassVar[type[ModelRanker]]
    _settings_class: ClassVar[type[Settings]]
    _of_model: ClassVar[tuple[str, ...]] = ("objective_", "gap_", "n_iter_")
    _selection: dict[str, Any]

    def _refit_code(self) -> str:
        """Return the code that makes the model that refit=True would have made."""
        chosen = [name for name in searched(self._settings_class) if hasattr(self, f"{name}_")]
        named = searched_choices(self._settings_class)
        chosen += [name for name in named if getattr(self, f"{name}s", None) is not None]
        others = "".join(f", {name}=model.{name}_" for name in chosen)
        return f"{self._ranker.__name__}(model.C_{self._refit_extra()}{others})"

    def _refit_extra(self) -> str:
        """Return further arguments of that code."""
        return ""

    def _converted(self, data: RankingData) -> RankingData:
        """Return the data in the form that the fits need."""
        return data

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
        """Choose the parameters, then fit a model with them.

        Parameters
        ----------
        X, y, qid, group, sample_weight, query_weight
            As in :meth:`ranksvm.LinearRankSVM.fit`.  Weights are used for the fits; the metric does
            not use them.
        validation : tuple (X, y) or (X, y, qid), frame or None, default=None
            Validation set to compute the metric on, instead of folds; ``cv`` is ignored.  If y and
            qid are names of columns, a frame with the same columns is enough.
        progress : callable or None, default=None
            Called as ``progress(done, total, message)`` after each fit.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit, unknown)
        with fitting(self):
            settings = self._unfitted()._settings(self._settings_class)
            data = training_data(
                self, X, y, qid, group=group, sample_weight=sample_weight, query_weight=query_weight
            )
            held_out = None
            if validation is not None:
                ids = qid if group is None else group
                held_out = validation_data(self, "validation", validation, y, ids)
            found, fit = self._search(self._converted(data), settings, held_out, progress)
        self._warn(found, fit)
        return self

    def fit_pairs(
        self,
        X: Any = None,
        better: ArrayLike | None = None,
        worse: ArrayLike | None = None,
        *,
        chosen: Any = None,
        rejected: Any = None,
        weight: ArrayLike | None = None,
        ties: tuple[Any, ...] | None = None,
        groups: ArrayLike | None = None,
        calibrate: bool = True,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        validation: tuple[Any, ...] | None = None,
        progress: Progress | None = None,
        **unknown: Any,
    ) -> Self:
        """Choose the parameters for explicit pairs, then fit a model with them.

        Folds do not separate the items of a pair: items that pairs connect, directly or through
        others, are in the same fold, and with ``qid`` or ``groups`` whole queries or groups.
        Without labels, folds have about the same number of pairs.

        Parameters
        ----------
        X, better, worse, chosen, rejected, weight, ties, groups, calibrate
            As for :meth:`ranksvm.LinearRankSVM.fit_pairs`.  The model with the chosen parameters is
            calibrated.
        y, qid, group, sample_weight, query_weight
            As for :meth:`ranksvm.LinearRankSVM.fit_pairs`.
        validation : tuple (X, better, worse[, weight[, qid]]) or (A, B), or None, default=None
            Pairs of other items to choose on, instead of folds; ``cv`` is ignored.  Two matrices A
            and B are like ``chosen`` and ``rejected``.  Only
            ``query_features`` need qid, the query ids of these items; a frame has them in the
            column of the training frame.  weight may be None.
        progress : callable or None, default=None
            As in ``fit``.

        Returns
        -------
        self

        Notes
        -----
        With labels and without a validation set, ``metric="auto"`` is what it is for ``fit``.
        Otherwise it is "pair_accuracy", the weighted share of held-out pairs in the right order
        (equal scores count half, and ``ties`` do not count), which can also be named.

        If ``cv`` is a list of row numbers, it may separate the items of pairs.  Such pairs are
        neither trained on nor scored, and a warning says how many there are.
        """
        refuse_unknown(self, self.fit_pairs, unknown)
        with fitting(self):
            settings = self._unfitted()._settings(self._settings_class)
            data = pair_data(
                self, X, better, worse, chosen=chosen, rejected=rejected, weight=weight,
                ties=ties, groups=groups, calibrate=calibrate, y=y, qid=qid, group=group,
                sample_weight=sample_weight, query_weight=query_weight,
            )  # fmt: skip
            held_out = None if validation is None else validation_pairs(self, validation)
            found, fit = self._search(
                self._converted(data), settings, held_out, progress, calibrate=calibrate
            )
        self._warn(found, fit)
        return self

    def fit_files(
        self,
        paths: Any,
        y: Any = "label",
        qid: Any = "qid",
        *,
        sample_weight: Any = None,
        query_weight: Any = None,
        columns: Sequence[str] | None = None,
        memory_budget: int | str | None = None,
        dtype: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        validation: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Choose the parameters on data in files, then fit a model with them.

        Parameters
        ----------
        paths, y, qid, sample_weight, query_weight, columns, dtype, cache
            As for :meth:`ranksvm.LinearRankSVM.fit_files`.
        memory_budget : int, str or None, default=None
            Memory to use; None for that of the estimator, if it has one, or "4GB".
        validation : paths or None, default=None
            Files to compute the metric on, instead of folds, with the same columns.
        progress : callable or None, default=None
            As in ``fit``.

        Returns
        -------
        self
        """
        with fitting(self):
            settings = self._unfitted()._settings(self._settings_class)
            if memory_budget is None:
                memory_budget = getattr(self, "memory_budget", "4GB")
            opening = {
                "columns": columns,
                "memory_budget": memory_budget,
                "dtype": dtype,
                "cache": cache,
                "fit": settings,
            }
            data = file_data(
                self, paths, y, qid, sample_weight=sample_weight, query_weight=query_weight,
                **opening,
            )  # fmt: skip
            held_out = None
            if validation is not None:
                held_out = validation_files(self, validation, y, qid, **opening)
            found, fit = self._search(data, settings, held_out, progress)
        self._warn(found, fit)
        return self

    def _grids(self) -> dict[str, Any]:
        """Return the values to try of all parameters but C."""
        names = [*searched(self._settings_class), *searched_choices(self._settings_class)]
        return {name: getattr(self, f"{name}s", None) for name in names}

    def _search(
        self,
        data: RankingData,
        settings: Settings,
        held_out: RankingData | None,
        progress: Progress | None,
        *,
        calibrate: bool | None = None,
    ) -> tuple[Search, Fit | None]:
        """Search, refit and keep the results; ``calibrate`` as for ``_fit_data``."""
        folds = folds_of(data, self.cv) if held_out is None else None
        if self.refit:
            settings.check_budget(data)
        threads = resolve_n_jobs(self.n_jobs)
        data = with_view(data, settings.view, n_threads=threads)
        with shown_progress(self.verbose, progress) as tell:
            found = search(
                data,
                settings,
                self.Cs,
                self._grids(),
                folds=folds,
                validation=held_out,
                metric=self.metric,
                conventions=self.conventions,
                n_threads=threads,
                progress=tell,
                checkpoint=self.checkpoint,
            )
        ranker, fit = None, None
        if self.refit:
            ranker = self._unfitted(found)
            noted = {k: v for k, v in self.__dict__.items() if k in FEATURE_FACTS}
            ranker.__dict__.update(noted)
            fit, model = found.refit(data, n_threads=threads, calibrate=calibrate)
            ranker._keep(model, fit.history)
        self._keep_search(found, ranker)
        return found, fit

    def _warn(self, found: Search, fit: Fit | None) -> None:
        for message, early in found.warnings(fit):
            kind = ConvergenceWarning if early else UserWarning
            warnings.warn(f"{type(self).__name__}: {message}", kind, stacklevel=3)

    def _unfitted(self, found: Search | None = None) -> ModelRanker:
        """Return the estimator to refit, with the best parameters if there is a search."""
        names = set(self._ranker._get_param_names()) - {"verbose"}
        params = {k: v for k, v in self.get_params(deep=False).items() if k in names}
        if found is not None:
            params.update(found.best)
            if "random_state" in names:
                params["random_state"] = getattr(found.settings, "random_state", None)
        return self._ranker(**params)

    def _n_queries(self) -> int:
        return int(self._refitted()._n_queries())

    def _refitted(self) -> Any:
        check_is_fitted(self)
        if not hasattr(self, "best_estimator_"):
            raise NotFittedError(
                f"this {type(self).__name__} was fitted with refit=False: it has chosen C_ and has "
                f"no model. Fit with refit=True, or {self._refit_code()}."
            )
        return self.best_estimator_

    def _keep_search(self, found: Search, model: ModelRanker | None) -> None:
        self.C_ = found.best["C"]
        self.Cs_ = found.grid["C"]
        self.best_index_ = found.best_index
        self.best_score_ = found.best_score
        self.metric_ = found.metric
        self.cv_results_ = _results_table(found)
        self.n_splits_ = len(found.scores)
        self._selection = found.facts()
        for name in searched(self._settings_class):
            self.__dict__.pop(f"{name}_", None)
            setattr(self, f"{name}s_", found.grid.get(name, np.ones(1)))
            if name in found.best:
                setattr(self, f"{name}_", found.best[name])
        for name in searched_choices(self._settings_class):
            setattr(self, f"{name}_", found.best.get(name, getattr(self, name)))
        for name in ("best_estimator_", *self._of_model):
            self.__dict__.pop(name, None)
        if model is not None:
            self.best_estimator_ = model
            for name in self._of_model:
                setattr(self, name, getattr(model, name))

    def _get_model(self) -> Model:
        model: Model = self._refitted()._get_model()
        return replace(model, facts={**model.facts, "selection": self._selection})


def _results_table(found: Search) -> dict[str, Any]:
    """Return the results of a search in the format of scikit-learn's ``cv_results_``."""
    mean = found.means
    known = np.where(np.isnan(mean), -np.inf, mean)  # candidates that cannot be chosen come last
    quantities = {
        "test_score": found.scores,
        "objective": found.objectives,
        "gap": found.gaps,
        "n_iter": found.n_iter,
        "n_products": found.n_products,
    }
    params = found.candidates
    return {
        **{f"param_{name}": np.array([one[name] for one in params]) for name in found.grid},
        "params": params,
        **{
            f"split{k}_{name}": values[k]
            for k in range(len(found.scores))
            for name, values in quantities.items()
        },
        "mean_test_score": mean,
        "std_test_score": found.deviations,
        "rank_test_score": 1 + (known[None, :] > known[:, None]).sum(axis=1),
        "mean_fit_time": found.seconds.mean(axis=0),
        "std_fit_time": found.seconds.std(axis=0),
    }


@contextmanager
def shown_progress(verbose: int, progress: Progress | None) -> Iterator[Progress | None]:
    """Yield a callback that shows progress if ``verbose`` is set, and then calls ``progress``.

    Progress is a bar on a terminal, and log lines elsewhere.
    """
    if not verbose:
        yield progress
        return
    with (
        logged(verbose) as logger,
        _text.progress("tuning", lambda done, total, text: logger.info(text)) as advance,
    ):

        def tell(done: int, total: int, message: str) -> None:
            advance(done, total, f"{done} of {total} fits: {message}")
            if progress is not None:
                progress(done, total, message)

        yield tell
