"""Pairs that are evaluated where the rows are: every query is complete in one shard.

The risk is a sum over shards, and so are its gradient and its products with the Hessian.  Nothing
of the length of the data leaves a shard.  One pass over X does what two products do in memory: a
shard computes its scores, its pairs and its part of the pullback while its rows are at hand.

This works behind the usual interfaces.  The map returns lazy scores (:mod:`ranksvm.sharded.lazy`);
the loss evaluates them in the shards and returns a :class:`LazyGradient`, which the map pulls back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ranksvm import _core
from ranksvm._vectors import Array, Rows, RunningTotal, add, dot, total
from ranksvm.data.queries import QueryGroups
from ranksvm.data.shards import Shards
from ranksvm.maps.sample import WeightedItems
from ranksvm.pairs.oracle import LOSSES, Degrees, LossEval, sum_evals
from ranksvm.sharded.lazy import LazyScores, Recipe, Where
from ranksvm.sharded.map import ShardedMap
from ranksvm.sharded.pair_shards import Evaluate, HessianProduct, Reply, Sample, ScatterDiagonal
from ranksvm.sharded.sample import Sampling
from ranksvm.sharded.tasks import Bounds, joint_bounds


@dataclass(frozen=True)
class LazyGradient:
    """A gradient or a product with a Hessian, by item, in the shards.

    Attributes
    ----------
    at : Evaluated
        Where the loss is evaluated.
    direction : Recipe or None
        What the Hessian is multiplied by; None for the gradient.
    """

    at: Evaluated
    direction: Recipe | None = None


class LazyDegrees(tuple[Array, QueryGroups]):
    """Degrees of the rows in the sample with their groups, as :data:`ranksvm.pairs.oracle.Degrees`.

    Attributes
    ----------
    where : Where
        Where the loss is evaluated: the shards compute the degrees of all rows there.
    """

    where: Where

    def __new__(cls, degrees: Array, groups: QueryGroups, where: Where) -> LazyDegrees:
        made = super().__new__(cls, (degrees, groups))
        made.where = where
        return made


@dataclass(frozen=True)
class LazyEval(LossEval):
    """A sum of evaluations in shards; ``at`` knows what they have replied."""

    at: Evaluated | None = None

    def slope(self, direction: Any) -> float:
        assert self.at is not None
        return self.at.slope(direction)


class ScatterSample(NamedTuple):
    """The rows that the scatter is computed from, in the order of the shards.

    Attributes
    ----------
    rows : list of ndarray of int64
        Their numbers in each shard.
    features : ndarray of shape (n_rows, n_columns)
        Their features, or coordinates in a subspace.
    groups : QueryGroups
        Their queries.
    scale : float or None
        What their degrees are multiplied by; None to multiply them so that they have the same sum
        as those of all rows.
    """

    rows: list[Rows]
    features: Array
    groups: QueryGroups
    scale: float | None = None


class Answer(NamedTuple):
    """The replies of all shards together; see :class:`ranksvm.sharded.pair_shards.Reply`."""

    evaluation: LossEval
    along: float
    pulled: Array | None
    degrees: Array | None
    degree: float


class LocalPairs:
    """The pairs of all shards: what :class:`LocalMap` and :class:`LocalLoss` share.

    Evaluations do not depend on earlier ones, and may be made from several threads.  The sample is
    found together with the first gradient; it is always the same.

    Parameters
    ----------
    shards : Shards
        Of :class:`PairShard`.
    n_items : int
        Number of items that take part.
    sampling : Sampling or None
        How the rows for the scatter are chosen; None if there is no scatter matrix.
    copied : ndarray of int64
        The rows in the last shard, if these are copies of rows of other shards.

    Attributes
    ----------
    sample : ScatterSample or None
        None if it is not known yet, or there is none.
    """

    def __init__(
        self,
        shards: Shards,
        n_items: int,
        sampling: Sampling | None,
        copied: Rows,
    ) -> None:
        self.shards = shards
        self.n_items = n_items
        self.sample: ScatterSample | None = None
        self._sampling = sampling
        self._copied = copied

    def places(self, rows: Rows) -> tuple[list[Rows], Rows]:
        """Find rows of the data set in the shards that evaluate their pairs.

        Returns the rows of each shard, and the order of ``rows`` in which they are listed there.
        """
        starts = self.shards.starts
        place = rows.copy()
        if self._copied.size:
            by_row = np.argsort(self._copied)
            there = np.searchsorted(self._copied, rows, sorter=by_row).clip(max=by_row.size - 1)
            is_copied = self._copied[by_row[there]] == rows
            place[is_copied] = starts[-2] + by_row[there[is_copied]]
        shard_of = np.searchsorted(starts, place, side="right") - 1
        order = np.argsort(shard_of, kind="stable")
        ends = np.searchsorted(shard_of[order], np.arange(1, len(starts) - 1))
        return np.split(place[order] - starts[shard_of[order]], ends), order

    def ask(self, where: Where, *, pull: bool, samples: bool) -> Answer:
        """Let all shards evaluate the loss; ``samples`` if degrees will be needed."""
        sample = self.sample
        sampling = self._sampling if samples and sample is None else None
        inspect = "bounds" not in self.shards.facts.found
        task = Evaluate(where, pull, inspect, sampling)
        if sample is None:
            answer, bounds, parts = self._gather(task)
        else:
            answer, bounds, parts = self._gather([replace(task, rows=one) for one in sample.rows])
        if inspect:
            self.shards.facts.found["bounds"] = joint_bounds(bounds, self.shards)
        while sampling is not None and len(parts) == len(self.shards.sizes):
            size = sum(one.rows.size for one in parts)
            if sampling.otherwise is None or sampling.is_good(size, self.n_items):
                self.sample = _joined(parts)
                break
            sampling = sampling.otherwise
            answer, _, parts = self._gather(Evaluate(where, True, sampling=sampling))
        return answer

    def _gather(
        self, tasks: Evaluate | Sequence[Evaluate]
    ) -> tuple[Answer, list[Bounds], list[Sample]]:
        """Put the replies together as they come, so that only one of them is in memory."""
        evaluations, bounds, parts = list[LossEval](), list[Bounds](), list[Sample]()
        degrees = list[Array]()
        along = degree = 0.0
        pulled = RunningTotal()
        n_pulled = 0
        reply: Reply
        for reply in self.shards.map(tasks):
            evaluations.append(reply.evaluation)
            along += reply.along
            degree += reply.degree
            if reply.pulled is not None:
                pulled.add(reply.pulled)
                n_pulled += 1
            if reply.degrees is not None:
                degrees.append(reply.degrees)
            if reply.bounds is not None:
                bounds.append(reply.bounds)
            if reply.sample is not None:
                parts.append(reply.sample)
        n_shards = len(evaluations)
        answer = Answer(
            sum_evals(evaluations, None),
            along,
            pulled.value() if n_pulled == n_shards else None,
            np.concatenate(degrees) if len(degrees) == n_shards else None,
            degree,
        )
        return answer, bounds, parts


def _joined(parts: list[Sample]) -> ScatterSample:
    """Return the sample from those of the shards; the list is emptied to save memory."""
    rows = [one.rows for one in parts]
    size = sum(map(len, rows))
    features = np.empty((size, parts[0].features.shape[1]), dtype=parts[0].features.dtype)
    query = np.empty(size, dtype=np.int64)
    begin = base = 0
    parts.reverse()
    while parts:
        one = parts.pop()
        end = begin + one.rows.size
        features[begin:end] = one.features
        query[begin:end] = one.query + base
        base += int(one.query.max(initial=-1)) + 1
        begin = end
    return ScatterSample(rows, features, QueryGroups.from_qid(query, size))


class Evaluated:
    """A loss at some scores: what the shards have replied."""

    def __init__(self, pairs: LocalPairs, where: Where, *, smooth: bool) -> None:
        self.where = where
        self._pairs = pairs
        self._smooth = smooth
        # Where no line leads to, the gradient will be needed.
        is_start = where.recipe.start is None
        self._answer = pairs.ask(where, pull=is_start, samples=smooth)

    def summed(self) -> LazyEval:
        """Return the sum over the shards."""
        made = LazyEval(**{**self._answer.evaluation.__dict__, "grad": LazyGradient(self)}, at=self)
        if not self._smooth:
            return made
        return replace(made, hessp=self._hessp, degrees=self._degrees)

    def slope(self, direction: LazyScores) -> float:
        """Return the derivative along a direction of the scores."""
        recipe = self.where.recipe
        if recipe.start is not None and direction.product.number == recipe.w_number:
            return self._answer.along  # the last step to the point
        return dot(self.pulled(), direction.w)

    def pulled(self) -> Array:
        """Return the pullback of the gradient."""
        found: Array = self._whole().pulled
        return found

    def _whole(self) -> Any:
        """Return the answer with the pullback."""
        if self._answer.pulled is None:
            self._answer = self._pairs.ask(self.where, pull=True, samples=self._smooth)
        return self._answer

    def _hessp(self, direction: Any) -> Any:
        return LazyGradient(self, direction.product)

    def _degrees(self) -> list[Degrees]:
        """Return the degrees of the rows in the sample, scaled to the sum over all rows."""
        answer, sample = self._whole(), self._pairs.sample
        if sample is None:
            none = QueryGroups.from_qid(None, 0)
            return [LazyDegrees(np.array([answer.degree]), none, self.where)]
        held, scale = float(answer.degrees.sum()), sample.scale
        if scale is None:
            scale = answer.degree / held if held > 0.0 else 0.0
        return [LazyDegrees(scale * answer.degrees, sample.groups, self.where)]


class LocalLoss:
    """A loss that the shards evaluate.

    Parameters
    ----------
    pairs : LocalPairs
    loss : str
        Name of the loss.
    mu : float or None
        Width of the smoothing of the hinge.
    """

    def __init__(self, pairs: LocalPairs, loss: str, mu: float | None = None) -> None:
        self._pairs = pairs
        self._name = loss
        self._mu = mu
        smoothed = frozenset({"hessian"})
        self.capabilities = LOSSES[loss].capabilities if mu is None else smoothed

    def at(self, scores: Any) -> LossEval:
        where = Where(scores.recipe, self._mu)
        return Evaluated(self._pairs, where, smooth="hessian" in self.capabilities).summed()

    def smoothed(self, mu: float) -> LocalLoss:
        """Return the smoothed loss; capability "smoothing"."""
        return LocalLoss(self._pairs, self._name, mu)


class LocalMap(ShardedMap):
    """``scores(w)`` and ``pullback(g)`` of :class:`LazyScores` and :class:`LazyGradient`.

    Parameters
    ----------
    pairs : LocalPairs
    n_threads : int
        Number of threads for the work that is not done by the shards.
    """

    has_own_sample = True

    def __init__(self, pairs: LocalPairs, *, n_threads: int = 1) -> None:
        super().__init__(pairs.shards, pairs.n_items, n_threads)
        self.pairs = pairs
        self._diagonal: Array | None = None

    def zero_scores(self) -> Any:
        return LazyScores(np.zeros(self.shape[1]))

    def scores(self, w: Array) -> Any:
        self.n_products += 1
        return LazyScores(w)

    def pullback(self, g: Any) -> Array:
        self.n_products += 1
        if g.direction is not None:
            return total(self._shards.map(HessianProduct(g.at.where, g.direction)))
        pulled: Array = g.at.pulled()
        return pulled.copy()

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        """As ``MatrixMap.scatter``, from weights of the rows in the sample."""
        n_items, dim = self.shape
        (part,) = parts
        weight, groups = part
        if self.pairs.sample is not None:
            features = self.pairs.sample.features
            flat = _core.scatter(features, weight, groups.rows, groups.offsets, self._threads)
            return flat.reshape(features.shape[1], -1)
        if 2 * n_items < dim:
            return None
        total = float(weight.sum())
        if not total > 0.0:
            return np.zeros(dim)
        if self._diagonal is None:
            assert isinstance(part, LazyDegrees)
            self.n_products += 2
            found = list(self._shards.map(ScatterDiagonal(part.where)))
            self._diagonal = add(one for one, _ in found) / sum(of for _, of in found)
        return self._diagonal * total
