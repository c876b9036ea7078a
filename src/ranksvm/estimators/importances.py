"""The attribute ``feature_importances_`` of linear models."""

from __future__ import annotations

from typing import Any

from ranksvm._vectors import Array

NONE_FOR_KERNELS = (
    "{name} has no feature_importances_: a kernel mixes the features, so no feature has a weight "
    "of its own. Use sklearn.inspection.permutation_importance, which works with every model: "
    "permutation_importance(model, X, y, scoring=lambda model, X, y: model.score(X, y, qid))."
)


class LinearImportances:
    """An estimator of linear models that knows how much each feature matters."""

    @property
    def feature_importances_(self) -> Array:
        """``|coef_|`` times the standard deviation of the feature in the training items.

        That is how far the feature moves the scores.  The values are those of all features divided
        by their sum, which is 1 (it is 0 if all weights are zero).  With ``query_features``, the
        columns that are made of a feature count for it.  The columns of a table with categories or
        missing values have one value for each feature that they became.
        """
        ranker: Any = self
        ranker._check_is_fitted()
        found: Array | None = ranker._get_model().importances
        if found is None:
            raise AttributeError(
                f"this {type(self).__name__} has no feature_importances_, because the standard "
                "deviations of its features are not known. They are known after a fit to data in "
                "memory, or with scaling='standard'. For features on one scale, use |coef_|."
            )
        return found
