"""The choices behind AutoRankSVM: what is lost or won without each of them.

All candidates of a wide lattice are fitted once.  The search is then played through on them, as it
is and with one thing changed.  Candidates are chosen on a third of the training queries, which they
were not trained on, and judged on the validation part; test parts of LETOR's folds are never read
as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import SEED, Array, Config
from benchmarks.feature_sets import Split, feature_sets
from benchmarks.report import Report
from ranksvm.data import RankingData
from ranksvm.learners.views import with_view
from ranksvm.metrics import evaluate
from ranksvm.model_selection.auto_cells import Key, SpaceFits, beyond_edge
from ranksvm.model_selection.auto_plan import (
    FIRST_GAMMA,
    KERNEL_CS,
    LINEAR_CS,
    PRESETS,
    Explorer,
    Family,
    Space,
    families_of,
    settings_of,
    view_of,
)
from ranksvm.pairs.gains import is_graded

TITLE = "choices of AutoRankSVM: NDCG@10 on other queries, with one thing changed"
METRIC = "ndcg@10"
N_LANDMARKS = 300
N_MODELS = 20
GAMMAS = range(-4, 2)
LINEAR_POWERS, KERNEL_POWERS = range(-8, 5), range(-1, 9)
FIXED_GAMMAS = range(FIRST_GAMMA - 1, FIRST_GAMMA + 2)

Which = tuple[Space, Key]


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates by space and key: the metric they are chosen by, and scores of other items.

    ``judged`` has the other items.
    """

    chosen_by: dict[Which, float]
    scores: dict[Which, Array]
    judged: RankingData

    def metric(self, chosen: list[Which]) -> float:
        """Return the metric of the mean of some candidates."""
        total = sum((self.scores[one] for one in chosen), start=np.zeros(self.judged.n_items))
        return float(evaluate(self.judged.truth, total, self.judged.qid, [METRIC])[METRIC])


def run(config: Config, report: Report) -> None:
    sets = []
    for one in feature_sets(config, report.note):
        train = one.splits[0].train
        if not one.is_sparse and train.qid is not None and is_graded(train.truth):
            pools = [make_pool(split, config) for split in one.splits]
            sets.append((one.name, pools))
    names = [name for name, _ in sets]
    base = [np.mean([play(pool) for pool in pools]) for _, pools in sets]
    rows = [{"choice": "as it is"} | dict(zip(names, (f"{one:.4f}" for one in base), strict=True))]
    for title, change in CHANGES.items():
        found = [np.mean([change(pool) for pool in pools]) for _, pools in sets]
        off = [one - before for one, before in zip(found, base, strict=True)]
        rows.append(
            {"choice": title}
            | {name: f"{one:+.4f}" for name, one in zip(names, off, strict=True)}
            | {"mean": f"{np.mean(off):+.4f}"}
        )
    rows[0]["mean"] = f"{np.mean(base):.4f}"
    report.table("choices", rows)
    report.note(
        "the first row is the metric, the others are differences from it; made sets and "
        "LightGBM's example have few queries: single differences below 0.01 are mostly noise"
    )


def make_pool(split: Split, config: Config) -> Pool:
    """Fit all candidates to two thirds of the training queries."""
    groups = split.train.groups
    is_held_out = np.isin(
        np.arange(groups.n_queries),
        np.random.default_rng(SEED).permutation(groups.n_queries)[: groups.n_queries // 3],
    )[groups.index]
    parts = [
        split.train.take(np.flatnonzero(~is_held_out)),
        split.train.take(np.flatnonzero(is_held_out)),
        split.validation,
    ]
    pool = Pool({}, {}, split.validation)
    for family in families_of(parts[0], PRESETS["best"]):
        train, held_out, judged = (with_view(part, view_of(family)) for part in parts)
        for space in _spaces(family):
            settings = settings_of(
                space, train, n_landmarks=N_LANDMARKS, random_state=SEED, n_threads=config.threads
            )
            fits = SpaceFits(train, settings, n_threads=config.threads)
            keys = list(_keys(family))
            found = [fits[key] for key in keys]
            for key, one, other in zip(
                keys,
                fits.problem.score(held_out.X, found),
                fits.problem.score(judged.X, found),
                strict=True,
            ):
                value = evaluate(held_out.truth, one, held_out.qid, [METRIC])[METRIC]
                pool.chosen_by[space, key] = float(value)
                pool.scores[space, key] = other / fits.spread(key)
    return pool


def _spaces(family: Family) -> list[Space]:
    return [Space(family, power) for power in ([0] if family.kernel is None else GAMMAS)]


def _keys(family: Family, powers: range | None = None) -> Iterator[Key]:
    if powers is None:
        powers = LINEAR_POWERS if family.kernel is None else KERNEL_POWERS
    for weight in PRESETS["best"].pair_weights:
        for power in powers:
            yield Key(weight, power)


def play(
    pool: Pool,
    n_models: int = N_MODELS,
    is_tried: Callable[[Which], bool] = lambda one: True,
    *,
    grows: bool = True,
) -> float:
    """Play the search through on a pool, and return the metric of the mean of the best."""
    known = {one: value for one, value in pool.chosen_by.items() if is_tried(one)}
    families = list(dict.fromkeys(space.family for space, _ in known))
    seen: dict[Which, float] = {}
    explorer = Explorer(families)
    while (space := explorer.next()) is not None:
        scores: dict[Key, float] = {}
        low, high = LINEAR_CS if space.family.kernel is None else KERNEL_CS
        wanted = list(_keys(space.family, range(low, high + 1)))
        if not grows and space.power not in (0, *FIXED_GAMMAS):
            wanted = []
        while wanted := [key for key in wanted if (space, key) in known]:
            scores |= {key: known[space, key] for key in wanted}
            wanted = beyond_edge(scores) if grows else []
        seen |= {(space, key): score for key, score in scores.items()}
        explorer.tell(space, scores.values())
    best = sorted(seen, key=lambda one: (-seen[one], one[1].power, str(one[0])))
    return pool.metric(best[:n_models])


def _without(**values: Any) -> Callable[[Pool], float]:
    """Leave out candidates with such a value."""

    def is_tried(one: Which) -> bool:
        space, key = one
        has = {**space.family._asdict(), "pair_weight": key.pair_weight}
        return all(has[name] not in left_out for name, left_out in values.items())

    return lambda pool: play(pool, is_tried=is_tried)


CHANGES: dict[str, Callable[[Pool], float]] = {
    "1 model": lambda pool: play(pool, 1),
    "5 models": lambda pool: play(pool, 5),
    "10 models": lambda pool: play(pool, 10),
    "40 models": lambda pool: play(pool, 40),
    "a grid that does not grow": lambda pool: play(pool, grows=False),
    "no ranks": _without(query_features=[("rank",)]),
    "only with ranks": _without(query_features=[()]),
    "no quantiles": _without(scaling=["quantile"]),
    "only quantiles": _without(scaling=["standard"]),
    "linear only": _without(kernel=["rbf", "laplacian"]),
    "no linear": _without(kernel=[None]),
    "no rbf": _without(kernel=["rbf"]),
    "no Laplacian": _without(kernel=["laplacian"]),
    "uniform weights only": _without(pair_weight=["gain", "lambda"]),
    "no gain": _without(pair_weight=["gain"]),
    "no lambda": _without(pair_weight=["lambda"]),
}
