"""Folds of whole queries, paths over C, and the choice of C and gamma.

``LinearRankSVMCV``, ``KernelRankSVMCV`` and ``AutoRankSVM`` are imported when they are first used:
only they need scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranksvm.learners.kernel import default_gammas
from ranksvm.model_selection.grids import default_Cs
from ranksvm.model_selection.path import fit_path

# The function and its module have one name, which must always mean the function: so it is imported
# here, and not when somebody asks for it.
from ranksvm.model_selection.search import Search, search
from ranksvm.model_selection.splitters import QueryKFold, letor_folds, query_train_test_split

if TYPE_CHECKING:
    from ranksvm.model_selection.auto import AutoRankSVM
    from ranksvm.model_selection.kernel_cv import KernelRankSVMCV
    from ranksvm.model_selection.linear_cv import LinearRankSVMCV

_HOME = {
    "AutoRankSVM": "ranksvm.model_selection.auto",
    "KernelRankSVMCV": "ranksvm.model_selection.kernel_cv",
    "LinearRankSVMCV": "ranksvm.model_selection.linear_cv",
}

__all__ = [
    "AutoRankSVM",
    "KernelRankSVMCV",
    "LinearRankSVMCV",
    "QueryKFold",
    "Search",
    "default_Cs",
    "default_gammas",
    "fit_path",
    "letor_folds",
    "query_train_test_split",
    "search",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
