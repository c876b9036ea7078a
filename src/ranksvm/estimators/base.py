"""What all rankers share: checking of the input, weights, ranks, score.

Everything a user can get wrong is caught here, before any work is done, with an error that says
what was wrong, what was got and what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.accuracy import pairwise_accuracy
from ranksvm.pairs.order import PairOrder

__all__ = ["BaseRanker", "check_choice", "check_positive", "logged"]


class BaseRanker(BaseEstimator):
    """Ranks and pairwise accuracy for estimators with ``predict``."""

    # With metadata routing on, `qid` reaches fit and score without further ado.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True}

    n_jobs: int | None
    predict: Callable[[Any], Array]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def rank(self, X: Any, qid: ArrayLike | None = None) -> NDArray[np.int64]:
        """Position of every item inside its query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_items, n_features)
        qid : array-like of shape (n_items,) or None
            Query of each item; None ranks all items together.

        Returns
        -------
        ndarray of int64, shape (n_items,)
            1 for the item with the highest score; equal scores keep the order of their rows.
        """
        scores = check_scores(self.predict(X))
        groups = QueryGroups.from_qid(qid, len(scores))
        # Rows of a query are listed in ascending order, so a stable sort keeps ties in row order.
        rows = groups.rows
        best_first = rows[np.lexsort((-scores[rows], groups.index[rows]))]
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
        X : {array-like, sparse matrix} of shape (n_items, n_features)
        y : array-like of shape (n_items,)
            Utilities.
        qid : array-like of shape (n_items,) or None
        sample_weight : array-like of shape (n_items,) or None
            A pair weighs the product of the weights of its items.

        Returns
        -------
        float
            Share of the comparable pairs in the right order, ties counted half; queries without a
            comparable pair are left out.
        """
        check_is_fitted(self)
        scores = check_scores(self.predict(X))
        utility = check_utility(y, len(scores))
        groups = QueryGroups.from_qid(qid, len(scores))
        weight = check_item_weight(sample_weight, len(scores))
        backend = NativeBackend(
            PairOrder(utility, groups, weight), n_threads=resolve_n_jobs(self.n_jobs)
        )
        return pairwise_accuracy(backend, groups, scores)

    def _check_features(self, X: Any, *, reset: bool) -> Any:
        """X as float32 or float64, dense, CSR or CSC; all finite, in the layout it came in."""
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


def check_item_weight(weight: Any, n_items: int) -> Array | None:
    """Item weights as float64, or None."""
    if weight is None:
        return None
    if np.isscalar(weight):
        weight = np.full(n_items, weight)
    weights = _as_weights("sample_weight", weight)
    if len(weights) != n_items:
        raise ValueError(
            f"sample_weight has {len(weights)} values for {n_items} items; give one weight per item"
        )
    _check_weights("sample_weight", weights, "row")
    return weights


def check_query_weight(weight: Any, groups: QueryGroups) -> Array | None:
    """One weight per query, from a sequence in order of first appearance or a mapping by id."""
    if weight is None:
        return None
    n_queries = len(groups.ids)
    if hasattr(weight, "to_dict"):  # a pandas Series goes by its index
        weight = weight.to_dict()
    if isinstance(weight, Mapping):
        missing = [q for q in groups.ids.tolist() if q not in weight]
        if missing:
            raise ValueError(
                f"query_weight has no entry for {len(missing)} of {n_queries} queries, "
                f"among them {missing[0]!r}"
            )
        weight = [weight[q] for q in groups.ids.tolist()]
    weights = _as_weights("query_weight", weight)
    if len(weights) != n_queries:
        raise ValueError(
            f"query_weight has {len(weights)} values for {n_queries} queries; give one weight per "
            "query, in the order in which the queries first appear in qid, or a dict by query id"
        )
    _check_weights("query_weight", weights, "query")
    return weights


def _as_weights(name: str, weight: Any) -> Array:
    try:
        weights: Array = np.ascontiguousarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if np.asarray(weight).ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional; got an array of {np.asarray(weight).ndim} dimensions"
        )
    return weights


def _check_weights(name: str, weight: Array, unit: str) -> None:
    wrong = ~np.isfinite(weight) | (weight < 0.0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must be finite and not negative; got {weight[at]} in {unit} {at} "
            f"({int(wrong.sum())} such values)"
        )
    if not weight.any():
        raise ValueError(f"{name} is zero everywhere: there is nothing to learn from")


def check_positive(name: str, value: Any, *, integer: bool = False) -> None:
    """Raise unless ``value`` is a positive finite number (a positive integer)."""
    kind = Integral if integer else Real
    fine = isinstance(value, kind) and not isinstance(value, bool)
    if not fine or not 0 < value < np.inf:
        what = "a positive integer" if integer else "a positive finite number"
        raise ValueError(f"{name} must be {what}; got {value!r}")


def check_choice(name: str, value: Any, valid: Any) -> None:
    """Raise unless ``value`` is one of ``valid``; the error lists them."""
    if not isinstance(value, str) or value not in valid:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, valid))}; got {value!r}")


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
