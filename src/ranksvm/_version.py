"""The version of the installed library, looked up on first use."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def library_version() -> str:
    """Return the version of the installed distribution, or "0+unknown" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ranksvm")
    except PackageNotFoundError:
        return "0+unknown"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return library_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
