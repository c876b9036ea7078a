"""Linear models: scores are weighted sums of features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.maps.matrix import MatrixMap
from ranksvm.models.formats import FEATURES, ArraySpec, Format
from ranksvm.models.model import Model

COEF = ArraySpec(np.dtype(np.float64), (FEATURES,))
DEVIATION = {"deviation": COEF}


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModel(Model):
    """A linear model: scores are weighted sums of features, or of other columns.

    Attributes
    ----------
    coef : ndarray of shape (n_columns,)
        Weights of the columns.  A scaling by factors is part of them; quantiles are not.
    deviation : ndarray of shape (n_columns,) or None
        Standard deviations of the columns in the training set, scaled if that is not part of coef;
        None if they are not known.
    """

    coef: Array
    deviation: Array | None = None

    FORMATS: ClassVar[Mapping[str, Format]] = {"linear": Format({"coef": COEF}, optional=DEVIATION)}

    @property
    def n_columns(self) -> int:
        return len(self.coef)

    @property
    def column_weights(self) -> Array | None:
        return self.coef if self.scaling is None else None

    def scaled_scores(self, X: Any, *, n_threads: int = 1) -> Array:
        return MatrixMap(X, n_threads=n_threads).scores(self.coef)

    def contributions(self, rows: Any) -> tuple[str, NDArray[np.int64], Array]:
        if not is_sparse(rows):
            return "feature", np.arange(self.n_columns), self.coef * (rows[0] - rows[1])
        change = (rows[[0]] - rows[[1]]).tocsr()
        change.sum_duplicates()
        columns = change.indices.astype(np.int64)
        return "feature", columns, self.coef[columns] * change.data

    @property
    def importances(self) -> Array | None:
        """How much each feature matters, shape (n_features,); None if that is not known.

        ``|coef|`` times the standard deviation: how far the column moves scores.  The columns of a
        feature and of its features of the query are added up, and all features sum to 1.
        """
        if self.deviation is None:
            return None
        largest = np.abs(self.coef).max(initial=0.0) or 1.0  # products might overflow
        widest = self.deviation.max(initial=0.0) or 1.0
        moves = np.abs(self.coef / largest) * (self.deviation / widest)
        by_feature: Array = moves.reshape(self.view.n_blocks, -1).sum(axis=0)
        return by_feature / (by_feature.sum() or 1.0)

    def describe(self) -> dict[str, Any]:
        used = int(self.coef.reshape(self.view.n_blocks, -1).any(axis=0).sum())
        return {"scaling": self.scaling_name, "features_used": used}
