"""The version of the installed library, looked up when somebody asks."""

from __future__ import annotations

__all__ = ["library_version"]


def library_version() -> str:
    """Version of the installed distribution; "0+unknown" in a source tree never installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ranksvm")
    except PackageNotFoundError:
        return "0+unknown"
