"""Kernels on LETOR's OHSUMED, five folds, by LETOR's rules, against published figures.

The figures of Chen, Li, Dou, Liang & Lv (2017) and of the page of their program: Nystrom features
of rbf with gamma = 2^-6, C = 2^-6 over the sum of the pairs, 500 landmarks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import load_letor

from ranksvm import KernelRankSVM
from ranksvm.metrics import evaluate

FOLDS = (("123", "5"), ("234", "1"), ("345", "2"), ("451", "3"), ("512", "4"))
PUBLISHED = {"map": 0.4473, "mean_ndcg": 0.5378}
TOLERANCE = 0.004
SETTINGS = {"C": 2.0**-6, "gamma": 2.0**-6, "reduction": "sum"}
NYSTROEM = {**SETTINGS, "approximation": "nystroem", "n_components": 500, "random_state": 0}


@pytest.mark.slow
def test_ohsumed(data_directory: Path) -> None:
    parts = {part: load_letor(data_directory, "OHSUMED", part) for part in "12345"}
    found: dict[str, list[dict[str, float]]] = {"nystroem": [], "exact": []}
    for train, test in FOLDS:
        columns = zip(*(parts[part] for part in train), strict=True)
        X, y, qid = (np.concatenate(column) for column in columns)
        nystroem = KernelRankSVM(**NYSTROEM).fit(X, y, qid)
        exact = KernelRankSVM(**SETTINGS).fit(X, y, qid)
        # Nystrom features span a part of the space of the kernel, so its optimum is no lower.
        assert exact.objective_ <= nystroem.objective_ + exact.gap_
        X, y, qid = parts[test]
        for name, model in (("nystroem", nystroem), ("exact", exact)):
            found[name].append(evaluate(y, model.predict(X), qid, PUBLISHED, conventions="letor"))
    for name, folds in found.items():
        means = {metric: float(np.mean([one[metric] for one in folds])) for metric in PUBLISHED}
        print(name, {metric: round(mean, 4) for metric, mean in means.items()})  # pytest -s
        assert means == pytest.approx(PUBLISHED, abs=TOLERANCE)
