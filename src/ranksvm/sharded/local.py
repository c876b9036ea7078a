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
from typing import Any

import numpy as np

from ranksvm import _core
from ranksvm._vectors import Array, Rows, add, total
from ranksvm.data.queries import QueryGroups
from ranksvm.data.shards import Shards
from ranksvm.maps.matrix import EuclideanMap
from ranksvm.maps.sample import WeightedItems
from ranksvm.pairs.oracle import LOSSES, Degrees, LossEval, sum_evals
from ranksvm.sharded.lazy import LazyScores, Recipe, Where
from ranksvm.sharded.pair_shards import Evaluate, HessianProduct, Reply, ScatterDiagonal
from ranksvm.sharded.tasks import find_bounds, find_largest, joint_bounds


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


@dataclass(frozen=True)
class LazyEval(LossEval):
    """A sum of evaluations in shards; ``along`` is the slope along the last step to the point."""

    along: float = 0.0

    def slope(self, direction: Any) -> float:
        return self.along


class LocalPairs:
    """The pairs of all shards: what :class:`LocalMap` and :class:`LocalLoss` share.

    Parameters
    ----------
    shards : Shards
        Of :class:`PairShard`.
    n_items : int
        Number of items that take part.
    sampling : tuple (step, by_group) or None
        How the rows for the scatter are chosen; None if there is no scatter matrix.
    copied : ndarray of int64
        The rows in the last shard, if these are copies of rows of other shards.
    """

    def __init__(
        self,
        shards: Shards,
        n_items: int,
        sampling: tuple[int, bool] | None,
        copied: Rows,
    ) -> None:
        self.shards = shards
        self.n_items = n_items
        self._sampling = sampling
        self._copied = copied
        # Of the sample: rows by shard, features, groups, and what degrees are multiplied by; None
        # to multiply them so that they have the same sum as those of all rows.
        self.rows: list[Rows] | None = None
        self.features = np.empty((0, shards.shape[1]))
        self.groups = QueryGroups.from_qid(None, 0)
        self.scale: float | None = None
        self.last: Where | None = None  # whose degrees were asked for
        self._lines: set[tuple[int, int]] = set()

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

    def set_sample(
        self, rows: list[Rows], features: Array, groups: QueryGroups, scale: float
    ) -> None:
        """Set the sample, in the order of the shards."""
        self.rows, self.features, self.groups, self.scale = rows, features, groups, scale

    def is_new_line(self, recipe: Recipe) -> bool:
        """Return whether this is the first point on a line that is evaluated."""
        line = (-1 if recipe.start is None else recipe.start.number, recipe.w_number)
        is_new = line not in self._lines
        self._lines.add(line)
        return is_new

    def ask(self, where: Where, *, pull: bool, samples: bool) -> list[Reply]:
        """Let all shards evaluate the loss; ``samples`` if degrees will be needed."""
        inspect = "bounds" not in self.shards.known
        sampling = None
        if pull and samples and self._sampling is not None and self.rows is None:
            sampling = (*self._sampling, True)
        task = Evaluate(where, pull, inspect, sampling)
        tasks: Any = task
        if pull and self.rows is not None:
            tasks = [replace(task, rows=rows) for rows in self.rows]
        replies: list[Reply] = list(self.shards.map(tasks))
        if inspect:
            found = [reply.bounds for reply in replies if reply.bounds is not None]
            self.shards.known["bounds"] = joint_bounds(found, self.shards)
        return replies if sampling is None else self._keep_sample(task, replies)

    def _keep_sample(self, task: Evaluate, replies: list[Reply]) -> list[Reply]:
        """Put the sample together; if it is far too small or large, choose rows by number."""
        samples = [reply.sample for reply in replies if reply.sample is not None]
        assert task.sampling is not None
        step, by_group, by_hash = task.sampling
        size, expected = sum(one.rows.size for one in samples), self.n_items // step
        if step > 1 and by_hash and not expected // 4 <= size <= 4 * expected:
            again = replace(task, sampling=(step, by_group, False), inspect=False)
            return self._keep_sample(again, list(self.shards.map(again)))
        self.rows = [one.rows for one in samples]
        self.features = np.concatenate([one.features for one in samples])
        query, base = [], 0
        for one in samples:
            query.append(one.query + base)
            base += int(one.query.max(initial=-1)) + 1
        self.groups = QueryGroups.from_qid(np.concatenate(query), size)
        return replies


class Evaluated:
    """A loss at some scores: what the shards have replied so far."""

    def __init__(self, pairs: LocalPairs, where: Where, *, smooth: bool) -> None:
        self.where = where
        self._pairs = pairs
        self._smooth = smooth
        # The shards need their rows for the first point on a line, and can pull back with them.
        pull = pairs.is_new_line(where.recipe)
        self._replies = pairs.ask(where, pull=pull, samples=smooth)

    def summed(self) -> LazyEval:
        """Return the sum over the shards."""
        total = sum_evals([reply.evaluation for reply in self._replies], LazyGradient(self))
        made = LazyEval(**total.__dict__, along=float(sum(reply.along for reply in self._replies)))
        if not self._smooth:
            return made
        return replace(
            made,
            hessp=self._hessp,
            degrees=self._degrees,
        )

    def _hessp(self, direction: Any) -> Any:
        return LazyGradient(self, direction.product)

    def pulled(self) -> list[Reply]:
        """Return the replies, with pullbacks."""
        if self._replies[0].pulled is None:
            self._replies = self._pairs.ask(self.where, pull=True, samples=self._smooth)
        return self._replies

    def _degrees(self) -> list[Degrees]:
        """Return the degrees of the rows in the sample, scaled to the sum over all rows."""
        replies = self.pulled()
        self._pairs.last = self.where
        total = sum(reply.degree for reply in replies)
        if self._pairs.rows is None:
            return [(np.array([total]), self._pairs.groups)]
        found = np.concatenate([reply.degrees for reply in replies])
        held, scale = float(found.sum()), self._pairs.scale
        if scale is None:
            scale = total / held if held > 0.0 else 0.0
        return [(scale * found, self._pairs.groups)]


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


class LocalMap(EuclideanMap):
    """``scores(w)`` and ``pullback(g)`` of :class:`LazyScores` and :class:`LazyGradient`.

    Parameters
    ----------
    pairs : LocalPairs
    n_threads : int
        Number of threads for the work that is not done by the shards.
    """

    has_own_sample = True

    def __init__(self, pairs: LocalPairs, *, n_threads: int = 1) -> None:
        self.pairs = pairs
        self._shards = pairs.shards
        self._threads = n_threads
        self.shape = pairs.n_items, self._shards.shape[1]
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
        return total(reply.pulled for reply in g.at.pulled())

    @property
    def longest_row(self) -> float:
        return find_bounds(self._shards).longest_row

    @property
    def score_depth(self) -> int:
        return find_bounds(self._shards).score_depth

    @property
    def pullback_depth(self) -> int:
        return find_bounds(self._shards).pullback_depth + len(self._shards.sizes)

    def sharpen(self) -> bool:
        if self.tallest is not None:
            return False
        self.tallest = find_largest(self._shards)
        return True

    def scatter(self, parts: Sequence[WeightedItems]) -> Array | None:
        """As ``MatrixMap.scatter``, from weights of the rows in the sample."""
        n_items, dim = self.shape
        ((weight, groups),) = parts
        if self.pairs.rows is not None:
            flat = _core.scatter(
                self.pairs.features, weight, groups.rows, groups.offsets, 1, True, self._threads
            )
            k = self.pairs.features.shape[1]
            return flat.reshape(k, k)
        if 2 * n_items < dim:
            return None
        total = float(weight.sum())
        if not total > 0.0:
            return np.zeros(dim)
        if self._diagonal is None:
            assert self.pairs.last is not None
            self.n_products += 2
            found = list(self._shards.map(ScatterDiagonal(self.pairs.last)))
            self._diagonal = add(one for one, _ in found) / sum(of for _, of in found)
        return self._diagonal * total
