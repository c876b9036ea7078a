"""Explicit preferences: an evaluation and a fit against the number of pairs.

100,000 items with 20 features; pairs of two items drawn at random, the one with the larger noisy
score preferred.  An evaluation is value and gradient of the loss at fixed scores.  The same pairs
as differences of rows under scikit-learn's LinearSVC (LIBLINEAR's Newton method on the primal)
stand beside, as far as that goes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.common import SEED, Call, Config, growth_exponent, interleave
from benchmarks.report import Report, Row
from ranksvm import LinearRankSVM
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.data.preferences import Preferences
from ranksvm.pairs.oracle import LOSSES

TITLE = "explicit preferences: time against the number of pairs"
N_FEATURES = 20
MOST_EXPLICIT = 100_000
C = 50.0


def run(config: Config, report: Report) -> None:
    n_items = config.size(100_000, 2_000)
    sizes = config.size((10_000, 100_000, 1_000_000, 10_000_000), (1_000, 4_000))
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n_items, N_FEATURES))
    value = X @ rng.standard_normal(N_FEATURES) + 2.0 * rng.standard_normal(n_items)
    rows: list[Row] = []
    for n_pairs in sizes:
        better, worse = _pairs(value, n_pairs, rng)
        rows.append(_row(X, better, worse, config))
    report.table(f"{n_items:,} items, {N_FEATURES} features, {config.threads} threads", rows)
    for what in ("value and gradient", "fit, squared hinge"):
        seconds = [row[f"{what} s"] for row in rows]
        found = growth_exponent([row["pairs"] for row in rows[1:]], seconds[1:])
        if found is not None:
            report.note(f"{what}: growth exponent {found:.2f} from {rows[1]['pairs']:,} pairs on")
    last = growth_exponent(
        [row["pairs"] for row in rows[-2:]], [row["value and gradient s"] for row in rows[-2:]]
    )
    if last is not None:
        detail = f"{rows[-2]['pairs']:,} to {rows[-1]['pairs']:,} pairs"
        report.reach("pair_growth", last, detail)


def _pairs(value: Any, n_pairs: int, rng: np.random.Generator) -> tuple[Any, Any]:
    first = rng.integers(0, len(value), n_pairs)
    second = (first + rng.integers(1, len(value), n_pairs)) % len(value)
    up = value[first] > value[second]
    return np.where(up, first, second), np.where(up, second, first)


def _row(X: Any, better: Any, worse: Any, config: Config) -> Row:
    backend = PairListBackend(Preferences(better, worse), len(X), n_threads=config.threads)
    scores = X @ np.linspace(-1.0, 1.0, N_FEATURES)
    loss = LOSSES["squared_hinge"](backend)
    calls = {"value and gradient": Call(lambda: loss.at(scores))}
    for name in ("squared_hinge", "hinge"):
        model = LinearRankSVM(C, loss=name, scaling=None, tol=1e-3, n_jobs=config.threads)
        told = f"fit, {name.replace('_', ' ')}"
        calls[told] = Call(lambda model=model: model.fit_pairs(X, better, worse))
    if len(better) <= MOST_EXPLICIT:
        calls["LinearSVC on differences"] = Call(lambda: _explicit(X, better, worse))
    timings = interleave(calls, rounds=3, seconds=config.size(6.0, 0.3))
    fit = timings["fit, squared hinge"].result
    return (
        {"pairs": len(better)}
        | {f"{name} s": timing.seconds for name, timing in timings.items()}
        | {"products": fit.n_products_, "rel gap": fit.gap_ / fit.objective_}
    )


def _explicit(X: Any, better: Any, worse: Any) -> Any:
    from sklearn.svm import LinearSVC

    differences = X[better] - X[worse]
    signs = np.where(np.arange(len(better)) % 2, 1.0, -1.0)
    machine = LinearSVC(
        C=C / len(better), loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine.fit(signs[:, None] * differences, signs)
