"""Searches for C and gamma on a small set, for the tests of the choice and of checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import KernelSettings, RankProblem
from ranksvm.learners.settings import Settings
from ranksvm.model_selection import QueryKFold, Search, search

CS = [0.5, 500.0, 20.0]
GAMMAS = [0.3, 0.02]


def small_set() -> tuple[Any, Any, Any]:
    """Features, labels and query ids, in any row order."""
    X, y, qid, _ = make_ranking(18, (3, 9), 5, random_state=1)
    rows = np.random.default_rng(0).permutation(len(y))
    return X[rows], y[rows], np.array([f"q{q}" for q in qid])[rows]


def searched(data: Any, settings: Settings | None = None, **options: Any) -> Search:
    """Search on three folds, unless options say otherwise."""
    X, y, qid = data
    weights = {name: options.pop(name, None) for name in ("item_weight", "query_weight")}
    if "validation" not in options:
        options.setdefault("folds", list(QueryKFold(3).split(qid=qid)))
    Cs, gammas = options.pop("Cs", CS), options.pop("gammas", GAMMAS)
    return search(
        RankingData(X, y.astype(float), qid, **weights),
        KernelSettings(scaling=None) if settings is None else settings,
        Cs,
        {"gamma": gammas},
        **options,
    )


def by_gamma(found: Search, name: str) -> np.ndarray:
    """Values of an attribute, of shape (n_gamma, n_splits, n_C)."""
    values = getattr(found, name)
    return values.reshape(len(values), -1, found.grid["C"].size).transpose(1, 0, 2)


def same(first: Search, second: Search) -> bool:
    """Whether two searches agree to the last bit."""
    names = ("scores", "objectives", "gaps", "n_iter", "n_products")
    pairs = [(getattr(first, name), getattr(second, name)) for name in names]
    pairs += [(first.grid[name], second.grid[name]) for name in first.grid]
    return (
        first.settings.random_state == second.settings.random_state
        and first.grid.keys() == second.grid.keys()
        and all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)
    )


def count_fits(monkeypatch: Any) -> list[float]:
    """Return a list that gets every C that is fitted from now on."""
    done: list[float] = []
    solve = RankProblem.solve

    def counted(self: Any, C: Any = None, **options: Any) -> Any:
        done.append(C)
        return solve(self, C, **options)

    monkeypatch.setattr(RankProblem, "solve", counted)
    return done
