"""The base class of all rankers: input checks, prediction, ranking, scoring, saving.

All input is checked (see :mod:`ranksvm.estimators.inputs`) before any work is done.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ranksvm import _core
from ranksvm._checks import check_item_weight
from ranksvm._contents import MODEL
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.data.frames import split_frame
from ranksvm.data.preferences import as_rows, check_preferences
from ranksvm.data.queries import QueryGroups
from ranksvm.data.table_encoding import TableEncoding
from ranksvm.data.targets import check_replaces
from ranksvm.estimators.checks import check_labels, check_overflow
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.inputs import check_X, known_qid
from ranksvm.estimators.paired_inputs import takes_matrices, two_matrices
from ranksvm.metrics.order import mean_accuracy
from ranksvm.metrics.ranked import Truth
from ranksvm.models.explain import Explanation, check_rows
from ranksvm.models.files import write_model
from ranksvm.models.model import Model
from ranksvm.models.pair_probability import probability, slope_in
from ranksvm.pairs.accuracy import preference_accuracy


class MissingQidWarning(UserWarning):
    """A model that was fitted on several queries is scored without query ids.

    Items of different queries are then compared with each other, although the model was not trained
    for that.
    """


class Ranker(BaseEstimator):
    """Base class of the ranking estimators.

    They predict, rank, score and explain with a :class:`ranksvm.models.Model`, which ``_get_model``
    returns.
    """

    # With metadata routing enabled, `qid` is passed on without set_fit_request.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__predict: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True}

    n_jobs: int | None
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    # Columns of the training data frame that are not features, and the one with the query ids.
    _frame_columns: frozenset[str] = frozenset()
    _qid_column: str | None = None
    # What the columns of a table become, if there are categories or values to fill in.
    _encoding: TableEncoding | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_pairwise
        return tags

    @property
    def _is_pairwise(self) -> bool:
        """Whether X is a kernel matrix, as the tags say; they take longer to make than to train."""
        return False

    @classmethod
    @cache  # it takes longer than the scores of a hundred items
    def _get_param_names(cls) -> list[str]:
        names: list[str] = super()._get_param_names()
        return names

    def _check_is_fitted(self) -> None:
        """Raise scikit-learn's error unless there is a fitted attribute."""
        if "n_features_in_" not in self.__dict__:  # scikit-learn's own look takes longer
            check_is_fitted(self)

    @abstractmethod
    def _get_model(self) -> Model:
        """Return the model for the fitted attributes."""

    def predict(self, X: Any, qid: ArrayLike | str | None = None) -> Array:
        """Score items; larger is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            A data frame may still contain the columns that ``fit`` used for labels, query ids and
            weights.  For a precomputed kernel: the kernel values with all training items.
        qid : array-like of shape (n_items,), str or None, default=None
            Query id of each item, or the name of a column of X.  Only ``query_features`` need it,
            and all items of each query.  None: the column that was used in ``fit``, if X is a data
            frame that has it; otherwise all items are one query, which is refused if there are
            ``query_features`` and the model was fitted on several queries.

        Returns
        -------
        ndarray of shape (n_items,)
        """
        self._check_is_fitted()
        model = self._get_model()
        if qid is None and not model.view:
            X = check_X(self, X, reset=False)
            return model.scores(X, n_threads=resolve_n_jobs(self.n_jobs))
        return self._scored(X, known_qid(self, X, qid))[0]

    def _items(self, X: Any, qid: Any) -> tuple[Any, QueryGroups | None]:
        """Check items, and group them by query if there are ids."""
        X, columns = split_frame(X, qid=qid)
        X = check_X(self, X, reset=False)
        qid = columns["qid"]
        return X, None if qid is None else QueryGroups.from_qid(qid, X.shape[0])

    def _scored(self, X: Any, qid: Any) -> tuple[Array, QueryGroups | None]:
        """Return the scores of items, and their queries if there are ids."""
        self._check_is_fitted()
        X, groups = self._items(X, qid)
        model, threads = self._get_model(), resolve_n_jobs(self.n_jobs)
        return model.scores(X, groups=groups, n_threads=threads), groups

    def explain(self, X: Any, i: int, j: int, qid: ArrayLike | str | None = None) -> Explanation:
        """Explain why item i is ranked above or below item j.

        The difference of the two scores is a sum of contributions, exact and largest first.  For a
        linear model these are ``coef_[k] * (X[i, k] - X[j, k])`` of every feature k; a feature and
        its ``query_features`` are parts of their own, such as ``bm25`` and ``rank(bm25)``.  For a
        kernel model they are ``coef * (k(X[i], z) - k(X[j], z))`` of every support item, landmark
        or random feature z: a kernel mixes the features of an item, and contributions of single
        features are not defined.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            As in ``predict``.
        i, j : int
            Two rows of X, from 0.
        qid : array-like of shape (n_items,), str or None, default=None
            As in ``predict``.  With ``query_features``, X must have all items of both queries.

        Returns
        -------
        Explanation
            With ``contributions``, ``names``, ``top(n)`` and more; printed, it is a bar chart.
            Features have the names of the training frame, or the numbers of their columns, from 0
            (``ranksvm explain`` counts as the data file does, usually from 1); support items are
            named by their row of the training set.
        """
        self._check_is_fitted()
        model = self._get_model()
        X, groups = self._items(X, known_qid(self, X, qid) if model.view else qid)
        i, j = check_rows(i, j, X.shape[0])
        return model.explain(X, i, j, groups=groups)

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
        scores, groups = self._scored(X, known_qid(self, X, qid))
        check_overflow(scores)
        if groups is None:
            groups = QueryGroups.from_qid(None, len(scores))
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
        qid = self._qid_of_score(X, qid)
        X, columns = split_frame(X, y=y, qid=qid, sample_weight=sample_weight)
        scores, groups = self._scored(X, columns["qid"])
        check_overflow(scores)
        utility, _ = check_labels(columns["y"], len(scores))
        truth = Truth(utility, None, groups=groups, n_jobs=self.n_jobs)
        weight = check_item_weight(columns["sample_weight"], len(scores))
        return mean_accuracy(truth.ranked(scores), weight)

    def _qid_of_score(self, X: Any, qid: Any) -> Any:
        """Return the query ids of ``score``; warn if they are missing."""
        self._check_is_fitted()
        qid = known_qid(self, X, qid)
        n_queries = self._n_queries()
        if qid is None and n_queries > 1 and not self._get_model().view:  # which refuses it
            warnings.warn(
                f"score() got no qid, but {type(self).__name__} was fitted on {n_queries} queries, "
                "so items of different queries are compared. Pass qid=. (To score one ranking on "
                "purpose: qid=[0] * len(y). In scikit-learn pipelines and searches, see "
                "docs/tutorial.md: enable_metadata_routing and QueryKFold.)",
                MissingQidWarning,
                stacklevel=3,
            )
        return qid

    def score_pairs(
        self,
        X: Any = None,
        better: ArrayLike | None = None,
        worse: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        qid: ArrayLike | str | None = None,
        *,
        chosen: Any = None,
        rejected: Any = None,
    ) -> float:
        """Fraction of given pairs of items that are in the right order.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
        better, worse : array-like of shape (n_pairs,)
            Row numbers of X, from 0: ``better[p]`` should be above ``worse[p]``.
        weight : array-like of shape (n_pairs,) or None, default=None
            Weight of each pair; None means 1.
        qid : array-like of shape (n_items,), str or None, default=None
            As in ``predict``.
        chosen, rejected : {array-like, sparse matrix, frame} of shape (n_pairs, n_features)
            Instead of X, better and worse: row p of ``chosen`` should be above row p of
            ``rejected``.

        Returns
        -------
        float
            Weight of the pairs whose better item has the higher score, plus half the weight of tied
            pairs, divided by the total weight.
        """
        self._check_is_fitted()
        rows = {"X": X, "better": better, "worse": worse}
        if takes_matrices(rows, {"qid": qid}, chosen, rejected):
            names = ("chosen", "rejected")
            scores = np.concatenate(self._scores_of_both(names, chosen, rejected))
            n_pairs = len(scores) // 2
            better, worse = np.arange(n_pairs), n_pairs + np.arange(n_pairs)
        else:
            scores = self.predict(X, qid)
        pairs = check_preferences(better, worse, weight, len(scores))  # type: ignore[arg-type]
        return preference_accuracy(pairs, check_overflow(scores))

    def predict_pair_proba(
        self,
        A: Any,
        B: Any = None,
        *,
        i: ArrayLike | None = None,
        j: ArrayLike | None = None,
        qid: ArrayLike | str | None = None,
    ) -> Array:
        """Return the probability that one item is better than another, for each of several pairs.

        It is 1 / (1 + exp(-slope (s_A - s_B))), with the scores of the two items and a slope that
        ``fit_pairs`` found on pairs that it held out.  So P(B, A) is 1 - P(A, B), and items with
        equal scores have 1/2.  A tie in the training pairs counts as half a pair in each direction.

        Parameters
        ----------
        A, B : {array-like, sparse matrix, frame} of shape (n_pairs, n_features)
            Row p of A is compared with row p of B.
        i, j : array-like of shape (n_pairs,) or None, default=None
            Instead of B: row ``i[p]`` of A is compared with row ``j[p]`` of A.
        qid : array-like of shape (n_items,), str or None, default=None
            With ``i`` and ``j``: as in ``predict``.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Probability that row p of A, or row ``i[p]``, is the better one.

        Raises
        ------
        NotFittedError
            If the model knows no probabilities: it was fitted to labels, with ``calibrate=False``,
            or to pairs that are too few or too connected.  The message says which.
        """
        self._check_is_fitted()
        try:
            slope = slope_in(self._get_model().facts)
        except ValueError as error:
            raise NotFittedError(f"{type(self).__name__}: {error}") from None
        if (i is None) != (j is None) or (B is None) == (i is None):
            raise ValueError(
                "give either two matrices, predict_pair_proba(A, B), or a matrix and the row "
                "numbers of the items to compare, predict_pair_proba(X, i=..., j=...)"
            )
        if B is not None:
            if qid is not None:
                raise ValueError("qid is for the rows of X, in predict_pair_proba(X, i=..., j=...)")
            one, other = self._scores_of_both(("A", "B"), A, B)
        else:
            scores = self.predict(A, qid)
            rows: Any = (("i", i), ("j", j))
            one, other = (scores[as_rows(name, some, len(scores))] for name, some in rows)
            if len(one) != len(other):
                raise ValueError(
                    f"i and j must have one row number per pair each; got {len(one)} and "
                    f"{len(other)}"
                )
        check_overflow(one)
        check_overflow(other)
        return probability(slope, one - other)

    def _scores_of_both(self, names: tuple[str, str], one: Any, other: Any) -> tuple[Array, Array]:
        """Return the scores of the rows of two matrices, row by row to be compared."""
        model, threads = self._get_model(), resolve_n_jobs(self.n_jobs)
        one, other = two_matrices(self, names, one, other)
        return model.scores(one, n_threads=threads), model.scores(other, n_threads=threads)

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
            If the suffix means another format, such as ``.onnx``, ``.pkl`` or ``.csv``.
        """
        self._check_is_fitted()
        model = self._get_model()
        model.arrays()  # raises for a model that cannot be saved, before the path is checked
        path = os.fsdecode(path)
        suffix = ".dat" if path.lower().endswith(".dat") else MODEL.wrong_suffix(path)
        if suffix is not None:
            raise ValueError(
                f"{path}: save() does not write {suffix} files. Use .safetensors. For SVM^rank's "
                "format use ranksvm.export.write_svmrank"
            )
        if not force:
            check_replaces(path, MODEL)
        write_model(path, model)

    @abstractmethod
    def _n_queries(self) -> int:
        """Return the number of queries in the training data; 1 if unknown."""
