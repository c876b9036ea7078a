"""The pairs of a training set, with their weights, and the loss of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array
from ranksvm.backends.labels import label_backend
from ranksvm.backends.lambda_pairs import lambda_pairs
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.data.preferences import positive_pairs
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.gains import check_gains
from ranksvm.learners.participants import count_pairs
from ranksvm.learners.settings import Settings
from ranksvm.learners.weights import no_pairs, reduce_weights
from ranksvm.pairs.gains import Gains
from ranksvm.pairs.oracle import LOSSES, PairLoss, SumLoss
from ranksvm.pairs.order import PairBackend


class TrainingPairs(NamedTuple):
    """The loss of all pairs of a training set.

    Attributes
    ----------
    loss : PairLoss
        Loss of the scores of the items.
    factor : float
        C is multiplied by this.
    rounding : float
        Bound on the relative rounding error of the factor and the weights.
    n_pairs : int
        Number of pairs of positive weight.
    backends : sequence of PairBackend
        Those of the labels, of the preferences, or of both.
    """

    loss: PairLoss
    factor: float
    rounding: float
    n_pairs: int
    backends: Sequence[PairBackend] = ()


def weighted_pairs(
    data: RankingData, settings: Settings, scores: Array | None = None, *, n_threads: int = 1
) -> TrainingPairs:
    """Return the pairs of a data set, with the weights that the settings give them.

    Preferences are used in addition to the pairs that follow from the labels, or alone if there are
    no labels.  The reductions "sum" and "mean" treat both kinds of pairs alike.  So does
    "query_mean" if the preferences know their queries; otherwise all of them together are one more
    query.

    Parameters
    ----------
    data : RankingData
        X does not matter.
    settings : Settings
    scores : ndarray of shape (n_items,) or None
        For ``pair_weight="lambda"``: the ranking that determines the weights.  None for those of
        round 0, which are uniform.
    n_threads : int
        Number of threads.

    Returns
    -------
    TrainingPairs
    """
    check_gains(data, settings)
    if scores is not None and settings.pair_weight == "lambda":
        data = _at_ranking(data, settings, scores, n_threads)
    backends = list[PairBackend]()
    if data.y is not None:
        backends.append(
            label_backend(
                data.y,
                data.groups,
                data.item_weight,
                settings.gains,
                roles=data.roles,
                counting=settings.counting,
                n_threads=n_threads,
            )
        )
    if data.preferences is not None:
        backends.append(PairListBackend(data.preferences, data.n_items, n_threads=n_threads))
    if not backends:
        raise no_pairs(data)
    factor, rounding = reduce_weights(backends, settings.reduction, data)
    losses = [LOSSES[settings.loss](backend) for backend in backends]
    loss: PairLoss = losses[0] if len(losses) == 1 else SumLoss(losses)
    return TrainingPairs(loss, factor, rounding, count_pairs(data, backends), backends)


def _at_ranking(
    data: RankingData, settings: Settings, scores: Array, n_threads: int
) -> RankingData:
    """Return the data set with a list of the pairs of labels, weighted by a ranking."""
    assert data.y is not None
    gains = Gains(settings.gain, settings.discount)
    pairs = lambda_pairs(
        data.y,
        data.groups,
        data.item_weight,
        scores,
        gains,
        settings.truncation,
        n_threads=n_threads,
    )
    if settings.discount == "letor" and not len(positive_pairs(pairs, data.query_weight)):
        raise ParameterError(
            "{pair_weight} leaves no pair of positive weight: all pairs that count have the ranks "
            "1 and 2, and {discount} is the same at both. {remedy}",
            remedy="Use {log2}.",
            pair_weight=Param("pair_weight", settings.pair_weight),
            discount=Param("discount", settings.discount),
            log2=Param("discount", "log2"),
        )
    listed = replace(data, y=None, item_weight=None, preferences=pairs)
    return listed.with_groups(data.groups)
