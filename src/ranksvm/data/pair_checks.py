"""Check whether preference pairs match the items that they name.

Pair files count rows from 1 or from 0, and nothing in them says which.  With the wrong base, every
pair consists of the neighbors of the intended items, and a model learns nonsense.  What is known
about the items tells the two cases apart:

    labels     most pairs of items with different labels prefer the larger label
    queries    pairs stay within queries

The labels also reveal files that name the worse item first or belong to other items, and pairs that
are given although the labels imply them.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Message, Param
from ranksvm.data.preferences import Preferences, positive_pairs
from ranksvm.data.ranking_data import RankingData

# Fewer pairs across queries than this prove nothing.
_FEW = 3
# A smaller difference in the share of agreeing pairs is ignored, however many pairs there are.
_LEAST = 0.1

# The parameter for files that count rows from 0.
ZERO_BASED = Param("zero_based", True, function="read_pairs")


class _Fit(NamedTuple):
    """How well pairs match the items, for one base of the row numbers."""

    agree: int  # pairs whose better item has the larger label
    differ: int  # pairs of items with different labels
    across: int  # pairs of items of different queries

    @property
    def share(self) -> float:
        return self.agree / self.differ if self.differ else 0.5

    @property
    def noise(self) -> float:
        """Two standard deviations of the share, if the pairs were random."""
        return 1.0 / sqrt(self.differ) if self.differ else np.inf


def doubt_about(
    preferences: Preferences,
    y: NDArray[Any] | None,
    qid: NDArray[Any] | None,
    *,
    zero_based: bool | None,
) -> Message | None:
    """Return a warning if the pairs do not seem to match the items.

    Parameters
    ----------
    preferences : Preferences
        Pairs as they were read.
    y, qid : ndarray of shape (n_items,) or None
        Labels and query ids of the items, if known.
    zero_based : bool or None
        Whether row numbers were assumed to start at 0; None if the file has document ids.

    Returns
    -------
    Message or None
        A sentence or two, to be printed after the name of the file.
    """
    known = y if y is not None else qid
    if known is None:
        return None
    better, worse, _ = positive_pairs(preferences).preferred
    now = _fit(better, worse, y, qid)
    if zero_based is not None:
        shift = -1 if zero_based else 1
        rows = np.stack([better, worse]) + shift
        if rows.size and rows.min() >= 0 and rows.max() < len(known):
            found = _against(now, _fit(rows[0], rows[1], y, qid), len(better))
            if found is not None:
                here, there = (0, 1) if zero_based else (1, 0)
                return Message(
                    "may count rows from {there}: counted from {here}, {first}; counted from "
                    "{there}, {second}. If so, {verb} {flag}{out}.",
                    here=here,
                    there=there,
                    first=found[0],
                    second=found[1],
                    verb="leave" if zero_based else "use",
                    flag=ZERO_BASED,
                    out=" out" if zero_based else "",
                )
    if now.share < 0.5 - now.noise:
        return Message(
            "disagrees with the labels: only {agree} of {differ} pairs agree with them. Is the "
            "better item first on every line, and do the files belong together?",
            agree=now.agree,
            differ=now.differ,
        )
    return None


def count_implied(data: RankingData) -> int:
    """Count the preferences that follow from the labels as well, and so count twice.

    Both the preference and the pair that follows from the labels must have a positive weight.
    """
    if data.y is None or data.preferences is None:
        return 0
    better, worse, _ = positive_pairs(data.preferences, data.query_weight).preferred
    query, weight = data.groups.index, data.item_weight
    implied = (query[better] == query[worse]) & (data.y[better] > data.y[worse])
    if weight is not None:
        implied &= (weight[better] > 0.0) & (weight[worse] > 0.0)
    if data.query_weight is not None:
        implied &= data.query_weight[query[better]] > 0.0
    return int(np.count_nonzero(implied))


def _fit(
    better: NDArray[np.int64],
    worse: NDArray[np.int64],
    y: NDArray[Any] | None,
    qid: NDArray[Any] | None,
) -> _Fit:
    agree = differ = across = 0
    if y is not None:
        agree = int(np.count_nonzero(y[better] > y[worse]))
        differ = int(np.count_nonzero(y[better] != y[worse]))
    if qid is not None:
        across = int(np.count_nonzero(qid[better] != qid[worse]))
    return _Fit(agree, differ, across)


def _against(now: _Fit, other: _Fit, n_pairs: int) -> tuple[str, str] | None:
    """Return how well each base matches if the other one is clearly better, else None."""
    gain = other.share - now.share
    clear = max(_LEAST, min(1.0, now.noise + other.noise))
    # A file that names the worse item first agrees with neither base, and best when reversed.
    if gain > clear and other.share > 1.0 - now.share:
        return (
            f"{now.agree} of {now.differ} pairs agree with the labels",
            f"{other.agree} of {other.differ}",
        )
    if now.across >= _FEW and 10 * other.across < now.across and gain > -clear:
        return (
            f"{now.across} of {n_pairs} pairs join items of different queries",
            f"{other.across or 'none'}",
        )
    return None
