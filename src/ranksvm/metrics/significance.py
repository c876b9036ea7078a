"""Tests of paired differences d_1, ..., d_n, one for each query.

    paired t-test         t = mean(d) / (sd(d) / sqrt(n)), two-sided, n - 1 degrees of freedom
    randomisation test    if neither ranking is better, the sign of every d is as good as the other;
                          p is the share of all choices of signs with |sum| at least as large as
                          found.  All 2^m of them for up to 16 differences that are not zero, else
                          a seeded sample of B: p = (1 + hits) / (1 + B)
    Holm's correction     of p_1 <= ... <= p_m: the i-th becomes the largest (m - j + 1) p_j of
                          j <= i, at most 1

(Holm 1979; Smucker, Allan & Carterette 2007 on the two tests in retrieval.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array

__all__ = ["TTest", "holm", "randomization_test", "t_test"]

# Up to 2^16 choices of signs are all looked at.
_EXACT = 16
# Signs that are drawn at a time.
_CHUNK = 1 << 22
# Sums that differ by less than this share of the sum of all |d| are equal up to rounding; so are
# differences that differ by less than this share of their mean.
_ROUNDING = 1e-12


class TTest(NamedTuple):
    """Both ends of the 95% confidence interval of the mean, the p-value, and what is special."""

    low: float
    high: float
    p: float
    note: str = ""


def t_test(difference: Array) -> TTest:
    """Test whether the mean is zero; NaN for a single difference, unless it is zero itself."""
    from scipy.special import stdtr, stdtrit

    n = difference.shape[0]
    mean = float(difference.mean())
    if not difference.any():
        return TTest(0.0, 0.0, 1.0, "the rankings score the same in every query")
    if n < 2:
        return TTest(np.nan, np.nan, np.nan, "a t-test needs at least two queries")
    if np.ptp(difference) <= _ROUNDING * abs(mean):
        note = (
            "the difference is the same in every query: without any spread t is infinite, and the "
            "p-value of the t-test means little"
        )
        return TTest(mean, mean, 0.0, note)
    error = float(difference.std(ddof=1)) / np.sqrt(n)
    half = float(stdtrit(n - 1, 0.975)) * error
    p = 2.0 * float(stdtr(n - 1, -abs(mean) / error))
    return TTest(mean - half, mean + half, p)


def randomization_test(difference: Array, n_permutations: int, seed: int) -> float:
    """Return the p-value of the sum under random signs."""
    d = difference[difference != 0.0]
    n = d.shape[0]
    total = float(np.abs(d).sum())
    least = abs(float(d.sum())) - _ROUNDING * total  # a sum of signed d counts from here on
    if n <= _EXACT:
        choices = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
        return float(np.mean(np.abs(_signed_sums(choices, d)) >= least))
    rng = np.random.default_rng(seed)
    n_bytes = -(-n // 8)
    hits = drawn = 0
    while drawn < n_permutations:
        size = min(n_permutations - drawn, max(1, _CHUNK // n))
        bits = np.frombuffer(rng.bytes(size * n_bytes), dtype=np.uint8).reshape(size, n_bytes)
        positive = np.unpackbits(bits, axis=1, count=n)
        hits += int((np.abs(_signed_sums(positive, d)) >= least).sum())
        drawn += size
    return (1 + hits) / (1 + n_permutations)


def _signed_sums(positive: NDArray[Any], d: Array) -> Array:
    """Add up the differences: those with a 1 in the row as they are, the others turned."""
    return np.asarray(2.0 * np.einsum("ij,j->i", positive.astype(np.float64), d) - d.sum())


def holm(p: Sequence[float]) -> Array:
    """Adjust p-values; NaN stays NaN and does not count."""
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    order = np.argsort(values, kind="stable")  # NaN last
    order = order[: int((~np.isnan(values)).sum())]
    scaled = values[order] * np.arange(order.shape[0], 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted
