"""Bounds on rounding errors that hold for any order of the operations.

In float64 the relative rounding error of an operation is at most ``UNIT``.  The error of a sum of n
products a_k b_k, added in any order, is therefore at most

    roundings(n + 1) * sum |a_k b_k|

(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
``docs/certificates_proof.md`` shows how these bounds are used.  The bounds are computed in float64
themselves; ``SLACK`` covers their rounding and ``TINY`` covers underflow.
"""

from __future__ import annotations

UNIT = 2.0**-53
SLACK = 1.001
TINY = 1e-315


def roundings(n: float) -> float:
    """Return a bound on the relative error of a term after n roundings."""
    return SLACK * n * UNIT
