"""Ranking support vector machines: exact, certified, fast.

Names are imported when they are first used: scikit-learn takes a second to load, and not everything
needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranksvm._lazy import lazy_names

if TYPE_CHECKING:
    from ranksvm.estimators.base import MissingQidWarning
    from ranksvm.estimators.factorized import FactorizedRankSVM
    from ranksvm.estimators.kernel import KernelRankSVM
    from ranksvm.estimators.kernel_survival import KernelSurvivalRankSVM
    from ranksvm.estimators.linear import LinearRankSVM
    from ranksvm.estimators.loading import load
    from ranksvm.estimators.spectrum import multiplier_spectrum
    from ranksvm.estimators.survival import SurvivalRankSVM
    from ranksvm.model_selection.auto import AutoRankSVM
    from ranksvm.model_selection.kernel_cv import KernelRankSVMCV
    from ranksvm.model_selection.linear_cv import LinearRankSVMCV

    __version__: str

_HOME = {
    "AutoRankSVM": "model_selection.auto",
    "FactorizedRankSVM": "estimators.factorized",
    "KernelRankSVM": "estimators.kernel",
    "KernelRankSVMCV": "model_selection.kernel_cv",
    "KernelSurvivalRankSVM": "estimators.kernel_survival",
    "LinearRankSVM": "estimators.linear",
    "LinearRankSVMCV": "model_selection.linear_cv",
    "MissingQidWarning": "estimators.base",
    "SurvivalRankSVM": "estimators.survival",
    "__version__": "_version",
    "load": "estimators.loading",
    "multiplier_spectrum": "estimators.spectrum",
}

__all__ = [
    "AutoRankSVM",
    "FactorizedRankSVM",
    "KernelRankSVM",
    "KernelRankSVMCV",
    "KernelSurvivalRankSVM",
    "LinearRankSVM",
    "LinearRankSVMCV",
    "MissingQidWarning",
    "SurvivalRankSVM",
    "__version__",
    "load",
    "multiplier_spectrum",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME)
