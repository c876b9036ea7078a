"""The interface of models: scores, explanations, a description, and the arrays in a file.

A :class:`Model` does not depend on scikit-learn, files or commands; estimators, model files,
commands and exports use models only through this class.  The subclasses are in
:mod:`ranksvm.learners`, next to their settings and problems.

The *format* of a model file says which arrays it contains (:mod:`ranksvm.models.formats`).

The features are the numbers of a table or an array, or what became of its columns
(:mod:`ranksvm.data.table_encoding`): categories and missing values.

A model sees *columns*: the features of the items, features of their query, or both
(:mod:`ranksvm.data.query_view`), and these scaled.  Without features of the query, columns and
features are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ranksvm._cached import cached_property
from ranksvm._sparse import is_sparse
from ranksvm._text import counted
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_view import QueryView
from ranksvm.data.scaling import Scaling
from ranksvm.data.table_encoding import TableEncoding
from ranksvm.models.explain import Explanation
from ranksvm.models.formats import Arrays, Format

# Columns times items that are made at a time.
MADE_VALUES = 1 << 22


class ModelFileError(ValueError):
    """A file cannot be read as a model; the message says why, and what to do."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(ABC):
    """A trained model, which computes the scores of items.

    Attributes
    ----------
    params : mapping
        Parameters of the fit, by name.
    facts : mapping
        Facts about the training: objective, gap, number of pairs, ...
    feature_names : tuple of str or None
        One name per feature.
    scaling : Scaling or None
        How columns are scaled before anything else; None if they are used as they are.

    Notes
    -----
    Values in ``params`` and ``facts`` are None, booleans, integers, floats, strings, and lists and
    mappings (with string keys) of these.  NumPy scalars are saved as numbers, and tuples as lists.
    """

    params: Mapping[str, Any]
    facts: Mapping[str, Any]
    feature_names: tuple[str, ...] | None = None
    scaling: Scaling | None = None

    # The formats in which its arrays can be saved, by name.
    FORMATS: ClassVar[Mapping[str, Format]]

    @property
    def kind(self) -> str:
        """Name of its format, a key of ``FORMATS``; the only one by default."""
        (kind,) = self.FORMATS
        return kind

    @property
    def view(self) -> QueryView:
        """What the columns are made of."""
        return QueryView.of_facts(self.facts)

    @cached_property
    def encoding(self) -> TableEncoding | None:
        """What the columns of a table become, if the features are not just their numbers."""
        return TableEncoding.of_facts(self.facts)

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Number of columns."""

    @property
    def n_features(self) -> int:
        """Number of features of the items."""
        return self.view.n_features(self.n_columns)

    def column_name(self, k: int, first: int = 0, called: str = "") -> str:
        """Return the name of a column.

        Features without a name have numbers, beginning with ``first``, after the text ``called``.
        """
        block, feature = divmod(k, self.n_features)
        if self.feature_names is not None:
            name = self.feature_names[feature]
        elif self.encoding is not None:
            name = self.encoding.feature_name(feature, first, called)
        else:
            name = f"{called}{feature + first}"
        return self.view.column_name(block, name)

    @property
    def column_weights(self) -> Array | None:
        """Weights of the columns, if scores are weighted sums of them; otherwise None."""
        return None

    @property
    def weights(self) -> Array | None:
        """Weights of the features, if scores are weighted sums of features; otherwise None."""
        return None if self.view else self.column_weights

    @property
    def is_sparse(self) -> bool:
        """Whether it scores sparse X faster than dense X."""
        return False

    def scores(self, X: Any, *, groups: QueryGroups | None = None, n_threads: int = 1) -> Array:
        """Score items.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_items, n_features), finite
            Items; of whole queries, if the model has features of the query.
        groups : QueryGroups or None, default=None
            The queries of the items, for features of the query.  None: all items are one query,
            which is refused if the model was trained on several.
        n_threads : int

        Returns
        -------
        ndarray of shape (n_items,)

        Raises
        ------
        ValueError
            If the queries of the items are needed, and there are none.
        """
        if self.scaling is None and not self.view:
            return self.scaled_scores(X, n_threads=n_threads)
        scores = np.empty(X.shape[0])
        for rows, columns in self._columns(X, groups, n_threads):
            if self.scaling is not None:
                columns = self.scaling.apply(columns, n_threads)
            scores[rows] = self.scaled_scores(columns, n_threads=n_threads)
        return scores

    def _columns(
        self, X: Any, groups: QueryGroups | None, n_threads: int
    ) -> Iterator[tuple[Any, Any]]:
        """Yield some rows at a time, and their columns: a copy of all of them could be large."""
        n_items, view = X.shape[0], self.view
        most = max(1, MADE_VALUES // max(1, self.n_columns))
        X = X.tocsr() if is_sparse(X) else X
        if view:
            for rows, queries in self.needed_groups(groups, n_items).pieces(most):
                yield rows, view.apply(X[rows], queries, n_threads)
            return
        for begin in range(0, n_items, most):
            part = slice(begin, begin + most)
            yield part, X[part]

    def needed_groups(self, groups: QueryGroups | None, n_items: int) -> QueryGroups:
        """Return the queries for the features of the query; see :meth:`scores`."""
        if groups is not None:
            return groups
        n_queries = self.facts.get("n_queries", 1)
        if n_queries > 1:
            raise ValueError(
                f"the model was trained on {counted(n_queries, 'query')} with features of the "
                f"query ({', '.join(self.view.names)}), and needs the query of each item, but got "
                "no qid. Pass it, as in predict(X, qid=qid). (If all items belong to one query: "
                "qid=[0] * n_items. Pipelines pass it on with enable_metadata_routing.)"
            )
        return QueryGroups.from_qid(None, n_items)

    @abstractmethod
    def scaled_scores(self, X: Any, *, n_threads: int = 1) -> Array:
        """Score items from their scaled columns; those as they are, without a scaling."""

    @abstractmethod
    def contributions(self, rows: Any) -> tuple[str, NDArray[np.int64], Array]:
        """Split the difference of the scores of two items into a sum.

        Parameters
        ----------
        rows : ndarray or CSR matrix of shape (2, n_columns), float64
            Scaled columns of the two items.

        Returns
        -------
        part, index, contributions
            As in :class:`ranksvm.models.Explanation`, in any order and with zeros.
        """

    def explain(
        self,
        X: Any,
        i: int,
        j: int,
        *,
        groups: QueryGroups | None = None,
        items: tuple[str, str] | None = None,
        first: int = 0,
    ) -> Explanation:
        """Explain why item i is ranked above or below item j.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_items, n_features), finite
            Features.
        i, j : int
            Rows of X, from 0.
        groups : QueryGroups or None
            As for :meth:`scores`: features of the query compare the items with all those of their
            queries.
        items : tuple of two str, or None
            Names of i and j; None for their row numbers.
        first : int
            Number of the first row or feature in generated names: 0 or 1.

        Returns
        -------
        Explanation
        """
        rows = self._columns_of(X, (i, j), groups)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = rows if self.scaling is None else self.scaling.apply(rows)
            part, index, contributions = self.contributions(scaled)
        one, other = self.scaled_scores(scaled).tolist()
        if not (np.isfinite(one - other) and np.isfinite(contributions).all()):
            raise OverflowError(
                f"the scores {one:g} and {other:g}, or parts of their difference, overflow float64 "
                "and cannot be explained. Scale the features down."
            )
        kept = np.flatnonzero(contributions)
        kept = kept[np.lexsort((index[kept], -np.abs(contributions[kept])))]
        called = "training item" if part == "support item" else part  # i and j are items as well
        return Explanation(
            part=part,
            names=tuple(
                self.column_name(k, first, "feature ")
                if part == "feature"
                else f"{called} {k + first}"
                for k in index[kept].tolist()
            ),
            index=index[kept],
            contributions=contributions[kept],
            difference=one - other,
            scores=(one, other),
            items=items or (f"row {i + first}", f"row {j + first}"),
        )

    def _columns_of(self, X: Any, items: tuple[int, int], groups: QueryGroups | None) -> Any:
        """Return the columns of two items, in float64."""
        chosen: Any = list(items)
        queries, places = None, [0, 1]
        if self.view:
            groups = self.needed_groups(groups, X.shape[0])
            is_near = np.isin(groups.index, groups.index[chosen])  # in a query of the two
            near = np.flatnonzero(is_near)
            queries = QueryGroups.from_qid(groups.index[near], near.size)
            chosen, places = near, np.searchsorted(near, chosen)
        rows = (X.tocsr() if is_sparse(X) else X)[chosen].astype(np.float64)
        return rows if queries is None else self.view.apply(rows, queries)[places]

    @property
    def scaling_name(self) -> str | None:
        """Name of the scaling of the features; None if they are taken as they are."""
        found: str | None = self.facts.get("scaling", self.params.get("scaling"))
        return found

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return a summary for display, by name; values may be lists and mappings."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save; by default the attributes with the names in its format."""
        form = self.FORMATS[self.kind]
        found = {name: getattr(self, name) for name in (*form.arrays, *form.optional)}
        return {name: array for name, array in found.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: Arrays, **about: Any) -> Self:
        """Return the model for the contents of a file.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            The arrays, already checked by :func:`ranksvm.models.formats.check_model`.
        **about
            ``params``, ``facts`` and ``feature_names``.
        """
        parts: dict[str, Any] = {**arrays, **about}
        return cls(**parts)
