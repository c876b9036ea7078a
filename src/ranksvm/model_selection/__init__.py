"""Folds of whole queries, paths over C, and the choice of C and gamma.

Names are imported when they are first used: only ``LinearRankSVMCV`` and ``KernelRankSVMCV`` need
scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranksvm.model_selection.grid import GridSearch, default_gammas, search_grid
    from ranksvm.model_selection.kernel_cv import KernelRankSVMCV
    from ranksvm.model_selection.linear_cv import LinearRankSVMCV
    from ranksvm.model_selection.path import fit_path
    from ranksvm.model_selection.search import PathSearch, default_Cs, search_path
    from ranksvm.model_selection.splitters import QueryKFold, letor_folds, query_train_test_split

_HOME = {
    "GridSearch": "ranksvm.model_selection.grid",
    "KernelRankSVMCV": "ranksvm.model_selection.kernel_cv",
    "LinearRankSVMCV": "ranksvm.model_selection.linear_cv",
    "PathSearch": "ranksvm.model_selection.search",
    "QueryKFold": "ranksvm.model_selection.splitters",
    "default_Cs": "ranksvm.model_selection.search",
    "default_gammas": "ranksvm.model_selection.grid",
    "fit_path": "ranksvm.model_selection.path",
    "letor_folds": "ranksvm.model_selection.splitters",
    "query_train_test_split": "ranksvm.model_selection.splitters",
    "search_grid": "ranksvm.model_selection.grid",
    "search_path": "ranksvm.model_selection.search",
}

__all__ = [
    "GridSearch",
    "KernelRankSVMCV",
    "LinearRankSVMCV",
    "PathSearch",
    "QueryKFold",
    "default_Cs",
    "default_gammas",
    "fit_path",
    "letor_folds",
    "query_train_test_split",
    "search_grid",
    "search_path",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
