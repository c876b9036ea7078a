"""Sets whose features differ in their scales and shapes, in parts to learn from and to judge on.

A rotation of LETOR gives its training and its validation part, never its test part; the validation
part of one rotation is the test part of another one.  Every other set is cut into halves at random,
by queries where there are any.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from benchmarks.common import SEED, Array, Config
from benchmarks.sets import FILES, MSLR_FACTORS, data_folder
from ranksvm.data import RankingData
from ranksvm.datasets import make_ranking, make_reuters_like

# Words in fewer documents are left out: they cannot be learned from a few thousand.
LEAST_DOCUMENTS = 3
TOPIC = "money-fx"  # not so frequent that everything works, not so rare that chance decides


@dataclass(frozen=True, eq=False)
class Split:
    """Items to learn from, and others to judge on."""

    train: RankingData
    validation: RankingData


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """A set by its name, with its splits."""

    name: str
    splits: list[Split]

    @property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self.splits[0].train.X))


def feature_sets(config: Config, skipped: Callable[[str], None]) -> Iterator[FeatureSet]:
    """Yield the real sets that are there (``skipped`` is told of the others) and those made."""
    for name, load in _REAL.items():
        try:
            found = load(config)
        except FileNotFoundError:
            skipped(f"{name} skipped: its files are not there; $RANKSVM_DATA names their folder")
            continue
        yield FeatureSet(name, found)
    for name, make in _MADE.items():
        yield FeatureSet(name, make(config))


# --- Real sets ------------------------------------------------------------------------------------


def _rotations(name: str, n_features: int, config: Config) -> list[Split]:
    """Training and validation parts of some folds of LETOR."""
    parts = [_letor_part(name, k, n_features, config) for k in range(1, 6)]
    folds = config.size((1, 3), (1,))
    splits = []
    for fold in folds:
        train = [parts[(fold + k - 1) % 5] for k in range(3)]
        X, y, qid = (np.concatenate(some) for some in zip(*train, strict=True))
        splits.append(Split(RankingData(X, y, qid), RankingData(*parts[(fold + 2) % 5])))
    return splits


def _letor_part(name: str, k: int, n_features: int, config: Config) -> tuple[Array, Array, Any]:
    path = data_folder() / name / f"S{k}.txt.gz"
    X, y, qid = load_svmlight_file(str(path), n_features=n_features, query_id=True)
    some = np.flatnonzero(np.isin(qid, np.unique(qid)[: config.size(None, 10)]))
    return X[some].toarray(), y[some], qid[some]


def _cadata(config: Config) -> list[Split]:
    X, y = load_svmlight_file(str(data_folder() / FILES["cadata"]))
    return _halves(X.toarray(), y, None, config, n_items=config.size(4_000, 300))


def _lightgbm(config: Config) -> list[Split]:
    """LightGBM's example of LambdaRank, its training queries."""
    folder = data_folder() / "lightgbm-lambdarank"
    X, y = load_svmlight_file(str(folder / "rank.train.gz"), n_features=301, zero_based=True)
    with gzip.open(folder / "rank.train.query.gz", "rt") as file:
        sizes = np.array(file.read().split(), dtype=np.int64)
    qid = np.repeat(np.arange(sizes.size), sizes)
    return _halves(X.toarray(), y, qid, config)


@lru_cache(maxsize=1)
def _articles(most: int | None) -> tuple[list[str], Array]:
    """The first texts, and whether each is about the topic."""
    path = data_folder() / FILES["reuters21578"]
    with gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:most]
    topics = np.array([TOPIC in row[2].replace(",", " ").split() for row in rows])
    return [row[3] for row in rows], topics.astype(np.float64)


def _reuters(vectorizer: Any, config: Config, *, by_topic: bool) -> list[Split]:
    texts, topic = _articles(config.size(None, 2_000))
    X = vectorizer(min_df=LEAST_DOCUMENTS).fit_transform(texts).tocsr().astype(np.float64)
    y = topic
    if not by_topic:  # the product with a document that is left out, as in the papers
        held_out = int(np.random.default_rng(SEED).integers(X.shape[0]))
        y = np.asarray((X @ X[[held_out]].T).todense()).ravel()
        rows = np.delete(np.arange(X.shape[0]), held_out)
        X, y = X[rows], y[rows]
    return _halves(X, y, None, config, n_items=config.size(3_000, 600))


# --- Made sets ------------------------------------------------------------------------------------


def _ranking(config: Config, **about: Any) -> tuple[Array, Array, Any]:
    about = {"n_features": 30, "random_state": SEED, **about}
    X, y, qid, _ = make_ranking(config.size(240, 24), (10, 30), **about)
    return X, y, qid


def _units(config: Config) -> list[Split]:
    """The same features in units between 0.01 and 100."""
    X, y, qid = _ranking(config, signal="nonlinear")
    powers = np.random.default_rng(SEED).uniform(-2.0, 2.0, X.shape[1])
    return _halves(X * 10.0**powers, y, qid, config)


def _equal(config: Config) -> list[Split]:
    """All features in [0, 1] within a query, as LETOR has them."""
    return _halves(*_ranking(config, signal="nonlinear"), config)


def _tails(config: Config) -> list[Split]:
    """Features with heavy tails, of which the order counts."""
    X, y, qid = _ranking(config, signal="nonlinear")
    rng = np.random.default_rng(SEED)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return _halves(np.exp(rng.uniform(0.5, 2.5, Z.shape[1]) * Z), y, qid, config)


def _outliers(config: Config) -> list[Split]:
    """One value of a hundred is wrong by a factor of up to a thousand."""
    X, y, qid = _ranking(config)
    rng = np.random.default_rng(SEED)
    wrong = rng.random(X.shape) < 0.01
    return _halves(np.where(wrong, X * 10.0 ** rng.uniform(0, 3, X.shape), X), y, qid, config)


def _irrelevant(config: Config) -> list[Split]:
    """Six columns with the signal, sixty without, all of one scale."""
    X, y, qid = _ranking(config, n_features=66, n_informative=6, signal="nonlinear")
    return _halves(X, y, qid, config)


def _small_noise(config: Config) -> list[Split]:
    """Sixty columns without signal have a tenth of the scale: here the scales know something."""
    rng = np.random.default_rng(SEED)
    X, y, qid = _ranking(config, n_features=10, n_informative=10, signal="nonlinear")
    noise = 0.1 * X.std() * rng.standard_normal((len(y), 60))
    return _halves(np.hstack([X, noise]), y, qid, config)


def _web(config: Config) -> list[Split]:
    """Raw web features: 136 counts, lengths and scores of common factors, 1e-3 to 1e7."""
    rng = np.random.default_rng(SEED)
    n_queries, n_features = config.size(120, 12), 136
    qid = np.repeat(np.arange(n_queries), 50)
    factors = rng.standard_normal((len(qid), MSLR_FACTORS))
    X = factors @ rng.standard_normal((MSLR_FACTORS, n_features)) / np.sqrt(MSLR_FACTORS)
    X += (
        0.5 * rng.standard_normal(X.shape) + 0.5 * rng.standard_normal((n_queries, n_features))[qid]
    )
    utility = np.tanh(X[:, :40]) @ rng.standard_normal(40) / 6.0 + factors[:, 0] * factors[:, 1]
    y = np.digitize(utility + rng.standard_normal(len(qid)), (0.5, 1.2, 2.0, 3.0)).astype(
        np.float64
    )
    kind = rng.integers(3, size=n_features)
    X = np.where(kind == 0, X, np.where(kind == 1, np.exp(1.5 * X), np.floor(np.exp(X))))
    return _halves(X * 10.0 ** rng.uniform(-3.0, 7.0, n_features), y, qid, config)


def _prices(config: Config) -> list[Split]:
    """One ranking by a real value of eight skewed features."""
    rng = np.random.default_rng(SEED)
    n_items = config.size(4_000, 300)
    Z = rng.standard_normal((n_items, 8)) @ (np.eye(8) + 0.3 * rng.standard_normal((8, 8)))
    y = (
        Z[:, 0]
        + np.sin(1.5 * Z[:, 1])
        + 0.5 * Z[:, 2] * Z[:, 3]
        + 0.7 * rng.standard_normal(n_items)
    )
    X = np.exp(Z * rng.uniform(0.2, 1.0, 8)) * 10.0 ** rng.uniform(-1.0, 4.0, 8)
    return _halves(X, y, None, config)


def _words(config: Config) -> list[Split]:
    X, y, qid, _ = make_reuters_like(config.size(3_000, 400), n_features=20_000, random_state=SEED)
    return _halves(X, y, qid, config)


def _halves(X: Any, y: Array, qid: Any, config: Config, n_items: int | None = None) -> list[Split]:
    """Random halves, and once more with the halves exchanged."""
    rng = np.random.default_rng(SEED)
    ids = np.arange(len(y)) if qid is None else qid
    order = rng.permutation(np.unique(ids))[:n_items]
    first, second = (
        RankingData(X[rows], y[rows], None if qid is None else qid[rows])
        for rows in (np.flatnonzero(np.isin(ids, half)) for half in np.array_split(order, 2))
    )
    return [Split(first, second), Split(second, first)][: config.size(2, 1)]


_REAL: dict[str, Callable[[Config], list[Split]]] = {
    "MQ2008": lambda config: _rotations("MQ2008", 46, config),
    "OHSUMED": lambda config: _rotations("OHSUMED", 45, config),
    "cadata": _cadata,
    "LightGBM's example": _lightgbm,
    "reuters, tf-idf": lambda config: _reuters(TfidfVectorizer, config, by_topic=False),
    "reuters, tf-idf, topic": lambda config: _reuters(TfidfVectorizer, config, by_topic=True),
    "reuters, counts, topic": lambda config: _reuters(CountVectorizer, config, by_topic=True),
}
_MADE: dict[str, Callable[[Config], list[Split]]] = {
    "equal scales": _equal,
    "units": _units,
    "heavy tails": _tails,
    "outliers": _outliers,
    "irrelevant columns": _irrelevant,
    "small noise columns": _small_noise,
    "raw web features": _web,
    "prices": _prices,
    "words": _words,
}
