"""Harrell's concordance index: pairwise accuracy with censored times.

Of all pairs of which it is known who survived longer (:mod:`ranksvm.data.survival`), the share in
which that item has the higher score; pairs with tied scores count half.  O(n log n).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._checks import check_weights
from ranksvm._threads import resolve_n_jobs
from ranksvm._values import as_levels
from ranksvm._vectors import Array
from ranksvm.backends.labels import label_backend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.survival import check_events, no_event, split_target, survival_order
from ranksvm.metrics.checks import check_scores, check_vector
from ranksvm.pairs.accuracy import right_and_total


def concordance_index(
    y: Any,
    scores: ArrayLike,
    event: ArrayLike | None = None,
    qid: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> float:
    """Harrell's concordance index of scores that are larger for longer survival.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Times; or times and events together, as a structured array or a frame with two columns, one
        of which is boolean.
    scores : array-like of shape (n_items,)
        Scores; larger means longer survival.  Negate scores of risk.
    event : array-like of shape (n_items,) or None, default=None
        Whether the event happened (True, 1), or the time is censored (False, 0).  None: all
        happened, unless y says it.
    qid : array-like of shape (n_items,) or None, default=None
        Stratum of each item: only items of the same one are compared.
    sample_weight : array-like of shape (n_items,) or None, default=None
        Item weights >= 0; the weight of a pair is the product of the weights of its items.
    n_jobs : int or None, default=None
        Number of threads; None or -1 for all cores that the process may use.

    Returns
    -------
    float
        Between 0 and 1; random scores have 0.5.  The pairs of all strata are pooled.

    Examples
    --------
    >>> from ranksvm.metrics import concordance_index
    >>> concordance_index([5, 8, 8, 12], [1.0, 2.0, 4.0, 3.0], event=[1, 0, 1, 1])
    0.6
    """
    time, event = split_target(y, event)
    times = as_levels(check_vector("y", time))
    events = check_events(event, len(times))
    levels, _ = check_scores("scores", scores)
    if len(levels) != len(times):
        raise ValueError(
            f"scores has {len(levels)} values for {len(times)} times; pass one score per item"
        )
    weight = None
    if sample_weight is not None:
        weight = check_weights("sample_weight", sample_weight, len(times), "item", may_be_zero=True)
    groups = QueryGroups.from_qid(qid, len(times))
    return concordance(times, events, levels, groups, weight, n_threads=resolve_n_jobs(n_jobs))


def concordance(
    time: Array,
    event: NDArray[np.bool_],
    scores: Array,
    groups: QueryGroups,
    item_weight: Array | None,
    *,
    n_threads: int = 1,
) -> float:
    """Return the concordance index of checked arrays."""
    if not event.any():
        raise no_event(len(event))
    key, roles = survival_order(time, event)
    backend = label_backend(key, groups, item_weight, None, roles=roles, n_threads=n_threads)
    right, total = right_and_total(backend, scores)
    if not total.sum() > 0.0:
        raise ValueError(
            "the concordance index is undefined: no event comes before another item of its "
            "stratum, both of positive weight"
        )
    return float(right.sum() / total.sum())
