"""LETOR's real sets: five parts, and the folds that rotate over them.

Fold 1 trains on S1, S2 and S3, chooses on S4 and is judged on S5; fold 2 begins with S2, and so on.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.sets import data_folder
from ranksvm.data import RankingData, load_letor

N_FOLDS = 5
N_FEATURES = {"OHSUMED": 45, "MQ2008": 46}


class Fold(NamedTuple):
    train: RankingData
    valid: RankingData
    test: RankingData


def is_there(name: str) -> bool:
    """Whether all five files of a set are in the folder of the data."""
    return all(file.is_file() for file in _files(data_folder(), name))


@lru_cache(maxsize=2 * N_FOLDS)
def letor_fold(name: str, fold: int) -> Fold:
    """Training, validation and test part of a fold, counted from 0."""
    parts = _parts(data_folder(), name)
    places = [(fold + k) % N_FOLDS for k in range(N_FOLDS)]
    return Fold(*(_joined(parts, which) for which in (places[:3], places[3:4], places[4:])))


def _files(folder: Path, name: str) -> list[Path]:
    return [folder / name / f"S{k}.txt.gz" for k in range(1, N_FOLDS + 1)]


@lru_cache(maxsize=2)
def _parts(folder: Path, name: str) -> list[tuple[Any, Any, Any]]:
    return [_load(file, name) for file in _files(folder, name)]


def _load(file: Path, name: str) -> tuple[Any, Any, Any]:
    data = load_letor(file, n_features=N_FEATURES[name])
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    return X, data.y, data.qid


def _joined(parts: list[Any], which: list[int]) -> RankingData:
    X, y, qid = (np.concatenate([parts[k][j] for k in which]) for j in range(3))
    return RankingData(X, y, qid)
