"""Factorized models: a linear model, and the factors of the training items that define it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranksvm._text import counted
from ranksvm._vectors import Array
from ranksvm.learners.linear_model import COEF, DEVIATION, LinearModel
from ranksvm.models.formats import ArraySpec, Format


def _check_factors(arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
    """Raise if there are no factors."""
    del n_features
    if not arrays["factors"].size:
        raise ValueError(f"array 'factors' must not be empty; got shape {arrays['factors'].shape}")


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorizedModel(LinearModel):
    """A linear model, and the factors of the training items that define its weights.

    Attributes
    ----------
    factors : ndarray of shape (n_items, n_factors)
        Factors of the training items.
    """

    factors: Array

    FORMATS: ClassVar[Mapping[str, Format]] = {
        "factorized": Format(
            {
                "coef": COEF,
                "factors": ArraySpec(np.dtype(np.float64), ("items", "factors")),
            },
            _check_factors,
            optional=DEVIATION,
        )
    }

    def describe(self) -> dict[str, Any]:
        n_items, n_factors = self.factors.shape
        return {**super().describe(), "factors": n_factors, "items_with_factors": n_items}


def summary(report: Mapping[str, Any]) -> str:
    """Return a line of text about a factorized model that was just trained."""
    parts = [counted(report["settings"]["n_factors"], "factor"), report["optimizer"]]
    if len(report["restarts"]) > 1:
        parts.append(f"best of {len(report['restarts'])} restarts")
    if report["status"] == "early":
        parts.append(f"stopped by {report['early_stopping']}")
    if report["early_stopping"] is not None:
        parts.append(f"iteration {report['best_iteration']} kept")
    return ", ".join([*parts, counted(report["products"], "product")])
