"""The candidates of a space on one split: a path over C for every pair weight.

All fits of a space share one problem, with its features, landmarks and kernel values.  C is on a
lattice of powers of :data:`ranksvm.model_selection.auto_plan.STEP`.  The path begins with a few of
them, and grows while the best candidate of the space lies on its edge.

Pair weights of "lambda" depend on the ranking of a first fit.  That is the fit with uniform weights
and the same C, which is a candidate as well.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import make_problem
from ranksvm.learners.fit import Fit
from ranksvm.learners.settings import Settings
from ranksvm.learners.training_pairs import TrainingPairs, weighted_pairs
from ranksvm.model_selection.auto_plan import STEP, tolerance
from ranksvm.model_selection.judges import Judge, judge_named
from ranksvm.models.model import Model
from ranksvm.solvers.base import Status

# The last powers of STEP that a path over C grows to.
LOWEST_C, HIGHEST_C = -14, 11
# Facts of a model that belong to one of its fits.
OF_ONE_FIT = ("objective", "gap", "status", "solver", "n_iter", "n_products")
FIRST_ROUND = "uniform"  # the pair weights of the fit that "lambda" begins with


class Key(NamedTuple):
    """A candidate of a space: its pair weight, and C as a power of ``STEP``."""

    pair_weight: str
    power: int

    @property
    def C(self) -> float:
        """Weight of the loss."""
        return STEP**self.power


@dataclass(frozen=True)
class Outcome:
    """A candidate on one split.

    Attributes
    ----------
    score : float
        Metric on the held-out part; NaN if its scores are not finite.
    gap : float
        Certified gap, relative to the objective.
    status : str
        Name of a :class:`ranksvm.solvers.base.Status`.
    seconds : float
        Time of the fit; that of preparing the space is not included.
    """

    score: float
    gap: float
    status: str
    seconds: float


@dataclass(frozen=True, eq=False)
class SpaceRun:
    """The candidates of a space on one split.

    Attributes
    ----------
    outcomes : dict of Key to Outcome
    seconds : float
        Time of everything.
    models : dict of Key to (Model, float)
        Models of the candidates that were to be kept, and the spread of their scores.
    """

    outcomes: dict[Key, Outcome]
    seconds: float
    models: dict[Key, tuple[Model, float]]

    def to_text(self) -> str:
        """Return the outcomes as JSON; models are not kept."""
        rows = [
            [*key, repr(one.score), repr(one.gap), one.status, one.seconds]
            for key, one in self.outcomes.items()
        ]
        return json.dumps({"seconds": self.seconds, "candidates": rows}, allow_nan=False)

    @classmethod
    def from_text(cls, text: str, metric: str, pair_weights: Sequence[str]) -> Self:
        """Parse the text of a run; raise an error if it is not valid."""
        entries = json.loads(text)
        low, high = judge_named(metric).bounds
        outcomes: dict[Key, Outcome] = {}
        for weight, power, score, gap, status, seconds in entries["candidates"]:
            one = Outcome(float(score), float(gap), Status[status].name, float(seconds))
            within = math.isnan(one.score) or low <= one.score <= high
            known = weight in pair_weights and type(power) is int
            if not (within and known and LOWEST_C <= power <= HIGHEST_C and one.seconds >= 0.0):
                raise ValueError
            outcomes[Key(weight, power)] = one
        seconds = float(entries["seconds"])
        if not seconds >= 0.0 or len(outcomes) < len(entries["candidates"]) or not outcomes:
            raise ValueError
        return cls(outcomes, seconds, {})


@dataclass(frozen=True, eq=False)
class Part:
    """A training part and a held-out part, with the columns of one view."""

    train: RankingData
    held_out: RankingData
    judge: Judge
    n_threads: int


class SpaceFits:
    """Fits of the candidates of a space to a data set.

    Parameters
    ----------
    data : RankingData
        Items to train on.
    settings : Settings
        Settings of the space; its C and pair weight are ignored.
    look : callable
        Called after every iteration; it may raise.
    n_threads : int
    """

    def __init__(
        self,
        data: RankingData,
        settings: Settings,
        *,
        look: Callable[[], Any] = lambda: None,
        n_threads: int = 1,
    ) -> None:
        first = replace(settings, pair_weight=FIRST_ROUND)
        self._look, self._n_threads = look, n_threads
        self.problem: Any = make_problem(data, first, n_threads=n_threads)
        self._pairs: dict[str, TrainingPairs] = {}  # by pair weight, unless they depend on C
        self._problems: dict[tuple[str, float], Any] = {(FIRST_ROUND, settings.tol): self.problem}
        self._fits: dict[Key, Fit] = {}
        self._last: dict[str, Fit] = {}  # by pair weight, with what the next one can use

    def __getitem__(self, key: Key) -> Fit:
        """Return the fit of a candidate."""
        if key not in self._fits:
            fit = self._solved(key)
            self._last[key.pair_weight] = fit
            self._fits[key] = replace(fit, evaluation=None)  # it holds the violated pairs
        return self._fits[key]

    def _solved(self, key: Key) -> Fit:
        def callback(*_: Any) -> None:
            self._look()

        if key.pair_weight == "lambda":  # its pairs are others for every C
            first = self[Key(FIRST_ROUND, key.power)]
            problem = self._with(self._weighted("lambda", first.point.scores), key)
            fit: Fit = problem.solve(key.C, start=first.point, callback=callback)
            return fit
        which = key.pair_weight, tolerance(key.C)
        if which not in self._problems:
            weight = key.pair_weight
            if weight not in self._pairs:
                self._pairs[weight] = self._weighted(weight)
            self._problems[which] = self._with(self._pairs[weight], key)
        last = self._last.get(key.pair_weight)
        fit = self._problems[which].solve(key.C, after=last, callback=callback)
        return fit

    def _weighted(self, pair_weight: str, scores: Array | None = None) -> TrainingPairs:
        settings = replace(self.problem.settings, pair_weight=pair_weight)
        return weighted_pairs(self.problem.labeled, settings, scores, n_threads=self._n_threads)

    def _with(self, pairs: TrainingPairs, key: Key) -> Any:
        """Return the problem with other weights of its pairs, and the tolerance of a candidate."""
        settings = replace(self.problem.settings, tol=tolerance(key.C))
        return self.problem.with_pairs(pairs, settings)

    def model(self, keys: Sequence[Key], factors: Sequence[float]) -> Model:
        """Return the sum of the models of some candidates, times factors, as one model."""
        fits = [self[key] for key in keys]
        first = fits[0]
        coef = np.zeros_like(first.coef)
        for fit, factor in zip(fits, factors, strict=True):
            coef += factor * fit.coef
        model: Model = self.problem.model(replace(first, point=first.point._replace(w=coef)))
        facts = {name: value for name, value in model.facts.items() if name not in OF_ONE_FIT}
        facts["fits"] = [
            {"pair_weight": key.pair_weight, "C": key.C, "factor": factor}
            | {name: _fact(fit, name) for name in OF_ONE_FIT}
            for key, factor, fit in zip(keys, factors, fits, strict=True)
        ]
        params = {k: v for k, v in model.params.items() if k not in ("C", "pair_weight")}
        return replace(model, params=params, facts=facts)

    def spread(self, key: Key) -> float:
        """Return the standard deviation of the scores of training items within their queries."""
        return spread_within(self[key].point.scores, self.problem.backends[0].groups)


def _fact(fit: Fit, name: str) -> Any:
    return fit.status.name.lower() if name == "status" else getattr(fit, name)


def spread_within(scores: Array, groups: QueryGroups) -> float:
    """Return the standard deviation of scores around the means of their queries; 1 if it is 0."""
    means = np.bincount(groups.index, scores, groups.n_queries) / np.maximum(groups.sizes, 1)
    off = scores - means[groups.index]
    spread = math.sqrt(float(np.einsum("i,i->", off, off)) / max(1, off.size))
    return spread if spread > 0.0 else 1.0


def run_space(
    part: Part,
    settings: Settings,
    keys: Iterable[Key],
    *,
    grows: bool,
    is_kept: Callable[[float], bool] = lambda score: False,
    look: Callable[[], Any] = lambda: None,
) -> SpaceRun:
    """Fit the candidates of a space and score them on the held-out part.

    Parameters
    ----------
    part : Part
    settings : Settings
        Settings of the space.
    keys : iterable of Key
        The candidates to begin with.
    grows : bool
        Whether to add candidates while the best one lies on the edge of the path over C.
    is_kept : callable
        ``is_kept(score)`` tells whether the model of a candidate with this score is to be kept.
    look : callable
        Called after every iteration; it may raise.

    Returns
    -------
    SpaceRun
    """
    began = time.perf_counter()
    fits = SpaceFits(part.train, settings, look=look, n_threads=part.n_threads)
    outcomes: dict[Key, Outcome] = {}
    wanted = list(keys)
    while wanted:
        seconds = []
        for key in wanted:
            start = time.perf_counter()
            fits[key]
            seconds.append(time.perf_counter() - start)
        of_items = fits.problem.score(part.held_out.X, [fits[key] for key in wanted])
        scores = part.judge.values(part.held_out, of_items, part.n_threads)
        for key, score, taken in zip(wanted, scores, seconds, strict=True):
            fit = fits[key]
            outcomes[key] = Outcome(score, fit.relative_gap, fit.status.name, taken)
        wanted = beyond_edge({key: one.score for key, one in outcomes.items()}) if grows else []
    kept = {
        key: (fits.model([key], [1.0]), fits.spread(key))
        for key, one in outcomes.items()
        if is_kept(one.score)
    }
    return SpaceRun(outcomes, time.perf_counter() - began, kept)


def beyond_edge(scores: Mapping[Key, float]) -> list[Key]:
    """Return the candidates beyond the edge that the best one lies on; none if it does not."""
    known = {key: score for key, score in scores.items() if not math.isnan(score)}
    if not known:
        return []
    best = max(known.values())
    at_best = {key.power for key, score in known.items() if score == best}
    powers = {key.power for key in scores}
    weights = dict.fromkeys(key.pair_weight for key in scores)
    for edge, beyond in ((max(powers), max(powers) + 1), (min(powers), min(powers) - 1)):
        # A tie with a value inside is a plateau: beyond it nothing changes.
        if at_best == {edge} and LOWEST_C <= beyond <= HIGHEST_C:
            return [Key(weight, beyond) for weight in weights]
    return []
