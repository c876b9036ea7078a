"""What docs/scale.md says about other engines: these methods are enough, and all can be pickled."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import sets

from ranksvm.data import RankingData
from ranksvm.data.shards import RowBlock, RowFacts, Shard, ShardedMatrix, Shards, one_each
from ranksvm.learners import make_problem
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.linear import LinearSettings


class Rows:
    """The function that loads the rows of a shard."""

    def __init__(self, X: Any) -> None:
        self._X = X

    def __call__(self) -> Any:
        return self._X


class PickledShards(Shards):
    """An engine whose shards, tasks and results are pickled, as if they went over a network."""

    def __init__(
        self, shards: Sequence[bytes], facts: RowFacts, n_features: int, dtype: Any
    ) -> None:
        self._shards = list(shards)
        self.sizes = tuple(pickle.loads(one).n_items for one in shards)
        self.shape = sum(self.sizes), n_features
        self.dtype, self.is_sparse = np.dtype(dtype), False
        self.facts = facts

    def _run(self, tasks: Any) -> Iterator[bytes]:
        for shard, task in zip(self._shards, one_each(tasks, len(self._shards)), strict=True):
            found = pickle.loads(pickle.dumps(task))(pickle.loads(shard))
            yield pickle.dumps(found)

    def map(self, tasks: Any) -> Iterator[Any]:
        return map(pickle.loads, self._run(tasks))

    def replaced(self, tasks: Any) -> PickledShards:
        return PickledShards(list(self._run(tasks)), self.facts, self.shape[1], self.dtype)

    def with_features(
        self, task: Any, n_features: int, dtype: Any, *, is_sparse: bool = False
    ) -> PickledShards:
        facts = RowFacts(self.facts.groups)
        return PickledShards(list(self._run(task)), facts, n_features, dtype)

    def with_copies(self, rows: Any) -> PickledShards:
        by_shard, place = self.places(rows)

        def of_rows(name: str) -> Any:
            values = [getattr(pickle.loads(one), name) for one in self._shards]
            if values[0] is None:
                return None
            taken = [one[there] for one, there in zip(values, by_shard, strict=True)]
            return np.concatenate(taken)[place]

        names = ("y", "query", "item_weight")
        extra = Shard(
            RowBlock(Rows(self.items(rows))), rows.size, **{name: of_rows(name) for name in names}
        )
        shards = [*self._shards, pickle.dumps(extra)]
        return PickledShards(shards, self.facts, self.shape[1], self.dtype)


def pickled(data: RankingData, cuts: list[int]) -> RankingData:
    known = sets.local_data(data, cuts)
    shards = []
    for begin, end in sets.bounds(data, cuts):
        parts = {"y": data.y[begin:end], "query": data.groups.index[begin:end]}
        shards.append(pickle.dumps(Shard(RowBlock(Rows(data.X[begin:end])), end - begin, **parts)))
    groups = RowFacts(known.X.shards.facts.groups)
    made = PickledShards(shards, groups, data.n_features, data.X.dtype)
    return RankingData(ShardedMatrix(made), data.y, data.qid).with_groups(data.groups)


@pytest.mark.parametrize("order", ["sorted", "unsorted"])
@pytest.mark.parametrize(
    "settings",
    [
        LinearSettings(),
        LinearSettings(loss="hinge", reduction="query_mean"),
        KernelSettings(approximation="nystroem", n_components=20, random_state=0),
        KernelSettings(approximation="fourier", n_components=20, random_state=0),
    ],
)
def test_an_engine_of_four_methods(order, settings) -> None:
    data = sets.ranking()
    if order == "unsorted":
        data = data.take(np.random.default_rng(0).permutation(data.n_items))
    cuts = sets.even_cuts(data, 4)
    problem: Any = make_problem(pickled(data, cuts), settings)
    fit = problem.solve()
    known = sets.local_fit(data, cuts, settings)
    assert np.array_equal(problem.weights(fit.coef), known.coef)
    assert (fit.objective, fit.gap, fit.n_iter) == (known.objective, known.gap, known.n_iter)
