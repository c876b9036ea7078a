"""What all rankers share: checking of the input, weights, ranks, score.

Everything a user can get wrong is caught here, before any work is done, with an error that says
what was wrong, what was got and what to do.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from ranksvm import _core
from ranksvm._checks import check_item_weight
from ranksvm._contents import MODEL, check_replaces
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.frames import check_numeric, drop_columns, frame_columns, is_frame, split_frame
from ranksvm.data.preferences import Preferences, check_preferences
from ranksvm.data.queries import QueryGroups
from ranksvm.model_io import ModelRecord, write_model
from ranksvm.pairs.accuracy import pairwise_accuracy, preference_accuracy
from ranksvm.pairs.order import PairOrder
from ranksvm.training import check_query_weight

__all__ = [
    "FEATURE_FACTS",
    "BaseRanker",
    "PairData",
    "TrainingData",
    "check_utility",
    "fitting",
    "logged",
    "plain_params",
    "seed_of",
]


# What fit notes of X before there is a model.
FEATURE_FACTS = ("n_features_in_", "feature_names_in_", "_frame_columns")


class TrainingData(NamedTuple):
    """What a fit was given, checked: see ``LinearRankSVM.fit``; ``qid`` as it came."""

    X: Any
    utility: Array
    groups: QueryGroups
    qid: Any
    item_weight: Array | None
    query_weight: Array | None

    @property
    def preferences(self) -> None:
        """None: all pairs are those of the utilities."""


class PairData(NamedTuple):
    """What ``fit_pairs`` was given, checked; without utilities the groups are one query."""

    X: Any
    utility: Array | None
    groups: QueryGroups
    item_weight: Array | None
    query_weight: Array | None
    preferences: Preferences


class BaseRanker(BaseEstimator):
    """Ranks and pairwise accuracy for estimators with ``predict``."""

    # With metadata routing on, `qid` reaches fit and score without further ado.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True}

    n_jobs: int | None
    predict: Callable[[Any], Array]
    _record: Callable[[], ModelRecord]  # what is saved
    # Columns of the training frame that are no features.
    _frame_columns: frozenset[str] = frozenset()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def rank(self, X: Any, qid: ArrayLike | None = None) -> NDArray[np.int64]:
        """Position of every item inside its query.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
        qid : array-like of shape (n_items,), str or None
            Query of each item, or the column of X that holds it; None ranks all items together.

        Returns
        -------
        ndarray of int64, shape (n_items,)
            1 for the item with the highest score; equal scores keep the order of their rows.
        """
        X, columns = split_frame(X, qid=qid)
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
    ) -> float:
        """Pairwise accuracy, averaged over queries.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
        y : array-like of shape (n_items,)
            Utilities.
        qid : array-like of shape (n_items,) or None
        sample_weight : array-like of shape (n_items,) or None
            A pair weighs the product of the weights of its items.

        A string instead of values names a column of the frame X.

        Returns
        -------
        float
            Share of the comparable pairs in the right order, ties counted half; queries without a
            comparable pair are left out.
        """
        check_is_fitted(self)
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
        """Share of given pairs of items that are in the right order.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
        better, worse : array-like of shape (n_pairs,)
            Row numbers of X, from 0: ``better[p]`` should be above ``worse[p]``.
        weight : array-like of shape (n_pairs,) or None, default=None
            Weight of each pair; None: 1.

        Returns
        -------
        float
            Weight of the pairs whose better item has the higher score, and half that of the tied
            ones, divided by that of all.
        """
        check_is_fitted(self)
        scores = check_scores(self.predict(X))
        return preference_accuracy(check_preferences(better, worse, weight, len(scores)), scores)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the model to a file that :func:`ranksvm.load` reads.

        The file holds weights, feature names, parameters and training facts, and no code
        (safetensors with a schema version).  It is replaced in one step: when anything goes
        wrong, an older file of that name stays as it was.

        Parameters
        ----------
        path : path-like
            ``model.safetensors``, for example.
        force : bool, default=False
            Whether to replace a file that is there and is no model.

        Raises
        ------
        FileExistsError
            If there is such a file, and ``force`` is False.
        """
        check_is_fitted(self)
        record = self._record()
        if not force:
            check_replaces(path, MODEL)
        write_model(path, record)

    @classmethod
    def _known_params(cls, record: ModelRecord) -> dict[str, Any]:
        """Parameters of the record that this class has."""
        known = cls._get_param_names()
        return {name: value for name, value in record.params.items() if name in known}

    def _frame_facts(self) -> dict[str, Any]:
        """Return which columns of a frame are no features, as the file of a model tells it."""
        return {"frame_columns": sorted(self._frame_columns)} if self._frame_columns else {}

    def _feature_names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    def _fitting(self) -> AbstractContextManager[None]:
        return fitting(self)

    def _check_training(
        self, X: Any, y: Any, qid: Any, group: Any, sample_weight: Any, query_weight: Any
    ) -> TrainingData:
        """Check everything that a fit is given, and take what is named out of a frame."""
        if qid is not None and group is not None:
            raise ValueError("qid and group are two names for one thing: give only one of them")
        name = "qid" if group is None else "group"
        X, y, qid, sample_weight = self._take_columns(
            X, y, qid if group is None else group, sample_weight, qid_name=name
        )
        X = self._check_features(X, reset=True)
        n_items = X.shape[0]
        utility = check_utility(y, n_items)
        groups = QueryGroups.from_qid(qid, n_items, name=name)
        return TrainingData(
            X,
            utility,
            groups,
            qid,
            check_item_weight(sample_weight, n_items),
            check_query_weight(query_weight, groups),
        )

    def _take_columns(
        self, X: Any, y: Any, qid: Any, sample_weight: Any, *, qid_name: str = "qid"
    ) -> tuple[Any, Any, Any, Any]:
        """Take what is named out of a frame, and remember which columns are no features."""
        arguments = {"y": y, qid_name: qid, "sample_weight": sample_weight}
        X, values = split_frame(X, **arguments)
        self._frame_columns = frozenset(v for v in arguments.values() if isinstance(v, str))
        return X, values["y"], values[qid_name], values["sample_weight"]

    def _check_features(self, X: Any, *, reset: bool) -> Any:
        """X as float32 or float64, dense, CSR or CSC; all finite, in the layout it came in."""
        if is_frame(X):
            names = None if reset else getattr(self, "feature_names_in_", None)
            if not reset:
                X = drop_columns(X, self._frame_columns)
            if names is None or frame_columns(X) == names.tolist():  # else the names are the error
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
    """Forget what a fit has noted of X when it fails: an older model still works then."""
    before = {name: model.__dict__[name] for name in FEATURE_FACTS if name in model.__dict__}
    try:
        yield
    except BaseException:  # an interrupt too
        for name in FEATURE_FACTS:
            model.__dict__.pop(name, None)
        model.__dict__.update(before)
        raise


def plain_params(model: BaseEstimator) -> dict[str, Any]:
    """Parameters of an estimator, NumPy's numbers as Python's."""
    params = model.get_params(deep=False)
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in params.items()
    }


def seed_of(random_state: Any) -> int | None:
    """Return the integer, or one drawn from a generator; None stays None."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def check_scores(scores: Array) -> Array:
    """Refuse scores that overflowed: they have no order."""
    infinite = int(np.sum(~np.isfinite(scores)))
    if infinite:
        raise OverflowError(
            f"{infinite} of {len(scores)} scores overflow float64 and cannot be ranked. Scale the "
            "features down."
        )
    return scores


def check_finite_columns(X: Any, names: Any) -> None:
    """Raise when X has NaN or infinite entries, and say in which columns and how many."""
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):  # no temporary array on the usual path
            return
    bad: dict[int, tuple[int, int]] = {}
    columns = X.tocsc() if sp.issparse(X) else X
    for j in range(X.shape[1]):
        column = (
            columns.data[columns.indptr[j] : columns.indptr[j + 1]]
            if sp.issparse(X)
            else columns[:, j]
        )
        missing, infinite = int(np.isnan(column).sum()), int(np.isinf(column).sum())
        if missing or infinite:
            bad[j] = (missing, infinite)
    if not bad:
        return  # finite entries whose sum overflows
    shown = []
    for j, (missing, infinite) in list(bad.items())[:5]:
        name = f"{j}" if names is None else f"{j} ({names[j]!r})"
        what = [f"{missing} NaN"] * bool(missing) + [f"{infinite} infinity"] * bool(infinite)
        shown.append(f"column {name}: {' and '.join(what)}")
    more = f", and {len(bad) - 5} more columns" if len(bad) > 5 else ""
    raise ValueError(
        f"X contains NaN or infinity in {len(bad)} of {X.shape[1]} columns ({'; '.join(shown)}"
        f"{more}). Impute or drop these values, for example with sklearn.impute.SimpleImputer."
    )


def check_utility(y: Any, n_items: int) -> Array:
    """Utilities as float64; one finite number an item."""
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: give one utility "
            "(relevance) per item."
        )
    y = column_or_1d(y, warn=True)
    if y.dtype.kind not in "biuf":
        try:
            if y.dtype.kind != "O" or any(isinstance(value, str | bytes) for value in y):
                raise TypeError
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"y must be numeric, one utility per item; got values of type {y.dtype}. "
                "Map labels to numbers first, larger is better."
            ) from None
    if len(y) != n_items:
        raise ValueError(
            f"X and y have inconsistent numbers of samples: X has {n_items} rows, y has {len(y)} "
            "values; every item needs one utility"
        )
    if y.dtype.kind in "iu" and len(y) and max(abs(int(y.min())), abs(int(y.max()))) > 2**53:
        # Only their order matters, and float64 would make neighbours equal.
        y = np.unique(y, return_inverse=True)[1]
    utility: Array = np.ascontiguousarray(y, dtype=np.float64)
    finite = np.isfinite(utility)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"y contains NaN or infinity in {int((~finite).sum())} of {n_items} rows, first in row "
            f"{row}: drop these items or give them a finite utility"
        )
    return utility


@contextmanager
def logged(verbose: int) -> Iterator[logging.Logger]:
    """Lend the library's logger; with ``verbose`` its messages reach the screen meanwhile."""
    logger = logging.getLogger("ranksvm")
    if not verbose or logger.isEnabledFor(logging.INFO):  # somebody listens already
        yield logger
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # or the root logger might show every line again
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
