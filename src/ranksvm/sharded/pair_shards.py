"""What a shard does about its own pairs; each of its queries is complete.

Tasks are pure functions of the shard and their arguments; see :mod:`ranksvm.data.shards`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm import _core
from ranksvm._vectors import Array, Rows, dot
from ranksvm.backends.labels import label_backend
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.data.shards import KEEPS, Shard
from ranksvm.pairs.gains import Gains
from ranksvm.pairs.oracle import LOSSES, LossErrors, LossEval
from ranksvm.pairs.order import PairOrder
from ranksvm.sharded.lazy import Recipe, Where
from ranksvm.sharded.sample import Sampling, choose_rows
from ranksvm.sharded.tasks import Bounds, bounds_of, map_of

# Vectors of scores that a shard remembers: the start of a line, its direction, and two trials.
REMEMBERED = 4


@dataclass(eq=False, kw_only=True)
class PairShard(Shard):
    """A shard with complete queries.

    Attributes
    ----------
    groups : QueryGroups
        Queries of its rows.
    active : ndarray of bool, shape (n_items,), or None
        Rows that take part; the others belong to other folds, or have copies elsewhere.  A query
        takes part as a whole or not at all.
    query_weight : ndarray of shape (n_queries,) or None
    loss, counting : str
    gains : Gains or None
        How labels make weights of pairs.
    keeps : frozenset of str
        What is remembered from one task to the next; see ``ranksvm.data.shards.KEEPS``.
    """

    groups: QueryGroups
    active: Any
    query_weight: Array | None = None
    loss: str
    counting: str
    gains: Gains | None
    keeps: frozenset[str]

    def forget(self) -> None:
        """Forget what there is no memory for; tasks end with this."""
        if "scores" not in self.keeps:
            self.memo.pop("scores", None)
        if "pairs" not in self.keeps:
            self.memo.pop("evaluation", None)
            if "backend" in self.memo:
                self.memo["backend"].release_memory()
        if "order" not in self.keeps:
            self.memo.pop("backend", None)

    @property
    def backend(self) -> NativeBackend:
        """The pairs."""
        found: NativeBackend | None = self.memo.get("backend")
        if found is None:
            assert self.y is not None
            # Rows with the same label make no pair.
            y = self.y if self.active is None else np.where(self.active, self.y, 0.0)
            found = label_backend(
                y,
                self.groups,
                self.item_weight,
                self.gains,
                counting=self.counting,
                n_threads=self.n_threads,
            )
            if self.query_weight is not None:
                found.set_query_weight(self.query_weight)
            self.memo["backend"] = found
        return found

    def knows(self, recipe: Recipe) -> bool:
        """Return whether the scores of a recipe can be computed without the rows."""
        known = self.memo.get("scores", ())
        if recipe.number in known:
            return True
        makes_x_w = recipe.w_number in known or not recipe.w.any()
        return makes_x_w and (recipe.start is None or self.knows(recipe.start))

    def scores(self, recipe: Recipe) -> Array:
        """Return the scores of a recipe."""
        scores: Array | None = self.memo.get("scores", {}).get(recipe.number)
        if scores is None:
            if recipe.start is not None:
                start = self.scores(recipe.start)
                scores = start + recipe.step * self.scores(recipe.direction)
            elif recipe.w.any():
                scores = map_of(self).scores(recipe.w)
            else:
                return np.zeros(self.n_items)
        # A new dict, because another thread may be reading the old one.  The last used come last.
        known = {n: one for n, one in self.memo.get("scores", {}).items() if n != recipe.number}
        last = list(known.items())[-(REMEMBERED - 1) :]
        self.memo["scores"] = {**dict(last), recipe.number: scores}
        return scores

    def evaluation(self, where: Where) -> LossEval:
        """Return the loss at some scores."""
        if not self.n_items:
            return _NOTHING
        key = where.recipe.number, where.mu
        known: tuple[Any, LossEval] | None = self.memo.get("evaluation")
        if known is not None and known[0] == key:
            return known[1]
        self.memo.pop("evaluation", None)
        loss: Any = LOSSES[self.loss](self.backend)
        if where.mu is not None:
            loss = loss.smoothed(where.mu)
        found: LossEval = loss.at(self.scores(where.recipe))
        self.memo["evaluation"] = key, found
        return found


def _nothing() -> LossEval:
    """Return the loss of a shard without rows."""
    none = np.empty(0)
    return LossEval(
        value=0.0, grad=none, stated=0.0, dual_linear=0.0, dual_quadratic=0.0, dual_scale=np.inf,
        errors=LossErrors(0.0, 0.0, 0.0, 0.0), steepness=0.0, hessp=lambda direction: direction,
        degrees=lambda: [(none, QueryGroups.from_qid(None, 0))],
    )  # fmt: skip


_NOTHING = _nothing()


@dataclass(frozen=True)
class MakePairShard:
    """Task: return the shard with its pairs."""

    loss: str
    counting: str
    gains: Gains | None
    inactive: Any = None  # query ids
    keeps: frozenset[str] = frozenset(KEEPS)

    def needs_items(self, shard: Shard) -> bool:
        return False

    def __call__(self, shard: Shard) -> PairShard:
        groups = QueryGroups.from_qid(shard.query, shard.n_items)
        active = None
        if self.inactive is not None and len(self.inactive):
            active = ~np.isin(groups.ids, self.inactive)[groups.index]
        return PairShard(
            shard.rows,
            shard.n_items,
            shard.y,
            shard.query,
            shard.item_weight,
            shard.n_threads,
            groups=groups,
            active=active,
            loss=self.loss,
            counting=self.counting,
            gains=self.gains,
            keeps=self.keeps,
        )


@dataclass(frozen=True)
class SetQueryWeights:
    """Task: return the shard with weights of its queries."""

    weight: Array

    def needs_items(self, shard: Shard) -> bool:
        return False

    def __call__(self, shard: PairShard) -> PairShard:
        return replace(shard, memo={}, query_weight=self.weight)


class PairTask(ABC):
    """A task on pairs."""

    def needs_items(self, shard: PairShard) -> bool:
        return True

    def __call__(self, shard: PairShard) -> Any:
        try:
            return self.run(shard)
        finally:
            shard.forget()

    @abstractmethod
    def run(self, shard: PairShard) -> Any: ...


@dataclass(frozen=True)
class FindPairWeights(PairTask):
    """Task: return weight and number of the pairs of each query."""

    def needs_items(self, shard: Shard) -> bool:
        return False

    def run(self, shard: PairShard) -> tuple[Array, list[int]]:
        if not shard.n_items:
            return np.empty(0), []
        backend, weight = shard.backend, shard.item_weight
        counts = list(backend.pairs)
        if weight is not None and not weight.all():  # pairs of weight zero do not count
            assert shard.y is not None
            counts = [0] * shard.groups.n_queries
            items = np.flatnonzero(weight if shard.active is None else weight * shard.active)
            if items.size:
                kept = QueryGroups.from_qid(shard.groups.index[items], items.size)
                found = NativeBackend(PairOrder(shard.y[items], kept)).pairs
                for query, count in zip(kept.ids.tolist(), found, strict=True):
                    counts[query] = count
        return backend.pair_weights, counts


class Sample(NamedTuple):
    """Rows of a shard that are in the sample of the scatter: numbers, features, query numbers."""

    rows: Rows
    features: Array
    query: Rows


class Reply(NamedTuple):
    """What a shard returns about a loss at some scores.

    ``evaluation`` has no gradient; ``pulled`` is its pullback, and ``along`` its product with the
    last direction of the scores.  ``degrees`` are those of the rows in the sample, and ``degree``
    is the sum over all rows.
    """

    evaluation: LossEval
    along: float
    pulled: Array | None
    degrees: Array | None
    degree: float
    bounds: Bounds | None
    sample: Sample | None


@dataclass(frozen=True)
class Evaluate(PairTask):
    """Task: evaluate the loss at some scores.

    Attributes
    ----------
    where : Where
    pull : bool
        Whether to pull the gradient back, and to return the degrees of the rows in the sample.
        This is also done if the rows are needed anyway, because it saves loading them again.
    inspect : bool
        Whether to return the bounds of the rows.
    sampling : Sampling or None
        How to choose the rows in the sample; None if they are known, or there is no sample.
    rows : ndarray of int64 or None
        The rows in the sample, if they are known.
    """

    where: Where
    pull: bool
    inspect: bool = False
    sampling: Sampling | None = None
    rows: Rows | None = None

    def needs_items(self, shard: PairShard) -> bool:
        return self.pull or self.inspect or not shard.knows(self.where.recipe)

    def run(self, shard: PairShard) -> Reply:
        score_map = map_of(shard) if self.needs_items(shard) else None
        bounds = sample = pulled = degrees = None
        along = degree = 0.0
        if self.inspect:
            assert score_map is not None
            bounds = bounds_of(score_map, shard.X)
        found = shard.evaluation(self.where)
        recipe = self.where.recipe
        if recipe.start is not None:
            along = dot(found.grad, shard.scores(recipe.direction))
        if score_map is not None:
            pulled = score_map.pullback(found.grad)
            rows = self.rows
            if self.sampling is not None:
                sample = _sample(shard, self.sampling)
                rows = sample.rows
            if found.degrees is not None:
                ((every, _),) = found.degrees()
                degree = float(every.sum())
                degrees = None if rows is None else every[rows]
        bare = replace(found, grad=np.empty(0), hessp=None, degrees=None)
        return Reply(bare, along, pulled, degrees, degree, bounds, sample)


def _sample(shard: PairShard, how: Sampling) -> Sample:
    groups = shard.groups
    hashes = _core.hash_rows(shard.X, shard.n_threads) if how.by_hash else None
    rows = choose_rows(hashes, groups, how)
    if shard.active is not None:
        rows = rows[shard.active[rows]]
    return Sample(rows, np.ascontiguousarray(shard.X[rows]), groups.index[rows])


@dataclass(frozen=True)
class HessianProduct(PairTask):
    """Task: pull back the product of the Hessian at some scores with the scores of a direction."""

    where: Where
    direction: Recipe

    def run(self, shard: PairShard) -> Array:
        found = shard.evaluation(self.where)
        assert found.hessp is not None
        score_map = map_of(shard)
        return score_map.pullback(found.hessp(score_map.scores(self.direction.w)))


@dataclass(frozen=True)
class ScatterDiagonal(PairTask):
    """Task: return the diagonal of the scatter of the rows within queries, and its total weight."""

    where: Where

    def run(self, shard: PairShard) -> tuple[Array, float]:
        found = shard.evaluation(self.where)
        assert found.degrees is not None
        ((weight, groups),) = found.degrees()
        return map_of(shard).scatter_diagonal(weight, groups), float(weight.sum())
