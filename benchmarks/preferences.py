"""Explicit preferences: an evaluation and a fit against the number of pairs.

100,000 items with 20 features; pairs of two items drawn at random, the one with the larger noisy
score preferred.  An evaluation is value and gradient of the loss at fixed scores.  The same pairs
as differences of rows under scikit-learn's LinearSVC (LIBLINEAR's Newton method on the primal)
stand beside, as far as that goes.

Then 20,000 pairs of embeddings with 384 features, as two matrices (chosen, rejected): a linear
model and Nystrom features, with and without the calibration of probabilities, and their log loss on
other pairs beside that of the process that made the pairs.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import SEED, Call, Config, growth_exponent, interleave
from benchmarks.report import Report, Row
from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.data.preferences import Preferences
from ranksvm.models.pair_probability import log_loss, probability
from ranksvm.pairs.oracle import LOSSES

TITLE = "explicit preferences: time against the number of pairs"
N_FEATURES = 20
MOST_EXPLICIT = 100_000
C = 50.0


def run(config: Config, report: Report) -> None:
    _by_number(config, report)
    _as_matrices(config, report)


def _by_number(config: Config, report: Report) -> None:
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


def _as_matrices(config: Config, report: Report) -> None:
    n, d = config.size((20_000, 384), (1_000, 32))
    n_test = n // 4
    rng = np.random.default_rng(SEED)
    A, B = rng.standard_normal((2, n + n_test, d))
    difference = 1.5 * ((A - B) @ rng.standard_normal(d)) / np.sqrt(d)
    down = rng.random(n + n_test) > probability(1.0, difference)
    A[down], B[down] = B[down], A[down]
    truth = probability(1.0, np.where(down, -difference, difference))[n:]
    makers: dict[str, Any] = {
        "linear": lambda: LinearRankSVM(n_jobs=config.threads),
        "nystroem 500": lambda: KernelRankSVM(
            approximation="nystroem", n_components=config.size(500, 50), random_state=SEED,
            n_jobs=config.threads,
        ),
    }  # fmt: skip
    rows: list[Row] = []
    for dtype in (np.float64, np.float32):
        chosen, rejected = A[:n].astype(dtype), B[:n].astype(dtype)
        calls = {
            f"{name} {calibrate}": Call(
                partial(_fit, make, chosen, rejected, calibrate), config.threads
            )
            for name, make in makers.items()
            for calibrate in (False, True)
        }
        timings = interleave(calls, rounds=5, seconds=config.size(12.0, 0.3))
        for name in makers:
            model = timings[f"{name} True"].result
            plain = timings[f"{name} False"].seconds
            raw = model.predict(A[n:]) - model.predict(B[n:])
            rows.append(
                {
                    "model": name,
                    "type": np.dtype(dtype).name,
                    "fit s": plain,
                    "with calibration s": timings[f"{name} True"].seconds,
                    "log loss": log_loss(model.predict_pair_proba(A[n:], B[n:])),
                    "uncalibrated": log_loss(probability(1.0, raw)),
                    "truth": log_loss(truth),
                }
            )
            if dtype is np.float64:
                report.reach(f"chosen_{name.split()[0]}", plain, f"{n:,} x {d}")
    report.table(
        f"{n:,} pairs of rows with {d} features, {config.threads} threads; log loss on {n_test:,} "
        "other pairs",
        rows,
    )


def _fit(make: Any, chosen: Any, rejected: Any, calibrate: bool) -> Any:
    return make().fit_pairs(chosen=chosen, rejected=rejected, calibrate=calibrate)


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
        calls[told] = Call(lambda model=model: model.fit_pairs(X, better, worse, calibrate=False))
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
