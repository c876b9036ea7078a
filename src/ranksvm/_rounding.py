"""Bounds of rounding errors that hold whatever the order of the operations.

float64 rounds the result of an operation by at most ``UNIT`` times its size.  So a sum of n
products a_k b_k, added up in any order, is off by at most

    roundings(n + 1) * sum |a_k b_k|

(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).  What is made of it stands in
``docs/certificates_proof.md``.  Bounds are themselves computed in float64; ``SLACK`` covers that.
``TINY`` covers what underflows.
"""

from __future__ import annotations

__all__ = ["SLACK", "TINY", "UNIT", "roundings"]

UNIT = 2.0**-53
SLACK = 1.001
TINY = 1e-315


def roundings(n: float) -> float:
    """Relative error of a term after n roundings, at most."""
    return SLACK * n * UNIT
