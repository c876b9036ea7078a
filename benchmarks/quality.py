"""What kernels gain on LETOR's real sets: five folds, tuned on the validation part alone.

Every fold trains on three parts, chooses C (and gamma) by MAP on the fourth, fits once more at the
choice and is judged on the fifth, by LETOR's definitions.  Published figures stand beside, from
Chen, Li, Dou, Liang & Lv (2017), table 4 (OHSUMED; mean NDCG from the page of their program), and
Zhang, Xu, Lan, Guo, Xie, Huang & Cheng (MQ2008).
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import SEED, TOL, Config
from benchmarks.report import Report, Row
from benchmarks.sets import data_folder
from ranksvm.data.queries import QueryGroups
from ranksvm.data.svmlight import load_letor
from ranksvm.metrics import evaluate
from ranksvm.model_selection.grid import search_grid
from ranksvm.model_selection.search import HeldOut, search_path
from ranksvm.training import KernelSettings, LinearSettings, Settings, make_problem

TITLE = "quality on LETOR's sets, tuned on validation"
METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "mean_ndcg", "p@1", "p@3", "map")
CHOSEN_BY = "map"
# Over the sum of the pairs.
LINEAR_CS = 2.0 ** np.arange(-14.0, 1.0, 2.0)
KERNEL_CS = 2.0 ** np.arange(-10.0, -1.0, 2.0)
GAMMAS = 2.0 ** np.arange(-8.0, -1.0, 2.0)
COMPONENTS = 500
N_FEATURES = {"OHSUMED": 45, "MQ2008": 46}
SETTINGS: dict[str, Settings] = {
    "linear": LinearSettings(reduction="sum", tol=TOL),
    "exact rbf": KernelSettings(reduction="sum", tol=TOL),
    "Nystrom rbf, 500": KernelSettings(
        reduction="sum",
        tol=TOL,
        approximation="nystroem",
        n_components=COMPONENTS,
        random_state=SEED,
    ),
    "Fourier rbf, 500": KernelSettings(
        reduction="sum",
        tol=TOL,
        approximation="fourier",
        n_components=COMPONENTS,
        random_state=SEED,
    ),
}
PUBLISHED: dict[str, dict[str, tuple[float | None, ...]]] = {
    "OHSUMED": {
        "published: linear L2": (0.5645, 0.5004, 0.4782, None, 0.6710, 0.6112, 0.4439),
        "published: Nystrom rbf, 500": (0.5730, 0.4874, 0.4780, 0.5378, 0.6801, 0.5890, 0.4473),
        "published: Fourier rbf, 500": (0.5728, 0.4965, 0.4804, None, 0.6801, 0.5983, 0.4472),
    },
    "MQ2008": {
        "published: linear L1": (0.3686, 0.4277, 0.4730, None, None, None, 0.4713),
    },
}


def run(config: Config, report: Report) -> None:
    for name in ("OHSUMED", "MQ2008"):
        parts = letor_parts(name, report)
        if parts is None:
            continue
        folds = config.size(5, 1)
        rows: list[Row] = [
            _judge(label, settings, parts, folds, config) for label, settings in SETTINGS.items()
        ]
        rows += [
            {"model": label}
            | {
                metric: None if value is None else f"{value:.4f}"
                for metric, value in zip(METRICS, values, strict=True)
            }
            for label, values in PUBLISHED[name].items()
        ]
        report.table(f"{name}, mean of {folds} folds, LETOR's definitions", rows)
    report.note(
        f"C and gamma chosen by {CHOSEN_BY} on the validation part of each fold; seconds are those "
        f"of one fit at the choice and of the whole search, {config.threads} threads"
    )


def letor_parts(name: str, report: Report) -> list[tuple[Any, Any, Any]] | None:
    """X, y and qid of the five parts of a set; None, with a note, if it is not there."""
    files = [data_folder() / name / f"S{k}.txt.gz" for k in range(1, 6)]
    if not all(file.is_file() for file in files):
        report.note(f"{name} skipped: not there; $RANKSVM_DATA names the folder of the sets")
        return None
    return [_load(file, name) for file in files]


def letor_fold(parts: list[Any], fold: int) -> list[tuple[Any, Any, QueryGroups]]:
    """Training, validation and test part of a fold."""
    return [_joined(parts, [(fold + k) % 5 for k in which]) for which in ((0, 1, 2), (3,), (4,))]


def _load(file: Path, name: str) -> tuple[Any, Any, Any]:
    data = load_letor(file, n_features=N_FEATURES[name])
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    return X, data.y, data.qid


def _judge(label: str, settings: Settings, parts: list[Any], folds: int, config: Config) -> Row:
    found, fit_seconds, search_seconds, chosen = [], [], [], []
    for fold in range(folds):
        train, valid, test = letor_fold(parts, fold)
        began = time.perf_counter()
        best = _choose(settings, train, valid, config)
        searched = time.perf_counter()
        X, y, groups = train
        problem = make_problem(X, y, groups, best, n_threads=config.threads)
        fit = problem.solve()
        fit_seconds.append(time.perf_counter() - searched)
        search_seconds.append(searched - began)
        (scores,) = problem.score(test[0], [fit])
        found.append(evaluate(test[1], scores, test[2].index, METRICS, conventions="letor"))
        chosen.append(_told(best))
    means = {metric: float(np.mean([one[metric] for one in found])) for metric in METRICS}
    return {
        "model": label,
        **{metric: f"{mean:.4f}" for metric, mean in means.items()},
        "fit s": float(np.mean(fit_seconds)),
        "search s": float(np.mean(search_seconds)),
        "chosen log2 (C, gamma) by fold": " ".join(chosen),
    }


def _choose(settings: Settings, train: Any, valid: Any, config: Config) -> Settings:
    held_out = HeldOut(valid[0], valid[1], valid[2].index)
    options: dict[str, Any] = {
        "validation": held_out,
        "metric": CHOSEN_BY,
        "conventions": "letor",
        "n_threads": config.threads,
    }
    step = config.size(1, 4)
    if isinstance(settings, KernelSettings):
        grid = search_grid(*train, settings, KERNEL_CS[::step], GAMMAS[::step], **options)
        return replace(settings, C=grid.best_C, gamma=grid.best_gamma)
    search = search_path(*train, settings, LINEAR_CS[::step], **options)
    return replace(settings, C=search.best_C)


def _told(settings: Settings) -> str:
    numbers = [np.log2(settings.C)]
    if isinstance(settings, KernelSettings):
        numbers.append(np.log2(float(settings.gamma)))
    return f"({', '.join(f'{number:.0f}' for number in numbers)})"


def _joined(parts: list[Any], which: list[int]) -> tuple[Any, Any, QueryGroups]:
    X, y, qid = (np.concatenate([parts[k][j] for k in which]) for j in range(3))
    return X, y, QueryGroups.from_qid(qid, len(y))
