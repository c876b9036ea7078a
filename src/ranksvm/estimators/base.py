"""The base class of all rankers: input checks, prediction, ranking, scoring, saving.

All input is checked here (with :mod:`ranksvm.estimators.checks`) before any work is done.
"""

from __future__ import annotations

import logging
import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ranksvm import _core
from ranksvm._checks import check_item_weight, shown
from ranksvm._contents import MODEL, OTHER_SUFFIXES, check_replaces
from ranksvm._messages import Param, ParameterError
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.frames import check_numeric, drop_columns, frame_columns, is_frame, split_frame
from ranksvm.data.preferences import check_preferences, count_contradictions
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.estimators.checks import (
    check_finite_columns,
    check_items,
    check_labels,
    check_scores,
    check_utility,
)
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.learners import Fit, Settings, check_query_weight
from ranksvm.learners.settings import settings_of
from ranksvm.models import Explanation, Model, write_model
from ranksvm.models.explain import check_rows
from ranksvm.pairs.accuracy import pairwise_accuracy, preference_accuracy
from ranksvm.pairs.order import PairOrder
from ranksvm.solvers.base import Callback, TraceRow

__all__ = ["FEATURE_FACTS", "MissingQidWarning", "Ranker", "fitting", "logged"]


# Attributes that ``fit`` sets from X before there is a model.
FEATURE_FACTS = ("n_features_in_", "feature_names_in_", "_frame_columns", "_qid_column")


class MissingQidWarning(UserWarning):
    """A model that was fitted on several queries is scored without query ids.

    Items of different queries are then compared with each other, although the model was not trained
    for that.
    """


class Ranker(BaseEstimator):
    """Base class of the ranking estimators.

    A subclass defines ``fit``, and ``_set_model`` and ``_get_model``, which convert between a model
    and the fitted attributes.
    """

    # With metadata routing enabled, `qid` is passed to fit and score without set_fit_request.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True}

    n_jobs: int | None
    verbose: int
    objective_: float
    gap_: float
    n_iter_: int
    n_products_: int
    n_pairs_: int
    status_: str
    history_: list[TraceRow]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _facts: dict[str, Any]
    # Columns of the training data frame that are not features, and the one with the query ids.
    _frame_columns: frozenset[str] = frozenset()
    _qid_column: str | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _set_model(self, model: Any) -> None:
        """Set the fitted attributes from a model."""

    @abstractmethod
    def _get_model(self) -> Model:
        """Return the model for the fitted attributes, using ``**self._about()``."""

    def predict(self, X: Any) -> Array:
        """Score items; larger is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            A data frame may still contain the columns that ``fit`` used for labels, query ids and
            weights.  For a precomputed kernel: the kernel values with all training items.

        Returns
        -------
        ndarray of shape (n_items,)
        """
        check_is_fitted(self)
        X = self._check_features(X, reset=False)
        return self._get_model().scores(X, n_threads=resolve_n_jobs(self.n_jobs))

    def explain(self, X: Any, i: int, j: int) -> Explanation:
        """Explain why item i is ranked above or below item j.

        The difference of the two scores is a sum of contributions, exact and largest first.  For a
        linear model these are ``coef_[k] * (X[i, k] - X[j, k])`` of every feature k.  For a kernel
        model they are ``coef * (k(X[i], z) - k(X[j], z))`` of every support item, landmark or
        random feature z: a kernel mixes the features of an item, and contributions of single
        features are not defined.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            As in ``predict``.
        i, j : int
            Two rows of X, from 0.

        Returns
        -------
        Explanation
            With ``contributions``, ``names``, ``top(n)`` and more; printed, it is a bar chart.
            Features have the names of the training frame, or numbers; support items are named by
            their row of the training set.
        """
        check_is_fitted(self)
        X = self._check_features(X, reset=False)
        i, j = check_rows(i, j, X.shape[0])
        return self._get_model().explain(X, i, j)

    def rank(self, X: Any, qid: ArrayLike | None = None, **unknown: Any) -> NDArray[np.int64]:
        """Rank the items of each query.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
        qid : array-like of shape (n_items,), str or None
            Query id of each item, or the name of a column of X.  None: the column that was used in
            ``fit``, if X is a data frame that has it; otherwise all items are ranked together.

        Returns
        -------
        ndarray of int64, shape (n_items,)
            Position of each item within its query: 1 for the highest score.  Ties are broken by row
            order.
        """
        refuse_unknown(self, self.rank, unknown)
        X, columns = split_frame(X, qid=self._known_qid(X, qid))
        scores = check_scores(self.predict(X))
        groups = QueryGroups.from_qid(columns["qid"], len(scores))
        threads = resolve_n_jobs(self.n_jobs)
        best_first = _core.rank_items(scores, groups.rows, groups.offsets, threads)
        ranks = np.empty(len(scores), dtype=np.int64)
        starts = np.repeat(groups.offsets[:-1], np.diff(groups.offsets))
        ranks[best_first] = np.arange(len(scores)) - starts + 1
        return ranks

    def score(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **unknown: Any,
    ) -> float:
        """Pairwise accuracy, averaged over queries.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
        y : array-like of shape (n_items,)
            Labels.
        qid : array-like of shape (n_items,) or None
            Query id of each item.  None: the column that was used in ``fit``, if X is a data frame
            that has it; otherwise all items are one ranking, with a :class:`MissingQidWarning` if
            the model was fitted on several queries.  To score one ranking on purpose, pass the same
            id for all items: ``qid=[0] * len(y)``.
        sample_weight : array-like of shape (n_items,) or None
            Weights of the items; the weight of a pair is the product.

        Instead of values, a string may name a column of the data frame X.

        Returns
        -------
        float
            Fraction of the comparable pairs in the right order, with ties counted half.  Queries
            without a comparable pair are left out.
        """
        refuse_unknown(self, self.score, unknown)
        check_is_fitted(self)
        qid = self._known_qid(X, qid)
        n_queries = self._n_queries()
        if qid is None and n_queries > 1:
            warnings.warn(
                f"score() got no qid, but {type(self).__name__} was fitted on {n_queries} queries, "
                "so items of different queries are compared. Pass qid=. (To score one ranking on "
                "purpose: qid=[0] * len(y). In scikit-learn pipelines and searches, see "
                "docs/tutorial.md: enable_metadata_routing and QueryKFold.)",
                MissingQidWarning,
                stacklevel=2,
            )
        X, columns = split_frame(X, y=y, qid=qid, sample_weight=sample_weight)
        scores = check_scores(self.predict(X))
        utility = check_utility(columns["y"], len(scores))
        groups = QueryGroups.from_qid(columns["qid"], len(scores))
        weight = check_item_weight(columns["sample_weight"], len(scores))
        backend = NativeBackend(
            PairOrder(utility, groups, weight), n_threads=resolve_n_jobs(self.n_jobs)
        )
        return pairwise_accuracy(backend, groups, scores)

    def score_pairs(
        self,
        X: Any,
        better: ArrayLike,
        worse: ArrayLike,
        weight: ArrayLike | None = None,
    ) -> float:
        """Fraction of given pairs of items that are in the right order.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
        better, worse : array-like of shape (n_pairs,)
            Row numbers of X, from 0: ``better[p]`` should be above ``worse[p]``.
        weight : array-like of shape (n_pairs,) or None, default=None
            Weight of each pair; None means 1.

        Returns
        -------
        float
            Weight of the pairs whose better item has the higher score, plus half the weight of tied
            pairs, divided by the total weight.
        """
        check_is_fitted(self)
        scores = check_scores(self.predict(X))
        return preference_accuracy(check_preferences(better, worse, weight, len(scores)), scores)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the model to a file that :func:`ranksvm.load` reads.

        The file contains weights, feature names, parameters and training facts, and no code
        (safetensors with a schema version).  It is replaced atomically: if anything goes wrong, an
        existing file stays as it was.

        Parameters
        ----------
        path : path-like
            ``model.safetensors``, for example.
        force : bool, default=False
            Whether to overwrite an existing file that is not a model.

        Raises
        ------
        FileExistsError
            If there is such a file, and ``force`` is False.
        ValueError
            If the suffix means another format, such as ``.onnx`` or ``.pkl``.
        """
        check_is_fitted(self)
        model = self._get_model()
        model.arrays()  # raises for a model that cannot be saved, before the path is checked
        path = os.fsdecode(path)
        suffix = os.path.splitext(path)[1].lower()
        if suffix in (*OTHER_SUFFIXES, ".dat"):
            raise ValueError(
                f"{path}: save() does not write {suffix} files. Use .safetensors. For SVM^rank's "
                "format use ranksvm.export.write_svmrank"
            )
        if not force:
            check_replaces(path, MODEL)
        write_model(path, model)

    # --- From and to models ----------------------------------------------------------------------

    @classmethod
    def _from_model(cls, model: Model) -> Self:
        """Return the fitted estimator of a model that was read from a file."""
        known = cls._get_param_names()
        ranker = cls(**{name: value for name, value in model.params.items() if name in known})
        ranker.n_features_in_ = model.n_features
        if model.feature_names is not None:
            ranker.feature_names_in_ = np.asarray(model.feature_names, dtype=object)
        ranker._frame_columns = frozenset(map(str, model.facts.get("frame_columns", ())))
        ranker._qid_column = model.facts.get("qid_column")
        ranker._keep(model, ())
        return ranker

    def _keep(self, model: Model, history: Any) -> None:
        """Set all fitted attributes."""
        self._set_model(model)
        facts = self._facts = dict(model.facts)
        self.objective_ = float(facts.get("objective", np.nan))
        self.gap_ = float(facts.get("gap", np.nan))
        self.n_iter_ = int(facts.get("n_iter", 0))
        self.n_products_ = int(facts.get("n_products", 0))
        self.n_pairs_ = int(facts.get("n_pairs", 0))
        self.status_ = str(facts.get("status", "unknown"))
        self.history_ = list(history)

    def _about(self) -> dict[str, Any]:
        """Return the parameters, facts and feature names of the model."""
        params = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params(deep=False).items()
        }
        if not isinstance(params.get("random_state"), int | None):
            params["random_state"] = None  # a generator cannot be saved
        names = getattr(self, "feature_names_in_", None)
        return {
            "params": params,
            "facts": self._facts,
            "feature_names": None if names is None else tuple(map(str, names)),
        }

    # --- Fitting ---------------------------------------------------------------------------------

    def _settings(self, settings: type[Settings]) -> Any:
        """Check the parameters, and return them as an instance of ``settings``."""
        values = settings_of(settings, self)
        if "random_state" in values:
            values["random_state"] = seed_of(values["random_state"])
        return settings(**values)

    def _solve(self, problem: Any, callback: Callback | None, **options: Any) -> Fit:
        """Solve a problem; log every iteration and call the callback."""
        with logged(self.verbose) as logger:

            def report(row: TraceRow, coef: Array) -> Any:
                logger.info(
                    "%s %d: objective %.8g, gap %.2e, %d products, %.2f s", problem.solver_name,
                    row.iteration, row.objective, row.gap, row.n_products, row.seconds,
                )  # fmt: skip
                return callback is not None and callback(row, coef.copy())

            fit: Fit = problem.solve(callback=report, **options)
        return fit

    def _keep_fit(self, problem: Any, fit: Fit) -> None:
        """Set all fitted attributes, and warn about a fit that ended early; called by ``fit``."""
        self._keep(problem.model(fit), fit.history)
        if fit.shortfall is not None:
            name = type(self).__name__
            warnings.warn(f"{name}: {fit.shortfall}", ConvergenceWarning, stacklevel=3)

    def _n_queries(self) -> int:
        """Return the number of queries in the training data; 1 if unknown."""
        return int(getattr(self, "_facts", {}).get("n_queries", 1))

    def _known_qid(self, X: Any, qid: Any) -> Any:
        """Return qid, or the column of the frame X that held the ids in ``fit``."""
        if qid is not None or self._qid_column is None or not is_frame(X):
            return qid
        return self._qid_column if self._qid_column in frame_columns(X) else None

    def _training_data(
        self, X: Any, y: Any, qid: Any, group: Any, sample_weight: Any, query_weight: Any
    ) -> RankingData:
        """Check the arguments of ``fit``, and return them as one data set."""
        if qid is not None and group is not None:
            raise ValueError("qid and group are two names for one thing: pass only one of them")
        name = "qid" if group is None else "group"
        X, y, qid, sample_weight = self._take_columns(
            X, y, qid if group is None else group, sample_weight, qid_name=name
        )
        X = self._check_features(X, reset=True)
        n_items = X.shape[0]
        utility, labels = check_labels(y, n_items)
        groups = QueryGroups.from_qid(qid, n_items, name=name)
        names = getattr(self, "feature_names_in_", None)
        data = RankingData(
            X,
            utility,
            None if qid is None else groups.ids[groups.index],
            labels=None if labels is utility else labels,
            item_weight=check_item_weight(sample_weight, n_items),
            query_weight=check_query_weight(query_weight, groups),
            feature_names=None if names is None else tuple(map(str, names)),
            origin=Origin(
                "X", frame_columns=tuple(self._frame_columns), qid_column=self._qid_column
            ),
        )
        data.__dict__["groups"] = groups
        return data

    def _pair_data(
        self,
        X: Any,
        pairs: tuple[Any, Any, Any],
        y: Any,
        qid: Any,
        group: Any,
        sample_weight: Any,
        query_weight: Any,
    ) -> RankingData:
        """Check the arguments of ``fit_pairs``; ``pairs`` are better, worse and weight."""
        if y is not None:
            data = self._training_data(X, y, qid, group, sample_weight, query_weight)
        else:
            about_labels = {
                "qid": qid, "group": group, "sample_weight": sample_weight,
                "query_weight": query_weight,
            }  # fmt: skip
            given = [name for name, value in about_labels.items() if value is not None]
            if given:
                raise ValueError(
                    f"{' and '.join(given)} can only be used with labels, but there is no y. Pass "
                    "y, or drop them: given pairs have their own weights, and need no query ids."
                )
            self._frame_columns, self._qid_column = frozenset(), None
            X = self._check_features(X, reset=True)
            names = getattr(self, "feature_names_in_", None)
            data = RankingData(X, feature_names=None if names is None else tuple(map(str, names)))
        preferences = check_preferences(*pairs, data.n_items)
        both_ways = count_contradictions(preferences)
        if both_ways:
            warnings.warn(
                f"{both_ways} {'pairs' if both_ways > 1 else 'pair'} of items "
                f"{'are' if both_ways > 1 else 'is'} preferred both ways: no ranking can satisfy "
                "both preferences, and the one with the larger weight has more influence.",
                UserWarning,
                stacklevel=3,
            )
        return replace(data, preferences=preferences)

    def _take_columns(
        self, X: Any, y: Any, qid: Any, sample_weight: Any, *, qid_name: str
    ) -> tuple[Any, Any, Any, Any]:
        """Remove the named columns from a data frame, and remember which ones they are."""
        arguments = {"y": y, qid_name: qid, "sample_weight": sample_weight}
        X, values = split_frame(X, **arguments)
        self._frame_columns = frozenset(v for v in arguments.values() if isinstance(v, str))
        self._qid_column = qid if isinstance(qid, str) else None
        return X, values["y"], values[qid_name], values["sample_weight"]

    def _check_features(self, X: Any, *, reset: bool) -> Any:
        """Return X as finite float32 or float64, dense, CSR or CSC, in the layout it came in."""
        X = check_items(X)
        if is_frame(X):
            names = None if reset else getattr(self, "feature_names_in_", None)
            if not reset:
                X = drop_columns(X, self._frame_columns)
            if names is None or frame_columns(X) == names.tolist():  # otherwise names are wrong
                check_numeric(X)
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=("csr", "csc"),
            accept_large_sparse=True,
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
        )
        check_finite_columns(X, getattr(self, "feature_names_in_", None))
        return X


@contextmanager
def fitting(model: BaseEstimator) -> Iterator[None]:
    """Restore the attributes in ``FEATURE_FACTS`` if a fit fails, so that an old model works."""
    before = {name: model.__dict__[name] for name in FEATURE_FACTS if name in model.__dict__}
    try:
        yield
    except BaseException:  # including KeyboardInterrupt
        for name in FEATURE_FACTS:
            model.__dict__.pop(name, None)
        model.__dict__.update(before)
        raise


def seed_of(random_state: Any) -> int | None:
    """Return an integer seed, drawn from the generator if it is one; None stays None."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    try:
        generator = check_random_state(random_state)
    except ValueError:
        raise ParameterError(
            "{random_state} must be None, a non-negative integer or a RandomState; got {value}",
            random_state=Param("random_state"),
            value=shown(random_state),
        ) from None
    return int(generator.randint(np.iinfo(np.int32).max))


@contextmanager
def logged(verbose: int) -> Iterator[logging.Logger]:
    """Return the library's logger; with ``verbose``, its messages are printed meanwhile."""
    logger = logging.getLogger("ranksvm")
    if not verbose or logger.isEnabledFor(logging.INFO):  # logging is configured already
        yield logger
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # otherwise the root logger might print every line again
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
