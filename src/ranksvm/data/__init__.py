"""Data on its way in: query groups and synthetic sets.

This layer imports nothing else of the package.
"""

from ranksvm.data.queries import QueryGroups

__all__ = ["QueryGroups"]
