"""Rankers with a kernel model: its support items or features as fitted attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.estimators.importances import NONE_FOR_KERNELS
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.learners.kernel_model import KernelModel
from ranksvm.maps.expansion import Expansion, GivenExpansion


class KernelRanker(ModelRanker):
    """Base class of estimators with a :class:`KernelModel`."""

    kernel: str | Callable[[Any, Any], Any]
    support_: NDArray[np.int64]
    dual_coef_: Array
    support_vectors_: Any
    components_: Any
    coef_: Array
    random_offset_: Array
    gamma_: float
    _expansion: Expansion | GivenExpansion

    @property
    def _is_pairwise(self) -> bool:
        return self.kernel == "precomputed"

    @property
    def feature_importances_(self) -> Array:
        """Not there: a kernel mixes the features.  The error says what to use instead."""
        raise AttributeError(NONE_FOR_KERNELS.format(name=type(self).__name__))

    def _set_model(self, model: KernelModel) -> None:
        for name in (
            "support_", "dual_coef_", "support_vectors_", "components_", "coef_", "random_offset_",
            "gamma_",
        ):  # fmt: skip
            self.__dict__.pop(name, None)
        expansion = self._expansion = model.expansion
        if model.facts.get("gamma") is not None:
            self.gamma_ = float(model.facts["gamma"])
        if model.support is not None:
            self.support_ = model.support
            self.dual_coef_ = expansion.coef
            if isinstance(expansion, Expansion):
                self.support_vectors_ = expansion.points
            return
        assert isinstance(expansion, Expansion)
        self.components_ = expansion.points
        self.coef_ = expansion.coef
        if expansion.shift is not None:
            self.random_offset_ = expansion.shift

    def _get_model(self) -> KernelModel:
        support = getattr(self, "support_", None)
        return KernelModel(expansion=self._expansion, support=support, **self._about())
