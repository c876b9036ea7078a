"""Ranking support vector machines: exact, certified, fast."""

from importlib.metadata import PackageNotFoundError, version

from ranksvm.estimators.linear import LinearRankSVM

try:
    __version__ = version("ranksvm")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["LinearRankSVM", "__version__"]
