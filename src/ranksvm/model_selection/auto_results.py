"""What a search of :class:`ranksvm.AutoRankSVM` has found: candidates, best first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ranksvm.learners.settings import Settings
from ranksvm.model_selection.auto_cells import Key, Outcome
from ranksvm.model_selection.auto_plan import Space
from ranksvm.models.model import Model

# Why a search ended.
COMPLETE, TIME_LIMIT, INTERRUPTED = "complete", "time limit", "interrupted"
# Candidates in the leaderboard of a model file.
MOST_LISTED = 100
# Models of candidates, and the spread of their scores.
Kept = dict[tuple[Space, Key], tuple[Model, float]]


@dataclass
class Candidate:
    """A candidate, and how it did.

    Attributes
    ----------
    space : Space
    key : Key
        Pair weight and C.
    settings : Settings
    scores : list of float
        Metric on the held-out part of every split that was looked at.
    seconds : float
        Time of its fits.
    """

    space: Space
    key: Key
    settings: Settings
    scores: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Mean score; NaN if one of them is."""
        return sum(self.scores) / len(self.scores)

    def add(self, one: Outcome) -> None:
        """Add how it did on another split."""
        self.scores.append(one.score)
        self.seconds += one.seconds

    def row(self) -> dict[str, Any]:
        """Return its parameters and its score, for a leaderboard."""
        shown = self.settings
        kernel = getattr(shown, "kernel", "linear")
        return {
            "kernel": kernel,
            "scaling": shown.scaling,
            "query_features": list(shown.query_features),
            "pair_weight": self.key.pair_weight,
            "gamma": None if kernel == "linear" else getattr(shown, "gamma", None),
            "C": self.key.C,
            "score": self.mean,
            "splits": len(self.scores),
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class AutoResult:
    """The results of a search.

    Attributes
    ----------
    candidates : list of Candidate
        Those that were looked at on all splits, best first; then the others.
    chosen : list of Candidate
        The best ones.
    metric, conventions, on : str
        As in :class:`ranksvm.model_selection.search.Search`.
    metric_default_for : str
    ended : str
        Why the search ended: "complete", "time limit" or "interrupted".
    seconds : float
    n_splits : int
        Number of splits that the chosen candidates were compared on.
    n_resumed : int
        Number of spaces, on one split each, that were loaded from a checkpoint.
    kept : dict
        Models of chosen candidates, trained on the first split, as far as they are at hand.
    """

    candidates: list[Candidate]
    chosen: list[Candidate]
    metric: str
    metric_default_for: str
    conventions: str
    on: str
    ended: str
    seconds: float
    n_splits: int
    n_resumed: int
    kept: Kept

    def leaderboard(self) -> list[dict[str, Any]]:
        """Return all candidates, best first."""
        members = {(one.space, one.key) for one in self.chosen}
        return [{**one.row(), "chosen": (one.space, one.key) in members} for one in self.candidates]

    def facts(self) -> dict[str, Any]:
        """Return a description of the search for the model file."""
        return {
            "metric": self.metric,
            "conventions": self.conventions,
            "on": self.on,
            "splits": self.n_splits,
            "best_score": self.chosen[0].mean,
            "n_candidates": len(self.candidates),
            "ended": self.ended,
            "seconds": self.seconds,
            "leaderboard": self.leaderboard()[:MOST_LISTED],
        }


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return candidates in order: those with the most splits first, and of these the best.

    Ties go to the smaller C.  Candidates without a score come last.
    """

    def place(one: Candidate) -> tuple[Any, ...]:
        score = math.inf if math.isnan(one.mean) else -one.mean
        return -len(one.scores), score, one.key.power, str(one.space), one.key.pair_weight

    return sorted(candidates, key=place)


def by_space(candidates: Iterable[Candidate]) -> dict[Space, list[Key]]:
    """Return the candidates of each space, by ascending C."""
    found: dict[Space, list[Key]] = {}
    for one in candidates:
        found.setdefault(one.space, []).append(one.key)
    return {space: sorted(keys, key=lambda key: key.power) for space, keys in found.items()}
