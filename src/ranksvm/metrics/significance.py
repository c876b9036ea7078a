"""Tests of paired differences d_1, ..., d_n, one for each query.

    paired t-test         two-sided, of mean(d) = 0
    randomization test    if neither ranking is better, each d is as likely to have the opposite
                          sign.  p is the share of all choices of signs with |sum| at least as large
                          as observed: all 2^m of them for up to 16 nonzero differences, else B
                          random ones, with p = (1 + hits) / (1 + B)
    Holm's correction     of p_1 <= ... <= p_m: the i-th becomes the largest (m - j + 1) p_j with
                          j <= i, at most 1

See Holm (1979), and Smucker, Allan & Carterette (2007) for the two tests in information retrieval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array

# Up to 2^16 choices of signs are enumerated.
_EXACT = 16
# Number of signs to draw at a time.
_CHUNK = 1 << 22
# Rounding errors: relative to the sum of all |d| for sums, to the mean for differences.
_ROUNDING = 1e-12


class TTest(NamedTuple):
    """95% confidence interval of the mean, p-value, and a remark on special cases."""

    low: float
    high: float
    p: float
    note: str = ""


def t_test(difference: Array) -> TTest:
    """Test whether the mean is zero; NaN for a single difference other than zero."""
    mean = float(difference.mean())
    if not difference.any():
        return TTest(0.0, 0.0, 1.0, "the rankings score the same in every query")
    if difference.shape[0] < 2:
        return TTest(np.nan, np.nan, np.nan, "a t-test needs at least two queries")
    if np.ptp(difference) <= _ROUNDING * abs(mean):
        note = (
            "the difference is the same in every query: without any spread t is infinite, and the "
            "p-value of the t-test means little"
        )
        return TTest(mean, mean, 0.0, note)
    from scipy.stats import ttest_1samp  # slow to import

    result = ttest_1samp(difference, 0.0)
    interval = result.confidence_interval(0.95)
    return TTest(float(interval.low), float(interval.high), float(result.pvalue))


def randomization_test(difference: Array, n_permutations: int, seed: int) -> float:
    """Return the p-value of the sum under random signs."""
    d = difference[difference != 0.0]
    n = d.shape[0]
    observed = abs(float(d.sum())) - _ROUNDING * float(np.abs(d).sum())
    if n <= _EXACT:
        choices = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
        return float(np.mean(np.abs(_signed_sums(choices, d)) >= observed))
    rng = np.random.default_rng(seed)
    n_bytes = -(-n // 8)
    hits = drawn = 0
    while drawn < n_permutations:
        size = min(n_permutations - drawn, max(1, _CHUNK // n))
        bits = np.frombuffer(rng.bytes(size * n_bytes), dtype=np.uint8).reshape(size, n_bytes)
        positive = np.unpackbits(bits, axis=1, count=n)
        hits += int((np.abs(_signed_sums(positive, d)) >= observed).sum())
        drawn += size
    return (1 + hits) / (1 + n_permutations)


def _signed_sums(positive: NDArray[Any], d: Array) -> Array:
    """Sum the differences by row, with the sign + where ``positive`` is 1 and - where it is 0."""
    return np.asarray(2.0 * np.einsum("ij,j->i", positive.astype(np.float64), d) - d.sum())


def holm(p: Sequence[float]) -> Array:
    """Correct p-values for multiple comparisons; NaN stays NaN and does not count."""
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    order = np.argsort(values, kind="stable")  # NaN last
    order = order[: int((~np.isnan(values)).sum())]
    scaled = values[order] * np.arange(order.shape[0], 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted
