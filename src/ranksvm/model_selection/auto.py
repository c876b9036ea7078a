"""The best ranking model that a search finds: a mean of many candidates.

:mod:`ranksvm.model_selection.auto_plan` says what is tried, and in which order;
:mod:`ranksvm.model_selection.auto_search` does it; :mod:`ranksvm.model_selection.auto_models` makes
one model of the best candidates.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from ranksvm._checks import check_choice, check_flag, check_integer
from ranksvm._durations import parse_duration
from ranksvm._text import counted
from ranksvm._threads import resolve_n_jobs
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.estimators.base import Ranker
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.inputs import fitting, set_features, training_data, validation_data
from ranksvm.estimators.model_ranker import seed_of
from ranksvm.learners.ensemble_model import EnsembleModel
from ranksvm.learners.settings import MISSING, check_frequency
from ranksvm.model_selection.auto_models import search_and_fit
from ranksvm.model_selection.auto_plan import PRESETS
from ranksvm.model_selection.auto_results import INTERRUPTED, AutoResult
from ranksvm.model_selection.auto_search import AutoSearch, Budget, Progress
from ranksvm.model_selection.search_cv import shown_progress
from ranksvm.model_selection.splitters import folds_of
from ranksvm.models.model import Model

# Types of parameters that a model file can have.
SAVED = (int, float, str, type(None))


class AutoRankSVM(Ranker):
    """The best ranking model that a search finds, without any choice of yours.

    The search tries linear models, and rbf and Laplacian kernels with landmarks, on several views
    of the features (standardized, or mapped to normal quantiles; with and without their ranks
    within the query), with several weights of pairs, and with every C and gamma that promises
    something.  The model is the mean of the standardized scores of the best candidates.

    Parameters
    ----------
    metric : str or None, default="auto"
        Metric to maximize, as in :class:`ranksvm.LinearRankSVMCV`: "ndcg@10" for graded labels in
        queries, otherwise "pairwise_accuracy".
    preset : {"best", "fast"}, default="best"
        What to try.  "fast" tries linear models with ranks within the query only.
    time_limit : float, str or None, default=None
        Seconds, or text such as "5m" or "1.5h".  When the time is up, the best candidates so far
        are used.  None: until nothing is left to try.
    n_models : int, default=20
        Number of candidates to average; at most a quarter of all that were tried.
    cv : int, splitter or iterable of (train, test), default=5
        As in :class:`ranksvm.LinearRankSVMCV`; not used with a validation set.  All candidates are
        tried on the first fold, and the best of them on the others.
    conventions : {"standard", "letor"}, default="standard"
        Definition of the metric to use.
    refit : bool, default=True
        Whether to fit the chosen candidates again to all items, those of a validation set included.
        Without it, the models of the first fold are used.
    missing : {"error", "impute"}, default="error"
    min_frequency : int, float or None, default=None
        How columns of a frame become features; as for :class:`ranksvm.LinearRankSVM`.
    n_landmarks : int, default=300
        Number of landmarks of kernel models.  Up to twice as many items, kernels are exact.
    checkpoint : path-like or None, default=None
        File that keeps finished parts of the search.  If it exists, the search continues from it.
    random_state : int, RandomState or None, default=0
        Seed of the landmarks.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores.  The result does not depend on it, unless
        there is a time limit.
    verbose : int, default=0
        1 shows a progress bar on a terminal if rich is installed, and otherwise logs every step
        (logger "ranksvm").

    Attributes
    ----------
    leaderboard_ : list of dict
        All candidates, best first (a model file has the best 100): parameters, ``score``,
        ``splits`` (how many it was compared on), ``seconds``, and whether it was ``chosen``.
    best_score_ : float
        Score of the best candidate on the held-out items.  Their mean is usually better.
    metric_ : str
        The metric that was maximized.
    ended_ : str
        Why the search ended: "complete", "time limit" or "interrupted".
    members_ : tuple of Model
        The models whose sum is the model; candidates with the same landmarks are one of them.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Notes
    -----
    Ctrl-C ends the search: the best candidates so far are used as they are, and a warning says so.

    Examples
    --------
    >>> from ranksvm import AutoRankSVM
    >>> from ranksvm.datasets import make_ranking
    >>> X, y, qid, _ = make_ranking(n_queries=30, random_state=0)
    >>> model = AutoRankSVM(preset="fast", cv=3).fit(X, y, qid=qid)
    >>> model.predict(X, qid=qid).shape == y.shape
    True
    >>> model.leaderboard_[0]["kernel"]
    'linear'
    """

    leaderboard_: list[dict[str, Any]]
    best_score_: float
    metric_: str
    ended_: str
    _model: EnsembleModel

    def __init__(
        self,
        metric: str | None = "auto",
        *,
        preset: str = "best",
        time_limit: float | str | None = None,
        n_models: int = 20,
        cv: Any = 5,
        conventions: str = "standard",
        refit: bool = True,
        missing: str = "error",
        min_frequency: float | None = None,
        n_landmarks: int = 300,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.preset = preset
        self.time_limit = time_limit
        self.n_models = n_models
        self.cv = cv
        self.conventions = conventions
        self.refit = refit
        self.missing = missing
        self.min_frequency = min_frequency
        self.n_landmarks = n_landmarks
        self.checkpoint = checkpoint
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
        validation: tuple[Any, ...] | None = None,
        progress: Progress | None = None,
        **unknown: Any,
    ) -> Self:
        """Search, and fit the best candidates.

        Parameters
        ----------
        X, y, qid, group, sample_weight, query_weight
            As in :meth:`ranksvm.LinearRankSVM.fit`.  Weights are used for the fits; the metric does
            not use them.
        validation : tuple (X, y) or (X, y, qid), frame or None, default=None
            Validation set to compute the metric on, instead of folds.  If y and qid are names of
            columns, a frame with the same columns is enough.
        progress : callable or None, default=None
            Called as ``progress(done, total, message)`` after each step; ``total`` is an estimate.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit, unknown)
        budget = Budget(
            None if self.time_limit is None else parse_duration("time_limit", self.time_limit)
        )
        check_choice("preset", self.preset, PRESETS)
        check_integer("n_models", self.n_models)
        check_integer("n_landmarks", self.n_landmarks)
        check_flag("refit", self.refit)
        check_choice("missing", self.missing, MISSING)
        check_frequency(self.min_frequency)
        with fitting(self):
            data = training_data(
                self, X, y, qid, group=group, sample_weight=sample_weight, query_weight=query_weight
            )
            held_out = None
            if validation is not None:
                ids = qid if group is None else group
                held_out = validation_data(self, "validation", validation, y, ids)
            result, model = self._search(data, held_out, budget, progress)
        params = {k: v for k, v in self.get_params(deep=False).items() if isinstance(v, SAVED)}
        self._keep(replace(model, params=params))
        self.leaderboard_ = result.leaderboard()
        self._warn(result, model)
        return self

    def _search(
        self,
        data: RankingData,
        held_out: RankingData | None,
        budget: Budget,
        progress: Progress | None,
    ) -> tuple[AutoResult, EnsembleModel]:
        seed = seed_of(self.random_state)
        threads = resolve_n_jobs(self.n_jobs)
        with shown_progress(self.verbose, progress) as tell:
            search = AutoSearch(
                data,
                PRESETS[self.preset],
                folds=folds_of(data, self.cv) if held_out is None else None,
                validation=held_out,
                metric=self.metric,
                conventions=self.conventions,
                n_models=int(self.n_models),
                n_landmarks=int(self.n_landmarks),
                random_state=seed,
                budget=budget,
                refit=bool(self.refit),
                n_threads=threads,
                progress=tell,
            )
            return search_and_fit(
                search,
                data,
                held_out,
                refit=bool(self.refit),
                checkpoint=self.checkpoint,
                n_threads=threads,
                progress=tell,
            )

    def _warn(self, result: AutoResult, model: EnsembleModel) -> None:
        name = type(self).__name__
        if result.ended == INTERRUPTED:
            warnings.warn(
                f"{name}: interrupted after {counted(len(result.candidates), 'candidate')}. The "
                "model is the mean of the best ones so far, as they were trained on the training "
                "part of the first split.",
                UserWarning,
                stacklevel=3,
            )
        fits = [fit for member in model.members for fit in member.facts["fits"]]
        early = [fit for fit in fits if fit["status"] in ("max_iter", "stalled")]
        if early:
            warnings.warn(
                f"{name}: {len(early)} of the {len(fits)} fits of the model ended before they "
                "reached their tolerance; their scores are close to what they would be.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _keep(self, model: EnsembleModel) -> None:
        """Set all fitted attributes."""
        self._model = model
        selection = model.facts["selection"]
        self.leaderboard_ = list(selection["leaderboard"])
        self.best_score_ = float(selection["best_score"])
        self.metric_ = str(selection["metric"])
        self.ended_ = str(selection["ended"])

    @property
    def members_(self) -> tuple[Model, ...]:
        """The models whose sum is the model."""
        self._check_is_fitted()
        return self._model.members

    @classmethod
    def _from_model(cls, model: Model) -> Self:
        """Return the fitted estimator of a model that was read from a file."""
        assert isinstance(model, EnsembleModel)
        known = cls._get_param_names()
        ranker = cls(**{name: value for name, value in model.params.items() if name in known})
        origin = Origin.of_facts(model.facts)
        set_features(ranker, model.n_features, model.feature_names, origin)
        ranker._keep(model)
        return ranker

    def _get_model(self) -> Model:
        return self._model

    def _n_queries(self) -> int:
        return int(self._model.facts.get("n_queries", 1))
