"""Pairs that the shards evaluate: no evaluation depends on another one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from shard_sets import EVERYTHING, cut

from ranksvm.data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import make_problem
from ranksvm.learners.linear import LinearSettings
from ranksvm.sharded.local import LocalMap
from ranksvm.sharded.pair_shards import Evaluate

NOTHING = frozenset[str]()


@pytest.fixture(scope="module")
def data() -> RankingData:
    X, y, qid, _ = make_ranking(n_queries=60, items_per_query=(1, 40), n_features=8, random_state=3)
    return RankingData(X, y, qid)


def local_problem(data: RankingData, keeps=EVERYTHING, loss="squared_hinge"):
    problem = make_problem(
        cut(data, [100, 333, 700], keeps=keeps), LinearSettings(loss=loss, scaling=None)
    )
    assert isinstance(problem._map, LocalMap)
    return problem


def weights(n: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).normal(size=(n, 8)))


def seen(problem, w) -> list:
    """All that a solver sees at a point, and at two points on a line from it."""
    objective = problem.objective(10.0)
    at = objective.at(objective.point(w))
    direction = objective.point(w[::-1].copy())
    line = at.line(direction)
    trials = [line(0.5), line(2.0)]
    far = trials[1].accept()
    inverse = at.preconditioner()
    return [
        at.value, at.dual, at.grad, at.hessp(direction), inverse(w),
        *((one.value, one.slope) for one in trials), far.value, far.grad,
    ]  # fmt: skip


def alike(first: list, second: list) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("keeps", [EVERYTHING, NOTHING])
def test_twice_in_any_order_and_from_threads(data: RankingData, keeps) -> None:
    ws = weights(6)
    known = [seen(local_problem(data, keeps), w) for w in ws]
    problem = local_problem(data, keeps)
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 3, 0, 1, 4, 2]):
        assert all(alike(seen(problem, ws[k]), known[k]) for k in order)
    for used in (problem, local_problem(data, keeps)):  # also the first time
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(partial(seen, used), ws * 4))
        assert all(alike(one, known[k % 6]) for k, one in enumerate(found))


def test_nothing_grows_with_the_evaluations(data: RankingData) -> None:
    problem = local_problem(data)
    ws = weights(40)

    def size() -> int:
        pairs = problem._map.pairs
        held = [vars(pairs), *(shard.memo for shard in pairs.shards._shards)]
        values = [value for one in held for value in one.values()]
        return sum(len(one) for one in (*held, *values) if hasattr(one, "__len__"))

    for w in ws[:10]:
        seen(problem, w)
    before = size()
    for w in ws[10:]:
        seen(problem, w)
    assert size() == before


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_slopes_along_any_direction(data: RankingData, loss) -> None:
    here, there = (
        make_problem(data, LinearSettings(loss=loss, scaling=None)),
        local_problem(data, loss=loss),
    )
    w, along, other = weights(3)
    slopes = []
    for problem in (here, there):
        objective = problem.objective(1.0)
        start, direction, across = (objective.point(one) for one in (w, along, other))
        moved = start.plus(0.3, direction)
        evaluation = objective.loss.at(moved.scores)
        slopes.append([evaluation.slope(one.scores) for one in (direction, across, moved, start)])
    assert np.allclose(*slopes, rtol=1e-12, atol=0)


def test_rows_are_not_loaded_twice_for_one_step(data: RankingData) -> None:
    """A shard that loads its rows for the scores pulls the gradient back with them."""
    asked = []
    problem = local_problem(data)
    shards = problem._map.pairs.shards
    run = shards.map

    def counted(tasks):
        first = tasks if not isinstance(tasks, list) else tasks[0]
        needs = isinstance(first, Evaluate) and any(map(first.needs_items, shards._shards))
        asked.append(bool(needs))
        return run(tasks)

    objective = problem.objective(10.0)
    at = objective.at(objective.point(weights(1)[0]))
    line = at.line(objective.point(weights(2)[1]))
    shards.map = counted
    line(0.7).accept()
    assert asked == [True]
    line(0.6)
    assert asked == [True, False]
    line(0.5).accept()
    assert asked == [True, False, False, True]
