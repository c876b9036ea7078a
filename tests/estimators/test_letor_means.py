"""Means over LETOR's five folds by LETOR's rules, on the real sets.

Train on three parts and test on the fifth, as LETOR's folds do; the strength of the loss is fixed,
so the validation part is not needed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import load_letor

from ranksvm import LinearRankSVM
from ranksvm.metrics import evaluate

# Parts to train on, part to test on.
FOLDS = (("123", "5"), ("234", "1"), ("345", "2"), ("451", "3"), ("512", "4"))


@pytest.mark.parametrize(
    ("name", "C", "expected", "tolerance"),
    [
        ("MQ2008", 2.0**-8, {"ndcg@1": 0.3686, "map": 0.4712, "mean_ndcg": 0.4828}, 0.0015),
        ("OHSUMED", 2.0**-12, {"map": 0.4443, "ndcg@5": 0.4778}, 0.002),
    ],
)
def test_letor_means(
    data_directory: Path, name: str, C: float, expected: dict[str, float], tolerance: float
) -> None:
    parts = {part: load_letor(data_directory, name, part) for part in "12345"}
    found = []
    for train, test in FOLDS:
        columns = zip(*(parts[part] for part in train), strict=True)
        X, y, qid = (np.concatenate(column) for column in columns)
        model = LinearRankSVM(C, reduction="sum", scaling=None).fit(X, y, qid=qid)
        X, y, qid = parts[test]
        found.append(evaluate(y, model.predict(X), qid, expected, conventions="letor"))
    means = {metric: float(np.mean([fold[metric] for fold in found])) for metric in expected}
    print(name, {metric: round(mean, 4) for metric, mean in means.items()})  # shown by pytest -s
    assert means == pytest.approx(expected, abs=tolerance)
