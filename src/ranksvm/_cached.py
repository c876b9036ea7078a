"""Properties that are computed once.

``functools.cached_property`` of Python 3.11 has a lock for each property, which all instances share
and which is held while a value is computed.  With it, fits in several threads would wait for each
other, and a process that is forked during a fit would wait forever.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

Value = TypeVar("Value")

if sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property[Value]):  # named like the original
        """A property that is computed once, without a lock."""

        def __init__(self, func: Callable[[Any], Value]) -> None:
            super().__init__(func)
            self.lock: Any = nullcontext()
