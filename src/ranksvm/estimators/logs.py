"""The logger of the library, which prints for estimators with ``verbose``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logged(verbose: int) -> Iterator[logging.Logger]:
    """Return the library's logger; with ``verbose``, its messages are printed meanwhile."""
    logger = logging.getLogger("ranksvm")
    if not verbose or logger.isEnabledFor(logging.INFO):  # logging is configured already
        yield logger
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # otherwise the root logger might print every line again
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
