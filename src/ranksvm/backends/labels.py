"""The pairs that labels make, with weights from gains or without."""

from __future__ import annotations

from ranksvm._vectors import Array
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.roles import RoleWeights
from ranksvm.pairs.gains import Gains, above_lowest, ideal_dcg, label_gains, query_factors
from ranksvm.pairs.order import PairOrder


def label_backend(
    y: Array,
    groups: QueryGroups,
    item_weight: Array | None,
    gains: Gains | None,
    *,
    roles: RoleWeights | None = None,
    counting: str = "auto",
    n_threads: int = 1,
) -> NativeBackend:
    """Return the pairs of labeled items.

    Parameters
    ----------
    y : ndarray of shape (n_items,)
        Labels; with gains, such as :func:`ranksvm.pairs.gains.check_labels` lets pass.
    groups : QueryGroups
    item_weight : ndarray of shape (n_items,) or None
    gains : Gains or None
        If given, the weight of a pair of a better item i and a worse item j is multiplied by
        (G_i - G_j) / ideal DCG of the query, over all its items of positive weight.
    roles : RoleWeights or None
        Weights of the items in each role; only without gains.
    counting : str
    n_threads : int
    """
    if gains is None:
        order = PairOrder(y, groups, item_weight, roles=roles)
        return NativeBackend(order, counting=counting, n_threads=n_threads)
    gain = label_gains(y, gains.gain)
    order = PairOrder(above_lowest(gain, groups), groups, item_weight, by_gain=True)
    backend = NativeBackend(order, counting=counting, n_threads=n_threads)
    ideal = ideal_dcg(gain, groups, backend.factor_rows, gains.discount, item_weight)
    backend.set_query_factor(query_factors(ideal))
    return backend
