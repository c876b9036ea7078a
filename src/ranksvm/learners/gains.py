"""Weights of pairs from gains: those that count more in NDCG have more weight.

With gains G (``gain``) and discounts D of ranks (``discount``), the ideal DCG of a query is the sum
of G D over its items, ranked by their labels.  ``pair_weight`` says by what the weight of a pair of
a better item i and a worse item j is multiplied, beside the weights of its items and its query:

    "uniform"   nothing
    "gain"      (G_i - G_j) / ideal DCG of the query, over all its items
    "lambda"    nothing in round 0; in each later round |G_i - G_j| |D(r_i) - D(r_j)| / ideal DCG at
                the truncation, at the ranks r that the model of the round before gives the items;
                see :mod:`ranksvm.backends.lambda_pairs`

Items of weight zero count as if they were not there.  Gains and ideal DCG are computed in float64;
the weights are what follows from these numbers, and the certificate is about these weights.
"""

from __future__ import annotations

from ranksvm._messages import Param, ParameterError
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix
from ranksvm.learners.settings import Settings
from ranksvm.pairs.gains import check_labels


def check_gains(data: RankingData, settings: Settings) -> None:
    """Raise if the weights of pairs need gains that these labels cannot have."""
    if settings.pair_weight == "uniform":
        return
    what = None
    if settings.n_rounds and (isinstance(data.X, ShardedMatrix) or data.preferences is not None):
        raise ParameterError(
            "{pair_weight} is not available {where}. {remedy}",
            remedy="Use {other}."
            if data.preferences is not None
            else "Use {other}, or read the data into memory.",
            where="with explicit pairs: these have weights of their own"
            if data.preferences is not None
            else "for data in files or on a cluster: pairs are listed, and their items have to be "
            "in memory",
            pair_weight=Param("pair_weight", settings.pair_weight),
            other=Param("pair_weight", "uniform" if data.y is None else "gain"),
        )
    if data.y is None:
        what = "there are none: pairs that are listed have weights of their own"
    elif data.labels is not None:
        what = "float64 does not represent all of these"
    if what is not None:
        raise ParameterError(
            "{pair_weight} needs labels, and {what}. {remedy}",
            remedy="Use {uniform}.",
            what=what,
            pair_weight=Param("pair_weight", settings.pair_weight),
            uniform=Param("pair_weight", "uniform"),
        )
    assert data.y is not None
    check_labels(data.y, settings.gain)
