"""Factorized multipliers: what an evaluation costs as the items grow.

One evaluation is F(V) with its derivative: four products with X, the oracle of the linear machine
and two sweeps over the factors.  It is timed on one query whose items all have different utilities,
so that the pairs grow with the square of the items; the derivative by an explicit sum over pairs
stands beside it as far as that goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common import SEED, Call, Config, growth_exponent, interleave
from benchmarks.report import Report, Row
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.learners.factors import FactorObjective, random_start
from ranksvm.maps.matrix import MatrixMap
from ranksvm.objective import RankObjective
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder

TITLE = "factorized multipliers: cost of an evaluation"
N_FACTORS = 10
N_FEATURES = 20
MOST_EXPLICIT = 3_000
JUDGED_FROM = 10_000


def run(config: Config, report: Report) -> None:
    sizes = config.size((1_000, 3_000, 10_000, 30_000, 100_000, 300_000), (300, 1_000))
    rows: list[Row] = []
    for n in sizes:
        objective, oracle, scores, factors = _one_query(n, config.threads)
        calls = {
            "evaluation": Call(lambda o=objective, V=factors: o.at(V)),
            "oracle alone": Call(lambda o=oracle, s=scores: o.at(s)),
        }
        if n <= MOST_EXPLICIT:
            calls["explicit pairs"] = Call(lambda n=n, V=factors: _explicit(n, V))
        timings = interleave(calls, rounds=5, seconds=config.size(4.0, 0.3))
        rows.append(
            {"items": n, "pairs": n * (n - 1) // 2}
            | {f"{name} s": timing.seconds for name, timing in timings.items()}
        )
    report.table(
        f"value and derivative of F, one query, {N_FACTORS} factors, {config.threads} threads", rows
    )
    judged = [row for row in rows if row["items"] >= config.size(JUDGED_FROM, 0)]
    found = growth_exponent(
        [row["items"] for row in judged], [row["evaluation s"] for row in judged]
    )
    detail = f"{judged[0]['items']:,} to {judged[-1]['items']:,} items"
    report.reach("factor_growth", found, detail)
    for name in ("evaluation", "oracle alone", "explicit pairs"):
        points = [(row["items"], row[f"{name} s"]) for row in rows if f"{name} s" in row]
        report.curve("value and derivative, one query", name, points)


def _one_query(n: int, threads: int) -> tuple[FactorObjective, Any, Any, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, N_FEATURES))
    utility = X[:, 0] + rng.standard_normal(n)
    groups = QueryGroups.from_qid(None, n)
    backend = NativeBackend(PairOrder(utility, groups), n_threads=threads)
    score_map = MatrixMap(X, n_threads=threads)
    loss = LOSSES["hinge"](backend)
    convex = RankObjective(score_map, loss, 50.0 / sum(backend.pairs))
    objective = FactorObjective(convex, backend)
    factors = random_start(objective, N_FACTORS, 0.1, SEED)
    return objective, loss, score_map.scores(objective.weights(factors)), factors


def _explicit(n: int, factors: Any) -> Any:
    """Multipliers pair by pair, as a matrix, and the derivative from it; utilities ascend."""
    better = np.tri(n, k=-1)
    alpha = better * (factors @ factors.T)
    t = alpha.sum(axis=1) - alpha.sum(axis=0)
    effect = better * (t[:, None] - t[None, :])
    return (effect + effect.T) @ factors
