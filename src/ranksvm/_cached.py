"""Properties that are computed once.

``functools.cached_property`` of Python 3.11 has a lock for each property, which all instances share
and which is held while a value is computed.  With it, fits in several threads would wait for each
other, and a process that is forked during a fit would wait forever.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):  # named like the original
        """A property that is computed once, without a lock."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
