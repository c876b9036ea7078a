"""Score map and pairs of a data set in shards.

There are two ways, which give the same objective up to rounding:

    local       a query that is complete in one shard is evaluated there
                (:mod:`ranksvm.sharded.local`); the rows of queries that several shards share are
                copied, once, into one more shard
    gathered    the scores of all items come together (:mod:`ranksvm.sharded.gathered`), 8 bytes a
                row in every product

The rule: local if there are query ids, and the shared queries have no more rows together than the
largest shard; otherwise gathered.  A global ranking and unsorted rows are therefore gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm._vectors import Array, Rows
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import ShardedMatrix, Shards, copied_queries
from ranksvm.learners.gains import check_gains
from ranksvm.learners.settings import Settings
from ranksvm.learners.training_pairs import TrainingPairs, weighted_pairs
from ranksvm.learners.weights import reduce_weights
from ranksvm.maps.matrix import MOST_COLUMNS, EuclideanMap, MatrixMap
from ranksvm.sharded.gathered import GatheredMap
from ranksvm.sharded.local import LocalLoss, LocalMap, LocalPairs
from ranksvm.sharded.pair_shards import FindPairWeights, MakePairShard, SetQueryWeights
from ranksvm.sharded.sample import sampling_of
from ranksvm.sharded.tasks import SeveralScores


def sharded_problem(
    data: RankingData, settings: Settings, *, n_threads: int = 1
) -> tuple[EuclideanMap, TrainingPairs]:
    """Return the score map and the pairs of a data set whose X is a ShardedMatrix."""
    layout = find_layout(data)
    if layout is None:
        return (
            GatheredMap(data.X, n_threads=n_threads),
            weighted_pairs(data, settings, n_threads=n_threads),
        )
    return _local_problem(data, layout, settings, n_threads)


class Layout(NamedTuple):
    """Where the queries are that take part.

    Attributes
    ----------
    copied : ndarray of int64
        Rows of queries that several shards share.
    inactive : ndarray of bool, shape (n_queries,), or None
        By query of all rows: whether the shards leave it out, because it does not take part or is
        copied.  None if there is no such query.
    groups : QueryGroups
        Queries of all rows.
    """

    copied: Rows
    inactive: Any
    groups: QueryGroups


def find_layout(data: RankingData) -> Layout | None:
    """Return where the queries are; None if the scores have to be gathered."""
    matrix: ShardedMatrix = data.X
    if data.qid is None or data.preferences is not None or data.roles is not None:
        return None
    groups = matrix.shards.facts.groups
    assert groups is not None  # whoever makes shards of rows with queries knows them
    takes_part = np.ones(groups.n_queries, dtype=np.bool_)
    if matrix.rows is not None:
        counts = np.bincount(groups.index[matrix.rows], minlength=groups.n_queries)
        takes_part = counts > 0
        if not np.array_equal(counts[takes_part], groups.sizes[takes_part]):
            return None  # a part of a query
    is_copied = copied_queries(groups, matrix.shards.starts, takes_part)
    if is_copied is None:
        return None
    inactive = ~takes_part | is_copied
    copied = groups.rows[np.repeat(is_copied, groups.sizes)]
    return Layout(copied, inactive if inactive.any() else None, groups)


def _local_problem(
    data: RankingData, layout: Layout, settings: Settings, n_threads: int
) -> tuple[LocalMap, TrainingPairs]:
    check_gains(data, settings)
    matrix: ShardedMatrix = data.X
    shards, groups, inactive = matrix.shards, layout.groups, layout.inactive
    numbers = list[Rows]()  # numbers of the queries of each shard, in its order
    if inactive is not None or data.query_weight is not None:
        starts = shards.starts
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            numbers.append(QueryGroups.from_qid(groups.index[begin:end], end - begin).ids)
    task = MakePairShard(settings.loss, settings.counting, settings.gains, keeps=shards.keeps)
    tasks = [task] * len(shards.sizes)
    if inactive is not None:
        tasks = [replace(task, inactive=groups.ids[one[inactive[one]]]) for one in numbers]
    if layout.copied.size:
        shards = shards.with_copies(layout.copied)
        tasks.append(task)
        copied = groups.index[layout.copied]
        numbers.append(QueryGroups.from_qid(copied, copied.size).ids)
    shards = shards.replaced(tasks)
    weights = _QueryWeights(shards)
    query_weight = None
    if data.query_weight is not None:
        every = np.zeros(groups.n_queries)
        first = data.groups.rows[data.groups.offsets[:-1]]
        every[groups.index[first if matrix.rows is None else matrix.rows[first]]] = (
            data.query_weight
        )
        query_weight = every[np.concatenate(numbers)]
    factor, rounding = reduce_weights(
        [weights], settings.reduction, replace(data, query_weight=query_weight)
    )
    if weights.scaled is not None:
        ends = np.cumsum([len(one) for one in weights.masses])[:-1]
        shards = shards.replaced([SetQueryWeights(one) for one in np.split(weights.scaled, ends)])
    n_items, n_features = matrix.shape
    sampling = None
    if not shards.is_sparse and n_features <= MOST_COLUMNS:
        sampling = sampling_of(n_items, n_features, data.groups)
    pairs = LocalPairs(shards, n_items, sampling, layout.copied)
    counted = np.array(weights.pairs, dtype=object)
    n_pairs = int((counted if query_weight is None else counted[query_weight > 0.0]).sum())
    loss = LocalLoss(pairs, settings.loss)
    return LocalMap(pairs, n_threads=n_threads), TrainingPairs(loss, factor, rounding, n_pairs)


class _QueryWeights:
    """The weights of the queries of all shards, as ``reduce_weights`` sees a backend."""

    def __init__(self, shards: Shards) -> None:
        found = list(shards.map(FindPairWeights()))
        self.masses: list[Array] = [mass for mass, _ in found]
        self.pairs = [count for _, counts in found for count in counts]
        self.scaled: Array | None = None

    @property
    def pair_weights(self) -> Array:
        return np.concatenate(self.masses)

    def set_query_weight(self, weight: Array) -> None:
        self.scaled = weight


def scores_of(X: Any, weights: Sequence[Array], *, n_threads: int = 1) -> list[Array]:
    """Return the scores X w for several w; one pass over X if it is in shards."""
    if not isinstance(X, ShardedMatrix):
        score_map = MatrixMap(X, n_threads=n_threads)
        return [score_map.scores(w) for w in weights]
    found = np.concatenate(list(X.shards.map(SeveralScores(weights))), axis=1)
    return list(found if X.rows is None else found[:, X.rows])
