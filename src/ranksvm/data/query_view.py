"""The columns that a model sees: the features of the items, features of their query, or both.

With the features of the query ``names`` (:mod:`ranksvm.data.query_features`), n features of the
items become these columns:

    keep          n features, then n columns for the first name, n for the second, ...
    not keep      the same without the features themselves

Features of the query compare the items of a query, so they need whole queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._text import counted
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_features import (
    append_query_features,
    query_feature_names,
    query_features,
)


@dataclass(frozen=True)
class QueryView:
    """Which columns a model sees; true if any of them are features of the query.

    Attributes
    ----------
    names : tuple of str
        Keys of ``QUERY_FEATURES``.
    keep : bool
        Whether the features themselves are the first columns.
    """

    names: tuple[str, ...] = ()
    keep: bool = True

    def __bool__(self) -> bool:
        return bool(self.names)

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> QueryView:
        """Return the view that the facts of a model have; see :meth:`facts`."""
        names = facts.get("query_features")
        return cls(tuple(names), bool(facts["keep_features"])) if names else PLAIN

    def facts(self) -> dict[str, Any]:
        """Return the facts of a model with this view."""
        return {"query_features": list(self.names), "keep_features": self.keep} if self else {}

    @property
    def n_blocks(self) -> int:
        """Number of columns per feature."""
        return len(self.names) + bool(self.keep)

    def n_features(self, n_columns: int) -> int:
        """Return the number of features that become this many columns.

        Raises
        ------
        ValueError
            If there is no such number.
        """
        if n_columns % self.n_blocks:
            raise ValueError(
                f"{counted(n_columns, 'column')} cannot be {self.n_blocks} for every feature "
                f"({', '.join([*(['itself'] if self.keep else []), *self.names])})"
            )
        return n_columns // self.n_blocks

    def column_name(self, block: int, feature_name: str) -> str:
        """Return the name of a column, ``bm25`` or ``rank(bm25)``, of a block of columns."""
        if self.keep and block == 0:
            return feature_name
        return query_feature_names(self.names, [feature_name])[block - bool(self.keep)]

    def apply(self, X: Any, groups: QueryGroups, n_threads: int = 1) -> NDArray[Any]:
        """Return the columns of items of whole queries.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_items, n_features), float32 or float64, finite
        groups : QueryGroups
            The queries of the items.
        n_threads : int
            Number of threads; it does not change the result.

        Returns
        -------
        ndarray of shape (n_items, n_blocks * n_features)
            In C order and in the type of X.

        Raises
        ------
        OverflowError
            If a difference from the mean of a query is too large for the type of X.
        """
        compute = append_query_features if self.keep else query_features
        columns = compute(X, groups, self.names, n_threads=n_threads)
        if "mean_diff" in self.names and not np.isfinite(columns).all():
            wider = ", or use float64" if columns.dtype == np.float32 else ""
            raise OverflowError(
                f"a difference from the mean of a query overflows {columns.dtype}. Scale the "
                f"features down{wider}."
            )
        return columns


PLAIN = QueryView()  # the features as they are
