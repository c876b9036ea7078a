"""Features of the query as a scikit-learn transformer.

>>> from sklearn.pipeline import make_pipeline
>>> from ranksvm import LinearRankSVM
>>> from ranksvm.preprocessing import QueryFeatures
>>> model = make_pipeline(QueryFeatures(("rank",)), LinearRankSVM())

In a pipeline, metadata routing must be on (``sklearn.set_config(enable_metadata_routing=True)``),
so that ``qid`` gets from ``fit``, ``predict`` and ``score`` of the pipeline to the transformer.
"""

from __future__ import annotations

# mypy: allow-subclassing-any
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ranksvm._checks import check_flag
from ranksvm._messages import Param, ParameterError
from ranksvm._text import counted
from ranksvm._threads import resolve_n_jobs
from ranksvm.data.frames import split_frame
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_features import (
    append_query_features,
    check_query_features,
    query_feature_names,
    query_features,
)
from ranksvm.estimators.inputs import check_X, fitting, known_qid

__all__ = ["QueryFeatures"]


class QueryFeatures(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Features that say where an item stands among the items of its query.

    Parameters
    ----------
    features : list or tuple of str, default=("rank",)
        What to compute for every feature x, from the values of the items of the same query:

        - "rank": rank of x, ascending, divided by the number of items; equal values share the mean
          of their ranks, so the result is in (0, 1];
        - "minmax": (x - min) / (max - min);
        - "zscore": (x - mean) / standard deviation;
        - "mean_diff": x - mean.

        The last three are 0 where all items of a query are equal.
    append : bool, default=True
        Whether the result has the features of X first; False: only the new ones.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.

    Attributes
    ----------
    n_queries_ : int
        Number of queries in ``fit``.
    n_features_in_ : int
        Number of features of the items.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names of the items, if X had any.

    Notes
    -----
    Nothing is learned but the number and names of the features: ``transform`` compares the items
    that it is given.  They must be whole queries, and the features of an item depend on the others.

    The result is dense, also for sparse X: n_items * n_features_out numbers of the type of X.

    Examples
    --------
    >>> import numpy as np
    >>> from ranksvm.preprocessing import QueryFeatures
    >>> X = np.array([[10.0], [30.0], [20.0], [7.0], [7.0]])
    >>> QueryFeatures().fit_transform(X, qid=[1, 1, 1, 2, 2]).round(2).tolist()
    [[10.0, 0.33], [30.0, 1.0], [20.0, 0.67], [7.0, 0.75], [7.0, 0.75]]
    """

    # With metadata routing enabled, `qid` is passed on without set_fit_request.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__transform: ClassVar[dict[str, Any]] = {"qid": True}

    n_queries_: int
    n_features_in_: int
    # Columns of the training data frame that are not features, and the one with the query ids.
    _frame_columns: frozenset[str] = frozenset()
    _qid_column: str | None = None

    def __init__(
        self,
        features: Sequence[str] = ("rank",),
        *,
        append: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.features = features
        self.append = append
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, qid: ArrayLike | str | None = None) -> QueryFeatures:
        """Check the items, and note their features.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            Items.
        y : None
            Ignored.
        qid : array-like of shape (n_items,), str or None
            Query id of each item, or the name of a column of X.  None: all items are one query.

        Returns
        -------
        self : QueryFeatures
        """
        self._fit(X, qid)
        return self

    def transform(self, X: Any, qid: ArrayLike | str | None = None) -> NDArray[Any]:
        """Compute the features of items among those of their query.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            Items of whole queries.
        qid : array-like of shape (n_items,), str or None
            Query id of each item, or the name of a column of X.  None: the column that was used in
            ``fit``, if X is a data frame that has it; otherwise all items are one query, which is
            refused if there were several in ``fit``.

        Returns
        -------
        ndarray of shape (n_items, n_features_out)
            float32 if X is, otherwise float64.
        """
        check_is_fitted(self)
        qid = known_qid(self, X, qid)
        if qid is None and self.n_queries_ > 1:
            raise ValueError(
                f"transform() got no qid, but {type(self).__name__} was fitted on "
                f"{counted(self.n_queries_, 'query')}, and features are relative to the items of "
                "the same query. Pass qid=. (If all items belong to one query: "
                "qid=[0] * n_items. In scikit-learn pipelines, enable_metadata_routing passes qid "
                "on to transformers: pipeline.predict(X, qid=qid).)"
            )
        X, columns = split_frame(X, qid=qid)
        X = check_X(self, X, reset=False)
        return self._compute(X, QueryGroups.from_qid(columns["qid"], X.shape[0]))

    def fit_transform(
        self, X: Any, y: Any = None, qid: ArrayLike | str | None = None
    ) -> NDArray[Any]:
        """Fit, and transform the same items; see ``fit`` and ``transform``.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            Items of whole queries.
        y : None
            Ignored.
        qid : array-like of shape (n_items,), str or None
            Query id of each item, or the name of a column of X.  None: all items are one query.

        Returns
        -------
        ndarray of shape (n_items, n_features_out)
            float32 if X is, otherwise float64.
        """
        return self._compute(*self._fit(X, qid))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns: those of X, then ``rank(bm25)`` and so on.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the features of X.  None: those of ``fit``, or else x0, x1, ...

        Returns
        -------
        ndarray of str objects, shape (n_features_out,)
        """
        given = list(super().get_feature_names_out(input_features))
        names = query_feature_names(self._features(), given)
        return np.array([*given, *names] if self.append else names, dtype=object)

    def _fit(self, X: Any, qid: Any) -> tuple[Any, QueryGroups]:
        """Set all attributes; return the items, and their queries."""
        self._features()
        check_flag("append", self.append)
        with fitting(self):
            X, columns = split_frame(X, qid=qid)
            X = check_X(self, X, reset=True)
            groups = QueryGroups.from_qid(columns["qid"], X.shape[0])
            self._qid_column = qid if isinstance(qid, str) else None
            self._frame_columns = frozenset({qid} if isinstance(qid, str) else ())
        self.n_queries_ = groups.n_queries
        return X, groups

    def _features(self) -> tuple[str, ...]:
        names = check_query_features("features", self.features)
        if not names:
            raise ParameterError("{name} is empty; name at least one", name=Param("features"))
        return names

    def _compute(self, X: Any, groups: QueryGroups) -> NDArray[Any]:
        compute = append_query_features if self.append else query_features
        return compute(X, groups, self._features(), n_threads=resolve_n_jobs(self.n_jobs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
