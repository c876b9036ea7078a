"""Long vectors without the threads of a BLAS.

The BLAS that NumPy comes with uses all cores for long dot products, whatever ``n_jobs`` says; its
rounding depends on their number, and its waiting threads take the cores from ours.  These products
are bound by memory anyway.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "dot"]

Array = NDArray[np.float64]


def dot(u: Array, v: Array) -> float:
    """Inner product of two vectors; the same bits whatever the number of threads."""
    return float(np.einsum("i,i->", u, v))
