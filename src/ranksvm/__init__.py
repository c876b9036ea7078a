"""Ranking support vector machines: exact, certified, fast.

Names are imported when they are first used: scikit-learn takes a second to load, and not everything
needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranksvm.estimators.base import MissingQidWarning
    from ranksvm.estimators.factorized import FactorizedRankSVM
    from ranksvm.estimators.kernel import KernelRankSVM
    from ranksvm.estimators.linear import LinearRankSVM
    from ranksvm.estimators.loading import load
    from ranksvm.estimators.spectrum import multiplier_spectrum
    from ranksvm.model_selection.kernel_cv import KernelRankSVMCV
    from ranksvm.model_selection.linear_cv import LinearRankSVMCV

    __version__: str

_HOME = {
    "FactorizedRankSVM": "ranksvm.estimators.factorized",
    "KernelRankSVM": "ranksvm.estimators.kernel",
    "KernelRankSVMCV": "ranksvm.model_selection.kernel_cv",
    "LinearRankSVM": "ranksvm.estimators.linear",
    "LinearRankSVMCV": "ranksvm.model_selection.linear_cv",
    "MissingQidWarning": "ranksvm.estimators.base",
    "load": "ranksvm.estimators.loading",
    "multiplier_spectrum": "ranksvm.estimators.spectrum",
}

__all__ = [
    "FactorizedRankSVM",
    "KernelRankSVM",
    "KernelRankSVMCV",
    "LinearRankSVM",
    "LinearRankSVMCV",
    "MissingQidWarning",
    "__version__",
    "load",
    "multiplier_spectrum",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ranksvm._version import library_version

        value: Any = library_version()
    elif name in _HOME:
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
